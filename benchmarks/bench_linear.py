"""Linear Thompson sampling over rows of features: microseconds per simulated person, and MABWiser one by one.

A simulated person is everything: row, action, reward, regret, the release with its noise and what the learner makes of
it; d = 10, A = 4, 20,000 people, the best of three runs. MABWiser's LinTS is asked and told about one person after the
other on the same rows, as an online service would; it has no noise to draw, and no regret to count. It lives in the
environment of the peers (`make bench-peers`); both sides are measured in one run, in processor time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

Row = dict[str, Any]
FEATURES: Final = 10
ACTIONS: Final = 4
PEOPLE: Final = 20_000
ALONE: Final = 1_000
"""People whom the peer serves."""
PEER: Final = Path(os.environ.get("TACIT_PEERS", ".venv-peers/bin/python"))
"""The interpreter of the environment of the peers."""
LIMIT: Final = 5.0
"""Microseconds per person."""


def run() -> list[Row]:
    """Microseconds under every trust model, then the ratio to the peer."""
    rows, best = [], {}
    for trust in ("none", "central", "shuffle", "local"):
        for K in (PEOPLE, 10 * PEOPLE):
            each = measured(trust, K)
            best[trust, K] = each
            bound = {"target": LIMIT, "better": "lower"} if trust == "central" else {}
            name = f"µs per person, trust {trust}, K = {K:,}"
            rows.append({"name": name, "ratio": each, **bound, "detail": f"d = {FEATURES}, A = {ACTIONS}"})
    if not PEER.is_file():
        rows.append({"name": "MABWiser LinTS", "ratio": None, "target": 100, "detail": "run 'make bench-peers' first"})
        return rows
    peer = json.loads(subprocess.check_output([str(PEER), __file__, str(ALONE)], text=True))
    mine = best["central", PEOPLE]
    detail = f"{peer['peer']}: {peer['microseconds']:,.0f} µs per person one by one, ours {mine:.2f} µs with privacy"
    rows.append({"name": "times MABWiser LinTS", "ratio": peer["microseconds"] / mine, "target": 100, "detail": detail})
    return rows


def measured(trust: Any, people: int) -> float:
    """Microseconds of processor time per person: the best of three runs."""
    from tacit.runs.assemble import assemble  # here, because the peer's environment reads this file, too
    from tacit.runs.config import RunConfig
    from tacit.simulation.simulate import simulate

    private: dict[str, Any] = {} if trust == "none" else {"epsilon": 1.0, "delta": 1e-6}
    world = f"linear-bandit:features={FEATURES},actions={ACTIONS}"
    config = RunConfig(environment=world, trust=trust, episodes=people, seeds=(0,), checkpoints=2, **private)
    parts, best = assemble(config), float("inf")
    for seed in range(3):
        started = time.process_time()
        simulate(parts.mdp, parts.learner, parts.privatizer, episodes=people, seed=seed, checkpoints=[people])
        best = min(best, time.process_time() - started)
    return 1e6 * best / people


def peer_alone(people: int) -> dict[str, Any]:
    """MABWiser's LinTS, asked and told one by one; it is fitted to a first person beforehand."""
    from importlib.metadata import version

    import numpy as np
    from mabwiser.mab import MAB, LearningPolicy

    rng = np.random.default_rng(0)
    theta = rng.normal(size=(ACTIONS, FEATURES))
    theta /= 2.0 * np.linalg.norm(theta, axis=1, keepdims=True)
    x = rng.normal(size=(people, FEATURES))
    x[:, 0] = 1.0
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    means = 0.5 + 0.5 * x @ theta.T
    rewards = (rng.random(means.shape) < means).astype(float)
    mab = MAB(arms=list(range(ACTIONS)), learning_policy=LearningPolicy.LinTS(alpha=0.2), seed=0)
    mab.fit([0], [1.0], x[:1])
    started = time.process_time()
    for i in range(people):
        row = x[i : i + 1]
        arm = mab.predict(row)
        mab.partial_fit([arm], [rewards[i, arm]], row)
    seconds = time.process_time() - started
    return {"peer": f"mabwiser {version('mabwiser')}", "microseconds": 1e6 * seconds / people}


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    print(json.dumps(peer_alone(int(sys.argv[1]))))
