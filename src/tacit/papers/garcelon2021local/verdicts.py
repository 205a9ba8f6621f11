"""Rows 12 to 18: the local mechanisms of [garcelon2021local], whose counters add up the steps of a trajectory."""

from __future__ import annotations

import math
from typing import Final

from tacit.accounting.composition import delta_of, epsilon_of
from tacit.accounting.events.bounded import least_radius
from tacit.accounting.families import Family
from tacit.mechanisms.noise.bounded import Bounded, paper_bounded_limit
from tacit.mechanisms.noise.gaussian import Gaussian, paper_gaussian_sigma
from tacit.mechanisms.noise.laplace import Laplace, paper_laplace_scale
from tacit.mechanisms.noise.randomized_response import RandomizedResponse, paper_response_epsilon
from tacit.mechanisms.noise.unary_encoding import UnaryEncoding
from tacit.papers.verdict import (
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

__all__ = ["local_verdicts"]

THREE: Final = pooled(HORIZON - 1, HORIZON, HORIZON)
"""N^p, N^r and R, added up over the steps."""
COMPLEMENT: Final = pooled(HORIZON - 1, HORIZON)
"""N^p, and R beside N^r - R, which together move by as much as one of them."""
ROOT2: Final = math.sqrt(2.0)
LOCAL: Final = (
    f"tacit certify --trust local --states {STATES} --actions {ACTIONS} --horizon {HORIZON} --episodes 20000 "
    f"--epsilon {EPSILON:g} --pooled --mechanism "
)


def local_verdicts() -> tuple[Verdict, ...]:
    """Rows 12 to 18."""
    H, pure, approximate = HORIZON, (EPSILON, 0.0), (EPSILON, LOCAL_DELTA)
    ldp, delta_ldp = f"{EPSILON:g}-LDP, pure", f"({EPSILON:g}, {LOCAL_DELTA:g})-LDP"
    paper_laplace = Laplace(scale=paper_laplace_scale(H, EPSILON), discrete=False)
    least, best = (Laplace.calibrate(families, EPSILON, 0.0) for families in (THREE, COMPLEMENT))
    gaussian, gaussian_best = (Gaussian.calibrate(families, EPSILON, LOCAL_DELTA) for families in (THREE, COMPLEMENT))
    stated, proved = (
        Gaussian(sigma=paper_gaussian_sigma(H, EPSILON, LOCAL_DELTA, proved_constant=which)) for which in (False, True)
    )
    exceeded = delta_of(tuple(pair for family in THREE for pair in proved.events(family)), EPSILON)
    response = RandomizedResponse(epsilon=paper_response_epsilon(H, EPSILON))
    kept = RandomizedResponse.calibrate(THREE, EPSILON, 0.0)
    slots = {n: UnaryEncoding(epsilon=EPSILON, slots=n, feeding=H) for n in (3 * H, 2 * H - 1)}
    limits = [paper_bounded_limit(cells, H, EPSILON, LOCAL_DELTA) for cells in (STATES * ACTIONS, STATES**2 * ACTIONS)]
    bounded = Bounded(limit=least_radius(EPSILON, LOCAL_DELTA, [f.shift for f in THREE for _ in range(f.differing)]))
    four = (*THREE, *pooled(H))
    posterior = Laplace(scale=paper_laplace_scale(H, EPSILON, families=4), discrete=False)
    bits = {m: 4 * H - 2 + 2 * m * H for m in (1, 2)}
    reports = {m: (Family(name="bits", up=n, down=0, shift=1.0),) for m, n in bits.items()}
    sequence = [certified(RandomizedResponse(epsilon=EPSILON), report, 0.0) for report in reports.values()]
    return (
        _local(
            row=12,
            mechanism="Laplace, b = 6H/eps",
            claim=ldp,
            claimed=pure,
            epsilon=certified(paper_laplace, THREE, 0.0),
            sound="b = (6H-2)/eps",
            paper_std=f"{paper_laplace.std:.4g}",
            tight_std=f"{least.std:.4g}; complement encoding (4H-2): {best.std:.4g} (R, N^p), {best.std * ROOT2:.4g} "
            "(N^r)",
            tight_epsilon=certified(best, COMPLEMENT, 0.0),
            command=LOCAL + "laplace --delta 0 --calibration paper",
        ),
        _local(
            row=13,
            mechanism="Gaussian, c > 4 ln(24/delta) (Prop. 10)",
            claim=delta_ldp,
            claimed=approximate,
            epsilon=certified(stated, THREE, LOCAL_DELTA),
            remark=f"{stated.std / gaussian.std:.1f} times the noise needed",
            sound="sigma = sqrt(4H^2 + 2(H-1)^2) / mu(eps, delta)",
            paper_std=f"{stated.std:.4g}",
            tight_std=f"{gaussian.std:.4g}; complement {gaussian_best.std:.4g}",
            tight_epsilon=certified(gaussian_best, COMPLEMENT, LOCAL_DELTA),
        ),
        _local(
            row=14,
            mechanism="Gaussian, c^2 >= 4 ln(24/delta) (its proof and Prop. 11)",
            claim=delta_ldp,
            claimed=approximate,
            epsilon=certified(proved, THREE, LOCAL_DELTA),
            remark=f"delta at epsilon {EPSILON:g} is {exceeded:.2g}",
            sound="as row 13",
            paper_std=f"{proved.std:.4g}",
            tight_std="as row 13",
            tight_epsilon=certified(gaussian, THREE, LOCAL_DELTA),
            command=LOCAL + f"gaussian --delta {LOCAL_DELTA:g} --calibration paper",
        ),
        _local(
            row=15,
            mechanism="randomized response, eps0 = eps/6H",
            claim=ldp,
            claimed=pure,
            epsilon=certified(response, THREE, 0.0),
            remark="but its printed confidence radii are too small",
            sound="eps0 = eps/(6H-2)",
            paper_std=f"{response.std * math.sqrt(H):.4g}",
            tight_std=f"{kept.std * math.sqrt(H):.4g}; one random slot in unary encoding "
            + ", ".join(
                f"{math.sqrt(oue.noise_variance):.4g} ({n} slots, sampling adds up to "
                f"{math.sqrt(oue.sampling_variance):.3g})"
                for n, oue in slots.items()
            ),
            tight_epsilon=certified(slots[3 * H], (Family(name="one slot", up=1, down=1, shift=1.0),), 0.0),
            command=LOCAL + "rr --delta 0 --calibration paper",
        ),
        _local(
            row=16,
            mechanism="bounded noise, open constant C = 1",
            claim=delta_ldp,
            claimed=approximate,
            epsilon=epsilon_of(
                Bounded(limit=limits[1]).events(THREE[0])
                + Bounded(limit=limits[0]).events(THREE[1])
                + Bounded(limit=limits[0]).events(THREE[2]),
                LOCAL_DELTA,
            ),
            remark="its theorem needs exp(-k/ln^8 k) <= 1/2, so k >= 1.26e11 cells (or k <= 3)",
            sound="exact least radius by PLD",
            paper_std=f"{Bounded(limit=limits[0]).std:.4g} (R = {limits[0]:.4g})",
            tight_std=f"{bounded.std:.4g} (R = {bounded.limit:.4g}), "
            f"{bounded.std / gaussian.std:.1f} times the Gaussian's",
            tight_epsilon=certified(bounded, THREE, LOCAL_DELTA),
            command=LOCAL + f"bounded --delta {LOCAL_DELTA:g} --calibration paper",
        ),
        _local(
            row=17,
            mechanism="LDP-PSRL, Laplace, b = 8H/eps",
            claim=ldp,
            claimed=pure,
            epsilon=certified(posterior, four, 0.0),
            sound="b = (8H-2)/eps",
            paper_std=f"{posterior.std:.4g}",
            tight_std=f"{Laplace.calibrate(four, EPSILON, 0.0).std:.4g}; binary rewards {best.std:.4g}",
            tight_epsilon=certified(best, COMPLEMENT, 0.0),
        ),
        _local(
            row=18,
            mechanism="M_sh, eps per bit",
            claim=f'"roughly H eps"-LDP = {H * EPSILON:g}',
            claimed=(H * EPSILON, 0.0),
            epsilon=sequence[0],
            words=f"(4H-2+2mH) eps = {up(sequence[0])} (m = 1), {up(sequence[1])} (m = 2)",
            remark="reports are re-sent every episode, so differences link each to its user: no amplification",
            sound="eps/(4H-2+2mH) per bit, m = 1 and rounded rewards",
            paper_std="-",
            tight_std="batches of rows 1 and 2",
            tight_epsilon=None,
        ),
    )


def _local(
    *,
    row: int,
    mechanism: str,
    claim: str,
    claimed: tuple[float, float],
    epsilon: float,
    sound: str,
    paper_std: str,
    tight_std: str,
    tight_epsilon: float | None,
    words: str | None = None,
    remark: str = "",
    command: str | None = None,
) -> Verdict:
    patterns = {
        15: "6H-2 flipped bits",
        17: "one counter up and one down in each of four families, by 5, 6, 6 and 6",
        18: "4H-2+2mH flipped bits",
    }
    return Verdict(
        row=row,
        source="garcelon2021local",
        mechanism=mechanism,
        claim=claim,
        claimed=claimed,
        epsilon=epsilon,
        certified=up(epsilon) if words is None else words,
        remark=remark,
        sound=sound,
        paper_std=paper_std,
        tight_std=tight_std,
        tight_epsilon=tight_epsilon,
        accounted=patterns.get(row, "one counter up and one down in each of three families, by 5, 6 and 6"),
        command=command,
    )
