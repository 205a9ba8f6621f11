"""Bodies of trajectories: what one person sends to a curator, as 16-bit labels of constant length.

    (H+1) states | H actions | H reward levels        little endian, 6H + 2 bytes; all 0xFFFF: a cover report

A reward r in [0, 1] becomes the level k of a public grid k/levels by stochastic rounding, exactly: k = ⌊r·levels⌋ plus
a coin of the remainder. `levels` is a power of two, so r·levels and the remainder are exact in floating point. The mean
is r, the variance at most 1/(4 levels²) per visit, and privacy does not change: a rounded reward is some reward in
[0, 1], and rounding comes first (Lemma S8 (rounded rewards)).

G1  Nothing raises on what a person did: states and actions are clipped into the public sizes, rewards into [0, 1], and
    NaN is 0; only shapes and types are checked. A cover report has the same length and counts for nothing.

Bodies of users of an adversarial MDP: visited pairs and triples, and losses on a public grid.

    H pairs | H triples | losses in units of 1/levels: of all X'A pairs (full information), or of the H visited (bandit)

A trajectory through a world of steps is reported as one through that world `unrolled`: its losses are 1 - r, and the
action in the added first state, where all actions are alike, is a coin that nothing else depends on.

16-bit labels, little endian; all 0xFFFF: a cover report. Losses are rounded stochastically and exactly, as rewards are
(`tacit.statistics.trajectory_body`). Whoever reports a pair or a triple twice counts once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.arrays import Floats, Ints
from tacit.data.counts import ExactCounts
from tacit.data.trajectories import LossUser, Trajectories, TrajectoryLike
from tacit.errors import InvalidInput, require, require_count
from tacit.noise.exact import bernoulli_each, uniform_integers
from tacit.protocol import Noise
from tacit.randomness import SimulationNoise
from tacit.released.losses import LayeredShape

COVER: Final = 0xFFFF
"""The label that stands for nothing."""
LABEL: Final = np.dtype("<u2")


class Decoded(NamedTuple):
    """What people sent, in the public ranges; cover reports are left out."""

    states: Ints
    """[n, H+1]"""
    actions: Ints
    """[n, H]"""
    levels: Ints
    """[n, H]: rewards in units of the grid."""

    def __repr__(self) -> str:
        return f"Decoded({len(self.actions)} people)"  # never what they did


class LevelCounts(NamedTuple):
    """Exact counts of a stage in units of 1/levels: whole numbers, sensitive."""

    transitions: Ints
    """[H, S, A, S]"""
    visits: Ints
    """[H, S, A]"""
    rewards: Ints
    """[H, S, A]"""

    def __repr__(self) -> str:
        return "LevelCounts()"  # never their contents


def _require_labels(body: bytes, size: int, limits: Ints) -> None:
    """Raise unless this is a cover report or has labels below these limits."""
    require(len(body) == size, f"a body must have {size} bytes", len(body))
    labels: NDArray[np.uint16] = np.frombuffer(body, dtype=LABEL)
    if not ((labels < limits).all() or (labels == COVER).all()):
        raise InvalidInput("the labels of a body must lie in the public sizes; encode with the channel's own")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrajectoryBody:
    """The public format of a body.

    >>> body = TrajectoryBody(horizon=6, num_states=4, num_actions=2, levels=16)
    >>> body.size, len(body.cover())
    (38, 38)
    """

    horizon: int
    num_states: int
    num_actions: int
    levels: int

    def __post_init__(self) -> None:
        require_count("horizon", self.horizon)
        for name in ("num_states", "num_actions", "levels"):
            count = require_count(name, getattr(self, name))
            require(count < COVER, f"{name} must be below {COVER}: labels have 16 bits", count)
        require(self.levels & (self.levels - 1) == 0, "levels must be a power of two", self.levels, "16 is the default")

    @property
    def size(self) -> int:
        """The length in bytes."""
        return LABEL.itemsize * (3 * self.horizon + 1)

    def cover(self) -> bytes:
        """The body that counts for nothing."""
        return b"\xff" * self.size

    def encode(self, trajectory: TrajectoryLike | None, noise: Noise) -> bytes:
        """One report's body (G1)."""
        if trajectory is None:
            return self.cover()
        H = self.horizon
        states, actions = np.asarray(trajectory.states), np.asarray(trajectory.actions)
        rewards = np.asarray(trajectory.rewards, dtype=np.float64)
        whole = states.dtype.kind in "iu" and actions.dtype.kind in "iu"
        require(whole, "states and actions must be integers", (states.dtype.name, actions.dtype.name))
        fits = actions.shape == rewards.shape == (H,) and states.shape in ((H,), (H + 1,))
        require(fits, f"a trajectory must have {H} actions and rewards, and {H} or {H + 1} states", "another length")
        body = np.zeros(3 * H + 1, dtype=LABEL)
        body[: len(states)] = np.clip(states, 0, self.num_states - 1)
        body[H + 1 : 2 * H + 1] = np.clip(actions, 0, self.num_actions - 1)
        body[2 * H + 1 :] = self.rounded(rewards, noise)
        return body.tobytes()

    def rounded(self, rewards: Floats, noise: Noise) -> Ints:
        """Levels of rewards, by stochastic rounding; exact coins from secure noise."""
        scaled = np.where(rewards > 0.0, np.minimum(rewards, 1.0), 0.0) * self.levels  # NaN is not above zero
        whole = np.floor(scaled)
        rest = scaled - whole
        if isinstance(noise, SimulationNoise):
            up = noise.generator.random(rest.shape) < rest
        else:
            up = bernoulli_each(rest, noise)
        return np.asarray(whole + up, dtype=np.int64)

    def check(self, body: bytes) -> None:
        """Raise unless a device could have sent this."""
        _require_labels(body, self.size, self._limits())

    def decode(self, bodies: Sequence[bytes]) -> Decoded:
        """What the people of a stage sent; what slipped past `check` is clipped, so nobody counts for more."""
        for body in bodies:
            require(len(body) == self.size, f"a body must have {self.size} bytes", len(body))
        H = self.horizon
        labels = np.frombuffer(b"".join(bodies), dtype=LABEL).reshape(len(bodies), 3 * H + 1)
        labels = labels[~(labels == COVER).all(axis=1)]
        kept: Ints = np.minimum(labels.astype(np.int64), self._limits() - 1)
        return Decoded(kept[:, : H + 1], kept[:, H + 1 : 2 * H + 1], kept[:, 2 * H + 1 :])

    def decoded(self, users: Trajectories, noise: Noise) -> Decoded:
        """Simulation: the same from trajectories, without bytes."""
        H = self.horizon
        fits = users.actions.shape == users.rewards.shape == (len(users), H)
        fits = fits and users.states.shape in ((len(users), H), (len(users), H + 1))
        require(fits, f"trajectories must have {H} steps", users.actions.shape)
        states = np.zeros((len(users), H + 1), dtype=np.int64)
        states[:, : users.states.shape[1]] = np.clip(users.states, 0, self.num_states - 1)
        actions = np.clip(users.actions, 0, self.num_actions - 1).astype(np.int64)
        return Decoded(states, actions, self.rounded(np.asarray(users.rewards, dtype=np.float64), noise))

    def counts(self, people: Decoded) -> LevelCounts:
        """The exact counts of a stage, in units of 1/levels."""
        H, S, A = self.horizon, self.num_states, self.num_actions
        # (h·S + s)·A + a, and with the successor ((h·S + s)·A + a)·S + s'
        cells = (np.arange(H) * S + people.states[:, :H]) * A + people.actions
        moved = cells * S + people.states[:, 1:]
        visits = np.bincount(cells.ravel(), minlength=H * S * A)
        # Sums of whole numbers below 2^53 are exact in floating point.
        rewards = np.bincount(cells.ravel(), weights=people.levels.ravel(), minlength=H * S * A)
        transitions = np.bincount(moved.ravel(), minlength=H * S * A * S)
        return LevelCounts(
            transitions=self.levels * transitions.reshape(H, S, A, S).astype(np.int64),
            visits=self.levels * visits.reshape(H, S, A).astype(np.int64),
            rewards=rewards.reshape(H, S, A).astype(np.int64),
        )

    def simulated(self, users: Trajectories | ExactCounts, noise: SimulationNoise) -> LevelCounts:
        """Simulation only: the same from trajectories or from exact counts, with the law of devices' rounding."""
        if isinstance(users, Trajectories):
            return self.counts(self.decoded(users, noise))
        sizes = (self.horizon, self.num_states, self.num_actions)
        fits = users.visits.shape == users.rewards.shape == sizes
        require(fits, f"exact counts must have the steps, states and actions {sizes}", users.visits.shape)
        rewards = np.rint(users.rewards).astype(np.int64) * self.levels
        if not users.binary:
            # Every visit of a cell earned R/N: the sum of N rounded ones is N ⌊·⌋ + Binomial(N, remainder).
            mean = np.clip(users.rewards / np.maximum(users.visits, 1), 0.0, 1.0) * self.levels
            rest = mean - np.floor(mean)
            rewards = users.visits * np.floor(mean).astype(np.int64) + noise.generator.binomial(users.visits, rest)
        return LevelCounts(self.levels * users.transitions, self.levels * users.visits, rewards)

    def _limits(self) -> Ints:
        """One above the largest label of every place."""
        H = self.horizon
        sizes = [self.num_states] * (H + 1) + [self.num_actions] * H + [self.levels + 1] * H
        return np.array(sizes, dtype=np.int64)


