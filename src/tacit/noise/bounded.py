"""Bounded double-exponential noise: density ∝ exp(-exp(R²/(R²-x²))) on (-R, R), so that no error exceeds R.

G1  The exact accountant (PLD) certifies (ε, δ) for families with any shifts below 2R; δ > 0 always, as the supports of
    two neighbours differ. No closed formula is trusted: the printed one never applies to a tabular problem.
G2  The noise is centred and bounded by R, with standard deviation 0.28627 R.
G3  `radius` covers: the exact quantile for one term, the Chernoff bound for sums, never more than n R.
G4  `calibrate` finds the least R, rounded to the private side; it refuses δ = 0.

At the same guarantee the standard deviation is 2.5 to 4.3 times that of Gaussian noise (δ = 1e-5): kept for fidelity to
[garcelon2021local] Alg. 6, never a default. A sum of n has no closed form: n draws per counter, added up; from 1,000
users on a normal variable, whose distribution function differs by less than 2·10⁻⁵ (simulation only; the guarantee is
that of each message).

Reference: [garcelon2021local] Alg. 6, Prop. 14-15; Y. Dagan and G. Kur (2020).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Final, Self

import numpy as np
import scipy  # its submodules load when they are used: nobody waits for `optimize` who never asks for a radius

from tacit.accounting.calibrate import least_noise
from tacit.accounting.events import BoundedEvent, Events
from tacit.accounting.events.bounded import BOUNDED_STD, bounded_density, least_radius
from tacit.accounting.families import Family
from tacit.arrays import Floats, Ints
from tacit.errors import InvalidInput, NotSupported, require_count, require_real
from tacit.kernels import kernel
from tacit.noise.additive import Additive, Amount, additive_encoder
from tacit.noise.protocol import Shape, require_failure_prob, require_no_squares, require_simulation
from tacit.randomness import SecureNoise, SimulationNoise

NORMAL_APPROX_FROM: Final = 1000
"""From so many users on a sum of bounded noises is drawn as a normal variable."""

# Nodes of the inverse distribution function; linear interpolation errs by less than 1e-7 R.
_NODES = 20_001


@kernel
def bounded_unit(generator: np.random.Generator) -> float:
    """Bounded double-exponential noise of radius 1, by rejection from the uniform distribution on (-1, 1)."""
    while True:
        x = 2.0 * generator.random() - 1.0
        # density ∝ exp(-exp(1/(1-x²))), at most exp(-e): accept with exp(e - exp(1/(1-x²)))
        inside = 1.0 - x * x
        if inside > 0.0 and generator.random() < math.exp(math.e - math.exp(min(700.0, 1.0 / inside))):
            return x


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounded(Additive):
    """Noise that never leaves (-limit, limit).

    >>> round(Bounded(limit=510.5).std, 1)
    146.1
    """

    limit: float

    NAME: ClassVar[str] = "bounded"
    SUMMARY: ClassVar[str] = "noise that never exceeds a limit, in every counter"
    PURE: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_real("limit", self.limit, low=0.0, open_low=True)

    @property
    def variance(self) -> float:
        """(0.28627 R)² (G2)."""
        return self.std**2

    @property
    def std(self) -> float:
        """The standard deviation of the noise in one counter."""
        return BOUNDED_STD * self.limit

    def sample(self, size: int | tuple[int, ...], noise: SimulationNoise) -> Floats:
        """Centred noise for simulations, by inversion of the distribution function."""
        table = _unit()
        return self.limit * np.interp(require_simulation(noise).random(size), table.cdf, table.x)

    def radius(self, failure_prob: float, terms: int = 1) -> float:
        """A t with P(|sum of `terms` noises| > t) <= failure_prob (G3)."""
        p, n = require_failure_prob(failure_prob), require_count("terms", terms)
        table = _unit()
        if n == 1:
            # The next node above the quantile: rounded to the covering side.
            place = int(np.searchsorted(table.upper_tail, -p / 2.0))
            return self.limit * float(table.x[min(place, _NODES - 1)])
        log_two = math.log(2.0 / p)
        guess = math.sqrt(2.0 * log_two / n) / BOUNDED_STD
        found = scipy.optimize.minimize_scalar(
            lambda rate: (log_two + n * table.cumulant(rate)) / rate,
            bounds=(1e-3 * guess, 10 * guess),
            method="bounded",
        )
        return self.limit * min(float(found.fun) * (1 + 1e-6), float(n))

    def events(self, family: Family) -> Events:
        """One event per differing counter (G1)."""
        event = BoundedEvent(radius=self.limit, shift=family.shift)
        return ((event, family.differing),) if family.differing else ()

    @property
    def whole(self) -> bool:
        """There is no integer twin."""
        return False

    @property
    def parameters(self) -> Amount:
        """What the encoder needs."""
        return Amount(scale=self.limit)

    @property
    def subgamma(self) -> float:
        """A third of the limit: |X| ≤ R."""
        return self.limit / 3.0

    @property
    def encoder(self) -> Callable[..., None]:
        """The device's kernel."""
        return additive_encoder(bounded_unit)

    def log_ratio(self, values: Floats, shift: Floats | float) -> Floats:
        """By the density; ±∞ beyond the limit."""
        with np.errstate(invalid="ignore"):
            return np.asarray(np.nan_to_num(self._log_weight(values - shift) - self._log_weight(values), nan=0.0))

    def _log_weight(self, x: Floats) -> Floats:
        """The log density -exp(1/(1 - (x/R)²)), up to a constant; -∞ outside (-R, R)."""
        inside = 1.0 - (x / self.limit) ** 2
        safe = np.where(inside > 0.0, np.maximum(inside, 1.0 / 700.0), 1.0)
        return np.where(inside > 0.0, -np.exp(1.0 / safe), -np.inf)

    def summed(self, size: int, users: int, noise: SimulationNoise) -> Floats:
        """The sum of `users` independent noises in each of `size` counters."""
        if users >= NORMAL_APPROX_FROM:
            return np.asarray(np.sqrt(users * self.variance) * noise.generator.standard_normal(size))
        return np.asarray(self.sample(users * size, noise).reshape(users, size).sum(axis=0))

    def integers(self, size: int, noise: SecureNoise) -> Ints:
        """Refused: the density has no exact integer form."""
        raise NotSupported(
            "bounded noise has no exact integer form: deploy subset, oue, rr, or laplace with discrete=True"
        )

    @classmethod
    def paper(cls, shape: Shape, epsilon: float, delta: float, *, squares: bool) -> tuple[Self, Self]:
        """The printed limits of Alg. 6 with C = 1: one for SA cells, one for S²A."""
        require_no_squares(squares)
        return cls.printed(shape, epsilon, delta, "1")

    @classmethod
    def printed(cls, shape: Shape, epsilon: float, delta: float, C: str) -> tuple[Self, Self]:
        """The printed limits with another value of the constant C, which Alg. 6 takes as an input."""
        try:
            value = float(C)
        except ValueError:
            raise InvalidInput(f"C of bounded must be a number, got {C!r}") from None
        factor = require_real("C of bounded", value, low=0.0, open_low=True)
        rows = shape.num_states * shape.num_actions
        outcome, moved = (
            cls(limit=factor * paper_bounded_limit(cells, shape.horizon, epsilon, delta))
            for cells in (rows, shape.num_states * rows)
        )
        return outcome, moved

    @classmethod
    def calibrate(cls, families: Sequence[Family], epsilon: float, delta: float) -> Self:
        """The least common R under which these families together are (epsilon, delta)-private (G4)."""
        if delta == 0.0:
            raise NotSupported(
                "bounded noise never gives pure differential privacy (delta = 0): use a positive delta, or the "
                "mechanism 'laplace', 'rr' or 'oue'"
            )
        guess = least_radius(epsilon, delta, [family.shift for family in families for _ in range(family.differing)])
        return least_noise(lambda limit: cls(limit=limit), families, epsilon=epsilon, delta=delta, enough=guess)


