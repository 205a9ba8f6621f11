"""Central trust: what policies would have earned, from one bounded vector per person with discrete Gaussian noise.

    weights     a person's mean weight is u T, u in [0, 1], the mean weighted reward u T (s + 1/2), s in [-1/2, 1/2]; a
                share c of the weights was cut at the cap T
                vector f (u s, 0.6 u, 0.5 u², 0.3 u² s, 0.4 u² s², 0.1 c) for every policy
    residuals   a person's doubly robust value is center + reach z, z in [-1, 1]
                vector f (z, z²) for every policy; f is its share of the release

G1  Replacing a person moves the vector of a policy with share f by at most f √1.11 (weights) or 2 f (residuals), those
    of several by √Σ f² times that: Lemma S11 (weighted returns). Rounding to multiples of 1/LEVELS adds √D/LEVELS.
G2  A person is one vector, however many episodes there are: the means of a person's episodes are as bounded as one.
G3  Nothing here raises on data: what is not in its range is cut, and NaN is zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final, Literal, NamedTuple

import numpy as np

from tacit.accounting.certificate import Certificate, CertifiedFamily, certify
from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.arrays import Floats, Ints
from tacit.data.trajectories import WeightedUsers
from tacit.errors import require, require_count
from tacit.protocol import Calibration, Noise, PrivateStatistics
from tacit.randomness import SimulationNoise
from tacit.release.contract import StageSize
from tacit.release.curator import FreshNoise
from tacit.release.fixed_point import fixed_point, to_payload
from tacit.release.stage import require_people
from tacit.released.weighted_returns import WHOLE, WeightQuery, WeightShape

LEVELS: Final = 1 << 20
"""Vectors are rounded to multiples of 1/LEVELS."""
FACTORS: Final[dict[str, tuple[float, ...]]] = {
    "weights": (1.0, 0.6, 0.5, 0.3, 0.4, 0.1),
    "residuals": (1.0, 1.0),
}
"""Of the numbers of one policy."""
SENSITIVITY: Final = {"weights": math.sqrt(1.11) * (1.0 + 1e-12), "residuals": 2.0}
"""Of the vector of one policy: Lemma S11 (weighted returns)."""
Kind = Literal["weights", "residuals"]


class PolicyValues(NamedTuple):
    """Sensitive: what the weights of people say, one row per person and one column per policy."""

    u: Floats
    """[users, policies]: mean weights over the cap; z for residuals."""
    s: Floats
    """[users, policies]: the weighted mean reward minus 1/2; nothing for residuals."""
    c: Floats
    """[users, policies]: the share of weights that were cut; nothing for residuals."""

    def __repr__(self) -> str:
        return f"PolicyValues({len(self.u)} people)"  # never their contents

    def __len__(self) -> int:
        return len(self.u)


@dataclass(frozen=True, slots=True)
class ValueQuery:
    """Everybody's vector is asked for."""

    @staticmethod
    def words() -> str:
        """For messages."""
        return "weighted returns"


class ValueStatistics(NamedTuple):
    """Sums over people, with noise."""

    sums: Floats
    """[policies, numbers]: u s, u, u², u² s, u² s², c; or z, z²."""
    variance: Floats
    """[policies, numbers]: of the noise in each of them."""
    users: Ints
    """[1]"""


class ValueState(NamedTuple):
    """The memory: the last answer."""

    released: ValueStatistics


