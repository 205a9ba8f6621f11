"""The experiments `cases/recommender` and `cases/recommender-large`: what to show first, against ranking by interest.

The design, fixed before any run of it (its reasons stand on the page of the case):

    world       tacit/Watching-v0: one person is one session of RecSim's "interest evolution", at most 120 pages
    people      20,000 under every trust model and epsilon 0.5, 1, 3; 200,000 under central and shuffle trust, epsilon 1
    seeds       200 to 219, and 220 to 239 for 200,000 people, used for nothing before
    learners    auto (delta 1e-6 under central and shuffle trust, 0 and batches of 250 under local); without privacy
                bucb, which takes its people in batches as well
    measured    minutes watched per person during the run; the final policy, uniform decisions and ranking by interest
                by 10,000 fresh sessions per seed
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from papers.panels import FigureSpec
from papers.worlds import WATCHING_ID
from tacit.runs.comparison import Run
from tacit.runs.config import RunConfig

__all__ = ["FIGURES", "LARGE", "LARGE_SUMMARY", "SMALL", "SUMMARY", "large_runs", "runs", "table"]

Scale = Literal["smoke", "paper"]

SUMMARY: Final = "what to show first in RecSim's sessions: every trust model, epsilon 0.5, 1, 3, against interest alone"
LARGE_SUMMARY: Final = "the same with 200,000 sessions: central and shuffle trust, epsilon 1"
BASELINE: Final = "interest"
EPSILONS: Final = (0.5, 1.0, 3.0)
DELTA: Final = 1e-6
LOCAL_BATCH: Final = 250
EVALUATION: Final = 10_000
"""Fresh sessions that measure a policy."""
SMALL: Final[dict[Scale, tuple[int, tuple[int, ...]]]] = {
    "smoke": (2_000, (200, 201)),
    "paper": (20_000, tuple(range(200, 220))),
}
"""People and seeds."""
LARGE: Final[dict[Scale, tuple[int, tuple[int, ...]]]] = {
    "smoke": (5_000, (220, 221)),
    "paper": (200_000, tuple(range(220, 240))),
}
FIGURES: Final = (FigureSpec(name="recommender", band="minmax", log="x", title="Minutes watched per session"),)
HEAD: Final = """\
| run | certified ε | minutes per session during the run | minus interest alone | final policy | minus interest alone |
|---|---|---|---|---|---|"""


def runs(scale: Scale) -> tuple[Run, ...]:
    """Every trust model and epsilon; the smoke run leaves out epsilon 0.5 and 3."""
    size = SMALL[scale]
    found = [_run("without privacy", size, learner="bucb")]
    for epsilon in EPSILONS if scale == "paper" else (1.0,):
        found += [_private(trust, epsilon, size) for trust in ("central", "shuffle")]
        options: dict[str, Any] = {"trust": "local", "epsilon": epsilon, "delta": 0.0, "batch": LOCAL_BATCH}
        found.append(_run(f"local, ε={epsilon:g}", size, **options))
    return tuple(found)


def large_runs(scale: Scale) -> tuple[Run, ...]:
    """Central and shuffle trust at epsilon 1."""
    return tuple(_private(trust, 1.0, LARGE[scale]) for trust in ("central", "shuffle"))


def _private(trust: str, epsilon: float, size: tuple[int, tuple[int, ...]]) -> Run:
    return _run(f"{trust}, ε={epsilon:g}", size, trust=trust, epsilon=epsilon, delta=DELTA)


def _run(label: str, size: tuple[int, tuple[int, ...]], **options: Any) -> Run:
    episodes, seeds = size
    config = RunConfig(
        environment=f"gymnasium:{WATCHING_ID},evaluation={EVALUATION}",
        episodes=episodes,
        seeds=seeds,
        constants="practical",
        baseline=BASELINE,
        checkpoints=40,
        **options,
    )
    return Run(label=label, config=config)


def table(cells: Sequence[Mapping[str, Any]]) -> str:
    """The page's table, as Markdown, from what is committed (`cells.json`)."""
    lines = [HEAD]
    for cell in cells:
        found, against = cell["returns"], cell["against"]
        epsilon = cell.get("certified epsilon")
        certified = "-" if epsilon is None else f"{epsilon:.3g}"
        during, final = found["during"]["mean"], found["final"]["mean"]
        lines.append(
            f"| {cell['run']} | {certified} | {during:.1f} | {_words(against['during'])} | {final:.1f} "
            f"| {_words(against['final'])} |"
        )
    return "\n".join(lines)


def _words(interval: Mapping[str, float]) -> str:
    return f"{interval['mean']:+.1f} [{interval['low']:+.1f}, {interval['high']:+.1f}]"
