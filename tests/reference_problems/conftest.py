"""What the tests of problem files share: running one in this process, and finding flaws in its answers.

In-process execution is for files of this repository only; the evaluator itself runs problems in its referee.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.flop_counter import FlopCounterMode

from kernelwright.evaluator.schema.problem import Problem

LOOSE = 1e-2
"""Relative and absolute tolerance common in the field; a good problem is not fooled even by this one."""
FLOPS_PER_MS = 50e9
"""What a large GPU does in fp32 without tensor cores."""
BYTES_PER_MS = 4e9
"""What a large GPU reads and writes."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A problem's names after its overrides were set."""

    names: dict[str, Any]

    def model(self) -> nn.Module:
        """Construct `Model` the way `get_init_inputs` asks for."""
        arguments = self.names.get("get_init_inputs", list)()
        match arguments:
            case dict():
                return self.names["Model"](**arguments)
            case [list() | tuple() as positional, dict() as keywords]:
                return self.names["Model"](*positional, **keywords)
            case _:
                return self.names["Model"](*arguments)

    def inputs(self) -> Any:
        """One fresh draw."""
        return self.names["get_inputs"]()


def call(model: nn.Module, inputs: Any) -> Any:
    """One call without gradients: what it returns, and the inputs that it changes, if any."""
    before = [] if any(leaf.is_meta for leaf in tensors(inputs)) else tensors(clone(inputs))
    with torch.no_grad():
        value = model(**inputs) if isinstance(inputs, dict) else model(*inputs)
    changed = [now for now, given in zip(tensors(inputs), before, strict=False) if not torch.equal(now, given)]
    return [value, *changed] if changed else value


def tensors(tree: Any) -> list[torch.Tensor]:
    """The tensors of a nested structure, in order."""
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def clone(tree: Any) -> Any:
    """The structure with its tensors copied."""
    return tree_map(lambda leaf: leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf, tree)


def close(left: Any, right: Any, tolerance: float = LOOSE) -> bool:
    """Whether all tensors of two answers agree; integers must be equal."""
    return all(
        a.shape == b.shape and bool(((a - b).abs_() <= b.abs().mul_(tolerance).add_(tolerance)).all())
        if tolerance and a.is_floating_point()
        else torch.equal(a, b)
        for a, b in zip(tensors(left), tensors(right), strict=True)
    )


