"""The experiment `features`: what linear learners lose, as a share of the uniform policy's regret, world by world.

    python -m papers.features.shares GROUP [--seeds 20] [--out results/features]

A cell is one kind of world, trust model, epsilon and learner; seed s is the world of number s and a run of seed s. The
share of a cell is the sum of its regrets over the sum of those of the uniform policy, because single shares have heavy
tails; its interval is a bootstrap over worlds. A file of results holds what is done, and the command goes on with it.

    bars           the sizes that were set before anything was built, epsilon 1
    frontier       shares against epsilon for d = 5, 10, 20, beside tables of bins
    published      LinUCB with the noise and the widths of three papers, beside ours
    misspecified   worlds that are not linear; xor, and xor with a declared product

Tables of bins are what could be had without features: `bucb` on a bandit whose states are the cells of 1 to 3 features
in 2 or 3 bins, of equal shares. Which table is shown is chosen by its result: no table does better than that.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from tacit._version import __version__
from tacit.arrays import Floats
from tacit.environments.bandits import FeatureBandit
from tacit.environments.registry import make_environment
from tacit.environments.tabular import TabularMDP
from tacit.learners.linucb_published import PUBLISHED
from tacit.policies import LinearPolicy
from tacit.runs.assemble import assemble, assembled
from tacit.runs.config import RunConfig
from tacit.simulation.simulate import simulate

DELTA: Final = 1e-6
MEASURED: Final = 100_000
"""Fresh rows on which final policies and tables are measured."""
TABLES: Final = ((1, 2), (1, 3), (2, 2), (2, 3), (3, 2), (3, 3))
"""Features and bins of each table."""
EPSILONS: Final = (0.1, 0.3, 1.0, 3.0, 10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One kind of world under one trust model."""

    features: int
    actions: int
    episodes: int
    trust: str
    epsilon: float | None = 1.0
    shared: bool = False
    model: str = "linear"
    learner: str = "auto"
    bar: float | None = None
    """The largest share that was allowed before anything was built."""

    def world(self, seed: int) -> str:
        """The specification of the world of this number."""
        more = (",shared=true" if self.shared else "") + (f",model={self.model}" if self.model != "linear" else "")
        return f"linear-bandit:features={self.features},actions={self.actions},seed={seed}{more}"

    def config(self, seed: int, environment: Any) -> RunConfig:
        """The run of this seed."""
        private = {} if self.trust == "none" else {"epsilon": self.epsilon, "delta": DELTA}
        return RunConfig(
            environment=environment,
            learner=self.learner,
            trust=self.trust,  # type: ignore[arg-type]
            episodes=self.episodes,
            seeds=(seed,),
            checkpoints=2,
            calibration="paper" if self.learner in PUBLISHED else "tight",
            **private,  # type: ignore[arg-type]
        )


def bars() -> Iterator[Cell]:
    """The sizes that were fixed beforehand, and none of privacy beside them."""
    apart = ((5, 2, 20_000, 0.10), (5, 4, 20_000, 0.17), (10, 4, 20_000, 0.34), (10, 4, 200_000, 0.07))
    together = ((5, 4, 20_000, 0.025), (10, 5, 20_000, 0.065))
    for trust in ("central", "shuffle", "none"):
        for shared, sizes in ((False, apart), (True, together)):
            for d, A, K, bar in sizes:
                private = trust != "none"
                yield Cell(
                    features=d,
                    actions=A,
                    episodes=K,
                    trust=trust,
                    shared=shared,
                    epsilon=1.0 if private else None,
                    bar=bar if private else None,
                )
    for d, A, K, bar in ((5, 4, 20_000, 0.10), (5, 4, 200_000, 0.025), (10, 5, 200_000, 0.085)):
        yield Cell(features=d, actions=A, episodes=K, trust="local", shared=True, bar=bar)
    for d, A, bar in ((5, 2, 0.20), (5, 4, 0.27), (10, 4, 0.60)):
        yield Cell(features=d, actions=A, episodes=200_000, trust="local", bar=bar)


