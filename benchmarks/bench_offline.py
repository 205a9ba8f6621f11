"""Offline learners on the same logs: pessimism, DP-APVI and DP-VAPVI [qiao2023offline] at the same claim.

Ten logs of the uniform policy for each row, epsilon 1, delta 1e-6. A value is the share of what the best policy gains
over the uniform one (simulation only); DP-APVI and DP-VAPVI have the noise that their paper prints, and what that
certifies stands beside it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import tacit
from tacit.data.trajectories import prepare_world, roll_out
from tacit.planning.dynamic import solve
from tacit.policies import DeterministicPolicy, tabular, uniform_policy
from tacit.protocol import TOTALS
from tacit.randomness import SimulationNoise
from tacit.simulation.arms import true_value
from tacit.study.learning import LearnRequest
from tacit.study.mapping import EpisodeMapping

Row = dict[str, Any]
WORLDS: Final = ("riverswim:states=4,horizon=6", "treatment-bandit")
SIZES: Final = (5_000, 20_000, 100_000)
LOGS: Final = 10


def run() -> list[Row]:
    """One row for each world, size and learner."""
    return [row for world in WORLDS for people in SIZES for row in rows(world, people)]


def request_of(mdp: Any, people: int, learner: Any) -> LearnRequest:
    """What is asked of such a log."""
    mapping = EpisodeMapping.from_dict({
        "states": [{"column": "s", "categories": list(mdp.state_names)}],
        "actions": {"column": "a", "categories": list(mdp.action_names)},
        "reward": {"low": 0, "high": 1}, "horizon": mdp.horizon,
    })  # fmt: skip
    return LearnRequest(mapping=mapping, epsilon=1.0, delta=1e-6, people=people, learner=learner)


def rows(world: str, people: int) -> list[Row]:
    """The learners on the same logs."""
    mdp: Any = tacit.make_environment(world)
    usual = uniform_policy(mdp.horizon, mdp.num_states, mdp.num_actions)
    best = DeterministicPolicy(solve(np.array(mdp.stage_P), np.array(mdp.stage_r), mdp.horizon)[2])
    base, top = true_value(mdp, usual), true_value(mdp, best)
    assert base is not None
    assert top is not None
    made = []
    for learner in ("pessimism", "dp-apvi", "dp-vapvi"):
        request = request_of(mdp, people, learner)
        channel, certificate, shares = request.channels[0], request.certificate("simulation"), []
        for i in range(LOGS):
            users = roll_out(prepare_world(mdp), usual, people, np.random.default_rng([i, people]))
            noise = SimulationNoise(np.random.default_rng([i, 1]))
            _, payload = channel.simulate(channel.begin_secret(), users, TOTALS, noise)
            found = request.planned((payload,), certificate)
            value = true_value(mdp, tabular(found.policy.policy))
            assert value is not None
            shares.append((value - base) / (top - base))
        half = 1.96 * float(np.std(shares, ddof=1)) / LOGS**0.5
        made.append({
            "name": f"{world}, {people:,} people: {learner}",
            "ratio": float(np.mean(shares)),
            "target": None,
            "detail": f"share of the gain over uniform, 95% interval ±{half:.3f}; certified epsilon "
            f"{certificate.epsilon:.3f}, noise {request.basis.noise_std()['rewards']:.1f}",
        })  # fmt: skip
    return made
