"""How the time per episode grows with S, A and H: log-log slopes, fitted to a handful of sizes each.

UCBVI costs O(H S² A) per plan once its model is known and its widths are in play, so the practical rule is measured;
PSRL draws O(H S² A) variates. The slopes at these small sizes are flatter than the exponents, since fixed costs (the
walk, the exact regret) are part of an episode.

One of them is steeper: ucbvi in H, over H = 4 to 32. Its plan skips states whose rows and successors' values are what
they were. In a short episode hardly anything moves, so the small sizes lie *below* the line H S² A; in a longer one
something moves at more steps, and whatever moves is looked at by every state one step earlier. The share of states that
plans compute is a row of its own for each H, and so is the fit over H = 16 to 128. The old fit keeps its target.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.bench_loop import fit_seconds, shape
from tacit.environments.tabular_worlds import random_mdp
from tacit.learners.psrl import PSRL
from tacit.learners.ucbvi import UCBVI
from tacit.release.none import Unprotected
from tacit.simulation.simulate import simulate

BASE = {"states": 6, "actions": 3, "horizon": 6}
SIZES = {"states": (4, 8, 16, 32), "actions": (2, 4, 8, 16), "horizon": (4, 8, 16, 32)}
LETTERS = {"states": "S", "actions": "A", "horizon": "H"}
LONG = (16, 32, 64, 128)
"""Horizons of the second fit."""
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
    return [*rows, *_long_horizons()]


def _long_horizons() -> list[dict[str, Any]]:
    """The exponent of ucbvi in H at long horizons, and the share of states that its plans compute."""
    seconds = {size: _seconds("ucbvi", BASE | {"horizon": size}) for size in LONG}
    shares = {size: computed_share(size) for size in (*SIZES["horizon"], *LONG[2:])}
    slope = float(np.polyfit(np.log(LONG), np.log(list(seconds.values())), 1)[0])
    work = [seconds[size] / shares[size] for size in LONG]
    per_state = float(np.polyfit(np.log(LONG), np.log(work), 1)[0])
    measured = ", ".join(f"{size}: {s * 1e6:.1f}" for size, s in seconds.items())
    fit = {
        "name": f"ucbvi, exponent in H over {LONG[0]} to {LONG[-1]}",
        "ratio": slope,
        "target": EXPONENTS["horizon"] + 0.15,
        "better": "lower",
        "detail": f"us/episode at H = {measured}; per computed state {per_state:.2f}",
    }
    share = {"target": None, "better": "lower", "detail": "over a run of 1,000 users"}
    return [
        fit,
        *({"name": f"ucbvi, share of states computed, H={H}", "ratio": found} | share for H, found in shares.items()),
    ]


class Watched(UCBVI):
    """UCBVI that counts which states its plans compute: those with new rows, or whose successors' values moved."""

    computed = 0
    planned = 0

    def plan(self, belief: Any, coins: np.random.Generator) -> Any:
        """The same plan."""
        after, plan = super().plan(belief, coins)
        moved = (after.V[1:] != belief.V[1:]).any(axis=1)
        fresh = (belief.stale == belief.plans[0]).sum(axis=1)
        S = self.shape.num_states
        self.computed += int(np.where(moved, S, fresh).sum())
        self.planned += self.shape.horizon * S
        return after, plan


def computed_share(horizon: int, episodes: int = 1000) -> float:
    """The share of the states (h,s) that plans compute again, over a run."""
    mdp = random_mdp(**BASE | {"horizon": horizon}, seed=1)
    learner = Watched(shape=shape(mdp, staged=True), episodes=2000, constants="practical")
    simulate(mdp, learner, Unprotected(shape=learner.shape), episodes=episodes, seed=0, speed="interpreted")
    return learner.computed / learner.planned


def _seconds(name: str, sizes: dict[str, int]) -> float:
    mdp = random_mdp(**sizes, seed=1)
    learner: Any
    if name == "ucbvi":
        learner = UCBVI(shape=shape(mdp, staged=True), episodes=2000, constants="practical")
    else:
        learner = PSRL(shape=shape(mdp, staged=True))
    return fit_seconds(learner, mdp, episodes=1000)
