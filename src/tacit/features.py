"""`Features`: the public declaration of what a person's row means, and how it becomes a vector x with ‖x‖ ≤ 1.

    number      (low, high)      clipped to the bounds, then scaled to [-1, 1]
    truth       bool             0 or 1
    category    [name, ...]      one number per name, a single 1
    products    (a, b)           every product of a number of a and a number of b
    intercept                    1

The numbers are divided by the public `norm`, and rows that are longer than 1 afterwards are shortened to 1. The
declaration is written before anybody looks at the data: no bound, category or norm is computed from rows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.arrays import Floats
from tacit.errors import InvalidInput, UnknownName, require, require_real

__all__ = ["MAX_FEATURES", "Column", "Features"]

MAX_FEATURES: Final = 200
"""A Gram matrix of more features has more than 20,000 noisy entries, which no batch of people can pay for."""
FEATURES_FORMAT: Final = "tacit-features"
FEATURES_VERSION: Final = 1
ENTRIES: Final = ("format", "format_version", "columns", "products", "intercept", "norm", "missing")


_DECLARED: Final[Mapping[str, Callable[[Any], Any]]] = {"number": tuple, "bool": lambda _: bool, "category": list}
"""From the values of a column in a document to its declaration."""


class Column(NamedTuple):
    """One declared column of the data."""

    name: str
    kind: str
    """number, bool or category"""
    values: tuple[Any, ...]
    """The bounds of a number, the names of categories; empty for truth values."""

    @property
    def width(self) -> int:
        """How many numbers it becomes."""
        return len(self.values) if self.kind == "category" else 1

    @property
    def square(self) -> float:
        """The mean squared length of these numbers where all values are equally likely."""
        return {"number": 1.0 / 3.0, "bool": 0.5, "category": 1.0}[self.kind]

    @property
    def names(self) -> tuple[str, ...]:
        """What its numbers are called."""
        return tuple(f"{self.name}={value}" for value in self.values) if self.kind == "category" else (self.name,)


class Features:
    """The public declaration of the features of a row; it never changes.

    Parameters
    ----------
    columns
        Declarations by name, for names that are no Python identifiers; the others are given as keywords. A declaration
        is `(low, high)` for a number, `bool` for a truth value, or a list of categories.
    intercept
        Whether every row begins with a constant.
    products
        Pairs (or longer tuples) of declared names whose products are features, too.
    norm
        What the numbers are divided by. Default: the root mean square length of a row whose values are uniform within
        their declarations, so that about half of such rows are shortened a little.
    missing
        For columns that may be missing (None, NaN): the declared value or category that stands for it.

    Raises
    ------
    InvalidInput
        If a declaration is not one of these, or if there are more than 200 numbers.

    Examples
    --------
    >>> space = Features(age=(18, 90), tired=bool, ward=["a", "b"], missing={"age": 40})
    >>> space.names
    ('intercept', 'age', 'tired', 'ward=a', 'ward=b')
    >>> space.encode({"age": [54, None], "tired": [True, False], "ward": ["a", "b"]}).round(2).tolist()
    [[0.58, 0.0, 0.58, 0.58, 0.0], [0.59, -0.23, 0.0, 0.0, 0.59]]
    >>> Features.from_json(space.to_json()) == space
    True
    """

    __slots__ = ("columns", "intercept", "missing", "names", "norm", "products")

    columns: tuple[Column, ...]
    intercept: bool
    products: tuple[tuple[str, ...], ...]
    norm: float
    missing: Mapping[str, Any]
    names: tuple[str, ...]

    def __init__(
        self,
        columns: Mapping[str, Any] | None = None,
        /,
        *,
        intercept: bool = True,
        products: Sequence[Sequence[str]] = (),
        norm: float | None = None,
        missing: Mapping[str, Any] | None = None,
        **keywords: Any,
    ) -> None:
        declared = {**(columns or {}), **keywords}
        require(len(declared) == len(columns or {}) + len(keywords), "a feature must be declared once", "one twice")
        require(len(declared) > 0, "features must have at least one column", 0)
        require(isinstance(intercept, bool), "intercept must be true or false", intercept)
        found = tuple(_column(name, given) for name, given in declared.items())
        by_name = {column.name: column for column in found}
        listed = tuple(_product(product, by_name) for product in products)
        require(len(set(listed)) == len(listed), "a product must be declared once", list(listed))
        names = ["intercept"] if intercept else []
        names += [name for column in found for name in column.names]
        for product in listed:
            names += reduce(lambda a, b: [f"{x}*{y}" for x in a for y in b], [list(by_name[p].names) for p in product])
        hint = "declare fewer features; categories count once per name"
        require(len(names) <= MAX_FEATURES, f"features must be at most {MAX_FEATURES} numbers", len(names), hint)
        require(len(set(names)) == len(names), "the numbers of a row must have different names", "one name twice")
        if norm is None:
            squares = [column.square for column in found]
            squares += [math.prod(by_name[name].square for name in product) for product in listed]
            norm = math.sqrt(sum(squares) + intercept)
        instead = {name: _missing(name, value, by_name) for name, value in (missing or {}).items()}
        set_value = object.__setattr__
        set_value(self, "columns", found)
        set_value(self, "intercept", intercept)
        set_value(self, "products", listed)
        set_value(self, "norm", require_real("norm", norm, low=1e-100))
        set_value(self, "missing", instead)
        set_value(self, "names", tuple(names))

    @classmethod
    def from_gymnasium(cls, space: Any, **options: Any) -> Features:
        """The declaration of a Gymnasium observation space: Box, Discrete, MultiBinary or a Dict of them.

        Parameters
        ----------
        space
            The observation space. A Box needs finite bounds; for others declare `Features(...)` by hand.
        options
            `intercept`, `products`, `norm` and `missing`, as in `Features`.

        Examples
        --------
        >>> import gymnasium
        >>> Features.from_gymnasium(gymnasium.spaces.Box(-1.0, 1.0, (2,))).names
        ('intercept', 'x[0]', 'x[1]')
        """
        parts = space.spaces if type(space).__name__ == "Dict" else {"x": space}
        declared: dict[str, Any] = {}
        for name, part in parts.items():
            declared.update(_declared_by(str(name), part))
        return cls(declared, **options)

    @property
    def dimension(self) -> int:
        """d: how many numbers a row becomes."""
        return len(self.names)

    def encode(self, rows: Any) -> Floats:
        """Rows as vectors x[n,d] with ‖x‖ ≤ 1.

        Parameters
        ----------
        rows
            A DataFrame of pandas or polars, an Arrow table, a NumPy array (structured, or with the declared columns in
            their order), a dict of columns, one dict, a list of dicts, or an observation of Gymnasium.

        Raises
        ------
        InvalidInput
            If there are no rows, a column is missing, an index is duplicated, a category is not declared, or a value is
            missing where nothing is declared to stand for it. No message contains a value of the data.
        """
        raw, _ = self._raw(rows)
        raw /= self.norm
        # x <- x / max(1, |x|), squares one after the other: the same in every language
        square = np.zeros(len(raw))
        for column in raw.T:
            square += column * column
        raw /= np.maximum(1.0, np.sqrt(square) * (1.0 + 1e-15))[:, np.newaxis]
        return raw

    def uniform_rows(self, count: int, seed: int = 0) -> Floats:
        """Encoded rows [count,d] whose values are uniform within their declarations: public, from a seed.

        >>> Features(age=(18, 90), tired=bool).uniform_rows(3).shape
        (3, 3)
        """
        rng = np.random.default_rng(seed)
        drawn: dict[str, Any] = {}
        for name, kind, values in self.columns:
            if kind == "number":
                drawn[name] = rng.uniform(values[0], values[1], count)
            else:
                known = (False, True) if kind == "bool" else values
                drawn[name] = [known[i] for i in rng.integers(0, len(known), count)]
        return self.encode(drawn)

    def span(self) -> Floats:
        """An orthonormal basis [d,r] of the rows that there can be: an intercept is the sum of all categories.

        >>> Features(ward=["a", "b"]).span().shape
        (3, 2)
        """
        x = self.uniform_rows(10_000)
        w, U = np.linalg.eigh(x.T @ x)
        return np.asarray(U[:, w > 1e-9 * w[-1]])

    def clipped_share(self, rows: Any) -> float:
        """SENSITIVE: the share of rows with a number outside its bounds. It is not released: it stays where data are.

        >>> Features(age=(18, 90)).clipped_share({"age": [17, 20, 30, 40]})
        0.25
        """
        return float(self._raw(rows)[1].mean())

    def _raw(self, rows: Any) -> tuple[Floats, NDArray[np.bool_]]:
        """The numbers before they are scaled [n,d], and whether one of a row was clipped."""
        values = read_columns(rows, [column.name for column in self.columns])
        users = len(next(iter(values.values())))
        require(users > 0, "rows must be at least one", 0)
        blocks, clipped = {}, np.zeros(users, dtype=bool)
        for column in self.columns:
            blocks[column.name], outside = _numbers(column, values[column.name], self.missing.get(column.name))
            clipped |= outside
        every = [np.ones((users, 1))] if self.intercept else []
        every += [blocks[column.name] for column in self.columns]
        every += [reduce(_times, [blocks[name] for name in product]) for product in self.products]
        return np.concatenate(every, axis=1), clipped

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {
            "format": FEATURES_FORMAT,
            "format_version": FEATURES_VERSION,
            "columns": [[column.name, column.kind, list(column.values)] for column in self.columns],
            "products": [list(product) for product in self.products],
            "intercept": self.intercept,
            "norm": self.norm,
            "missing": dict(self.missing),
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Features:
        """The declaration that `to_dict` wrote; every other spelling is refused."""
        known = isinstance(plain, Mapping) and plain.get("format") == FEATURES_FORMAT
        known = known and plain.get("format_version") == FEATURES_VERSION
        rule = f"a declaration must be {FEATURES_FORMAT} of version {FEATURES_VERSION}"
        require(known, rule, "another document")
        require(set(plain) == set(ENTRIES), f"a declaration must have the entries {', '.join(ENTRIES)}", sorted(plain))
        try:
            columns = {name: _DECLARED[kind](values) for name, kind, values in plain["columns"]}
            found = cls(columns, **{name: plain[name] for name in ("products", "intercept", "norm", "missing")})
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            if isinstance(error, InvalidInput):
                raise
            raise InvalidInput(f"a declaration must be complete: {type(error).__name__}") from error
        same = json.dumps(found.to_dict(), sort_keys=True) == json.dumps(dict(plain), sort_keys=True)
        require(same, "a declaration must be written as to_dict writes it", "another spelling")
        return found

    def to_json(self) -> str:
        """The declaration as a JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Features:
        """The declaration that `to_json` wrote."""
        try:
            plain = json.loads(text)
        except ValueError as error:
            raise InvalidInput(f"a declaration must be readable JSON: {error}") from error
        return cls.from_dict(plain)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Features) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __setattr__(self, attribute: str, value: object) -> None:
        raise AttributeError(f"Features never change: cannot set {attribute!r}. Make a new declaration.")

    def __reduce__(self) -> tuple[Any, ...]:
        return Features.from_dict, (self.to_dict(),)

    def __repr__(self) -> str:
        return f"Features({', '.join(column.name for column in self.columns)}: {self.dimension} numbers)"


