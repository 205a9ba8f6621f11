"""Columns of a log as parts of a state: categories by name, or bins of numbers between public edges."""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from tacit.errors import require, require_real


def parse_number(text: str) -> float:
    """The number that a text stands for, NaN if it is none; no underscores, no infinities by other names.

    >>> parse_number(" 2.5 "), parse_number("1_000"), parse_number("")
    (2.5, nan, nan)
    """
    if "_" in text:
        return math.nan
    try:
        return float(text)
    except ValueError:
        return math.nan


def as_text(value: Any) -> str | None:
    """A value as CSV would have it: whole numbers without a point, None where it is missing."""
    if value is None:
        return None
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="surrogateescape")
    return str(value).strip() or None


@dataclass(frozen=True, kw_only=True)
class Categories:
    """A column of categories: names, each with the texts that stand for it in the log.

    >>> Categories(column="ward", values=(("well", ("W", "well")), ("sick", ("S",)))).index("S")
    1
    """

    column: str
    values: tuple[tuple[str, tuple[str, ...]], ...]
    missing: str | None = None
    """The category that a missing value stands for, one of the others or its own; None: it is refused."""

    def __post_init__(self) -> None:
        require_text("column", self.column)
        require(len(self.values) > 0, f"column '{self.column}' must have a category", 0)
        if self.missing is not None:
            require_text(f"categories of '{self.column}'", self.missing)
        every = [text for _, texts in self.values for text in texts]
        spoken = all(texts for _, texts in self.values)
        require(spoken, f"every category of '{self.column}' must stand for a text", "none")
        for text in (*self.names, *every):
            require_text(f"categories of '{self.column}'", text)
        names = [name for name, _ in self.values]
        require(len(set(names)) == len(names), f"categories of '{self.column}' must differ", "one twice")
        require(len(set(every)) == len(every), f"a text of '{self.column}' must belong to one category", "two of them")

    @cached_property
    def _places(self) -> dict[str, int]:
        return {text: i for i, (_, texts) in enumerate(self.values) for text in texts}

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in order; that of missing values comes last if it is none of the others."""
        return _with_missing(tuple(name for name, _ in self.values), self.missing)

    def index(self, text: str | None) -> int:
        """The place of a text, or of a missing value (None or empty); -1 if it is none of them."""
        if not text:
            return -1 if self.missing is None else self.names.index(self.missing)
        return self._places.get(text, -1)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        named = {} if self.missing is None else {"missing": self.missing}
        return {"column": self.column, "categories": [[name, list(texts)] for name, texts in self.values], **named}


@dataclass(frozen=True, kw_only=True)
class Bins:
    """A column of numbers, binned: edges e₁ < ... < e_k make the k + 1 bins (-∞, e₁), [e₁, e₂), ..., [e_k, ∞).

    >>> Bins(column="age", edges=(18.0, 65.0)).names
    ('age < 18', '18 ≤ age < 65', '65 ≤ age')
    """

    column: str
    edges: tuple[float, ...]
    labels: tuple[str, ...] | None = None
    missing: str | None = None
    """The category that a missing value stands for; None: it is refused."""

    def __post_init__(self) -> None:
        require_text("column", self.column)
        for edge in self.edges:
            require_real(f"an edge of '{self.column}'", edge)
        rising = len(self.edges) > 0 and all(a < b for a, b in pairwise(self.edges))
        require(rising, f"edges of '{self.column}' must increase strictly", list(self.edges))
        if self.labels is not None:
            many = len(self.edges) + 1
            fits = len(self.labels) == many and len(set(self.labels)) == many
            require(fits, f"'{self.column}' must have {many} different names", list(self.labels))
            for label in self.labels:
                require_text(f"names of '{self.column}'", label)
        if self.missing is not None:
            require_text(f"names of '{self.column}'", self.missing)

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in order; that of missing values comes last if it is none of the others."""
        return _with_missing(self._bins, self.missing)

    @property
    def _bins(self) -> tuple[str, ...]:
        if self.labels is not None:
            return self.labels
        e, c = [f"{edge:g}" for edge in self.edges], self.column
        inner = (f"{a} ≤ {c} < {b}" for a, b in pairwise(e))
        return (f"{c} < {e[0]}", *inner, f"{e[-1]} ≤ {c}")

    def index(self, text: str | None) -> int:
        """The bin of a number that is written down as a text, or of a missing value; -1 if it is none."""
        if not text:
            return self.missing_index
        number = parse_number(text)
        return -1 if not math.isfinite(number) else bisect.bisect_right(self.edges, number)

    @property
    def missing_index(self) -> int:
        """The place of missing values, -1 if they are refused."""
        return -1 if self.missing is None else self.names.index(self.missing)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        named = {} if self.labels is None else {"names": list(self.labels)}
        absent = {} if self.missing is None else {"missing": self.missing}
        return {"column": self.column, "edges": list(self.edges), **named, **absent}


def _with_missing(names: tuple[str, ...], missing: str | None) -> tuple[str, ...]:
    return names if missing is None or missing in names else (*names, missing)


def require_text(what: str, text: object) -> None:
    """Raise unless a public name is one that a table can show."""
    fine = isinstance(text, str) and text == text.strip() and text != "" and text.isprintable()
    require(fine, f"{what} must be a printable text without spaces around it", text)
