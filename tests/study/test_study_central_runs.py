"""Simulated studies under central trust: learners of totals, of single batches and of gradients, through channels."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from named_learners import make_learner

from papers.gradient_requests import gradient_request
from tacit.accounting.claims import PrivacyUnit
from tacit.environments.registry import make_environment
from tacit.errors import InvalidInput, NotSupported
from tacit.learners.contract import CountRequest, StageRequest
from tacit.learners.gradient import GradientParameters, GradientRequest
from tacit.learners.table import learner_row
from tacit.planning.dynamic import evaluate_stochastic
from tacit.policies.softmax import tabular_features
from tacit.protocol import TOTALS, Totals
from tacit.release.batch_release import BatchPlan
from tacit.release.contract import StageSize
from tacit.release.counts_contract import count_precision, sampling_of, sum_precision
from tacit.release.gradient_noise import GradientSpec
from tacit.release.gradient_release import GradientPlan
from tacit.release.request import PrivacyRequest, make_claim
from tacit.release.staged import Staged
from tacit.release.totals_release import TotalsPlan
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountShape
from tacit.released.gradients import GradientShape, SoftmaxQuery
from tacit.simulation.simulate import simulate
from tacit.simulation.worlds import world_of

ENVIRONMENT = make_environment("riverswim")
SHAPE = CountShape(
    horizon=ENVIRONMENT.horizon, num_states=ENVIRONMENT.num_states, num_actions=ENVIRONMENT.num_actions, staged=True
)
NINE_TENTHS = Fraction(9, 10)


def request_of(asks, *, episodes, users=1, mechanism=None):
    return PrivacyRequest(
        trust="central",
        shape=SHAPE,
        episodes=episodes,
        epsilon=1.0,
        delta=1e-6,
        calibration=None,
        mechanism=mechanism,
        users_per_batch=users,
        asks=asks,
    )


def value_of(policy):
    P, r = np.array(ENVIRONMENT.stage_P), np.array(ENVIRONMENT.stage_r)
    return float(ENVIRONMENT.rho @ evaluate_stochastic(P, r, policy.probabilities(ENVIRONMENT.num_actions))[0])


def totals_study(mechanism, reports=1):
    request = request_of(Totals, episodes=16_000, users=1000, mechanism=mechanism)
    claim = replace(make_claim(request), unit=PrivacyUnit(reports=reports, per_stage=1))
    basis = TotalsPlan.of(request, least=NINE_TENTHS, claim=claim)
    learner = make_learner(
        CountRequest(
            name="ucbvi",
            shape=SHAPE,
            episodes=16_000,
            constants=None,
            z=None,
            users_per_batch=1000,
            noisy=True,
            precision=sum_precision(basis),
            counts=count_precision(basis),
            sampling=sampling_of(basis),
            options={},
        )
    )
    return learner, basis, [StageSize(target=1000, least=basis.least_of(1000), query=TOTALS)] * basis.releases


def batch_study(name):
    basis = BatchPlan.of(request_of(BatchQuery, episodes=20_000), least=NINE_TENTHS)
    learner = make_learner(
        StageRequest(name=name, shape=SHAPE, episodes=20_000, constants=None, z=None, noise=basis, options={})
    )
    return (
        learner,
        basis,
        [StageSize(target=b.users, least=basis.least_of(b.users), query=b.query) for b in learner.batches],
    )


def gradient_study(epochs):
    H, S, A = SHAPE.horizon, SHAPE.num_states, SHAPE.num_actions
    shape = GradientShape(horizon=H, num_states=S, num_actions=A, staged=True, dimension=H * S * A)
    request = gradient_request(
        shape=shape, trust="central", epsilon=4.0, delta=1e-6, calibration="tight", users_per_batch=500, clip=1.0,
        tabular=True, baseline=None, epochs=epochs, surrogate=0.2 if epochs > 1 else np.inf,
    )  # fmt: skip
    basis = GradientPlan.of(request, least=NINE_TENTHS)
    parameters = GradientParameters(tabular_features(), 60.0, 0.0, 0.0, 0.0, 1.0, 0.5)
    learner = learner_row("dp-pg").build(
        GradientRequest(
            name="dp-pg", shape=shape, parameters=parameters, constants="none", users_per_batch=500, releases=epochs
        )
    )
    stages = 20_000 // 500
    return (
        learner,
        basis,
        [StageSize(target=500, least=basis.least_of(500), query=learner.query(learner.begin()))] * stages,
    )


STUDIES = {
    "ucbvi": (lambda: totals_study(None), 16_000),
    "ucbvi, five reports": (lambda: totals_study(None, reports=5), 16_000),
    "ucbvi, batched": (lambda: totals_study("batched"), 16_000),
    "bucb": (lambda: batch_study("bucb"), 20_000),
    "sdp-pe-plus": (lambda: batch_study("sdp-pe-plus"), 20_000),
    "dp-pg": (lambda: gradient_study(1), 20_000),
    "dp-pg, two epochs": (lambda: gradient_study(2), 20_000),
}


@pytest.mark.parametrize("name", [*STUDIES])
def test_a_simulated_study_learns(name):
    """A fixed seed; a tenth of the way from the uniform policy to the best one, at the very least."""
    make, episodes = STUDIES[name]
    learner, basis, stages = make()
    privatizer = Staged(channels=basis.channels(stages), basis=basis)
    run = simulate(ENVIRONMENT, learner, privatizer, episodes=episodes, seed=1)
    best, uniform = world_of(ENVIRONMENT, learner.asks).values()
    assert value_of(run.policy) > uniform + 0.1 * (best - uniform)
    assert np.isfinite(run.regret).all()
    certificate = privatizer.certificate()
    assert certificate.holds
    assert 0.999 * privatizer.claim.epsilon < certificate.epsilon <= privatizer.claim.epsilon


def test_requests_that_have_no_central_channel_are_refused():
    with pytest.raises(NotSupported, match="least noise"):
        TotalsPlan.of(replace(request_of(Totals, episodes=10), calibration="paper"), least=NINE_TENTHS)
    with pytest.raises(InvalidInput, match="running totals"):
        TotalsPlan.of(request_of(BatchQuery, episodes=10), least=NINE_TENTHS)
    with pytest.raises(InvalidInput, match="fraction"):
        TotalsPlan.of(request_of(Totals, episodes=10), least=Fraction(0))
    with pytest.raises(InvalidInput, match="fresh"):
        BatchPlan.of(request_of(BatchQuery, episodes=10, mechanism="tree"), least=NINE_TENTHS)
    with pytest.raises(InvalidInput, match="GradientSpec"):
        GradientPlan.of(request_of(SoftmaxQuery, episodes=10), least=NINE_TENTHS)
    doses = gradient_request(
        shape=GradientShape(horizon=1, num_states=3, num_actions=0, staged=True, dimension=2), trust="central",
        epsilon=1.0, delta=1e-6, calibration="tight", users_per_batch=10, clip=1.0, tabular=False,
    )  # fmt: skip
    with pytest.raises(NotSupported, match="doses"):
        GradientPlan.of(doses, least=NINE_TENTHS)
    assert GradientSpec(clip=1.0, tabular=True).low == 0.0
