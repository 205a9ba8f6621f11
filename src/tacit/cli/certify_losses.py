"""`tacit certify --feedback full|bandit`: the privatizers of adversarial losses, tight and as the paper prints them.

The world has `horizon` layers with `states` states each (one in the first and in the last).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from tacit.cli.common import print_json, print_table, say
from tacit.errors import NotSupported, UnknownName, require

if TYPE_CHECKING:
    from tacit.accounting.certificate import Certificate
    from tacit.accounting.claims import PrivacyClaim
    from tacit.protocol import Calibration
    from tacit.release.loss_noise import Feedback
    from tacit.release.losses import AdversarialPrivatizer

STATISTICS: Final = ("transitions", "visits", "losses")


@dataclass(frozen=True, slots=True, kw_only=True)
class LossQuestion:
    """What was asked on the command line."""

    feedback: str
    claim: PrivacyClaim
    states: int
    actions: int
    horizon: int
    episodes: int
    calibration: str
    public_losses: bool


def loss_certification(question: LossQuestion) -> dict[str, Any]:
    """Everything that `--json` prints."""
    chosen = _built(question, question.calibration)
    # The paper prints guarantees for one trajectory.
    printed = question.claim.unit.one
    sides = {name: _side(_built(question, name), question) for name in ("tight", *(["paper"] if printed else []))}
    pairs = {
        name: (sides["paper"]["noise_std"][name], sides["tight"]["noise_std"][name])
        for name in (STATISTICS if printed else ())
    }
    return {
        "claim": chosen.claim.to_dict(),
        "certificate": sides[chosen.calibration]["certificate"],
        "noise_std": sides[chosen.calibration]["noise_std"],
        "calibration": chosen.calibration,
        "mechanism": sides[chosen.calibration]["mechanism"],
        "configuration": {
            "trust": question.claim.trust,
            "feedback": question.feedback,
            "public_losses": question.public_losses,
            "states": question.states,
            "actions": question.actions,
            "horizon": question.horizon,
            "episodes": question.episodes,
            "pairs": chosen.shape.pairs,
            **({} if printed else {"reports_per_person": question.claim.unit.reports}),
        },
        "paper": None,
        **sides,
        "ratio": {name: paper / tight if tight > 0.0 else None for name, (paper, tight) in pairs.items()} or None,
    }


def certify_losses(question: LossQuestion, *, json: bool) -> None:
    """Print the claim, the certificate and the noise."""
    from tacit.accounting.wording import shown_up

    content = loss_certification(question)
    if json:
        print_json(content)
        return
    chosen = _built(question, question.calibration)
    public = ", loss tables declared public" if question.public_losses else ""
    world = f"{question.horizon} layers of {question.states} states, {question.actions} actions"
    say(
        f"{question.claim.trust} trust, feedback {question.feedback}{public}: {world}, {chosen.shape.pairs} losses per "
        f"episode, {question.episodes:,} episodes"
    )
    for line in ("", _certificate(chosen, question).describe(), ""):
        say(line)
    sides = {name: content[name] for name in ("tight", "paper") if content[name] is not None}
    ratio = content["ratio"]
    head = ["noise standard deviation", *(f"{name} ({side['mechanism']})" for name, side in sides.items())]
    rows = [[name, *(f"{side['noise_std'][name]:.4g}" for side in sides.values())] for name in STATISTICS]
    certified = [shown_up(float(side["certificate"]["epsilon"])) for side in sides.values()]
    rows.append([f"certified ε at δ = {question.claim.delta:g}", *certified])
    if ratio is not None:
        head.append("paper/tight")
        rows = [[*row, _number(ratio[row[0]]) if row[0] in ratio else ""] for row in rows]
    print_table(head, rows, numeric=range(1, len(head)))
    if content["calibration"] == "tight" and "paper" in sides:
        say(f"paper: {sides['paper']['certificate']['verdict']}")


def _built(question: LossQuestion, calibration: str) -> AdversarialPrivatizer:
    from tacit.planning.layered import layered_geometry, layered_shape
    from tacit.release.losses import make_adversarial

    if question.feedback not in ("full", "bandit"):
        raise UnknownName("feedback", question.feedback, ("full", "bandit"))
    if question.claim.trust not in ("central", "local"):
        raise NotSupported(f"adversarial losses are released under trust central or local, not {question.claim.trust}")
    require(calibration in ("tight", "paper"), "calibration must be 'tight' or 'paper'", calibration)
    widths = (1, *[question.states] * (question.horizon - 1), 1)
    return make_adversarial(
        shape=layered_shape(layered_geometry(widths, question.actions)),
        claim=question.claim,
        episodes=question.episodes,
        feedback=cast("Feedback", question.feedback),
        calibration=cast("Calibration", calibration),
        public_losses=question.public_losses,
    )


def _certificate(privatizer: AdversarialPrivatizer, question: LossQuestion) -> Certificate:
    from tacit.accounting.terms import terms_of

    terms = terms_of(privatizer, noise="simulation", episodes=question.episodes, users_per_batch=1)
    return privatizer.certificate().under(terms, privatizer)


def _side(privatizer: AdversarialPrivatizer, question: LossQuestion) -> dict[str, Any]:
    certificate = _certificate(privatizer, question)
    return {
        "mechanism": privatizer.name.partition("/")[2],
        "noise_std": {name: privatizer.noise_std()[name] for name in STATISTICS},
        "certificate": certificate.to_dict(),
        "holds": certificate.holds,
    }


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
