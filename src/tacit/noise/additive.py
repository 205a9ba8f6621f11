"""Additive noise on a device: independent draws of one law in every counter of a message.

A mechanism becomes a `Randomizer` by deriving from `Additive`: it states its law (`variance`, `sample`, `radius`,
`events`, `log_ratio`), its calibration (`calibrate`, `paper`), `parameters` and `encoder` of the device, `subgamma`
for the precision of sums, `summed` for the aggregate of a batch and `integers` for deployments. The rest follows and is
here. Integer noise (`discrete`) covers whole counts, so rewards are rounded to {0, 1} on the device first.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from typing import ClassVar, NamedTuple, Self

import numpy as np

from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.arrays import Floats, Ints
from tacit.kernels import lean_kernel
from tacit.noise.layout import exact_vector, flattened, rounded_rewards, rounded_vector, slot_counts
from tacit.noise.protocol import Counts, EncoderParameters, Encoding, Shape
from tacit.noise.support_index import places_of, taken
from tacit.randomness import SecureNoise, SimulationNoise


class Amount(NamedTuple):
    """What an additive encoder needs to know."""

    scale: float
    """What multiplies the unit noise."""


@cache
def additive_encoder(unit: Callable[[np.random.Generator], float]) -> Callable[..., None]:
    """The encoder that adds independent noise, `scale` times `unit`, to every counter."""

    @lean_kernel
    def encode(
        parameters: EncoderParameters,
        message: Floats,
        states: Ints,
        actions: Ints,
        rewards: Floats,
        generator: np.random.Generator,
    ) -> None:
        first, size = parameters.places.num_moves, message.shape[0]
        for c in range(first):
            message[c] = parameters.transition.scale * unit(generator)
        for c in range(first, size):
            message[c] = parameters.outcome.scale * unit(generator)
        sizes = parameters.stages, parameters.S, parameters.A
        exact_vector(parameters.places, message, *sizes, parameters.complement, states, actions, rewards)

    return encode


@cache
def lattice_encoder(draw: Callable[[float, np.random.Generator], float]) -> Callable[..., None]:
    """The encoder that rounds rewards and adds independent integers, `draw(scale, generator)`, to every counter."""

    @lean_kernel
    def encode(
        parameters: EncoderParameters,
        message: Floats,
        states: Ints,
        actions: Ints,
        rewards: Floats,
        generator: np.random.Generator,
    ) -> None:
        first = parameters.places.num_moves
        for c in range(message.shape[0]):
            message[c] = draw(parameters.transition.scale if c < first else parameters.outcome.scale, generator)
        rounded_vector(parameters, message, states, actions, rewards, generator)

    return encode


class WholeMessage(ABC):
    """A randomizer that covers every counter of every family: counts are users, and all of the variance is noise."""

    __slots__ = ()

    sampling_variance: ClassVar[float] = 0.0
    weight: ClassVar[float] = 1.0
    noise_share: ClassVar[float] = 1.0
    unit: ClassVar[float] = 1.0

    @classmethod
    @abstractmethod
    def calibrate(cls, families: Sequence[Family], epsilon: float, delta: float) -> Self:
        """The least common noise under which these families together are (epsilon, delta)-private."""

    @abstractmethod
    def events(self, family: Family) -> Events:
        """What the release of this family exposes one user to."""

    @abstractmethod
    def user_variance(self, steps: int) -> float:
        """The noise variance that one user adds to a counter which collects `steps` steps."""

    def exposure(self, transition: Self, families: Sequence[Family]) -> Events:
        """Every counter of every family is covered."""
        return tuple(
            event
            for family in families
            for event in (transition if family.name == "transitions" else self).events(family)
        )

    def typical_variance(self, pairs: int, steps: int) -> float:
        """The same wherever users are."""
        del pairs
        return self.user_variance(steps)

    @classmethod
    def tight(cls, shape: Shape, families: Sequence[Family], epsilon: float, delta: float) -> tuple[Self, Self]:
        """The same noise for all counters."""
        del shape
        chosen = cls.calibrate(families, epsilon, delta)
        return chosen, chosen


class Additive(WholeMessage):
    """Independent centred noise, whatever the counts are."""

    __slots__ = ()

    ENCODINGS: ClassVar[tuple[Encoding, ...]] = ("families", "complement", "squares")
    COUPLED: ClassVar[bool] = False

    @property
    @abstractmethod
    def variance(self) -> float:
        """The variance of the noise in one counter."""

    @property
    @abstractmethod
    def parameters(self) -> Amount:
        """What the encoder needs."""

    @property
    @abstractmethod
    def subgamma(self) -> float:
        """The sub-gamma scale of the noise in one counter: ln E exp(λX) ≤ λ² variance / (2 (1 - subgamma λ))."""

    @property
    @abstractmethod
    def whole(self) -> bool:
        """Whether the noise is integers, so that rewards must be rounded."""

    @abstractmethod
    def log_ratio(self, values: Floats, shift: Floats | float) -> Floats:
        """The log ratio ln p(v - shift) - ln p(v) of centred noise; ±∞ where only one of the two can have happened."""

    @abstractmethod
    def summed(self, size: int, users: int, noise: SimulationNoise) -> Floats:
        """The sum of `users` independent noises in each of `size` counters."""

    @abstractmethod
    def integers(self, size: int, noise: SecureNoise) -> Ints:
        """Exact noise from the operating system, or `NotSupported`."""

    @property
    def std(self) -> float:
        """The standard deviation of the noise in one counter."""
        return math.sqrt(self.variance)

    def user_variance(self, steps: int) -> float:
        """One noise per counter, however many steps it collects."""
        del steps
        return self.variance

    def sum_noise(self, cells: int, steps: int) -> tuple[float, float]:
        """Independent noises: variances add up, the scale stays."""
        return cells * self.user_variance(steps), self.subgamma

    def total(
        self, transition: Self, encoding: Encoding, shape: Shape, counts: Counts, noise: SimulationNoise
    ) -> Floats:
        """Exact sums plus the sum of everybody's noise."""
        rewards = rounded_rewards(counts, noise.generator) if self.whole else counts.rewards
        blocks = flattened(shape, slot_counts(encoding, counts, rewards))
        if encoding == "squares":
            # All visits of a cell earn the same reward, whose squares add up to R²/N, or 0 and 1.
            squares = rewards if counts.binary or self.whole else rewards**2 / np.maximum(counts.visits, 1)
            blocks = np.concatenate([blocks, (squares if shape.staged else squares.sum(axis=0)).ravel()])
        blocks = taken(shape, encoding, blocks)
        first = places_of(shape).num_moves
        blocks[:first] += transition.summed(first, counts.users, noise)
        blocks[first:] += self.summed(len(blocks) - first, counts.users, noise)
        return blocks

    def quiet(self) -> Self:
        """The noise does not depend on the data."""
        return self

    def likelihood_ratio(self, values: Floats, before: Floats, after: Floats) -> Floats:
        """That of the noise."""
        return self.log_ratio(values - before, after - before)
