"""Rows 12 to 18: the local mechanisms of [garcelon2021local], whose counters add up the steps of a trajectory."""

from __future__ import annotations

import math
from typing import Any, Final

from papers.verdict import (
    ACTIONS,
    EPSILON,
    HORIZON,
    LOCAL_DELTA,
    STATES,
    Verdict,
    certified,
    pooled,
    up,
)
from tacit.accounting.composition import delta_of, epsilon_of
from tacit.accounting.events.bounded import least_radius
from tacit.accounting.families import Family
from tacit.noise.bounded import Bounded, paper_bounded_limit
from tacit.noise.gaussian import Gaussian, paper_gaussian_sigma
from tacit.noise.laplace import Laplace, paper_laplace_scale
from tacit.noise.randomized_response import RandomizedResponse, paper_response_epsilon
from tacit.noise.unary_encoding import UnaryEncoding

__all__ = ["bounded_epsilon", "local_verdicts", "printed_delta", "printed_least_delta"]

THREE: Final = pooled(HORIZON - 1, HORIZON, HORIZON)
"""N^p, N^r and R, added up over the steps."""
COMPLEMENT: Final = pooled(HORIZON - 1, HORIZON)
"""N^p, and R beside N^r - R, which together move by as much as one of them."""
ROOT2: Final = math.sqrt(2.0)
LOCAL: Final = (
    f"tacit certify --trust local --states {STATES} --actions {ACTIONS} --horizon {HORIZON} --episodes 20000 "
    f"--epsilon {EPSILON:g} --pooled --mechanism "
)


CELLS: Final = (STATES**2 * ACTIONS, STATES * ACTIONS, STATES * ACTIONS)
"""Counters of N^p, N^r and R."""
PURE: Final = {"claim": f"{EPSILON:g}-LDP, pure", "claimed": (EPSILON, 0.0)}
APPROXIMATE: Final = {"claim": f"({EPSILON:g}, {LOCAL_DELTA:g})-LDP", "claimed": (EPSILON, LOCAL_DELTA)}


def local_verdicts() -> tuple[Verdict, ...]:
    """Rows 12 to 18."""
    best = Laplace.calibrate(COMPLEMENT, EPSILON, 0.0)
    gaussian = Gaussian.calibrate(THREE, EPSILON, LOCAL_DELTA)
    return (
        _laplace(best),
        _gaussian_stated(gaussian),
        _gaussian_proved(gaussian),
        _randomized_response(),
        _bounded(gaussian),
        _posterior_sampling(best),
        _bit_sequences(),
    )


def _laplace(best: Laplace) -> Verdict:
    printed = Laplace(scale=paper_laplace_scale(HORIZON, EPSILON), discrete=False)
    return _local(
        **PURE,
        row=12,
        mechanism="Laplace, b = 6H/eps",
        epsilon=certified(printed, THREE, 0.0),
        sound="b = (6H-2)/eps",
        paper_std=f"{printed.std:.4g}",
        tight_std=f"{Laplace.calibrate(THREE, EPSILON, 0.0).std:.4g}; complement encoding (4H-2): {best.std:.4g} "
        f"(R, N^p), {best.std * ROOT2:.4g} (N^r)",
        tight_epsilon=certified(best, COMPLEMENT, 0.0),
        command=LOCAL + "laplace --delta 0 --calibration paper",
    )


def _printed_gaussian(*, proved: bool) -> Gaussian:
    return Gaussian(sigma=paper_gaussian_sigma(HORIZON, EPSILON, LOCAL_DELTA, proved_constant=proved))


def _gaussian_stated(gaussian: Gaussian) -> Verdict:
    stated, best = _printed_gaussian(proved=False), Gaussian.calibrate(COMPLEMENT, EPSILON, LOCAL_DELTA)
    return _local(
        **APPROXIMATE,
        row=13,
        mechanism="Gaussian, c > 4 ln(24/delta) (Prop. 10)",
        epsilon=certified(stated, THREE, LOCAL_DELTA),
        remark=f"{stated.std / gaussian.std:.1f} times the noise needed",
        sound="sigma = sqrt(4H^2 + 2(H-1)^2) / mu(eps, delta)",
        paper_std=f"{stated.std:.4g}",
        tight_std=f"{gaussian.std:.4g}; complement {best.std:.4g}",
        tight_epsilon=certified(best, COMPLEMENT, LOCAL_DELTA),
        command=LOCAL + f"gaussian:c=statement --delta {LOCAL_DELTA:g} --calibration paper",
    )


def _gaussian_proved(gaussian: Gaussian) -> Verdict:
    proved = _printed_gaussian(proved=True)
    exceeded = delta_of(tuple(pair for family in THREE for pair in proved.events(family)), EPSILON)
    return _local(
        **APPROXIMATE,
        row=14,
        mechanism="Gaussian, c^2 >= 4 ln(24/delta) (its proof and Prop. 11)",
        epsilon=certified(proved, THREE, LOCAL_DELTA),
        remark=f"delta at epsilon {EPSILON:g} is {exceeded:.2g}",
        sound="as row 13",
        paper_std=f"{proved.std:.4g}",
        tight_std="as row 13",
        tight_epsilon=certified(gaussian, THREE, LOCAL_DELTA),
        command=LOCAL + f"gaussian --delta {LOCAL_DELTA:g} --calibration paper",
    )


