"""The sanitize stage: a passed candidate again, in fresh processes under tools that watch memory and threads.

An error decides only when it lies in the candidate's own code, at the evaluated shapes: memory errors that
smaller shapes show must show there too, because a candidate may be made for its shapes. Races found by
racecheck decide at any shape the candidate runs at. A report that breaks off says nothing either way.

A clean report on what passed is remembered: the same module need not be looked at twice.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Final

import torch

from kernelwright.evaluator.analysis.sanitizer_words import words_of_module
from kernelwright.evaluator.backends.registry import BACKENDS
from kernelwright.evaluator.ipc.driver_requests import VERSIONED, Expect, FindSanitizers
from kernelwright.evaluator.referee.checks import policy
from kernelwright.evaluator.referee.checks.stress import Stress
from kernelwright.evaluator.referee.checks.tool_processes import TimeLimit, ToolProcesses, ToolRun
from kernelwright.evaluator.referee.correctness.shape_variants import ShapeVariant, smaller
from kernelwright.evaluator.referee.correctness.trials import TrialPool
from kernelwright.evaluator.schema.config import EvaluationConfig, Sanitize
from kernelwright.evaluator.schema.evaluation import Sanitization, Status
from kernelwright.evaluator.schema.record import sha256_text

_COMPILERS: Final = ("cupy", "numba", "_compile_kernel", "nvrtc")
"""Ways to write a kernel that ask us for no build, beside the backends whose first call compiles."""
_NOTHING: Final = "the candidate built nothing of its own to run the tools on"


@dataclass(slots=True)
class _Findings:
    tools: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    failures: list[tuple[Status, str]] = field(default_factory=list)
    needed: bool = True
    words: set[str] = field(default_factory=set)
    """Words by which the candidate can hide from the tools."""

    def add(self, tool_run: ToolRun, *, convict: bool = True) -> None:
        """Add the findings of a run."""
        if tool_run.complete:
            self.tools.append(tool_run.label)
        else:
            self.missing.append(f"{tool_run.label}: {tool_run.why}")
        if convict:
            self.failures += tool_run.failures
        else:
            self.remarks += [
                f"{text} (at {tool_run.variant.name} sizes only)" for _, text in tool_run.failures
            ]
        self.remarks += tool_run.remarks

    def finished(self, seconds: float) -> Sanitization:
        """The record of it all."""
        why = list(self.missing)
        if self.words:
            named = ", ".join(sorted(self.words)[: policy.SHOWN_WORDS])
            why.append(f"it names {named}, by which code can hide from the tools: clean reports do not count")
        convicts, reason = self.failures[0] if self.failures else (None, "; ".join(why))
        if not self.needed:
            reason = _NOTHING
        texts = [text for _, text in self.failures]
        return Sanitization(
            ran=self.needed and (bool(convicts) or not why),
            reason=reason,
            needed=self.needed,
            convicts=convicts,
            tools=tuple(self.tools),
            findings=tuple(dict.fromkeys([*texts, *self.remarks])),
            seconds=round(seconds, 2),
        )


class Sanitizer:
    """Sanitizes candidates of one problem."""

    def __init__(self, variant: ShapeVariant, pool: TrialPool, config: EvaluationConfig) -> None:
        """`variant` is the problem at the evaluated shapes."""
        self._context = variant.context
        self._variant = variant
        self._pool = pool
        self._limit_s = config.limits.sanitize_s
        """Limit for each candidate, builds not counted."""
        self._wanted = config.sanitize
        remarking = policy.REMARKING_TOOLS if config.sanitize is Sanitize.ALL else ()
        self._device_tools = (*policy.DECIDING_TOOLS, *remarking)
        self._kind = variant.context.device.torch_device.type
        self._smaller: list[ShapeVariant] | None = None
        self._time: TimeLimit
        """Of the candidate that is being sanitized."""
        self._repeatable: bool | None = None
        self._tools = ToolProcesses(variant.context.driver)

    def skipped(self, source: str, builds: int) -> Sanitization | None:
        """The record of a candidate's evaluation without this stage; None if the stage is to run."""
        if _has_nothing_of_its_own(source, builds):
            return Sanitization(ran=False, reason=_NOTHING, needed=False)
        if self._wanted is Sanitize.OFF:
            return Sanitization(ran=False, reason="switched off")
        if self._wanted is Sanitize.AUTO and self._kind == "cpu":
            reason = "left until the kernel is to be kept: on a CPU it costs another build"
            return Sanitization(ran=False, reason=reason)
        return None

    def keep_ready(self) -> None:
        """On a GPU, have a process of each tool kept ready: importing torch under a tool takes longest."""
        driver = self._context.driver
        if self._kind != "cuda" or self._wanted is Sanitize.OFF or driver.ask(FindSanitizers()).missing:
            return
        for tool in self._device_tools:
            driver.ask(Expect(count=0, tool=tool))

    def sanitize(
        self,
        source: str,
        *,
        builds: int | None = None,
        call_ms: float | None = None,
        repeatable: bool | None = None,
    ) -> Sanitization:
        """Run the tools and stress on one candidate.

        `builds`, `call_ms` and `repeatable` are known where it was just evaluated: extensions of its own, the
        time of a call, and if outputs repeat bit by bit.
        """
        missing = self._context.driver.ask(FindSanitizers()).missing
        if missing:
            return Sanitization(ran=False, reason=missing)
        kept = self._remembered(source) if call_ms is not None else None
        if kept is not None:
            return kept
        started = time.monotonic()
        self._time = TimeLimit(
            self._context.driver, self._limit_s + (policy.COMPILE_S if _compiles_itself(source) else 0.0)
        )
        self._repeatable = repeatable
        findings = _Findings(words={word for _, word in words_of_module(source)})
        if builds is not None and _has_nothing_of_its_own(source, builds):
            findings.needed = False
        else:
            self._time.extend(self._context.driver.hold(exclusive=False))
            with contextlib.closing(self._begin_stress()) as stress:
                if self._kind == "cpu":
                    self._run_cpu_tools(source, findings, call_ms, stress)
                else:
                    self._run_gpu_tools(source, findings, stress)
        found = findings.finished(time.monotonic() - started)
        if call_ms is not None:
            self._remember(source, found)
        return found

    def _remembered(self, source: str) -> Sanitization | None:
        """The clean report on a candidate that passed in an earlier evaluation."""
        kept = self._context.driver.recall(self._about(source)).get("sanitization")
        if not isinstance(kept, dict):
            return None
        return Sanitization.model_validate(kept).model_copy(update={"remembered": True, "seconds": 0.0})

    def _remember(self, source: str, found: Sanitization) -> None:
        if found.ran and found.convicts is None:
            facts = {"sanitization": found.model_dump(mode="json")}
            self._context.driver.remember(facts, self._about(source))

    def _about(self, source: str) -> str:
        """Everything that decides what the tools see, but for the evaluator and the compiler."""
        context, reference = self._context, self._context.reference
        overrides = json.dumps(context.overrides, sort_keys=True, default=repr)
        parts = [source, reference.source, overrides, self._variant.name, context.dtype, context.math]
        parts += [str(reference.backward is not None), str(self._limit_s), torch.__version__]
        parts += [str(torch.version.cuda), *self._device_tools]
        return f"{VERSIONED}sanitized:{sha256_text(json.dumps(parts))}"

    def _begin_stress(self) -> Stress:
        share_s = self._limit_s * policy.STRESS_SHARE
        seconds = max(policy.LEAST_STRESS_S, min(policy.STRESS_S, share_s))
        call_s = min(policy.SANITIZED_CALL_S, self._limit_s)
        return Stress(self._context, self._pool, seconds=seconds, call_s=call_s)

    def _run_cpu_tools(self, source: str, findings: _Findings, call_ms: float | None, stress: Stress) -> None:
        """AddressSanitizer at the evaluated shapes or smaller ones, then the plain build under stress."""
        tool_run = self._tried("address", self._variants_to_try(fast=self._is_quick(call_ms)), source)
        if tool_run.failures and tool_run.variant is not self._variant:
            (again,) = self._tools.run([("address", self._variant)], source, self._time)
            findings.add(tool_run, convict=False)
            tool_run = again
        findings.add(tool_run)
        if not findings.failures:
            self._look_for_races(source, findings, tool_run, stress)

    def _run_gpu_tools(self, source: str, findings: _Findings, stress: Stress) -> None:
        """memcheck at the evaluated shapes, the slower tools at smaller ones: all at once.

        What fails beside the others for another reason than the tool's findings is tried again by itself.
        """
        first = [(tool, next(self._variants_of(tool))) for tool in self._device_tools]
        for tool_run in self._tools.run(first, source, self._time, stress.prepare(source)):
            tried = tool_run
            if tool_run.trouble and not tool_run.failures:
                tried = self._tried(tool_run.tool, self._variants_of(tool_run.tool), source)
            findings.add(tried)
            if findings.failures:
                return
            builds_nothing = not tried.trouble and _has_nothing_of_its_own(source, tried.builds)
            if tool_run.tool == "memcheck" and builds_nothing:
                break
        self._look_for_races(source, findings, tried, stress)

    def _tried(self, tool: str, variants: Iterator[ShapeVariant], source: str) -> ToolRun:
        """Run a tool by itself, at each of these shapes until the candidate runs there."""
        for variant in variants:
            (tool_run,) = self._tools.run([(tool, variant)], source, self._time)
            if tool_run.failures or not tool_run.trouble:
                break
        return tool_run

    def _variants_of(self, tool: str) -> Iterator[ShapeVariant]:
        return iter((self._variant,)) if tool == "memcheck" else self._variants_to_try(fast=False)

    def _look_for_races(self, source: str, findings: _Findings, tool_run: ToolRun, stress: Stress) -> None:
        """Stress, which also shows whether a candidate does in sight of a tool what it does otherwise."""
        status, text = stress.examine(source, repeatable=self._repeatable)
        if status is not None:
            findings.failures.append((status, text))
        elif text:
            findings.remarks.append(text)
        findings.words |= stress.hidden_by()
        if _has_nothing_of_its_own(source, stress.builds):
            findings.needed = False
        elif stress.builds and not tool_run.builds:
            findings.missing.append("the candidate built nothing while a tool watched it")

    def _is_quick(self, call_ms: float | None) -> bool:
        if call_ms is None:
            return False
        return call_ms * policy.SLOWDOWN * policy.SANITIZED_CALLS / 1e3 < self._limit_s * policy.QUICK_SHARE

    def _variants_to_try(self, *, fast: bool) -> Iterator[ShapeVariant]:
        """Shapes to try, until the candidate runs at one of them; the evaluated ones are the last resort."""
        if not fast and self._variant.elements > policy.LARGEST_ELEMENTS[self._kind]:
            if self._smaller is None:
                self._smaller = list(smaller(self._variant))
            yield from self._smaller[: policy.SMALLER_SHAPES]
        yield self._variant


@cache
def _compilers() -> re.Pattern[str]:
    backends = (backend for backend in BACKENDS.values() if backend.compiles_when_called)
    modules = [package.module for backend in backends for package in backend.requires]
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, (*modules, *_COMPILERS)))})\b")


def _compiles_itself(source: str) -> bool:
    return _compilers().search(source) is not None


def _has_nothing_of_its_own(source: str, builds: int) -> bool:
    return builds == 0 and not _compiles_itself(source)
