"""Valid bands of learners in batches: from the counts that a belief keeps to bands of V* and one interval.

Bands hold whatever the policies were (Lemma W4 (valid bands)), so any learner that keeps its batches, projected, has
them. Weights of the batches are public: a few weightings stand beside one another, and their bands are intersected.
"""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np

from tacit.arrays import Floats
from tacit.planning.valid_bands import (
    Bands,
    Confidence,
    Evidence,
    ValueInterval,
    confidence,
    kept_block,
    start_interval,
    widen_nothing,
    write_bands,
)
from tacit.planning.weighted_rows import row_weights
from tacit.released.counts import CountShape

BETA: Final = 0.05
"""The probability with which V* may leave a band, ever, in the whole run."""
VISITS: Final = (0.1, 1.0, 10.0)
"""The weightings: batches weigh as if a row had so many times its even share of visits."""


class KeptBatches(Protocol):
    """A belief that keeps every batch, projected."""

    @property
    def transitions(self) -> Floats:
        """Array [B,H,S,A,S]."""
        ...

    @property
    def visits(self) -> Floats:
        """Array [B,H,S,A]."""
        ...

    @property
    def rewards(self) -> Floats:
        """Array [B,H,S,A]."""
        ...

    @property
    def users(self) -> Floats:
        """Array [B]."""
        ...


class KeepsBatches(Protocol):
    """A learner with such a belief."""

    shape: CountShape
    pooled: bool
    scale: float
    """The sub-gamma scale of the noise in one counter."""
    stages: tuple[int, ...]
    covariance: Floats


def confidence_of(learner: KeepsBatches, *, plans: int, beta: float) -> Confidence:
    """How rare every event must be for bands at so many plans."""
    H, S, A = learner.shape.horizon, learner.shape.num_states, learner.shape.num_actions
    people = float(sum(learner.stages)) * (H if learner.pooled else 1)
    return confidence(
        beta,
        rows=H * S * A,
        plans=plans,
        weightings=len(VISITS),
        users=people,
        scale=learner.scale,
    )


def value_interval(learner: KeepsBatches, belief: KeptBatches, beta: float = BETA) -> ValueInterval:
    """Where V* lies, from everything that was released: bands at one plan, the last."""
    bands = widen_nothing(learner.shape.horizon, learner.shape.num_states, learner.shape.num_actions)
    sure = confidence_of(learner, plans=1, beta=beta)
    if len(belief.users) > 0:
        widths = np.zeros((2, *bands.q_upper.shape))
        write_bands(evidence_of(learner, belief), sure, bands, widths[0], widths[1])
    return interval_in(learner, belief, bands, sure, beta)


def _weightings(learner: KeepsBatches, users: Floats) -> tuple[Floats, Floats]:
    """Weights [G,B] of the batches so far and the variance [G] of one counter under them; public."""
    S, A, B = learner.shape.num_states, learner.shape.num_actions, len(users)
    steps = learner.shape.horizon if learner.pooled else 1
    even = np.array([share * steps * users / (S * A) for share in VISITS])
    weights, variance = row_weights(even[:, np.newaxis, np.newaxis], learner.covariance[:B, :B])
    return weights[:, 0, 0], variance[:, 0, 0]


def evidence_of(learner: KeepsBatches, belief: KeptBatches) -> Evidence:
    """The weighted counts of a belief, in the form that bands are made of."""
    H, S, A = learner.shape.horizon, learner.shape.num_states, learner.shape.num_actions
    weights, variance = _weightings(learner, belief.users)
    pooled = learner.pooled and H > 1
    moved, rewards, visits = belief.transitions, belief.rewards, belief.visits
    if pooled:
        # Steps with successors, so that the sum of a row is the number of its visits
        moved, rewards, visits = (part[:, :-1].sum(axis=1, keepdims=True) for part in (moved, rewards, visits))
        variance = variance * (H - 1)
    kept, kept_sum = kept_block(H, S, A, pooled)
    return Evidence(
        moved=np.tensordot(weights, moved, axes=1),
        rewards=np.tensordot(weights, rewards, axes=1),
        visits=np.tensordot(weights, visits, axes=1),
        variance=variance,
        kept=kept,
        kept_sum=kept_sum,
    )


def interval_in(
    learner: KeepsBatches, belief: KeptBatches, bands: Bands, sure: Confidence, beta: float
) -> ValueInterval:
    """The best of the weightings' intervals of V*(ρ)."""
    low, high = float(bands.lower[0].min()), float(bands.upper[0].max())
    if len(belief.users) > 0:
        weights, variance = _weightings(learner, belief.users)
        for w, q in zip(weights, variance, strict=True):
            first = np.tensordot(w, belief.visits[:, 0], axes=1).sum(axis=1)
            cells = 2 * learner.shape.num_actions
            below, above = start_interval(first, float(w @ belief.users), float(q), cells, sure, bands)
            low, high = max(low, below), min(high, above)
    return ValueInterval(low=low, high=high, beta=beta)