def paper_bounded_limit(cells: int, horizon: int, epsilon: float, delta: float) -> float:
    """The printed R = (C/ε₀) √(cells ln(1/δ₀)) of [garcelon2021local] Alg. 6 with ε₀ = ε/(3H) and the open C = 1.

    `cells` is SA for rewards and visits, S²A for transitions. What it really gives: for S=4, A=2, H=6 and a claim of
    ε = 1, it is 4.26 at δ = 1e-5; the theorem behind it needs more than 1e11 cells. False: only beside its certificate.

    >>> round(paper_bounded_limit(8, 6, 1.0, 1e-5), 1), round(paper_bounded_limit(32, 6, 1.0, 1e-5), 1)
    (172.7, 345.5)
    """
    cells, H = require_count("cells", cells), require_count("horizon", horizon)
    require_real("epsilon", epsilon, low=0.0, open_low=True)
    require_real("delta", delta, low=0.0, high=1.0, open_low=True)
    return 3.0 * H / epsilon * math.sqrt(cells * math.log(1.0 / delta))


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """The unit distribution (R = 1) on its nodes."""

    x: Floats
    pdf: Floats
    cdf: Floats
    upper_tail: Floats

    def cumulant(self, rate: float) -> float:
        """The cumulant ln E e^(rate · x), for a rate that is not negative."""
        # x ≤ 1, so nothing overflows when e^rate is taken out.
        return rate + float(np.log(np.trapezoid(np.exp(rate * (self.x - 1.0)) * self.pdf, self.x)))


@lru_cache(maxsize=1)
def _unit() -> _Table:
    x = np.linspace(-1.0, 1.0, _NODES)
    pdf = bounded_density(x)
    cells = 0.5 * (pdf[1:] + pdf[:-1]) * np.diff(x)
    cdf = np.concatenate([[0.0], np.cumsum(cells)])
    # In the tails the density is convex, so trapezoids come out too large: the covering side.
    tail = np.concatenate([np.cumsum(cells[::-1])[::-1], [0.0]])
    for array in (x, pdf, cdf, tail):
        array.setflags(write=False)
    return _Table(x=x, pdf=pdf, cdf=cdf / cdf[-1], upper_tail=-tail)
