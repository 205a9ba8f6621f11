"""The case `features`, mobile health: messages that are tailored to a person's context, in StepCountJITAI.

    pip install StepCountJITAI scikit-learn      (MIT; BSD-3-Clause)
    python -m papers.cases.steps [--seeds 5] [--out results/cases/features]

A person comes for at most 30 days. Every day has a message: none, a general one, or one for one of two contexts. The
observation is the inferred context (right in nine of ten days), habituation and disengagement; rewards are steps. A
disengaged person leaves. The world is the simulator's deterministic version, whose contexts are random: its
stochastic versions fail under NumPy 2.4. A person is a table of states here, because a linear learner decides once.

    world       context 2, habituation 3 (.3, .6), disengagement 3 (.33, .66) bins; H = 30; rewards of a day in [0, 200]
    learners    auto without privacy, and under central trust at epsilon 1, delta 1e-6, 4,000 people, seeds 0 to 4
    measured    mean steps of a person under the last policy, 500 fresh people per seed; 95 % t intervals over seeds
    baselines   uniform messages, and always the message of the inferred context: 1,000 people per seed
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import gymnasium
import numpy as np

import tacit
from papers.cases.rows import interval
from tacit._version import __version__
from tacit.environments.discretise import Bins
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.simulation.simulate import simulate

DAYS: Final = 30
PEOPLE: Final = 4_000
DELTA: Final = 1e-6


class Messages(gymnasium.Env[Any, Any]):
    """The simulator with the `reset` of Gymnasium."""

    def __init__(self) -> None:
        from StepCountJITAI.envs import StepCountJITAI  # type: ignore[import-not-found]

        self._inner = StepCountJITAI(
            sigma=0.4, chosen_obs_names=["L", "H", "D"], max_episode_length=DAYS, b_display=False
        )
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (3,), np.float64)
        self.action_space = gymnasium.spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """A new person."""
        if seed is not None:
            self._inner.rng0 = np.random.default_rng(seed)
        observation, told = self._inner.reset()
        return np.array(observation, dtype=np.float64), told

    def step(self, action: Any) -> Any:
        """A day."""
        observation, steps, ended, _, told = self._inner.step(int(action))
        return np.array(observation, dtype=np.float64), float(steps), bool(ended), False, told


def make() -> Messages:
    """The world."""
    return Messages()


def tailored(seed: int, people: int = 1_000) -> float:
    """Mean steps of a person who always gets the message of the inferred context."""
    world, total = make(), 0.0
    for person in range(people):
        observation, _ = world.reset(seed=seed if person == 0 else None)
        for _ in range(DAYS):
            observation, steps, ended, _, _ = world.step(2 + int(observation[0]))
            total += steps
            if ended:
                break
    return total / people


def measure(seeds: Sequence[int]) -> dict[str, Any]:
    """Everything that the docstring says."""
    world = tacit.live(
        make,
        horizon=DAYS,
        rewards=(0.0, 200.0),
        discretise=Bins(edges=((0.5,), (0.3, 0.6), (0.33, 0.66))),
        stationary=True,
        evaluation=500,
    )
    found: dict[str, list[float]] = {"no privacy": [], "central, epsilon 1": [], "uniform": [], "always tailor": []}
    certified, learner = 0.0, ""
    for seed in seeds:
        found["always tailor"].append(tailored(1000 + seed))
        for name, private in (("no privacy", {}), ("central, epsilon 1", {"epsilon": 1.0, "delta": DELTA})):
            config = RunConfig(
                environment=world,
                learner="auto",
                trust="central" if private else "none",
                episodes=PEOPLE,
                seeds=(seed,),
                checkpoints=2,
                **private,  # type: ignore[arg-type]
            )
            parts = assemble(config)
            run = simulate(parts.mdp, parts.learner, parts.privatizer, episodes=PEOPLE, seed=seed)
            if run.returns is None:
                raise TypeError("a live world must have returns: expected some, got none")
            found[name].append(run.returns.final.mean)
            if private:
                certified, learner = max(certified, float(parts.certificate.epsilon)), parts.config.learner
                found["uniform"].append(run.returns.uniform.mean)
    return {
        "seeds": list(seeds),
        "learner": learner,
        "certified epsilon": certified,
        "steps": found,
        "intervals": {name: interval(values) for name, values in found.items()},
        "version": __version__,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all seeds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("results/cases/features"))
    given = parser.parse_args(arguments)
    content = {"command": f"python -m papers.cases.steps --seeds {given.seeds}", "delta": DELTA}
    text = json.dumps(content | measure(range(given.seeds)), indent=1)
    (given.out / "steps.json").write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
