"""One randomized bit about a return: randomized response with all of epsilon on that bit, or the bit as it is.

    device      body = (group, bit), two bytes      group: the number of the policy that its own lot drew, public
                                                    bit:   rounded return or tail of the stage's question, flipped
    anybody     ones and people of every group

G1  A bit is flipped with probability 1/(e^ε₀+1): pure ε₀ (Lemma L1 (randomized response)). The group comes from a lot
    that looks at no data. A person with g reports sends g bits with coins of their own, which compose (Lemma P14
    (several stages)).
G2  E[bit] = min(G, C)/C, or 1{G > c}; de-biased by (1 − 2 flip), a group's ones are unbiased for the sum of its bits.
G3  Given the bits, the ones of a group of n people, k of them with a one, are Bin(k, 1 − flip) + Bin(n − k, flip):
    that is how batches are simulated. A device draws every message by itself; both have the same law.
G4  Rewards outside [0, 1] are clipped, and none is NaN: a person moves no more than their own bit.
G5  With secure noise both coins, of rounding and of flipping, are exact. A cover report is a fair coin: half a one.
G6  What is asked (mean or tail, its level, how many groups) is public and stands in the bundle. A group that no policy
    of the bundle has is read and left out by the learner: such a report holds no stage up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from tacit.accounting.certificate import Certificate, CertifiedFamily, certify
from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.events import Events, PureEvent, UnprotectedEvent
from tacit.accounting.families import Family
from tacit.accounting.units import in_stages
from tacit.arrays import Floats, Ints
from tacit.data.trajectories import Trajectories, Trajectory, TrajectoryLike
from tacit.errors import InvalidInput, NotSupported, require
from tacit.noise.randomized_response import RandomizedResponse
from tacit.protocol import Calibration, Noise, PrivateStatistics, Query
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.release.codecs import flipped, uniform_below
from tacit.release.contract import StageSize
from tacit.release.counts_contract import require_answer, require_shape, require_unit
from tacit.release.local import LetterBox, alone
from tacit.release.shuffle.roles import rounded_rewards
from tacit.release.stage import StagePlan
from tacit.released.counts import CountShape
from tacit.released.returns import BitNoise, ReturnQuery, ReturnStatistics, no_returns

GROUPS: Final = 256
"""Groups have one byte."""


class ReturnState(NamedTuple):
    """The memory: the last answers, which say nothing about other batches."""

    released: ReturnStatistics


def bit_chances(rewards: Floats, query: ReturnQuery) -> Floats:
    """[users]: with which probability everybody's bit is one, before it is randomized.

    >>> bit_chances(np.array([[1.0, 0.5], [7.0, np.nan]]), ReturnQuery(groups=(2,), bit="mean", level=2.0))
    array([0.75, 0.5 ])
    """
    # G = Σ_h r_h, each r_h in [0, 1]; NaN is 0
    returns = np.clip(np.nan_to_num(rewards, nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0).sum(axis=1)
    if query.bit == "tail":
        return np.asarray(returns > query.level, dtype=np.float64)
    return np.asarray(np.minimum(returns, query.level) / query.level)


class _Bits:
    """Bits about returns, simulated or on the wire."""

    __slots__ = ()
    shape: CountShape

    def response(self) -> RandomizedResponse | None:
        """What flips the bits; None: they are as they are."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """Trust model and mechanism."""
        found = self.response()
        return "none (one-bit returns)" if found is None else f"local/{found.NAME} (one-bit returns)"

    def bit_noise(self) -> BitNoise:
        """The public noise of one bit; none without a trust model."""
        found = self.response()
        return BitNoise(flip=0.0, variance=0.0) if found is None else BitNoise(flip=found.flip, variance=found.variance)

    def families(self) -> tuple[Family, ...]:
        """One person's bit is one or zero."""
        return (Family(name="ones", up=1, down=0, shift=1.0),)

    def noise_std(self) -> dict[str, float]:
        """The standard deviation that one user's flip adds to the ones."""
        flip = self.bit_noise().flip
        return {"ones": float(np.sqrt(flip * (1.0 - flip)))}

    def bits(self, users: Trajectories, query: ReturnQuery, noise: Noise) -> Ints:
        """[users]: one rounded bit each, not yet randomized."""
        chances = bit_chances(require_shape(users, self.shape).rewards, query)
        return rounded_rewards(chances, noise).astype(np.int64)

    def statistics(self, ones: Ints, groups: Ints) -> ReturnStatistics:
        """The ones of every group, and how many people it has."""
        flip = self.bit_noise().flip
        return ReturnStatistics(
            ones=ones.astype(np.float64),
            groups=groups,
            variance=np.array([float(groups.max()) * flip * (1.0 - flip)]),
            users=np.array([groups.sum()], dtype=np.int64),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OneBitReturns(_Bits, StagePlan):
    """Randomized bits about returns, added up by group; under trust `none` the bits as they are.

    What learners are told, the simulation, and the stages of a study.
    """

    shape: CountShape
    claim: PrivacyClaim
    mechanism: RandomizedResponse | None
    """None: nobody is protected, and the claim must say so."""

    answers = ReturnQuery
    kernel = None

    def __post_init__(self) -> None:
        if self.claim.trust not in ("local", "none"):
            raise InvalidInput(
                f"bits about returns need a claim with trust 'local' or 'none', got {self.claim.trust!r}"
            )
        if (self.claim.trust == "none") != (self.mechanism is None):
            raise InvalidInput("bits about returns are randomized under trust 'local', and only under trust 'none' not")

    def response(self) -> RandomizedResponse | None:
        """What flips the bits."""
        return self.mechanism

    @property
    def calibration(self) -> Calibration:
        """All of epsilon is on the one bit."""
        return "none" if self.mechanism is None else "tight"

    @property
    def parameters(self) -> BitNoise:
        """The public noise of one bit."""
        return self.bit_noise()

    def release_of(self, stage: StageSize) -> ReturnRelease:
        """One stage: the same noise in all of them."""
        if self.mechanism is None:
            raise InvalidInput("bits of a study are randomized; trust 'none' has no stage")
        return ReturnRelease(
            claim=self.claim,
            shape=self.shape,
            target=stage.target,
            least=stage.least,
            epsilon=self.mechanism.epsilon,
        )

    def events(self) -> Events:
        """One randomized bit for every report (G1)."""
        if self.mechanism is None:
            return ((UnprotectedEvent(), 1),)
        return in_stages(((PureEvent(epsilon=self.mechanism.epsilon), 1),), self.claim.unit.reports)

    def certificate(self) -> Certificate:
        """What the exact accountant finds."""
        noise = "none" if self.mechanism is None else self.mechanism.NAME
        require_unit(self.claim.unit, several=True)
        described = [
            CertifiedFamily.of(family, noise=noise, std=self.noise_std()["ones"]) for family in self.families()
        ]
        return certify(self.events(), described, self.claim, calibration=self.calibration)

    def begin(self) -> ReturnState:
        """Before the first answer."""
        return ReturnState(released=no_returns())

    def release(
        self, state: ReturnState, users: Trajectories, query: ReturnQuery, noise: Noise
    ) -> tuple[ReturnState, PrivateStatistics[ReturnStatistics]]:
        """Let everybody answer: group by group in simulations (G3), bit by bit with secure noise."""
        del state  # answers of one batch say nothing about another
        require_answer(self, query)
        bits = self.bits(users, query, noise)
        require(len(bits) == query.users, f"the groups of the query have {query.users} users", len(bits))
        if self.mechanism is not None and isinstance(noise, SecureNoise):
            bits = flipped(self.mechanism, bits, noise)
        groups = np.array(query.groups, dtype=np.int64)
        ones = np.add.reduceat(bits, np.concatenate([[0], np.cumsum(groups)[:-1]]))
        if self.mechanism is not None and isinstance(noise, SimulationNoise):
            # ones ~ Bin(k, 1 − f) + Bin(n − k, f)
            flip, draw = self.mechanism.flip, noise.generator.binomial
            kept = draw(ones, 1.0 - flip)
            ones = kept + draw(groups - ones, flip)
        released = self.statistics(ones, groups)
        return ReturnState(released=released), PrivateStatistics(released, self.claim)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnRelease(_Bits, LetterBox):
    """One stage of randomized bits about returns; a plan (`OneBitReturns`) makes it."""

    claim: PrivacyClaim
    shape: CountShape
    target: int
    least: int
    epsilon: float
    """Of one bit."""

    KIND: ClassVar[str] = "local-returns"

    def __post_init__(self) -> None:
        self.require_sizes()
        require(self.claim.trust == "local", "bits about returns are local, and so is their claim", self.claim.trust)
        require(self.epsilon <= self.claim.epsilon, "one bit must cost no more than is claimed", self.epsilon)
        self.response()  # its refusals are ours

    def response(self) -> RandomizedResponse:
        """What flips the bits."""
        return RandomizedResponse(epsilon=self.epsilon)

    @property
    def body_size(self) -> int:
        """Group and bit."""
        return 2

    @property
    def query(self) -> ReturnQuery:
        """The kind of question: the whole return of one group; groups, bit and level are those of the moment."""
        return ReturnQuery(groups=(self.target,), bit="mean", level=float(self.shape.horizon))

    def events(self) -> Events:
        """What one bit costs, however many others there are (G1)."""
        return ((PureEvent(epsilon=self.epsilon), 1),)

    def answer(self, query: Query, group: int, person: TrajectoryLike | None, noise: Noise) -> bytes:
        """The device, which knows the question of its stage and the policy that it drew; None is a cover report."""
        about = self.asked(query)
        known = 0 <= group < min(GROUPS, len(about.groups))
        require(known, f"the group of a device must be below {len(about.groups)}, and below {GROUPS}", group)
        if person is None:
            return bytes([group, uniform_below(2, noise)])
        return bytes([group, int(flipped(self.response(), self.bits(alone(person), about, noise), noise)[0])])

    def encode(self, trajectory: TrajectoryLike | None, noise: Noise) -> bytes:
        """Refused: a bit is about a question and a policy, which `answer` takes."""
        raise NotSupported("a bit about a return needs the policy that the person followed; use a Device or `answer`")

    def answers_of(self, users: Trajectories, query: Query, noise: Noise) -> Iterator[bytes]:
        """The bodies of a batch, one group after the other."""
        about = self.asked(query)
        require(len(users) == about.users, f"the groups of the query have {about.users} users", len(users))
        for group, *row in zip(groups_of(about), users.states, users.actions, users.rewards, strict=True):
            yield self.answer(about, group, Trajectory(*row), noise)

    def asked(self, query: Query) -> ReturnQuery:
        """The query, if it is about returns."""
        if not isinstance(query, ReturnQuery):
            raise InvalidInput(f"{self.name} answers {ReturnQuery.words()}; it was asked for {query.words()}")
        return query

    def check(self, body: bytes) -> None:
        """Raise unless some device could have sent this body."""
        require(len(body) == self.body_size, f"a message must have {self.body_size} bytes", len(body))
        require(body[1] in (0, 1), "a message about a return must end with a bit", "something else")

    def begin_memory(self) -> ReturnState:
        """Before the first answer."""
        return ReturnState(released=no_returns())

    def read(
        self, memory: ReturnState, payload: bytes, people: int
    ) -> tuple[ReturnState, PrivateStatistics[ReturnStatistics]]:
        """The ones and the people of every group, up to the last one that a byte can name."""
        pairs = np.array([tuple(body) for body in self.bodies(payload, people)], dtype=np.int64)
        ones = np.bincount(pairs[pairs[:, 1] == 1, 0], minlength=GROUPS)
        released = self.statistics(ones, np.bincount(pairs[:, 0], minlength=GROUPS))
        return ReturnState(released=released), PrivateStatistics(released, self.claim)

    def simulate(self, secret: Any, users: Trajectories, query: Query, noise: SimulationNoise) -> tuple[Any, bytes]:
        """A payload from trajectories, one group after the other."""
        require(isinstance(users, Trajectories), "bits about returns need trajectories", type(users).__name__)
        return self.release(secret, list(self.answers_of(users, query, noise)), query, noise)


def groups_of(query: ReturnQuery) -> list[int]:
    """[users]: the group of everybody, where they come one group after the other."""
    return [group for group, users in enumerate(query.groups) for _ in range(users)]
