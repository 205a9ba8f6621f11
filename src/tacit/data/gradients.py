"""Sensitive: what each user adds to a policy gradient, clipped user by user and summed over a batch.

The score of a softmax policy with respect to the logits is 1_a - π, so a batch is described by one weighted count per
(stage, state, action): the sum of gradients is counts - π Σ_a counts, pulled back to the parameters once per batch.
Clipping needs the norm of each user's whole gradient, which follows from inner products of scores (tabular) or from one
vector of the width of the features (linear).

    weight of step h     w_h = ρ_h Σ_{j≥h} (r_j - b),  ρ_h = π(a|s)/π_old(a|s), rewards clipped to [low, high]
    a user's gradient    g = Σ_h w_h ∇ log π(a_h|s_h),  times min(1, C/‖g‖), or nothing where ‖g‖ is not finite

With π_old = π and one step this is REINFORCE ([he2025policy] Eq. 1); with a surrogate radius c, steps at which the
ratio ρ has left [1-c, 1+c] in the direction of the weight add nothing (PPO's clipped objective).

Users of a dose bandit follow a Gaussian policy:

    a ~ N(θ·x_s, τ²),   ∇ log π(a|s) = x_s (a - θ·x_s)/τ²

The score is unbounded, so without clipping the gradient has no finite sensitivity; each user's gradient is clipped.
Everybody in a context pulls along x_s, so a batch is described by one number per context.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.arrays import Floats, Ints
from tacit.data.trajectories import Trajectories, World, alias_draw
from tacit.environments.bandits import DoseBandit
from tacit.errors import require
from tacit.kernels import kernel

ROUNDING = 1e-13  # far more than the inner products of unit scores can lose


class Bounds(NamedTuple):
    """What limits a user's contribution; public."""

    low: float
    """Rewards below are raised to it."""
    high: float
    """Rewards above are lowered to it."""
    clip: float
    """The greatest norm of a user's gradient; infinity: no clipping, where scores are bounded anyway."""
    surrogate: float
    """PPO's radius c of the ratio; infinity: none."""


class GradientSums(NamedTuple):
    """The exact sums of a batch: sensitive."""

    weights: Floats
    """[L,S,A]: Σ_i ∂/∂logits."""
    reward: Floats
    """[1]: the sum over users of their mean reward per step, clipped to [low, high]."""
    square: Floats
    """[L,S]: ‖π(·|s)‖², scratch."""
    mean: Floats
    """[L,S,k]: Σ_a π(a|s) φ(s,a), scratch."""
    direction: Floats
    """[L k]: one user's gradient, scratch of linear policies."""
    returns: Floats
    """[H]: one user's weights, scratch."""

    def __repr__(self) -> str:
        return "GradientSums(sensitive)"  # never their contents


def begin_sums(features: Floats, stages: int, num_states: int, num_actions: int, horizon: int) -> GradientSums:
    """Sums over nobody."""
    k = features.shape[2]
    return GradientSums(
        weights=np.zeros((stages, num_states, num_actions)),
        reward=np.zeros(1),
        square=np.zeros((stages, num_states)),
        mean=np.zeros((stages, num_states, k)),
        direction=np.zeros(stages * k),
        returns=np.zeros(horizon),
    )


@kernel
def draw_users(
    world: World, table: Floats, generator: np.random.Generator, states: Ints, actions: Ints, rewards: Floats
) -> None:
    """Let users follow table[l,s,a], one trajectory each: states[i,h], actions[i,h], rewards[i,h]."""
    users, horizon = actions.shape
    L, A = table.shape[0], table.shape[2]
    for i in range(users):
        s = alias_draw(world.first_cut, world.first_other, generator.random())
        for h in range(horizon):
            l, stage = min(h, L - 1), min(h, world.cut.shape[0] - 1)  # noqa: E741
            left = generator.random()
            a = 0
            while a < A - 1:
                left -= table[l, s, a]
                if left < 0.0:
                    break
                a += 1
            # Rounding can leave `left` non-negative: fall back on the last action that has any probability.
            while table[l, s, a] == 0.0:
                a -= 1
            states[i, h] = s
            actions[i, h] = a
            mean = world.reward[stage, s, a]
            if world.bernoulli and 0.0 < mean < 1.0:
                rewards[i, h] = 1.0 if generator.random() < mean else 0.0
            else:
                rewards[i, h] = mean
            # Where the last step leads is of use to nobody.
            if h + 1 < horizon:
                s = alias_draw(world.cut[stage, s, a], world.other[stage, s, a], generator.random())


