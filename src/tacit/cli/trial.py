"""`tacit trial`: is the new policy better than what people do already, and how many users it takes to say so.

`tacit plan`: what so many people can teach under a claim, and which epsilon a wish needs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from tacit.cli.common import AsJson, command_line, print_json, print_table, say
from tacit.documents import vouched
from tacit.errors import InvalidInput

if TYPE_CHECKING:
    from tacit.runs.trial_result import People
    from tacit.types import Trust


trials = typer.Typer(
    help="Private trials: a policy against the baseline, or its value, by fresh users.", rich_markup_mode=None
)

TrustOption = Annotated[str | None, typer.Option("--trust", help="central, shuffle, local or none.")]
Epsilon = Annotated[float | None, typer.Option(help="The claim's epsilon.")]
Delta = Annotated[float | None, typer.Option(help="The claim's delta; 0 is pure differential privacy.")]
Alpha = Annotated[float, typer.Option(help="How often the interval, and so the verdict, may be wrong.")]
Bounds = Annotated[
    str | None, typer.Option(metavar="LOW,HIGH", help="The declared range of a return; returns are clipped to it.")
]
Honest = Annotated[float | None, typer.Option(help="Trust shuffle: the share of devices whose noise is counted on.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(trials, name="trial")
    app.command("plan")(_plan_study)


@trials.command("run")
def _run(
    context: typer.Context,
    policy: Annotated[
        str,
        typer.Argument(
            metavar="POLICY", help="A run's directory, a bundle or policy (JSON), or a policy of --environment by name."
        ),
    ],
    users: Annotated[int, typer.Option(help="Fresh users in each arm.")],
    against: Annotated[
        str | None, typer.Option(help="The baseline; that of the run by default, else the value alone is certified.")
    ] = None,
    environment: Annotated[
        str | None,
        typer.Option(help="Where, for a policy that is no run's, or of a run whose environment is code of yours."),
    ] = None,
    trust: TrustOption = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    alpha: Alpha = 0.05,
    bounds: Bounds = None,
    people: Annotated[
        str, typer.Option(help="fresh; or same, if people of the run may come again: both are then added up.")
    ] = "fresh",
    honest_fraction: Honest = None,
    allow_large_delta: Annotated[bool, typer.Option("--allow-large-delta", help="Accept a delta above 1e-3.")] = False,
    seed: Annotated[int | None, typer.Option(help="Whose policy of the run, and the coins of the trial.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Keep the trial as a JSON file.")] = None,
    json: AsJson = False,
) -> None:
    """Let fresh users follow a policy and the baseline, and say with certified errors which one is better."""
    from tacit.runs.storage import check_writable, write_json, writing_to
    from tacit.runs.trial import trial

    if out is not None:
        check_writable(out.parent)
    found = trial(
        _policy(policy, environment),
        users=users,
        environment=environment,
        against=against,
        trust=cast("Trust | None", trust),
        epsilon=epsilon,
        delta=delta,
        alpha=alpha,
        bounds=_bounds(bounds),
        people=cast("People", people),
        honest_fraction=honest_fraction,
        allow_large_delta=allow_large_delta,
        seed=seed,
        command=command_line(context),
    )
    if out is not None:
        with writing_to(out):
            write_json(out, vouched(found.to_dict()))
    if json:
        print_json(found.to_dict())
        return
    say(found.summary())
    say(f"saved in {out}" if out is not None else "not saved; --out FILE keeps it")


@trials.command("size")
def _size(
    effect: Annotated[float, typer.Option(help="The difference of mean returns that is to be shown.")],
    trust: Annotated[str, typer.Option(help="central, shuffle, local or none.")],
    epsilon: Epsilon = None,
    delta: Delta = None,
    power: Annotated[float, typer.Option(help="How often it is to be shown where it is true.")] = 0.8,
    alpha: Alpha = 0.05,
    bounds: Bounds = "0,1",
    mean: Annotated[float | None, typer.Option(help="The baseline's mean return; the middle (the worst).")] = None,
    honest_fraction: Honest = None,
    json: AsJson = False,
) -> None:
    """Say how many users per arm a trial needs, for an effect, an error, a power and a claim."""
    from tacit.planning.arms import wrong_verdict
    from tacit.runs.trial import trial_size

    found = trial_size(
        effect=effect,
        trust=cast("Trust", trust),
        epsilon=epsilon,
        delta=delta,
        power=power,
        alpha=alpha,
        bounds=_bounds(bounds) or (0.0, 1.0),
        mean=mean,
        honest_fraction=1.0 if honest_fraction is None else honest_fraction,
    )
    if json:
        print_json(found.to_dict())
        return
    low, high = found.bounds
    say(f"{found.users:,} users in each of two arms, under trust {found.trust}")
    say(f"an effect of {found.effect:g} (returns from {low:g} to {high:g}, baseline {found.mean:g}) is then shown with")
    wrong = wrong_verdict(found.alpha)
    say(f"probability {found.power:.3f} at least, and a wrong 'better' has probability {wrong:g} at most")


@trials.command("plan")
def _plan(
    file: Annotated[Path, typer.Argument(help="Where the design goes; 'tacit study new DIR --design FILE' begins it.")],
    arms: Annotated[str, typer.Option(metavar="BASELINE,POLICY", help="The names of the two arms.")],
    people: Annotated[int, typer.Option(help="People wanted, over both arms.")],
    trust: Annotated[str, typer.Option(help="central or shuffle.")],
    epsilon: Annotated[float, typer.Option(help="What a person may lose.")],
    delta: Annotated[float, typer.Option(help="The claim's delta; 0 is pure differential privacy.")],
    least: Annotated[int | None, typer.Option(help="People needed; 90% of those wanted by default.")] = None,
    honest_fraction: Honest = None,
    name: Annotated[str, typer.Option(help="What the trial is called.")] = "trial",
    json: AsJson = False,
) -> None:
    """Plan a trial as a study of one stage, in which every device draws its person's arm."""
    from tacit.cli.common import write_bytes
    from tacit.documents import canonical
    from tacit.study.trial import plan_trial

    design = plan_trial(
        arms=[arm.strip() for arm in arms.split(",")],
        people=people,
        trust=cast("Trust", trust),
        epsilon=epsilon,
        delta=delta,
        least=least,
        honest_fraction=honest_fraction,
        name=name,
    )
    write_bytes(file, canonical(design.to_dict()) + b"\n")
    if json:
        print_json(design.to_dict())
        return
    say(f"{people:,} people in the arms {' and '.join(design.actions)}; design: {file}")
    say(f"begin it with 'tacit study new DIR --design {file}'; 'tacit trial read DIR' has the verdict in the end")


