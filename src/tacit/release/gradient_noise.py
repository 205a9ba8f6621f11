"""How far one user can move a batch gradient, and the least noise that covers it.

The reach is exact for one step of tabular softmax, and by clipping for everything else. [he2025policy] Thm. 1 states
2 R_max G / m for the mean over m users with G a bound on the score, and App. C takes G = √(1 - 1/A) for softmax. That
is the root of the largest *mean* of ‖1_a - π‖² over a ~ π; the supremum is √2. A user whose action is known is
protected only by a calibration to the supremum (Lemma D2 (score of softmax)), and so tacit certifies. Where the action
is drawn by the mechanism and never shown (Definition 2 there), the printed noise is enough at (1, 1e-5): row 6 of
`docs/guarantees.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.composition import epsilon_of
from tacit.accounting.events import Event, GaussianEvent, SampledGaussianEvent
from tacit.accounting.events.gaussian import classical_gaussian_sigma, gaussian_mu
from tacit.accounting.families import Family
from tacit.accounting.search import least_real
from tacit.data.gradients import Bounds
from tacit.errors import InvalidInput, NotSupported, require, require_count, require_real
from tacit.protocol import Calibration
from tacit.released.gradients import GradientShape

REWARD_SHARE = 0.2
"""A released mean reward moves by a fifth of what the gradient moves: it costs 2 % more noise."""

Limit = float
"""Infinity: unlimited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientSpec:
    """What a gradient is made of, and how its batches are used; every field is public."""

    tabular: bool
    """Whether the policy is tabular softmax."""
    epochs: int = 1
    """How many times each batch is used."""
    clip: float | None
    """The greatest norm of one user's gradient; None: the exact supremum, where there is one."""
    baseline: float | None = 0.0
    """A public constant that is subtracted from rewards; None: it comes from earlier releases of the mean reward."""
    rate: float = 1.0
    """The probability with which a user of the batch takes part in an epoch."""
    surrogate: Limit = math.inf
    """The radius within which the surrogate of a re-used batch is clipped."""
    low: float = 0.0
    high: float = 1.0
    """The declared interval of the rewards of one step."""

    @property
    def bounds(self) -> Bounds:
        """What limits one user's gradient in floating point."""
        return Bounds(self.low, self.high, math.inf if self.clip is None else self.clip, self.surrogate)

    @property
    def baselines(self) -> tuple[float, float]:
        """The baselines for which the reach holds where nothing is clipped."""
        return (self.low, self.high) if self.baseline is None else (self.baseline, self.baseline)

    @property
    def weights(self) -> tuple[float, float]:
        """The interval of reward minus baseline.

        A baseline that comes from earlier releases may be anywhere in [low, high]; both users of a comparison meet the
        same one, so weights w, w' have |w - w'| and max(|w|, |w'|) of at most the width: the reach is that of
        [0, width].
        """
        if self.baseline is None:
            return 0.0, self.high - self.low
        inside = self.low <= self.baseline <= self.high
        require(inside, f"a baseline must lie in [{self.low:g}, {self.high:g}]", given=self.baseline)
        return self.low - self.baseline, self.high - self.baseline

    def exact(self, shape: GradientShape) -> bool:
        """Whether the reach rests on the form of a gradient, not only on its clip: one step of tabular softmax."""
        return self.tabular and shape.horizon == 1 and self.surrogate == math.inf

    def width(self, shape: GradientShape) -> int:
        """The number k of features per action; 0 for tabular policies and for doses."""
        return 0 if self.tabular or shape.num_actions == 0 else shape.dimension // shape.stages


