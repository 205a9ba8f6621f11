"""What a learner of adversarial MDPs sees: noisy counts of a layered world and noisy losses.

A layered world is described by its pairs (x,a), X'A of them, and its triples (x,a,x'); both are numbered from 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.errors import InvalidInput, require, require_count


class LossQuery(NamedTuple):
    """The query for counts and losses: of all pairs (full information), or of the pairs that a user met (bandit)."""

    full: bool

    @staticmethod
    def words() -> str:
        """What is asked, for refusals."""
        return "counts and losses"


class LossStatistics(NamedTuple):
    """Released after every user."""

    transitions: Floats
    """[triples]: Ñ(x,a,x') over all users so far."""
    visits: Floats
    """[pairs]: Ñ(x,a) over all users so far."""
    losses: Floats
    """[pairs]: full information, Σ_k l̃_k(x,a); bandit feedback, this user's noisy l_k(x,a) 1{(x,a) visited}."""
    variance: Floats
    """[3]: noise variance of one entry of each, as of now."""
    users: Ints
    """[1]: how many users are in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayeredShape:
    """The public shape of a layered world: H steps, X'A pairs, and the pair that each triple belongs to.

    >>> LayeredShape(horizon=2, pairs=2, pair_of=(0, 0, 1)).triples
    3
    """

    horizon: int
    pairs: int
    pair_of: tuple[int, ...]

    def __post_init__(self) -> None:
        require_count("horizon", self.horizon)
        require_count("pairs", self.pairs)
        if not self.pair_of or not all(0 <= pair < self.pairs for pair in self.pair_of):
            raise InvalidInput(f"every triple must belong to one of the {self.pairs} pairs")
        require(len(set(self.pair_of)) == self.pairs, "every pair must have a successor", len(set(self.pair_of)))

    @property
    def staged(self) -> bool:
        """A layer is a step: statistics are always kept apart by step."""
        return True

    @property
    def triples(self) -> int:
        """How many (x,a,x') there are."""
        return len(self.pair_of)

    @property
    def steps(self) -> tuple[int, int, int]:
        """Steps, states and actions of the world that this one is `unrolled` from."""
        states, steps = self.pair_of.count(0), self.horizon - 1
        actions = self.pairs // (1 + states * steps)
        own = min(steps, states - 1, actions) > 0 and self == unrolled(steps, states, actions)
        require(own, "a world of steps has all states at every step, and two at least", (self.horizon, self.pairs))
        return steps, states, actions


@lru_cache(maxsize=64)
def unrolled(horizon: int, num_states: int, num_actions: int) -> LayeredShape:
    """The layered world of so many steps: a first state that leads to where people start, every state at every step.

    >>> unrolled(1, 2, 1), unrolled(3, 4, 2).steps
    (LayeredShape(horizon=2, pairs=3, pair_of=(0, 0, 1, 2)), (3, 4, 2))
    """
    fans = [num_states] * (num_actions * (1 + num_states * (horizon - 1))) + [1] * (num_states * num_actions)
    pair_of = np.repeat(np.arange(len(fans)), fans).tolist()
    return LayeredShape(horizon=horizon + 1, pairs=len(fans), pair_of=tuple(pair_of))


def empty_losses(shape: LayeredShape) -> LossStatistics:
    """Before anybody came."""
    T, P = shape.triples, shape.pairs
    return LossStatistics(np.zeros(T), np.zeros(P), np.zeros(P), np.zeros(3), np.zeros(1, dtype=np.int64))
