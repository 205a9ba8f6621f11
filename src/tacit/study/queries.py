"""Queries as JSON: the public question of a stage, spelled out so that nothing has to be imported to read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final, get_args

import numpy as np

from tacit.errors import InvalidInput, UnknownName, require
from tacit.protocol import Query, Totals
from tacit.released.batches import BatchQuery
from tacit.released.gradients import DoseQuery, SoftmaxQuery
from tacit.released.losses import LossQuery
from tacit.released.returns import Bit, ReturnQuery

QUERIES: Final[Mapping[str, type[Any]]] = {
    "totals": Totals,
    "batch": BatchQuery,
    "softmax": SoftmaxQuery,
    "doses": DoseQuery,
    "losses": LossQuery,
    "returns": ReturnQuery,
}
"""Queries by name."""


def query_to_dict(query: Query) -> dict[str, Any]:
    """JSON-ready values; `query_from_dict` gives every bit back.

    >>> query_to_dict(BatchQuery(layer=2, failure_prob=None))
    {'kind': 'batch', 'layer': 2, 'failure_prob': None}
    """
    kind = next((name for name, known in QUERIES.items() if type(query) is known), None)
    if kind is None:
        raise InvalidInput(f"a query must be one of {', '.join(QUERIES)}, got {type(query).__name__}")
    return {"kind": kind, **{name: _plain(getattr(query, name)) for name in _names(QUERIES[kind])}}


def query_from_dict(plain: Mapping[str, Any]) -> Any:
    """The query that `query_to_dict` wrote; anything missing or unknown is an error.

    >>> query_from_dict({"kind": "totals", "every": 0}) == Totals()
    True
    """
    name = plain.get("kind")
    if not isinstance(name, str) or name not in QUERIES:
        raise UnknownName("kind of query", str(name), QUERIES)
    names = _names(QUERIES[name])
    require(set(plain) == {"kind", *names}, f"a {name} query has the entries {', '.join(names)}", len(plain))
    return QUERIES[name](**{entry: _value(plain[entry]) for entry in names})


def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else tuple(kind._fields)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        require(value.dtype == np.float64, "arrays of a query must be of floats", value.dtype.name)
        require(bool(np.isfinite(value).all()), "arrays of a query must be finite", "other values")
        return {"shape": list(value.shape), "values": value.ravel().tolist()}
    return list(value) if isinstance(value, tuple) else value


def _value(plain: Any) -> Any:
    if isinstance(plain, list):
        whole = all(type(one) is int for one in plain)
        require(whole, "a list of a query must be made of whole numbers", "others")
        return tuple(plain)
    if not isinstance(plain, Mapping):
        known = plain is None or isinstance(plain, bool | int | float) or plain in get_args(Bit)
        require(known, "a query must be made of numbers", "others")
        return plain
    require(set(plain) == {"shape", "values"}, "an array of a query has a shape and values", len(plain))
    try:
        values = np.array(plain["values"], dtype=np.float64)
        return values.reshape([int(size) for size in plain["shape"]])
    except (TypeError, ValueError) as error:
        raise InvalidInput("an array of a query must have as many numbers as its shape says") from error
