"""The page of a result in the system's Chromium: phone and desk, light and dark, with and without scripts."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from axe_tools import serious

import tacit
from tacit.runs.comparison import Comparison
from tacit.runs.report import write_report

LABEL = "posterior <sampling>, a rather long name that a phone cannot show in one line"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Two runs with their own checkpoints in one world, one run in another."""
    psrl = tacit.run(environment="riverswim", learner="psrl", seeds=3, episodes=60, checkpoints=10, workers=1)
    short = {"learner": "uniform", "episodes": 40, "checkpoints": 7, "workers": 1}
    runs = (
        replace(psrl, label=LABEL),
        tacit.run(environment="riverswim", seeds=2, **short),
        tacit.run(environment="random-mdp", seeds=1, **short),
    )
    found = Comparison(name="two", scale=None, results=runs, directory=None, version="0", command="tacit compare")
    return runs, write_report(found, tmp_path_factory.mktemp("report") / "report.html").as_uri()


@pytest.fixture
def opened(chromium, report):
    """Opens the page; whatever it says as an error, throws, or asks for outside of itself fails the test."""
    contexts, errors = [], []

    def show(**options):
        contexts.append(chromium.new_context(**options))
        page = contexts[-1].new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda said: errors.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        own = ("data:", report[1])
        page.on("request", lambda asked: None if asked.url.startswith(own) else errors.append(asked.url))
        page.goto(report[1])
        return page

    yield show
    for context in contexts:
        context.close()
    assert errors == []


def fits(page) -> bool:
    return page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def cells(page, chart: int, row: int) -> list[str]:
    return page.locator(".readout").nth(chart).locator("tbody tr").nth(row).locator("td").all_inner_texts()


def hover(page, chart: int, share: float) -> None:
    over = page.locator(".chart .u-over").nth(chart)
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2)


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (390, "dark"),
        pytest.param(390, "light", marks=pytest.mark.slow),
        pytest.param(1280, "light", marks=pytest.mark.slow),
        pytest.param(1280, "dark", marks=pytest.mark.slow),
    ],
)
def test_the_page_fits_and_shows_values_where_the_mouse_is(opened, report, width, scheme):
    runs, _ = report
    page = opened(viewport={"width": width, "height": 844}, color_scheme=scheme)
    assert page.locator(".uplot canvas").count() == 4, "two figures, two worlds each"
    assert page.locator("noscript img").count() == 0
    assert fits(page)
    for box in page.locator(".uplot").all():
        assert box.bounding_box()["width"] <= width
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    assert dark == (scheme == "dark")
    final = runs[0].regret[:, -1].mean()
    assert float(cells(page, 0, 0)[0].replace(",", "")) == pytest.approx(final, rel=1e-3)
    hover(page, 0, 0.5)
    page.wait_for_function("document.querySelector('.slider output').textContent !== '60'")
    episode = int(page.locator(".slider output").first.inner_text().replace(",", ""))
    at = runs[0].episodes.tolist().index(episode)
    assert 20 < episode < 40
    assert float(cells(page, 0, 0)[0]) == pytest.approx(runs[0].regret[:, at].mean(), rel=1e-3)
    for details in page.locator("details").all():
        details.evaluate("node => { node.open = true; }")
    assert fits(page), "tables scroll inside their boxes"


def test_a_slider_seeds_and_logarithms_work_without_a_mouse(opened, report):
    runs, _ = report
    page = opened(viewport={"width": 390, "height": 844}, has_touch=True)
    slider = page.get_by_role("slider").first
    slider.focus()
    slider.press("Home")
    assert page.locator(".slider output").first.inner_text() == "1"
    assert slider.get_attribute("aria-valuetext") == "episode 1"
    slider.press("End")
    # A run that ended earlier shows its last checkpoint and says so.
    assert cells(page, 0, 1)[0].endswith("(episode 40)")
    options = page.locator(".controls").first
    assert options.locator("input:checked").count() == 0, "linear axes, means and bands come first"
    options.get_by_label("every seed").check()
    seeds = dict(part.split(": ") for part in cells(page, 0, 0)[2].split(", "))
    assert {int(name): float(value) for name, value in seeds.items()} == pytest.approx(
        dict(zip(runs[0].seeds, runs[0].regret[:, -1], strict=True)), rel=1e-3
    )
    before = page.locator(".uplot canvas").first.evaluate("node => node.toDataURL()")
    options.get_by_label("log episodes").check()
    options.get_by_label("log values").check()
    assert page.locator(".uplot canvas").first.evaluate("node => node.toDataURL()") != before
    page.locator(".readout").first.get_by_role("checkbox").nth(1).uncheck()
    assert page.locator(".uplot canvas").count() == 4
    assert fits(page)


def test_without_scripts_there_are_pictures_that_say_what_they_show(opened, report):
    page = opened(viewport={"width": 390, "height": 844}, java_script_enabled=False)
    pictures = page.locator("noscript img")
    assert pictures.count() == 2
    for picture in pictures.all():
        assert picture.bounding_box()["width"] <= 390
        assert re.search(r"simulation only.*After 60 episodes|At the end of each run", picture.get_attribute("alt"))


def test_print_opens_what_is_closed_and_uses_ink_on_paper(opened):
    page = opened(viewport={"width": 1280, "height": 844}, color_scheme="dark")
    before = page.locator("details[open]").all_inner_texts()
    assert [text.splitlines()[0].partition(":")[0] for text in before] == ["Certificate"]  # the first one is open
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    assert page.locator(".controls").first.is_hidden()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").all_inner_texts() == before


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_axe_finds_nothing_serious(opened, scheme):
    page = opened(viewport={"width": 390, "height": 844}, color_scheme=scheme)
    assert serious(page) == []
