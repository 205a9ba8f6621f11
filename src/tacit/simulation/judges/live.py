"""Simulation only: the returns of users in a world without a table.

No optimum is known, so there is no regret. What users earned is counted as it was, in the environment's own unit; the
policy that a run ends with, the uniform one and the baseline are each measured with fresh episodes that the learner
never saw. Nothing estimated is taken for the truth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.data.simulator_users import Measured, Players
from tacit.environments.live import LiveWorld
from tacit.policies import AnyPolicy, DeterministicPolicy, LinearPolicy, Policy, tabular, uniform_policy
from tacit.protocol import Kernel, Measures, Plan

EVALUATION_STREAM: Final = 4
"""The coins of fresh episodes: the child after those of world, learner, noise and adversary."""
Z95: Final = 1.959963984540054
"""The quantile of a normal law with 95% between plus and minus it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean over independent episodes with its 95% interval (normal approximation)."""

    mean: float
    low: float
    high: float
    episodes: int

    @property
    def variance(self) -> float:
        """Of the mean."""
        return ((self.high - self.low) / (2.0 * Z95)) ** 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnMeasures:
    """Simulation only: what one seed in a live world earned, in the environment's own unit."""

    total: tuple[float, ...]
    """[checkpoint]: the sum of all users' returns so far."""
    squares: tuple[float, ...]
    """[checkpoint]: the sum of their squares, for intervals."""
    final: Estimate
    """Of the policy that the run ended with."""
    uniform: Estimate
    """When every action is alike."""
    baseline: Estimate | None
    clipped: float
    """The share of rewards outside the declared bounds."""
    length: float
    """The mean number of decisions before an episode ended or was cut."""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        plain = asdict(self)
        return {**plain, "total": list(self.total), "squares": list(self.squares)}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> ReturnMeasures:
        """What `to_dict` wrote."""
        estimates = {
            name: None if plain[name] is None else Estimate(**plain[name]) for name in ("final", "uniform", "baseline")
        }
        curves = {name: tuple(map(float, plain[name])) for name in ("total", "squares")}
        return cls(**{**plain, **estimates, **curves})


def estimate_return(world: LiveWorld, policy: Policy, *, episodes: int, rng: np.random.Generator) -> Estimate:
    """Measure a policy with fresh episodes of a fresh environment."""
    players = Players(world, seed=0)
    try:
        returns = players.play(policy, episodes, rng).measured.returns
    finally:
        players.close()
    return estimate_of(returns)


def estimate_of(returns: Floats) -> Estimate:
    """The mean with its interval: mean ± 1.96 sd/√n."""
    mean, half = float(returns.mean()), Z95 * float(returns.std(ddof=1)) / math.sqrt(len(returns))
    return Estimate(mean=mean, low=mean - half, high=mean + half, episodes=len(returns))


class LiveJudge:
    """Sums of returns at the checkpoints, and fresh episodes in the end."""

    truth: Any = None
    tally: Any = None
    curves: Any = None
    count: Kernel
    record: Kernel

    def __init__(self, world: LiveWorld, checkpoints: Ints) -> None:
        self._world, self._checkpoints, self._mark = world, checkpoints, 0
        self._total, self._square = np.zeros(len(checkpoints)), np.zeros(len(checkpoints))
        self._sums = (0.0, 0.0)
        self._changes, self._clipped, self._decisions = 0, 0, 0
        self._last: AnyPolicy | None = None
        self._seed = 0

    def see(self, learner: Any, belief: Any, plan: Plan[Any], users: Any, done: int, number: int) -> None:
        """Count a round, user by user."""
        previous, self._last = self._last, plan.policy
        self._changes += _differ(previous, plan.policy)
        self._seed = users.measured.seed
        self._take(users.measured, done)

    def _take(self, measured: Measured, done: int) -> None:
        total = self._sums[0] + np.cumsum(measured.returns)
        square = self._sums[1] + np.cumsum(measured.returns**2)
        end = done + len(total)
        while self._mark < len(self._checkpoints) and self._checkpoints[self._mark] <= end:
            past = int(self._checkpoints[self._mark]) - done - 1
            self._total[self._mark], self._square[self._mark] = total[past], square[past]
            self._mark += 1
        self._sums = (float(total[-1]), float(square[-1]))
        self._clipped += measured.clipped
        self._decisions += measured.decisions

    def finish(self, learner: Any, belief: Any, rounds: int, done: int) -> Measures:
        """Serve whoever is left by the last policy, then measure policies with fresh episodes."""
        world, episodes = self._world, int(self._checkpoints[-1])
        children = np.random.SeedSequence(self._seed, spawn_key=(EVALUATION_STREAM,)).spawn(4)
        left, final, alike, other = (np.random.Generator(np.random.PCG64(child)) for child in children)
        policy = tabular(learner.policy(belief, self._last))
        if done < episodes:
            players = Players(world, seed=self._seed)
            self._take(players.play(policy, episodes - done, left).measured, done)
            players.close()
        n, uniform = world.evaluation, uniform_policy(world.horizon, world.num_states, world.num_actions)
        baseline = None
        if world.baseline is not None:
            baseline = estimate_return(world, world.baseline, episodes=n, rng=other)
        found = ReturnMeasures(
            total=tuple(self._total.tolist()),
            squares=tuple(self._square.tolist()),
            final=estimate_return(world, policy, episodes=n, rng=final),
            uniform=estimate_return(world, uniform, episodes=n, rng=alike),
            baseline=baseline,
            clipped=self._clipped / max(1, self._decisions),
            length=self._decisions / episodes,
        )
        return Measures(np.full(len(self._checkpoints), np.nan), self._changes, {"returns": found})


def _differ(before: AnyPolicy | None, after: AnyPolicy) -> bool:
    """Whether users are told another policy than those before them."""
    if before is None or type(before) is not type(after):
        return True
    if isinstance(after, LinearPolicy):
        return before is not after
    one, two = tabular(before), tabular(after)
    if isinstance(one, DeterministicPolicy) and isinstance(two, DeterministicPolicy):
        return not np.array_equal(one.actions, two.actions)
    return before is not after
