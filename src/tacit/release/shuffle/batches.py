"""Single batches, with and without noise: which counters they need, and what they release."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.data.counts import ExactCounts
from tacit.errors import NotSupported, PrivacyBudgetExceeded, require
from tacit.protocol import Calibration
from tacit.released.batches import BatchQuery, PlannedBatch
from tacit.released.consistency import consistent_counts, repair_visits
from tacit.released.counts import CountShape, CountStatistics
from tacit.statistics.count_spec import NoisyCounts, ReleaseSpec


class BatchState(NamedTuple):
    """The last release, and how many batches of the schedule are done."""

    released: CountStatistics
    done: int


def next_users(batches: tuple[PlannedBatch, ...], state: BatchState, request: BatchQuery) -> int:
    """The planned users of the next batch, if it is the one that is asked for (G2)."""
    if state.done >= len(batches):
        raise PrivacyBudgetExceeded(f"all {len(batches)} batches of the schedule are released; plan a longer run")
    wanted = batches[state.done]
    require(request == wanted.query, f"the next batch of the schedule releases {wanted.query}", request)
    return wanted.users


def batch_spec(shape: CountShape, calibration: Calibration, layer: int | None) -> ReleaseSpec:
    """The counters of a batch: as few as the statistics need (`tight`), or as printed."""
    S, A, H, support = shape.num_states, shape.num_actions, shape.horizon, shape.support
    if calibration == "paper":
        if support is not None:
            raise NotSupported(
                "printed noise has counters for everything; leave the declared support out, or use 'tight'"
            )
        if layer is None:
            return ReleaseSpec.fine(num_states=S, num_actions=A, horizon=H)
    if layer is None:
        return ReleaseSpec.one_hot(num_states=S, num_actions=A, horizon=H, support=support)
    require(layer < H, f"layer must be one of 0..{H - 1}", layer)
    # Nobody uses the state after the last step, so it is not collected.
    last = layer == H - 1
    return ReleaseSpec(
        num_states=S,
        num_actions=A,
        horizon=H,
        transitions=() if last else (layer,),
        visits=(layer,) if last or calibration == "paper" else (),
        rewards=(),
        outcomes=(),
        support=support,
    )


def batch_kind(shape: CountShape, request: BatchQuery) -> str:
    """Layers but the last one are alike."""
    if request.layer is None:
        return "all layers"
    return "last layer" if request.layer == shape.horizon - 1 else "one layer"


def exact_statistics(counts: ExactCounts, spec: ReleaseSpec) -> NoisyCounts:
    """The statistics that the specification releases, without noise; nothing is rounded."""
    if spec.support is not None:
        return spec.arrays(np.asarray(spec.counters(counts.transitions, counts.visits, counts.rewards), np.float64))
    rewards = np.rint(counts.rewards).astype(np.int64)
    arrays = spec.arrays(spec.counters(counts.transitions, counts.visits, rewards).astype(np.float64))
    return arrays if not spec.outcomes else arrays._replace(rewards=counts.rewards.astype(np.float64))


def batch_statistics(
    noisy: NoisyCounts, variance: NDArray[np.float64], users: int, request: BatchQuery, spec: ReleaseSpec, E: float
) -> CountStatistics:
    """The release of one batch; consistent where the request says so (post-processing)."""
    transitions, visits, rewards = (part.copy() for part in noisy)
    H = spec.horizon
    transitions[-1] = 0.0  # nobody uses the successors of the last step
    if request.failure_prob is not None:
        for h in sorted({*spec.transitions, *spec.visits, *spec.outcomes}):
            if h == H - 1:
                visits[h] = repair_visits(visits[h], precision=E)
            else:
                given = visits[h] if h in (*spec.visits, *spec.outcomes) else None
                transitions[h], visits[h] = consistent_counts(transitions[h], given, precision=E)
    return CountStatistics(
        transitions=transitions,
        visits=visits,
        rewards=rewards,
        squares=rewards.copy(),
        variance=np.asarray(variance, dtype=np.float64),
        users=np.array([users], dtype=np.int64),
    )
