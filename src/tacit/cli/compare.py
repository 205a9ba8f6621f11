"""`tacit compare` and `tacit reproduce`: several runs side by side, of your own or by name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from tacit.cli.common import (
    Address,
    AsJson,
    DryRun,
    Engine,
    Out,
    Workers,
    command_line,
    print_json,
    print_results,
    resumable,
    say,
    tell,
)
from tacit.engines import check_engine
from tacit.errors import InvalidInput, UnknownName, naming, require, require_count

if TYPE_CHECKING:
    from tacit.papers.catalogue import Scale
    from tacit.runs.comparison import Comparison, Run
    from tacit.runs.figures import Band, LogAxes

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("compare")(_compare)
    app.command("reproduce")(_reproduce)


def _compare(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A TOML file with [defaults] and several [[run]].")],
    out: Out = None,
    workers: Workers = None,
    engine: Engine = "local",
    address: Address = None,
    band: Annotated[str, typer.Option(help="std, minmax, bootstrap or none.")] = "std",
    log: Annotated[str, typer.Option(help="Logarithmic axes: none, x, y or xy.")] = "xy",
    dry_run: DryRun = False,
    json: AsJson = False,
) -> None:
    """Run the comparison that a TOML file describes: one table, one figure, resumable."""
    from tacit.runs.comparison import run_comparison
    from tacit.runs.figures import check_choices
    from tacit.runs.files import read_comparison
    from tacit.runs.places import place_of

    check_choices(band, log)
    check_engine(engine, address=address)
    name, runs = read_comparison(file)
    if dry_run:
        _estimate(runs, workers, json=json)
        return
    directory = Path("tacit-results") / file.stem if out is None else place_of(out)
    with resumable(directory):
        comparison = run_comparison(
            runs,
            name=name,
            out=directory,
            command=command_line(context),
            workers=workers,
            engine=engine,
            address=address,
            progress=not json,
            notify=tell,
        )
    figure = directory / "regret.png"
    comparison.plot(figure, band=cast("Band", band), log=cast("LogAxes", log), title=name)
    _show(comparison, [figure], json=json)


def _estimate(runs: tuple[Run, ...], workers: int | None, *, json: bool) -> None:
    """What every run of a comparison would take and give."""
    from tacit.runs.estimate import estimate

    if workers is not None:
        require_count("workers", workers)
    found = []
    for run in runs:
        with naming(f"run '{run.label}' on {run.config.environment_name}"):
            found.append((run.label, estimate(run.config, workers=workers)))
    if json:
        print_json({"dry_run": True, "runs": [{"label": label, **one.to_json()} for label, one in found]})
        return
    for label, one in found:
        say(f"{label}:")
        for line in "\n".join(one.lines()).splitlines():
            say(f"  {line}")


def _reproduce(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="See 'tacit list experiments'.")] = None,
    everything: Annotated[
        bool,
        typer.Option("--list", help="List every figure, table and theorem of the papers with its status."),
    ] = False,
    scale: Annotated[str, typer.Option(help="smoke (about a minute) or paper (full size).")] = "smoke",
    out: Out = None,
    workers: Workers = None,
    engine: Engine = "local",
    address: Address = None,
    check: Annotated[
        bool, typer.Option("--check", help="Run random cells of the committed result again and compare, instead.")
    ] = False,
    cells: Annotated[int, typer.Option(help="With --check: how many cells; with --every, how many seeds.")] = 3,
    every: Annotated[bool, typer.Option("--every", help="With --check: so many seeds of every committed run.")] = False,
    unknown: Annotated[
        bool, typer.Option("--unknown", help="The same for runs without fingerprint and check, the cheapest first.")
    ] = False,
    stamp: Annotated[
        bool, typer.Option("--stamp", help="With --check: write into cells.json what is current and what is stale.")
    ] = False,
    seconds: Annotated[float, typer.Option(help="With --check: the most seconds that a cell may have taken.")] = 10.0,
    seed: Annotated[int, typer.Option(help="With --check: which cells are drawn.")] = 0,
    results: Annotated[Path, typer.Option(help="With --check: where results are committed.")] = Path("results"),
    json: AsJson = False,
) -> None:
    """Repeat an experiment by name, resumable run by run; or check its committed result; or list all statements."""
    if everything:
        _list(name, json=json)
        return
    if name is None:
        raise InvalidInput("name an experiment ('tacit list experiments'), or ask for --list")
    check_engine(engine, address=address)
    require(check or not (every or unknown or stamp), "--every, --unknown and --stamp go with --check", "no --check")
    if check:
        require(engine == "local", "cells are checked on this machine: --check has no engine", engine)
        which = {"every": every, "unknown": unknown}
        drawn = {"results": results, "cells": cells, "seconds": seconds, "seed": seed, **which}
        _recheck(name, drawn, stamped=stamp, json=json)
        return
    from tacit.papers.catalogue import default_directory, experiment_named, reproduce
    from tacit.runs.places import place_of

    experiment = experiment_named(name)
    directory = default_directory(name, scale) if out is None else place_of(out)
    with resumable(directory):
        comparison = reproduce(
            name,
            scale=cast("Scale", scale),
            out=directory,
            workers=workers,
            engine=engine,
            address=address,
            progress=not json,
            notify=tell,
            command=command_line(context),
        )
    _show(comparison, [directory / f"{figure.name}.png" for figure in experiment.figures], json=json)


def _list(paper: str | None, *, json: bool) -> None:
    """All statements, or those of one paper."""
    from dataclasses import asdict

    from tacit.papers.statements import STATEMENTS

    papers = list(dict.fromkeys(statement.paper for statement in STATEMENTS))
    if paper is not None and paper not in papers:
        raise UnknownName("paper", paper, papers)
    chosen = [statement for statement in STATEMENTS if paper in (None, statement.paper)]
    if json:
        print_json({"statements": [asdict(statement) for statement in chosen]})
        return
    for statement in chosen:
        shown = f" [{statement.experiment}]" if statement.experiment else ""
        say(f"{statement.paper}, {statement.name}: {statement.status}{shown}")
        say(f"    {statement.says}: {statement.why}")


def _recheck(name: str, drawn: dict[str, Any], *, stamped: bool, json: bool) -> None:
    """Cells that differ end with exit code 1: the committed result is stale."""
    from dataclasses import asdict

    from tacit.papers.recheck import Rechecked, recheck, stamp

    def tell_row(found: Rechecked) -> None:
        verdict = "same" if found.same else f"DIFFERS by up to {found.difference:.2g}"
        tell(f"{found.run}, {found.environment}, seed {found.seed} (tacit {found.version}): {verdict}")
        if stamped:  # at once: a check of many runs may be broken off, and goes on with --unknown
            stamp(name, [found], results=drawn["results"])

    found = recheck(name, told=tell_row, **drawn)
    differ = sum(not row.same for row in found)
    if json:
        print_json({"experiment": name, "cells": [{**asdict(row), "same": row.same} for row in found]})
    else:
        say(f"{name}: {len(found)} cells run again, {differ} differ")
    if differ:
        raise typer.Exit(1)


def _show(comparison: Comparison, figures: list[Path], *, json: bool) -> None:
    """The table, what ran at which size, the certificates and the figures."""
    if json:
        content: dict[str, Any] = comparison.to_json()
        print_json({**content, "figures": [str(figure) for figure in figures]})
        return
    at = "" if comparison.scale is None else f" at scale {comparison.scale}"
    say(f"{comparison.name}{at}:")
    for result in comparison:
        size = f"{result.config.episodes:,} episodes, {len(result.seeds)} seeds"
        say(f"  {result.config.environment_name}: {result.label} ({size})")
    print_results(comparison.results)
    words: dict[str, list[str]] = {}
    for result in comparison:
        words.setdefault(result.privacy_words, []).append(result.label)
    for text, labels in words.items():
        say(f"privacy of {', '.join(dict.fromkeys(labels))}: {text}")
    for figure in figures:
        say(f"figure: {figure}")
