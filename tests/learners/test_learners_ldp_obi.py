"""LDP-OBI: noise off it is its non-private form, its widths cover the truth, its counters are unbiased."""

from __future__ import annotations

import math

import numpy as np
import pytest
from contract_calls import shown, told
from learner_tools import exact_statistics, homogeneous_mdp, shape_of, small_mdp

from tacit.data.counts import flow_counts
from tacit.data.trajectories import prepare_world, roll_out
from tacit.environments.tabular_worlds import random_mdp
from tacit.learners.ldp_obi import LDPOBI
from tacit.noise.laplace import Laplace
from tacit.planning.dynamic import backward_induction
from tacit.policies import uniform_policy
from tacit.randomness import SimulationNoise
from tacit.release.none import Unprotected
from tacit.release.request import PrivacyRequest
from tacit.release.table import make_privatizer
from tacit.released.counts import CountShape
from tacit.released.precision import CELL, REWARD, ROW, VISIT, exact_sums, sum_radius
from tacit.simulation.simulate import simulate

MECHANISMS = ["laplace", "gaussian", "rr", "bounded", "oue", "subset"]


def local(shape, mechanism, *, epsilon=2.0, calibration="tight", delta=1e-3):
    pure = mechanism not in ("gaussian", "bounded")
    return make_privatizer(
        PrivacyRequest(
            trust="local",
            shape=shape,
            episodes=1000,
            epsilon=epsilon,
            delta=0.0 if pure else delta,
            calibration=calibration,
            mechanism=mechanism,
            users_per_batch=1,
        )
    )


def eq5(r, P, bonus_r, bonus_p, horizon):
    """Eq. 5 of the paper, from its text: π = argmax_a Q, V = min{H-h+1, max_a Q}, b_h = (H-h+1) β^p + β^r at every h.

    Kept apart by step there is no N^p at the last one, so no β^p either.
    """
    stages = r.shape[0]
    V = np.zeros(r.shape[1])
    values, worth = [], []
    for h in range(horizon, 0, -1):  # as the paper counts
        g = min(h, stages) - 1
        b = (horizon - h + 1) * bonus_p[g] + bonus_r[g]
        if stages > 1 and h == horizon:
            b = bonus_r[g]
        Q = r[g] + b + P[g] @ V
        V = np.minimum(horizon - h + 1, Q.max(axis=-1))
        values.append(V)
        worth.append(Q)
    return np.array(values[::-1]), np.array(worth[::-1])


def exact_model(released, horizon, users, delta):
    """Eq. 4 and Prop. 4 with all c = 0, written anew."""
    stages, S, A = released.visits.shape
    ell = math.log(4 * math.pi**2 * stages * S * A * horizon * (users + 1) ** 3 / (3 * delta))
    n, row = np.maximum(released.visits, 1), np.maximum(released.transitions.sum(axis=-1), 1)
    r, P = released.rewards / n, released.transitions / row[..., None]
    return r, P, np.sqrt(2 * ell / n), np.sqrt(14 * S * ell / row)


