"""`policy=neural`: tangent features against finite differences, REINFORCE of a network in plain NumPy, live worlds."""

import numpy as np
import pytest
from gradient_tools import UNIT, random_users, user_gradients
from slow_network import Network

from tacit.environments.live import live, live_from_spec
from tacit.errors import InvalidInput, NotSupported, UnknownName
from tacit.policies.softmax import first_weights, network_dimension, network_table, network_tangent
from tacit.randomness import SimulationNoise
from tacit.released.gradients import GradientShape
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.runs.gradient_builder import state_inputs
from tacit.simulation.simulate import simulate

RUN = {"environment": "riverswim:states=3,horizon=3", "episodes": 60, "batch": 20, "seeds": (0,)}
PRIVATE = {"trust": "central", "epsilon": 1.0, "delta": 1e-5}
S, N, HIDDEN, A = 4, 2, 3, 3
SLOW = Network(inputs=N, hidden=HIDDEN, actions=A)


def drawn(seed=0):
    generator = np.random.default_rng(seed)
    inputs, active = generator.normal(size=(S, N)), np.array([1.0, 1.0, 0.0, 1.0])
    theta = generator.normal(size=network_dimension(N, HIDDEN, A))
    table, features = np.zeros((1, S, A)), np.zeros((S, A, len(theta)))
    network_table(inputs, active, HIDDEN, theta, table)
    network_tangent(inputs, active, HIDDEN, theta, features)
    return inputs, theta, table, features


def test_the_tangent_is_the_derivative_of_the_logits():
    inputs, theta, table, features = drawn()
    for s in (0, 1, 3):
        np.testing.assert_allclose(table[0, s], SLOW.policy(theta, inputs[s]), atol=1e-14)
        for j in range(len(theta)):
            there, back = theta.copy(), theta.copy()
            there[j] += 1e-6
            back[j] -= 1e-6
            slope = (SLOW.logits(there, inputs[s]) - SLOW.logits(back, inputs[s])) / 2e-6
            np.testing.assert_allclose(features[s, :, j], slope, atol=1e-8)
    # A state that is not active: every action alike, and nothing to learn.
    np.testing.assert_array_equal(table[0, 2], np.full(A, 1 / 3))
    assert not features[2].any()


@pytest.mark.parametrize("clip", [0.05, 10.0])
def test_users_add_the_gradient_of_the_network_clipped(clip):
    """Kernels of linear policies at φ_θ are REINFORCE by back-propagation: Lemma D9 (tangent features)."""
    inputs, theta, table, features = drawn(1)
    shape = GradientShape(horizon=5, num_states=S, num_actions=A, staged=False, dimension=len(theta))
    users = random_users(np.random.default_rng(2), shape, 8)
    found = user_gradients(UNIT._replace(clip=clip), features, table, users, dimension=len(theta), baseline=0.4)
    sizes = []
    for i in range(len(users)):
        slow = np.zeros(len(theta))
        for h in range(5):
            s, weight = users.states[i, h], (users.rewards[i, h:] - 0.4).sum()
            if s != 2:
                slow += weight * SLOW.score(theta, inputs[s], users.actions[i, h])
        sizes.append(np.linalg.norm(slow))
        np.testing.assert_allclose(found[i], slow * min(1.0, clip / sizes[-1]), atol=1e-10)
        assert np.linalg.norm(found[i]) <= clip
    assert max(sizes) > 0.05


def test_without_noise_it_is_reinforce_step_by_step():
    parts = assemble(RunConfig(learner="dp-pg:policy=neural,hidden=3,step=0.7,clip=0.5,baseline=0.25", **RUN))
    learner, privatizer, generator = parts.learner, parts.privatizer, np.random.default_rng(5)
    network, theta, belief = Network(inputs=3, hidden=3, actions=2), first_weights(3, 3, 2), learner.begin()
    for _ in range(4):
        belief, plan = learner.plan(belief, generator)
        assert plan.policy.table[2] == pytest.approx(np.array([network.policy(theta, x) for x in np.eye(3)]))
        users = random_users(generator, privatizer.shape, 20)
        belief, query = learner.ask(belief, plan, 0)
        _, released = privatizer.release(privatizer.begin(), users, query, SimulationNoise(generator))
        belief = learner.update(belief, released)
        total = np.zeros(len(theta))
        for states, actions, rewards in zip(users.states, users.actions, users.rewards, strict=True):
            own = sum(
                (rewards[h:] - 0.25).sum() * network.score(theta, np.eye(3)[states[h]], actions[h]) for h in range(3)
            )
            total += own * min(1.0, 0.5 / np.linalg.norm(own))
        theta = theta + 0.7 * total / 20
        np.testing.assert_allclose(belief.theta, theta, atol=1e-10)
    assert np.abs(theta - first_weights(3, 3, 2)).max() > 0.01


