"""Fig. 4 of [bai2025secure]: regret on RiverSwim (X=4, A=2, H=6), K = 20,000, 20 runs, epsilon 0.1 and 1.

The paper compares UCB-VI, PE, UCBVI-JDP, UCBVI-LDP and SDP-PE and prints neither delta nor the constants. Its private
UCB-VI is that of Qiao and Wang (2023), so both UCB-VI on private counts (`ucbvi`) and DP-UCBVI (`dp-ucbvi`) run here.
Every learner runs under the one practical rule (z = 1), with the printed calibration and with the tight one; SDP-PE
also with the theorem's constants; the uniform policy shows what "nothing learned" costs. Two more sizes are added, at
which the published ordering can be looked for: epsilon 10 at K = 20,000, and epsilon 1 at K = 200,000.

The printed noise of a local learner is Lap(6H/epsilon) in [garcelon2021local] and Lap(3H/epsilon) in Sec. 5.2 of
[bai2024adversarial] ("3H"), whose claim is false: it is pure (6H-2)/(3H) epsilon. The paper does not say which it has.

`fig4` has exactly the paper's five lines and two epsilons, once with printed and once with tight noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

from papers.panels import PanelFigure
from tacit.runs.comparison import Run
from tacit.runs.config import RunConfig, as_seeds
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
    "UCBVI-LDP 3H printed": ("ucbvi", {"trust": "local", "calibration": "paper", "mechanism": "laplace:scale=3H"}),
    "DP-UCBVI-JDP tight": ("dp-ucbvi", {"trust": "central"}),
    "DP-UCBVI-JDP printed": ("dp-ucbvi", {"trust": "central", "calibration": "paper"}),
    "DP-UCBVI-LDP tight": ("dp-ucbvi", {"trust": "local"}),
    "DP-UCBVI-LDP printed": ("dp-ucbvi", {"trust": "local", "calibration": "paper"}),
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


FIVE: Final = ("UCB-VI", "PE", "UCBVI-JDP", "UCBVI-LDP", "UCBVI-LDP 3H", "SDP-PE")
"""The lines of the paper's figure, local noise as two papers print it."""
CITED: Final = ("UCB-VI", "PE", "DP-UCBVI-JDP", "DP-UCBVI-LDP", "SDP-PE")
"""The same with the learners that the paper cites."""
NOISES: Final = {"printed": "noise as printed", "tight": "least noise for the claim"}


def _line(result: Result) -> str:
    """The label without its case and its noise."""
    name = result.label.split(", ε=")[0].split(", K=")[0]
    return name.removesuffix(" tight").removesuffix(" printed")


def _five(names: Sequence[str], cases: Sequence[tuple[float, int]]) -> Callable[[Result], Sequence[str]]:
    """A panel per noise and case with these lines; public learners stand in every panel of their length."""

    def panels(result: Result) -> tuple[str, ...]:
        found = []
        for noise, words in NOISES.items():
            for epsilon, episodes in cases:
                size = result.config.episodes
                here = size in (episodes, CASES["smoke"][0][1]) and result.config.epsilon in (None, epsilon)
                kind = result.config.trust == "none" or f" {noise}, ε=" in result.label
                if here and kind and _line(result) in names:
                    found.append(f"ε = {epsilon:g}, K = {size:,}, {words}")
        return tuple(found)

    return panels


def _variants(result: Result) -> tuple[str, ...]:
    """A panel per case with every run of SDP-PE."""
    if not result.config.learner.startswith("sdp-pe"):
        return ()
    size = result.config.episodes
    every = (
        [result.config.epsilon] if result.config.epsilon is not None else [e for e, k in CASES["paper"] if k == size]
    )
    return tuple(f"ε = {epsilon:g}, K = {size:,}" for epsilon in every)


def _order(cases: Sequence[tuple[float, int]]) -> tuple[str, ...]:
    """Panels of one case stand side by side."""
    return tuple(f"ε = {e:g}, K = {K:,}, {words}" for e, K in cases for words in NOISES.values())


def _figure(name: str, lines: Sequence[str], cases: Sequence[tuple[float, int]]) -> PanelFigure:
    panels, order = _five(lines, cases), _order(cases)
    return PanelFigure(name=name, panels=panels, line=_line, band="std", log="none", columns=2, order=order)


FIGURES: Final = (
    _figure("fig4", FIVE, CASES["paper"][:2]),
    _figure("fig4-larger", FIVE, CASES["paper"][2:]),
    _figure("fig4-cited", CITED, CASES["paper"][:2]),
    PanelFigure(
        name="fig4-sdp-pe",
        panels=_variants,
        line=lambda result: result.label.split(", ε=")[0].split(", K=")[0],
        band="std",
        log="none",
        columns=2,
    ),
)