@kernel
def add_gradients(
    bounds: Bounds,
    features: Floats,
    table: Floats,
    behaviour: Floats,
    states: Ints,
    actions: Ints,
    rewards: Floats,
    chosen: NDArray[np.bool_],
    baseline: float,
    sums: GradientSums,
) -> None:
    """Replace `sums` by those of the chosen users, each clipped; `behaviour` is the policy that they followed."""
    users, horizon = actions.shape
    L, S, A = table.shape
    k = features.shape[2]
    counts, w = sums.weights, sums.returns
    for l in range(L):  # noqa: E741
        for s in range(S):
            square = 0.0
            for a in range(A):
                counts[l, s, a] = 0.0
                square += table[l, s, a] * table[l, s, a]
            sums.square[l, s] = square
            for j in range(k):
                mean = 0.0
                for a in range(A):
                    mean += table[l, s, a] * features[s, a, j]
                sums.mean[l, s, j] = mean
    sums.reward[0] = 0.0
    for i in range(users):
        if not chosen[i]:
            continue
        to_go, total = 0.0, 0.0
        for h in range(horizon - 1, -1, -1):
            r = rewards[i, h]
            if not r >= bounds.low:  # NaN, too
                r = bounds.low
            elif r > bounds.high:
                r = bounds.high
            total += r
            to_go += r - baseline
            l, s, a = min(h, L - 1), states[i, h], actions[i, h]  # noqa: E741
            ratio = 1.0
            if bounds.surrogate < math.inf:
                ratio = table[l, s, a] / max(behaviour[l, s, a], 1e-300)
                if (to_go > 0.0 and ratio > 1.0 + bounds.surrogate) or (to_go < 0.0 and ratio < 1.0 - bounds.surrogate):
                    ratio = 0.0
            w[h] = ratio * to_go
        sums.reward[0] += total / horizon
        scale, size = 1.0, 0.0
        for h in range(horizon):
            size += abs(w[h])
        if bounds.clip < math.inf:
            size = math.sqrt(_square_norm(features, table, sums, states[i], actions[i]))
            if size > bounds.clip:
                scale = bounds.clip / size
        if not size < math.inf:  # NaN, too: what has no length cannot be clipped, and adds nothing
            continue
        for h in range(horizon):
            counts[min(h, L - 1), states[i, h], actions[i, h]] += scale * w[h]
    # Σ w (1_a - π) = counts - π Σ_a counts
    for l in range(L):  # noqa: E741
        for s in range(S):
            mass = 0.0
            for a in range(A):
                mass += counts[l, s, a]
            for a in range(A):
                counts[l, s, a] -= table[l, s, a] * mass


@kernel
def _square_norm(features: Floats, table: Floats, sums: GradientSums, states: Ints, actions: Ints) -> float:
    """‖Σ_h w_h ∇_θ log π(a_h|s_h)‖², rounded up so that rounding never lets a user contribute more than the clip."""
    horizon = actions.shape[0]
    L, k = table.shape[0], features.shape[2]
    w = sums.returns
    total = 0.0
    for h in range(horizon):
        total += float(w[h] * w[h])
    total *= ROUNDING * horizon
    if k == 0:
        # ⟨1_a - π_s, 1_b - π_s⟩ = 1{a=b} - π_s(a) - π_s(b) + ‖π_s‖², and zero for different (l, s)
        for g in range(horizon):
            lg, s, a = min(g, L - 1), states[g], actions[g]
            for h in range(g, horizon):
                if min(h, L - 1) == lg and states[h] == s:
                    b = actions[h]
                    product = sums.square[lg, s] - table[lg, s, a] - table[lg, s, b]
                    if a == b:
                        product += 1.0
                    total += float((1.0 if g == h else 2.0) * w[g] * w[h] * product)
        return float(total)
    for j in range(sums.direction.shape[0]):
        sums.direction[j] = 0.0
    for h in range(horizon):
        l, s, a = min(h, L - 1), states[h], actions[h]  # noqa: E741
        for j in range(k):
            sums.direction[l * k + j] += w[h] * (features[s, a, j] - sums.mean[l, s, j])
    for j in range(sums.direction.shape[0]):
        total += float(sums.direction[j] * sums.direction[j] * (1.0 + ROUNDING))
    return float(total)


