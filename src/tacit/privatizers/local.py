"""Local trust: every user randomizes on a device of their own; nobody else is trusted (local differential privacy).

Roles: the encoder is the randomizer on the device, the shuffler is the identity, the analyzer adds the messages up.

G1  Each user sends one message, covered by the mechanism's noise over the families of the encoding; users are disjoint.
G2  The message is unbiased for the user's statistics, with the stated noise variance.
G3  Everything the server does is post-processing of the messages.

Mechanisms: `laplace`, `gaussian`, `rr` (randomized response) and `bounded` of [garcelon2021local], and tacit's two
better ones: one random slot of the trajectory with the whole epsilon, in optimized unary encoding (`oue`) or by subset
selection (`subset`).
`paper` uses three families with the printed noise; `tight` the complement encoding with the least noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.certificate import Certificate
from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.events import Events, PureEvent
from tacit.accounting.families import Family
from tacit.data.trajectories import Trajectories, Walked
from tacit.errors import InvalidInput
from tacit.kernels import lean_kernel
from tacit.mechanisms.bounded import Bounded
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.one_slot import OneSlot
from tacit.mechanisms.randomized_response import RandomizedResponse, private_keep
from tacit.mechanisms.subset_selection import SubsetSelection
from tacit.mechanisms.unary_encoding import UnaryEncoding
from tacit.privatizers.certification import certificate_of
from tacit.privatizers.contract import Batch, release_users, require_answer, require_shape
from tacit.privatizers.layout import add_vector, dimension_of
from tacit.privatizers.local_aggregate import LocalMechanism, aggregate_messages
from tacit.privatizers.local_encoders import (
    Bits,
    EncoderParameters,
    additive_encoder,
    bounded_unit,
    gaussian_unit,
    laplace_encoder,
    one_slot_encoder,
    randomized_response_encoder,
)
from tacit.privatizers.local_precision import local_precision
from tacit.privatizers.statistics import Encoding, count_families
from tacit.protocol import Calibration, Kernel, Noise, Private, Totals, copy_state
from tacit.randomness import SimulationNoise
from tacit.released.counts import CountShape, CountStatistics, empty_counts
from tacit.released.precision import SumPrecision

__all__ = ["LOCAL_MECHANISMS", "Local", "LocalState"]

LOCAL_MECHANISMS: Final[Mapping[type, str]] = {
    Laplace: "laplace",
    Gaussian: "gaussian",
    RandomizedResponse: "rr",
    Bounded: "bounded",
    UnaryEncoding: "oue",
    SubsetSelection: "subset",
}

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class LocalState(NamedTuple):
    """The server's memory: the last message and the sum of all."""

    message: Floats
    released: CountStatistics


