"""The reference: a problem's module, run here and nowhere near a candidate."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import linecache
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from kernelwright.evaluator.devices import is_device_full
from kernelwright.evaluator.ipc.gradients import OUTPUT, Backward, named_parameters
from kernelwright.evaluator.ipc.model_init import construct, seed_everything
from kernelwright.evaluator.ipc.model_state import ModelState
from kernelwright.evaluator.ipc.tensor_tree import Tree, dtype_from, flatten, unflatten
from kernelwright.evaluator.ipc.weight_spread import UNCHANGED, Spread
from kernelwright.evaluator.referee.reference.effects import Effects, find_effects
from kernelwright.evaluator.referee.reference.fixed_state import FixedState
from kernelwright.evaluator.referee.reference.float64_mode import Float64Mode, doubled, doubled_dtype
from kernelwright.evaluator.schema.config import Dtype
from kernelwright.evaluator.schema.errors import DeviceFull, ProblemError


@dataclass(frozen=True, slots=True)
class Arguments:
    """Arguments of one call: their structure, and their tensors in order."""

    args: Tree
    kwargs: Tree
    leaves: list[torch.Tensor]
    cotangents: int = 0
    """Leaves at their end that are no arguments but cotangents of the outputs."""
    ordered: frozenset[int] = frozenset()
    """Short leaves whose numbers are in order in every draw, which is seen only where there are several."""

    @property
    def given(self) -> list[torch.Tensor]:
        """The leaves without cotangents."""
        return self.leaves[: len(self.leaves) - self.cotangents]

    @property
    def varying(self) -> list[torch.Tensor]:
        """The leaves whose numbers may come in any order."""
        return [leaf for index, leaf in enumerate(self.leaves) if index not in self.ordered]

    def with_leaves(self, leaves: list[torch.Tensor]) -> Arguments:
        """The same structure around other tensors."""
        return replace(self, leaves=leaves)

    def copied(self) -> Arguments:
        """The same structure around copies of its tensors."""
        return self.with_leaves([leaf.clone() for leaf in self.leaves])

    def values(self) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments, ready to call with."""
        leaf = self.leaves.__getitem__
        return unflatten(self.args, leaf), unflatten(self.kwargs, leaf)


@dataclass(frozen=True, slots=True)
class Output:
    """Outputs of a call: structure, tensors, and a mark for those that were plain numbers."""

    value: Tree
    """Structure of what the call returned."""
    leaves: list[torch.Tensor]
    """Returned tensors, then those that its effects left changed."""
    numbers: list[bool]
    backward: Backward | None = None
    """The gradients among them."""
    wrote_state: bool = False
    """The call wrote to the model's state, which was put back: later calls may return something else."""
    effects: Effects = field(default_factory=Effects)

    @property
    def tree(self) -> Tree:
        """Structure of all that is compared, effects included."""
        return self.effects.tree_with_effects(self.value, self.returned)

    @property
    def returned(self) -> int:
        """Number of returned tensors, the first of `leaves`."""
        return len(self.leaves) - len(self.effects.names)


