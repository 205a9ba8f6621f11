"""The probes of adversarial losses and of batch gradients, at softmax policies and at Gaussian ones over doses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from tacit.accounting.claims import no_privacy
from tacit.arrays import Floats
from tacit.audit.probes import CANARY, HOSTILE, PREFIXES, Probe
from tacit.data.gradients import Dosed
from tacit.data.trajectories import LossUser, Trajectories
from tacit.policies.softmax import public_features, softmax_table, tabular_features
from tacit.released.gradients import DoseQuery, SoftmaxQuery
from tacit.released.losses import LossQuery


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
