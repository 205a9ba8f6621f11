"""`tacit audit`: attack a guarantee instead of believing it.

Exit code 1 means that a certificate or a claim was refuted. The audit of everything at once, and the planted bugs that
it has to catch, are tools of the source repository: `python -m papers audit`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from tacit.cli.common import AsJson, command_line, print_json, print_table, say
from tacit.errors import MAX_TRIALS, InvalidInput, require, require_count, require_epsilon, require_real

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tacit.accounting.claims import Trust
    from tacit.audit.attack import Finding
    from tacit.protocol import Constants

TRIALS = Annotated[int, typer.Option(help="Trials of a mechanism; others take a public share of them.")]
FALSE_ALARM = Annotated[float, typer.Option(help="The probability that any row is refuted by mistake.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("audit")(_audit)


def _audit(
    context: typer.Context,
    learner: Annotated[str | None, typer.Option(help="Attack a whole learner; needs --trust.")] = None,
    mechanism: Annotated[str | None, typer.Option(help="Attack a mechanism, or with --trust a privatizer.")] = None,
    trust: Annotated[str | None, typer.Option(help="central, shuffle or local.")] = None,
    epsilon: Annotated[float, typer.Option(help="The claim's epsilon.")] = 1.0,
    delta: Annotated[float | None, typer.Option(help="The claim's delta.")] = None,
    environment: Annotated[str | None, typer.Option(help="Where the learner runs; a small world by default.")] = None,
    episodes: Annotated[int | None, typer.Option(help="The number of users.")] = None,
    calibration: Annotated[str, typer.Option(help="tight, or paper: the noise as printed.")] = "tight",
    constants: Annotated[str | None, typer.Option(help="The widths of the learner, valid for instance.")] = None,
    trials: TRIALS = 1_000_000,
    false_alarm: FALSE_ALARM = 0.01,
    seed: Annotated[int, typer.Option(help="The seed of all trials.")] = 0,
    json: AsJson = False,
) -> None:
    """Attack what is claimed: claimed, certified and attacked epsilon, and a verdict."""
    require(learner is not None or mechanism is not None, "say what to attack: --learner or --mechanism", "nothing")
    require(calibration in ("tight", "paper"), "calibration must be 'tight' or 'paper'", calibration)
    if delta is None:
        raise InvalidInput(
            "a claim needs a delta, which has no default: say --delta 1e-6, for instance, or --delta 0 for pure "
            "differential privacy"
        )
    require_epsilon(epsilon)
    require_real("delta", delta, low=0.0, high=1.0)
    require_count("trials", trials, least=1000, most=MAX_TRIALS)
    require_real("false-alarm rate", false_alarm, low=0.0, high=0.5, open_low=True)
    require_count("seed", seed, least=0)
    run: dict[str, Any] = {"trials": trials, "false_alarm": false_alarm, "seed": seed}
    claim: dict[str, Any] = {"epsilon": epsilon, "delta": delta}
    if learner is None:
        for option, value in (("environment", environment), ("episodes", episodes), ("constants", constants)):
            require(value is None, f"--{option} belongs to --learner", value)
        found = _release(str(mechanism), trust, calibration, claim, run)
    else:
        found = _learner(learner, trust, claim, run, environment, episodes, mechanism, calibration, constants)
    wrong = [finding for finding in found if finding.verdict != "holds"]
    if json:
        said = {"command": command_line(context), "settings": claim | run, "findings": [f.to_dict() for f in found]}
        print_json(said | {"refuted": [finding.name for finding in wrong]})
    else:
        print_findings(found, false_alarm)
        for finding in wrong:
            say(f"{finding.verdict}: {finding.kind} {finding.name}, {finding.view}")
    if wrong:
        raise typer.Exit(1)


def _release(
    mechanism: str, trust: str | None, calibration: str, claim: dict[str, Any], run: dict[str, Any]
) -> tuple[Finding, ...]:
    """One noise primitive, or running totals by one privatizer over a small world."""
    from tacit.audit.attack import trials_of
    from tacit.audit.mechanisms import audit_mechanism
    from tacit.audit.views import audit_privatizer, small_privatizer

    if trust is None:
        require(calibration == "tight", "a mechanism by itself is calibrated tightly", calibration, "add --trust")
        return (audit_mechanism(mechanism, **claim, **run),)
    require(trust != "none", "trust must be central, shuffle or local", trust)
    made = small_privatizer(cast("Trust", trust), mechanism, calibration, **claim)
    return (audit_privatizer(made, **run | {"trials": trials_of("privatizer", run["trials"])}),)


def _learner(
    learner: str,
    trust: str | None,
    claim: dict[str, Any],
    run: dict[str, Any],
    environment: str | None,
    episodes: int | None,
    mechanism: str | None,
    calibration: str,
    constants: str | None,
) -> tuple[Finding, ...]:
    from tacit.audit.attack import trials_of
    from tacit.audit.learners import audit_learner

    if trust is None:
        raise InvalidInput("a learner makes a claim under a trust model: say --trust central, shuffle or local")
    return audit_learner(
        learner,
        trust=trust,
        environment=environment,
        episodes=episodes,
        mechanism=mechanism,
        calibration=calibration,
        constants=cast("Constants | None", constants),
        **claim,
        **run | {"trials": trials_of("learner", run["trials"])},
    )


def print_findings(findings: Sequence[Finding], false_alarm: float) -> None:
    """The table of findings."""
    from tacit.accounting.wording import shown_up
    from tacit.audit.attack import shown_down

    head = ["attacked", "calibration", "seen", "δ", "claimed", "certified", "attacked", "trials", "verdict"]
    rows = [
        [
            f"{f.kind} {f.name}" + ("" if f.trust in f.name or f.trust == "-" else f" ({f.trust})"),
            f.calibration,
            f.view,
            f"{f.delta:g}",
            f"{f.claimed:g}",
            shown_up(f.certified),
            shown_down(f.attacked),
            f"{f.trials:,}",
            f.verdict,
        ]
        for f in findings
    ]
    print_table(head, rows, numeric=range(3, 8))
    say(f"attacked: lower bounds on epsilon; all of them hold with probability {1 - false_alarm:g}")
