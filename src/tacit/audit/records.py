"""Records: what is released, written down as numbers, and what counts would be without noise.

A record of one trial holds every number of every release, one after the other: all fields, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.families import Family
from tacit.arrays import Floats
from tacit.audit.count_probe import exact_counts
from tacit.data.trajectories import Trajectories
from tacit.errors import require
from tacit.kernels import kernel
from tacit.protocol import copy_state
from tacit.randomness import SimulationNoise
from tacit.released.counts import CountShape
from tacit.support import Support

Record = Callable[[Any, int, SimulationNoise], Floats]
"""(users, trials, noise) -> records [trials, releases, width]."""


def canaries(shape: CountShape, users: int, *, reports: int = 1) -> tuple[Trajectories, Trajectories]:
    """Two neighbouring sequences of users that differ in the first, or in the first `reports`; others are alike.

    Over a declared support the canaries go as far apart as it lets them, and the others go with the first one.
    """
    H, S, A = shape.horizon, shape.num_states, shape.num_actions
    states, actions = np.full((users, H + 1), S // 2, dtype=np.int64), np.zeros((users, H), dtype=np.int64)
    rewards = np.zeros((users, H))
    if shape.support is not None:
        states[:], actions[:], _ = _walk(shape.support, 0)
    first = Trajectories(states.copy(), actions.copy(), rewards.copy())
    second = Trajectories(states, actions, rewards)
    own = slice(0, reports)
    if shape.support is None:
        first.states[own], first.actions[own], first.rewards[own] = 0, 0, 1.0
        # Where there is but one cell, only the reward is left to differ.
        second.states[own], second.actions[own], second.rewards[own] = S - 1, A - 1, float(S * A > 1)
    else:
        first.states[own], first.actions[own], first.rewards[own] = _walk(shape.support, 0)
        second.states[own], second.actions[own], second.rewards[own] = _walk(shape.support, -1)
    return first, second


def _walk(support: Support, end: int) -> tuple[list[int], list[int], list[float]]:
    """A possible trajectory, always in the first (0) or the last (-1) of what can be, and what it can earn."""
    state, action = int(np.flatnonzero(support.starts)[end]), end % support.num_actions
    states, rewards = [state], list[float]()
    for h in range(support.horizon):
        rewards.append(float(support.rewards[h % len(support.rewards), state, action]))
        state = int(np.flatnonzero(support.moves[h % len(support.moves), state, action])[end])
        states.append(state)
    return states, [action] * support.horizon, rewards


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
    S, A, kept = shape.num_states, shape.num_actions, shape.cells
    cells = shape.stages * S * A
    moved, visits, rewards, squares = np.split(records, np.cumsum([cells * S, cells, cells]), axis=-1)
    known = {
        "transitions": moved[..., kept.moves],
        "visits": visits[..., kept.zeros],
        "rewards": rewards[..., kept.ones],
        "squares": squares[..., kept.ones],
    }
    both = np.concatenate([rewards[..., kept.ones], (visits - rewards)[..., kept.zeros]], axis=-1)
    return {family.name: known.get(family.name, both) for family in families}


def record_releases(privatizer: Any, query: Any) -> Record:
    """Every release of a privatizer to the users of each, through its own kernel: the fields that hold numbers."""
    release, parameters, before = privatizer.kernel, privatizer.parameters, privatizer.begin()
    write = _writer(release) if hasattr(release, "py_func") else _writing(release)
    width = sum(part.size for part in before.released if part.dtype == np.float64)

    def record(users: Sequence[Any], trials: int, noise: SimulationNoise) -> Floats:
        out = np.empty((trials, len(users), width))
        state, memory = pooled(before)
        shown = tuple(part.reshape(-1) for part in state.released if part.dtype == np.float64)
        first: Memory = copy_state(memory)
        write(parameters, state, memory, first, tuple(users), query, noise.generator, shown, out)
        return out

    return record


class Memory(NamedTuple):
    """All numbers of a state, by their type."""

    floats: Floats
    ints: NDArray[np.int64]
    flags: NDArray[np.bool_]


def pooled(state: Any) -> tuple[Any, Memory]:
    """A copy of a state whose arrays are parts of one memory: filling that fills the state.

    >>> copied, memory = pooled((np.ones(2), (np.zeros((1, 2), dtype=np.int64), np.ones(1, dtype=bool))))
    >>> memory.floats[:], memory.ints[:] = 5.0, 7
    >>> copied
    (array([5., 5.]), (array([[7, 7]]), array([ True])))
    """
    kinds = [np.dtype(kind) for kind in (np.float64, np.int64, np.bool_)]
    leaves = list(_leaves(state))
    odd = [str(leaf.dtype) for leaf in leaves if leaf.dtype not in kinds]
    require(not odd, "the arrays of a state must hold float64, int64 or bool", odd)
    pools = [np.concatenate([np.zeros(0, kind), *(x.ravel() for x in leaves if x.dtype == kind)]) for kind in kinds]
    used = [0] * len(kinds)

    def placed(value: Any) -> Any:
        if isinstance(value, tuple):
            made = (placed(field) for field in value)
            return type(value)(*made) if hasattr(value, "_fields") else tuple(made)
        at = kinds.index(value.dtype)
        used[at] += value.size
        return pools[at][used[at] - value.size : used[at]].reshape(value.shape)

    return placed(state), Memory(*pools)


def _leaves(state: Any) -> Iterator[NDArray[Any]]:
    if isinstance(state, tuple):
        for part in state:
            yield from _leaves(part)
    else:
        yield state


def _writing(release: Callable[..., None]) -> Callable[..., None]:
    """All trials: the users of each release in turn from the same state, and what is released after each."""

    def write(
        parameters: Any,
        state: Any,
        memory: Memory,
        first: Memory,
        users: Any,
        query: Any,
        rng: np.random.Generator,
        shown: Any,
        out: Floats,
    ) -> None:
        for t in range(len(out)):
            memory.floats[:] = first.floats
            memory.ints[:] = first.ints
            memory.flags[:] = first.flags
            for k, given in enumerate(users):
                release(parameters, state, given, query, rng)
                c = 0
                for part in shown:
                    for x in part:
                        out[t, k, c] = x
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
