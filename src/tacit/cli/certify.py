"""`tacit certify`: what a configuration guarantees and what it costs, before anybody's data are touched.

Both calibrations are computed side by side: `tight`, the least noise that the exact accountant certifies for the claim,
and `paper`, the constants as printed, with the certificate of what they really give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from tacit.cli.common import AsJson, print_json, print_table, say
from tacit.errors import (
    MAX_HORIZON,
    MAX_REPORTS,
    NotSupported,
    UnknownName,
    require,
    require_count,
    require_epsilon,
    require_real,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tacit.accounting.claims import Trust
    from tacit.protocol import Calibration
    from tacit.release.counts_contract import CountPrivatizer
    from tacit.release.loss_noise import Feedback
    from tacit.release.request import PrivacyRequest
    from tacit.released.counts import CountShape

PRINTED_FOR_ONE: Final = "the papers print guarantees for one trajectory: there is nothing to compare with"
NOTIONS: Final = ("dp", "zcdp")
STATISTICS: Final = ("transitions", "visits", "rewards")
LOSS_STATISTICS: Final = ("transitions", "visits", "losses")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("certify")(_certify)


def _certify(
    trust: Annotated[str, typer.Option(help="central, shuffle or local.")],
    states: Annotated[int, typer.Option(help="Number of states S.")],
    actions: Annotated[int, typer.Option(help="Number of actions A.")],
    horizon: Annotated[int, typer.Option(help="Steps of one trajectory, H.")],
    episodes: Annotated[int, typer.Option(help="How many users come in all, K.")],
    delta: Annotated[float, typer.Option(help="The claim's delta; 0 is pure differential privacy.")],
    epsilon: Annotated[float | None, typer.Option(help="The claim's epsilon.")] = None,
    batch: Annotated[int | None, typer.Option(help="Users per batch; 1000 with trust shuffle.")] = None,
    calibration: Annotated[str, typer.Option(help="Whose certificate is shown: tight or paper.")] = "tight",
    mechanism: Annotated[str | None, typer.Option(help="See 'tacit list mechanisms'.")] = None,
    pooled: Annotated[
        bool, typer.Option("--pooled", help="Statistics added up over the steps of a trajectory.")
    ] = False,
    allow_large_delta: Annotated[bool, typer.Option("--allow-large-delta", help="Accept a delta above 1e-3.")] = False,
    honest_fraction: Annotated[
        float, typer.Option(help="Trust shuffle: the share of a batch's devices whose noise is counted on.")
    ] = 1.0,
    reports_per_person: Annotated[
        int, typer.Option(help="How many users one person may be, at most one per batch; all are protected together.")
    ] = 1,
    feedback: Annotated[
        str | None, typer.Option(help="Adversarial losses, full or bandit: --states are then those of one layer.")
    ] = None,
    public_losses: Annotated[
        bool, typer.Option("--public-losses", help="Full-information loss tables are declared to be nobody's data.")
    ] = False,
    noise: Annotated[
        str | None,
        typer.Option(help="secure: as devices or a collector draw it; simulation; by default secure where it can be."),
    ] = None,
    notion: Annotated[
        str, typer.Option(help="dp: epsilon and delta; zcdp: the concentrated and Rényi form, too, where there is one.")
    ] = "dp",
    rho: Annotated[
        float | None, typer.Option(help="With --notion zcdp, instead of --epsilon: the claim's rho.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Print the claim, the certificate and the noise of a configuration, tight and as the papers print it."""
    from dataclasses import replace

    from tacit.accounting.claims import PrivacyUnit
    from tacit.accounting.terms import NOISE_KINDS
    from tacit.release.request import PrivacyRequest
    from tacit.release.table import certified
    from tacit.released.counts import CountShape
    from tacit.runs.config import DEFAULT_BATCH

    require(trust != "none", "trust must be central, shuffle or local", trust, "without trust nothing is certified")
    require_count("horizon", horizon, most=MAX_HORIZON)
    for name, count in (("states", states), ("actions", actions), ("episodes", episodes)):
        require_count(name, count)
    require(feedback is not None or not public_losses, "--public-losses needs --feedback full", public_losses)
    default = DEFAULT_BATCH if trust == "shuffle" else 1
    users = require_count("batch", default if batch is None else batch)
    require(users <= episodes, f"a batch must not be larger than all {episodes} episodes", users)
    if notion not in NOTIONS:
        raise UnknownName("notion", notion, NOTIONS)
    require((epsilon is None) != (rho is None), "a claim must have either --epsilon or --rho", (epsilon, rho))
    plain = rho is None or (notion == "zcdp" and feedback is None)
    require(plain, "--rho belongs to --notion zcdp, without --feedback", notion)
    request = PrivacyRequest(
        trust=cast("Trust", trust),
        shape=CountShape(horizon=horizon, num_states=states, num_actions=actions, staged=not pooled),
        episodes=episodes,
        epsilon=1.0 if epsilon is None else require_epsilon(epsilon),
        delta=delta,
        calibration=cast("Calibration", calibration),
        mechanism=mechanism,
        users_per_batch=users,
        allow_large_delta=allow_large_delta,
        honest_fraction=require_real("honest_fraction", honest_fraction, low=0.0, high=1.0, open_low=True),
        unit=PrivacyUnit(
            reports=require_count("reports per person", reports_per_person, most=MAX_REPORTS), per_stage=1
        ),
    )
    if noise is not None:
        require(noise in NOISE_KINDS, f"noise must be {' or '.join(NOISE_KINDS)}", noise)
        request = replace(request, whole=noise == "secure")
    shared = trust == "shuffle" or honest_fraction == 1.0
    require(shared, "--honest-fraction belongs to trust shuffle, whose noise all devices share", trust)
    if feedback is not None:
        if noise == "secure":
            raise NotSupported("adversarial losses are certified for simulations here; plan a study of uob-lbps")
        _losses(request, feedback, public_losses, as_json=json)
        return
    if rho is not None:
        from tacit.accounting.renyi import largest_epsilon

        found = largest_epsilon(
            rho, lambda value: certified(replace(request, epsilon=value), noise)[1].concentrated().rho
        )
        request = replace(request, epsilon=found)
    content, certificate = certification(request, noise), certified(request, noise)[1]
    form = certificate.concentrated(rho) if notion == "zcdp" else None
    if json:
        print_json({**content, **({} if form is None else {"zcdp": form.to_dict()})})
        return
    _show(content, ["", certificate.describe(), "", *([] if form is None else [form.describe(), ""])])


