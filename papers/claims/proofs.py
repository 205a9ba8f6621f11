"""What the page of papers claims in numbers about the tools of proofs: counterexamples computed, formulas quoted."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from scipy import stats

from papers.claims.reading import About, Section

__all__ = ["claims"]


def claims(parts: Mapping[str, Section]) -> None:
    """Quote every number; `tests/papers/test_papers_lemmas_*.py` hold the checks themselves."""
    _shuffle(parts["bai2024shuffle"], parts["bai2025secure"])
    _adversarial(parts["bai2024adversarial"])
    parts["garcelon2021local"].states("up to 400 summands", "from 1e-10 to 0.99")


def _shuffle(first: Section, second: Section) -> None:
    first.states("has 1 - 9 delta, its restatements 1 - 7 delta and 1 - 9 delta", "occupancies within 1/4 and 3")
    first.states("a factor 1 +- 1/H", "writes 4 E iota for 4 E + 7 iota", "with C_1 = 6", "does from E = 2 on")
    first.states("on a grid (26)", "tried (28, 33)", "moments (30, 31)", "chances (31, 32)", "(34, 35, 37)")
    first.states("ln(1/delta) up to a third", "with 7 A/(3 n)", "the range 2 A and n - 1", "a factor sqrt(2) besides")
    first.states("in 100 random samples", "the constant is below 1;")
    least = 6 * 1.0 * 2**2 * 10.0  # C_1 E H^2 iota at H = 2, E = 1, iota = 10
    first.says(
        "at H = 2, E = 1 ({} where 1 is needed)", 2 * (math.sqrt(2 * 10.0 / least) + (4 * 1.0 + 7 * 10.0) / least)
    )
    n, mean, delta = 1_000, 0.001, 1e-10
    above = stats.binom.sf(math.floor(n * mean + math.sqrt(3 * n * mean * math.log(1 / delta))), n, mean)
    first.says("({} times delta at n = 1,000, mean 0.001, delta 1e-10)", About(float(above / delta), 1))
    first.says("at delta 1e-6 one tuple alone is missed {} times", About(_missed(10_000, 0.1, 1e-6), 2))
    second.states("occupancies within 1/4 and 3", "at H = 2, E = 1;", "X log K up to 2 K")


def _missed(n: int, p: float, delta: float) -> float:
    """How often Lemma 36 with its two logarithms misses p, over 4 delta (H = 6, A = 2, K = 20,000)."""
    log = math.log(math.log(2 * 6 * 2 * 20_000 / delta))
    share = np.arange(n + 1) / n
    width = np.sqrt(2 * share * log / n) + 14 * log / (3 * n)
    return float(stats.binom.pmf(np.arange(n + 1), n, p)[np.abs(share - p) > width].sum() / (4 * delta))


def _adversarial(part: Section) -> None:
    part.states("powers of 1/epsilon as known", "X^3 H sqrt(A)/epsilon", "with (2 b, b)", "true with (2 b, sqrt(2) b)")
    part.states("at most 0.3/iota times", "4 delta follows for X up to 13 only", "with constants 4 and 26")
    part.says("({} against {} at 0.95/b)", 1 / (1 - 0.95**2), math.exp(2 * 0.95**2))
