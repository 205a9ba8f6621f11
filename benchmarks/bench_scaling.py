"""How the time per episode grows with S, A and H: log-log slopes, fitted to a handful of sizes each.

UCBVI costs O(H S² A) per plan once its model is known and its widths are in play, so the practical rule is measured;
PSRL draws O(H S² A) variates. The slopes at these small sizes are flatter than the exponents, since fixed costs (the
walk, the exact regret) are part of an episode.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.bench_loop import fit_seconds, shape
from tacit.environments.random_mdp import random_mdp
from tacit.learners.psrl import PSRL
from tacit.learners.ucbvi import UCBVI

BASE = {"states": 6, "actions": 3, "horizon": 6}
SIZES = {"states": (4, 8, 16, 32), "actions": (2, 4, 8, 16), "horizon": (4, 8, 16, 32)}
LETTERS = {"states": "S", "actions": "A", "horizon": "H"}
EXPONENTS = {"states": 2.0, "actions": 1.0, "horizon": 1.0}


def run() -> list[dict[str, Any]]:
    """One row per learner and size: the fitted exponent, which may not exceed the exponent of the analysis."""
    rows = []
    for name in ("ucbvi", "psrl"):
        for axis, sizes in SIZES.items():
            seconds = [_seconds(name, BASE | {axis: size}) for size in sizes]
            slope = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
            measured = ", ".join(f"{size}: {s * 1e6:.1f}" for size, s in zip(sizes, seconds, strict=True))
            rows.append(
                {
                    "name": f"{name}, exponent in {LETTERS[axis]}",
                    "ratio": slope,
                    "target": EXPONENTS[axis] + 0.15,
                    "better": "lower",
                    "detail": f"us/episode at {LETTERS[axis]} = {measured}",
                }
            )
    return rows


def _seconds(name: str, sizes: dict[str, int]) -> float:
    mdp = random_mdp(**sizes, seed=1)
    learner: Any
    if name == "ucbvi":
        learner = UCBVI(shape=shape(mdp, staged=True), episodes=2000, constants="practical")
    else:
        learner = PSRL(shape=shape(mdp, staged=True))
    return fit_seconds(learner, mdp, episodes=1000)
