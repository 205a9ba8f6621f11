"""`tacit compare`: several runs side by side; `tacit reproduce` says where it went.

`tacit plot` and `tacit report`: results that are there already.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from tacit.cli.common import (
    Address,
    AsJson,
    DryRun,
    Engine,
    Out,
    Workers,
    command_line,
    print_comparison,
    print_json,
    resumable,
    say,
    schema_flag,
    tell,
)
from tacit.cli.failures import Failed
from tacit.errors import error_context, require_count
from tacit.executors import check_engine

if TYPE_CHECKING:
    from tacit.runs.comparison import Run
    from tacit.runs.figures import Band, LogAxes
    from tacit.runs.result import Result


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("compare")(_compare)
    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    app.command("reproduce", hidden=True, context_settings=anything)(_reproduce)
    app.command("plot")(_plot)
    app.command("report")(_report)


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
    schema: Annotated[bool, schema_flag("these files", "tacit.runs.files", "comparison_schema")] = False,
    json: AsJson = False,
) -> None:
    """Run the comparison that a TOML file describes: one table, one figure, resumable."""
    from tacit.runs.comparison import run_comparison
    from tacit.runs.figures import check_choices
    from tacit.runs.files import read_comparison
    from tacit.runs.storage_paths import resolve_location

    del schema  # it has answered already
    check_choices(band, log)
    check_engine(engine, address=address)
    name, runs = read_comparison(file)
    if dry_run:
        _estimate(runs, workers, json=json)
        return
    directory = Path("tacit-results") / file.stem if out is None else resolve_location(out)
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
    print_comparison(comparison, [figure], json=json)


def _estimate(runs: tuple[Run, ...], workers: int | None, *, json: bool) -> None:
    """What every run of a comparison would take and give."""
    from tacit.runs.estimate import estimate

    if workers is not None:
        require_count("workers", workers)
    found = []
    for run in runs:
        with error_context(f"run '{run.label}' on {run.config.environment_name}"):
            found.append((run.label, estimate(run.config, workers=workers)))
    if json:
        print_json({"dry_run": True, "runs": [{"label": label, **one.to_json()} for label, one in found]})
        return
    for label, one in found:
        say(f"{label}:")
        for line in "\n".join(one.lines()).splitlines():
            say(f"  {line}")


def _reproduce() -> None:
    """Moved: `python -m papers reproduce NAME` in a checkout of the source repository."""
    raise Failed(
        "the experiments of the papers are no part of the installed package: run python -m papers reproduce NAME in a "
        "checkout of the source repository (python -m papers list names them)",
        kind="moved",
        exit_code=2,
    )


def _plot(
    directories: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="Directories (or URLs) of runs or comparisons.")
    ],
    out: Annotated[
        str | None, typer.Option(metavar="PATH", help="A .png, .svg or .pdf; DIR/regret.png by default.")
    ] = None,
    band: Annotated[str, typer.Option(help="std, minmax, bootstrap or none.")] = "std",
    log: Annotated[str, typer.Option(help="Logarithmic axes: none, x, y or xy.")] = "xy",
    per_episode: Annotated[bool, typer.Option("--per-episode", help="Regret of an episode, not cumulative.")] = False,
    title: Annotated[str | None, typer.Option(help="Above the figure.")] = None,
    json: AsJson = False,
) -> None:
    """Draw the regret of one or several results in one figure."""
    from tacit.runs.comparison import load
    from tacit.runs.figures import check_choices, plot
    from tacit.runs.storage_paths import resolve_location

    check_choices(band, log)
    results: list[Result] = []
    for directory in directories:
        found = load(directory)
        results += [found] if not hasattr(found, "results") else list(found.results)
    default = "regret-per-episode.png" if per_episode else "regret.png"
    target = resolve_location(directories[0]) / default if out is None else resolve_location(out)
    plot(results, target, band=cast("Band", band), per_episode=per_episode, log=cast("LogAxes", log), title=title)
    if json:
        print_json({"figure": str(target), "runs": [result.label for result in results]})
    else:
        say(f"figure: {target}")


def _report(
    directory: Annotated[str, typer.Argument(metavar="PATH", help="The directory (or URL) of a run or a comparison.")],
    out: Annotated[str | None, typer.Option(metavar="PATH", help="The page; DIR/report.html by default.")] = None,
    log: Annotated[str, typer.Option(help="Axes that begin logarithmic: none, x, y or xy.")] = "none",
    json: AsJson = False,
) -> None:
    """Write one self-contained HTML page: curves, tables, commands, claims and certificates."""
    from tacit.runs.comparison import load
    from tacit.runs.figures import check_choices
    from tacit.runs.report import write_report
    from tacit.runs.storage_paths import resolve_location

    check_choices("std", log)
    place = resolve_location(directory)
    page = place / "report.html" if out is None else resolve_location(out)
    target = write_report(load(place), page, log=cast("LogAxes", log), directory=place)
    if json:
        print_json({"report": str(target)})
    else:
        say(f"report: {target}")