class Calibrated(NamedTuple):
    """What is released, its reach and its noise."""

    spec: GradientSpec
    reach: Reach
    sigma: float
    """Of one coordinate of the mean."""
    reward_weight: float
    says: str | None = None
    """The guarantee that the paper prints."""


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

        That number must be centred, as `tacit.release.gradient.add_noise` does: it lies within half its width of
        what an absent user adds, so ‖(g, w)‖² ≤ norm² + (width/2)². Uncentred, with rewards in [low, high], the last
        term would have to be (weight max(|low|, |high|))²: four times as much for [0, 1].

        >>> round(Reach(norm=1.0, shift=2.0).with_reward(0.2).shift, 4)
        2.0396
        """
        width = share * self.shift
        return Reach(norm=math.hypot(self.norm, width / 2.0), shift=math.hypot(self.shift, width))

    def over(self, divisor: float) -> Reach:
        """The same where sums are divided by this public number."""
        return Reach(norm=self.norm / divisor, shift=self.shift / divisor)


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


def gradient_families(reach: Reach) -> tuple[Family, ...]:
    """What one user can change: one vector, by its Euclidean length."""
    return (Family(name="gradient", up=1, down=0, shift=reach.shift),)


def gradient_event(reach: Reach, sigma: float, rate: float) -> Event:
    """What one release shows of a user: the length of what is added counts where secret coins decide who takes part."""
    if rate < 1.0:
        return SampledGaussianEvent(sigma=sigma, norm=reach.norm, rate=rate)
    return GaussianEvent(sigma=sigma, shift=reach.shift)


def _open(spec: GradientSpec, shape: GradientShape, claim: PrivacyClaim, users: int) -> Calibrated:
    """No noise: nobody is protected."""
    reach, weight = reached(spec, shape, *spec.weights)
    return Calibrated(spec, reach, sigma=0.0, reward_weight=weight)


def _tight(spec: GradientSpec, shape: GradientShape, claim: PrivacyClaim, users: int) -> Calibrated:
    """The least noise for the claim."""
    reach, weight = reached(spec, shape, *spec.weights)
    sigma = least_sigma(reach, claim, spec.epochs * claim.unit.reports, spec.rate) / (spec.rate * users)
    return Calibrated(spec, reach, sigma=sigma, reward_weight=weight)


def _paper(spec: GradientSpec, shape: GradientShape, claim: PrivacyClaim, users: int) -> Calibrated:
    """The noise as printed, for rewards declared in [-R_max, R_max]."""
    most = max(map(abs, spec.weights))
    reach, weight = reached(spec, shape, -most, most)
    centre = spec.baseline or 0.0
    if spec.epochs > 1 or spec.rate < 1.0 or spec.baseline is None:
        raise NotSupported("the paper prints one pass and no released baseline; use calibration 'tight'")
    # σ = √(2 ln(1.25/δ)) · 2 R_max G / (m ε)  [he2025policy] Thm. 1
    printed = spec.clip if spec.clip is not None else most * paper_score_bound(shape.num_actions)
    sigma = classical_gaussian_sigma(claim.epsilon, claim.delta, 2.0 * printed / users)
    score = f"clip {spec.clip:g}" if spec.clip is not None else "G = √(1-1/A), for a person whose action is known"
    says = f"epsilon {claim.epsilon:g} at delta {claim.delta:g} by the classical Gaussian formula with {score}"
    return Calibrated(replace(spec, low=centre - most, high=centre + most), reach, sigma, weight, says)


CALIBRATED: Final[Mapping[Calibration, Callable[..., Calibrated]]] = {"none": _open, "tight": _tight, "paper": _paper}
"""Reach and noise of the mean over so many users, by calibration."""


def reached(spec: GradientSpec, shape: GradientShape, lo: float, hi: float) -> tuple[Reach, float]:
    """Reach and the weight of the mean reward, for weights of rewards in [lo, hi]."""
    reach = softmax_reach(lo, hi, shape.num_states) if spec.exact(shape) else None
    if spec.clip is not None:
        clipped = clipped_reach(spec.clip)
        reach = reach or clipped
        reach = Reach(norm=min(reach.norm, clipped.norm), shift=min(reach.shift, clipped.shift))
    if reach is None:
        raise InvalidInput("this policy needs a clip: without one, one user's gradient has no useful bound")
    if spec.baseline is not None:
        return reach, 0.0
    weight = REWARD_SHARE * reach.shift / (spec.high - spec.low)
    return reach.with_reward(REWARD_SHARE), weight


def least_sigma(reach: Reach, claim: PrivacyClaim, epochs: int, rate: float) -> float:
    """The least noise in the sum that is private for `epochs` uses of a person's batches, rounded up."""
    # μ = √K Δ/σ for K Gaussian releases of the same users
    sigma = math.sqrt(epochs) * reach.shift / gaussian_mu(claim.epsilon, claim.delta) * (1.0 + 1e-12)
    if rate == 1.0:
        return sigma

    def excess(level: float) -> float:
        events = ((SampledGaussianEvent(sigma=level, norm=reach.norm, rate=rate), epochs),)
        found = epsilon_of(events, claim.delta)
        return math.log(found / claim.epsilon) if found > 0.0 else -math.inf

    return least_real(excess, max(rate * sigma, 0.05 * reach.norm), tolerance=1e-5) * (1.0 + 1e-9)
