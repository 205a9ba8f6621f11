"""The claims that a certified claim implies, with the reason for each: Lemma P11 (implied claims).

    local, every message  =>  shuffle, the shuffled transcript  =>  central, other users' actions; final policy; sums

All at the same epsilon, delta, unit and neighbours, and never the reverse.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tacit.accounting.claims import NOTIONS, Output, PrivacyClaim
from tacit.accounting.wording import shown_up

REASONS: Final[Mapping[Output, Mapping[Output, str]]] = {
    "every-message": {
        "shuffled-transcript": "shuffling is post-processing",
        "other-users-actions": "the billboard lemma",
        "final-policy": "post-processing",
        "published-sums": "post-processing",
    },
    "shuffled-transcript": {
        "other-users-actions": "the billboard lemma",
        "final-policy": "post-processing",
        "published-sums": "post-processing",
    },
    "other-users-actions": {},
    "final-policy": {},
    "published-sums": {},
    "nothing-protected": {},
}
"""What is implied by which guarantee, and why (Lemma P11 (implied claims), Lemma P8 (billboard))."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Implied:
    """One guarantee that comes with another."""

    notion: str
    epsilon: float
    delta: float
    by: str

    def describe(self) -> str:
        """In words; epsilon is rounded up."""
        return f"implied: ({shown_up(self.epsilon)}, {self.delta:g})-{self.notion}, by {self.by}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"notion": self.notion, "epsilon": self.epsilon, "delta": self.delta, "by": self.by}


def implied_claims(claim: PrivacyClaim, epsilon: float) -> tuple[Implied, ...]:
    """What follows if `claim` is certified with this epsilon; nothing follows from an infinite one.

    >>> from tacit.accounting.claims import PrivacyUnit
    >>> claim = PrivacyClaim(trust="shuffle", epsilon=1.0, delta=1e-6, unit=PrivacyUnit(reports=1, per_stage=1),
    ...                      neighbours="replace-one", output="shuffled-transcript")
    >>> [found.describe() for found in implied_claims(claim, 0.95)]  # doctest: +NORMALIZE_WHITESPACE
    ['implied: (0.95, 1e-06)-JDP, by the billboard lemma',
     'implied: (0.95, 1e-06)-DP of the final policy, by post-processing',
     'implied: (0.95, 1e-06)-DP of published sums, by post-processing']
    """
    if not math.isfinite(epsilon):
        return ()
    return tuple(
        Implied(notion=NOTIONS[output], epsilon=epsilon, delta=claim.delta, by=reason)
        for output, reason in REASONS[claim.output].items()
    )
