"""Pages in a real browser: headless Chromium, offline, with our own page and one full of planted scripts.

Needs Debian's `chromium` and the `browser` extra; skipped where either is missing.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kernelwright.agent.leaderboard.html import PageLimits, write_pages
from kernelwright.evaluator import Status

if TYPE_CHECKING:
    from kernelwright.agent.archive import Archive
    from tests.agent.conftest import Make

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is missing: install .[browser]")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium here; on Debian: apt-get install chromium"
)
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@dataclass
class Visit:
    """A tab, and what it complained of or asked for."""

    page: Any
    file: Path
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def open(self, fragment: str = "", file: Path | None = None) -> Any:
        self.page.goto("about:blank")
        self.page.goto((file or self.file).as_uri() + fragment)
        self.page.wait_for_selector("html[data-ready]")
        return self.page

    def column(self, part: str, number: int) -> list[str]:
        cells = self.page.locator(f"{part} tbody tr > :nth-child({number})")
        return [str(text) for text in cells.all_inner_texts()]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield running
        running.close()


@pytest.fixture
def visiting(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Visit]]:
    """Writes an archive's page and opens a tab for it."""
    contexts = []

    def visit(archive: Archive, *, limits: PageLimits | None = None, **options: Any) -> Visit:
        file = tmp_path / "board.html"
        write_pages(archive, file, made="2026-01-01", limits=limits or PageLimits())
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        found = Visit(context.new_page(), file)
        found.page.set_default_timeout(60_000)
        found.page.on("console", lambda message: found.complaints.append(message.text))
        found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
        found.page.on("request", lambda request: found.requests.append(request.url))
        return found

    yield visit
    for context in contexts:
        context.close()


def test_sorting_filtering_and_opening_a_kernel(runs: Archive, visiting: Callable[..., Visit]) -> None:
    visit = visiting(runs)
    page = visit.open()

    page.locator("#problems th", has_text="best speedup").locator("button").click()
    speeds = [float(text.split("×")[0]) for text in visit.column("#problems", 3) if "×" in text]
    assert len(speeds) == 6 and speeds == sorted(speeds, reverse=True)
    page.locator("#problems th", has_text="best speedup").locator("button").click()
    assert page.locator("#problems th[aria-sort=ascending]").count() == 1
    assert [float(text.split("×")[0]) for text in visit.column("#problems", 3)] == sorted(speeds)

    page.get_by_label("level").first.select_option("level2")
    assert len(visit.column("#problems", 1)) == 3
    page.locator("#problems input").fill("05_prob")
    assert visit.column("#problems", 1) == ["level2/05_problem"]
    assert "1 of 6" in page.locator("#problems .count").inner_text()
    page.locator("#problems input").fill("no such problem")
    assert "No problem fits" in page.locator("#problems tbody").inner_text()

    page.locator("#attempts label", has_text="status").locator("select").select_option("TAMPERED")
    assert page.locator("#attempts tbody tr").count() == 2
    page.locator("#attempts label", has_text="status").locator("select").select_option("")
    page.locator("#attempts label", has_text="model").locator("select").select_option("model-b")
    assert {text.split()[0] for text in visit.column("#attempts", 3)} == {"model-b"}

    page.locator("#problems input").fill("05_prob")
    page.locator("#problems tbody a").click()
    page.wait_for_selector("#section:not([hidden])")
    assert page.evaluate("document.activeElement.tagName") == "H1"
    assert "class ModelNew" in page.locator("#section pre").first.inner_text()
    assert "class Model: ..." in page.locator("#section pre").nth(1).inner_text()
    assert (
        "kernelwright evaluate kernel.py --problem level2/05_problem" in page.locator("#section").inner_text()
    )
    page.locator("summary", has_text="system").click()
    assert "Write fast kernels." in page.locator("details[open] pre").inner_text()
    page.locator(".kernels button", has_text="model-b").click()
    page.wait_for_function("location.hash.includes('k1')")
    assert "2.50×" in page.locator("#section .score").inner_text()
    page.locator("#section a", has_text="All problems").click()
    page.wait_for_selector("#overview:not([hidden])")
    assert (visit.complaints, [url for url in visit.requests if not url.startswith("file:")]) == ([], [])
    assert {url.partition("#")[0] for url in visit.requests} == {visit.file.as_uri()}


