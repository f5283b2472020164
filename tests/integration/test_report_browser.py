"""The report in Chromium, from the file system: nothing fetched, nothing wrong, tables that sort, on a phone too."""

import json
import os
import re
import shutil

import pytest
from PIL import Image

from analysis.report.build import build_report
from tests.limits import stretched
from tests.made_results import make_run

pytest.importorskip("playwright", reason="playwright is not installed; requirements/dev.txt has it")
from playwright.sync_api import sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium; on Debian: apt-get install chromium")
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    """A report of five runs, one of which has text in its config that a browser must not run."""
    results = tmp_path_factory.mktemp("results")
    for group in ("4", "8", "16", "sagc-robust"):
        make_run(results, group)
    config = make_run(results, "sagc") / "config.json"
    content = json.loads(config.read_text())
    content["versions"]["sagc"] = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    config.write_text(json.dumps(content))
    return build_report(results)


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium's does not work for root
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=sandbox, timeout=1000 * stretched(30))
        yield browser
        browser.close()


@pytest.fixture
def opened(browser, page_file):
    """Opens the report in a window of a size; what the browser fetched and said is in `seen`."""
    pages = []

    def open_(size):
        page = browser.new_page(viewport=size)
        page.set_default_timeout(1000 * stretched(30))
        page.seen = []
        page.on("console", lambda message: page.seen.append(message.text))
        page.on("pageerror", lambda error: page.seen.append(str(error)))
        page.on("dialog", lambda dialog: (page.seen.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: page.seen.append(request.url))
        page.goto(page_file.as_uri())
        pages.append(page)
        return page

    yield open_
    for page in pages:
        page.close()


def column(table, title: str) -> list[str]:
    titles = table.locator("th").all_inner_texts()
    return table.locator(f"tbody tr td:nth-child({titles.index(title) + 1})").all_inner_texts()


def test_nothing_is_fetched_and_nothing_is_wrong(opened, page_file):
    page = opened(DESKTOP)
    drawn = [image for image in page.locator("figure img").all() if image.evaluate("i => i.complete && i.naturalWidth")]
    assert len(drawn) == page.locator("figure img").count() == 7
    assert [text for text in page.seen if not text.startswith("data:")] == [page_file.as_uri()]


def test_the_verdict_and_the_tables_are_there(opened):
    page = opened(DESKTOP)
    assert "of static 16's training time" in page.locator("#verdict").inner_text()
    assert page.locator("#overview table").count() >= 7
    assert page.locator("#runs tbody tr").count() == 5


def test_a_click_sorts_by_number_and_back(opened):
    table = opened(DESKTOP).locator("#runs table")
    before = [float(text) for text in column(table, "wall, s")]
    table.get_by_role("button", name="wall, s").click()
    assert [float(text) for text in column(table, "wall, s")] == sorted(before) != before
    table.get_by_role("button", name="wall, s").click()
    assert [float(text) for text in column(table, "wall, s")] == sorted(before, reverse=True)
    heading = table.locator("th[aria-sort]")
    assert (heading.count(), heading.get_attribute("aria-sort")) == (1, "descending")


def test_missing_cells_sort_last_both_ways_and_bounds_by_their_number(opened):
    table = opened(DESKTOP).locator("#equal-cost table").nth(1)
    place = table.locator("th").all_inner_texts().index("hours / reference")
    for row, text in enumerate(("20.00 [\u2013], n = 1", "\u2013")):
        cell = f"table => {{ table.tBodies[0].rows[{row}].cells[{place}].textContent = '{text}'; }}"
        table.evaluate(cell)
    for descending in (False, True):
        table.get_by_role("button", name="hours / reference").click()
        *cells, last = column(table, "hours / reference")
        assert last == "\N{EN DASH}"
        numbers = [float(re.search(r"\d+\.\d+", text)[0]) for text in cells]
        assert numbers == sorted(numbers, reverse=descending)
        assert any(text.startswith("at least ") for text in cells)


def test_a_run_has_a_page_and_the_way_back(opened):
    page = opened(DESKTOP)
    page.get_by_role("link", name="tiny/grpo/vanilla/sagc/0").click()
    assert page.locator("section.run:visible h2").all_inner_texts() == ["tiny/grpo/vanilla/sagc/seed0"]
    assert not page.locator("#verdict").is_visible()
    assert page.locator("section.run:visible tbody tr").count() == 12
    page.get_by_role("link", name="All runs").locator("visible=true").click()
    assert page.locator("#verdict").is_visible()
    assert all(text.startswith(("file:", "data:")) for text in page.seen)  # no script of a run has run


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_page_fits_the_window_and_is_not_blank(opened, tmp_path, size):
    page = opened(size)
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    page.screenshot(path=tmp_path / "page.png")
    colours = Image.open(tmp_path / "page.png").convert("RGB").getcolors(maxcolors=2**24)
    assert len(colours) > 50
    assert max(count for count, _ in colours) < 0.97 * size["width"] * size["height"]
