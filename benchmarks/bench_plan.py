"""`tacit.plan` against simulated studies, on six worlds that are not in its bank.

Of each world: the least people (500, 1,000, 2,000, ...) for which the plan finds a better policy with probability 0.8
at an epsilon of at most 1; then 200 studies at the plan's epsilon and 200 at half of it. A study learns (auto), with
fresh noise in every stage, and ends with a private trial against the baseline; it succeeds if the trial says "better".
"""

from __future__ import annotations

from typing import Any, Final

import tacit
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.simulation.arms import true_value

Row = dict[str, Any]
STUDIES: Final = 200
WORLDS: Final = (
    ("contextual-bandit", "uniform", "central"),
    ("treatment-bandit", "uniform", "shuffle"),
    ("riverswim:states=3,horizon=4", "always left", "central"),
    ("random-mdp:states=3,actions=3,horizon=3,seed=11,drift=1", "uniform", "central"),
    ("recommender", "uniform", "central"),
    ("treatment", "uniform", "central"),
)


def run() -> list[Row]:
    """Two rows for each world."""
    return [row for world, baseline, trust in WORLDS for row in rows(world, baseline, trust)]


def rows(world: str, baseline: str, trust: Any) -> list[Row]:
    """The difference of the plan's probability and the share of studies that succeeded."""
    sizes = facts(world, baseline)
    people = 500
    while (found := tacit.plan(people=people, trust=trust, delta=1e-6, **sizes)).epsilon is None or found.epsilon > 1:
        people *= 2
    made = []
    for epsilon in (round(found.epsilon, 3), round(found.epsilon / 2, 3)):
        one = tacit.plan(people=people, trust=trust, delta=1e-6, epsilon=epsilon, **sizes)
        done = tacit.run(
            environment=world, baseline=baseline, trust=trust, epsilon=epsilon, delta=1e-6, episodes=one.learned_from,
            value_users=one.arm, seeds=STUDIES, checkpoints=2, workers=1,
            mechanism="batched" if trust == "central" else None,
        )  # fmt: skip
        better = sum(trial.verdict == "better" for trial in done.trials) / STUDIES
        (said,) = one.rows
        made.append({
            "name": f"{world} ({trust}, epsilon {epsilon:g}, {people:,} people)",
            "ratio": abs(said.success - better),
            "target": 0.1,
            "better": "lower",
            "detail": f"plan {said.success:.3f}, {STUDIES} studies {better:.3f}; effect {one.effect:.3g} over "
            f"{baseline}, baseline {one.baseline:.3g}",
        })  # fmt: skip
    return made


def facts(world: str, baseline: str) -> dict[str, Any]:
    """What somebody who plans would have to know of this world: sizes, the baseline's return, the possible gain."""
    config = RunConfig(environment=world, learner="uniform", episodes=10, seeds=(0,), baseline=baseline)
    parts = assemble(config)
    usual: Any = parts.baseline
    base = true_value(parts.mdp, usual)
    assert base is not None
    mdp = parts.mdp
    return {
        "states": mdp.num_states, "actions": mdp.num_actions, "horizon": mdp.horizon, "stationary": mdp.stationary,
        "baseline": base, "effect": parts.values[0] - base,
    }  # fmt: skip
