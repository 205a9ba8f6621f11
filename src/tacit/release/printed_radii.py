"""The printed radii of a local privatizer with printed noise: [garcelon2021local] Props. 8, 11, 13 and 15."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from tacit.errors import NotSupported
from tacit.noise.bounded import Bounded
from tacit.noise.gaussian import Gaussian
from tacit.noise.laplace import Laplace
from tacit.noise.randomized_response import RandomizedResponse
from tacit.release.local import Local
from tacit.released.counts import CountShape
from tacit.released.printed_radii import PrintedRadii


def printed_radii(privatizer: object) -> PrintedRadii:
    """The printed c_{k,1..4} of the noise of this privatizer; whatever has none is refused."""
    if not isinstance(privatizer, Local) or privatizer.calibration != "paper" or privatizer.encoding != "families":
        raise NotSupported(
            "constants 'printed' are printed for the printed noise of local trust only; use trust 'local' with "
            "calibration 'paper', or constants 'theory'"
        )
    rule = _RULES.get(type(privatizer.outcome))
    if rule is None:
        raise NotSupported(f"no paper prints radii for {privatizer.outcome.NAME} noise; use constants 'theory'")
    return rule(privatizer.outcome, privatizer.transition, privatizer.shape)


def _laplace(outcome: Laplace, moved: Laplace, shape: CountShape) -> PrintedRadii:
    # c₁ = c₂ = b max{√k, ln(6SA/δ)} √(8 ln(6SA/δ)),  c₃ = b max{√(kS), ln(6S²A/δ)} √(8 ln(6S²A/δ)) = √S c₄
    S, rows = shape.num_states, _rows(shape)
    own, other = outcome.scale * math.sqrt(8.0), moved.scale * math.sqrt(8.0)
    return PrintedRadii(
        amount=np.array([own, own, other, other / math.sqrt(S)]),
        terms=np.array([1.0, 1.0, S, S]),
        log_numbers=np.log([6.0 * rows, 6.0 * rows, 6.0 * S * rows, 6.0 * S * rows]),
        past=0.0,
        linear=1.0,
        least=0.0,
    )


def _gaussian(outcome: Gaussian, moved: Gaussian, shape: CountShape) -> PrintedRadii:
    # c₁ = c₂ = c₄ = max{σ √((k-1) ln(6SA/δ)), 1},  c₃ = max{σ √((k-1) S ln(6SA/δ)), 1}
    S = shape.num_states
    return PrintedRadii(
        amount=np.array([outcome.sigma, outcome.sigma, moved.sigma, moved.sigma]),
        terms=np.array([1.0, 1.0, S, 1.0]),
        log_numbers=np.full(4, math.log(6.0 * _rows(shape))),
        past=1.0,
        linear=0.0,
        least=1.0,
    )


def _response(outcome: RandomizedResponse, moved: RandomizedResponse, shape: CountShape) -> PrintedRadii:
    # c₁ = c₂ = max{1, g √((k-1)H/2 ln(4SA/δ))}, c₃ with S g, c₄ with ln(4S²A/δ);  g = (2e^ε₀ - 1)/(e^ε₀ - 1)
    S, rows, steps = shape.num_states, _rows(shape), 1 if shape.staged else shape.horizon
    # (2e^x - 1)/(e^x - 1) = 1 + 1/(1 - e^-x), for every x
    own, other = ((1.0 - 1.0 / math.expm1(-bit.epsilon)) * math.sqrt(steps / 2.0) for bit in (outcome, moved))
    return PrintedRadii(
        amount=np.array([own, own, S * other, other]),
        terms=np.ones(4),
        log_numbers=np.log([4.0 * rows, 4.0 * rows, 4.0 * rows, 4.0 * S * rows]),
        past=1.0,
        linear=0.0,
        least=1.0,
    )


def _bounded(outcome: Bounded, moved: Bounded, shape: CountShape) -> PrintedRadii:
    # c₁ = c₂ = R √(2(k-1) ln(6SA/δ)),  c₃ = R₂ √(2S(k-1) ln(6S²A/δ)),  c₄ = R₂ √(2(k-1) ln(6S²A/δ))
    S, rows = shape.num_states, _rows(shape)
    own, other = outcome.limit * math.sqrt(2.0), moved.limit * math.sqrt(2.0)
    return PrintedRadii(
        amount=np.array([own, own, other, other]),
        terms=np.array([1.0, 1.0, S, 1.0]),
        log_numbers=np.log([6.0 * rows, 6.0 * rows, 6.0 * S * rows, 6.0 * S * rows]),
        past=1.0,
        linear=0.0,
        least=0.0,
    )


def _rows(shape: CountShape) -> float:
    """SA of the union bounds; SAH where steps are kept apart (footnote 3)."""
    return float(shape.stages * shape.num_states * shape.num_actions)


_RULES: Final[Mapping[type[Any], Callable[[Any, Any, CountShape], PrintedRadii]]] = {
    Laplace: _laplace,
    Gaussian: _gaussian,
    RandomizedResponse: _response,
    Bounded: _bounded,
}
