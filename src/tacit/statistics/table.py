"""The statistics by name: one row for each class that any trust model can release as a vector.

A row is all that a new statistic needs beside its class: `tacit.release.vectors` releases it under central, shuffle and
local trust, in simulations and studies, and `tacit.release.table` offers it for its query.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tacit.errors import InvalidInput, UnknownName
from tacit.protocol import Query
from tacit.statistics.moments import MomentVector
from tacit.statistics.vectors import VectorStatistic
from tacit.statistics.weighted_returns import WeightedReturns

STATISTICS: Final[Mapping[str, type[VectorStatistic]]] = {
    "moments": MomentVector,
    "weighted returns": WeightedReturns,
}
"""Statistics by name."""


def statistic_named(name: str) -> type[VectorStatistic]:
    """The class of this name.

    >>> statistic_named("moments").NAME
    'moments'
    """
    if name not in STATISTICS:
        raise UnknownName("statistic", name, STATISTICS)
    return STATISTICS[name]


def statistic_for(query: Query | type[Query], shape: Any) -> type[VectorStatistic]:
    """The statistic that answers such queries about such a shape."""
    asks = query if isinstance(query, type) else type(query)
    for found in STATISTICS.values():
        if found.ASKS is asks:
            if not isinstance(shape, found.SHAPE):
                raise InvalidInput(f"{found.NAME} are of a {found.SHAPE.__name__}, got a {type(shape).__name__}")
            return found
    raise InvalidInput(f"no statistic answers a {asks.__name__}; release it otherwise, or add a row to STATISTICS")
