"""What a figure of a report shows, in one sentence per panel, computed from the numbers; simulation only, all of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tacit.runs.figures import PerEpisode, references, series
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
