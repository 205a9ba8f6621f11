"""Confidence widths by the practical rule, ONE function for every learner of a comparison, and models that have them.

Theory constants make private runs of published size vacuous: the widths exceed the horizon and nothing is learned.
The practical rule keeps the shape of an empirical Bernstein bound, puts the variance of the privacy noise inside, and
has a single parameter z (1 is safe, 0.5 aggressive), the same for every learner. It is a heuristic and is recorded
with every result; `constants="theory"` stays selectable.

`confidence_model` is what elimination, coverage and exploitation plan in: each row (h,s,a) of released counts becomes a
distribution, a mean reward and a width; rows without counts worth the name are unknown. The active set is one linear
constraint in occupancy space,

    { d : <u, d> ≥ c },   u = r̂ + b (unknown rows: H - h + 1),   c = max_μ V^μ(r̂ - b),

because widths belong to rows and not to policies. The value function inside the widths is that of the model itself.
See `docs/shuffle-learners.md`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.kernels import inlined, kernel, lean_kernel
from tacit.planning.public_rows import PublicRows, public_rows, reward_noise, row_spread
from tacit.released.counts import CountShape, CountStatistics

DEFAULT_Z = 1.0
ROW_FLOOR = 1.0
"""A row is known if its kept counts exceed this many standard deviations of one counter's noise."""


@inlined
@lean_kernel
def row_model(
    counts: Floats, visits: float, reward_sum: float, count_variance: float, P_row: Floats
) -> tuple[float, float]:
    """Turn one row of (noisy) counts into a distribution, written to P_row; return (n, mean reward).

    Cells within half a count or half a noise standard deviation of zero are dropped; the rest is normalised.
    Without noise this is exactly N(s,a,s') / N(s,a). A row without transitions (the last step) rests on `visits`.
    """
    floor = 0.5 * math.sqrt(count_variance)
    if floor < 0.5:
        floor = 0.5
    n = 0.0
    for t in range(counts.shape[0]):
        if counts[t] > floor:
            n += counts[t]
    for t in range(counts.shape[0]):
        # P̃(s'|s,a) = Ñ(s,a,s') / Σ Ñ over the kept cells
        P_row[t] = counts[t] / n if counts[t] > floor else 0.0
    base = visits if visits > floor else n
    if base <= floor:
        return n, 0.0
    return n, min(1.0, max(0.0, reward_sum / base))


@lean_kernel
def practical_width(
    z: float,
    remaining: int,
    n: float,
    reward: float,
    variance: float,
    spread: float,
    count_variance: float,
    reward_variance: float,
    weight: float = 1.0,
) -> float:
    """The width of one row of the model; `remaining` = H - h + 1 steps are left (this one included).

    `variance` is that of V under the row, `spread` = Σ_x' (V(x') - PV)² carries the noise of the counts. Where users
    send a random part of what they saw, n counts rest on n/weight users; otherwise the weight is 1.
    """
    if n <= 0.0:
        return float(remaining)
    # b = z √( (Var_P V + r(1-r) + ¼w/n) w/n + (σ_N² Σ_x'(V(x')-PV)² + σ_R²)/n² ) + (z²/3)(H-h+1) w/n
    sampling = (variance + reward * (1.0 - reward) + 0.25 * weight / n) * weight / n
    noise = (count_variance * spread + reward_variance) / (n * n)
    return z * math.sqrt(sampling + noise) + (z * z / 3.0) * remaining * weight / n


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


def confidence_model(
    counts: CountStatistics, rho: Floats, z: float, public: PublicRows | None = None
) -> ConfidenceModel:
    """Estimate the rows, their widths, and the value that no active policy may fall short of."""
    H, S, A = counts.visits.shape
    P, r, n = np.zeros((H, S, A, S)), np.zeros((H, S, A)), np.zeros((H, S, A))
    estimate_rows(counts, P, r, n)
    upper, lower = np.zeros((H, S, A)), np.zeros((H, S, A))
    add_widths(P, r, n, counts.variance, z, known_rows(counts, public), upper, lower)
    values = pessimistic_values(P, lower)
    floor = 0.0
    for s in range(S):
        floor += float(rho[s]) * float(values[s])
    return ConfidenceModel(P=P, rho=rho, r=r, upper=upper, lower=lower, n=n, floor=floor)


def known_rows(counts: CountStatistics, public: PublicRows | None) -> PublicRows:
    """What is public about the rows of these counts; None: nothing is declared."""
    H, S, A = counts.visits.shape
    return public or public_rows(CountShape(horizon=H, num_states=S, num_actions=A, staged=True))


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
def add_widths(
    P: Floats, r: Floats, n: Floats, variance: Floats, z: float, public: PublicRows, upper: Floats, lower: Floats
) -> None:
    """U = r̂ + b and l = r̂ - b by the practical rule around the values of the model itself."""
    H, S, A = r.shape
    V = np.zeros((H + 1, S))
    for h in range(H - 1, -1, -1):
        for s in range(S):
            for a in range(A):
                remaining, place = H - h, (h * S + s) * A + a
                if n[h, s, a] <= 0.0:
                    upper[h, s, a] = public.limit[h, s, a] if public.declared else float(remaining)
                    lower[h, s, a] = 0.0
                    continue
                mean, squares, spread = 0.0, 0.0, 0.0
                if h < H - 1:
                    mean, squares, spread = _moments(P[h, s, a], V[h + 1])
                    spread = row_spread(public, place, V[h + 1], mean, spread)
                v_reward = reward_noise(public, place, variance[2])
                b = practical_width(z, remaining, n[h, s, a], r[h, s, a], squares, spread, variance[0], v_reward)
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
            policy[h, s] = _one_of_the_best(Q, best, ties, coins[h, s])
    return policy


@inlined
@lean_kernel
def _moments(row: Floats, V: Floats) -> tuple[float, float, float]:
    """The mean and the variance of V under a row of the model, and Σ_x' (V(x') - mean)²."""
    mean, squares, spread = 0.0, 0.0, 0.0
    for t in range(len(V)):
        mean += row[t] * V[t]
    for t in range(len(V)):
        gap = V[t] - mean
        squares += row[t] * gap * gap
        spread += gap * gap
    return mean, squares, spread


@inlined
@lean_kernel
def _one_of_the_best(Q: Floats, best: float, ties: int, coin: float) -> int:
    """The action among those `ties` that reach the best Q which a coin in [0, 1) picks, all alike."""
    skip = int(coin * ties)
    for a in range(len(Q)):
        if Q[a] == best:
            if skip == 0:
                return a
            skip -= 1
    return 0
