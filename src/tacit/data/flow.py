"""Sensitive: the flow of many people through a world, compiled; the coins are those of NumPy's own multinomials.

    N_h(s,·) ~ Multinomial(N_h(s), π_h(·|s))      N_h(s,a,·) ~ Multinomial(N_h(s,a), P_h(·|s,a))

A multinomial is drawn cell by cell, each one binomially among those who are left. A cell of probability 0 takes no
coin, so only possible successors are looked at: the work of a row is the number of its successors, not of all states.
`walk` and `walk_in_python` give the same counts from the same generator, bit for bit.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.environments.tabular import TabularMDP
from tacit.kernels import kernel
from tacit.lazy_jit import LazyJit


class SparseTransitions(NamedTuple):
    """A world as it is walked: the possible successors of every row (l, s, a), side by side."""

    rho: Floats
    """[S]: of the first state."""
    start: Ints
    """[rows + 1]"""
    to: Ints
    """The successors of row i are to[start[i] : start[i+1]], in the order of states."""
    p: Floats
    """Beside `to`: probabilities that add up, as NumPy's multinomials want them;"""
    chance: Floats
    """and as the world has them."""
    r: Floats
    """[1 or H, S, A]"""
    draws: bool
    """Whether a reward is 0 or 1 at random, or its mean."""


@lru_cache(maxsize=4)
def sparse_transitions(mdp: TabularMDP) -> SparseTransitions:
    """The roads of a world, prepared once."""
    # NumPy's multinomial tolerates less rounding in a row than tacit does.
    P = mdp.stage_P / mdp.stage_P.sum(axis=-1, keepdims=True)
    rows = P.reshape(-1, P.shape[-1])
    of, to = np.nonzero(rows)
    start = np.searchsorted(of, np.arange(len(rows) + 1))
    return SparseTransitions(
        rho=mdp.rho / mdp.rho.sum(),
        start=start.astype(np.int64),
        to=to.astype(np.int64),
        p=rows[of, to],
        chance=np.array(mdp.stage_P.reshape(rows.shape)[of, to]),
        r=np.array(mdp.stage_r, dtype=np.float64),
        draws=mdp.reward_kind == "bernoulli",
    )


@kernel
def compiled_walk(
    roads: SparseTransitions,
    tables: Floats,
    users: Ints,
    generator: np.random.Generator,
    starts: Ints,
    visits: Ints,
    moves: Ints,
    rewards: Floats,
) -> None:
    """Add the flow of users[j] people of each policy, tables [J,H,S,A], to visits, moves and rewards [H,...].

    Their first states are written to starts [J,S].
    """
    J, H, S, A = tables.shape
    stages, paid = (len(roads.start) - 1) // (S * A), len(roads.r)
    here, led, acted = np.zeros(S, np.int64), np.zeros(S, np.int64), np.zeros((S, A), np.int64)
    for j in range(J):
        left, remaining = users[j], 1.0
        here[:] = 0
        for s in range(S - 1):
            if left <= 0:
                break
            here[s] = generator.binomial(left, min(1.0, roads.rho[s] / remaining))
            left -= here[s]
            remaining -= roads.rho[s]
        if left > 0:
            here[S - 1] = left
        starts[j] = here
        for h in range(H):
            for s in range(S):
                # π_h(·|s) among those who are left; whoever is left in the end takes the last action
                left, remaining = here[s], 1.0
                for a in range(A):
                    acted[s, a] = 0
                for a in range(A - 1):
                    if left <= 0:
                        break
                    acted[s, a] = generator.binomial(left, min(1.0, tables[j, h, s, a] / remaining))
                    left -= acted[s, a]
                    remaining -= tables[j, h, s, a]
                if left > 0:
                    acted[s, A - 1] = left
            first = min(h, stages - 1) * S * A
            led[:] = 0
            for s in range(S):
                for a in range(A):
                    left, remaining, row = acted[s, a], 1.0, first + s * A + a
                    if left == 0:
                        continue
                    for c in range(roads.start[row], roads.start[row + 1]):
                        if left <= 0 or roads.to[c] == S - 1:
                            break
                        number = generator.binomial(left, min(1.0, roads.p[c] / remaining))
                        moves[h, s, a, roads.to[c]] += number
                        led[roads.to[c]] += number
                        left -= number
                        remaining -= roads.p[c]
                    if left > 0:
                        moves[h, s, a, S - 1] += left
                        led[S - 1] += left
            for s in range(S):
                for a in range(A):
                    if acted[s, a] > 0:
                        r = roads.r[min(h, paid - 1), s, a]
                        visits[h, s, a] += acted[s, a]
                        rewards[h, s, a] += generator.binomial(acted[s, a], r) if roads.draws else acted[s, a] * r
            for s in range(S):
                here[s] = led[s]


def walk_in_python(
    roads: SparseTransitions,
    tables: Floats,
    users: Ints,
    generator: np.random.Generator,
    starts: Ints,
    visits: Ints,
    moves: Ints,
    rewards: Floats,
) -> None:
    """The same by NumPy, whole steps at a time."""
    J, H, S, A = tables.shape
    stages = (len(roads.start) - 1) // (S * A)
    for j in range(J):
        starts[j] = at = generator.multinomial(users[j], roads.rho)
        for h in range(H):
            acted = generator.multinomial(at, tables[j, h])
            # Rows that nobody visits take no coins, so they can be left out.
            s, a = np.nonzero(acted)
            led = generator.multinomial(acted[s, a], _rows(roads, (min(h, stages - 1) * S + s) * A + a, S))
            r = roads.r[min(h, len(roads.r) - 1)]
            visits[h] += acted
            moves[h, s, a] += led
            rewards[h, s, a] += generator.binomial(acted[s, a], r[s, a]) if roads.draws else (acted * r)[s, a]
            at = led.sum(axis=0)


def _rows(roads: SparseTransitions, which: Ints, num_states: int) -> Floats:
    """P(·) of these rows, over all states."""
    found, sizes = np.zeros((len(which), num_states)), roads.start[which + 1] - roads.start[which]
    of = np.repeat(np.arange(len(which)), sizes)
    cells = np.arange(len(of)) + np.repeat(roads.start[which] - np.cumsum(sizes) + sizes, sizes)
    found[of, roads.to[cells]] = roads.p[cells]
    return found


def _work(
    roads: SparseTransitions,
    tables: Floats,
    users: Ints,
    generator: np.random.Generator,
    starts: Ints,
    visits: Ints,
    moves: Ints,
    rewards: Floats,
) -> int:
    J, H, S, A = tables.shape
    return int(J * H * (200 + S * A))  # units of a quarter of a microsecond: calls of NumPy, then rows


class _Walk(LazyJit):  # type: ignore[type-arg]
    """Short runs by NumPy, which nobody has to compile."""

    def __init__(self) -> None:
        super().__init__(compiled_walk, _work)
        self._original = walk_in_python


walk = _Walk()
"""Compiled where that pays; both forms take the same coins."""
