"""Float32 products in other arithmetics and orders, and a mode that puts them in a reference's place.

`HONEST` ways are as exact as float32 sums in some order; `NARROW` ones keep fewer bits of their operands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""A product of matrices [batch, rows, terms] and [batch, terms, columns]."""
Convolution = Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]
"""A convolution of images with kernels of 3x3, and padding."""

_LEAST_STRASSEN: Final = 32


def library(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The library's product."""
    return torch.bmm(a, b)


def sequential(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """One term after another, each sum rounded."""
    total = torch.zeros(a.shape[0], a.shape[1], b.shape[2], device=a.device)
    for term in range(a.shape[2]):
        total.add_(a[:, :, term, None] * b[:, term, None, :])
    return total


def in_blocks(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Blocks of 16 terms, whose sums are added one after another."""
    total = torch.zeros(a.shape[0], a.shape[1], b.shape[2], device=a.device)
    for left, right in zip(a.split(16, 2), b.split(16, 1), strict=True):
        total += torch.bmm(left, right)
    return total


def split_terms(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Eight parts, added in pairs."""
    size = -(-a.shape[2] // 8)
    parts = [torch.bmm(x, y) for x, y in zip(a.split(size, 2), b.split(size, 1), strict=True)]
    while len(parts) > 1:
        parts = [one + other for one, other in zip(parts[::2], parts[1::2], strict=False)] + (
            parts[-1:] if len(parts) % 2 else []
        )
    return parts[0]


def strassen(a: torch.Tensor, b: torch.Tensor, levels: int = 2) -> torch.Tensor:
    """Strassen's seven products of halves, two levels deep."""
    rows, terms, columns = a.shape[1], a.shape[2], b.shape[2]
    if levels == 0 or min(rows, terms, columns) < _LEAST_STRASSEN:
        return torch.bmm(a, b)
    a = functional.pad(a, (0, terms % 2, 0, rows % 2))
    b = functional.pad(b, (0, columns % 2, 0, terms % 2))
    (a11, a12), (a21, a22) = (half.chunk(2, 2) for half in a.chunk(2, 1))
    (b11, b12), (b21, b22) = (half.chunk(2, 2) for half in b.chunk(2, 1))
    m1, m2 = strassen(a11 + a22, b11 + b22, levels - 1), strassen(a21 + a22, b11, levels - 1)
    m3, m4 = strassen(a11, b12 - b22, levels - 1), strassen(a22, b21 - b11, levels - 1)
    m5, m6 = strassen(a11 + a12, b22, levels - 1), strassen(a21 - a11, b11 + b12, levels - 1)
    m7 = strassen(a12 - a22, b21 + b22, levels - 1)
    top = torch.cat((m1 + m4 - m5 + m7, m3 + m5), 2)
    bottom = torch.cat((m2 + m4, m1 - m2 + m3 + m6), 2)
    return torch.cat((top, bottom), 1)[:, :rows, :columns]


def rounded(values: torch.Tensor, bits: int) -> torch.Tensor:
    """Rounded to so many significant bits, to nearest."""
    mantissa, exponent = torch.frexp(values.double())
    return torch.ldexp(torch.round(mantissa * 2.0**bits) / 2.0**bits, exponent).float()


def cut(values: torch.Tensor, bits: int) -> torch.Tensor:
    """Cut to so many significant bits."""
    return (values.contiguous().view(torch.int32) & ~((1 << (24 - bits)) - 1)).view(torch.float32)


def _terms_of(values: torch.Tensor, dtype: torch.dtype, count: int) -> list[torch.Tensor]:
    terms = []
    for number in range(count):
        # The second half-precision term of a small number would be subnormal.
        grow = 2.0 ** (11 * number) if dtype == torch.float16 else 1.0
        terms.append((values * grow).to(dtype).float() / grow)
        values = values - terms[-1]
    return terms


def in_terms(dtype: torch.dtype, count: int) -> Product:
    """Each operand in several narrow terms; their products are added in double precision."""

    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        left, right = _terms_of(a, dtype, count), _terms_of(b, dtype, count)
        pairs = [(i, j) for i in range(count) for j in range(count) if i + j < count]
        return sum(
            (torch.bmm(left[i].double(), right[j].double()) for i, j in pairs),
            start=torch.zeros((), dtype=torch.float64, device=a.device),
        ).float()

    return product


def _added_truncating(total: torch.Tensor, terms: torch.Tensor) -> torch.Tensor:
    """A sum as a tensor core makes it: both are cut to 26 bits below the larger, their sum to 24."""
    exponent = torch.frexp(torch.maximum(total.abs(), terms.abs())).exponent
    aligned = [torch.trunc(torch.ldexp(each, 26 - exponent)) for each in (total, terms)]
    mantissa, shift = torch.frexp(torch.ldexp(aligned[0] + aligned[1], exponent - 26))
    return torch.ldexp(torch.trunc(mantissa * 2.0**24) / 2.0**24, shift)


def truncated_tf32(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Three TF32 products in one accumulator, which truncates every eight terms, as a tensor core does."""
    high = [rounded(each, 11) for each in (a, b)]
    low = [rounded(each - top, 11) for each, top in zip((a, b), high, strict=True)]
    total = torch.zeros(a.shape[0], a.shape[1], b.shape[2], dtype=torch.float64, device=a.device)
    # Of very long sums a tensor core would be given parts.
    step = max(8, a.shape[2] // 512)
    for begin in range(0, a.shape[2], step):
        part = slice(begin, begin + step)
        for left, right in ((low[0], high[1]), (high[0], low[1]), (high[0], high[1])):
            total = _added_truncating(total, torch.bmm(left[:, :, part].double(), right[:, part].double()))
    return total.float()


def of(narrow: Callable[[torch.Tensor, int], torch.Tensor], bits: int) -> Product:
    """Operands of so many bits, exact otherwise."""
    return lambda a, b: torch.bmm(narrow(a, bits).double(), narrow(b, bits).double()).float()


HONEST: Final[dict[str, Product]] = {
    "library": library,
    "sequential": sequential,
    "blocks of 16": in_blocks,
    "split": split_terms,
    "Strassen": strassen,
    "3 TF32 truncated": truncated_tf32,
    "3 bf16 terms": in_terms(torch.bfloat16, 3),
    "2 fp16 terms": in_terms(torch.float16, 2),
}
NARROW: Final[dict[str, Product]] = {
    "2 bf16 terms": in_terms(torch.bfloat16, 2),
    "16 bits": of(rounded, 16),
    "16 bits cut": of(cut, 16),
    "15 bits": of(rounded, 15),
    "TF32": of(rounded, 11),
    "fp16": in_terms(torch.float16, 1),
    "bf16": in_terms(torch.bfloat16, 1),
}


def winograd(size: int) -> Convolution:
    """Winograd's F(2x2, 3x3), F(4x4, 3x3) or F(6x6, 3x3)."""
    given, kernel, taken = (torch.tensor(rows, dtype=torch.float64) for rows in _WINOGRAD[size])

    def both(matrix: torch.Tensor, tiles: torch.Tensor) -> torch.Tensor:
        return matrix.to(tiles) @ tiles @ matrix.to(tiles).mT

    def convolution(x: torch.Tensor, weight: torch.Tensor, padding: int) -> torch.Tensor:
        count, channels = x.shape[:2]
        height, width = x.shape[2] + 2 * padding - 2, x.shape[3] + 2 * padding - 2
        down, across = -(-height // size), -(-width // size)
        grown = functional.pad(
            x, (padding, padding + across * size - width, padding, padding + down * size - height)
        )
        tiles = grown.unfold(2, size + 2, size).unfold(3, size + 2, size)
        moved = both(given, tiles).permute(4, 5, 1, 0, 2, 3).reshape((size + 2) ** 2, channels, -1)
        kernels = both(kernel, weight).permute(2, 3, 0, 1).reshape((size + 2) ** 2, -1, channels)
        multiplied = torch.bmm(kernels, moved).view(size + 2, size + 2, -1, count, down, across)
        out = both(taken, multiplied.permute(3, 2, 4, 5, 0, 1))
        return out.permute(0, 1, 2, 4, 3, 5).reshape(count, -1, down * size, across * size)[
            :, :, :height, :width
        ]

    return convolution


_WINOGRAD: Final = {
    2: (
        ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)),
        ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1)),
        ((1, 1, 1, 0), (0, 1, -1, -1)),
    ),
    4: (
        (
            (4, 0, -5, 0, 1, 0),
            (0, -4, -4, 1, 1, 0),
            (0, 4, -4, -1, 1, 0),
            (0, -2, -1, 2, 1, 0),
            (0, 2, -1, -2, 1, 0),
            (0, 4, 0, -5, 0, 1),
        ),
        (
            (1 / 4, 0, 0),
            (-1 / 6, -1 / 6, -1 / 6),
            (-1 / 6, 1 / 6, -1 / 6),
            (1 / 24, 1 / 12, 1 / 6),
            (1 / 24, -1 / 12, 1 / 6),
            (0, 0, 1),
        ),
        ((1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 0), (0, 1, 1, 4, 4, 0), (0, 1, -1, 8, -8, 1)),
    ),
    6: (
        (
            (1, 0, -21 / 4, 0, 21 / 4, 0, -1, 0),
            (0, 1, 1, -17 / 4, -17 / 4, 1, 1, 0),
            (0, -1, 1, 17 / 4, -17 / 4, -1, 1, 0),
            (0, 1 / 2, 1 / 4, -5 / 2, -5 / 4, 2, 1, 0),
            (0, -1 / 2, 1 / 4, 5 / 2, -5 / 4, -2, 1, 0),
            (0, 2, 4, -5 / 2, -5, 1 / 2, 1, 0),
            (0, -2, 4, 5 / 2, -5, -1 / 2, 1, 0),
            (0, -1, 0, 21 / 4, 0, -21 / 4, 0, 1),
        ),
        (
            (1, 0, 0),
            (-2 / 9, -2 / 9, -2 / 9),
            (-2 / 9, 2 / 9, -2 / 9),
            (1 / 90, 1 / 45, 2 / 45),
            (1 / 90, -1 / 45, 2 / 45),
            (32 / 45, 16 / 45, 8 / 45),
            (32 / 45, -16 / 45, 8 / 45),
            (0, 0, 1),
        ),
        (
            (1, 1, 1, 1, 1, 1, 1, 0),
            (0, 1, -1, 2, -2, 1 / 2, -1 / 2, 0),
            (0, 1, 1, 4, 4, 1 / 4, 1 / 4, 0),
            (0, 1, -1, 8, -8, 1 / 8, -1 / 8, 0),
            (0, 1, 1, 16, 16, 1 / 16, 1 / 16, 0),
            (0, 1, -1, 32, -32, 1 / 32, -1 / 32, 1),
        ),
    ),
}
"""Transforms of inputs, kernels and outputs (Lavin and Gray, 2016)."""


def by_fourier(x: torch.Tensor, weight: torch.Tensor, padding: int) -> torch.Tensor:
    """A convolution by the fast Fourier transform."""
    size = [x.shape[2] + 2 * padding, x.shape[3] + 2 * padding]
    moved = torch.fft.rfft2(functional.pad(x, [padding] * 4))
    kernels = torch.fft.rfft2(weight, s=size).conj()
    out = torch.fft.irfft2(torch.einsum("nchw,kchw->nkhw", moved, kernels), s=size)
    return out[:, :, : size[0] - 2, : size[1] - 2].contiguous()


CONVOLUTIONS: Final[dict[str, Convolution]] = {
    "Winograd 2x2": winograd(2),
    "Winograd 4x4": winograd(4),
    "Winograd 6x6": winograd(6),
    "Fourier": by_fourier,
}


class Products(TorchDispatchMode):
    """Replaces float32 products of matrices, convolutions and attention; counts what it replaced."""

    def __init__(self, product: Product, convolution: Convolution | None = None) -> None:
        super().__init__()
        self._product = product
        self._convolution = convolution
        self.replaced = 0

    # Any: whatever torch hands to a dispatch mode.
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, named = func.overloadpacket.__name__, kwargs or {}
        if not any(isinstance(arg, torch.Tensor) and arg.dtype == torch.float32 for arg in args):
            return func(*args, **named)
        if name == "convolution":
            found = self._convolved(*args)
        elif self._convolution is not None:
            found = None
        elif name == "bmm":
            found = self._product(*args)
        elif name in {"mm", "mv"}:
            right = args[1] if name == "mm" else args[1][:, None]
            found = self._product(args[0][None], right[None])[0]
            found = found if name == "mm" else found[:, 0]
        elif name == "addmm" and not named:
            found = args[0] + self._product(args[1][None], args[2][None])[0]
        else:
            found = None
        self.replaced += found is not None
        return func(*args, **named) if found is None else found

    # Any: aten::convolution's arguments.
    def _convolved(self, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, *rest: Any) -> Any:
        dilation, transposed, _, groups = rest
        if x.dim() != 4 or transposed or groups != 1:
            return None
        shift = 0.0 if bias is None else bias.view(1, -1, 1, 1)
        if self._convolution is not None:
            if tuple(weight.shape[2:]) != (3, 3) or {*stride, *dilation} != {1} or padding[0] != padding[1]:
                return None
            return self._convolution(x, weight, padding[0]) + shift
        columns = functional.unfold(x, weight.shape[2:], dilation, padding, stride)
        flat = weight.flatten(1)[None]
        found = torch.cat([self._product(flat, image[None]) for image in columns])
        height = (x.shape[2] + 2 * padding[0] - dilation[0] * (weight.shape[2] - 1) - 1) // stride[0] + 1
        return found.view(x.shape[0], weight.shape[0], height, -1) + shift
