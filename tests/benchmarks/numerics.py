"""Compares the errors of several arithmetics with the limits that the evaluator sets.

    python tests/benchmarks/numerics.py --device cpu --seeds 20
    python tests/benchmarks/numerics.py --device cuda --markdown numerics.md

Each problem is computed in other ways by this trusted program and compared as a candidate's outputs are, on
all trials that ask for precision. A cell says the largest error as a share of its limit; below one passes.
The first table replaces products only: of ways as exact as float32 it gives the worst of all seeds, of those
with narrower operands the best. In the second, TF32 is the library's own on a GPU; on a CPU the operands of
products are rounded to its ten bits.
"""

from __future__ import annotations

import argparse
import copy
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from kernelwright.evaluator.ipc.model_init import apply_math  # noqa: E402
from kernelwright.evaluator.ipc.tensor_tree import flatten  # noqa: E402
from kernelwright.evaluator.referee.correctness.comparison import Outputs, compare, overall_errors  # noqa: E402
from kernelwright.evaluator.referee.correctness.limits import change_limit  # noqa: E402
from kernelwright.evaluator.referee.correctness.trial_cache import Trial  # noqa: E402
from kernelwright.evaluator.referee.correctness.trials import TrialPool  # noqa: E402
from kernelwright.evaluator.referee.reference.reference import Arguments, Reference  # noqa: E402
from kernelwright.evaluator.schema.config import Math  # noqa: E402 - after the path is set
from kernelwright.evaluator.schema.errors import ProblemError  # noqa: E402
from kernelwright.evaluator.schema.problem import read_problem  # noqa: E402
from tests.benchmarks.support.products import CONVOLUTIONS, HONEST, NARROW, Products  # noqa: E402

WITH_PRODUCTS: Final = (
    "level1/01_square_matmul",
    "level1/05_odd_size_matmul",
    "level1/06_large_k_matmul",
    "level1/08_matrix_vector",
    "level1/17_conv2d",
    "level2/03_gemm_softmax",
    "level2/05_conv_batchnorm_silu_frozen",
    "level2/06_causal_attention",
    "level3/01_transformer_block",
    "level3/03_mlp_network",
)
PROBLEMS: Final = (
    "level1/01_square_matmul",
    "level1/06_large_k_matmul",
    "level1/17_conv2d",
    "level2/06_causal_attention",
    "level1/10_layer_norm",
    "level1/11_rms_norm",
    "level1/09_softmax",
    "level1/13_row_mean",
    "level2/09_cross_entropy",
)
_PRODUCTS: Final = ("mm", "matmul", "linear", "conv", "einsum", "attention")
_TAKEN: Final = ("as_drawn", "zero_mean", "few_terms", "nearby")

# Any: a model's arguments and output are whatever its author chose.
Way = Callable[[nn.Module, list[Any], dict[str, Any]], Any]


