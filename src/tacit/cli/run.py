"""`tacit run`: one learner in one environment under one trust model."""

from __future__ import annotations

from dataclasses import MISSING
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any, Final

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
    resumable,
    say,
    tell,
)
from tacit.errors import LARGEST_SEED, require_count

if TYPE_CHECKING:
    from tacit.runs.config import RunConfig

PLAIN: Final[dict[str, type]] = {"int": int, "float": float, "bool": bool}
"""Types on a command line; everything else is written as text, and checked where it is used."""


def register(app: typer.Typer) -> None:
    """Add the command, whose options are the fields of `RunConfig`."""
    app.command("run")(_with_options())


def _run(
    context: typer.Context,
    options: dict[str, Any],
    *,
    first_seed: int,
    workers: int | None,
    engine: str,
    address: str | None,
    out: str | None,
    dry_run: bool,
    json: bool,
) -> None:
    from tacit.executors import check_engine
    from tacit.runs.config import MAX_SEEDS, RunConfig
    from tacit.runs.estimate import apply_size_defaults
    from tacit.runs.storage_paths import resolve_location

    count = require_count("seeds", options["seeds"], 1, MAX_SEEDS)
    first = require_count("first seed", first_seed, 0, LARGEST_SEED - count + 1)
    config = apply_size_defaults(RunConfig.from_dict({**options, "seeds": list(range(first, first + count))}))
    check_engine(engine, address=address)
    directory = None if out is None else resolve_location(out)
    if dry_run:
        _estimate(config, workers, json=json)
        return
    from tacit.runs.runner import RunSpec, run_cells

    cell = RunSpec(label=config.label, config=config, directory=directory)
    with resumable(directory):
        (result,) = run_cells(
            [cell],
            experiment="run",
            workers=workers,
            engine=engine,
            address=address,
            progress=not json,
            notify=tell,
            # A command names what ran, so that it makes the same rows if the rules that chose it ever change.
            command=config.command() if config.choices else command_line(context),
        )
    if json:
        print_json(result.to_json())
        return
    say(result.summary())
    say(f"saved in {out}" if out is not None else "not saved; --out DIR keeps it")


def _estimate(config: RunConfig, workers: int | None, *, json: bool) -> None:
    from tacit.runs.estimate import estimate

    if workers is not None:
        require_count("workers", workers)
    found = estimate(config, workers=workers)
    if json:
        print_json(found.to_json())
        return
    for line in found.lines():
        say(line)


def _with_options() -> Any:
    """The command as a function that has every option of a run in its signature, as typer reads it."""

    def command(context: typer.Context, **given: Any) -> None:
        """Simulate a learner in an environment, once per seed, and print its regret and its privacy certificate."""
        where = {item.name: given.pop(item.name) for item in _where()}
        _run(context, given, **where)

    context = Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [context, *_options(), *_where()]
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {item.name: item.annotation for item in parameters}
    return command


def _where() -> list[Parameter]:
    """What decides where a run is made and how it is shown, and no row of it."""
    first_seed = Annotated[int, typer.Option(help="Seeds count from here.")]
    keyword = Parameter.KEYWORD_ONLY
    return [
        Parameter("first_seed", keyword, default=0, annotation=first_seed),
        Parameter("workers", keyword, default=None, annotation=Workers),
        Parameter("engine", keyword, default="local", annotation=Engine),
        Parameter("address", keyword, default=None, annotation=Address),
        Parameter("out", keyword, default=None, annotation=Out),
        Parameter("dry_run", keyword, default=False, annotation=DryRun),
        Parameter("json", keyword, default=False, annotation=AsJson),
    ]


def _options() -> list[Parameter]:
    """The fields of `RunConfig` as options of a command line."""
    from tacit.runs.config import run_options

    found = []
    for item in run_options():
        kind = item.metadata["text"] or PLAIN.get(str(item.type).removesuffix(" | None"), str)
        default = 1 if item.name == "seeds" else Parameter.empty if item.default is MISSING else item.default
        flag = [f"--{item.name.replace('_', '-')}"]
        annotation: Any = kind if default is not None else kind | None
        described = Annotated[annotation, typer.Option(*flag, help=item.metadata["help"])]
        found.append(Parameter(item.name, Parameter.KEYWORD_ONLY, default=default, annotation=described))
    return found
