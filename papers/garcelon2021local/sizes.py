"""Theorem 5 and Table 1 of [garcelon2021local]: the powers of S, A and H in the regret of LDP-OBI, fitted.

    Laplace, Gaussian   H³ S² A √K/ε           randomized response   H^(7/2) S² A √K/ε
    bounded noise       H² S³ A^(3/2) √K/ε

One size is varied at a time, from S = A = H = 2 on (`papers.sizes`), with four worlds each. K = 10⁸ at ε = 2,
noise as printed, under the one practical rule; and with the radii of Theorem 5 (`printed`) and Laplace noise at ε = 20.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from papers.garcelon2021local.experiments import LOCAL_DELTA
from papers.sizes import SizeFigure, sizes_of, worlds
from tacit.runs.comparison import Run
from tacit.runs.config import RunConfig, as_seeds

__all__ = ["FIGURE", "PRINTED", "runs", "sizes"]

Scale = Literal["smoke", "paper"]

VALUES: Final = {"smoke": (2, 3), "paper": (2, 4, 8)}
USERS: Final = {"smoke": 20_000, "paper": 100_000_000}
WORLDS: Final = {"smoke": 1, "paper": 4}
APPROXIMATE: Final = {"delta": LOCAL_DELTA, "allow_large_delta": True}
LINES: Final[Mapping[str, dict[str, Any]]] = {
    "LDP-OBI-L": {"mechanism": "laplace", "delta": 0.0},
    "LDP-OBI-G": {"mechanism": "gaussian", **APPROXIMATE},
    "LDP-OBI-RR": {"mechanism": "rr", "delta": 0.0},
    "LDP-OBI-BND": {"mechanism": "bounded", **APPROXIMATE},
    "LDP-OBI-L, printed radii, ε=20": {"mechanism": "laplace", "delta": 0.0, "constants": "printed", "epsilon": 20.0},
}
PRINTED: Final[Mapping[str, tuple[float, float, float]]] = {
    "laplace": (2.0, 1.0, 3.0),
    "gaussian": (2.0, 1.0, 3.0),
    "rr": (2.0, 1.0, 3.5),
    "bounded": (3.0, 1.5, 2.0),
}
"""The powers of S, A and H in Table 1, by mechanism."""


def sizes(scale: Scale) -> tuple[dict[str, int], ...]:
    """S = A = H = 2, and every size in which one of them is larger."""
    return sizes_of(VALUES[scale])


def runs(scale: Scale) -> tuple[Run, ...]:
    """Every mechanism in every world."""
    found = []
    for size in sizes(scale):
        for world in worlds(*size.values(), WORLDS[scale]):
            for label, options in LINES.items():
                config = RunConfig(
                    environment=world,
                    learner="ldp-obi:time_homogeneous=true,replan=geometric",
                    episodes=USERS[scale],
                    seeds=as_seeds({"smoke": 1, "paper": 10}[scale]),
                    checkpoints=20,
                    trust="local",
                    calibration="paper",
                    **{"constants": "practical", "epsilon": 2.0, **options},
                )
                found.append(Run(label=label, config=config))
    return tuple(found)


FIGURE: Final = SizeFigure(
    name="table1", printed={label: PRINTED[str(options["mechanism"])] for label, options in LINES.items()}
)