@pytest.mark.parametrize("users", [3_000_000, 300])
@pytest.mark.parametrize("staged", [True, False])
def test_without_noise_it_is_eq_5(staged, users):
    mdp = small_mdp(3) if staged else homogeneous_mdp(3)
    released = exact_statistics(mdp, uniform_policy(4, 3, 2), users, staged=staged)
    learner = LDPOBI(shape=shape_of(mdp, staged=staged), precision=exact_sums())
    belief, plan = learner.plan(told(learner, learner.begin(), released), np.random.default_rng(0))
    values, Q = eq5(*exact_model(released, mdp.horizon, users, 0.05), mdp.horizon)
    np.testing.assert_allclose(belief.V[:-1], values, rtol=1e-12)
    chosen = np.take_along_axis(Q, plan.policy.actions[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(chosen, Q.max(axis=-1), rtol=1e-12)
    # Few users: every value is at its cap, and the argmax still tells actions apart. Many: some are below it.
    assert (values < np.arange(4, 0, -1)[:, None]).any() == (users > 300)


def planned(visits, rewards, transitions, *, users, seed):
    """The plan of one state, two actions, two steps, pooled and without noise."""
    shape = CountShape(horizon=2, num_states=1, num_actions=2, staged=False)
    released = Unprotected(shape=shape).begin().released
    released.visits[:], released.rewards[:] = visits, rewards
    released.transitions[0, 0, :, 0] = transitions
    released.users[0] = users
    learner = LDPOBI(shape=shape, precision=exact_sums())
    return learner.plan(told(learner, learner.begin(), released), np.random.default_rng(seed))


def test_eq_5_by_hand_the_argmax_sees_what_the_cap_hides():
    # k = 1001, δ = 0.05: ℓ = ln(4π²·2·2·1001³/0.15) = 27.685, β^r = √(2ℓ/1000) = 0.2353, β^p = √(14ℓ/500) = 0.8805.
    # Step 2: Q = 0.9 + 0.2353 + 0.8805 = 2.0158 and 1.2158, V = min{1, Q} = 1.
    # Step 1: Q = 0.9 + 0.2353 + 2·0.8805 + 1 = 3.8962 and 3.0962, V = 2. Both exceed the cap; the first is the argmax.
    for seed in range(20):
        belief, plan = planned([1000, 1000], [900, 100], [500, 500], users=1000, seed=seed)
        assert plan.policy.actions.tolist() == [[0], [0]]
    np.testing.assert_allclose(belief.Q[0], [3.8962, 3.0962], atol=1e-4)
    np.testing.assert_allclose(belief.V[:, 0], [2.0, 1.0, 0.0])


def test_eq_5_by_hand_transition_widths_count_at_the_last_step():
    # Step 2: Q = 0.5 + 0.2353 + √(14ℓ/900) = 1.3916, and 0.45 + 0.2353 + √(14ℓ/100) = 2.6540: the second, which has
    # the smaller reward and the same β^r.
    for seed in range(20):
        _, plan = planned([1000, 1000], [500, 450], [900, 100], users=1000, seed=seed)
        assert plan.policy.actions[1, 0] == 1


def test_noisy_values_below_zero_are_not_lifted():
    # Off the good event a reward can be far below zero; Eq. 5 caps V from above only.
    belief, _ = planned([10**9, 10**9], [-(10**9), -2 * 10**9], [10**9, 10**9], users=10**9, seed=0)
    assert belief.V[1, 0] == pytest.approx(-1.0, abs=0.01)
    assert belief.V[0, 0] == pytest.approx(-2.0, abs=0.01)


def test_epsilon_to_infinity_is_the_non_private_plan():
    # At a huge epsilon the noise is far below the rounding of a count: the same values and policy.
    mdp = random_mdp(seed=3)
    shape = shape_of(mdp, staged=False)
    plans = []
    for privatizer in (local(shape, "laplace", epsilon=1e15), Unprotected(shape=shape)):
        batch = flow_counts(mdp, uniform_policy(2, 2, 2), 300_000, np.random.default_rng(0))
        _, released = shown(privatizer, privatizer.begin(), batch, SimulationNoise(np.random.default_rng(1)))
        learner = LDPOBI(shape=shape, precision=privatizer.precision())
        belief, plan = learner.plan(told(learner, learner.begin(), released), np.random.default_rng(0))
        plans.append((belief.V, plan.policy.actions))
    np.testing.assert_allclose(plans[0][0], plans[1][0], rtol=1e-9)
    np.testing.assert_array_equal(plans[0][1], plans[1][1])


def test_without_noise_it_learns():
    mdp = random_mdp(seed=3)
    shape = shape_of(mdp, staged=False)
    found = simulate(
        mdp, LDPOBI(shape=shape, precision=exact_sums()), Unprotected(shape=shape), episodes=300_000, seed=1
    )
    assert found.regret[-1] < 0.2 * 300_000  # the uniform policy has 300,000


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("mechanism", "calibration"),
    # No paper prints the one-slot encoding.
    # Another calibration is another scale of the same noise: before a merge, and one of them with every change.
    [
        pytest.param(m, c, marks=pytest.mark.slow if c == "paper" and m != "laplace" else ())
        for m in MECHANISMS
        for c in ("tight", "paper")
        if c == "tight" or m not in ("oue", "subset")
    ],
)
def test_counters_are_unbiased(mechanism, calibration):
    # 40,000 messages; |z| < 5 for every counter: false-alarm rate below 1e-4. A bias of 25% of the
    # count in the most visited cell is rejected.
    mdp = random_mdp(seed=3)
    shape = shape_of(mdp, staged=False)
    privatizer = local(shape, mechanism, epsilon=20.0, calibration=calibration, delta=1e-3)
    users = 40_000
    world = prepare_world(mdp)
    batch = roll_out(world, uniform_policy(2, 2, 2), users, np.random.default_rng(5))
    _, noisy = shown(privatizer, privatizer.begin(), batch, SimulationNoise(np.random.default_rng(6)))
    exact_privatizer = Unprotected(shape=shape)
    _, exact = shown(exact_privatizer, exact_privatizer.begin(), batch, SimulationNoise(np.random.default_rng(0)))
    for field, family in (("transitions", 0), ("visits", 1), ("rewards", 2)):
        z = (getattr(noisy, field) - getattr(exact, field)) / np.sqrt(noisy.variance[family])
        assert np.abs(z).max() < 5.0
    z = (1.25 * noisy.visits - exact.visits) / np.sqrt(noisy.variance[1])
    assert np.abs(z).max() > 5.0


def coverage(privatizer, learner, mdp, factor, repeats, users):
    """How often some reward or some row of the model is farther off than `factor` times its width."""
    shape = learner.shape
    generator = np.random.default_rng(7)
    policy = uniform_policy(mdp.horizon, mdp.num_states, mdp.num_actions)
    missed = 0
    for _ in range(repeats):
        batch = flow_counts(mdp, policy, users, generator)
        _, released = shown(privatizer, privatizer.begin(), batch, SimulationNoise(generator))
        belief = told(learner, learner.begin(), released)
        stages = shape.stages
        P, r = mdp.stage_P[:stages], mdp.stage_r[:stages]
        off_r = np.abs(belief.r_tilde - r) > factor * belief.bonus_r
        off_p = np.abs(belief.P_tilde - P).sum(axis=-1) > factor * belief.bonus_p
        if stages > 1:
            off_p = off_p[:-1]
        missed += bool(off_r.any() or off_p.any())
    return missed / repeats


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "rr", "oue", "subset"])
def test_widths_cover_the_truth(mechanism):
    # Prop. 4: with probability 1 - 2δ = 0.9 all widths cover. In 100 repetitions more than 25 misses of 10 expected
    # have probability 1e-5 at the stated level. Power: widths of two fifths miss nearly always.
    mdp = homogeneous_mdp(2, states=2, actions=2, horizon=2)
    shape = shape_of(mdp, staged=False)
    privatizer = local(shape, mechanism, epsilon=2.0)
    learner = LDPOBI(shape=shape, precision=privatizer.precision())
    assert coverage(privatizer, learner, mdp, 1.0, 100, 20_000) <= 0.25
    assert coverage(privatizer, learner, mdp, 0.4, 20, 20_000) > 0.75


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "rr", "oue", "subset"])
def test_noise_radii_cover_and_a_third_of_them_does_not(mechanism):
    # c_{k,1..4} at their level δ' = 2e^{-L} = 1%: of 400 draws, more than 14 misses of R, N, ΣN or N(s,a,s') have
    # probability 1e-5. A third of the radius misses more than twice as often as stated: it is rejected.
    mdp = homogeneous_mdp(2, states=2, actions=2, horizon=2)
    shape = shape_of(mdp, staged=False)
    # Radii hold for whatever users do: where sampling is most of the variance, these users vary less than they might.
    privatizer = local(shape, mechanism, epsilon=0.5 if mechanism == "subset" else 2.0)
    precision, users, L = privatizer.precision(), 500, math.log(2 / 0.01)
    generator, policy = np.random.default_rng(8), uniform_policy(2, 2, 2)
    exact_privatizer = Unprotected(shape=shape)
    errors = {REWARD: [], VISIT: [], ROW: [], CELL: []}
    for _ in range(400):
        batch = flow_counts(mdp, policy, users, generator)
        noise = SimulationNoise(generator)
        _, noisy = shown(privatizer, privatizer.begin(), batch, noise)
        _, exact = shown(exact_privatizer, exact_privatizer.begin(), batch, noise)
        moved = noisy.transitions - exact.transitions
        errors[REWARD].append((noisy.rewards - exact.rewards)[0, 0, 0])
        errors[VISIT].append((noisy.visits - exact.visits)[0, 0, 0])
        errors[ROW].append(moved[0, 0, 0].sum())
        errors[CELL].append(moved[0, 0, 0, 0])
    for statistic, found in errors.items():
        radius = sum_radius(precision, statistic, float(users), L)
        size = np.abs(np.array(found))
        assert np.mean(size > radius) <= 0.035
        assert np.mean(size > radius / 3) > 0.02


