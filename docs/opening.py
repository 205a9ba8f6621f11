"""The picture that opens the README: regret of the first example, beside other trust models and learning nothing.

python docs/opening.py docs/opening.png
"""

from __future__ import annotations

import sys

import matplotlib

import tacit

matplotlib.use("Agg")
from matplotlib import pyplot as plt

WORDS = {"environment": "riverswim", "episodes": 20_000, "seeds": 2}
PRIVATE = {"epsilon": 1.0, "delta": 1e-6}
RUNS = {
    "learning nothing": ("#7a7a7a", "dotted", {"learner": "uniform"}),
    "local trust, epsilon 1": ("#d55e00", "solid", {"trust": "local", "epsilon": 1.0, "delta": 0.0}),
    "central trust, epsilon 1": ("#0072b2", "solid", {"trust": "central", **PRIVATE}),
    "shuffle trust, epsilon 1": ("#009e73", "solid", {"trust": "shuffle", **PRIVATE}),
    "no privacy": ("#000000", "dashed", {}),
}


def main(file: str) -> None:
    """Draw mean regret of every run."""
    figure, axes = plt.subplots(figsize=(7.2, 3.0), layout="constrained")
    for label, (colour, style, words) in RUNS.items():
        found = tacit.run(**WORDS, **words)
        mean = found.regret.mean(axis=0)
        axes.plot(found.episodes, mean, color=colour, linestyle=style, linewidth=2, label=label)
    axes.set(xlabel="users", ylabel="regret (simulation only)", xlim=(0, 20_000), title="RiverSwim")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, loc="upper left")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, dpi=150, metadata={"Software": None})


if __name__ == "__main__":
    main(sys.argv[1])
