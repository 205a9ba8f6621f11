"""Rows of an audit that attack a release by itself: mechanisms, privatizers of every query, shuffled messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from papers.audit.rows import Row, Subject
from papers.fingerprint import privatizer_words
from papers.gradient_requests import gradient_request
from papers.revisions import MECHANISMS as MECHANISM_BOOK
from papers.revisions import revision_of
from tacit.accounting.claims import OUTPUTS, PrivacyClaim, PrivacyUnit, Trust
from tacit.audit.attack import Finding, Kind, attack
from tacit.audit.learners import LAYERED
from tacit.audit.mechanisms import (
    AUDITED_MECHANISMS,
    PURE,
    as_printed,
    audit_mechanism,
    audit_messages,
    calibrated_mechanism,
)
from tacit.audit.views import BATCH, SHAPE, USERS, audit_privatizer, small_privatizer, target_of_release, view_of
from tacit.noise.table import MECHANISMS as TABLE
from tacit.release.arms import ArmRelease, composed, make_arms
from tacit.release.losses import make_adversarial
from tacit.release.request import PrivacyRequest
from tacit.release.shuffle.labels import PaperVariant
from tacit.release.shuffle_release import ShuffleRelease
from tacit.release.staged import Staged
from tacit.release.table import MECHANISMS, make_privatizer
from tacit.release.values import FACTORS, PrivateValues
from tacit.release.values import Kind as ValueKind
from tacit.released.batches import BatchQuery, PlannedBatch
from tacit.released.gradients import GradientShape
from tacit.released.moments import MomentQuery, MomentShape
from tacit.released.returns import ReturnQuery
from tacit.released.weighted_returns import WeightQuery, WeightShape
from tacit.support import Support

__all__ = ["AS_PRINTED", "SHAPE", "mechanism_row", "privatizer_row", "release_row", "release_rows"]

AS_PRINTED: Final = "as printed"
"""The calibration of what is only here to be refuted."""


Rows = Iterator[tuple[str, Row]]


def release_rows(epsilon: float, delta: float) -> Rows:
    """Every release by itself; what can be pure claims delta = 0."""
    for name in AUDITED_MECHANISMS:
        yield f"mechanism {name}", mechanism_row(name, epsilon, 0.0 if name in PURE else delta)
    yield from _totals(epsilon, delta)
    yield from _shaped(epsilon, delta)
    yield from _batches(epsilon, delta)
    yield from _losses(epsilon, delta)
    yield from _gradients(epsilon, delta)
    yield "privatizer local returns tight", privatizer_row("local", None, "tight", epsilon, 0.0, asks=ReturnQuery)
    yield from _moments(epsilon, delta)
    yield from _weights(epsilon, delta)
    yield from _arms(epsilon, delta)
    for kind in ("ones", AS_PRINTED):
        yield f"messages {kind}", _messages(kind, 3.0 * epsilon, delta)


def mechanism_row(name: str, epsilon: float, delta: float) -> Row:
    """One noise primitive."""

    def subject() -> Subject:
        made = calibrated_mechanism(name, epsilon=epsilon, delta=delta)
        known = next((known for known in (name, getattr(made, "NAME", name)) if known in MECHANISM_BOOK), None)
        named = name if known is None else f"{name}, {revision_of(MECHANISM_BOOK, known)}"
        words = f"{named} for epsilon {epsilon:g}, delta {delta:g}"
        return Subject(attacked=made, words=words)

    def attacked(made: Any, trials: int, alarm: float, seed: int) -> tuple[Finding, ...]:
        del made  # it is calibrated again there
        return (audit_mechanism(name, epsilon=epsilon, delta=delta, trials=trials, false_alarm=alarm, seed=seed),)

    return Row(kind="mechanism", subject=subject, attack=attacked)


def release_row(make: Callable[[], Any], name: str | None = None, *, kind: Kind = "privatizer") -> Row:
    """Whatever a privatizer releases, under its own name or another one."""

    def subject() -> Subject:
        made = make()
        return Subject(attacked=made, words=privatizer_words(made))

    def attacked(made: Any, trials: int, alarm: float, seed: int) -> tuple[Finding, ...]:
        shown = None if name is None else name.format(made.name)
        return (audit_privatizer(made, trials=trials, false_alarm=alarm, seed=seed, name=shown),)

    return Row(kind=kind, subject=subject, attack=attacked)


def privatizer_row(
    trust: Trust, mechanism: str | None, calibration: str, epsilon: float, delta: float, **other: Any
) -> Row:
    """Running totals by one privatizer of the registry, over a small world; `other` fields of the request as given."""
    return release_row(lambda: small_privatizer(trust, mechanism, calibration, epsilon=epsilon, delta=delta, **other))


def _totals(epsilon: float, delta: float) -> Rows:
    every: tuple[Trust, ...] = ("local", "central", "shuffle")
    for trust in every:
        for name in MECHANISMS[trust]:
            chosen = delta if not TABLE[name].pure or name == "batched" else 0.0
            for calibration in ("tight", "paper") if TABLE[name].printed else ("tight",):
                row = privatizer_row(trust, name, calibration, epsilon, chosen)
                yield f"privatizer {trust} {name} {calibration}", row


SUPPORT: Final = Support(
    moves=[[[1, 1, 0], [1, 1, 0]], [[1, 1, 0], [0, 1, 1]], [[0, 1, 0], [0, 1, 1]]],
    horizon=SHAPE.horizon,
    rewards=[[1, 0], [0, 0], [0, 1]],
)
"""A chain of three states with one sure row, that pays at both ends."""

SHAPED: Final[Mapping[str, Mapping[str, Any]]] = {
    "pooled": {"shape": replace(SHAPE, staged=False)},
    "declared support": {"shape": replace(SHAPE, support=SUPPORT)},
    "two reports": {"unit": PrivacyUnit(reports=2, per_stage=1)},
}
"""What else can be asked of running totals, under every trust model."""
PRINTED: Final = ("gaussian:c=statement", "bounded:C=2")
"""What a paper leaves open about its noise, chosen otherwise."""


def _shaped(epsilon: float, delta: float) -> Rows:
    best: Mapping[Trust, str] = {"local": "subset", "central": "factorization", "shuffle": "binomial"}
    for words, other in SHAPED.items():
        for trust, name in best.items():
            row = privatizer_row(trust, name, "tight", epsilon, 0.0 if trust == "local" else delta, **other)
            yield f"privatizer {trust} {name} {words}", _called(f"{{}}, {words}", row)
    for words in ("declared support", "two reports"):
        for trust, name in (("local", "laplace"), ("local", "rr"), ("central", "kary-tree")):
            row = privatizer_row(trust, name, "tight", epsilon, 0.0, **SHAPED[words])
            yield f"privatizer {trust} {name} {words}", _called(f"{{}}, {words}", row)
    squares = privatizer_row("local", "laplace", "tight", epsilon, 0.0, squares=True)
    yield "privatizer local laplace squares", _called("{}, squares", squares)
    for name in PRINTED:
        yield (
            f"privatizer local {name} paper",
            _called(f"local/{name}", privatizer_row("local", name, "paper", epsilon, delta)),
        )


def _called(name: str, row: Row) -> Row:
    """The same row under another name."""
    return release_row(lambda: row.subject().attacked, name)


def _batches(epsilon: float, delta: float) -> Rows:
    for layer in (0, None):
        kind = "all layers" if layer is None else "one layer"
        planned = PlannedBatch(users=BATCH, query=BatchQuery(layer=layer, failure_prob=None))
        open_batches: Any = make_privatizer(_batch_request(epsilon, delta))
        made = open_batches.planned([planned])
        yield f"privatizer shuffle batch of {kind}", release_row(partial(_same, made), f"shuffle/batch of {kind}")
    printed = BatchQuery(layer=None, failure_prob=None)
    variants: tuple[PaperVariant, ...] = ("2024", "2025")
    for variant in variants:
        asked: Any = make_privatizer(replace(_batch_request(epsilon, delta), calibration="paper", variant=variant))
        made = asked.planned([PlannedBatch(users=BATCH, query=printed)])
        yield f"privatizer shuffle batch paper {variant}", release_row(partial(_same, made), f"{{}} of {variant}")


MOMENTS: Final[Mapping[str, tuple[Trust, bool, bool]]] = {
    "central moments": ("central", False, False),
    "central moments, one parameter": ("central", True, False),
    "shuffle moments": ("shuffle", False, False),
    "local moments": ("local", False, False),
    "local moments, lots": ("local", False, True),
}
"""Trust, whether one parameter is shared, and whether lots decide who takes which action."""


def _moments(epsilon: float, delta: float) -> Rows:
    for words, (trust, shared, lots) in MOMENTS.items():
        chosen = 0.0 if trust == "local" else delta
        make = partial(planned_moments, trust, epsilon, chosen, shared=shared, lots=lots)
        yield f"privatizer {words} tight", release_row(make, words)


def _weights(epsilon: float, delta: float) -> Rows:
    trusts: tuple[Trust, ...] = ("central", "shuffle", "local")
    for trust in trusts:
        make = partial(planned_weights, trust, epsilon, 0.0 if trust == "local" else delta)
        yield f"privatizer {trust} weighted returns tight", release_row(make, f"{trust} weighted returns")
    for kind in FACTORS:
        values = partial(values_of_a_log, kind, epsilon, delta)
        yield f"privatizer central values {kind} tight", release_row(values, f"central values of a log, {kind}")


def values_of_a_log(kind: ValueKind, epsilon: float, delta: float, *, users: int = BATCH) -> PrivateValues:
    """What an evaluation releases of two policies, one with a smaller share."""
    claim = PrivacyClaim(
        trust="central", epsilon=epsilon, delta=delta, unit=PrivacyUnit(reports=1, per_stage=1),
        neighbours="replace-one", output="published-sums",
    )  # fmt: skip
    return PrivateValues(claim=claim, kind=kind, shares=(1.0, 0.3), people=users)


def planned_weights(trust: Trust, epsilon: float, delta: float, *, users: int = BATCH) -> Staged:
    """Weighted returns of two policies, one with a smaller share."""
    request = PrivacyRequest(
        trust=trust,
        shape=WeightShape(shares=(256, 76)),
        episodes=users,
        epsilon=epsilon,
        delta=delta,
        calibration=None,
        mechanism=None,
        users_per_batch=1,
        asks=WeightQuery,
    )
    made: Any = make_privatizer(request)
    found: Staged = made.planned([PlannedBatch(users=users, query=WeightQuery())])  # type: ignore[arg-type]
    return found


def planned_moments(
    trust: Trust, epsilon: float, delta: float, *, shared: bool, lots: bool, users: int = BATCH
) -> Staged:
    """Moments of one batch of a small shape."""
    request = PrivacyRequest(
        trust=trust,
        shape=MomentShape(features=2, actions=2, shared=shared, grid=64),
        episodes=users,
        epsilon=epsilon,
        delta=delta,
        calibration=None,
        mechanism=None,
        users_per_batch=1,
        asks=MomentQuery,
    )
    made: Any = make_privatizer(request)
    found: Staged = made.planned([PlannedBatch(users=users, query=MomentQuery(lots=lots))])  # type: ignore[arg-type]
    return found


def _losses(epsilon: float, delta: float) -> Rows:
    both: tuple[Trust, ...] = ("local", "central")
    for trust in both:
        for feedback in ("full", "bandit"):
            for calibration in ("tight", "paper"):
                chosen = delta if trust == "central" and calibration == "tight" else 0.0
                asked: dict[str, Any] = {"feedback": feedback, "calibration": calibration}
                make = partial(
                    make_adversarial, shape=LAYERED, claim=_claim(trust, epsilon, chosen), episodes=USERS, **asked
                )
                row = release_row(make, f"{{}}, {feedback} losses")
                yield f"privatizer {trust} {feedback} losses {calibration}", row
                known = release_row(partial(make, known_transitions=True), f"{{}}, {feedback} losses alone")
                yield f"privatizer {trust} {feedback} losses, known transitions {calibration}", known
        chosen = delta if trust == "central" else 0.0
        asked = {"feedback": "full", "calibration": "tight", "public_losses": True}
        make = partial(make_adversarial, shape=LAYERED, claim=_claim(trust, epsilon, chosen), episodes=USERS, **asked)
        yield f"privatizer {trust} public losses tight", release_row(make, "{}, public losses")
        twice = replace(_claim(trust, epsilon, chosen), unit=PrivacyUnit(reports=2, per_stage=1))
        asked = {"feedback": "bandit", "calibration": "tight"}
        make = partial(make_adversarial, shape=LAYERED, claim=twice, episodes=USERS, **asked)
        yield f"privatizer {trust} bandit losses two reports", release_row(make, "{}, bandit losses, two reports")


GRADIENTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "softmax": {},
    "clipped": {"clip": 0.5},
    "two epochs": {"epochs": 2},
    "Poisson sample": {"rate": 0.5},
    "released baseline": {"baseline": None},
    "two reports": {"unit": PrivacyUnit(reports=2, per_stage=1)},
    "doses": {
        "shape": GradientShape(horizon=1, num_states=2, num_actions=0, staged=True, dimension=3),
        "clip": 1.0,
        "tabular": False,
    },
    "linear": {
        "shape": GradientShape(horizon=1, num_states=2, num_actions=2, staged=True, dimension=3),
        "clip": 1.0,
        "tabular": False,
    },
}
"""What gradients are made of, by name."""


def _gradients(epsilon: float, delta: float) -> Rows:
    for name, options in GRADIENTS.items():
        yield f"privatizer gradient {name} tight", _gradient(name, "tight", options, epsilon, delta)
    yield "privatizer gradient softmax paper", _gradient("softmax", "paper", {}, epsilon, delta)


def _gradient(name: str, calibration: str, options: Mapping[str, Any], epsilon: float, delta: float) -> Row:
    asked: dict[str, Any] = {
        "shape": GradientShape(horizon=1, num_states=2, num_actions=2, staged=True, dimension=4),
        "calibration": calibration,
        "clip": None,
        "tabular": True,
        **options,
    }
    request = gradient_request(trust="central", epsilon=epsilon, delta=delta, users_per_batch=4, **asked)
    return release_row(partial(make_privatizer, request), f"{{}}, {name}")


ARMS: Final[Mapping[str, tuple[int, ...]]] = {"two arms": (6, 6), "one arm": (12,)}
"""Users of a trial, and of the value of a final policy (`value_users`)."""


def _privatizer_of(make: Callable[[], Any]) -> Any:
    return make().privatizer


def _arms(epsilon: float, delta: float) -> Rows:
    every: tuple[Trust, ...] = ("local", "central", "shuffle")
    for trust in every:
        chosen = 0.0 if trust == "local" else delta
        for words, users in ARMS.items():
            make = partial(make_arms, users=users, trust=trust, epsilon=epsilon, delta=chosen)
            yield f"trial {trust} {words}", release_row(partial(_privatizer_of, make), f"trial of {words}")
        run = privatizer_row(trust, None, "tight", epsilon, chosen)
        trial = partial(make_arms, users=ARMS["two arms"], trust=trust, epsilon=epsilon, delta=chosen)
        yield f"trial {trust} of the same people", _same_people(run, trial)


def _same_people(run: Row, trial: Callable[[], ArmRelease]) -> Row:
    """A person who was in a run and is in its trial."""

    def subject() -> Subject:
        both = (run.subject().attacked, trial().privatizer)
        return Subject(attacked=both, words=" + ".join(map(privatizer_words, both)))

    def attacked(both: Any, trials: int, alarm: float, seed: int) -> tuple[Finding, ...]:
        shown = "run and trial of the same people"
        return (_audit_together(both, trials=trials, false_alarm=alarm, seed=seed, name=shown),)

    return Row(kind="privatizer", subject=subject, attack=attacked)


def _messages(kind: str, epsilon: float, delta: float) -> Row:
    shown = "integers, as printed" if kind == AS_PRINTED else f"single bits, {kind}"
    calibration = AS_PRINTED if kind == AS_PRINTED else "tight"

    def subject() -> Subject:
        layer = BatchQuery(layer=0, failure_prob=None)
        request = replace(_batch_request(epsilon, delta), mechanism="binomial")
        made: Any = make_privatizer(request)
        release = made.planned([PlannedBatch(users=10, query=layer)]).first
        if kind == AS_PRINTED:
            release = as_printed(release)
        return Subject(attacked=release, words=f"{revision_of(MECHANISM_BOOK, 'binomial')}, {shown}")

    def attacked(release: ShuffleRelease, trials: int, alarm: float, seed: int) -> tuple[Finding, ...]:
        found = audit_messages(
            release, epsilon=epsilon, delta=delta, trials=trials, false_alarm=alarm, seed=seed, name=shown
        )
        return (replace(found, calibration=calibration),)

    return Row(kind="messages", subject=subject, attack=attacked)


def _batch_request(epsilon: float, delta: float) -> PrivacyRequest:
    return PrivacyRequest(
        trust="shuffle",
        shape=SHAPE,
        episodes=2 * BATCH,
        epsilon=epsilon,
        delta=delta,
        calibration=None,
        mechanism=None,
        users_per_batch=1,
        asks=BatchQuery,
    )


def _same(made: Any) -> Any:
    return made


def _claim(trust: Trust, epsilon: float, delta: float) -> PrivacyClaim:
    return PrivacyClaim(
        trust=trust,
        epsilon=epsilon,
        delta=delta,
        unit=PrivacyUnit(reports=1, per_stage=1),
        neighbours="replace-one",
        output=OUTPUTS[trust][0],
    )


def _audit_together(privatizers: Sequence[Any], *, trials: int, false_alarm: float, seed: int, name: str) -> Finding:
    """Attack a person who is in two releases, a run and its trial: against the certificate of both together."""
    before, after = privatizers
    whole = composed(before.certificate(), after.certificate())
    views = [view_of(one) for one in privatizers]
    seen = " and ".join(view.seen for view in views)
    scores = [view.scores(trials, seed + i) for i, view in enumerate(views)]
    target = target_of_release(name, whole.calibration, seen, whole.claim, whole.events or ())
    first, second = (np.asarray(np.sum(one, axis=0)) for one in zip(*scores, strict=True))
    return attack(target, first, second, false_alarm=false_alarm)
