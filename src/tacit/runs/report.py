"""One self-contained HTML page per result: curves, tables, commands, claims, certificates; no network.

Curves are drawn by scripts inside the page, which its Content-Security-Policy names by their digests; readers without
scripts see pictures. The axes are linear to begin with: on logarithmic ones a learner that never learns looks fine.
One sentence per panel says what it shows, computed from the numbers; simulation only, all of it.
"""

from __future__ import annotations

import base64
import io
import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tacit.pages.page import render
from tacit.runs.comparison import Comparison
from tacit.runs.figures import (
    BAND_WORDS,
    REFERENCE_STYLES,
    LogAxes,
    PerEpisode,
    check_choices,
    line_styles,
    log_floor,
    plot,
    references,
    series,
    values_of,
)
from tacit.runs.manifest import write_beside
from tacit.runs.result import Result
from tacit.runs.returns_report import RETURN_HEAD, return_cells
from tacit.runs.storage_paths import check_writable, make_directory, resolve_location, writing_to

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


SIMULATION_ONLY: Final = "Regret compares with the true optimum and is known in simulations only."
LIVE_ONLY: Final = "A live world has no table and no known optimum: returns are measured, in simulations only."
VERIFIER: Final = (
    "A certificate is a computation, so do it again. The verifier derives each one from its configuration, on your own "
    "machine, and compares digests; it exits with 0 (true), 1 (false) or 2 (unreadable). With --key public.pem it also "
    "says whether the holder of that key has signed."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of a page: its name for who cannot see it, and which columns are numbers or simulation-only."""

    label: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: Sequence[int] = ()
    simulated: Sequence[int] = ()


def render_report(found: Result | Comparison, *, log: LogAxes = "none", directory: str | Path | None = None) -> str:
    """The page, as text.

    Parameters
    ----------
    found
        A result, or a comparison of several.
    log
        Which axes are logarithmic to begin with.
    directory
        Where it is kept, for the verifier's command; None: where a comparison says it is.
    """
    check_choices("std", log)
    results = [found] if isinstance(found, Result) else list(found)
    kept = directory if directory is not None or isinstance(found, Result) else found.directory
    return render(
        "report.html",
        curves=True,
        title=f"Run: {found.label}" if isinstance(found, Result) else f"Comparison: {found.name}",
        subtitle=_subtitle(results),
        date=max((terms.date for result in results if (terms := result.certificate.terms)), default="an unknown day"),
        version=found.version,
        scale=None if isinstance(found, Result) else found.scale,
        notes=_notes(results),
        judgements=[*_regret(results, log), *_returns(results, log)],
        trials=[(result.label, line) for result in results for trial in result.trials for line in trial.lines],
        privacy=_privacy(results),
        verifier=_verifier(kept),
        commands="\n".join(dict.fromkeys([found.command, *(result.config.command() for result in results)])),
        configurations=[_configuration(result) for result in results],
    )


def write_report(
    found: Result | Comparison, path: str | Path, *, log: LogAxes = "none", directory: str | Path | None = None
) -> Path:
    """Write the page to a file."""
    target = resolve_location(path)
    check_writable(target.parent)
    page = render_report(found, log=log, directory=directory)
    with writing_to(target):
        make_directory(target.parent)
        write_beside(target, page.encode())
    return target


def _subtitle(results: Sequence[Result]) -> str:
    """Which worlds, trust models and sizes are in the page."""
    worlds = list(dict.fromkeys(result.config.environment_name for result in results))
    trusts = list(dict.fromkeys(result.claim.trust for result in results))
    people = sorted({result.config.episodes for result in results})
    many = f"{people[0]:,}" if len(people) == 1 else f"{people[0]:,} to {people[-1]:,}"
    return f"{', '.join(worlds)}; trust {', '.join(trusts)}; {many} people"


def _notes(results: Sequence[Result]) -> str:
    live = {bool(result.returns) for result in results}
    return " ".join([*([SIMULATION_ONLY] if False in live else []), *([LIVE_ONLY] if True in live else [])])


def _regret(results: Sequence[Result], log: LogAxes) -> list[dict[str, Any]]:
    """Figures and table of the runs that have regret."""
    mine = [result for result in results if not result.returns]
    if not mine:
        return []
    figures = [
        figure_of(mine, "Cumulative regret", per_episode=False, log=log),
        figure_of(mine, "Regret per episode", per_episode=True, log=log),
    ]
    return [{"title": "Regret", "figures": figures, "table": _regret_table(mine), "against": _against(mine)}]


def _returns(results: Sequence[Result], log: LogAxes) -> list[dict[str, Any]]:
    """Figure and table of the runs in live worlds."""
    mine = [result for result in results if result.returns]
    if not mine:
        return []
    table = Table(
        label="Returns",
        head=("environment", "run", *RETURN_HEAD),
        rows=[(result.config.environment_name, result.label, *return_cells(result)) for result in mine],
        numeric=range(2, 6),
        simulated=range(2, 6),
    )
    figures = [figure_of(mine, "Return per episode", per_episode=True, log=log)]
    return [{"title": "Returns", "figures": figures, "table": table, "against": _against(mine)}]


def _against(results: Sequence[Result]) -> list[tuple[str, str]]:
    return [(result.label, line) for result in results if result.against for line in result.against.lines]


def _regret_table(results: Sequence[Result]) -> Table:
    rows = []
    for result in results:
        spread, relative = result.spread(), result.relative_regret
        rows.append(
            (
                result.config.environment_name,
                result.label,
                f"{result.config.episodes:,}",
                f"{len(result.seeds)}",
                f"{spread.mean:,.1f} ± {spread.std:,.1f}",
                f"{spread.min:,.1f} to {spread.max:,.1f}",
                "-" if relative is None else f"{relative:.3f}",
                f"{result.seconds_per_episode * 1e6:.3g}",
            )
        )
    head = ("environment", "run", "episodes", "seeds", "regret, mean ± std", "least to greatest", "share of uniform's")
    return Table(label="Regret", head=(*head, "µs per episode"), rows=rows, numeric=range(2, 8), simulated=range(4, 7))


def _privacy(results: Sequence[Result]) -> dict[str, Any]:
    rows = []
    for result in results:
        claim, found = result.claim, result.certificate
        certified = f"{found.epsilon:.4g} at delta {found.delta:g}" if claim.trust != "none" else "nothing"
        promised = f"epsilon {claim.epsilon:g}, delta {claim.delta:g}" if claim.trust != "none" else "nothing"
        rows.append((result.label, claim.trust, claim.notion, promised, certified, found.method))
    head = ("run", "trust", "notion", "claimed", "certified epsilon", "method")
    return {
        "table": Table(label="Privacy", head=head, rows=rows),
        "words": _shared((result.reservations, result.label) for result in results if result.reservations),
        "certificates": _shared(
            (result.certificate.describe(), result.label)
            for result in sorted(results, key=lambda result: result.claim.trust == "none")
        ),
        "batches": [(result.label, _batches(result)) for result in results if result.batches],
    }


def _shared(said: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """(labels, text): what several runs say in the same words is said once."""
    by_text: dict[str, list[str]] = {}
    for text, label in said:
        by_text.setdefault(text, []).append(label)
    return [("; ".join(dict.fromkeys(labels)), text) for text, labels in by_text.items()]


def _batches(result: Result) -> Table:
    """What every kind of batch promises and costs, for a run that comes in batches of its own."""
    head = ("users", "statistic", "batches", "certified epsilon", "noise std", "messages per user", "bytes per user")
    rows = [
        (
            f"{batch.users:,}",
            batch.statistic,
            f"{batch.batches}",
            f"{batch.epsilon:.4g}",
            f"{batch.std:.4g}",
            f"{batch.messages_per_user:,}",
            f"{batch.bytes_per_user:,}",
        )
        for batch in result.batches
    ]
    return Table(label=f"Batches: {result.label}", head=head, rows=rows)


def _verifier(kept: str | Path | None) -> Mapping[str, str]:
    if kept is None:
        words = f"{VERIFIER} DIR is where the result was saved: it was not, or this page does not know where."
        return {"words": words, "command": "tacit verify DIR"}
    return {"words": VERIFIER, "command": f"tacit verify {shlex.quote(str(kept))}"}


def _configuration(result: Result) -> tuple[str, Table]:
    asked = {**result.config.to_dict(), "seeds": _seeds(result.seeds)}
    resolved = {name: getattr(result.resolved, name) for name in result.resolved.__dataclass_fields__}
    rows = [(name, str(value)) for name, value in {**asked, **resolved}.items() if value is not None]
    title = f"{result.config.environment_name}: {result.label}"
    return title, Table(label=f"Configuration, {title}", head=("entry", "value"), rows=rows)


def _seeds(seeds: Sequence[int]) -> str:
    together = list(seeds) == list(range(seeds[0], seeds[0] + len(seeds)))
    return f"{seeds[0]} to {seeds[-1]}" if together and len(seeds) > 1 else ", ".join(map(str, seeds))