@pytest.mark.slow
def test_the_judge_looks_at_the_network_itself():
    """J of the final policy, by plain dynamic programming; without noise baselines are learned as well."""
    parts = assemble(RunConfig(learner="dp-pg:policy=neural,hidden=3", **RUN))
    found = simulate(parts.world, parts.learner, parts.privatizer, episodes=60, seed=5, speed="interpreted")
    mdp, table = parts.mdp, parts.learner.policy_at(found.belief.theta).table
    V = np.zeros(3)
    for h in (2, 1, 0):
        V = (table[h] * (np.array(mdp.stage_r)[-1] + np.array(mdp.stage_P)[-1] @ V)).sum(axis=1)
    assert found.objective.final == pytest.approx(float(mdp.rho @ V), rel=1e-12)
    assert found.belief.baseline[0] != 0.5
    assert found.objective.stationarity > 0.0


def test_the_certificate_is_that_of_a_linear_policy_with_as_many_parameters():
    network = assemble(RunConfig(learner="dp-pg:policy=neural,hidden=2", **RUN | PRIVATE))
    d = network_dimension(3, 2, 2)
    assert network.privatizer.shape.dimension == d == 14
    linear = assemble(RunConfig(learner=f"dp-pg:policy=linear,features={d},time_homogeneous=true", **RUN | PRIVATE))
    for name in ("sigma", "reach", "divisor"):
        assert getattr(network.privatizer, name) == getattr(linear.privatizer, name)
    for name in ("bounds", "rate", "epochs"):
        assert getattr(network.privatizer.spec, name) == getattr(linear.privatizer.spec, name)
    assert network.privatizer.events() == linear.privatizer.events()
    assert network.privatizer.certificate() == linear.privatizer.certificate()
    assert network.privatizer.certificate().holds
    twice = assemble(RunConfig(learner="dp-ppo:policy=neural,epochs=2", **RUN | PRIVATE))
    assert twice.privatizer.sigma == pytest.approx(np.sqrt(2) * network.privatizer.sigma)


def table_at(learner, theta):
    return learner.policy_at(theta).table[0]


def test_trust_regions_of_a_network_hold_exactly():
    """The divergence of the network itself, not of its linear model, is at most the radius."""
    parts = assemble(RunConfig(learner="dp-trpo:policy=neural,hidden=3,kl=0.02,damping=0.0001", **RUN | PRIVATE))
    learner, generator, seen = parts.learner, np.random.default_rng(3), []
    belief = learner.begin()
    for _ in range(15):
        belief, plan = learner.plan(belief, generator)
        _, released = parts.privatizer.release(
            parts.privatizer.begin(), random_users(generator, parts.privatizer.shape, 20), plan.query,
            SimulationNoise(generator),
        )  # fmt: skip
        after = learner.update(belief, released)
        old, new = table_at(learner, belief.theta), table_at(learner, after.theta)
        seen.append(float((old * np.log(old / new)).sum(axis=-1).mean()))
        belief = after
    assert 0.0 < min(seen)
    assert 0.005 < max(seen) <= 0.02 * (1 + 1e-9)