@dataclass(frozen=True, kw_only=True)
class PrivateValues:
    """One release of the vectors of a log.

    >>> from tacit.accounting.claims import PrivacyUnit
    >>> claim = PrivacyClaim(trust="central", epsilon=1.0, delta=1e-6, unit=PrivacyUnit(reports=1, per_stage=1),
    ...                      neighbours="replace-one", output="published-sums")
    >>> found = PrivateValues(claim=claim, kind="weights", shares=(1.0, 0.3), people=1000)
    >>> round(found.noise.std, 3), found.certificate().holds
    (4.647, True)
    """

    claim: PrivacyClaim
    kind: Kind
    shares: tuple[float, ...]
    """By policy: the vector is multiplied by this, so that its noise weighs less, and the other policies' more."""
    people: int

    answers: ClassVar[type] = ValueQuery
    kernel: ClassVar[None] = None
    parameters: ClassVar[None] = None
    calibration: ClassVar[Calibration] = "tight"

    def __post_init__(self) -> None:
        require(self.claim.trust == "central", "values of a log need a claim with trust 'central'", self.claim.trust)
        require(self.claim.unit.one, "a person of a log is one report", self.claim.unit.reports)
        require(self.kind in FACTORS, "kind must be 'weights' or 'residuals'", self.kind)
        require(0 < len(self.shares) <= 1000, "policies must be between 1 and 1000", len(self.shares))
        require(all(0.0 < f <= 1.0 for f in self.shares), "shares must lie in (0, 1]", self.shares)
        require_count("people", self.people)
        _ = self.noise  # its refusals are ours

    @property
    def name(self) -> str:
        """Trust model and statistic."""
        return f"central/{self.kind} of policies"

    @property
    def shape(self) -> tuple[int, int]:
        """How many policies, and how many numbers of each."""
        return len(self.shares), len(FACTORS[self.kind])

    @property
    def factors(self) -> Floats:
        """[policies, numbers]: what the numbers are multiplied by."""
        return np.outer(self.shares, FACTORS[self.kind])

    @property
    def users_per_batch(self) -> int:
        """All people of the log."""
        return self.people

    @property
    def sensitivity(self) -> float:
        """How far replacing a person moves the rounded vector (G1)."""
        length = SENSITIVITY[self.kind] * math.sqrt(math.fsum(f * f for f in self.shares))
        return (length + math.sqrt(math.prod(self.shape)) / LEVELS) * (1.0 + 1e-12)

    @cached_property
    def noise(self) -> FreshNoise:
        """What the curator adds to each number."""
        size = math.prod(self.shape)
        unit, variance = fixed_point(self.claim, size, lambda unit: self.sensitivity * unit, LEVELS)
        return FreshNoise(size=size, levels=LEVELS, unit=unit, variance=variance)

    def families(self) -> tuple[Family, ...]:
        """The vector of a person, as one shift along its change."""
        return (Family(name=self.kind, up=1, down=0, shift=self.sensitivity),)

    def events(self) -> Events:
        """What a person is exposed to."""
        return self.noise.events(self.families(), self.claim)

    def noise_std(self) -> dict[str, float]:
        """The deviation of the noise in the vector."""
        return {self.kind: self.noise.std}

    def certified(self) -> tuple[CertifiedFamily, ...]:
        """The rows of a certificate."""
        return tuple(CertifiedFamily.of(f, noise="discrete gaussian", std=self.noise.std) for f in self.families())

    def certificate(self) -> Certificate:
        """What the exact accountant finds."""
        return certify(self.events(), self.certified(), self.claim, calibration=self.calibration)

    def vectors(self, users: PolicyValues) -> Ints:
        """[users, policies, numbers]: the vectors, in units of 1/LEVELS (G3)."""
        if self.kind == "residuals":
            z = np.clip(np.nan_to_num(users.u, nan=0.0), -1.0, 1.0)
            parts = np.stack([z, z**2], axis=2)
        else:
            u, c = (np.clip(np.nan_to_num(one, nan=0.0), 0.0, 1.0) for one in (users.u, users.c))
            s = np.clip(np.nan_to_num(users.s, nan=0.0), -0.5, 0.5)
            parts = np.stack([u * s, u, u**2, u**2 * s, (u * s) ** 2, c], axis=2)
        return np.rint(parts * self.factors * LEVELS).astype(np.int64)

    def payload(self, users: PolicyValues, noise: Noise) -> bytes:
        """The curator: add the people up and draw the noise, once."""
        require_people(len(users), self.people, self.people)
        _, w = self.noise.add(None, self.vectors(users).sum(axis=0).ravel(), noise)
        return to_payload(w)

    def read(self, payload: bytes) -> ValueStatistics:
        """Anybody: the sums of people, without the factors."""
        sums = self.noise.values(payload).reshape(self.shape) / self.factors
        return ValueStatistics(sums, (self.noise.std / self.factors) ** 2, np.array([self.people], dtype=np.int64))

    def begin(self) -> ValueState:
        """Nothing was released."""
        none = np.zeros(self.shape)
        return ValueState(ValueStatistics(none, none.copy(), np.zeros(1, dtype=np.int64)))

    def release(
        self, state: ValueState, users: PolicyValues, query: Any, noise: Noise
    ) -> tuple[ValueState, PrivateStatistics[ValueStatistics]]:
        """The release with what is read off it."""
        del state  # it says nothing about this one
        require(isinstance(query, ValueQuery), f"this release answers {ValueQuery.words()}", type(query).__name__)
        require(isinstance(users, PolicyValues), "users must be PolicyValues", type(users).__name__)
        found = self.read(self.payload(users, noise))
        return ValueState(found), PrivateStatistics(found, self.claim)


