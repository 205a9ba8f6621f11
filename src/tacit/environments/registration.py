"""The Gymnasium ids of the named environments, as strings: registering costs nothing until one of them is made."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gymnasium.envs.registration import register, registry

__all__ = ["GYMNASIUM_IDS", "register_all"]

GYMNASIUM_IDS: Mapping[str, str] = MappingProxyType(
    {
        "tacit/ContextualBandit-v0": "contextual-bandit",
        "tacit/EVCharging-v0": "ev-charging",
        "tacit/HardTree-v0": "hard-tree",
        "tacit/RandomMDP-v0": "random-mdp",
        "tacit/Recommender-v0": "recommender",
        "tacit/RiverSwim-v0": "riverswim",
        "tacit/Treatment-v0": "treatment",
        "tacit/TreatmentBandit-v0": "treatment-bandit",
    }
)


def register_all() -> None:
    """Register every id with Gymnasium; ids that are registered already stay as they are."""
    for gymnasium_id, name in GYMNASIUM_IDS.items():
        if gymnasium_id not in registry:
            register(id=gymnasium_id, entry_point="tacit.environments.gym:named_env", kwargs={"name": name})
