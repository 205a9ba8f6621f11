"""The picture that opens the README: regret of the first example, beside other trust models and the uniform policy.

python docs/opening.py writes docs/opening.png, and its twin for dark pages.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

import tacit

matplotlib.use("Agg")
from matplotlib import pyplot as plt

WORDS = {"environment": "riverswim", "episodes": 20_000, "seeds": 2}
PRIVATE = {"epsilon": 1.0, "delta": 1e-6}
RUNS = {
    "uniform policy": ("#808080", "dotted", {"learner": "uniform"}),
    "local trust, epsilon 1": ("#d55e00", "solid", {"trust": "local", "epsilon": 1.0, "delta": 0.0}),
    "central trust, epsilon 1": ("#2b8fd0", "solid", {"trust": "central", **PRIVATE}),
    "shuffle trust, epsilon 1": ("#009e73", "solid", {"trust": "shuffle", **PRIVATE}),
    "no privacy": ("ink", "dashed", {}),
}


INK = {"opening.png": "#1f2328", "opening-dark.png": "#e6e8eb"}


def main() -> None:
    """Draw mean regret of every run, on transparent paper with the ink of each twin."""
    found = {label: tacit.run(**WORDS, **words) for label, (_, _, words) in RUNS.items()}
    for name, ink in INK.items():
        plt.rcParams.update(
            dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "axes.edgecolor"), ink)
        )
        figure, axes = plt.subplots(figsize=(7.2, 3.0), layout="constrained")
        for label, (colour, style, _) in RUNS.items():
            drawn = {"color": ink if colour == "ink" else colour, "linestyle": style, "linewidth": 2}
            axes.plot(found[label].episodes, found[label].regret.mean(axis=0), label=label, **drawn)
        axes.set(xlabel="users", ylabel="regret (simulation only)", xlim=(0, 20_000), title="RiverSwim")
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, loc="upper left")
        axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(Path(__file__).with_name(name), dpi=150, transparent=True, metadata={"Software": None})


if __name__ == "__main__":
    main()
