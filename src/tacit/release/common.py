"""What channels share: nothing to hide, the public memory of counts, how many people a stage takes, and their unit."""

from __future__ import annotations

from typing import NamedTuple

from tacit.accounting.claims import PrivacyClaim
from tacit.errors import Unsupportable, require, require_count
from tacit.released.counts import CountStatistics

__all__ = ["CountMemory", "NoSecret", "reports_of", "require_people"]


class NoSecret(NamedTuple):
    """What a collector keeps for itself that draws nothing and remembers nothing."""


class CountMemory(NamedTuple):
    """The public memory of channels of counts: what was released last, running totals or a single batch."""

    released: CountStatistics


def reports_of(claim: PrivacyClaim) -> int:
    """How many reports of one person a claim covers; several of them in one stage are not offered."""
    once = claim.unit.per_stage == 1
    require(once, "a study takes at most one report per person and stage", claim.unit.per_stage, "claim per_stage 1")
    return claim.unit.reports


def require_people(people: int, least: int, target: int) -> None:
    """Abort a stage with too few reports, before anything is released, and refuse more than were asked for.

    >>> require_people(89, 90, 100)
    Traceback (most recent call last):
    ...
    tacit.errors.Unsupportable: the stage has 89 reports and needs 90, as everybody who reports was promised: nothing \
is released; wait for more, or declare the stage void
    """
    require_count("people", people, least=0)
    if people < least:
        raise Unsupportable(
            f"the stage has {people} reports and needs {least}, as everybody who reports was promised: nothing is "
            "released; wait for more, or declare the stage void"
        )
    require(people <= target, f"a stage has at most the {target} reports that were asked for", people)
