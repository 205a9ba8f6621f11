"""The optimality conditions of an entropy flow in fifty digits, written from the definitions, and their root."""

from __future__ import annotations

import mpmath as mp
import numpy as np


def fill_exactly(t, lo, hi):
    """p = clip(exp(λ - t), lo, hi) with Σ p = 1: walk through the levels at which an entry meets an end."""

    def clipped(level):
        return [min(max(mp.exp(level - x), a), b) for x, a, b in zip(t, lo, hi, strict=True)]

    levels = sorted(x + mp.log(end) for x, a, b in zip(t, lo, hi, strict=True) for end in (a, b) if end > 0)
    above = next((level for level in levels if sum(clipped(level)) >= 1), levels[-1])
    below = max((level for level in levels if level < above), default=above - 1000)
    middle = (above + below) / 2
    free = [a < p < b for p, a, b in zip(clipped(middle), lo, hi, strict=True)]
    if not any(free):
        return clipped(above)
    fixed = sum(p for p, loose in zip(clipped(middle), free, strict=True) if not loose)
    return clipped(mp.log((1 - fixed) / sum(mp.exp(-x) for x, loose in zip(t, free, strict=True) if loose)))


def exact_policy(geometry, costs, lo, hi, guess):
    """The policy of the optimal flow: the root of inflow = ρ in fifty digits, from approximate prices."""
    with mp.workdps(50):
        layers, A = geometry.layers, geometry.actions
        H = len(layers) - 2
        # One price of each layer is arbitrary: it keeps its guess, and its equation follows from the others.
        unknown = [x for h in range(1, H) for x in range(layers[h] + 1, layers[h + 1])]

        def flows(u):
            policy, mismatch, inflow = {}, {}, {}
            for h in range(H):
                weights = {}
                rows = {}
                for x in range(layers[h], layers[h + 1]):
                    for a in range(A):
                        pair = x * A + a
                        first, last = int(geometry.edges[pair]), int(geometry.edges[pair + 1])
                        t = [u[int(layers[h + 1]) + k] for k in range(last - first)]
                        ends = ([mp.mpf(v) for v in end[first:last]] for end in (lo, hi))
                        p = fill_exactly(t, *ends)
                        phi = sum(q * (x_ + mp.log(q)) for q, x_ in zip(p, t, strict=True) if q > 0)
                        weights[pair] = mp.exp(u[x] - mp.mpf(costs[pair]) - phi)
                        rows[pair] = p
                total = sum(weights.values())
                for x in range(layers[h], layers[h + 1]):
                    rho = sum(weights[x * A + a] for a in range(A))
                    for a in range(A):
                        policy[x * A + a] = weights[x * A + a] / rho
                    if h > 0:
                        mismatch[x] = mp.log(inflow[x] / (rho / total))
                for y in range(layers[h + 1], layers[h + 2]):
                    inflow[y] = sum(weights[pair] / total * rows[pair][y - layers[h + 1]] for pair in rows)
            return policy, mismatch, inflow

        prices = {x: mp.mpf(guess[x]) for x in range(layers[-1])}

        def residual(*values):
            return [flows({**prices, **dict(zip(unknown, values, strict=True))})[1][x] for x in unknown]

        root = mp.findroot(residual, [prices[x] for x in unknown], tol=1e-60, maxsteps=20)
        policy, _, inflow = flows({**prices, **dict(zip(unknown, list(root), strict=True))})
        exact = np.array([float(policy[pair]) for pair in sorted(policy)])
        return exact, {x: float(inflow[x]) for x in inflow}
