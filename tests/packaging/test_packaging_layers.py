"""The allowed-imports table of decision 0001 is read here and enforced on every import in src."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
TABLE = ROOT / "docs" / "decisions" / "0001-folders-are-the-data-flow.md"
PUBLIC_SIDE = ("learners", "planning", "released", "protocol", "accounting")
SENSITIVE = ("data", "environments")
TOP = ("tacit", "__main__")
"""The package's own front door and `python -m tacit`, which may open every room."""


@cache
def read_table() -> tuple[dict[str, set[str]], set[str]]:
    """Room -> rooms it may import, and the leaves."""
    text = TABLE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|$", text, flags=re.MULTILINE)
    leaves = re.search(r"^Leaves: (.*)\.$", text, flags=re.MULTILINE)
    assert leaves is not None
    return {room: set(re.findall(r"`(\w+)`", listed)) for room, listed in rows}, set(re.findall(r"`(\w+)`", leaves[1]))


@cache
def imported(source: str) -> set[str]:
    """Every dotted name that a module imports, anywhere in it; `from a import b` gives a and a.b."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide which room they enter"
            found.add(node.module or "")
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__"):
            found.update(a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str))
    return found


@cache
def imports(source: str) -> set[str]:
    """Those of them that are of the package."""
    return {name for name in imported(source) if name == "tacit" or name.startswith("tacit.")}


def room_of(module: str) -> str:
    """`tacit.data.world` lives in `data`; the package itself is `tacit`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def forbidden(module: str, source: str) -> list[str]:
    """The arrows of this module that the table does not allow."""
    table, leaves = read_table()
    room = room_of(module)
    if room in TOP:
        return []
    allowed = leaves | {room} | (set() if room in leaves else table[room])
    known = allowed | set(table) | leaves
    wrong = []
    for name in sorted(imports(source)):
        target = room_of(name)
        # `from tacit import data` enters the room data; `from tacit import run` enters the front door.
        if name == "tacit" and any(room_of(other) in known for other in imports(source) if other != "tacit"):
            continue
        if target not in allowed:
            wrong.append(f"{module} imports {name}: {room} may import {', '.join(sorted(allowed - leaves - {room}))}")
    return wrong


def modules() -> dict[str, str]:
    """Every module of src by its dotted name, with its text."""
    found = {}
    for path in sorted((SOURCE / "tacit").rglob("*.py")):
        parts = list(path.relative_to(SOURCE).with_suffix("").parts)
        if parts[-1] == "__init__":
            parts.pop()
        found[".".join(parts)] = path.read_text(encoding="utf-8")
    return found


MODULES = modules()


def test_every_import_points_where_the_table_says():
    assert len(MODULES) > 100
    assert [wrong for module, source in MODULES.items() for wrong in forbidden(module, source)] == []


def test_the_product_imports_nothing_that_is_in_no_wheel():
    beside = {"papers", "mutants", "tests", "benchmarks", "chaos"}
    found = {module: {name.partition(".")[0] for name in imported(source)} for module, source in MODULES.items()}
    assert {module: names & beside for module, names in found.items() if names & beside} == {}
    assert "papers.cards" in imported("def f():\n    import papers.cards")


def test_every_room_is_in_the_table_and_the_table_is_acyclic():
    table, leaves = read_table()
    rooms = {room_of(module) for module in MODULES} - set(TOP)
    assert rooms <= set(table) | leaves
    assert len(table) >= 12
    placed: list[str] = []
    waiting = dict(table)
    while waiting:
        ready = [room for room, needs in waiting.items() if needs <= set(placed)]
        assert ready, f"a cycle among {sorted(waiting)}"
        placed.extend(ready)
        for room in ready:
            del waiting[room]
    for room in PUBLIC_SIDE:
        assert not table[room] & set(SENSITIVE)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("tacit.learners.bad", "from tacit.data.trajectories import Trajectories"),
        ("tacit.learners.bad", "def f():\n    import tacit.environments.tabular"),
        ("tacit.learners.bad", "if TYPE_CHECKING:\n    from tacit.data import counts"),
        ("tacit.planning.bad", "from tacit import data"),
        ("tacit.planning.bad", "from tacit.release.none import Unprotected"),
        ("tacit.accounting.bad", "from tacit import environments as e, errors"),
        ("tacit.released.bad", "import importlib\nimportlib.import_module('tacit.data.world')"),
        ("tacit.noise.bad", "from tacit.released.counts import CountShape"),
        ("tacit.data.bad", "from tacit.accounting.claims import PrivacyClaim"),
        ("tacit.simulation.bad", "from tacit.runs.runner import run"),
        ("tacit.runs.bad", "from tacit.cli import main"),
        ("tacit.runs.bad", "from tacit.audit.conformance import check_privatizer"),
        ("tacit.errors", "from tacit.learners import contract"),
        ("tacit.learners.bad", "from tacit import simulate"),
        ("tacit.protocol", "from tacit.data.trajectories import Trajectories"),
        ("tacit.data.bad", "from tacit.protocol import Plan"),
    ],
)
def test_a_forbidden_arrow_is_found(module, source):
    assert forbidden(module, source)


def test_relative_imports_are_refused():
    with pytest.raises(AssertionError, match="relative"):
        imports("from ..data import world")


def reach(start: str, texts: dict[str, str]) -> set[str]:
    """Every module that importing `start` can load, however indirectly (the lazy front door left out)."""
    seen: set[str] = set()
    todo = [start]
    while todo:
        module = todo.pop()
        if module in seen or module not in texts or module == "tacit":
            continue
        seen.add(module)
        todo.extend(imports(texts[module]))
        todo.append(module.rpartition(".")[0])
    return seen


@pytest.mark.parametrize("room", PUBLIC_SIDE)
def test_the_public_side_never_reaches_the_sensitive_rooms(room):
    for module in MODULES:
        if room_of(module) == room:
            touched = {room_of(other) for other in reach(module, MODULES)}
            assert not touched & set(SENSITIVE), f"{module} reaches {touched & set(SENSITIVE)}"


def test_an_indirect_leak_is_found():
    texts = {
        "tacit.learners.bad": "from tacit.planning.helper import f",
        "tacit.planning.helper": "def f():\n    from tacit.policies import g",
        "tacit.policies": "from tacit.data.world import World",
        "tacit.data.world": "",
    }
    assert "data" in {room_of(module) for module in reach("tacit.learners.bad", texts)}


def test_no_module_gives_a_constant_two_values():
    """Where files are merged, the second value would hold for the functions of the first file, too."""
    for path in sorted((ROOT / "src" / "tacit").rglob("*.py")):
        bound: list[str] = []
        for node in ast.parse(path.read_text("utf-8")).body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            parts = [part for one in targets for part in (one.elts if isinstance(one, ast.Tuple) else [one])]
            bound += [part.id for part in parts if isinstance(part, ast.Name)]
        assert sorted(bound) == sorted(set(bound)), path.name
