"""Models of rows that have weights and variances of their own: what `bucb` plans in.

Every row (h,s,a) of the model is estimated from the batches that have something to say about it: with w_b(h,s,a) in
[0,1], Ñ = Σ_b w_b Ñ_b has noise of variance v = w'Σw per cell. Widths are those of `practical_width`, row by row.
Pooled models have one row (s,a) for all steps; their arrays have a leading axis of length 1, and `min(h, len - 1)`
reads both.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.kernels import kernel
from tacit.planning.widths import ROW_FLOOR, _moments, _one_of_the_best, practical_width, row_model
from tacit.tiers import tiered

__all__ = ["Rows", "mixture_visits", "optimists", "pessimist", "row_weights", "weighted_rows"]

UNKNOWN_SHARE: Final = 0.5
"""What an unknown row is worth to an optimist, as a share of all that remains."""


class Rows(NamedTuple):
    """The model: L = H rows per pair when steps are kept apart, 1 when they are pooled."""

    P: Floats
    """[L,S,A,S]; zero where unknown, and at the last step."""
    r: Floats
    """[L,S,A]"""
    n: Floats
    """[L,S,A]: counts that the transitions rest on; 0 where the row is unknown."""
    count_variance: Floats
    """[L,S,A]: noise variance of one cell of the transitions."""
    reward_variance: Floats
    """[L,S,A]: the same of the sum of rewards."""


def _rows_work(
    transitions: Floats,
    visits: Floats,
    rewards: Floats,
    weights: Floats,
    variance: Floats,
    kept_moves: Floats,
    kept_rewards: Floats,
    pooled: bool,
    model: Rows,
) -> int:
    return 2 * int(transitions.size)


@tiered(_rows_work)
@kernel
def weighted_rows(
    transitions: Floats,
    visits: Floats,
    rewards: Floats,
    weights: Floats,
    variance: Floats,
    kept_moves: Floats,
    kept_rewards: Floats,
    pooled: bool,
    model: Rows,
) -> None:
    """Write the model of batches [B,H,...] under weights [W,S,A,B]; variance [W,S,A] is w'Σw before projection.

    W is H, or 1 where all steps of a pooled row weigh the same. `kept_moves` [H] and `kept_rewards` [H] are what the
    projection leaves of a variance at each step.
    """
    B, H, S, A = visits.shape
    last_weight = weights.shape[0] - 1
    row = np.zeros(S)
    for stage in range(1 if pooled else H):
        first, stop = (0, H) if pooled else (stage, stage + 1)
        for s in range(S):
            for a in range(A):
                row[:] = 0.0
                seen, reward = 0.0, 0.0
                v = 0.0
                for h in range(first, stop):
                    v = max(v, variance[min(h, last_weight), s, a])
                # Σ_h v_h kept_h, as the largest v_h times a sum of shares
                moves, cells = 0.0, 0.0
                for h in range(first, stop):
                    share = variance[min(h, last_weight), s, a] / v if v > 0.0 else 1.0
                    moves += share * kept_moves[h]
                    cells += share * kept_rewards[h]
                    for b in range(B):
                        w = weights[min(h, last_weight), s, a, b]
                        seen += w * visits[b, h, s, a]
                        reward += w * rewards[b, h, s, a]
                        if h < H - 1:
                            for t in range(S):
                                row[t] += w * transitions[b, h, s, a, t]
                model.count_variance[stage, s, a] = v * moves
                model.reward_variance[stage, s, a] = v * cells
                last = stage == H - 1 and (H == 1 or not pooled)  # no successors: a row rests on its visits
                deciding = 2.0 * v * cells if last else v * moves
                kept, mean = row_model(row, seen, reward, v * moves, model.P[stage, s, a])
                if last:
                    kept = seen
                if kept > max(0.5, ROW_FLOOR * math.sqrt(deciding)):
                    model.n[stage, s, a], model.r[stage, s, a] = kept, mean
                else:
                    model.n[stage, s, a], model.r[stage, s, a] = 0.0, 0.0
                    for t in range(S):
                        model.P[stage, s, a, t] = 0.0


def _optimists_work(
    model: Rows, rho: Floats, z: float, visits: float, enough: float, coins: Floats, policies: Ints
) -> int:
    return 4 * int(policies.size * model.r.shape[2]) * (1 + len(rho))


@tiered(_optimists_work)
@kernel
def optimists(model: Rows, rho: Floats, z: float, visits: float, enough: float, coins: Floats, policies: Ints) -> None:
    """Write policies[j,h,s]: optimistic ones, each planned with the visits that those before it will make.

    Unknown rows are worth half of what remains, until `enough` users are on their way; then less, in proportion.
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
                    n = model.n[stage, s, a]
                    if n <= 0.0:
                        Q[a] = UNKNOWN_SHARE * remaining * min(1.0, enough / max(fake[stage, s, a], 1e-9))
                    else:
                        mean, squares, spread = 0.0, 0.0, 0.0
                        if h < H - 1:
                            mean, squares, spread = _moments(model.P[stage, s, a], V[h + 1])
                        b = practical_width(
                            z, remaining, n + fake[stage, s, a], model.r[stage, s, a], squares, spread,
                            model.count_variance[stage, s, a], model.reward_variance[stage, s, a],
                        )  # fmt: skip
                        Q[a] = min(float(remaining), model.r[stage, s, a] + mean + b)
                    ties = 1 if Q[a] > best else ties + int(Q[a] == best)
                    best = max(best, Q[a])
                V[h, s] = best
                policies[j, h, s] = _one_of_the_best(Q, best, ties, coins[j, h, s])
        at = rho.copy()
        for h in range(H):
            stage = min(h, L - 1)
            following = np.zeros(S)
            for s in range(S):
                a = policies[j, h, s]
                fake[stage, s, a] += visits * at[s]
                for t in range(S):
                    following[t] += at[s] * model.P[stage, s, a, t]
            at = following


