"""Radii as [garcelon2021local] prints them: too small, which coverage tests prove."""

from __future__ import annotations

import math


def paper_gaussian_radius(sigma: float, failure_prob: float, terms: int = 1) -> float:
    """The printed radius σ √(n ln(2/p)) of [garcelon2021local] Prop. 11: too small, it lacks a factor √2."""
    return sigma * math.sqrt(terms * math.log(2.0 / failure_prob))


def paper_response_radius(epsilon: float, failure_prob: float, terms: int = 1) -> float:
    """The printed radius (2e^ε₀-1)/(e^ε₀-1) √(n/2 ln(2/p)) of [garcelon2021local]: too small for ε₀ < ln 2.

    The range of one de-biased bit is (e^ε₀+1)/(e^ε₀-1). At ε₀ = 1/12 the printed radius is left 20 times as often as it
    says.
    """
    e = math.exp(epsilon)
    return (2.0 * e - 1.0) / (e - 1.0) * math.sqrt(terms / 2.0 * math.log(2.0 / failure_prob))
