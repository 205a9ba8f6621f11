"""`dp-trpo`: an independent slow twin, the divergence that is really moved, and the reduction to natural gradients."""

import math
from dataclasses import replace

import numpy as np
import pytest
from contract_calls import told
from gradient_tools import learner_of, small_mdp, table_of
from scipy.special import log_softmax
from slow_gradients import score

from tacit.audit.attack import attack
from tacit.audit.learners import audit_learner, gradient_runs, target_of
from tacit.errors import InvalidInput, UnknownName
from tacit.learners.gradient import natural_ascend, trust_ascend
from tacit.policies.softmax import public_features
from tacit.released.gradients import empty_gradient
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.simulation.simulate import simulate

KINDS = {"tabular": None, "linear": public_features(3, 3, 4)}
RUN = {"environment": "riverswim:states=3,horizon=3", "episodes": 300, "batch": 50, "seeds": (0,)}
PRIVATE = {"trust": "central", "epsilon": 1.0, "delta": 1e-5}


def trust_learner(features, *, kl, step=math.inf, damping=0.05, barrier=0.0):
    made = learner_of(small_mdp(), step=step, features=features, update=trust_ascend, damping=damping, barrier=barrier)
    made.parameters = made.parameters._replace(kl=float(kl))
    return made


def logits(theta, features, stages=3):
    """z[l,s,a] in plain numpy."""
    if features is None:
        return theta.reshape(stages, 3, 3)
    return np.einsum("saj,lj->lsa", features, theta.reshape(stages, -1))


def mean_divergence(theta, other, features):
    """The mean over stages and states of KL(π_θ ‖ π_θ')."""
    one, two = log_softmax(logits(theta, features), axis=-1), log_softmax(logits(other, features), axis=-1)
    return float((np.exp(one) * (one - two)).sum(axis=-1).mean())


def slow_update(theta, gradient, features, *, kl, step, damping):
    """The same update with a dense Fisher matrix of plain scores, a general solver and scipy's softmax."""
    d, L = len(theta), 3
    shaped = theta.reshape((L, 3, 3) if features is None else (L, -1))
    table = np.exp(log_softmax(logits(theta, features), axis=-1))
    F = damping * np.eye(d)
    for h in range(L):
        for s in range(3):
            for a in range(3):
                g = score(shaped, features, L, h, s, a).ravel()
                F += table[h, s, a] * np.outer(g, g) / (L * 3)
    x = np.linalg.solve(F, gradient)
    size = min(step, math.sqrt(2 * kl / float(gradient @ x)))
    halved = 0
    while mean_divergence(theta, theta + size * x, features) > kl:
        size, halved = size / 2, halved + 1
    return theta + size * x, halved


def updated(learner, theta, gradient):
    belief = learner.begin()
    belief.theta[:] = theta
    belief, _ = learner.plan(belief, np.random.default_rng(0))
    released = empty_gradient(learner.shape.dimension)
    released.gradient[:] = gradient
    return told(learner, belief, released).theta


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_slow_twin_and_never_leaves_the_region(kind):
    features, generator, seen = KINDS[kind], np.random.default_rng(5), set()
    for trial in range(24):
        kl, damping = [0.001, 0.05, 1.0][trial % 3], [0.05, 1e-4][trial % 2]
        learner = trust_learner(features, kl=kl, damping=damping)
        theta = generator.normal(size=learner.shape.dimension) * (1 + 2 * (trial % 4))
        gradient = generator.normal(size=theta.shape) * 10.0 ** (trial % 5 - 2)
        found = updated(learner, theta, gradient)
        slow, halved = slow_update(theta, gradient, features, kl=kl, step=math.inf, damping=damping)
        seen.add(halved > 0)
        np.testing.assert_allclose(found, slow, rtol=1e-6, atol=1e-8)
        moved = mean_divergence(theta, found, features)
        assert 0.0 < moved <= kl * (1 + 1e-9)
    assert seen == {False, True}  # both with and without halving


