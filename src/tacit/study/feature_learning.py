"""Learning from rows of features under central trust: releases of moments, coefficients and a certificate.

    rows      a declared row, an action and a reward each, checked: one bad row and nothing is released  (sensitive
    deal      at most g rows of every person: which ones, by exact lots, or the first g; stage k gets the k-th of them
    release   Σ x xᵀ and Σ x (r − 1/2) of every action in every stage, with exact discrete Gaussian noise   ... to here)
    read      the posterior of linear rewards, with the noise as uncertainty (`tacit.planning.linear_posterior`)

G1  A person has at most one row in every stage and g in all; a person with fewer counts for nothing in the others. The
    number of people of a stage is public; how many rows a person has is not.
G2  Everything after the releases is post-processing and is computed again from the payloads.

Coefficients estimate what an action does if its choice depended on the row of features only (and on lots): that is what
`behaviour="known"` declares. If more decided it, the sums mix the effect of an action with the reason for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, ClassVar, Final, cast, get_args
from unicodedata import normalize

import numpy as np

from tacit.accounting.certificate import Certificate, CertifiedFamily, certify
from tacit.accounting.claims import PrivacyClaim, PrivacyUnit
from tacit.accounting.terms import NoiseKind, terms_of
from tacit.arrays import Floats, Ints
from tacit.data.trajectories import FeatureUsers
from tacit.errors import MAX_REPORTS, InvalidInput, UnknownName, require, require_count, require_epsilon
from tacit.features import Features, read_columns
from tacit.planning.linear_posterior import LinearPosterior, linear_intervals, linear_posterior
from tacit.planning.off_policy import normal_quantile
from tacit.policies.feature_policy import FeaturePolicy, require_actions, require_bounds
from tacit.policies.linear import LinearPolicy
from tacit.protocol import Noise
from tacit.release.contract import StageSize
from tacit.release.vectors import CentralVectors, VectorPlan
from tacit.released.moments import MomentQuery, MomentShape
from tacit.study.learning import Keep, shuffled
from tacit.study.mapping import as_text

QUERY: Final = MomentQuery(lots=False)
CONFIDENCE: Final = 0.95
"""Of intervals."""
FEATURE_MOMENTS: Final = "moments of features and rewards"
"""What ledgers call a release."""


@dataclass(frozen=True, kw_only=True)
class FeatureRequest:
    """The public parameters of learning from rows; everything a certificate is derived from."""

    features: Features
    actions: tuple[str, ...]
    reward: tuple[float, float]
    """The public bounds of rewards."""
    epsilon: float
    delta: float
    reports_per_person: int
    stage_people: tuple[int, ...]
    """The people of every stage."""
    keep: Keep = "random"
    fallback: str | None = None
    """The action that a killed policy answers with; None: it cannot be killed."""

    def __post_init__(self) -> None:
        require(isinstance(self.features, Features), "features must be tacit.Features", type(self.features).__name__)
        object.__setattr__(self, "actions", require_actions(self.actions))
        object.__setattr__(self, "reward", require_bounds(self.reward))
        require_epsilon(self.epsilon)
        require_count("reports_per_person", self.reports_per_person, most=MAX_REPORTS)
        require(len(self.stage_people) > 0, "there must be a batch of people", 0)
        object.__setattr__(self, "stage_people", tuple(require_count("people", people) for people in self.stage_people))
        require(self.keep in get_args(Keep), "keep must be 'random' or 'first'", self.keep)
        if self.fallback is not None and self.fallback not in self.actions:
            raise UnknownName("fall-back action", self.fallback, self.actions)
        _ = self.channels

    @property
    def claim(self) -> PrivacyClaim:
        """What is promised to every person."""
        return PrivacyClaim(
            trust="central",
            epsilon=self.epsilon,
            delta=self.delta,
            unit=PrivacyUnit(reports=self.reports_per_person, per_stage=1),
            neighbours="replace-one",
            output="published-sums",
        )

    @property
    def shape(self) -> MomentShape:
        """The sizes of a release."""
        return MomentShape(features=self.features.dimension, actions=len(self.actions), shared=False)

    @property
    def name(self) -> str:
        """Trust model and mechanism, for certificates."""
        return self.channels[0].name

    @property
    def ends(self) -> tuple[int, ...]:
        """How many rows there are after each stage, at most."""
        return tuple(accumulate(self.stage_people))

    @cached_property
    def plan(self) -> VectorPlan:
        """The noise: fresh in every stage, calibrated for a person who is in as many as may be."""
        return VectorPlan(claim=self.claim, shape=self.shape, asks=MomentQuery)

    @cached_property
    def channels(self) -> tuple[CentralVectors, ...]:
        """The release of every stage."""
        sizes = [StageSize(target=people, least=people, query=QUERY) for people in self.stage_people]
        return cast("tuple[CentralVectors, ...]", self.plan.channels(sizes))

    def certificate(self, noise: NoiseKind) -> Certificate:
        """What the exact accountant finds for a person who is in as many stages as may be."""
        release, reports = self.channels[0], min(self.reports_per_person, len(self.stage_people))
        std = release.noise_std()
        families = [CertifiedFamily.of(f, noise=self.name, std=std[f.name]) for f in release.families()]
        found = certify(self.plan.exposure(self.channels, reports), families, self.claim, calibration="tight")
        terms = terms_of(self, noise=noise, episodes=sum(self.stage_people), users_per_batch=max(self.stage_people))
        return found.under(terms)

    def planned(self, payloads: tuple[bytes, ...], certificate: Certificate) -> FeatureLearned:
        """Everything that follows from what was released (G2)."""
        return FeatureLearned(self, payloads, certificate, linear_posterior(*self.sums(payloads)))

    def sums(self, payloads: Sequence[bytes]) -> list[Floats]:
        """Both sums over these releases, and the variance of their noise."""
        require(
            len(payloads) == len(self.stage_people), f"there must be {len(self.stage_people)} payloads", len(payloads)
        )
        total: list[Floats] = []
        for channel, payload in zip(self.channels, payloads, strict=True):
            found = channel.read(channel.begin_memory(), payload, channel.target)[1].statistics
            parts = [found.gram, found.rewards, found.gram_variance, found.reward_variance]
            total = [a + b for a, b in zip(total, parts, strict=True)] if total else parts
        return total

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {
            "features": self.features.to_dict(),
            "actions": list(self.actions),
            "reward": list(self.reward),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "reports_per_person": self.reports_per_person,
            "stage_people": list(self.stage_people),
            "keep": self.keep,
            "fallback": self.fallback,
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> FeatureRequest:
        """The request that `to_dict` wrote."""
        names = tuple(cls.__dataclass_fields__)
        require(set(plain) == set(names), f"a request has the entries {', '.join(names)}", sorted(plain))
        return cls(**{**plain, "features": Features.from_dict(plain["features"])})


@dataclass(frozen=True, eq=False)
class FeatureLearned:
    """What was learned from rows: public, all of it."""

    request: FeatureRequest
    payloads: tuple[bytes, ...]
    """What was released: whole numbers, one payload for every stage."""
    certificate: Certificate
    posterior: LinearPosterior
    comparison: ClassVar[None] = None

    @property
    def policy(self) -> FeaturePolicy:
        """The action with the largest expected reward."""
        return self.policy_of(self.posterior.mean[np.newaxis])

    def policy_of(self, coefficients: Floats) -> FeaturePolicy:
        """The policy of these coefficients[draws,actions,d]."""
        asked = self.request
        named = {"features": asked.features, "actions": asked.actions, "reward": asked.reward}
        linear = LinearPolicy(coefficients, actions=len(asked.actions))
        resort = None if asked.fallback is None else tuple(float(name == asked.fallback) for name in asked.actions)
        return FeaturePolicy(**named, fallback=resort, policy=linear)  # type: ignore[arg-type]

    @property
    def coefficients(self) -> Floats:
        """[actions,d]: what a number of the encoded row adds to the expected reward, in the units of the log."""
        low, high = self.request.reward
        return self.posterior.mean * (high - low)

    @cached_property
    def intervals(self) -> Floats:
        """[actions,d,2]: 95 % intervals, noise of the release included; NaN: not told apart from noise."""
        (low, high), span = self.request.reward, self.request.features.span()
        sums = self.request.sums(self.payloads)
        return (high - low) * linear_intervals(*sums, span=span, z=normal_quantile(CONFIDENCE))

    def table(self) -> list[list[str]]:
        """A row per feature: its coefficient for every action, with its interval."""
        names, means, ends = self.request.features.names, self.coefficients.T, self.intervals.transpose(1, 0, 2)
        return [
            [name, *(f"{b:+.3g} ({_told(*ends)})" for b, ends in zip(mean, reach, strict=True))]
            for name, mean, reach in zip(names, means, ends, strict=True)
        ]

    @property
    def summary(self) -> dict[str, Any]:
        """What there is to say, from what was released; rewards in the units of the log."""
        request = self.request
        found = zip(request.actions, self.coefficients, self.intervals, strict=True)
        named = request.features.names
        return {
            "stage_people": list(request.stage_people),
            "reports_per_person": request.reports_per_person,
            "actions": len(request.actions),
            "features": request.features.dimension,
            "noise_std": request.channels[0].noise_std(),
            "confidence": CONFIDENCE,
            "coefficients": {
                action: {
                    name: [float(b), *(float(end) if end == end else None for end in ends)]
                    for name, b, ends in zip(named, mean, reach, strict=True)
                }
                for action, mean, reach in found
            },
        }


def _told(low: float, high: float) -> str:
    return f"{low:+.3g} to {high:+.3g}" if low <= high else "not told apart from noise"


@dataclass(frozen=True, slots=True, eq=False)
class FeatureRows:
    """Rows of a log, checked and encoded: sensitive."""

    x: Floats
    """[n,d]"""
    actions: Ints
    """[n]"""
    rewards: Floats
    """[n]: scaled to [0, 1]."""
    persons: Ints
    """[n]: numbers of people, from 0."""
    people: int
    ids: tuple[Any, ...] | None = None
    """Whose rows they are, by number; None: every row is another person's."""
    propensities: Floats | None = None
    """[n]: with which probability the action was chosen; None where no column says it."""

    def __repr__(self) -> str:
        return f"FeatureRows({self.people} people)"  # never what they did

    def users(self, chosen: Ints) -> FeatureUsers:
        """The users of a stage; -1: a person who counts for nothing in it."""
        own = chosen[chosen >= 0]
        return FeatureUsers(self.x[own], self.actions[own], self.rewards[own], np.full(len(own), -1))