def test_natural_steps_solve_the_network_s_own_fisher_matrix():
    parts = assemble(RunConfig(learner="dp-npg:policy=neural,hidden=3,step=0.5,damping=0.1", **RUN))
    learner, generator = parts.learner, np.random.default_rng(4)
    belief = learner.begin()
    belief.theta[:] = generator.normal(size=belief.theta.shape)
    belief, plan = learner.plan(belief, generator)
    noise = SimulationNoise(generator)
    users = random_users(generator, parts.privatizer.shape, 20)
    _, released = parts.privatizer.release(parts.privatizer.begin(), users, plan.query, noise)
    network, d = Network(inputs=3, hidden=3, actions=2), len(belief.theta)
    F = 0.1 * np.eye(d)
    for x in np.eye(3):
        for a, p in enumerate(network.policy(belief.theta, x)):
            g = network.score(belief.theta, x, a)
            F += p * np.outer(g, g) / 3
    moved = learner.update(belief, released).theta - belief.theta
    np.testing.assert_allclose(moved, 0.5 * np.linalg.solve(F, released.statistics.gradient), atol=1e-9)


def test_inputs_are_scaled_bins_and_an_ended_episode_is_not_active():
    world = live_from_spec("gymnasium:CartPole-v1,grid=fine")
    inputs, active = state_inputs(world)
    assert inputs.shape == (901, 4)
    assert (inputs.min(), inputs.max()) == (-1.0, 1.0)
    assert active.sum() == 900
    assert active[world.ended] == 0.0
    observation = np.array([0.6, -0.6, 0.0001, 1.9])
    np.testing.assert_allclose(inputs[world.discretiser.state(observation)], [1.0, -1.0, 1 / 9, 1.0])
    numbers, _ = state_inputs(live("FrozenLake-v1"))
    np.testing.assert_array_equal(numbers, np.eye(17))


def test_a_live_world_is_learned_in_private_and_again(tmp_path):
    import tacit

    asked = {
        "environment": "gymnasium:CartPole-v1,grid=fine,evaluation=20", "learner": "dp-trpo:policy=neural,hidden=4",
        "episodes": 200, "batch": 100, "epsilon": 5.0, "delta": 1e-5, "workers": 1,
    }  # fmt: skip
    first = tacit.run(**asked, seeds=(0,), out=tmp_path / "run")
    assert first.certificate.holds
    assert tacit.load(tmp_path / "run").returns == first.returns
    assert tacit.run(**asked, seeds=(0,)).returns == first.returns


@pytest.mark.parametrize(
    ("learner", "changes", "error", "words"),
    [
        ("dp-pg:policy=neural,time_homogeneous=false", {}, NotSupported, "one network serves all steps"),
        ("dp-pg:policy=neural,barrier=0.1", {}, NotSupported, "log-barrier"),
        ("dp-pg:policy=linear,hidden=4", {}, InvalidInput, "policy=neural"),
        ("dp-pg:policy=neural,features=4", {}, InvalidInput, "policy=linear"),
        ("dp-pg:policy=neural,hidden=0", {}, InvalidInput, "dp-pg:hidden"),
        ("dp-pg:policy=neural", {"constants": "theory"}, InvalidInput, "no theorem gives a step for a network"),
        ("dp-pg:policy=neural", {"environment": "dose-bandit", "batch": None}, InvalidInput, "policy=gaussian"),
        ("dp-pg", {"environment": "gymnasium:CartPole-v1,grid=fin"}, UnknownName, "did you mean 'fine'"),
    ],
)
def test_refusals_say_what_to_do(learner, changes, error, words):
    with pytest.raises(error, match=words):
        assemble(RunConfig(learner=learner, **RUN | PRIVATE | changes))


@pytest.mark.slow
@pytest.mark.parametrize("learner", ["dp-pg", "dp-npg", "dp-trpo", "dp-ppo"])
def test_the_contract_and_both_speeds(learner):
    from tacit.audit.learner_rules import LEARNER_RULES, check_learner

    parts = assemble(RunConfig(learner=f"{learner}:policy=neural,hidden=3", **RUN | PRIVATE))
    report = check_learner(parts.learner, parts.privatizer, parts.world, episodes=60)
    assert report.passed == tuple(LEARNER_RULES)


@pytest.mark.slow
@pytest.mark.statistical
def test_the_audit_holds():
    """False-alarm rate 0.001; power: the attack proves something."""
    from tacit.audit.learners import audit_learner

    (final,) = audit_learner(
        "dp-pg:policy=neural,hidden=2", trust="central", epsilon=3.0, delta=1e-5, trials=5000, false_alarm=1e-3
    )
    assert final.verdict == "holds"
    assert final.view == "the final parameters"
    assert final.attacked <= final.certified
