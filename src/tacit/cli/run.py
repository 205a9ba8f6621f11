"""`tacit run`: one learner in one environment under one trust model."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tacit.cli.common import AsJson, Out, Workers, command_line, print_json, resumable, say, tell
from tacit.errors import require_count

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("run")(_run)


def _run(
    context: typer.Context,
    environment: Annotated[str, typer.Option(help="For instance riverswim:states=4,horizon=6.")],
    learner: Annotated[str, typer.Option(help="For instance ucbvi:bonus=bernstein,staged=false.")],
    episodes: Annotated[int, typer.Option(help="How many users come.")],
    seeds: Annotated[int, typer.Option(help="How often the whole is repeated.")] = 1,
    first_seed: Annotated[int, typer.Option(help="Seeds count from here.")] = 0,
    constants: Annotated[str | None, typer.Option(help="theory or practical; the learner's own by default.")] = None,
    z: Annotated[float | None, typer.Option(help="The parameter of the practical constants.")] = None,
    trust: Annotated[str, typer.Option(help="none, central, shuffle or local.")] = "none",
    epsilon: Annotated[float | None, typer.Option(help="The claim's epsilon.")] = None,
    delta: Annotated[float | None, typer.Option(help="The claim's delta; 0 is pure differential privacy.")] = None,
    calibration: Annotated[str, typer.Option(help="tight, or paper for the constants as printed.")] = "tight",
    mechanism: Annotated[str | None, typer.Option(help="See 'tacit list mechanisms'.")] = None,
    batch: Annotated[int | None, typer.Option(help="Users per batch; 1000 with trust shuffle.")] = None,
    checkpoints: Annotated[int, typer.Option(help="How many episode numbers are recorded.")] = 100,
    allow_large_delta: Annotated[bool, typer.Option("--allow-large-delta", help="Accept a delta above 1e-3.")] = False,
    adversary: Annotated[
        str | None, typer.Option(help="Who chooses the losses, for learners such as uc-o-reps: iid, switching, ...")
    ] = None,
    estimator: Annotated[
        str | None, typer.Option(help="How uob-lbps estimates losses: centred (the default) or as-written.")
    ] = None,
    public_losses: Annotated[
        bool, typer.Option("--public-losses", help="Declare full-information loss tables to be nobody's data.")
    ] = False,
    workers: Workers = None,
    out: Out = None,
    json: AsJson = False,
) -> None:
    """Simulate a learner in an environment, once per seed, and print its regret and its privacy certificate."""
    from tacit.experiments.config import RunConfig
    from tacit.experiments.runner import Cell, run_cells

    count, first = require_count("seeds", seeds), require_count("first seed", first_seed, least=0)
    asked: dict[str, Any] = {
        "environment": environment,
        "learner": learner,
        "episodes": episodes,
        "seeds": list(range(first, first + count)),
        "constants": constants,
        "z": z,
        "trust": trust,
        "epsilon": epsilon,
        "delta": delta,
        "calibration": calibration,
        "mechanism": mechanism,
        "batch": batch,
        "checkpoints": checkpoints,
        "allow_large_delta": allow_large_delta,
        "adversary": adversary,
        "estimator": estimator,
        "public_losses": public_losses,
    }
    config = RunConfig.from_dict(asked)
    cell = Cell(label=config.label, config=config, directory=out)
    with resumable(out):
        (result,) = run_cells(
            [cell],
            experiment="run",
            workers=workers,
            progress=not json,
            notify=tell,
            command=command_line(context),
        )
    if json:
        print_json(result.to_json())
        return
    say(result.summary())
    say(f"saved in {out}" if out is not None else "not saved; --out DIR keeps it")