def read_rows(
    frame: Any,
    features: Features,
    actions: Sequence[str],
    reward: tuple[float, float],
    *,
    action_column: str,
    reward_column: str,
    person_column: str | None,
) -> FeatureRows:
    """Rows of a frame, or a refusal that names the column and no value of the data."""
    names = [name for name in (action_column, reward_column, person_column) if name is not None]
    roles = [*names, *(column.name for column in features.columns)]
    require(len(set(roles)) == len(roles), "features, action, reward and person must be different columns", names)
    x = features.encode(frame)
    columns = read_columns(frame, names)
    return encoded_rows(
        x,
        _places(_values(columns[action_column]), actions),
        real_column(reward_column, columns[reward_column]),
        None if person_column is None else _values(columns[person_column]),
        actions=actions,
        bounds=reward,
        names=(action_column, reward_column, str(person_column)),
    )


def encoded_rows(
    x: Floats,
    taken: Ints,
    rewards: Floats,
    persons: list[Any] | None,
    *,
    actions: Sequence[str],
    bounds: tuple[float, float],
    names: tuple[str, str, str],
) -> FeatureRows:
    """Encoded rows with actions by number (-1: none of them), rewards as they are and persons by name, checked.

    `names` are the columns of action, reward and person, for messages.
    """
    low, high = bounds
    inside = bool(((rewards >= low) & (rewards <= high)).all())
    rule = f"every reward of the column '{names[1]}' must lie within the declared bounds [{low:g}, {high:g}]"
    require(inside, rule, "one outside, or none", "declare wider bounds, or clip it; declare them before looking")
    rule = f"every action of the column '{names[0]}' must be declared (one of {', '.join(actions)})"
    require(bool((taken >= 0).all()), rule, "another one, or a missing value")
    sizes = {len(x), len(taken), len(rewards), len(x) if persons is None else len(persons)}
    require(len(sizes) == 1, "columns must have the same length", sorted(sizes))
    if persons is None:
        numbered, people, ids = np.arange(len(x)), len(x), None
    else:
        # As text: another batch may have read the same names as another type.
        texts, numbers = [normalize("NFC", as_text(one) or "") for one in persons], dict[str, int]()
        present = {type(one) for one in persons} <= {str, int, bytes, float} and "" not in texts
        require(present, f"the column '{names[2]}' must name a person in every row", "a missing or another value")
        numbered = np.array([numbers.setdefault(one, len(numbers)) for one in texts], dtype=np.int64)
        people, ids = len(numbers), tuple(numbers)
    return FeatureRows(x, taken, (rewards - low) / (high - low), numbered, people, ids)


