"""The probe of counts, running totals or single batches: users of every kind, and released counters by family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.families import Family
from tacit.arrays import Floats
from tacit.audit.probes import CANARY, HOSTILE, PREFIXES, Probe
from tacit.data.counts import ExactCounts, count_trajectories
from tacit.data.trajectories import Trajectories
from tacit.noise.protocol import Randomizer
from tacit.protocol import TOTALS
from tacit.release.local import Local
from tacit.release.none import Unprotected
from tacit.release.shuffle_release import ShuffleRelease
from tacit.released.batches import BatchQuery, PlannedBatch
from tacit.released.counts import CountShape, CountStatistics, empty_counts

MESSAGE_BITS = 100_000_000
"""What examining a shuffled message path may draw in all."""
_JOINT = ("rewards and complements", "outcomes")


@dataclass(frozen=True, slots=True, kw_only=True)
class CountProbe(Probe):
    """A privatizer of running totals under examination."""

    columns: ClassVar[Mapping[str, int]] = {"transitions": 0, "visits": 1, "rewards": 2, "squares": 2}
    public: ClassVar[tuple[str, ...]] = ("variance", "users")

    def asked(self, k: int) -> Any:
        """Running totals."""
        return TOTALS if self.query is None else self.query

    @property
    def shape(self) -> CountShape:
        """The public shape of the statistics."""
        shape: CountShape = self.privatizer.shape
        return shape

    @property
    def batch_size(self) -> int:
        """How many users the first release takes."""
        return self.users_at_step(0)

    def users_at_step(self, step: int) -> int:
        """How many users it takes until the next release, by the public schedule."""
        ends = (0, *(getattr(self.privatizer, "ends", None) or ()))
        return (
            ends[step + 1] - ends[step]
            if len(ends) > 1
            else int(getattr(self.privatizer, "users_per_batch", None) or 1)
        )

    @property
    def steps(self) -> int:
        """How many releases a continual counter makes; 0 where there is none."""
        counter = getattr(self.privatizer, "counter", None)
        return 0 if counter is None else len(getattr(self.privatizer, "ends", None) or range(counter.releases))

    @property
    def releases(self) -> int:
        """The first prefixes of a continual counter; one batch where there is none."""
        return max(1, min(self.steps, PREFIXES))

    def persons(self) -> list[Trajectories]:
        """Users of every kind, one by one."""
        users = self.users()
        return [users_at(users, i) for i in range(len(users))]

    def given(self, person: Trajectories, k: int, *, everybody: bool = False) -> Trajectories:
        """The person first, then a crowd that stays in the first cell and earns nothing."""
        crowd = person if everybody else one_user(self.shape, state=0, action=0, reward=0.0)
        count = self.users_at_step(k)
        return stacked([person, *[crowd] * (count - 1)] if k == 0 else [crowd] * count)

    def exact(self, person: Trajectories) -> Floats:
        """Totals as they are; squares are the rewards where they are not released by themselves."""
        rows, batches = [], list[Trajectories]()
        own_squares = any(family.name == "squares" for family in self.privatizer.families())
        for k in range(self.releases):
            batches.append(self.given(person, k))
            totals = exact_counts(self.shape, stacked(batches))
            rows.append(self.numbers(totals if own_squares else totals._replace(squares=totals.rewards)))
        return np.array(rows)

    @property
    def randomizer(self) -> Randomizer | None:
        """The noise on a device, where there is one."""
        return self.privatizer.outcome if isinstance(self.privatizer, Local) else None

    @property
    def one_slot(self) -> bool:
        """Whether a user sends a part of the trajectory only."""
        return self.randomizer is not None and self.randomizer.weight != 1.0

    @property
    def subsets(self) -> bool:
        """Whether a fixed number of bits is sent as one: they depend on each other, but never positively."""
        return self.randomizer is not None and self.randomizer.COUPLED

    def sampling(self, family: str) -> float:
        """The variance beyond noise of two counters that differ between two users, on average: one holds the user.

        0 where noise is all there is; one slot adds w N - N² to a counter that holds N (G2 of `one_slot`).
        """
        if not isinstance(self.privatizer, Local):
            return 0.0
        moved = family == "transitions"
        own = self.privatizer.transition if moved else self.privatizer.outcome
        return (own.weight - 1.0) / 2.0

    @property
    def unit(self) -> float:
        """By how much one changed bit moves a de-biased counter; 1 where noise is added to the counts."""
        return 1.0 if self.randomizer is None else self.randomizer.unit

    @property
    def stage(self) -> ShuffleRelease:
        """The shuffled stage that is examined: the first one."""
        stage: ShuffleRelease = self.privatizer.first
        return stage

    @property
    def bits(self) -> int:
        """How many bits a shuffled batch draws, with what handling them costs; 0 where nothing is shuffled."""
        if self.privatizer.claim.trust != "shuffle":
            return 0
        return self.batch_size * (self.stage.transport.noise_bits + 5000)

    def counter_variance(self) -> dict[str, Floats]:
        """Shuffled counters have the noise of their batch, once per layer that is added up; 0: it is not released."""
        if self.bits == 0:
            return {}
        spec, shape = self.stage.spec, self.shape
        ones = spec.arrays(np.ones(spec.num_counters))
        parts = (ones.transitions, ones.visits, ones.rewards)
        moves, visits, rewards = parts if shape.staged else (part.sum(axis=0, keepdims=True) for part in parts)
        every = empty_counts(shape)._replace(transitions=moves, visits=visits, rewards=rewards, squares=rewards)
        terms = counted(self.privatizer.families(), shape, every)
        del terms["uncovered"]
        return {name: count * self.stage.law(self.batch_size).variance for name, count in terms.items()}

    def users(self) -> Trajectories:
        """Users of every kind; only the corners of the ordinary ones where each of them costs a million bits."""
        return stacked(
            [ordinary_users(self.shape, 16 if self.bits < 500_000 else 0, self.seed), hostile_users(self.shape)]
        )

    def release(self, batch: Any, number: int = 0, state: Any = None) -> CountStatistics:
        """What is released of a batch, after `state` or as the first one."""
        before = self.privatizer.begin() if state is None else state
        released: CountStatistics = self.privatizer.release(before, batch, self.asked(0), self.noise(number))[
            1
        ].statistics
        return released

    def quiet(self) -> CountProbe:
        """The same privatizer with randomized response switched off (its bits are the data's own), layer by layer.

        Shuffled messages are counted by layer, whether or not the totals add the layers up afterwards.
        """
        if self.bits > 0:
            shape = replace(self.shape, staged=True)
            stages = tuple(replace(stage, shape=shape) for stage in self.privatizer.channels)
            basis = replace(self.privatizer.basis, shape=shape)
            return replace(self, privatizer=replace(self.privatizer, channels=stages, basis=basis))
        if not isinstance(self.privatizer, Local):
            return self
        outcome, moved = self.privatizer.outcome.quiet(), self.privatizer.transition.quiet()
        return replace(self, privatizer=replace(self.privatizer, outcome=outcome, transition=moved))

    def stated(self, fields: Mapping[str, Floats]) -> dict[str, Floats]:
        """The variance of a family in each of its numbers; the transitions of sure rows have that of their visits."""
        found = Probe.stated(self, fields)
        found["transitions"][self.shape.cells.sure[1]] = fields["variance"][1]
        return found

    def largest_std(self) -> dict[str, float]:
        """The same for the transitions of sure rows, which are visits."""
        found = Probe.largest_std(self)
        if not len(self.shape.cells.sure[0]):
            return found
        return {**found, "transitions": max(found["transitions"], found["visits"])}

    def parts(self, numbers: Floats) -> dict[str, Floats]:
        """The counters of the stated families, in units of one changed bit."""
        shape, values = self.shape, self.split(numbers / self.unit)
        rows = (shape.stages, shape.num_states, shape.num_actions)
        sizes = {"transitions": (*rows, shape.num_states), "visits": rows, "rewards": rows, "squares": rows}
        arrays: dict[str, Any] = {name: values[name].reshape(size) for name, size in sizes.items()}
        return counted(self.privatizer.families(), shape, empty_counts(shape)._replace(**arrays))

    ordinary: ClassVar[int] = 9
    """The corners; after them come random users and then the hostile ones."""

    @property
    def additive(self) -> bool:
        """Bits that are randomized one by one are no additive noise."""
        noise = self.randomizer
        return noise is None or (not self.one_slot and noise.quiet() == noise)

    def affordable(self, count: int) -> int:
        """Shuffled messages are many: as many as the budget of bits has room for."""
        return count if self.bits == 0 else min(count, max(20, MESSAGE_BITS // (2 * self.bits)))


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProbe(CountProbe):
    """A privatizer of single batches under examination: the first batch of its schedule."""

    def asked(self, k: int) -> Any:
        """What the schedule asks."""
        return self.privatizer.batches[0].query if self.query is None else self.query

    def users_at_step(self, step: int) -> int:
        """The users of the first batch."""
        return int(self.privatizer.batches[0].users)

    def parts(self, numbers: Floats) -> dict[str, Floats]:
        """The counters of the stated families; visits that are sums of transitions are no release of their own."""
        values, H, S = self.split(numbers), self.shape.horizon, self.shape.num_states
        visits, sums = values["visits"].copy(), values["transitions"].reshape(-1, S).sum(axis=1)
        derived = np.abs(visits - sums).reshape(H, -1).max(axis=1) <= 1e-9 * (1.0 + np.abs(sums).max())
        names = {family.name for family in self.privatizer.families()}
        if "visits" not in names and (self.shape.support is None or not names & set(_JOINT)):
            visits.reshape(H, -1)[derived] = 0.0
        return CountProbe.parts(self, np.concatenate([{**values, "visits": visits}[name] for name in self.columns]))

    def exact(self, person: Trajectories) -> Floats:
        """What the batch would release without noise."""
        silent = Unprotected(shape=self.shape, batches=self.privatizer.batches)
        return replace(self, privatizer=silent, secure=False).transcript(person, 0)[0]

    def variants(self) -> tuple[BatchProbe, ...]:
        """Every kind of batch in the schedule, alone; unbiased, because what is made of that is post-processing."""
        kinds = {(batch.users, batch.query.layer): None for batch in self.privatizer.batches}
        alone = [PlannedBatch(users=n, query=BatchQuery(layer=h, failure_prob=None)) for n, h in kinds]
        return tuple(replace(self, privatizer=self.privatizer.planned([batch])) for batch in alone)


def counted(families: Sequence[Family], shape: CountShape, statistics: CountStatistics) -> dict[str, Floats]:
    """The released statistics as counters of the stated families; what no family covers stands under "uncovered"."""
    kept = shape.cells
    moved, visits, rewards, squares = (part.reshape(-1) for part in statistics[:4])
    own = {"transitions": moved[kept.moves], "visits": visits[kept.zeros], "rewards": rewards[kept.ones]}
    own["squares"] = squares[kept.ones]
    joint = np.concatenate([own["rewards"], (visits - rewards)[kept.zeros]])
    named = own | dict.fromkeys(_JOINT, joint)
    parts = {family.name: named[family.name] for family in families if family.name in named}
    # Squares that are not released must follow from the rewards, and all the rest from the declaration.
    rest = {**own, "squares": squares - rewards, "": what_follows(shape, statistics)}
    parts["uncovered"] = np.concatenate([values for name, values in rest.items() if name not in covered(families)])
    return parts


def what_follows(shape: CountShape, statistics: CountStatistics) -> Floats:
    """What must be zero in a release: numbers off the counters, and transitions of sure rows less their visits."""
    kept, (rows, cells) = shape.cells, shape.cells.sure
    transitions, visits = statistics.transitions.reshape(-1).copy(), statistics.visits.reshape(-1)
    transitions[cells] -= visits[rows]
    off = [np.delete(transitions, kept.moves), np.delete(visits, kept.zeros)]
    off += [np.delete(part.reshape(-1), kept.ones) for part in (statistics.rewards, statistics.squares)]
    return np.concatenate(off)


def as_encoded(shape: CountShape, totals: CountStatistics) -> CountStatistics:
    """Exact statistics as they are encoded: without what the declaration excludes, sure rows from their visits."""
    kept, (rows, cells) = shape.cells, shape.cells.sure
    visits, transitions = _only(totals.visits, kept.zeros), _only(totals.transitions, kept.moves)
    transitions.reshape(-1)[cells] = visits.reshape(-1)[rows]
    rewards, squares = (_only(part, kept.ones) for part in (totals.rewards, totals.squares))
    return totals._replace(transitions=transitions, visits=visits, rewards=rewards, squares=squares)


def _only(values: Floats, cells: NDArray[np.int64]) -> Floats:
    """The values in these places, zeros elsewhere."""
    found = np.zeros_like(values)
    found.reshape(-1)[cells] = values.reshape(-1)[cells]
    return found


def covered(families: Sequence[Family]) -> frozenset[str]:
    """The statistics that these families cover."""
    names = {family.name for family in families}
    return frozenset(names | ({"visits", "rewards"} if names & set(_JOINT) else set()))


def exact_counts(shape: CountShape, batch: Trajectories) -> CountStatistics:
    """The statistics of a batch as they are encoded, clipped into the public ranges; apart from every kernel."""
    totals = empty_counts(shape)
    H, S, A = shape.horizon, shape.num_states, shape.num_actions
    s, a = np.clip(batch.states, 0, S - 1), np.clip(batch.actions, 0, A - 1)
    r = np.nan_to_num(np.clip(batch.rewards, 0.0, 1.0), nan=0.0)
    stage = np.broadcast_to(np.arange(H) if shape.staged else np.zeros(H, dtype=np.int64), a.shape)
    np.add.at(totals.visits, (stage, s[:, :H], a), 1.0)
    np.add.at(totals.rewards, (stage, s[:, :H], a), r)
    np.add.at(totals.squares, (stage, s[:, :H], a), r * r)
    if H > 1:
        np.add.at(totals.transitions, (stage[:, :-1], s[:, : H - 1], a[:, :-1], s[:, 1:H]), 1.0)
    totals.users[0] = len(batch)
    return as_encoded(shape, totals)


def one_user(shape: CountShape, *, state: int, action: int, reward: float) -> Trajectories:
    """A user who stays in one cell and always earns the same: all weight in one place."""
    H = shape.horizon
    return Trajectories(
        np.full((1, H + 1), state, dtype=np.int64), np.full((1, H), action, dtype=np.int64), np.full((1, H), reward)
    )


def ordinary_users(shape: CountShape, count: int, seed: int) -> Trajectories:
    """Users within the ranges: the corners of the trajectory space first, then random ones."""
    H, S, A = shape.horizon, shape.num_states, shape.num_actions
    generator = np.random.default_rng([seed, 1])
    corners = [
        one_user(shape, state=s, action=a, reward=r)
        for s, a in ((0, 0), (S - 1, A - 1), (0, A - 1))
        for r in (0.0, 1.0, 0.5)
    ]
    wanderers = Trajectories(
        generator.integers(0, S, (count, H + 1)),
        generator.integers(0, A, (count, H)),
        generator.choice([0.0, 1.0, 0.3, CANARY], (count, H)),
    )
    return stacked([*corners, wanderers])


def hostile_users(shape: CountShape) -> Trajectories:
    """Users who report what they must not: rewards and indices far outside their ranges."""
    S, A = shape.num_states, shape.num_actions
    return stacked(
        [one_user(shape, state=s, action=a, reward=r) for s, a in ((0, 0), (S - 1, A - 1)) for r in HOSTILE]
        + [one_user(shape, state=s, action=a, reward=1.0) for s, a in ((-5, 0), (S + 7, A + 3), (2**40, -(2**40)))]
    )


def stacked(parts: Sequence[Trajectories]) -> Trajectories:
    """Several batches as one."""
    fields = ("states", "actions", "rewards")
    return Trajectories(*(np.concatenate([getattr(part, name) for part in parts]) for name in fields))


def users_at(users: Trajectories, index: int) -> Trajectories:
    """One user of a batch, as a batch."""
    one = slice(index, index + 1)
    return Trajectories(users.states[one], users.actions[one], users.rewards[one])


def counts_of(shape: CountShape, batch: Trajectories) -> ExactCounts:
    """A batch in aggregate."""
    return count_trajectories(batch, shape.num_states, shape.num_actions)
