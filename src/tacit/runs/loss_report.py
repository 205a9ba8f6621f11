"""What a result says beside its regret where losses are adversarial. Simulation only, all of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Protocol

import numpy as np

from tacit.simulation.judges.games import LossMeasures


class _Resolved(Protocol):
    @property
    def settings(self) -> Mapping[str, float | str] | None: ...


class _Reported(Protocol):
    @property
    def losses(self) -> Sequence[LossMeasures]: ...

    @property
    def resolved(self) -> _Resolved: ...


def adversarial_lines(result: _Reported) -> tuple[str, ...]:
    """Lines for people: the reference policies, C_M, and whether every solve can be trusted."""
    found, settings = losses_json(result), result.resolved.settings or {}
    if found is None:
        return ()
    tuned = ", ".join(f"{name} {_number(value)}" for name, value in settings.items() if name != "effective_support")
    solver = f"{found['solves']:,} solves, {found['unconverged']} unconverged, {found['iterations']:.2f} steps each"
    references = f"uniform policy {found['uniform'][-1]:,.1f}, myopic policy {found['myopic'][-1]:,.1f}"
    inside = f"mean width {found['width']:.3f} at the end, truth outside in {found['outside']:.1%} of the episodes"
    return (
        f"beside it (same losses): {references}; effective support C_M {found['effective_support']:.4g}",
        f"set of transitions: {inside}; {solver}",
        f"tuned: {tuned}",
    )


def losses_json(result: _Reported) -> dict[str, Any] | None:
    """Means over the seeds (counts are sums), JSON-ready; None for results without an adversary."""
    if not result.losses:
        return None
    summed = ("solves", "unconverged", "fallbacks", "infeasible", "floored")
    worst = ("worst_gap", "worst_residual")
    said: dict[str, Any] = {"effective_support": (result.resolved.settings or {}).get("effective_support")}
    for field in fields(LossMeasures):
        values = np.array([getattr(found, field.name) for found in result.losses], dtype=np.float64)
        if field.name in summed:
            said[field.name] = int(values.sum())
        elif field.name in worst:
            said[field.name] = float(values.max())
        else:
            said[field.name] = values.mean(axis=0).tolist()
    return {**said, "simulation_only": True}


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"
