"""`tacit plan`: what so many people can teach under a claim, and which epsilon a wish needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from tacit.cli.common import AsJson, print_json, print_table, say

if TYPE_CHECKING:
    from tacit.types import Trust


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("plan")(_plan)


def _plan(
    people: Annotated[int, typer.Option(help="All of them: to learn from, and for the trial.")],
    states: Annotated[int, typer.Option(help="States, or combinations of features.")],
    actions: Annotated[int, typer.Option(help="Actions.")],
    horizon: Annotated[int, typer.Option(help="Steps of an episode.")],
    trust: Annotated[str, typer.Option(help="central or shuffle.")],
    effect: Annotated[float, typer.Option(help="What the best policy earns more than the baseline, per episode.")],
    delta: Annotated[float, typer.Option(help="The claim's delta.")],
    baseline: Annotated[
        float | None, typer.Option(help="The baseline's return, from 0 to the horizon; the worst by default.")
    ] = None,
    stationary: Annotated[bool, typer.Option("--stationary", help="Declare that nothing depends on the step.")] = False,
    epsilon: Annotated[list[float] | None, typer.Option(help="Only these; eleven from 0.1 to 8 by default.")] = None,
    power: Annotated[float, typer.Option(help="The wished probability of success.")] = 0.8,
    share: Annotated[float, typer.Option(help="The part of the people in the trial.")] = 0.3,
    alpha: Annotated[float, typer.Option(help="The error of the trial.")] = 0.05,
    figure: Annotated[Path | None, typer.Option(help="Draw the probability of success to a file.")] = None,
    json: AsJson = False,
) -> None:
    """Say before a study which noise there is, what it can find at which epsilon, and which epsilon a wish needs."""
    from tacit.runs.storage import check_writable
    from tacit.runs.study_plan import plan

    if figure is not None:
        check_writable(figure.parent)
    found = plan(
        people=people,
        states=states,
        actions=actions,
        horizon=horizon,
        trust=cast("Trust", trust),
        effect=effect,
        delta=delta,
        baseline=baseline,
        stationary=stationary,
        epsilon=epsilon or None,
        power=power,
        share=share,
        alpha=alpha,
    )
    if figure is not None:
        found.figure().savefig(figure)
    if json:
        print_json(found.to_dict())
        return
    say(f"{found.learned_from:,} people to learn from, {found.arm:,} in each arm of the trial; evenly spread, each "
        f"(step, state, action) is met {found.visits:,.0f} times")  # fmt: skip
    head = ["epsilon", "noise in a counter", "effect over error", "share of the gain", "success"]
    print_table(head, found.table(), numeric=range(5))
    say(found.line)
    say("success: a private trial says that the learned policy is better than the baseline")
