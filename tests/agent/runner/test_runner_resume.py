"""A run that was stopped or killed anywhere ends as an undisturbed one, and pays for no reply twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from kernelwright.agent.records.attempt_log import RunEnd
from kernelwright.agent.runner import Plan
from kernelwright.agent.runner import events as seen
from kernelwright.agent.strategies.evolve import Evolve
from kernelwright.agent.strategies.refine import Refine
from kernelwright.agent.strategies.sample import Sample

ROOT = Path(__file__).parents[3]
VERDICTS = ("COMPILE_ERROR", "WRONG_VALUES", "PASSED 1.5", "PASSED 0.9", "NO_CODE", "PASSED 2.5", "TAMPERED")

STRATEGIES = {
    "sample": Sample(samples=6),
    "refine": Refine(samples=2, turns=4),
    "evolve": Evolve(population=3, generations=3),
}


def reply_to(says: Any, request: Any) -> str:
    """A reply that depends on all that was said, so that a conversation which forgot something differs."""
    dice = random.Random(repr([request.problem, request.sample, request.turn, request.messages]))
    verdict = dice.choice(VERDICTS)
    return "no." if verdict == "NO_CODE" else says(f"{verdict} {dice.random():.6f}")


def essence(bench: Any) -> dict[Any, Any]:
    """What a run holds, but for order, times and ids."""
    archive = bench.workspace.archive()
    return {
        key: (
            attempt.status,
            attempt.speedup,
            archive.messages(attempt.completion),
            archive.reply(attempt.completion),
            attempt.evaluation is not None,
        )
        for key, attempt in bench.attempts().items()
    }


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_run_interrupted_again_and_again_ends_like_an_undisturbed_one(
    bench: Any, scripted: Any, says: Any, tmp_path: Path, strategy: str
) -> None:
    undisturbed = type(bench)(tmp_path / "undisturbed")
    plan = bench.plan(3, strategy=STRATEGIES[strategy])
    undisturbed.run(plan, scripted(lambda request: reply_to(says, request)))
    asked: list[Any] = []

    def interrupting(request: Any) -> str:
        asked.append((request.problem, request.sample, request.turn))
        if len(asked) % 4 == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return reply_to(says, request)

    summary = bench.run(plan, scripted(interrupting), completions=2)
    assert (summary.end, summary.exit_code) == (RunEnd.INTERRUPTED, 130)
    for _ in range(100):
        if summary.end is RunEnd.COMPLETE:
            break
        summary = bench.go_on(scripted(interrupting), completions=2)
    assert summary.end is RunEnd.COMPLETE
    assert essence(bench) == essence(undisturbed)
    assert len(asked) == len(set(asked)), "a reply was paid for twice"


def test_ctrl_c_waits_for_what_is_in_flight_and_begins_nothing(bench: Any, scripted: Any, says: Any) -> None:
    def script(request: Any) -> str:
        if request.sample == 5:
            os.kill(os.getpid(), signal.SIGINT)
        return says(f"PASSED 2 {request.sample}")

    provider = scripted(script, delay_s=0.01)
    summary = bench.run(bench.plan(1, strategy=Sample(samples=100)), provider, completions=4)
    assert summary.end is RunEnd.INTERRUPTED
    assert provider.answered == len(provider.requests) == summary.attempts < 20
    assert len(bench.of(seen.Interrupting)) == 1


def test_a_second_ctrl_c_stops_at_once_and_the_run_goes_on_later(
    bench: Any, scripted: Any, says: Any
) -> None:
    release = threading.Event()

    def stuck(*args: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)
        release.wait(60)
        raise AssertionError("nobody waits for this")

    honest, bench.evaluate = bench.evaluate, stuck
    provider = scripted(lambda request: says(f"PASSED 2 {request.sample}"))
    with bench.begin(bench.plan(1, strategy=Sample(samples=2))) as log, pytest.raises(KeyboardInterrupt):
        bench.batch(log, provider, completions=1).run()
    release.set()
    bench.evaluate = honest
    summary = bench.go_on(scripted(lambda request: says(f"PASSED 2 {request.sample}")))
    assert (summary.end, summary.attempts, summary.evaluated) == (RunEnd.COMPLETE, 2, 2)


def test_a_second_ctrl_c_waits_for_no_build_of_a_kernel_to_save(bench: Any, scripted: Any, says: Any) -> None:
    release, ended = threading.Event(), threading.Event()

    def stuck(_: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)
        release.wait(20)
        ended.set()

    provider = scripted(lambda request: says("PASSED 2"))
    with bench.begin(bench.plan(1, strategy=Sample(samples=1))) as log, pytest.raises(KeyboardInterrupt):
        bench.batch(log, provider, builds_plainly=stuck).run()
    assert not ended.is_set()
    release.set()
    assert [event.kernels for event in bench.of(seen.Interrupting)] == [1]
    assert bench.go_on(provider).kept == 1


def test_resuming_a_complete_run_does_nothing(bench: Any, scripted: Any, says: Any) -> None:
    bench.run(bench.plan(), scripted(lambda request: says(f"PASSED 2 {request.sample}")))
    before = essence(bench)
    judged = len(bench.judged)
    summary = bench.go_on(scripted(lambda request: pytest.fail("asked again")))
    assert (summary.end, summary.passed, len(bench.judged)) == (RunEnd.COMPLETE, 4, judged)
    assert essence(bench) == before


PROGRAM = """
import importlib.util, random, sys, time
from pathlib import Path
root, folder, strategy, asked = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
sys.path.insert(0, str(root))
def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
tools = load("tools", root / "tests/agent/conftest.py")
these = load("these", root / "tests/agent/runner/test_runner_resume.py")
bench = tools.Bench(folder)
def script(request):
    text = these.reply_to(tools.MAKE.reply, request)
    with asked.open("a") as file:
        file.write(f"{request.problem} {request.sample} {request.turn}\\n")
    return text
def slow(*args):
    time.sleep(random.random() * 0.02)
    return tools.verdict(*args)
bench.evaluate = slow
provider = tools.ScriptedProvider(script, delay_s=0.005)
archive = bench.workspace.archive()
log = bench.resume() if archive.runs() else bench.begin(bench.plan(3, strategy=these.STRATEGIES[strategy]))
print("begun", flush=True)
with log:
    summary = bench.batch(log, provider, completions=3, evaluators=2).run()
print(summary.end, flush=True)
"""


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_kill_9_anywhere_then_resume_equals_an_undisturbed_run(
    bench: Any, scripted: Any, says: Any, tmp_path: Path, strategy: str
) -> None:
    plan: Plan = bench.plan(3, strategy=STRATEGIES[strategy])
    undisturbed = type(bench)(tmp_path / "undisturbed")
    undisturbed.run(plan, scripted(lambda request: reply_to(says, request)))
    program, asked = tmp_path / "program.py", tmp_path / "asked"
    program.write_text(PROGRAM)
    command = [sys.executable, program, ROOT, bench.root, strategy, asked]
    dice = random.Random(strategy)
    for _ in range(3):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
            time.sleep(dice.uniform(0.0, 0.15))
            process.kill()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["begun", "complete"]
    assert essence(bench) == essence(undisturbed)
    # Only a reply in flight when the process died may have been asked for again: three kills, three at once.
    times = asked.read_text().splitlines()
    assert len(times) - len(set(times)) <= 3 * 3
