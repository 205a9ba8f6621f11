"""What fits on a screen: no function is longer than 80 lines, and every benchmark can be run."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST = 80


def functions(tree: ast.Module) -> dict[str, int]:
    """The length of every function, decorators and docstring included."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    starts = [min([node.lineno, *(each.lineno for each in node.decorator_list)]) for node in found]
    return {
        f"{node.name}, line {node.lineno}": (node.end_lineno or node.lineno) - start + 1
        for node, start in zip(found, starts, strict=True)
    }


def test_lengths_are_counted_with_decorators_and_inner_functions() -> None:
    """So that the next test can fail."""
    source = "@staticmethod\ndef outer():\n    def inner():\n        pass\n    return inner\n"
    assert functions(ast.parse(source)) == {"outer, line 2": 5, "inner, line 3": 2}


def test_no_function_is_longer_than_a_screen() -> None:
    """In all of src, papers included."""
    long = {
        f"{path.relative_to(ROOT)}: {name}": length
        for path in sorted((ROOT / "src").rglob("*.py"))
        for name, length in functions(ast.parse(path.read_text("utf-8"))).items()
        if length > MOST
    }
    assert long == {}


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("bench_*.py")), ids=lambda path: path.stem)
def test_every_benchmark_has_a_run(path: Path) -> None:
    """`python -m benchmarks` calls it without arguments."""
    runs = [node for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.FunctionDef)]
    (run,) = [node for node in runs if node.name == "run"]
    assert not run.args.args
    assert not run.args.kwonlyargs