def in_range(batch: Trajectories, num_states: int, num_actions: int, horizon: int) -> Trajectories:
    """The batch with indices that kernels may read: whatever a device sends is moved into the public range.

    Nothing is raised on what users did, only on the public shape of the arrays.
    """
    users = len(batch.actions)
    shapes = (batch.states.shape, batch.actions.shape, batch.rewards.shape)
    fits = shapes[1] == shapes[2] == (users, horizon) and shapes[0] in ((users, horizon), (users, horizon + 1))
    require(fits, f"trajectories must have {horizon} steps", given=shapes)
    with np.errstate(invalid="ignore"):  # NaN becomes some integer, and is clipped after that
        states, actions = batch.states[:, :horizon].astype(np.int64), batch.actions.astype(np.int64)
    return Trajectories(
        states=np.ascontiguousarray(np.clip(states, 0, num_states - 1)),
        actions=np.ascontiguousarray(np.clip(actions, 0, num_actions - 1)),
        rewards=np.ascontiguousarray(batch.rewards, dtype=np.float64),
    )


class Dosed(NamedTuple):
    """A batch of users: contexts states[i], doses actions[i] and outcomes rewards[i]."""

    states: Ints
    actions: Floats
    rewards: Floats

    def __repr__(self) -> str:
        return "Dosed()"  # never their contents


class Clinic(NamedTuple):
    """A dose bandit prepared for sampling."""

    features: Floats
    """[S,k]"""
    norms: Floats
    """[S]: ‖x_s‖."""
    target: Floats
    first_cut: Floats
    first_other: Ints
    width: float
    deviation: float


def prepare_clinic(bandit: DoseBandit) -> Clinic:
    """Alias tables and norms of a dose bandit."""
    from tacit.data.trajectories import alias_tables

    cut, other = alias_tables(np.array(bandit.rho).reshape(1, -1))
    features = np.array(bandit.features)
    return Clinic(
        features=features,
        norms=np.sqrt((features**2).sum(axis=1)),
        target=np.array(bandit.target),
        first_cut=cut[0],
        first_other=other[0],
        width=bandit.width,
        deviation=bandit.deviation,
    )


@kernel
def draw_doses(
    clinic: Clinic, means: Floats, generator: np.random.Generator, states: Ints, actions: Floats, rewards: Floats
) -> None:
    """Let users come: context, dose and outcome of each; means[s] = θ·x_s."""
    for i in range(states.shape[0]):
        s = alias_draw(clinic.first_cut, clinic.first_other, generator.random())
        a = means[s] + clinic.deviation * generator.standard_normal()
        off = (a - clinic.target[s]) / clinic.width
        states[i] = s
        actions[i] = a
        rewards[i] = 1.0 if generator.random() < math.exp(-0.5 * off * off) else 0.0


class _GaussianPolicies(Protocol):
    """What the gradient at a Gaussian policy depends on, beside its means; a clinic or a query."""

    @property
    def features(self) -> Floats: ...
    @property
    def norms(self) -> Floats: ...
    @property
    def deviation(self) -> float: ...


@kernel
def add_dose_gradients(
    bounds: Bounds,
    clinic: _GaussianPolicies,
    means: Floats,
    states: Ints,
    actions: Floats,
    rewards: Floats,
    chosen: NDArray[np.bool_],
    baseline: float,
    pulls: Floats,
) -> float:
    """Write the batch's pull along each context's features, every user clipped; returns the sum of rewards."""
    pulls[:] = 0.0
    total = 0.0
    for i in range(states.shape[0]):
        if not chosen[i]:
            continue
        s, r = states[i], rewards[i]
        if not r >= bounds.low:  # NaN, too
            r = bounds.low
        elif r > bounds.high:
            r = bounds.high
        total += r
        # g = (r - b) (a - θ·x_s)/τ² x_s, at most `clip` long
        pull = (r - baseline) * (actions[i] - means[s]) / clinic.deviation**2
        if not abs(pull) < math.inf:  # NaN, too: what has no length cannot be clipped, and adds nothing
            continue
        most = bounds.clip * (1.0 - 1e-12) / max(clinic.norms[s], 1e-300)
        if abs(pull) > most:
            pull = most if pull > 0.0 else -most
        pulls[s] += pull
    return total
