"""Sequences of losses: what an adversary hands out block by block, and tables of a user's own, checked."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.environments.validation import floats, frozen
from tacit.errors import InvalidInput, require, require_count

__all__ = ["Adversary", "LossTable"]

Floats = NDArray[np.float64]
Block = Callable[[int, int, np.random.Generator], Floats]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Adversary:
    """All losses of a run, made block by block."""

    name: str
    episodes: int
    mean: Floats
    """[pairs]: the average expected loss over all episodes."""
    described: str
    """What decides its losses, apart from the world and the coins: a specification, or the fingerprint of a table."""
    _block: Block = field(repr=False)

    def losses(self, first: int, count: int, coins: np.random.Generator) -> Floats:
        """The losses [count, pairs] of the episodes first, ..., first + count - 1 (counted from 0), in order.

        Coins are drawn from `coins`: successive blocks from one generator are one sequence, however it is cut.
        """
        require_count("first", first, least=0)
        within = first + require_count("count", count) <= self.episodes
        require(within, f"{self.name} has losses for {self.episodes} episodes", given=first + count)
        return self._block(first, count, coins)


@dataclass(frozen=True, slots=True, eq=False)
class LossTable:
    """Losses of your own, [episodes, states, actions] or [episodes, pairs]; a row for the last state may be there.

    >>> LossTable(np.full((5, 3, 2), 0.5))
    LossTable(5 episodes, 6 losses each)
    >>> LossTable([[0.5, 1.5]])
    Traceback (most recent call last):
    ...
    tacit.errors.InvalidInput: losses must be finite and lie in [0, 1], episode 0 has 1.5
    """

    losses: Floats
    _fingerprint: str = field(default="", init=False)

    def __init__(self, losses: ArrayLike) -> None:
        table = floats("losses", losses)
        require(table.ndim in (2, 3) and table.size > 0, "losses must be [episodes, states, actions]", table.shape)
        bad = np.argwhere(~((table >= 0.0) & (table <= 1.0)))
        if bad.size:
            index = tuple(bad[0])
            raise InvalidInput(f"losses must be finite and lie in [0, 1], episode {index[0]} has {table[index]!s}")
        flat = frozen(table.reshape(len(table), -1))
        object.__setattr__(self, "losses", flat)
        digest = hashlib.sha256(repr(flat.shape).encode() + flat.astype("<f8").tobytes()).hexdigest()
        object.__setattr__(self, "_fingerprint", digest)

    def fingerprint(self) -> str:
        """SHA-256 of the losses."""
        return self._fingerprint

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LossTable) and self._fingerprint == other._fingerprint

    def __hash__(self) -> int:
        return hash(self._fingerprint)

    def __repr__(self) -> str:
        return f"LossTable({len(self.losses)} episodes, {self.losses.shape[1]} losses each)"

    def __reduce__(self) -> tuple[Any, ...]:
        return LossTable, (np.asarray(self.losses),)
