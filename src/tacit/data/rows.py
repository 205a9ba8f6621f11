"""Sensitive: rows of features with the action and the reward of each person. They leave only through a release."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tacit.arrays import Floats, Ints


class Row(NamedTuple):
    """One person."""

    features: Floats
    """[d]: of norm at most 1; where all actions share a parameter, of the chosen action."""
    action: int
    reward: float
    """In [0, 1]."""

    def __repr__(self) -> str:
        return "Row(...)"  # never what it holds


class Rows(NamedTuple):
    """A batch of people. A release clips what is out of range; it raises on shapes and types only.

    >>> import numpy as np
    >>> Rows(np.zeros((3, 2)), np.zeros(3, dtype=np.int64), np.ones(3)).users
    3
    """

    features: Floats
    """[n,d]: rows of norm at most 1; where all actions share a parameter, those of the chosen actions."""
    actions: Ints
    """[n]"""
    rewards: Floats
    """[n]: in [0, 1]."""

    @property
    def users(self) -> int:
        """How many people: n."""
        return len(self.actions)

    def people(self) -> Iterator[Row]:
        """One person after the other."""
        for x, action, reward in zip(self.features, self.actions, self.rewards, strict=True):
            yield Row(x, int(action), float(reward))

    def __repr__(self) -> str:
        return f"Rows({self.users} people)"  # never what they hold
