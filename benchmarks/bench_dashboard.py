"""The dashboard in the system's Chromium, on loopback, against fixed limits.

    bytes of a page            under 300 kB         the largest view with all that it loads, nothing cached
    first contentful paint     under 1 s            the slowest view, best of several loads each
    live update                within 2 s           from the end of a release to its row on an open page, the slowest

The ratio is what was measured over the limit, so that a target of 1 is met below it. Where there is no Chromium, or no
playwright, a row says so and nothing is measured.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.watched import Rehearsal, enter, served, system_chromium

VIEWS = ("operator", "officer", "learner")
LIMIT_BYTES, LIMIT_PAINT, LIMIT_UPDATE = 300_000, 1.0, 2.0
LOADS, RELEASES, PEOPLE = 5, 3, 40
PAINT = "performance.getEntriesByName('first-contentful-paint').map((entry) => entry.startTime)"


def run() -> list[dict[str, Any]]:
    """Rows for the table."""
    path, arguments = system_chromium()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return [{"name": "dashboard", "detail": "not measured: playwright is missing (pip install '.[browser]')"}]
    if not path:
        return [{"name": "dashboard", "detail": "not measured: no Chromium on this machine"}]
    with tempfile.TemporaryDirectory() as made:
        rehearsal = Rehearsal(Path(made), target=PEOPLE, stages=RELEASES + 2)
        rehearsal.report(PEOPLE)
        rehearsal.release()
        rehearsal.open()
        rehearsal.report(PEOPLE)
        with served(Path(made), "--simulated") as (url, tokens), sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=path, args=arguments)
            version = browser.version
            sizes, paints = loads(browser, url, tokens["writer"])
            delays = releases(browser, url, tokens["reader"], rehearsal)
            browser.close()
    rows = (
        ("dashboard: bytes of a page", max(sizes.values()), LIMIT_BYTES, f"{max(sizes.values()):,} bytes"),
        ("dashboard: first paint", max(paints.values()), LIMIT_PAINT, f"{max(paints.values()):.2f} s"),
        ("dashboard: live update after a release", max(delays), LIMIT_UPDATE, f"{max(delays):.2f} s"),
    )
    return [
        {
            "name": name,
            "ratio": value / limit,
            "target": 1.0,
            "better": "lower",
            "detail": f"{words} of {limit:,} allowed, Chromium {version}",
            "measured": value,
        }
        for name, value, limit, words in rows
    ]


def loads(browser: Any, url: str, token: str) -> tuple[dict[str, int], dict[str, float]]:
    """Bytes and first contentful paint (seconds) of every view, in new contexts."""
    sizes: dict[str, int] = {}
    paints: dict[str, float] = {}
    for view in VIEWS:
        for _ in range(LOADS):
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            context.request.post(f"{url}/session", form={"token": token}, headers={"origin": url})
            page = context.new_page()
            replies: list[Any] = []
            page.on("response", lambda reply, kept=replies: kept.append(reply))
            page.goto(f"{url}/{view}")
            page.locator("#live[data-state=live]").wait_for()
            assert page.url == f"{url}/{view}"
            sizes[view] = sum(len(reply.body()) for reply in replies if not reply.url.endswith("/events"))
            while not (paint := page.evaluate(PAINT)):  # the browser notes it a moment after the page is live
                page.wait_for_timeout(10)
            paints[view] = min(paints.get(view, float("inf")), paint[0] / 1000)
            context.close()
    return sizes, paints


def releases(browser: Any, url: str, token: str, rehearsal: Rehearsal) -> list[float]:
    """Seconds from the end of a release to its row on a page that was open before."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    enter(page, url, token)
    page.goto(f"{url}/officer")
    page.locator("#live[data-state=live]").wait_for()
    delays = []
    for number in range(RELEASES):
        begun = rehearsal.release()
        page.locator("#releases tbody tr").nth(number + 1).wait_for()
        delays.append(time.monotonic() - begun)
        rehearsal.open()
        rehearsal.report(rehearsal.target)
    return delays
