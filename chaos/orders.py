"""Orders of messages: three tests of a shuffle, and shuffles that are not uniform, which they must find.

    positions    who arrived when against where the message stands, chi-square with fixed margins
    neighbours   pairs that arrived one after the other and still stand side by side, Poisson of mean 2 per order
    repeats      messages that stand where they stood in the order before, Poisson of mean 1 per order

Each has a false-alarm rate of 1e-6, so 3e-6 together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import stats

RATE = 1e-6
GROUPS = BINS = 8


def tests(orders: Sequence[Any]) -> dict[str, float]:
    """The p-value of each test; an order lists, place by place, when the message that stands there arrived."""
    N, R = len(orders[0]), len(orders)
    table = np.zeros((GROUPS, BINS))
    adjacent = repeated = 0
    group, place = np.arange(N) * GROUPS // N, np.arange(N) * BINS // N
    for number, order in enumerate(orders):
        np.add.at(table, (group[order], place), 1)
        at = np.argsort(order)
        adjacent += int((np.abs(np.diff(at)) == 1).sum())
        if number:
            repeated += int((order == orders[number - 1]).sum())
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    # Positions within one order exclude each other: (N - 1) / N of the usual statistic.
    statistic = (N - 1) / N * float((np.square(table - expected) / expected).sum())
    return {
        "positions": float(stats.chi2.sf(statistic, (GROUPS - 1) * (BINS - 1))),
        "neighbours": float(stats.poisson.sf(adjacent - 1, R * 2 * (N - 1) / N)),
        "repeats": float(stats.poisson.sf(repeated - 1, R - 1)),
    }


def alarms(orders: Sequence[Any]) -> list[str]:
    """The tests that reject."""
    return [name for name, p in tests(orders).items() if p < RATE]


def _stays(rng: Any, N: int) -> Any:
    """One message in twenty stays where it was."""
    order = np.arange(N)
    moved = np.flatnonzero(rng.random(N) >= 0.05)
    order[moved] = rng.permutation(moved)
    return order


def _blocks(rng: Any, N: int) -> Any:
    """Whole reports change places, their messages stay together."""
    size = N // 8
    return np.concatenate([np.arange(N)[first * size : (first + 1) * size] for first in rng.permutation(8)])


def _naive(rng: Any, N: int) -> Any:
    """Every place is exchanged with any other: each of N^N outcomes is equally likely, which N! does not divide."""
    order = np.arange(N)
    for here, there in enumerate(rng.integers(0, N, N)):
        order[here], order[there] = order[there], order[here]
    return order


def _halves(rng: Any, N: int) -> Any:
    """Two files that are shuffled one by one."""
    return np.concatenate([rng.permutation(N // 2), N // 2 + rng.permutation(N - N // 2)])


BIASED: dict[str, Callable[[Any, int], Any]] = {
    "none": lambda _, N: np.arange(N),
    "one in twenty stays": _stays,
    "reports stay together": _blocks,
    "exchanged with any place": _naive,
    "halves by themselves": _halves,
    "the same every time": lambda _, N: np.random.default_rng(1).permutation(N),
}
"""Shuffles that are not uniform."""


def biased(name: str, repeats: int, messages: int, seed: int) -> list[Any]:
    """Orders of a shuffle that is not uniform."""
    rng = np.random.default_rng(seed)
    return [BIASED[name](rng, messages) for _ in range(repeats)]