def test_comparing_runs(runs: Archive, visiting: Callable[..., Visit]) -> None:
    visit = visiting(runs)
    page = visit.open()
    counts = page.locator("#compare .changes").inner_text().split("\n")
    shown = dict(zip(counts[1::2], counts[::2], strict=True))
    assert shown == {
        "newly solved": "1",
        "newly lost": "1",
        "better": "1",
        "worse": "1",
        "within noise": "2",
        "unsolved in both": "0",
        "not comparable": "0",
    }
    page.locator("#compare label", has_text="change").locator("select").select_option("worse")
    assert visit.column("#comparison", 1) == ["level2/03_problem"]
    assert visit.complaints == []


def test_tracks_are_ranked_apart(runs: Archive, visiting: Callable[..., Visit]) -> None:
    visit = visiting(runs)
    page = visit.open()
    for track, solved in (("own", "4/6"), ("mixed", "1/6"), ("library", "1/6"), ("all", "6/6")):
        page.locator(f"#tracks input[value={track}]").check()
        tables = page.locator("#standings table.standing")
        shown = [table for table in tables.all() if table.is_visible()]
        assert len(shown) == 1
        assert shown[0].locator("tbody tr").first.locator("td").nth(1).inner_text() == solved
    page.locator("#standings .track:not([hidden]) th", has_text="model").locator("button").first.click()
    rows = page.locator("#standings .track:not([hidden]) table.standing tbody th").all_inner_texts()
    assert [row.split()[0] for row in rows] == ["model-a", "model-b"]
    assert visit.complaints == []


def test_the_keyboard_reaches_everything(runs: Archive, visiting: Callable[..., Visit]) -> None:
    page = visiting(runs).open()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.locator("#problems thead button").nth(1).focus()
    page.keyboard.press("Enter")
    assert page.locator("#problems th[aria-sort=descending]").inner_text().startswith("correct")
    ring = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(ring) == "solid"
    page.locator("#theme").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.keyboard.press("Enter")
    assert page.evaluate("getComputedStyle(document.body).colorScheme") == "dark"


def test_planted_scripts_never_run(
    poisoned_runs: Archive, visiting: Callable[..., Visit], tmp_path: Path, poison: str
) -> None:
    visit = visiting(poisoned_runs)
    page = visit.open()
    sections = page.locator("#problems tbody a").evaluate_all("links => links.map(link => link.hash)")
    assert len(sections) == 6
    for fragment in ["", *sections, f"{sections[-1]}k1"]:
        visit.open(fragment)
        for summary in page.locator("summary").all():
            if summary.is_visible():
                summary.click()
        page.screenshot(path=tmp_path / f"poisoned{fragment}.png", full_page=not fragment)
        assert page.evaluate("window.pwned") is None
        assert page.locator("img, iframe, object, embed, svg[onload], main style").count() == 0
        assert "<img src=x" in page.locator("main").inner_text()
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert (visit.complaints, [url for url in visit.requests if url.startswith("http")]) == ([], [])
    assert len(poison) > 100


def test_the_policy_stops_a_script_that_got_in(runs: Archive, visiting: Callable[..., Visit]) -> None:
    visit = visiting(runs)
    page = visit.open()
    page.evaluate(
        "() => { const script = document.createElement('script'); script.append('window.pwned = 1');"
        " document.body.append(script); }"
    )
    refused = page.evaluate(
        "() => { try { document.body.innerHTML = '<img src=x onerror=window.pwned=1>'; return ''; }"
        " catch (error) { return error.name; } }"
    )
    page.evaluate(
        "() => { const image = new Image(); image.src = 'http://localhost:9/'; document.body.append(image); }"
    )
    page.wait_for_timeout(200)
    assert (page.evaluate("window.pwned"), refused) == (None, "TypeError")
    assert any("Content Security Policy" in text for text in visit.complaints)


def test_without_scripts_the_standings_are_there(runs: Archive, visiting: Callable[..., Visit]) -> None:
    visit = visiting(runs, java_script_enabled=False)
    visit.page.goto(visit.file.as_uri())
    assert "model-a" in visit.page.locator("#standings table").first.inner_text()
    assert visit.page.locator("#problems").is_hidden()
    assert "unpacked by a script" in visit.page.locator("noscript").inner_text()


