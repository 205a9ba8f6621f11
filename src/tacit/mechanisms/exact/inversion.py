"""Exact inversion behind the samplers: Lemma N4 (exact inversion).

A law on an ordered, possibly infinite list of outcomes x₀, x₁, ... is sampled with one real U, uniform on [0, 1):

    X = x_i  where  i = #{k : U < T_k},   T_k = P(X comes after x_k)    (T₀ ≥ T₁ ≥ ... → 0)

so that P(i > k) = P(U < T_k) = T_k: the law itself. U is never rounded, because it is never finished: its binary digits
are drawn only as far as the comparisons need them. With the first b bits u of U known, U lies in [u, u+1)·2^-b; with
integers lower_k ≤ 2^b T_k ≤ upper_k,

    u + 1 ≤ lower_k   ⟹  U < T_k            u ≥ upper_k   ⟹  U ≥ T_k

and when neither holds for some k, more digits of U are drawn and the thresholds are enclosed more narrowly. Every
decision is therefore the decision that the complete U and the exact real T_k would have given.

*Exact*: the result equals the inversion of U, so its law is the stated one: total variation distance 0, tails included.
*Finite*: undecided lanes have U within a few 2^-b of a threshold; their probability goes to 0 as b grows, so the
sampler ends with probability 1 (nothing needs to be known about the irrationality of T_k).
*Fast*: at b = 64 a lane is undecided with probability below (number of thresholds) · 2^-62: one table look-up per draw.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.mechanisms.exact.arithmetic import ceil_div
from tacit.mechanisms.exact.bits import WORD, Bits

__all__ = ["GUARD", "Law", "Weights", "concave_tail", "draw", "extend", "thresholds"]

GUARD = 64  # further bits to which weights are enclosed, so that thresholds are known to about one unit
CHUNK = 1 << 16  # lanes drawn at once: tables and random words stay in the processor's cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Unnormalised probabilities of the first outcomes of a law, enclosed by integers in units of 2^-(bits + GUARD).

    `rest` bounds the sum of all the outcomes that are not listed (0: none are missing).
    """

    outcomes: Sequence[int]
    lower: Sequence[int]
    upper: Sequence[int]
    rest: int


class Law(Hashable, Protocol):
    """A discrete law whose weights can be enclosed to any number of bits."""

    def weights(self, bits: int) -> Weights:
        """Enclose so many outcomes, always in the same order, that the others weigh at most 2^-bits together.

        The weight of all is at least 1, that is, 2^(bits + GUARD) units, so `rest` is at most 2^GUARD.
        """
        ...


def draw(law: Law, count: int, bits: Bits, *, width: int = WORD) -> NDArray[np.int64]:
    """`count` independent outcomes, exactly distributed as `law`, whatever the word width."""
    table = _table(law, width)
    result = np.empty(count, dtype=np.int64)
    for start in range(0, count, CHUNK):
        u = bits(min(CHUNK, count - start), width).astype(np.uint64, copy=False)
        # i = #{k : u < lower_k}: U < T_k is certain for k < i. If u ≥ upper_i, then U ≥ T_i ≥ T_k for all k ≥ i.
        index = table.ascending.size - np.searchsorted(table.ascending, u, side="right")
        part = table.outcomes[index]
        for lane in np.flatnonzero(u - table.lower[index] < table.gap[index]):
            part[lane] = extend(law, int(u[lane]), bits, width=width)
        result[start : start + part.size] = part
    return result


def extend(law: Law, u: int, bits: Bits, *, width: int = WORD) -> int:
    """The outcome of a uniform number whose first `width` bits are `u`: draws more of them until it is decided."""
    known = width
    while True:
        outcomes, lower, upper = thresholds(law, known)
        index = _certainly_below(lower, u)
        if u >= upper[index]:
            return outcomes[index]
        u = (u << width) | int(bits(1, width)[0])
        known += width


@lru_cache(maxsize=32)
def thresholds(law: Law, bits: int) -> tuple[list[int], list[int], list[int]]:
    """Outcomes x_k and enclosures of 2^bits · T_k; the last lower one is 0 and the last upper one at most 1.

    Only public parameters enter, so the answer may be remembered.
    """
    w = law.weights(bits)
    one = 1 << bits
    # T_k = after / (after + upto) grows with `after` and falls with `upto`; so both enclosures decrease in k.
    upto_low, upto_high = list(accumulate(w.lower)), list(accumulate(w.upper))
    lower, upper = [], []
    for k in range(len(w.outcomes)):
        after_low = upto_low[-1] - upto_low[k]
        after_high = upto_high[-1] - upto_high[k] + w.rest
        lower.append(after_low * one // (after_low + upto_high[k]))
        upper.append(min(one, ceil_div(after_high * one, after_high + upto_low[k])))
    return list(w.outcomes), lower, upper


def concave_tail(lower_before: int, upper_last: int) -> int | None:
    """A bound on w_last + w_next + ... of a log-concave sequence, from bounds on two consecutive weights.

    Ratios decrease, so w_last·(1 + ρ + ρ² + ...) with ρ = w_last / w_before bounds it; None while ρ is not below 1.

    >>> concave_tail(8, 4)  # 4 + 2 + 1 + ... = 8
    8
    """
    if upper_last >= lower_before:
        return None
    return ceil_div(upper_last * lower_before, lower_before - upper_last)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """Thresholds at the width of a word, as arrays for the look-up."""

    outcomes: NDArray[np.int64]
    lower: NDArray[np.uint64]
    gap: NDArray[np.uint64]  # upper - lower: unlike `upper` it always fits into a word
    ascending: NDArray[np.uint64]  # `lower` reversed


@lru_cache(maxsize=64)
def _table(law: Law, width: int) -> _Table:
    outcomes, lower, upper = thresholds(law, width)
    low = np.array(lower, dtype=np.uint64)
    gap = np.array([high - below for below, high in zip(lower, upper, strict=True)], dtype=np.uint64)
    return _Table(outcomes=np.array(outcomes, dtype=np.int64), lower=low, gap=gap, ascending=low[::-1].copy())


def _certainly_below(lower: Sequence[int], u: int) -> int:
    """#{k : u < lower_k} for decreasing `lower`, by bisection."""
    first, last = 0, len(lower)
    while first < last:
        middle = (first + last) // 2
        if u < lower[middle]:
            first = middle + 1
        else:
            last = middle
    return first
