"""What is left if shuffler and server collude: randomized response under shuffling, one bit per person.

    python -m papers.garcelon2021local.collusion     writes results/garcelon2021local/collusion

Appendix I.2 of [garcelon2021local] asks for it. Everybody flips a bit with probability p = 1/(1 + e^ε₀) and a shuffler
permutes; the server sees the number of ones. The person whose bit is replaced adds Bern(1 - p) or Bern(p) to the sum N
of the others', so exactly

    δ(ε) = max over both orders of Σ_k max(0, P(k) - e^ε Q(k)),
    P = (1-p) N(k-1) + p N(k),   Q = p N(k-1) + (1-p) N(k).

N is Bin(a, p) + Bin(n - 1 - a, 1 - p) where a of the others have the bit 0; the largest ε over every a is taken (a and
n - 1 - a mirror each other), and rounding of the transform, below `ROUNDING`, counts as missed. If shuffler and server
collude, each message is seen: ε₀ is left, whatever n is. Bits of one bias, as the shuffle releases of tacit add them,
have no such floor: there nothing is left.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy.signal import fftconvolve
from scipy.stats import binom

from tacit.arrays import Floats

__all__ = ["EPSILONS", "PEOPLE", "central_epsilon", "main", "missed", "table"]

DELTA: Final = 1e-6
EPSILONS: Final = (0.5, 1.0, 2.0, 4.0, 6.0, 8.0)
PEOPLE: Final = (100, 1_000, 10_000)
ROUNDING: Final = 1e-9
HOME: Final = Path("results/garcelon2021local/collusion")


def missed(epsilon: float, local: float, people: int, zeros: int) -> float:
    """δ(ε) of the number of ones if so many of the others have the bit 0.

    >>> round(missed(0.0, 2.0, 1, 0), 6) == round(math.tanh(1.0), 6)  # total variation of one response
    True
    """
    p, factor = 1.0 / (1.0 + math.exp(local)), math.exp(epsilon)
    parts = [binom.pmf(np.arange(n + 1), n, q) for n, q in ((zeros, p), (people - 1 - zeros, 1.0 - p))]
    N: Floats = fftconvolve(*parts)
    up, stay = np.append(0.0, N), np.append(N, 0.0)
    P, Q = (1.0 - p) * up + p * stay, p * up + (1.0 - p) * stay
    return float(max(np.maximum(P - factor * Q, 0.0).sum(), np.maximum(Q - factor * P, 0.0).sum()))


def central_epsilon(local: float, people: int, delta: float = DELTA) -> float:
    """The least ε at this δ for the number of ones among so many people with local ε₀.

    >>> 0.99999 < central_epsilon(1.0, 1) < 1.0  # alone in the crowd: all but δ of ε₀ is left
    True
    >>> 0.0 < central_epsilon(1.0, 1_000) < 0.5
    True
    """
    worst, half = 0.0, (people - 1) // 2
    for zeros in (0, half // 2, half, *range(half)):  # the likely ones first: the others only have to be below
        if worst == local or missed(worst, local, people, zeros) <= delta - ROUNDING:
            continue
        low, worst = worst, local  # pure ε₀ always holds: the rest is post-processing
        for _ in range(50):
            middle = 0.5 * (low + worst)
            inside = missed(middle, local, people, zeros) <= delta - ROUNDING
            low, worst = (low, middle) if inside else (middle, worst)
    return worst


def table() -> list[dict[str, Any]]:
    """Every point of the figure."""
    return [{"people": n, "local": local, "central": central_epsilon(local, n)} for n in PEOPLE for local in EPSILONS]


def main() -> None:
    """Write the numbers and the figure."""
    from matplotlib.figure import Figure

    from tacit.runs.figures import GREY, WIDTH, save_figure, style_of

    points = table()
    HOME.mkdir(parents=True, exist_ok=True)
    (HOME / "collusion.json").write_text(json.dumps({"delta": DELTA, "points": points}, indent=1) + "\n")
    figure = Figure(figsize=(WIDTH, 4.0), layout="constrained")
    ax = figure.subplots()
    names = [f"{n:,} people" for n in PEOPLE]
    for n, name in zip(PEOPLE, names, strict=True):
        mine = [one for one in points if one["people"] == n]
        color, dash, marker = style_of(name, names)
        x, y = ([one[key] for one in mine] for key in ("local", "central"))
        ax.plot(x, y, color=color, linestyle=dash, marker=marker, label=name)
    ax.plot(EPSILONS, EPSILONS, color=GREY, linewidth=0.8, label="shuffler and server collude")
    ax.set_yscale("log")
    ax.set_xlabel("ε₀ of each message: what is left if they collude", color=GREY)
    ax.set_ylabel(f"ε of the shuffled messages at δ = {DELTA:g}", color=GREY)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=8)
    figure.suptitle("Randomized response under shuffling, one bit per person", fontsize=12, x=0.01, ha="left")
    save_figure(figure, HOME / "collusion.png")


if __name__ == "__main__":
    main()