def _losses(request: PrivacyRequest, feedback: str, public_losses: bool, *, as_json: bool) -> None:
    """The same question about adversarial losses."""
    from tacit.release.table import certified

    shape, trusts = request.shape, ("central", "local")
    require(request.trust in trusts, "adversarial losses are released under trust central or local", request.trust)
    plain = request.mechanism is None and request.users_per_batch == 1 and shape.staged
    require(plain, "--feedback goes without --mechanism, --batch and --pooled", request.mechanism or "them")
    asked = loss_request(request, feedback, public_losses)
    content = loss_certification(asked, shape)
    if as_json:
        print_json(content)
        return
    public = ", loss tables declared public" if public_losses else ""
    say(
        f"{request.trust} trust, feedback {feedback}{public}: {shape.horizon} layers of {shape.num_states} states, "
        f"{shape.num_actions} actions, {asked.shape.pairs} losses per episode, {request.episodes:,} episodes"
    )
    for line in ("", certified(asked, "simulation")[1].describe(), ""):
        say(line)
    _print_sides(content, LOSS_STATISTICS)


def loss_request(request: PrivacyRequest, feedback: str, public_losses: bool) -> PrivacyRequest:
    """The same privacy for adversarial losses, in `horizon` layers of `states` each (one in the first and the last)."""
    from dataclasses import replace

    from tacit.planning.layered import layered_geometry, layered_shape
    from tacit.released.losses import LossQuery

    if feedback not in ("full", "bandit"):
        raise UnknownName("feedback", feedback, ("full", "bandit"))
    widths = (1, *[request.shape.num_states] * (request.shape.horizon - 1), 1)
    shape = layered_shape(layered_geometry(widths, request.shape.num_actions))
    known = cast("Feedback", feedback)
    return replace(request, asks=LossQuery, shape=shape, feedback=known, public_losses=public_losses)


