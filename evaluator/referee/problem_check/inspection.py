"""Inspects one problem for flaws: counts its work, runs it, and tries trivial outputs on it."""

from __future__ import annotations

import random
import re
import time
import traceback
from typing import Any, Final

import torch
from torch import nn

from kernelwright.evaluator.devices import Device, open_device
from kernelwright.evaluator.ipc.driver_requests import Begin
from kernelwright.evaluator.ipc.model_init import apply_math
from kernelwright.evaluator.ipc.referee_messages import InspectProblem
from kernelwright.evaluator.referee.checks.device_peaks import measure_peaks
from kernelwright.evaluator.referee.correctness.limits import limit
from kernelwright.evaluator.referee.correctness.op_trace import trace_call
from kernelwright.evaluator.referee.correctness.tolerance import expect
from kernelwright.evaluator.referee.correctness.trials import TrialPool
from kernelwright.evaluator.referee.device_memory import shortage
from kernelwright.evaluator.referee.problem_check import policy
from kernelwright.evaluator.referee.problem_check.confirmation import confirmed
from kernelwright.evaluator.referee.problem_check.sensitivity import Sensitivity
from kernelwright.evaluator.referee.problem_check.trivial_answers import (
    Examiner,
    Suspicion,
    alike,
    differ,
    of_half_precision,
    of_identity,
    of_values,
)
from kernelwright.evaluator.referee.reference.flop_counter import OpCounts, count_problem_work
from kernelwright.evaluator.referee.reference.input_structure import computable
from kernelwright.evaluator.referee.reference.latency import measure_latency, with_threads
from kernelwright.evaluator.referee.reference.reference import Arguments, Output, Reference
from kernelwright.evaluator.referee.worker.driver_link import DriverLink
from kernelwright.evaluator.schema.config import EvaluationConfig, Math
from kernelwright.evaluator.schema.errors import ProblemError
from kernelwright.evaluator.schema.problem_report import ADVICE, ProblemFlaw, Severity

_MEMORY: Final = re.compile(r"out of (device )?memory|can't allocate memory|not enough memory")


