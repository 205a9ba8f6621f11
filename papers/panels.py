"""Figures whose panels share lines: a reference such as UCB-VI stands in every panel.

`PanelFigure` is a `FigureSpec` whose `panels` names all the panels that a result belongs to, none or several. A
`Painted` figure shows numbers that it writes beside itself, and can be painted again from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

import numpy as np

from tacit.runs.figures import GREY, Band, LogAxes, Panel, PerEpisode, plot, save_figure
from tacit.runs.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FIGURE", "Drawable", "FigureSpec", "Painted", "PanelFigure", "guided", "save_titled", "slope_guide"]


class Drawable(Protocol):
    """A figure that belongs to an experiment."""

    @property
    def name(self) -> str:
        """Its file, without ending."""
        ...

    def draw(self, results: Sequence[Result], path: Path, *, title: str) -> Figure:
        """Draw the figure of these results; `title` serves if it has none of its own."""
        ...


@runtime_checkable
class Painted(Drawable, Protocol):
    """A figure of numbers that stand in the JSON file beside it."""

    def paint(self, told: Mapping[str, Any], path: Path, *, title: str) -> Figure:
        """Draw the figure of these numbers."""
        ...


def save_titled(figure: Figure, path: Path, title: str, caption: str) -> Figure:
    """Save a figure with its title above and a caption below."""
    figure.suptitle(title, fontsize=12, x=0.01, ha="left")
    figure.supxlabel(f"{caption}; simulation only", fontsize=8, color=GREY, x=0.01, ha="left")
    save_figure(figure, path)
    return figure


def slope_guide(ax: Axes, *, per_episode: PerEpisode) -> None:
    """A line with the slope of √K, below on the right; or of 1/√K, below on the left, where regret is divided by K."""
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    # At most a decade and a half, and a third of the height of the panel; its middle stands where few lines pass.
    span = min(25.0, right / left / 3.0, (high / low) ** (2.0 / 3.0))
    power, share = (-0.5, 0.3) if per_episode else (0.5, 0.22)
    ends = 1.5 * left * np.array([1.0, span]) if per_episode else right / 1.3 / np.array([span, 1.0])
    y = low ** (1.0 - share) * high**share * (ends / np.sqrt(ends.prod())) ** power
    ax.plot(ends, y, color="#b0b0b0", linewidth=0.9, zorder=1)
    name, at, side = ("slope -1/2", 1, "left") if per_episode else ("slope 1/2", 0, "right")
    ax.annotate(name, (ends[at], y[at]), xytext=(3 if at else -3, 0), textcoords="offset points", fontsize=7.5,
                color="#8a8a8a", ha=side, va="center")  # fmt: skip


def guided(per_episode: PerEpisode) -> Callable[[Axes], None]:
    """Draws a line with the slope of √K where both axes are logarithmic and regret is added up."""

    def draw(ax: Axes) -> None:
        if ax.get_xscale() == ax.get_yscale() == "log" and per_episode is not True:
            slope_guide(ax, per_episode=per_episode)

    return draw


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureSpec:
    """A figure that belongs to an experiment: its file (without ending) and how it is drawn."""

    name: str
    band: Band = "std"
    per_episode: PerEpisode = False
    log: LogAxes = "xy"
    title: str | None = None
    select: Callable[[Result], bool] | None = None
    """Which results it shows; None: all."""
    panel: Panel | None = None
    columns: int | None = None
    guide: bool = True
    first: int = 1

    def draw(self, results: Sequence[Result], path: Path, *, title: str) -> Figure:
        """Draw the figure of these results; `title` serves if it has none of its own."""
        shown = [result for result in results if self.select is None or self.select(result)]
        return plot(
            shown,
            path,
            band=self.band,
            per_episode=self.per_episode,
            log=self.log,
            title=self.title or title,
            panel=self.panel,
            columns=self.columns,
            beside=guided(self.per_episode) if self.guide else None,
            first=self.first,
        )


FIGURE: Final = FigureSpec(name="regret")
"""The figure of an experiment that asks for nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelFigure:
    """A figure of regret in several panels."""

    name: str
    panels: Callable[[Result], Sequence[str]]
    """The panels of a result, in the order in which they stand."""
    line: Callable[[Result], str] = lambda result: result.label
    """The name of its line; equal names share a style in all panels."""
    band: Band = "minmax"
    per_episode: PerEpisode = False
    log: LogAxes = "xy"
    title: str | None = None
    columns: int | None = None
    """How many panels stand side by side; None: as `plot` has it."""
    guide: bool = True
    first: int = 1
    """The episode with which the figure begins."""
    order: tuple[str, ...] = ()
    """Panels that stand first, in this order; others follow as their results do."""

    def draw(self, results: Sequence[Result], path: Path, *, title: str) -> Figure:
        """Draw the figure of these results; `title` serves if it has none of its own."""
        shown: list[Result] = []
        place: dict[int, str] = {}
        for result in results:
            for panel in self.panels(result):
                copy = replace(result, label=self.line(result))
                place[id(copy)] = panel
                shown.append(copy)
        seen = dict.fromkeys(place[id(copy)] for copy in shown)
        order = [*(name for name in self.order if name in seen), *(name for name in seen if name not in self.order)]
        shown.sort(key=lambda copy: order.index(place[id(copy)]))
        return plot(
            shown,
            path,
            band=self.band,
            per_episode=self.per_episode,
            log=self.log,
            title=self.title or title,
            panel=lambda copy: place[id(copy)],
            columns=self.columns,
            beside=guided(self.per_episode) if self.guide else None,
            first=self.first,
        )
