"""The channel of one-bit returns: a device says one randomized bit about a return, and which policy it drew.

    device      body = (group, bit), two bytes      group: the number of the policy that its own lot drew, public
                                                    bit:   rounded return or tail of the stage's question, flipped
    collector   payload = all bodies, sorted
    anybody     ones and people of every group

G1  A bit is flipped with probability 1/(e^ε₀+1), all of ε₀ on it (Lemma L1 (randomized response)). The group comes from
    a lot that looks at no data, so a body is ε₀-private whoever reads it: a stage is paid before it opens, and can be
    released with any number of reports.
G2  With secure noise both coins, of rounding and of flipping, are exact (`OneBitReturns.device`).
G3  A cover report is a fair coin: it counts as half a one. Whoever sends one does not show it.
G4  What is asked (mean or tail, its level, how many groups) is public and stands in the bundle; a device is told by
    `told`. A group that no policy of the bundle has is read and left out by the learner: nobody can hold a stage up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from tacit.accounting.claims import PrivacyClaim, Trust
from tacit.accounting.events import Events, PureEvent
from tacit.accounting.families import Family
from tacit.data.trajectories import Trajectories, Trajectory, TrajectoryLike
from tacit.errors import InvalidInput, NotSupported, require, require_count
from tacit.noise.exact import uniform_integers
from tacit.noise.randomized_response import RandomizedResponse
from tacit.protocol import Noise, Private, Query
from tacit.randomness import SimulationNoise
from tacit.release.contract import ChargedAt
from tacit.release.documents import (
    claim_from_plain,
    float_from_plain,
    fraction_to_plain,
    require_entries,
    shape_from_plain,
    shape_to_plain,
)
from tacit.release.returns import OneBitReturns
from tacit.release.stage import NoSecret, require_people
from tacit.released.counts import CountShape
from tacit.released.returns import ReturnQuery, ReturnStatistics, no_returns

__all__ = ["GROUPS", "ReturnChannel", "ReturnMemory", "Told", "groups_of"]

GROUPS: Final = 256
"""Groups have one byte."""
ENTRIES: Final = ("kind", "claim", "shape", "target", "least", "epsilon")


class ReturnMemory(NamedTuple):
    """The public memory: the last answers, which say nothing about other stages."""

    released: ReturnStatistics


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnChannel:
    """One stage of randomized bits about returns; make it with `ReturnBasis`."""

    claim: PrivacyClaim
    shape: CountShape
    target: int
    least: int
    epsilon: float
    """Of one bit."""

    KIND: ClassVar[str] = "local-returns"
    TRUST: ClassVar[Trust] = "local"
    CHARGED_AT: ClassVar[ChargedAt] = "open"
    questions: ClassVar[int] = 1
    body_size: ClassVar[int] = 2

    def __post_init__(self) -> None:
        least = require_count("least", self.least)
        require(least <= require_count("target", self.target), f"least must be at most the target {self.target}", least)
        require(self.epsilon <= self.claim.epsilon, "one bit must cost no more than is claimed", self.epsilon)
        _ = self.privatizer  # its refusals are ours

    @property
    def privatizer(self) -> OneBitReturns:
        """The same as the privatizer of simulations describes it."""
        return _privatizer(self)

    @property
    def name(self) -> str:
        """Trust model and mechanism."""
        return self.privatizer.name

    @property
    def query(self) -> ReturnQuery:
        """The kind of question: the whole return of one group; groups, bit and level are those of the moment."""
        return ReturnQuery(groups=(self.target,), bit="mean", level=float(self.shape.horizon))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values; epsilon is a fraction."""
        return {
            "kind": self.KIND,
            "claim": self.claim.to_dict(),
            "shape": shape_to_plain(self.shape),
            "target": self.target,
            "least": self.least,
            "epsilon": fraction_to_plain(self.epsilon),
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> ReturnChannel:
        """The channel that `to_dict` wrote; anything missing, unknown or out of range is `InvalidInput`."""
        given = require_entries("a channel of returns", plain, ENTRIES)
        require(given["kind"] == cls.KIND, f"the kind of this channel is '{cls.KIND}'", given["kind"])
        return cls(
            claim=claim_from_plain(given["claim"], cls.TRUST),
            shape=shape_from_plain(given["shape"]),
            target=require_count("target", given["target"]),
            least=require_count("least", given["least"]),
            epsilon=float_from_plain("epsilon", given["epsilon"]),
        )

    def families(self) -> tuple[Family, ...]:
        """One person's bit is one or zero."""
        return self.privatizer.families()

    def noise_std(self) -> dict[str, float]:
        """The deviation that one person's flip adds to the ones."""
        return self.privatizer.noise_std()

    def events(self) -> Events:
        """What one bit costs, however many others there are (G1)."""
        return ((PureEvent(epsilon=self.epsilon), 1),)

    def events_at(self, people: int) -> Events:
        """The same: nobody else's noise helps."""
        require_people(people, self.least, self.target)
        return self.events()

    def told(self, query: Query, group: int) -> Told:
        """The channel as one device uses it, which knows the question of its stage and the policy that it drew (G4)."""
        if not isinstance(query, ReturnQuery):
            raise InvalidInput(f"{self.name} answers {ReturnQuery.words()}; it was asked for {query.words()}")
        known = 0 <= group < min(GROUPS, len(query.groups))
        require(known, f"the group of a device must be below {len(query.groups)}, and below {GROUPS}", group)
        return Told(channel=self, query=query, group=group)

    def encode(self, trajectory: TrajectoryLike | None, noise: Noise) -> bytes:
        """Refused: a bit is about a question and a policy, which `told` takes."""
        raise NotSupported(
            "a bit about a return is said by whoever follows a policy of the stage; let a Device report, or use told()"
        )

    def check(self, body: bytes) -> None:
        """Raise unless some device could have sent this body."""
        require(len(body) == self.body_size, f"a message must have {self.body_size} bytes", len(body))
        require(body[1] in (0, 1), "a message about a return must end with a bit", "something else")

    def begin_secret(self) -> NoSecret:
        """Nothing."""
        return NoSecret()

    def release(self, secret: NoSecret, bodies: Sequence[bytes], query: Query, noise: Noise) -> tuple[NoSecret, bytes]:
        """All bodies in the order of their bytes; nothing is drawn (G1)."""
        require_people(len(bodies), self.least, self.target)
        if not isinstance(query, ReturnQuery):
            raise InvalidInput(f"{self.name} answers {ReturnQuery.words()}; it was asked for {query.words()}")
        for body in bodies:
            self.check(body)
        return secret, b"".join(sorted(bodies))

    def begin_memory(self) -> ReturnMemory:
        """Nobody reported yet."""
        return ReturnMemory(released=no_returns())

    def read(self, memory: ReturnMemory, payload: bytes, people: int) -> tuple[ReturnMemory, Private[ReturnStatistics]]:
        """The ones and the people of every group, up to the last one that a byte can name."""
        require_people(people, self.least, self.target)
        size = self.body_size
        require(len(payload) == people * size, f"a payload must have {people} messages of {size} bytes", len(payload))
        bodies = [payload[start : start + size] for start in range(0, len(payload), size)]
        for body in bodies:
            self.check(body)
        require(bodies == sorted(bodies), "the messages of a payload must be sorted", "another order")
        pairs = np.frombuffer(payload, dtype=np.uint8).reshape(people, size).astype(np.int64)
        groups, flip = np.bincount(pairs[:, 0], minlength=GROUPS), self.privatizer.bit_noise().flip
        released = ReturnStatistics(
            ones=np.bincount(pairs[pairs[:, 1] == 1, 0], minlength=GROUPS).astype(np.float64),
            groups=groups,
            variance=np.array([float(groups.max()) * flip * (1.0 - flip)]),
            users=np.array([people], dtype=np.int64),
        )
        return ReturnMemory(released=released), Private(released, self.claim)

    def skip(self, memory: ReturnMemory, payload: bytes, people: int) -> ReturnMemory:
        """Nothing is missed: answers of one stage say nothing about another."""
        return memory

    def simulate(
        self, secret: NoSecret, users: Trajectories, query: Query, noise: SimulationNoise
    ) -> tuple[NoSecret, bytes]:
        """A payload from trajectories, one group after the other."""
        require(isinstance(users, Trajectories), "bits about returns need trajectories", type(users).__name__)
        if not isinstance(query, ReturnQuery):
            raise InvalidInput(f"{self.name} answers {ReturnQuery.words()}; it was asked for {query.words()}")
        require(len(users) == query.users, f"the groups of the query have {query.users} users", len(users))
        rows = zip(groups_of(query), users.states, users.actions, users.rewards, strict=True)
        bodies = [self.told(query, group).encode(Trajectory(*row), noise) for group, *row in rows]
        return self.release(secret, bodies, query, noise)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What one device of a stage knows: the question, and the number of the policy that it follows."""

    channel: ReturnChannel
    query: ReturnQuery
    group: int

    def encode(self, trajectory: TrajectoryLike | None, noise: Noise) -> bytes:
        """The device: group and randomized bit; None is a cover report (G3)."""
        return bytes([self.group, self._bit(trajectory, noise)])

    def _bit(self, trajectory: TrajectoryLike | None, noise: Noise) -> int:
        if trajectory is None:
            fair = isinstance(noise, SimulationNoise)
            return int(noise.generator.integers(2) if fair else uniform_integers(1, noise, below=2)[0])  # type: ignore[union-attr, arg-type]
        states, actions, rewards = (
            np.asarray(part)[np.newaxis] for part in (trajectory.states, trajectory.actions, trajectory.rewards)
        )
        own = ReturnQuery(groups=(1,), bit=self.query.bit, level=self.query.level)
        return int(self.channel.privatizer.encode(Trajectories(states, actions, rewards), own, noise)[0])


def groups_of(query: ReturnQuery) -> list[int]:
    """[users]: the group of everybody, where they come one group after the other."""
    return [group for group, users in enumerate(query.groups) for _ in range(users)]


@lru_cache(maxsize=64)  # every device of a stage asks
def _privatizer(channel: ReturnChannel) -> OneBitReturns:
    return OneBitReturns(
        shape=channel.shape, claim=channel.claim, mechanism=RandomizedResponse(epsilon=channel.epsilon)
    )
