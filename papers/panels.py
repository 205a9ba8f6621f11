"""Figures whose panels share lines: a reference such as UCB-VI stands in every panel.

`PanelFigure` is a `FigureSpec` whose `panels` names all the panels that a result belongs to, none or several. A
`Painted` figure shows numbers that it writes beside itself, and can be painted again from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from tacit.runs.figures import GREY, Band, LogAxes, PerEpisode, plot, save_figure
from tacit.runs.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Drawable", "Painted", "PanelFigure", "save_titled"]


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
            guide=self.guide,
            first=self.first,
        )
