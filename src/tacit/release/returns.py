"""Local trust, one bit about everybody's return: randomized response with all of epsilon on that bit.

Roles: the device rounds the return to a bit and flips it, the shuffler is the identity, the analyzer adds ones up.

G1  Everybody sends one bit, flipped with probability 1/(e^ε₀+1): pure ε₀ (Lemma L1 (randomized response)). A person
    with g reports sends g bits with coins of their own, which compose (Lemma P14 (several stages)).
G2  E[bit] = min(G, C)/C, or 1{G > c}; de-biased by (1 − 2 flip), a group's ones are unbiased for the sum of its bits.
G3  Given the bits, the ones of a group of n people, k of them with a one, are Bin(k, 1 − flip) + Bin(n − k, flip):
    that is how batches are simulated. `encode` draws every message by itself; both have the same law.
G4  Rewards outside [0, 1] are clipped, and none is NaN: nobody moves more than their own bit.

Groups are public: the learner has assigned everybody a policy by its own coins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tacit.accounting.certificate import Certificate, CertifiedFamily, certify
from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.events import Events, PureEvent, UnprotectedEvent
from tacit.accounting.families import Family
from tacit.accounting.units import in_stages
from tacit.arrays import Floats, Ints
from tacit.data.trajectories import Trajectories
from tacit.errors import InvalidInput, require
from tacit.noise.exact import bernoulli_each, bernoulli_logistic
from tacit.noise.randomized_response import RandomizedResponse
from tacit.protocol import Calibration, Noise, Private
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.release.counts_contract import require_answer, require_shape, require_unit
from tacit.released.counts import CountShape
from tacit.released.returns import BitNoise, ReturnQuery, ReturnStatistics, no_returns

__all__ = ["OneBitReturns", "ReturnState", "bit_chances"]


class ReturnState(NamedTuple):
    """The server's memory: the last answers."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class OneBitReturns:
    """Randomized bits about returns, added up by group; under trust `none` the bits as they are."""

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

    @property
    def name(self) -> str:
        """For tables."""
        return "none (one-bit returns)" if self.mechanism is None else f"local/{self.mechanism.NAME} (one-bit returns)"

    @property
    def calibration(self) -> Calibration:
        """All of epsilon is on the one bit."""
        return "none" if self.mechanism is None else "tight"

    @property
    def parameters(self) -> BitNoise:
        """The public noise of one bit."""
        return self.bit_noise()

    def bit_noise(self) -> BitNoise:
        """The public noise of one bit; none without a trust model."""
        if self.mechanism is None:
            return BitNoise(flip=0.0, variance=0.0)
        return BitNoise(flip=self.mechanism.flip, variance=self.mechanism.variance)

    def families(self) -> tuple[Family, ...]:
        """One person's bit is one or zero."""
        return (Family(name="ones", up=1, down=0, shift=1.0),)

    def events(self) -> Events:
        """One randomized bit for every report (G1)."""
        if self.mechanism is None:
            return ((UnprotectedEvent(), 1),)
        return in_stages(((PureEvent(epsilon=self.mechanism.epsilon), 1),), self.claim.unit.reports)

    def noise_std(self) -> dict[str, float]:
        """The standard deviation that one user's flip adds to the ones."""
        flip = self.bit_noise().flip
        return {"ones": float(np.sqrt(flip * (1.0 - flip)))}

    def certificate(self) -> Certificate:
        """What the exact accountant finds."""
        noise = "none" if self.mechanism is None else self.mechanism.NAME
        require_unit(self.claim.unit, several=True)
        described = [
            CertifiedFamily.of(family, noise=noise, std=self.noise_std()["ones"]) for family in self.families()
        ]
        return certify(self.events(), described, self.claim, calibration=self.calibration)

    def begin(self) -> ReturnState:
        """Nobody came yet."""
        return ReturnState(released=no_returns())

    def encode(self, users: Trajectories, query: ReturnQuery, noise: Noise) -> Ints:
        """The devices' side: [users], one randomized bit each."""
        chances = self._chances(users, query)
        if isinstance(noise, SecureNoise):
            exact = bernoulli_each(chances, noise)
            if self.mechanism is None:
                return np.asarray(exact, dtype=np.int64)
            flips = bernoulli_logistic(len(exact), noise, gamma=self.mechanism.epsilon)
            return np.asarray(exact ^ flips, dtype=np.int64)
        bits = _rounded(chances, noise)
        return bits if self.mechanism is None else self.mechanism.randomize(bits, noise)

    def device(self, states: Ints, actions: Ints, rewards: Floats, query: ReturnQuery, noise: SecureNoise) -> Ints:
        """What the device of one user sends in a deployment: [1], one bit by exact coins of the operating system."""
        if not isinstance(noise, SecureNoise):
            raise TypeError(f"a device takes SecureNoise, got {type(noise).__name__}")
        require_answer(self, query)
        one = Trajectories(states[np.newaxis], actions[np.newaxis], rewards[np.newaxis])
        own = ReturnQuery(groups=(1,), bit=query.bit, level=query.level)
        return self.encode(one, own, noise)

    def read(self, sent: Ints) -> Floats:
        """The message that those integers stand for, ready for `analyze`; nothing but bits is taken."""
        message = np.asarray(sent)
        whole = message.dtype.kind in "iu" and bool(np.isin(message, (0, 1)).all())
        require(whole, "a message about a return must be one bit", "something else")
        return np.asarray(message, dtype=np.float64)

    def analyze(self, messages: Floats, query: ReturnQuery) -> ReturnStatistics:
        """The server's side: add the messages up, group by group."""
        sizes = np.array(query.groups, dtype=np.int64)
        require(len(messages) == query.users, f"{query.users} messages are expected, one from everybody", len(messages))
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        return self._statistics(np.add.reduceat(np.asarray(messages, dtype=np.float64), starts), query)

    def release(
        self, state: ReturnState, users: Trajectories, query: ReturnQuery, noise: Noise
    ) -> tuple[ReturnState, Private[ReturnStatistics]]:
        """Let everybody answer: group by group in simulations (G3), message by message with secure noise."""
        del state  # answers of one batch say nothing about another
        require_answer(self, query)
        if isinstance(noise, SecureNoise):
            released = self.analyze(self.read(self.encode(users, query, noise)), query)
            return ReturnState(released=released), Private(released, self.claim)
        bits = _rounded(self._chances(users, query), noise)
        exact = self.analyze(bits.astype(np.float64), query).ones
        # ones ~ Bin(k, 1 − f) + Bin(n − k, f)
        if self.mechanism is not None:
            flip, ones = self.mechanism.flip, exact.astype(np.int64)
            kept = noise.generator.binomial(ones, 1.0 - flip)
            exact = (kept + noise.generator.binomial(np.array(query.groups) - ones, flip)).astype(np.float64)
        released = self._statistics(exact, query)
        return ReturnState(released=released), Private(released, self.claim)

    def _chances(self, users: Trajectories, query: ReturnQuery) -> Floats:
        require_answer(self, query)
        batch = require_shape(users, self.shape)
        require(len(batch) == query.users, f"the groups of the query have {query.users} users", len(batch))
        return bit_chances(batch.rewards, query)

    def _statistics(self, ones: Floats, query: ReturnQuery) -> ReturnStatistics:
        largest, flip = max(query.groups), self.bit_noise().flip
        return ReturnStatistics(
            ones=ones,
            groups=np.array(query.groups, dtype=np.int64),
            variance=np.array([largest * flip * (1.0 - flip)]),
            users=np.array([query.users], dtype=np.int64),
        )


def _rounded(chances: Floats, noise: Noise) -> Ints:
    """One bit each, one with this probability; simulation only."""
    if not isinstance(noise, SimulationNoise):
        raise TypeError(f"bits are drawn from SimulationNoise or SecureNoise, got {type(noise).__name__}")
    return np.asarray(noise.generator.random(len(chances)) < chances, dtype=np.int64)
