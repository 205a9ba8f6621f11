"""Every benchmark can be run."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("bench_*.py")), ids=lambda path: path.stem)
def test_every_benchmark_has_a_run(path: Path) -> None:
    """`python -m benchmarks` calls it without arguments."""
    runs = [node for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.FunctionDef)]
    (run,) = [node for node in runs if node.name == "run"]
    assert not run.args.args
    assert not run.args.kwonlyargs
