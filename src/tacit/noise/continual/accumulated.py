"""Accumulated noise: every step of a stream has its own fresh noise, and a prefix carries the noise of all its steps.

It is the factorization A = A I: one user is covered by one single noise, at the price that the noise of prefix k grows
with k. Few steps make it good: when a step is a whole batch of users and the policy changes rarely, B batches cost
√B times the noise of one release, where a counter after every one of K users costs ~ (1 + ln(K)/π) times that noise.

G1  Exposure: one differing counter is covered by exactly one noise, the one of the user's own step, under adaptive use
    (Lemma C7 (accumulated noise)).
G2  Error: prefix k carries k independent noises: variance k times that of one step.
G3  Radius: a released prefix leaves ±radius(p) with probability at most p.
G4  Calibration: `calibrate` is private for the target it was given, and 0.1% less noise is not. Gaussian noise for
    delta > 0, Laplace noise for delta = 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np
import scipy

from tacit.accounting.calibrate import least_noise
from tacit.accounting.events import Events, GaussianEvent, LaplaceEvent
from tacit.accounting.events.gaussian import gaussian_mu
from tacit.accounting.families import Family
from tacit.accounting.units import in_stages
from tacit.arrays import Floats, Ints
from tacit.errors import PrivacyBudgetExceeded, require_count, require_real
from tacit.kernels import kernel
from tacit.noise.continual.counter import Prefixes, require_prefix
from tacit.noise.laplace import laplace_draw, laplace_radius
from tacit.noise.protocol import require_failure_prob

_ROUNDING = 1e-12  # special functions are right to about 1e-15; radii are rounded up by this much


class AccumulatedParams(NamedTuple):
    """What the kernels need: all public."""

    releases: int
    scale: float
    pure: bool


class AccumulatedState(NamedTuple):
    """The noise of d counters."""

    time: Ints  # [1], steps so far
    draws: Floats  # [1, d], fresh noise of this step
    noise: Floats  # [d], noise of the current prefix


@kernel
def accumulated_advance(params: AccumulatedParams, state: AccumulatedState, draws: Floats) -> None:
    """One more step: draws[0] is its fresh noise."""
    if state.time[0] >= params.releases:
        raise PrivacyBudgetExceeded("all releases of this counter are spent; calibrate one with more steps")
    state.time[0] += 1
    for c in range(state.noise.shape[0]):
        # noise_k = noise_{k-1} + z_k
        state.noise[c] += draws[0, c]


@kernel
def accumulated_step(params: AccumulatedParams, state: AccumulatedState, generator: np.random.Generator) -> None:
    """One more step with fresh noise from a seeded generator."""
    for c in range(state.noise.shape[0]):
        unit = laplace_draw(generator) if params.pure else generator.standard_normal()
        state.draws[0, c] = params.scale * unit
    accumulated_advance(params, state, state.draws)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccumulatedNoise(Prefixes):
    """Fresh noise of one scale in every step: Laplace noise if `pure`, else Gaussian.

    >>> one = [Family(name="count", up=1, down=0, shift=1.0)]
    >>> counter = AccumulatedNoise.calibrate(one, 1.0, 1e-6, 9)
    >>> round(counter.std_at(1), 2), round(counter.max_std, 2)
    (4.22, 12.67)
    """

    steps: int
    scale: float
    pure: bool

    NAME: ClassVar[str] = "accumulated"
    SUMMARY: ClassVar[str] = "fresh noise in every batch, Laplace if pure and else Gaussian"
    PURE: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_count("steps", self.steps)
        require_real("scale", self.scale, low=0.0, open_low=True)

    @classmethod
    def for_releases(cls, families: Sequence[Family], epsilon: float, delta: float, releases: int) -> Self:
        """The counter with the least noise that publishes prefixes 1..releases."""
        return cls.calibrate(families, epsilon, delta, releases)

    @classmethod
    def calibrate(cls, families: Sequence[Family], epsilon: float, delta: float, steps: int) -> Self:
        """The least common noise for all `families` together (G4); it does not depend on the number of steps."""
        pure = delta == 0.0
        if pure:
            # ε = Σ_f Δ₁(f) / b
            enough = sum(family.l1 for family in families) / require_real("epsilon", epsilon, low=0.0, open_low=True)
        else:
            # σ = Δ₂ / μ(ε, δ)
            enough = math.sqrt(sum(family.l2_squared for family in families)) / gaussian_mu(epsilon, delta)

        return least_noise(
            lambda scale: cls(steps=steps, scale=scale, pure=pure),
            families,
            epsilon=epsilon,
            delta=delta,
            enough=enough,
        )

    @property
    def subgamma(self) -> float:
        """That of one noise: b for Laplace noise, 0 for Gaussian noise."""
        return self.scale if self.pure else 0.0

    @property
    def releases(self) -> int:
        """How many prefixes may be released: 1..releases."""
        return self.steps

    @property
    def params(self) -> AccumulatedParams:
        """The parameters of the kernels."""
        return AccumulatedParams(self.steps, float(self.scale), self.pure)

    step = staticmethod(accumulated_step)
    advance = staticmethod(accumulated_advance)

    def begin(self, dimension: int) -> AccumulatedState:
        """The stream before the first step, for `dimension` counters."""
        size = require_count("dimension", dimension)
        return AccumulatedState(time=np.zeros(1, dtype=np.int64), draws=np.zeros((1, size)), noise=np.zeros(size))

    def draws_at(self, k: int) -> int:
        """How many fresh noise vectors step k consumes: one."""
        require_count("prefix", k)
        return 1

    def variance_at(self, k: int) -> float:
        """The noise variance of prefix k (G2)."""
        return require_prefix(k, self.steps) * (2.0 if self.pure else 1.0) * self.scale**2

    @property
    def max_std(self) -> float:
        """The largest standard deviation of any released prefix: that of the last."""
        return self.std_at(self.steps)

    def radius(self, failure_prob: float, terms: int = 1) -> float:
        """A bound that the sum of `terms` independent last prefixes exceeds with at most `failure_prob` (G3)."""
        noises = self.steps * require_count("terms", terms)
        p = require_failure_prob(failure_prob)
        if self.pure:
            return laplace_radius(noises, p, scale=self.scale, discrete=False)
        return -self.scale * math.sqrt(noises) * float(scipy.special.ndtri(p / 2)) * (1 + _ROUNDING)

    def events(self, family: Family) -> Events:
        """What one user is exposed to: one noise for every differing counter (G1)."""
        if self.pure:
            return ((LaplaceEvent(scale=self.scale, shift=family.shift, discrete=False), family.differing),)
        return ((GaussianEvent(sigma=self.scale, shift=family.shift), family.differing),)

    def person_events(self, families: Sequence[Family], reports: int) -> Events:
        """What a person with several reports is exposed to: the fresh noise of each step, which compose."""
        one = tuple(event for family in families for event in self.events(family))
        return in_stages(one, min(reports, self.steps))