def copied(model: nn.Module) -> nn.Module:
    """A copy of a model; what it worked out from its parameters, which torch does not copy, as plain values.

    Raises:
        ProblemError: it holds something that has no copy.
    """
    held = (value for module in model.modules() for value in vars(module).values())
    worked_out = {id(tensor): tensor.detach().clone() for tensor in _tensors(held) if not tensor.is_leaf}
    try:
        return copy.deepcopy(model, dict[int, Any](worked_out))
    except (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        raise ProblemError(
            f"Model cannot be copied: {type(error).__name__}: {error}; "
            "make what has no copy in forward or outside of the model, and detach tensors that it keeps"
        ) from error


def _tensors(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, dict):
            yield from _tensors(value.values())
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _takes(taker: Callable[..., Any], args: Sequence[Any], kwargs: dict[Any, Any]) -> bool:
    try:
        inspect.signature(taker).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return False
    return True


def _detached(value: Any) -> Any:
    tree, leaves = flatten(value)
    return unflatten(tree, [leaf.detach() for leaf in leaves].__getitem__)


class Reference:
    """A problem's `Model`, `get_inputs` and `get_init_inputs`, on one device and in one dtype."""

    def __init__(
        self, problem: str, source: str, overrides: dict[str, Any], *, device: torch.device, dtype: str
    ) -> None:
        self.problem = problem
        self.device = device
        name = Dtype(dtype).torch_name
        self.dtype = dtype_from(name) if name else None
        self.source = source
        self.backward: Backward | None = None
        """The gradients that belong to a call; None where only outputs do."""
        self._cotangents: list[tuple[torch.Size, torch.dtype]] = []
        self._draws_on_device = device.type == "cuda"
        self._module = types.ModuleType("problem")
        filename = f"<problem {problem}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
        with self._as_problem_error("cannot be imported"):
            sys.modules["problem"] = self._module
            exec(compile(source, filename, "exec", dont_inherit=True), vars(self._module))
        vars(self._module).update(overrides)

    def constants(self) -> dict[str, Any]:
        """The module's names and what they stand for, overrides included."""
        return dict(vars(self._module))

    def init_arguments(self) -> Arguments:
        """Arguments of `Model` and `ModelNew`; a dictionary means keyword arguments.

        `[[...], {...}]`, a list and a dictionary, is read as positional and keyword arguments, unless `Model`
        takes only the two themselves.
        """
        get = getattr(self._module, "get_init_inputs", None)
        with self._as_problem_error("get_init_inputs() failed"):
            value = get() if get is not None else []
        arguments = self._arguments(value, "get_init_inputs()", self._module.Model)
        return arguments.with_leaves([leaf.to(self.device) for leaf in arguments.leaves])

    def inputs(self, seed: int) -> Arguments:
        """Fresh inputs under a secret seed, on the device, floating tensors cast to the chosen dtype."""
        if self._draws_on_device:
            try:
                with torch.device(self.device):
                    return self._drawn(seed)
            except DeviceFull:
                raise  # elsewhere one seed would give other inputs
            except ProblemError:
                # A generator of its own, numpy, or another tie to the CPU: drawn as its author wrote it.
                self._draws_on_device = False
        return self._drawn(seed)

    def _drawn(self, seed: int) -> Arguments:
        seed_everything(seed)
        with self._as_problem_error("get_inputs() failed"):
            forward = functools.partial(self._module.Model.forward, None)
            arguments = self._arguments(self._module.get_inputs(), "get_inputs()", forward)
        leaves = [
            leaf.detach().to(self.dtype if leaf.is_floating_point() else None).to(self.device)
            for leaf in arguments.leaves
        ]
        arguments = arguments.with_leaves(leaves)
        if self.backward is None:
            return arguments
        # Secret even where `get_inputs` seeds torch's own generator.
        generator = torch.Generator(self.device).manual_seed(seed ^ 1)
        drawn = [
            torch.randn(shape, generator=generator, device=self.device).to(dtype)
            for shape, dtype in self._cotangents
        ]
        return Arguments(arguments.args, arguments.kwargs, [*arguments.leaves, *drawn], len(drawn))

    def differentiate(self, seed: int) -> None:
        """From here on a call also gives the gradients of floating inputs and of parameters.

        Raises:
            ProblemError: no output carries a gradient, or it arrives at no input and no parameter.
        """
        model, arguments = self.model(seed), self.inputs(seed)
        leaves = [leaf.requires_grad_() if leaf.is_floating_point() else leaf for leaf in arguments.leaves]
        args, kwargs = arguments.with_leaves(leaves).values()
        with self._as_problem_error("forward failed where gradients are asked for"), torch.enable_grad():
            _, outputs = flatten(model(*args, **kwargs), numbers_as_tensors=True)
        graded = [index for index, leaf in enumerate(outputs) if leaf.requires_grad]
        if not graded:
            raise ProblemError(
                f"problem {self.problem}: no output carries a gradient; judge it without --backward"
            )
        inputs = [index for index, leaf in enumerate(leaves) if leaf.requires_grad]
        named = named_parameters(model)
        with self._as_problem_error("backward failed"):
            found = torch.autograd.grad(
                [outputs[index] for index in graded],
                [*(leaves[index] for index in inputs), *named.values()],
                [torch.ones_like(outputs[index]) for index in graded],
                allow_unused=True,
            )
        parameters = [
            name for name, grad in zip(named, found[len(inputs) :], strict=True) if grad is not None
        ]
        inputs = [index for index, grad in zip(inputs, found, strict=False) if grad is not None]
        if not (inputs or parameters):
            raise ProblemError(
                f"problem {self.problem}: a gradient arrives at no input and no parameter; "
                "judge it without --backward"
            )
        shapes = tuple(tuple(named[name].shape) for name in parameters)
        self._cotangents = [(outputs[index].shape, outputs[index].dtype) for index in graded]
        self.backward = Backward(tuple(graded), tuple(inputs), tuple(parameters), shapes)

    def model(self, seed: int, *, vary: bool = False, spread: Spread = UNCHANGED) -> nn.Module:
        """A fresh reference model under a weight seed."""
        args, kwargs = self.init_arguments().values()
        with self._as_problem_error("Model could not be constructed"):
            varied = vary and self.fixed.at_construction
            model: nn.Module = construct(self._module.Model, args, kwargs, seed, vary=varied, spread=spread)
            model = model.to(self.device)
            model = model.to(self.dtype) if self.dtype is not None else model
        if any(map(is_lazy, (*model.parameters(), *model.buffers()))):
            self._settle(model, seed)
        if vary:
            self.fixed.move(model, seed)
        return model

    def _settle(self, model: nn.Module, seed: int) -> None:
        """Let a first call decide on the shapes of a model, with the random numbers a contestant's has."""
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            arguments = self.inputs(seed)
        self.evolve(model, arguments)

    def call(self, model: nn.Module, arguments: Arguments) -> Output:
        """Call on copies of the arguments; the model's buffers are put back afterwards."""
        return self._spend(model, arguments.copied())

    def evolve(self, model: nn.Module, arguments: Arguments) -> None:
        """Call on copies of the arguments; the model's buffers stay as the call leaves them."""
        with self._as_problem_error("forward failed"), torch.no_grad():
            self.answer(model, arguments.copied())

    def _spend(self, model: nn.Module, arguments: Arguments) -> Output:
        """Call on these very tensors."""
        effects = self.effects
        before = ModelState(model, effects.state)
        with self._as_problem_error("forward failed"), torch.no_grad():
            value = self.answer(model, arguments)
            tree, leaves = flatten(value, numbers_as_tensors=True)
            tensors = {id(leaf) for leaf in flatten(value)[1]}
        if not (leaves or effects.names):
            raise ProblemError(f"problem {self.problem}: forward returned no tensor")
        self._require_dense(leaves, "forward returned")
        changed = effects.observed(model, arguments.leaves)
        wrote_state = before.has_changed
        if wrote_state:
            if before.lends(leaves):
                raise ProblemError(
                    f"problem {self.problem}: forward returns a buffer that the next call writes to; "
                    "return a copy of it"
                )
            before.restore()
        numbers = [id(leaf) not in tensors for leaf in leaves]
        # A number comes back from a contestant in memory of the device.
        leaves = [
            leaf.to(self.device) if number else leaf for leaf, number in zip(leaves, numbers, strict=True)
        ]
        numbers += [False] * len(changed)
        return Output(tree, [*leaves, *changed], numbers, self.backward, wrote_state, effects)

    @functools.cached_property
    def effects(self) -> Effects:
        """Inputs and state that calls change, as two calls of a model show."""
        model = self.model(0)
        return self._effects_on(model, self.inputs(0)) | self._effects_on(model, self.inputs(1))

    @functools.cached_property
    def fixed(self) -> FixedState:
        """Parameters and buffers that are the same under every seed, as two models show."""
        return FixedState.of(self.model(0), self.model(1))

    def _effects_on(self, model: nn.Module, arguments: Arguments) -> Effects:
        with self._as_problem_error("forward failed"), torch.no_grad():
            return find_effects(
                model, arguments.leaves, lambda leaves: self.answer(model, arguments.with_leaves(leaves))
            )

    def _require_dense(self, leaves: list[torch.Tensor], whence: str) -> None:
        for leaf in leaves:
            if leaf.layout is not torch.strided or leaf.is_nested or leaf.is_quantized:
                kind = str(leaf.dtype if leaf.is_quantized else leaf.layout).removeprefix("torch.")
                kind = "nested" if leaf.is_nested else kind
                raise ProblemError(
                    f"problem {self.problem}: {whence} a {kind} tensor; "
                    "only dense ones can be handed over and compared"
                )

    def answer(self, model: nn.Module, arguments: Arguments) -> Any:
        """Call on these very tensors; return the value, or value and gradients."""
        if self.backward is None:
            args, kwargs = arguments.values()
            return model(*args, **kwargs)
        leaves = [self.backward.leaf(index, leaf) for index, leaf in enumerate(arguments.given)]
        cotangents = arguments.leaves[len(leaves) :]
        args, kwargs = arguments.with_leaves([*leaves, *cotangents]).values()
        found = self.backward.call(model, args, kwargs, leaves=leaves, cotangents=cotangents)
        return {name: _detached(value) if name == OUTPUT else value for name, value in found.items()}

    def in_double(
        self, model: nn.Module, arguments: Arguments, *, keep_roundings: bool = False
    ) -> Output | None:
        """The same call in float64 throughout, but where it insists on less; None where it cannot run so.

        With `keep_roundings`, the call's own roundings to narrower types stay.
        """
        wide = None if keep_roundings else self._in_double(model, arguments, Float64Mode())
        return wide or self._in_double(model, arguments, contextlib.nullcontext())

    def _in_double(
        self, model: nn.Module, arguments: Arguments, how: contextlib.AbstractContextManager[object]
    ) -> Output | None:
        wider = arguments.with_leaves(
            [leaf.to(doubled_dtype(leaf.dtype), copy=True) for leaf in arguments.leaves]
        )
        default = torch.get_default_dtype()
        try:
            torch.set_default_dtype(torch.float64)
            wide = doubled(copied(model))
            with how:
                output = self._spend(wide, wider)
        except (ProblemError, TypeError, RuntimeError):
            return None
        finally:
            torch.set_default_dtype(default)
        if any(leaf.dtype != doubled_dtype(leaf.dtype) for leaf in output.leaves):
            return None
        return output

    def _arguments(self, value: Any, origin: str, taker: Callable[..., Any]) -> Arguments:
        args, kwargs = ([], value) if isinstance(value, dict) else (value, {})
        if not isinstance(args, (list, tuple)):
            args = [args]
        is_pair = len(args) == 2 and isinstance(args[0], (list, tuple)) and isinstance(args[1], dict)
        if is_pair and (_takes(taker, *args) or not _takes(taker, args, {})):
            args, kwargs = args
        with self._as_problem_error(f"{origin} returned something unusable"):
            tree, leaves = flatten([list(args), kwargs])
        self._require_dense(leaves, f"{origin} returned")
        return Arguments(tree["v"][0], tree["v"][1], leaves)

    @contextlib.contextmanager
    def _as_problem_error(self, action: str) -> Iterator[None]:
        try:
            yield
        except ProblemError:
            raise
        except Exception as error:
            if is_device_full(error):
                why = "out of device memory; choose smaller --shapes"
                raise DeviceFull(f"problem {self.problem}: {why}") from None
            raise ProblemError(
                f"problem {self.problem}: {action}: {type(error).__name__}: {error}"
            ) from error
