"""Upper occupancy bounds: how often a policy can visit a pair, at most, in any world inside the intervals (Comp-UOB).

    u(x,a) = π(a|x) max_P q^{P,π}(x)          [bai2024adversarial] Eq. 4.2, after Jin et al. 2020

For one target state the maximum is a dynamic programme from the target back to the first state: with g the chance to
hit the target from the next layer, each pair takes the p that maximises Σ p g, which is greedy. It fills the intervals
from lo upwards in decreasing order of g. The order is the same for all pairs of a layer, so one sort serves them all:
Lemma F8 (upper occupancy).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.errors import require
from tacit.kernels import lean_kernel
from tacit.planning.flow_report import flow_costs, flow_intervals
from tacit.planning.layered import LayeredGeometry

__all__ = ["UpperWork", "bound_occupancy", "upper_occupancy", "upper_work"]

Floats = NDArray[np.float64]


class UpperWork(NamedTuple):
    """Buffers of one run."""

    hit: Floats
    """[X]: g(x), the most likely chance to hit the target."""
    spare: Floats
    """[pairs]: 1 - Σ lo, what a pair may distribute."""
    order: NDArray[np.int64]
    """[X]: the states of each layer in decreasing order of g."""


def upper_work(geometry: LayeredGeometry) -> UpperWork:
    """Buffers for worlds of this geometry."""
    X, pairs = int(geometry.layers[-1]), len(geometry.edges) - 1
    return UpperWork(hit=np.zeros(X), spare=np.zeros(pairs), order=np.arange(X, dtype=np.int64))


def upper_occupancy(
    geometry: LayeredGeometry, policy: NDArray[np.floating], lo: NDArray[np.floating], hi: NDArray[np.floating]
) -> Floats:
    """The bound u(x,a) of every pair for policy[pairs].

    >>> from tacit.planning.layered import layered_geometry
    >>> fork = layered_geometry((1, 2, 1), 1)
    >>> upper_occupancy(fork, np.ones(3), np.array([0.1, 0.6, 1, 1]), np.array([0.5, 1, 1, 1])).tolist()
    [1.0, 0.4, 0.9]
    """
    low, high = flow_intervals(geometry, lo, hi)
    pi = flow_costs("policy", policy, len(geometry.edges) - 1)
    sums = pi.reshape(-1, geometry.actions).sum(axis=1)
    fits = bool((pi >= 0).all() and (abs(sums - 1) <= 1e-9).all())
    require(fits, "policy must hold a distribution over actions for every state", given=(pi.min(), sums.max()))
    upper = np.empty(len(pi))
    bound_occupancy(geometry, upper_work(geometry), pi, low, high, upper)
    return upper


@lean_kernel
def bound_occupancy(
    geometry: LayeredGeometry, work: UpperWork, policy: Floats, lo: Floats, hi: Floats, upper: Floats
) -> None:
    """Write u(x,a) of every pair into upper[pairs]."""
    layers, edges, A = geometry
    g, order = work.hit, work.order
    for pair in range(len(edges) - 1):
        total = 0.0
        for i in range(edges[pair], edges[pair + 1]):
            total += lo[i]
        work.spare[pair] = max(0.0, 1.0 - total)
    for layer in range(len(layers) - 2):
        for target in range(layers[layer], layers[layer + 1]):
            for x in range(layers[layer], layers[layer + 1]):
                g[x] = 0.0
            g[target] = 1.0
            for h in range(layer - 1, -1, -1):
                after = layers[h + 1]
                _sort_layer(g, order, after, layers[h + 2])
                for x in range(layers[h], after):
                    g[x] = 0.0
                    for pair in range(x * A, x * A + A):
                        if policy[pair] > 0.0:
                            # g(x) = Σ_a π(a|x) max_p Σ_y p_y g(y)
                            shift = edges[pair] - after
                            g[x] += policy[pair] * _greedy(
                                after, layers[h + 2], shift, work.spare[pair], g, order, lo, hi
                            )
            chance = min(1.0, g[0])
            for pair in range(target * A, target * A + A):
                upper[pair] = chance * policy[pair]


@lean_kernel
def _greedy(
    after: int, end: int, shift: int, spare: float, g: Floats, order: NDArray[np.int64], lo: Floats, hi: Floats
) -> float:
    """The largest Σ p g over lo ≤ p ≤ hi, Σ p = 1."""
    total = 0.0
    for k in range(after, end):
        y = order[k]
        if g[y] == 0.0:
            break  # in decreasing order: nothing more to gain
        i = y + shift
        extra = min(spare, hi[i] - lo[i])
        spare -= extra
        total += (lo[i] + extra) * g[y]
    return total


@lean_kernel
def _sort_layer(g: Floats, order: NDArray[np.int64], first: int, last: int) -> None:
    """Order the states first, ..., last - 1 by decreasing g, by insertion into the last order (often right already)."""
    for k in range(first + 1, last):
        y = order[k]
        j = k - 1
        while j >= first and g[order[j]] < g[y]:
            order[j + 1] = order[j]
            j -= 1
        order[j + 1] = y
