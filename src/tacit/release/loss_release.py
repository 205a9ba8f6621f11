"""Central trust, adversarial losses: counts and losses of one user after the other, in whole numbers.

    payload  k, then [ transitions | losses ]: w_k = Σ_{j≤k} C_{k-j} x_j + z_k, whole numbers in units of 1/M
             bandit losses are released once, in the user's own episode: M l_k + z_k, with noise of their own
    read     transitions and full-information losses as totals, visits as sums of transitions: post-processing

What `tacit.release.losses` simulates with central trust and delta > 0, with noise that can be drawn exactly: C is
the square-root factorization in whole numbers where the simulation streams through buffers (its noise is within 0.2 %).

G1  A person with at most g reports, one per stage, is exposed to one Gaussian noise over the first g columns of C for
    each of the 2H differing transitions, and to one for each differing loss: Lemma C9 (integer factorization), Lemma S7
    (losses). The two statistics have noise of different sizes.
G2  A stage is one user. Pure privacy, local trust and public loss tables have no channel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, Self

import numpy as np

from tacit.accounting.claims import PrivacyClaim, Trust
from tacit.accounting.events import Events, GaussianEvent
from tacit.accounting.families import Family
from tacit.arrays import Floats, Ints
from tacit.data.trajectories import LossUser
from tacit.errors import BudgetSpent, require, require_count
from tacit.protocol import Noise, Private, Query
from tacit.randomness import SimulationNoise
from tacit.release.contract import ChargedAt
from tacit.release.curator import numbered, require_unit
from tacit.release.documents import claim_from_plain, require_entries, whole_from_plain
from tacit.release.fixed_point import (
    draw_noise,
    require_fixed_point,
    slack,
    spread,
    to_payload,
)
from tacit.release.stage import require_people
from tacit.release.toeplitz import SQUARE_ROOT, column_square, integer_column, prefix_weights
from tacit.released.losses import LayeredShape, LossQuery, LossStatistics
from tacit.statistics.loss_body import LossBody, LossSums

__all__ = ["LossChannel", "LossMemory", "LossSecret", "loss_families"]

COUNTS: Final = ("releases", "levels", "unit", "transition_variance", "loss_variance")
ENTRIES: Final = ("kind", "shape", "claim", "full", *COUNTS)


class LossSecret(NamedTuple):
    """What the curator keeps: what every user so far added."""

    sums: Ints
    """[releases, triples + pairs]; without the pairs for bandit feedback, whose losses are released once."""

    def __repr__(self) -> str:
        return f"LossSecret({len(self.sums)} releases)"  # never its contents


class LossMemory(NamedTuple):
    """What everybody knows: the payloads so far, and the last statistics."""

    past: Ints
    """[releases, triples + pairs]"""
    released: LossStatistics


@dataclass(frozen=True, slots=True, kw_only=True)
class LossChannel:
    """One user's stage of counts and losses under central trust; make them with `LossBasis`."""

    shape: LayeredShape
    claim: PrivacyClaim
    full: bool
    """Whether the losses of all pairs are released, or those that a user met."""
    releases: int
    """How many users may be released: T."""
    levels: int
    """Losses are multiples of 1/levels."""
    unit: int
    """M: payloads count in units of 1/M."""
    transition_variance: int
    """s²: of the noise in one transition of the payload, in units of 1/M²."""
    loss_variance: int
    """The same for one loss."""

    KIND: ClassVar[str] = "central-losses"
    TRUST: ClassVar[Trust] = "central"
    CHARGED_AT: ClassVar[ChargedAt] = "release"
    questions: ClassVar[int] = 1
    target: ClassVar[int] = 1
    least: ClassVar[int] = 1
    name: ClassVar[str] = "central/factorization of losses"

    def __post_init__(self) -> None:
        require_unit(self.claim)
        require_count("releases", self.releases)
        for variance in (self.transition_variance, self.loss_variance):
            require_fixed_point(self.unit, variance)
        require(self.unit % self.body.levels == 0, f"levels must divide the unit {self.unit}", self.levels)
        fits = self.releases * self.unit < 1 << 62
        require(fits, "the sums of all stages must fit into 62 bits", self.releases)

    @property
    def query(self) -> LossQuery:
        """Counts and losses."""
        return LossQuery(full=self.full)

    @property
    def body(self) -> LossBody:
        """The format of bodies."""
        return LossBody(shape=self.shape, full=self.full, levels=self.levels)

    @property
    def body_size(self) -> int:
        """The length of a body in bytes."""
        return self.body.size

    @property
    def column(self) -> tuple[int, ...]:
        """The first column of C."""
        return integer_column(SQUARE_ROOT, self.releases, self.unit // self.levels)

    @property
    def dimension(self) -> int:
        """The numbers of a payload."""
        return self.shape.triples + self.shape.pairs

    def families(self) -> tuple[Family, ...]:
        """What one report can change."""
        return loss_families(self.shape, full=self.full)

    def noise_std(self) -> dict[str, float]:
        """The standard deviation of the noise in each statistic, at its largest: after the last release."""
        transitions, visits, losses = (math.sqrt(v) for v in self.variances(self.releases))
        return {"transitions": transitions, "visits": visits, "losses": losses}

    def variances(self, release: int) -> tuple[float, float, float]:
        """The noise variance of one transition, visit and loss after so many releases."""
        weights = prefix_weights(self.column)[:release]
        prefix = float(np.dot(weights, weights)) / self.levels**2
        moved = self.transition_variance * prefix
        loss = self.loss_variance * (prefix if self.full else 1.0 / self.unit**2)
        return moved, moved * max(np.bincount(self.shape.pair_of)), loss

    def events(self) -> Events:
        """What one report costs."""
        return self.exposed(1)

    def events_at(self, people: int) -> Events:
        """The same: a stage is one user."""
        require_people(people, self.least, self.target)
        return self.events()

    def exposed(self, reports: int) -> Events:
        """What a person with so many reports, at most one per stage, is exposed to over all releases (G1)."""
        scale = self.unit // self.levels
        columns = math.sqrt(column_square(self.column, reports)) / scale * (1.0 + 1e-12)
        g = min(reports, self.releases)
        moves, losses = self.families()
        sigma, loss_sigma = (spread(v, self.unit) for v in (self.transition_variance, self.loss_variance))
        first = GaussianEvent(sigma=sigma, shift=moves.shift * columns)
        second = GaussianEvent(sigma=loss_sigma, shift=losses.shift * (columns if self.full else 1.0))
        times, loss_draws = (1, self.releases) if self.full else (g, g)
        return (
            (first, moves.differing),
            (second, times * losses.differing),
            *slack(self.claim, self.shape.triples * self.releases, self.transition_variance),
            *slack(self.claim, self.shape.pairs * loss_draws, self.loss_variance),
        )

    def encode(self, trajectory: Any, noise: Noise) -> bytes:
        """The device: one report's body of a `LossUser`; None is a cover report, which counts for nothing."""
        return self.body.encode(trajectory, noise)

    def check(self, body: bytes) -> None:
        """Raise unless a device could have sent this."""
        self.body.check(body)

    def begin_secret(self) -> LossSecret:
        """Nobody came yet."""
        return LossSecret(np.zeros((0, self._kept), dtype=np.int64))

    def release(
        self, secret: LossSecret, bodies: Sequence[bytes], query: Query, noise: Noise
    ) -> tuple[LossSecret, bytes]:
        """The curator: one user more, with the noise of this release."""
        require_people(len(bodies), self.least, self.target)
        # The type, too: tuples of different kinds may be equal.
        asked = isinstance(query, LossQuery) and query == self.query
        require(asked, f"this stage asks for {self.query}", query)
        return self._released(secret, self.body.sums(bodies[0]), noise)

    def simulate(
        self, secret: LossSecret, users: LossUser, query: Query, noise: SimulationNoise
    ) -> tuple[LossSecret, bytes]:
        """Simulation only: the same through the body."""
        return self.release(secret, [self.encode(users, noise)], query, noise)

    def begin_memory(self) -> LossMemory:
        """Nothing is known yet."""
        P, T = self.shape.pairs, self.shape.triples
        none = LossStatistics(np.zeros(T), np.zeros(P), np.zeros(P), np.zeros(3), np.zeros(1, dtype=np.int64))
        return LossMemory(np.zeros((0, self.dimension), dtype=np.int64), none)

    def read(self, memory: LossMemory, payload: bytes, people: int) -> tuple[LossMemory, Private[LossStatistics]]:
        """Anybody: totals of transitions, visits, and losses as the feedback has them."""
        require_people(people, self.least, self.target)
        done = len(memory.past)
        require(done < self.releases, f"a study has {self.releases} releases of losses", done + 1)
        given = numbered(payload, self.dimension, done, gaps=False)
        past = np.concatenate([memory.past, given[np.newaxis]])
        # Σ_{j≤k} q_{k-j} w_j
        totals: Floats = prefix_weights(self.column)[done::-1] @ past.astype(np.float64) / self.levels
        moved = totals[: self.shape.triples]
        found = LossStatistics(
            transitions=moved,
            visits=np.asarray(np.bincount(self.shape.pair_of, weights=moved), dtype=np.float64),
            losses=totals[self.shape.triples :] if self.full else given[self.shape.triples :] / self.unit,
            variance=np.array(self.variances(done + 1)),
            users=memory.released.users + people,
        )
        return LossMemory(past, found), Private(found, self.claim)

    def skip(self, memory: LossMemory, payload: bytes, people: int) -> LossMemory:
        """Later totals hold this release, so its payload is kept."""
        return self.read(memory, payload, people)[0]

    @property
    def _kept(self) -> int:
        """How many numbers of a user are kept."""
        return self.dimension if self.full else self.shape.triples

    def _released(self, secret: LossSecret, own: LossSums, noise: Noise) -> tuple[LossSecret, bytes]:
        done = len(secret.sums)
        if done >= self.releases:
            raise BudgetSpent(f"all {self.releases} releases of this study are spent; plan a longer one")
        added = np.concatenate(own)[: self._kept]
        sums = np.concatenate([secret.sums, added[np.newaxis]])
        z = np.concatenate(
            [
                draw_noise(self.shape.triples, self.transition_variance, noise),
                draw_noise(self.shape.pairs, self.loss_variance, noise),
            ]
        )
        # w_k = Σ_{j≤k} C_{k-j} x_j + z_k, in integers
        w = np.array(self.column, dtype=np.int64)[done::-1] @ sums
        if not self.full:
            w = np.concatenate([w, own.losses * (self.unit // self.levels)])
        return LossSecret(sums), to_payload(np.concatenate([[done], w + z]))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values; every number is exact."""
        shape = {"horizon": self.shape.horizon, "pairs": self.shape.pairs, "pair_of": list(self.shape.pair_of)}
        plain = {"kind": self.KIND, "shape": shape, "claim": self.claim.to_dict(), "full": self.full}
        return plain | {name: getattr(self, name) for name in COUNTS}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """The channel that `to_dict` wrote."""
        require_entries(f"a channel '{cls.KIND}'", plain, ENTRIES)
        given = require_entries("the shape of a layered world", plain["shape"], ("horizon", "pairs", "pair_of"))
        require(isinstance(plain["full"], bool), "full must be true or false", plain["full"])
        pair_of = given["pair_of"] if isinstance(given["pair_of"], list) else ()
        return cls(
            shape=LayeredShape(
                horizon=require_count("horizon", given["horizon"]),
                pairs=require_count("pairs", given["pairs"]),
                pair_of=tuple(require_count("pair", pair, least=0) for pair in pair_of),
            ),
            claim=claim_from_plain(plain["claim"], cls.TRUST),
            full=plain["full"],
            **{name: whole_from_plain(name, plain[name]) for name in COUNTS},
        )


def loss_families(shape: LayeredShape, *, full: bool) -> tuple[Family, Family]:
    """Transitions and losses: Lemma S7 (losses)."""
    H = shape.horizon
    moves = Family(name="transitions", up=H, down=H, shift=1.0)
    if full:
        return moves, Family(name="losses", up=shape.pairs, down=0, shift=1.0)
    return moves, Family(name="losses", up=H, down=H, shift=1.0)
