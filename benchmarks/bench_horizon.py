"""Why the time of ucbvi grows faster than H over short horizons: what plans evaluate, and a twin that skips nothing.

A plan skips states whose rows and successors' values are what they were, and rows that nobody has tried. The cost that
is counted is therefore the row evaluation, a sum over successors: one for each (h, s, a) with data whose state is
computed. If time per evaluation grows with an exponent near zero in H, the rest of the exponent is in the count. The
twin declares every state stale before each plan: the same run, bit for bit, in which only the skipping is missing.
No target stands here; that of ucbvi in H stands in `scaling`.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.bench_loop import shape
from benchmarks.bench_scaling import BASE, LONG, SIZES
from tacit.environments.tabular import TabularMDP
from tacit.environments.tabular_worlds import random_mdp
from tacit.kernels import lean_kernel
from tacit.learners.contract import ask_nothing
from tacit.learners.ucbvi import BONUS, BONUS_LAST, N_LAST, REWARD, UCBVI, N, Parameters, UCBVIBelief, plan, update
from tacit.protocol import LearnerKernels
from tacit.release.none import Unprotected
from tacit.simulation.simulate import simulate

SHORT = SIZES["horizon"]
HORIZONS = tuple(dict.fromkeys((*SHORT, *LONG)))
USERS = 1000
REPEATS = 60


@lean_kernel
def plan_everything(parameters: Parameters, belief: UCBVIBelief, generator: np.random.Generator) -> None:
    """The same plan, computed from nothing."""
    stages, S = belief.stale.shape
    for h in range(stages):
        for s in range(S):
            belief.stale[h, s] = belief.plans[0]
    plan(parameters, belief, generator)


class Everything(UCBVI):
    """UCBVI without the skipping."""

    kernels = LearnerKernels(plan_everything, ask_nothing, update)


def evaluated(before: UCBVIBelief, after: UCBVIBelief, *, everything: bool = False) -> int:
    """How many rows a plan evaluates under the practical rule, from the beliefs before and after it."""
    H, S, _ = after.Q.shape
    moved = (after.V[1:] != before.V[1:]).any(axis=1)[:, np.newaxis]
    computed = everything | moved | (before.stale == before.plans[0])
    n, width = before.rows[..., N].copy(), before.rows[..., BONUS].copy()
    n[-1], width[-1] = before.rows[-1, ..., N_LAST], before.rows[-1, ..., BONUS_LAST]
    below = before.rows[..., REWARD] + width < np.arange(H, 0, -1.0)[:, np.newaxis, np.newaxis]
    return int(((n > 0.0) & below & np.broadcast_to(computed, (H, S))[:, :, np.newaxis]).sum())


class Counted(UCBVI):
    """UCBVI that counts the rows that its plans evaluate, and those that they would without the skipping."""

    rows = 0
    all_rows = 0

    def plan(self, belief: Any, coins: np.random.Generator) -> Any:
        """The same plan."""
        after, found = super().plan(belief, coins)
        self.rows += evaluated(belief, after)
        self.all_rows += evaluated(belief, after, everything=True)
        return after, found


def make(kind: type[UCBVI], horizon: int) -> tuple[TabularMDP, Any]:
    """The world of this horizon, and a learner for it."""
    mdp = random_mdp(**BASE | {"horizon": horizon}, seed=1)
    return mdp, kind(shape=shape(mdp, staged=True), episodes=2 * USERS, constants="practical")


def counted(horizon: int, users: int = USERS) -> tuple[float, float]:
    """Rows evaluated per user of a run: by ucbvi, and by its twin."""
    mdp, learner = make(Counted, horizon)
    simulate(mdp, learner, Unprotected(shape=learner.shape), episodes=users, seed=0, speed="interpreted")
    return learner.rows / users, learner.all_rows / users


def exponent(sizes: tuple[int, ...], values: dict[int, float]) -> float:
    """The log-log slope over these sizes."""
    return float(np.polyfit(np.log(sizes), np.log([values[size] for size in sizes]), 1)[0])


def run() -> list[dict[str, Any]]:
    """Exponents in H of time, of row evaluations and of time per row evaluation: as it is, and without the skipping."""
    counts = {H: counted(H) for H in HORIZONS}
    rows, all_rows = ({H: both[i] for H, both in counts.items()} for i in (0, 1))
    seconds, all_seconds = measured()
    found = []
    for sizes in (SHORT, LONG):
        for who, count, spent in (("ucbvi", rows, seconds), ("everything planned", all_rows, all_seconds)):
            cost = {H: spent[H] / count[H] for H in HORIZONS}
            for what, values, unit in (
                ("time per user", spent, 1e6), ("row evaluations", count, 1.0), ("time per row evaluation", cost, 1e9),
            ):  # fmt: skip
                shown = ", ".join(f"{H}: {unit * values[H]:.3g}" for H in sizes)
                of = {1e6: "us", 1.0: "per user", 1e9: "ns"}[unit]
                found.append(
                    {
                        "name": f"{who}: {what}, exponent in H over {sizes[0]} to {sizes[-1]}",
                        "ratio": exponent(sizes, values),
                        "target": None,
                        "better": "lower",
                        "detail": f"{of} at H = {shown}",
                        "sizes": list(sizes),
                        "values": [values[H] for H in sizes],
                    }
                )
    return found


def measured() -> tuple[dict[int, float], dict[int, float]]:
    """CPU seconds per user by horizon, of ucbvi and of its twin: all of them in turn, best of many."""
    found: tuple[dict[int, float], dict[int, float]] = ({}, {})
    cells = [(best, H, *make(kind, H)) for H in HORIZONS for best, kind in zip(found, (UCBVI, Everything), strict=True)]
    for _ in range(REPEATS):
        for best, H, mdp, learner in cells:
            started = time.process_time()
            simulate(mdp, learner, Unprotected(shape=learner.shape), episodes=USERS, seed=0, speed="compiled")
            best[H] = min(best.get(H, np.inf), (time.process_time() - started) / USERS)
    return found
