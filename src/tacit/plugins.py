"""Entry points: what other packages add to the tables of tacit, by name.

A package announces an object in its own metadata, for instance in its pyproject.toml:

    [project.entry-points."tacit.mechanisms"]
    toy = "toy_package:ToyMechanism"

and `named("tacit.mechanisms", table)` finds it beside the built-in rows. Nothing is scanned for a built-in name, and
nothing foreign is imported before it is asked for by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from tacit.errors import InvalidInput

T = TypeVar("T")


class Named(Mapping[str, T]):
    """Built-in rows first, then those of other packages, loaded when they are looked up."""

    def __init__(self, group: str, builtin: Mapping[str, T]) -> None:
        self.group, self.builtin = group, builtin

    def _foreign(self) -> dict[str, EntryPoint]:
        found: dict[str, EntryPoint] = {}
        for point in entry_points(group=self.group):
            if point.name in self.builtin or found.get(point.name, point).value != point.value:
                raise InvalidInput(
                    f"names in the entry point group {self.group} must be new, got '{point.name}' from {point.value}; "
                    "rename it, or uninstall its package"
                )
            found[point.name] = point
        return found

    def __getitem__(self, name: str) -> T:
        if name in self.builtin:
            return self.builtin[name]
        loaded: T = self._foreign()[name].load()
        return loaded

    def __iter__(self) -> Iterator[str]:
        return iter((*self.builtin, *self._foreign()))

    def __len__(self) -> int:
        return len(self.builtin) + len(self._foreign())

    def __contains__(self, name: object) -> bool:
        return name in self.builtin or name in self._foreign()


def named(group: str, builtin: Mapping[str, T]) -> Mapping[str, T]:
    """A table that also holds what other packages registered under this entry point group.

    >>> table = named("tacit.nothing", {"one": 1})
    >>> table["one"], list(table), "two" in table
    (1, ['one'], False)
    """
    return Named(group, builtin)
