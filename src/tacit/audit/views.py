"""What an adversary sees of a privatizer, as numbers, and the best known score of it: every kind of privatizer.

White-box: the adversary knows everybody else's data and the law of the noise and sees every release. The user who is
replaced comes first and is chosen to be told apart: always in the rarest state with the last action, or always in the
first state with the first action, and the largest reward either way (Lemma S4 (staged counts)).

    trust      what is seen                              trials go through     score
    local      the message of the replaced user          the release kernel    exact likelihood ratio
    central    every prefix after the replaced user      the release kernel    exact or best linear (`ratios`)
    shuffle    the sums of all bits of the batch         the aggregate path    exact (messages: `messages`)
    losses     all counts and losses of the user         the release kernel    linear or clipped, by measured noise
    gradients  all gradients and rewards of the batch    the release kernel    linear or clipped, by measured noise
    others     every number of every release             `release` itself      linear or clipped, by measured noise

G1  A privatizer that is as stated is called refuted with probability at most `false_alarm`.
G2  Half the noise is found in every row (a test plants it).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from tacit.accounting.claims import PrivacyClaim, Trust
from tacit.accounting.events import Events
from tacit.arrays import Floats
from tacit.audit.attack import Finding, Target, attack
from tacit.audit.conformance import probe_of
from tacit.audit.harness import worst_pair
from tacit.audit.mechanisms import stream_score
from tacit.audit.probes import Probe
from tacit.audit.records import (
    Record,
    canaries,
    counters_of,
    exact_record,
    record_answers,
    record_releases,
    record_width,
)
from tacit.data.counts import ExactCounts, count_trajectories
from tacit.data.trajectories import Trajectories, Walked
from tacit.errors import NotSupported, require_count
from tacit.protocol import TOTALS
from tacit.randomness import SimulationNoise
from tacit.release.central import Central
from tacit.release.local import Local
from tacit.release.losses import AdversarialPrivatizer
from tacit.release.request import PrivacyRequest
from tacit.release.shuffle_release import ShuffleRelease
from tacit.release.staged import Staged
from tacit.release.table import make_privatizer
from tacit.released.batches import BatchQuery, PlannedBatch
from tacit.released.counts import CountShape

SHAPE: Final = CountShape(horizon=2, num_states=3, num_actions=2, staged=True)
"""The small world in which privatizers are attacked."""
USERS: Final = 9
BATCH: Final = 20

_CHUNK: Final = 5_000_000  # numbers that are kept at once
_PILOT: Final = 4000  # trials that show how large the noise is
_COMPARED: Final = 2000  # releases that show whether many may be drawn at once


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class View:
    """Two neighbouring worlds, what is seen of them, and how it is scored."""

    seen: str
    worlds: tuple[Any, Any]
    record: Record
    score: Callable[[Floats], Floats]
    width: int
    reports: int = 1
    """In so many releases, each with noise of its own, the replaced person has a part: their ratios multiply."""
    bulk: Callable[[Any, int, SimulationNoise], Floats] | None = None
    """The scores of many trials at once; used where it is seen to score real releases alike, from the same draws."""

    def scores(self, trials: int, seed: int) -> tuple[Floats, Floats]:
        """Scores of so many trials in each world."""
        noise = SimulationNoise(np.random.default_rng([seed, 11]))
        found = [
            np.concatenate([self._scored(users, count, noise) for count in _chunks(trials, self.width)])
            for users in self.worlds
        ]
        return found[0], found[1]

    def _scored(self, users: Any, count: int, noise: SimulationNoise) -> Floats:
        each = [self._once(users, count, noise) for _ in range(self.reports)]
        return np.asarray(np.sum(each, axis=0))

    def _once(self, users: Any, count: int, noise: SimulationNoise) -> Floats:
        if self.bulk is None or count <= _COMPARED:
            return self.score(self.record(users, count, noise))
        same = SimulationNoise(copy.deepcopy(noise.generator))
        first, every = self.score(self.record(users, _COMPARED, noise)), self.bulk(users, count, same)
        if not np.allclose(first, every[:_COMPARED], rtol=1e-9, atol=1e-9):
            return np.concatenate([first, self.score(self.record(users, count - _COMPARED, noise))])
        noise.generator.bit_generator.state = same.generator.bit_generator.state
        return every


def small_privatizer(
    trust: Trust, mechanism: str | None, calibration: str, *, epsilon: float, delta: float, **other: Any
) -> Any:
    """Running totals by one privatizer of the registry, over a small world; `other` fields of the request as given."""
    asked: dict[str, Any] = {
        "trust": trust,
        "shape": SHAPE,
        "episodes": 2 * BATCH if trust == "shuffle" else USERS,
        "epsilon": epsilon,
        "delta": delta,
        "calibration": calibration,
        "mechanism": mechanism,
        "users_per_batch": BATCH if trust == "shuffle" else 1,
    }
    return make_privatizer(PrivacyRequest(**asked | other))


def audit_privatizer(
    privatizer: Any, *, trials: int = 100_000, false_alarm: float = 0.01, seed: int = 0, name: str | None = None
) -> Finding:
    """Attack a privatizer of any kind through everything it releases.

    >>> from tacit.release.request import PrivacyRequest
    >>> from tacit.release.table import make_privatizer
    >>> shape = CountShape(horizon=2, num_states=3, num_actions=2, staged=True)
    >>> request = PrivacyRequest(trust="local", shape=shape, episodes=8, epsilon=2.0, delta=0.0, calibration=None,
    ...                          mechanism="oue", users_per_batch=1)
    >>> found = audit_privatizer(make_privatizer(request), trials=20_000)
    >>> found.verdict, found.attacked > 1.5
    ('holds', True)
    """
    view = view_of(privatizer)
    shown = privatizer.name if name is None else name
    target = target_of_release(shown, privatizer.calibration, view.seen, privatizer.claim, privatizer.events())
    return attack(target, *view.scores(trials, seed), false_alarm=false_alarm)


def target_of_release(name: str, calibration: str, seen: str, claim: PrivacyClaim, events: Events) -> Target:
    """What is said about a privatizer."""
    return Target(
        kind="privatizer",
        name=name,
        trust=claim.trust,
        calibration=calibration,
        view=seen,
        claimed=claim.epsilon,
        delta=claim.delta,
        events=events,
    )


def view_of(privatizer: Any) -> View:
    """What the adversary of this privatizer's trust model sees."""
    if privatizer.claim.trust == "none":
        raise NotSupported(f"a {type(privatizer).__name__} makes no claim that an audit could refute")
    if isinstance(privatizer, Central):
        return _prefixes(privatizer)
    if isinstance(privatizer, Local):
        found = _message(privatizer)
    elif isinstance(privatizer, Staged) and isinstance(privatizer.first, ShuffleRelease):
        found = _sums(privatizer)
    else:
        found = _measured(probe_of(privatizer))
    # Reports to one stream of noise are in one record already; others meet noise of their own each.
    streamed = isinstance(privatizer, AdversarialPrivatizer) and privatizer.claim.trust == "central"
    reports = 1 if streamed else privatizer.claim.unit.reports
    return found if reports == 1 else replace(found, seen=f"{found.seen}, {reports} times", reports=reports)


