"""The styles of lines: one colour per learner in every figure, and lines that differ without colour, too.

A line is known by the first part of its label, without its noise ("SDP-PE tight, ε=1" is a line of SDP-PE). Names that
appear in several figures have a colour of their own; other labels take the colours that are left, in order. Lines of
one learner share its colour and differ in dash and marker.

The names of lines, written where the lines end and pushed apart just enough to be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tacit.runs.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes


LINE_POINTS: Final = 11.0
"""The height of a label."""


def name_lines(ax: Axes, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Write each name beside the end of its line, pushed apart just enough to be read."""
    per_point = ax.get_figure(root=True).dpi / 72.0  # type: ignore[union-attr]
    heights = [float(ax.transData.transform((x, y))[1]) / per_point for x, y, _, _ in ends]
    bottom = float(ax.transAxes.transform((0.0, 0.0))[1]) / per_point
    places = apart(heights, LINE_POINTS, bottom)
    for (x, y, name, color), height, place in zip(ends, heights, places, strict=True):
        moved = place - height
        line = {
            "arrowstyle": "-",
            "color": color,
            "linewidth": 0.6,
            "shrinkA": 0.0,
            "shrinkB": 0.0,
            "relpos": (0.0, 0.5),
        }
        ax.annotate(
            name,
            xy=(x, y),
            xytext=(12.0, moved),
            textcoords="offset points",
            fontsize=8.5,
            color=color,
            va="center",
            annotation_clip=False,
            arrowprops=line,
        )


def apart(heights: Sequence[float], gap: float, bottom: float) -> list[float]:
    """The nearest heights that keep the order and are at least `gap` apart: blocks of names that touch stay centred."""
    order = sorted(range(len(heights)), key=heights.__getitem__)
    blocks: list[tuple[float, int]] = []  # centre of a block and how many names it holds
    for i in order:
        centre, count = heights[i], 1
        while blocks and blocks[-1][0] + gap * (blocks[-1][1] + count) / 2.0 > centre:
            other, size = blocks.pop()
            centre, count = (other * size + centre * count) / (size + count), size + count
        blocks.append((max(centre, bottom + gap * (count - 1) / 2.0), count))
    places = [centre + gap * (k - (count - 1) / 2.0) for centre, count in blocks for k in range(count)]
    placed = [0.0] * len(heights)
    for i, place in zip(order, places, strict=True):
        placed[i] = place
    return placed


Style = tuple[str, Any, str]
"""Colour, dash and marker."""

STYLES: Final[tuple[Style, ...]] = (
    ("#0072b2", "-", "o"),
    ("#d55e00", (0, (5, 1.5)), "s"),
    ("#007a5a", (0, (5, 1.5, 1, 1.5)), "^"),
    ("#a0487e", (0, (1.5, 1)), "D"),
    ("#3d3d3d", (0, (8, 2)), "v"),
    ("#4a9fd8", "-", "P"),
    ("#b8860b", (0, (3, 1, 1, 1, 1, 1)), "X"),
    ("#7a7a7a", (0, (2, 2)), "*"),
)
REFERENCE_STYLES: Final[Mapping[str, Style]] = {
    "uniform": ("#6b6b6b", (0, (1, 1.5)), ""),
    "optimal": ("#6b6b6b", (0, (4, 2)), ""),
    "myopic": ("#6b6b6b", (0, (4, 2, 1, 2)), ""),
}
GREY: Final = "#6b6b6b"
WIDTH: Final = 10.0
"""The width of a figure in several columns, in inches; shown as wide as a page, its letters can be read."""

