"""What the card of [he2025policy] names in its holes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from papers.committed import Results, bootstrap, pm, row
from papers.fitting import fit_exponent
from papers.he2025policy.hidden_actions import hidden_action_delta

__all__ = ["names"]

DIMENSIONS: Final = {"theorem2": (10, 25, 100), "theorem3": (2, 8, 32), "theorem4": (10, 25, 100)}
NAMES: Final = {"theorem2": "2: E‖∇J(θ_U)‖²", "theorem3": "3: J* - average J", "theorem4": "4: J* - average J"}
PRINTED: Final = {"theorem2": "-1/2", "theorem3": "-1/4", "theorem4": "-1/6"}
EPSILONS: Final = (0.2, 1.0, 5.0)
LEARNERS: Final = ("dp-pg", "dp-npg", "dp-trpo", "dp-ppo", "dp-ppo:rate=0.25")
NETWORKS: Final = {
    "network, DP-PG": "network, `dp-pg:policy=neural`",
    "network, DP-TRPO": "network, `dp-trpo:policy=neural`",
    "table, DP-PG": "table, `dp-pg:time_homogeneous=true`",
}
UNFAIR: Final = ("table, DP-PG", "no privacy")
"""The cell that was not run: without noise its baseline stays at its first value."""


def names(results: Results) -> Mapping[str, Any]:
    """Results and tables."""
    told = {name: results(f"he2025policy/{name}").json("rates.json") for name in NAMES}
    fisher = results("he2025policy/fisher").json("fisher.json")
    lines = {(one["epsilon"], one["users"]): one for one in fisher["curves"]}

    def mu(epsilon: float | None) -> str:
        one = lines[epsilon, 10**6]
        x, raw = np.array(one["mu"]), [np.array(seeds) for seeds in one["raw"]]
        return bootstrap(lambda *drawn: fit_exponent(x, np.array([d.mean() for d in drawn])), *raw)

    return {
        "rates": "\n".join(_rates(name, told[name]["curves"], d) for name in NAMES for d in DIMENSIONS[name]),
        "costs": "\n".join(_costs(name, told[name]["curves"], d) for name in NAMES for d in DIMENSIONS[name]),
        "mu": mu,
        "bias": fisher["alpha_bias"],
        "clipping": fisher["clipping_bias"],
        "beyond": "\n".join(_beyond(results("he2025policy/beyond").json("summary.json")["rows"])),
        "neural": "\n".join(_neural(results)),
        "hidden": {actions: f"{hidden_action_delta(actions):.1e}" for actions in (2, 5)},
    }


def _curve(curves: Any, d: int, epsilon: float | None) -> dict[str, Any]:
    (found,) = [one for one in curves if one["d"] == d and one["epsilon"] == epsilon]
    return dict(found)


def _slope(one: dict[str, Any]) -> str:
    """The exponent of the error in N over the last decade, 10⁶ to 10⁷ users."""
    N = np.array(one["users"][-2:])
    raw = [np.array(seeds) for seeds in one["raw"][-2:]]
    return bootstrap(lambda *drawn: fit_exponent(N, np.array([d.mean() for d in drawn])), *raw)


def _rates(name: str, curves: Any, d: int) -> str:
    free = f"{_slope(_curve(curves, d, None))} ({PRINTED[name]})"
    return row(NAMES[name], str(d), free, *(_slope(_curve(curves, d, epsilon)) for epsilon in EPSILONS))


def _costs(name: str, curves: Any, d: int) -> str:
    cells = []
    for epsilon in EPSILONS:
        one = _curve(curves, d, epsilon)
        cost = np.array(one["privacy_cost"][-2:])
        shift = np.array(one["mean"][-2:]) - cost
        N, raw = np.array(one["users"][-2:]), [np.array(seeds) for seeds in one["raw"][-2:]]
        cells.append(
            bootstrap(
                lambda *drawn, N=N, shift=shift: fit_exponent(N, np.array([d.mean() for d in drawn]) - shift), *raw
            )
        )
    return row(name[-1], str(d), *cells)


def _beyond(rows: Any) -> list[str]:
    """How much of the way from the uniform to the best policy the final one has gone."""
    found = {(r["environment"], r["learner"], r["epsilon"]): r for r in rows}
    lines = []
    for environment in ("contextual-bandit", "treatment-bandit", "riverswim"):
        for learner in LEARNERS:
            cells = []
            for epsilon in EPSILONS:
                one = found[environment, learner, epsilon]
                whole = one["optimal"] - one["uniform_policy"]
                error = one["final_std"] / np.sqrt(one["seeds"]) / whole
                cells.append(pm((one["final"] - one["uniform_policy"]) / whole, float(error)))
            lines.append(row(f"`{environment}`", f"`{learner}`", *cells))
    return lines


def _neural(results: Results) -> list[str]:
    made, lines = results("he2025policy/neural"), []
    for label, words in NETWORKS.items():
        cells = []
        for shown in (*(f"ε={epsilon:g}" for epsilon in EPSILONS), "no privacy"):
            if (label, shown) == UNFAIR:
                cells.append("-")
                continue
            finals = np.array(made.cell(f"{label}, {shown}")["returns"]["final_per_seed"])
            cells.append(pm(float(finals.mean()), float(finals.std(ddof=1) / np.sqrt(len(finals)))))
        lines.append(row(words, *cells))
    return lines
