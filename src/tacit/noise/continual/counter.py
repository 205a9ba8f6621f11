"""Continual counters: what the tree, the k-ary tree and the factorization have in common.

Users arrive one at a time; after user k the counter publishes the noisy sum of users 1..k. The noise never depends on
the data, so a stream produces the noise alone and the true sums are added outside. A stream is a `NamedTuple` of
arrays whose size does not depend on the number of steps, moved by two kernels:

    advance(params, state, draws)       from fresh noise vectors handed in, `draws_at(k)` of them for step k
    step(params, state, generator)      the same, with the vectors drawn from a seeded generator

Both write the noise of the current prefix into `state.noise` and refuse to go past the last release that was paid for.
Counters simulate: their noise is in floating point. Stages of totals that a curator releases for real have whole-number
noise of their own (`tacit.release.curator`).

Sharing one budget between families, `allocate_laplace` and `allocate_gaussian`: minimise Σ_f w_f · (variance of f)
when all are released to the same people. Pure privacy adds up D1_f · n_f / b_f over the families (n_f Laplace noises
per counter), Gaussian privacy adds up D2_f / σ_f²; in both cases the optimum is a line of Lagrange's algebra: Lemma C8
(allocation).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np

from tacit.accounting.composition import pure_epsilon_of
from tacit.accounting.events import Events, PureEvent
from tacit.accounting.events.gaussian import gaussian_mu
from tacit.accounting.families import Family
from tacit.arrays import Floats
from tacit.errors import NotSupported, require, require_count, require_real
from tacit.noise.laplace import laplace_radius
from tacit.noise.protocol import require_simulation
from tacit.randomness import SimulationNoise


class ContinualCounter(Protocol):
    """A frozen description of a continual counter; every field is public and every member is required."""

    NAME: ClassVar[str]
    """For tables."""
    SUMMARY: ClassVar[str]
    """One line for `tacit list mechanisms`."""
    PURE: ClassVar[bool]
    """Whether it can give pure differential privacy (delta = 0)."""

    @classmethod
    def for_releases(cls, families: Sequence[Family], epsilon: float, delta: float, releases: int) -> Self:
        """The least common noise for all `families` together when prefixes 1..releases are published."""

    @property
    def subgamma(self) -> float:
        """The sub-gamma scale of every prefix's noise: 0 for Gaussian noise, b for Laplace noise of scale b."""

    @property
    def releases(self) -> int:
        """How many prefixes may be released: 1..releases."""

    @property
    def max_std(self) -> float:
        """The largest standard deviation of any released prefix."""

    @property
    def params(self) -> Any:
        """The parameters that the kernels need, as a `NamedTuple`."""

    @property
    def step(self) -> Callable[[Any, Any, np.random.Generator], None]:
        """The kernel that moves a stream by one user with seeded noise."""

    @property
    def advance(self) -> Callable[[Any, Any, Floats], None]:
        """The kernel that moves a stream by one user with noise handed in."""

    def begin(self, dimension: int) -> Any:
        """The stream before the first user, for this many counters."""

    def draws_at(self, k: int) -> int:
        """How many fresh noise vectors step k consumes."""

    def variance_at(self, k: int) -> float:
        """The noise variance of prefix k."""

    def std_at(self, k: int) -> float:
        """The noise standard deviation of prefix k."""

    def radius(self, failure_prob: float, terms: int = 1) -> float:
        """A bound that the sum of `terms` independent prefixes exceeds with at most `failure_prob`."""

    def events(self, family: Family) -> Events:
        """What one user is exposed to when `family` is counted this way."""


def person_events(counter: Any, families: Sequence[Family], reports: int) -> Events:
    """What a person with so many reports, at most one per step, is exposed to: Lemma C10 (several reports).

    A counter says it in a method `person_events(families, reports)`; one that does not is good for one report only.
    """
    if require_count("reports", reports) == 1:
        return tuple(event for family in families for event in counter.events(family))
    found = getattr(counter, "person_events", None)
    if found is None:
        raise NotSupported(
            f"{type(counter).__name__} does not say what a person with {reports} reports is exposed to (it has no "
            "person_events); choose another mechanism, or one report per person"
        )
    events: Events = found(families, reports)
    return events


