"""The experiments that [bai2024adversarial] lacks: regret against episodes, epsilon, estimator and effective support.

    table1      {full, bandit} x {none, central, local}: regret against K (every K is a run of its own, because the
                learning rate depends on it) and against 1/ε, theory and practical widths, on a random world and on a
                trap, with fitted exponents beside the predicted ones
    estimator   the bandit estimator as written and centred: growth near 1 and near 1/2
    two-arms    the same with the constants of Theorem 4.2 where its bound is far below H K: two arms, H = 1, no noise
    support     transitions from certain to uniform: regret against the effective support C_M

Calibrations are tight: central at delta 1e-6, local pure. Every regret is against the best policy in hindsight.
"""

from __future__ import annotations

import math
from typing import Any, Final, Literal, get_args

from tacit.runs.comparison import Run
from tacit.runs.config import RunConfig, as_seeds
from tacit.types import Estimator

__all__ = [
    "DELTA", "EPSILONS", "PREDICTED", "SUMMARIES", "WORLDS",
    "arm_runs", "estimator_runs", "proof42", "support_runs", "table_runs", "theorem42",
]  # fmt: skip

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
ARMS: Final = "layered:layers=1,states=1,actions=2,seed=1"
"""Two arms with mean losses 0.95 and 0.31; their order is turned round after a tenth of the episodes."""
ARM_EPISODES: Final = {"smoke": (1_000, 10_000), "paper": (10_000, 100_000, 1_000_000)}
ARM_SEEDS: Final = {"smoke": 2, "paper": 10}
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
    "two-arms": "Theorem 4.2 with its own learning rate on two arms: regret as written and centred beside the bound",
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


def arm_runs(scale: Scale) -> tuple[Run, ...]:
    """Theorem 4.2 as printed: η = √(X/K), E' = 1 assumed, nothing noisy, nothing unknown, X = A = 2 and H = 1.

    C_M = 0 and E = 0, so the bound is A E' √(X³K) = 2 √(8K), but for logarithms.
    """
    return tuple(
        Run(
            label=f"{estimator}, K={K}",
            config=RunConfig(
                environment=ARMS,
                adversary="turning",
                learner="uob-lbps:radius=1,transitions=known",
                episodes=K,
                seeds=as_seeds(ARM_SEEDS[scale]),
                checkpoints=40,
                constants="theory",
                estimator=estimator,
            ),
        )
        for estimator in get_args(Estimator)
        for K in ARM_EPISODES[scale]
    )


def theorem42(K: float, *, states: int = 2, actions: int = 2, radius: float = 1.0) -> float:
    """The last term of Theorem 4.2 without its logarithms, A E' √(X³K); the others are 0 on two arms.

    >>> round(theorem42(10**6))
    5657
    """
    return actions * radius * math.sqrt(states**3 * K)


def proof42(K: float, *, states: int = 2, actions: int = 2, radius: float = 1.0) -> float:
    """The bound of the proof of Theorem 4.2 (Eq. D.9, D.10) on two arms, every constant and logarithm kept.

    On two arms ERROR and BIAS are at most 0, a comparator is at least 1/(X²AK³), and D sums over two triples:

        (2E' + 1) D/η + η (2E' + 1) K + 1,   D = 2 ln(X² A K³),   η = √(X/K)

    >>> [round(proof42(10**n), -3) for n in (4, 5, 6)]
    [13000.0, 50000.0, 189000.0]
    """
    eta = math.sqrt(states / K)
    distance = 2.0 * math.log(states**2 * actions * K**3)
    return (2.0 * radius + 1.0) * distance / eta + eta * (2.0 * radius + 1.0) * K + 1.0


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
