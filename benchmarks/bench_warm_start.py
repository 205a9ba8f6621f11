"""What a log is worth: regret of runs that begin with its released sums, against runs without it.

Both have epsilon 1 and delta 1e-6 for a person in all of it; the run with the log has what the log (0.5) leaves.
Logs are of the uniform policy, with noise of a fixed seed; the interval is over the logs, each with its own seeds.
"""

from __future__ import annotations

import base64
from typing import Any, Final

import numpy as np

import tacit
from tacit.data.trajectories import prepare_world, roll_out
from tacit.policies import uniform_policy
from tacit.protocol import TOTALS
from tacit.randomness import SimulationNoise
from tacit.runs.warm_start import WarmStart
from tacit.study.learning import LearnRequest
from tacit.study.mapping import EpisodeMapping

Row = dict[str, Any]
WORLDS: Final = {"riverswim:states=4,horizon=6": 2_000, "treatment-bandit": 2_000}
"""A world, and how many people its logs have."""
LOGS, SEEDS, EPISODES = 20, 4, 5_000


def run() -> list[Row]:
    """One row for each world."""
    return [row(world, people) for world, people in WORLDS.items()]


def row(world: str, people: int) -> Row:
    """The ratio of mean regrets, with an interval over the logs."""
    options: Any = {
        "environment": world, "learner": "bucb", "episodes": EPISODES, "trust": "central", "epsilon": 1.0,
        "delta": 1e-6, "workers": 1,
    }  # fmt: skip
    with_log, without = np.empty(LOGS), np.empty(LOGS)
    for i in range(LOGS):
        seeds = range(i * SEEDS, (i + 1) * SEEDS)
        without[i] = tacit.run(**options, seeds=seeds).regret[:, -1].mean()
        start: Any = released_log(world, people, seed=i)
        with_log[i] = tacit.run(**options, seeds=seeds, start=start).regret[:, -1].mean()
    ratio, half = with_log.mean() / without.mean(), 1.96 / LOGS**0.5
    spread = float(np.std(with_log - ratio * without, ddof=1) / without.mean()) * half
    return {
        "name": f"{world}: regret with a log over regret without",
        "ratio": float(ratio),
        "target": 1.0,
        "better": "lower",
        "detail": f"95% interval {ratio - spread:.3f} to {ratio + spread:.3f} over {LOGS} logs of {people:,} people; "
        f"regret of {EPISODES:,} people {with_log.mean():,.0f} against {without.mean():,.0f} (simulation only)",
    }


def released_log(world: str, people: int, *, seed: int, epsilon: float = 0.5) -> WarmStart:
    """What `tacit learn` releases of a log of the uniform policy, with simulated noise."""
    mdp = tacit.make_environment(world)
    rng = np.random.default_rng([seed, 7])
    users = roll_out(prepare_world(mdp), uniform_policy(mdp.horizon, mdp.num_states, mdp.num_actions), people, rng)
    mapping = EpisodeMapping.from_dict({
        "states": [{"column": "s", "categories": list(mdp.state_names)}],
        "actions": {"column": "a", "categories": list(mdp.action_names)},
        "reward": {"low": 0, "high": 1}, "horizon": mdp.horizon,
    })  # fmt: skip
    request = LearnRequest(mapping=mapping, epsilon=epsilon, delta=1e-6, people=people)
    channel = request.channels[0]
    _, payload = channel.simulate(channel.begin_secret(), users, TOTALS, SimulationNoise(rng))
    return WarmStart.from_dict({
        "states": list(mdp.state_names), "actions": list(mdp.action_names), "horizon": mdp.horizon, "rewards": [0, 1],
        "people": people, "reports": 1, "epsilon": epsilon, "delta": 1e-6,
        "noise": "simulation", "payloads": [base64.b64encode(payload).decode()],
    })  # fmt: skip
