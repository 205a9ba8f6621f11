"""LDP-PSRL: the posterior of Alg. 7, its four families, its priors and its reduction to PSRL."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from contract_calls import shown, told
from learner_tools import exact_statistics, homogeneous_mdp, shape_of, small_mdp

from tacit.data.counts import flow_counts
from tacit.data.trajectories import prepare_world, roll_out
from tacit.environments.tabular import TabularMDP
from tacit.environments.tabular_worlds import random_mdp
from tacit.errors import InvalidInput, NotSupported
from tacit.learners.psrl import LDPPSRL, PSRL, printed_prior
from tacit.policies import uniform_policy
from tacit.randomness import SimulationNoise
from tacit.release.none import Unprotected
from tacit.released.counts import CountShape, empty_counts
from tacit.released.precision import Sampling, SumPrecision, exact_sums
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.simulation.simulate import simulate

SHAPE = CountShape(horizon=2, num_states=2, num_actions=2, staged=False)
DRAWS = 4000


def fits(sample, distribution) -> float:
    return float(scipy.stats.kstest(sample, distribution.cdf).pvalue)


def parts(learner="ldp-psrl:time_homogeneous=true", **options):
    given = {"trust": "local", "epsilon": 2.0, "delta": 0.0, "mechanism": "laplace", **options}
    config = RunConfig(environment="random-mdp:seed=3", learner=learner, episodes=1000, seeds=(0,), **given)
    return assemble(config)


def samples(learner, released, draws=DRAWS):
    belief = told(learner, learner.begin(), released)
    rng = np.random.default_rng(3)
    P, r = [], []
    for _ in range(draws):
        belief, _ = learner.plan(belief, rng)
        P.append(belief.P_sample)
        r.append(belief.r_sample)
    return np.array(P), np.array(r)


@pytest.mark.parametrize("staged", [True, False])
@pytest.mark.parametrize("rewards", ["beta", "normal-gamma"])
@pytest.mark.parametrize("prior", ["printed", "noise-aware"])
def test_without_noise_it_is_psrl(staged, rewards, prior):
    mdp = small_mdp(1) if staged else homogeneous_mdp(1)
    shape = shape_of(mdp, staged=staged)
    released = exact_statistics(mdp, uniform_policy(4, 3, 2), 200, staged=staged)
    models = []
    for learner in (
        PSRL(shape=shape, reward_posterior=rewards),
        LDPPSRL(shape=shape, precision=exact_sums(), episodes=100, reward_posterior=rewards, prior=prior),
    ):
        P, r = samples(learner, released, draws=3)
        models.append((P, r))
    np.testing.assert_allclose(models[0][0], models[1][0], rtol=1e-12)
    np.testing.assert_allclose(models[0][1], models[1][1], rtol=1e-9)


def test_printed_prior_is_the_papers():
    # (103)-(107) with ε₀ = ε/(8H), K = 10⁸, S = A = H = 2, ε = 2, δ = 0.1
    K, S, A, H, epsilon, delta = 10**8, 2, 2, 2, 2.0, 0.1
    privatizer = parts(calibration="paper").privatizer
    eps0 = epsilon / (8 * H)
    cells, pairs = math.log(6 * S * S * A / delta), math.log(6 * S * A / delta)
    alpha = max(math.sqrt(K * S), cells) * math.sqrt(8 * cells) / eps0
    strength = max(math.sqrt(K), pairs) * math.sqrt(8 * pairs) / eps0
    found = printed_prior(SHAPE, privatizer.precision(), episodes=K, failure_prob=delta)
    np.testing.assert_allclose(found, (alpha, strength, 5 * strength), rtol=1e-12)


def test_four_families_are_certified():
    # Lemma S5 (pooled counts): L1 = 8H - 2; the printed scale 8H/ε gives (8H-2)/(8H) ε
    for horizon in (2, 6):
        shape = f"random-mdp:seed=3,horizon={horizon}"
        given = {
            "learner": "ldp-psrl:time_homogeneous=true",
            "episodes": 10,
            "seeds": (0,),
            "trust": "local",
            "epsilon": 1.0,
            "delta": 0.0,
        }
        paper = assemble(RunConfig(environment=shape, mechanism="laplace", calibration="paper", **given))
        tight = assemble(RunConfig(environment=shape, mechanism="laplace", **given))
        assert paper.privatizer.outcome.scale == 8 * horizon
        assert paper.certificate.epsilon == pytest.approx((8 * horizon - 2) / (8 * horizon))
        assert paper.certificate.holds
        assert tight.privatizer.outcome.scale == pytest.approx(8 * horizon - 2)
        assert tight.certificate.epsilon == pytest.approx(1.0)
        assert [family.name for family in tight.privatizer.families()][-1] == "squares"
        assert tight.privatizer.noise_std()["squares"] == pytest.approx(math.sqrt(2) * (8 * horizon - 2))


def test_binary_rewards_drop_the_squares():
    beta = parts("ldp-psrl:time_homogeneous=true,rewards=beta")
    assert beta.privatizer.outcome.scale == pytest.approx((4 * 2 - 2) / 2.0)
    assert beta.certificate.epsilon == pytest.approx(2.0)
    assert [family.name for family in beta.privatizer.families()] == ["transitions", "rewards and complements"]


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "rr", "bounded", "oue"])
def test_binary_rewards_take_every_local_mechanism(mechanism):
    delta = 1e-3 if mechanism in ("gaussian", "bounded") else 0.0
    for prior in ("printed", "noise-aware"):
        built = parts(f"ldp-psrl:time_homogeneous=true,rewards=beta,prior={prior}", mechanism=mechanism, delta=delta)
        run = simulate(built.mdp, built.learner, built.privatizer, episodes=50, seed=0)
        assert built.certificate.holds
        assert 0.0 <= run.regret[-1] <= 100.0


def test_what_squares_cannot_be_released_with():
    with pytest.raises(InvalidInput, match="squares"):
        parts(mechanism="rr")
    with pytest.raises(InvalidInput, match="one slot"):
        parts(mechanism="oue")
    with pytest.raises(NotSupported, match="squares"):
        parts(mechanism="gaussian", delta=1e-3, calibration="paper")
    with pytest.raises(NotSupported, match="trust 'local'"):
        parts(mechanism=None, trust="central", delta=1e-6)
    assert parts(mechanism=None).privatizer.name == "local/laplace"  # the default needs no help


def test_squares_are_released_and_unbiased():
    # Real rewards: ΣR² differs from ΣR. z-scores below 5: false-alarm rate 1e-5; taking rewards for squares is caught.
    rng = np.random.default_rng(0)
    mdp = TabularMDP(
        P=rng.dirichlet(np.ones(2), size=(2, 2)), r=np.full((2, 2), 0.5), rho=np.array([0.5, 0.5]), horizon=2,
        reward_kind="deterministic",
    )  # fmt: skip
    config = RunConfig(
        environment=mdp,
        learner="ldp-psrl:time_homogeneous=true",
        episodes=10,
        seeds=(0,),
        trust="local",
        epsilon=20.0,
        delta=0.0,
    )
    privatizer = assemble(config).privatizer
    policy, users = uniform_policy(2, 2, 2), 40_000
    walked = roll_out(prepare_world(mdp), policy, users, rng)
    counted = flow_counts(mdp, policy, users, rng)
    exact = Unprotected(shape=SHAPE)
    _, truth = shown(exact, exact.begin(), walked, SimulationNoise(rng))
    for batch in (walked, counted):
        _, noisy = shown(privatizer, privatizer.begin(), batch, SimulationNoise(rng))
        spread = np.sqrt(noisy.variance[2]) + 2.0 * np.sqrt(users)
        assert np.abs(noisy.squares - truth.squares).max() < 5.0 * spread
        assert np.abs(noisy.rewards - truth.squares).max() > 5.0 * spread


@pytest.mark.statistical
def test_the_sampled_model_is_the_posterior():
    # Kolmogorov-Smirnov, 4,000 draws, false-alarm rate 1e-4 each; the posterior with 25% more counts is rejected.
    released = empty_counts(SHAPE)
    released.visits[:], released.rewards[:], released.squares[:] = 400.0, 150.0, 150.0
    released.transitions[..., 0], released.transitions[..., 1] = 120.0, 90.0
    precision = SumPrecision(variance=np.full(4, 2.0), scale=np.ones(4))
    learner = LDPPSRL(shape=SHAPE, precision=precision, episodes=25, reward_posterior="normal-gamma")
    alpha, strength, rate = printed_prior(SHAPE, precision, episodes=25)
    P, r = samples(learner, released)
    assert fits(P[:, 0, 0, 0], scipy.stats.beta(alpha + 120, alpha + 90)) > 1e-4
    assert fits(P[:, 0, 0, 0], scipy.stats.beta(alpha + 150, alpha + 112)) < 1e-4
    # r ~ μ + t_{2ν} √(β/(λν))
    lam, nu = strength + 400, strength + 200
    beta = rate + 75 - 150**2 / (2 * lam)
    student = scipy.stats.t(2 * nu, loc=150 / lam, scale=math.sqrt(beta / (lam * nu)))
    assert fits(r[:, 0, 0], student) > 1e-4
    assert fits(r[:, 0, 0] * 1.25, student) < 1e-9
    binary = LDPPSRL(shape=SHAPE, precision=precision, episodes=25, reward_posterior="beta")
    _, r = samples(binary, released)
    assert fits(r[:, 0, 0], scipy.stats.beta(strength + 150, strength + 250)) > 1e-4
    assert fits(r[:, 0, 0], scipy.stats.beta(strength + 190, strength + 250)) < 1e-9


@pytest.mark.statistical
def test_noise_aware_samples_carry_the_noise():
    # Mean within 5 standard errors; the spread of the sampled reward is that of the noise, not of the sampling.
    released = empty_counts(SHAPE)
    released.visits[:], released.rewards[:], released.squares[:] = 1e6, 4e5, 4e5
    released.transitions[:] = 1e6
    released.variance[:] = (1e9, 2e9, 1e9)
    learner = LDPPSRL(shape=SHAPE, precision=exact_sums(), episodes=25, reward_posterior="beta", prior="noise-aware")
    _, r = samples(learner, released)
    # r = R/(R+Q), with independent noise of std σ = √1e9 in both: std ≈ σ √(R² + Q²)/N²
    expected = math.sqrt(1e9) * math.hypot(4e5, 6e5) / 1e12
    assert r[:, 0, 0].mean() == pytest.approx(0.4, abs=5 * expected / math.sqrt(DRAWS))
    assert r[:, 0, 0].std() == pytest.approx(expected, rel=0.1)  # the standard error of a std is 1%


def test_floors_keep_hopeless_counts_harmless():
    released = empty_counts(SHAPE)
    released.visits[:], released.rewards[:], released.squares[:], released.transitions[:] = -1e9, 1e9, -1e9, -1e9
    for rewards in ("beta", "normal-gamma"):
        learner = LDPPSRL(shape=SHAPE, precision=exact_sums(), episodes=25, reward_posterior=rewards)
        P, r = samples(learner, released, draws=50)
        np.testing.assert_allclose(P.sum(axis=-1), 1.0)
        assert np.isfinite(r).all()


@pytest.mark.parametrize(
    "options",
    [
        # Without options: `test_loop_registered`.
        ",rewards=beta,prior=noise-aware",
        pytest.param("", marks=pytest.mark.slow),
        pytest.param(",rewards=beta", marks=pytest.mark.slow),
    ],
)
def test_interpreted_is_compiled(options):
    built = parts(f"ldp-psrl:time_homogeneous=true{options}")
    compiled, interpreted = (
        simulate(built.mdp, built.learner, built.privatizer, episodes=200, seed=2, speed=speed)
        for speed in ("compiled", "interpreted")
    )
    assert compiled.regret.tobytes() == interpreted.regret.tobytes()


def test_noise_aware_sampling_learns_at_a_large_epsilon():
    mdp = random_mdp(seed=3)
    built = parts("ldp-psrl:time_homogeneous=true,rewards=beta,prior=noise-aware", mechanism=None, epsilon=20.0)
    run = simulate(mdp, built.learner, built.privatizer, episodes=100_000, seed=0)
    assert run.regret[-1] < 0.02 * 100_000  # uniform: 100,000


def test_sampling_widens_the_posterior_and_is_no_noise():
    """Weight 5: n counts are as uncertain as n/5 users, Beta(1 + R/5, 1 + (N - R)/5); KS test, false alarms 1e-6.

    Power: the posterior of all n counts as users, and the one that takes the stated variance for noise, are rejected.
    """
    released = empty_counts(SHAPE)
    released.visits[:], released.rewards[:], released.transitions[:] = 400.0, 100.0, 200.0
    exact = SumPrecision(variance=np.zeros(4), scale=np.zeros(4))
    given = {"shape": SHAPE, "precision": exact, "episodes": 100, "reward_posterior": "beta", "prior": "noise-aware"}
    right = scipy.stats.beta(1 + 100 / 5, 1 + 300 / 5)
    all_sampled = Sampling(weight=5.0, noise_share=np.zeros(3))
    stated = released._replace(variance=np.full(3, 400.0))
    _, r = samples(LDPPSRL(**given, sampling=all_sampled), stated, draws=1000)
    assert fits(r[:, 0, 0], right) > 1e-6
    _, r = samples(LDPPSRL(**given), released, draws=1000)
    assert fits(r[:, 0, 0], right) < 1e-6
    _, r = samples(LDPPSRL(**given, sampling=Sampling(weight=5.0, noise_share=np.ones(3))), stated, draws=1000)
    assert fits(r[:, 0, 0], right) < 1e-6
    with pytest.raises(NotSupported, match="rewards=beta"):
        LDPPSRL(**{**given, "reward_posterior": "normal-gamma"}, sampling=all_sampled)


@pytest.mark.parametrize(("learner", "constants"), [("ldp-psrl", None), ("ldp-obi", "theory"), ("ldp-obi", "printed")])
def test_the_users_of_a_batch_follow_one_policy(learner, constants):
    asked = {"environment": "riverswim", "learner": learner, "constants": constants, "episodes": 400, "seeds": (0,)}
    private = {"trust": "local", "epsilon": 1.0, "delta": 0.0, "mechanism": "laplace"}
    asked |= {"calibration": "paper"} if constants == "printed" else {}
    assert [assemble(RunConfig(**asked, **private, batch=m)).learner.users_per_batch for m in (None, 50)] == [1, 50]
