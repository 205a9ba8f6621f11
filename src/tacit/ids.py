"""The Gymnasium ids of the named environments, registered without loading any of them.

`import tacit` registers them where Gymnasium is loaded already, so `gymnasium.make("tacit:tacit/RiverSwim-v0")` works
alone: Gymnasium imports what stands before the colon. `import tacit.environments` registers them always.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

__all__ = ["GYMNASIUM_IDS", "TITRATION_ID", "WATCHING_ID", "register_all"]

GYMNASIUM_IDS: Final[Mapping[str, str]] = MappingProxyType(
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
"""Of the named environments; registering costs nothing until one of them is made."""
TITRATION_ID: Final = "tacit/Titration-v0"
"""A world without a table: insulin titration on virtual patients."""
WATCHING_ID: Final = "tacit/Watching-v0"
"""A world without a table: sessions of people who watch videos."""
WITHOUT_TABLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        TITRATION_ID: "tacit.environments.glucose.titration:Titration",
        WATCHING_ID: "tacit.environments.watching.world:Watching",
    }
)
"""Where single and vector environments of these worlds are: this name with Env and VectorEnv behind it."""


def register_all() -> None:
    """Register every id with Gymnasium; ids that are registered already stay as they are."""
    from gymnasium.envs.registration import register, registry

    for gymnasium_id, name in GYMNASIUM_IDS.items():
        if gymnasium_id not in registry:
            register(id=gymnasium_id, entry_point="tacit.environments.gym:named_env", kwargs={"name": name})
    for gymnasium_id, place in WITHOUT_TABLES.items():
        if gymnasium_id not in registry:
            register(id=gymnasium_id, entry_point=f"{place}Env", vector_entry_point=f"{place}VectorEnv")
