"""Sensitive: one user's way through a layered world, drawn step by step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.environments.layered import LayeredMDP
from tacit.kernels import lean_kernel

__all__ = ["LayeredWorld", "LossUser", "prepare_layered", "walk_layered"]


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
