"""What a result says where there is no regret: the returns of a live world. Simulation only, all of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from tacit.runs.baseline_comparison import interval_over, mean_return
from tacit.simulation.judges.live import Estimate, ReturnMeasures

RETURN_HEAD = ("return per user", "final policy", "uniform policy", "share clipped")
"""The columns of a table of live runs."""


class _Config(Protocol):
    @property
    def episodes(self) -> int: ...


class _Reported(Protocol):
    @property
    def returns(self) -> Sequence[ReturnMeasures]: ...

    @property
    def config(self) -> _Config: ...


def return_cells(result: _Reported) -> tuple[str, str, str, str]:
    """The cells of a table for one live run."""
    found = returns_json(result)
    if found is None:
        return ("-", "-", "-", "-")
    during, final, uniform = (_words(found[name]) for name in ("during", "final", "uniform"))
    return during, final, uniform, f"{found['clipped']:.3f}"


def return_lines(result: _Reported) -> tuple[str, ...]:
    """Lines for people; none for results with regret."""
    found = returns_json(result)
    if found is None:
        return ()
    during, final, uniform, _ = return_cells(result)
    many = "95% intervals over the seeds" if len(result.returns) > 1 else "95% intervals over episodes, one seed"
    clipped = f"; {found['clipped']:.1%} of the rewards lay outside the declared bounds" if found["clipped"] else ""
    fresh = f"{found['evaluation']:,} fresh episodes measure each policy"
    return (
        f"return per user (simulation only): {during}; final policy {final}; uniform policy {uniform} ({many})",
        f"no optimum is known here, so there is no regret; {fresh}{clipped}",
    )


def returns_json(result: _Reported) -> dict[str, Any] | None:
    """Means over the seeds with intervals, JSON-ready; None for results with regret."""
    returns = result.returns
    if not returns:
        return None
    during = mean_return(returns, result.config.episodes)
    return {
        "during": {"mean": during.mean, "low": during.low, "high": during.high},
        "final": _estimate([found.final for found in returns]),
        "uniform": _estimate([found.uniform for found in returns]),
        "clipped": float(np.mean([found.clipped for found in returns])),
        "length": float(np.mean([found.length for found in returns])),
        "evaluation": returns[0].final.episodes,
        "per_seed": [found.total[-1] / result.config.episodes for found in returns],
        "final_per_seed": [found.final.mean for found in returns],
        "simulation_only": True,
    }


def _estimate(parts: Sequence[Estimate]) -> dict[str, float | None]:
    if len(parts) == 1:
        return {"mean": parts[0].mean, "low": parts[0].low, "high": parts[0].high}
    over = interval_over(np.array([part.mean for part in parts]))
    return {"mean": over.mean, "low": over.low, "high": over.high}


def _words(interval: dict[str, float | None]) -> str:
    mean, low, high = (interval[name] for name in ("mean", "low", "high"))
    return f"{mean:.4g}" + ("" if low is None else f" [{low:.4g}, {high:.4g}]")
