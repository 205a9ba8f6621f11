"""M_sh, a negative result: the shuffle protocol of [garcelon2021local] appendix I protects no more than its bits do.

Every bit of the one-hot trajectory is randomized (Alg. 10), and in every episode the shuffler sends ALL earlier reports
again under a fresh permutation (Alg. 8). Two claims are printed; neither holds.

  * "roughly H ε"-LDP. A replaced trajectory flips 2H bits of x, 2(H-1) bits of y and up to 2mH reward bits, each at the
    cost of ε: the level is (4H - 2 + 2mH) ε, and it is attained.
  * Amplification, (ε_{k,c}, δ₀) of Eq. 113. Shuffling hides who sent a report among reports released together. Reports
    that are sent again are not: what episode k+1 shows beyond episode k is the report of user k, whole (`link`). The
    shuffler might as well not exist. (Eq. 113 also takes bits for users; a user owns H bits of one counter.)

So the guarantee of M_sh is its local one (Lemma M7 (reports sent again)), and tacit offers no trust model of this name:
use `local`, or `shuffle`, which releases each batch once. This file exists so that the claim can be checked.

G1  `certificate` states the local level of one report; the transcript has no better one, because of `link`.
G2  `counters` is unbiased (Eqs. 110-112; y has H - 1 layers, Eq. 111 prints H).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.certificate import Certificate, CertifiedFamily, certify
from tacit.accounting.claims import PrivacyClaim, PrivacyUnit
from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.data.trajectories import Trajectories
from tacit.errors import require_count, require_real
from tacit.noise.layout import clipped_reward
from tacit.noise.randomized_response import RandomizedResponse
from tacit.randomness import SimulationNoise
from tacit.release.counts_contract import require_shape
from tacit.released.counts import CountShape

__all__ = ["Report", "ReshuffledReports", "link", "resend"]

Report: TypeAlias = bytes
"""What one user sends: the bits of x, y and b in this order, one byte each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReshuffledReports:
    """The randomizer M_sh with ε per bit and m bits per reward.

    >>> shape = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
    >>> ReshuffledReports(shape=shape, epsilon=1.0, reward_bits=1).level
    34.0
    """

    shape: CountShape
    epsilon: float
    """Of one bit."""
    reward_bits: int

    def __post_init__(self) -> None:
        require_real("epsilon of one bit", self.epsilon, low=0.0, open_low=True)
        require_count("reward_bits", self.reward_bits)

    @property
    def level(self) -> float:
        """The epsilon of the local guarantee, (4H - 2 + 2mH) ε."""
        H = self.shape.horizon
        return (4 * H - 2 + 2 * self.reward_bits * H) * self.epsilon

    @property
    def bit(self) -> RandomizedResponse:
        """R_p of Alg. 9 with p = 2/(e^ε + 1): a bit is flipped with probability p/2 = 1/(e^ε + 1)."""
        return RandomizedResponse(epsilon=self.epsilon)

    def families(self) -> tuple[Family, ...]:
        """The bits that a replaced trajectory flips, at worst."""
        H, m = self.shape.horizon, self.reward_bits
        steps = {"visits": H, "transitions": H - 1, "reward bits": m * H}
        return tuple(Family(name=name, up=n, down=n, shift=1.0) for name, n in steps.items() if n > 0)

    def events(self) -> Events:
        """The exposure of one user: every flipped bit costs ε."""
        return tuple(event for family in self.families() for event in self.bit.events(family))

    def certificate(self) -> Certificate:
        """What the exact accountant finds for the printed claim "roughly H ε" (G1)."""
        claimed = self.shape.horizon * self.epsilon
        claim = PrivacyClaim(
            trust="local",
            epsilon=claimed,
            delta=0.0,
            unit=PrivacyUnit(reports=1, per_stage=1),
            neighbours="replace-one",
            output="every-message",
        )
        families = [CertifiedFamily.of(f, noise="randomized response", std=self.bit.std) for f in self.families()]
        says = f"roughly H epsilon = {claimed:g}-LDP"
        return certify(self.events(), families, claim, calibration="paper", paper_says=says, paper_delta=0.0)

    def report(self, users: Trajectories, noise: SimulationNoise) -> list[Report]:
        """One report per user (Alg. 10)."""
        batch = require_shape(users, self.shape)
        return [
            self.bit.randomize(self._bits(states, actions, rewards, noise.generator), noise).astype(np.uint8).tobytes()
            for states, actions, rewards in zip(batch.states, batch.actions, batch.rewards, strict=True)
        ]

    def counters(self, reports: Sequence[Report]) -> tuple[NDArray[np.float64], ...]:
        """Ñ^r(s,a), Ñ^p(s,a,s') and R̃(s,a) of Eqs. 110-112 (G2)."""
        H, S, A, m = self.shape.horizon, self.shape.num_states, self.shape.num_actions, self.reward_bits
        ones = np.sum([np.frombuffer(report, dtype=np.uint8) for report in reports], axis=0, dtype=np.float64)
        # (1/(1-p)) Σ [bit - p/2], summed over the steps
        x, y, b = np.split(self.bit.debias(ones, len(reports)), np.cumsum([H * S * A, (H - 1) * S * A * S]))
        return (
            x.reshape(H, S, A).sum(axis=0),
            y.reshape(H - 1, S, A, S).sum(axis=0),
            b.reshape(H, S, A, m).sum(axis=(0, 3)) / m,
        )

    def _bits(
        self,
        states: NDArray[np.int64],
        actions: NDArray[np.int64],
        rewards: NDArray[np.float64],
        generator: np.random.Generator,
    ) -> NDArray[np.int64]:
        """x, y (Eq. 108) and b (Eq. 109) of one user; what lies outside the public ranges is clipped."""
        H, S, A, m = self.shape.horizon, self.shape.num_states, self.shape.num_actions, self.reward_bits
        x, y = np.zeros((H, S, A), dtype=np.int64), np.zeros((H - 1, S, A, S), dtype=np.int64)
        b = np.zeros((H, S, A, m), dtype=np.int64)
        at, did = np.clip(states, 0, S - 1), np.clip(actions, 0, A - 1)
        for h in range(H):
            x[h, at[h], did[h]] = 1
            if h < H - 1:
                y[h, at[h], did[h], at[h + 1]] = 1
            # ⌈m r⌉ - 1 ones, one bit that is one with the probability that is left, zeros
            scaled = m * clipped_reward(float(rewards[h]))
            b[h, at[h], did[h]] = np.arange(m) + generator.random(m) * (np.arange(m) == int(scaled)) < scaled
        return np.concatenate([x.ravel(), y.ravel(), b.ravel()])


def resend(reports: Sequence[Report], generator: np.random.Generator) -> list[Report]:
    """What the agent sees in an episode: all reports so far, freshly permuted (Alg. 8)."""
    return [reports[i] for i in generator.permutation(len(reports))]


def link(before: Sequence[Report], after: Sequence[Report]) -> Report:
    """The attack: of two consecutive outputs of the shuffler, the report of the user who came between them.

    >>> link([b"01", b"11"], [b"11", b"10", b"01"])
    b'10'
    """
    (new,) = (Counter(after) - Counter(before)).elements()
    return new