def _pessimist_work(model: Rows, horizon: int, z: float, coins: Floats) -> int:
    return 6 * horizon * int(model.P[0].size)


@tiered(_pessimist_work)
@kernel
def pessimist(model: Rows, horizon: int, z: float, coins: Floats) -> Ints:
    """The policy[h,s] that is greedy for lower bounds; nothing is known of unknown rows, which are worth 0."""
    H, (L, S, A) = horizon, model.r.shape
    policy = np.zeros((H, S), dtype=np.int64)
    V, W = np.zeros((H + 1, S)), np.zeros((H + 1, S))
    Q = np.zeros(A)
    for h in range(H - 1, -1, -1):
        stage, remaining = min(h, L - 1), H - h
        for s in range(S):
            best, ties = -np.inf, 0
            for a in range(A):
                Q[a] = 0.0
                if model.n[stage, s, a] > 0.0:
                    mean, squares, spread, low = 0.0, 0.0, 0.0, 0.0
                    if h < H - 1:
                        mean, squares, spread = _moments(model.P[stage, s, a], W[h + 1])
                        for t in range(S):
                            low += model.P[stage, s, a, t] * V[h + 1, t]
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


def _visits_work(model: Rows, rho: Floats, policies: Ints, users: Floats, found: Floats) -> int:
    return int(policies.size) * len(rho)


@tiered(_visits_work)
@kernel
def mixture_visits(model: Rows, rho: Floats, policies: Ints, users: Floats, found: Floats) -> None:
    """Add the visits that users[j] of each policy[j,h,s] make in the model to found[L,S,A], step by step if L = H."""
    J, H, S = policies.shape
    L, last_found = model.P.shape[0], found.shape[0] - 1
    for j in range(J):
        at = rho * users[j]
        for h in range(H):
            stage = min(h, L - 1)
            following = np.zeros(S)
            for s in range(S):
                if at[s] > 0.0:
                    a = policies[j, h, s]
                    found[min(h, last_found), s, a] += at[s]
                    for t in range(S):
                        following[t] += at[s] * model.P[stage, s, a, t]
            at = following


def row_weights(visits: Floats, covariance: Floats, *, together: bool = False) -> tuple[Floats, Floats]:
    """Weights [L,S,A,B] of the batches in every row for expected visits m [L,S,A,B], and the variance w'Σw [L,S,A].

    w = (Σ + diag(m/4))⁻¹ m, scaled to a largest one of 1: a batch counts for what it has seen against its noise. Rows
    `together` are steps of one pooled row, whose noises are independent: the same formula, one scale for all of them.
    """
    B = visits.shape[-1]
    system = covariance + np.eye(B) * (visits[..., np.newaxis] / 4.0)
    raw = np.linalg.solve(system, visits[..., np.newaxis])[..., 0]
    kept = np.maximum(raw, 0.0)
    weights = kept / np.maximum(kept.max(axis=(0, -1) if together else -1, keepdims=True), 1e-300)
    variance = np.einsum("lsab,bc,lsac->lsa", weights, covariance, weights)
    return weights, variance
