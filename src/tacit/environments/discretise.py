"""Discretisers: public rules that turn an observation into the number of a state, fixed before anybody comes.

    Numbers    a Discrete space as it is
    Product    several Discrete numbers as one (Tuple, MultiDiscrete, MultiBinary), the last one changing fastest
    Bins       intervals per dimension, for real numbers and for whole ones; `tiles` makes even ones
    Rows       no states, but rows of declared features
    Function   a function by its name, `package.module:function`, for whatever else

All of them are frozen, hashable and JSON-ready: a result keeps the discretiser that made its states. Values beyond the
first and the last edge belong to the outer bins, so every observation has a state.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from typing import Any, Final, Protocol, runtime_checkable

import gymnasium
import numpy as np

from tacit.arrays import Floats, Ints
from tacit.errors import InvalidInput, NotSupported, UnknownName, require, require_count, require_real
from tacit.features import Features

CARRIED: Final[dict[str, Callable[..., Any]]] = {}
"""Functions by name that were handed over or came with a run: those of a script or notebook cannot be imported."""
SHOWN: Final = 10_000
"""Discretisers with more states than this name them by their numbers only."""


@runtime_checkable
class Discretiser(Protocol):
    """A public rule from observations to states 0, ..., size - 1."""

    @property
    def size(self) -> int:
        """How many states there are."""
        ...

    def state(self, observation: Any) -> int:
        """The state of one observation."""
        ...

    def states(self, observations: Any) -> Ints:
        """The states of a batch of observations, as vector environments lay them out."""
        ...

    def names(self) -> tuple[str, ...]:
        """A readable name for every state."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values; `discretiser_from_dict` gives the same rule back."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """A Discrete space as it is: the observation `start + s` is the state s.

    >>> Numbers(count=3, start=5).state(6)
    1
    """

    count: int
    start: int = 0

    def __post_init__(self) -> None:
        require_count("count", self.count)

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return self.count

    def state(self, observation: Any) -> int:
        """The number, counted from zero."""
        return _inside(observation, self.count, self.start)

    def states(self, observations: Any) -> Ints:
        """The same for an array."""
        return np.asarray(observations, dtype=np.int64) - self.start

    def names(self) -> tuple[str, ...]:
        """The numbers as they are observed."""
        return tuple(str(self.start + s) for s in range(self.count))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {"kind": "numbers", "count": self.count, "start": self.start}


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """Several Discrete numbers as one; the last one changes fastest.

    >>> pair = Product(counts=(32, 11, 2))
    >>> pair.size, pair.state((1, 0, 1))
    (704, 23)
    """

    counts: tuple[int, ...]
    starts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        counts = tuple(require_count("count", count) for count in self.counts)
        starts = tuple(int(start) for start in self.starts) or (0,) * len(counts)
        require(len(counts) > 0, "a product must have at least one dimension", self.counts)
        require(len(starts) == len(counts), f"starts must have the {len(counts)} dimensions of counts", self.starts)
        object.__setattr__(self, "counts", counts)
        object.__setattr__(self, "starts", starts)

    @property
    def size(self) -> int:
        """The product of the counts."""
        return math.prod(self.counts)

    def state(self, observation: Any) -> int:
        """The state Σ_d (x_d - start_d) Π_{e>d} count_e."""
        found = 0
        for value, count, start in zip(_numbers(observation), self.counts, self.starts, strict=True):
            found = found * count + _inside(value, count, start)
        return found

    def states(self, observations: Any) -> Ints:
        """The same for a batch."""
        columns = _columns(observations)
        require(len(columns) == len(self.counts), f"observations must have {len(self.counts)} numbers", len(columns))
        found = np.zeros(len(columns[0]), dtype=np.int64)
        for column, count, start in zip(columns, self.counts, self.starts, strict=True):
            found = found * count + column.astype(np.int64) - start
        return found

    def names(self) -> tuple[str, ...]:
        """The numbers side by side."""
        if self.size > SHOWN:
            return tuple(map(str, range(self.size)))
        places = np.stack(np.unravel_index(np.arange(self.size), self.counts), axis=1) + np.array(self.starts)
        return tuple(" ".join(map(str, row)) for row in places.tolist())

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {"kind": "product", "counts": list(self.counts), "starts": list(self.starts)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bins:
    """Intervals per dimension: n edges make n + 1 bins, closed below; a dimension without edges is ignored.

    Values beyond the outer edges, infinities included, belong to the outer bins; what is not a number to the last one.

    >>> rule = Bins(edges=((0.0,), (), (-1.0, 1.0)))
    >>> rule.size, rule.state([0.5, 99.0, -2.0]), rule.state([-0.5, 99.0, 1.0])
    (6, 3, 2)
    """

    edges: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        edges = tuple(tuple(require_real("an edge", edge) for edge in row) for row in self.edges)
        require(len(edges) > 0, "bins must have at least one dimension", self.edges)
        rising = all(low < high for row in edges for low, high in pairwise(row))
        require(rising, "the edges of a dimension must increase strictly", self.edges)
        object.__setattr__(self, "edges", edges)

    @property
    def counts(self) -> tuple[int, ...]:
        """How many bins each dimension has."""
        return tuple(len(row) + 1 for row in self.edges)

    @property
    def size(self) -> int:
        """The product over the dimensions."""
        return math.prod(self.counts)

    def state(self, observation: Any) -> int:
        """The bins as one number; the last dimension changes fastest."""
        found = 0
        for value, row in zip(_numbers(observation), self.edges, strict=True):
            found = found * (len(row) + 1) + bisect_right(row, value)
        return found

    def states(self, observations: Any) -> Ints:
        """The same for a batch."""
        columns = _columns(observations)
        require(len(columns) == len(self.edges), f"observations must have {len(self.edges)} numbers", len(columns))
        found = np.zeros(len(columns[0]), dtype=np.int64)
        for column, row in zip(columns, self.edges, strict=True):
            found = found * (len(row) + 1) + np.searchsorted(np.array(row), column.astype(np.float64), side="right")
        return found

    def names(self) -> tuple[str, ...]:
        """The intervals of every dimension that has edges."""
        if self.size > SHOWN:
            return tuple(map(str, range(self.size)))
        found = [""]
        for d, row in enumerate(self.edges):
            if row:
                words = _intervals(row)
                found = [f"{before}{', ' if before else ''}x{d} {word}" for before in found for word in words]
        return tuple(found) if found != [""] else ("any",)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {"kind": "bins", "edges": [list(row) for row in self.edges]}


def tiles(*, low: Sequence[float], high: Sequence[float], counts: Sequence[int], offset: float = 0.0) -> Bins:
    """Even tiles: each dimension of [low, high] is cut into so many, shifted by a share `offset` of a tile.

    >>> tiles(low=[0.0, -1.0], high=[4.0, 1.0], counts=[4, 1]).edges
    ((1.0, 2.0, 3.0), ())
    >>> tiles(low=[0.0], high=[4.0], counts=[4], offset=0.5).edges
    ((1.5, 2.5, 3.5),)
    """
    same = len(low) == len(high) == len(counts) > 0
    require(same, "low, high and counts must have one entry per dimension", (len(low), len(high), len(counts)))
    shift = require_real("offset", offset, low=-1.0, high=1.0)
    rows = []
    for a, b, count in zip(low, high, counts, strict=True):
        first, last = require_real("low", a), require_real("high", b)
        require(first < last, "low must be below high in every dimension", (first, last))
        n = require_count("count", count)
        rows.append(tuple(first + (i + shift) * (last - first) / n for i in range(1, n)))
    return Bins(edges=tuple(rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function by its name, `package.module:function`, from one observation to a whole number below `count`.

    The function must be importable and public; it is part of the design, not of anybody's data.
    """

    function: str
    count: int

    def __post_init__(self) -> None:
        require_count("count", self.count)
        _parted(self.function)  # imported when it is used, never where a description is read

    @property
    def size(self) -> int:
        """How many states the function gives."""
        return self.count

    def state(self, observation: Any) -> int:
        """What the function says."""
        found = int(by_name(self.function)(observation))
        require(0 <= found < self.count, f"{self.function} must give a state from 0 to {self.count - 1}", "another")
        return found

    def states(self, observations: Any) -> Ints:
        """The same, one by one."""
        rows = zip(*observations, strict=True) if isinstance(observations, tuple) else observations
        return np.array([self.state(row) for row in rows], dtype=np.int64)

    def names(self) -> tuple[str, ...]:
        """Numbers: a function has no names."""
        return tuple(map(str, range(self.count)))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {"kind": "function", "function": self.function, "count": self.count}


@dataclass(frozen=True, slots=True)
class Rows:
    """No states: observations are rows of declared features, for linear learners.

    >>> Rows(Features(age=(18, 90))).encode([np.array([18.0])]).round(2).tolist()
    [[0.71, -0.71]]
    """

    features: Features

    def __post_init__(self) -> None:
        if isinstance(self.features, Mapping):
            object.__setattr__(self, "features", Features.from_dict(self.features))
        kind = type(self.features).__name__
        require(isinstance(self.features, Features), "features must be declared as tacit.Features(...)", kind)

    @property
    def size(self) -> int:
        """People are in one state: their rows tell them apart."""
        return 1

    def state(self, observation: Any) -> int:
        """The one state."""
        return 0

    def states(self, observations: Any) -> Ints:
        """The one state, for as many as there are."""
        return np.zeros(len(observations), dtype=np.int64)

    def encode(self, observations: Sequence[Any]) -> Floats:
        """Rows [n,d]."""
        whole = np.stack(observations) if isinstance(observations[0], np.ndarray) else list(observations)
        return self.features.encode(whole)

    def names(self) -> tuple[str, ...]:
        """Of the one state."""
        return ("any row",)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {"kind": "rows", "features": self.features.to_dict()}


KINDS: Final[Mapping[str, Callable[..., Discretiser]]] = {
    "rows": Rows,
    "numbers": Numbers,
    "product": Product,
    "bins": Bins,
    "function": Function,
}


def discretiser_from_dict(plain: Mapping[str, Any]) -> Discretiser:
    """The rule that `to_dict` wrote.

    >>> rule = Bins(edges=((0.0, 1.0),))
    >>> discretiser_from_dict(rule.to_dict()) == rule
    True
    """
    values = dict(plain)
    kind = str(values.pop("kind", None))
    if kind not in KINDS:
        raise UnknownName("kind of discretiser", kind, KINDS)
    for name in ("counts", "starts"):
        if name in values:
            values[name] = tuple(values[name])
    if "edges" in values:
        values["edges"] = tuple(tuple(row) for row in values["edges"])
    try:
        return KINDS[kind](**values)
    except TypeError as error:
        raise InvalidInput(f"a discretiser must be written as it was kept: {error}") from error


def discretiser_of(space: gymnasium.Space[Any], what: str) -> Discretiser:
    """The discretiser that a space of whole numbers needs no choice for; real numbers are refused with what to do."""
    spaces = gymnasium.spaces
    if isinstance(space, spaces.Discrete):
        return Numbers(count=int(space.n), start=int(space.start))
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        return Product(counts=tuple(map(int, space.nvec)), starts=tuple(map(int, space.start)))
    if isinstance(space, spaces.MultiBinary) and len(space.shape) == 1:
        return Product(counts=(2,) * int(space.shape[0]))
    if isinstance(space, spaces.Tuple) and all(isinstance(part, spaces.Discrete) for part in space.spaces):
        parts = [part for part in space.spaces if isinstance(part, spaces.Discrete)]
        return Product(counts=tuple(int(p.n) for p in parts), starts=tuple(int(p.start) for p in parts))
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        n = int(space.shape[0])
        raise NotSupported(
            f"{what} observes {n} real numbers and learners count states: choose public bins before data exist, "
            f"discretise=tiles(low=[...], high=[...], counts=[...]) with {n} entries each, or Bins(edges=...), "
            "from tacit.environments.discretise; for a single decision, features=Features(...)"
        )
    raise NotSupported(
        f"{what} observes {space}, for which there is no ready discretiser: name a function, "
        "discretise=Function(function='package.module:function', count=...) from tacit.environments.discretise"
    )


def by_name(name: str) -> Callable[..., Any]:
    """The function that `package.module:function` names."""
    if name in CARRIED:
        return CARRIED[name]
    module, attribute = _parted(name)
    try:
        found = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise InvalidInput(f"'{name}' must name a function that can be imported: {error}") from error
    require(callable(found), f"'{name}' must name a function", type(found).__name__)
    return found  # type: ignore[return-value]


def _parted(name: str) -> tuple[str, str]:
    module, _, attribute = str(name).partition(":")
    require(bool(module and attribute), "a function must be named 'package.module:function'", name)
    return module, attribute


def carry(functions: Mapping[str, Callable[..., Any]]) -> None:
    """Have these functions found by name in this process."""
    CARRIED.update(functions)


def _inside(observation: Any, count: int, start: int) -> int:
    """A number of a Discrete space, counted from zero."""
    number = int(observation) - start
    if not 0 <= number < count:
        raise InvalidInput(f"an observation must be a number from {start} to {start + count - 1}, got {observation}")
    return number


def _numbers(observation: Any) -> Sequence[Any]:
    """One observation as a flat row of numbers."""
    if isinstance(observation, np.ndarray):
        flat: list[Any] = observation.ravel().tolist()
        return flat
    return observation if isinstance(observation, tuple | list) else (observation,)


def _columns(observations: Any) -> list[np.ndarray[Any, Any]]:
    """A batch of observations, one column per number."""
    if isinstance(observations, tuple):
        return [np.asarray(part) for part in observations]
    rows = np.asarray(observations)
    rows = rows.reshape(len(rows), -1)
    return [rows[:, d] for d in range(rows.shape[1])]


def _intervals(row: tuple[float, ...]) -> list[str]:
    inner = [f"in [{low:g}, {high:g})" for low, high in pairwise(row)]
    return [f"< {row[0]:g}", *inner, f">= {row[-1]:g}"]