@pytest.mark.parametrize("calibration", ["paper", "tight"])
def test_doubling_epsilon_halves_laplace_noise(calibration):
    shape = CountShape(horizon=2, num_states=2, num_actions=2, staged=False)
    one, two = (local(shape, "laplace", epsilon=e, calibration=calibration).noise_std() for e in (1.0, 2.0))
    for family in one:
        assert two[family] == pytest.approx(one[family] / 2, rel=1e-9)


@pytest.mark.parametrize(
    ("mechanism", "staged"),
    # Staged bounded noise is many families of small shifts: the same accountant, ten times as slow.
    [(m, staged) for m in MECHANISMS for staged in (True, False) if (m, staged) != ("bounded", True)],
)
@pytest.mark.parametrize("epsilon", [0.2, 2.0, 20.0])
def test_tight_certificates_do_not_exceed_the_claim(mechanism, epsilon, staged):
    shape = CountShape(horizon=2, num_states=2, num_actions=2, staged=staged)
    privatizer = local(shape, mechanism, epsilon=epsilon)
    certificate = privatizer.certificate()
    assert certificate.holds
    assert certificate.epsilon <= epsilon * (1 + 1e-9)
    assert certificate.epsilon >= 0.99 * epsilon  # and nothing is given away


@pytest.mark.parametrize(("mechanism", "true"), [("laplace", True), ("rr", True), ("gaussian", False)])
def test_printed_claims(mechanism, true):
    # docs/guarantees.md, rows 12, 14 and 15: H = 6, epsilon 1, delta 1e-5
    shape = CountShape(horizon=6, num_states=4, num_actions=2, staged=False)
    certificate = local(shape, mechanism, epsilon=1.0, calibration="paper", delta=1e-5).certificate()
    assert certificate.holds == true
    expected = {"laplace": 34 / 36, "rr": 34 / 36, "gaussian": 1.144}[mechanism]
    assert certificate.epsilon == pytest.approx(expected, abs=2e-3)


