"""`tacit demo`: what privacy costs on RiverSwim under each trust model, in under two minutes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tacit.cli.common import AsJson, Workers, command_line, print_json, print_results, resumable, say, tell
from tacit.errors import require_count

if TYPE_CHECKING:
    from tacit.runs.comparison import Run
    from tacit.runs.result import Result

EPISODES: Final = 20_000
SEEDS: Final = 10
PRIVATE: Final[dict[str, Any]] = {"epsilon": 1.0, "delta": 1e-6}


SEES: Final = {
    "none": "nothing is protected: the learner sees every trajectory",
    "central": "a curator sees every trajectory and releases noisy counts (JDP)",
    "shuffle": "devices add noise bits, a shuffler mixes them, and the learner sees their sums (SDP)",
    "local": "every device randomizes its one message, and no other party is trusted (LDP)",
}
"""Trust model -> what happens to trajectories."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo")(_demo)


def demo_runs(episodes: int = EPISODES, seeds: int = SEEDS) -> tuple[Run, ...]:
    """The learner that `auto` chooses, without privacy and under each trust model, and the one that learns nothing."""
    from tacit.runs.comparison import Run
    from tacit.runs.config import RunConfig, as_seeds

    choices: dict[str, dict[str, Any]] = {
        "not private": {},
        "central, ε=1": {"trust": "central", **PRIVATE},
        "shuffle, ε=1": {"trust": "shuffle", **PRIVATE},
        "local, ε=1": {"trust": "local", **PRIVATE},
        "uniform policy": {"learner": "uniform"},
    }
    shared: dict[str, Any] = {"environment": "riverswim", "episodes": episodes, "seeds": as_seeds(seeds)}
    return tuple(Run(label=label, config=RunConfig(**shared, **choice)) for label, choice in choices.items())


def _demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="The directory of the results; resumable.")] = Path("tacit-demo"),
    workers: Workers = None,
    episodes: Annotated[int, typer.Option(help="The number of users.")] = EPISODES,
    seeds: Annotated[int, typer.Option(help="How often the whole is repeated.")] = SEEDS,
    json: AsJson = False,
) -> None:
    """Learn on RiverSwim with and without privacy: a table, a figure, and the certificates in a file."""
    from tacit.runs.comparison import run_comparison
    from tacit.runs.manifest import write_beside

    runs = demo_runs(episodes, seeds)
    if workers is not None:
        require_count("workers", workers)
    if not json:
        tell(f"RiverSwim, {episodes:,} users, {seeds} seeds, each trust model at epsilon 1")
    with resumable(out):
        comparison = run_comparison(
            runs,
            name="demo",
            out=out,
            command=command_line(context),
            workers=workers,
            progress=not json,
            notify=tell,
        )
    figure = out / "regret.png"
    comparison.plot(figure, log="none", title="RiverSwim: what privacy costs")
    certificates = out / "certificates.txt"
    texts = [f"{found.label}\n\n{found.privacy_words}\n" for found in comparison if found.config.learner != "uniform"]
    write_beside(certificates, "\n".join(texts).encode())
    if json:
        print_json({**comparison.to_json(), "figures": [str(figure)], "certificates": str(certificates)})
        return
    print_results(comparison.results)
    for result in comparison:
        say(f"{result.label}: {_sentence(result)}")
    say(f"figure: {figure}\ncertificates: {certificates}")


def _sentence(result: Result) -> str:
    """What happened to the data of a row, and what it cost."""
    if result.config.learner == "uniform":
        return "every action is equally likely in every state; nothing is learned."
    relative = result.relative_regret
    cost = "" if relative is None else f"; {relative:.1%} of the uniform policy's regret (simulation only)"
    return f"{SEES[result.claim.trust]}{cost}."
