"""One evaluation in words, for the terminal and for pages."""

from __future__ import annotations

from collections.abc import Iterator

from kernelwright.agent.records.durations import milliseconds, seconds
from kernelwright.agent.records.score_policy import exclusion_reason, policy_of
from kernelwright.evaluator import Evaluation, Measurement, Timing


def facts_of(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    """Everything people want to know of it, as label and value, the most telling first.

    Texts of strangers are among the values as they are.
    """
    if evaluation.detail:
        yield "why", evaluation.detail
    if evaluation.measurement is not None:
        yield from _speed(evaluation, evaluation.measurement)
    yield from _values(evaluation)
    for finding in evaluation.findings:
        if finding.message not in evaluation.detail:
            place = f"line {finding.line}: " if finding.line is not None else ""
            yield "screening", f"{place}{finding.message} ({finding.rule})"
    for build in evaluation.builds:
        how = "from the cache" if build.cached else f"built in {seconds(build.seconds)}"
        yield "build", f"{build.name}: {how if build.ok else 'failed'}, {build.tier} headers"
        for kernel in build.resources:
            spilled = f", {kernel.stack_bytes:,} bytes spilled" if kernel.stack_bytes else ""
            used = f"{kernel.registers} registers, {kernel.shared_bytes:,} bytes shared{spilled}"
            yield "kernel", f"{kernel.kernel}: {used}"
    if evaluation.problem_flaws:
        yield "problem", f"flawed: {', '.join(evaluation.problem_flaws)}"
    if evaluation.attribution is not None:
        yield "track", f"{evaluation.attribution.track} ({evaluation.attribution.source})"
    yield from _counters(evaluation)
    if evaluation.sanitization is not None:
        sanitized = evaluation.sanitization
        tools = ", ".join(sanitized.tools) + (", in an earlier evaluation" if sanitized.remembered else "")
        untold = f"not run: {sanitized.reason}" if sanitized.needed else "nothing to run the tools on"
        yield "sanitized", tools if sanitized.ran else untold
    yield from _surroundings(evaluation)


def _counters(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    counters = evaluation.counters
    if counters is None:
        return
    if not counters.ran:
        yield "counters", f"not read: {counters.reason}"
    for kernel in counters.kernels:
        units = {
            "compute": kernel.compute_percent,
            "memory": kernel.memory_percent,
            "DRAM": kernel.dram_percent,
        }
        used = ", ".join(f"{unit} {percent:.0f} %" for unit, percent in units.items() if percent is not None)
        yield "counters", f"{kernel.kernel.partition('(')[0]}: {milliseconds(kernel.milliseconds)}; {used}"


def _speed(evaluation: Evaluation, measured: Measurement) -> Iterator[tuple[str, str]]:
    low, high = measured.interval.low, measured.interval.high
    if evaluation.speedup is not None:
        why = exclusion_reason(evaluation)
        mark = f", not to be compared: {why}" if why else ""
        told = f"{evaluation.speedup:.2f}× over {measured.against} (95 %: {low:.2f} to {high:.2f}){mark}"
        yield "speedup", told
    times = [f"candidate {milliseconds(measured.candidate.median_ms)}"]
    times += [f"{name} {milliseconds(timing.median_ms)}" for name, timing in measured.baselines.items()]
    yield "time", f"{', '.join(times)}; {measured.candidate.calls} calls, {measured.inputs} inputs"
    yield from _charges(measured.candidate)
    for reason in measured.impossible.values():
        yield "baseline", reason
    yield from _roofline(evaluation, measured.candidate.median_ms)
    noise = (
        [f"±{measured.noise_floor:.1%} baseline against itself"] if measured.noise_floor is not None else []
    )
    if measured.process_spread is not None:
        assumed = " (assumed)" if measured.spread_assumed else ""
        noise.append(f"{measured.process_spread:.1%} between processes{assumed}")
    state = evaluation.environment.state if evaluation.environment else {}
    noise += [f"{name} {value}" for name, value in state.items() if name.endswith("load")]
    if noise:
        yield "noise", ", ".join(noise)


def _charges(timing: Timing) -> Iterator[tuple[str, str]]:
    """Time that counts although the candidate's own clock does not hold it."""
    charged = [f"{name} {milliseconds(spent)}" for name, spent in timing.charges.items() if spent > 0]
    if timing.clock != "inner" and charged:
        yield "charged", f"{', '.join(charged)} a call, beyond its own clock"


def _roofline(evaluation: Evaluation, median_ms: float) -> Iterator[tuple[str, str]]:
    limits = evaluation.plausibility
    if limits is None:
        return
    rates = [f"{limits.bytes_moved / median_ms / 1e6:,.0f} GB/s"]
    if limits.flops:
        rates.append(f"{limits.flops / median_ms / 1e9:,.2f} TFLOP/s")
    if limits.speed_of_light is not None:
        share = limits.speed_of_light
        rates.append(_share(share, is_dense=limits.dense, is_beaten=limits.is_beaten))
    if limits.gigabytes_per_s and limits.teraflops:
        moving = limits.bytes_moved / limits.gigabytes_per_s / 1e6
        computing = (limits.flops or 0) / limits.teraflops / 1e9
        rates.append("bound by memory" if moving >= computing else "bound by arithmetic")
    yield "rate", ", ".join(rates)


def _share(share: float, *, is_dense: bool, is_beaten: bool) -> str:
    if is_dense and share > 1:
        return "faster than the roofline of the dense form: it skips masked work"
    if is_beaten:
        return "faster than the roofline of the reference's operations: it does less"
    if is_dense:
        return f"{share:.0%} of the roofline of the dense form, some of which may be skipped"
    return f"{share:.0%} of the roofline" if share <= 1 else "at the roofline, as measured"


def _values(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    checked = evaluation.verification
    if checked is None:
        return
    if checked.error_ratio is not None and checked.mismatch is None:
        yield (
            "error",
            f"{checked.error_ratio:.3g} times the reference's own rounding; "
            f"the tolerance is {checked.limit_ratio:.3g}; {checked.trials} trials",
        )
    if checked.guarded:
        yield "memory", f"nothing beyond the ends of: {', '.join(checked.guarded)}"
    if checked.other_sizes:
        yield "sizes", ", ".join(f"{status} at {name}" for name, status in checked.other_sizes.items())
    if checked.gradients:
        yield "gradients", ", ".join(name.removeprefix("gradient of ") for name in checked.gradients)
    if checked.effects:
        yield "effects", f"compared after each call, too: {', '.join(checked.effects)}"
    never = [
        *checked.constant_inputs,
        *(["the size of random weights"] if checked.weight_factor == 1 else []),
    ]
    if never:
        yield "never varied", ", ".join(never)
    wrong = checked.mismatch
    if wrong is None:
        return
    pattern = f", {wrong.pattern}" if wrong.pattern else ""
    yield "wrong", f"{wrong.wrong:,} of {wrong.total:,} values{pattern} ({wrong.trial} inputs)"
    for index, expected, actual in zip(wrong.first_indices, wrong.expected, wrong.actual, strict=False):
        yield "", f"{wrong.output}[{', '.join(map(str, index))}] is {actual:.6g}, expected {expected:.6g}"


def _surroundings(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    where, policy = evaluation.environment, policy_of(evaluation)
    yield "policy", f"{policy.id}: {policy.terms}"
    if where is not None:
        box = where.sandbox
        seccomp = "seccomp" if box.seccomp else "no seccomp"
        cuda = f", CUDA {where.cuda}" if where.cuda else ""
        yield "where", f"{where.device_name}, {where.threads} threads, torch {where.torch}{cuda}"
        yield "sandbox", f"{box.tier}, {seccomp}, {box.limits}, {box.uid} uid"
    if evaluation.stage_seconds:
        spent = evaluation.stage_seconds
        order = [stage for stage in type(evaluation.stage) if stage in spent]
        notes = _stage_notes(evaluation)
        told = (f"{stage} {seconds(spent[stage])}{notes.get(stage, '')}" for stage in order)
        yield "stages", ", ".join(told)


def _stage_notes(evaluation: Evaluation) -> dict[str, str]:
    spent = evaluation.stage_seconds.get("build", 0.0)
    compiling = sum(build.seconds for build in evaluation.builds)
    notes = {"build": " (precompiled headers included)"} if spent > 2 * compiling + 5 else {}
    if "compile" in evaluation.config.baselines and evaluation.measurement is not None:
        on_cpu = evaluation.environment is None or evaluation.environment.device == "cpu"
        notes["time" if on_cpu else "open"] = " (torch.compile of the reference included)"
    return notes