def test_pages_lead_to_each_other(runs: Archive, visiting: Callable[..., Visit]) -> None:
    visit = visiting(runs, limits=PageLimits(attempts=20))
    page = visit.open()
    page.locator("#problems tbody a").last.click()
    page.wait_for_selector("#section:not([hidden]) h1")
    assert page.url.endswith(".html#s5") and "board.2.html" not in page.url
    assert "class ModelNew" in page.locator("#section pre").first.inner_text()
    page.locator("header a", has_text="Standings").click()
    page.wait_for_selector("#standings")
    assert visit.complaints == []


def test_it_prints(runs: Archive, visiting: Callable[..., Visit]) -> None:
    page = visiting(runs).open()
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.locator("#theme").click(click_count=2)
    assert page.evaluate("getComputedStyle(document.body).colorScheme") == "dark"
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.body).colorScheme") == "light"
    assert page.locator("#theme").is_hidden() and page.locator("#standings table").first.is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_it_keeps_to_its_width_in_both_themes(
    runs: Archive, visiting: Callable[..., Visit], tmp_path: Path, scheme: str, width: int
) -> None:
    visit = visiting(runs, color_scheme=scheme, viewport={"width": width, "height": 900})
    for fragment in ("", "#s5"):
        page = visit.open(fragment)
        page.screenshot(path=tmp_path / f"{scheme}-{width}{fragment}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == {"light": "rgb(251, 251, 249)", "dark": "rgb(19, 20, 23)"}[scheme]


@pytest.mark.parametrize("width", [1280, 400])
def test_tables_and_charts_show_everything_without_scrolling(
    make: Make, tmp_path: Path, visiting: Callable[..., Visit], width: int
) -> None:
    with make.log(tmp_path) as log:
        for model in ("org/a-model-with-quite-a-long-name", "model-b"):
            for number, speedup in enumerate((0.004, 2.0, None)):
                make.attempt(
                    log,
                    Status.PASSED if speedup else Status.COMPILE_ERROR,
                    problem="level1/01_transposed_matrix_product",
                    model=model,
                    strategy="refine",
                    turn=number,
                    speedup=speedup,
                )
    visit = visiting(log.archive, viewport={"width": width, "height": 900})
    for fragment in ("", "#s0"):
        page = visit.open(fragment)
        hidden = page.locator(".scroll").evaluate_all(
            "frames => frames.filter(frame => frame.scrollWidth > frame.clientWidth)"
            ".map(frame => frame.ariaLabel)"
        )
        assert hidden == []
        labels = page.locator("svg .tick").evaluate_all(
            "texts => texts.map(text => [text.textContent, text.getBoundingClientRect().left,"
            " text.ownerSVGElement.getBoundingClientRect().left])"
        )
        assert labels and [text for text, left, edge in labels if left < edge] == []
    assert "1/256×" in [text for text, *_ in labels]


def test_a_row_on_a_narrow_screen_names_its_cells(runs: Archive, visiting: Callable[..., Visit]) -> None:
    page = visiting(runs, viewport={"width": 400, "height": 900}).open()
    row = page.locator("#standings table").first.locator("tbody tr").first
    named = "cell => getComputedStyle(cell, '::before').content"
    names = [row.locator("td").nth(number).evaluate(named) for number in (1, 5)]
    assert names == ['"solved "', '"mean speedup "']
    assert page.get_by_role("row").count() == page.locator("tr:visible").count()
    page.locator("#problems thead button", has_text="best speedup").click()
    assert "3.00×" in page.locator("#problems tbody tr").first.inner_text()


def test_sections_of_one_problem_are_told_apart(
    make: Make, tmp_path: Path, visiting: Callable[..., Visit]
) -> None:
    with make.log(tmp_path) as log:
        for backend in ("cpp", "cuda"):
            make.attempt(log, backend=backend)
    page = visiting(log.archive).open("#s0")
    assert page.locator(".crumbs a").all_inner_texts() == ["All problems", "→ cuda · Test CPU · fp32"]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 400)])
def test_axe_finds_nothing_wrong(
    runs: Archive, visiting: Callable[..., Visit], scheme: str, width: int
) -> None:
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe is missing: install .[browser]"
    )
    # The checker is a script of its own, which the page's policy would stop.
    visit = visiting(runs, color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True)
    for fragment in ("", "#s5"):
        report = axe.Axe().run(visit.open(fragment)).response
        wrong = [
            (found["id"], [node["target"] for node in found["nodes"]][:3]) for found in report["violations"]
        ]
        assert wrong == []
        assert len(report["passes"]) > 15
