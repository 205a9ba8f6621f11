"""Fitted powers: the slope of a straight line in logarithms."""

from __future__ import annotations

import numpy as np

from tacit.arrays import Floats

__all__ = ["finite", "fit_exponent"]


def fit_exponent(x: Floats, y: Floats) -> float:
    """The slope of a straight line through ln y against ln x; nan where a y is not positive.

    >>> round(fit_exponent(np.array([1e3, 1e4, 1e5]), np.array([1.0, 0.1, 0.01])), 6)
    -1.0
    """
    if len(x) < 2 or not (y > 0.0).all():
        return float("nan")
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def finite(value: float) -> float | None:
    """The value, or None where there is none: JSON knows no nan.

    >>> finite(0.5), finite(float("nan"))
    (0.5, None)
    """
    return float(value) if np.isfinite(value) else None
