"""Counts under local trust: every user randomizes on a device of their own, and trusts no other party.

Roles: the encoder is the randomizer on the device, the shuffler is the identity, the analyzer adds the messages up.

G1  Each user sends one message, covered by the randomizer's noise over the families of the encoding; users are
    disjoint. A person who is several users sends that many messages, which compose (Lemma P14 (several stages)).
G2  The message is unbiased for the user's statistics, with the stated noise variance.
G3  Everything the server does is post-processing of the messages.

`Local` is the plan of such messages, and their simulation: it draws continuous noise where a device would draw whole
numbers, unless it was made for devices, and the messages of many users at once. The stages that `release_of` makes
(`local_release`) send the same messages as bytes.
`paper` uses three families with the printed noise; `tight` the complement encoding with the least noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from tacit.accounting.certificate import Certificate, CertifiedFamily
from tacit.accounting.events import Events
from tacit.accounting.units import in_stages
from tacit.arrays import Floats
from tacit.data.trajectories import Trajectories, Walked
from tacit.errors import require
from tacit.kernels import lean_kernel
from tacit.noise.protocol import EncoderParameters
from tacit.noise.support_index import places_of
from tacit.protocol import Calibration, Kernel, Noise, PrivateStatistics, Totals
from tacit.randomness import SimulationNoise
from tacit.release.contract import StageSize
from tacit.release.counts_contract import (
    Batch,
    certificate_of,
    certified_families,
    release_users,
    require_answer,
    require_shape,
)
from tacit.release.local_release import LocalRelease, Messages
from tacit.release.stage import StagePlan
from tacit.released.counts import CountStatistics, empty_counts
from tacit.released.precision import CELL, REWARD, ROW, VISIT, CountPrecision, Sampling, SumPrecision
from tacit.statistics.count_vectors import add_vector


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
        add_vector(state.released, state.message, parameters.places, parameters.complement)
        for family in range(3):
            state.released.variance[family] += parameters.variance[family]
        state.released.users[0] += 1

    return release


@dataclass(frozen=True, slots=True, kw_only=True)
class Local(Messages, StagePlan):
    """Randomizers on the users' devices, sums on the server: what learners are told, the simulation and the stages."""

    calibration: Calibration

    answers = Totals

    @property
    def encoder(self) -> Callable[..., None]:
        """The device's kernel: `(parameters, message, states, actions, rewards, generator)`."""
        return self.outcome.encoder

    @property
    def kernel(self) -> Kernel:
        """The kernel that takes in one user."""
        return local_kernel(self.encoder)

    @property
    def parameters(self) -> EncoderParameters:
        """Public parameters of the encoder."""
        return EncoderParameters(
            stages=self.shape.stages,
            S=self.shape.num_states,
            A=self.shape.num_actions,
            complement=self.encoding == "complement",
            outcome=self.outcome.parameters,
            transition=self.transition.parameters,
            variance=self.variance,
            places=places_of(self.shape),
        )

    def release_of(self, stage: StageSize) -> LocalRelease:
        """One stage: the same noise in all of them."""
        require(isinstance(stage.query, Totals), "local messages are added up to running totals", stage.query)
        return LocalRelease(
            shape=self.shape,
            claim=self.claim,
            encoding=self.encoding,
            outcome=self.outcome,
            transition=self.transition,
            target=stage.target,
            least=stage.least,
        )

    def events(self) -> Events:
        """The exposure of one person: every report is one message, with noise of its own (G1)."""
        return in_stages(self.outcome.exposure(self.transition, self.families()), self.claim.unit.reports)

    def precision(self) -> SumPrecision:
        """How far the noise of a sum over users can go: the c_{k,1..4} of [garcelon2021local] Assumption 3."""
        (outcome, moved), (steps, hops) = (self.outcome, self.transition), self._steps
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
        outcome, moved = self.outcome, self.transition
        share = np.array([moved.noise_share, outcome.noise_share, outcome.noise_share])
        return Sampling(weight=max(outcome.weight, moved.weight), noise_share=share)

    def certificate(self) -> Certificate:
        """What the exact accountant finds."""
        delta = "" if self.outcome.PURE else f" at delta {self.claim.delta:g}"
        printed = f"epsilon {self.claim.epsilon:g}-LDP{delta}, {self.name} noise"
        paper = printed if self.calibration == "paper" else None
        return certificate_of(self, noise=self.outcome.NAME, std=self.noise_std(), paper_says=paper, several=True)

    def certified_families(self) -> tuple[CertifiedFamily, ...]:
        """The families of the certificate, without its accounting."""
        return certified_families(self, noise=self.outcome.NAME, std=self.noise_std())

    def begin(self) -> LocalState:
        """Before the first user."""
        return LocalState(message=np.zeros(self.dimension), released=empty_counts(self.shape))

    def release(
        self, state: LocalState, users: Batch, query: Totals, noise: Noise
    ) -> tuple[LocalState, PrivateStatistics[CountStatistics]]:
        """Let every user of a batch send one message; exact counts take the aggregate path."""
        require_answer(self, query)
        if isinstance(users, Trajectories):
            after: LocalState = release_users(self, state, users, query, noise)
            return after, PrivateStatistics(after.released, self.claim)
        if not isinstance(noise, SimulationNoise):
            raise TypeError(f"simulated counts take simulation noise, got {type(noise).__name__}")
        batch = require_shape(users, self.shape)
        vector = self.outcome.total(self.transition, self.encoding, self.shape, batch, noise)
        released = self.totals(state.released, vector, batch.users)
        return LocalState(message=state.message.copy(), released=released), PrivateStatistics(released, self.claim)