def frontier() -> Iterator[Cell]:
    """Four actions, one parameter each; the table of bins is a learner of its own."""
    for d in (5, 10, 20):
        for K in (20_000, 200_000):
            yield Cell(features=d, actions=4, episodes=K, trust="none", epsilon=None)
            for trust in ("central", "shuffle", "local"):
                for epsilon in EPSILONS:
                    yield Cell(features=d, actions=4, episodes=K, trust=trust, epsilon=epsilon)
            for epsilon in EPSILONS:
                yield Cell(features=d, actions=4, episodes=K, trust="central", epsilon=epsilon, learner="table")


def misspecified() -> Iterator[Cell]:
    """Worlds in which no linear model is true."""
    for model in ("linear", "logistic", "quad", "heavy", "corr", "xor"):
        for d, A in ((5, 4), (10, 4)):
            for learner in ("auto", "table"):
                yield Cell(features=d, actions=A, episodes=20_000, trust="central", model=model, learner=learner)
    for d in (5, 10):  # with four actions, two of each kind, differences of linear scores can tell signs apart
        for learner in ("auto", "table"):
            yield Cell(features=d, actions=2, episodes=20_000, trust="central", model="xor", learner=learner)
    for d, A in ((6, 2), (11, 2), (6, 4), (11, 4)):
        yield Cell(features=d, actions=A, episodes=20_000, trust="central", model="xor-product")


def published() -> Iterator[Cell]:
    """LinUCB as papers print it, beside ours at the same claim."""
    for shared in (False, True):
        for learner, trust in PUBLISHED.items():
            for name in (learner, "auto"):
                yield Cell(features=5, actions=4, episodes=20_000, trust=trust, shared=shared, learner=name)


GROUPS: Final = {"bars": bars, "frontier": frontier, "misspecified": misspecified, "published": published}


def run_cell(cell: Cell, seeds: Sequence[int]) -> dict[str, Any]:
    """The regrets of a cell, world by world."""
    if cell.learner == "table":
        return _best_table(cell, seeds)
    regrets, uniform, final, seconds, certified, learner = [], [], [], [], 0.0, ""
    for seed in seeds:
        parts = assemble(cell.config(seed, cell.world(seed)))
        best, alike = parts.values
        started = time.process_time()
        found = simulate(parts.mdp, parts.learner, parts.privatizer, episodes=cell.episodes, seed=seed)
        seconds.append(time.process_time() - started)
        regrets.append(float(found.regret[-1]))
        uniform.append((best - alike) * cell.episodes)
        final.append(_missed(parts.mdp, found.policy))
        certified, learner = max(certified, float(parts.certificate.epsilon)), parts.config.learner
        assembled.cache_clear()
    gaps = [value / cell.episodes for value in uniform]
    return _row(cell, seeds, regrets, uniform) | {
        "learner": learner,
        "certified epsilon": certified if cell.trust != "none" else None,
        "final share": sum(final) / sum(gaps),
        "microseconds per person": 1e6 * sum(seconds) / len(seconds) / cell.episodes,
    }


def _row(cell: Cell, seeds: Sequence[int], regrets: Sequence[float], uniform: Sequence[float]) -> dict[str, Any]:
    lost, of = np.array(regrets), np.array(uniform)
    rng = np.random.default_rng(0)
    again = rng.integers(0, len(lost), (2000, len(lost)))
    low, high = np.quantile(lost[again].sum(axis=1) / of[again].sum(axis=1), (0.025, 0.975))
    return {
        "cell": asdict(cell),
        "seeds": list(seeds),
        "share": float(lost.sum() / of.sum()),
        "low": float(low),
        "high": float(high),
        "regrets": [round(value, 2) for value in regrets],
        "uniform": [round(value, 2) for value in uniform],
    }


def _missed(world: FeatureBandit, policy: Any) -> float:
    """What the final policy misses per person, on fresh rows."""
    if not isinstance(policy, LinearPolicy):
        raise TypeError(f"a linear learner must end with a linear policy, got a {type(policy).__name__}")
    rng, rows = np.random.default_rng(1), MEASURED // 10
    missed = 0.0
    for _ in range(10):
        x = world.contexts(rows, rng)
        means = world.means(x)
        missed += float((means.max(axis=1) - means[np.arange(rows), policy.choose(x, rng)]).sum())
    return missed / (10 * rows)


