"""Planning in valid bands: optimism and caution that are proved, and the practical rule where they cannot tell.

Of `optimistic_plans` every eighth is greedy for the upper bounds U of Q*, the first for U itself and the following ones
with the visits that those before them will make; the others are greedy for the practical rule among the actions that
are not excluded, U(s,a) ≥ L(s). Where actions tie - all of them do while the bands are as wide as what remains - the
practical rule decides. `cautious_plan` is greedy for the lower bounds, ties likewise.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.kernels import kernel
from tacit.planning.valid_bands import Bands
from tacit.planning.weighted_rows import UNKNOWN_SHARE, Rows
from tacit.planning.widths import _moments, practical_width
from tacit.tiers import tiered

__all__ = ["cautious_plan", "optimistic_plans"]

EVERY: Final = 8
"""One of so many policies of a mixture is optimistic for the bands, the others for the practical rule."""


@kernel
def _first_by_both(first: Floats, second: Floats, coin: float) -> int:
    """The action with the largest `first`, of those the one with the largest `second`, of those one by the coin."""
    top = first.max() - 1e-12
    best = -np.inf
    for a in range(len(first)):
        if first[a] >= top:
            best = max(best, second[a])
    ties = 0
    for a in range(len(first)):
        ties += int(first[a] >= top and second[a] >= best)
    chosen, wanted = 0, min(ties - 1, int(coin * ties))
    for a in range(len(first)):
        if first[a] >= top and second[a] >= best:
            if wanted == 0:
                chosen = a
            wanted -= 1
    return chosen


def _plans_work(
    model: Rows, bands: Bands, sampling: Floats, noise: Floats, rho: Floats, z: float, visits: float, enough: float,
    coins: Floats, policies: Ints,
) -> int:  # fmt: skip
    return 6 * int(policies.size * model.r.shape[2]) * (1 + len(rho))


@tiered(_plans_work)
@kernel
def optimistic_plans(
    model: Rows, bands: Bands, sampling: Floats, noise: Floats, rho: Floats, z: float, visits: float, enough: float,
    coins: Floats, policies: Ints,
) -> None:  # fmt: skip
    """Write policies[j,h,s]; `sampling` and `noise` [H,S,A] are the two parts of the valid widths."""
    J, H, S = policies.shape
    L, A = model.r.shape[0], model.r.shape[2]
    fake = np.zeros((L, S, A))
    V, W = np.zeros((H + 1, S)), np.zeros((H + 1, S))
    Q, second = np.zeros(A), np.zeros(A)
    for j in range(J):
        for h in range(H - 1, -1, -1):
            stage, remaining = min(h, L - 1), H - h
            for s in range(S):
                for a in range(A):
                    n, more = model.n[stage, s, a], fake[stage, s, a]
                    if n <= 0.0:
                        share = min(1.0, enough / max(more, 1e-9))
                        Q[a] = min(bands.q_upper[h, s, a], remaining * share)
                        second[a] = UNKNOWN_SHARE * remaining * share
                        continue
                    mean, squares, spread, valid = 0.0, 0.0, 0.0, 0.0
                    if h < H - 1:
                        mean, squares, spread = _moments(model.P[stage, s, a], W[h + 1])
                        for t in range(S):
                            valid += model.P[stage, s, a, t] * V[h + 1, t]
                    b = practical_width(
                        z, remaining, n + more, model.r[stage, s, a], squares, spread,
                        model.count_variance[stage, s, a], model.reward_variance[stage, s, a],
                    )  # fmt: skip
                    second[a] = min(float(remaining), model.r[stage, s, a] + mean + b)
                    Q[a] = bands.q_upper[h, s, a]
                    if j > 0:
                        left = n / (n + more)
                        width = sampling[h, s, a] * math.sqrt(left) + noise[h, s, a] * left
                        Q[a] = max(bands.q_lower[h, s, a], min(Q[a], model.r[stage, s, a] + valid + width))
                V[h, s], W[h, s] = Q.max(), second.max()
                if j % EVERY != 0:
                    # The practical rule among all that is not excluded
                    for a in range(A):
                        Q[a] = 0.0 if bands.q_upper[h, s, a] >= bands.lower[h, s] else -1.0
                policies[j, h, s] = _first_by_both(Q, second, coins[j, h, s])
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


def cautious_plan(bands: Bands, otherwise: Ints) -> Ints:
    """The policy[h,s] that is greedy for the lower bounds; where several tie, `otherwise` if it is one of them.

    An action whose upper bound lies below another's lower bound is never chosen.
    """
    best = bands.q_lower.max(axis=2, keepdims=True)
    tied = bands.q_lower >= best - 1e-12
    first = np.argmax(tied, axis=2)
    fits = np.take_along_axis(tied, otherwise[..., np.newaxis], axis=2)[..., 0]
    return np.where(fits, otherwise, first)
