"""Runs of learners whose batches a trusted curator releases, with a canary in the first: scores of two worlds.

The noise of a schedule may be correlated: what later batches show of their noise tells about that of the canary's. The
white box sees them all and weighs them by the exact law of the noise, which is Gaussian: with covariance Σ over the
batches and d what the canary moves in the first one, the likelihood ratio of everything is a function of

    Σ_counters d · e'Σ⁻¹u,     e the noise that each batch would have in the first world, u the first unit vector.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.audit.records import canaries, counters_of
from tacit.audit.runs import Scores, linear_scores
from tacit.data.counts import ExactCounts, count_trajectories, flow_counts, join_counts
from tacit.errors import InvalidInput
from tacit.policies import tabular
from tacit.randomness import SimulationNoise, seed_streams
from tacit.release.central_batches import CentralBatches
from tacit.runs.assemble import Assembled


def curator_runs(parts: Assembled, trials: int, seed: int) -> list[Scores]:
    """All batches of the schedule again and again, and the policies that follow from the canary's."""
    privatizer: Any = parts.privatizer
    learner, shape, sizes = parts.learner, privatizer.shape, [batch.users for batch in privatizer.batches]
    streams = seed_streams(seed)
    belief, plan = learner.plan(learner.begin(), streams.learner)
    if plan.users is None or plan.query is None:
        raise InvalidInput("the first batch releases nothing; audit with more episodes")
    policy = tabular(plan.policy)
    crowd = flow_counts(parts.mdp, policy, sizes[0] - 1, streams.world)
    later = [flow_counts(parts.mdp, policy, users, streams.world) for users in sizes[1:]]
    worlds = [
        [join_counts([count_trajectories(canary, shape.num_states, shape.num_actions), crowd]), *later]
        for canary in canaries(shape, 1)
    ]
    was, became = (np.array([_counters(privatizer, batch) for batch in world]) for world in worlds)
    # Σ⁻¹u, and d, which is not zero in the first batch only
    weights = np.linalg.inv(privatizer.batch_covariance(sizes, privatizer.following))[:, 0]
    moved = became[0] - was[0]
    white, black = [], []
    for world, batches in enumerate(worlds):
        noise = SimulationNoise(np.random.default_rng([seed, 29, world]))
        scores = np.empty(trials)
        for trial in range(trials):
            state, seen = privatizer.begin(), []
            for batch in batches:
                state, released = privatizer.release(state, batch, plan.query, noise)
                seen.append(_counters(privatizer, released.statistics))
            scores[trial] = weights @ (np.array(seen) - was) @ moved
        white.append(scores)
        rng, tables = np.random.default_rng([seed, 31, world]), []
        for _ in range(max(100, trials // 25)):
            _, released = privatizer.release(privatizer.begin(), batches[0], plan.query, noise)
            _, after = learner.plan(learner.update(belief, released), rng)
            policies = [after.policy, *(policy for policy, _ in after.groups)]
            tables.append(np.mean([tabular(one).probabilities(shape.num_actions) for one in policies], axis=0).ravel())
        black.append(np.array(tables))
    return [
        (f"white-box: all {len(sizes)} batches", white[0], white[1], f"the first of {sizes[0]}"),
        ("black-box: the next policies", *linear_scores(black[0], black[1]), f"batch of {sizes[0]}"),
    ]


def _counters(privatizer: CentralBatches, counts: ExactCounts | Any) -> np.ndarray[Any, Any]:
    """Counts, exact or released, as the independent counters that carry noise."""
    moves = np.array(counts.transitions, dtype=np.float64)
    moves[privatizer.shape.horizon - 1] = 0.0  # nobody releases the successors of the last step
    parts = (moves, counts.visits, counts.rewards, counts.rewards)
    record = np.concatenate([np.asarray(part, dtype=np.float64).ravel() for part in parts])
    return np.concatenate(list(counters_of(privatizer.families(), privatizer.shape, record).values()))
