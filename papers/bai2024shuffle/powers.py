"""Table I of both versions: the powers of X, A and H in the regret of SDP-PE and in what privacy adds to it.

    version 2024   √(X² A H⁵ K) + X³ A² H⁶/ε          version 2025   √(X A H³ K) + X³ A H⁶/ε

One size is varied at a time, from X = A = H = 2 on (`papers.sizes`), with four worlds each. Every deterministic
policy is kept, A^(XH) of them, which bounds the sizes. The practical rule with tight noise at ε = 1: with the printed
constants nothing is eliminated at these sizes before 10⁷ to 10¹³ users (`bai2024shuffle/elimination`).
"""

from __future__ import annotations

from typing import Any, Final, Literal

from papers.bai2024shuffle.experiments import PRIVATE, VARIANTS
from papers.sizes import SizeFigure, sizes_of, worlds
from tacit.runs.comparison import Run
from tacit.runs.config import RunConfig, as_seeds

__all__ = ["FIGURE", "PRINTED", "runs"]

Scale = Literal["smoke", "paper"]

VALUES: Final = {"smoke": (2, 3), "paper": (2, 3, 4, 6)}
USERS: Final = {"smoke": 20_000, "paper": 10_000_000}
WORLDS: Final = {"smoke": 1, "paper": 4}
NOISES: Final = ("no privacy", "tight, ε=1")
PRINTED: Final = {
    "2024, no privacy": (1.0, 0.5, 2.5),
    "2024, cost": (3.0, 2.0, 6.0),
    "2025, no privacy": (0.5, 0.5, 1.5),
    "2025, cost": (3.0, 1.0, 6.0),
}
"""The powers of X, A and H in Table I."""


def runs(scale: Scale) -> tuple[Run, ...]:
    """Both versions, with and without privacy, in every world."""
    found = []
    for size in sizes_of(VALUES[scale]):
        for world in worlds(*size.values(), WORLDS[scale]):
            for variant in VARIANTS:
                for name in NOISES:
                    private: dict[str, Any] = PRIVATE[name]
                    config = RunConfig(
                        environment=world,
                        learner=f"sdp-pe:variant={variant}",
                        episodes=USERS[scale],
                        seeds=as_seeds({"smoke": 3, "paper": 10}[scale]),
                        constants="practical",
                        checkpoints=20,
                        **private,
                    )
                    found.append(Run(label=f"{variant}, {name}", config=config))
    return tuple(found)


FIGURE: Final = SizeFigure(
    name="powers",
    # A private line is the sum of both terms; its own power is compared with the larger one.
    printed={**PRINTED, **{f"{variant}, tight, ε=1": PRINTED[f"{variant}, cost"] for variant in VARIANTS}},
    costs={f"{variant}, cost": (f"{variant}, tight, ε=1", f"{variant}, no privacy") for variant in VARIANTS},
)
