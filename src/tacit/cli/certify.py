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
    from tacit.accounting.claims import Trust
    from tacit.protocol import Calibration
    from tacit.release.request import PrivacyRequest

NOTIONS: Final = ("dp", "zcdp")


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
    from tacit.runs.certification import certification
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
    from tacit.runs.certification import loss_certification, loss_request

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
    _print_sides(content)


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
    _print_sides(content)
    if (sampling := content["tight"]["sampling_std"]) is not None:
        parts = ", ".join(f"{name} {value:.4g}" for name, value in sampling.items())
        say(f"choosing one slot at random adds a standard deviation of at most {parts} per user")
    if content["note"] is not None:
        say(content["note"])


def _print_sides(content: dict[str, Any]) -> None:
    """The noise, the certified epsilon and the messages of both calibrations, side by side."""
    from tacit.accounting.wording import shown_up

    sides = {name: content[name] for name in ("tight", "paper", "paper_2024") if content.get(name) is not None}
    ratio = content["ratio"]
    head = ["noise standard deviation", *(f"{name} ({side['mechanism']})" for name, side in sides.items())]
    rows = [[name, *(_number(side["noise_std"][name]) for side in sides.values())] for name in content["noise_std"]]
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
