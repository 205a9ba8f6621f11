"""Slow twins of the central learners, written from their formulas with NumPy and without any kernel.

Without radii they are non-private learners with the same bonus: nothing in them knows of privacy then.
"""

from __future__ import annotations

import math

import numpy as np

from tacit.released.consistency import consistent_counts, repair_visits


def dp_ucbvi_values(moves, visits, rewards, *, episodes, failure_prob, E=0.0):
    """Q̃ of one plan from the ceiling; E = 0 repairs nothing."""
    H, S, A = visits.shape
    iota = math.log(30 * H * S * A * episodes * H / failure_prob)
    if E > 0.0:
        moves = moves.copy()
        visits = visits.copy()
        if H > 1:
            moves[:-1], visits[:-1] = consistent_counts(moves[:-1], visits[:-1], precision=E)
        visits[-1] = repair_visits(visits[-1], precision=E)
    arrivals = visits.sum(axis=2)
    Q, V = np.zeros((H, S, A)), np.zeros((H + 1, S))
    for h in reversed(range(H)):
        for s in range(S):
            for a in range(A):
                n = visits[h, s, a]
                Q[h, s, a] = H - h
                if n <= 0:
                    continue
                mean = variance = doubt = 0.0
                if h < H - 1:
                    p = moves[h, s, a] / n
                    mean = p @ V[h + 1]
                    variance = p @ (V[h + 1] - mean) ** 2
                    with np.errstate(divide="ignore"):
                        D = 1e6 * H**3 * S * A * iota**2 / arrivals[h + 1]
                        D = D + 1e6 * H**4 * S**4 * A**2 * (E**2 + H**2) * iota**4 / arrivals[h + 1] ** 2
                    doubt = p @ np.minimum(D, H**2)
                bonus = 2 * math.sqrt(variance * iota / n) + math.sqrt(2 * iota / n) + 20 * H * S * max(E, 1) * iota / n
                bonus += 4 * math.sqrt(iota * doubt / n)
                Q[h, s, a] = min(H - h, np.clip(rewards[h, s, a] / n, 0, 1) + mean + bonus)
        V[h] = Q[h].max(axis=1)
    return Q


def po_rows(moves, visits, rewards, *, episodes, failure_prob, E1=0.0, E2=0.0):
    """(P̃, r̃, bonus) of private policy optimisation."""
    H, S, A = visits.shape
    left = (H - np.arange(1, H + 1))[:, None, None]
    log = math.log(2 * H * S * A * episodes / failure_prob) + S * math.log(2)
    n = np.maximum(visits + E1, 1.0)
    bonus = (1 + left) * np.sqrt(max(log, 2) / 2 / n) + (3 * E1 + left * (S * E2 + 2 * E1)) / n
    return moves / n[..., None], rewards / n, bonus


def hoeffding_rows(moves, visits, rewards, *, episodes, failure_prob, kind, E1=0.0, E2=0.0):
    """(P̃, r̃, bonus) of private UCB-VI ("vi") or of PUCB ("pucb"); E1 is the E of the latter."""
    H, S, A = visits.shape
    left = (H - np.arange(1, H + 1))[:, None, None]
    log = math.log(2 * H * S * A * episodes / failure_prob)
    if kind == "pucb":
        known = (visits >= 2 * E1) & (visits > 0)
        n = np.where(known, visits, 1.0)
        bonus = (1 + left) * np.sqrt(log / 2 / np.maximum(n - E1, 1)) + (2 + left * (S + 1)) * E1 / n
        return moves / n[..., None], rewards / n, np.where(known, bonus, np.inf)
    n = np.maximum(visits + E1, 1.0)
    bonus = (1 + left) * np.sqrt(max(log, 2) / 2 / n) + (3 * E1 + left * (S * E2 + 2 * E1)) / n
    return moves / n[..., None], rewards / n, bonus


def optimistic_values(P, r, bonus, policy=None):
    """Q̃ and Ṽ by backward induction; with a policy [h,s,a], its optimistic evaluation."""
    H, S, A = r.shape
    Q, V = np.zeros((H, S, A)), np.zeros((H + 1, S))
    for h in reversed(range(H)):
        follow = P[h] @ V[h + 1] if h < H - 1 else 0.0
        Q[h] = np.clip(r[h] + follow + bonus[h], 0.0, H - h)
        V[h] = Q[h].max(axis=1) if policy is None else (policy[h] * Q[h]).sum(axis=1)
    return Q, V
