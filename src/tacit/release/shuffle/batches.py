"""Single batches, with and without noise: which counters they need, and what they release."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.data.counts import ExactCounts
from tacit.errors import BudgetSpent, NotSupported, require
from tacit.protocol import Calibration
from tacit.released.batches import BatchQuery, PlannedBatch
from tacit.released.consistency import consistent_counts, repair_visits
from tacit.released.counts import CountShape, CountStatistics
from tacit.statistics.count_spec import NoisyCounts, ReleaseSpec
from tacit.statistics.count_support import SupportedLayer, SupportedSpec, layer_spec, supported_spec

__all__ = [
    "BatchState",
    "batch_kind",
    "batch_spec",
    "batch_statistics",
    "exact_statistics",
    "next_users",
]


class BatchState(NamedTuple):
    """The last release, and how many batches of the schedule are done."""

    released: CountStatistics
    done: int


def next_users(batches: tuple[PlannedBatch, ...], state: BatchState, request: BatchQuery) -> int:
    """The planned users of the next batch, if it is the one that is asked for (G2)."""
    if state.done >= len(batches):
        raise BudgetSpent(f"all {len(batches)} batches of the schedule are released; plan a longer run")
    wanted = batches[state.done]
    require(request == wanted.query, f"the next batch of the schedule releases {wanted.query}", request)
    return wanted.users


def batch_spec(shape: CountShape, calibration: Calibration, layer: int | None) -> ReleaseSpec:
    """The counters of a batch: as few as the statistics need (`tight`), or as printed."""
    H, S, A = shape.horizon, shape.num_states, shape.num_actions
    if shape.support is not None:
        if calibration == "paper":
            raise NotSupported(
                "printed noise has counters for everything; leave the declared support out, or use 'tight'"
            )
        if layer is None:
            return supported_spec(shape.support)
        require(layer < H, f"layer must be one of 0..{H - 1}", layer)
        return layer_spec(shape.support, layer)
    if layer is None:
        complete = ReleaseSpec.fine if calibration == "paper" else ReleaseSpec.one_hot
        return complete(num_states=S, num_actions=A, horizon=H)
    require(layer < H, f"layer must be one of 0..{H - 1}", layer)
    if layer < H - 1:
        return ReleaseSpec.crude(num_states=S, num_actions=A, horizon=H, layer=layer, visits=calibration == "paper")
    # Nobody uses the state after the last step, so it is not collected.
    return ReleaseSpec(num_states=S, num_actions=A, horizon=H, transitions=(), visits=(layer,), rewards=(), outcomes=())


def batch_kind(shape: CountShape, request: BatchQuery) -> str:
    """Layers but the last one are alike."""
    if request.layer is None:
        return "all layers"
    return "last layer" if request.layer == shape.horizon - 1 else "one layer"


def exact_statistics(counts: ExactCounts, spec: ReleaseSpec) -> NoisyCounts:
    """The statistics that the specification releases, without noise; nothing is rounded."""
    if isinstance(spec, SupportedSpec | SupportedLayer):
        return spec.arrays(np.asarray(spec.counters(counts.transitions, counts.visits, counts.rewards), np.float64))  # type: ignore[arg-type]
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
