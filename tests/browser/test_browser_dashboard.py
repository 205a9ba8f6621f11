"""The dashboard in the system's Chromium: it enters, fits, offends nobody, and shows a release when there is one."""

from __future__ import annotations

import pytest
from axe_tools import serious
from benchmarks.watched import Rehearsal, enter, served

VIEWS = {
    "operator": ("Progress", "Reports per minute", "Refused, by reason", "Flow conservation", "Keys", "Acts"),
    "officer": ("Privacy budget of a person", "Verify", "Releases", "Certificate"),
    "learner": ("Return of every stage", "Changed since the last stage", "Policy by name"),
}
PEOPLE = 38
SIZES = [
    pytest.param(390, "dark"),
    pytest.param(1280, "light", marks=pytest.mark.slow),
    pytest.param(1280, "dark", marks=pytest.mark.slow),
    pytest.param(390, "light", marks=pytest.mark.slow),
]


@pytest.fixture(scope="module")
def board(chromium, tmp_path_factory):
    """A study with one stage released and people in the next one; (study, address, tokens)."""
    place = tmp_path_factory.mktemp("watched")
    rehearsal = Rehearsal(place)
    rehearsal.report(PEOPLE)
    rehearsal.release()
    rehearsal.open()
    rehearsal.report(PEOPLE)
    with served(place, "--simulated") as (url, tokens):
        yield rehearsal, url, tokens


@pytest.fixture
def opened(chromium, board):
    """Opens a page; an error on its console (the policy's too), a throw or a request elsewhere fails the test."""
    _, url, _ = board
    contexts, errors = [], []

    def show(**options):
        contexts.append(chromium.new_context(**options))
        page = contexts[-1].new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda said: errors.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda asked: None if asked.url.startswith(f"{url}/") else errors.append(asked.url))
        return page

    yield show
    for context in contexts:
        context.close()
    assert errors == []


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_every_view_fits_and_is_for_everybody(opened, board, width, scheme):
    _, url, tokens = board
    page = opened(viewport={"width": width, "height": 844}, color_scheme=scheme)
    page.goto(f"{url}/enter")
    assert serious(page) == []
    enter(page, url, tokens["writer"])
    assert tokens["writer"] not in page.url
    for view, titles in VIEWS.items():
        page.goto(f"{url}/{view}")
        page.locator("#live[data-state=live]").wait_for()
        shown = page.locator("h2").all_inner_texts()
        assert set(titles) <= set(shown), view
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), view
        for card in page.locator(".card").all():
            box = card.bounding_box()
            assert box["x"] >= 0, view
            assert box["x"] + box["width"] <= width, view
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(int(part) for part in background[4:-1].split(",")) < 128) == (scheme == "dark")
        assert serious(page) == [], view
    assert page.locator("#returns canvas").count() == 1
    assert page.get_by_text("simulation only").count() >= 1


def test_a_reader_sees_a_release_arrive_and_cannot_act(opened, board):
    rehearsal, url, tokens = board
    page = opened(viewport={"width": 1280, "height": 844})
    enter(page, url, tokens["reader"])
    assert page.locator("form[action^='/act/']").count() == 0
    assert page.locator("#progress .pill").all_inner_texts() == ["open", "released"]
    page.evaluate("window.same = true")
    rehearsal.release()
    page.locator("#progress .pill.released").nth(1).wait_for()
    assert page.evaluate("window.same"), "the page was not loaded again"
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.goto(f"{url}/officer")
    assert page.locator("#releases tbody tr").count() == 2
    page.get_by_role("button", name="Verify now").click()
    page.locator("#verify .word").first.wait_for()
    words = page.locator("#verify .word strong").all_inner_texts()
    assert words == ["True", "True"]
    page.get_by_role("button", name="Leave").click()
    page.wait_for_url(f"{url}/enter")


def test_an_address_with_a_token_works_on_the_page_that_asks_for_it(opened, board):
    _, url, tokens = board
    page = opened(viewport={"width": 390, "height": 844})
    page.goto(f"{url}/enter")
    enter(page, url, tokens["reader"])
    assert "reading only" in page.locator(".role").inner_text()
