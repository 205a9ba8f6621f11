"""How far one user can move a batch gradient: exact for one step of tabular softmax, by clipping for everything else.

[he2025policy] Thm. 1 states 2 R_max G / m for the mean over m users with G a bound on the score, and App. C takes
G = √(1 - 1/A) for softmax. That is the root of the largest *mean* of ‖1_a - π‖² over a ~ π; the supremum is √2, and a
user whose action is known is protected only by a calibration to the supremum (Lemma D2 (score of softmax)).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tacit.errors import require_count, require_real

__all__ = ["Reach", "clipped_reach", "paper_score_bound", "softmax_reach"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What one user adds to the sum over a batch: `norm` at most, and `shift` between any two users.

    Where everybody takes part, replacing v by v' is seen as v' - v, and only `shift` counts. In a Poisson sample the
    user is absent with probability 1-q under both neighbours: (1-q) N(0) + q N(v) against (1-q) N(0) + q N(v'), which a
    common offset of v and v' makes easier to tell apart. So `norm` counts there, measured from an absent user.
    """

    norm: float
    shift: float

    def with_reward(self, share: float) -> Reach:
        """The same when a user also adds to one more number, by up to `share` of the present shift.

        That number must be centred, as `tacit.privatizers.gradient.add_noise` does: it lies within half its width of
        what an absent user adds, so ‖(g, w)‖² ≤ norm² + (width/2)². Uncentred, with rewards in [low, high], the last
        term would have to be (weight max(|low|, |high|))²: four times as much for [0, 1].

        >>> round(Reach(norm=1.0, shift=2.0).with_reward(0.2).shift, 4)
        2.0396
        """
        width = share * self.shift
        return Reach(norm=math.hypot(self.norm, width / 2.0), shift=math.hypot(self.shift, width))


def softmax_reach(low: float, high: float, contexts: int) -> Reach:
    """The exact reach of w (1_a - π_s) over all policies, actions, contexts and weights: Lemma D3 (reach of softmax).

    Two contexts: the blocks are disjoint, ‖·‖² = w² ‖1_a - π‖² + w'² ‖1_b - π'‖² ≤ 2 (w² + w'²).
    One context: w (1_a - π) - w' (1_b - π) is convex in π, so the maximum has π on one action:
    √2 |w - w'| for a = b, and at most √2 max(|w|, |w'|, |w - w'|) for a ≠ b.

    >>> softmax_reach(0.0, 1.0, contexts=10).shift, round(softmax_reach(-1.0, 1.0, contexts=10).shift, 4)
    (2.0, 2.8284)
    """
    require_count("contexts", contexts)
    low, high = require_real("low", low), require_real("high", high, low=low)
    largest = max(abs(low), abs(high))
    same = math.sqrt(2.0) * max(high - low, largest)
    return Reach(norm=math.sqrt(2.0) * largest, shift=max(same, 2.0 * largest) if contexts > 1 else same)


def clipped_reach(clip: float) -> Reach:
    """Two users whose gradients are clipped to norm C are at most 2C apart.

    >>> clipped_reach(1.5).shift
    3.0
    """
    C = require_real("clip", clip, low=0.0, open_low=True)
    return Reach(norm=C, shift=2.0 * C)


def paper_score_bound(num_actions: int) -> float:
    """The G = √(1 - 1/A) that [he2025policy] App. C prints for softmax: a bound in the mean, not a bound.

    >>> round(paper_score_bound(5), 4)
    0.8944
    """
    return math.sqrt(1.0 - 1.0 / require_count("actions", num_actions))
