"""LinUCB as published: printed noise, its true certificate, and its refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tacit
from tacit.accounting.certificate import Certificate
from tacit.accounting.events.gaussian import gaussian_mu
from tacit.data.trajectories import FeatureUsers
from tacit.errors import NotSupported
from tacit.learners.linucb_published import PUBLISHED
from tacit.randomness import SimulationNoise
from tacit.release.printed_moments import SPREAD
from tacit.released.moments import MomentQuery
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig


def config(learner, **changes):
    asked = {
        "environment": "linear-bandit:features=3,actions=2", "learner": learner, "calibration": "paper",
        "trust": PUBLISHED.get(learner, "none"), "episodes": 300, "seeds": (0,), "epsilon": 1.0, "delta": 1e-6,
    }  # fmt: skip
    return RunConfig(**{**asked, **changes})


@pytest.mark.parametrize("learner", PUBLISHED)
def test_certificates_are_those_of_the_noise_that_is_printed(learner):
    """mu of one node or message is 1.25/sigma, of m nodes √m times that; nothing is taken from the paper."""
    parts = assemble(config(learner))
    made = parts.privatizer
    # epsilon at which (epsilon, delta) has this mu
    mu = math.sqrt(made.levels) * SPREAD / made.sigma
    assert gaussian_mu(parts.certificate.epsilon, 1e-6) == pytest.approx(mu, rel=1e-3)
    assert parts.certificate.epsilon < 0.3  # of a claim of 1


@pytest.mark.parametrize("episodes", [2000, 20_000, 200_000])
def test_a_single_message_refutes_no_claim_about_shuffled_ones(episodes):
    """The epsilon of one message is an upper bound: it shows the claim, or it decides nothing."""
    found = assemble(config("sdp-linucb", episodes=episodes)).certificate
    assert found.printed is None
    assert found.holds == (episodes < 20_000)
    assert "FALSE" not in found.describe()
    assert ("is true" if found.holds else "neither shown nor refuted: a single message has epsilon") in found.verdict
    assert found.holds or dict(found.facts)["not shown"].startswith("Epsilon 1 is claimed and is not shown; what is")
    assert Certificate.from_dict(found.to_dict()).verdict == found.derived().verdict == found.verdict
    told = assemble(config("jdp-linucb", episodes=episodes)).certificate
    assert told.printed.true
    assert "from memory" in told.verdict


@pytest.mark.parametrize("pair", ["same", "other"])
def test_what_one_node_tells_is_the_longest_change(pair):
    """By search over 20,000 pairs of rows and rewards in one slot, or in two: never above 25/16, and near to it."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 20_000, 3))
    y = x + rng.choice([0.3, 1.0, 3.0], size=(20_000, 1)) * y
    x, y = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (x, y))
    outer = [np.einsum("ni,nj->nij", rows, rows) for rows in (x, y)]
    if pair == "same":
        gram, v = ((outer[0] - outer[1]) ** 2).sum(axis=(1, 2)) / 2.0, (((x + y) / 2.0) ** 2).sum(axis=1)
    else:
        gram, v = ((outer[0] ** 2).sum(axis=(1, 2)) + (outer[1] ** 2).sum(axis=(1, 2))) / 2.0, np.full(20_000, 0.5)
    assert (gram + v).max() <= SPREAD**2 + 1e-12
    assert (gram + v).max() >= (1.55 if pair == "same" else 1.49)


@pytest.mark.parametrize("learner", PUBLISHED)
def test_released_sums_have_the_stated_noise(learner):
    """After 1, 2 and 3 reports: variances within 6 deviations over 300 draws; the nodes of a tree are 1, 1 and 2."""
    made = assemble(config(learner)).privatizer
    users = FeatureUsers(np.array([[0.6, 0.0, 0.8]]), np.array([1]), np.array([1.0]), np.array([-1]))
    seen = np.zeros((300, 3, 3))
    for i in range(300):
        state, noise = made.begin(), SimulationNoise(np.random.default_rng(i))
        for t in range(3):
            state, private = made.release(state, users, MomentQuery(lots=False), noise)
            found = private.statistics
            seen[i, t] = found.gram[0, 0, 0], found.gram[0, 0, 1], found.rewards[0, 2]
            assert np.array_equal(found.gram, found.gram.transpose(0, 2, 1))
    nodes = np.array([1, 1, 2] if learner == "jdp-linucb" else [1, 2, 3])
    wanted = made.sigma**2 * nodes[:, None] * np.array([2.0, 1.0, 1.0])
    assert (np.abs(seen.var(axis=0) / wanted - 1.0) < 6.0 * math.sqrt(2.0 / 300)).all()


@pytest.mark.parametrize("learner", PUBLISHED)
def test_published_learners_run_and_say_that_nobody_checked_them(learner):
    result = tacit.run(
        environment="linear-bandit:features=3,actions=2", learner=learner, trust=PUBLISHED[learner],
        calibration="paper", episodes=300, epsilon=1.0, delta=1e-6, workers=1,
    )  # fmt: skip
    assert result.regret.shape[0] == 1
    assert (np.diff(result.regret[0]) >= 0.0).all()  # those who are left over are served, too
    assert result.regret[0, -1] > 0.0
    assert result.resolved.calibration == "paper"
    with pytest.raises(NotSupported, match="as published"):
        assemble(config(learner, calibration="tight"))
    with pytest.raises(NotSupported, match="no paper prints"):
        assemble(config("lin-ts", trust="central"))
