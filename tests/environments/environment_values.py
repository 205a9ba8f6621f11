"""Slow and plain: values straight from the Bellman equations, one state at a time, for the tests of this folder."""

import numpy as np


def optimal_value(mdp):
    return float(np.dot(mdp.rho, optimal_values(mdp)[0]))


def optimal_values(mdp):
    V = np.zeros((mdp.horizon + 1, mdp.num_states))
    for h in reversed(range(mdp.horizon)):
        for s in range(mdp.num_states):
            V[h, s] = max(_backup(mdp, V, h, s, a) for a in range(mdp.num_actions))
    return V


def policy_value(mdp, policy):
    """The value of policy[h, s, a]."""
    V = np.zeros((mdp.horizon + 1, mdp.num_states))
    for h in reversed(range(mdp.horizon)):
        for s in range(mdp.num_states):
            V[h, s] = sum(policy[h, s, a] * _backup(mdp, V, h, s, a) for a in range(mdp.num_actions))
    return float(np.dot(mdp.rho, V[0]))


def uniform_policy(mdp):
    return np.full((mdp.horizon, mdp.num_states, mdp.num_actions), 1.0 / mdp.num_actions)


def constant_policy(mdp, action):
    policy = np.zeros((mdp.horizon, mdp.num_states, mdp.num_actions))
    policy[:, :, action] = 1.0
    return policy


def random_policy(mdp, generator):
    return generator.dirichlet(np.ones(mdp.num_actions), size=(mdp.horizon, mdp.num_states))


def random_tabular(generator, *, states, actions, horizon, homogeneous, point_start=True, tabular):
    leading = () if homogeneous else (horizon,)
    P = generator.dirichlet(np.ones(states), size=(*leading, states, actions))
    rho = np.eye(states)[0] if point_start else generator.dirichlet(np.ones(states))
    return tabular(P=P, r=generator.random((*leading, states, actions)), rho=rho, horizon=horizon)


def _backup(mdp, V, h, s, a):
    return mdp.r[h, s, a] + float(np.dot(mdp.P[h, s, a], V[h + 1]))
