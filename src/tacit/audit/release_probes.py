"""The probes of adversarial losses, of batch gradients at softmax policies and over doses, and of moments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Self

import numpy as np

from tacit.accounting.claims import no_privacy
from tacit.arrays import Floats
from tacit.audit.count_probe import one_user, stacked
from tacit.audit.probes import CANARY, HOSTILE, PREFIXES, Probe
from tacit.data.gradients import Dosed
from tacit.data.trajectories import FeatureUsers, LossUser, Trajectories, WeightedUsers
from tacit.policies.softmax import public_features, softmax_table, tabular_features
from tacit.release.values import FACTORS, PolicyValues, ValueQuery
from tacit.release.vectors import OpenVectors
from tacit.released.gradients import DoseQuery, SoftmaxQuery
from tacit.released.losses import LossQuery
from tacit.released.returns import ReturnQuery
from tacit.released.weighted_returns import WHOLE
from tacit.statistics.weighted_returns import GRID as LEVELS


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueProbe(Probe):
    """A release of what policies would have earned."""

    columns: ClassVar[Mapping[str, int]] = {"sums": 0}
    public: ClassVar[tuple[str, ...]] = ("variance", "users")
    euclidean: ClassVar[bool] = True
    exact_noise: ClassVar[bool] = True
    ordinary: ClassVar[int] = 12

    def asked(self, k: int) -> ValueQuery:
        """There is one question."""
        return ValueQuery() if self.query is None else self.query

    def stated(self, fields: Mapping[str, Floats]) -> dict[str, Floats]:
        """Every number has a variance of its own."""
        return {"sums": fields["variance"]}

    def persons(self) -> list[PolicyValues]:
        """Weights none, half and at the cap with the worst, the best and a telling reward; then hostile ones."""
        ordinary = [self._person(u, s, 0.0) for u in (0.0, 0.5, 1.0) for s in (-0.5, 0.5, CANARY - 0.5)]
        ordinary += [self._person(1.0, -0.5, 1.0), self._person(-1.0, 0.5, 0.0), self._person(CANARY, 0.1, 0.5)]
        odd = [self._person(*bad) for one in HOSTILE for bad in ((one, 0.5, 0.0), (1.0, one, 0.0), (1.0, 0.5, one))]
        return [*ordinary, *odd]

    def _person(self, u: float, s: float, c: float) -> PolicyValues:
        return PolicyValues(*(np.full((1, len(self.privatizer.shares)), value) for value in (u, s, c)))

    def given(self, person: PolicyValues, k: int, *, everybody: bool = False) -> PolicyValues:
        """A whole log: the others never took the action."""
        crowd = person if everybody else self._person(0.0, 0.0, 0.0)
        others = self.privatizer.people - 1
        return PolicyValues(*(np.concatenate([p, np.repeat(q, others, 0)]) for p, q in zip(person, crowd, strict=True)))

    def exact(self, person: PolicyValues) -> Floats:
        """What the sums would be without noise, from the definition."""
        u, s, c = (np.nan_to_num(part[0], nan=0.0) for part in person)
        if self.privatizer.kind == "residuals":
            z = np.clip(u, -1.0, 1.0)
            return np.stack([z, z**2], axis=1).reshape(1, -1)
        u, s, c = np.clip(u, 0.0, 1.0), np.clip(s, -0.5, 0.5), np.clip(c, 0.0, 1.0)
        return np.stack([u * s, u, u**2, u**2 * s, u**2 * s**2, c], axis=1).reshape(1, -1)

    def parts(self, numbers: Floats) -> dict[str, Floats]:
        """One vector, in units of its noise."""
        kind: Any = self.privatizer.kind
        return {kind: numbers * np.outer(self.privatizer.shares, FACTORS[kind]).ravel(), "uncovered": np.zeros(0)}


CROWD: Final = 64
"""Others who are asked: so many that their bits are rarely the same twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnProbe(Probe):
    """A privatizer of one-bit returns: the person who is replaced is alone in the first of two groups."""

    columns: ClassVar[Mapping[str, int]] = {"ones": 0}
    public: ClassVar[tuple[str, ...]] = ("groups", "variance", "users")
    ordinary: ClassVar[int] = 6

    def asked(self, k: int) -> Any:
        """A return rounded in its whole range, unless another query is given."""
        if self.query is not None:
            return self.query
        return ReturnQuery(groups=(1, CROWD), bit="mean", level=float(self.privatizer.shape.horizon))

    def variants(self) -> tuple[ReturnProbe, ...]:
        """Rounded in the whole range, rounded in half of it, and compared with half of it."""
        if self.query is not None:
            return (self,)
        whole = self.asked(0)
        half = replace(whole, level=whole.level / 2.0)
        return tuple(replace(self, query=query) for query in (whole, half, replace(half, bit="tail")))

    @property
    def batch_size(self) -> int:
        """Everybody who is asked."""
        return int(self.asked(0).users)

    def sizes(self) -> dict[str, int]:
        """One number for every group."""
        return {"ones": len(self.asked(0).groups)}

    def persons(self) -> list[Trajectories]:
        """People who always earn the same: nothing, everything, something; then those who earn what they must not."""
        shape = self.privatizer.shape
        S, A = shape.num_states, shape.num_actions
        places = ((0, 0), (S - 1, A - 1))
        ordinary = [one_user(shape, state=s, action=a, reward=r) for s, a in places for r in (0.0, 1.0, CANARY)]
        odd = [one_user(shape, state=s, action=a, reward=r) for s, a in places for r in HOSTILE]
        return [*ordinary, *odd, one_user(shape, state=-5, action=2**40, reward=1.0)]

    def given(self, person: Trajectories, k: int, *, everybody: bool = False) -> Trajectories:
        """The person first, then a crowd that earns nothing."""
        crowd = person if everybody else one_user(self.privatizer.shape, state=0, action=0, reward=0.0)
        return stacked([person, *[crowd] * (self.batch_size - 1)])

    def exact(self, person: Trajectories) -> Floats:
        """The expected number of ones in each group; written apart from the privatizer."""
        query, flip = self.asked(0), float(self.privatizer.bit_noise().flip)
        expected, at = [], 0
        rewards = self.given(person, 0).rewards
        for users in query.groups:
            total = 0.0
            for row in rewards[at : at + users]:
                # G = Σ r, each in [0, 1]; NaN earns nothing
                earned = sum(min(1.0, max(0.0, float(r))) if r == r else 0.0 for r in row)
                bit = float(earned > query.level) if query.bit == "tail" else min(earned, query.level) / query.level
                total += flip + (1.0 - 2.0 * flip) * bit
            expected.append(total)
            at += users
        return np.array([expected])

    @property
    def additive(self) -> bool:
        """A flipped bit is no additive noise."""
        return False

    def quiet(self) -> ReturnProbe:
        """The same with nothing flipped."""
        noise = self.privatizer.mechanism
        return self if noise is None else replace(self, privatizer=replace(self.privatizer, mechanism=noise.quiet()))

    def parts(self, numbers: Floats) -> dict[str, Floats]:
        """The ones of all groups are one family."""
        return {"ones": np.asarray(numbers)}


