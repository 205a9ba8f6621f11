"""Bodies of users of an adversarial MDP: visited pairs and triples, and losses on a public grid.

    H pairs | H triples | losses in units of 1/levels: of all X'A pairs (full information), or of the H visited (bandit)

A trajectory through a world of steps is reported as one through that world `unrolled`: its losses are 1 - r, and the
action in the added first state, where all actions are alike, is a coin that nothing else depends on.

16-bit labels, little endian; all 0xFFFF: a cover report. Losses are rounded stochastically and exactly, as rewards are
(`tacit.statistics.trajectory_body`). Whoever reports a pair or a triple twice counts once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.arrays import Ints
from tacit.data.trajectories import LossUser, TrajectoryLike
from tacit.errors import InvalidInput, require
from tacit.noise.exact import uniform_integers
from tacit.protocol import Noise
from tacit.randomness import SimulationNoise
from tacit.released.losses import LayeredShape
from tacit.statistics.trajectory_body import COVER, TrajectoryBody

LABEL: Final = np.dtype("<u2")


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
        require(len(body) == self.size, f"a body must have {self.size} bytes", len(body))
        labels: NDArray[np.uint16] = np.frombuffer(body, dtype=LABEL)
        inside = bool((labels < self._limits()).all()) or bool((labels == COVER).all())
        if not inside:
            raise InvalidInput("the labels of a body must lie in the public sizes; encode with the channel's own")

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
