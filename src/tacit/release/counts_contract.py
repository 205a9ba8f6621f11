"""What privatizers of counts share; the contract of every privatizer is `tacit.protocol.Privatizer`.

A privatizer is configured by public parameters only (any of its fields may be logged and published); sensitive values
are arguments. Privatizers that release after every user also come as one kernel,
`kernel(parameters, state, users, query, coins)`, which a fused loop calls 10⁸ times.

Single batches, with and without noise: which counters they need, and what they release.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.certificate import Certificate, CertifiedFamily, certify
from tacit.accounting.claims import PrivacyUnit
from tacit.accounting.composition import pure_epsilon_of
from tacit.accounting.events import Events
from tacit.data.counts import ExactCounts
from tacit.data.trajectories import Trajectories, Walked
from tacit.errors import InvalidInput, NotSupported, PrivacyBudgetExceeded, require
from tacit.noise.protocol import Encoding
from tacit.protocol import Calibration, Noise, Privatizer, Query, copy_state
from tacit.randomness import SimulationNoise
from tacit.released.batches import BatchQuery, PlannedBatch
from tacit.released.consistency import consistent_counts, repair_visits
from tacit.released.counts import CountShape, CountStatistics
from tacit.released.precision import CountPrecision, Sampling, SumPrecision
from tacit.statistics.count_spec import NoisyCounts, ReleaseSpec

Batch = Trajectories | ExactCounts


class CountPrivatizer(Privatizer[Batch, Any, CountStatistics], Protocol):
    """A privatizer of counts: it also states how precise they are."""

    def count_precision(self) -> CountPrecision:
        """The sub-gamma scales of the noise in transitions, visits and rewards."""
        ...

    def precision(self) -> SumPrecision | None:
        """How far the noise of sums over users can go; None: what is released is no sum over single users."""
        ...

    def sampling(self) -> Sampling:
        """What it costs if users send a part of their trajectory only."""
        ...


class CountsState(NamedTuple):
    """The state of a privatizer that keeps nothing but what it released."""

    released: CountStatistics


def require_answer(privatizer: Privatizer[Any, Any, Any], query: object) -> None:
    """Raise unless the privatizer answers such queries."""
    if not isinstance(query, privatizer.answers):
        asked = query.words() if hasattr(query, "words") else type(query).__name__
        raise InvalidInput(f"{privatizer.name} answers {privatizer.answers.words()}; it was asked for {asked}")


def count_precision(privatizer: CountPrivatizer) -> CountPrecision:
    """The sub-gamma scales that a privatizer states for its counts; one that states none is refused, never "exact".

    A released number has noise of the variance that comes with it (`CountStatistics.variance`, as of now) and of a
    sub-gamma scale that does not change; together they are a radius (`tacit.released.precision.now_radius`).
    """
    found: CountPrecision = _stated(privatizer, "count_precision")
    return found


def sampling_of(privatizer: CountPrivatizer) -> Sampling:
    """What it costs under this privatizer that users send a part of their trajectory only."""
    found: Sampling = _stated(privatizer, "sampling")
    return found


def sum_precision(privatizer: CountPrivatizer) -> SumPrecision | None:
    """How far the noise of sums over users can go; None: this privatizer states that it releases no such sums."""
    found: SumPrecision | None = _stated(privatizer, "precision")
    return found


def _stated(privatizer: CountPrivatizer, member: str) -> Any:
    found = getattr(privatizer, member, None)
    if not callable(found):
        raise InvalidInput(
            f"a privatizer must state how precise its counts are, got {type(privatizer).__name__} without "
            f"{member}(); implement every member of tacit.release.counts_contract.CountPrivatizer"
        )
    return found()


def release_users(privatizer: CountPrivatizer, state: Any, batch: Trajectories, query: Query, noise: Noise) -> Any:
    """Run the kernel over a batch, user by user, on a copy of the state; the copy comes back. Simulation only."""
    if not isinstance(noise, SimulationNoise):
        raise TypeError(f"kernels draw simulation noise, got {type(noise).__name__}")
    users = require_shape(batch, privatizer.shape)
    after, kernel, parameters = copy_state(state), privatizer.kernel, privatizer.parameters
    if kernel is None:
        raise InvalidInput(f"{privatizer.name} has no kernel for single users; pass a whole batch")
    for states, actions, rewards in zip(users.states, users.actions, users.rewards, strict=True):
        kernel(parameters, after, Walked(states, actions, rewards), query, noise.generator)
    return after


BatchOf = TypeVar("BatchOf", Trajectories, ExactCounts)


def require_shape(batch: BatchOf, shape: CountShape) -> BatchOf:
    """The batch, if its public shape is that of the release: a longer trajectory would move more than it may."""
    H, S, A = shape.horizon, shape.num_states, shape.num_actions
    if isinstance(batch, ExactCounts):
        fits = batch.visits.shape == batch.rewards.shape == (H, S, A) and batch.transitions.shape == (H, S, A, S)
        require(fits, f"exact counts must have {H} steps, {S} states and {A} actions", batch.transitions.shape)
        return batch
    users = len(batch.actions)
    fits = batch.actions.shape == batch.rewards.shape == (users, H) and batch.states.shape in (
        (users, H),
        (users, H + 1),
    )
    require(fits, f"trajectories must have {H} steps", batch.actions.shape)
    kinds = batch.states.dtype, batch.actions.dtype
    require(kinds[0].kind in "iu" and kinds[1].kind in "iu", "states and actions must be integers", kinds)
    return Trajectories(
        states=np.asarray(batch.states, dtype=np.int64),
        actions=np.asarray(batch.actions, dtype=np.int64),
        rewards=np.asarray(batch.rewards, dtype=np.float64),
    )


def require_placed(shape: CountShape, encoding: Encoding) -> None:
    """Raise where a support is declared to a release in three families, as printed: it is never ignored."""
    if shape.support is not None and encoding == "families":
        raise NotSupported(
            "the printed encoding has counters for everything; leave the declared support out, or use the calibration "
            "'tight'"
        )


def require_unit(unit: PrivacyUnit, *, several: bool) -> None:
    """Raise unless events describe the exposure of this unit: one trajectory or, where `several`, one per stage."""
    if unit.per_stage > 1 or not (unit.one or several):
        able = "at most one report of a person per stage" if several else "one trajectory"
        raise NotSupported(
            f"this privatizer claims privacy for {able}, got a unit of {unit.reports} with {unit.per_stage} per "
            "stage; claim that, and state what a person with more gets by claim.group(size)"
        )


def certified_families(
    privatizer: CountPrivatizer, *, noise: str, std: Mapping[str, float]
) -> tuple[CertifiedFamily, ...]:
    """The families of a privatizer of counts with their noise, as its certificate states them; nothing is accounted."""
    # Rewards and complements (or one-hot outcomes) are one family with the noise of a reward counter.
    return tuple(
        CertifiedFamily.of(family, noise=noise, std=std.get(family.name, std["rewards"]))
        for family in privatizer.families()
    )


def certificate_of(
    privatizer: CountPrivatizer,
    *,
    noise: str,
    std: Mapping[str, float],
    paper_says: str | None = None,
    several: bool = False,
    others: Sequence[Events] = (),
) -> Certificate:
    """The certificate of a privatizer of counts: what the exact accountant finds for one unit's whole exposure.

    `several` says that the events are those of a person with all reports of the claim's unit, at most one per stage;
    `others` are those of people in stages of other kinds, where they may cost more at another delta.
    """
    families = certified_families(privatizer, noise=noise, std=std)
    events, claim = privatizer.events(), privatizer.claim
    require_unit(claim.unit, several=several)
    # The papers print pure guarantees for noise that can be pure, and (epsilon, delta) for the rest.
    pure = paper_says is not None and math.isfinite(pure_epsilon_of(events))
    return certify(
        events,
        families,
        claim,
        calibration=privatizer.calibration,
        paper_says=paper_says,
        paper_delta=0.0 if pure else None,
        others=others,
        by=privatizer,
    )


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
