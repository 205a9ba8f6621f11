"""The contract in one call each: the statistics of a release, and the belief after it."""

from __future__ import annotations

from typing import Any

from tacit.accounting.claims import no_privacy
from tacit.protocol import TOTALS, PrivateStatistics


def shown(privatizer: Any, state: Any, users: Any, noise: Any, query: Any = TOTALS) -> tuple[Any, Any]:
    """The state after a release and its statistics, which left under the privatizer's own claim."""
    state, released = privatizer.release(state, users, query, noise)
    assert isinstance(released, PrivateStatistics)
    assert released.claim == privatizer.claim
    return state, released.statistics


def told(learner: Any, belief: Any, statistics: Any) -> Any:
    """The belief of a learner that is shown these statistics."""
    return learner.update(belief, PrivateStatistics(statistics, no_privacy()))