def pure_person_events(counter: Any, families: Sequence[Family], reports: int) -> Events:
    """The same for counters of Laplace noise: their pure epsilon, once for each report, and nothing finer."""
    one = tuple(event for family in families for event in counter.events(family))
    return ((PureEvent(epsilon=pure_epsilon_of(one * reports)), 1),)


def sample_path(counter: ContinualCounter, dimension: int, noise: SimulationNoise) -> Floats:
    """The noise of every released prefix, for `dimension` independent counters: shape [releases, dimension]."""
    generator = require_simulation(noise)
    stream, params = counter.begin(require_count("dimension", dimension)), counter.params
    path = np.empty((counter.releases, dimension))
    for row in path:
        counter.step(params, stream, generator)
        row[:] = stream.noise
    return path


def require_prefix(k: int, releases: int) -> int:
    """The number of a prefix that may be released, or an error."""
    require(require_count("prefix", k) <= releases, f"prefix must be at most {releases}", given=k)
    return int(k)


class Prefixes:
    """What every counter derives from its variances."""

    __slots__ = ()

    def variance_at(self, k: int) -> float:
        """The noise variance of prefix k."""
        raise NotImplementedError

    def std_at(self, k: int) -> float:
        """The noise standard deviation of prefix k."""
        return math.sqrt(self.variance_at(k))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A tree over `steps` users; `release_final`: prefix `steps` is released as well."""

    steps: int
    release_final: bool

    def __post_init__(self) -> None:
        require_count("steps", self.steps)

    @property
    def releases(self) -> int:
        """How many prefixes may be released: 1..releases."""
        return self.steps if self.release_final else self.steps - 1

    @classmethod
    def calibrate(
        cls, families: Sequence[Family], epsilon: float, delta: float, steps: int, *, release_final: bool = False
    ) -> Self:
        """The tree with the least common noise for all `families` together."""
        raise NotImplementedError

    @classmethod
    def for_releases(cls, families: Sequence[Family], epsilon: float, delta: float, releases: int) -> Self:
        """The counter with the least noise that publishes prefixes 1..releases."""
        return cls.calibrate(families, epsilon, delta, releases + 1)


class LaplaceNodes(Prefixes):
    """What every tree of independent Laplace noises has in common: `terms_at(k)` nodes of one scale make prefix k."""

    __slots__ = ()

    scale: float

    def terms_at(self, k: int) -> int:
        """How many independent noises prefix k is the (signed) sum of."""
        raise NotImplementedError

    def draws_at(self, k: int) -> int:
        """How many fresh noise vectors step k consumes."""
        raise NotImplementedError

    @property
    def max_terms(self) -> int:
        """The largest number of noises in any released prefix."""
        raise NotImplementedError

    @property
    def subgamma(self) -> float:
        """The scale of one node: independent noises add up to the same scale."""
        return self.scale

    @property
    def node_variance(self) -> float:
        """The variance of one node's noise."""
        return 2.0 * self.scale**2

    def variance_at(self, k: int) -> float:
        """The noise variance of prefix k."""
        return self.terms_at(k) * self.node_variance

    @property
    def max_std(self) -> float:
        """The largest standard deviation of any released prefix."""
        return math.sqrt(self.max_terms * self.node_variance)

    def radius(self, failure_prob: float, terms: int = 1) -> float:
        """A bound that the sum of `terms` independent prefixes exceeds with at most `failure_prob`."""
        noises = self.max_terms * require_count("terms", terms)
        return laplace_radius(noises, failure_prob, scale=self.scale, discrete=False)


# Allocated noise is widened by this much, so that rounding in the last place stays on the private side.
_ROUNDING = 1e-12