@dataclass(frozen=True, slots=True, kw_only=True)
class LossProbe(Probe):
    """Counts and losses of adversarial MDPs."""

    columns: ClassVar[Mapping[str, int]] = {"transitions": 0, "visits": 1, "losses": 2}
    public: ClassVar[tuple[str, ...]] = ("variance", "users")

    @property
    def full(self) -> bool:
        """Whether users bring the losses of all pairs."""
        return bool(self.privatizer.feedback == "full")

    def asked(self, k: int) -> Any:
        """Counts and losses, with the feedback of the privatizer."""
        return LossQuery(full=self.full) if self.query is None else self.query

    @property
    def releases(self) -> int:
        """Prefixes of the counters; one message under local trust."""
        return 1 if self.privatizer.claim.trust == "local" else min(self.privatizer.episodes - 1, PREFIXES)

    def persons(self) -> list[LossUser]:
        """Walks over the first and over the last pairs, with all losses alike."""
        shape = self.privatizer.shape
        last = [t for t in range(shape.triples) if t + 1 == shape.triples or shape.pair_of[t + 1] > shape.pair_of[t]]
        walks = [last[: shape.horizon], last[-shape.horizon :], [0] * shape.horizon]
        ordinary = [self._person(walk, loss) for walk in walks for loss in (0.0, 1.0, CANARY)]
        strangers = [
            LossUser(np.full_like(ordinary[0].pairs, far), np.full_like(ordinary[0].triples, far), ordinary[0].losses)
            for far in (-5, 2**40)
        ]
        return [*ordinary, *(self._person(walks[1], loss) for loss in HOSTILE), *strangers]

    ordinary: ClassVar[int] = 9

    def parts(self, numbers: Floats) -> dict[str, Floats]:
        """Transitions, losses, and what visits say beyond them."""
        fields, pair_of = self.split(numbers), np.array(self.privatizer.shape.pair_of)
        stated = {family.name for family in self.privatizer.families()}
        visits, losses = fields["visits"], fields["losses"]
        sums = np.bincount(pair_of, weights=fields["transitions"], minlength=len(visits))
        known = {**fields, "losses and complements": np.concatenate([losses, visits - losses])}
        rest = {"transitions": fields["transitions"], "losses": losses, "visits": visits - sums}
        gone = stated | ({"losses", "visits"} if "losses and complements" in stated else set())
        found = {name: known[name] for name in known if name in stated}
        return {**found, "uncovered": np.concatenate([v for n, v in rest.items() if n not in gone] or [np.zeros(0)])}

    def _person(self, triples: Sequence[int], loss: float) -> LossUser:
        shape = self.privatizer.shape
        loss = 0.0 if self.privatizer.public_losses else loss  # a public table is the same for everybody
        moved = np.array(triples, dtype=np.int64)
        pairs = np.array([shape.pair_of[t] for t in triples], dtype=np.int64)
        return LossUser(pairs, moved, np.full(shape.pairs if self.full else shape.horizon, loss))

    def given(self, person: LossUser, k: int, *, everybody: bool = False) -> LossUser:
        """The person, as often as one may report to a stream, then a crowd on the first way that loses nothing."""
        own = self.privatizer.claim.unit.reports if self.privatizer.claim.trust == "central" else 1
        return person if k < own or everybody else self.persons()[0]

    def exact(self, person: LossUser) -> Floats:
        """Totals, but single losses under bandit feedback; each pair and triple counts once for a user."""
        shape, rows = self.privatizer.shape, []
        moves, visits, losses = np.zeros(shape.triples), np.zeros(shape.pairs), np.zeros(shape.pairs)
        for k in range(self.releases):
            user = self.given(person, k)
            own, met = np.zeros(shape.pairs), np.clip(np.nan_to_num(user.losses, nan=0.0), 0.0, 1.0)
            pairs, triples = np.clip(user.pairs, 0, shape.pairs - 1), np.clip(user.triples, 0, shape.triples - 1)
            own[np.arange(shape.pairs) if self.full else pairs] = met
            if not self.privatizer.known_transitions:
                moves[np.unique(triples)] += 1.0
                visits[np.unique(pairs)] += 1.0
            losses = losses + own if self.full else own
            rows.append(np.concatenate([moves, visits, losses]))
        return np.array(rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class _GradientProbe(Probe):
    """What both kinds of batch gradients share: a batch is asked once for each of its epochs."""

    columns: ClassVar[Mapping[str, int]] = {"gradient": 0, "reward": 1}
    public: ClassVar[tuple[str, ...]] = ("variance", "releases")
    exact_noise: ClassVar[bool] = True
    euclidean: ClassVar[bool] = True

    @property
    def releases(self) -> int:
        """The epochs of a batch."""
        return int(self.privatizer.spec.epochs)

    def exact(self, person: Any) -> Floats:
        """The gradient of the whole batch without noise."""
        everybody = replace(self.privatizer.spec, rate=1.0)
        silent = replace(self.privatizer, claim=no_privacy(), calibration="none", sigma=0.0, says=None, spec=everybody)
        return replace(self, privatizer=silent, secure=False).transcript(person, 0)[0]

    def parts(self, numbers: Floats) -> dict[str, Floats]:
        """One vector: the gradient and, in units of its noise, the mean reward."""
        fields, weight = self.split(numbers), self.privatizer.reward_weight
        return {
            "gradient": np.concatenate([fields["gradient"], weight * fields["reward"]]),
            "uncovered": fields["reward"] if weight == 0.0 else np.zeros(0),
        }

    @property
    def _baseline(self) -> Floats:
        # A released baseline may be anywhere in the interval; a public one is 0 unless a query says otherwise.
        return np.array([self.privatizer.spec.low if self.privatizer.reward_weight > 0.0 else 0.0])

    @property
    def _rewards(self) -> tuple[float, ...]:
        low, high = self.privatizer.spec.low, self.privatizer.spec.high
        return (low, high, low + CANARY * (high - low))


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftmaxProbe(_GradientProbe):
    """Batch gradients at softmax policies."""

    ordinary: ClassVar[int] = 12
    certainty: float = 40.0
    """The logit of the first action at the policy that is asked about."""

    def variants(self) -> tuple[SoftmaxProbe, ...]:
        """A policy that is almost sure, where scores are longest, and a uniform one, where they are opposite."""
        return (self, replace(self, certainty=0.0)) if self.query is None else (self,)

    def asked(self, k: int) -> Any:
        """The gradient at the policy of these users."""
        if self.query is not None:
            return self.query
        shape, width = self.privatizer.shape, self.privatizer.spec.width(self.privatizer.shape)
        features = public_features(shape.num_states, shape.num_actions, width) if width else tabular_features()
        table, theta = np.zeros((shape.stages, shape.num_states, shape.num_actions)), np.zeros(shape.dimension)
        if width:
            theta.reshape(shape.stages, width)[:] = self.certainty * features[0, 0]
        else:
            theta.reshape(table.shape)[..., 0] = self.certainty
        softmax_table(features, theta, table)
        return SoftmaxQuery(features, table, table, self._baseline)

    def persons(self) -> list[Trajectories]:
        """Users who stay in one state with one action and always earn the same."""
        S, A = self.privatizer.shape.num_states, self.privatizer.shape.num_actions
        corners = [(s, a) for s in (0, S - 1) for a in (0, A - 1)]
        ordinary = [self._person(s, a, r) for s, a in corners for r in self._rewards]
        odd = [self._person(s, a, r) for s, a in ((0, 0), (S - 1, A - 1)) for r in HOSTILE]
        return [*ordinary, *odd, *(self._person(s, a, 1.0) for s, a in ((-5, 0), (2**40, -(2**40))))]

    def _person(self, state: int, action: int, reward: float) -> Trajectories:
        H = self.privatizer.shape.horizon
        states, actions = np.full((1, H + 1), state, dtype=np.int64), np.full((1, H), action, dtype=np.int64)
        return Trajectories(states, actions, np.full((1, H), reward))

    def given(self, person: Trajectories, k: int, *, everybody: bool = False) -> Trajectories:
        """A whole batch: the others earn as little as they can."""
        crowd, m = person if everybody else self._person(0, 0, self.privatizer.spec.low), self.batch_size
        both = ((getattr(person, part), getattr(crowd, part)) for part in ("states", "actions", "rewards"))
        return Trajectories(*(np.concatenate([one, np.repeat(other, m - 1, axis=0)]) for one, other in both))


@dataclass(frozen=True, slots=True, kw_only=True)
class DoseProbe(_GradientProbe):
    """Batch gradients at Gaussian policies over doses."""

    ordinary: ClassVar[int] = 18

    def asked(self, k: int) -> Any:
        """The gradient at a policy that prefers dose 0 everywhere."""
        if self.query is not None:
            return self.query
        shape = self.privatizer.shape
        features = public_features(shape.num_states, 1, shape.dimension)[:, 0]
        norms = np.sqrt((features**2).sum(axis=1))
        return DoseQuery(features, norms, np.zeros(shape.num_states), self._baseline, 1.0)

    def persons(self) -> list[Dosed]:
        """Users of both ends of the contexts, with doses of every size."""
        S = self.privatizer.shape.num_states
        ordinary = [self._person(s, d, r) for s in (0, S - 1) for d in (-0.5, 0.0, 3.0) for r in self._rewards]
        odd = [self._person(S - 1, d, r) for d in (1.0, np.nan, np.inf, 1e300) for r in HOSTILE]
        return [*ordinary, *odd, self._person(-5, 1.0, 1.0), self._person(2**40, 1.0, 1.0)]

    def _person(self, state: int, dose: float, reward: float) -> Dosed:
        return Dosed(np.array([state], dtype=np.int64), np.array([dose]), np.array([reward]))

    def given(self, person: Dosed, k: int, *, everybody: bool = False) -> Dosed:
        """A whole batch: the others have the preferred dose and earn as little as they can."""
        crowd, m = person if everybody else self._person(0, 0.0, self.privatizer.spec.low), self.batch_size
        return Dosed(
            *(np.concatenate([one, np.repeat(other, m - 1)]) for one, other in zip(person, crowd, strict=True))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorProbe(Probe):
    """One vector of one planned batch; rewards rounded by coins, or numbers cut to whole units, add to its noise."""

    euclidean: ClassVar[bool] = True

    @property
    def stage(self) -> Any:
        """The release of the batch."""
        return self.privatizer.first

    def asked(self, k: int) -> Any:
        """What the batch is planned for."""
        return self.stage.query if self.query is None else self.query

    @property
    def batch_size(self) -> int:
        """As many as are planned."""
        return int(self.stage.target)

    @property
    def additive(self) -> bool:
        """Dithers and indices depend on what is rounded and ranked; the noise of a curator does not."""
        return bool(self.privatizer.claim.trust == "central")

    def other(self) -> Any:
        """One of a crowd of one kind."""
        raise NotImplementedError

    def given(self, person: Any, k: int, *, everybody: bool = False) -> Any:
        """The person first, then the crowd."""
        crowd, others = person if everybody else self.other(), self.batch_size - 1
        return type(person)(
            *(np.concatenate([one, np.repeat(other, others, 0)]) for one, other in zip(person, crowd, strict=True))
        )

    def statistic(self) -> Any:
        """What is released of whom."""
        return self.stage.statistic

    def quiet(self) -> Self:
        """The same statistic without noise, rounding and indices."""
        stage = self.stage
        silent = OpenVectors(statistic=self.statistic(), claim=no_privacy(), target=stage.target, least=stage.least)
        return replace(self, privatizer=replace(self.privatizer, channels=(silent,)))


@dataclass(frozen=True, slots=True, kw_only=True)
class MomentProbe(VectorProbe):
    """Moments of one planned batch: rows that are opposite, orthogonal, too long or no numbers."""

    columns: ClassVar[Mapping[str, int]] = {"gram": 0, "rewards": 1}
    public: ClassVar[tuple[str, ...]] = ("gram_variance", "reward_variance", "users", "slot_users")
    ordinary: ClassVar[int] = 16

    def fields(self, statistics: Any) -> dict[str, Floats]:
        """All fields; variances are taken from those that state them, infinite ones belong to what is not released."""
        found = Probe.fields(self, statistics)
        spread = [found[name].max(initial=0.0) for name in ("gram_variance", "reward_variance")]
        return found | {"variance": np.array([value if np.isfinite(value) else 0.0 for value in spread])}

    def stated(self, fields: Mapping[str, Floats]) -> dict[str, Floats]:
        """Half of the variance beside the diagonal of a Gram matrix."""
        d, M = self.privatizer.shape.features, self.privatizer.shape.slots
        beside = np.where(np.eye(d, dtype=np.bool_), 1.0, 0.5)
        gram, rewards = fields["variance"]
        return {"gram": np.tile(gram * beside.ravel(), M), "rewards": np.full(M * d, rewards)}

    def largest_std(self) -> dict[str, float]:
        """Of one number of each field."""
        gram, rewards = self.privatizer.moment_std(self.batch_size, self.asked(0))
        return {"gram": gram if np.isfinite(gram) else 0.0, "rewards": rewards}

    def persons(self) -> list[FeatureUsers]:
        """Opposite and orthogonal rows with every reward, in the first and the last slot; then what nobody may send."""
        d, last = self.privatizer.shape.features, self.privatizer.shape.actions - 1
        first, second, mixed = np.eye(d)[0], np.eye(d)[-1], np.full(d, d**-0.5)
        rows = (first, -first, second, mixed)
        ordinary = [self._person(x, a, r) for x in rows for a, r in ((0, 0.0), (0, 1.0), (last, 1.0), (0, CANARY))]
        odd = [self._person(mixed, 0, r) for r in HOSTILE]
        long = [self._person(x, 0, 1.0) for x in (30.0 * first, 1e200 * mixed, np.where(first > 0, np.nan, 5.0))]
        return [*ordinary, *odd, *long, *(self._person(first, a, 1.0) for a in (-5, 2**40))]

    def _person(self, x: Floats, action: int, reward: float) -> FeatureUsers:
        return FeatureUsers(x[np.newaxis], np.array([action]), np.array([reward]), np.zeros(1, dtype=np.int64))

    def other(self) -> FeatureUsers:
        """One row, of the first action, without a reward."""
        return self._person(np.eye(self.privatizer.shape.features)[0], 0, 0.0)

    def exact(self, person: FeatureUsers) -> Floats:
        """The moments by sums over people, on the grid of rows; written apart from the statistic."""
        shape, users = self.privatizer.shape, self.given(person, 0)
        gram, rewards = np.zeros((shape.slots, shape.features, shape.features)), np.zeros((shape.slots, shape.features))
        for x, action, reward in zip(users.x, users.actions, users.rewards, strict=True):
            slot = 0 if shape.shared else min(max(int(action), 0), shape.actions - 1)
            row = np.array([float(v) if np.isfinite(v) else 0.0 for v in x])
            with np.errstate(over="ignore"):
                row = np.trunc(row / max(1.0, float(np.sqrt((row * row).sum()))) * shape.grid) / shape.grid
            if self.stage.statistic.strata > 1 and slot != 0:
                continue
            r = 0.0 if reward != reward else min(max(float(reward), 0.0), 1.0)
            rewards[slot] += row * (r - 0.5)
            gram[slot] += np.outer(row, row) * self.stage.statistic.gram
        return np.concatenate([gram.ravel(), rewards.ravel()])[np.newaxis]

    def statistic(self) -> Any:
        """Without indices drawn by lot."""
        return replace(self.stage.statistic, lots=False)

    def parts(self, numbers: Floats) -> dict[str, Floats]:
        """One vector in the scaling of its sensitivity; the lower triangle repeats the upper one."""
        d, M = self.privatizer.shape.features, self.privatizer.shape.slots
        split = self.split(numbers)
        gram, (rows, columns) = split["gram"].reshape(M, d, d), np.triu_indices(d)
        weight = np.where(rows == columns, 2.0**-0.5, 1.0)
        vector = np.concatenate([(gram[:, rows, columns] * weight).ravel(), 2.0 * split["rewards"]])
        return {"moments": vector, "uncovered": (gram - gram.transpose(0, 2, 1)).ravel()}


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightProbe(VectorProbe):
    """Weighted returns of one planned batch: weights and rewards of every size, among people without weight."""

    columns: ClassVar[Mapping[str, int]] = {"sums": 0}
    public: ClassVar[tuple[str, ...]] = ("variance", "users")
    ordinary: ClassVar[int] = 12

    def stated(self, fields: Mapping[str, Floats]) -> dict[str, Floats]:
        """Every number has a variance of its own."""
        return {"sums": fields["variance"]}

    def largest_std(self) -> dict[str, float]:
        """Of the number with the least factor."""
        least = self.stage.statistic.factors.min() / WHOLE
        return {"sums": self.stage.noise_variance(self.batch_size) ** 0.5 / least}

    def persons(self) -> list[WeightedUsers]:
        """Weights none, half and at the cap with the worst, the best and a telling reward; then hostile ones."""
        ordinary = [self._person(u, s, 0.0) for u in (0.0, 0.5, 1.0) for s in (-0.5, 0.5, CANARY - 0.5)]
        ordinary += [self._person(1.0, -0.5, 1.0), self._person(-1.0, 0.5, 0.0), self._person(CANARY, 0.1, 0.5)]
        odd = [self._person(*bad) for one in HOSTILE for bad in ((one, 0.5, 0.0), (1.0, one, 0.0), (1.0, 0.5, one))]
        return [*ordinary, *odd]

    def _person(self, u: float, s: float, c: float) -> WeightedUsers:
        return WeightedUsers(*(np.full((1, self.privatizer.shape.policies), value) for value in (u, s, c)))

    def other(self) -> WeightedUsers:
        """Without weight."""
        return self._person(0.0, 0.0, 0.0)

    def exact(self, person: WeightedUsers) -> Floats:
        """The sums of one person from the definition, on the grid of levels."""
        u, s, c = (np.nan_to_num(part[0], nan=0.0) for part in person)
        u, c = (np.rint(np.clip(part, 0.0, 1.0) * LEVELS) / LEVELS for part in (u, c))
        s = np.rint(np.clip(s, -0.5, 0.5) * 2 * LEVELS) / (2 * LEVELS)
        return np.stack([u * s, u, u**2, u**2 * s, u**2 * s**2, c], axis=1).reshape(1, -1)

    def parts(self, numbers: Floats) -> dict[str, Floats]:
        """One vector, in units of its noise."""
        return {"weighted returns": numbers * self.stage.statistic.factors.ravel() / WHOLE, "uncovered": np.zeros(0)}
