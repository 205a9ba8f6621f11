"""Every benchmark runs, small: one ended in an error while nothing ran it, and its table was never printed."""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from typing import Any, Final

import pytest

NAMES: Final = sorted(
    path.stem.removeprefix("bench_") for path in (Path(__file__).parents[2] / "benchmarks").glob("bench_*.py")
)
WORLD: Final = "riverswim:states=3,horizon=3"
CELL: Final = {"A": 2, "H": 2, "K": 500, "estimate": True}
QUICK: Final[dict[str, dict[str, Any]]] = {
    "consistency": {"ROW_LENGTHS": (4, 8)},
    "gradient": {"USERS": 2000},
    "titration": {"WEEKS": 4, "MINUTES": 20},
    "warm_start": {"WORLDS": {"treatment-bandit": 300}, "LOGS": 3, "SEEDS": 1, "EPISODES": 200},
    "off_policy": {"REPLICATES": 4, "COMPARED": 2, "CASES": [("one step, lots of 1/2", "snips", "column", "central")]},
    "offline": {"WORLDS": ("treatment-bandit",), "SIZES": (300,), "LOGS": 2},
    "tokens": {"TOKENS": 4},
    "unit_costs": {"PEOPLE": 4000, "REPORTS": 40, "MESSAGES": 500, "_taking": lambda: {"name": "take", "ratio": None}},
}
"""Constants that make a benchmark small; `_taking` floods a process of its own, as the tests of chaos do."""
SLOW: Final[dict[str, dict[str, Any]]] = {
    "adversarial": {"SIZES": ((4, 3, 2),)},
    "central": {"EPISODES": 300},
    "certify": {"MECHANISMS": {"central": ("batched",), "local": ("rr",), "shuffle": (None,)}},
    "exact_samplers": {"DRAWS": 2000, "SCALES": (20,)},
    "growth": {
        "counting": lambda: [("bucb", "central")],
        "AXES": {"S": (2, 3, 4), "A": (2, 3, 4), "H": (2, 3, 4), "K": (20, 40, 80)},
        "BASE": {"S": 2, "A": 2, "H": 2, "K": 20},
        "HEAVY": {"S": 2, "A": 2, "H": 2, "K": 20},
        "HEAVY_AXES": {"S": (2, 3), "A": (2, 3), "H": (2, 3)},
    },
    "features": {},
    "horizon": {"USERS": 20, "REPEATS": 2},
    "linear": {"PEOPLE": 300, "ALONE": 100},
    "local": {"EPISODES": 500},
    "logs": {"EPISODES": 500},
    "plan": {"STUDIES": 4, "WORLDS": (("treatment-bandit", "uniform", "central"),)},
    "prompt": {"ROUNDS": 1, "PEOPLE": 300, "LARGE": 4, "EPSILONS": (1.0,), "COLD": ()},
    "scaling": {"SIZES": {"states": (3, 4), "actions": (2, 3), "horizon": (3, 4)}, "LONG": (3, 4, 5)},
    "sealing": {"MANY": 2000, "MESSAGES": 2000},
    "shuffle_learners": {"SIZES": ((4, 2, 6),), "GROWTH": {"S": ((4, 2, 6), (6, 2, 6))}, "EPISODES": 3000},
    "sizes": {
        "counting": lambda: [("bucb", "central")],
        "FIFTY": {"S": 50, **CELL},
        "TWO_HUNDRED": {"S": 200, **CELL},
    },
    "study": {"MANY": 60},
    "study_stage": {"PEOPLE": 200, "DIFFERENT": 20},
    "support": {"EPISODES": 2000, "WORLDS": ("riverswim",), "SHORT": 0.01, "MOST": 1},
    "sweep": {"CELLS": 200},
}
IMPORTED: Final = ("browser", "dashboard", "loop")
"""Chromium, or minutes even when small: only imported here."""


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_is_imported_with_what_it_measures(name: str) -> None:
    assert callable(importlib.import_module(f"benchmarks.bench_{name}").run)
    assert sum(name in part for part in (QUICK, SLOW, IMPORTED)) == 1, "say how it is made small"


def run_small(name: str, constants: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    module = importlib.import_module(f"benchmarks.bench_{name}")
    for constant, small in constants.items():
        assert hasattr(module, constant), f"bench_{name} has no {constant} any more"
        monkeypatch.setattr(module, constant, small)
    rows = module.run()
    assert rows, "a benchmark measures something"
    for row in rows:
        assert row["name"]
        assert row.get("ratio") is None or math.isfinite(row["ratio"])
    assert len({row["name"] for row in rows}) == len(rows)
    return rows


@pytest.mark.parametrize("name", QUICK)
def test_benchmarks_run_small(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = run_small(name, QUICK[name], monkeypatch)
    if name == "unit_costs":
        assert {f"encode {kind}" for kind in ("central", "local", "shuffle", "local return")} <= {
            r["name"] for r in rows
        }
        assert {"count central", "count local", "seal message"} <= {row["name"] for row in rows}


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_slower_benchmarks_run_small(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run_small(name, SLOW[name], monkeypatch)
