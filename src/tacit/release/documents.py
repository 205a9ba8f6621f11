"""Fields of a channel as JSON: exact numbers in, the same numbers out, and nothing that is not expected.

A number of the noise is a fraction, written [numerator, denominator] in lowest terms, so that whoever reads a channel
in any language draws the very same law. Everything is checked while it is read: a study file comes from elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from fractions import Fraction
from typing import Any, ClassVar, Final, Self, cast

from tacit.accounting.claims import PrivacyClaim, Trust
from tacit.errors import InvalidInput, require, require_count
from tacit.noise.exact.blocks import LARGEST_SCALE
from tacit.protocol import TOTALS, Query, Totals
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountShape
from tacit.support import Support

SIZES: Final = ("horizon", "num_states", "num_actions")


def require_entries(what: str, plain: object, names: Collection[str]) -> Mapping[str, Any]:
    """The mapping, if it has exactly these entries.

    >>> require_entries("a shape", {"horizon": 3}, ["horizon"])
    {'horizon': 3}
    """
    if not isinstance(plain, Mapping):
        raise InvalidInput(f"{what} must be a mapping with the entries {', '.join(sorted(names))}, got another type")
    exact = set(plain) == set(names)
    require(exact, f"{what} must have exactly the entries {', '.join(sorted(names))}", sorted(map(str, plain)))
    return plain


def fraction_to_plain(value: Fraction | float) -> list[int]:
    """[numerator, denominator] of the number itself; a float is taken as the fraction it is.

    >>> fraction_to_plain(0.375)
    [3, 8]
    """
    return list(Fraction(value).as_integer_ratio())


def fraction_from_plain(name: str, plain: object) -> Fraction:
    """The fraction that `fraction_to_plain` wrote.

    >>> fraction_from_plain("probability", [3, 8])
    Fraction(3, 8)
    """
    pair = plain if isinstance(plain, list | tuple) else ()
    whole = len(pair) == 2 and all(type(part) is int for part in pair) and pair[1] > 0
    require(whole, f"{name} must be [numerator, denominator], two whole numbers", plain)
    found = Fraction(*pair)
    require([*found.as_integer_ratio()] == [*pair], f"{name} must be in lowest terms", plain)
    return found


def float_from_plain(name: str, plain: object) -> float:
    """The double that `fraction_to_plain` wrote; a fraction that no double equals is refused.

    >>> float_from_plain("epsilon", [1, 2])
    0.5
    """
    exact = fraction_from_plain(name, plain)
    try:
        found = float(exact)
    except OverflowError:
        found = 0.0
    require(Fraction(found) == exact, f"{name} must be a double, written as a fraction", plain)
    return found


def claim_from_plain(plain: object, trust: Trust) -> PrivacyClaim:
    """The claim of a channel of this trust model."""
    if not isinstance(plain, Mapping):
        raise InvalidInput("the claim of a channel must be a mapping, got another type")
    for name in ("trust", "neighbours", "output"):
        require(isinstance(plain.get(name), str), f"{name} of a claim must be a text", plain.get(name))
    found = PrivacyClaim.from_dict(plain)
    require(found.trust == trust, f"the claim of this channel must have trust '{trust}'", found.trust)
    return found


def shape_to_plain(shape: CountShape) -> dict[str, Any]:
    """The public sizes of counts, and what is declared about them."""
    plain = {name: getattr(shape, name) for name in SIZES} | {"staged": shape.staged}
    return plain if shape.support is None else plain | {"support": shape.support.to_dict()}


def shape_from_plain(plain: object) -> CountShape:
    """The sizes that `shape_to_plain` wrote."""
    told = ("support",) if isinstance(plain, Mapping) and "support" in plain else ()
    given = require_entries("the shape of a channel", plain, (*SIZES, "staged", *told))
    require(isinstance(given["staged"], bool), "staged must be true or false", given["staged"])
    horizon, states, actions = (require_count(name, given[name]) for name in SIZES)
    return CountShape(
        horizon=horizon,
        num_states=states,
        num_actions=actions,
        staged=given["staged"],
        support=Support.from_dict(given["support"]) if told else None,
    )


def count_query_to_plain(query: Query) -> dict[str, Any]:
    """Running totals, or the counts of a single batch."""
    if isinstance(query, Totals):
        require(query == TOTALS, "running totals are asked for in one way only", query)
        return {"asks": "totals"}
    if isinstance(query, BatchQuery):
        p = query.failure_prob
        return {"asks": "batch", "layer": query.layer, "failure_prob": None if p is None else fraction_to_plain(p)}
    raise InvalidInput(f"a channel of counts answers running totals or single batches, got a {type(query).__name__}")


def count_query_from_plain(plain: object) -> Totals | BatchQuery:
    """The query that `count_query_to_plain` wrote."""
    asks = plain.get("asks") if isinstance(plain, Mapping) else None
    if asks == "totals":
        require_entries("running totals", plain, ("asks",))
        return TOTALS
    require(asks == "batch", "the query of a channel of counts asks for 'totals' or a 'batch'", asks)
    given = require_entries("a batch query", plain, ("asks", "layer", "failure_prob"))
    layer = None if given["layer"] is None else require_count("layer", given["layer"], least=0)
    p = None if given["failure_prob"] is None else float_from_plain("failure_prob", given["failure_prob"])
    return BatchQuery(layer=layer, failure_prob=p)


Codec = tuple[Callable[[Any], Any], Callable[[str, Any], Any]]


def whole_from_plain(name: str, value: object) -> int:
    """The whole number of a document; variances, in units, go beyond what counts may be.

    >>> whole_from_plain("variance", 2**60) == 2**60
    True
    """
    return require_count(name, value, 1, LARGEST_SCALE**2) if name.endswith("variance") else require_count(name, value)


def flag_from_plain(name: str, value: object) -> bool:
    """True or false, and nothing that only looks like it."""
    require(isinstance(value, bool), f"{name} must be true or false", value)
    return bool(value)


def _batch_query_from_plain(plain: object) -> BatchQuery:
    found = count_query_from_plain(plain)
    if not isinstance(found, BatchQuery):
        raise InvalidInput(f"this release answers {BatchQuery.words()}, got {found.words()}")
    return found


def _ints_from_plain(name: str, plain: object) -> tuple[int, ...]:
    require(isinstance(plain, list), f"{name} must be a list", type(plain).__name__)
    return tuple(require_count(name, one, least=0) for one in cast("list[object]", plain))


CODECS: Final[dict[str, Codec]] = {
    "int": (lambda value: value, whole_from_plain),
    "bool": (lambda value: value, flag_from_plain),
    "Fraction": (fraction_to_plain, fraction_from_plain),
    "float": (fraction_to_plain, float_from_plain),
    "float | None": (
        lambda value: None if value is None else fraction_to_plain(value),
        lambda name, plain: None if plain is None else float_from_plain(name, plain),
    ),
    "Limit": (
        lambda value: None if value == math.inf else fraction_to_plain(value),
        lambda name, plain: math.inf if plain is None else float_from_plain(name, plain),
    ),
    "tuple[int, ...]": (list, _ints_from_plain),
    "CountShape": (shape_to_plain, lambda _, plain: shape_from_plain(plain)),
    "BatchQuery": (count_query_to_plain, lambda _, plain: _batch_query_from_plain(plain)),
    "Totals | BatchQuery": (count_query_to_plain, lambda _, plain: count_query_from_plain(plain)),
}
"""Type of a field, as it is annotated -> how it is written and read. A field of another type has no document."""


def record(kind: type, *names: str) -> Codec:
    """How a dataclass within a document is written and read: these of its fields, each by its type."""
    types = {field.name: str(field.type) for field in fields(kind)}

    def written(value: Any) -> dict[str, Any]:
        return {name: CODECS[types[name]][0](getattr(value, name)) for name in names}

    def read(what: str, plain: Any) -> Any:
        given = require_entries(f"the {what} of a release", plain, names)
        return kind(**{name: CODECS[types[name]][1](name, given[name]) for name in names})

    return written, read


class Documented:
    """A frozen dataclass that is written as a JSON document, one entry per field, with exact numbers.

    The document also has the entry `kind` and the `FIXED` ones. A field of `OMITTED` is left out where it has its
    default. Whatever is missing, unknown or out of range is refused when a document is read.
    """

    __slots__ = ()
    KIND: ClassVar[str]
    TRUST: ClassVar[Trust]
    FIXED: ClassVar[Mapping[str, Any]] = {}
    OMITTED: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values; every number is exact."""
        plain: dict[str, Any] = {"kind": self.KIND, **self.FIXED}
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if field.name in self.OMITTED and value == field.default:
                continue
            plain[field.name] = value.to_dict() if field.type == "PrivacyClaim" else CODECS[str(field.type)][0](value)
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """The object that `to_dict` wrote."""
        own = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
        left_out = {name for name in cls.OMITTED if not (isinstance(plain, Mapping) and name in plain)}
        wanted = [*("kind", *cls.FIXED), *(name for name in own if name not in left_out)]
        given = require_entries(f"a release of the kind '{cls.KIND}'", plain, wanted)
        for name, value in {"kind": cls.KIND, **cls.FIXED}.items():
            require(given[name] == value, f"{name} of this release must be {value!r}", given[name])
        values: dict[str, Any] = {}
        for name, field in own.items():
            if name in left_out:
                continue
            if field.type == "PrivacyClaim":
                values[name] = claim_from_plain(given[name], cls.TRUST)
            else:
                values[name] = CODECS[str(field.type)][1](name, given[name])
            written = name not in cls.OMITTED or values[name] != field.default
            require(written, f"{name} must be left out where it is {field.default!r}", given[name])
        return cls(**values)
