"""Central trust: an episode of dp-ucbvi against one of non-private ucbvi, noise of the counters, memory at K = 10⁶.

CPU seconds are compared, best of several in the same run, on RiverSwim (S = 4, A = 2, H = 6, K = 20,000). The counter
after every user draws 256 Gaussians per episode, whatever the learner does; the batched counters draw nothing between
two releases. Both are measured, against ucbvi with the practical rule (the same learner without noise) and against its
theory constants, which are cheaper because their values hardly ever move.
"""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

from tacit.environments.tabular_worlds import riverswim
from tacit.learners.dp_ucbvi import DPUCBVI
from tacit.learners.ucbvi import UCBVI
from tacit.release.none import Unprotected
from tacit.release.request import PrivacyRequest
from tacit.release.table import make_privatizer
from tacit.released.counts import CountShape
from tacit.simulation.simulate import simulate

EPISODES = 20_000
SHAPE = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)

Row = dict[str, Any]


def run() -> list[Row]:
    """Every row of the table."""
    none = Unprotected(shape=SHAPE)
    plain = {
        rule: seconds(UCBVI(shape=SHAPE, episodes=EPISODES, constants=rule), none)  # type: ignore[arg-type]
        for rule in ("practical", "theory")
    }
    rows = []
    for mechanism in ("batched-factorization", "batched", "factorization"):
        for choice in ("projected", "kept"):
            learner = DPUCBVI(shape=SHAPE, episodes=EPISODES, constants="practical", rows=choice)  # type: ignore[arg-type]
            spent = seconds(learner, privatizer(mechanism))
            rows.append(
                {
                    "name": f"dp-ucbvi central/{mechanism}, rows {choice}: episode against ucbvi practical",
                    "ratio": spent / plain["practical"],
                    "target": 5.0,
                    "better": "lower",
                    "detail": f"{1e6 * spent / EPISODES:.2f} µs against {1e6 * plain['practical'] / EPISODES:.2f} µs; "
                    f"{spent / plain['theory']:.1f}x of ucbvi theory ({1e6 * plain['theory'] / EPISODES:.2f} µs)",
                }
            )
    return [*rows, *noise_rows(), memory_row()]


def privatizer(mechanism: str | None, *, episodes: int = EPISODES, calibration: str = "tight") -> Any:
    """The central privatizer at (1, 1e-6)."""
    return make_privatizer(
        PrivacyRequest(
            trust="central",
            shape=SHAPE,
            episodes=episodes,
            epsilon=1.0,
            delta=1e-6,
            calibration=calibration,  # type: ignore[arg-type]
            mechanism=mechanism,
            users_per_batch=1,
        )
    )


def seconds(learner: Any, private: Any, repeats: int = 7) -> float:
    """CPU seconds of a run, the best of several."""
    mdp = riverswim()
    simulate(mdp, learner, private, episodes=2, seed=0, speed="compiled")
    best = float("inf")
    for seed in range(repeats):
        started = time.process_time()
        simulate(mdp, learner, private, episodes=EPISODES, seed=seed)
        best = min(best, time.process_time() - started)
    return best


def noise_rows() -> list[Row]:
    """How much less noise the tight counters have than the printed tree at (1, 1e-6), K = 20,000."""
    printed = privatizer(None, calibration="paper").noise_std()["transitions"]
    return [
        {
            "name": f"noise std of a transition counter: printed tree against {mechanism}",
            "ratio": printed / privatizer(mechanism).noise_std()["transitions"],
            "target": 10.0,
            "better": "higher",
            "detail": f"{printed:.0f} against {privatizer(mechanism).noise_std()['transitions']:.1f}",
        }
        for mechanism in ("factorization", "batched", "batched-factorization")
    ]


def memory_row() -> Row:
    """Peak memory (in GB) of all central state for a million episodes, 256 counters (288 with all H transitions)."""
    tracemalloc.start()
    private = privatizer("factorization", episodes=10**6)
    state, learner = private.begin(), DPUCBVI(shape=SHAPE, episodes=10**6, constants="practical")
    belief = learner.begin()
    simulate(riverswim(), learner, private, episodes=100_000, seed=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    del state, belief
    return {
        "name": "memory for 10⁶ episodes of central/factorization, GB",
        "ratio": peak / 1e9,
        "target": 1.0,
        "better": "lower",
        "detail": f"{peak / 1e6:.2f} MB; buffers do not depend on the number of episodes",
    }
