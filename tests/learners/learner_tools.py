"""Sizes, worlds and statistics that the tests of the learners share."""

from __future__ import annotations

import itertools

import numpy as np
from contract_calls import shown
from named_learners import make_learner

from tacit.data.counts import flow_counts
from tacit.environments.tabular import TabularMDP
from tacit.errors import InvalidInput
from tacit.learners.contract import CountRequest
from tacit.learners.table import LEARNERS
from tacit.policies import Policy
from tacit.protocol import Totals
from tacit.randomness import SimulationNoise
from tacit.release.none import Unprotected
from tacit.released.counts import CountShape, CountStatistics


def small_mdp(seed: int = 0, *, states: int = 3, actions: int = 2, horizon: int = 4) -> TabularMDP:
    """A random stage-dependent MDP."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(states, 0.5), size=(horizon, states, actions))
    return TabularMDP(
        P=P, r=rng.random((horizon, states, actions)), rho=rng.dirichlet(np.ones(states)), horizon=horizon
    )


def homogeneous_mdp(seed: int = 0, *, states: int = 3, actions: int = 2, horizon: int = 4) -> TabularMDP:
    """The same at every step."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(states, 0.5), size=(states, actions))
    return TabularMDP(P=P, r=rng.random((states, actions)), rho=rng.dirichlet(np.ones(states)), horizon=horizon)


def shape_of(mdp: TabularMDP, *, staged: bool) -> CountShape:
    return CountShape(horizon=mdp.horizon, num_states=mdp.num_states, num_actions=mdp.num_actions, staged=staged)


def exact_statistics(mdp: TabularMDP, policy: Policy, users: int, *, staged: bool, seed: int = 0) -> CountStatistics:
    """What the unprotected release says about this many users of one policy."""
    privatizer = Unprotected(shape=shape_of(mdp, staged=staged))
    batch = flow_counts(mdp, policy, users, np.random.default_rng(seed))
    _, released = shown(privatizer, privatizer.begin(), batch, SimulationNoise(np.random.default_rng(0)))
    return released


def every_learner(mdp: TabularMDP, *, episodes: int, noisy: bool = False):
    """(label, learner) for every registered learner with every combination of its options and constants.

    Learners that replan rarely wrap these and have tests of their own (test_learners_geometric_replanning).
    """
    for name, entry in LEARNERS.items():
        if entry.asks is not Totals or entry.reference:
            continue
        choices = {option: values for option, values in entry.options.items() if "number" not in values}
        for values in itertools.product(*choices.values()):
            options = dict(zip(choices, values, strict=True))
            if options.pop("replan", "every") == "geometric":
                continue
            shape = shape_of(mdp, staged=options.get("time_homogeneous", "false") == "false")
            for constants, z in ((None, None), ("practical", 0.5)):
                request = CountRequest(
                    name=name,
                    shape=shape,
                    episodes=episodes,
                    constants=constants,
                    z=z,
                    users_per_batch=1,
                    noisy=noisy,
                    precision=Unprotected(shape=shape).precision(),
                    options=options,
                )
                try:
                    learner = make_learner(request)
                except InvalidInput:
                    assert constants is not None  # a learner without confidence widths refuses constants
                    continue
                label = f"{name}:" + ",".join(f"{key}={value}" for key, value in options.items())
                yield f"{label} {learner.constants}", learner
