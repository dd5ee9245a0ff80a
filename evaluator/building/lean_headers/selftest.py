"""Run in the build sandbox as `selftest.py LIBRARY`: exits 0 if the lean headers behave as torch does."""

import gc
import importlib.util
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch


def tensors() -> Iterator[torch.Tensor]:
    base = torch.arange(3 * 4 * 5 * 6, dtype=torch.float32).reshape(3, 4, 5, 6)
    yield from (base, base.transpose(1, 3), base[1:, ::2], base[0, 0, 0, 0], base.double(), torch.empty(0, 3))
    yield torch.zeros(1, 2, 1, 2, 1, 2, 3)[..., 1:]
    yield torch.zeros(1, 2, 1, 2, 1, 2).expand(7, 1, 2, 1, 2, 1, 2)


def same(mine: torch.Tensor, torchs: torch.Tensor) -> bool:
    return mine.dtype == torchs.dtype and torch.equal(
        torch.nan_to_num(mine, 7.5), torch.nan_to_num(torchs, 7.5)
    )


def raises(
    kind: type[Exception], words: str, call: Callable[..., object], *args: object, **kwargs: object
) -> bool:
    """True where a call raises the expected error."""
    try:
        call(*args, **kwargs)
    except kind as error:
        return words in str(error)
    return False


def products(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor) -> list[torch.Tensor]:
    """Compute with torch what `products` in the library computes."""
    across = b.t()
    views = [a.view(-1), a.view(4, 6), a.reshape(4, -1), across.contiguous(), a.t(), a.t().flatten(), a]
    return [*[a @ across] * 4, torch.addmm(bias, a, across), a @ across, *views]


def main(path: str) -> None:
    spec = importlib.util.spec_from_file_location("selftest", path)
    assert spec is not None
    assert spec.loader is not None
    lean: Any = importlib.util.module_from_spec(spec)  # Any: a library that was built a moment ago
    spec.loader.exec_module(lean)
    for x in tensors():
        expected = [x.dim(), x.numel(), x.storage_offset(), *x.shape, *x.stride()]
        assert lean.shape(x) == expected, (lean.shape(x), expected)
    patterns = torch.arange(65536, dtype=torch.int32)
    for (wide, back), dtype in ((lean.halves(), torch.float16), (lean.bfloats(), torch.bfloat16)):
        assert same(wide, patterns.to(torch.int16).view(dtype).float()), dtype
        assert torch.equal(back[~wide.isnan()], patterns[~wide.isnan()]), dtype
        x = torch.cat([torch.randn(20000) * 10.0**power for power in range(-9, 7)])
        assert same(lean.rounded(x, torch.empty(0, dtype=dtype)), x.to(dtype)), dtype
    x = torch.randn(4, 3)
    assert same(lean.checked(x), x.sum(0))
    assert same(lean.checked(x, x, dims=[0, 1], keep=True), (x + x).sum((0, 1), True))
    assert same(lean.checked(x, mode="first"), x[0] * 2 - 1)
    assert lean.identity(x) is x
    assert abs(lean.total([x, x]) - 2 * x.sum().item()) < 1e-5
    assert raises(RuntimeError, "no dimensions in [] of Float", lean.checked, torch.tensor(1.0))
    assert raises(TypeError, "incompatible function arguments", lean.checked, x, 3)
    assert raises(TypeError, "incompatible function arguments", lean.checked, x, bogus=1)
    assert raises(
        NotImplementedError, "not implemented for 'Int'", lean.rounded, x, torch.empty(0, dtype=torch.int32)
    )
    given = [torch.randint(-8, 9, shape).float() for shape in ((6, 4), (5, 4), (5,))]  # whose sums are exact
    for number, (mine, torchs) in enumerate(zip(lean.products(*given), products(*given), strict=True)):
        assert mine.shape == torchs.shape, number
        assert mine.stride() == torchs.stride(), number
        assert same(mine, torchs), number
    references = sys.getrefcount(x)
    for _ in range(1000):
        lean.checked(lean.identity(x))
    gc.collect()
    assert sys.getrefcount(x) == references


if __name__ == "__main__":
    main(sys.argv[1])