class GaussianCounter(Protocol):
    """A continual counter that is as private as one Gaussian noise sigma over shift · sensitivity."""

    @classmethod
    def for_steps(cls, steps: int, sigma: float) -> Self:
        """The counter of this kind for this many steps."""

    @property
    def sensitivity(self) -> float:
        """The shift that a user of sensitivity one causes, rounded up."""


F = TypeVar("F", bound=GaussianCounter)


def allocate_laplace(
    families: Sequence[Family], weights: Sequence[float], epsilon: float, counts: Sequence[int]
) -> tuple[float, ...]:
    """The scales b_f that minimise Σ w_f b_f² under pure `epsilon`, when one user meets `counts[f]` noises per counter.

    For a tree the count is `tree_levels(steps)`, for a single release it is 1.

    >>> count, loss = Family(name="P", up=6, down=6, shift=1.0), Family(name="loss", up=42, down=0, shift=1.0)
    >>> [round(b * math.sqrt(28)) for b in allocate_laplace([count, loss], [1.0, 1.0], 1.0, [14, 14])]
    [2938, 4461]
    """
    require_real("epsilon", epsilon, low=0.0, open_low=True)
    require(len(families) == len(weights) == len(counts), "families, weights and counts must match", len(weights))
    w = [require_real("weight", weight, low=0.0, open_low=True) for weight in weights]
    # b_f = (D1_f L_f / w_f)^{1/3} · Σ_g (D1_g L_g)^{2/3} w_g^{1/3} / ε
    cost = [family.l1 * require_count("count", n) for family, n in zip(families, counts, strict=True)]
    total = sum(c ** (2 / 3) * v ** (1 / 3) for c, v in zip(cost, w, strict=True)) / epsilon
    return tuple((c / v) ** (1 / 3) * total * (1 + _ROUNDING) for c, v in zip(cost, w, strict=True))


def allocate_gaussian(
    families: Sequence[Family], weights: Sequence[float], epsilon: float, delta: float, steps: int, counter: type[F]
) -> tuple[F, ...]:
    """One counter per family, private together, with the least Σ_f w_f · (variance of the last prefix of f).

    >>> from tacit.noise.continual.factorization import BufferedToeplitz
    >>> P, loss = Family(name="P", up=6, down=6, shift=1.0), Family(name="loss", up=42, down=0, shift=1.0)
    >>> split = allocate_gaussian([P, loss], [1.0, 1.0], 1.0, 1e-6, 10_000, BufferedToeplitz)
    >>> [round(part.max_std, 1) for part in split]
    [99.3, 135.8]
    """
    # v_f = ‖b‖²‖c‖² √(D2_f / w_f) · Σ_g √(D2_g w_g) / μ², where v_f = ‖b‖² σ_f²
    sensitivity = counter.for_steps(steps, 1.0).sensitivity
    sigmas = gaussian_shares(families, weights, gaussian_mu(epsilon, delta) / sensitivity)
    return tuple(counter.for_steps(steps, sigma) for sigma in sigmas)


def gaussian_shares(families: Sequence[Family], weights: Sequence[float], mu: float) -> tuple[float, ...]:
    """The deviations σ_f that minimise Σ w_f σ_f² subject to Σ D2_f / σ_f² = μ².

    >>> one = Family(name="count", up=1, down=0, shift=1.0)
    >>> [round(sigma, 6) for sigma in gaussian_shares([one, one], [1.0, 1.0], 1.0)]
    [1.414214, 1.414214]
    """
    require(len(families) == len(weights) > 0, "there must be one weight for every family", given=len(weights))
    w = [require_real("weight", weight, low=0.0, open_low=True) for weight in weights]
    # σ_f² = √(D2_f / w_f) · Σ_g √(D2_g w_g) / μ²
    total = sum(math.sqrt(family.l2_squared * v) for family, v in zip(families, w, strict=True)) / mu**2
    shares = [math.sqrt(family.l2_squared / v) * total for family, v in zip(families, w, strict=True)]
    return tuple(math.sqrt(share) * (1 + _ROUNDING) for share in shares)
