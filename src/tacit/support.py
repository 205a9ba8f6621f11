"""`Support`: the public declaration of what can happen in a world, so that counters that cannot move are not released.

    moves    which s' can follow (s,a), at every step or at step h
    starts   in which states an episode can begin
    rewards  which pairs (s,a) can earn anything

Whoever makes an environment or designs a study declares it; it is never computed from anybody's data. What follows
from it is public too: the states that can be reached at each step, the rows with a single successor (whose transitions
are their visits and need no counters), and the counters that are left. Privacy never depends on the declaration being
true: what a device encodes is a total public function of a trajectory, and a step that contradicts the declaration sets
no counter. Lemma S9 (declared support).
"""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.arrays import Ints
from tacit.errors import InvalidInput, require, require_count

Mask = NDArray[np.bool_]


class Support:
    """What can happen in a world of S states, A actions and H steps; immutable, hashable, public.

    Parameters
    ----------
    moves
        [S, A, S'] (the same at every step) or [H, S, A, S']: whether s' can follow (s, a).
    horizon
        The number H of steps.
    starts
        [S]: whether an episode can begin there; by default anywhere.
    rewards
        [S, A] or [H, S, A]: whether the pair can earn anything; by default every pair can.

    Examples
    --------
    >>> line = Support(moves=[[[1, 1, 0]], [[0, 1, 1]], [[0, 0, 1]]], horizon=3, starts=[1, 0, 0])
    >>> line.reach.astype(int).tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    >>> len(line.released.moves), len(line.released.zeros), line
    (6, 6, Support(states=3, actions=1, horizon=3, 18 of 36 counters))
    """

    __slots__ = ("_digest", "horizon", "moves", "rewards", "starts")

    moves: Mask
    """[1 or H, S, A, S']"""
    starts: Mask
    rewards: Mask
    """[1 or H, S, A]"""
    horizon: int
    _digest: str

    def __init__(
        self, *, moves: ArrayLike, horizon: int, starts: ArrayLike | None = None, rewards: ArrayLike | None = None
    ) -> None:
        H = require_count("horizon", horizon)
        led = _mask("moves of a support", moves, (3, 4), H)
        S, A = led.shape[1], led.shape[2]
        require(led.shape[3] == S, "the first and the last state axis of moves must agree", led.shape)
        lost = np.argwhere(~led.any(axis=3))
        if len(lost):
            raise InvalidInput(
                f"moves[s={lost[0][1]}, a={lost[0][2]}] must allow at least one next state, allows none; "
                "an absorbing state is its own successor"
            )
        first = np.ones(S, dtype=bool) if starts is None else _booleans("starts of a support", starts)
        require(first.shape == (S,), f"starts must have one entry for each of the {S} states", first.shape)
        require(bool(first.any()), "an episode must be able to begin somewhere", "no first state")
        pays = np.ones((1, S, A), dtype=bool) if rewards is None else _mask("rewards of a support", rewards, (2, 3), H)
        require(pays.shape[1:] == (S, A), f"rewards must have the S, A = {S}, {A} of moves", pays.shape)
        for name, value in (("moves", led), ("starts", first), ("rewards", pays)):
            kept = np.ascontiguousarray(value)
            kept.flags.writeable = False
            object.__setattr__(self, name, kept)
        object.__setattr__(self, "horizon", H)
        digest = hashlib.sha256(repr((led.shape, pays.shape, H)).encode())
        for value in (led, first, pays):
            digest.update(np.packbits(value).tobytes())
        object.__setattr__(self, "_digest", digest.hexdigest())

    @classmethod
    def of_tables(cls, P: ArrayLike, rho: ArrayLike, horizon: int, *, rewards: ArrayLike | None = None) -> Self:
        """What an author declares whose own tables are public: everything that has a probability above zero."""
        return cls(moves=np.asarray(P) > 0.0, horizon=horizon, starts=np.asarray(rho) > 0.0, rewards=rewards)

    @property
    def num_states(self) -> int:
        """S."""
        return int(self.moves.shape[1])

    @property
    def num_actions(self) -> int:
        """A."""
        return int(self.moves.shape[2])

    @property
    def reach(self) -> Mask:
        """[H, S]: the states that can be reached at each step."""
        return _reach(self)

    @property
    def released(self) -> ReleasedCells:
        """The counters that can move and do not follow from others."""
        return released_cells(self)

    @property
    def counters(self) -> tuple[int, int]:
        """How many counters of transitions, ones and zeros are released step by step, and how many there are."""
        H, S, A = self.horizon, self.num_states, self.num_actions
        kept = sum(map(len, (self.released.moves, self.released.ones, self.released.zeros)))
        return kept, (H - 1) * S * A * S + 2 * H * S * A

    @property
    def most_successors(self) -> int:
        """The most states that can follow a pair, at any step or over all steps together."""
        return int(self.every_step.moves.sum(axis=3).max())

    @property
    def every_step(self) -> Support:
        """The same for all steps together: what can happen at any of them that can be reached."""
        return _every_step(self)

    def seen_through(self, features: ArrayLike) -> Support:
        """The support of features[s]: a feature can follow if any of its states can."""
        seen = np.asarray(features, dtype=np.int64)
        require(seen.shape == (self.num_states,), f"features must number the {self.num_states} states", seen.shape)
        count = int(seen.max()) + 1
        led = np.zeros((len(self.moves), count, self.num_actions, count), dtype=bool)
        for stage, s, a, t in np.argwhere(self.moves):
            led[stage, seen[s], a, seen[t]] = True
        pays = np.zeros((len(self.rewards), count, self.num_actions), dtype=bool)
        for s, feature in enumerate(seen):
            pays[:, feature] |= self.rewards[:, s]
        first = np.zeros(count, dtype=bool)
        first[seen[self.starts]] = True
        return Support(moves=led, horizon=self.horizon, starts=first, rewards=pays)

    def require_true_of(self, P: NDArray[np.float64], r: NDArray[np.float64], rho: NDArray[np.float64]) -> None:
        """Raise where a world's own tables contradict what its author declares."""
        H = self.horizon
        sizes = (P.shape[1], P.shape[2])
        require(
            sizes == (self.num_states, self.num_actions) and len(P) in (1, H),
            f"a support must have the states and actions {sizes} and the horizon of its world",
            (self.num_states, self.num_actions, H),
        )
        wrong = (
            ("transition", np.argwhere((P > 0.0) & ~self.moves)),
            ("reward", np.argwhere((r > 0.0) & ~self.rewards)),
            ("first state", np.argwhere((rho > 0.0) & ~self.starts)),
        )
        for what, cells in wrong:
            if len(cells):
                raise InvalidInput(
                    f"the declared support excludes a {what} that this world has, at {tuple(map(int, cells[0]))}; "
                    "declare it, or correct the world"
                )

    def fingerprint(self) -> str:
        """SHA-256 of everything that is declared."""
        return self._digest

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {
            "horizon": self.horizon,
            "moves": np.argwhere(self.moves).tolist(),
            "stages": len(self.moves),
            "starts": self.starts.astype(int).tolist(),
            "rewards": self.rewards.astype(int).tolist(),
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Self:
        """The support that `to_dict` wrote."""
        names = {"horizon", "moves", "rewards", "stages", "starts"}
        require(isinstance(plain, dict) and set(plain) == names, f"a support has {', '.join(sorted(names))}", "others")
        try:
            pays = np.asarray(plain["rewards"], dtype=np.int64)
            S, A = pays.shape[-2:]
            stages = require_count("stages of a support", plain["stages"])
            # Every row allows something, so what is listed bounds what is asked for.
            require(stages * S * A <= len(plain["moves"]), "a support must allow something in every row", "fewer moves")
            led = np.zeros((stages, S, A, S), dtype=bool)
            led[tuple(np.asarray(plain["moves"], dtype=np.int64).T)] = True
        except (TypeError, ValueError, IndexError) as error:
            raise InvalidInput(f"a support must list moves and rewards of one world: {type(error).__name__}") from error
        found = cls(moves=led, horizon=plain["horizon"], starts=plain["starts"], rewards=pays)
        # One spelling: numbers of another type, moves twice, out of order or counted from the end are refused.
        same = json.dumps(found.to_dict(), sort_keys=True) == json.dumps(plain, sort_keys=True)
        require(same, "a support must be written as to_dict writes it", "another spelling")
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Support) and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)

    def __setattr__(self, attribute: str, value: object) -> None:
        raise AttributeError(f"a Support never changes: cannot set {attribute!r}; make a new one")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.moves, self.horizon, self.starts, self.rewards)

    def __repr__(self) -> str:
        H, S, A = self.horizon, self.num_states, self.num_actions
        kept, every = self.counters
        return f"Support(states={S}, actions={A}, horizon={H}, {kept:,} of {every:,} counters)"


