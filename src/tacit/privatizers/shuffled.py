"""Shuffle trust for a learner that keeps running totals: batch after batch through the shuffle protocol.

Every batch is a complete run of `Shuffle` (encoder, shuffler, analyzer) over its own users, with fresh noise; the
totals add the batches up, which is post-processing. Users are disjoint and batch sizes are fixed beforehand, so the
guarantee of the whole transcript is that of one batch (B-batch SDP, Lemma P7 (parallel composition)).

`tight` sends the one-hot encoding (4H - 2 differing counters) with the least noise of the exact accountant; `paper`
sends three families with the noise as printed in [bai2025secure], every bit as its own message.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.accounting.certificate import Certificate
from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.data.trajectories import Trajectories
from tacit.errors import InvalidInput, require
from tacit.privatizers.certification import certificate_of
from tacit.privatizers.contract import Batch, CountsState, require_answer, require_shape
from tacit.privatizers.shuffle import Shuffle
from tacit.protocol import Calibration, Noise, Private, Totals
from tacit.randomness import SimulationNoise
from tacit.released.counts import CountShape, CountStatistics, empty_counts
from tacit.released.precision import CountPrecision, Sampling, everything_sent

__all__ = ["Shuffled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffled:
    """Running totals over shuffled batches of one fixed size."""

    shape: CountShape
    claim: PrivacyClaim
    calibration: Calibration
    protocol: Shuffle

    answers = Totals
    kernel = None
    parameters = None

    def __post_init__(self) -> None:
        if self.claim.trust != "shuffle":
            raise InvalidInput(f"Shuffled needs a claim with trust 'shuffle', got {self.claim.trust!r}")
        spec, shape = self.protocol.spec, self.shape
        sizes = (spec.horizon, spec.num_states, spec.num_actions)
        wanted = (shape.horizon, shape.num_states, shape.num_actions)
        require(sizes == wanted, f"the protocol must have the horizon, states, actions {wanted} of the release", sizes)
        # Extra blocks cost a delta that no event describes: the certificate would leave it out.
        none = self.protocol.overflow_prob == 0.0
        require(none, "running totals take a protocol without overflowing blocks", self.protocol.overflow_prob)

    @property
    def name(self) -> str:
        """For tables."""
        return "shuffle/binomial"

    @property
    def users_per_batch(self) -> int:
        """How many users every batch must have."""
        return self.protocol.bit_noise.users

    @property
    def honest_fraction(self) -> float:
        """The share of a batch's devices whose noise is counted on."""
        return self.protocol.bit_noise.honest_users / self.protocol.bit_noise.users

    def families(self) -> tuple[Family, ...]:
        """What one user can change."""
        return self.protocol.families()

    def events(self) -> Events:
        """The exposure of one user: one batch."""
        return self.protocol.events()

    def noise_std(self) -> dict[str, float]:
        """The standard deviation that one batch's noise adds to a counter of the totals."""
        std, H = self.protocol.noise_std(), self.shape.horizon
        # How many layers add up; transitions of the last one are never part of the totals.
        layers = {"transitions": min(1, H - 1) if self.shape.staged else H - 1}
        return {
            name: std.get(name, 0.0) * layers.get(name, 1 if self.shape.staged else H) ** 0.5
            for name in ("transitions", "visits", "rewards")
        }

    def count_precision(self) -> CountPrecision:
        """Shuffled bits: a centred bit is bounded by 1, its scale is 1/3."""
        return CountPrecision(scale=np.full(3, 1.0 / 3.0))

    def sampling(self) -> Sampling:
        """Everything is sent."""
        return everything_sent()

    def certificate(self) -> Certificate:
        """What the exact accountant finds."""
        printed = None
        if self.calibration == "paper":
            printed = f"({self.claim.epsilon:g}, {self.claim.delta:g})-SDP by tau = 96 ln(2/beta')/eps'^2 noise bits"
        return certificate_of(self, noise="binomial", paper_says=printed)

    def begin(self) -> CountsState:
        """Nobody came yet."""
        return CountsState(released=empty_counts(self.shape))

    def release(
        self, state: CountsState, users: Batch, query: Totals, noise: Noise
    ) -> tuple[CountsState, Private[CountStatistics]]:
        """One batch through the protocol: real messages for trajectories, the aggregate path for exact counts."""
        require_answer(self, query)
        if isinstance(users, Trajectories):
            noisy, came = self.protocol.protocol(users, noise), len(users)
        elif isinstance(noise, SimulationNoise):
            require_shape(users, self.shape)
            noisy = self.protocol.aggregate(users, noise, constant_rewards=not users.binary)
            came = users.users
        else:
            raise TypeError(f"simulated counts take simulation noise, got {type(noise).__name__}")
        noisy.transitions[-1] = 0.0  # `paper` also sends the successors of the last step, which nobody uses
        transitions, visits, rewards = noisy
        if not self.shape.staged:
            transitions, visits, rewards = (part.sum(axis=0, keepdims=True) for part in noisy)
        totals, std = state.released, self.noise_std()
        released = CountStatistics(
            transitions=totals.transitions + transitions,
            visits=totals.visits + visits,
            rewards=totals.rewards + rewards,
            squares=totals.squares + rewards,
            variance=totals.variance + np.square([std["transitions"], std["visits"], std["rewards"]]),
            users=totals.users + came,
        )
        return CountsState(released=released), Private(released, self.claim)
