"""Continual counters: what the tree, the k-ary tree and the factorization have in common.

Users arrive one at a time; after user k the counter publishes the noisy sum of users 1..k. The noise never depends on
the data, so a stream produces the noise alone and the true sums are added outside. A stream is a `NamedTuple` of
arrays whose size does not depend on the number of steps, moved by two kernels:

    advance(params, state, draws)       from fresh noise vectors handed in, `draws_at(k)` of them for step k
    step(params, state, generator)      the same, with the vectors drawn from a seeded generator

Both write the noise of the current prefix into `state.noise` and refuse to go past the last release that was paid for.
`add` is the same counter with its sums, state in and state out, for tests and small services.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.errors import BudgetSpent, InvalidInput, NotSupported, require, require_count
from tacit.mechanisms.exact.discrete_laplace import discrete_laplace
from tacit.mechanisms.protocol import require_simulation
from tacit.randomness import SecureNoise, SimulationNoise

__all__ = [
    "ContinualCounter",
    "Running",
    "add",
    "begin",
    "nearest_whole",
    "require_whole",
    "sample_path",
    "secure_laplace",
]


class ContinualCounter(Protocol):
    """A frozen description of a continual counter; every field is public."""

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
    def advance(self) -> Callable[[Any, Any, NDArray[np.float64]], None]:
        """The kernel that moves a stream by one user with noise handed in."""

    def begin(self, dimension: int) -> Any:
        """The stream before the first user, for this many counters."""

    def draws_at(self, k: int) -> int:
        """How many fresh noise vectors step k consumes."""

    def secure_draws(self, k: int, dimension: int, noise: SecureNoise) -> NDArray[np.float64]:
        """The fresh noise vectors of step k from the operating system, where exact integer noise exists."""

    def variance_at(self, k: int) -> float:
        """The noise variance of prefix k."""

    def std_at(self, k: int) -> float:
        """The noise standard deviation of prefix k."""

    def radius(self, failure_prob: float, terms: int = 1) -> float:
        """A bound that the sum of `terms` independent prefixes exceeds with at most `failure_prob`."""

    def events(self, family: Family) -> Events:
        """What one user is exposed to when `family` is counted this way."""


class Running(NamedTuple):
    """A counter in use: the exact sums (sensitive) and the stream of its noise (secret)."""

    totals: NDArray[np.float64]
    stream: Any


def begin(counter: ContinualCounter, dimension: int) -> Running:
    """`dimension` counters before the first user."""
    size = require_count("dimension", dimension)
    return Running(totals=np.zeros(size), stream=counter.begin(size))


def add(
    counter: ContinualCounter, running: Running, x: NDArray[np.float64], noise: SimulationNoise | SecureNoise
) -> tuple[Running, NDArray[np.float64]]:
    """Count one user's vector `x`: the next state and the released prefix sums. Nothing given is changed.

    The caller clips `x` to the sensitivity that the counter was calibrated for. With `SecureNoise` (integer noise, for
    deployments) `x` is rounded to integers here, since integer noise hides no fraction; a caller who wants the mean of
    fractions rounds them at random first.
    """
    vector, before = np.asarray(x, dtype=np.float64), running.totals
    if vector.shape != running.totals.shape:
        raise InvalidInput(f"x must have one entry for each of {running.totals.size} counters, got {vector.shape}")
    stream = type(running.stream)(*(part.copy() for part in running.stream))
    k = int(stream.time[0]) + 1
    if k > counter.releases:
        raise BudgetSpent(f"all {counter.releases} releases of this counter are spent; calibrate one with more steps")
    if isinstance(noise, SimulationNoise):
        counter.step(counter.params, stream, noise.generator)
    elif isinstance(noise, SecureNoise):
        counter.advance(counter.params, stream, counter.secure_draws(k, vector.size, noise))
        # The sums before, too: a simulation may have added fractions to them.
        vector, before = nearest_whole(vector), nearest_whole(before)
    else:
        raise TypeError(f"noise must be SimulationNoise or SecureNoise, got {type(noise).__name__}")
    totals = before + vector
    return Running(totals=totals, stream=stream), totals + stream.noise


def sample_path(counter: ContinualCounter, dimension: int, noise: SimulationNoise) -> NDArray[np.float64]:
    """The noise of every released prefix, for `dimension` independent counters: shape [releases, dimension]."""
    generator = require_simulation(noise)
    stream, params = counter.begin(require_count("dimension", dimension)), counter.params
    path = np.empty((counter.releases, dimension))
    for row in path:
        counter.step(params, stream, generator)
        row[:] = stream.noise
    return path


def secure_laplace(size: tuple[int, int], noise: SecureNoise, *, scale: float, discrete: bool) -> NDArray[np.float64]:
    """Integer node noise from the operating system, exact in a float64 (|z| far below 2⁵³)."""
    if not discrete:
        raise NotSupported("continuous noise must not be released: build the counter with discrete=True")
    return discrete_laplace(size, noise, scale=scale).astype(np.float64)


def nearest_whole(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nearest integers, halves upwards; what is not finite counts as 0.

    Adding an integer before or after is the same, so numbers at most Δ apart stay at most Δ apart for every integer Δ
    (rounding halves to even would take 0.5 and 1.5 to 0 and 2).

    >>> nearest_whole(np.array([0.5, 1.5, -0.5, 0.49999999999999994, -7.2, np.nan, np.inf])).tolist()
    [1.0, 2.0, 0.0, 0.0, -7.0, 0.0, 0.0]
    """
    finite = np.where(np.isfinite(x), x, 0.0)
    below = np.floor(finite)
    return np.asarray(below + (finite - below >= 0.5), dtype=np.float64)


def require_whole(family: Family, *, discrete: bool) -> None:
    """Refuse integer noise over a fractional shift: it would give the shift away."""
    require(
        not discrete or float(family.shift).is_integer(),
        "discrete noise covers whole shifts",
        given=family.shift,
        hint="round rewards to {0, 1} at random on the device",
    )
