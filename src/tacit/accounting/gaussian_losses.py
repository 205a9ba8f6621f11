"""Gaussian noise as a privacy-loss distribution, for compositions in which it is not alone.

The pair N(0, 1), N(μ, 1) has the loss μ²/2 − μx; its density is cut into cells and split pessimistically as for every
log-concave noise (`tacit.accounting.density`). Alone, Gaussian noise has the exact curve of
`tacit.accounting.gaussian`, which the tests compare with this one.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from tacit.accounting.density import shifted_pld
from tacit.accounting.losses import Floats
from tacit.accounting.pld import PLD
from tacit.errors import require_real

__all__ = ["gaussian_pld"]

DEVIATIONS = 14.0  # the rest, 8e-45, counts as infinite loss
CELLS_PER_DEVIATION = 200


@lru_cache(maxsize=64)
def gaussian_pld(mu: float) -> PLD:
    """The privacy loss of a Gaussian shift of `mu` standard deviations, from above.

    >>> round(gaussian_pld(0.2367).epsilon(1e-6), 4)
    1.0
    """
    require_real("mu", mu, low=0.0, open_low=True)
    cells = math.ceil((2.0 * DEVIATIONS + mu) * CELLS_PER_DEVIATION)
    edges = np.linspace(-DEVIATIONS, DEVIATIONS + mu, cells + 1)
    return shifted_pld(_density, lambda x: mu * (mu / 2.0 - x), edges, 0.5 * math.erfc(DEVIATIONS / math.sqrt(2.0)))


def _density(x: Floats) -> Floats:
    return np.asarray(np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi))
