"""`GUARDS.md` is true: what it makes slow exists, and what it names as quick is, and is run with every change."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from guards import COLLECTED, Guard, guards

TESTS = Path(__file__).parent


def functions() -> set[str]:
    """Every test function, wherever it is."""
    trees = [ast.parse(path.read_text("utf-8")) for path in TESTS.rglob("test_*.py")]
    return {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def wrong(
    listed: dict[str, Guard],
    written: set[str],
    collected: dict[str, list[tuple[str, bool]]],
) -> list[str]:
    """What the table says that is not so. Cases are known where their file was collected."""
    found = []
    for name, (cases, beside, promise) in listed.items():
        if name not in written:
            found.append(f"{name} is no test")
        known = {case for case, _ in collected.get(name, [])}
        found += [f"{name} has no case {case}" for case in cases or () if known and case not in known]
        if not beside or not promise:
            found.append(f"{name} says nothing quick, or no promise")
        for quick in beside:
            sibling, _, case = quick.removesuffix("]").partition("[")
            if sibling not in written:
                found.append(f"{sibling} is no test")
            rows = [slow for one, slow in collected.get(sibling, [(case, False)]) if not case or one == case]
            if not rows or all(rows):
                found.append(f"{quick} is not run with every change")
    return found


def test_the_table_of_guards_is_true(pytestconfig: pytest.Config) -> None:
    assert len(guards()) > 10
    assert wrong(guards(), functions(), pytestconfig.stash[COLLECTED]) == []


def test_a_row_that_is_not_so_is_found() -> None:
    written, collected = {"test_a", "test_b"}, {"test_a": [("1", True), ("2", False)], "test_b": [("", False)]}
    assert wrong({"test_a": Guard(("1",), ("test_a[2]", "test_b"), "it holds")}, written, collected) == []
    for name, row in (
        ("test_c", Guard(None, ("test_b",), "it holds")),
        ("test_a", Guard(("3",), ("test_b",), "it holds")),
        ("test_a", Guard(("1",), ("test_a[1]",), "it holds")),
        ("test_a", Guard(("1",), ("test_c",), "it holds")),
        ("test_a", Guard(("1",), (), "it holds")),
    ):
        assert wrong({name: row}, written, collected)