_BLUE, _ORANGE, _GREEN, _PURPLE, _BLACK, _SKY, _GOLD, _GRAY = range(len(STYLES))
NAMED: Final[Mapping[str, int]] = {
    # without privacy
    "UCB-VI": _BLACK, "no privacy": _BLACK, "without privacy": _BLACK, "PE": _GOLD,
    "2024, no privacy": _BLACK, "2025, no privacy": _BLACK,
    # by trust
    "central": _BLUE, "UCBVI-JDP": _BLUE, "DP-UCBVI-JDP": _BLUE,
    "local": _ORANGE, "UCBVI-LDP": _ORANGE, "DP-UCBVI-LDP": _ORANGE,
    "shuffle": _GREEN, "SDP-PE": _GREEN, "SDP-PE plus": _SKY, "SDP-BUCB": _PURPLE,
    # local learners, and LDP-OBI by its noise
    "LDP-OBI": _BLUE, "LDP-PSRL": _ORANGE, "LDP-PSRL beta": _GREEN,
    "LDP-OBI-L": _BLUE, "LDP-OBI-G": _ORANGE, "LDP-OBI-RR": _GREEN, "LDP-OBI-BND": _PURPLE, "LDP-OBI-OUE": _SKY,
    "LDP-OBI-SUB": _GOLD, "LDP-OBI-G10": _GRAY,
    # counters of central trust
    "paper tree": _ORANGE, "Laplace tree": _GOLD, "factorization": _BLUE, "batched": _SKY,
    "batched factorization": _GREEN, "at the paper's epsilon": _PURPLE, "PO": _GRAY,
    # policy gradients
    "DP-PG": _BLUE, "DP-NPG": _ORANGE, "DP-PPO": _GREEN, "DP-TRPO": _PURPLE,
    "network, DP-PG": _BLUE, "network, DP-TRPO": _PURPLE, "table, DP-PG": _GOLD,
}  # fmt: skip
"""Which of the colours belongs to a learner, by the name that its lines have."""
NOISES: Final = (" tight", " printed")


def line_styles(results: Sequence[Result]) -> dict[str, Style]:
    """A style per label; the reference policies keep theirs in every figure."""
    learners = {result.label: result.config.learner for result in results}
    fixed = {label: REFERENCE_STYLES[name] for label, name in learners.items() if name in REFERENCE_STYLES}
    return {**fixed, **_styles(label for label in learners if label not in fixed)}


def style_of(label: str, labels: Sequence[str]) -> Style:
    """The style of one label among all labels of a figure.

    >>> style_of("SDP-PE tight, ε=1", ["UCB-VI", "SDP-PE tight, ε=1"])[0] == style_of("SDP-PE", ["SDP-PE"])[0]
    True
    """
    return _styles(labels)[label]


def _styles(labels: Iterable[str]) -> dict[str, Style]:
    shown = list(dict.fromkeys(labels))
    taken = {NAMED[name] for name in map(_name, shown) if name in NAMED}
    left = [i for i in range(len(STYLES)) if i not in taken] or list(range(len(STYLES)))
    colours: dict[str, int] = {}
    forms: set[tuple[int, int]] = set()
    found: dict[str, Style] = {}
    for label in shown:
        name = _name(label)
        if name not in NAMED:  # labels of nobody's have a colour each
            name = label
            colours.setdefault(name, left[len([n for n in colours if n not in NAMED]) % len(left)])
        colour = colours.setdefault(name, NAMED.get(name, 0))
        # Dash and marker: first those that belong together, beginning with the colour's own, then every other pair.
        count = len(STYLES)
        pairs = (
            ((colour + turn) % count, (colour + turn + shift) % count)
            for shift in range(count)
            for turn in range(count)
        )
        dash, marker = next((pair for pair in pairs if pair not in forms), (colour, colour))
        forms.add((dash, marker))
        found[label] = (STYLES[colour][0], STYLES[dash][1], STYLES[marker][2])
    return found


def _name(label: str) -> str:
    for name in (label, label.rpartition(", ")[0], label.split("; ")[0]):
        if name in NAMED:
            return name
    name = label.split(", ")[0]
    for noise in NOISES:
        name = name.removesuffix(noise)
    return name
