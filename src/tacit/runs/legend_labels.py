"""The names of lines, written where the lines end and pushed apart just enough to be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

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
