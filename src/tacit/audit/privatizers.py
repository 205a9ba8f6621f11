"""Every privatizer and trust model of the registry, attacked through what it releases.

White-box: the adversary knows everybody else's data and the law of the noise, sees every release, and scores it with
the exact likelihood ratio (for continual counters: of all prefixes together, see `tacit.audit.streams`).

    trust     what is seen                                    trials go through
    local     the message of the replaced user                the release kernel
    central   every prefix after the replaced user            the release kernel
    shuffle   the sums of all bits of the batch               the aggregate path (the messages: `tacit.audit.messages`)

G1  A privatizer that is as stated is called refuted with probability at most `false_alarm`.
G2  Half the noise is found in every row (a test plants it).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.audit.attack import Finding, Target, attack
from tacit.audit.streams import stream_score
from tacit.audit.views import (
    Record,
    canaries,
    counters_of,
    exact_record,
    record_batches,
    record_steps,
    record_width,
    two_worlds,
)
from tacit.data.counts import ExactCounts, count_trajectories
from tacit.data.trajectories import Trajectories
from tacit.errors import NotSupported
from tacit.privatizers.batched import BatchShuffle
from tacit.privatizers.central import Central
from tacit.privatizers.central_batches import CentralBatches
from tacit.privatizers.local import Local
from tacit.privatizers.shuffle import Shuffle
from tacit.privatizers.shuffled import Shuffled
from tacit.released.batches import BatchQuery, PlannedBatch
from tacit.released.counts import CountShape

__all__ = ["View", "audit_privatizer", "sums_score", "view_of"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class View:
    """Two neighbouring worlds, what is seen of them, and how it is scored."""

    seen: str
    worlds: tuple[Any, Any]
    record: Record
    score: Callable[[Floats], Floats]
    width: int

    def scores(self, trials: int, seed: int) -> tuple[Floats, Floats]:
        """Scores of so many trials in each world."""
        return two_worlds(self.record, self.score, self.worlds, trials, seed, self.width)


def audit_privatizer(
    privatizer: Any, *, trials: int = 100_000, false_alarm: float = 0.01, seed: int = 0, name: str | None = None
) -> Finding:
    """Attack a privatizer of counts through everything it releases.

    >>> from tacit.privatizers.registry import PrivacyRequest, make_privatizer
    >>> shape = CountShape(horizon=2, num_states=3, num_actions=2, staged=True)
    >>> request = PrivacyRequest(trust="local", shape=shape, episodes=8, epsilon=2.0, delta=0.0, calibration=None,
    ...                          mechanism="oue", users_per_batch=1)
    >>> found = audit_privatizer(make_privatizer(request), trials=20_000)
    >>> found.verdict, found.attacked > 1.5
    ('holds', True)
    """
    view = view_of(privatizer)
    target = Target(
        kind="privatizer",
        name=privatizer.name if name is None else name,
        trust=privatizer.claim.trust,
        calibration=privatizer.calibration,
        view=view.seen,
        claimed=privatizer.claim.epsilon,
        delta=privatizer.claim.delta,
        events=privatizer.events(),
    )
    return attack(target, *view.scores(trials, seed), false_alarm=false_alarm)


def view_of(privatizer: Any) -> View:
    """What the adversary of this privatizer's trust model sees."""
    if isinstance(privatizer, Local):
        return _message(privatizer)
    if isinstance(privatizer, Central | CentralBatches):
        return _prefixes(privatizer)
    if isinstance(privatizer, Shuffled | BatchShuffle):
        return _sums(privatizer)
    raise NotSupported(f"no attack is known on a {type(privatizer).__name__}")


def _message(privatizer: Local) -> View:
    shape = privatizer.shape
    first, second = canaries(shape, 1)
    worlds = (_arrays(first), _arrays(second))
    families = privatizer.families()
    was, became = (counters_of(families, shape, exact_record(shape, users)[0]) for users in (first, second))

    def score(records: Floats) -> Floats:
        seen = counters_of(families, shape, records[:, 0])
        total = np.zeros(len(records))
        for name, values in seen.items():
            noise = privatizer.transition_mechanism if name == "transitions" else privatizer.mechanism
            moved = was[name] != became[name]
            ratio = noise.likelihood_ratio(values[:, moved], was[name][moved], became[name][moved])
            total += ratio.sum(axis=1)
        return total

    width = record_width(shape)
    return View(
        seen="the user's message", worlds=worlds, record=record_steps(privatizer, width), score=score, width=width
    )


