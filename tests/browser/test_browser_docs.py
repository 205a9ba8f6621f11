"""The built documentation in the system's Chromium: every page on phone and desk, light and dark, fits its window."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from axe_tools import serious

ROOT = Path(__file__).parents[2]
LISTENED = ("index.html", "officer.html", "frontier.html", "audit.html", "reference.html", "gallery/index.html")
LISTENED += ("benchmarks.html", "papers/bai2025secure.html", "genindex.html")
LISTENED += tuple(f"gallery/{path.stem}.html" for path in (ROOT / "docs" / "examples").glob("plot_*_sweep_on_ray.py"))
"""Pages of every kind there is: axe-core looks at these."""
BEYOND = """() => {
    // What lies beyond the window and no box around it scrolls there; the page itself never does.
    if (document.documentElement.scrollWidth > innerWidth) return ["HTML"];
    const within = (node) => node.getBoundingClientRect().right <= innerWidth + 1;
    const scrolls = (node) => ["auto", "scroll"].includes(getComputedStyle(node).overflowX);
    const reached = (node) => {
        for (let box = node.parentElement; box && box.tagName !== "ARTICLE"; box = box.parentElement) {
            if (scrolls(box) && within(box)) return true;
        }
        return false;
    };
    const out = [...document.querySelectorAll("article *")].filter((node) => !within(node) && !reached(node));
    return out.map((node) => node.tagName);
}"""


@pytest.fixture(scope="module")
def built(chromium, tmp_path_factory):
    """As `make docs` builds it, every example run."""
    pytest.importorskip("sphinx")
    place = tmp_path_factory.mktemp("html")
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", "docs", str(place)]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return place


@pytest.fixture
def opened(chromium):
    """A page; what it says as an error, throws, or asks for elsewhere fails the test."""
    context = chromium.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.set_default_timeout(60_000)
    errors: list[tuple[str, str]] = []
    page.on("console", lambda said: errors.append((page.url, said.text)) if said.type == "error" else None)
    page.on("pageerror", lambda error: errors.append((page.url, str(error))))
    own = ("file:", "data:")
    page.on("request", lambda asked: None if asked.url.startswith(own) else errors.append((page.url, asked.url)))
    yield page
    context.close()
    assert errors == []


@pytest.mark.slow
def test_every_page_fits(opened, built):
    pages = sorted(built.rglob("*.html"))
    assert len(pages) > 70
    wide, broken, plain = [], [], []
    for path in pages:
        name = str(path.relative_to(built))
        opened.goto(path.as_uri())
        if opened.evaluate("[...document.images].some((image) => image.naturalWidth === 0)"):
            broken.append(name)
        for width in (390, 1280):
            opened.set_viewport_size({"width": width, "height": 844})
            for scheme in ("light", "dark"):
                opened.emulate_media(color_scheme=scheme)
                wide += [(name, width, scheme, tag) for tag in opened.evaluate(BEYOND)]
                background = opened.evaluate("getComputedStyle(document.body).backgroundColor")
                if (sum(int(part) for part in background[4:-1].split(",")) < 128) != (scheme == "dark"):
                    plain.append((name, scheme))
    assert (wide, broken, plain) == ([], [], [])


@pytest.mark.slow
def test_every_example_shows_its_picture(opened, built):
    """And says in words what it is of."""
    for path in sorted((ROOT / "docs" / "examples").glob("plot_*.py")):
        opened.goto((built / "gallery" / f"{path.stem}.html").as_uri())
        pictures = opened.locator("article img.sphx-glr-single-img, article img.sphx-glr-multi-img")
        assert pictures.count() >= 1, path.stem
        for picture in pictures.all():
            assert picture.bounding_box()["width"] <= 390, path.stem
            assert len(picture.get_attribute("alt")) > 10, path.stem


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(opened, built, scheme):
    opened.emulate_media(color_scheme=scheme)
    wrong = []
    for name in LISTENED:
        opened.goto((built / name).as_uri())
        wrong += [(name, *found) for found in serious(opened)]
    assert wrong == []
