"""Pages as files: what is in them, how large they are, and that strangers' text stays text."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kernelwright.agent.archive import Archive
from kernelwright.agent.leaderboard import board
from kernelwright.agent.leaderboard.html import PageLimits, WrittenPages, write_pages
from kernelwright.evaluator import Status
from tests.agent.leaderboard.html.payload import unpack

if TYPE_CHECKING:
    from tests.agent.conftest import Make

ELEMENTS = re.compile(
    "html|head|meta|link|title|style|body|a|header|p|nav|button|main|div|section|h[123]|span|fieldset|legend|label|"
    "input|table|caption|thead|tbody|tr|th|td|abbr|sub|bdi|svg|line|path|rect|text|figure|figcaption|i|article|"
    "ul|li|dl|dt|dd|code|noscript|script"
)


class Outline(HTMLParser):
    """Every element of a page with its attributes, and the text of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag if tag in self.raw else ""
        if self._inside:
            self.raw[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.raw[self._inside][-1] += data


def write(archive: Archive, file: Path, **changes: Any) -> WrittenPages:
    return write_pages(archive, file, **{"made": "2026-01-01 00:00 UTC", **changes})


def data(file: Path) -> dict[int, Any]:
    return unpack(Outline(file.read_text("utf-8")).raw["script"][0])


def header(file: Path) -> dict[str, Any]:
    return data(file)[0]


def texts(file: Path) -> list[str]:
    return [value["text"] for value in data(file).values() if isinstance(value, dict) and "text" in value]


def test_a_page_holds_standings_attempts_sources_prompts_and_comparisons(
    runs: Archive, tmp_path: Path
) -> None:
    written = write(runs, tmp_path / "board.html")
    (file,) = written.files
    page, found = file.read_text("utf-8"), header(file)
    standing = board(runs.attempts())
    for entry in standing.entries:
        assert f"{entry.geomean.value:.2f}×" in page
        assert f"{entry.solved}/{entry.problems}" in page
    assert (written.attempts, written.texts_left_out) == (standing.attempts, 0)
    assert len(found["sections"]) == len(standing.problems) == 6
    assert len(found["attempts"][0]) == standing.attempts
    assert len(found["pairs"]) == 1 and len(found["runs"]) == 2
    everything = "\n".join(texts(file))
    for words in (
        "class ModelNew",
        "class Model:",
        "Write fast kernels.",
        "Let me think.",
        '"evaluator_sha"',
    ):
        assert words in everything


def test_the_kernels_shown_are_the_best_of_each_model(runs: Archive, tmp_path: Path) -> None:
    found = header(write(runs, tmp_path / "board.html").files[0])
    words = found["words"]
    shown = {
        words[section["problem"]]: [(words[one["model"]], one["speedup"]) for one in section["kernels"]]
        for section in found["sections"]
    }
    assert shown["level2/03_problem"] == [("model-a", 2.0)]
    assert shown["level2/05_problem"] == [("model-a", 3.0), ("model-b", 2.5)]


def test_a_section_without_a_right_kernel_shows_the_last_attempt(make: Make, tmp_path: Path) -> None:
    with make.log(tmp_path) as log:
        make.attempt(log, Status.WRONG_VALUES, sample=0)
        make.attempt(log, Status.COMPILE_ERROR, sample=1)
        make.attempt(log, Status.NO_CODE, sample=2)
    (section,) = header(write(log.archive, tmp_path / "board.html").files[0])["sections"]
    (kernel,) = section["kernels"]
    assert (section["best"], kernel["sample"], kernel["speedup"]) == (None, 1, None)
    assert kernel["doc"] is not None


def test_doubted_kernels_flawed_problems_and_cheats_are_marked(runs: Archive, tmp_path: Path) -> None:
    file = write(runs, tmp_path / "board.html").files[0]
    found = header(file)
    of = {found["words"][section["problem"]]: section for section in found["sections"]}
    assert of["level2/01_problem"]["best"]["doubted"] and not of["level2/03_problem"]["best"]["doubted"]
    assert of["level1/02_problem"]["flaws"] == ["ignores_input"]
    assert of["level1/00_problem"]["cheats"] == 2
    assert "not sanitized</span>" in file.read_text("utf-8")


def test_how_to_measure_again_names_the_source_the_problem_and_the_terms(
    runs: Archive, tmp_path: Path
) -> None:
    everything = data(write(runs, tmp_path / "board.html").files[0])
    section = everything[0]["sections"][-1]
    document = everything[section["kernels"][0]["doc"]]
    (label, command), *_ = document["commands"]
    assert label == "save the source as kernel.py and evaluate it"
    assert command == (
        "kernelwright evaluate kernel.py --problem level2/05_problem --backend cpp "
        "--dtype as_is --math fp32 --baselines eager,compile"
    )
    assert ["speedup", "3.00× over eager (95 %: 2.94 to 3.06)"] in document["facts"]


def test_planted_scripts_make_no_element_and_no_attribute(
    poisoned_runs: Archive, tmp_path: Path, poison: str
) -> None:
    file = write(poisoned_runs, tmp_path / "board.html").files[0]
    outline = Outline(file.read_text("utf-8"))
    assert [tag for tag, _ in outline.elements if not ELEMENTS.fullmatch(tag)] == []
    assert [tag for tag, _ in outline.elements].count("script") == 2
    attributes = {name for _, found in outline.elements for name in found}
    assert not {name for name in attributes if name.startswith("on") or name in ("src", "srcdoc", "style")}
    assert all((found.get("href") or "#").startswith("#") for tag, found in outline.elements if tag != "link")
    (icon,) = (found for tag, found in outline.elements if tag == "link")
    assert str(icon["href"]).startswith("data:image/svg+xml,")
    # It did get in, as text: into the page itself and into the data.
    assert "&lt;img src=x onerror=window.pwned=1&gt;" in file.read_text("utf-8")
    everything = "\n".join(texts(file))
    assert "<img src=x onerror=window.pwned=1>" in everything
    assert "\u202e" not in everything and "⟨U+202E⟩" in everything and "⟨U+0000⟩" in everything
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", outline.raw["script"][0])
    assert len(poison) > 100


def test_the_policy_allows_our_style_and_script_by_hash_and_nothing_else(
    runs: Archive, tmp_path: Path
) -> None:
    outline = Outline(write(runs, tmp_path / "board.html").files[0].read_text("utf-8"))
    (policy,) = [
        found["content"] or ""
        for tag, found in outline.elements
        if tag == "meta" and found.get("http-equiv") == "Content-Security-Policy"
    ]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))

    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert rules["script-src"] == digest(outline.raw["script"][1])
    assert rules["style-src"] == digest(outline.raw["style"][0])
    assert rules["require-trusted-types-for"] == "'script'"