UNFIT: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""Exceptions of torch, or the problem, where values are of a kind that it cannot compute with."""


class _FatalFlaw(Exception):
    """Ends an inspection by a flaw, whose name and detail are its arguments."""


class _TimeUp(Exception):
    """Trials would take too long."""


class ProblemInspection:
    """Inspects one problem; collects flaws and numbers."""

    def __init__(self, driver: DriverLink, asked: InspectProblem) -> None:
        self._asked = asked
        self._config = EvaluationConfig.model_validate(asked.config)
        self._device: Device = open_device(asked.device)
        self._driver = driver
        self._work = OpCounts()
        self._remarks: list[ProblemFlaw] = []
        self._guessable: list[str] = []
        self._numbers: dict[str, float] = {}

    def vet(self) -> dict[str, Any]:
        """Inspect it; return the fields of a report, as JSON."""
        self._driver.ask(Begin())
        apply_math(self._config.math.value)
        try:
            if self._fits():
                self._examine()
        except ProblemError as error:
            self._add_flaw("too_big" if _MEMORY.search(str(error)) else "raises", str(error))
        except torch.OutOfMemoryError as error:
            self._add_flaw("too_big", f"out of device memory where answers are judged: {error}")
        except SystemExit as error:
            self._add_flaw("raises", f"the problem asks to end the process: {error!r}")
        except _FatalFlaw as reason:
            self._add_flaw(*reason.args)
        except UNFIT as error:
            line = traceback.format_exception_only(error)[-1].strip()
            self._add_flaw("raises", f"its values cannot be looked at here: {line}")
        remarks = list({remark.model_dump_json(): remark for remark in self._remarks}.values())
        return {
            "remarks": [remark.model_dump(mode="json") for remark in remarks],
            "guessable": self._guessable,
            "memory_bytes": self._work.peak_bytes or None,
            "flops": self._work.flops if self._work.complete else None,
            "device_name": device_name(self._device),
            **self._numbers,
        }

    def _fits(self) -> bool:
        asked = self._asked
        self._work = work = count_problem_work(
            asked.problem, asked.source, asked.overrides, dtype=self._config.dtype.value
        )
        is_too_big = shortage(work, self._device.free_bytes())
        if is_too_big:
            self._add_flaw("too_big", is_too_big)
        rates = measure_peaks(self._device, self._driver, math=self._config.math.value, dtype=torch.float32)
        estimated_ms, fixed_ms = (
            max(flops / rates.flops_per_ms, moved / rates.bytes_per_ms)
            for flops, moved in ((work.flops, work.moved_bytes), (work.fixed_flops, work.fixed_bytes))
        )
        if work.complete:
            self._numbers["estimated_ms"] = estimated_ms
        # Twice the limit: a rate measured on a busy machine is no proof.
        if estimated_ms > 2 * self._longest_ms:
            self._add_flaw(
                "too_slow", f"a call takes about {estimated_ms / 1e3:.0f} s by its operations alone"
            )
            return False
        if work.sums_products:
            self._add_flaw(
                "redundant_computation", "a product of matrices is summed over its rows or columns"
            )
        if work.complete and fixed_ms > policy.MAX_FIXED_WORK * estimated_ms:
            self._add_flaw("fixed_work", f"about {fixed_ms / estimated_ms:.0%} of the work needs no input")
        return not is_too_big

    def _examine(self) -> None:
        asked = self._asked
        reference = Reference(
            asked.problem,
            asked.source,
            asked.overrides,
            device=self._device.torch_device,
            dtype=self._config.dtype.value,
        )
        is_short = self._numbers.get("estimated_ms", policy.SHORT_CALL_MS) < policy.SHORT_CALL_MS
        # Threads that wait for each other on a busy machine make short operations many times slower.
        with with_threads(1 if is_short else torch.get_num_threads()):
            model, arguments = self._answers(reference)
        timed = measure_latency(self._device, model, arguments)
        self._numbers["measured_ms"] = timed.median_ms
        slow = timed.remark(self._work.operations)
        self._remarks += [slow] if slow is not None else []

    def _answers(self, reference: Reference) -> tuple[nn.Module, Arguments]:
        """Look at inputs, parameters and outputs; return a model and inputs to time a call with."""
        first, other = self._draws(reference)
        model = reference.model(policy.WEIGHT_SEEDS[0])
        varied = reference.model(policy.WEIGHT_SEEDS[1], vary=True)
        output = self._first_call(reference, model, first)
        if not self._work.complete:
            self._note("not_weighed")
        self._parameters(model, varied)
        self._values(output)
        if reference.effects.inputs:
            self._note("mutates_input", ", ".join(reference.effects.names))
        elif reference.effects.state:
            self._note("changes_state", ", ".join(reference.effects.names))
        if self._repeats(reference, first):
            answer = reference.call(varied, other)
            if alike(answer.leaves, output.leaves):
                self._try_trivial_answers(reference, (model, first), (varied, other), answer)
            else:
                self._add_flaw("varying_output_shape", "two draws of inputs give answers of different shapes")
        return model, first

    def _draws(self, reference: Reference) -> tuple[Arguments, Arguments]:
        draws = []
        seeded = False
        for seed in policy.INPUT_SEEDS:
            draws.append(reference.inputs(seed))
            seeded |= torch.initial_seed() != seed
        first, other = draws
        same = [
            index
            for index, (a, b) in enumerate(zip(first.leaves, other.leaves, strict=False))
            if a.numel() and torch.equal(a, b)
        ]
        if same and seeded:
            self._add_flaw("fixed_seed", f"get_inputs() seeds the generator; {len(same)} inputs never change")
        elif same:
            everything = len(same) == len(first.leaves)
            text = (
                "no input" if everything else f"of {len(first.leaves)} inputs, number {_listed(same)} never"
            )
            self._add_flaw(
                "constant_inputs",
                f"{text} {'ever ' if everything else ''}changes from draw to draw",
                severity=Severity.FLAW if everything else Severity.NOTE,
            )
        return first, other

    def _first_call(self, reference: Reference, model: nn.Module, arguments: Arguments) -> Output:
        began = time.perf_counter()
        output = reference.call(model, arguments)
        self._device.synchronize()
        took_ms = (time.perf_counter() - began) * 1e3
        if all(output.numbers):
            raise _FatalFlaw("no_tensor_output", "forward returns Python numbers")
        if any(leaf.numel() == 0 for leaf in output.leaves):
            raise _FatalFlaw("empty_output", "an output has no element")
        if took_ms > self._longest_ms:
            self._numbers["measured_ms"] = took_ms
            raise _FatalFlaw("too_slow", f"a call took {took_ms / 1e3:.1f} s")
        return output

    def _values(self, output: Output) -> None:
        for index, leaf in enumerate(output.leaves):
            if leaf.is_floating_point() or leaf.is_complex():
                for name, where in (
                    ("nan_output", leaf.isnan()),
                    ("infinite_output", computable(leaf).isinf()),
                ):
                    share = float(where.double().mean())
                    if share:
                        self._add_flaw(name, f"{share:.2%} of output {index}")

    def _parameters(self, model: nn.Module, varied: nn.Module) -> None:
        """Parameters left at their constants; the second weight draw should have moved them."""
        other = dict(varied.named_parameters())
        constant = [
            (name, name not in other or torch.equal(other[name], parameter))
            for name, parameter in model.named_parameters()
            if parameter.numel() > 1 and bool((parameter == parameter.flatten()[0]).all())
        ]
        stuck = [name for name, equal in constant if equal]
        if stuck:
            self._add_flaw("default_parameters", f"{_listed(stuck)}: one number each, whatever the seed")
        elif constant:
            self._note("default_parameters", f"{_listed([name for name, _ in constant])}; varied here")

    def _repeats(self, reference: Reference, arguments: Arguments) -> bool:
        torch.manual_seed(1)
        fresh = reference.call(reference.model(policy.WEIGHT_SEEDS[0]), arguments)
        model = reference.model(policy.WEIGHT_SEEDS[0])
        torch.manual_seed(2)
        again = reference.call(model, arguments)
        beyond, bits = differ(fresh, again)
        if beyond:
            self._add_flaw("nondeterministic", "two calls with the same inputs and weights disagree")
            return False
        reference.call(model, arguments)
        if differ(fresh, reference.call(model, arguments))[0]:
            self._add_flaw(
                "depends_on_call_count", "the third call of a model answers differently from its first"
            )
            return False
        if bits:
            self._note("varies_in_bits", "two calls agree but for rounding")
        return True

    def _try_trivial_answers(
        self,
        reference: Reference,
        one: tuple[nn.Module, Arguments],
        two: tuple[nn.Module, Arguments],
        answer: Output,
    ) -> None:
        model, arguments = one
        math = self._config.math.value
        trace = trace_call(reference, model, arguments)
        expected = expect(reference, model, arguments, math, trace)
        if not expected.in_double:
            self._note("no_double_reference")
        examiner = Examiner(expected, limit(math, zero_mean=False, terms=trace.terms))
        suspicions = [*of_values(examiner, answer)]
        found, guessable = of_identity(examiner, arguments)
        suspicions += found
        self._guessable += guessable
        until = time.monotonic() + policy.SENSITIVITY_S
        sensitivity = Sensitivity(reference, model, arguments, examiner, deadline=until)
        suspicions += sensitivity.of_inputs(two[1])
        suspicions += sensitivity.of_parameters(two[0])
        self._guessable += sensitivity.guessable
        if sensitivity.untried:
            self._note("not_all_tried", f"{sensitivity.untried} inputs, parameters or buffers")
        if self._config.math is Math.FP32:
            seed = policy.WEIGHT_SEEDS[0]
            found, guessable = of_half_precision(reference, arguments, examiner, seed=seed, trace=trace)
            suspicions += found
            self._guessable += guessable
        if suspicions:
            self._confirm(reference, suspicions)

    def _confirm(self, reference: Reference, suspicions: list[Suspicion]) -> None:
        """Record what trials confirm, as far as time goes."""
        left, until = list(suspicions), time.monotonic() + policy.CONFIRMATION_S

        def look_at_clock() -> None:
            if time.monotonic() > until:
                raise _TimeUp

        try:
            secret = random.Random(policy.TRIAL_SEED)
            pool = TrialPool(reference, math=self._config.math.value, secret=secret, pause=look_at_clock)
            while left:
                look_at_clock()
                self._remarks += confirmed(left[:1], pool, reference)
                del left[0]
        except _TimeUp:
            names = dict.fromkeys(suspicion.flaw.name for suspicion in left)
            self._note("not_all_tried", f"suspected and not confirmed: {', '.join(names)}")

    @property
    def _longest_ms(self) -> float:
        return self._config.limits.total_s * 1e3 / policy.REFERENCE_CALLS

    def _add_flaw(self, name: str, detail: str, *, severity: Severity = Severity.FLAW) -> None:
        self._remarks.append(ProblemFlaw(name=name, severity=severity, detail=detail))

    def _note(self, name: str, detail: str = "") -> None:
        self._add_flaw(name, detail, severity=Severity.NOTE)


def known_flaws(reference: Reference, pool: TrialPool) -> list[str]:
    """Names of flaws that show in trials; for problems that were never inspected.

    Raises:
        ProblemError: its answers differ so much from call to call that zeros pass for one.
    """
    base, other = pool.bases[0], pool.bases[1]
    examiner = Examiner(base.expected, base.limit)
    flaws = []
    if base.arguments.leaves and all(map(torch.equal, base.arguments.leaves, other.arguments.leaves)):
        reference.inputs(policy.INPUT_SEEDS[0])
        flaws.append("fixed_seed" if torch.initial_seed() != policy.INPUT_SEEDS[0] else "constant_inputs")
    if differ(base.expected.output, reference.call(pool.draws[0].model, base.arguments))[0]:
        if examiner.accepts([torch.zeros_like(leaf) for leaf in examiner.leaves]).ours:
            raise ProblemError(
                "two calls with the same inputs differ so much that zeros pass for an answer: nothing can be "
                f"judged; {ADVICE['nondeterministic']}"
            )
        return [*flaws, "nondeterministic"]
    elsewhere = pool.draws[1].trials[0].expected.output
    if alike(elsewhere.leaves, examiner.leaves):
        flaws += [flaw.name for flaw in confirmed(of_values(examiner, elsewhere), pool, reference)]
    return list(dict.fromkeys(flaws))


def device_name(device: Device) -> str:
    """The name of a GPU; empty for a CPU."""
    kind = device.torch_device
    return torch.cuda.get_device_name(kind) if kind.type == "cuda" else ""


def _listed(names: list[Any]) -> str:
    shown = ", ".join(map(str, names[:4]))
    return f"{shown} and {len(names) - 4} more" if len(names) > 4 else shown
