"""Compares a time with the roofline: the counted work, the bytes that must move, the device's peaks."""

from __future__ import annotations

import torch
from torch import nn

from kernelwright.evaluator.analysis.plausibility import floor_ms, roofline_ms
from kernelwright.evaluator.ipc.tensor_tree import flatten
from kernelwright.evaluator.referee.checks import policy
from kernelwright.evaluator.referee.checks.device_peaks import DevicePeaks, measure_peaks
from kernelwright.evaluator.referee.correctness.trials import TrialPool
from kernelwright.evaluator.referee.reference.dynamo_stub import without_compiler
from kernelwright.evaluator.referee.reference.flop_counter import OpCounts
from kernelwright.evaluator.referee.reference.flop_counter import count as count_work
from kernelwright.evaluator.referee.reference.reference import Arguments, copied
from kernelwright.evaluator.referee.worker.setup import ProblemContext
from kernelwright.evaluator.schema.errors import ProblemError
from kernelwright.evaluator.schema.evaluation import Plausibility


class Roofline:
    """Assesses times of one problem's candidates."""

    def __init__(self, context: ProblemContext, pool: TrialPool) -> None:
        self._context = context
        self._pool = pool
        self._rates: DevicePeaks | None = None
        self._work = OpCounts()
        self._certain_bytes: int | None = None

    def count(self) -> None:
        """Count the work of a call, once; the device may be shared meanwhile."""
        model, arguments = self._pool.draws[0].model, self._pool.bases[0].arguments
        try:
            answer = self._context.reference.answer
            self._work = count_work(copied(model), arguments.copied(), answer=answer)
        except (RuntimeError, TypeError):
            self._work = OpCounts(complete=False)
        if self._context.device.torch_device.type == "cuda":
            self._certain_bytes = certain_bytes(model, arguments)

    def measure(self) -> None:
        """Find out what the device can do; to be called while nothing foreign runs on it."""
        model, arguments = self._pool.draws[0].model, self._pool.bases[0].arguments
        self._rates = measure_peaks(
            self._context.device,
            self._context.driver,
            math=self._context.math,
            dtype=_dtype(arguments, model),
        )

    def assess(self, measured_ms: float, *, calls: int) -> Plausibility | None:
        """The record of a call's time in batches of `calls`; None before `measure`."""
        if self._rates is None:
            return None
        rates, work = self._rates, self._work
        moved = work.read_bytes + work.written_bytes
        fastest = roofline_ms(
            moved, work.flops, bytes_per_ms=rates.bytes_per_ms, flops_per_ms=rates.flops_per_ms
        )
        floor = None
        if self._certain_bytes is not None:
            floor = floor_ms(
                self._certain_bytes,
                calls=calls,
                cache_bytes=rates.cache_bytes,
                bytes_per_ms=rates.bytes_per_ms,
            )
        return Plausibility(
            bytes_moved=moved,
            flops=work.flops if work.complete else None,
            certain_bytes=self._certain_bytes,
            floor_ms=floor,
            speed_of_light=fastest / measured_ms if work.complete and measured_ms > 0 else None,
            dense=work.flops > 0 and (work.masks or work.sums_products),
            gigabytes_per_s=rates.bytes_per_ms / 1e6,
            teraflops=rates.flops_per_ms / 1e9,
        )


def certain_bytes(model: nn.Module, arguments: Arguments) -> int:
    """Bytes any kernel must move: inputs that the outputs provably depend on, and computed outputs.

    Dependence is a gradient that is not zero, at the grain memory is fetched in; where there are no gradients
    nothing is certain about the inputs. Outputs that only repeat inputs could be views.
    """
    floating = [leaf.is_floating_point() for leaf in arguments.leaves]
    leaves = [
        leaf.detach().clone().requires_grad_() if wanted else leaf.clone()
        for leaf, wanted in zip(arguments.leaves, floating, strict=True)
    ]
    inputs = [leaf for leaf in leaves if leaf.requires_grad]
    args, kwargs = arguments.with_leaves(leaves).values()
    try:
        with without_compiler(), torch.enable_grad():
            _, outputs = flatten(copied(model)(*args, **kwargs), numbers_as_tensors=True)
            written = sum(_computed_bytes(leaf.detach(), arguments.leaves) for leaf in outputs)
            graded = [leaf for leaf in outputs if leaf.requires_grad]
            if not (inputs and graded):
                return written
            grads = torch.autograd.grad(
                graded, inputs, [torch.randn_like(leaf) for leaf in graded], allow_unused=True
            )
    except (ProblemError, RuntimeError, TypeError):
        return 0
    originals = [leaf for leaf, wanted in zip(arguments.leaves, floating, strict=True) if wanted]
    read: dict[int, int] = {}
    for leaf, grad in zip(originals, grads, strict=True):
        if grad is not None:
            key = leaf.untyped_storage()._cdata
            read[key] = max(read.get(key, 0), min(_touched_bytes(grad), leaf.untyped_storage().nbytes()))
    return written + sum(read.values())


def _touched_bytes(grad: torch.Tensor) -> int:
    """Bytes of the sectors that hold a gradient that is not zero."""
    flags = grad.reshape(-1) != 0
    per_sector = max(1, policy.SECTOR_BYTES // grad.element_size()) if grad.is_contiguous() else 1
    whole = flags[: flags.numel() // per_sector * per_sector].view(-1, per_sector)
    return int(whole.any(1).sum()) * per_sector * grad.element_size()


def _computed_bytes(output: torch.Tensor, inputs: list[torch.Tensor]) -> int:
    """Bytes of an output, unless its values can be found among the inputs."""
    if output.numel() == 0:
        return 0
    # Whole numbers only: a float cannot name every element of a large tensor, and may round past its end.
    places = torch.arange(policy.SAMPLES, device=output.device) * (output.numel() - 1) // (policy.SAMPLES - 1)
    sample = output.flatten()[places]
    found = sum(
        any(bool((leaf == value).any()) for leaf in inputs if leaf.dtype == output.dtype) for value in sample
    )
    if found > policy.SAMPLES // 2:
        return 0
    return min(output.numel() * output.element_size(), output.untyped_storage().nbytes())


def _dtype(arguments: Arguments, model: nn.Module) -> torch.dtype:
    tensors = [*arguments.leaves, *model.parameters()]
    floating = [tensor for tensor in tensors if tensor.is_floating_point()]
    return max(floating, key=torch.Tensor.numel).dtype if floating else torch.float32
