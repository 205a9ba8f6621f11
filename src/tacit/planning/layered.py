"""The flat geometry of a layered world, as kernels read it.

States stand in layers 0, ..., H and are numbered layer by layer from 0 (the first) to X - 1 (the last, where nothing is
done any more). A pair (x,a) has the number x A + a; its triples (x,a,x') are neighbours, one for each state x' of the
next layer, in order. So every table is one flat array: `policy` and `costs` are [pairs], transition probabilities and
occupancies are [triples], and nothing is stored for steps that no world can make.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.errors import InvalidInput, require, require_count
from tacit.kernels import lean_kernel
from tacit.released.losses import LayeredShape

__all__ = ["LayeredGeometry", "layered_geometry", "layered_shape", "push_forward"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class LayeredGeometry(NamedTuple):
    """Where the states, pairs and triples of each layer begin."""

    layers: Ints
    """[H + 2]: the first state of each layer; the last entry is X, the number of states."""
    edges: Ints
    """[pairs + 1]: the first triple of each pair; the last entry is the number of triples."""
    actions: int
    """A, the same everywhere."""


def layered_geometry(widths: Sequence[int], actions: int) -> LayeredGeometry:
    """The geometry of layers 0, ..., H with these numbers of states (the first and the last have one) and A actions.

    >>> geometry = layered_geometry((1, 2, 1), 2)
    >>> geometry.layers.tolist(), geometry.edges.tolist()
    ([0, 1, 3, 4], [0, 2, 4, 5, 6, 7, 8])
    """
    if len(widths) < 2:
        raise InvalidInput(f"a layered world needs a first and a last layer, got {len(widths)} layers")
    sizes = [require_count(f"states of layer {h}", n) for h, n in enumerate(widths)]
    require(sizes[0] == 1 and sizes[-1] == 1, "the first and the last layer must hold a single state", given=sizes)
    A = require_count("actions", actions)
    layers = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    fans = np.repeat(sizes[1:], np.array(sizes[:-1]) * A)  # how many successors each pair has
    edges = np.concatenate(([0], np.cumsum(fans))).astype(np.int64)
    return LayeredGeometry(layers, edges, A)


def layered_shape(geometry: LayeredGeometry) -> LayeredShape:
    """What privatizers know of this world.

    >>> layered_shape(layered_geometry((1, 2, 1), 2)).pair_of
    (0, 0, 1, 1, 2, 3, 4, 5)
    """
    fans = np.diff(geometry.edges)
    return LayeredShape(
        horizon=len(geometry.layers) - 2,
        pairs=len(fans),
        pair_of=tuple(np.repeat(np.arange(len(fans)), fans).tolist()),
    )


@lean_kernel
def push_forward(
    geometry: LayeredGeometry, policy: Floats, transitions: Floats, states: Floats, occupancy: Floats
) -> None:
    """The occupancy q(x,a,x') of policy[pairs] in transitions[triples], and q(x) of all X states in `states`.

    `occupancy` may be the array `transitions` itself.

    >>> geometry, states, occupancy = layered_geometry((1, 2, 1), 1), np.empty(4), np.empty(4)
    >>> push_forward(geometry, np.ones(3), np.array([0.25, 0.75, 1.0, 1.0]), states, occupancy)
    >>> states.tolist(), occupancy.tolist()
    ([1.0, 0.25, 0.75, 1.0], [0.25, 0.75, 0.25, 0.75])
    """
    layers, edges, A = geometry
    states[0] = 1.0
    for h in range(len(layers) - 2):
        after = layers[h + 1]
        for y in range(after, layers[h + 2]):
            states[y] = 0.0
        for x in range(layers[h], after):
            for a in range(A):
                pair = x * A + a
                weight = states[x] * policy[pair]
                first = edges[pair]
                for i in range(first, edges[pair + 1]):
                    # q(x,a,x') = q(x) π(a|x) P(x'|x,a),   q(x') = Σ q(x,a,x')
                    occupancy[i] = weight * transitions[i]
                    states[after + i - first] += occupancy[i]
