"""The wording of guarantees: sentences whose strength follows from the numbers, and numbers that never flatter.

epsilon up to 1    "can hardly tell the difference"
epsilon up to 5    "can tell some difference"
above              "weak": probabilities may change by a factor of 148 and more
"""

from __future__ import annotations

import math
from typing import Final

STRONG: Final = 1.0
WEAK: Final = 5.0
"""Beyond this epsilon a guarantee is called weak."""

SIMULATION: Final = (
    "SIMULATION, not a release: its noise is seeded and can be replayed, so it protects nobody. The following would "
    "hold if the same numbers were released with secure noise."
)


def learned(epsilon: float) -> str:
    """What an adversary can tell at this epsilon.

    >>> learned(0.5), learned(3.0), learned(50.0)
    ('can hardly tell the difference', 'can tell some difference', 'can tell much of a difference (this is weak)')
    """
    if epsilon <= STRONG:
        return "can hardly tell the difference"
    return "can tell some difference" if epsilon <= WEAK else "can tell much of a difference (this is weak)"


def bound(epsilon: float, delta: float) -> str:
    """What this epsilon and delta mean for probabilities, plainly.

    >>> bound(1.0, 1e-6)
    'the probability of any conclusion changes by at most the factor 2.72 (epsilon 1), plus delta 1e-06'
    """
    factor = shown_up(math.exp(epsilon), 3) if epsilon < 500 else f"e^{epsilon:g}"
    more = f", plus delta {delta:g}" if delta > 0.0 else ""
    return f"the probability of any conclusion changes by at most the factor {factor} (epsilon {epsilon:g}){more}"


def judge(what: str, claimed: float, delta: float, certified: float, *, shuffled_later: bool = False) -> str:
    """Whether a guarantee is true, in one sentence; messages that are `shuffled_later` can only show that it is."""
    if shuffled_later and not certified <= claimed:
        return (
            f"{what} is neither shown nor refuted: a single message has epsilon {shown_up(certified)} at delta "
            f"{delta:g}, where epsilon {claimed:g} is claimed, and no theorem here says what shuffling adds."
        )
    if not certified <= claimed:
        return (
            f"{what} is FALSE: the accountant certifies no better than epsilon {shown_up(certified)} "
            f"at delta {delta:g}, where epsilon {claimed:g} is claimed."
        )
    slack = claimed / certified if certified > 0.0 else math.inf
    more = f", {slack:.3g} times stronger than claimed" if slack > 1.05 else ""
    return f"{what} is true: the accountant certifies epsilon {shown_up(certified)} at delta {delta:g}{more}."


def shown_up(epsilon: float, most: int = 4) -> str:
    """The number to `most` digits, rounded up: what is printed must not promise more than what is certified.

    >>> shown_up(0.12341), shown_up(1.0), shown_up(math.inf)
    ('0.1235', '1', 'inf')
    """
    if math.isinf(epsilon) or epsilon == 0.0:
        return f"{epsilon:g}"
    digits = most - 1 - math.floor(math.log10(epsilon))
    shown = round(epsilon, digits)
    # A claim that is met exactly shows as itself; beyond a part in 1e9 the last digit goes up.
    return f"{shown if shown >= epsilon * (1.0 - 1e-9) else shown + 10.0**-digits:.{most}g}"
