"""`tacit study`: the learner's side of a study, in a directory of its own. Exit code 2: refused, nothing changed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli.common import (
    AsJson,
    Key,
    OutFile,
    Pinned,
    check_out,
    print_json,
    print_table,
    read_bytes,
    read_json_file,
    say,
    tell,
    write_bytes,
)
from tacit.errors import InvalidInput, require

study = typer.Typer(help="Learn from real people, stage by stage: the learner's side.", rich_markup_mode=None)
Directory = Annotated[Path, typer.Argument(help="The directory of the study.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(study, name="study")


@study.command("new")
def _new(
    directory: Directory,
    design: Annotated[
        Path | None, typer.Option(help="A design that was planned before; else give its options.")
    ] = None,
    name: Annotated[str, typer.Option(help="What the study is called.")] = "study",
    states: Annotated[str | None, typer.Option(help="Names of the states, with commas, or how many.")] = None,
    actions: Annotated[str | None, typer.Option(help="Names of the actions, with commas, or how many.")] = None,
    horizon: Annotated[int | None, typer.Option(help="Steps of an episode.")] = None,
    rewards: Annotated[str, typer.Option(help="Public bounds of rewards: LOW,HIGH.")] = "0,1",
    learner: Annotated[str, typer.Option(help="Who learns (see 'tacit list learners').")] = "auto",
    stationary: Annotated[
        bool, typer.Option("--stationary", help="Declare that transitions and rewards do not depend on the step.")
    ] = False,
    trust: Annotated[str | None, typer.Option(help="central, shuffle or local.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="What a person may lose.")] = None,
    delta: Annotated[float | None, typer.Option(help="The claim's delta; 0 is pure differential privacy.")] = None,
    stages: Annotated[int | None, typer.Option(help="Stages that report.")] = None,
    target: Annotated[int | None, typer.Option(help="People wanted in a stage.")] = None,
    least: Annotated[int | None, typer.Option(help="People needed in a stage; 90% of the target by default.")] = None,
    ladder: Annotated[
        str | None, typer.Option(help="Sizes that a release may have, from the least on, with commas: 900,950,1000.")
    ] = None,
    reports_per_person: Annotated[int, typer.Option(help="How often one person reports at most, over all.")] = 1,
    mechanism: Annotated[str | None, typer.Option(help="The mechanism; that of the trust model by default.")] = None,
    honest_fraction: Annotated[float | None, typer.Option(help="Devices counted on, under shuffle trust.")] = None,
    constants: Annotated[str | None, typer.Option(help="theory or practical widths.")] = None,
    z: Annotated[float | None, typer.Option(help="Width of practical confidence intervals.")] = None,
    baseline: Annotated[
        str | None,
        typer.Option(help="What people do already: 'always ACTION', uniform, policy.json, module:function."),
    ] = None,
    loss_budget: Annotated[
        float | None, typer.Option(help="Mean return that may be lost against it, as a share of the largest return.")
    ] = None,
    stage_loss_budget: Annotated[
        float | None, typer.Option(help="The same for every stage; five times the loss budget by default.")
    ] = None,
    support: Annotated[
        Path | None, typer.Option(help="What can happen, as JSON: moves, starts and rewards by name.")
    ] = None,
    sees: Annotated[
        Path | None, typer.Option(help="What policies see of every state, as JSON: the feature of each state.")
    ] = None,
    features: Annotated[
        Path | None, typer.Option(help="In place of states and horizon: the declaration of people's rows, as JSON.")
    ] = None,
    start: Annotated[
        Path | None, typer.Option(help="The learned.json of a log: its released sums are stage 0 of bucb.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Plan a study: noise for the claim, stages, certificate. The design goes to the collector as design.json."""
    wanted = {"horizon": horizon, "trust": trust, "epsilon": epsilon, "delta": delta, "stages": stages}
    wanted |= {"target": target, "states": states, "actions": actions}
    if features is not None:
        both = sorted(option for option in ("states", "horizon") if wanted.pop(option) is not None)
        require(not both, "features come in place of states and horizon", f"also --{', --'.join(both)}" if both else "")
    if design is not None:
        told = {**wanted, "support": support, "sees": sees, "features": features, "start": start}
        given = sorted(option for option, value in told.items() if value is not None)
        require(not given, "a design has all options in it", f"also --{', --'.join(given)}" if given else "")
        from tacit.study.contract import read_design_file

        planned = read_design_file(design)
    else:
        missing = sorted(option for option, value in wanted.items() if value is None)
        require(not missing, "a study needs all of its options", f"no --{', --'.join(missing)}")
        planned = _planned(
            **wanted,
            name=name,
            rewards=rewards,
            learner=learner,
            stationary=stationary,
            least=least,
            ladder=ladder,
            reports_per_person=reports_per_person,
            mechanism=mechanism,
            honest_fraction=honest_fraction,
            constants=constants,
            z=z,
            baseline=baseline,
            loss_budget=loss_budget,
            stage_loss_budget=stage_loss_budget,
            support=support,
            sees=sees,
            features=features,
            start=start,
        )
    _begin(directory, planned, json=json)


