"""Policy gradients: a million private users against drawing them with NumPy; clipped against plain neural updates.

The neural row needs the extra `[torch]`; without it, it is left out.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tacit.environments.registry import make
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.simulation.simulate import simulate

USERS = 1_000_000

Row = dict[str, Any]


def run() -> list[Row]:
    """Every row of the table."""
    rows = [tabular_row(policy) for policy in ("dp-pg", "dp-npg", "dp-ppo")]
    rows.append(tabular_row("dp-pg:policy=linear"))
    if importlib.util.find_spec("torch") is not None:
        rows.append(neural_row())
    return rows


def best_of(times: int, call: Callable[[], object]) -> float:
    """CPU seconds of the fastest of several calls."""
    best = float("inf")
    for _ in range(times):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def draw_with_numpy() -> None:
    """Contexts, actions of one fixed policy and rewards of a million users, as vectorised as NumPy allows."""
    mdp = make("contextual-bandit")
    generator = np.random.default_rng(0)
    S, A = mdp.num_states, mdp.num_actions
    contexts = generator.choice(S, size=USERS, p=mdp.rho)
    cumulative = np.cumsum(np.full((S, A), 1.0 / A), axis=1)
    uniform = generator.random(USERS)
    actions = (uniform[:, None] > cumulative[contexts, : A - 1]).sum(axis=1)
    rewards = generator.random(USERS) < mdp.r[0][contexts, actions]
    del rewards


def tabular_row(learner: str) -> Row:
    """The whole private run, exact objective of every iterate included, against drawing the users alone."""
    config = RunConfig(
        environment="contextual-bandit", learner=learner, episodes=USERS, seeds=(0,), trust="central", epsilon=1.0,
        delta=1e-5,
    )  # fmt: skip
    parts = assemble(config)
    simulate(parts.mdp, parts.learner, parts.privatizer, episodes=10_000, seed=0)
    fast = best_of(5, lambda: simulate(parts.mdp, parts.learner, parts.privatizer, episodes=USERS, seed=0))
    numpy = best_of(5, draw_with_numpy)
    return {
        "name": f"{learner}: a million users of the bandit (S=10, A=5) vs NumPy drawing them",
        "ratio": fast / numpy,
        "target": 3.0 if learner == "dp-pg" else None,
        "better": "lower",
        "detail": f"{fast * 1e3:.0f} ms against {numpy * 1e3:.0f} ms",
    }


def neural_row() -> Row:
    """Per-user clipped gradients against a plain update of the same batch on CartPole-v1."""
    private, plain = update_seconds()
    return {
        "name": "neural CartPole-v1: per-user clipped gradients vs plain update of the same batch",
        "ratio": private / plain,
        "target": 3.0,
        "better": "lower",
        "detail": f"{private * 1e3:.1f} ms against {plain * 1e3:.1f} ms",
    }


def update_seconds(users: int = 500, horizon: int = 500, hidden: int = 32, times: int = 20) -> tuple[float, float]:
    """Seconds of the clipped and of the plain sum of gradients, the fastest of several, on one thread."""
    from papers.neural.gradients import clipped_sum, plain_sum
    from papers.neural.policy import require_torch
    from papers.neural.rollout import Users, policy_for

    torch = require_torch()
    torch.set_num_threads(1)
    policy = policy_for("CartPole-v1", hidden)
    theta = policy.initial(0)
    batch = Users("CartPole-v1", parallel=users, horizon=horizon, seed=0).play(policy, theta, 0.0)
    calls: tuple[Callable[[], object], ...] = (
        lambda: clipped_sum(policy, theta, batch, 1.0),
        lambda: plain_sum(policy, theta, batch),
    )
    best = [float("inf"), float("inf")]
    for call in calls:
        call()
    for _ in range(times):  # in turns, so that a busy machine slows neither more than the other
        for i, call in enumerate(calls):
            start = time.process_time()
            call()
            best[i] = min(best[i], time.process_time() - start)
    return best[0], best[1]
