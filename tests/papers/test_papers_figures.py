"""The figures of papers: titles, bands, guides, panels, colours and sizes, as specified and as committed."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from papers.catalogue import EXPERIMENTS, title_of
from papers.garcelon2021local import experiments as garcelon2021
from papers.panels import FigureSpec, Painted, PanelFigure
from tacit.runs.figures import NAMED, STYLES, WIDTH, style_of
from tacit.runs.storage_paths import read_json

ROOT = Path(__file__).parents[2]
SPECS = [(name, spec) for name, experiment in EXPERIMENTS.items() for spec in experiment.figures]
SHOWN = sorted(
    {
        (page.parent / link).resolve()
        for page in (ROOT / "docs").rglob("*.md")
        for link in re.findall(r"^```\{figure\} (\S+\.png)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    }
)
"""The figures that stand on pages."""


def test_figures_of_papers_say_what_they_reproduce():
    """A figure that reproduces something has no title of its own in the place of that."""
    for name, spec in SPECS:
        if EXPERIMENTS[name].reproduces is not None:
            assert title_of(name, "paper").startswith("Reproduction of ")
            assert getattr(spec, "title", None) is None, (name, spec.name)


def test_growth_has_a_band_and_a_guide():
    growth = [
        (name, spec)
        for name, spec in SPECS
        if isinstance(spec, FigureSpec | PanelFigure) and spec.log == "xy" and spec.per_episode is not True
    ]
    assert len(growth) > 20
    assert [name for name, spec in growth if spec.band == "none" or not spec.guide] == []


@pytest.mark.parametrize("name", ["fig2", "fig4", "fig5", "fig6"])
def test_panels_of_one_epsilon_stand_side_by_side(name):
    for spec in garcelon2021.figures(name):
        assert spec.columns == 2
        rows = [spec.order[i : i + 2] for i in range(0, 6, 2)]
        assert [{panel.split(",")[0] for panel in row} for row in rows] == [{f"ε = {e:g}"} for e in (0.2, 2, 20)]
        assert all(len(set(row)) == 2 for row in rows)


def test_a_learner_has_one_colour_in_every_figure():
    """Whatever else a figure shows, and with or without epsilon and noise behind the name."""
    names = list(NAMED)
    for ending in ("", ", ε=1", ", ε=0.2"):
        labels = [f"{name}{ending}" for name in names]
        for company in (labels, labels[::-1], labels[::2], labels[1::3], ["somebody", "another", *labels]):
            found = {label: style_of(label, company)[0] for label in company if label in labels}
            assert found == {f"{name}{ending}": STYLES[NAMED[name]][0] for name in names if f"{name}{ending}" in found}


def test_without_privacy_is_black_whatever_stands_before_or_behind():
    black = STYLES[NAMED["no privacy"]][0]
    company = ["2024, no privacy", "2024, tight, ε=1", "2025, no privacy", "no privacy; C₁ = 6", "tight, ε=1; C₁ = 6"]
    styles = {label: style_of(label, company) for label in company}
    assert {label for label, style in styles.items() if style[0] == black} == {
        label for label in company if "no privacy" in label
    }
    assert len({style[1:] for style in styles.values()}) == len(company)


COLOURS = {"no privacy": "no privacy", "cost of central": "central", "cost of local": "local"}


@pytest.mark.parametrize(
    ("where", "begins"),
    [
        ("he2025policy/fisher/fisher", {"no privacy"}),
        ("he2025policy/theorem2/rates", {"no privacy"}),
        ("bai2024adversarial/table1-powers/powers", set(COLOURS)),
    ],
)
def test_painted_lines_have_the_colours_of_their_learners(where, begins, tmp_path):
    name, _, figure = where.rpartition("/")
    (spec,) = [spec for spec in EXPERIMENTS[name].figures if spec.name == figure]
    assert isinstance(spec, Painted)
    drawn = spec.paint(read_json(ROOT / f"results/{where}.json"), tmp_path / "figure.png", title="Reproduction of it")
    lines = [line for ax in drawn.axes for line in ax.lines]
    for begin, learner in COLOURS.items():
        colours = {line.get_color() for line in lines if str(line.get_label()).startswith(begin)}
        assert colours == ({STYLES[NAMED[learner]][0]} if begin in begins else set())


def size_of(path: Path) -> tuple[int, int]:
    """Width and height of a PNG in pixels, by its header."""
    return struct.unpack(">II", path.read_bytes()[16:24])


def test_no_figure_on_a_page_is_taller_than_two_screens():
    """At the width of a page (800 pixels), and wide enough to be sharp there."""
    assert len(SHOWN) > 25
    sizes = {path.relative_to(ROOT).as_posix(): size_of(path) for path in SHOWN}
    assert {name: size for name, size in sizes.items() if size[1] / size[0] > 2.0 or size[0] < 1000} == {}


@pytest.mark.parametrize(
    "where",
    [
        "bai2024adversarial/table1/growth",
        pytest.param("bai2024adversarial/table1-pure/pure", marks=pytest.mark.slow),
        pytest.param("bai2024adversarial/estimator/growth", marks=pytest.mark.slow),
    ],
)
def test_letters_can_be_read_at_the_width_of_a_page(where, tmp_path):
    """A figure of ten inches is shown at eight: seven points become five and a half, and nothing is smaller."""
    name, _, figure = where.rpartition("/")
    (spec,) = [spec for spec in EXPERIMENTS[name].figures if spec.name == figure]
    assert isinstance(spec, Painted)
    drawn = spec.paint(read_json(ROOT / f"results/{where}.json"), tmp_path / "figure.png", title="Reproduction of it")
    assert drawn.get_size_inches()[0] <= WIDTH
    words = [text for text in drawn.findobj(lambda part: hasattr(part, "get_fontsize")) if text.get_text().strip()]
    assert min(text.get_fontsize() for text in words) >= 7.0
    guides = [text.get_text() for ax in drawn.axes for text in ax.texts]
    assert len([text for text in guides if text.startswith("slope")]) == len(drawn.axes)
    assert all(ax.collections for ax in drawn.axes)  # bands
    edge = drawn.bbox.width
    for legend in [*drawn.legends, *(ax.get_legend() for ax in drawn.axes if ax.get_legend())]:
        box = legend.get_window_extent()
        assert box.x0 >= 0.0
        assert box.x1 <= edge
