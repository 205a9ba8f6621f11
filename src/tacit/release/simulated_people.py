"""Simulation only: people from counts, so that devices of a simulated stage have something to encode.

Given the counts of a stage, the people in one state are exchangeable if they all follow one Markov policy in one
environment: who of them takes which action, goes where and earns what is a random matching, layer by layer.
"""

from __future__ import annotations

import numpy as np

from tacit.data.counts import ExactCounts
from tacit.data.trajectories import Trajectories
from tacit.errors import NotSupported


def unfolded(counts: ExactCounts, generator: np.random.Generator) -> Trajectories:
    """Trajectories with exactly these counts, drawn from their law given the counts."""
    if counts.groups:
        raise NotSupported("counts of people who follow several policies do not say who did what; draw trajectories")
    H, S, A = counts.visits.shape
    n = counts.users
    states, actions = np.zeros((n, H + 1), dtype=np.int64), np.zeros((n, H), dtype=np.int64)
    rewards = np.zeros((n, H))
    states[:, 0] = generator.permutation(np.repeat(np.arange(S), counts.starts))
    for h in range(H):
        for s in range(S):
            there = generator.permutation(np.flatnonzero(states[:, h] == s))
            # The cells (a, s') in a row, each as often as it is counted; who gets which is a random matching.
            cells = np.repeat(np.arange(A * S), counts.transitions[h, s].ravel())
            actions[there, h], states[there, h + 1] = cells // S, cells % S
            for a in range(A):
                acted = generator.permutation(there[actions[there, h] == a])
                earned = counts.rewards[h, s, a]
                if counts.binary:
                    rewards[acted[: round(float(earned))], h] = 1.0
                elif len(acted):
                    rewards[acted, h] = earned / len(acted)
    return Trajectories(states=states, actions=actions, rewards=rewards)
