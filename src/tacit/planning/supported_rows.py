"""Models whose rows live on a declared support: what `bucb` plans in where one is declared.

As in `weighted_rows`, every row weighs the batches by what they saw of it against their noise. What the support adds:

1. a row has its possible successors and no others, side by side: row i = (l, s, a) has to[start[i] : start[i+1]];
2. the width of a row sums its noise over the possible successors;
3. a row with one successor is known to lead there: its counts are its visits, and only its reward is learned;
4. an unknown row still leads to its successors: an optimist takes half a reward and the mean of their values, a
   pessimist no reward and the least of their values, and visits flow on.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.kernels import kernel
from tacit.planning.supported_batches import row_plan, weighted_sums
from tacit.planning.supported_flow import supported_flow
from tacit.planning.weighted_rows import UNKNOWN_SHARE
from tacit.planning.widths import ROW_FLOOR, _one_of_the_best, practical_width
from tacit.support import Support
from tacit.tiers import tiered

__all__ = [
    "Successors",
    "SupportedRows",
    "successors_of",
    "supported_optimists",
    "supported_pessimist",
    "supported_rows",
]


class Successors(NamedTuple):
    """The possible successors of every row (l, s, a), and where released counts go among them."""

    start: Ints
    """[rows + 1]"""
    to: Ints
    """The successors of row i are to[start[i] : start[i+1]]."""
    cell: Ints
    """The place of every released transition among the successors."""
    alone: Ints
    """The place of the successor of every step (h,s,a) that has one only."""


@lru_cache(maxsize=16)
def successors_of(support: Support, pooled: bool) -> Successors:
    """The rows of a model: H per pair when steps are kept apart, 1 when they are pooled."""
    H, S, A = support.horizon, support.num_states, support.num_actions
    flow = supported_flow(support)
    L = 1 if pooled else H
    each = 0 if pooled else 1
    h, s, a, t = flow.cell
    moved = ((each * h * S + s) * A + a) * S + t
    h, s, a = flow.alone
    sure = ((each * h * S + s) * A + a) * S + flow.leads
    places = np.unique(np.concatenate([moved, sure]))
    start = np.searchsorted(places, np.arange(L * S * A + 1) * S)
    return Successors(
        start=start.astype(np.int64),
        to=(places % S).astype(np.int64),
        cell=np.searchsorted(places, moved).astype(np.int64),
        alone=np.searchsorted(places, sure).astype(np.int64),
    )


class SupportedRows(NamedTuple):
    """The model: distributions over the possible successors, mean rewards, and what they rest on."""

    start: Ints
    to: Ints
    p: Floats
    """Beside `to`; an even share where the row is unknown."""
    r: Floats
    """[L,S,A]"""
    n: Floats
    """[L,S,A]: counts that the row rests on; 0 where it is unknown."""
    count_variance: Floats
    """[L,S,A]: noise variance of one transition; 0 where the successor is known."""
    reward_variance: Floats


def supported_rows(
    support: Support, *, pooled: bool, moved: Floats, ones: Floats, visited: Floats, weights: Floats, variance: Floats
) -> SupportedRows:
    """The model of batches, moved [B,cells], ones and visited [B,H,S,A], under weights [L,S,A,B] with w'Σw [L,S,A]."""
    plan, found = row_plan(support, pooled), successors_of(support, pooled)
    L, S, A = variance.shape
    # Ñ = Σ_b w_b Ñ_b, of transitions, of visits and of rewards
    counts, visits, rewards = np.zeros(len(found.to)), np.zeros((L, S, A)), np.zeros((L, S, A))
    weighted_sums(
        weights.reshape(-1, weights.shape[-1]), moved, visited, ones,
        plan.cell_row, found.cell, plan.alone, found.alone, counts, visits, rewards,
    )  # fmt: skip
    model = SupportedRows(
        start=found.start,
        to=found.to,
        p=np.zeros(len(found.to)),
        r=np.zeros((L, S, A)),
        n=np.zeros((L, S, A)),
        count_variance=variance * plan.move_cells,
        reward_variance=variance * plan.reward_cells,
    )
    _normalise(counts, visits, rewards, variance * plan.visit_cells, pooled, model)
    return model


def _normalise_work(
    counts: Floats, visits: Floats, rewards: Floats, visit_variance: Floats, pooled: bool, model: SupportedRows
) -> int:
    return 4 * int(counts.size + visits.size)


@tiered(_normalise_work)
@kernel
def _normalise(
    counts: Floats, visits: Floats, rewards: Floats, visit_variance: Floats, pooled: bool, model: SupportedRows
) -> None:
    """Rows of counts as distributions; those without counts worth the name are unknown."""
    L, S, A = visits.shape
    for stage in range(L):
        for s in range(S):
            for a in range(A):
                row = (stage * S + s) * A + a
                first, stop = model.start[row], model.start[row + 1]
                v = model.count_variance[stage, s, a]
                seen, deciding = visits[stage, s, a], visit_variance[stage, s, a]
                n = seen
                if stop - first > 1:
                    floor = max(0.5, 0.5 * math.sqrt(v))
                    n, deciding = 0.0, v
                    for c in range(first, stop):
                        n += counts[c] if counts[c] > floor else 0.0
                    for c in range(first, stop):
                        model.p[c] = counts[c] / n if counts[c] > floor else 0.0
                else:
                    model.count_variance[stage, s, a] = 0.0
                    if stop > first:
                        model.p[first] = 1.0
                if n > max(0.5, ROW_FLOOR * math.sqrt(deciding)):
                    base = seen if seen > max(0.5, 0.5 * math.sqrt(deciding)) else n
                    model.n[stage, s, a] = n
                    model.r[stage, s, a] = min(1.0, max(0.0, rewards[stage, s, a] / base))
                else:
                    for c in range(first, stop):
                        model.p[c] = 1.0 / (stop - first)


