"""Central trust, gradients: a curator sums each person's gradient in whole numbers and adds exact noise.

    payload  Σ_{i chosen} t_i + z          whole numbers in units of 1/M: the gradient, then the centred mean reward
    read     gradient = payload / (M q n), n people, q the sampling rate: post-processing, because n is public

G1  Replacing one person moves the sum by at most `reach.shift` units, and a person adds at most `reach.norm`: decided
    in integers, Lemma D7 (truncated gradients).
G2  A stage asks its people `questions` times (epochs); every question has noise of its own, and with a rate below one a
    secret exact coin for every person and question. One report is exposed to all of them.
G3  The noise of the sum does not depend on how many report, so neither does privacy; the mean over n has the noise of
    the sum divided by q n. `sigma` is that at `least` people. A cover report counts in n and adds nothing.
G4  Whoever asks is not trusted. One step of tabular softmax has a supremum that is smaller than its clip allows; there
    the policy must be a table of probabilities and the baseline in its public interval, or the question is refused.
    Elsewhere the clip holds for any numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.claims import PrivacyClaim, Trust
from tacit.accounting.events import Event, Events, GaussianEvent, SampledGaussianEvent
from tacit.accounting.families import Family
from tacit.arrays import Ints
from tacit.data.gradients import Bounds
from tacit.data.trajectories import Trajectories, TrajectoryLike
from tacit.errors import InvalidInput, NotSupported, require, require_count
from tacit.noise.exact import bernoulli
from tacit.protocol import Noise, Private, Query
from tacit.randomness import SimulationNoise
from tacit.release.contract import ChargedAt
from tacit.release.curator import MOST, require_unit
from tacit.release.documents import claim_from_plain, require_entries, whole_from_plain
from tacit.release.fixed_point import (
    draw_noise,
    from_payload,
    require_fixed_point,
    slack,
    spread,
    to_payload,
)
from tacit.release.gradient_documents import (
    gradient_shape_from_plain,
    gradient_shape_to_plain,
    spec_from_plain,
    spec_to_plain,
)
from tacit.release.gradient_noise import GradientSpec
from tacit.release.gradient_sums import LARGEST_NORM, WholeReach, gradient_sums, has_supremum, whole_reach
from tacit.release.stage import require_people
from tacit.released.gradients import DoseQuery, GradientShape, GradientStatistics, SoftmaxQuery, empty_gradient
from tacit.statistics.trajectory_body import Decoded, TrajectoryBody

__all__ = ["GradientChannel", "GradientMemory", "GradientSecret", "require_spec"]

ROWS: Final = 1e-9
"""How far the rows of a policy may be from summing to one."""
COUNTS: Final = ("target", "least", "levels", "unit", "variance")
ENTRIES: Final = ("kind", "shape", "claim", "spec", *COUNTS)


class GradientSecret(NamedTuple):
    """What the curator keeps: how often it released."""

    releases: Ints
    """[1]"""
    rounded: Ints
    """Simulation only, [n, H]: the present people's rewards, rounded once for all questions; [0, H] elsewhere."""

    def __repr__(self) -> str:
        return f"GradientSecret({int(self.releases[0])} releases)"  # never its contents