def test_a_page_asks_for_nothing_from_anywhere(runs: Archive, tmp_path: Path) -> None:
    page = write(runs, tmp_path / "board.html").files[0].read_text("utf-8")
    assert set(re.findall(r"https?://[^\s\"')]+", page)) == {"http://www.w3.org/2000/svg"}
    assert "@import" not in page and "url(" not in page


@pytest.mark.slow
def test_ten_thousand_attempts_are_one_page_within_its_limit(make: Make, tmp_path: Path) -> None:
    with make.log(tmp_path) as log:
        for number in range(10_000):
            key = make.key(log.run, problem=f"level1/{number // 5:04}_p", sample=number % 5)
            noise = "".join(hashlib.sha256(f"{number} {part}".encode()).hexdigest() for part in range(60))
            attempt = log.record_completion(key, make.answer(key, f"{noise}\n{make.reply(number)}"))
            problem = make.problem(key.problem)
            evaluation = make.evaluation(Status.PASSED, 1 + number % 7 / 3, problem=problem)
            log.record_evaluation(attempt, evaluation)
    written = write(log.archive, tmp_path / "board.html")
    (file,) = written.files
    assert file.stat().st_size <= 2 * 1024 * 1024
    assert written.attempts == len(header(file)["attempts"][0]) == 10_000
    # What is left out is text: each problem's kernel has more of it than there is room for.
    assert written.texts_left_out > 0
    make.attempt(log := make.log(tmp_path))
    log.close()
    assert len(write(log.archive, tmp_path / "more.html").files) > 1


@pytest.mark.parametrize("size", [96 * 1024, 110 * 1024])
def test_a_full_page_keeps_its_limit_and_says_what_it_left_out(make: Make, tmp_path: Path, size: int) -> None:
    with make.log(tmp_path) as log:
        for number in range(12):
            key = make.key(log.run, problem=f"level1/{number:02}_p")
            noise = "".join(hashlib.sha256(f"{number} {part}".encode()).hexdigest() for part in range(200))
            attempt = log.record_completion(key, make.answer(key, f"{noise}\n{make.reply(number)}"))
            problem = make.problem(key.problem)
            log.record_evaluation(attempt, make.evaluation(problem=problem, source=make.code(number)))
    written = write(log.archive, tmp_path / "board.html", limits=PageLimits(size=size))
    (file,) = written.files
    assert file.stat().st_size <= size
    assert written.texts_left_out > 0
    assert f"There was no room for {written.texts_left_out} more" in file.read_text("utf-8")
    found = data(file)
    assert len(found[0]["sections"]) == 12 and len(found[0]["attempts"][0]) == 12
    # Kernels and references come before prompts and replies.
    assert all(found[document["source"]] for document in found.values() if "facts" in document)