@kernel
def _ahead(model: SupportedRows, row: int, V: Floats) -> tuple[float, float, float, float]:
    """The mean and the variance of V under a row, Σ (V - mean)² over its possible successors, and their least V."""
    mean, squares, spread, least = 0.0, 0.0, 0.0, np.inf
    for c in range(model.start[row], model.start[row + 1]):
        mean += model.p[c] * V[model.to[c]]
        least = min(least, V[model.to[c]])
    for c in range(model.start[row], model.start[row + 1]):
        gap = V[model.to[c]] - mean
        squares += model.p[c] * gap * gap
        spread += gap * gap
    return mean, squares, spread, least


@kernel
def _step(model: SupportedRows, stage: int, actions: Ints, at: Floats, found: Floats) -> Floats:
    """Add the visits of people who are `at` states to found[L,S,A], and say where they go."""
    S, A = found.shape[1], found.shape[2]
    following = np.zeros(S)
    for s in range(S):
        if at[s] > 0.0:
            found[stage, s, actions[s]] += at[s]
            row = (stage * S + s) * A + actions[s]
            for c in range(model.start[row], model.start[row + 1]):
                following[model.to[c]] += at[s] * model.p[c]
    return following


def _optimists_work(
    model: SupportedRows, rho: Floats, z: float, visits: float, enough: float, coins: Floats, policies: Ints
) -> int:
    return 4 * int(policies.size * model.r.shape[2]) * (1 + len(model.to) // max(1, model.r.size))


@tiered(_optimists_work)
@kernel
def supported_optimists(
    model: SupportedRows, rho: Floats, z: float, visits: float, enough: float, coins: Floats, policies: Ints
) -> None:
    """Write policies[j,h,s]: optimistic ones, each planned with the visits that those before it will make.

    The promise of an unknown row fades once `enough` users are on their way, as in `weighted_rows`.
    """
    J, H, S = policies.shape
    L, A = model.r.shape[0], model.r.shape[2]
    fake = np.zeros((L, S, A))
    V = np.zeros((H + 1, S))
    Q = np.zeros(A)
    for j in range(J):
        for h in range(H - 1, -1, -1):
            stage, remaining = min(h, L - 1), H - h
            for s in range(S):
                best, ties = -np.inf, 0
                for a in range(A):
                    n, row = model.n[stage, s, a], (stage * S + s) * A + a
                    mean, squares, spread = 0.0, 0.0, 0.0
                    if h < H - 1:
                        mean, squares, spread, _ = _ahead(model, row, V[h + 1])
                    if n <= 0.0:
                        fade = min(1.0, enough / max(fake[stage, s, a], 1e-9))
                        Q[a] = UNKNOWN_SHARE * fade + mean
                    else:
                        b = practical_width(
                            z, remaining, n + fake[stage, s, a], model.r[stage, s, a], squares, spread,
                            model.count_variance[stage, s, a], model.reward_variance[stage, s, a],
                        )  # fmt: skip
                        Q[a] = min(float(remaining), model.r[stage, s, a] + mean + b)
                    ties = 1 if Q[a] > best else ties + int(Q[a] == best)
                    best = max(best, Q[a])
                V[h, s] = best
                policies[j, h, s] = _one_of_the_best(Q, best, ties, coins[j, h, s])
        at = rho * visits
        for h in range(H):
            at = _step(model, min(h, L - 1), policies[j, h], at, fake)


def _pessimist_work(model: SupportedRows, horizon: int, z: float, coins: Floats) -> int:
    return 6 * horizon * int(model.to.size + model.r[0].size)


@tiered(_pessimist_work)
@kernel
def supported_pessimist(model: SupportedRows, horizon: int, z: float, coins: Floats) -> Ints:
    """The policy[h,s] that is greedy for lower bounds; unknown rows earn nothing and lead to the worst successor."""
    H, (L, S, A) = horizon, model.r.shape
    policy = np.zeros((H, S), dtype=np.int64)
    V, W = np.zeros((H + 1, S)), np.zeros((H + 1, S))
    Q = np.zeros(A)
    for h in range(H - 1, -1, -1):
        stage, remaining = min(h, L - 1), H - h
        for s in range(S):
            best, ties = -np.inf, 0
            for a in range(A):
                row, low = (stage * S + s) * A + a, 0.0
                mean, squares, spread, least = 0.0, 0.0, 0.0, 0.0
                if h < H - 1 and model.start[row + 1] > model.start[row]:
                    mean, squares, spread, _ = _ahead(model, row, W[h + 1])
                    low, _, _, least = _ahead(model, row, V[h + 1])
                Q[a] = max(0.0, least)
                if model.n[stage, s, a] > 0.0:
                    b = practical_width(
                        z, remaining, model.n[stage, s, a], model.r[stage, s, a], squares, spread,
                        model.count_variance[stage, s, a], model.reward_variance[stage, s, a],
                    )  # fmt: skip
                    Q[a] = model.r[stage, s, a] - min(b, float(remaining)) + low
                W[h, s] = max(W[h, s], min(float(remaining), model.r[stage, s, a] + mean))
                ties = 1 if Q[a] > best else ties + int(Q[a] == best)
                best = max(best, Q[a])
            V[h, s] = best
            policy[h, s] = _one_of_the_best(Q, best, ties, coins[h, s])
    return policy