@trials.command("read")
def _read(
    directory: Annotated[Path, typer.Argument(help="The directory of the study.")],
    alpha: Alpha = 0.05,
    bounds: Bounds = "0,1",
    json: AsJson = False,
) -> None:
    """Print the verdict of a trial that was carried out as a study, from its public release."""
    from tacit.study.study import Study
    from tacit.study.trial import read_trial

    found = read_trial(Study(directory), alpha=alpha, bounds=_bounds(bounds) or (0.0, 1.0))
    if found is None:
        raise InvalidInput(f"{directory} must hold a trial whose release was taken; there is none yet")
    if json:
        print_json(found.to_dict())
        return
    say(found.line)
    say(f"privacy: {found.certificate.words}")


def _policy(given: str, environment: str | None) -> Any:
    """What a command line names: a run, a bundle, a policy file, or a policy of the environment."""
    from tacit.cli.policy import load_named
    from tacit.runs.archive import read_result
    from tacit.runs.bundle import load_bundle
    from tacit.runs.storage import RunDirectory, read_json
    from tacit.runs.storage_paths import resolve_location

    if given.endswith(".json"):
        place = Path(given)
        if read_json(place).get("format") == "tacit-bundle" and environment is None:
            return load_bundle(place, unsigned=True)
        return load_named(place)[0]
    place = resolve_location(given)
    if environment is not None and not RunDirectory(place).begun:
        return given
    if not RunDirectory(place).begun:
        raise InvalidInput(f"{given} must be a run's directory or a policy (JSON), or come with --environment")
    return read_result(place)


def _bounds(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    parts = text.split(",")
    try:
        low, high = (float(part) for part in parts)
    except ValueError as error:
        raise InvalidInput(f"bounds must be written LOW,HIGH, got '{text}'") from error
    return low, high


def _plan_study(
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
