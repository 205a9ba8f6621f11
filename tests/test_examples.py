"""Tutorials and examples: each runs from an empty directory, asserts what it shows and draws a picture."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
from docs.style import DARK, INK, LIGHT, PALETTE, apply, contrast

# Ray leaves files and sockets of its own to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")

DOCS = Path(__file__).parents[1] / "docs"
TUTORIALS, EXAMPLES = (sorted((DOCS / place).glob("plot_*.py")) for place in ("lessons", "examples"))


def waits(path: Path):
    """A sweep on a cluster compiles in every worker; with every change a smaller run is taken there instead.

    That is `test_a_run_begun_here_and_finished_on_ray_is_the_same_run` of `tests/runs/test_runs_engines.py`.
    """
    return pytest.param(path, marks=pytest.mark.slow if "sweep" in path.stem else (), id=path.stem)


@pytest.mark.parametrize("path", [waits(path) for path in (*TUTORIALS, *EXAMPLES)])
def test_an_example_runs_and_ends_with_a_picture(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    apply()
    plt.close("all")
    try:
        runpy.run_path(str(path), run_name="__main__")
        assert plt.get_fignums(), "no picture"
    finally:
        plt.close("all")
        mpl.rcdefaults()
        mpl.use("Agg")
    assert list(tmp_path.iterdir()) == [], "an example leaves nothing behind"
    ray = sys.modules.get("ray")
    assert ray is None or not ray.is_initialized(), "nor a cluster"
    capsys.readouterr()


@pytest.mark.parametrize("path", [*TUTORIALS, *EXAMPLES], ids=lambda path: path.stem)
def test_a_picture_has_a_caption(path):
    """The block after the one that draws begins with a sentence in italics."""
    *_, drawn = re.split(r"plt\.subplots\(", path.read_text("utf-8"))
    assert re.search(r"^# %%\n# \*[A-Z][^*\n]+\.\*$", drawn, flags=re.MULTILINE)


def test_there_are_enough_and_they_use_the_colors_of_the_style():
    assert len(TUTORIALS) >= 5
    assert len(EXAMPLES) >= 12
    assert [
        path.name for path in (*TUTORIALS, *EXAMPLES) if "tab:" in path.read_text() or "figsize" in path.read_text()
    ] == []


def test_the_colors_of_figures_are_legible_on_light_and_dark_pages():
    """Graphics need a contrast of 3 (WCAG 1.4.11)."""
    assert {
        color: min(contrast(color, page) for page in (LIGHT, DARK)) >= 3 for color in (*PALETTE, INK)
    } == dict.fromkeys((*PALETTE, INK), True)


def test_one_of_them_is_a_sweep_on_a_cluster():
    """It starts one, and asserts that every number is that of the engine here."""
    [sweep] = [path.read_text("utf-8") for path in EXAMPLES if "sweep" in path.stem]
    assert 'engine="ray"' in sweep
    assert "np.array_equal(far.regret, near.regret)" in sweep