def redraw(tensor: torch.Tensor) -> torch.Tensor:
    """Other values of the same kind: other numbers for floats, the same in another order for the rest."""
    if tensor.is_floating_point():
        return tensor.abs().mean() * torch.randn_like(tensor) + tensor
    flat = tensor.flatten()
    return flat.roll(flat.numel() // 3 + 1).reshape(tensor.shape)


def parts(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Views of up to three slabs along each axis."""
    for axis, size in enumerate(tensor.shape):
        yield from tensor.chunk(min(3, size), dim=axis)


def of_answers(loaded: Loaded) -> Iterator[str]:
    """Flaws of one answer and of repeated calls."""
    model, inputs = loaded.model(), loaded.inputs()
    given = clone(inputs)
    first = call(copy.deepcopy(model), inputs)
    if not tensors(first):
        yield "no_tensor_output"
        return
    if not close(inputs, given, 0.0):
        yield "mutates_input"
    if not close(first, call(copy.deepcopy(model), clone(given)), 0.0):
        yield "nondeterministic"
    call(model, clone(given))
    if not close(first, call(model, clone(given)), 0.0):
        yield "depends_on_call_count"
    for output, again in zip(tensors(first), tensors(call(loaded.model(), loaded.inputs())), strict=True):
        yield from of_values(output, again, tensors(given))


def of_values(output: torch.Tensor, again: torch.Tensor, inputs: list[torch.Tensor]) -> Iterator[str]:
    """Flaws of one output tensor, given that of other inputs and weights."""
    if output.numel() == 0:
        yield "empty_output"
    if output.numel() == 0 or not output.is_floating_point():
        return
    if output.isnan().any():
        yield "nan_output"
    if output.isinf().any():
        yield "infinite_output"
    guess = torch.full_like(output, output.mean().item())
    if close(output, torch.zeros_like(output)):
        yield "near_zero_output"
    elif close(output, guess) and close(output, again):
        exact = close(output, guess, 1e-5) and close(output, again, 1e-5)
        yield "constant_output" if exact else "mean_like_output"
    if any(close(output, x) for x in inputs if x.is_floating_point()):
        yield "identity"


def of_draws(loaded: Loaded) -> Iterator[str]:
    """Flaws of the inputs and of fresh parameters."""
    torch.manual_seed(21)
    pairs = zip(tensors(loaded.inputs()), tensors(loaded.inputs()), strict=True)
    if torch.initial_seed() != 21:
        yield "fixed_seed"
    elif any(torch.equal(a, b) for a, b in pairs):
        yield "constant_inputs"
    if any(p.numel() > 1 and (p == p.flatten()[0]).all() for p in loaded.model().parameters()):
        yield "default_parameters"


def of_sensitivity(loaded: Loaded) -> Iterator[str]:
    """Inputs and weights whose change the answer does not show."""
    model, inputs = loaded.model(), loaded.inputs()
    before = call(copy.deepcopy(model), clone(inputs))
    for flaw, group in (("input", tensors(inputs)), ("parameter", list(weights(model)))):
        for tensor in group:
            if close(before, after_change(model, inputs, tensor)):
                yield f"ignores_{flaw}"
            elif any(close(before, after_change(model, inputs, part), 0.0) for part in parts(tensor)):
                yield f"reads_part_of_{flaw}"


def weights(model: nn.Module) -> Iterator[torch.Tensor]:
    """Parameters and floating buffers; not the running averages of a normalisation in training mode."""
    yield from (parameter.data for parameter in model.parameters())
    for module in model.modules():
        if not (isinstance(module, nn.BatchNorm2d) and module.training):
            yield from (buffer for buffer in module.buffers(recurse=False) if buffer.is_floating_point())


def after_change(model: nn.Module, inputs: Any, place: torch.Tensor) -> Any:
    """The answer with other values in `place`, an input, a weight or a part of one; put back afterwards."""
    kept = place.clone()
    place.copy_(redraw(place))
    answer = call(copy.deepcopy(model), clone(inputs))
    place.copy_(kept)
    return answer


def of_precision(loaded: Loaded) -> Iterator[str]:
    """Whether bfloat16 gives exactly the same answer, where the inputs are not in it anyway."""
    model, inputs = loaded.model(), loaded.inputs()
    if any(x.dtype == torch.bfloat16 for x in tensors(inputs)):
        return
    wide = tensors(call(copy.deepcopy(model), clone(inputs)))
    narrow = tree_map(lambda x: x.bfloat16() if x.is_floating_point() else x, inputs)
    try:
        short = tensors(call(copy.deepcopy(model).bfloat16(), narrow))
    except RuntimeError:
        return  # an operation that has no such form
    if all(torch.equal(a, b.to(a.dtype)) for a, b in zip(wide, short, strict=True)):
        yield "half_precision_suffices"


def find_flaws(loaded: Loaded) -> set[str]:
    """Names of the flaws a problem shows when run at its present sizes."""
    try:
        found = {*of_answers(loaded), *of_draws(loaded)}
        if not found & {"no_tensor_output", "empty_output", "nondeterministic"}:
            found |= {*of_sensitivity(loaded), *of_precision(loaded)}
    except (RuntimeError, TypeError):
        return {"raises"}
    elements = sum(tensor.numel() for tensor in tensors(loaded.inputs()))
    return found | ({"too_small"} if elements < 4096 else set())


@dataclass(slots=True)
class Size:
    """What one call of a problem needs, counted from shapes alone."""

    live_bytes: int = 0
    peak_bytes: int = 0
    """Most memory that inputs, weights and intermediate results hold at once."""
    moved_bytes: int = 0
    """Read and written by all operations, each on its own."""
    flops: int = 0

    @property
    def estimated_ms(self) -> float:
        """Roofline time of the eager reference on a large GPU."""
        return max(self.flops / FLOPS_PER_MS, self.moved_bytes / BYTES_PER_MS)

    def hold(self, tensor: torch.Tensor) -> None:
        """Count a tensor until it dies."""
        size = tensor.numel() * tensor.element_size()
        self.live_bytes += size
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)
        weakref.finalize(tensor, self.release, size)

    def release(self, size: int) -> None:
        """Stop counting a tensor."""
        self.live_bytes -= size


@dataclass
class Accountant(TorchDispatchMode):
    """Adds every operation's memory and traffic to a `Size`; views are free."""

    size: Size = field(default_factory=Size)

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        read = {t.untyped_storage()._cdata: t for t in tensors((args, kwargs))}
        made = [t for t in tensors(result) if t.untyped_storage()._cdata not in read]
        for tensor in made:
            self.size.hold(tensor)
        if made:
            touched = [*read.values(), *made]
            self.size.moved_bytes += sum(t.numel() * t.element_size() for t in touched)
        return result


def measure_size(loaded: Loaded) -> Size:
    """Count one call on tensors without data."""
    accountant, counter = Accountant(), FlopCounterMode(display=False)
    with torch.device("meta"), accountant:
        model, inputs = loaded.model(), loaded.inputs()
        for tensor in (*model.parameters(), *model.buffers()):
            accountant.size.hold(tensor)
        accountant.size.moved_bytes = 0
        with counter:
            answer = call(model, inputs)
        del answer
    accountant.size.flops = counter.get_total_flops()
    return accountant.size


@pytest.fixture(scope="session")
def load() -> Callable[..., Loaded]:
    """Runs a problem's source in this process, with the overrides of a shape name set."""

    def loader(problem: Problem, shapes: str | None = None) -> Loaded:
        names: dict[str, Any] = {"__name__": "problem_under_test"}
        exec(compile(problem.source, problem.id, "exec", dont_inherit=True), names)
        names.update(problem.overrides(shapes))
        return Loaded(names)

    return loader


@pytest.fixture(scope="session")
def flaws() -> Callable[[Loaded], set[str]]:
    """Names of the flaws a loaded problem shows."""
    return find_flaws


@pytest.fixture(scope="session")
def measure() -> Callable[[Loaded], Size]:
    """What one call of a loaded problem needs, without running it."""
    return measure_size


@pytest.fixture(scope="session")
def answer() -> Callable[[nn.Module, Any], list[torch.Tensor]]:
    """The tensors of one call."""
    return lambda model, inputs: tensors(call(model, clone(inputs)))


@pytest.fixture(autouse=True)
def fixed_seed() -> None:
    """Each test draws the same numbers whatever ran before it."""
    torch.manual_seed(20)


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Threads that wait for each other on a busy machine make tiny operations five times slower."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