def _randomized_response() -> Verdict:
    H = HORIZON
    printed = RandomizedResponse(epsilon=paper_response_epsilon(H, EPSILON))
    kept = RandomizedResponse.calibrate(THREE, EPSILON, 0.0)
    slots = {n: UnaryEncoding(epsilon=EPSILON, slots=n, feeding=H) for n in (3 * H, 2 * H - 1)}
    return _local(
        **PURE,
        row=15,
        mechanism="randomized response, eps0 = eps/6H",
        epsilon=certified(printed, THREE, 0.0),
        remark="but its printed confidence radii are too small",
        sound="eps0 = eps/(6H-2)",
        paper_std=f"{printed.std * math.sqrt(H):.4g}",
        tight_std=f"{kept.std * math.sqrt(H):.4g}; one random slot in unary encoding "
        + ", ".join(
            f"{math.sqrt(oue.noise_variance):.4g} ({n} slots, sampling adds up to "
            f"{math.sqrt(oue.sampling_variance):.3g})"
            for n, oue in slots.items()
        ),
        tight_epsilon=certified(slots[3 * H], (Family(name="one slot", up=1, down=1, shift=1.0),), 0.0),
        accounted="6H-2 flipped bits",
        command=LOCAL + "rr --delta 0 --calibration paper",
    )


def bounded_epsilon(constant: float = 1.0, delta: float = LOCAL_DELTA) -> float:
    """What Alg. 6 certifies with a constant C of Prop. 14, at the reference instance and epsilon.

    >>> [round(bounded_epsilon(C), 1) for C in (1.0, 2.95)]
    [4.3, 1.0]
    """
    printed = [Bounded(limit=constant * paper_bounded_limit(cells, HORIZON, EPSILON, LOCAL_DELTA)) for cells in CELLS]
    return epsilon_of(
        tuple(pair for noise, family in zip(printed, THREE, strict=True) for pair in noise.events(family)), delta
    )


def printed_least_delta(cells: int) -> float:
    """exp(-k / ln(k)^8), the least delta_0 for which Prop. 14 says anything, k = SA.

    >>> round(printed_least_delta(8), 3), round(printed_least_delta(4), 3)
    (0.977, 0.746)
    """
    return math.exp(-cells / math.log(cells) ** 8)


def printed_delta(small_epsilon: float, horizon: int, delta_0: float, delta_1: float) -> float:
    """The delta' of Prop. 14: its claim is (3 H epsilon, delta')-LDP.

    >>> printed_delta(1 / 18, 6, printed_least_delta(8), printed_least_delta(32)) > 1.0
    True
    """
    grown = math.expm1(horizon * small_epsilon) / math.expm1(small_epsilon)
    d0, d1, e = delta_0 * grown, delta_1 * grown, math.exp(horizon * small_epsilon)
    return d1 * e**2 + 2.0 * d0 * e**2 + 2.0 * d0 * d1 * e + d0**2 * e + d0**2 * d1


def _bounded(gaussian: Gaussian) -> Verdict:
    printed = Bounded(limit=paper_bounded_limit(CELLS[1], HORIZON, EPSILON, LOCAL_DELTA))
    least = Bounded(limit=least_radius(EPSILON, LOCAL_DELTA, [f.shift for f in THREE for _ in range(f.differing)]))
    return _local(
        **APPROXIMATE,
        row=16,
        mechanism="bounded noise, open constant C = 1",
        epsilon=bounded_epsilon(),
        undecided="vacuous at the sizes of its figures",
        remark=f"nothing is claimed below delta_0 = {printed_least_delta(STATES * ACTIONS):.3f}, C is open",
        sound="exact least radius by PLD",
        paper_std=f"{printed.std:.4g} (R = {printed.limit:.4g})",
        tight_std=f"{least.std:.4g} (R = {least.limit:.4g}), {least.std / gaussian.std:.1f} times the Gaussian's",
        tight_epsilon=certified(least, THREE, LOCAL_DELTA),
        command=LOCAL + f"bounded --delta {LOCAL_DELTA:g} --calibration paper",
    )


def _posterior_sampling(best: Laplace) -> Verdict:
    four = (*THREE, *pooled(HORIZON))
    printed = Laplace(scale=paper_laplace_scale(HORIZON, EPSILON, families=4), discrete=False)
    return _local(
        **PURE,
        row=17,
        mechanism="LDP-PSRL, Laplace, b = 8H/eps",
        epsilon=certified(printed, four, 0.0),
        sound="b = (8H-2)/eps",
        paper_std=f"{printed.std:.4g}",
        tight_std=f"{Laplace.calibrate(four, EPSILON, 0.0).std:.4g}; binary rewards {best.std:.4g}",
        tight_epsilon=certified(best, COMPLEMENT, 0.0),
        accounted="one counter up and one down in each of four families, by 5, 6, 6 and 6",
    )


def _bit_sequences() -> Verdict:
    H = HORIZON
    one, two = (
        certified(RandomizedResponse(epsilon=EPSILON), (Family(name="bits", up=bits, down=0, shift=1.0),), 0.0)
        for bits in (4 * H - 2 + 2 * m * H for m in (1, 2))
    )
    return _local(
        row=18,
        mechanism="M_sh, eps per bit",
        claim=f'"roughly H eps"-LDP = {H * EPSILON:g}',
        claimed=(H * EPSILON, 0.0),
        epsilon=one,
        certified=f"(4H-2+2mH) eps = {up(one)} (m = 1), {up(two)} (m = 2)",
        remark="reports are re-sent every episode, so differences link each to its user: no amplification",
        sound="eps/(4H-2+2mH) per bit, m = 1 and rounded rewards",
        paper_std="-",
        tight_std="batches of rows 1 and 2",
        tight_epsilon=None,
        accounted="4H-2+2mH flipped bits",
    )


def _local(*, epsilon: float, **row: Any) -> Verdict:
    usual = {
        "certified": up(epsilon),
        "accounted": "one counter up and one down in each of three families, by 5, 6 and 6",
        "remark": "",
        "definition": "LDP (Definition 1)",
    }
    return Verdict(source="garcelon2021local", epsilon=epsilon, **(usual | row))
