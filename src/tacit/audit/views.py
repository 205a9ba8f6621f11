"""What an adversary sees, as numbers: releases are made again and again by the privatizer's own code and written down.

A record of one trial holds every release, one after the other: transitions, visits, rewards (or losses), squares. The
user who is replaced comes first and is chosen to be told apart: always in the rarest state with the last action, or
always in the first state with the first action, and the largest reward either way (Lemma S4 (staged counts)).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.families import Family
from tacit.data.counts import ExactCounts, count_trajectories
from tacit.data.trajectories import Trajectories
from tacit.errors import require_count
from tacit.kernels import kernel
from tacit.privatizers.contract import copy_state
from tacit.randomness import SimulationNoise
from tacit.released.counts import CountShape

__all__ = [
    "Record",
    "canaries",
    "counters_of",
    "exact_record",
    "record_batches",
    "record_steps",
    "record_width",
    "two_worlds",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Users = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
Record = Callable[[Any, int, SimulationNoise], Floats]
"""(users, trials, noise) -> records [trials, releases, width]."""

_CHUNK: Final = 5_000_000  # numbers that are kept at once


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


def two_worlds(
    record: Record, score: Callable[[Floats], Floats], worlds: Sequence[Any], trials: int, seed: int, width: int
) -> tuple[Floats, Floats]:
    """Scores of so many trials in each of two worlds; `width` is the size of one record."""
    noise = SimulationNoise(np.random.default_rng([seed, 11]))
    found = [
        np.concatenate([score(record(users, count, noise)) for count in _chunks(trials, width)]) for users in worlds
    ]
    return found[0], found[1]


def record_width(shape: CountShape) -> int:
    """The numbers in one release of counts."""
    cells = shape.stages * shape.num_states * shape.num_actions
    return cells * (shape.num_states + 3)


def record_steps(privatizer: Any, width: int) -> Record:
    """Every release of a privatizer that takes in one user at a time, through its own kernel."""
    release, parameters, before = privatizer.release_kernel, privatizer.parameters, privatizer.begin()
    write = _writer(release) if hasattr(release, "py_func") else _writing(release)

    def record(users: Users, trials: int, noise: SimulationNoise) -> Floats:
        out = np.empty((trials, len(users[0]), width))
        for row in out:
            write(parameters, copy_state(before), *users, noise.generator, row)
        return out

    return record


def record_batches(release: Callable[[ExactCounts, SimulationNoise], Any], shape: CountShape) -> Record:
    """One release of a batch, from its exact counts (the aggregate path)."""

    def record(users: Trajectories, trials: int, noise: SimulationNoise) -> Floats:
        counts = count_trajectories(users, shape.num_states, shape.num_actions)
        out = np.empty((trials, 1, record_width(shape)))
        for row in out:
            released = release(counts, noise)
            parts = [released.transitions, released.visits, released.rewards, np.zeros_like(released.rewards)]
            row[0] = np.concatenate([part.ravel() for part in parts])
        return out

    return record


def exact_record(shape: CountShape, users: Trajectories) -> Floats:
    """The records [users, width] that would be made without any noise."""
    H, S, A = shape.horizon, shape.num_states, shape.num_actions
    T, N, R = (np.zeros((len(users), shape.stages, S, A, *more)) for more in ((S,), (), ()))
    for k in range(len(users)):
        for h in range(H):
            stage = h if shape.staged else 0
            s, a = users.states[k, h], users.actions[k, h]
            N[k:, stage, s, a] += 1.0
            R[k:, stage, s, a] += users.rewards[k, h]
            if h < H - 1:
                T[k:, stage, s, a, users.states[k, h + 1]] += 1.0
    return np.concatenate([part.reshape(len(users), -1) for part in (T, N, R, R)], axis=1)


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


def _chunks(trials: int, width: int) -> Iterator[int]:
    most = max(1, _CHUNK // max(1, width))
    for start in range(0, require_count("trials", trials, least=10), most):
        yield min(most, trials - start)


def _writing(release: Callable[..., None]) -> Callable[..., None]:
    """One trial: every user in turn, and what is released after each."""

    def write(
        parameters: Any,
        state: Any,
        first: Any,
        second: Any,
        third: Any,
        generator: np.random.Generator,
        out: Floats,
    ) -> None:
        for k in range(first.shape[0]):
            release(parameters, state, first[k], second[k], third[k], generator)
            c = 0
            for x in state.released[0].ravel():
                out[k, c] = x
                c += 1
            for x in state.released[1].ravel():
                out[k, c] = x
                c += 1
            for x in state.released[2].ravel():
                out[k, c] = x
                c += 1
            for x in state.released[3].ravel():
                out[k, c] = x
                c += 1

    return write


@cache
def _writer(release: Callable[..., None]) -> Callable[..., None]:
    """The same, compiled."""
    return kernel(_writing(release))
