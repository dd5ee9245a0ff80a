"""Changes the code that decides scores, one place at a time, and counts how many changes the tests notice.

    python tests/benchmarks/mutants.py                   # the stated sample; goes on where it was interrupted
    python tests/benchmarks/mutants.py --only timing/    # of the sample, what lies in these files
    python tests/benchmarks/mutants.py --again           # survivors once more, after tests were added

A mutant is killed when one of the tests that `TESTS` names for its file fails. They run in copies of the
tree; results stay in `build/mutants.jsonl`. Of the libraries, mutmut chooses a mutant by an environment
variable, which sandboxed processes start without, and cosmic-ray has one test command for all files and never
leaves a call out, which is the mutant that survived here most.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.benchmarks.support.mutations import Finder, Mutant  # noqa: E402 - after the path is set

RESULTS = ROOT / "build" / "mutants.jsonl"
SAMPLE, SEED, WORKERS = 150, 17, 2
TIMEOUT_S = 900
"""Of one mutant's tests, on a busy machine."""
TESTS = """
  evaluator/referee/timing/claimed_time   claimed_time charged_turns
  evaluator/referee/timing/statistics     statistics claimed_time charged_turns
  evaluator/referee/timing/speedup        speedup
  evaluator/referee/timing/tamper_checks  tamper_checks answer_samples evaluate_candidate
  evaluator/referee/timing/timing_loop   timing_loop evaluate_candidate
  evaluator/referee/timing/batch_size     batch_size
  evaluator/referee/timing/timed_inputs   timed_inputs timed_outputs small_inputs evaluate_candidate
  evaluator/referee/timing/timed_outputs  timed_outputs timed_inputs
  evaluator/referee/timing/policy         statistics claimed_time charged_turns timing_loop batch_size
                                          timed_inputs tamper_checks candidate_timer evaluate_candidate
  evaluator/referee/timing/baseline/*     candidate_timer batch_size memory_of_calls
                                          compiled_reference evaluate_candidate
  evaluator/referee/timing/*              batch_size candidate_timer evaluate_candidate
  evaluator/referee/correctness/comparison        comparison tolerance timed_outputs timed_inputs
  evaluator/referee/correctness/discontinuities   tolerance timed_outputs timed_inputs
  evaluator/referee/correctness/input*    input_distributions trial_cache timed_inputs
  evaluator/referee/correctness/op_trace  tolerance timed_inputs reference
  evaluator/referee/correctness/tolerance tolerance comparison small_inputs timed_inputs
  evaluator/referee/correctness/trial*    reference trial_cache comparison evaluate_candidate
  evaluator/referee/correctness/*shape*   shape_variants evaluate_candidate
  evaluator/referee/correctness/policy    comparison tolerance timed_outputs timed_inputs input_distributions
                                          shape_variants verification evaluate_candidate
  evaluator/referee/correctness/*         verification evaluate_candidate
  evaluator/referee/worker/[cl]*          batch_size launch_queue worker_process evaluate_candidate
  evaluator/referee/worker/*              worker_process launch_queue evaluate_candidate
  evaluator/referee/[deo]*                device_memory evaluate_candidate server
  evaluator/analysis/plausibility         tests/evaluator/analysis/test_plausibility.py
  evaluator/sandbox/isolation/cgroups     tests/evaluator/sandbox/test_cgroups.py
                                          tests/evaluator/sandbox/test_limits.py
  agent/extraction/*                      tests/agent/extraction
  agent/records/budgets                   tests/agent/records/test_budgets.py
                                          tests/agent/runner/test_batch_runner.py
  agent/records/score*                    tests/agent/records tests/agent/leaderboard
  agent/runner/shutdown                   tests/agent/runner/test_batch_runner.py
  agent/runner/requester                  tests/agent/runner/test_batch_runner.py
  agent/providers/rate_limits             tests/agent/providers/test_rate_limits.py
  agent/leaderboard/[rs]*                 tests/agent/leaderboard
"""
"""Changed files and their tests, the quick ones first; the first line that fits counts. A bare name is one of
`tests/evaluator/referee/`."""
_WITHOUT = "a_reference_that_died_is_no_fault_of_the_next_candidate"
"""Waits for the machine's timing lock."""


