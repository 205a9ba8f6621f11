"""A model with confidence widths from released counts: what elimination, coverage and exploitation all plan in.

Each row (h,s,a) becomes a distribution, a mean reward and a width by the one practical rule (`planning.widths`); rows
without counts worth the name are unknown. The active set is one linear constraint in occupancy space,

    { d : <u, d> ≥ c },   u = r̂ + b (unknown rows: H - h + 1),   c = max_μ V^μ(r̂ - b),

because widths belong to rows and not to policies. The value function inside the widths is that of the model itself.

Deviation from a theorem: the rule is a heuristic with one parameter z; see `docs/shuffle-learners.md`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.kernels import kernel
from tacit.planning.widths import practical_width, row_model
from tacit.released.counts import CountStatistics

__all__ = ["ConfidenceModel", "combine", "confidence_model", "first_states", "greedy"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ROW_FLOOR = 1.0
"""A row is known if its kept counts exceed this many standard deviations of one counter's noise."""


class ConfidenceModel(NamedTuple):
    """The private model and what is known about its error."""

    P: Floats
    """[H,S,A,S]; rows of unknown pairs are zero: the episode ends there."""
    rho: Floats
    r: Floats
    upper: Floats
    """u[h,s,a]"""
    lower: Floats
    """l[h,s,a] = r̂ - b; minus nothing is known of unknown rows, which are worth 0 to a pessimist."""
    n: Floats
    """[H,S,A]: counts that the row rests on; 0 where unknown."""
    floor: float
    """c: what the best pessimist gets."""


def confidence_model(counts: CountStatistics, rho: Floats, z: float) -> ConfidenceModel:
    """Estimate the rows, their widths, and the value that no active policy may fall short of."""
    H, S, A = counts.visits.shape
    P, r, n = np.zeros((H, S, A, S)), np.zeros((H, S, A)), np.zeros((H, S, A))
    estimate_rows(counts, P, r, n)
    upper, lower = np.zeros((H, S, A)), np.zeros((H, S, A))
    add_widths(P, r, n, counts.variance, z, upper, lower)
    values = pessimistic_values(P, lower)
    floor = 0.0
    for s in range(S):
        floor += float(rho[s]) * float(values[s])
    return ConfidenceModel(P=P, rho=rho, r=r, upper=upper, lower=lower, n=n, floor=floor)


def combine(batches: tuple[CountStatistics, ...], weights: tuple[float, ...]) -> CountStatistics:
    """Batches as one: Σ w_i · counts_i, whose noise has variance Σ w_i² σ_i². Post-processing of what was released.

    The weights are scaled to a largest one of 1, so a single batch comes back as it is and no count is overstated.
    """
    top = max(weights)
    scaled = [weight / top for weight in weights]

    def total(name: str) -> Floats:
        parts = [weight * getattr(batch, name) for weight, batch in zip(scaled, batches, strict=True)]
        return np.asarray(sum(parts[1:], start=parts[0]))

    variance = sum(weight * weight * batch.variance for weight, batch in zip(scaled, batches, strict=True))
    return CountStatistics(
        transitions=total("transitions"),
        visits=total("visits"),
        rewards=total("rewards"),
        squares=total("squares"),
        variance=np.asarray(variance),
        users=np.asarray(sum(batch.users for batch in batches)),
    )


def first_states(counts: CountStatistics) -> Floats:
    """The distribution of the first state, from the released visits of the first step.

    States within a noise standard deviation of zero are dropped; if none is left, all are alike.
    """
    found = counts.visits[0].sum(axis=1)
    floor = max(0.5, math.sqrt(float(counts.variance[1]) * counts.visits.shape[2]))
    kept = np.where(found > floor, found, 0.0)
    if kept.sum() <= 0.0:
        return np.full(len(kept), 1.0 / len(kept))
    return np.asarray(kept / kept.sum())


@kernel
def estimate_rows(counts: CountStatistics, P: Floats, r: Floats, n: Floats) -> None:
    """Rows of the model from counts; the last step has no successors and rests on its visits."""
    H, S, A = r.shape
    for h in range(H):
        variance = counts.variance[1] if h == H - 1 else counts.variance[0]
        floor = max(0.5, ROW_FLOOR * math.sqrt(variance))
        for s in range(S):
            for a in range(A):
                kept, mean = row_model(
                    counts.transitions[h, s, a],
                    counts.visits[h, s, a],
                    counts.rewards[h, s, a],
                    counts.variance[0],
                    P[h, s, a],
                )
                if h == H - 1:
                    kept = counts.visits[h, s, a]
                if kept > floor:
                    n[h, s, a], r[h, s, a] = kept, mean
                else:
                    for t in range(S):
                        P[h, s, a, t] = 0.0


@kernel
def add_widths(P: Floats, r: Floats, n: Floats, variance: Floats, z: float, upper: Floats, lower: Floats) -> None:
    """U = r̂ + b and l = r̂ - b by the practical rule around the values of the model itself."""
    H, S, A = r.shape
    V = np.zeros((H + 1, S))
    for h in range(H - 1, -1, -1):
        for s in range(S):
            for a in range(A):
                remaining = H - h
                if n[h, s, a] <= 0.0:
                    upper[h, s, a], lower[h, s, a] = float(remaining), 0.0
                    continue
                mean, squares, spread = 0.0, 0.0, 0.0
                if h < H - 1:
                    for t in range(S):
                        mean += P[h, s, a, t] * V[h + 1, t]
                    for t in range(S):
                        gap = V[h + 1, t] - mean
                        squares += P[h, s, a, t] * gap * gap
                        spread += gap * gap
                b = practical_width(z, remaining, n[h, s, a], r[h, s, a], squares, spread, variance[0], variance[2])
                b = min(b, float(remaining))
                upper[h, s, a], lower[h, s, a] = r[h, s, a] + b, r[h, s, a] - b
                V[h, s] = max(V[h, s], min(float(remaining), r[h, s, a] + mean))


@kernel
def pessimistic_values(P: Floats, lower: Floats) -> Floats:
    """V_1(s) of the best pessimist: max(0, ·) at every step, since no value is negative."""
    H, S, A = lower.shape
    V = np.zeros(S)
    for h in range(H - 1, -1, -1):
        W = np.zeros(S)
        for s in range(S):
            for a in range(A):
                Q = lower[h, s, a]
                if h < H - 1:
                    for t in range(S):
                        Q += P[h, s, a, t] * V[t]
                W[s] = max(W[s], Q)
        V = W
    return V


@kernel
def greedy(P: Floats, w: Floats, coins: Floats) -> Ints:
    """The policy[h,s] that is greedy for w; ties are broken by coins[h,s] in [0, 1), all alike."""
    H, S, A = w.shape
    policy = np.zeros((H, S), dtype=np.int64)
    V = np.zeros((H + 1, S))
    Q = np.zeros(A)
    for h in range(H - 1, -1, -1):
        for s in range(S):
            best, ties = -np.inf, 0
            for a in range(A):
                Q[a] = w[h, s, a]
                if h < H - 1:
                    for t in range(S):
                        Q[a] += P[h, s, a, t] * V[h + 1, t]
                ties = 1 if Q[a] > best else ties + int(Q[a] == best)
                best = max(best, Q[a])
            V[h, s] = best
            skip = int(coins[h, s] * ties)
            for a in range(A):
                if Q[a] == best:
                    if skip == 0:
                        policy[h, s] = a
                        break
                    skip -= 1
    return policy
