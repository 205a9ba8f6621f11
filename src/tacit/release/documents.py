"""Fields of a channel as JSON: exact numbers in, the same numbers out, and nothing that is not expected.

A number of the noise is a fraction, written [numerator, denominator] in lowest terms, so that whoever reads a channel
in any language draws the very same law. Everything is checked while it is read: a study file comes from elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fractions import Fraction
from typing import Any, Final

from tacit.accounting.claims import PrivacyClaim, Trust
from tacit.errors import InvalidInput, require, require_count
from tacit.protocol import TOTALS, Query, Totals
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountShape
from tacit.support import Support

__all__ = [
    "claim_from_plain",
    "count_query_from_plain",
    "count_query_to_plain",
    "float_from_plain",
    "fraction_from_plain",
    "fraction_to_plain",
    "require_entries",
    "shape_from_plain",
    "shape_to_plain",
]

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