def _message(privatizer: Local) -> View:
    shape = privatizer.shape
    first, second = canaries(shape, 1)
    worlds = (_walked(first), _walked(second))
    families = privatizer.families()
    was, became = (counters_of(families, shape, exact_record(shape, users)[0]) for users in (first, second))

    def score(records: Floats) -> Floats:
        seen = counters_of(families, shape, records[:, 0])
        total = np.zeros(len(records))
        for name, values in seen.items():
            noise = privatizer.transition if name == "transitions" else privatizer.outcome
            moved = was[name] != became[name]
            ratio = noise.likelihood_ratio(values[:, moved], was[name][moved], became[name][moved])
            total += ratio.sum(axis=1)
        return total

    width = record_width(shape)
    return View(
        seen="the user's message", worlds=worlds, record=record_releases(privatizer, TOTALS), score=score, width=width
    )


def _prefixes(privatizer: Central) -> View:
    shape, counter = privatizer.shape, privatizer.counter
    shown = np.array(privatizer.ends) - 1 if privatizer.ends is not None else np.arange(counter.releases)
    first, second = canaries(shape, int(shown[-1]) + 1, reports=privatizer.claim.unit.reports)
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
        worlds=(_walked(first), _walked(second)),
        record=record_releases(privatizer, TOTALS),
        score=score,
        width=width * len(first),
    )


def _sums(privatizer: Any) -> View:
    shape = privatizer.shape
    if privatizer.batches is not None:
        worst: PlannedBatch = max(privatizer.batches, key=lambda batch: batch.query.layer is None)
        request = BatchQuery(layer=worst.query.layer, failure_prob=None)
        privatizer = privatizer.planned([PlannedBatch(users=worst.users, query=request)])
    stage: ShuffleRelease = privatizer.first
    state = privatizer.begin()
    first, second = canaries(shape, stage.target)
    sizes = (shape.num_states, shape.num_actions)
    exact = [count_trajectories(users, *sizes) for users in (first, second)]
    best, spec, law = sums_score(stage, shape, exact[0], exact[1]), stage.spec, stage.law(stage.target)
    was, became = (spec.counters(c.transitions, c.visits, c.rewards.astype(np.int64)) for c in exact)
    moved = was != became

    def bulk(users: Trajectories, trials: int, noise: SimulationNoise) -> Floats:
        own = was if users is first else became
        values = own + law.sample((trials, len(own)), noise) - was
        return np.asarray(law.log_ratio(values[:, moved], (became - was)[moved].astype(np.float64)).sum(axis=1))

    def score(records: Floats) -> Floats:
        return best(records[:, 0])

    def record(users: Trajectories, trials: int, noise: SimulationNoise) -> Floats:
        counts, out = count_trajectories(users, *sizes), np.empty((trials, 1, record_width(shape)))
        for row in out:
            released = privatizer.release(state, counts, stage.query, noise)[1].statistics
            parts = (released.transitions, released.visits, released.rewards, released.squares)
            row[0] = np.concatenate([part.ravel() for part in parts])
        return out

    return View(
        seen="the sums of the batch",
        worlds=(first, second),
        record=record,
        score=score,
        width=record_width(shape),
        bulk=bulk,
    )