@dataclass(frozen=True, kw_only=True)
class DeviceValues:
    """The same under shuffle and local trust: every device computes its own vector, and sends one message.

    >>> from tacit.accounting.claims import PrivacyUnit
    >>> claim = PrivacyClaim(trust="local", epsilon=1.0, delta=0.0, unit=PrivacyUnit(reports=1, per_stage=1),
    ...                      neighbours="replace-one", output="every-message")
    >>> DeviceValues(claim=claim, shares=(1.0, 0.3), people=1000).stage.name
    'local/directions'
    """

    claim: PrivacyClaim
    shares: tuple[float, ...]
    """As in `PrivateValues`, rounded down to parts of 256."""
    people: int

    @cached_property
    def stage(self) -> Any:
        """The release: the statistic of `tacit.statistics.weighted_returns` under this trust model."""
        from tacit.release.vectors import VectorPlan

        shape = WeightShape(shares=tuple(max(1, math.floor(WHOLE * share)) for share in self.shares))
        size = StageSize(target=self.people, least=self.people, query=WeightQuery())
        return VectorPlan(claim=self.claim, shape=shape, asks=WeightQuery).release_of(size)

    def events(self) -> Events:
        """What a person is exposed to."""
        return self.stage.events()  # type: ignore[no-any-return]

    def certified(self) -> tuple[CertifiedFamily, ...]:
        """The rows of a certificate."""
        std, noise = self.stage.noise_std(), self.stage.name.partition("/")[2]
        return tuple(CertifiedFamily.of(f, noise=noise, std=std[f.name]) for f in self.stage.families())

    def message(self, person: PolicyValues | None, noise: Noise) -> bytes:
        """The device: the message of one person; None: of a person with nothing that counts."""
        return self.stage.encode(None if person is None else WeightedUsers(*person), noise)  # type: ignore[no-any-return]

    def collected(self, messages: Sequence[bytes], noise: Noise) -> bytes:
        """The collector: the payload of everyone's messages."""
        stage = self.stage
        payload: bytes = stage.release(stage.begin_secret(), list(messages), stage.query, noise)[1]
        return payload

    def payload(self, users: PolicyValues, noise: Noise) -> bytes:
        """Every device and the collector in turn; simulated noise of sums is drawn at once."""
        require_people(len(users), self.people, self.people)
        stage, own = self.stage, WeightedUsers(*users)
        if isinstance(noise, SimulationNoise) and stage.TRUST != "local":  # whose payload is every message
            drawn: bytes = stage.simulate(stage.begin_secret(), own, stage.query, noise)[1]
            return drawn
        return self.collected([stage.encode(own.one(k), noise) for k in range(own.users)], noise)

    def read(self, payload: bytes) -> ValueStatistics:
        """The sums of people, without the factors; the variance of rounding stands beside that of the noise."""
        stage = self.stage
        found = stage.read(stage.begin_memory(), payload, self.people)[1].statistics
        # Shuffle: every device rounds to multiples of 2^shift/scale, a variance of at most a quarter of its square
        step = 2 ** getattr(stage, "shift", 0) / stage.statistic.scale * WHOLE / np.maximum(stage.statistic.factors, 1)
        return ValueStatistics(found.sums, found.variance + self.people * step**2 / 4.0, found.users)
