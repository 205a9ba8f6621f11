"""The case `features`, mobile health: messages that are tailored to a person's context, in StepCountJITAI.

    pip install StepCountJITAI scikit-learn      (MIT; BSD-3-Clause)
    python -m papers.cases.steps [--seeds 20] [--out results/cases/features]

A person comes for at most 30 days. Every day has a message: none, a general one, or one for one of two contexts. The
observation is the inferred context (right in nine of ten days), habituation and disengagement; rewards are steps. A
disengaged person leaves. The world is the simulator's deterministic version, whose contexts are random: its
stochastic versions fail under NumPy 2.4. A person is a table of states here, because a linear learner decides once.

    world       context 2, habituation 3 (.3, .6), disengagement 3 (.33, .66) bins; H = 30; rewards of a day in [0, 200]
    learners    auto without privacy, and at epsilon 1 under central, shuffle (delta 1e-6) and local trust (delta 0);
                4,000 people, seeds 0 to 19
    measured    mean steps of a person under the last policy, 500 fresh people per seed; 95 % t intervals over seeds
    baselines   uniform messages, and always the message of the inferred context: 1,000 people per seed
    shown       better or worse than always tailoring, if the t interval of the differences by seed leaves out 0
    trial       a private one of what seed 0 learned under central trust, whatever it is, against always tailoring:
                2,000 fresh people per arm, epsilon 1, delta 1e-6, returns in [0, 6000]

The first design had seeds 0 to 4, no privacy and central trust, and no trial. Seeds 5 to 19, the other trust models,
the differences and the trial were added when its numbers were known (1,245 steps, 908 to 1,582, against 1,359), and
before any of theirs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final

import gymnasium
import numpy as np

import tacit
from papers.cases.rows import interval
from tacit._version import __version__
from tacit.environments.discretise import Bins
from tacit.environments.live import LiveWorld
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.simulation.simulate import simulate

DAYS: Final = 30
PEOPLE: Final = 4_000
DELTA: Final = 1e-6
NAMES: Final = (
    "always tailor",
    "central, epsilon 1",
    "no privacy",
    "shuffle, epsilon 1",
    "local, epsilon 1",
    "uniform",
)


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


def live() -> LiveWorld:
    """The world in bins."""
    bins = Bins(edges=((0.5,), (0.3, 0.6), (0.33, 0.66)))
    return tacit.live(make, horizon=DAYS, rewards=(0.0, 200.0), discretise=bins, stationary=True, evaluation=500)


def run(world: LiveWorld, name: str, seed: int) -> tuple[Any, Any]:
    """What is run, and what came of it."""
    private = {} if name == "no privacy" else {"epsilon": 1.0, "delta": 0.0 if name.startswith("local") else DELTA}
    config = RunConfig(
        environment=world,
        learner="auto",
        trust=name.partition(",")[0] if private else "none",  # type: ignore[arg-type]
        episodes=PEOPLE,
        seeds=(seed,),
        checkpoints=2,
        **private,  # type: ignore[arg-type]
    )
    parts = assemble(config)
    return parts, simulate(parts.mdp, parts.learner, parts.privatizer, episodes=PEOPLE, seed=seed)


def on_trial(world: LiveWorld, policy: Any) -> dict[str, Any]:
    """The private trial of a policy against always tailoring."""
    tailor = np.zeros(world.num_states, dtype=np.int64)
    for context in (0.0, 1.0):
        for habit, gone in product((0.1, 0.5, 0.9), repeat=2):
            tailor[world.discretiser.state(np.array([context, habit, gone]))] = 2 + int(context)
    private = {"trust": "central", "epsilon": 1.0, "delta": DELTA, "bounds": (0.0, 200.0 * DAYS), "seed": 0}
    found = tacit.trial(policy, environment=world, against=tailor, users=2_000, **private)  # type: ignore[arg-type]
    return {
        "verdict": found.verdict,
        "estimate": found.estimate,
        "interval": [found.low, found.high],
        "certified epsilon": found.certificate.epsilon,
    }


def measure(seeds: Sequence[int], path: Path) -> None:
    """Everything that the docstring says and that the file does not hold yet."""
    kept = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    found = kept if kept.get("version") == __version__ else {}
    steps: dict[str, list[float]] = {name: found.get("steps", {}).get(name, []) for name in NAMES}
    learners, certified = dict(found.get("learners", {})), dict(found.get("certified epsilon", {}))
    trial, world = found.get("trial"), live()
    for place, seed in enumerate(seeds):
        for name in NAMES:
            if len(steps[name]) > place:
                continue
            if name in ("uniform", "always tailor"):
                if name == "always tailor":
                    steps[name].append(tailored(1000 + seed))
                continue
            parts, ended = run(world, name, seed)
            if ended.returns is None:
                raise TypeError("a live world must have returns: expected some, got none")
            steps[name].append(ended.returns.final.mean)
            learners[name] = parts.config.learner
            if name != "no privacy":
                certified[name] = max(certified.get(name, 0.0), float(parts.certificate.epsilon))
            if name == NAMES[1]:
                steps["uniform"].append(ended.returns.uniform.mean)
                trial = on_trial(world, ended.policy) if trial is None else trial
            sys.stderr.write(f"{seed} {name}: {steps[name][-1]:.0f}\n")
            content = {
                "command": f"python -m papers.cases.steps --seeds {len(seeds)}",
                "delta": DELTA,
                "seeds": list(seeds),
                "learners": learners,
                "certified epsilon": certified,
                "steps": steps,
                "intervals": {n: interval(values) for n, values in steps.items() if len(values) > 1},
                "minus always tailor": {
                    n: interval([a - b for a, b in zip(steps[n], steps["always tailor"], strict=False)])
                    for n in NAMES[1:5]
                    if len(steps[n]) > 1
                },
                "trial": trial,
                "version": __version__,
            }
            path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all seeds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("results/cases/features"))
    given = parser.parse_args(arguments)
    measure(range(given.seeds), given.out / "steps.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