@lru_cache(maxsize=256)
def _rows_of(spec: str) -> tuple[FeatureBandit, Floats, Floats]:
    """The world, so many rows, and what its actions promise there."""
    world = make_environment(spec)
    if not isinstance(world, FeatureBandit):
        raise TypeError(f"'{spec}' must be a linear bandit, it is a {type(world).__name__}")
    x = world.contexts(MEASURED, np.random.default_rng(2))
    return world, x, world.means(x)


def table_of(x: Floats, means: Floats, features: int, bins: int) -> TabularMDP:
    """A bandit whose states are the cells of these rows, each with the mean reward of its rows."""
    cells = np.zeros(len(x), dtype=np.int64)
    for j in range(1, features + 1):
        cuts = np.quantile(x[:, j], np.arange(1, bins) / bins)
        cells = cells * bins + np.searchsorted(cuts, x[:, j])
    S, A = bins**features, means.shape[1]
    often = np.bincount(cells, minlength=S).astype(np.float64)
    r = np.stack([np.bincount(cells, weights=means[:, a], minlength=S) for a in range(A)], axis=1)
    stay = np.repeat(np.eye(S)[:, None, :], A, axis=1)
    return TabularMDP(P=stay, r=r / often[:, None], rho=often / often.sum(), horizon=1, name=f"{features} in {bins}")


def _best_table(cell: Cell, seeds: Sequence[int]) -> dict[str, Any]:
    """The table with the least regret: what it misses by knowing cells only, and what bucb misses in it."""
    found = []
    for features, bins in TABLES:
        if features >= cell.features:
            continue
        regrets, uniform, certified = [], [], 0.0
        for seed in seeds:
            _, x, means = _rows_of(cell.world(seed))
            mdp = table_of(x, means, features, bins)
            run = Cell(**{**asdict(cell), "learner": "bucb"}).config(seed, mdp)
            parts = assemble(run)
            lost = simulate(mdp, parts.learner, parts.privatizer, episodes=cell.episodes, seed=seed).regret[-1]
            best, alike = float(means.max(axis=1).mean()), float(means.mean())
            regrets.append(float(lost) + cell.episodes * (best - float(mdp.rho @ mdp.stage_r[0].max(axis=1))))
            uniform.append(cell.episodes * (best - alike))
            certified = max(certified, float(parts.certificate.epsilon))
            assembled.cache_clear()
        named = {"learner": f"bucb, {features} features in {bins} bins", "certified epsilon": certified}
        found.append(_row(cell, seeds, regrets, uniform) | named)
    return min(found, key=lambda row: float(row["share"]))


def run_group(group: str, seeds: Sequence[int], path: Path) -> None:
    """All cells of a group that the file does not hold yet."""
    known: list[dict[str, Any]] = []
    if path.is_file():
        kept = json.loads(path.read_text(encoding="utf-8"))
        known = [row for row in kept["rows"] if row["seeds"] == list(seeds) and row["version"] == __version__]
    rows = {json.dumps(row["cell"], sort_keys=True): row for row in known}
    cells = list(GROUPS[group]())
    for cell in cells:
        key = json.dumps(asdict(cell), sort_keys=True)
        if key not in rows:
            rows[key] = run_cell(cell, seeds) | {"version": __version__}
            row = rows[key]
            told = f"{row['share']:.4f} [{row['low']:.4f}, {row['high']:.4f}] {row['learner']}"
            sys.stderr.write(f"{cell.world(0)} {cell.trust} {cell.epsilon} K={cell.episodes}: {told}\n")
        written = [rows[name] for name in (json.dumps(asdict(c), sort_keys=True) for c in cells) if name in rows]
        command = f"python -m papers.features.shares {group} --seeds {len(seeds)}"
        content: dict[str, Any] = {"command": command, "delta": DELTA, "planned cells": len(cells), "rows": written}
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = ",\n".join(json.dumps(row) for row in content.pop("rows"))  # a line per cell
        head = json.dumps(content, indent=1).removesuffix("\n}")
        path.write_text(f'{head},\n "rows": [\n{lines}\n]\n}}\n', encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a group of cells."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("group", choices=sorted(GROUPS))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("results/features"))
    given = parser.parse_args(arguments)
    run_group(given.group, range(given.seeds), given.out / f"{given.group}.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
