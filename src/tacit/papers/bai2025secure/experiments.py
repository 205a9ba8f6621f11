"""Fig. 4 of [bai2025secure]: regret on RiverSwim (X=4, A=2, H=6), K = 20,000, 20 runs, epsilon 0.1 and 1.

The paper compares UCB-VI, PE, UCBVI-JDP, UCBVI-LDP and SDP-PE and prints neither delta nor the constants. Here every
learner runs under the one practical rule (z = 1), with the printed calibration and with the tight one; SDP-PE also with
the theorem's constants; the uniform policy shows what "nothing learned" costs. Two more sizes are added, at which the
published ordering can be looked for: epsilon 10 at K = 20,000, and epsilon 1 at K = 200,000.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

from tacit.runs.comparison import Run
from tacit.runs.config import RunConfig, as_seeds
from tacit.runs.figures import FigureSpec
from tacit.runs.result import Result

__all__ = ["FIGURES", "SUMMARY", "runs", "summary_table"]

SUMMARY: Final = "SDP-PE against UCB-VI, PE, UCBVI-JDP and UCBVI-LDP on RiverSwim: both calibrations, both constants"
DELTA: Final = 1e-6
CASES: Final = {
    "smoke": ((1.0, 2_000),),
    "paper": ((0.1, 20_000), (1.0, 20_000), (10.0, 20_000), (1.0, 200_000)),
}
"""Epsilon and episodes; the first two of `paper` are the published ones."""
SEEDS: Final = {"smoke": 2, "paper": 20}

PUBLIC: Final = {"UCB-VI": "ucbvi", "PE": "sdp-pe"}
PRIVATE: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "UCBVI-JDP tight": ("ucbvi", {"trust": "central"}),
    "UCBVI-JDP printed": ("ucbvi", {"trust": "central", "calibration": "paper"}),
    "UCBVI-LDP tight": ("ucbvi", {"trust": "local"}),
    "UCBVI-LDP printed": ("ucbvi", {"trust": "local", "calibration": "paper"}),
    "SDP-PE tight": ("sdp-pe", {"trust": "shuffle"}),
    "SDP-PE printed": ("sdp-pe", {"trust": "shuffle", "calibration": "paper"}),
    "SDP-PE tight, theory": ("sdp-pe", {"trust": "shuffle", "constants": "theory"}),
    "SDP-PE printed, theory": ("sdp-pe", {"trust": "shuffle", "calibration": "paper", "constants": "theory"}),
    "SDP-PE plus, tight": ("sdp-pe-plus", {"trust": "shuffle"}),
}


def runs(scale: Literal["smoke", "paper"]) -> tuple[Run, ...]:
    """All runs; the smoke scale is small and has one epsilon."""
    found: list[Run] = []

    def add(label: str, learner: str, episodes: int, **options: Any) -> None:
        options = {"constants": "practical", **options}
        config = RunConfig(
            environment="riverswim",
            learner=learner,
            episodes=episodes,
            seeds=as_seeds(SEEDS[scale]),
            checkpoints=40,
            **options,
        )
        found.append(Run(label=f"{label}, K={episodes:,}", config=config))

    for episodes in sorted({episodes for _, episodes in CASES[scale]}):
        for label, learner in PUBLIC.items():
            add(label, learner, episodes)
        add("uniform", "uniform", episodes, constants="none")
    for epsilon, episodes in CASES[scale]:
        for label, (learner, options) in PRIVATE.items():
            add(f"{label}, ε={epsilon:g}", learner, episodes, epsilon=epsilon, delta=DELTA, **options)
    return tuple(found)


def summary_table(results: Sequence[Result]) -> str:
    """Final regret (mean ± standard error over the seeds) as a Markdown table, one row per run."""
    lines = ["| run | certified epsilon | noise std, worst batch | regret | of uniform |", "|---|---|---|---|---|"]
    for result in results:
        final = result.regret[:, -1]
        error = final.std(ddof=1) / len(final) ** 0.5 if len(final) > 1 else 0.0
        share = final.mean() / (result.uniform_regret * result.config.episodes)
        private = result.config.trust != "none"
        epsilon = f"{result.certificate.epsilon:.4g}" if private else "-"
        std = f"{max(f.std for f in result.certificate.families):.4g}" if private else "-"
        lines.append(f"| {result.label} | {epsilon} | {std} | {final.mean():,.0f} ± {error:,.0f} | {share:.3f} |")
    return "\n".join(lines)


def _case(epsilon: float, episodes: int) -> Callable[[Result], bool]:
    """The runs of one epsilon and length, the public ones and the uniform policy among them."""

    def chosen(result: Result) -> bool:
        config = result.config
        same = config.episodes == episodes or config.episodes == CASES["smoke"][0][1]
        return same and config.epsilon in (None, epsilon)

    return chosen


FIGURES: Final = tuple(
    FigureSpec(
        name=f"fig4-epsilon-{epsilon:g}-K-{episodes}",
        band="std",
        log="none",
        select=_case(epsilon, episodes),
    )
    for epsilon, episodes in CASES["paper"]
)
