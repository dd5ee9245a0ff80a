"""How tests are handed to processes: files and the corpus's problems, long ones first, by different ones."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

from tests.scheduling import LONG, NEIGHBOURS, chosen, group_of, ranks
from tests.specimens import Specimen, specimens

ROOT = Path(__file__).parents[1]
CORPUS = "tests/evaluator/test_corpus.py"


def test_tests_of_a_file_run_in_one_process() -> None:
    options = ("-n", "2", "--dist", "loadgroup", "-v", "-p", "no:cacheprovider")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "tests/agent/records/test_tokens.py"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    workers = re.findall(r"^\[(gw\d)\] .* PASSED ", done.stdout, re.MULTILINE)
    assert len(workers) > 1, done.stdout + done.stderr
    assert len(set(workers)) == 1, done.stdout


def test_candidates_of_one_problem_are_neighbours() -> None:
    groups: dict[str, list[Specimen]] = defaultdict(list)
    for specimen in specimens():
        groups[group_of(f"{CORPUS}::test_candidate_earns_its_status[{specimen.name}]")].append(specimen)
    for group in groups.values():
        assert len(group) <= NEIGHBOURS
        assert len({(each.device, each.header["problem"], each.header["shapes"]) for each in group}) == 1
    assert max(map(len, groups.values())) == NEIGHBOURS
    assert group_of(f"{CORPUS}::test_header_is_complete[hacks/c01_address_key]") == CORPUS


def test_what_takes_long_is_begun_first() -> None:
    for name in LONG:
        assert (ROOT / name).is_file(), f"{name} is not a test file any more"
    judged = [f"{CORPUS}::test_candidate_earns_its_status[{each.name}]" for each in specimens()]
    quick = [f"tests/agent/test_{number}.py::test" for number in range(300)]
    begins = ranks([*quick, *judged, *(f"{name}::test" for name in LONG)])
    order = sorted(begins, key=begins.__getitem__)
    files = [place for place in order if place.endswith(".py")]
    assert files[: len(LONG)] == sorted(LONG, key=lambda name: -LONG[name])
    problems = [place for place in order if not place.endswith(".py")]
    sizes = Counter(map(group_of, judged))
    assert [sizes[place] for place in problems] == sorted(sizes.values(), reverse=True)


def test_one_process_judges_the_corpus_and_others_have_all_else_while_there_is_both() -> None:
    judged = group_of(f"{CORPUS}::test_candidate_earns_its_status[{specimens()[0].name}]")
    files = ["tests/test_docs.py", CORPUS]
    assert chosen([*files, judged], judges=True) == judged
    assert chosen([judged, *files], judges=False) == files[0]
    assert chosen(files, judges=True) == files[0]
    assert chosen([judged], judges=False) == judged
