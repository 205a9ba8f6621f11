"""The instance behind the lower bound of local privacy: one good action hidden in one leaf of a tree.

[garcelon2021local] Theorem 2 and appendix B: S - 2 states form an A-ary tree that is descended deterministically. In a
leaf every action leads to the state + or − with probability 1/2 each, except for one hidden pair (leaf, action), which
leads to + with probability 1/2 + Δ. Both are absorbing; + pays 1 in each step, all else pays 0. With the leaves at
depth d − 1 and steps counted from 0,

    V^π = (H − d) (1/2 + Δ P^π(s_{d−1} = x*, a_{d−1} = a*))                                                  (Eq. 7)

so nothing but the hidden pair matters, and it must be found among A times as many pairs as there are leaves.

The paper takes the tree to be perfect without loss of generality. Where S - 2 states do not make a perfect tree we
number them level by level; a node that lacks children repeats its last one, and a leaf one level too high waits there
for one step (which makes the MDP time-dependent), so that Eq. 7 holds for every S ≥ 3.
"""

from __future__ import annotations

import math

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.environments.tabular import TabularMDP
from tacit.errors import require, require_count, require_real


def hard_tree(
    *, states: int = 15, actions: int = 3, horizon: int = 7, gap: float = 0.25, good_leaf: int = 0, good_action: int = 1
) -> TabularMDP:
    """The lower-bound instance of local privacy: one hidden good action in one leaf of a tree.

    Parameters
    ----------
    states
        S ≥ 3, the states + and − included; the tree is perfect for S - 2 = 1 + A + A² + ...
    actions
        A ≥ 2, children of a node.
    horizon
        H ≥ 2 log_A(S - 2) + 2, as Theorem 2 asks.
    gap
        Δ in (0, 1/2], the advantage of the hidden pair.
    good_leaf, good_action
        The hidden pair, counted from 0.

    Examples
    --------
    >>> tree = hard_tree()
    >>> tree.state_names[4:6], tree.P[2, 4, 1, -2:]
    (('leaf 0', 'leaf 1'), array([0.75, 0.25]))
    """
    S, A = require_count("states", states, least=3), require_count("actions", actions, least=2)
    H, delta = require_count("horizon", horizon), require_real("gap", gap, low=0.0, high=0.5, open_low=True)
    least_horizon = math.ceil(2 * math.log(S - 2) / math.log(A) + 2 - 1e-9)
    require(least_horizon <= H, f"horizon must be at least 2 log_A(S - 2) + 2 = {least_horizon} (Theorem 2)", given=H)
    nodes, plus, minus = S - 2, S - 2, S - 1
    leaves = np.array([node for node in range(nodes) if A * node + 1 >= nodes])
    good_leaf = require_count("good_leaf", good_leaf, least=0)
    require(good_leaf < len(leaves), f"good_leaf must be below {len(leaves)}, the number of leaves", given=good_leaf)
    good_action = require_count("good_action", good_action, least=0)
    require(good_action < A, f"good_action must be below {A}, the number of actions", given=good_action)

    P = np.zeros((S, A, S))  # [s, a, s']
    for node in range(leaves[0]):
        for a in range(A):
            P[node, a, min(A * node + 1 + a, nodes - 1)] = 1.0
    P[leaves, :, plus] = P[leaves, :, minus] = 0.5
    # P(+ | x*, a*) = 1/2 + Δ
    P[leaves[good_leaf], good_action, [plus, minus]] = 0.5 + delta, 0.5 - delta
    P[plus, :, plus] = P[minus, :, minus] = 1.0
    r = np.zeros((S, A))  # [s, a]
    r[plus] = 1.0
    return TabularMDP(
        P=_wait_in_high_leaves(P, leaves, nodes, A, H),
        r=r,
        rho=np.eye(S)[0],
        horizon=H,
        reward_kind="deterministic",
        name="hard-tree",
        state_names=[*(f"node {s}" for s in range(leaves[0])), *(f"leaf {i}" for i in range(len(leaves))), "+", "-"],
    )


def _wait_in_high_leaves(P: Floats, leaves: Ints, nodes: int, A: int, H: int) -> Floats:
    """P itself for a perfect tree; else [H, S, A, S'] where every leaf stays put before step d - 1."""
    depth = [0] * nodes
    for node in range(1, nodes):
        depth[node] = depth[(node - 1) // A] + 1
    deepest = depth[-1]  # d - 1
    if all(depth[leaf] == deepest for leaf in leaves):
        return P
    # Deviation: appendix B is content with leaves at depth d - 1 or d - 2; unequal depths would pay unequally.
    staged = np.repeat(P[None], H, axis=0)  # [h, s, a, s']
    for h in range(deepest):
        staged[h, leaves] = 0.0
        staged[h, leaves, :, leaves] = 1.0
    return staged