def _rebuild(moves: Mask, horizon: int, starts: Mask, rewards: Mask) -> Support:
    return Support(moves=moves, horizon=horizon, starts=starts, rewards=rewards)


class ReleasedCells(NamedTuple):
    """Flat, sorted indices of the counters that are released."""

    moves: Ints
    """Into [stages, S, A, S']: of rows that can be reached and have several successors."""
    ones: Ints
    """Into [stages, S, A]: visits with reward one, of pairs that can earn anything."""
    zeros: Ints
    """Into [stages, S, A]: visits with reward zero, of pairs that can be reached."""
    single: Ints
    """[stages, S, A]: the only successor of a row that can be reached; -1: it has several, none, or is out of reach."""

    @property
    def sure(self) -> tuple[Ints, Ints]:
        """Sorted rows of [stages, S, A] with a single successor, and the cells of their only transitions."""
        rows = np.flatnonzero(self.single >= 0)
        return rows, rows * self.single.shape[1] + self.single.reshape(-1)[rows]


@lru_cache(maxsize=64)
def released_cells(support: Support, staged: bool = True) -> ReleasedCells:
    """The counters of a support, step by step, or pooled: those that can move at any step, with a step axis of one.

    >>> line = Support(moves=[[[1, 1, 0]], [[0, 1, 1]], [[0, 0, 1]]], horizon=3, starts=[1, 0, 0])
    >>> [part.tolist() for part in released_cells(line, staged=False)]
    [[0, 1, 4, 5], [0, 1, 2], [0, 1, 2], [[[-1], [-1], [-1]]]]
    """
    here = np.repeat(support.reach[..., np.newaxis], support.num_actions, axis=2)
    led, pays = support.moves & here[..., np.newaxis], support.rewards & here
    led[-1] = False  # the last step leads nowhere
    if not staged:
        here, led, pays = (np.logical_or.reduce(part, axis=0, keepdims=True) for part in (here, led, pays))
    alone = led.sum(axis=-1) == 1
    found = ReleasedCells(
        moves=np.flatnonzero(led & ~alone[..., np.newaxis]),
        ones=np.flatnonzero(pays),
        zeros=np.flatnonzero(here),
        single=np.where(alone, led.argmax(axis=-1), -1).astype(np.int64),
    )
    for array in found:
        array.flags.writeable = False
    return found


