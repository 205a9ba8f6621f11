"""Inputs of neural policies: what a network is told about each state of a world; public, and fixed beforehand.

    bins and products   one number per dimension: the bin, scaled to [-1, 1]; a dimension with one bin says nothing
    everything else     the state itself, as a vector with a single one

The state of an ended episode is not active: no action there changes anything, and none is learned.
"""

from __future__ import annotations

import numpy as np

from tacit.arrays import Floats
from tacit.environments.discretise import Bins, Product
from tacit.environments.live import LiveWorld
from tacit.environments.state_features import SeenMDP
from tacit.environments.tabular import TabularMDP


def state_inputs(world: TabularMDP | SeenMDP | LiveWorld) -> tuple[Floats, Floats]:
    """Inputs [S,n], and for each state whether it is active [S]: 1 or 0.

    >>> from tacit.environments.live import live
    >>> inputs, active = state_inputs(live("CartPole-v1"))  # six angles times three speeds, and "ended"
    >>> inputs[[0, 1, 17, 18]].tolist(), active[[17, 18]].tolist()
    ([[-1.0, -1.0], [-1.0, 0.0], [1.0, 1.0], [0.0, 0.0]], [1.0, 0.0])
    """
    S = world.num_states
    active = np.ones(S)
    rule = world.discretiser if isinstance(world, LiveWorld) else None
    if isinstance(world, LiveWorld) and world.ends:
        active[world.ended] = 0.0
    if not isinstance(rule, Bins | Product) or rule.size == 1:
        return np.eye(S), active
    places = np.stack(np.unravel_index(np.arange(rule.size), rule.counts), axis=1)
    counts = np.array(rule.counts)
    told = counts > 1
    inputs = np.zeros((S, int(told.sum())))
    inputs[: rule.size] = 2.0 * places[:, told] / (counts[told] - 1.0) - 1.0
    return inputs, active
