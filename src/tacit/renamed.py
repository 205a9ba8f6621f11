"""Modules under their names of version 0.8: imported as before, with a warning that names the new one."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

RENAMED: Final = {
    "tacit.mechanisms.noise": "tacit.noise",
    "tacit.mechanisms": "tacit.noise",
    "tacit.privatizers.contract": "tacit.release.counts_contract",
    "tacit.privatizers.statistics": "tacit.statistics.count_vectors",
    "tacit.privatizers": "tacit.release",
    "tacit.loop": "tacit.simulation",
    "tacit.checks": "tacit.audit",
}
"""Old name -> new name; the first one that fits counts."""


class _Renamed(MetaPathFinder, Loader):
    """Finds what no other finder does: modules that are called otherwise now."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A spec of the old name, if it is one."""
        for old in RENAMED:
            if fullname == old or fullname.startswith(f"{old}."):
                return ModuleSpec(fullname, self, is_package=True)
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Put the module that has the new name in the place of the old one."""
        name = module.__name__
        old = next(old for old in RENAMED if name == old or name.startswith(f"{old}."))
        new = RENAMED[old] + name.removeprefix(old)
        warnings.warn(f"{name} is called {new} now; the old name goes with version 0.10", DeprecationWarning, 2)
        sys.modules[name] = import_module(new)


def find_renamed() -> None:
    """Have old names found; nothing is imported before one is asked for."""
    if not any(isinstance(finder, _Renamed) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Renamed())  # before the one that finds files below a renamed package
