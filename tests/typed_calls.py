"""Calls as users write them, right and wrong, for the type checker only: `make lint` fails if a wrong one passes.

Under `strict`, mypy reports a `type: ignore` that hides nothing. Nothing here is ever called.
"""

from __future__ import annotations

import numpy as np

import tacit
from tacit.study import Device, plan_study


def right() -> tuple[float, str, Device]:
    found = tacit.run(environment="riverswim", episodes=100, trust="central", epsilon=1.0, delta=1e-6, seeds=[3, 4])
    tacit.run(
        environment=tacit.from_gymnasium("FrozenLake-v1", horizon=6), episodes=10, baseline=np.zeros((6, 16), int)
    )
    return found.policy.act(state=0), found.named_policy.act(0, "left bank"), Device(None, cap=1.0, floor=1, key=None)


def wrong() -> None:
    tacit.run(environment="riverswim", episodes=100, trust="cental")  # type: ignore[arg-type]
    tacit.run(environment="riverswim", episodes="100")  # type: ignore[arg-type]
    tacit.run(environment="riverswim", episodes=100, epsilom=3)  # type: ignore[call-arg]
    tacit.run(environment="riverswim")  # type: ignore[call-arg]
    tacit.run(environment=3, episodes=100)  # type: ignore[arg-type]
    plan_study(states=2, actions=2, horizon=2, trust="lokal", epsilon=1.0, delta=0.0, stages=2, target=50)  # type: ignore[arg-type]
