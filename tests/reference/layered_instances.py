"""Random layered worlds for the solvers of adversarial MDPs: ordinary ones, and ones chosen to hurt."""

from __future__ import annotations

import numpy as np

from tacit.planning.layered import layered_geometry, push_forward


def random_geometry(rng, *, most_layers=6, most_states=8, most_actions=4):
    """H in 1..6 steps (one-step worlds and one-state layers included), 1..8 states, 1..4 actions."""
    H = int(rng.integers(1, most_layers + 1))
    inner = rng.integers(1, most_states + 1, H - 1).tolist()
    return layered_geometry((1, *inner, 1), int(rng.integers(1, most_actions + 1)))


def random_transitions(rng, geometry, *, zeros=0.0):
    """A distribution for each pair, [triples]; a share of the entries is exactly zero."""
    fans, firsts = np.diff(geometry.edges), geometry.edges[:-1]
    p = rng.standard_gamma(np.repeat(rng.choice([0.2, 1.0, 5.0], len(fans)), fans)) + 1e-12
    p = np.where(rng.random(len(p)) < zeros, 0.0, p)
    p[firsts + rng.integers(fans)] += 1e-3
    return p / np.repeat(np.add.reduceat(p, firsts), fans)


def random_intervals(rng, geometry, kind):
    """(lo, hi)[triples] around a random world."""
    P = random_transitions(rng, geometry, zeros=0.3 if kind == "zeros" else 0.0)
    W = len(P)
    if kind == "vacuous":
        width = np.ones(W)
    elif kind == "known":
        width = np.zeros(W)
    elif kind == "mirrored":  # one width for a pair: lo of one is 1 - hi of the other, up to rounding, when m = 2
        pairs = len(geometry.edges) - 1
        width = np.repeat(10.0 ** rng.uniform(-7, 0.3, pairs), np.diff(geometry.edges))
    else:
        width = 10.0 ** rng.uniform(-7, 0.3, W) if rng.random() < 0.5 else np.full(W, 10.0 ** rng.uniform(-7, 0.3))
    lo, hi = np.maximum(0.0, P - width), np.minimum(1.0, P + width)
    if kind != "known":
        hi = np.maximum(hi, 1e-9)
    single = np.repeat(np.diff(geometry.edges) == 1, np.diff(geometry.edges))
    lo[single], hi[single] = 1.0, 1.0
    return lo, hi


KINDS = ("plain", "mirrored", "zeros", "vacuous", "known")


def random_entropy_instance(rng):
    """(geometry, costs, lo, hi) with costs between harmless and ±2000."""
    geometry = random_geometry(rng)
    lo, hi = random_intervals(rng, geometry, rng.choice(KINDS, p=[0.45, 0.2, 0.2, 0.1, 0.05]))
    size = 10.0 ** rng.uniform(-2, np.log10(2000.0))
    return geometry, rng.uniform(-size, size, len(geometry.edges) - 1), lo, hi


def random_barrier_instance(rng, *, wild=False):
    """(geometry, costs, previous, lo, hi): q_k a flow of another world, down to 3e-13, costs of either sign.

    A wild q_k is no flow at all: every entry is drawn by itself, over 12 orders of magnitude.
    """
    geometry = random_geometry(rng)
    lo, hi = random_intervals(rng, geometry, rng.choice(KINDS[:4], p=[0.45, 0.2, 0.25, 0.1]))
    pairs, W = len(geometry.edges) - 1, len(lo)
    depth = rng.choice([1.0, 3.0, 12.5])
    if wild:
        previous = 10.0 ** rng.uniform(-depth, 0.0, W)
    else:
        rows = (10.0 ** rng.uniform(-depth, 0.0, pairs)).reshape(-1, geometry.actions)
        policy = (rows / rows.sum(axis=1, keepdims=True)).ravel()
        world = np.maximum(random_transitions(rng, geometry), 1e-9)
        previous, states = np.empty(W), np.empty(int(geometry.layers[-1]))
        push_forward(geometry, policy, world, states, previous)
        if rng.random() < 0.3:
            previous *= 10.0 ** rng.uniform(-1, 1, W)
    previous = np.maximum(previous, 3e-13)
    costs = rng.uniform(0, 10.0 ** rng.uniform(-3, 3), pairs)
    if rng.random() < 0.3:
        costs *= rng.choice([-1.0, 1.0], pairs)
    return geometry, costs, previous, lo, hi
