"""Experiments on both versions of SDP-PE: its rate (Table I, Theorems 6 and 11), its constant C, and its parts.

    table1      the largest regret over a grid of gaps against K and ε: √K without privacy, and an additive cost ~ 1/ε
    constants   C of the widths (both papers leave it open) and C₁ of W, scanned
    ablations   the schedule (growth of L, the first L) and forgetting, at the practical rule
    riverswim   the first version beside the second at the sizes of Fig. 4 of [bai2025secure]

At a fixed gap regret stops growing when the good action is found, whatever the bound says. So `table1` takes, for every
K, the gap at which regret is largest: the worst case that the theorems bound. Its world is the smallest hard tree
(S = 3, A = 2, H = 2), where the printed constants (C = 1) do eliminate at a K that can be simulated; batches are
simulated by their counts, so that 10¹⁰ users take a second. The schedule does not depend on K but for its last stage
and logarithms: a run of 10¹⁰ users shows all smaller K.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Literal

from papers.panels import PanelFigure
from tacit.environments.registry import make
from tacit.learners.sdp_pe import COST, Variant, stage_lengths
from tacit.released.counts import CountShape
from tacit.runs.comparison import Run
from tacit.runs.config import RunConfig, as_seeds
from tacit.runs.result import Result

__all__ = ["FIGURES", "SUMMARIES", "ablation_runs", "complete_stages", "constant_runs", "growth_runs", "river_runs"]

Scale = Literal["smoke", "paper"]

SUMMARIES: Final = {
    "table1": "both versions of SDP-PE: the largest regret over a grid of gaps against K and epsilon, both constants",
    "powers": "both versions of SDP-PE on random MDPs of growing size: powers of X, A and H, also of what privacy adds",
    "constants": "both versions of SDP-PE with the theorem's widths: C and C1 scanned, with and without privacy",
    "ablations": "both versions of SDP-PE: schedule and forgetting, with and without privacy",
    "riverswim": "the first version of SDP-PE on RiverSwim at the sizes of the second one's figure 4",
    "elimination": "the number of users from which the printed C eliminates anything, and runs on both sides of it",
}
VARIANTS: Final[tuple[Variant, ...]] = ("2024", "2025")
DELTA: Final = 1e-6
TREE: Final = "hard-tree:states=3,actions=2,horizon=2"
GAPS: Final = {"smoke": (1, 4), "paper": tuple(range(1, 11))}
"""j of the gaps Δ = 2^-j."""
EPSILONS: Final = {"smoke": (1.0,), "paper": (4.0, 1.0, 0.25)}
LONGEST: Final = {"smoke": 10**6, "paper": 10**10}
GROWTH_SEEDS: Final = {"smoke": 3, "paper": 10}
RIVER: Final = "riverswim:states=3,horizon=4"
"""2¹² policies: small enough for many runs."""
SCAN: Final = {"smoke": (1.0, 0.01), "paper": (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)}
FREQUENT: Final = {"smoke": (6.0,), "paper": (6.0, 0.01)}
"""C₁: the printed one, and one at which a private run calls anything frequent at this size."""
SIZES: Final = {"smoke": (20_000, 2), "paper": (200_000, 10)}
"""Users and seeds of scan and ablations."""
CHANGES: Final = {
    "as printed": "",
    "L grows fourfold": "growth=4",
    "L grows eightfold": "growth=8",
    "first L = 1024": "first=1024",
    "nothing is forgotten": "forget=false",
    "first L = 1024, nothing forgotten": "first=1024,forget=false",
    "L fixed at √K": "schedule=fixed",
    "L = b²": "schedule=polynomial",
    "L = K^(1-2^-b)": "schedule=apeve",
}
PRIVATE: Final[dict[str, dict[str, Any]]] = {
    "no privacy": {},
    "tight, ε=1": {"trust": "shuffle", "epsilon": 1.0, "delta": DELTA},
    "printed, ε=1": {"trust": "shuffle", "epsilon": 1.0, "delta": DELTA, "calibration": "paper"},
}


def complete_stages(environment: str, variant: Variant, most: int) -> int:
    """The largest number of users, at most `most`, that is used up by whole stages.

    >>> complete_stages("hard-tree:states=3,actions=2,horizon=2", "2025", 20_000)
    12276
    """
    mdp = make(environment)
    shape = CountShape(horizon=mdp.horizon, num_states=mdp.num_states, num_actions=mdp.num_actions, staged=True)
    lengths = stage_lengths(most, shape, variant)
    whole = lengths if lengths[-1] == lengths[0] * 2 ** (len(lengths) - 1) else lengths[:-1]
    return COST[variant] * sum(whole)


def growth_runs(scale: Scale) -> tuple[Run, ...]:
    """Every gap, version, rule and epsilon (None: without privacy), one long run each."""
    found = []
    for constants, variant in _kinds():
        episodes = complete_stages(TREE, variant, LONGEST[scale])
        for epsilon in (None, *EPSILONS[scale]):
            private: dict[str, Any] = (
                {} if epsilon is None else {"trust": "shuffle", "epsilon": epsilon, "delta": DELTA}
            )
            name = "no privacy" if epsilon is None else f"ε={epsilon:g}"
            for j in GAPS[scale]:
                config = RunConfig(
                    environment=f"{TREE},gap={0.5**j:.6g}",
                    learner=f"sdp-pe:variant={variant}",
                    episodes=episodes,
                    seeds=as_seeds(GROWTH_SEEDS[scale]),
                    constants=constants,
                    checkpoints=60,
                    **private,
                )
                found.append(Run(label=f"{name}, {variant}, {constants}", config=config))
    return tuple(found)


def _kinds() -> Iterator[tuple[Literal["theory", "practical"], Variant]]:
    rules: tuple[Literal["theory", "practical"], ...] = ("theory", "practical")
    for constants in rules:
        for variant in VARIANTS:
            yield constants, variant


def constant_runs(scale: Scale) -> tuple[Run, ...]:
    """The widths of the theorem with every C and C₁."""
    return tuple(
        _run(scale, f"C={C:g}, C1={C1:g}, {variant}, {name}", variant, f"C={C:g},C1={C1:g}", "theory", private)
        for variant in VARIANTS
        for name, private in list(PRIVATE.items())[:2]
        for C1 in FREQUENT[scale]
        for C in SCAN[scale]
    )


def ablation_runs(scale: Scale) -> tuple[Run, ...]:
    """One thing changed at a time; the printed noise once, for comparison."""
    found = [
        _run(scale, f"{change}, {variant}, {name}", variant, options, "practical", PRIVATE[name])
        for variant in VARIANTS
        for name in list(PRIVATE)[:2]
        for change, options in CHANGES.items()
    ]
    name = "printed, ε=1"
    found += [_run(scale, f"as printed, {v}, {name}", v, "", "practical", PRIVATE[name]) for v in VARIANTS]
    return tuple(found)


def river_runs(scale: Scale) -> tuple[Run, ...]:
    """The first version where the second one's figure 4 was made; δ = 10⁻⁶, the practical rule with z = 1."""
    found = []
    for episodes in {"smoke": (2_000,), "paper": (20_000, 200_000)}[scale]:
        for name, private in PRIVATE.items():
            config = RunConfig(
                environment="riverswim",
                learner="sdp-pe:variant=2024",
                episodes=episodes,
                seeds=as_seeds({"smoke": 2, "paper": 20}[scale]),
                constants="practical",
                checkpoints=40,
                **private,
            )
            label = "PE" if not private else f"SDP-PE {name}"
            found.append(Run(label=f"{label}, K={episodes:,}", config=config))
    return tuple(found)


