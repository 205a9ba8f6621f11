"""The worst reports of a person over the stages of a study."""

from __future__ import annotations

from collections.abc import Sequence

from tacit.accounting.composition import epsilon_of, merged
from tacit.accounting.events import Events
from tacit.errors import require, require_count

__all__ = ["worst_exposure"]


def worst_exposure(stages: Sequence[Events], reports: int, delta: float) -> Events:
    """What `reports` reports expose a person to, one in each of the stages that cost most at this delta."""
    g = require_count("reports", reports)
    require(len(stages) > 0, "a study must have at least one stage that reports", 0)
    costs = {events: epsilon_of(events, delta) for events in set(stages)}
    worst = sorted(stages, key=lambda events: -costs[events])[:g]
    return merged(tuple(pair for events in worst for pair in events))
