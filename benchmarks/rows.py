"""Rows of benchmarks in words: whether a target is met, and numbers as they are shown."""

from __future__ import annotations

from typing import Any


def met(row: dict[str, Any]) -> bool | None:
    """Whether a row met its target; None where there is nothing to meet."""
    if row.get("ratio") is None or row.get("target") is None:
        return None
    ratio, target = float(row["ratio"]), float(row["target"])
    return ratio <= target if row.get("better", "higher") == "lower" else ratio >= target


def goal(row: dict[str, Any]) -> str:
    """The target with its direction."""
    if row.get("target") is None:
        return "-"
    return ("≤ " if row.get("better", "higher") == "lower" else "≥ ") + number(row["target"])


def number(value: float | None) -> str:
    """Three significant digits, or a dash."""
    return "-" if value is None else f"{float(value):,.3g}" if abs(float(value)) < 1000 else f"{float(value):,.0f}"