class GradientMemory(NamedTuple):
    """What everybody knows: the last release, which counts them."""

    released: GradientStatistics


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientChannel:
    """One stage of policy gradients under central trust; make them with `GradientBasis`."""

    shape: GradientShape
    claim: PrivacyClaim
    spec: GradientSpec
    """What a gradient is made of; rewards lie in [0, 1]."""
    target: int
    least: int
    levels: int
    unit: int
    """M: payloads count in units of 1/M."""
    variance: int
    """s²: of the noise in one number of the payload, in units of 1/M²."""

    KIND: ClassVar[str] = "central-gradient"
    TRUST: ClassVar[Trust] = "central"
    CHARGED_AT: ClassVar[ChargedAt] = "release"

    def __post_init__(self) -> None:
        require_unit(self.claim)
        require_spec(self.shape, self.spec)
        require(require_count("least", self.least) <= self.target, "least must be at most the target", self.least)
        require_fixed_point(self.unit, self.variance)
        longest = self.whole.reach.norm
        require(longest <= LARGEST_NORM, f"a gradient must be at most {LARGEST_NORM} units long", longest, "clip it")
        require(self.target * longest < MOST, "the sums of a stage must fit into 62 bits", self.target)
        _ = self.body  # its checks are ours

    @property
    def name(self) -> str:
        """Trust model and mechanism, for tables."""
        return "central/gaussian-gradient"

    @property
    def query(self) -> SoftmaxQuery:
        """The kind of question, at the uniform policy; the policy of a question is that of the moment."""
        sizes = (self.shape.stages, self.shape.num_states, self.shape.num_actions)
        uniform = np.full(sizes, 1.0 / self.shape.num_actions)
        baseline = 0.0 if self.spec.baseline is None else self.spec.baseline
        return SoftmaxQuery(np.zeros(self._wide), uniform, uniform.copy(), np.array([baseline]))

    @property
    def questions(self) -> int:
        """How many times the same people are asked (G2)."""
        return self.spec.epochs

    @property
    def body(self) -> TrajectoryBody:
        """The format of bodies."""
        shape = self.shape
        return TrajectoryBody(
            horizon=shape.horizon, num_states=shape.num_states, num_actions=shape.num_actions, levels=self.levels
        )

    @property
    def body_size(self) -> int:
        """The length of a body in bytes."""
        return self.body.size

    @property
    def whole(self) -> WholeReach:
        """What one person's whole numbers can be."""
        return _whole(self.spec, self.shape, self.unit)

    @property
    def bounds(self) -> Bounds:
        """What limits a person's gradient in floating point."""
        clip = math.inf if self.spec.clip is None else self.spec.clip
        return Bounds(low=0.0, high=1.0, clip=clip, surrogate=self.spec.surrogate)

    @property
    def dimension(self) -> int:
        """The numbers of a payload: d, and one more where the mean reward is released."""
        return self.shape.dimension + (1 if self.whole.reward > 0 else 0)

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise in one coordinate of the mean over `least` people (G3)."""
        return math.sqrt(self.variance) / self.unit / (self.spec.rate * self.least)

    def families(self) -> tuple[Family, ...]:
        """What one report can change in the sum: one vector, by its Euclidean length."""
        return (Family(name="gradient", up=1, down=0, shift=self.whole.reach.shift / self.unit),)

    def noise_std(self) -> dict[str, float]:
        """The standard deviation of the noise in one coordinate of the mean, at its largest."""
        return {"gradient": self.sigma}

    def events(self) -> Events:
        """What one report costs, over all questions (G2)."""
        # `noise` and `reach` in natural units, on the private side
        noise, reach = spread(self.variance, self.unit), self.whole.reach
        event: Event = GaussianEvent(sigma=noise, shift=reach.shift / self.unit)
        if self.spec.rate < 1.0:
            event = SampledGaussianEvent(sigma=noise, norm=reach.norm / self.unit, rate=self.spec.rate)
        return ((event, self.questions), *slack(self.claim, self.questions * self.dimension, self.variance))

    def events_at(self, people: int) -> Events:
        """The same, however many report (G3)."""
        require_people(people, self.least, self.target)
        return self.events()

    def encode(self, trajectory: TrajectoryLike | None, noise: Noise) -> bytes:
        """The device: one report's body; None is a cover report, which adds nothing."""
        return self.body.encode(trajectory, noise)

    def check(self, body: bytes) -> None:
        """Raise unless a device could have sent this."""
        self.body.check(body)

    def begin_secret(self) -> GradientSecret:
        """Nobody came yet; nothing is kept of them."""
        return GradientSecret(np.zeros(1, dtype=np.int64), np.zeros((0, self.shape.horizon), dtype=np.int64))

    def release(
        self, secret: GradientSecret, bodies: Sequence[bytes], query: Query, noise: Noise
    ) -> tuple[GradientSecret, bytes]:
        """The curator: one question about these people, with fresh coins and fresh noise."""
        require_people(len(bodies), self.least, self.target)
        return secret._replace(releases=secret.releases + 1), self._payload(self.body.decode(bodies), query, noise)

    def simulate(
        self, secret: GradientSecret, users: Trajectories, query: Query, noise: SimulationNoise
    ) -> tuple[GradientSecret, bytes]:
        """Simulation only: the same law from trajectories, whose rewards are rounded once for all questions."""
        require(isinstance(users, Trajectories), "gradients need trajectories, not counts", type(users).__name__)
        require_people(len(users), self.least, self.target)
        people, number = self.body.decoded(users, noise), int(secret.releases[0]) % self.questions
        if number > 0:
            require(len(secret.rounded) == len(users), "all questions of a stage are about the same people", len(users))
            people = people._replace(levels=secret.rounded)
        kept = people.levels if number + 1 < self.questions else people.levels[:0]
        return GradientSecret(secret.releases + 1, kept), self._payload(people, query, noise)

    def begin_memory(self) -> GradientMemory:
        """Nothing is known yet."""
        return GradientMemory(empty_gradient(self.shape.dimension))

    def read(
        self, memory: GradientMemory, payload: bytes, people: int
    ) -> tuple[GradientMemory, Private[GradientStatistics]]:
        """Anybody: the noisy mean of this question."""
        require_people(people, self.least, self.target)
        sums, d = from_payload(payload, self.dimension), self.shape.dimension
        divisor = self.spec.rate * people
        reward, variance = np.zeros(1), np.array([self.variance / (self.unit * divisor) ** 2, 0.0])
        if self.whole.reward > 0:
            # t = 2 · most · (r̄ - 1/2)
            scale = 2.0 * self.whole.reward * divisor
            reward[0], variance[1] = 0.5 + sums[d] / scale, self.variance / scale**2
        gradient = sums[:d] / (self.unit * divisor)
        found = GradientStatistics(gradient, reward, variance, memory.released.releases + 1)
        return GradientMemory(found), Private(found, self.claim)

    def skip(self, memory: GradientMemory, payload: bytes, people: int) -> GradientMemory:
        """Nothing is missed: releases stand alone."""
        return memory

    @property
    def _wide(self) -> tuple[int, int, int]:
        """The shape of features: [S, A, k], or that of none for tabular policies."""
        shape = self.shape
        if self.spec.tabular:
            return 1, 1, 0
        return shape.num_states, shape.num_actions, shape.dimension // shape.stages

    def _payload(self, people: Decoded, query: Query, noise: Noise) -> bytes:
        asked = self._asked(query)
        chosen = self._chosen(len(people.actions), noise)
        sums = gradient_sums(self.shape, self.bounds, asked, people, self.levels, chosen, self.unit, self.whole)
        return to_payload(sums + draw_noise(self.dimension, self.variance, noise))

    def _chosen(self, people: int, noise: Noise) -> NDArray[np.bool_]:
        """A coin for every person and question, or everybody (G2)."""
        if self.spec.rate == 1.0:
            return np.ones(people, dtype=np.bool_)
        if isinstance(noise, SimulationNoise):
            return np.asarray(noise.generator.random(people) < self.spec.rate)
        return bernoulli(people, noise, probability=Fraction(self.spec.rate))

    def _asked(self, query: Query) -> SoftmaxQuery:
        """The question, if it is one that the noise covers (G4)."""
        if isinstance(query, DoseQuery):
            raise NotSupported("studies of doses are not offered: real-valued actions have no labels; use `simulate`")
        if not isinstance(query, SoftmaxQuery):
            raise InvalidInput(f"{self.name} answers {SoftmaxQuery.words()}; it was asked for {query.words()}")
        shape = self.shape
        sizes = (shape.stages, shape.num_states, shape.num_actions)
        asked = SoftmaxQuery(*(np.ascontiguousarray(part, dtype=np.float64) for part in query))
        fits = asked.table.shape == asked.behaviour.shape == sizes and asked.features.shape == self._wide
        require(fits and asked.baseline.shape == (1,), f"policies must have the shape {sizes}", asked.table.shape)
        finite = all(bool(np.isfinite(part).all()) for part in asked)
        require(finite, "a question must be made of finite numbers", "something else")
        if has_supremum(self.spec, shape):
            rows = asked.table
            sound = bool((rows >= 0.0).all()) and float(np.abs(rows.sum(axis=2) - 1.0).max()) <= ROWS
            require(sound, "the policy of a question must be a table of probabilities", "something else")
            low, high = (0.0, 1.0) if self.spec.baseline is None else (self.spec.baseline,) * 2
            covered = low <= float(asked.baseline[0]) <= high
            require(covered, f"the baseline of a question must lie in [{low:g}, {high:g}]", "another baseline")
        return asked

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values; every number is exact."""
        return {
            "kind": self.KIND,
            "shape": gradient_shape_to_plain(self.shape),
            "claim": self.claim.to_dict(),
            "spec": spec_to_plain(self.spec),
            "target": self.target,
            "least": self.least,
            "levels": self.levels,
            "unit": self.unit,
            "variance": self.variance,
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """The channel that `to_dict` wrote."""
        require_entries(f"a channel '{cls.KIND}'", plain, ENTRIES)
        return cls(
            shape=gradient_shape_from_plain(plain["shape"]),
            claim=claim_from_plain(plain["claim"], cls.TRUST),
            spec=spec_from_plain(plain["spec"]),
            **{name: whole_from_plain(name, plain[name]) for name in COUNTS},
        )


def require_spec(shape: GradientShape, spec: GradientSpec) -> None:
    """Raise unless gradients of this kind have a channel."""
    if shape.num_actions == 0:
        raise NotSupported("studies of doses are not offered: real-valued actions have no labels; use `simulate`")
    require(spec.low == 0.0 and spec.high == 1.0, "rewards reach a channel scaled to [0, 1]", (spec.low, spec.high))
    require_count("epochs", spec.epochs)
    require(0.0 < spec.rate <= 1.0, "the sampling rate must lie in (0, 1]", spec.rate)
    table = shape.stages * shape.num_states * shape.num_actions
    fits = shape.dimension == table if spec.tabular else shape.dimension % shape.stages == 0
    require(fits, "the dimension must be that of the policy's parameters", shape.dimension)


@lru_cache(maxsize=256)
def _whole(spec: GradientSpec, shape: GradientShape, unit: int) -> WholeReach:
    return whole_reach(spec, shape, unit)
