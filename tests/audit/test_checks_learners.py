"""Whole learners through the loop: white-box and black-box beside the certificate, and a bug inside is found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mutants.device import HalfTheNoise
from mutants.planted import twin
from tacit.audit.attack import attack
from tacit.audit.learners import AUDITED_LEARNERS, audit_learner, curator_runs, naive_bayes, single_runs, target_of
from tacit.errors import InvalidInput, NotSupported, UnknownName
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig


@pytest.mark.statistical
def test_one_user_at_a_time_white_box_sees_and_black_box_does_not():
    """False-alarm rate 0.001 for both; power: the white box proves more than half, and half the noise is refuted."""
    white, black = audit_learner("ldp-obi", trust="local", epsilon=2.0, delta=0.0, mechanism="laplace", trials=3000,
                                 false_alarm=1e-3)  # fmt: skip
    assert (white.verdict, black.verdict) == ("holds", "holds")
    assert white.certified > white.attacked > 1.0 > black.attacked
    assert white.view.startswith("white-box")
    assert black.view.startswith("black-box")
    config = RunConfig(
        environment="riverswim:states=3,horizon=2", learner="ldp-obi", episodes=9, seeds=(0,), trust="local",
        epsilon=2.0, delta=0.0, mechanism="laplace",
    )  # fmt: skip
    parts = assemble(config)
    broken = replace(parts, privatizer=twin(HalfTheNoise, parts.privatizer))
    view, first, second, _ = single_runs(broken, 8, 2000, 0)[0]
    assert attack(target_of("ldp-obi", broken, view), first, second, false_alarm=1e-3).verdict == "CERTIFICATE REFUTED"


@pytest.mark.statistical
def test_batches_and_gradients_hold():
    """False-alarm rate 0.001 each; power: white boxes see something of epsilon 3."""
    white, black = audit_learner("bucb", trust="shuffle", epsilon=3.0, delta=1e-5, trials=4000, false_alarm=1e-3)
    assert (white.verdict, black.verdict) == ("holds", "holds")
    assert 0.5 < white.attacked <= white.certified
    (final,) = audit_learner("dp-pg", trust="central", epsilon=3.0, delta=1e-5, trials=5000, false_alarm=1e-3)
    assert final.verdict == "holds"
    assert final.view == "the final parameters"
    assert 0.0 < final.attacked <= final.certified


def test_the_learned_score_finds_a_policy_that_follows_the_canary():
    generator = np.random.default_rng(0)
    first, second = generator.integers(0, 2, (500, 6)), generator.integers(0, 2, (500, 6))
    second[:, 3] = 1
    scores = naive_bayes(first, second, 2)
    assert (scores[1] > 0).mean() > 0.95
    assert (scores[0] > 0).mean() < 0.7


def test_bad_requests_are_refused():
    assert {"sdp-pe", "ucbvi", "dp-pg", "uc-o-reps", "uob-lbps", "ldp-psrl"} <= set(AUDITED_LEARNERS)
    with pytest.raises(UnknownName, match="did you mean 'sdp-pe'"):
        audit_learner("sdp-pee", trust="shuffle", epsilon=1.0, delta=1e-6)
    with pytest.raises(InvalidInput, match="without trust nothing is claimed"):
        audit_learner("ucbvi", trust="none", epsilon=1.0, delta=0.0)
    with pytest.raises(NotSupported, match="shuffle"):
        audit_learner("sdp-pe", trust="local", epsilon=1.0, delta=1e-6)
    with pytest.raises(InvalidInput, match="trials"):
        audit_learner("ucbvi", trust="local", epsilon=1.0, delta=0.0, trials=5)


@pytest.mark.statistical
def test_the_batches_of_a_curator_are_attacked_together():
    """False-alarm rate 0.001 each; power: half the noise is refuted, and all batches tell more than the first alone."""
    config = RunConfig(
        environment="riverswim:states=3,horizon=2", learner="bucb", episodes=400, seeds=(0,), trust="central",
        epsilon=3.0, delta=1e-5, constants="valid",
    )  # fmt: skip
    parts = assemble(config)
    found = {}
    for name, factor in (("honest", 1.0), ("half", 0.5)):
        noise = replace(parts.privatizer.noise, sigma=factor * parts.privatizer.noise.sigma)
        broken = replace(parts, privatizer=replace(parts.privatizer, noise=noise))
        view, first, second, _ = curator_runs(broken, 600, 0)[0]
        found[name] = attack(target_of("bucb", parts, view), first, second, false_alarm=1e-3)
    assert found["honest"].verdict == "holds"
    assert 0.5 < found["honest"].attacked <= found["honest"].certified
    assert found["half"].verdict == "CERTIFICATE REFUTED"
    # d² (Σ⁻¹)₁₁ > d² / Σ₁₁: what later batches show of their noise is part of what the canary's batch shows.
    sizes = [batch.users for batch in parts.privatizer.batches]
    covariance = parts.privatizer.batch_covariance(sizes, parts.privatizer.following)
    assert np.linalg.inv(covariance)[0, 0] > 1.1 / covariance[0, 0]