@cache
def local_kernel(encode: Callable[..., None]) -> Callable[..., None]:
    """The release kernel over one encoder."""

    @lean_kernel
    def release(
        parameters: EncoderParameters, state: LocalState, users: Walked, query: Totals, generator: np.random.Generator
    ) -> None:
        encode(parameters, state.message, users.states, users.actions, users.rewards, generator)
        add_vector(state.released, state.message, parameters.complement, users.actions.shape[0])
        for family in range(3):
            state.released.variance[family] += parameters.variance[family]
        state.released.users[0] += 1

    return release


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """Randomizers on the users' devices, sums on the server."""

    shape: CountShape
    claim: PrivacyClaim
    calibration: Calibration
    encoding: Encoding
    mechanism: LocalMechanism
    """The noise of rewards, visits and complements."""
    transition_mechanism: LocalMechanism
    """The noise of transitions: of the same kind, possibly of another size."""

    answers = Totals

    def __post_init__(self) -> None:
        if self.claim.trust != "local":
            raise InvalidInput(f"Local needs a claim with trust 'local', got {self.claim.trust!r}")
        if type(self.mechanism) is not type(self.transition_mechanism):
            raise InvalidInput("all families must use the same kind of noise")
        if isinstance(self.mechanism, OneSlot) and self.encoding != "complement":
            raise InvalidInput("sending one slot needs the complement encoding, where a slot is one-hot")
        if isinstance(self.mechanism, RandomizedResponse) and self.encoding == "squares":
            raise InvalidInput("randomized response rounds rewards to 0 or 1, their own squares; release no squares")

    @property
    def name(self) -> str:
        """For tables."""
        return f"local/{LOCAL_MECHANISMS[type(self.mechanism)]}"

    @property
    def slots(self) -> int:
        """How many one-hot vectors a trajectory is made of in the complement encoding."""
        return 2 * self.shape.horizon - 1

    @property
    def encoder(self) -> Callable[..., None]:
        """The device's kernel: `(parameters, message, states, actions, rewards, generator)`."""
        if isinstance(self.mechanism, RandomizedResponse):
            return randomized_response_encoder
        if isinstance(self.mechanism, OneSlot):
            return one_slot_encoder
        if isinstance(self.mechanism, Laplace):
            return laplace_encoder
        return additive_encoder(gaussian_unit if isinstance(self.mechanism, Gaussian) else bounded_unit)

    @property
    def kernel(self) -> Kernel:
        """The kernel that takes in one user."""
        return local_kernel(self.encoder)

    @property
    def parameters(self) -> EncoderParameters:
        """Public parameters of the encoder."""
        variance = self._variances(sampling=True)
        return EncoderParameters(
            stages=self.shape.stages,
            S=self.shape.num_states,
            A=self.shape.num_actions,
            complement=self.encoding == "complement",
            scale=_scale_of(self.mechanism),
            transition_scale=_scale_of(self.transition_mechanism),
            outcome_bits=_bits_of(self.mechanism),
            transition_bits=_bits_of(self.transition_mechanism),
            variance=np.array([variance["transitions"], variance["visits"], variance["rewards"]]),
        )

    def families(self) -> tuple[Family, ...]:
        """What one user can change."""
        return count_families(self.shape, self.encoding)

    def events(self) -> Events:
        """The exposure of one user."""
        if isinstance(self.mechanism, OneSlot):
            return ((PureEvent(epsilon=self.mechanism.epsilon), 1),)  # one slot in all, whatever the families
        exposed: Events = ()
        for family in self.families():
            covered = self.transition_mechanism if family.name == "transitions" else self.mechanism
            exposed += covered.events(family)
        return exposed

    def noise_std(self) -> dict[str, float]:
        """The standard deviation that one user's noise adds to a counter (one-slot: its sampling variance on top)."""
        return {name: value**0.5 for name, value in self._variances(sampling=False).items()}

    def _variances(self, *, sampling: bool) -> dict[str, float]:
        steps = 1 if self.shape.staged else self.shape.horizon
        if isinstance(self.mechanism, OneSlot) and isinstance(self.transition_mechanism, OneSlot):
            one, two = self.mechanism, self.transition_mechanism
            outcome = one.variance if sampling else one.noise_variance
            moved = two.variance if sampling else two.noise_variance
        else:
            outcome, moved = self.mechanism.variance, self.transition_mechanism.variance
            if isinstance(self.mechanism, RandomizedResponse):  # one noisy bit per step
                outcome, moved = outcome * steps, moved * max(1, steps - 1)
        visits = outcome * (1 + (self.encoding == "complement"))
        found = {"transitions": moved if self.shape.horizon > 1 else 0.0, "visits": visits, "rewards": outcome}
        return found | {"squares": outcome} if self.encoding == "squares" else found

    def precision(self) -> SumPrecision:
        """How far the noise of a sum over users can go: the c_{k,1..4} of [garcelon2021local] Assumption 3."""
        return local_precision(self.mechanism, self.transition_mechanism, self.encoding, self.shape)

    def certificate(self) -> Certificate:
        """What the exact accountant finds."""
        pure = isinstance(self.mechanism, Laplace | RandomizedResponse)
        delta = "" if pure else f" at delta {self.claim.delta:g}"
        printed = f"epsilon {self.claim.epsilon:g}-LDP{delta}, {self.name} noise"
        paper = printed if self.calibration == "paper" else None
        return certificate_of(self, noise=LOCAL_MECHANISMS[type(self.mechanism)], paper_says=paper)

    @property
    def dimension(self) -> int:
        """How many counters a message has."""
        return dimension_of(self.shape, squares=self.encoding == "squares")

    def begin(self) -> LocalState:
        """Nobody came yet."""
        return LocalState(message=np.zeros(self.dimension), released=empty_counts(self.shape))

    def encode(self, batch: Trajectories, noise: Noise) -> NDArray[np.float64]:
        """The device's side: one message per user, [users, counters]."""
        if not isinstance(noise, SimulationNoise):
            raise TypeError(
                "this encoder simulates devices and takes SimulationNoise; "
                f"real ones draw integers from tacit.mechanisms.exact, got {type(noise).__name__}"
            )
        users = require_shape(batch, self.shape)
        messages = np.zeros((len(users), self.dimension))
        encode, parameters = self.encoder, self.parameters
        for message, states, actions, rewards in zip(messages, users.states, users.actions, users.rewards, strict=True):
            encode(parameters, message, states, actions, rewards, noise.generator)
        return messages

    def analyze(self, state: LocalState, messages: NDArray[np.float64]) -> tuple[LocalState, CountStatistics]:
        """The server's side: add messages up."""
        released = copy_state(state.released)
        last = state.message.copy()
        for message in messages:
            add_vector(released, message, self.encoding == "complement", self.shape.horizon)
            last[:] = message
        released.variance[:] += len(messages) * self.parameters.variance
        released.users[0] += len(messages)
        return LocalState(message=last, released=released), released

    def release(
        self, state: LocalState, users: Batch, query: Totals, noise: Noise
    ) -> tuple[LocalState, Private[CountStatistics]]:
        """Let every user of a batch send one message; exact counts take the aggregate path."""
        require_answer(self, query)
        if isinstance(users, Trajectories):
            after: LocalState = release_users(self, state, users, query, noise)
            return after, Private(after.released, self.claim)
        if not isinstance(noise, SimulationNoise):
            raise TypeError(f"simulated counts take simulation noise, got {type(noise).__name__}")
        batch = require_shape(users, self.shape)
        vector = aggregate_messages(self.mechanism, self.transition_mechanism, self.encoding, self.shape, batch, noise)
        released = copy_state(state.released)
        add_vector(released, vector, self.encoding == "complement", self.shape.horizon)
        released.variance[:] += batch.users * self.parameters.variance
        released.users[0] += batch.users
        return LocalState(message=state.message.copy(), released=released), Private(released, self.claim)


def _bits_of(mechanism: LocalMechanism) -> Bits:
    """How the bits of a one-hot vector are sent; bits as they are where noise is added instead."""
    if isinstance(mechanism, RandomizedResponse):
        return Bits(keep=private_keep(mechanism.flip), rise=mechanism.flip, gain=mechanism.gain, subset=0)
    if isinstance(mechanism, SubsetSelection):
        return Bits(keep=mechanism.sampled_keep, rise=mechanism.rise, gain=mechanism.gain, subset=mechanism.size)
    if isinstance(mechanism, OneSlot):
        return Bits(keep=mechanism.keep, rise=mechanism.rise, gain=mechanism.gain, subset=0)
    return Bits(keep=1.0, rise=0.0, gain=1.0, subset=0)


def _scale_of(mechanism: LocalMechanism) -> float:
    """What multiplies the unit noise of an additive encoder."""
    if isinstance(mechanism, Laplace):
        return mechanism.scale
    if isinstance(mechanism, Gaussian):
        return mechanism.sigma
    return mechanism.limit if isinstance(mechanism, Bounded) else 0.0