def test_the_default_mechanism_is_the_quietest():
    # One slot costs a sampling variance that no epsilon removes: at a large epsilon randomized response has less.
    for staged in (True, False):
        shape = CountShape(horizon=2, num_states=2, num_actions=2, staged=staged)
        assert local(shape, None, epsilon=2.0).name == "local/subset"
        assert local(shape, None, epsilon=20.0).name == "local/rr"
    shape = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
    for epsilon in (0.5, 2.0, 8.0, 30.0):
        stds = {
            name: local(shape, name, epsilon=epsilon).parameters.variance[0] for name in ("laplace", "rr", "gaussian")
        }
        # A pair (s,a) has an eighth of the users.
        stds["subset"] = local(shape, "subset", epsilon=epsilon).transition.variance_at(1 / 8)
        request = {"pure": 0.0, "approximate": 1e-3}
        for delta in request.values():
            chosen = make_privatizer(
                PrivacyRequest(
                    trust="local", shape=shape, episodes=10, epsilon=epsilon, delta=delta, calibration=None,
                    mechanism=None, users_per_batch=1,
                )
            )  # fmt: skip
            able = {name: value for name, value in stds.items() if delta or name != "gaussian"}
            assert chosen.name == f"local/{min(able, key=able.get)}"


def test_at_six_steps_the_noise_is_five_times_less():
    # frontier/local: per counter and user, paper's Laplace 50.9 against the bits of one slot
    shape = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
    paper = local(shape, "laplace", epsilon=1.0, calibration="paper").noise_std()["transitions"]
    ours = local(shape, None, epsilon=1.0).noise_std()["transitions"]
    assert paper == pytest.approx(50.9, abs=0.05)
    assert ours == pytest.approx(6.11, abs=0.01)
    assert paper / ours > 5.0


def test_optimism_learns_the_optimum_without_noise():
    mdp = random_mdp(seed=3)
    shape = shape_of(mdp, staged=False)
    learner = LDPOBI(shape=shape, precision=exact_sums())
    released = exact_statistics(mdp, uniform_policy(2, 2, 2), 10**9, staged=False)
    _, plan = learner.plan(told(learner, learner.begin(), released), np.random.default_rng(0))
    _, _, best = backward_induction(np.array(mdp.stage_P), np.array(mdp.stage_r), 2)
    reachable = [(0, 0), (1, 1)]  # the first state, and where nearly everybody is afterwards
    assert [plan.policy.actions[c] for c in reachable] == [best[c] for c in reachable]


def test_laplace_scale_is_the_printed_one():
    shape = CountShape(horizon=2, num_states=2, num_actions=2, staged=False)
    assert local(shape, "laplace", epsilon=2.0, calibration="paper").outcome == Laplace(scale=6.0, discrete=False)