def sums_score(
    stage: ShuffleRelease, shape: CountShape, first: ExactCounts, second: ExactCounts
) -> Callable[[Any], Floats]:
    """The likelihood ratio of two batches given the released sums: records [trials, width], or one `NoisyCounts`."""
    families = stage.families()
    was, became = (_joined(counters_of(families, shape, _record(shape, batch))) for batch in (first, second))
    moved = was != became
    law = stage.law(stage.target)

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


def _measured(probe: Probe) -> View:
    """Every number of every release, by the score that tells two worlds of a pilot apart best; see `_scores`."""
    found = [(variant, worst_pair(variant)) for variant in probe.variants()]
    probe, pair = max(found, key=lambda one: float(np.linalg.norm(one[0].exact(one[1][1]) - one[0].exact(one[1][0]))))
    worlds, record = _recorded(probe, pair)
    rng = SimulationNoise(np.random.default_rng([probe.seed, 23]))
    pilot = [record(users, _PILOT, rng) for users in worlds]

    def apart(score: Callable[[Floats], Floats]) -> float:
        one, other = (score(records) for records in pilot)
        return float(other.mean() - one.mean()) / max(float(one.std() + other.std()), 1e-300)

    width = sum(part.size for part in probe.privatizer.begin().released)
    return View(
        seen="everything released of the user" if probe.releases == 1 else f"all {probe.releases} releases",
        worlds=worlds,
        record=record,
        score=max(_scores(probe, probe.exact(pair[0]), probe.exact(pair[1]), pilot[0]), key=apart),
        width=width * probe.releases,
    )


def _scores(probe: Probe, was: Floats, became: Floats, pilot: Floats) -> Iterator[Callable[[Floats], Floats]]:
    """Along Σ⁻¹ d, d what the replacement moves and Σ measured noise; and as if it were Laplace noise, by counter."""
    size, moved = was.shape[1], (became - was) / (1.0 if probe.sampled is None else probe.sampled[0])
    used = np.flatnonzero(moved.ravel())
    signal = moved.ravel()[used]
    # A number without noise of its own decides alone.
    floor = 1e-9 * max(1e-300, float(np.abs(signal).max())) ** 2
    covariance = np.atleast_2d(np.cov(pilot[:, :, :size].reshape(len(pilot), -1)[:, used], rowvar=False))
    weights = np.linalg.solve(covariance + floor * np.eye(len(used)), signal)
    yield lambda records: np.asarray(records[:, :, :size].reshape(len(records), -1)[:, used] @ weights)
    # Families are independent counters: a linear map of the numbers of one release.
    split = np.array([np.concatenate(list(probe.parts(unit).values())) for unit in np.eye(size)])
    shift = moved[0] @ split
    touched = shift != 0.0
    scale = np.sqrt(np.maximum((pilot[:, 0, :size] @ split)[:, touched].var(axis=0), floor) / 2.0)

    def clipped(records: Floats) -> Floats:
        values = ((records[:, 0, :size] - was[0]) @ split)[:, touched]
        return np.asarray(((np.abs(values) - np.abs(values - shift[touched])) / scale).sum(axis=1))

    yield clipped


def _recorded(probe: Probe, pair: tuple[Any, Any]) -> tuple[tuple[Any, Any], Record]:
    """The users of all releases in both worlds, and what records them: the kernel if it takes whole batches."""
    privatizer, whole = probe.privatizer, range(probe.releases)
    convert = getattr(privatizer, "kernel_users", lambda users: users)
    one, other = (tuple(probe.given(person, k) for k in whole) for person in pair)
    flat = (tuple(map(convert, one)), tuple(map(convert, other)))
    # Kernels of totals take one user at a time, as arrays: a batch of them goes through `release`.
    if privatizer.kernel is not None and all(isinstance(users, tuple) for world in flat for users in world):
        return flat, record_releases(privatizer, probe.asked(0))
    return (one, other), record_answers(privatizer, [probe.asked(k) for k in whole])


def _chunks(trials: int, width: int) -> Iterator[int]:
    most = max(1, _CHUNK // max(1, width))
    for start in range(0, require_count("trials", trials, least=10), most):
        yield min(most, trials - start)


def _walked(users: Trajectories) -> tuple[Walked, ...]:
    return tuple(Walked(*row) for row in zip(users.states, users.actions, users.rewards, strict=True))
