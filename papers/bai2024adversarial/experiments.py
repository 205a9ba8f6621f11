"""The experiments that [bai2024adversarial] lacks: regret against episodes, epsilon, estimator and effective support.

    table1      {full, bandit} x {none, central, local}: regret against K (every K is a run of its own, because the
                learning rate depends on it) and against 1/ε, theory and practical widths, on a random world and on a
                trap, with fitted exponents beside the predicted ones
    estimator   the bandit estimator as written and centred: growth near 1 and near 1/2
    support     transitions from certain to uniform: regret against the effective support C_M

Calibrations are tight: central at delta 1e-6, local pure. Every regret is against the best policy in hindsight.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from tacit.runs.comparison import Run
from tacit.runs.config import RunConfig, as_seeds

__all__ = ["DELTA", "EPSILONS", "PREDICTED", "SUMMARIES", "WORLDS", "estimator_runs", "support_runs", "table_runs"]

Scale = Literal["smoke", "paper"]

DELTA: Final = 1e-6
WORLDS: Final = {
    "random": "layered:layers=4,states=3,actions=2,seed=1",
    "trap": "layered-trap:layers=4,states=3,actions=2",
}
"""The myopic policy is nearly optimal in the first and worse than chance in the second."""
ADVERSARY: Final = "sinusoidal"
LEARNERS: Final = {"full": "uc-o-reps", "bandit": "uob-lbps"}
EPISODES: Final = {"smoke": (300, 1_000, 3_000), "paper": (400, 2_000, 10_000)}
ESTIMATOR_EPISODES: Final = {"smoke": (500, 4_000), "paper": (1_000, 4_000, 16_000)}
SEEDS: Final = {"smoke": 2, "paper": 20}
PRACTICAL: Final = ((None, "none"), (1.0, "central"), (10.0, "central"), (1.0, "local"), (10.0, "local"))
THEORY: Final = ((None, "none"), (1.0, "central"), (1.0, "local"))
EPSILONS: Final = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Of the second half of table 1, at the middle number of episodes."""
PREDICTED: Final = {
    "full, none": (0.5, None),
    "full, central": (0.5, 1.0),
    "full, local": (0.5, 1.0),
    "bandit, none": (0.5, None),
    "bandit, central": (0.5, 1.0),
    "bandit, local": (0.5, 1.0),
}
"""Exponents of K and of 1/ε in Theorems 5.2 and 5.8 (full information, central: the privacy term has no K at all)."""
SPREADS: Final = (0.0, 0.05, 0.2, 0.5, 1.0)
SUMMARIES: Final = {
    "table1": "UC-O-REPS and UOB-LBPS, not private, central, local: growth in K and in 1/epsilon beside the theorems",
    "estimator": "UOB-LBPS with the loss estimator as written and centred: linear regret against its square root",
    "support": "regret against the effective support C_M, from certain to uniform transitions",
}


def table_runs(scale: Scale) -> tuple[Run, ...]:
    """Growth in K for every trust model and both constants, and in 1/ε at the middle K."""
    found: dict[str, Run] = {}
    sizes = EPISODES[scale]
    for world, environment in WORLDS.items():
        for feedback, learner in LEARNERS.items():
            for constants, cases in (("practical", PRACTICAL), ("theory", THEORY)):
                for epsilon, trust in cases:
                    for K in sizes:
                        _add(found, scale, world, environment, feedback, learner, K, constants, trust, epsilon)
            for trust in ("central", "local"):
                for epsilon in EPSILONS:
                    _add(found, scale, world, environment, feedback, learner, sizes[1], "practical", trust, epsilon)
    return tuple(found.values())


def estimator_runs(scale: Scale) -> tuple[Run, ...]:
    """As written and centred: with the offset alone (no noise, E' = 30 assumed), and really private at ε = 100.

    Losses turn into their opposites after a tenth of the episodes, so that who froze before is wrong; with losses that
    never change (iid) a frozen policy can be lucky.
    """
    found: list[Run] = []
    cases: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
        ("offset alone", "turning", "uob-lbps:radius=30", {}),
        ("central ε=100", "turning", "uob-lbps", {"trust": "central", "epsilon": 100.0, "delta": DELTA}),
        ("central ε=100", "iid", "uob-lbps", {"trust": "central", "epsilon": 100.0, "delta": DELTA}),
    )
    for environment in WORLDS.values():
        for words, adversary, learner, options in cases:
            for estimator in ("as-written", "centred"):
                for K in ESTIMATOR_EPISODES[scale]:
                    config = _config(
                        scale, environment, learner, K, adversary, constants="practical", estimator=estimator, **options
                    )
                    found.append(Run(label=f"{estimator}, {words}, K={K}", config=config))
    return tuple(found)


def support_runs(scale: Scale) -> tuple[Run, ...]:
    """Both learners without privacy, both constants, in worlds from certain to uniform."""
    K = {"smoke": 1_000, "paper": 5_000}[scale]
    found: list[Run] = []
    for spread in SPREADS:
        environment = f"layered-support:layers=4,states=3,actions=2,spread={spread:g}"
        for feedback, learner in LEARNERS.items():
            for constants in ("theory", "practical"):
                config = _config(scale, environment, learner, K, ADVERSARY, constants=constants)
                found.append(Run(label=f"{feedback}, {constants}", config=config))
    return tuple(found)


def _add(
    found: dict[str, Run],
    scale: Scale,
    world: str,
    environment: str,
    feedback: str,
    learner: str,
    K: int,
    constants: str,
    trust: str,
    epsilon: float | None,
) -> None:
    privacy = "none" if epsilon is None else f"{trust} ε={epsilon:g}"
    label = f"{feedback}, {privacy}, {constants}, K={K}"
    options: dict[str, Any] = {} if epsilon is None else {"trust": trust, "epsilon": epsilon}
    if epsilon is not None:
        options["delta"] = DELTA if trust == "central" else 0.0
    config = _config(scale, environment, learner, K, ADVERSARY, constants=constants, **options)
    found[f"{world}: {label}"] = Run(label=label, config=config)


def _config(scale: Scale, environment: str, learner: str, K: int, adversary: str, **options: Any) -> RunConfig:
    return RunConfig(
        environment=environment,
        adversary=adversary,
        learner=learner,
        episodes=K,
        seeds=as_seeds(SEEDS[scale]),
        checkpoints=40,
        **options,
    )