def test_small_radii_are_used_up_where_the_damping_is_small():
    """KL = ½ η² xᵀFx to second order, and xᵀ(F + κI)x η² = 2ρ: with κ → 0 all of ρ is used."""
    generator, features = np.random.default_rng(6), KINDS["linear"]
    learner = trust_learner(features, kl=1e-4, damping=1e-9)
    theta = 0.1 * generator.normal(size=learner.shape.dimension)
    found = updated(learner, theta, generator.normal(size=theta.shape))
    assert mean_divergence(theta, found, features) == pytest.approx(1e-4, rel=0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_within_the_radius_it_is_the_natural_gradient(kind):
    features, generator = KINDS[kind], np.random.default_rng(7)
    natural = learner_of(small_mdp(), step=0.3, features=features, update=natural_ascend, damping=0.05, barrier=0.1)
    trust = trust_learner(features, kl=1e6, step=0.3, barrier=0.1)
    theta, gradient = generator.normal(size=natural.shape.dimension), generator.normal(size=natural.shape.dimension)
    assert updated(trust, theta, gradient).tobytes() == updated(natural, theta, gradient).tobytes()
    # At the border: the natural gradient with the step that the radius stands for.
    bounded = trust_learner(features, kl=1e-5)
    plain = learner_of(small_mdp(), step=1.0, features=features, update=natural_ascend, damping=0.05)
    x = updated(plain, theta, gradient) - theta
    size = math.sqrt(2 * 1e-5 / float(gradient @ x))
    np.testing.assert_allclose(updated(bounded, theta, gradient) - theta, size * x, rtol=1e-6, atol=1e-12)


def run(learner, **changes):
    parts = assemble(RunConfig(learner=learner, **RUN | changes))
    return parts, simulate(parts.world, parts.learner, parts.privatizer, episodes=300, seed=3, speed="interpreted")


def test_a_whole_private_run_reduces_to_natural_gradients_and_has_the_certificate_of_policy_gradients():
    natural, expected = run("dp-npg:step=0.01", **PRIVATE)
    parts, found = run("dp-trpo:step=0.01,kl=1000", **PRIVATE)
    assert found.belief.theta.tobytes() == expected.belief.theta.tobytes()
    assert found.regret.tobytes() == expected.regret.tobytes()
    plain = assemble(RunConfig(learner="dp-pg", **RUN | PRIVATE))
    for other in (natural, plain):
        assert parts.privatizer.events() == other.privatizer.events()
        assert parts.privatizer.certificate() == other.privatizer.certificate()
        assert parts.privatizer.sigma == other.privatizer.sigma


def test_no_update_of_a_private_run_leaves_the_region():
    """Gradients that are mostly noise: the radius holds for what is moved, whatever was released."""
    parts = assemble(RunConfig(learner="dp-trpo:kl=0.02", **RUN | PRIVATE | {"epsilon": 0.1}))
    learner, generator = parts.learner, np.random.default_rng(8)
    belief = learner.begin()
    for _ in range(20):
        belief, _ = learner.plan(belief, generator)
        released = empty_gradient(learner.shape.dimension)
        released.gradient[:] = parts.privatizer.sigma * generator.normal(size=released.gradient.shape)
        after = told(learner, belief, released)
        old, new = (table_of(learner.parameters.features, b.theta, learner.shape) for b in (belief, after))
        moved = float((old * np.log(old / new)).sum(axis=-1).mean())
        assert 1e-4 < moved <= 0.02 * (1 + 1e-9)
        belief = after


def test_a_gradient_of_zero_moves_nothing():
    learner = trust_learner(None, kl=0.1)
    theta = np.random.default_rng(9).normal(size=27)
    assert updated(learner, theta, np.zeros(27)).tobytes() == theta.tobytes()


def test_radii_by_rule_and_refusals():
    shown = [assemble(RunConfig(learner="dp-trpo", **RUN | more)).learner.parameters for more in ({}, PRIVATE)]
    assert [found.kl for found in shown] == [0.05, 0.05]  # six updates: 3/6 is more than the largest radius
    many = assemble(RunConfig(learner="dp-trpo", **RUN | PRIVATE | {"episodes": 50_000})).learner
    assert many.parameters.kl == pytest.approx(3.0 / 1000)
    assert many.constants == "practical"
    for learner, changes, error, words in (
        ("dp-trpo", {"constants": "theory"}, InvalidInput, "no theorem gives a radius"),
        ("dp-trpo:kl=0", {}, InvalidInput, "dp-trpo:kl"),
        ("dp-trpo:kl=0.1", {"constants": "practical"}, InvalidInput, "leave one of the two out"),
        ("dp-trpo:radius=0.1", {}, UnknownName, "radius"),
        ("dp-npg:kl=0.1", {}, UnknownName, "kl"),
    ):
        with pytest.raises(error, match=words):
            assemble(RunConfig(learner=learner, **RUN | PRIVATE | changes))


@pytest.mark.slow
@pytest.mark.statistical
def test_the_audit_attacks_the_release_and_the_parameters():
    """False-alarm rate 0.001 for both; power: with a quarter of the noise the same attack refutes the certificate."""
    final, release = audit_learner("dp-trpo", trust="central", epsilon=3.0, delta=1e-5, trials=5000, false_alarm=1e-3)
    assert (final.view, release.view) == ("the final parameters", "the released gradient")
    assert (final.verdict, release.verdict) == ("holds", "holds")
    assert final.attacked <= release.certified
    assert 0.0 < release.attacked <= release.certified
    config = {"environment": "contextual-bandit:contexts=2,actions=2", "episodes": 400, "batch": 8, "seeds": (0,)}
    parts = assemble(RunConfig(learner="dp-trpo", **config, **PRIVATE | {"epsilon": 3.0}))
    quiet = replace(parts, privatizer=replace(parts.privatizer, sigma=parts.privatizer.sigma / 4))
    # The parameters alone hide it: a step of fixed length tells the direction of the release only.
    _, (view, first, second, _) = gradient_runs(quiet, 2500, 0)
    found = attack(target_of("dp-trpo", parts, view), first, second, false_alarm=1e-3)
    assert found.verdict == "CERTIFICATE REFUTED"
