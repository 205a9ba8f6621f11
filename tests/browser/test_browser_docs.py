"""The built documentation in the system's Chromium: every page on phone and desk, light and dark, fits its window."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built(chromium, tmp_path_factory):
    pytest.importorskip("sphinx")
    place = tmp_path_factory.mktemp("html")
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", "docs", str(place)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=900)
    return place


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_every_page_fits_and_says_no_error(chromium, built, width, scheme):
    pages = sorted(path for path in built.rglob("*.html") if path.name not in ("search.html", "genindex.html"))
    assert len(pages) > 40
    context = chromium.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(60_000)
    errors: list[str] = []
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    wide, broken, wrong = [], [], []
    for path in pages:
        name = str(path.relative_to(built))
        page.goto(path.as_uri())
        if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
            wide.append(name)
        if page.evaluate("[...document.images].some((image) => image.complete && image.naturalWidth === 0)"):
            broken.append(name)
        if errors:
            wrong.append((name, *errors))
            errors.clear()
    context.close()
    assert (wide, broken, wrong) == ([], [], [])