def _begin(directory: Path, planned: Any, *, json: bool) -> None:
    """Make the study of a design, and say what it promises."""
    from tacit.study.study import DESIGN, Study

    made = Study.new(directory, planned)
    if json:
        print_json({**made.status(), "design": planned.to_dict(), "certificate": made.certificate().to_dict()})
        return
    if planned.choice is not None:
        say(planned.choice)
    _say_declared(planned.declarations)
    say(made.certificate().describe())
    say(f"study {planned.digest[:16]}: {directory}; hand {directory / DESIGN} to the collector")


def _say_declared(declared: dict[str, str]) -> None:
    for what, words in declared.items():
        say(f"{what}: {words}")


def _planned(**options: Any) -> Any:
    """The design that options amount to."""
    from tacit.study.design import plan_study

    low, _, high = options.pop("rewards").partition(",")
    try:
        bounds = (float(low), float(high))
    except ValueError as error:
        raise InvalidInput("rewards must be LOW,HIGH, as in --rewards 0,10") from error
    for part in ("states", "actions"):
        if options.get(part) is not None:
            options[part] = _names(part, options[part])
    if options["ladder"] is not None:
        options["ladder"] = _sizes(options["ladder"])
    for part in ("support", "sees"):
        if options[part] is not None:
            options[part] = read_json_file(options[part])
    if options["features"] is not None:
        from tacit.study.feature_mapping import features_from

        options["features"] = features_from(read_json_file(options["features"]))
    chosen = {option: value for option, value in options.items() if value is not None}
    return plan_study(**chosen, rewards=bounds)


def _sizes(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(size) for size in text.split(","))
    except ValueError as error:
        raise InvalidInput("a ladder must be sizes with commas, as in --ladder 900,950,1000") from error


def _names(part: str, text: str) -> int | tuple[str, ...]:
    """Names with commas, or how many there are."""
    if text.strip().isdigit():
        require(1 <= int(text) <= 65_535, f"{part} must be 1 to 65535", int(text))
        return int(text)
    return tuple(name.strip() for name in text.split(","))


@study.command("plan")
def _plan(directory: Directory, out: OutFile = None, key: Key = None, json: AsJson = False) -> None:
    """Write the bundle of the open stage; asked again, the same bytes come out."""
    from tacit.study.bundle import Bundle
    from tacit.study.study import Study

    made = Study(directory, key=key)
    check_out(out, made.made())
    data = made.plan()
    bundle = Bundle.parse(data)
    target = out or directory / f"bundle-{bundle['stage']}-{bundle['question']}.json"
    write_bytes(target, data)
    asks = bundle["query"] is not None
    plain = {
        "stage": bundle["stage"],
        "question": bundle["question"],
        "asks": asks,
        "kill": bundle["kill"],
        "target": bundle["target"],
        "least": bundle["least"],
        "digest": bundle.digest,
        "signature": bundle.examined(None).words,
        "file": str(target),
    }
    if json:
        print_json(plain)
        return
    what = f"{bundle['target']} people, at least {bundle['least']}" if asks else "nobody reports"
    say(f"stage {bundle['stage']}: {target} ({what}; {plain['signature']})")


