"""What the card of [bai2024adversarial] names in its holes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from papers.bai2024adversarial.experiments import ARM_EPISODES, WORLDS, proof42, theorem42
from papers.bai2024adversarial.pure import POWER_CASES, SWEEPS
from papers.committed import Committed, Results, bootstrap, pm, row
from papers.fitting import fit_exponent

__all__ = ["names"]

HOME: Final = "bai2024adversarial"
WORDS: Final = {"as-written": "as written", "centred": "centred"}
KINDS: Final = ("full, learned", "full, known", "bandit, learned", "bandit, known", "bandit, known, entropy")
CASES: Final = ("none", "central, pure", "central, as printed", "central, δ = 1e-6", "local, pure", "local, as printed")
BASE: Final = {"layers": 4, "states": 3, "actions": 2}


def names(results: Results) -> Mapping[str, Any]:
    """Results and tables."""
    arms, estimator, support, table1, pure, powers = (
        results(f"{HOME}/{name}")
        for name in ("two-arms", "estimator", "support", "table1", "table1-pure", "table1-powers")
    )
    return {
        "arms": arms, "estimator": estimator, "table1": table1, "pure": pure,
        "arm_table": "\n".join(
            row(
                f"{K:,}", arms.regret(f"as-written, K={K}"), arms.regret(f"centred, K={K}"), f"{theorem42(K):,.0f}",
                f"{proof42(K):,.0f}",
            )
            for K in ARM_EPISODES["paper"]
        ),
        "arm_growth": {name: arms.growth([f"{name}, K={K}" for K in ARM_EPISODES["paper"]]) for name in WORDS},
        "estimator_table": "\n".join(
            row(f"{WORDS[name]}, {words}", *(
                _cell(estimator, [f"{name}, {case}, K={K}" for K in (4_000, 16_000)], f"{world} ({foe} losses)")
                for world in WORLDS.values()
            ))
            for case, foe, words in (
                ("offset alone", "turning", "no noise, E' = 30 assumed"),
                ("central ε=100", "turning", "central, ε = 100"),
                ("central ε=100", "iid", "the same, losses that never change"),
            )
            for name in WORDS
        ),
        "support_table": _support(support),
        "table": "\n".join(_table1(table1)),
        "pure_table": "\n".join(_pure(pure)),
        "other_seeds": _other_seeds(pure),
        "long_table": "\n".join(_long(pure)),
        "powers_table": "\n".join(_powers(powers)),
    }  # fmt: skip


def _cell(result: Committed, runs: Sequence[str], environment: str) -> str:
    """The exponent of K between two runs, and in brackets the share of the uniform policy's regret at the second."""
    return f"{result.growth(runs, environment)} ({result.of_uniform(runs[-1], environment)})"


def _support(result: Committed) -> str:
    """The cost of unknown transitions against C_M."""
    curves = result.json("support.json")["curves"]
    seeds = float(result.seeds) ** 0.5
    rows = [row("C_M", *(f"{value:.2f}" for value in curves[0]["effective_support"]))]
    rows.insert(1, "|---|" + "---|" * len(curves[0]["effective_support"]))
    for one in curves:
        pairs = zip(one["unknown_transitions"], one["unknown_transitions_std"], strict=True)
        rows.append(row(f"{one['run']} widths", *(pm(mean, std / seeds) for mean, std in pairs)))
    return "\n".join(rows)


def _table1(result: Committed) -> list[str]:
    """Every run of Table 1: exponent between 2,000 and 10,000."""
    labels = dict.fromkeys(run.rpartition(", K=")[0] for run, _ in result.cells)
    whole = [
        label for label in labels if (f"{label}, K=10000", f"{WORLDS['trap']} (sinusoidal losses)") in result.cells
    ]
    return [
        row(label, *(
            _cell(result, [f"{label}, K={K}" for K in (2_000, 10_000)], f"{world} (sinusoidal losses)")
            for world in WORLDS.values()
        ))
        for label in whole
    ]  # fmt: skip


def _label(kind: str, case: str, epsilon: float) -> str:
    return f"{kind}, no privacy" if case == "none" else f"{kind}, {case}, ε={epsilon:g}"


def _pure(result: Committed) -> list[str]:
    rows = []
    for kind in KINDS:
        for case in CASES:
            label = _label(kind, case, 1.0 if kind.startswith("full") else 10.0)
            cells = []
            for world in WORLDS.values():
                runs = [f"{label}, K={K}" for K in (10_000, 100_000)]
                there = (runs[1], f"{world} (sinusoidal losses)") in result.cells
                cells.append(_cell(result, runs, f"{world} (sinusoidal losses)") if there else "-")
            rows.append(row(label, *cells))
    return rows


def _other_seeds(result: Committed) -> Mapping[str, str]:
    """One cell of the table, run again with other seeds: shares of the uniform policy's regret."""
    again = result.json("other-seeds.json")
    key = (again["run"], again["environment"])
    mine = result.finals(*key) / result.uniform(*key)
    found = {"0 to 2": mine[:3], "0 to 9": mine}
    found |= {seeds: np.array(shares) for seeds, shares in again["of uniform"].items()}
    found["all"] = np.concatenate([shares for seeds, shares in found.items() if seeds != "0 to 2"])
    return {seeds: pm(float(one.mean()), float(one.std(ddof=1) / np.sqrt(len(one)))) for seeds, one in found.items()}


def _long(result: Committed) -> list[str]:
    """Shares at 10^6, and how many seeds they rest on."""
    found = []
    for run in dict.fromkeys(run for run, _ in result.cells if run.endswith("K=1000000")):
        keys = [(run, f"{world} (sinusoidal losses)") for world in WORLDS.values()]
        seeds = str(len(result.finals(*keys[0])))
        found.append(row(run.rpartition(", K=")[0], *(result.of_uniform(*key) for key in keys), seeds))
    return found


def _powers(result: Committed) -> list[str]:
    """Fitted powers of states, actions and steps; those of the theorems' terms in brackets."""
    theorem = {
        (one["sweep"], one["feedback"], one["trust"]): one["theorem"] for one in result.json("powers.json")["curves"]
    }
    rows = []
    for feedback, (_, epsilon) in POWER_CASES.items():
        for trust in ("none", "central", "local"):
            cells = []
            for sweep, values in SWEEPS.items():
                x = np.array(values, dtype=float)
                samples = []
                for value in values:
                    size = {**BASE, sweep: value}
                    places = [
                        "layered:"
                        + ",".join(f"{k}={n}" for k, n in (*size.items(), ("seed", world)))
                        + " (sinusoidal losses)"
                        for world in (1, 2, 3)
                    ]
                    run = f"{feedback}, no privacy, K=10000"
                    regret = np.concatenate([result.finals(run, place) for place in places])
                    if trust != "none":
                        private = f"{feedback}, {trust}, pure, ε={epsilon:g}, K=10000"
                        regret = np.concatenate([result.finals(private, place) for place in places]) - regret
                    samples.append(regret)
                power = bootstrap(lambda *drawn, x=x: fit_exponent(x, np.array([d.mean() for d in drawn])), *samples)
                cells.append(f"{power} ({theorem[sweep, feedback, trust]:.2f})")
            words = "none" if trust == "none" else f"cost of {trust}"
            rows.append(row(f"{feedback}, {words}", *cells))
    return rows
