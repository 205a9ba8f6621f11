"""The Gymnasium ids of the named environments, registered without loading any of them.

`import tacit` registers them, at once where Gymnasium is loaded already and otherwise as soon as it is: Gymnasium alone
takes longer to load than all that `import tacit` does. Gymnasium 1 asks no package for its ids (the entry point that
earlier ones had is gone), so in a process without tacit `gymnasium.make("tacit:tacit/RiverSwim-v0")` works alone:
Gymnasium imports what stands before the colon.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

GYMNASIUM_IDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "tacit/ContextualBandit-v0": "contextual-bandit",
        "tacit/EVCharging-v0": "ev-charging",
        "tacit/HardTree-v0": "hard-tree",
        "tacit/RandomMDP-v0": "random-mdp",
        "tacit/Recommender-v0": "recommender",
        "tacit/RiverSwim-v0": "riverswim",
        "tacit/Taxi-v0": "taxi",
        "tacit/Treatment-v0": "treatment",
        "tacit/TreatmentBandit-v0": "treatment-bandit",
    }
)
"""Of the named environments that are a `TabularMDP`; registering costs nothing until one of them is made."""


def register_all() -> None:
    """Register every id with Gymnasium; ids that are registered already stay as they are."""
    from gymnasium.envs.registration import register, registry

    for gymnasium_id, name in GYMNASIUM_IDS.items():
        if gymnasium_id not in registry:
            register(id=gymnasium_id, entry_point="tacit.environments.gym:named_env", kwargs={"name": name})


def register_when_loaded() -> None:
    """Register every id now, or directly after Gymnasium is imported."""
    if "gymnasium" in sys.modules:
        register_all()
    elif not any(isinstance(finder, _WhenLoaded) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WhenLoaded())


class _WhenLoaded:
    """Waits for the import of Gymnasium, once, and leaves all finding and loading to those behind it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        """Where Gymnasium is, with its ids registered after it was loaded; of anything else it knows nothing."""
        if fullname != "gymnasium":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                register_all()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
