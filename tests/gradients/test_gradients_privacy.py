"""The privatizer's guarantees G1-G5, the two calibrations and their certificates."""

import math

import numpy as np
import pytest
from contract_calls import shown
from gradient_tools import BANDIT, FEATURES, privatizer_of, random_users, shape_of, small_mdp, table_of
from renyi_accountant import renyi_epsilon
from scipy.stats import kstest

from tacit.accounting.composition import epsilon_of
from tacit.accounting.events import GaussianEvent, SampledGaussianEvent
from tacit.accounting.events.gaussian import gaussian_epsilon
from tacit.data.trajectories import Trajectories
from tacit.errors import InvalidInput, NotSupported
from tacit.policies.softmax import tabular_features
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.release.gradient_noise import softmax_reach
from tacit.released.gradients import SoftmaxQuery


def released(privatizer, users, table, *, features=None, seed=0, baseline=0.0):
    kind = tabular_features() if features is None else features
    noise = SimulationNoise(np.random.default_rng(seed))
    query = SoftmaxQuery(kind, table, table.copy(), np.array([baseline]))
    _, found = shown(privatizer, privatizer.begin(), users, noise, query)
    return found.gradient


def extreme_policies(shape, generator, count):
    """Policies that sit on one action almost surely, which is where scores are long, and ordinary ones."""
    for i in range(count):
        size = (shape.stages, shape.num_states, shape.num_actions)
        theta = generator.normal(size=size) * (0.0, 1.0, 8.0, 40.0)[i % 4]
        yield table_of(tabular_features(), theta.ravel(), shape)


@pytest.mark.parametrize("baseline", [0.0, 0.5, 1.0])
def test_g1_search_over_neighbours_never_exceeds_the_stated_sensitivity(baseline):
    generator = np.random.default_rng(1)
    shape = shape_of(BANDIT)
    m = 4
    exact = privatizer_of(shape, epsilon=None, users=m, baseline=baseline)
    worst = 0.0
    for table in extreme_policies(shape, generator, 60):
        for _ in range(40):
            users = random_users(generator, shape, m)
            users.rewards[:] = generator.integers(2, size=users.rewards.shape)
            other = Trajectories(users.states.copy(), users.actions.copy(), users.rewards.copy())
            other.states[0], other.actions[0] = generator.integers(3), generator.integers(4)
            other.rewards[0] = generator.integers(2)
            gap = released(exact, users, table, baseline=baseline) - released(exact, other, table, baseline=baseline)
            worst = max(worst, float(np.linalg.norm(gap)))
    assert worst <= exact.sensitivity * (1 + 1e-12)
    assert worst >= 0.98 * exact.sensitivity  # and the search finds (almost) all of it


@pytest.mark.parametrize(("staged", "features"), [(True, None), (False, None), (True, FEATURES)])
def test_g1_clipped_trajectories_never_move_the_mean_further(staged, features):
    generator = np.random.default_rng(2)
    mdp = small_mdp()
    shape = shape_of(mdp, staged=staged, features=features)
    kind = tabular_features() if features is None else features
    exact = privatizer_of(shape, epsilon=None, users=3, clip=0.5, tabular=features is None)
    worst = 0.0
    for i in range(300):
        theta = generator.normal(size=shape.dimension) * (1.0, 10.0)[i % 2]
        table = table_of(kind, theta, shape)
        users = random_users(generator, shape, 3)
        other = Trajectories(users.states.copy(), users.actions.copy(), users.rewards.copy())
        fresh = random_users(generator, shape, 1)
        other.states[0], other.actions[0], other.rewards[0] = fresh.states[0], fresh.actions[0], fresh.rewards[0]
        gap = released(exact, users, table, features=kind) - released(exact, other, table, features=kind)
        worst = max(worst, float(np.linalg.norm(gap)))
    assert 0.6 * exact.sensitivity < worst <= exact.sensitivity