@cache
def tests() -> dict[str, tuple[str, ...]]:
    """The tests by pattern of the changed file."""
    found: dict[str, tuple[str, ...]] = {}
    for line in re.sub(r"\n {30,}", " ", TESTS).split("\n")[1:-1]:
        pattern, *names = line.split()
        found[f"{pattern}.py"] = tuple(
            name if "/" in name else f"tests/evaluator/referee/test_{name}.py" for name in names
        )
    return found


def sample() -> list[Mutant]:
    """Draw mutants by their keys, so that the sample stays where code does not change."""
    found = {path.relative_to(ROOT).as_posix() for pattern in tests() for path in ROOT.glob(pattern)}
    mutants = [mutant for path in sorted(found) for mutant in Finder(ROOT, path, SEED).mutants()]
    print(f"{SAMPLE} of {len(mutants)} mutants, seed {SEED}")
    return sorted(mutants, key=lambda each: each.key)[:SAMPLE]


def copied(folder: Path) -> Path:
    """Copy the tree, with what git does not know yet."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout.decode().split("\0")
    for name in filter(None, names):
        if os.path.lexists(ROOT / name):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    return folder


def outcome(tree: Path, tests: Sequence[str]) -> str:
    """Tell how tests end in a tree: killed, survived, timeout or broken."""
    options = [
        "-q",
        "-x",
        "-m",
        "not gpu and not slow",
        "-o",
        f"cache_dir={ROOT / '.pytest_cache'}",
        "-k",
        f"not {_WITHOUT}",
    ]
    environment = {**os.environ, "PYTHONPATH": str(tree / ".ci" / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", *options, *tests]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=tree, env=environment, text=True, process_group=0, **pipes) as running:
        try:
            said, _ = running.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, 9)
            return "timeout"
    failed = [line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if failed:
        return f"killed {failed[0][:200]}"
    return f"broken with {running.returncode}" if running.returncode else "survived"


def tests_of(mutant: Mutant) -> tuple[str, ...]:
    """The tests that must notice a mutant."""
    return next(named for pattern, named in tests().items() if fnmatch.fnmatch(mutant.path, pattern))


def judged(mutant: Mutant, trees: SimpleQueue[Path]) -> str:
    """Tell how a mutant's tests end, in a tree that is free; remember it."""
    tree = trees.get()
    file, source = tree / mutant.path, (ROOT / mutant.path).read_bytes()
    try:
        file.write_bytes(mutant.changed(source))
        ended = outcome(tree, tests_of(mutant))
        with RESULTS.open("a") as lines:
            lines.write(json.dumps([mutant.key, ended]) + "\n")
        print(mutant.path, ended, flush=True)
    finally:
        file.write_bytes(source)
        trees.put(tree)
    return ended


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="part of a path")
    parser.add_argument("--again", action="store_true", help="repeat what was not killed")
    given = parser.parse_args()
    drawn = [each for each in sample() if given.only in each.path]
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.touch()
    known: dict[str, str] = dict(json.loads(line) for line in RESULTS.read_text().splitlines())
    done = [key for key, ended in known.items() if ended.startswith("killed") or not given.again]
    todo = [one for one in drawn if one.key not in done]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(WORKERS) as workers:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(WORKERS if todo else 0):
            trees.put(copied(Path(folder, str(number))))
        # Tests that fail anyway would seem to kill everything.
        names = sorted({name for one in todo for name in tests_of(one)})
        if todo and (unchanged := outcome(Path(folder, "0"), names)) != "survived":
            sys.exit(f"without a change the tests end {unchanged}")
        known |= zip(
            (one.key for one in todo), workers.map(lambda one: judged(one, trees), todo), strict=True
        )
    for each in drawn:
        if not known[each.key].startswith("killed"):
            print(f"\n{known[each.key]} {each.path} {each.key}\n{each.diff((ROOT / each.path).read_bytes())}")
    ends = Counter(known[each.key].partition(" ")[0] for each in drawn)
    print(f"\nof {len(drawn)}: " + ", ".join(f"{count} {end}" for end, count in ends.most_common()))


if __name__ == "__main__":
    main()
