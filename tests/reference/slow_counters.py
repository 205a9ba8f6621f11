"""Slow twins of the continual counters: every matrix written out, every noise kept."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from scipy import optimize

from tacit.errors import require_count
from tacit.noise.continual.factorization import noise_norm, strategy_norm
from tacit.noise.continual.kary_tree import balanced_digits, kary_levels


def prefix_matrix(steps):
    """A: lower triangular, all ones."""
    return np.tril(np.ones((steps, steps)))


def binary_tree_matrices(last):
    """(B, C, nodes) of the binary tree for prefixes 1..last, by recursion over blocks instead of bits."""
    nodes, rows = [], []
    for k in range(1, last + 1):
        row, start, size = {}, 0, 1 << last.bit_length()
        while start < k:
            while start + size > k:
                size //= 2
            row[(start, size)] = 1
            start += size
        rows.append(row)
        nodes.extend(node for node in row if node not in nodes)
    return _incidence(rows, nodes, last)


def kary_tree_matrices(last, arity):
    """(B, C, nodes) of the k-ary tree with subtraction: walk towards k in steps of decreasing block size."""
    size = 1
    while (size - 1) // 2 < last:
        size *= arity
    nodes, rows = [], []
    for k in range(1, last + 1):
        row, reached, block = {}, 0, size // arity
        while block >= 1:
            while 2 * (k - reached) > block - 1 and reached + (block - 1) // 2 < k:
                row[(reached, block)] = 1
                reached += block
            while 2 * (k - reached) < -(block - 1):
                reached -= block
                row[(reached, block)] = -1
            block //= arity
        assert reached == k
        rows.append(row)
        nodes.extend(node for node in row if node not in nodes)
    return _incidence(rows, nodes, size)


def _incidence(rows, nodes, users):
    B = np.array([[row.get(node, 0) for node in nodes] for row in rows])
    C = np.array([[int(start <= i < start + size) for i in range(users)] for start, size in nodes])
    return B, C, nodes


def square_root_path(z):
    """noise_k = Σ_{j<k} c_j z_{k-j}, term by term; c_j = C(2j, j) / 4^j."""
    steps = len(z)
    c, value = [], Fraction(1)
    for j in range(steps):
        c.append(float(value))
        value *= Fraction(2 * j + 1, 2 * j + 2)
    return np.array([sum(c[j] * z[k - j] for j in range(k + 1)) for k in range(steps)])


def buffered_columns(rates, weights, steps, number=Fraction):
    """The first columns (b, c) of B and C = B⁻¹ A for the kernel's own floats, in exact (or mpmath) arithmetic."""
    theta = [1 - number(rate) for rate in rates]
    omega = [number(weight) for weight in weights]
    b, power = [number(1)], list(omega)
    for _ in range(1, steps):
        b.append(sum(power))
        power = [p * t for p, t in zip(power, theta, strict=True)]
    # B c = 1: the same recursion that streams B, solved for its input.
    c, buffers = [], [number(0)] * len(theta)
    for _ in range(steps):
        c.append(1 - sum(w * s for w, s in zip(omega, buffers, strict=True)))
        buffers = [t * s + c[-1] for t, s in zip(theta, buffers, strict=True)]
    return b, c


def released_nodes(k: int) -> tuple[tuple[int, int], ...]:
    """The nodes whose sums make up prefix k, as (level, index): users index·2^level + 1 .. (index + 1)·2^level."""
    k = require_count("prefix", k)
    # For every 1-bit j of k: the left child of size 2^j that ends at k with its lower bits cleared.
    return tuple((j, (k >> j) - 1) for j in reversed(range(k.bit_length())) if k >> j & 1)


def tree_exposure(steps: int, *, release_final: bool = False) -> int:
    """`tree_levels` by replay: how many distinct released nodes contain the worst user. Slow, for checks."""
    K = require_count("steps", steps)
    nodes = {node for k in range(1, K + release_final) for node in released_nodes(k)}
    exposed = np.zeros(K, dtype=np.int64)
    for level, index in nodes:
        exposed[index << level : (index + 1) << level] += 1
    return int(exposed.max())


def kary_nodes(k: int, arity: int, levels: int) -> tuple[tuple[int, int, int], ...]:
    """The nodes of prefix k, as (level, index, sign): users index·k^level + 1 .. (index + 1)·k^level."""
    nodes: list[tuple[int, int, int]] = []
    reached = 0
    for level, digit in reversed(list(enumerate(balanced_digits(k, arity, levels)))):
        start = reached // arity**level
        steps = range(start, start + digit) if digit > 0 else range(start + digit, start)
        nodes.extend((level, index, 1 if digit > 0 else -1) for index in steps)
        reached += digit * arity**level
    return tuple(nodes)


def kary_exposure(last: int, arity: int) -> int:
    """`kary_levels` by replay: how many distinct used nodes contain the worst user. Slow, for checks."""
    levels = kary_levels(last, arity)
    nodes = {(level, index) for k in range(1, last + 1) for level, index, _ in kary_nodes(k, arity, levels)}
    exposed = np.zeros(arity**levels, dtype=np.int64)
    for level, index in nodes:
        exposed[index * arity**level : (index + 1) * arity**level] += 1
    return int(exposed.max())


def factorization_lower_bound(steps: int) -> float:
    """No factorization A = B C of K steps has (largest row norm of B)·(largest column norm of C) below this.

    The product is at least ‖A‖_* / K, and the singular values of A are 1 / (2 sin((2j−1)π / (4K+2))).

    """
    K = require_count("steps", steps)
    j = np.arange(1, K + 1)
    return float(np.sum(0.5 / np.sin((2 * j - 1) * math.pi / (4 * K + 2))) / K)


def optimise_rates(steps, buffers):
    """The rates of poles and zeros that minimise ‖b‖·‖c‖ over this many steps, from a geometric first guess."""

    def rates(v):
        # A positive distance between neighbours in ln(rate) keeps the rates interlaced.
        r = np.exp(v[0] + np.concatenate([[0.0], np.cumsum(np.exp(v[1:]))]))
        return tuple(map(float, r[0::2])), tuple(map(float, r[1::2]))

    def log_error(v):
        poles, zeros = rates(v)
        if zeros[-1] > 1.0:
            return 10.0 + zeros[-1]
        return math.log(noise_norm(poles, zeros, steps) * strategy_norm(poles, zeros, steps))

    gap = math.log(0.9 * steps) / (2 * buffers - 1)
    first = np.array([-math.log(steps)] + [math.log(gap)] * (2 * buffers - 1))
    return rates(optimize.minimize(log_error, first, method="L-BFGS-B").x)