@study.command("take")
def _take(
    directory: Directory,
    release: Annotated[Path, typer.Argument(help="The release, by 'tacit collect release'.")],
    key: Pinned = None,
    inspected: Annotated[
        bool, typer.Option("--inspected", help="Use a release that was quarantined, after looking into it.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Learn from a release: it is stored and learned from in one step."""
    from tacit.study.study import Study

    made = Study(directory, collector=key)
    found = made.take(read_bytes(release), inspected=inspected)
    if json:
        print_json({"outcome": found, **made.status()})
        return
    skipped = "skipped: its stage was given up here; nothing was learned, and the next plan goes on from its head"
    say({"taken": "taken", "again": "taken before; nothing changed", "skipped": skipped}.get(found, found))
    if found == "quarantined":
        say("its counts contradict themselves: look into it, then take it with --inspected or give the stage up")


@study.command("status")
def _status(directory: Directory, json: AsJson = False) -> None:
    """Stages, releases and the head that the collector asks for."""
    from tacit.study.study import Study

    made = Study(directory)
    found, standing = made.status(), made.standing()
    if json:
        print_json({**found, "standing": None if standing is None else standing._asdict()})
        return
    say(f"{found['name']} ({found['trust']} trust): {found['state']}")
    _say_declared(found["declared"])
    rows = [[str(row["stage"]), row["state"], str(row["questions"])] for row in found["stages"]]
    print_table(["stage", "state", "questions"], rows, numeric=(0, 2))
    if standing is not None:
        low, high = standing.baseline
        say(f"baseline: worth {low:.3f} to {high:.3f} of the largest return")
        if standing.gain is not None:
            say(f"candidate: {standing.gain[0]:+.3f} to {standing.gain[1]:+.3f} against it")
        say(f"lost so far: at most {max(0.0, standing.lost):.4f} per person of the study, of {standing.budget:g}")
    say(f"head: {found['head']}")


@study.command("certificate")
def _certificate(directory: Directory, json: AsJson = False) -> None:
    """What is promised to the people of this study, derived anew from its design."""
    from tacit.study.study import Study

    found = Study(directory).certificate()
    print_json(found.to_dict()) if json else say(found.describe())


@study.command("export")
def _export(
    directory: Directory,
    path: Annotated[Path, typer.Argument(help="The file to write.")],
    key: Key = None,
    json: AsJson = False,
) -> None:
    """Write the learned policy with its names, its certificate and the place in the ledger."""
    from tacit.study.record import export_policy
    from tacit.study.study import Study

    made = Study(directory)
    target = export_policy(made, path, key)
    print_json({"file": str(target), "head": made.head.text}) if json else say(f"exported: {target}")


@study.command("verify")
def _verify(directory: Directory, json: AsJson = False) -> None:
    """Run the learner again over the stored releases: everything must come out as it was stored."""
    from tacit.study.verify import verify_study

    found = verify_study(directory)
    print_json(found.to_dict()) if json else say(found.line)
    if not found.true:
        raise typer.Exit(1)


@study.command("void")
def _void(
    directory: Directory,
    reason: Annotated[str, typer.Option(help="Why.")] = "given up",
    json: AsJson = False,
) -> None:
    """Note that the collector gave the open stage up; the next plan asks other people the same."""
    from tacit.study.study import Study

    made = Study(directory)
    made.void(reason)
    print_json(made.status()) if json else say("the stage is void; plan again")


@study.command("kill")
def _kill(
    directory: Directory,
    reason: Annotated[str, typer.Option(help="Why.")] = "ended",
    json: AsJson = False,
) -> None:
    """End the study for good: the next bundle tells devices to fall back and to send nothing."""
    from tacit.study.study import Study

    made = Study(directory)
    made.kill(reason)
    print_json(made.status()) if json else say("ended: write the last bundle with 'plan' and hand it to everybody")


@study.command("demo")
def _demo(
    out: Annotated[Path, typer.Option(help="A new directory for the files of the study.")] = Path("tacit-study-demo"),
    trust: Annotated[str, typer.Option(help="central, shuffle or local.")] = "shuffle",
    epsilon: Annotated[float, typer.Option(help="What a person may lose.")] = 2.0,
    people: Annotated[int, typer.Option(help="How many simulated people take part.")] = 5000,
    seed: Annotated[int, typer.Option(help="Moves the people; the noise cannot be seeded.")] = 0,
    json: AsJson = False,
) -> None:
    """Run a whole study with simulated people over real files: bundles, reports, ledger, certificate, policy."""
    from typing import get_args

    from tacit.accounting.claims import Trust
    from tacit.errors import LARGEST_SEED, UnknownName, require_count
    from tacit.study.demo import run_demo

    known = [name for name in get_args(Trust) if name != "none"]
    if trust not in known:
        raise UnknownName("trust model", trust, known)
    require_count("seed", seed, 0, LARGEST_SEED)
    found = run_demo(out, trust=trust, epsilon=epsilon, people=people, seed=seed, say=None if json else tell)  # type: ignore[arg-type]
    status, certificate = found.collector.status(), found.collector.certificate()
    if json:
        print_json(
            {
                "stages": list(found.stages),
                "ledger": status,
                "certificate": certificate.to_dict(),
                "policy": found.policy.to_dict(),
                "file": str(found.file),
                "signature": found.signature,
            }
        )
        return
    steps = [f"step {h}" for h in range(found.design.horizon)]
    print_table(["state", *steps], [list(row) for row in found.policy.table()])
    say(certificate.describe())
    spent, budget = status["spent"], status["budget"]
    say(
        f"ledger: {status['people']} people, spent epsilon {spent['epsilon']:.4g} of {budget['epsilon']:g}, delta "
        f"{spent['delta']:g} of {budget['delta']:g}; refused: {status['refused'] or 'nobody'}"
    )
    say(f"policy: {found.file} ({found.signature}); the people were simulated, the noise was not")
