"""Runs inside the environment of the peers (`make bench-peers`), never in ours: times one public learner.

    .venv-peers/bin/python benchmarks/peer_fits.py ucbvi|psrl EPISODES < model.json

The model comes as JSON {"P": [S][A][S], "r": [S][A], "horizon": H}; the answer goes to standard output as JSON. The
peers get every advantage: no logging, rewards paid as their mean (no coin to toss), compilation before the clock.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path

OLD_RLBERRY = Path(sys.prefix) / "rlberry-0.6.0"
"""The last rlberry with a PSRL; it lives beside the current one, which rlberry-scool needs."""


def main() -> None:
    warnings.filterwarnings("ignore")
    kind, episodes = sys.argv[1], int(sys.argv[2])
    if kind == "psrl":
        sys.path.insert(0, str(OLD_RLBERRY))
    import numpy as np

    model = json.load(sys.stdin)
    P, r = np.array(model["P"]), np.array(model["r"])
    if kind == "ucbvi":
        from rlberry.envs.finite_mdp import FiniteMDP
        from rlberry_scool.agents.ucbvi import UCBVIAgent as Agent

        peer = f"rlberry-scool {version('rlberry-scool')}"
    else:
        from rlberry.agents.psrl import PSRLAgent as Agent
        from rlberry.envs.finite import FiniteMDP

        peer = "rlberry 0.6.0"
    seconds = {}
    for staged in (False, True):
        agent = Agent(FiniteMDP(r, P, 0), horizon=model["horizon"], stage_dependent=staged)
        agent._writer = None
        agent.fit(20)
        best = float("inf")
        for _ in range(5):
            start = time.process_time()
            agent.fit(episodes)
            best = min(best, time.process_time() - start)
        seconds["staged" if staged else "pooled"] = best / episodes
    print(json.dumps({"peer": peer, "seconds_per_episode": seconds}))


if __name__ == "__main__":
    main()
