"""Patient-days per second and core of the titration world, and of the equations alone.

CPU seconds, best of several in the same run; one core. Kernels are compiled before anything is timed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.bench_local import best_of
from papers.glucose.patients import laid_out
from papers.glucose.physiology import LANES, minute
from papers.worlds import TITRATION_ID
from tacit.data.simulator_users import Players
from tacit.environments.baselines import baseline_policy
from tacit.environments.live import live

WEEKS = 1_000
DAYS = 8
"""A week and the day before it."""
MINUTES = 2_000

Row = dict[str, Any]


def run() -> list[Row]:
    """Every row of the table."""
    return [whole_row(), equations_row()]


def whole_row() -> Row:
    """Whole patient-weeks through the players of a run: meals, sensor, controller, equations, policy."""
    world = live(TITRATION_ID)
    policy, players = baseline_policy(world, "textbook"), Players(world, seed=0)
    players.play(policy, 32, np.random.default_rng(0))
    seconds = best_of(5, lambda: players.play(policy, WEEKS, np.random.default_rng(0)))
    rate = WEEKS * DAYS / seconds
    return {
        "name": "titration: patient-days per CPU second, one core",
        "ratio": rate,
        "target": 1_000.0,
        "detail": f"{WEEKS:,} weeks of {DAYS} days each under the textbook rule; {1e6 / rate:.0f} us per day",
    }


def equations_row() -> Row:
    """The thirteen equations alone, called minute by minute from Python, for sixteen people."""
    lanes = laid_out(np.arange(LANES))[0]
    minute(lanes)

    def day() -> None:
        for _ in range(MINUTES):
            minute(lanes)

    rate = LANES * MINUTES / 1440 / best_of(5, day)
    return {
        "name": "UVA/Padova equations: patient-days per CPU second, one core",
        "ratio": rate,
        "target": None,
        "detail": "minute by minute, sixteen people side by side, nobody eating; calls from Python included",
    }
