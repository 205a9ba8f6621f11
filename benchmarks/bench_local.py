"""Local learners: one whole episode against drawing its noise in bulk, all mechanisms, and memory at many episodes.

CPU seconds, best of several in the same run. The floor is what NumPy's generator needs for the 16 Laplace variates of
an episode at S = A = H = 2 (8 transitions, 4 rewards, 4 visits), drawn in bulk.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.bench_loop import peak_megabytes
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.simulation.simulate import simulate

EPISODES = 200_000
VARIATES = 16

Row = dict[str, Any]


def run() -> list[Row]:
    """Every row of the table."""
    floor = draw_seconds()
    rows = [episode_row("ldp-obi, laplace", floor, target=2.0, calibration="paper", mechanism="laplace")]
    rows += [
        episode_row(f"ldp-obi, {name}", floor, target=None, mechanism=name, **options)
        for name, options in (("laplace", {}), ("oue", {}), ("rr", {}), ("gaussian", large_delta()))
    ]
    rows.append(episode_row("ldp-psrl", floor, target=None, learner="ldp-psrl", calibration="paper"))
    rows.append(memory_row())
    return rows


def large_delta() -> dict[str, Any]:
    return {"delta": 0.1, "allow_large_delta": True}


def best_of(times: int, call: Callable[[], object]) -> float:
    """CPU seconds of the fastest of several calls."""
    best = float("inf")
    for _ in range(times):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def draw_seconds() -> float:
    """CPU seconds for the Laplace variates of one episode, drawn in bulk."""
    generator = np.random.default_rng(0)
    size = 50_000
    return best_of(9, lambda: generator.laplace(0.0, 6.0, VARIATES * size)) / size


def parts(learner: str, **options: Any) -> Any:
    given = {"epsilon": 2.0, "delta": 0.0, "trust": "local", **options}
    config = RunConfig(
        environment="random-mdp:seed=3",
        learner=f"{learner}:time_homogeneous=true",
        episodes=EPISODES,
        seeds=(0,),
        **given,
    )
    return assemble(config)


def episode_row(name: str, floor: float, *, target: float | None, learner: str = "ldp-obi", **options: Any) -> Row:
    """Plan, roll out, privatize, update and exact regret, per episode."""
    built = parts(learner, **options)
    simulate(built.mdp, built.learner, built.privatizer, episodes=10, seed=0, speed="compiled")
    seconds = (
        best_of(9, lambda: simulate(built.mdp, built.learner, built.privatizer, episodes=EPISODES, seed=0)) / EPISODES
    )
    return {
        "name": f"{name} ({built.privatizer.calibration}): episode vs its 16 Laplace variates in bulk",
        "ratio": seconds / floor,
        "target": target,
        "better": "lower",
        "detail": f"{seconds * 1e6:.2f} us/episode against {floor * 1e6:.2f}; S=A=H=2, theory constants",
    }


MEMORY = """
import sys
from benchmarks.bench_local import parts
from tacit.simulation.simulate import simulate
built = parts("ldp-obi", calibration="paper", mechanism="laplace")
simulate(built.mdp, built.learner, built.privatizer, episodes=int(sys.argv[1]), seed=0)
"""


def memory_row() -> Row:
    """The peak of a process with 10⁷ episodes over that of one with 10⁵."""
    few, many = (peak_megabytes(MEMORY, episodes) for episodes in (10**5, 10**7))
    return {
        "name": "ldp-obi: megabytes more at 100 times as many episodes",
        "ratio": many - few,
        "target": 8.0,
        "better": "lower",
        "detail": f"{few:.0f} MB and {many:.0f} MB: memory is flat in K",
    }


if __name__ == "__main__":
    for row in run():
        print(row)
