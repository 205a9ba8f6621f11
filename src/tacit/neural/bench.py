"""How much per-user clipping costs: CPU seconds of one private and one plain update of the same batch."""

from __future__ import annotations

import time
from collections.abc import Callable

from tacit.neural.gradients import clipped_sum, plain_sum
from tacit.neural.policy import require_torch
from tacit.neural.rollout import Users, policy_for

__all__ = ["update_seconds"]


def update_seconds(users: int = 500, horizon: int = 500, hidden: int = 32, times: int = 20) -> tuple[float, float]:
    """Seconds of the clipped and of the plain sum of gradients, the fastest of several, on one thread."""
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
