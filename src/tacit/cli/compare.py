"""`tacit compare`: several runs side by side; `tacit reproduce` says where it went."""

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


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("compare")(_compare)
    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    app.command("reproduce", hidden=True, context_settings=anything)(_reproduce)


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
