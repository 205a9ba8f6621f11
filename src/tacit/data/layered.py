"""Sensitive: one user's way through a layered world, drawn step by step, and exact totals over users."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.environments.layered import LayeredMDP
from tacit.kernels import lean_kernel

__all__ = ["ExactLosses", "LayeredWorld", "LossUser", "prepare_layered", "take_in", "walk_layered"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class LossUser(NamedTuple):
    """One user's visited pairs[H] and triples[H], and losses[X'A] (full information) or losses[H] (bandit)."""

    pairs: Ints
    triples: Ints
    losses: Floats
    row: Floats = np.zeros(0)
    """[X'A], simulation only: the losses of all pairs, for the judge."""

    def __repr__(self) -> str:
        return "LossUser()"  # never its contents


class LayeredWorld(NamedTuple):
    """The sampler's arrays; the pair (x,a) has the number x A + a and its triples stand side by side."""

    first_triple: Ints
    """[pairs + 1]: where the triples of each pair begin."""
    first_state: Ints
    """[pairs]: the state to which the first triple of each pair leads."""
    cumulative: Floats
    """[triples]: P(x' or an earlier successor | x, a)."""
    actions: int


def prepare_layered(mdp: LayeredMDP) -> LayeredWorld:
    """Lay the transitions out for sampling."""
    first_triple, first_state, cumulative = [0], [], []
    for h, step in enumerate(mdp.transitions):
        for row in step.reshape(-1, step.shape[2]):
            sums = np.cumsum(row)
            # Rounding must not lead to a state that cannot be reached: the last possible one takes the rest.
            sums[np.flatnonzero(row)[-1] :] = 1.0
            cumulative.append(sums)
            first_triple.append(first_triple[-1] + len(row))
            first_state.append(int(mdp.layers[h + 1][0]))
    return LayeredWorld(
        first_triple=np.array(first_triple, dtype=np.int64),
        first_state=np.array(first_state, dtype=np.int64),
        cumulative=np.concatenate(cumulative),
        actions=mdp.num_actions,
    )


@lean_kernel
def walk_layered(
    world: LayeredWorld, policy: Floats, generator: np.random.Generator, pairs: Ints, triples: Ints
) -> None:
    """One user follows policy[pairs] from the first state to the last; writes pairs[H] and triples[H]."""
    A = world.actions
    x = 0
    for h in range(pairs.shape[0]):
        left = generator.random()
        a = A - 1
        for b in range(A):
            left -= policy[x * A + b]
            if left < 0.0:
                a = b
                break
        # Rounding can leave `left` non-negative: fall back on the last action that has any probability.
        while a > 0 and policy[x * A + a] <= 0.0:
            a -= 1
        pair = x * A + a
        uniform = generator.random()
        triple = world.first_triple[pair]
        while world.cumulative[triple] <= uniform:
            triple += 1
        pairs[h] = pair
        triples[h] = triple
        x = world.first_state[pair] + triple - world.first_triple[pair]


class ExactLosses(NamedTuple):
    """Sensitive: totals over all users so far, and the losses of the last one."""

    transitions: Floats
    visits: Floats
    losses: Floats
    """[pairs]: Σ_k l_k(x,a), with bandit feedback over visited pairs."""
    own: Floats
    """[pairs]: the losses of the current user."""
    users: Ints

    def __repr__(self) -> str:
        return "ExactLosses()"  # never its contents


@lean_kernel
def take_in(full: bool, exact: ExactLosses, pairs: Ints, triples: Ints, losses: Floats) -> None:
    """Add one user to the exact totals, clipped into range: nothing here raises on data."""
    size = exact.own.shape[0]
    exact.users[0] += 1
    for pair in range(size):
        exact.own[pair] = 0.0
    if full:
        for pair in range(min(size, losses.shape[0])):
            exact.own[pair] = clipped(losses[pair])
    for h in range(pairs.shape[0]):
        pair = min(max(pairs[h], 0), size - 1)
        triple = min(max(triples[h], 0), exact.transitions.shape[0] - 1)
        new_pair, new_triple = True, True
        for g in range(h):
            # A layered trajectory visits a pair at most once; whoever reports one twice counts once.
            if min(max(pairs[g], 0), size - 1) == pair:
                new_pair = False
            if min(max(triples[g], 0), exact.transitions.shape[0] - 1) == triple:
                new_triple = False
        if new_pair:
            exact.visits[pair] += 1.0
        if new_triple:
            exact.transitions[triple] += 1.0
        if not full and h < losses.shape[0]:
            exact.own[pair] = clipped(losses[h])
    for pair in range(size):
        exact.losses[pair] += exact.own[pair]


@lean_kernel
def clipped(loss: float) -> float:
    """A loss in [0, 1]; NaN is 0."""
    if loss >= 1.0:
        return 1.0
    return loss if loss > 0.0 else 0.0