def test_a_reach_computed_with_the_papers_score_bound_is_exceeded():
    # The broken twin of G1: 2 R_max √(1 - 1/A) / m for rewards in [-1, 1].
    stated = 2.0 * math.sqrt(1 - 1 / 4)
    sharp = np.eye(4)[0]
    gap = 1.0 * (np.eye(4)[1] - sharp) - (-1.0) * (np.eye(4)[1] - sharp)
    assert np.linalg.norm(gap) > stated
    assert np.linalg.norm(gap) == pytest.approx(softmax_reach(-1.0, 1.0, 3).shift)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 1.0), (-0.5, 0.5), (0.2, 1.0), (-0.3, 0.9)])
@pytest.mark.parametrize("contexts", [1, 2])
def test_the_reach_of_softmax_is_the_maximum_over_vertices(low, high, contexts):
    A, found = 4, 0.0
    scores = [np.eye(A)[a] - np.eye(A)[b] for a in range(A) for b in range(A)]
    for w in (low, high):
        for v in (low, high):
            for b in range(A):  # one context: the same policy e_b for both users
                for a in range(A):
                    for c in range(A):
                        gap = w * (np.eye(A)[a] - np.eye(A)[b]) - v * (np.eye(A)[c] - np.eye(A)[b])
                        found = max(found, float(np.linalg.norm(gap)))
            if contexts > 1:
                for x in scores:
                    for y in scores:
                        found = max(found, math.hypot(np.linalg.norm(w * x), np.linalg.norm(v * y)))
    assert softmax_reach(low, high, contexts).shift == pytest.approx(found)


def test_g2_users_who_are_used_again_pay_again():
    shape = shape_of(BANDIT)
    once = privatizer_of(shape, clip=1.0)
    four = privatizer_of(shape, clip=1.0, epochs=4)
    assert four.sigma == pytest.approx(2.0 * once.sigma)
    assert four.events() == ((GaussianEvent(sigma=four.sigma, shift=four.sensitivity), 4),)
    for privatizer in (once, four):
        certificate = privatizer.certificate()
        assert certificate.holds
        assert certificate.epsilon == pytest.approx(1.0, rel=1e-9)
        # Rényi composition is a valid, weaker second opinion.
        assert certificate.epsilon <= renyi_epsilon(privatizer.events(), 1e-5) < 1.2


def test_g3_a_short_batch_is_refused_and_the_divisor_is_public():
    shape = shape_of(BANDIT)
    privatizer = privatizer_of(shape, users=5)
    users = random_users(np.random.default_rng(0), shape, 4)
    with pytest.raises(InvalidInput, match="exactly 5 users"):
        released(privatizer, users, table_of(tabular_features(), np.zeros(12), shape))
    assert privatizer_of(shape, users=100, clip=1.0, epochs=2, rate=0.2).divisor == pytest.approx(20.0)


def test_g4_both_claims_follow():
    final, joint = privatizer_of(shape_of(BANDIT)).claims
    assert (final.notion, joint.notion) == ("DP of the final policy", "JDP")
    assert (final.epsilon, final.delta) == (joint.epsilon, joint.delta) == (1.0, 1e-5)
    assert len(privatizer_of(shape_of(BANDIT), epsilon=None).claims) == 1


def test_g5_amplification_only_with_coins():
    shape = shape_of(BANDIT)
    full = privatizer_of(shape, users=1000, clip=1.0, epochs=20)
    sampled = privatizer_of(shape, users=1000, clip=1.0, epochs=20, rate=0.1)
    ((event, count),) = sampled.events()
    assert isinstance(event, SampledGaussianEvent)
    assert (event.rate, count) == (0.1, 20)
    assert all(isinstance(event, GaussianEvent) for event, _ in full.events())
    assert sampled.certificate().holds
    assert 0.99 < sampled.certificate().epsilon <= 1.0
    # In the sum (not the mean) a tenth of the users needs far less noise.
    assert sampled.sigma * sampled.divisor < 0.3 * full.sigma * full.divisor
    # The coins are really thrown: the number of users who take part varies.
    users = random_users(np.random.default_rng(0), shape, 1000)
    users.rewards[:] = 1.0
    silent = privatizer_of(shape, epsilon=None, users=1000, clip=10.0, epochs=20, rate=0.1)
    state, noise = silent.begin(), SimulationNoise(np.random.default_rng(3))
    table, taken = table_of(tabular_features(), np.zeros(12), shape), []
    query = SoftmaxQuery(tabular_features(), table, table.copy(), np.zeros(1))
    for _ in range(50):
        state, _ = silent.release(state, users, query, noise)
        taken.append(int(state.chosen.sum()))
    assert len(set(taken)) > 10
    assert abs(np.mean(taken) - 100) < 6 * math.sqrt(90 / 50)


