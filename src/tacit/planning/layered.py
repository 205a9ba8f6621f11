"""The flat geometry of a layered world, as kernels read it, and occupancies of policies in it.

States stand in layers 0, ..., H and are numbered layer by layer from 0 (the first) to X - 1 (the last, where nothing is
done any more). A pair (x,a) has the number x A + a; its triples (x,a,x') are neighbours, one for each state x' of the
next layer, in order. So every table is one flat array: `policy` and `costs` are [pairs], transition probabilities and
occupancies are [triples], and nothing is stored for steps that no world can make.

`bound_occupancy` bounds how often a policy can visit a pair in any world inside the intervals (Comp-UOB):

    u(x,a) = π(a|x) max_P q^{P,π}(x)          [bai2024adversarial] Eq. 4.2, after Jin et al. 2020

For one target state the maximum is a dynamic programme from the target back to the first state: with g the chance to
hit the target from the next layer, each pair takes the p that maximises Σ p g, which is greedy. It fills the intervals
from lo upwards in decreasing order of g. The order is the same for all pairs of a layer, so one sort serves them all:
Lemma F8 (upper occupancy).

The report of a flow solver about its answer, and when that answer is certified.

Both solvers return a flow that is feasible to the last bit (a policy and transition probabilities pushed forward) and a
dual value that no feasible flow can beat. Their difference, the duality gap, bounds what was left on the table without
trusting the solver. The residual is relative: how far inflow and outflow of the dual solution disagree at a state, as a
fraction, over the states that the flow reaches at all. A policy is used at rare states, too, where an absolute residual
says nothing.

`solve_layers` is the Newton step of both: a system that couples each layer only with its neighbours.

Confidence intervals lo ≤ P(x'|x,a) ≤ hi of every transition of a layered world, from released counts.

`theory_intervals` is the set of [bai2024adversarial] Eq. 3.1 around P̃ = Ñ(x,a,x')/Ñ(x,a), on repaired counts:

    width = √(2 P̃ (1 - P̃) ln ι / Ñ(x,a)) + (4 E + 7 ln ι) / Ñ(x,a)

Deviation: the second term is printed inside the root; Lemma E.11 and the proofs need it outside.
At published sizes it is vacuous below about 10⁶ episodes (ε = 1), hence `practical_intervals`: the one practical rule
of `tacit.planning.widths`, applied to the value 1{x'}, with the variance of the noise instead of a bound on it.

Both sets hold a distribution for every pair, Σ lo ≤ 1 ≤ Σ hi. A pair that nobody visited may go anywhere (never
P̃ = 0 ± width), and no successor is ruled out for good: hi ≥ 1e-9, or its price would diverge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.errors import InvalidInput, require, require_count
from tacit.kernels import kernel, lean_kernel
from tacit.planning.widths import practical_width, row_model
from tacit.released.consistency import repair_row
from tacit.released.losses import LayeredShape


@lean_kernel
def solve_layers(layers: Ints, matrix: Floats, right: Floats) -> bool:
    """Solve matrix x = right over the states of layers 0, ..., H - 1, in place; False if a pivot vanished.

    The matrix is dense and square over the states; elimination walks only through the band of the current and the next
    layer, O(X n²) for layers of n states, without pivoting: the callers' matrices are M-like or positive definite.
    `matrix` is destroyed and `right` becomes x.

    >>> import numpy as np
    >>> matrix, right = np.array([[2.0, -1.0, 0.0], [-1.0, 2.0, 0.0], [0.0, 0.0, 0.0]]), np.array([1.0, 0.0, 0.0])
    >>> solve_layers(np.array([0, 1, 2, 3]), matrix, right), right[:2].round(3).tolist()
    (True, [0.667, 0.333])
    """
    H = len(layers) - 2
    for h in range(H):
        end = layers[h + 2] if h + 1 < H else layers[h + 1]
        for k in range(layers[h], layers[h + 1]):
            source = matrix[k]
            pivot = source[k]
            if not abs(pivot) > 1e-300:
                return False
            for i in range(k + 1, end):
                target = matrix[i]
                factor = target[k] / pivot
                if factor != 0.0:
                    for j in range(k + 1, end):
                        target[j] -= factor * source[j]
                    right[i] -= factor * right[k]
    for h in range(H - 1, -1, -1):
        end = layers[h + 2] if h + 1 < H else layers[h + 1]
        for k in range(layers[h + 1] - 1, layers[h] - 1, -1):
            total = right[k]
            for j in range(k + 1, end):
                total -= matrix[k, j] * right[j]
            right[k] = total / matrix[k, k]
            if not abs(right[k]) < 1e300:
                return False
    return True


GAP, DUAL, RESIDUAL, ITERATIONS, FALLBACKS, CONVERGED = 0, 1, 2, 3, 4, 5
REPORT_SIZE = 6

GAP_LIMIT = 1e-8  # times 1 + |D|
RESIDUAL_LIMIT = 1e-6
REACHED = 1e-15  # states with a smaller q(x) do not count for the residual


@lean_kernel
def conclude(report: Floats, gap: float, dual: float, residual: float, iterations: int, fallbacks: int) -> None:
    """Write the report; the flow is certified if gap and residual are within their limits."""
    report[GAP], report[DUAL], report[RESIDUAL] = gap, dual, residual
    report[ITERATIONS], report[FALLBACKS] = iterations, fallbacks
    good = abs(gap) <= GAP_LIMIT * (1.0 + abs(dual)) and residual <= RESIDUAL_LIMIT
    report[CONVERGED] = 1.0 if good else 0.0


class LayeredGeometry(NamedTuple):
    """Where the states, pairs and triples of each layer begin."""

    layers: Ints
    """[H + 2]: the first state of each layer; the last entry is X, the number of states."""
    edges: Ints
    """[pairs + 1]: the first triple of each pair; the last entry is the number of triples."""
    actions: int
    """A, the same everywhere."""


def layered_geometry(widths: Sequence[int], actions: int) -> LayeredGeometry:
    """The geometry of layers 0, ..., H with these numbers of states (the first and the last have one) and A actions.

    >>> geometry = layered_geometry((1, 2, 1), 2)
    >>> geometry.layers.tolist(), geometry.edges.tolist()
    ([0, 1, 3, 4], [0, 2, 4, 5, 6, 7, 8])
    """
    if len(widths) < 2:
        raise InvalidInput(f"a layered world needs a first and a last layer, got {len(widths)} layers")
    sizes = [require_count(f"states of layer {h}", n) for h, n in enumerate(widths)]
    require(sizes[0] == 1 and sizes[-1] == 1, "the first and the last layer must hold a single state", given=sizes)
    A = require_count("actions", actions)
    layers = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    fans = np.repeat(sizes[1:], np.array(sizes[:-1]) * A)  # how many successors each pair has
    edges = np.concatenate(([0], np.cumsum(fans))).astype(np.int64)
    return LayeredGeometry(layers, edges, A)


def layered_shape(geometry: LayeredGeometry) -> LayeredShape:
    """What privatizers know of this world.

    >>> layered_shape(layered_geometry((1, 2, 1), 2)).pair_of
    (0, 0, 1, 1, 2, 3, 4, 5)
    """
    fans = np.diff(geometry.edges)
    return LayeredShape(
        horizon=len(geometry.layers) - 2, pairs=len(fans), pair_of=tuple(np.repeat(np.arange(len(fans)), fans).tolist())
    )


@lean_kernel
def push_forward(
    geometry: LayeredGeometry, policy: Floats, transitions: Floats, states: Floats, occupancy: Floats
) -> None:
    """The occupancy q(x,a,x') of policy[pairs] in transitions[triples], and q(x) of all X states in `states`.

    `occupancy` may be the array `transitions` itself.

    >>> geometry, states, occupancy = layered_geometry((1, 2, 1), 1), np.empty(4), np.empty(4)
    >>> push_forward(geometry, np.ones(3), np.array([0.25, 0.75, 1.0, 1.0]), states, occupancy)
    >>> states.tolist(), occupancy.tolist()
    ([1.0, 0.25, 0.75, 1.0], [0.25, 0.75, 0.25, 0.75])
    """
    layers, edges, A = geometry
    states[0] = 1.0
    for h in range(len(layers) - 2):
        after = layers[h + 1]
        for y in range(after, layers[h + 2]):
            states[y] = 0.0
        for x in range(layers[h], after):
            for a in range(A):
                pair = x * A + a
                weight = states[x] * policy[pair]
                first = edges[pair]
                for i in range(first, edges[pair + 1]):
                    # q(x,a,x') = q(x) π(a|x) P(x'|x,a),   q(x') = Σ q(x,a,x')
                    occupancy[i] = weight * transitions[i]
                    states[after + i - first] += occupancy[i]


class UpperWork(NamedTuple):
    """Buffers of one run."""

    hit: Floats
    """[X]: g(x), the most likely chance to hit the target."""
    spare: Floats
    """[pairs]: 1 - Σ lo, what a pair may distribute."""
    order: Ints
    """[X]: the states of each layer in decreasing order of g."""


def upper_work(geometry: LayeredGeometry) -> UpperWork:
    """Buffers for worlds of this geometry."""
    X, pairs = int(geometry.layers[-1]), len(geometry.edges) - 1
    return UpperWork(hit=np.zeros(X), spare=np.zeros(pairs), order=np.arange(X, dtype=np.int64))


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
def _greedy(after: int, end: int, shift: int, spare: float, g: Floats, order: Ints, lo: Floats, hi: Floats) -> float:
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
def _sort_layer(g: Floats, order: Ints, first: int, last: int) -> None:
    """Order the states first, ..., last - 1 by decreasing g, by insertion into the last order (often right already)."""
    for k in range(first + 1, last):
        y = order[k]
        j = k - 1
        while j >= first and g[order[j]] < g[y]:
            order[j + 1] = order[j]
            j -= 1
        order[j + 1] = y


MIN_HI = 1e-9


@kernel
def repair_counts(
    geometry: LayeredGeometry, transitions: Floats, visits: Floats, precision: float, counts: Floats, totals: Floats
) -> int:
    """Write Ñ(x,a,x') into counts[triples] and Ñ(x,a) into totals[pairs]; return how many pairs had no solution.

    [bai2024adversarial] Eq. 5.1 and 5.2, pair by pair: `repair_row` is the Euclidean projection onto {n ≥ 0, |Σ n -
    Ñ(x,a)| ≤ E/4}, one of the many solutions of the printed linear programme, plus E/(2 X_{h+1}) in every cell. The
    programme has no solution where the noisy total is below -E/4. With E from theory that is outside the good event;
    with E scaled down it is ordinary. Such rows are repaired with the total 0. Without noise (E = 0) exact counts come
    back as they are.

    >>> import numpy as np
    >>> from tacit.planning.layered import layered_geometry
    >>> fork, counts, totals = layered_geometry((1, 2, 1), 1), np.empty(4), np.empty(3)
    >>> noisy, visits = np.array([7.0, -3.0, 1.0, -9.0]), np.array([3.0, 1.0, -9.0])
    >>> repair_counts(fork, noisy, visits, 4.0, counts, totals), counts.tolist(), totals.tolist()
    (1, [5.0, 1.0, 3.0, 2.0], [6.0, 3.0, 2.0])
    """
    edges = geometry.edges
    infeasible = 0
    for pair in range(len(edges) - 1):
        first, last = edges[pair], edges[pair + 1]
        if not visits[pair] >= -precision / 4:
            infeasible += 1
        totals[pair] = repair_row(transitions[first:last], visits[pair], precision, counts[first:last])
    return infeasible


@lean_kernel
def theory_intervals(
    geometry: LayeredGeometry,
    counts: Floats,
    totals: Floats,
    precision: float,
    log_term: float,
    multiplier: float,
    lo: Floats,
    hi: Floats,
) -> None:
    """Eq. 3.1 for repaired counts[triples] and totals[pairs]; E = precision, ln ι = log_term, times a multiplier.

    >>> import numpy as np
    >>> from tacit.planning.layered import layered_geometry
    >>> fork, lo, hi = layered_geometry((1, 2, 1), 1), np.empty(4), np.empty(4)
    >>> counts, totals = np.array([160.0, 40.0, 5.0, 0.0]), np.array([200.0, 5.0, 0.0])
    >>> theory_intervals(fork, counts, totals, 0.0, 2.0, 1.0, lo, hi)
    >>> lo.round(3).tolist(), hi.round(3).tolist()
    ([0.673, 0.073, 1.0, 1.0], [0.927, 0.327, 1.0, 1.0])
    """
    edges = geometry.edges
    for pair in range(len(edges) - 1):
        first, last, n = edges[pair], edges[pair + 1], totals[pair]
        for i in range(first, last):
            p, width = 0.0, 1.0
            if n > 0.0:
                p = counts[i] / n
                # β = √(2 P̃(1-P̃) ln ι / Ñ) + (4E + 7 ln ι)/Ñ
                spread = math.sqrt(2.0 * max(0.0, p * (1.0 - p)) * log_term / n)
                width = multiplier * (spread + (4.0 * precision + 7.0 * log_term) / n)
            _interval(last - first, p, width, i, lo, hi)


@kernel
def practical_intervals(
    geometry: LayeredGeometry,
    transitions: Floats,
    visits: Floats,
    count_variance: float,
    z: float,
    lo: Floats,
    hi: Floats,
    scratch: Floats,
) -> None:
    """The practical rule for released transitions[triples], unrepaired; scratch[triples] receives P̃.

    >>> import numpy as np
    >>> from tacit.planning.layered import layered_geometry
    >>> fork, lo, hi = layered_geometry((1, 2, 1), 1), np.empty(4), np.empty(4)
    >>> noisy, visits = np.array([163.0, 37.0, 6.0, -2.0]), np.array([200.0, 6.0, -2.0])
    >>> practical_intervals(fork, noisy, visits, 9.0, 1.0, lo, hi, np.empty(4))
    >>> lo.round(3).tolist(), hi.round(3).tolist()
    ([0.783, 0.153, 1.0, 1.0], [0.847, 0.217, 1.0, 1.0])
    """
    edges = geometry.edges
    for pair in range(len(edges) - 1):
        first, last = edges[pair], edges[pair + 1]
        m = last - first
        n, _ = row_model(transitions[first:last], visits[pair], 0.0, count_variance, scratch[first:last])
        for i in range(first, last):
            p, width = 0.0, 1.0
            if n > 0.0:
                p = scratch[i]
                # V = 1{x'}: Var V = p(1-p), and Σ_y (V(y) - p)² = (1-p)² + (m-1) p²
                spread = (1.0 - p) * (1.0 - p) + (m - 1) * p * p
                width = practical_width(z, 1, n, 0.0, max(0.0, p * (1.0 - p)), spread, count_variance, 0.0)
            _interval(m, p, width, i, lo, hi)


@lean_kernel
def known_intervals(transitions: Floats, lo: Floats, hi: Floats) -> None:
    """Known transitions[triples] (O-REPS): lo = hi = P.

    >>> import numpy as np
    >>> lo, hi = np.empty(2), np.empty(2)
    >>> known_intervals(np.array([0.3, 0.7]), lo, hi)
    >>> lo.tolist() == hi.tolist() == [0.3, 0.7]
    True
    """
    for i in range(len(transitions)):
        lo[i] = transitions[i]
        hi[i] = transitions[i]


@lean_kernel
def _interval(successors: int, p: float, width: float, i: int, lo: Floats, hi: Floats) -> None:
    """P̃ ± width within [0, 1]; a single successor is certain."""
    if successors == 1:
        lo[i], hi[i] = 1.0, 1.0
    else:
        lo[i] = max(0.0, p - width)
        hi[i] = max(MIN_HI, min(1.0, p + width))
