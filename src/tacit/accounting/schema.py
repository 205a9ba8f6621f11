"""The JSON Schema of certificates, and a validator for the part of JSON Schema that it uses.

    tacit verify --schema > docs/certificate.schema.json

The validator knows type, enum, pattern, minimum, exclusiveMinimum, maximum, items, prefixItems, properties, required,
additionalProperties and anyOf; a schema that says anything else is refused, so nothing passes unread.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final, get_args

from tacit.accounting.certificate import Calibration
from tacit.accounting.claims import OUTPUTS, Neighbours
from tacit.accounting.families import CertifiedFamily
from tacit.accounting.terms import UNIT, Terms
from tacit.errors import InvalidInput

__all__ = ["certificate_schema", "violations"]

Schema = Mapping[str, Any]

EPSILON: Final[Schema] = {"anyOf": [{"type": "number", "minimum": 0}, {"enum": ["inf"]}]}
DELTA: Final[Schema] = {"type": "number", "minimum": 0, "maximum": 1}
TEXT: Final[Schema] = {"type": "string"}
_PLAIN: Final = {"str": "string", "float": "number", "int": "integer"}


def certificate_schema() -> dict[str, Any]:
    """The schema of `Certificate.to_dict`."""
    family = {field.name: {"type": _PLAIN[str(field.type)]} for field in fields(CertifiedFamily)}
    printed = {"says": TEXT, "epsilon": EPSILON, "delta": DELTA, "certified": EPSILON, "true": {"type": "boolean"}}
    claim = {
        "trust": {"enum": list(OUTPUTS)},
        "epsilon": EPSILON,
        "delta": DELTA,
        "unit": _closed(UNIT),
        "neighbours": {"enum": list(get_args(Neighbours))},
        "output": {"enum": [output for outputs in OUTPUTS.values() for output in outputs]},
    }
    event = {"type": "object", "properties": {"event": TEXT}, "required": ["event"]}
    exposure = _list({"type": "array", "prefixItems": [event, {"type": "integer", "minimum": 0}]})
    entries: dict[str, Schema] = {
        "claim": {**_closed({**claim, "allow_large_delta": {"enum": [True]}}), "required": list(claim)},
        "epsilon": _meaning("What the accountant certifies at the claim's delta.", EPSILON),
        "delta": DELTA,
        "curve": _list(_meaning("(delta, epsilon)", {"type": "array", "prefixItems": [DELTA, EPSILON]})),
        "method": TEXT,
        "families": _list(_closed(family)),
        "calibration": {"enum": list(get_args(Calibration))},
        "printed": {"anyOf": [{"type": "null"}, _closed(printed)]},
        "local_epsilon": {"type": ["number", "null"], "minimum": 0},
        "holds": _meaning("Whether the accountant confirms the claim.", {"type": "boolean"}),
        "verdict": TEXT,
        "collusion": TEXT,
        "release": _meaning("False: a simulation, which protects nobody.", {"type": "boolean"}),
        "statement": _meaning("Everything in words.", TEXT),
        "warnings": _list(TEXT),
        "events": _meaning(
            "What one unit is exposed to, (event, count) each: mechanism and parameters from which epsilon follows.",
            exposure,
        ),
        "terms": _meaning("What the certificate depends on beside claim and events.", Terms.schema()),
        "others": _meaning(
            "Left out if there are none: what people in stages of other kinds are exposed to; the curve covers it.",
            _list(exposure),
        ),
        "unchecked": _meaning("Left out if there are none: packages of noise or events, not checked.", _list(TEXT)),
    }
    whole = _closed({name: dict(entry) for name, entry in entries.items()})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tacit certificate",
        **whole,
        "required": [name for name in whole["required"] if name not in ("others", "unchecked")],
    }


def violations(value: Any, schema: Schema, where: str = "certificate") -> list[str]:
    """What of a JSON value the schema forbids; empty if nothing.

    >>> violations({"a": "x"}, {"type": "object", "properties": {"a": {"type": "integer"}}})
    ['certificate.a: must be of type integer']
    """
    found = []
    for word, rule in schema.items():
        if word in ("$schema", "title", "description"):
            continue
        if word not in _RULES:
            raise InvalidInput(f"the schema of certificates must not use '{word}', which nobody would check")
        found += _RULES[word](value, rule, schema, where)
    return found


def _meaning(words: str, schema: Schema) -> dict[str, Any]:
    return {"description": words, **schema}


def _list(items: Schema) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _closed(properties: Mapping[str, Schema]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool) or value is None:
        return kind == ("null" if value is None else "boolean")
    kinds: Mapping[str, Any] = {"number": int | float, "integer": int, "string": str, "array": list, "object": dict}
    return kind in kinds and isinstance(value, kinds[kind])


def _type(value: Any, rule: Any, schema: Schema, where: str) -> list[str]:
    kinds = rule if isinstance(rule, list) else [rule]
    return [] if any(_is(value, kind) for kind in kinds) else [f"{where}: must be of type {' or '.join(kinds)}"]


def _enum(value: Any, rule: Any, schema: Schema, where: str) -> list[str]:
    same = any(value == one and type(value) is type(one) for one in rule)
    return [] if same else [f"{where}: must be one of {', '.join(map(str, rule))}"]


def _bound(holds: Callable[[float, float], bool], words: str) -> Callable[[Any, Any, Schema, str], list[str]]:
    def check(value: Any, rule: Any, schema: Schema, where: str) -> list[str]:
        return [] if not _is(value, "number") or holds(value, rule) else [f"{where}: must be {words} {rule}"]

    return check


def _pattern(value: Any, rule: Any, schema: Schema, where: str) -> list[str]:
    fits = not isinstance(value, str) or re.search(rule, value) is not None
    return [] if fits else [f"{where}: must look like {rule}"]


def _items(value: Any, rule: Any, schema: Schema, where: str) -> list[str]:
    many = enumerate(value) if isinstance(value, list) else ()
    return [line for i, part in many for line in violations(part, rule, f"{where}[{i}]")]


def _prefix(value: Any, rule: Any, schema: Schema, where: str) -> list[str]:
    if not isinstance(value, list) or len(value) != len(rule):
        return [f"{where}: must have {len(rule)} entries"]
    return [
        line
        for i, (part, one) in enumerate(zip(value, rule, strict=True))
        for line in violations(part, one, f"{where}[{i}]")
    ]


def _properties(value: Any, rule: Any, schema: Schema, where: str) -> list[str]:
    known = [name for name in rule if isinstance(value, dict) and name in value]
    return [line for name in known for line in violations(value[name], rule[name], f"{where}.{name}")]


def _required(value: Any, rule: Any, schema: Schema, where: str) -> list[str]:
    return [f"{where}: must say {name}" for name in rule if isinstance(value, dict) and name not in value]


def _additional(value: Any, rule: Any, schema: Schema, where: str) -> list[str]:
    more = [name for name in value if name not in schema.get("properties", {})] if isinstance(value, dict) else []
    if rule is False:
        return [f"{where}: must not say {name}" for name in more]
    return [line for name in more for line in violations(value[name], rule, f"{where}.{name}")]


def _any_of(value: Any, rule: Any, schema: Schema, where: str) -> list[str]:
    tries = [violations(value, one, where) for one in rule]
    return [] if any(not found for found in tries) else tries[0]


_RULES: Final[Mapping[str, Callable[[Any, Any, Schema, str], list[str]]]] = {
    "type": _type,
    "enum": _enum,
    "pattern": _pattern,
    "minimum": _bound(lambda value, rule: value >= rule, "at least"),
    "exclusiveMinimum": _bound(lambda value, rule: value > rule, "above"),
    "maximum": _bound(lambda value, rule: value <= rule, "at most"),
    "items": _items,
    "prefixItems": _prefix,
    "properties": _properties,
    "required": _required,
    "additionalProperties": _additional,
    "anyOf": _any_of,
}
