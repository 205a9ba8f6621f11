"""Neural policies: only where PyTorch is installed (extra `[torch]`)."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")
torch.set_num_threads(1)  # small tensors: threads would only wait for each other

from gradient_tools import UNIT, random_users, shape_of, small_mdp, table_of  # noqa: E402
from gradient_tools import user_gradients as table_gradients  # noqa: E402

from papers.neural.gradients import NeuralBatch, clipped_sum, plain_sum, user_gradients  # noqa: E402
from papers.neural.policy import NeuralPolicy  # noqa: E402
from papers.neural.rollout import Users, policy_for  # noqa: E402
from papers.neural.train import neural_privatizer, release, train  # noqa: E402
from tacit.errors import InvalidInput, NotSupported  # noqa: E402
from tacit.policies.softmax import (  # noqa: E402
    network_table,
    network_tangent,
    tabular_features,
)
from tacit.randomness import SimulationNoise  # noqa: E402
from tacit.released.gradients import GradientShape  # noqa: E402

POLICY = NeuralPolicy(inputs=3, hidden=4, actions=2)


def batch_of(users=6, steps=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, steps + 1, (users,), generator=generator)
    weights = torch.randn(users, steps, generator=generator) * (torch.arange(steps) < lengths[:, None])
    return NeuralBatch(
        torch.randn(users, steps, 3, generator=generator),
        torch.randint(2, (users, steps), generator=generator),
        weights,
        torch.rand(users, generator=generator),
        lengths,
    )


def theta_of(seed=1):
    return torch.randn(POLICY.dimension, generator=torch.Generator().manual_seed(seed))


def test_user_gradients_are_autograd_of_one_user_at_a_time():
    batch, theta = batch_of(), theta_of()
    found = user_gradients(POLICY, theta, batch)
    for i in range(len(batch)):
        leaf = theta.clone().requires_grad_()
        logs = torch.log_softmax(POLICY.logits(leaf, batch.observations[i]), -1)
        total = sum(batch.weights[i, h] * logs[h, batch.actions[i, h]] for h in range(5))
        (slow,) = torch.autograd.grad(total, leaf)
        torch.testing.assert_close(found[i], slow, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found.sum(0), plain_sum(POLICY, theta, batch), atol=1e-4, rtol=1e-4)


def test_the_tabular_kernel_agrees_with_autograd():
    # The compiled gradient of tacit.data against torch, for the same table of logits.
    mdp, generator = small_mdp(), np.random.default_rng(3)
    shape = shape_of(mdp)
    theta = generator.normal(size=shape.dimension)
    users = random_users(generator, shape, 10)
    found = table_gradients(UNIT, tabular_features(), table_of(tabular_features(), theta, shape), users, dimension=27)
    for i in range(10):
        leaf = torch.tensor(theta.reshape(3, 3, 3), requires_grad=True)
        logs = torch.log_softmax(leaf, -1)
        to_go = np.cumsum(users.rewards[i][::-1])[::-1]
        total = sum(to_go[h] * logs[h, users.states[i, h], users.actions[i, h]] for h in range(3))
        (slow,) = torch.autograd.grad(total, leaf)
        np.testing.assert_allclose(found[i], slow.numpy().ravel(), atol=1e-12)


@pytest.mark.parametrize("clip", [0.01, 1.0])
def test_no_user_moves_the_sum_further_than_two_clips(clip):
    theta, batch = theta_of(), batch_of(users=8)
    whole = clipped_sum(POLICY, theta, batch, clip)
    for seed in range(20):
        other = batch_of(users=8, seed=seed + 10)
        parts = [
            field.clone() for field in (batch.observations, batch.actions, batch.weights, batch.shares, batch.lengths)
        ]
        for mine, theirs in zip(
            parts, (other.observations, other.actions, other.weights * 1e3, other.shares, other.lengths), strict=True
        ):
            mine[0] = theirs[0]
        moved = clipped_sum(POLICY, theta, NeuralBatch(*parts), clip) - whole
        assert float(moved.norm()) <= 2 * clip


def test_a_gradient_that_is_not_finite_counts_as_zero():
    batch = batch_of()
    broken = NeuralBatch(batch.observations.clone(), batch.actions, batch.weights.clone(), batch.shares, batch.lengths)
    broken.observations[0] = math.inf
    broken.weights[1, 0] = math.nan
    assert torch.isfinite(clipped_sum(POLICY, theta_of(), broken, 1.0)).all()
    for share in (math.nan, math.inf, -math.inf):
        broken.shares[:] = share
        privatizer = neural_privatizer(POLICY, users_per_batch=6, clip=0.5, epsilon=None, delta=None)
        found = release(privatizer, POLICY, theta_of(), broken, SimulationNoise(np.random.default_rng(0)))
        assert found.statistics.reward[0] == 0.0


def test_without_noise_the_release_is_the_clipped_mean_and_short_batches_are_refused():
    batch, theta = batch_of(), theta_of()
    privatizer = neural_privatizer(POLICY, users_per_batch=6, clip=0.5, epsilon=None, delta=None)
    noise = SimulationNoise(np.random.default_rng(0))
    found = release(privatizer, POLICY, theta, batch, noise).statistics
    np.testing.assert_allclose(found.gradient, clipped_sum(POLICY, theta, batch, 0.5).numpy() / 6, atol=1e-7)
    with pytest.raises(InvalidInput, match="exactly 6 users"):
        release(privatizer, POLICY, theta, batch_of(users=5), noise)


def test_the_certificate_is_that_of_the_clip():
    privatizer = neural_privatizer(POLICY, users_per_batch=100, clip=2.0, epsilon=1.0, delta=1e-5)
    assert privatizer.sensitivity == pytest.approx(0.04 * math.sqrt(1.04))
    assert privatizer.certificate().holds
    assert privatizer.certificate().epsilon == pytest.approx(1.0, rel=1e-9)


def test_cartpole_is_learned_without_noise_and_certified_with():
    plain = train(users=4_000, epsilon=None, delta=None, users_per_batch=100, step=0.05, horizon=200)
    assert np.mean(plain.returns[-5:]) > 1.5 * plain.returns[0]
    private = train(users=400, epsilon=8.0, delta=1e-5, users_per_batch=100, horizon=100)
    assert len(private.returns) == 4
    assert private.certificate.holds
    assert [claim.output for claim in private.claims] == ["final-policy", "other-users-actions"]
    again = train(users=400, epsilon=8.0, delta=1e-5, users_per_batch=100, horizon=100)
    assert (again.theta == private.theta).all()


def test_environments_that_do_not_fit_are_refused():
    with pytest.raises(NotSupported, match="Discrete actions"):
        policy_for("Pendulum-v1")
    assert policy_for("CartPole-v1").actions == 2
    batch = Users("CartPole-v1", parallel=3, horizon=10, seed=0).play(
        policy_for("CartPole-v1"), policy_for("CartPole-v1").initial(0), 0.25
    )
    assert float(batch.weights.min()) >= -0.25
    assert (batch.weights[torch.arange(10) >= batch.lengths[:, None]] == 0).all()


def test_the_tangent_of_the_network_kernel_is_autograd():
    """`policy=neural` has the weights of this network: logits, derivatives and a user's gradient agree with torch."""
    generator = np.random.default_rng(6)
    inputs, theta = generator.normal(size=(5, 3)), generator.normal(size=POLICY.dimension)
    table, features = np.zeros((1, 5, 2)), np.zeros((5, 2, POLICY.dimension))
    network_table(inputs, np.ones(5), 4, theta, table)
    network_tangent(inputs, np.ones(5), 4, theta, features)
    flat, x = torch.tensor(theta), torch.tensor(inputs)
    np.testing.assert_allclose(table[0], torch.softmax(POLICY.logits(flat, x), -1).numpy(), atol=1e-12)
    jacobian = torch.func.jacrev(lambda weights: POLICY.logits(weights, x))(flat)
    np.testing.assert_allclose(features, jacobian.numpy(), atol=1e-12)
    shape = GradientShape(horizon=4, num_states=5, num_actions=2, staged=False, dimension=POLICY.dimension)
    users = random_users(generator, shape, 6)
    found = table_gradients(UNIT._replace(clip=0.3), features, table, users, dimension=POLICY.dimension, baseline=0.5)
    to_go = np.cumsum((users.rewards - 0.5)[:, ::-1], axis=1)[:, ::-1].copy()
    batch = NeuralBatch(
        x[torch.tensor(users.states)], torch.tensor(users.actions), torch.tensor(to_go), torch.zeros(6),
        torch.full((6,), 4),
    )  # fmt: skip
    slow = user_gradients(POLICY, flat, batch).numpy()
    scale = np.minimum(1.0, 0.3 / np.linalg.norm(slow, axis=1, keepdims=True))
    np.testing.assert_allclose(found, slow * scale, atol=1e-10)