@lru_cache(maxsize=64)
def counter_cells(support: Support | None, sizes: tuple[int, int, int], staged: bool) -> ReleasedCells:
    """The counters of a shape of these sizes (H, S, A): where nothing is declared all of them, and no row is sure."""
    if support is not None:
        return released_cells(support, staged)
    H, S, A = sizes
    stages = H if staged else 1
    return ReleasedCells(
        moves=np.arange((H - 1 if staged else min(1, H - 1)) * S * A * S),
        ones=np.arange(stages * S * A),
        zeros=np.arange(stages * S * A),
        single=np.full((stages, S, A), -1, dtype=np.int64),
    )


@lru_cache(maxsize=64)
def _reach(support: Support) -> Mask:
    found = np.zeros((support.horizon, support.num_states), dtype=bool)
    found[0] = support.starts
    for h in range(support.horizon - 1):
        led = support.moves[min(h, len(support.moves) - 1)]
        found[h + 1] = led[found[h]].any(axis=(0, 1))
    found.flags.writeable = False
    return found


@lru_cache(maxsize=64)
def _every_step(support: Support) -> Support:
    H = support.horizon
    led = np.zeros(support.moves.shape[1:], dtype=bool)
    for h in range(H):
        led |= support.moves[min(h, len(support.moves) - 1)] & support.reach[h][:, np.newaxis, np.newaxis]
    # A state out of reach leads nowhere else; its row is never released.
    lost = ~led.any(axis=2, keepdims=True)
    led |= lost & np.eye(len(led), dtype=bool)[:, np.newaxis, :]
    pays = np.logical_or.reduce(support.rewards, axis=0)
    return Support(moves=led, horizon=H, starts=support.reach.any(axis=0), rewards=pays)


def _booleans(name: str, values: ArrayLike) -> Mask:
    array = np.asarray(values)
    good = array.dtype.kind == "b" or (array.dtype.kind in "iuf" and bool(np.isin(array, (0, 1)).all()))
    require(good, f"{name} must be true or false (0 or 1)", array.dtype.name)
    return np.array(array, dtype=bool)


def _mask(name: str, values: ArrayLike, ndims: tuple[int, int], horizon: int) -> Mask:
    array = _booleans(name, values)
    require(array.ndim in ndims and array.size > 0, f"{name} must have {ndims[0]} or {ndims[1]} axes", array.shape)
    staged = array if array.ndim == ndims[1] else array[np.newaxis]
    require(len(staged) in (1, horizon), f"the step axis of {name} must have length {horizon}", len(staged))
    return staged
