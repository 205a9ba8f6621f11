"""What the card of [garcelon2021local] names in its holes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from papers.committed import Committed, Results, pm, row
from papers.garcelon2021local.collusion import EPSILONS, PEOPLE
from papers.garcelon2021local.experiments import WORLDS
from papers.garcelon2021local.verdicts import bounded_epsilon
from papers.sizes import AXES
from papers.verdict import up
from tacit.runs.storage_paths import read_json

__all__ = ["names"]

RISING: Final = ("0.2", "2", "20")
PRINTED: Final = {
    "Laplace": "L",
    "Gaussian, c² of the proof of Prop. 10 and Prop. 11": "G",
    "Gaussian, c of Prop. 10 as stated": "G10",
    "randomized response": "RR",
    "bounded, C = 1": "BND",
}
LETTERS: Final = {
    "Laplace": "L", "Gaussian": "G", "randomized response": "RR", "bounded": "BND",
    "one slot, unary (ours)": "OUE", "one slot, subset (ours)": "SUB",
}  # fmt: skip
FIG1: Final = {
    "LDP-OBI, Laplace as printed (certified 0.833 ε)": "LDP-OBI-L, ε={}, paper",
    "LDP-OBI, Laplace tight (complement encoding)": "LDP-OBI-L, ε={}, tight",
    "LDP-PSRL as printed (certified 0.875 ε)": "LDP-PSRL, ε={}, paper",
    "LDP-PSRL tight": "LDP-PSRL, ε={}, tight",
}


def names(results: Results) -> Mapping[str, Any]:
    """Results and tables."""
    fig1, fig2, printed, fig7, every, table1, reshuffled = (
        results(f"garcelon2021local/{name}")
        for name in ("fig1", "fig2", "fig2-printed", "fig7", "every-user", "table1", "reshuffled")
    )
    local, other = results("frontier/local"), results("garcelon2021local/other-worlds")
    bound = results("garcelon2021local/lower-bound").json("lower-bound.json")["averages"]
    told = reshuffled.json("reshuffled.json")
    stds = {
        (one["panel"], one["line"].split(":")[0]): one["std"]
        for one in results("garcelon2021local/fig8").json("fig8.json")["histograms"]
    }
    std = {epsilon: _std(stds[f"ε = {epsilon}", "paper"]) for epsilon in RISING}

    def spread(run: str) -> str:
        """Least to greatest run, as shares of the uniform policy's regret."""
        _, least, greatest = fig1.spread(run)
        return f"{least:.2g} to {greatest:.2g}"

    told_psrl = fig1.finals("LDP-PSRL, ε=0.2, paper")
    return {
        "worst_psrl": told_psrl.max() / np.median(told_psrl),
        "fig1": fig1, "fig2": fig2, "printed": printed, "fig7": fig7, "every": every, "table1": table1,
        "reshuffled": reshuffled, "local": local, "spread": spread,
        "bounded": up(bounded_epsilon(1.0)),
        "times": lambda epsilon: fig1.times(f"LDP-OBI-L, ε={epsilon}, paper", f"LDP-PSRL, ε={epsilon}, paper"),
        "fig1_table": _table(fig1, FIG1),
        "printed_table": _table(printed, {words: f"LDP-OBI-{x}, ε={{}}, printed" for words, x in PRINTED.items()}),
        "fig2_table": "\n".join(_covering(fig2, words, letter) for words, letter in LETTERS.items()),
        "fig7_table": "\n".join(
            row(words, *(fig7.regret(run.format(epsilon)) for epsilon in RISING))
            for words, run in (
                ("as printed, four families", "LDP-PSRL, ε={}, paper"),
                ("tight, four families", "LDP-PSRL, ε={}, tight"),
                ("tight, binary rewards (Beta, ours)", "LDP-PSRL beta, ε={}, tight"),
            )
        ),
        "bound_table": "\n".join(_bound(bound, K) for K in (10**4, 10**5, 10**6)),
        "quarter": ", ".join(
            f"{pm(one['regret'] / one['uniform'], one['standard_error'] / one['uniform'])} ({one['learner']})"
            for one in bound
            if one["panel"] == "Δ = 1/4" and one["episodes"] == 10**6 and one["epsilon"] == 2.0
        ),
        "power_table": _powers(table1),
        "std": {**std, "no privacy": _std(stds["ε = 2", "no privacy"])},
        "told": {
            name: f"{100 * value:.0f}%"
            for name, value in results("garcelon2021local/fig9").json("fig9.json")["told_apart"].items()
        },
        "levels": "\n".join(_level(level) for level in told["levels"]),
        "other": other, "other_worlds": WORLDS,
        "other_table": "\n".join(
            row(run, *(other.of_uniform(run, world) for world in WORLDS))
            for run in dict.fromkeys(run for run, _ in other.cells)
        ),
        "collusion_at": EPSILONS,
        "collusion": _collusion(fig1.place.parent / "collusion" / "collusion.json"),
        "local_table": "\n".join(_frontier(local)),
    }  # fmt: skip