def _prefixes(privatizer: Central | CentralBatches) -> View:
    shape, counter = privatizer.shape, privatizer.counter
    shown = np.array(privatizer.ends) - 1 if isinstance(privatizer, CentralBatches) else np.arange(counter.releases)
    first, second = canaries(shape, int(shown[-1]) + 1)
    families = privatizer.families()
    was, became = (_joined(counters_of(families, shape, exact_record(shape, u)[shown])) for u in (first, second))
    moved = np.abs(became - was).max(axis=0) > 0.0
    best = stream_score(counter, len(shown))

    def score(records: Floats) -> Floats:
        seen = _joined(counters_of(families, shape, records[:, shown]))
        return best(seen[..., moved] - was[:, moved], became[:, moved] - was[:, moved])

    width = record_width(shape)
    return View(
        seen=f"all {len(shown)} releases",
        worlds=(_arrays(first), _arrays(second)),
        record=record_steps(privatizer, width),
        score=score,
        width=width * len(first),
    )


def _sums(privatizer: Shuffled | BatchShuffle) -> View:
    shape = privatizer.shape
    if isinstance(privatizer, Shuffled):
        protocol, state = privatizer.protocol, privatizer.begin()

        def release(counts: Any, noise: Any) -> Any:
            return privatizer.release(state, counts, noise)[1]
    else:
        worst: PlannedBatch = max(privatizer.batches, key=lambda batch: batch.query.layer is None)
        request = BatchQuery(layer=worst.request.layer, failure_prob=None)
        alone = privatizer.planned([PlannedBatch(users=worst.users, query=request)])
        protocol, start = privatizer.protocol(worst.users, request), alone.begin()

        def release(counts: Any, noise: Any) -> Any:
            return alone.release(start, counts, request, noise)[1]

    first, second = canaries(shape, protocol.bit_noise.users)
    sizes = (shape.num_states, shape.num_actions)
    best = sums_score(protocol, shape, count_trajectories(first, *sizes), count_trajectories(second, *sizes))

    def score(records: Floats) -> Floats:
        return best(records[:, 0])

    return View(
        seen="the sums of the batch",
        worlds=(first, second),
        record=record_batches(release, shape),
        score=score,
        width=record_width(shape),
    )


def sums_score(
    protocol: Shuffle, shape: CountShape, first: ExactCounts, second: ExactCounts
) -> Callable[[Any], Floats]:
    """The likelihood ratio of two batches given the released sums: records [trials, width], or one `NoisyCounts`."""
    families = protocol.families()
    was, became = (_joined(counters_of(families, shape, _record(shape, batch))) for batch in (first, second))
    moved = was != became
    law = protocol.bit_noise.total

    def score(seen: Any) -> Floats:
        records = seen if isinstance(seen, np.ndarray) else _record(shape, seen)[np.newaxis]
        values = _joined(counters_of(families, shape, records))[:, moved] - was[moved]
        return np.asarray(law.log_ratio(values, became[moved] - was[moved]).sum(axis=1))

    return score


def _record(shape: CountShape, counts: Any) -> Floats:
    """Counts of a batch as one record; pooled over the steps where the release is."""
    moves = np.array(counts.transitions, dtype=np.float64)
    moves[shape.horizon - 1] = 0.0  # nobody releases the successors of the last step
    parts = [moves, counts.visits, counts.rewards, counts.rewards]
    if not shape.staged:
        parts = [part.sum(axis=0, keepdims=True) for part in parts]
    return np.concatenate([np.asarray(part, dtype=np.float64).ravel() for part in parts])


def _joined(parts: dict[str, Floats]) -> Floats:
    return np.concatenate(list(parts.values()), axis=-1)


def _arrays(users: Trajectories) -> tuple[Any, Any, Any]:
    return users.states, users.actions, users.rewards