def _run(scale: Scale, label: str, variant: Variant, options: str, constants: Any, private: dict[str, Any]) -> Run:
    most, seeds = SIZES[scale]
    config = RunConfig(
        environment=RIVER,
        learner=f"sdp-pe:variant={variant}" + (f",{options}" if options else ""),
        episodes=complete_stages(RIVER, variant, most),
        seeds=as_seeds(seeds),
        constants=constants,
        checkpoints=40,
        **private,
    )
    return Run(label=label, config=config)


def _by(*parts: int) -> Callable[[Result], tuple[str, ...]]:
    """Panels named by these parts of the label."""
    return lambda result: (", ".join(result.label.split(", ")[i] for i in parts),)


FIGURES: Final = {
    "ablations": (
        PanelFigure(
            name="ablations",
            panels=lambda result: (_panel_of(result.label),),
            line=lambda result: result.label.partition(", 202")[0],
            columns=2,
            band="bootstrap",
            per_episode="so far",
            log="x",
        ),
    ),
    "riverswim": (
        PanelFigure(
            name="riverswim", panels=_by(-1), line=lambda r: r.label.rpartition(", K=")[0], columns=2, log="none"
        ),
    ),
}


def _panel_of(label: str) -> str:
    before, _, after = label.partition(", 202")
    version, _, name = after.partition(", ")
    return f"version of 202{version}, {name}" if before else label
