"""Slow twins of the privatizers: dictionaries and loops, no kernels, no NumPy tricks."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np


def clipped_step(shape: Any, s: int, a: int, r: float, t: int) -> tuple[int, int, float, int]:
    """One step as a device may report it."""
    S, A = shape.num_states, shape.num_actions
    inside = 0.0 if math.isnan(r) else max(0.0, min(1.0, r))
    return max(0, min(S - 1, s)), max(0, min(A - 1, a)), inside, max(0, min(S - 1, t))


def slow_statistics(shape: Any, states: Any, actions: Any, rewards: Any) -> dict[tuple[Any, ...], float]:
    """One user's statistics by label: ("P", stage, s, a, s'), ("N", stage, s, a), ("R", stage, s, a)."""
    found: dict[tuple[Any, ...], float] = {}

    def add(label: tuple[Any, ...], value: float) -> None:
        found[label] = found.get(label, 0.0) + value

    H = shape.horizon
    for h in range(H):
        after = int(states[h + 1]) if h + 1 < len(states) else 0
        s, a, r, t = clipped_step(shape, int(states[h]), int(actions[h]), float(rewards[h]), after)
        stage = h if shape.staged else 0
        add(("N", stage, s, a), 1.0)
        add(("R", stage, s, a), r)
        if h < H - 1:
            add(("P", stage, s, a, t), 1.0)
    return found


def slow_vector(shape: Any, complement: bool, states: Any, actions: Any, rewards: Any) -> np.ndarray:
    """The flat message layout: transitions, rewards, then visits or complements."""
    found = slow_statistics(shape, states, actions, rewards)
    stages, S, A = shape.stages, shape.num_states, shape.num_actions
    moving = (stages - 1 if shape.staged else 1) if shape.horizon > 1 else 0
    cells = [(h, s, a) for h in range(stages) for s in range(S) for a in range(A)]
    values = [found.get(("P", h, s, a, t), 0.0) for h, s, a in cells if h < moving for t in range(S)]
    values += [found.get(("R", *cell), 0.0) for cell in cells]
    values += [found.get(("N", *cell), 0.0) - (found.get(("R", *cell), 0.0) if complement else 0.0) for cell in cells]
    return np.array(values)


def one_slot_covariance(shape: Any, epsilon: float, users: Any, ones: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the summed one-slot messages of these users (binary rewards), from the definition.

    A user sends slot i with probability 1/L. There, bit c is one with probability p or q, and counts g (bit - q) with
    g = L/(p - q); nowhere else. So E X_c X_c' sums over the slots. Bits of one slot are independent, or `ones` of them
    are one: subsets with the true cell e^ε times as probable as those without it.
    """
    L = 2 * shape.horizon - 1
    S, A, stages = shape.num_states, shape.num_actions, shape.stages
    moving = (stages - 1 if shape.staged else 1) * S * A * S if shape.horizon > 1 else 0
    size = moving + 2 * stages * S * A
    mean, covariance = np.zeros(size), np.zeros((size, size))
    for states, actions, rewards in users:
        one, two = np.zeros(size), np.zeros((size, size))
        for slot in range(L):
            h, moved = divmod(slot, 2)
            stage = h if shape.staged else 0
            if moved:
                cells = [stage * S * A * S + c for c in range(S * A * S)]
                hot = cells[(states[h] * A + actions[h]) * S + states[h + 1]]
            else:
                first = moving + stage * S * A
                cells = [first + c for c in range(S * A)] + [first + stages * S * A + c for c in range(S * A)]
                hot = cells[(0 if rewards[h] == 1.0 else S * A) + states[h] * A + actions[h]]
            bits, chances = _sent(len(cells), cells.index(hot), epsilon, ones)
            means = chances @ bits
            q = means[cells.index(hot) - 1]  # of any other cell
            g = L / (means[cells.index(hot)] - q)
            one[cells] += g * (means - q) / L
            two[np.ix_(cells, cells)] += g * g * ((bits - q).T @ ((bits - q) * chances[:, None])) / L
        mean += one
        covariance += two - np.outer(one, one)
    return mean, covariance


def _sent(cells: int, hot: int, epsilon: float, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Every vector of bits that can be sent for this true cell, and its probability."""
    every = np.array([bits for bits in itertools.product((0.0, 1.0), repeat=cells) if size in (0, sum(bits))])
    if size == 0:
        p = np.where(np.arange(cells) == hot, 0.5, 1.0 / (math.exp(epsilon) + 1.0))
        return every, np.prod(np.where(every == 1.0, p, 1.0 - p), axis=1)
    weights = np.where(every[:, hot] == 1.0, math.exp(epsilon), 1.0)
    return every, weights / weights.sum()
