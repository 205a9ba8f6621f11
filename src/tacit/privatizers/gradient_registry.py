"""From a user's request to a calibrated `GradientPrivatizer`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tacit.accounting.claims import PrivacyClaim, PrivacyUnit, no_privacy
from tacit.accounting.composition import epsilon_of
from tacit.accounting.events import SampledGaussianEvent
from tacit.accounting.events.gaussian import classical_gaussian_sigma, gaussian_mu
from tacit.accounting.search import least_real
from tacit.data.gradients import Bounds
from tacit.errors import InvalidInput, NotSupported, require
from tacit.privatizers.gradient import DoseGradients, GradientPrivatizer, SoftmaxGradients
from tacit.privatizers.gradient_sensitivity import Reach, clipped_reach, paper_score_bound, softmax_reach
from tacit.protocol import Calibration
from tacit.released.gradients import GradientShape

__all__ = ["GradientRequest", "make_gradient_privatizer"]

REWARD_SHARE = 0.2
"""A released mean reward moves by a fifth of what the gradient moves: it costs 2 % more noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientRequest:
    """What the user asked for; every field is public."""

    shape: GradientShape
    trust: str
    epsilon: float | None
    delta: float | None
    calibration: Calibration
    users_per_batch: int
    clip: float | None
    """The greatest norm of one user's gradient; None: the exact supremum, where there is one."""
    tabular: bool
    """Whether the policy is tabular softmax."""
    low: float = 0.0
    high: float = 1.0
    """The declared interval of the rewards of one step."""
    baseline: float | None = 0.0
    """A public constant that is subtracted from rewards; None: it comes from earlier releases of the mean reward."""
    epochs: int = 1
    rate: float = 1.0
    surrogate: float = math.inf
    allow_large_delta: bool = False


@lru_cache(maxsize=256)  # calibrations are remembered
def make_gradient_privatizer(request: GradientRequest) -> GradientPrivatizer[Any, Any]:
    """Build and calibrate the privatizer of a request.

    >>> shape = GradientShape(horizon=1, num_states=10, num_actions=5, staged=True, dimension=50)
    >>> asked = dict(shape=shape, trust="central", delta=1e-5, users_per_batch=368, clip=None, tabular=True)
    >>> tight = make_gradient_privatizer(GradientRequest(epsilon=1.0, calibration="tight", **asked))
    >>> round(tight.sigma * 368, 2), tight.certificate().holds
    (7.46, True)
    >>> paper = make_gradient_privatizer(GradientRequest(epsilon=1.0, calibration="paper", **asked))
    >>> round(paper.sigma * 368, 2), round(paper.certificate().epsilon, 2), paper.certificate().holds
    (8.67, 1.24, False)
    """
    shape, m = request.shape, request.users_per_batch
    claim = _claim(request)
    paper = request.calibration == "paper" and claim.trust != "none"
    lo, hi = _weights(request)
    bounds = Bounds(low=request.low, high=request.high, clip=math.inf, surrogate=request.surrogate)
    if paper:
        # The paper declares rewards in [-R_max, R_max].
        most = max(abs(lo), abs(hi))
        lo, hi, centre = -most, most, request.baseline or 0.0
        bounds = bounds._replace(low=centre - most, high=centre + most)
    exact = request.tabular and shape.horizon == 1 and request.surrogate == math.inf
    reach = softmax_reach(lo, hi, shape.num_states) if exact else None
    if request.clip is not None:
        clipped = clipped_reach(request.clip)
        bounds = bounds._replace(clip=request.clip)
        reach = reach or clipped
        reach = Reach(norm=min(reach.norm, clipped.norm), shift=min(reach.shift, clipped.shift))
    if reach is None:
        raise InvalidInput("this policy needs a clip: without one, one user's gradient has no useful bound")
    weight = 0.0
    if request.baseline is None:
        weight = REWARD_SHARE * reach.shift / (request.high - request.low)
        reach = reach.with_reward(REWARD_SHARE)
    divisor = request.rate * m
    sigma, says = 0.0, None
    if paper:
        if request.epochs > 1 or request.rate < 1.0 or request.baseline is None:
            raise NotSupported("the paper prints one pass and no released baseline; use calibration 'tight'")
        # σ = √(2 ln(1.25/δ)) · 2 R_max G / (m ε)  [he2025policy] Thm. 1
        printed = request.clip if request.clip is not None else hi * paper_score_bound(shape.num_actions)
        sigma = classical_gaussian_sigma(claim.epsilon, claim.delta, 2.0 * printed / m)
        score = f"clip {request.clip:g}" if request.clip is not None else "G = √(1-1/A), a bound in the mean only"
        says = f"epsilon {claim.epsilon:g} at delta {claim.delta:g} by the classical Gaussian formula with {score}"
    elif claim.trust != "none":
        sigma = _least_sigma(reach, claim, request.epochs, request.rate) / divisor
    kind = SoftmaxGradients if shape.num_actions > 0 else DoseGradients
    return kind(
        shape=shape,
        claim=claim,
        calibration=request.calibration if claim.trust != "none" else "none",
        users_per_batch=m,
        bounds=bounds,
        reach=reach,
        sigma=sigma,
        epochs=request.epochs,
        rate=request.rate,
        reward_weight=weight,
        says=says,
        width=0 if request.tabular or shape.num_actions == 0 else shape.dimension // shape.stages,
    )


def _claim(request: GradientRequest) -> PrivacyClaim:
    """DP of the final policy, which comes with joint DP of the online run."""
    if request.trust == "none":
        require(request.epsilon is None, "epsilon makes no sense with trust 'none'", given=request.epsilon)
        return no_privacy()
    if request.trust != "central":
        raise NotSupported(f"a batch gradient needs a curator: use trust 'central', not '{request.trust}'")
    if request.epsilon is None or not request.delta:
        raise InvalidInput("a private gradient needs an epsilon and a delta above 0 (Gaussian noise is never pure)")
    return PrivacyClaim(
        trust="central",
        epsilon=request.epsilon,
        delta=request.delta,
        unit=PrivacyUnit(trajectories=1),
        neighbours="replace-one",
        output="final-policy",
        allow_large_delta=request.allow_large_delta,
    )


def _weights(request: GradientRequest) -> tuple[float, float]:
    """The interval of reward minus baseline.

    A baseline that comes from earlier releases may be anywhere in [low, high]; both users of a comparison meet the same
    one, so weights w, w' have |w - w'| and max(|w|, |w'|) of at most the width: the reach is that of [0, width].
    """
    if request.baseline is None:
        return 0.0, request.high - request.low
    inside = request.low <= request.baseline <= request.high
    require(inside, f"a baseline must lie in [{request.low:g}, {request.high:g}]", given=request.baseline)
    return request.low - request.baseline, request.high - request.baseline


def _least_sigma(reach: Reach, claim: PrivacyClaim, epochs: int, rate: float) -> float:
    """The least noise in the sum that is private for `epochs` uses of a batch, rounded up."""
    # μ = √K Δ/σ for K Gaussian releases of the same users
    sigma = math.sqrt(epochs) * reach.shift / gaussian_mu(claim.epsilon, claim.delta) * (1.0 + 1e-12)
    if rate == 1.0:
        return sigma

    def excess(level: float) -> float:
        events = ((SampledGaussianEvent(sigma=level, norm=reach.norm, rate=rate), epochs),)
        found = epsilon_of(events, claim.delta)
        return math.log(found / claim.epsilon) if found > 0.0 else -math.inf

    return least_real(excess, max(rate * sigma, 0.05 * reach.norm), tolerance=1e-5) * (1.0 + 1e-9)
