"""One self-contained HTML page per result: curves, tables, commands, claims, certificates; no network.

Curves are drawn by scripts inside the page, which its Content-Security-Policy names by their digests; readers without
scripts see pictures. The axes are linear to begin with: on logarithmic ones a learner that never learns looks fine.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tacit.pages.page import render
from tacit.runs.comparison import Comparison
from tacit.runs.curves import figure_of
from tacit.runs.figures import LogAxes, check_choices
from tacit.runs.manifest import write_beside
from tacit.runs.result import Result
from tacit.runs.returns_report import RETURN_HEAD, return_cells
from tacit.runs.storage_paths import check_writable, make_directory, resolve_location, writing_to

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
