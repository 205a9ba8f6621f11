"""The one line of tacit in which a count is multiplied.

Whatever composes adds up: losses, cumulants, log-spectra, Rényi divergences, ε and δ of basic composition. Every
accountant takes its sum over (part, count) from here, so "a thing n times" cannot mean two different things.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

__all__ = ["total"]

T = TypeVar("T")


def total(parts: Iterable[tuple[T, int]], additive: Callable[[T], Any]) -> Any:
    """Σ count · additive(part).

    >>> total([("ab", 3), ("c", 1)], len)
    7
    """
    return sum(count * additive(part) for part, count in parts)
