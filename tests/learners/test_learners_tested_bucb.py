"""BUCB with tested pooling: the statistic under steps that are alike, its power, and what is planned in."""

from __future__ import annotations

import numpy as np
import pytest
from learner_tools import homogeneous_mdp, small_mdp

import tacit
from tacit.data.counts import flow_counts
from tacit.errors import NotSupported
from tacit.learners.bucb import BUCBBelief
from tacit.learners.tested_bucb import REFUSED, TestedBUCB, excess
from tacit.policies import uniform_policy
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig

H, S, A = 4, 3, 2
UNPROJECTED = (np.append(np.ones(H - 1), 0.0), np.ones(H))


def believed(mdp, users, std, generator) -> BUCBBelief:
    """One released batch of uniform play, every counter with Gaussian noise, not projected."""
    counts = flow_counts(mdp, uniform_policy(H, S, A), users, generator)
    moved = counts.transitions + generator.normal(0.0, std, counts.transitions.shape)
    moved[-1] = 0.0
    ones = counts.rewards + generator.normal(0.0, std, counts.rewards.shape)
    zeros = counts.visits - counts.rewards + generator.normal(0.0, std, counts.rewards.shape)
    return BUCBBelief(
        transitions=moved[np.newaxis],
        visits=(ones + zeros)[np.newaxis],
        rewards=ones[np.newaxis],
        users=np.array([float(users)]),
        policies=(np.zeros((0, H, S), dtype=np.int64),),
        shares=(np.zeros(0),),
    )


@pytest.mark.statistical
@pytest.mark.parametrize(("users", "std"), [(30, 0.0), (3000, 0.0), (3000, 5.0), (3000, 200.0)])
def test_steps_that_are_alike_are_not_told_apart(users, std):
    """200 releases of each kind: nobody refuses; the mean is near 0 or below (standard error below 0.1)."""
    generator = np.random.default_rng(7)
    found = [excess(believed(homogeneous_mdp(k), users, std, generator), std**2, UNPROJECTED) for k in range(200)]
    assert max(found) <= REFUSED
    assert -4.0 < np.mean(found) < 0.2


@pytest.mark.statistical
def test_steps_that_differ_are_told_apart_unless_the_noise_hides_them():
    generator = np.random.default_rng(8)
    for std, told in ((0.0, 1.0), (5.0, 1.0), (2000.0, 0.0)):
        found = [excess(believed(small_mdp(k), 3000, std, generator), std**2, UNPROJECTED) for k in range(50)]
        assert np.mean(np.array(found) > REFUSED) == told, std


def test_it_plans_in_the_pooled_model_until_that_is_refuted():
    config = RunConfig(
        environment="riverswim:states=3,horizon=4", learner="bucb:pooled=tested", episodes=2000, seeds=(0,),
        trust="central", epsilon=5.0, delta=1e-6,
    )  # fmt: skip
    parts = assemble(config)
    learner = parts.learner
    assert isinstance(learner, TestedBUCB)
    generator, std = np.random.default_rng(0), 1.0
    shapes = []
    for mdp in (homogeneous_mdp(1), small_mdp(1)):
        model, _ = learner.model(believed(mdp, 20_000, std, generator))
        shapes.append(model.P.shape[0])
    assert shapes == [1, H]
    for bad in ({"constants": "valid"}, {"support": "declared"}):
        with pytest.raises(NotSupported, match="pooled=tested"):
            assemble(RunConfig(**{**{name: getattr(config, name) for name in ("environment", "learner", "episodes",
                     "seeds", "trust", "epsilon", "delta")}, **bad}))  # fmt: skip


@pytest.mark.slow
@pytest.mark.statistical
def test_it_is_as_good_as_the_better_of_both_on_worlds_of_either_kind():
    """Central, epsilon 10, 8 seeds: within three standard errors and a fifth of the better one on both worlds."""
    shared = {"trust": "central", "epsilon": 10.0, "delta": 1e-6, "episodes": 20_000, "seeds": 8, "workers": 1}
    for world, better in (("riverswim", "true"), (small_mdp(1, states=4, horizon=6), "false")):
        shares = {}
        for pooled in ("true", "false", "tested"):
            result = tacit.run(environment=world, learner=f"bucb:pooled={pooled}", constants="practical", **shared)
            shares[pooled] = result.regret[:, -1] / (result.uniform_regret * 20_000)
        error = float(np.hypot(shares["tested"].std(ddof=1), shares[better].std(ddof=1)) / np.sqrt(8))
        assert shares["tested"].mean() <= 1.2 * shares[better].mean() + 3.0 * error
        worse = "false" if better == "true" else "true"
        assert shares["tested"].mean() < 0.8 * shares[worse].mean()
