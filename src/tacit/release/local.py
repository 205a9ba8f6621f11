"""Local trust: every user randomizes on a device of their own; nobody else is trusted (local differential privacy).

Roles: the encoder is the randomizer on the device, the shuffler is the identity, the analyzer adds the messages up.

G1  Each user sends one message, covered by the mechanism's noise over the families of the encoding; users are disjoint.
    A person who is several users sends that many messages, which compose (Lemma P14 (several stages)).
G2  The message is unbiased for the user's statistics, with the stated noise variance.
G3  Everything the server does is post-processing of the messages.

`Local` knows no mechanism: everything about a noise is behind the `Randomizer` protocol, which has no defaults.
`paper` uses three families with the printed noise; `tight` the complement encoding with the least noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.certificate import Certificate, CertifiedFamily
from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.accounting.units import in_stages
from tacit.data.trajectories import Trajectories, Walked
from tacit.errors import InvalidInput, require
from tacit.kernels import lean_kernel
from tacit.noise.places import places_of, slots_of
from tacit.noise.protocol import EncoderParameters, Randomizer, require_randomizer
from tacit.protocol import Calibration, Kernel, Noise, Private, Totals, copy_state
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.release.counts_contract import (
    Batch,
    certificate_of,
    certified_families,
    release_users,
    require_answer,
    require_placed,
    require_shape,
)
from tacit.released.counts import CountShape, CountStatistics, empty_counts
from tacit.released.precision import CELL, REWARD, ROW, VISIT, CountPrecision, Sampling, SumPrecision
from tacit.statistics.count_vectors import Encoding, add_placed, add_vector, count_families, dimension_of

__all__ = ["Local", "LocalState"]

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
        if parameters.places.declared:
            add_placed(state.released, state.message, parameters.places, parameters.complement)
        else:
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
    mechanism: Randomizer
    """The noise of rewards, visits and complements."""
    transition_mechanism: Randomizer
    """The noise of transitions: of the same kind, possibly of another size."""

    answers = Totals

    def __post_init__(self) -> None:
        if self.claim.trust != "local":
            raise InvalidInput(f"Local needs a claim with trust 'local', got {self.claim.trust!r}")
        require_placed(self.shape, self.encoding)
        require_randomizer(self.mechanism)
        if type(self.mechanism) is not type(self.transition_mechanism):
            raise InvalidInput("all families must use the same kind of noise")
        kind, able = self.mechanism, " or ".join(self.mechanism.ENCODINGS)
        must = f"{kind.NAME} ({kind.SUMMARY}) needs the encoding {able}"
        require(self.encoding in kind.ENCODINGS, must, self.encoding, "choose another mechanism or encoding")

    @property
    def name(self) -> str:
        """For tables."""
        return f"local/{self.mechanism.NAME}"

    @property
    def slots(self) -> int:
        """How many one-hot vectors a trajectory is made of in the complement encoding."""
        return len(slots_of(self.shape))

    @property
    def encoder(self) -> Callable[..., None]:
        """The device's kernel: `(parameters, message, states, actions, rewards, generator)`."""
        return self.mechanism.encoder

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
            outcome=self.mechanism.parameters,
            transition=self.transition_mechanism.parameters,
            variance=np.array([variance["transitions"], variance["visits"], variance["rewards"]]),
            places=places_of(self.shape),
        )

    def families(self) -> tuple[Family, ...]:
        """What one user can change."""
        return count_families(self.shape, self.encoding)

    def events(self) -> Events:
        """The exposure of one person: every report is one message, with noise of its own (G1)."""
        return in_stages(self.mechanism.exposure(self.transition_mechanism, self.families()), self.claim.unit.reports)

    def noise_std(self) -> dict[str, float]:
        """The standard deviation that one user's noise adds to a counter (one-slot: its sampling variance on top)."""
        return {name: value**0.5 for name, value in self._variances(sampling=False).items()}

    @property
    def _steps(self) -> tuple[int, int]:
        """How many steps feed a counter of outcomes and of transitions."""
        steps = 1 if self.shape.staged else self.shape.horizon
        return steps, max(1, steps - 1)

    def _variances(self, *, sampling: bool) -> dict[str, float]:
        both = zip((self.mechanism, self.transition_mechanism), self._steps, strict=True)
        outcome, moved = (
            one.user_variance(steps) + (one.sampling_variance if sampling else 0.0) for one, steps in both
        )
        visits = outcome * (1 + (self.encoding == "complement"))
        moved = visits if places_of(self.shape).all_sure else moved
        found = {"transitions": moved if self.shape.horizon > 1 else 0.0, "visits": visits, "rewards": outcome}
        return found | {"squares": outcome} if self.encoding == "squares" else found

    def precision(self) -> SumPrecision:
        """How far the noise of a sum over users can go: the c_{k,1..4} of [garcelon2021local] Assumption 3."""
        (outcome, moved), (steps, hops) = (self.mechanism, self.transition_mechanism), self._steps
        summed = 2 if self.encoding == "complement" else 1  # counters that add up to N(s,a)
        each = [outcome.sum_noise(cells, steps) for cells in (1, summed)]
        support = self.shape.support
        successors = self.shape.num_states if support is None else support.most_successors
        each += [moved.sum_noise(cells, hops) for cells in (successors, 1)]
        variance, scale = np.array(each).T
        if len(places_of(self.shape).sure_row):
            # The transitions of a sure row are its visits.
            for place in (ROW, CELL):
                variance[place], scale[place] = (max(part[place], part[VISIT]) for part in (variance, scale))
        return SumPrecision(variance=variance.copy(), scale=scale.copy())

    def count_precision(self) -> CountPrecision:
        """The sub-gamma scales of the noise in transitions, visits and rewards."""
        scale = self.precision().scale
        return CountPrecision(scale=np.array([scale[CELL], scale[VISIT], scale[REWARD]]))

    def sampling(self) -> Sampling:
        """What it costs if users send a part of their trajectory only."""
        outcome, moved = self.mechanism, self.transition_mechanism
        share = np.array([moved.noise_share, outcome.noise_share, outcome.noise_share])
        return Sampling(weight=max(outcome.weight, moved.weight), noise_share=share)

    def certificate(self) -> Certificate:
        """What the exact accountant finds."""
        delta = "" if self.mechanism.PURE else f" at delta {self.claim.delta:g}"
        printed = f"epsilon {self.claim.epsilon:g}-LDP{delta}, {self.name} noise"
        paper = printed if self.calibration == "paper" else None
        return certificate_of(self, noise=self.mechanism.NAME, std=self.noise_std(), paper_says=paper, several=True)

    def certified_families(self) -> tuple[CertifiedFamily, ...]:
        """The families of the certificate, without its accounting."""
        return certified_families(self, noise=self.mechanism.NAME, std=self.noise_std())

    @property
    def dimension(self) -> int:
        """How many counters a message has."""
        return dimension_of(self.shape, squares=self.encoding == "squares")

    def begin(self) -> LocalState:
        """Nobody came yet."""
        return LocalState(message=np.zeros(self._room), released=empty_counts(self.shape))

    @property
    def _room(self) -> int:
        """The counters of a message, and scratch space for the categories of one slot of a declared support."""
        places = places_of(self.shape)
        return self.dimension + max(places.moved, places.outcomes)

    def encode(self, batch: Trajectories, noise: Noise) -> NDArray[np.float64]:
        """The device's side: one message per user, [users, counters]."""
        if not isinstance(noise, SimulationNoise):
            raise TypeError(
                "this encoder simulates devices and takes SimulationNoise; "
                f"real ones send integers (`device`), got {type(noise).__name__}"
            )
        users = require_shape(batch, self.shape)
        messages = np.zeros((len(users), self._room))
        encode, parameters = self.encoder, self.parameters
        for message, states, actions, rewards in zip(messages, users.states, users.actions, users.rewards, strict=True):
            encode(parameters, message, states, actions, rewards, noise.generator)
        return messages[:, : self.dimension]

    def device(self, states: Ints, actions: Ints, rewards: Floats, noise: SecureNoise) -> Ints:
        """What the device of one user sends in a deployment: integers from the operating system's randomness."""
        one = require_shape(Trajectories(states[np.newaxis], actions[np.newaxis], rewards[np.newaxis]), self.shape)
        user = (one.states[0], one.actions[0], one.rewards[0])
        return self.mechanism.secure(self.transition_mechanism, self.encoding, self.shape, user, noise)

    def read(self, sent: Ints) -> Floats:
        """The message that those integers stand for, ready for `analyze`."""
        return self.mechanism.read(self.transition_mechanism, self.encoding, self.shape, sent)

    def analyze(self, state: LocalState, messages: NDArray[np.float64]) -> tuple[LocalState, CountStatistics]:
        """The server's side: add messages up."""
        released = copy_state(state.released)
        last = state.message.copy()
        for message in messages:
            self._add(released, message)
            last[: self.dimension] = message
        released.variance[:] += len(messages) * self.parameters.variance
        released.users[0] += len(messages)
        return LocalState(message=last, released=released), released

    def _add(self, released: CountStatistics, vector: Floats) -> None:
        """Add a message, or a sum of messages, to the totals."""
        if self.shape.support is not None:
            add_placed(released, vector, places_of(self.shape), self.encoding == "complement")
        else:
            add_vector(released, vector, self.encoding == "complement", self.shape.horizon)

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
        vector = self.mechanism.total(self.transition_mechanism, self.encoding, self.shape, batch, noise)
        released = copy_state(state.released)
        self._add(released, vector)
        released.variance[:] += batch.users * self.parameters.variance
        released.users[0] += batch.users
        return LocalState(message=state.message.copy(), released=released), Private(released, self.claim)
