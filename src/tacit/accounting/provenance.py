"""Whose code a guarantee rests on: classes of other packages, and whether their conformance has passed here.

A mechanism, privatizer or event of another package states its own noise and its own cost, and the accountant computes
with what it states. A certificate therefore names the package, until `tacit.audit.check_privatizer` has passed for
that class on this machine. A pass is kept in the user's state directory and holds for one class in one version of its
package, with the same files, under the same version of tacit.

What is put together from tacit's own classes, by whomever, is certified by them and names no package. What this cannot
see: code that lies about its own module, and a package that changes because of what it imports.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution, distribution, entry_points, packages_distributions
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

import numpy as np

from tacit._version import __version__

GROUPS: Final = ("tacit.mechanisms", "tacit.privatizers", "tacit.events")
OWN: Final = "tacit"
KNOWN: Final = frozenset((*sys.stdlib_module_names, "numpy", "numba"))
"""Classes of these modules state no noise of their own."""
LEAVES: Final = (str, bytes, int, float, complex, np.ndarray, np.generic, FunctionType, ModuleType)


def unchecked(*parts: Any) -> tuple[str, ...]:
    """The packages of whose classes these parts are made, and whose conformance has not passed on this machine.

    >>> unchecked(None, ((1, 2), 3))
    ()
    """
    return tuple(sorted({_package(kind)[0] for kind in _foreign(parts) if not _passed(kind)}))


def record_pass(*parts: Any) -> None:
    """Keep that conformance has passed for the classes of these parts; where nothing can be kept, nothing is."""
    for kind in _foreign(parts):
        key = _key(kind)
        if key is None:
            continue
        path = _place(key)
        made = path.with_name(f".tmp-{secrets.token_hex(8)}")
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with made.open("x", encoding="utf-8") as file:
                json.dump(key, file, sort_keys=True)
                file.flush()
                os.fsync(file.fileno())
            made.replace(path)


def _foreign(parts: Any) -> set[type]:
    return {kind for kind in _classes(parts) if kind.__module__.partition(".")[0] != OWN}


def _classes(part: Any) -> Iterator[type]:
    """The classes of a part and of all that it holds: in fields, attributes, slots, mappings and sequences."""
    waiting, seen = [part], set()
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, LEAVES):
            continue
        seen.add(id(one))
        if isinstance(one, Mapping):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, tuple | list | set | frozenset):
            waiting += one
        kind = one if isinstance(one, type) else type(one)
        if kind.__module__.partition(".")[0] in KNOWN:
            continue
        yield kind
        if kind is not one:
            slots = {name for base in kind.__mro__ for name in getattr(base, "__slots__", ())}
            waiting += [getattr(one, name, None) for name in (*slots, *getattr(one, "__dict__", ()))]


def _passed(kind: type) -> bool:
    key = _key(kind)
    with contextlib.suppress(OSError, ValueError):
        return key is not None and json.loads(_place(key).read_text(encoding="utf-8")) == key
    return False


def _key(kind: type) -> dict[str, str] | None:
    """What a pass holds for; None for a class without files, which cannot be known again."""
    files = _files(kind.__module__.partition(".")[0])
    if not files:
        return None
    digest = hashlib.sha256()
    for name, path in files:
        digest.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    package, version = _package(kind)
    names = {"package": package, "version": version, "class": f"{kind.__module__}:{kind.__qualname__}"}
    return {**names, "digest": digest.hexdigest(), "tacit": __version__}


def _files(top: str) -> list[tuple[str, Path]]:
    """The files of a top-level module or package, by relative name."""
    module = sys.modules.get(top)
    roots = [Path(place) for place in getattr(module, "__path__", ())]
    if not roots:
        own = getattr(module, "__file__", None)
        return [] if own is None else [(Path(own).name, Path(own))]
    found = ((str(path.relative_to(root)), path) for root in roots for path in root.rglob("*") if path.is_file())
    return sorted((name, path) for name, path in found if "__pycache__" not in path.parts)


def _package(kind: type) -> tuple[str, str]:
    """Name with version of the package that a class is from, and its version; a module where there is no package."""
    top = kind.__module__.partition(".")[0]
    points = (point for group in GROUPS for point in entry_points(group=group))
    found: Distribution | None = next((one.dist for one in points if one.module.partition(".")[0] == top), None)
    if found is None and (named := packages_distributions().get(top)):
        found = distribution(named[0])
    return (top, "") if found is None else (f"{found.name} {found.version}", found.version)


def _place(key: dict[str, str]) -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    name = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    return Path(state, "tacit", "conformance", f"{name}.json")
