"""The curves of a report: plain numbers for the script that draws them, and a picture for readers without scripts.

What a figure of a report shows, in one sentence per panel, computed from the numbers; simulation only, all of it.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tacit.runs.figures import (
    BAND_WORDS,
    REFERENCE_STYLES,
    LogAxes,
    PerEpisode,
    line_styles,
    log_floor,
    plot,
    references,
    series,
    values_of,
)
from tacit.runs.result import Result

MAX_NAMED: Final = 8
"""More runs than this are not all named: the first and the last few are."""


def finding(members: Sequence[Result], *, per_episode: PerEpisode) -> str:
    """The finding of one panel: who ends where, by how much, and whether the two best can be told apart."""
    live = any(result.returns for result in members)
    ends = sorted((_End(result, per_episode=per_episode) for result in members), key=lambda end: end.sign * end.mean)
    what = "return per episode" if live else "regret per episode" if per_episode else "cumulative regret"
    when = {f"{end.episodes:,}" for end in ends}
    after = f"After {when.pop()} episodes" if len(when) == 1 else "At the end of each run"
    if len(ends) == 1:
        return f"{after}, {ends[0].label} has {what} {ends[0].words}{_beside(ends[0], per_episode)}."
    best = ends[0]
    first = f"{after}, {best.label} has the {'highest' if live else 'least'} {what}, {best.words}"
    others = [f"{end.label} has {_number(end.mean)}{_times(end, best, live=live)}" for end in ends[1:]]
    left = len(others) - MAX_NAMED
    if left > 0:
        others = [*others[: MAX_NAMED // 2], f"{left} more lie between", *others[-(MAX_NAMED // 2) :]]
    return f"{first}; {'; '.join(others)}. {_apart(best, ends[1])}"


class _End:
    """Where a line ends."""

    def __init__(self, result: Result, *, per_episode: PerEpisode) -> None:
        x, mean, low, high = series(result, band="std", per_episode=per_episode)
        self.result, self.label, self.seeds = result, result.label, len(result.seeds)
        self.episodes, self.mean = int(x[-1]), float(mean[-1])
        self.low, self.high = float(low[-1]), float(high[-1])
        self.start = float(mean[0])
        self.sign = -1.0 if result.returns else 1.0  # much return is good, much regret is not

    @property
    def words(self) -> str:
        seeds = f"mean of {self.seeds} seeds" if self.seeds > 1 else "one seed"
        spread = f" ± {_number(self.high - self.mean)}" if self.seeds > 1 else ""
        return f"{_number(self.mean)}{spread} ({seeds})"


def _times(end: _End, best: _End, *, live: bool) -> str:
    """How many times the best; nothing where that is no share."""
    if live or best.mean <= 0.0 or end.mean <= 0.0:
        return ""
    share = end.mean / best.mean
    return f" ({share:,.3g} times as much)" if share >= 1.005 else " (as much)"


def _apart(best: _End, next_best: _End) -> str:
    if best.seeds == 1 or next_best.seeds == 1:
        return f"With one seed nothing is known about how far {best.label} and {next_best.label} scatter."
    overlap = best.low <= next_best.high and next_best.low <= best.high
    words = "overlap" if overlap else "do not overlap"
    return f"The bands (± one standard deviation) of {best.label} and {next_best.label} {words} there."


def _beside(end: _End, per_episode: PerEpisode) -> str:
    """The first policy that learns nothing, for a run that stands alone."""
    lines = references(end.result, per_episode=per_episode)
    started = f", from {_number(end.start)} at the start" if per_episode and not end.result.returns else ""
    return f"{started}; {lines[0][0]}: {_number(float(lines[0][3][-1]))}" if lines else started


def _number(value: float) -> str:
    return f"{value:,.1f}" if abs(value) >= 100.0 else f"{value:.3g}"


MAX_SEED_VALUES: Final = 40_000
"""A figure with more values of single seeds than this holds their means and bands only: a page must stay small."""

DARK: Final[Mapping[str, str]] = {
    "#0072b2": "#5cb3ea",
    "#d55e00": "#ff9a4d",
    "#007a5a": "#3fc49b",
    "#a0487e": "#e08fc0",
    "#3d3d3d": "#d0d0d0",
    "#4a9fd8": "#8fd0ff",
    "#b8860b": "#e6b840",
    "#7a7a7a": "#a8a8a8",
    "#6b6b6b": "#9a9a9a",
}
"""The colour of a line on a dark page, by its colour on a light one."""


def figure_of(results: Sequence[Result], title: str, *, per_episode: PerEpisode, log: LogAxes) -> dict[str, Any]:
    """One figure of a page: findings, caption, picture, and the numbers of every panel.

    `log` is how the axes begin; a reader with scripts may change them, and sees values and seeds.
    """
    panels: dict[str, list[Result]] = {}
    for result in results:
        panels.setdefault(result.config.environment_name, []).append(result)
    live = any(result.returns for result in results)
    values = sum(len(result.seeds) * len(result.episodes) for result in results)
    seeds = values <= MAX_SEED_VALUES and any(len(result.seeds) > 1 for result in results)
    styles = line_styles(results)
    y = "return per episode" if live else "regret per episode" if per_episode else "cumulative regret"
    found = {name: finding(members, per_episode=per_episode) for name, members in panels.items()}
    drawn = [
        {"name": name, "y": y, **_panel(members, styles, per_episode=per_episode, seeds=seeds)}
        for name, members in panels.items()
    ]
    left_out = "" if values <= MAX_SEED_VALUES else " Single seeds are left out of this page: see results.parquet."
    return {
        "title": title,
        "panels": [{"name": name, "finding": words} for name, words in found.items()],
        "caption": f"Lines: mean over the seeds; {BAND_WORDS['std']}. Values are rounded.{left_out}",
        "alt": " ".join([f"{title} (simulation only).", *(f"{name}: {words}" for name, words in found.items())]),
        "picture": _picture(results, per_episode=per_episode, log=log),
        "data": {"log": log, "logs": ["x"] if live else ["x", "y"], "seeds": seeds, "panels": drawn},
    }


def _panel(
    members: Sequence[Result],
    styles: Mapping[str, tuple[str, Any, str]],
    *,
    per_episode: PerEpisode,
    seeds: bool,
) -> dict[str, Any]:
    lines, lows = [], []
    for result in members:
        x, mean, low, high = series(result, band="std", per_episode=per_episode)
        lows.append(low)
        many = len(result.seeds) > 1
        each = values_of(result, per_episode=per_episode)[1] if seeds and many else ()
        lines.append(
            {
                **_stroke(styles[result.label], 1.8),
                "name": result.label,
                "x": [int(episode) for episode in x],
                "mean": _plain(mean),
                "low": _plain(low) if many else None,
                "high": _plain(high) if many else None,
                "numbers": list(result.seeds),
                "seeds": [_plain(row) for row in each],
            }
        )
    if not any(result.config.learner == "uniform" for result in members):
        longest = max(members, key=lambda result: result.config.episodes)
        for name, style, x, y in references(longest, per_episode=per_episode):
            fixed = {"name": name, "x": [int(episode) for episode in x], "mean": _plain(y)}
            lines.append(
                {
                    **_stroke(REFERENCE_STYLES[style], 1.2),
                    **fixed,
                    "low": None,
                    "high": None,
                    "numbers": [],
                    "seeds": [],
                }
            )
    free = any(result.returns for result in members)
    return {"lines": lines, "floor": log_floor(lows), "free": free, "band": "± one std"}


def _stroke(style: tuple[str, Any, str], width: float) -> dict[str, Any]:
    """Colour, dash and width of a line, for a light and a dark page."""
    colour, dash, _ = style
    # Dashes are given in widths of the line.
    lengths = [] if dash == "-" else [round(width * float(part), 2) for part in dash[1]]
    return {"colour": colour, "dark": DARK[colour], "dash": lengths, "width": width}


def _plain(values: Iterable[float]) -> list[float | None]:
    """Five digits each; JSON knows neither NaN nor infinity."""
    return [float(f"{value:.5g}") if math.isfinite(value) else None for value in values]


def _picture(results: Sequence[Result], *, per_episode: PerEpisode, log: LogAxes) -> str:
    """The figure as an SVG in a data URL; the same results give the same bytes."""
    import matplotlib as mpl

    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "tacit"}):
        plot(results, per_episode=per_episode, log=log).savefig(buffer, format="svg", metadata={"Date": None})
    return f"data:image/svg+xml;base64,{base64.b64encode(buffer.getvalue()).decode()}"
