"""`python -m papers`: repeat an experiment of the papers, list what became of each statement, check what is committed.

    python -m papers list [PAPER]                          every figure, table and theorem with its status
    python -m papers list --experiments                    every experiment that can be repeated
    python -m papers reproduce NAME [--scale paper]        run it, resumable run by run, and draw its figures
    python -m papers audit [--mutations] --out DIR         attack every guarantee, and plant every bug
    python -m papers check                                 are generated pages and cards up to date with results/?
    python -m papers check NAME [--every] [--stamp]        run cells of a committed result again and compare

Run it at the root of the repository, where `papers`, `docs` and `results` lie. Exit codes are those of `tacit`.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from tacit.cli import main as run_program
from tacit.cli.common import (
    Address,
    AsJson,
    Engine,
    Out,
    Workers,
    print_comparison,
    print_json,
    print_table,
    resumable,
    say,
    tell,
)
from tacit.cli.failures import Failed
from tacit.errors import UnknownName, require
from tacit.executors import check_engine

__all__ = ["app", "main"]

app = typer.Typer(
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
)


@app.command("reproduce")
def _reproduce(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="See 'python -m papers list --experiments'.")],
    scale: Annotated[str, typer.Option(help="smoke (about a minute) or paper (full size).")] = "smoke",
    out: Out = None,
    workers: Workers = None,
    engine: Engine = "local",
    address: Address = None,
    json: AsJson = False,
) -> None:
    """Repeat an experiment by name, resumable run by run."""
    from papers.catalogue import Scale, default_directory, experiment_named, reproduce
    from tacit.runs.storage_paths import resolve_location

    check_engine(engine, address=address)
    experiment = experiment_named(name)
    directory = default_directory(name, scale) if out is None else resolve_location(out)
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
            command=_typed(context),
        )
    print_comparison(comparison, [directory / f"{figure.name}.png" for figure in experiment.figures], json=json)


@app.command("list")
def _list(
    paper: Annotated[str | None, typer.Argument(help="One paper; all by default.")] = None,
    experiments: Annotated[bool, typer.Option("--experiments", help="List what can be repeated, instead.")] = False,
    json: AsJson = False,
) -> None:
    """List every figure, table and theorem of the papers with its status, or every experiment."""
    if experiments:
        _list_experiments(paper, json=json)
        return
    from papers.statements import STATEMENTS

    known = list(dict.fromkeys(statement.paper for statement in STATEMENTS))
    if paper is not None and paper not in known:
        raise UnknownName("paper", paper, known)
    chosen = [statement for statement in STATEMENTS if paper in (None, statement.paper)]
    if json:
        print_json({"statements": [asdict(statement) for statement in chosen]})
        return
    for statement in chosen:
        shown = "".join(f" [{where}]" for where in (statement.experiment, statement.test) if where)
        under = f" (under {statement.under})" if statement.under else ""
        say(f"{statement.paper}, {statement.name}: {statement.status}{shown}")
        say(f"    {statement.says}: {statement.why}{under}")


def _list_experiments(paper: str | None, *, json: bool) -> None:
    from papers.catalogue import EXPERIMENTS

    rows = [
        {"name": name, "summary": entry.summary, "runs": len(entry.runs("paper")),
         "figures": [figure.name for figure in entry.figures]}
        for name, entry in EXPERIMENTS.items()
        if paper in (None, name.partition("/")[0])
    ]  # fmt: skip
    if not rows:
        raise UnknownName("paper", str(paper), {name.partition("/")[0] for name in EXPERIMENTS})
    if json:
        print_json({"experiments": rows})
        return
    shown = [[str(row["name"]), str(row["summary"]), str(row["runs"]), ", ".join(row["figures"])] for row in rows]
    print_table(["name", "summary", "runs", "figures"], shown)


@app.command("check")
def _check(
    name: Annotated[str | None, typer.Argument(help="A committed result; without it, the generated pages.")] = None,
    cells: Annotated[int, typer.Option(help="How many cells; with --every, how many seeds.")] = 3,
    every: Annotated[bool, typer.Option("--every", help="So many seeds of every committed run.")] = False,
    unknown: Annotated[
        bool, typer.Option("--unknown", help="The same for runs without fingerprint and check, the cheapest first.")
    ] = False,
    stamp: Annotated[
        bool, typer.Option("--stamp", help="Write into cells.json what is current and what is stale.")
    ] = False,
    seconds: Annotated[float, typer.Option(help="The most seconds that a cell may have taken.")] = 10.0,
    seed: Annotated[int, typer.Option(help="Which cells are drawn.")] = 0,
    results: Annotated[Path, typer.Option(help="Where results are committed.")] = Path("results"),
    json: AsJson = False,
) -> None:
    """Run random cells of a committed result again and compare; or compare the generated pages with results/."""
    if name is None:
        require(not (every or unknown or stamp), "--every, --unknown and --stamp go with the name of a result", "none")
        from papers.index import main as compare_pages

        if compare_pages(["--check"]):
            raise typer.Exit(1)
        return
    which = {"every": every, "unknown": unknown}
    drawn = {"results": results, "cells": cells, "seconds": seconds, "seed": seed, **which}
    _recheck(name, drawn, stamped=stamp, json=json)


def _recheck(name: str, drawn: dict[str, Any], *, stamped: bool, json: bool) -> None:
    """Cells that differ end with exit code 1: the committed result is stale."""
    from papers.recheck import Rechecked, recheck, stamp

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


@app.command("audit")
def _audit(
    context: typer.Context,
    out: Annotated[Path | None, typer.Option(help="The directory of the audit; resumable.")] = None,
    mutations: Annotated[bool, typer.Option("--mutations", help="Plant the bugs of tests/mutants, too.")] = False,
    epsilon: Annotated[float, typer.Option(help="The claims' epsilon.")] = 1.0,
    delta: Annotated[float, typer.Option(help="The delta of whatever cannot be pure.")] = 1e-6,
    trials: Annotated[int, typer.Option(help="Trials of a mechanism; others take a share of them.")] = 1_000_000,
    false_alarm: Annotated[float, typer.Option(help="The probability that any row is refuted by mistake.")] = 0.01,
    seed: Annotated[int, typer.Option(help="The seed of all trials.")] = 0,
    workers: Annotated[int | None, typer.Option(help="With --engine ray: rows at once.")] = None,
    engine: Engine = "local",
    address: Address = None,
    json: AsJson = False,
) -> None:
    """Attack everything, row by row; exit code 1 for what is refuted and not printed so, or a bug that is missed."""
    from papers.audit import resume, suite
    from papers.audit.record import AuditRecord, AuditSettings, mutation_table
    from papers.audit.rows import RowFailed
    from tacit.cli.audit import print_findings
    from tacit.runs.progress import progress_bar

    require(0.0 < delta < 1.0, "delta must be between 0 and 1: some of what is attacked cannot be pure", delta)
    check_engine(engine, address=address)
    where: dict[str, Any] = {"engine": engine, "address": address, "workers": workers, "out": out}
    settings = AuditSettings(epsilon=epsilon, delta=delta, trials=trials, false_alarm=false_alarm, seed=seed)
    record, rows = AuditRecord(settings=settings, command=_typed(context)), suite.all_rows(epsilon, delta)
    try:
        with progress_bar(len(rows), "attacking", show=not json) as progress:
            record = resume.run_rows(rows, record, places=suite.PLACES, progress=progress, **where)
        if mutations:
            planted = sum(map(len, resume.PLANTED.values()))
            with progress_bar(planted, "planting bugs", show=not json) as progress:
                record = resume.run_mutations(record, progress=progress, **where)
    except RowFailed as error:
        raise Failed(str(error), kind="row-failed", exit_code=1) from error
    if out is not None:
        record.save(out)
    wrong = [finding.name for finding in suite.alarming(record.findings)]
    wrong += [f"unnoticed: {name}" for name, caught in record.mutations.items() if not caught.by]
    wrong += [f"flagged without a bug: {name}" for name, caught in record.originals.items() if caught.by]
    if json:
        print_json(record.to_dict() | {"wrong": wrong})
    else:
        print_findings(record.findings, false_alarm)
        if record.mutations:
            print_table(["planted bug", "caught by", "how"], [[r[0], r[2], r[3]] for r in mutation_table(record)[1]])
        for line in wrong:
            say(f"wrong: {line}")
    if wrong:
        raise typer.Exit(1)


def _typed(context: typer.Context) -> str:
    return shlex.join(["python", "-m", "papers", *(context.obj or sys.argv[1:])])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    return run_program(argv, program=typer.main.get_command(app), name="python -m papers")


if __name__ == "__main__":
    sys.exit(main())