def fp32(model: nn.Module, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The reference itself."""
    return model(*args, **kwargs)


def in_double(model: nn.Module, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """More accurate than the reference."""
    return _within(torch.float64)(model, args, kwargs)


def tf32(model: nn.Module, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Products whose operands have ten bits of mantissa."""
    if any(isinstance(each, torch.Tensor) and each.is_cuda for each in args):
        with _library_tf32():
            return model(*args, **kwargs)
    with _RoundedProducts():
        return model(*args, **kwargs)


def truncated(model: nn.Module, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The last sixty-fourth of the first input's last dimension is left out."""
    first = args[0].clone()
    first[..., -max(1, first.shape[-1] // 64) :] = 0
    return model(first, *args[1:], **kwargs)


def sampled(model: nn.Module, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Every other element of the first input stands for its neighbour as well."""
    first = args[0].clone()
    first[..., 1::2] = first[..., : first.shape[-1] - 1 : 2][..., : first[..., 1::2].shape[-1]]
    return model(first, *args[1:], **kwargs)


def _within(dtype: torch.dtype) -> Way:
    """Everything computed in another type, inputs and outputs converted."""

    def cast(value: Any, to: torch.dtype) -> Any:
        return value.to(to) if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    def way(model: nn.Module, args: list[Any], kwargs: dict[str, Any]) -> Any:
        inner = copy.deepcopy(model).to(dtype)
        out = inner(*[cast(each, dtype) for each in args], **{k: cast(v, dtype) for k, v in kwargs.items()})
        return cast(out, torch.float32)

    return way


WAYS: Final[dict[str, Way]] = {
    "fp64": in_double,
    "fp32": fp32,
    "TF32 products": tf32,
    "fp16 inside": _within(torch.float16),
    "bf16 inside": _within(torch.bfloat16),
    "every other sampled": sampled,
    "1/64 left out": truncated,
}


class _RoundedProducts(TorchFunctionMode):
    """Rounds the float32 operands of products to ten bits of mantissa, to nearest even."""

    # Any: whatever torch hands to a function mode.
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if any(word in name for word in _PRODUCTS):
            args = [_rounded(each) if isinstance(each, torch.Tensor) else each for each in args]
        return func(*args, **(kwargs or {}))


def _rounded(values: torch.Tensor) -> torch.Tensor:
    if values.dtype is not torch.float32:
        return values
    bits = values.detach().contiguous().view(torch.int32)
    return ((bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32).view_as(values)


@contextmanager
def _library_tf32() -> Iterator[None]:
    apply_math("tf32")
    try:
        yield
    finally:
        apply_math("fp32")


def main() -> None:
    """Print a table of error shares, and one of statuses under each policy."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--shapes", help="default: small on a CPU, the problem's own on a GPU")
    parser.add_argument("--problems", nargs="+", default=PROBLEMS, metavar="NAME")
    parser.add_argument("--with-products", nargs="*", default=WITH_PRODUCTS, metavar="NAME")
    parser.add_argument("--seeds", type=int, default=3, help="of secret trials, for the first table")
    parser.add_argument("--markdown", type=Path, help="write both tables")
    options = parser.parse_args()
    shapes = options.shapes or ("small" if options.device == "cpu" else None)
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    device = torch.device(options.device)
    products = [_product_shares(name, shapes, device, options.seeds) for name in options.with_products]
    shares, statuses = [], []
    for name in options.problems:
        found = {math: _problem(name, shapes, device, math.value) for math in Math}
        shares.append([name, *(_share(found[Math.FP32][way]) for way in WAYS)])
        statuses.append([name, *(_passing(found, way) for way in WAYS)])
        print("  ".join(shares[-1]), "|", "  ".join(statuses[-1][1:]), flush=True)
    names = [name.split("/")[1] for name in options.with_products]
    rows = [[way, *(found[way] for found in products)] for way in (*HONEST, *CONVOLUTIONS, *NARROW)]
    text = (
        f"Products in other ways under `--math fp32`, {options.seeds} seeds: shares of the limit.\n\n"
        + _markdown(["products", *names], rows)
        + "\nLargest error as a share of the limit under `--math fp32`; below 1 passes.\n\n"
        + _markdown(["problem", *WAYS], shares)
        + "\nPolicies each way passes under.\n\n"
        + _markdown(["problem", *WAYS], statuses)
    )
    print("\n" + text)
    if options.markdown:
        options.markdown.write_text(text, "utf-8")


def _problem(name: str, shapes: str | None, device: torch.device, math: str) -> dict[str, float | None]:
    """Per way the largest error over its limit; None where it cannot be computed that way."""
    pool = _pool(name, shapes, device, math, seed=1)
    return {label: _worst(way, pool) for label, way in WAYS.items()}


def _product_shares(name: str, shapes: str | None, device: torch.device, seeds: int) -> dict[str, str]:
    """Per way of computing products, the worst share of honest ones, and the best of narrow ones."""
    honest = {way: (lambda p=product: Products(p)) for way, product in HONEST.items()}
    honest |= {way: (lambda c=conv: Products(HONEST["library"], c)) for way, conv in CONVOLUTIONS.items()}
    narrow = {way: (lambda p=product: Products(p)) for way, product in NARROW.items()}
    found: dict[str, list[float]] = {way: [] for way in (*honest, *narrow)}
    for seed in range(1, seeds + 1):
        pool = _pool(name, shapes, device, "fp32", seed=seed)
        for way, make in {**honest, **narrow}.items():
            share = _worst(_replacing(make), pool)
            if share is not None:
                found[way].append(share)
    cells = {
        way: f"{(max if way in honest else min)(all_):.2g}" if all_ else "–" for way, all_ in found.items()
    }
    print(name, cells, flush=True)
    return cells


def _replacing(make: Callable[[], Products]) -> Way:
    def way(model: nn.Module, args: list[Any], kwargs: dict[str, Any]) -> Any:
        with make() as mode:
            output = model(*args, **kwargs)
        if not mode.replaced:
            raise TypeError("no product was replaced")
        return output

    return way


def _pool(name: str, shapes: str | None, device: torch.device, math: str, *, seed: int) -> TrialPool:
    problem = read_problem(ROOT / "reference_problems" / f"{name}.py")
    apply_math("fp32")
    torch.manual_seed(0)
    reference = Reference(problem.id, problem.source, problem.overrides(shapes), device=device, dtype="as_is")
    return TrialPool(reference, math=math, secret=random.Random(seed))


def _worst(way: Way, pool: TrialPool) -> float | None:
    draw = pool.draws[0]
    try:
        return max(_over_limit(way, draw.model, trial, pool) for trial in draw.trials if trial.name in _TAKEN)
    except (RuntimeError, TypeError, NotImplementedError, ProblemError):
        return None


def _over_limit(way: Way, model: nn.Module, trial: Trial, pool: TrialPool) -> float:
    """The largest error of a trial over its limit, and that of the change between nearby inputs."""
    leaves = _outputs(way, model, trial)
    found = compare(trial.expected, leaves, limit=trial.limit, trial=trial.name)
    share = found.error_ratio / trial.limit
    share = max(share, 1.01) if found.mismatch is not None else share
    share = max(share, *(error / trial.overall for error in overall_errors(trial.expected, leaves)))
    if trial.near is None:
        return share
    near = Outputs(trial.near.expected, _outputs(way, model, trial.near))
    most = change_limit(pool.trace.terms)
    return max(share, *(error / most for error in overall_errors(trial.expected, leaves, near)))


def _outputs(way: Way, model: nn.Module, trial: Trial) -> list[torch.Tensor]:
    args, kwargs = _copied(trial.arguments).values()
    with torch.no_grad():
        leaves = flatten(way(model, list(args), kwargs), numbers_as_tensors=True)[1]
    wanted = trial.expected.output.leaves
    return [leaf.to(like.dtype) for leaf, like in zip(leaves, wanted, strict=True)]


def _copied(arguments: Arguments) -> Arguments:
    return arguments.with_leaves([leaf.clone() for leaf in arguments.leaves])


def _share(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.2g}"


def _passing(found: dict[Math, dict[str, float | None]], way: str) -> str:
    passed = [math.value for math in Math if (share := found[math][way]) is not None and share <= 1]
    return ", ".join(passed) if passed else "none"


def _markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    main()
