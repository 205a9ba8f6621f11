"""Slow twins of the continual counters: every matrix written out, every noise kept."""

from __future__ import annotations

from fractions import Fraction

import numpy as np


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
