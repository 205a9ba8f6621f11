"""The world: Markov decision processes and their Gymnasium side."""

from __future__ import annotations

from tacit.environments.tabular import RewardKind, TabularMDP

__all__ = ["RewardKind", "TabularMDP"]
