"""Modules under their names of version 0.8, imported with a warning; and another project of the name `tacit`."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Final

__all__ = ["find_renamed", "warn_of_foreign"]

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


def warn_of_foreign(package: Sequence[str]) -> None:
    """Warn if another project's distribution `tacit` has its files where this package's files are.

    The distribution of this package is `tacit-rl`. Both would install a package `tacit`: whichever was installed last
    has overwritten files of the other one.
    """
    for site in {Path(place).parent for place in package}:
        for metadata in site.glob("tacit-[0-9]*.dist-info/METADATA"):
            if "differential privacy" not in metadata.read_text(encoding="utf-8", errors="replace").lower():
                name = metadata.parent.name.removesuffix(".dist-info")
                warnings.warn(
                    f"another project's distribution, {name}, is installed in the place of this package: run "
                    "'pip uninstall tacit' and install tacit-rl anew",
                    RuntimeWarning,
                    stacklevel=3,
                )