def read_columns(rows: Any, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """The columns of these names, of equal length; other columns are ignored.

    >>> read_columns([{"a": 1, "b": 2}, {"a": 3, "b": 4}], ["b"])["b"].tolist()
    [2, 4]
    """
    if isinstance(rows, Sequence) and not isinstance(rows, str) and rows and isinstance(rows[0], Mapping):
        for name in names:
            require(all(name in row for row in rows), f"every row must have the column '{name}'", "one without it")
        rows = {name: _objects([row[name] for row in rows]) for name in names}
    if isinstance(rows, np.ndarray) and rows.dtype.names is None:
        table = rows[np.newaxis] if rows.ndim == 1 else rows
        require(table.ndim == 2, "an array of rows must have the shape [rows, columns]", rows.shape)
        rule = f"an array must have the {len(names)} declared columns, in their order"
        require(table.shape[1] == len(names), rule, table.shape[1])
        return dict(zip(names, table.T, strict=True))
    index = getattr(rows, "index", None)
    if index is not None and hasattr(index, "is_unique"):
        require(
            bool(index.is_unique), "the index of the rows must have no duplicates", "duplicates", "reset_index() it"
        )
    known = _known_columns(rows)
    require(len(set(known)) == len(known), "columns must have different names", "one name twice")
    found = {}
    for name in names:
        base, _, place = name.rpartition("[")
        if name in known:
            values = _array(rows[name] if not hasattr(rows, "column_names") else rows.column(name))
        elif base in known and place.endswith("]"):  # a number of a vector, as `from_gymnasium` names it
            values = np.atleast_2d(_array(rows[base]))
            values = values[:, int(place[:-1])]
        else:
            raise UnknownName("column", name, known)
        found[name] = np.atleast_1d(values)
    lengths = {len(values) for values in found.values()}
    require(len(lengths) <= 1, "columns must have the same length", sorted(lengths))
    return found


def _known_columns(rows: Any) -> list[str]:
    if isinstance(rows, np.ndarray):
        return list(rows.dtype.names or ())
    for attribute in ("column_names", "columns"):
        if hasattr(rows, attribute):
            return list(map(str, getattr(rows, attribute)))
    if isinstance(rows, Mapping):
        return list(map(str, rows))
    kinds = "a DataFrame, an Arrow table, an array, a dict or a list of dicts"
    raise InvalidInput(f"rows must be {kinds}, got a {type(rows).__name__}")


def _array(values: Any) -> NDArray[Any]:
    """A column as an array; values of extension types become objects."""
    if isinstance(values, np.ndarray):
        return values
    if hasattr(values, "to_numpy"):
        return np.asarray(values.to_numpy())
    return _objects(list(values)) if isinstance(values, list | tuple) else np.asarray(values)


def _objects(values: list[Any]) -> NDArray[Any]:
    """A list as an array that keeps None and strings apart from numbers."""
    if all(type(value) in (int, float, bool) for value in values):
        return np.asarray(values)
    if any(isinstance(value, list | tuple | np.ndarray) for value in values):
        return np.asarray(values)
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def _absent(value: Any) -> bool:
    """None, NaN, or the missing value of pandas."""
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


def _numbers(column: Column, values: NDArray[Any], instead: Any) -> tuple[Floats, NDArray[np.bool_]]:
    """The numbers [n,width] of a column, and which rows were outside its bounds."""
    outside = np.zeros(len(values), dtype=bool)
    plain = values.dtype.kind in "iufb"
    if column.kind == "category":
        given = values.tolist()
        if instead is not None:
            given = [instead if _absent(value) else value for value in given]
        _require_present(column, any(map(_absent, given)))
        places = {value: place for place, value in enumerate(column.values)}
        chosen = np.array([places.get(value, -1) if isinstance(value, str | int | float) else -1 for value in given])
        shown = ", ".join(map(str, column.values[:20]))
        rule = f"every category of the column '{column.name}' must be declared (one of {shown})"
        require(bool((chosen >= 0).all()), rule, "another one", "declare it, or map it to a declared one")
        return np.eye(len(column.values))[chosen], outside
    if not plain:
        replaced = [math.nan if _absent(value) else value for value in values.tolist()]
        good = values.dtype.kind not in "mM"  # times would become whole numbers
        good = good and all(isinstance(value, int | float | np.number | np.bool_) for value in replaced)
        require(good, f"the column '{column.name}' must hold numbers", "another type")
        try:
            values = np.array(replaced, dtype=np.float64)
        except OverflowError:
            raise InvalidInput(f"the column '{column.name}' must hold numbers, got one beyond all bounds") from None
    numbers = values.astype(np.float64)
    empty = np.isnan(numbers)
    if empty.any():
        _require_present(column, instead is None)
        numbers[empty] = float(instead)
    if column.kind == "bool":
        truth = bool(np.isin(numbers, (0.0, 1.0)).all())
        require(truth, f"the column '{column.name}' must hold true or false (1 or 0)", "something else")
        return numbers[:, np.newaxis], outside
    low, high = column.values
    outside = (numbers < low) | (numbers > high)
    # 2 (x - low)/(high - low) - 1
    scaled = (np.clip(numbers, low, high) - low) * (2.0 / (high - low)) - 1.0
    return scaled[:, np.newaxis], outside


def _require_present(column: Column, absent: bool) -> None:
    hint = f"declare missing={{'{column.name}': ...}}, a value that stands for it"
    require(not absent, f"the column '{column.name}' must have no missing values", "a missing value", hint)


def _times(one: Floats, other: Floats) -> Floats:
    """All products [n, a b] of the numbers of two blocks."""
    return np.asarray(one[:, :, np.newaxis] * other[:, np.newaxis, :]).reshape(len(one), -1)


def _column(name: Any, given: Any) -> Column:
    fine = isinstance(name, str) and name == name.strip() and name != "" and name.isprintable()
    require(fine, "a feature must have a printable name without spaces around it", name)
    if given is bool:
        return Column(name, "bool", ())
    if isinstance(given, tuple) and len(given) == 2 and not any(isinstance(value, str) for value in given):
        low, high = (require_real(f"a bound of '{name}'", value) for value in given)
        wide = low < high and math.isfinite(high - low)
        require(wide, f"the bounds of '{name}' must be low < high", given)
        return Column(name, "number", (low, high))
    if isinstance(given, list | tuple):
        texts = all(type(value) is int or (isinstance(value, str) and value.isprintable() and value) for value in given)
        require(texts and len(given) > 1, f"'{name}' must have at least two categories, texts or whole numbers", given)
        require(len(set(map(str, given))) == len(given), f"the categories of '{name}' must differ", given)
        return Column(name, "category", tuple(given))
    raise InvalidInput(f"'{name}' must be declared as (low, high), bool or a list of categories, got {given!r}")


def _product(product: Any, known: Mapping[str, Column]) -> tuple[str, ...]:
    listed = isinstance(product, Sequence) and not isinstance(product, str) and len(product) > 1
    require(listed, "a product must name at least two features", product)
    for name in product:
        if name not in known:
            raise UnknownName("feature of a product", str(name), known)
    return tuple(product)


def _missing(name: str, value: Any, known: Mapping[str, Column]) -> Any:
    """The value that stands for a missing one, checked."""
    if name not in known:
        raise UnknownName("feature in missing", str(name), known)
    column = known[name]
    if column.kind == "number":
        return require_real(f"the value for a missing '{name}'", value, *column.values)
    allowed = (False, True) if column.kind == "bool" else column.values
    inside = type(value) in (bool, int, str) and value in allowed
    require(inside, f"the value for a missing '{name}' must be one of {list(allowed)}", value)
    return bool(value) if column.kind == "bool" else value


def _declared_by(name: str, part: Any) -> dict[str, Any]:
    """The columns of one observation space."""
    kind = type(part).__name__
    if kind == "Discrete":
        first = int(part.start)
        return {name: [first + value for value in range(int(part.n))]}
    if kind == "MultiBinary":
        return {f"{name}[{i}]": bool for i in range(int(np.prod(part.shape)))}
    if kind != "Box":
        raise InvalidInput(
            f"observations must be Box, Discrete, MultiBinary or a Dict of them, got {kind} for '{name}'"
        )
    require(len(part.shape) <= 1, f"the observation '{name}' must be a vector", part.shape)
    finite = bool(np.isfinite(part.low).all() and np.isfinite(part.high).all())
    hint = "declare Features with bounds of your own"
    require(finite, f"the bounds of the observation '{name}' must be finite", "infinite ones", hint)
    bounds = list(zip(np.ravel(part.low).tolist(), np.ravel(part.high).tolist(), strict=True))
    return {name: bounds[0]} if part.shape == () else {f"{name}[{i}]": pair for i, pair in enumerate(bounds)}