def test_contended_times_and_flaws_are_in_the_list(make: Make, tmp_path: Path) -> None:
    measured = make.measurement(2.0).model_copy(update={"contended": True})
    with make.log(tmp_path) as log:
        attempt = log.record_completion(key := make.key(log.run), make.answer(key, make.reply()))
        log.record_evaluation(
            attempt, make.evaluation(measurement=measured, problem_flaws=("ignores_input",))
        )
    found = header(write(log.archive, tmp_path / "board.html").files[0])
    (section,) = found["sections"]
    assert "other work disturbed" in found["words"][section["best"]["unfit"]]
    assert (section["best"]["speedup"], section["flaws"]) == (1.0, ["ignores_input"])


def test_missing_texts_are_left_out_and_counted(runs: Archive, tmp_path: Path) -> None:
    lost = sorted(tmp_path.glob("runs/*/texts/*/*.txt"))
    for path in lost[::3]:
        path.unlink()
    written = write(runs, tmp_path / "board.html")
    (file,) = written.files
    assert 0 < written.unreadable <= len(lost[::3])
    assert f"{written.unreadable} are missing or damaged" in file.read_text("utf-8")
    assert len(header(file)["sections"]) == 6


def test_a_large_archive_gets_several_pages_with_every_attempt_once(make: Make, tmp_path: Path) -> None:
    with make.log(tmp_path) as log:
        for number in range(5):
            for sample in range(4):
                make.attempt(log, problem=f"level1/{number:02}_p", sample=sample)
    written = write(log.archive, tmp_path / "a board#1.html", limits=PageLimits(attempts=9))
    assert [file.name for file in written.files] == [
        "a board#1.html",
        "a board#1.2.html",
        "a board#1.3.html",
        "a board#1.4.html",
    ]
    index, *pages = (header(file) for file in written.files)
    assert index["attempts"] == [] and len(index["sections"]) == 5
    assert [section["page"] for section in index["sections"]] == [
        "a%20board%231.2.html",
        "a%20board%231.2.html",
        "a%20board%231.3.html",
        "a%20board%231.3.html",
        "a%20board%231.4.html",
    ]
    listed = [attempt for page in pages for attempt in page["attempts"][12]]
    assert len(listed) == len(set(listed)) == 20
    assert [section["n"] for page in pages for section in page["sections"]] == [0, 1, 2, 3, 4]


def test_a_problem_with_more_attempts_than_a_page_lists_keeps_its_best(make: Make, tmp_path: Path) -> None:
    with make.log(tmp_path) as log:
        for sample in range(12):
            make.attempt(log, sample=sample, speedup=1.0 + sample)
    (section,) = header(write(log.archive, tmp_path / "board.html", limits=PageLimits(attempts=5)).files[0])[
        "sections"
    ]
    found = header(tmp_path / "board.html")
    assert (section["attempts"], section["listed"]) == (12, 5)
    assert max(found["attempts"][7]) == 12.0


def test_names_that_fit_no_page_leave_problems_out_and_say_so(make: Make, tmp_path: Path) -> None:
    with make.log(tmp_path) as log:
        for number in range(60):
            name = "".join(hashlib.sha256(f"{number} {part}".encode()).hexdigest() for part in range(2))
            make.attempt(log, problem=f"level1/{name}", model=name[::-1])
    (empty,) = write(Archive(tmp_path / "none"), tmp_path / "empty.html").files
    size = empty.stat().st_size + 12 * 1024
    (file,) = write(log.archive, tmp_path / "board.html", limits=PageLimits(size=size)).files
    assert file.stat().st_size <= size
    assert 0 < len(header(file)["sections"]) < 60
    assert "problems had no room at all" in file.read_text("utf-8")


def test_nothing_gives_a_page_too(tmp_path: Path) -> None:
    (file,) = write(Archive(tmp_path / "runs"), tmp_path / "board.html").files
    assert "Nothing is evaluated yet" in file.read_text("utf-8")
    assert header(file)["sections"] == []


def test_one_run_and_the_asked_pair_first(runs: Archive, tmp_path: Path) -> None:
    first, second = runs.runs()
    alone = header(write(runs, tmp_path / "one.html", run=first).files[0])
    assert alone["pairs"] == [] and len(alone["attempts"][0]) == 25
    turned = header(write(runs, tmp_path / "two.html", compare=(second, first)).files[0])
    pairs = [(turned["words"][before], turned["words"][after]) for _, before, after in turned["pairs"]]
    assert pairs == [(second, first), (first, second)]


def test_the_newest_runs_with_anything_to_compare_come_first(make: Make, tmp_path: Path) -> None:
    runs = []
    for backend in ("cpp", "cpp", "cuda"):
        with make.log(tmp_path) as log:
            make.attempt(log, backend=backend)
        runs.append(log.run)
    found = header(write(log.archive, tmp_path / "board.html").files[0])
    pairs = [(found["words"][before], found["words"][after]) for _, before, after in found["pairs"]]
    assert pairs == [(runs[0], runs[1]), (runs[1], runs[2]), (runs[0], runs[2])]
