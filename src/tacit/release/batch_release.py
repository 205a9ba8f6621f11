"""Central trust, single batches: a curator releases the statistics of one stage with fresh noise, and adds nothing up.

    payload  x + z: the counters of `ReleaseSpec` (all layers in the one-hot encoding, or one layer), in units of 1/M
    read     batch statistics as shuffle trust gives them, consistent where the query says so: post-processing

G1  Every stage has the least noise for exactly what it releases. All stages have the same μ = Δ₂/σ, so a person with g
    reports, at most one per stage, is exposed to √g μ: independent Gaussian noises, Lemma P9 (adaptive budgets).
G2  The noise does not depend on how many report; `least` is enforced all the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from scipy import special

from tacit.accounting.claims import PrivacyClaim, Trust
from tacit.accounting.events import Events, GaussianEvent
from tacit.accounting.families import Family
from tacit.data.counts import ExactCounts
from tacit.data.trajectories import Trajectories, TrajectoryLike
from tacit.errors import require, require_real
from tacit.protocol import Noise, Private, Query
from tacit.randomness import SimulationNoise
from tacit.release.contract import ChargedAt
from tacit.release.fixed_point import (
    draw_noise,
    from_payload,
    require_fixed_point,
    slack,
    spread,
    to_payload,
    total_variation,
)
from tacit.release.shuffle.batches import batch_spec, batch_statistics
from tacit.release.stage import CountMemory, NoSecret, StageRelease, require_people
from tacit.release.totals_release import MOST, require_unit
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountShape, CountStatistics, empty_counts
from tacit.statistics.count_spec import ReleaseSpec
from tacit.statistics.trajectory_body import LevelCounts, TrajectoryBody

__all__ = ["CentralBatchChannel", "gaussian_radius"]

COUNTS: Final = ("target", "least", "levels", "unit", "variance")
ENTRIES: Final = ("kind", "shape", "claim", "query", *COUNTS)
STATISTICS: Final = ("transitions", "visits", "rewards")


@dataclass(frozen=True, slots=True, kw_only=True)
class CentralBatchChannel(StageRelease):
    """One stage of its own under central trust; make them with `CentralBatchBasis`."""

    shape: CountShape
    claim: PrivacyClaim
    query: BatchQuery
    target: int
    least: int
    levels: int
    unit: int
    """M: payloads count in units of 1/M."""
    variance: int
    """s²: of the noise in one number of the payload, in units of 1/M²."""

    KIND: ClassVar[str] = "central-batch"
    TRUST: ClassVar[Trust] = "central"
    CHARGED_AT: ClassVar[ChargedAt] = "release"

    def __post_init__(self) -> None:
        require_unit(self.claim)
        require(self.shape.staged, "batches of their own keep the steps apart (staged)", self.shape.staged)
        self.require_sizes()
        require_fixed_point(self.unit, self.variance)
        require(self.unit % self.body.levels == 0, f"levels must divide the unit {self.unit}", self.levels)
        require(self.target * self.unit < MOST, "the sums of a stage must fit into 62 bits", self.target * self.unit)
        self.spec.families()  # refuses a layer that does not exist

    @property
    def name(self) -> str:
        """Trust model and mechanism, for tables."""
        return "central/gaussian batches"

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
    def spec(self) -> ReleaseSpec:
        """The counters of the payload."""
        return batch_spec(self.shape, "tight", self.query.layer)

    @property
    def std(self) -> float:
        """The standard deviation of the noise in one counter."""
        return math.sqrt(self.variance) / self.unit

    def families(self) -> tuple[Family, ...]:
        """What one report can change."""
        return self.spec.families()

    def noise_std(self) -> dict[str, float]:
        """The deviation of the noise in each statistic."""
        terms = self.spec.noisy_terms()
        return {name: self.std * math.sqrt(terms.get(name, 0)) for name in STATISTICS}

    def events(self) -> Events:
        """What one report costs, whoever else reports."""
        sigma = spread(self.variance, self.unit)
        gaussian = tuple((GaussianEvent(sigma=sigma, shift=f.shift), f.differing) for f in self.families())
        return (*gaussian, *slack(self.claim, self.spec.num_counters, self.variance))

    def precision(self, failure_prob: float) -> float:
        """E: every entry of every statistic is within E/4 of its exact count but for this probability (union bound)."""
        spec, cells = self.spec, self.shape.num_states * self.shape.num_actions
        layers = set(spec.transitions) | set(spec.visits) | set(spec.outcomes)
        entries = cells * self.shape.num_states * len(spec.transitions) + cells * len(layers)
        entries += cells * len(spec.rewards + spec.outcomes)
        most = max(spec.noisy_terms().values())
        return 4.0 * gaussian_radius(failure_prob / entries, most, self.variance) / self.unit

    def encode(self, trajectory: TrajectoryLike | None, noise: Noise) -> bytes:
        """The device: one report's body; None is a cover report, which counts for nothing."""
        return self.body.encode(trajectory, noise)

    def check(self, body: bytes) -> None:
        """Raise unless a device could have sent this."""
        self.body.check(body)

    def release(self, secret: NoSecret, bodies: Sequence[bytes], query: Query, noise: Noise) -> tuple[NoSecret, bytes]:
        """The curator: count, draw the noise once, and hand out whole numbers."""
        require_people(len(bodies), self.least, self.target)
        self._open(query)
        return self._released(secret, self.body.counts(self.body.decode(bodies)), noise)

    def simulate(
        self, secret: NoSecret, users: Trajectories | ExactCounts, query: Query, noise: SimulationNoise
    ) -> tuple[NoSecret, bytes]:
        """Simulation only: the same law from trajectories or exact counts."""
        require_people(len(users) if isinstance(users, Trajectories) else users.users, self.least, self.target)
        self._open(query)
        return self._released(secret, self.body.simulated(users, noise), noise)

    def begin_memory(self) -> CountMemory:
        """Nothing is known yet."""
        return CountMemory(empty_counts(self.shape))

    def read(self, memory: CountMemory, payload: bytes, people: int) -> tuple[CountMemory, Private[CountStatistics]]:
        """Anybody: the statistics of this stage."""
        require_people(people, self.least, self.target)
        spec = self.spec
        noisy = spec.arrays(from_payload(payload, spec.num_counters) / self.unit)
        variance = np.square([*self.noise_std().values()])
        E = 0.0 if self.query.failure_prob is None else self.precision(self.query.failure_prob)
        found = batch_statistics(noisy, variance, people, self.query, spec, E)
        return CountMemory(found), Private(found, self.claim)

    def _open(self, query: Query) -> None:
        require(query == self.query, f"this stage releases {self.query}", query)

    def _released(self, secret: NoSecret, counts: LevelCounts, noise: Noise) -> tuple[NoSecret, bytes]:
        sums = self.spec.counters(*counts) * (self.unit // self.levels)
        z = draw_noise(self.spec.num_counters, self.variance, noise)
        return secret, to_payload(sums + z)


def gaussian_radius(failure_prob: float, terms: int, variance: int) -> float:
    """What the sum of so many discrete Gaussians leaves with at most this probability, in units.

    A continuous quantile and half a unit per term, at a probability that is lessened by the distance of the two laws:
    Lemma N7 (rounded Gaussian). Where that leaves nothing, the sub-Gaussian radius.
    """
    require_real("failure_prob", failure_prob, low=0.0, high=1.0, open_low=True)
    deviation = math.sqrt(terms * variance)
    left = failure_prob - total_variation(terms, variance)
    if left < failure_prob / 2.0:
        return deviation * math.sqrt(2.0 * math.log(2.0 / failure_prob))
    return -float(special.ndtri(left / 2.0)) * (1.0 + 1e-12) * deviation + terms / 2.0
