"""Everything that can be attacked, as a list of rows; run in their order, written down one by one.

    rows           trials of --trials N       what is drawn in a trial
    mechanisms     N                          one release of a few counters, vectorised
    privatizers    N/10                       every release of a few users, through the release kernel
    messages       N/250                      every message of a batch
    learners       N/100                      a whole run of a learner

The false-alarm rate is that of the whole table: each row gets an equal share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from tacit.accounting.claims import OUTPUTS, PrivacyClaim, PrivacyUnit, Trust
from tacit.checks.attack import Finding
from tacit.checks.learners import LAYERED, audit_learner
from tacit.checks.mechanisms import AUDITED_MECHANISMS, PURE, audit_mechanism
from tacit.checks.messages import as_printed, audit_messages
from tacit.checks.views import audit_privatizer
from tacit.mechanisms.table import MECHANISMS as TABLE
from tacit.privatizers.losses import make_adversarial
from tacit.privatizers.request import PrivacyRequest, gradient_request
from tacit.privatizers.shuffle.privatizer import Shuffled
from tacit.privatizers.shuffle.protocol import Shuffle
from tacit.privatizers.shuffle.spec import ReleaseSpec
from tacit.privatizers.table import MECHANISMS, NEVER_PURE, make_privatizer
from tacit.protocol import Constants
from tacit.released.batches import BatchQuery, PlannedBatch
from tacit.released.counts import CountShape
from tacit.released.gradients import GradientShape

__all__ = ["AS_PRINTED", "Row", "alarming", "all_rows", "privatizer_row"]

Row = Callable[[int, float, int], tuple[Finding, ...]]
"""(trials, false alarm, seed) -> findings."""

AS_PRINTED: Final = "as printed"
"""The calibration of what is only here to be refuted."""

SHAPE: Final = CountShape(horizon=2, num_states=3, num_actions=2, staged=True)
USERS: Final = 9
BATCH: Final = 20
PRIVATIZER_SHARE: Final = 10
MESSAGE_SHARE: Final = 250
LEARNER_SHARE: Final = 100

LEARNERS: Final[tuple[tuple[str, Trust, str | None], ...]] = (
    ("ucbvi", "central", None),
    ("ucbvi", "local", "oue"),
    ("ucbvi", "shuffle", None),
    ("psrl", "central", "kary-tree"),
    ("dp-ucbvi", "central", "gaussian-tree"),
    ("private-ucb-vi", "central", "laplace-tree"),
    ("private-ucb-po", "central", "batched"),
    ("pucb", "central", "laplace-tree"),
    ("ldp-obi", "local", "laplace"),
    ("ldp-psrl", "local", "laplace"),
    ("sdp-pe", "shuffle", None),
    ("sdp-pe-plus", "shuffle", None),
    ("sdp-bucb", "shuffle", None),
    ("dp-pg", "central", None),
    ("dp-npg", "central", None),
    ("uc-o-reps", "central", None),
    ("uc-o-reps", "local", None),
    ("uob-lbps", "central", None),
    ("uob-lbps", "local", None),
)
"""Learner, trust model, mechanism."""

SINCE: Final[tuple[tuple[str, Trust, Constants | None], ...]] = (
    ("bucb", "central", None),
    ("bucb", "central", "valid"),
    ("bucb", "shuffle", None),
    ("bucb", "shuffle", "valid"),
    ("ldp-rts", "local", None),
)
"""Learner, trust model, constants: what came after version 0.3.0."""


def all_rows(epsilon: float, delta: float) -> dict[str, Row]:
    """Every row of `tacit audit --all` for this claim; what can be pure claims delta = 0.

    >>> rows = all_rows(1.0, 1e-6)
    >>> len(rows) > 50, "mechanism laplace" in rows, "learner sdp-pe shuffle" in rows
    (True, True, True)
    """
    rows: dict[str, Row] = {}
    for name in AUDITED_MECHANISMS:
        rows[f"mechanism {name}"] = partial(_mechanism, name, epsilon, 0.0 if name in PURE else delta)
    every: tuple[Trust, ...] = ("local", "central", "shuffle")
    for trust in every:
        for name in MECHANISMS[trust]:
            chosen = delta if name in NEVER_PURE or name == "batched" else 0.0
            rows[f"privatizer {trust} {name} tight"] = partial(privatizer_row, trust, name, "tight", epsilon, chosen)
            if TABLE[name].printed:
                rows[f"privatizer {trust} {name} paper"] = partial(
                    privatizer_row, trust, name, "paper", epsilon, chosen
                )
    for layer in (0, None):
        kind = "all layers" if layer is None else "one layer"
        rows[f"privatizer shuffle batch of {kind}"] = partial(_stage, layer, epsilon, delta)
    both: tuple[Trust, ...] = ("local", "central")
    for trust in both:
        for feedback in ("full", "bandit"):
            for calibration in ("tight", "paper"):
                chosen = delta if trust == "central" and calibration == "tight" else 0.0
                rows[f"privatizer {trust} {feedback} losses {calibration}"] = partial(
                    _losses, trust, feedback, calibration, epsilon, chosen
                )
    for name, options in _GRADIENTS.items():
        rows[f"privatizer gradient {name} tight"] = partial(_gradient, name, "tight", options, epsilon, delta)
    rows["privatizer gradient softmax paper"] = partial(_gradient, "softmax", "paper", {}, epsilon, delta)
    for name in ("ones", "every-bit", AS_PRINTED):
        rows[f"messages {name}"] = partial(_messages, name, 3.0 * epsilon, delta)
    for name, trust, mechanism in LEARNERS:
        pure = trust == "local" or mechanism in ("laplace-tree", "kary-tree")
        words = f"learner {name} {trust}" + ("" if mechanism is None else f" {mechanism}")
        rows[words] = partial(_learner, name, trust, mechanism, epsilon, 0.0 if pure else delta)
    for name, trust, constants in SINCE:
        words = f"learner {name} {trust}" + ("" if constants is None else f" {constants}")
        claimed = 0.0 if trust == "local" else delta
        rows[words] = partial(_learner, name, trust, None, epsilon, claimed, constants=constants)
    return rows


def alarming(findings: tuple[Finding, ...] | list[Finding]) -> Iterator[Finding]:
    """The findings that nobody expects: a refuted certificate, or a refuted claim that no paper printed."""
    for finding in findings:
        expected = finding.calibration == AS_PRINTED or (
            finding.calibration == "paper" and finding.verdict == "claim refuted"
        )
        if finding.verdict != "holds" and not expected:
            yield finding


def privatizer_row(
    trust: Trust,
    mechanism: str | None,
    calibration: str,
    epsilon: float,
    delta: float,
    trials: int,
    alarm: float,
    seed: int,
) -> tuple[Finding, ...]:
    """One privatizer of the registry, over a small world."""
    request = PrivacyRequest(
        trust=trust,
        shape=SHAPE,
        episodes=2 * BATCH if trust == "shuffle" else USERS,
        epsilon=epsilon,
        delta=delta,
        calibration=calibration,  # type: ignore[arg-type]
        mechanism=mechanism,
        users_per_batch=BATCH if trust == "shuffle" else 1,
    )
    return (
        audit_privatizer(
            make_privatizer(request), trials=_share(trials, PRIVATIZER_SHARE), false_alarm=alarm, seed=seed
        ),
    )


def _mechanism(name: str, epsilon: float, delta: float, trials: int, alarm: float, seed: int) -> tuple[Finding, ...]:
    return (audit_mechanism(name, epsilon=epsilon, delta=delta, trials=trials, false_alarm=alarm, seed=seed),)


def _stage(
    layer: int | None, epsilon: float, delta: float, trials: int, alarm: float, seed: int
) -> tuple[Finding, ...]:
    shuffle = Shuffled(shape=SHAPE, claim=_claim("shuffle", epsilon, delta), calibration="tight")
    planned = PlannedBatch(users=BATCH, query=BatchQuery(layer=layer, failure_prob=None))
    name = "shuffle/batch of all layers" if layer is None else "shuffle/batch of one layer"
    count = _share(trials, PRIVATIZER_SHARE)
    return (audit_privatizer(shuffle.planned([planned]), trials=count, false_alarm=alarm, seed=seed, name=name),)


def _losses(
    trust: Trust, feedback: Any, calibration: Any, epsilon: float, delta: float, trials: int, alarm: float, seed: int
) -> tuple[Finding, ...]:
    privatizer = make_adversarial(
        shape=LAYERED, claim=_claim(trust, epsilon, delta), episodes=USERS, feedback=feedback, calibration=calibration
    )
    name, count = f"{privatizer.name}, {feedback} losses", _share(trials, PRIVATIZER_SHARE)
    return (audit_privatizer(privatizer, trials=count, false_alarm=alarm, seed=seed, name=name),)


_GRADIENTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "softmax": {},
    "clipped": {"clip": 0.5},
    "two epochs": {"epochs": 2},
    "Poisson sample": {"rate": 0.5},
    "released baseline": {"baseline": None},
}


def _gradient(
    name: str,
    calibration: str,
    options: Mapping[str, Any],
    epsilon: float,
    delta: float,
    trials: int,
    alarm: float,
    seed: int,
) -> tuple[Finding, ...]:
    asked: dict[str, Any] = {"clip": None, **options}
    request = gradient_request(
        shape=GradientShape(horizon=1, num_states=2, num_actions=2, staged=True, dimension=4),
        trust="central",
        epsilon=epsilon,
        delta=delta,
        calibration=calibration,  # type: ignore[arg-type]
        users_per_batch=4,
        tabular=True,
        **asked,
    )
    privatizer, count = make_privatizer(request), _share(trials, PRIVATIZER_SHARE)
    shown = f"{privatizer.name}, {name}"
    return (audit_privatizer(privatizer, trials=count, false_alarm=alarm, seed=seed, name=shown),)


def _messages(kind: str, epsilon: float, delta: float, trials: int, alarm: float, seed: int) -> tuple[Finding, ...]:
    spec = ReleaseSpec.crude(num_states=3, num_actions=2, horizon=2, layer=0)
    protocol = Shuffle.tight(spec, epsilon=epsilon, delta=delta, users=10)
    if kind == "every-bit":
        protocol = replace(protocol, messages="every-bit")
    elif kind == AS_PRINTED:
        protocol = as_printed(protocol)
    found = audit_messages(
        protocol,
        epsilon=epsilon,
        delta=delta,
        trials=max(2000, _share(trials, MESSAGE_SHARE)),
        false_alarm=alarm,
        seed=seed,
        name="integers, as printed" if kind == AS_PRINTED else f"single bits, {kind}",
    )
    return (replace(found, calibration=AS_PRINTED if kind == AS_PRINTED else "tight"),)


def _learner(
    name: str,
    trust: Trust,
    mechanism: str | None,
    epsilon: float,
    delta: float,
    trials: int,
    alarm: float,
    seed: int,
    constants: Constants | None = None,
) -> tuple[Finding, ...]:
    return audit_learner(
        name,
        trust=trust,
        epsilon=epsilon,
        delta=delta,
        mechanism=mechanism,
        constants=constants,
        trials=_share(trials, LEARNER_SHARE),
        false_alarm=alarm,
        seed=seed,
    )


def _share(trials: int, share: int) -> int:
    return max(200, trials // share)


def _claim(trust: Trust, epsilon: float, delta: float) -> PrivacyClaim:
    return PrivacyClaim(
        trust=trust,
        epsilon=epsilon,
        delta=delta,
        unit=PrivacyUnit(reports=1, per_stage=1),
        neighbours="replace-one",
        output=OUTPUTS[trust][0],
    )
