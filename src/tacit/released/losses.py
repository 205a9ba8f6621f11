"""What a learner of adversarial MDPs sees: noisy counts of a layered world and noisy losses.

A layered world is described by its pairs (x,a), X'A of them, and its triples (x,a,x'); both are numbered from 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tacit.arrays import Floats, Ints
from tacit.errors import InvalidInput, require, require_count

__all__ = ["LayeredShape", "LossQuery", "LossStatistics"]


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