class LossSums(NamedTuple):
    """What one user adds, in units of 1/levels: sensitive."""

    transitions: Ints
    """[triples]"""
    losses: Ints
    """[pairs]"""

    def __repr__(self) -> str:
        return "LossSums()"  # never their contents


@dataclass(frozen=True, slots=True, kw_only=True)
class LossBody:
    """The public format of a body.

    >>> shape = LayeredShape(horizon=2, pairs=3, pair_of=(0, 0, 1, 2))
    >>> [LossBody(shape=shape, full=full, levels=16).size for full in (True, False)]
    [14, 12]
    """

    shape: LayeredShape
    full: bool
    levels: int

    def __post_init__(self) -> None:
        _ = self._grid  # its checks are ours
        small = self.shape.triples < COVER
        require(small, f"there must be fewer than {COVER} triples: labels have 16 bits", self.shape.triples)

    @property
    def _grid(self) -> TrajectoryBody:
        return TrajectoryBody(horizon=1, num_states=self.shape.pairs, num_actions=1, levels=self.levels)

    @property
    def size(self) -> int:
        """The length in bytes."""
        return LABEL.itemsize * (2 * self.shape.horizon + self._losses)

    @property
    def _losses(self) -> int:
        return self.shape.pairs if self.full else self.shape.horizon

    def encode(self, person: LossUser | TrajectoryLike | None, noise: Noise) -> bytes:
        """One report's body: clipped into the public sizes, NaN is 0; None is a cover report."""
        if person is None:
            return b"\xff" * self.size
        user = person if isinstance(person, LossUser) else self.walked(person, noise)
        H = self.shape.horizon
        pairs, triples = np.asarray(user.pairs), np.asarray(user.triples)
        losses = np.asarray(user.losses, dtype=np.float64)
        whole = pairs.dtype.kind in "iu" and triples.dtype.kind in "iu"
        require(whole, "pairs and triples must be integers", (pairs.dtype.name, triples.dtype.name))
        fits = pairs.shape == triples.shape == (H,) and losses.shape == (self._losses,)
        require(fits, f"a user must have {H} pairs and triples and {self._losses} losses", "another length")
        body = np.zeros(2 * H + self._losses, dtype=LABEL)
        body[:H] = np.clip(pairs, 0, self.shape.pairs - 1)
        body[H : 2 * H] = np.clip(triples, 0, self.shape.triples - 1)
        body[2 * H :] = self._grid.rounded(losses, noise)
        return body.tobytes()

    def walked(self, life: TrajectoryLike, noise: Noise) -> LossUser:
        """What a person met who went through so many steps; it knows the losses of what was done, not of all pairs."""
        require(not self.full, "a trajectory has the losses that were met", "full information")
        (H, S, A), last = self.shape.steps, np.asarray(life.states)
        states, actions = np.clip(last, 0, S - 1), np.clip(np.asarray(life.actions), 0, A - 1)
        fits = actions.shape == np.shape(life.rewards) == (H,) and states.shape in ((H,), (H + 1,))
        require(fits, f"a trajectory must have {H} actions and rewards, and {H} or {H + 1} states", "another length")
        first = coin(A, noise)
        # Pair x A + a of the state x = 1 + h S + s; a pair before the last step has S triples, one there has one.
        pairs = (1 + np.arange(H) * S + states[:H]) * A + actions
        end = A * (1 + (H - 1) * S)
        triples = np.append(pairs[:-1] * S + states[1:H], end * S + pairs[-1] - end)
        rewards = np.asarray(life.rewards, dtype=np.float64)
        losses = 1.0 - np.where(rewards > 0.0, np.minimum(rewards, 1.0), 0.0)
        return LossUser(np.append(first, pairs), np.append(first * S + states[0], triples), np.append(0.0, losses))

    def check(self, body: bytes) -> None:
        """Raise unless a device could have sent this."""
        _require_labels(body, self.size, self._limits())

    def sums(self, body: bytes) -> LossSums:
        """What this user adds; nothing for a cover report, and never more than once to a counter."""
        require(len(body) == self.size, f"a body must have {self.size} bytes", len(body))
        H = self.shape.horizon
        moved = np.zeros(self.shape.triples, dtype=np.int64)
        losses = np.zeros(self.shape.pairs, dtype=np.int64)
        given: NDArray[np.uint16] = np.frombuffer(body, dtype=LABEL)
        if (given == COVER).all():
            return LossSums(moved, losses)
        labels: Ints = np.minimum(given.astype(np.int64), self._limits() - 1)
        moved[labels[H : 2 * H]] = self.levels
        if self.full:
            losses[:] = labels[2 * H :]
        else:
            losses[labels[:H]] = labels[2 * H :]
        return LossSums(moved, losses)

    def _limits(self) -> Ints:
        H = self.shape.horizon
        sizes = [self.shape.pairs] * H + [self.shape.triples] * H + [self.levels + 1] * self._losses
        return np.array(sizes, dtype=np.int64)


def coin(sides: int, noise: Noise) -> int:
    """A uniform number below `sides`."""
    if isinstance(noise, SimulationNoise):
        return int(noise.generator.integers(sides))
    return int(uniform_integers(1, noise, below=sides)[0])
