"""Table 1 of [bai2024adversarial] in its own setting, pure privacy, and its powers of X, A and H.

    table1-pure     {full, bandit} x {transitions learned, known} x {none, central, local}: pure with tight noise, pure
                    as printed, and approximate; full information at ε = 1 up to 10⁶ episodes, bandit feedback at
                    ε = 10 (and 1) up to 10⁵
    table1-powers   regret and cost of privacy against the states, actions and steps of random worlds, one at a time,
                    beside the powers that the terms of the theorems have on the very same worlds

As printed, the noise is Lap(3H⌈log₂ K⌉/ε) in every tree and Lap(3H/ε) elsewhere, which is not the ε that is said: the
certificate of each run says what holds.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from papers.bai2024adversarial.experiments import ADVERSARY, DELTA, WORLDS
from tacit.runs.comparison import Run
from tacit.runs.config import RunConfig, as_seeds

__all__ = ["CASES", "LEARNERS", "SUMMARIES", "SWEEPS", "power_runs", "pure_runs"]

Scale = Literal["smoke", "paper"]

LEARNERS: Final = {
    "full, learned": "uc-o-reps",
    "full, known": "o-reps",
    "bandit, learned": "uob-lbps",
    "bandit, known": "uob-lbps:transitions=known",
    "bandit, known, entropy": "uob-reps:transitions=known",
}
"""Feedback and what is known about the transitions -> learner."""
CASES: Final[dict[str, dict[str, Any]]] = {
    "none": {},
    "central, pure": {"trust": "central", "delta": 0.0},
    "central, as printed": {"trust": "central", "delta": 0.0, "calibration": "paper"},
    "central, δ = 1e-6": {"trust": "central", "delta": DELTA},
    "local, pure": {"trust": "local", "delta": 0.0},
    "local, as printed": {"trust": "local", "delta": 0.0, "calibration": "paper"},
}
EPSILONS: Final = {"full": 1.0, "bandit": 10.0}
EPISODES: Final = {"smoke": (300, 1_000), "paper": (10_000, 100_000)}
LONG: Final = {"smoke": 3_000, "paper": 1_000_000}
LONG_CASES: Final = (
    ("full, learned", "central, pure"),
    ("full, known", "central, pure"),
    ("full, learned", "central, δ = 1e-6"),
    ("full, learned", "local, pure"),
)
"""What runs for 10⁶ episodes, too."""
SEEDS: Final = {"smoke": (2, 1), "paper": (10, 10)}
"""Of all runs, and of the long ones."""

BASE: Final = {"layers": 4, "states": 3, "actions": 2}
SWEEPS: Final = {"states": (2, 3, 5, 8), "actions": (2, 3, 4, 6), "layers": (2, 3, 4, 6)}
"""What is changed, one at a time; `states` are those of an inner layer."""
POWER_CASES: Final = {
    "full": ("uc-o-reps", 10.0),
    "bandit": ("uob-lbps", 100.0),
}
"""Feedback -> learner and epsilon: as small as learning allows at this number of episodes."""
SUMMARIES: Final = {
    "table1-pure": "Table 1 with pure privacy, tight and as printed, K to 10^6 and 10^5; transitions learned and known",
    "table1-powers": "regret and cost of privacy against states, actions and steps, beside the terms of the theorems",
}


def pure_runs(scale: Scale) -> tuple[Run, ...]:
    """Growth in K for every feedback, knowledge and kind of privacy, on both worlds."""
    seeds, few = SEEDS[scale]
    found = []
    for environment in WORLDS.values():
        for kind, learner in LEARNERS.items():
            epsilon = EPSILONS[kind.partition(",")[0]]
            for case in CASES:
                for K in EPISODES[scale]:
                    found.append(_run(environment, kind, learner, case, epsilon, K, seeds))
                if (kind, case) in LONG_CASES:
                    found.append(_run(environment, kind, learner, case, epsilon, LONG[scale], few))
            if kind in ("bandit, learned", "bandit, known"):
                for K in EPISODES[scale]:
                    found.append(_run(environment, kind, learner, "central, pure", 1.0, K, seeds))
    return tuple(found)


def power_runs(scale: Scale) -> tuple[Run, ...]:
    """Three random worlds of every size, without privacy, central and local; all pure and tight."""
    K, seeds, worlds = {"smoke": (500, 1, (1,)), "paper": (10_000, 10, (1, 2, 3))}[scale]
    sizes = dict.fromkeys(tuple({**BASE, name: n}.items()) for name, values in SWEEPS.items() for n in values)
    found = []
    for size in sizes:
        for world in worlds:
            environment = "layered:" + ",".join(f"{name}={n}" for name, n in (*size, ("seed", world)))
            for feedback, (learner, epsilon) in POWER_CASES.items():
                for case in ("none", "central, pure", "local, pure"):
                    found.append(_run(environment, feedback, learner, case, epsilon, K, seeds))
    return tuple(found)


def _run(environment: str, kind: str, learner: str, case: str, epsilon: float, K: int, seeds: int) -> Run:
    options = CASES[case]
    words = "no privacy" if case == "none" else f"{case}, ε={epsilon:g}"
    config = RunConfig(
        environment=environment,
        adversary=ADVERSARY,
        learner=learner,
        episodes=K,
        seeds=as_seeds(seeds),
        checkpoints=40,
        constants="practical",
        epsilon=epsilon if options else None,
        **options,
    )
    return Run(label=f"{kind}, {words}, K={K}", config=config)