def loss_certification(asked: PrivacyRequest, sizes: CountShape) -> dict[str, Any]:
    """Everything that `--json` prints about losses; `sizes` are the states, actions and steps of the world."""
    from dataclasses import replace

    from tacit.release.table import make_privatizer

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
    from tacit.release.table import certified, make_privatizer

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
    from tacit.accounting.claims import implied_claims

    found = implied_claims(privatizer.claim, privatizer.certificate().epsilon)
    return [claim.to_dict() for claim in found]


def _asking(request: PrivacyRequest, calibration: Calibration) -> PrivacyRequest:
    """The same request under a calibration; where the papers know one mechanism only, under that one.

    What chooses among printed noises (`bounded:C=2`) belongs to `paper`: the tight side is that of the plain mechanism.
    """
    from dataclasses import replace

    same = request.calibration == calibration or request.trust != "central"
    mechanism = request.mechanism if same else None
    if mechanism is not None and calibration == "tight" != request.calibration:
        mechanism = mechanism.partition(":")[0]
    whole = request.whole and calibration == "tight"
    return replace(request, calibration=calibration, mechanism=mechanism, whole=whole)


def _papers(request: PrivacyRequest) -> tuple[dict[str, CountPrivatizer], str | None]:
    """The configuration as printed: none for what no paper prints, two for shuffling, which was printed twice."""
    from dataclasses import replace

    from tacit.noise.table import mechanism_row
    from tacit.release.table import is_plugin, make_privatizer

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
    from tacit.release.local import Local
    from tacit.release.shuffle_release import ShuffleRelease
    from tacit.release.staged import Staged
    from tacit.release.table import certificate_under

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


def _show(content: dict[str, Any], words: list[str]) -> None:
    """The same for people; `words` say what is claimed and what is certified."""
    from tacit.accounting.claims import Implied

    asked = content["configuration"]
    steps = "kept apart by step" if asked["statistics"] == "stage-dependent" else "pooled over the steps"
    say(
        f"{asked['trust']} trust, {content['mechanism']}: {asked['states']} states, {asked['actions']} actions, "
        f"horizon {asked['horizon']}, {asked['episodes']:,} episodes, {asked['batch']:,} per batch; "
        f"statistics {asked['statistics']} ({steps})"
    )
    for line in words:
        say(line)
    for claim in content["implied"]:
        say(Implied(**claim).describe())
    _print_sides(content, STATISTICS)
    if (sampling := content["tight"]["sampling_std"]) is not None:
        parts = ", ".join(f"{name} {value:.4g}" for name, value in sampling.items())
        say(f"choosing one slot at random adds a standard deviation of at most {parts} per user")
    if content["note"] is not None:
        say(content["note"])


def _print_sides(content: dict[str, Any], statistics: Sequence[str]) -> None:
    """The noise, the certified epsilon and the messages of both calibrations, side by side."""
    from tacit.accounting.wording import shown_up

    sides = {name: content[name] for name in ("tight", "paper", "paper_2024") if content.get(name) is not None}
    ratio = content["ratio"]
    head = ["noise standard deviation", *(f"{name} ({side['mechanism']})" for name, side in sides.items())]
    rows = [[name, *(_number(side["noise_std"][name]) for side in sides.values())] for name in statistics]
    certified = [shown_up(float(side["certificate"]["epsilon"])) for side in sides.values()]
    rows.append([f"certified ε at δ = {content['claim']['delta']:g}", *certified])
    for name, label in (("messages_per_user", "messages per user"), ("bytes_per_user", "bytes per user")):
        if sides["tight"].get(name) is not None:
            rows.append([label, *(f"{side[name]:,}" for side in sides.values())])
    if ratio is not None:
        head.append("paper/tight")
        rows = [[*row, _number(ratio[row[0]]) if row[0] in ratio else ""] for row in rows]
    print_table(head, rows, numeric=range(1, len(head)))
    if content["calibration"] == "tight" and content["paper"] is not None:
        say(f"paper: {content['paper']['certificate']['verdict']}")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
