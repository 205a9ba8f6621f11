"""Loss against a baseline, bounded from released totals: the polytope of Lemma B1 (returns behind released totals).

Everything is in shares of the largest return H: v_i in [0, 1] is what policy (or mixture) i is worth, arm 0 is the
baseline. Users of a batch are spread over the arms by public shares; what is released tells the sum of their returns
up to noise. `mean_bounds` turns such a sum into an interval that holds at all batches at once, whatever the shares
depended on, and `Polytope.worst` is the largest value of Σ_i w_i v_i among all v that no interval excludes: a linear
programme. Nothing here sees data: totals, shares, sizes and noise are released or public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from tacit.arrays import Floats
from tacit.errors import require, require_real

GRID: Final = tuple(2.0 ** (1 - j) for j in range(11))
"""The public tilts λ at which sums of returns are bounded: good for ten to millions of users, within 6%."""
FAILURE: Final = 0.05
"""How often a run may lose more than its budget, unless somebody chooses another probability."""
STAGES: Final = 5.0
"""A single stage may lose so many times what users may lose on average, unless somebody chooses otherwise."""
MIN_BUDGET: Final = 1e-6
"""Below it nobody explores anyway: how long the baseline is measured need not be computed, where squares underflow."""
SOLVER: Final = 1e-6
"""What the solver's tolerances may hide of a share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossBudget:
    """The public budget of a run: how much mean return it may lose against its baseline.

    >>> LossBudget(total=0.02).most_of_a_stage
    0.1
    """

    total: float
    """Per user over the whole run, as a share of the largest return."""
    stage: float | None = None
    """The same for every single stage; None: five times the total."""
    failure_prob: float = FAILURE

    def __post_init__(self) -> None:
        require_real("loss_budget", self.total, low=0.0, high=1.0, open_low=True)
        if self.stage is not None:
            require_real("stage_loss_budget", self.stage, low=0.0, high=1.0, open_low=True)
        require_real("failure_prob of a loss budget", self.failure_prob, low=0.0, high=1.0, open_low=True)

    @property
    def most_of_a_stage(self) -> float:
        """What one stage may lose per user."""
        return min(1.0, STAGES * self.total) if self.stage is None else self.stage


class Radii(NamedTuple):
    """What the union over all batches leaves for each: ℓ of a sum of returns, and z of its noise."""

    log_term: float
    z: float


def radii_of(batches: int, failure_prob: float) -> Radii:
    """ℓ = ln(4 L (B + 1)/β) for sums of returns and z = √(2 ln(8 B/β)) for noise, with L tilts and B batches.

    >>> radii = radii_of(30, 0.05)
    >>> round(radii.log_term, 2), round(radii.z, 2)
    (10.21, 4.12)
    """
    ell = math.log(4.0 * len(GRID) * (batches + 1) / failure_prob)
    return Radii(log_term=ell, z=math.sqrt(2.0 * math.log(8.0 * batches / failure_prob)))


def mean_bounds(total: float, users: float, log_term: float, *, off: float = 0.0) -> tuple[float, float]:
    """The interval of the mean value p̄ of users whose returns, in shares of H, sum to `total` within `off`.

    For each λ of the grid, with S the sum and N the users,

        p̄ ≥ (e^{(λS − ℓ)/N} − 1)/(e^λ − 1)        p̄ ≤ (1 − e^{(−λS − ℓ)/N})/(1 − e^{−λ})

    >>> low, high = mean_bounds(500.0, 1000.0, 5.0)
    >>> round(low, 3), round(high, 3)
    (0.449, 0.551)
    """
    require(users > 0.0, "a sum of returns must have at least one user", users)
    low, high = 0.0, 1.0
    for tilt in GRID:
        low = max(low, math.expm1((tilt * (total - off) - log_term) / users) / math.expm1(tilt))
        high = min(high, -math.expm1((-tilt * (total + off) - log_term) / users) / -math.expm1(-tilt))
    return low, high


@dataclass(frozen=True, slots=True, eq=False)
class Polytope:
    """All values v [arms] that agree with what was released: low ≤ mix v ≤ high, row by row, and 0 ≤ v ≤ 1."""

    mix: Floats
    """[rows, arms]: which part of the users behind a row followed which arm."""
    low: Floats
    high: Floats

    def worst(self, weights: Floats) -> float:
        """The largest Σ_i w_i v_i in the polytope; without rows, or where none is left, that of [0, 1]."""
        scale = float(np.abs(weights).max(initial=0.0))
        free = float(np.maximum(weights, 0.0).sum())
        if scale == 0.0 or len(self.low) == 0:
            return free
        from scipy.optimize import linprog  # half a second that runs without a budget need not wait

        found = linprog(
            -weights / scale,
            A_ub=np.vstack([self.mix, -self.mix]),
            b_ub=np.concatenate([self.high, -self.low]),
            bounds=(0.0, 1.0),
            method="highs",
        )
        if found.status != 0:
            return free  # an empty polytope says that an interval has failed: then nothing is known
        return min(free, -float(found.fun) * scale + SOLVER * float(np.abs(weights).sum()))


class Standing(NamedTuple):
    """Where a run stands against its baseline, in shares of the largest return H: what its releases prove so far.

    All intervals hold at once, with the probability that the budget holds with.
    """

    baseline: tuple[float, float]
    """The value of the baseline."""
    gain: tuple[float, float] | None
    """The value of the candidate minus the baseline's; None: there is no other candidate than the baseline."""
    lost: float
    """The most that the people so far may have lost, per person of the whole run."""
    budget: float
    """What they may lose, per person of the whole run."""


class Mixture(NamedTuple):
    """How many of a stage's users follow what; everybody else follows the arm that costs least."""

    explorers: int
    candidates: int


def mixed(*, users: int, allowed: float, gain: float, unseen: float, candidate: float, last: bool) -> Mixture:
    """The most explorers and candidates that `allowed` covers in the worst case, half of it for each of them.

    `unseen` and `candidate` bound what one explorer and one follower of the candidate lose against the baseline, and
    `gain` what everybody else wins, at least: x_e (unseen + gain) + x_c (candidate + gain) ≤ allowed + users gain. In
    the last stage nobody explores.

    >>> mixed(users=1000, allowed=50.0, gain=0.0, unseen=0.5, candidate=0.1, last=False)
    Mixture(explorers=50, candidates=250)
    >>> mixed(users=1000, allowed=-3.0, gain=0.0, unseen=0.5, candidate=-0.01, last=True)
    Mixture(explorers=0, candidates=1000)
    """
    left, dear, cheap = allowed + users * gain, unseen + gain, candidate + gain
    if cheap <= 0.0:  # the candidate is known to be at least as good as what everybody else follows
        explorers = 0 if last or left <= 0.0 else _most(left, dear, users // 2)
        return Mixture(explorers, users - explorers)
    if left <= 0.0:
        return Mixture(0, 0)
    if last:
        return Mixture(0, _most(left, cheap, users))
    explorers = _most(left / 2.0, dear, users // 2)
    return Mixture(explorers, _most(left - explorers * dear, cheap, users - explorers))


def _most(left: float, each: float, users: int) -> int:
    return users if each * users <= left else max(0, math.floor(left / each))
