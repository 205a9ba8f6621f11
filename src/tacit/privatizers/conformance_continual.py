"""What a continual counter's own noise gives away about one user: exactly, from the counter itself.

The noise of the prefixes is a linear map B of independent draws z. Handing in one unit draw at a time reads B off the
kernel `advance`. Replacing user i by a shift of one moves prefixes i, i+1, ...: the vector a_i of ones from i on. The
best linear distinguisher of the two transcripts then has the signal-to-noise ratio

    a_iᵀ (B Bᵀ)⁻¹ a_i / Var z        (infinite if a_i is not in the range of B: a prefix without noise of its own)

and it must not exceed what the counter's events admit. A tree that draws a node's noise anew at every use, that forgets
a level or that leaves a prefix bare breaks this, whatever it says about itself.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.events import (
    BinomialEvent,
    BoundedEvent,
    Event,
    Events,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
)
from tacit.accounting.families import Family
from tacit.mechanisms.noise.bounded import Bounded
from tacit.mechanisms.noise.laplace_sum import discrete_laplace_variance

__all__ = ["admitted", "exposure", "noise_map", "own_covariance", "stated_exposure"]

Floats = NDArray[np.float64]

_UNIT = Family(name="one count", up=1, down=0, shift=1.0)


def noise_map(counter: Any, steps: int) -> Floats:
    """B: the noise of prefixes 1..steps as a linear map of all fresh draws up to then, read off the kernel."""
    fresh = [int(counter.draws_at(k)) for k in range(1, steps + 1)]
    rows, stream, used = np.zeros((steps, sum(fresh))), counter.begin(max(1, sum(fresh))), 0
    for k, count in enumerate(fresh):
        draws = np.zeros((max(1, count), max(1, sum(fresh))))
        draws[np.arange(count), used + np.arange(count)] = 1.0
        counter.advance(counter.params, stream, draws)
        rows[k] = stream.noise[: sum(fresh)]
        used += count
    return rows


def own_covariance(counter: Any, steps: int) -> Floats:
    """The covariance of the prefixes' noise, by the counter's own kernel and its stated first variance."""
    rows = noise_map(counter, steps)
    first = float(rows[0] @ rows[0])
    return np.asarray(rows @ rows.T * (counter.variance_at(1) / first if first > 0.0 else 1.0))


def exposure(covariance: Floats) -> float:
    """The largest a_iᵀ Σ⁻¹ a_i over all users i, for prefixes with this noise covariance.

    >>> round(exposure(np.array([[1.0, 1.0], [1.0, 2.0]])), 9)  # one node for the first user, one more for the second
    1.0
    """
    steps = len(covariance)
    shifts = np.tril(np.ones((steps, steps)))  # column i: the prefixes that contain user i
    solved, *_ = np.linalg.lstsq(covariance, shifts, rcond=1e-10)
    if np.abs(covariance @ solved - shifts).max() > 1e-6:
        return math.inf
    return float(np.einsum("ki,ki->i", shifts, solved).max())


def stated_exposure(counter: Any) -> float:
    """What the counter's events admit for a shift of one in one counter."""
    if {"levels", "scale", "discrete"} <= set(dir(counter)):  # trees of Laplace noise: nodes that contain one user
        return float(counter.levels) / _laplace_variance(counter.scale, discrete=counter.discrete)
    return admitted(counter.events(_UNIT))


def admitted(events: Events) -> float:
    """The largest signal-to-noise ratio (squared) that any linear distinguisher may have under these events."""
    return math.fsum(count * _admitted(event) for event, count in events)


def _admitted(event: Event) -> float:
    if isinstance(event, LaplaceEvent):
        return event.shift**2 / _laplace_variance(event.scale, discrete=event.discrete)
    if isinstance(event, GaussianEvent):
        return event.shift**2 / event.sigma**2
    if isinstance(event, BinomialEvent):
        return 1.0 / (event.bits * event.probability * (1.0 - event.probability))
    if isinstance(event, BoundedEvent):
        return event.shift**2 / Bounded(limit=event.radius).variance
    if isinstance(event, PureEvent):
        # (E_P X − E_Q X)² ≤ χ²(P‖Q) Var_Q X, and χ² ≤ 4 sinh²(ε/2), attained by one randomized bit
        return 4.0 * math.sinh(min(event.epsilon, 700.0) / 2.0) ** 2
    return math.inf


def _laplace_variance(scale: float, *, discrete: bool) -> float:
    return discrete_laplace_variance(scale) if discrete else 2.0 * scale**2
