"""Small builders for the tests of this folder."""

import math

import numpy as np

from papers.gradient_requests import gradient_request
from tacit.data.gradients import Bounds, add_gradients, begin_sums, in_range
from tacit.data.trajectories import Trajectories
from tacit.environments import TabularMDP, make
from tacit.learners.gradient import GradientParameters, SoftmaxLearner, ascend
from tacit.policies.softmax import add_pull_back, parameters_of, public_features, softmax_table, tabular_features
from tacit.release.table import make_privatizer
from tacit.released.gradients import GradientShape

UNIT = Bounds(low=0.0, high=1.0, clip=math.inf, surrogate=math.inf)


def shape_of(mdp, *, staged=True, features=None):
    features = tabular_features() if features is None else features
    stages = mdp.horizon if staged else 1
    d = parameters_of(features, stages, mdp.num_states, mdp.num_actions)
    return GradientShape(
        horizon=mdp.horizon, num_states=mdp.num_states, num_actions=mdp.num_actions, staged=staged, dimension=d
    )


def table_of(features, theta, shape):
    table = np.zeros((shape.stages, shape.num_states, shape.num_actions))
    softmax_table(features, np.ascontiguousarray(theta, dtype=float), table)
    return table


def learner_of(mdp, *, step=0.5, barrier=0.0, staged=True, features=None, update=ascend, damping=0.0, baseline=0.0):
    features = tabular_features() if features is None else features
    parameters = GradientParameters(
        features=features, step=float(step), barrier=float(barrier), damping=float(damping), low=0.0, high=1.0,
        baseline=float(baseline),
    )  # fmt: skip
    shape = shape_of(mdp, staged=staged, features=features)
    return SoftmaxLearner(
        name="dp-pg", shape=shape, parameters=parameters, update_kernel=update, constants="none", users_per_batch=50,
    )  # fmt: skip


def fitted(learner, privatizer):
    """The same learner with the batches that the privatizer releases."""
    return SoftmaxLearner(
        name=learner.name, shape=learner.shape, parameters=learner.parameters, update_kernel=learner.kernels.update,
        constants=learner.constants, users_per_batch=privatizer.users_per_batch, releases=privatizer.spec.epochs,
    )  # fmt: skip


def privatizer_of(shape, *, epsilon=1.0, delta=1e-5, users=50, clip=None, tabular=True, **more):
    request = gradient_request(
        shape=shape, trust="none" if epsilon is None else "central", epsilon=epsilon,
        delta=None if epsilon is None else delta, calibration=more.pop("calibration", "tight"), users_per_batch=users,
        clip=clip, tabular=tabular, **more,
    )  # fmt: skip
    return make_privatizer(request)


def random_users(generator, shape, users):
    size = (users, shape.horizon)
    return Trajectories(
        states=generator.integers(shape.num_states, size=size),
        actions=generator.integers(shape.num_actions, size=size),
        rewards=generator.random(size),
    )


def small_mdp(seed=3, *, horizon=3, states=3, actions=3, homogeneous=False):
    generator = np.random.default_rng(seed)
    leading = () if homogeneous else (horizon,)
    return TabularMDP(
        P=generator.dirichlet(np.ones(states), size=(*leading, states, actions)),
        r=generator.random((*leading, states, actions)),
        rho=generator.dirichlet(np.ones(states)),
        horizon=horizon,
    )


BANDIT = make("contextual-bandit:contexts=3,actions=4,seed=1")
FEATURES = public_features(3, 3, 4)


def user_gradients(bounds, features, table, batch, *, dimension, baseline=0.0):
    """Each user's clipped gradient, [users, d]; the loop never forms it."""
    (L, S, A), horizon = table.shape, batch.actions.shape[1]
    users = in_range(batch, S, A, horizon)
    sums, found = begin_sums(features, L, S, A, horizon), np.zeros((len(users), dimension))
    for i in range(len(users)):
        chosen = np.zeros(len(users), dtype=np.bool_)
        chosen[i] = True
        add_gradients(
            bounds, features, table, table, users.states, users.actions, users.rewards, chosen, baseline, sums
        )
        add_pull_back(features, sums.weights, 1.0, found[i])
    return found
