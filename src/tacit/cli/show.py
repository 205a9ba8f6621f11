"""`tacit plot` and `tacit report`: results that are there already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

from tacit.cli.common import AsJson, print_json, say

if TYPE_CHECKING:
    from tacit.runs.figures import Band, LogAxes
    from tacit.runs.result import Result


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("plot")(_plot)
    app.command("report")(_report)


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
