"""The bank of simulations behind `tacit.plan`: `python -m benchmarks.make_plan_bank`.

Random worlds, sizes, claims and numbers of people; bucb under central trust, a few seeds each. A row holds what
`tacit.plan` knows before a study (signal, states, actions, horizon) and the share of the possible gain over the
baseline that the final policy of each seed reached (simulation only).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import tacit
from tacit.environments.tabular import TabularMDP
from tacit.policies import tabular
from tacit.runs.assemble import assemble
from tacit.runs.study_plan import BANK, heard_together, signal
from tacit.simulation.arms import true_value

ROWS, SEEDS = 1_000, 3


def world(rng: np.random.Generator) -> TabularMDP:
    """Dense or sparse rows, rewards that are spread, sparse, or nearly alike."""
    H = int(rng.choice([1, 1, 2, 3, 4, 6]))
    S, A = int(np.exp(rng.uniform(np.log(2), np.log(14)))), int(rng.integers(2, 6))
    P = rng.dirichlet(np.full(S, rng.choice([0.1, 1.0])), size=(S, A))
    r = rng.uniform(0, 0.5) + np.exp(rng.uniform(np.log(0.05), np.log(0.5))) * rng.random((S, A))
    if rng.random() < 0.3:
        r *= rng.random((S, A)) < 0.4
    rho = np.eye(S)[0] if H > 1 and rng.random() < 0.3 else rng.dirichlet(np.full(S, 3.0))
    return TabularMDP(P=P, r=r, rho=rho, horizon=H, reward_kind="bernoulli", name="bank")


def row(number: int) -> dict[str, Any] | None:
    """One world with one claim; None where there is nothing to gain."""
    rng = np.random.default_rng([number, 38])
    mdp = world(rng)
    people = int(np.exp(rng.uniform(np.log(300), np.log(30_000))))
    epsilon = float(np.exp(rng.uniform(np.log(0.2), np.log(5.0))))
    stationary = bool(rng.random() < 0.5)
    baseline = ["uniform", f"always {mdp.action_names[0]}"][int(rng.integers(2))]
    try:
        found = tacit.run(
            environment=mdp, trust="central", epsilon=epsilon, delta=1e-6, episodes=people, seeds=SEEDS, workers=1,
            baseline=baseline, checkpoints=2, learner="bucb:share_across_steps=true" if stationary else "bucb",
        )  # fmt: skip
    except tacit.TacitError:
        return None
    parts = assemble(found.config)
    best, base = parts.values[0], true_value(mdp, parts.baseline)
    if best - base < 0.01 * mdp.horizon:
        return None
    shares = [(true_value(mdp, tabular(policy)) - base) / (best - base) for policy in found.policies]
    sizes = {"states": mdp.num_states, "actions": mdp.num_actions, "horizon": mdp.horizon}
    heard, noise = heard_together(parts.learner)
    x = signal(people=heard, noise_std=noise, effect=best - base, baseline=base, stationary=stationary, **sizes)
    return {**sizes, "signal": round(x, 4), "shares": [round(float(share), 3) for share in shares]}


def main() -> None:
    """Write the bank."""
    rows = [found for number in range(ROWS) if (found := row(number)) is not None]
    columns = {name: [one[name] for one in rows] for name in rows[0]}
    text = json.dumps({"command": "python -m benchmarks.make_plan_bank", "version": tacit.__version__, **columns})
    Path(str(BANK)).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