def _std(value: float, runs: int = 1_000) -> str:
    """A standard deviation over so many runs, with the standard error of a normal sample."""
    return pm(value, value / math.sqrt(2.0 * runs))


def _table(result: Committed, runs: Mapping[str, str]) -> str:
    return "\n".join(
        row(words, *(result.of_uniform(run.format(epsilon)) for epsilon in RISING)) for words, run in runs.items()
    )


def _covering(result: Committed, words: str, letter: str) -> str:
    """Printed noise with what it certifies, and tight noise."""
    cells = []
    for epsilon in RISING:
        run = f"LDP-OBI-{letter}, ε={epsilon}, paper"
        if not any(key[0] == run for key in result.cells):
            cells.append("-")
            continue
        certified = result.cell(run)["certified epsilon"]
        cells.append(f"{result.of_uniform(run)} ({'∞' if certified is None else up(certified)})")
    return row(words, *cells, *(result.of_uniform(f"LDP-OBI-{letter}, ε={epsilon}, tight") for epsilon in RISING))


def _bound(averages: Any, K: int) -> str:
    cells: list[str] = []
    for epsilon in (0.2, 2.0):
        mine = [
            one for one in averages
            if (one["panel"], one["episodes"], one["epsilon"]) == ("Δ of the proof", K, epsilon)
        ]  # fmt: skip
        least = min(mine, key=lambda one: float(one["regret"]))
        cells += [f"{least['bound']:,.1f}", pm(least["regret"], least["standard_error"]), f"{least['uniform']:,.0f}"]
        runs = str(least["runs"])
    return row(f"K = {K:,}", runs, *cells)


def _powers(result: Committed) -> str:
    rows = []
    for line in result.json("table1.json")["lines"]:
        cells = [f"{result.power(line['line'], axis)} ({line['printed'][axis]:g})" for axis in AXES]
        rows.append(row(line["line"], cells[0], cells[1], cells[2]))
    return "\n".join(rows)


def _collusion(path: Path) -> str:
    found = {(one["people"], one["local"]): one["central"] for one in read_json(path)["points"]}
    return "\n".join(row(f"{n:,}", *(up(found[n, local]) for local in EPSILONS)) for n in PEOPLE)


def _level(level: Any) -> str:
    at = {point["k"]: point["printed"] for point in level["eq113"]}
    holds = max(point["holds"] for point in level["eq113"])
    values = (f"{at[k]:.3g}" for k in (10**3, 10**4, 10**6, 10**8))
    return row(f"{level['local_level']:g}", *values, f"{holds:g}", f"{60 * level['linked']:.0f} of 60")


def _frontier(result: Committed) -> list[str]:
    rows = []
    for environment, steps in dict.fromkeys((key[1], key[0].split(", ")[1]) for key in result.cells):
        runs = [f"{kind}, {steps}" for kind in ("paper", "tacit", "no privacy")]
        rows.append(
            row(
                environment, steps, f"{result.cell(runs[0], environment)['episodes']:,}",
                f"{result.uniform(runs[0], environment):,.0f}", *(result.regret(run, environment) for run in runs),
                result.times(runs[0], runs[1], environment),
            )
        )  # fmt: skip
    return rows
