"""The world: Markov decision processes and their Gymnasium side.

Importing this package registers the named environments with Gymnasium, from `tacit/RiverSwim-v0` on.
"""

from __future__ import annotations

from tacit.environments.gym import GYMNASIUM_IDS, TabularEnv, register_all
from tacit.environments.layered import LayeredMDP
from tacit.environments.live import LiveWorld, live
from tacit.environments.registry import EnvironmentInfo, list_environments, make
from tacit.environments.tabular import RewardKind, TabularMDP

__all__ = [
    "GYMNASIUM_IDS",
    "EnvironmentInfo",
    "LayeredMDP",
    "LiveWorld",
    "RewardKind",
    "TabularEnv",
    "TabularMDP",
    "list_environments",
    "live",
    "make",
    "register_all",
]

register_all()