@pytest.mark.statistical
def test_the_noise_has_the_stated_deviation():
    # False-alarm rate 1e-3 per comparison (Kolmogorov-Smirnov); a deviation 25% off is rejected.
    shape = shape_of(BANDIT)
    privatizer = privatizer_of(shape, users=10)
    users = random_users(np.random.default_rng(4), shape, 10)
    table = table_of(tabular_features(), np.zeros(12), shape)
    exact = released(privatizer_of(shape, epsilon=None, users=10), users, table)
    drawn = np.concatenate([released(privatizer, users, table, seed=s) - exact for s in range(150)])
    assert kstest(drawn / privatizer.sigma, "norm").pvalue > 1e-3
    assert kstest(drawn / (1.25 * privatizer.sigma), "norm").pvalue < 1e-3


def test_tight_noise_is_the_least():
    privatizer = privatizer_of(shape_of(BANDIT), users=368)
    # 2 R_max/(m μ(1, 1e-5)) = 7.46/m for rewards in [0, 1] and more than one context
    assert privatizer.sigma * 368 == pytest.approx(7.46, abs=0.005)
    assert epsilon_of(privatizer.events(), 1e-5) <= 1.0
    less = ((GaussianEvent(sigma=privatizer.sigma * (1 - 1e-6), shift=privatizer.sensitivity), 1),)
    assert epsilon_of(less, 1e-5) > 1.0


@pytest.mark.parametrize(("actions", "really"), [(2, 1.61), (4, 1.29), (10, 1.16)])
def test_the_papers_softmax_bound_is_false_and_the_certificate_says_so(actions, really):
    from tacit.environments import make

    shape = shape_of(make(f"contextual-bandit:contexts=3,actions={actions}"))
    certificate = privatizer_of(shape, calibration="paper").certificate()
    assert certificate.epsilon == pytest.approx(really, abs=0.01)
    assert not certificate.holds
    assert "FALSE" in certificate.verdict
    assert "for a person whose action is known" in certificate.paper_says


@pytest.mark.parametrize(("epsilon", "true"), [(1.0, True), (8.40, True), (8.46, False), (20.0, False)])
def test_the_classical_formula_fails_above_eight_point_four(epsilon, true):
    # With a clip the sensitivity is right, so only the formula is judged.
    certificate = privatizer_of(shape_of(BANDIT), epsilon=epsilon, clip=1.0, calibration="paper").certificate()
    assert certificate.holds is true
    assert privatizer_of(shape_of(BANDIT), epsilon=epsilon, clip=1.0).certificate().holds
    if epsilon == 1.0:
        assert certificate.epsilon == pytest.approx(0.751, abs=0.001)
        assert certificate.epsilon == gaussian_epsilon(1e-5, 1.0 / 4.844805262605389) or certificate.epsilon > 0.75


def test_a_released_baseline_is_paid_for():
    shape = shape_of(BANDIT)
    plain, paid = privatizer_of(shape), privatizer_of(shape, baseline=None)
    assert paid.sigma == pytest.approx(plain.sigma * math.sqrt(1.04))
    assert paid.certificate().holds
    assert paid.parameters.reward_sigma < 1.0 < plain.parameters.reward_sigma


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"delta": 0.0}, InvalidInput),
        ({"surrogate": 0.2}, InvalidInput),  # ratios need a clip
        ({"calibration": "paper", "epochs": 2, "clip": 1.0}, NotSupported),
        ({"baseline": 3.0}, InvalidInput),
        ({"clip": -1.0}, InvalidInput),
    ],
)
def test_what_cannot_be_calibrated_is_refused(more, error):
    with pytest.raises(error):
        privatizer_of(shape_of(BANDIT), **more)


