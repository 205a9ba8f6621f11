"""What `tacit certify` states: tight and printed noise side by side, from a request alone.

The certificate of a configuration, what it implies, and the noise of both calibrations; a verifier builds the same
from the configuration beside a certificate and compares all of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from tacit.accounting.claims import PrivacyClaim, implied_claims
from tacit.accounting.terms import NOISE_KINDS
from tacit.errors import UnknownName, require
from tacit.noise.table import mechanism_row
from tacit.planning.layered import layered_geometry, layered_shape
from tacit.protocol import Calibration
from tacit.release.counts_contract import CountPrivatizer
from tacit.release.local import Local
from tacit.release.loss_noise import Feedback
from tacit.release.request import PrivacyRequest
from tacit.release.shuffle_release import ShuffleRelease
from tacit.release.staged import Staged
from tacit.release.table import certificate_under, certified, is_plugin, make_privatizer
from tacit.released.counts import CountShape
from tacit.released.losses import LossQuery

PRINTED_FOR_ONE: Final = "the papers print guarantees for one trajectory: there is nothing to compare with"
STATISTICS: Final = ("transitions", "visits", "rewards")
LOSS_STATISTICS: Final = ("transitions", "visits", "losses")


def certified_again(content: Mapping[str, Any]) -> dict[str, Any]:
    """All that `tacit certify --json` states about the configuration in it, derived again."""
    asked, claim = content["configuration"], PrivacyClaim.from_dict(content["claim"])
    honest = content["certificate"]["terms"]["honest_fraction"]
    losses = "feedback" in asked
    known = (None, "simulation") if losses else (None, *NOISE_KINDS)
    require(asked.get("noise") in known, "noise must be simulation or secure", "another")
    sizes = CountShape(
        horizon=asked["horizon"],
        num_states=asked["states"],
        num_actions=asked["actions"],
        staged=losses or asked["statistics"] == "stage-dependent",
    )
    request = PrivacyRequest(
        trust=asked["trust"],
        shape=sizes,
        episodes=asked["episodes"],
        epsilon=claim.epsilon,
        delta=claim.delta,
        calibration=content["calibration"],
        mechanism=None if losses else asked["mechanism"],
        users_per_batch=1 if losses else asked["batch"],
        allow_large_delta=True,
        honest_fraction=1.0 if honest is None else honest,
        unit=claim.unit,
        whole=not losses and asked["noise"] == "secure",
    )
    if losses:
        return loss_certification(loss_request(request, asked["feedback"], asked["public_losses"]), sizes)
    return certification(request, asked["noise"])


def loss_request(request: PrivacyRequest, feedback: str, public_losses: bool) -> PrivacyRequest:
    """The same privacy for adversarial losses, in `horizon` layers of `states` each (one in the first and the last)."""
    if feedback not in ("full", "bandit"):
        raise UnknownName("feedback", feedback, ("full", "bandit"))
    widths = (1, *[request.shape.num_states] * (request.shape.horizon - 1), 1)
    shape = layered_shape(layered_geometry(widths, request.shape.num_actions))
    known = cast("Feedback", feedback)
    return replace(request, asks=LossQuery, shape=shape, feedback=known, public_losses=public_losses)


def loss_certification(asked: PrivacyRequest, sizes: CountShape) -> dict[str, Any]:
    """Everything that `--json` prints about losses; `sizes` are the states, actions and steps of the world."""
    printed = asked.unit.one  # the paper prints guarantees for one trajectory
    made: dict[str, Any] = {
        name: make_privatizer(replace(asked, calibration=cast("Calibration", name)))
        for name in ("tight", *(["paper"] if printed else []))
    }
    sides = {name: _side(one, asked, "simulation", LOSS_STATISTICS) for name, one in made.items()}
    chosen = asked.calibrated
    return {
        "claim": made[chosen].claim.to_dict(),
        "certificate": sides[chosen]["certificate"],
        "noise_std": sides[chosen]["noise_std"],
        "calibration": chosen,
        "mechanism": sides[chosen]["mechanism"],
        "configuration": {
            "trust": asked.trust,
            "feedback": asked.feedback,
            "public_losses": asked.public_losses,
            "states": sizes.num_states,
            "actions": sizes.num_actions,
            "horizon": sizes.horizon,
            "episodes": asked.episodes,
            "pairs": asked.shape.pairs,
            **({} if printed else {"reports_per_person": asked.unit.reports}),
        },
        "paper": None,
        **sides,
        "ratio": _ratio(sides["paper"], sides["tight"], LOSS_STATISTICS) if printed else None,
    }


def certification(request: PrivacyRequest, noise: str | None = None) -> dict[str, Any]:
    """Everything that `tacit certify --json` prints: the asked-for calibration, then both of them, then their ratio."""
    chosen: Any = certified(request, noise)[0]  # first of all: whatever is wrong with the request is said here
    tight: Any = make_privatizer(_asking(request, "tight"))
    papers, note = _papers(request)
    sides = {name: _side(side, request, noise) for name, side in {"tight": tight, **papers}.items()}
    shown, shape = sides[chosen.calibration], request.shape
    return {
        "claim": chosen.claim.to_dict(),
        "certificate": shown["certificate"],
        "implied": _implied(chosen, request),
        "noise_std": shown["noise_std"],
        "calibration": chosen.calibration,
        "mechanism": shown["mechanism"],
        "configuration": {
            "trust": request.trust,
            "states": shape.num_states,
            "actions": shape.num_actions,
            "horizon": shape.horizon,
            "episodes": request.episodes,
            "batch": request.users_per_batch,
            "mechanism": request.mechanism,
            "noise": noise,
            **({} if request.unit.one else {"reports_per_person": request.unit.reports}),
            "statistics": "stage-dependent" if shape.staged else "pooled",
        },
        "tight": sides["tight"],
        "paper": sides.get("paper"),
        "paper_2024": sides.get("paper_2024"),
        "ratio": _ratio(sides["paper"], sides["tight"]) if "paper" in sides else None,
        "note": note,
    }


def _implied(privatizer: CountPrivatizer, request: PrivacyRequest) -> list[dict[str, Any]]:
    """What the certified guarantee implies in other trust models."""
    found = implied_claims(privatizer.claim, privatizer.certificate().epsilon)
    return [claim.to_dict() for claim in found]


def _asking(request: PrivacyRequest, calibration: Calibration) -> PrivacyRequest:
    """The same request under a calibration; where the papers know one mechanism only, under that one.

    What chooses among printed noises (`bounded:C=2`) belongs to `paper`: the tight side is that of the plain mechanism.
    """
    same = request.calibration == calibration or request.trust != "central"
    mechanism = request.mechanism if same else None
    if mechanism is not None and calibration == "tight" != request.calibration:
        mechanism = mechanism.partition(":")[0]
    whole = request.whole and calibration == "tight"
    return replace(request, calibration=calibration, mechanism=mechanism, whole=whole)


def _papers(request: PrivacyRequest) -> tuple[dict[str, CountPrivatizer], str | None]:
    """The configuration as printed: none for what no paper prints, two for shuffling, which was printed twice."""
    if not request.unit.one:
        return {}, PRINTED_FOR_ONE
    asked = _asking(request, "paper")
    foreign = is_plugin(request.mechanism)
    if foreign or (asked.mechanism is not None and not mechanism_row(request.trust, asked.mechanism).printed):
        tight: Any = make_privatizer(_asking(request, "tight"))
        whole = tight.sampling().weight == 1.0
        what = f"prints {request.mechanism}" if whole else "sends one slot only"
        return {}, f"no paper {what}: there is nothing to compare with"
    printed: Any = make_privatizer(asked)
    if request.trust != "shuffle":
        return {"paper": printed}, None
    note = "paper is [bai2025secure], paper_2024 is [bai2024shuffle]; both with every bit as its own message"
    return {"paper": printed, "paper_2024": cast("Any", make_privatizer(replace(asked, variant="2024")))}, note


def _side(
    privatizer: Any, request: PrivacyRequest, noise: str | None, statistics: Sequence[str] = STATISTICS
) -> dict[str, Any]:
    """One calibration in JSON-ready values."""
    certificate = certificate_under(privatizer, request, None if noise == "secure" else noise)
    std: dict[str, float | None] = {name: privatizer.noise_std().get(name) for name in statistics}
    side: dict[str, Any] = {
        "mechanism": privatizer.name.partition("/")[2],
        "noise_std": std,
        "certificate": certificate.to_dict(),
        "holds": certificate.holds,
    }
    if statistics is LOSS_STATISTICS:
        return side
    if all(family.name != "transitions" for family in privatizer.families()):
        std["transitions"] = None  # a single step has no successor
    side |= dict.fromkeys(("sampling_std", "messages_per_user", "bytes_per_user"))
    if isinstance(privatizer, Staged) and isinstance(privatizer.first, ShuffleRelease):
        cost = privatizer.first.transport.cost()
        side |= {"messages_per_user": cost.messages_per_user, "bytes_per_user": cost.bytes_per_user}
    if isinstance(privatizer, Local) and privatizer.sampling().weight != 1.0:
        total = dict(zip(STATISTICS, privatizer.parameters.variance.tolist(), strict=True))
        known = {name: value for name, value in std.items() if value is not None}
        side["sampling_std"] = {name: max(0.0, total[name] - value**2) ** 0.5 for name, value in known.items()}
    return side


def _ratio(
    paper: dict[str, Any], tight: dict[str, Any], statistics: Sequence[str] = STATISTICS
) -> dict[str, float | None]:
    """How many times larger the printed noise is; None where there is none to compare with."""
    pairs = {name: (paper["noise_std"][name], tight["noise_std"][name]) for name in statistics}
    return {name: pair[0] / pair[1] if pair[0] is not None and pair[1] else None for name, pair in pairs.items()}