def _places(values: list[Any], actions: Sequence[str]) -> Ints:
    """The numbers of actions, by name or by a whole number that is a name; -1: none of them."""
    known: dict[Any, int] = {name: place for place, name in enumerate(actions)}
    known |= {int(name): place for name, place in list(known.items()) if name.isdecimal() and str(int(name)) == name}
    try:
        return np.array([known.get(value, -1) for value in values], dtype=np.int64)
    except TypeError:  # a list, or another value that is no name
        return np.full(len(values), -1)


def _values(column: Any) -> list[Any]:
    return cast("list[Any]", np.asarray(column).tolist())


def real_column(name: str, column: Any) -> Floats:
    """A column of numbers; what is missing is NaN."""
    rule = f"the column '{name}' must hold numbers"
    require(np.asarray(column).dtype.kind not in "mM", rule, "times")  # they would become whole numbers
    try:
        return np.asarray([np.nan if value is None else value for value in _values(column)], dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{rule}, got another type") from None


def deal_rows(rows: FeatureRows, reports: int, keep: Keep, noise: Noise) -> Ints:
    """The numbers[stage,person] of the rows that count, -1 for none (G1).

    A person with more than `reports` rows keeps a uniformly drawn set of them: those that come first in one uniform
    order of all rows.
    """
    n = len(rows.persons)
    order = np.arange(n) if keep == "first" else shuffled(n, noise)
    order = order[np.argsort(rows.persons[order], kind="stable")]
    person = rows.persons[order]
    place = np.arange(n) - np.searchsorted(person, person)
    kept = place < reports
    dealt: Ints = np.full((reports, rows.people), -1, dtype=np.int64)
    dealt[place[kept], person[kept]] = order[kept]
    return dealt


def release_rows(request: FeatureRequest, rows: FeatureRows, stages: Ints, noise: Noise) -> tuple[bytes, ...]:
    """Release the moments of these stages, the last ones of the request, once."""
    payloads = []
    for channel, chosen in zip(request.channels[-len(stages) :], stages, strict=True):
        payloads.append(channel.release_table(channel.begin_secret(), rows.users(chosen), len(chosen), noise)[1])
    return tuple(payloads)


def learn_from_rows(request: FeatureRequest, rows: FeatureRows, noise: Noise, kind: NoiseKind) -> FeatureLearned:
    """Release the moments of these people once, and read them."""
    require(set(request.stage_people) == {rows.people}, f"there must be {request.stage_people[0]} people", rows.people)
    certificate = request.certificate(kind)
    require(certificate.holds, "the claim must hold", certificate.verdict)
    stages = deal_rows(rows, len(request.stage_people), request.keep, noise)
    return request.planned(release_rows(request, rows, stages, noise), certificate)


def extended(request: FeatureRequest, people: int) -> FeatureRequest:
    """The same request with another batch."""
    return replace(request, stage_people=(*request.stage_people, people))