def test_release_takes_simulation_noise_only_and_shows_no_data():
    shape = shape_of(BANDIT)
    privatizer = privatizer_of(shape, users=2)
    users, table = random_users(np.random.default_rng(0), shape, 2), np.ones((1, 3, 4)) / 4
    query = SoftmaxQuery(tabular_features(), table, table.copy(), np.zeros(1))
    with pytest.raises(TypeError, match="SecureNoise"):
        privatizer.release(privatizer.begin(), users, query, SecureNoise())
    assert repr(privatizer.begin()) == "GradientState(0 releases)"
    assert repr(privatizer.begin().sums) == "GradientSums(sensitive)"


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("behaviour", [0.1, 1e-20, 1e-100, 1e-150, 1e-153, 1e-155, 1e-200, 1e-300, 0.0, math.nan])
def test_g1_an_importance_ratio_of_any_size_adds_a_clipped_gradient_or_nothing(behaviour, linear):
    # Up to 0.2.0 squares that overflowed made the norm NaN, which was not above the clip: 5e298 was released.
    mdp = small_mdp()
    kind = FEATURES if linear else tabular_features()
    shape = shape_of(mdp, features=kind, staged=False)
    silent = privatizer_of(shape, epsilon=None, users=1, clip=1.0, tabular=not linear, surrogate=0.2, baseline=None)
    table = table_of(kind, np.random.default_rng(0).normal(size=shape.dimension), shape)
    noise = SimulationNoise(np.random.default_rng(0))
    for path in ([0, 0, 0], [0, 1, 0], [0, 1, 2]):
        for actions in ([0, 0, 0], [0, 1, 0], [0, 1, 2]):
            users = Trajectories(np.array([path]), np.array([actions]), np.array([[0.3, 0.0, 0.9]]))
            query = SoftmaxQuery(kind, table, np.full_like(table, behaviour), np.array([0.95]))
            _, found = silent.release(silent.begin(), users, query, noise)
            assert np.linalg.norm(found.statistics.gradient) <= 1.0
            assert 0.0 <= found.statistics.reward[0] <= 1.0
            if 1e-100 <= behaviour <= 1e-20:
                assert np.linalg.norm(found.statistics.gradient) > 0.9


def test_g1_without_a_clip_a_baseline_that_the_reach_does_not_cover_is_refused():
    shape = shape_of(BANDIT)
    users = random_users(np.random.default_rng(0), shape, 5)
    table = table_of(tabular_features(), np.zeros(shape.dimension), shape)
    fixed, free = (privatizer_of(shape, epsilon=None, users=5, baseline=given) for given in (0.5, None))
    assert released(fixed, users, table, baseline=0.5).any()
    assert released(free, users, table, baseline=1.0).any()
    for privatizer, baseline in ((fixed, 0.4), (free, 1.1), (free, -0.1)):
        with pytest.raises(InvalidInput, match="baseline must lie in"):
            released(privatizer, users, table, baseline=baseline)
    for baseline in (math.nan, math.inf, -math.inf):
        with pytest.raises(InvalidInput, match="baseline must lie in"):
            released(free, users, table, baseline=baseline)


def test_g1_a_baseline_that_is_not_finite_releases_nothing():
    shape = shape_of(BANDIT)
    silent = privatizer_of(shape, epsilon=None, users=5, clip=1.0)
    users = random_users(np.random.default_rng(0), shape, 5)
    table = table_of(tabular_features(), np.zeros(shape.dimension), shape)
    for baseline in (math.nan, math.inf, -math.inf):
        assert not released(silent, users, table, baseline=baseline).any()
