"""What the tests of the stage learners share: privatizers of batches, runs, and a watcher of the optimal policy."""

from __future__ import annotations

import numpy as np
from shuffle_tools import shuffled_batches

from tacit.accounting.claims import OUTPUTS, PrivacyClaim, PrivacyUnit
from tacit.environments.tabular import TabularMDP
from tacit.learners.bucb import BUCB
from tacit.learners.sdp_pe import SDPPE
from tacit.learners.sdp_pe_plus import SDPPEPlus
from tacit.policies import uniform_policy
from tacit.release.none import Unprotected
from tacit.released.counts import CountShape
from tacit.simulation.judges.tabular import gaps_of, truth_of
from tacit.simulation.simulate import simulate

LEARNERS = {"sdp-pe": SDPPE, "sdp-pe-plus": SDPPEPlus, "bucb": BUCB}


def shape_of(mdp: TabularMDP) -> CountShape:
    return CountShape(horizon=mdp.horizon, num_states=mdp.num_states, num_actions=mdp.num_actions, staged=True)


def claim(epsilon: float) -> PrivacyClaim:
    return PrivacyClaim(
        trust="shuffle",
        epsilon=epsilon,
        delta=1e-6,
        unit=PrivacyUnit(reports=1, per_stage=1),
        neighbours="replace-one",
        output=OUTPUTS["shuffle"][0],
    )


def privatizer_of(shape: CountShape, epsilon: float | None, calibration: str = "tight"):
    if epsilon is None:
        return Unprotected(shape=shape, batches=())
    return shuffled_batches(shape, claim(epsilon), calibration)


def build(name: str, mdp: TabularMDP, epsilon: float | None, episodes: int, *, calibration: str = "tight", **options):
    """(learner, privatizer with its schedule)."""
    privatizer = privatizer_of(shape_of(mdp), epsilon, calibration)
    learner = LEARNERS[name](shape=shape_of(mdp), episodes=episodes, noise=privatizer, **options)
    return learner, privatizer.planned(learner.batches)


def regrets(name: str, mdp: TabularMDP, epsilon: float | None, episodes: int, seeds, **options) -> np.ndarray:
    """The final regret of each seed as a share of the uniform policy's expected one."""
    learner, privatizer = build(name, mdp, epsilon, episodes, **options)
    final = [
        simulate(mdp, learner, privatizer, episodes=episodes, seed=seed, checkpoints=[episodes]).regret[-1]
        for seed in seeds
    ]
    even = uniform_policy(mdp.horizon, mdp.num_states, mdp.num_actions)
    return np.array(final) / (float(gaps_of(truth_of(mdp), even, mdp.num_actions) @ mdp.rho) * episodes)
