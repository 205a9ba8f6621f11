"""Records: what is released, written down as numbers, and what counts would be without noise.

A record of one trial holds every number of every release, one after the other: all fields, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.families import Family
from tacit.checks.count_probe import exact_counts
from tacit.data.trajectories import Trajectories
from tacit.kernels import kernel
from tacit.protocol import copy_state
from tacit.randomness import SimulationNoise
from tacit.released.counts import CountShape

__all__ = [
    "Record",
    "canaries",
    "counters_of",
    "exact_record",
    "record_answers",
    "record_releases",
    "record_width",
]

Floats = NDArray[np.float64]
Record = Callable[[Any, int, SimulationNoise], Floats]
"""(users, trials, noise) -> records [trials, releases, width]."""


def canaries(shape: CountShape, users: int) -> tuple[Trajectories, Trajectories]:
    """Two neighbouring sequences of users that differ in the first; all others sit in a middle state."""
    H, S, A = shape.horizon, shape.num_states, shape.num_actions
    states, actions = np.full((users, H + 1), S // 2, dtype=np.int64), np.zeros((users, H), dtype=np.int64)
    rewards = np.zeros((users, H))
    first = Trajectories(states.copy(), actions.copy(), rewards.copy())
    first.states[0], first.actions[0], first.rewards[0] = 0, 0, 1.0
    second = Trajectories(states, actions, rewards)
    second.states[0], second.actions[0], second.rewards[0] = S - 1, A - 1, 1.0
    return first, second


def exact_record(shape: CountShape, users: Trajectories) -> Floats:
    """The records [users, width] that would be made without any noise; squares are shown as the rewards."""
    rows = []
    for k in range(len(users)):
        some = Trajectories(users.states[: k + 1], users.actions[: k + 1], users.rewards[: k + 1])
        found = exact_counts(shape, some)
        rows.append([part.ravel() for part in (found.transitions, found.visits, found.rewards, found.rewards)])
    return np.array([np.concatenate(row) for row in rows])


def counters_of(families: Sequence[Family], shape: CountShape, records: Floats) -> dict[str, Floats]:
    """Records [..., width] as independent counters [..., counters], by the families that were released."""
    S, A = shape.num_states, shape.num_actions
    cells = shape.stages * S * A
    moves = (shape.stages - 1 if shape.staged else min(1, shape.horizon - 1)) * S * A * S
    ends = np.cumsum([cells * S, cells, cells, cells])
    visits, rewards, squares = (records[..., ends[i] : ends[i + 1]] for i in range(3))
    known = {
        "transitions": records[..., :moves],
        "visits": visits,
        "rewards": rewards,
        "squares": squares,
    }
    both = np.concatenate([rewards, visits - rewards], axis=-1)
    return {family.name: known.get(family.name, both) for family in families}


def record_releases(privatizer: Any, query: Any) -> Record:
    """Every release of a privatizer to the users of each, through its own kernel: the fields that hold numbers."""
    release, parameters, before = privatizer.kernel, privatizer.parameters, privatizer.begin()
    write = _writer(release) if hasattr(release, "py_func") else _writing(release)
    width = sum(part.size for part in before.released if part.dtype == np.float64)

    def record(users: Sequence[Any], trials: int, noise: SimulationNoise) -> Floats:
        out = np.empty((trials, len(users), width))
        for row in out:
            state = copy_state(before)
            shown = tuple(part.reshape(-1) for part in state.released if part.dtype == np.float64)
            write(parameters, state, tuple(users), query, noise.generator, shown, row)
        return out

    return record


def _writing(release: Callable[..., None]) -> Callable[..., None]:
    """One trial: the users of each release in turn, and what is released after each."""

    def write(
        parameters: Any, state: Any, users: Any, query: Any, coins: np.random.Generator, shown: Any, out: Floats
    ) -> None:
        for k, given in enumerate(users):
            release(parameters, state, given, query, coins)
            c = 0
            for part in shown:
                for x in part:
                    out[k, c] = x
                    c += 1

    return write


@cache
def _writer(release: Callable[..., None]) -> Callable[..., None]:
    """The same, compiled."""
    return kernel(_writing(release))


def record_answers(privatizer: Any, queries: Sequence[Any]) -> Record:
    """The same by what every privatizer has, `release`: for those without a kernel, or whose kernel takes one user."""

    def record(users: Sequence[Any], trials: int, noise: SimulationNoise) -> Floats:
        rows = []
        for _ in range(trials):
            state = privatizer.begin()
            for given, query in zip(users, queries, strict=True):
                state, released = privatizer.release(state, given, query, noise)
                shown = [part.ravel() for part in released.statistics if part.dtype == np.float64]
                rows.append(np.concatenate(shown))
        return np.array(rows).reshape(trials, len(queries), -1)

    return record


def record_width(shape: CountShape) -> int:
    """The counts in one release."""
    cells = shape.stages * shape.num_states * shape.num_actions
    return cells * (shape.num_states + 3)
