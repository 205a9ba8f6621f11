"""The JSON Schema of certificates, for other programs: `tacit verify --schema > docs/certificate.schema.json`.

`tacit verify` does not read it: certificates and their terms check their own fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final, get_args

from tacit.accounting.certificate import LEFT_OUT, Calibration
from tacit.accounting.claims import OUTPUTS, Neighbours
from tacit.accounting.families import CertifiedFamily
from tacit.accounting.knowledge import KINDS, PARTIES
from tacit.accounting.terms import UNIT, Terms

Schema = Mapping[str, Any]

EPSILON: Final[Schema] = {"anyOf": [{"type": "number", "minimum": 0}, {"enum": ["inf"]}]}
DELTA: Final[Schema] = {"type": "number", "minimum": 0, "maximum": 1}
TEXT: Final[Schema] = {"type": "string"}
PAIR: Final[Schema] = {"minItems": 2, "items": False}
"""No fewer and no more entries than are listed."""
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
    exposure = _list({"type": "array", "prefixItems": [event, {"type": "integer", "minimum": 0}], **PAIR})
    pair = {"type": "array", "prefixItems": [EPSILON, EPSILON], **PAIR}
    left = {"type": "object", "propertyNames": {"enum": list(KINDS)}, "additionalProperties": pair}
    entries: dict[str, Schema] = {
        "claim": {**_closed({**claim, "allow_large_delta": {"enum": [True]}}), "required": list(claim)},
        "epsilon": _meaning("What the accountant certifies at the claim's delta.", EPSILON),
        "delta": DELTA,
        "curve": _list(_meaning("(delta, epsilon)", {"type": "array", "prefixItems": [DELTA, EPSILON], **PAIR})),
        "method": TEXT,
        "families": _list(_closed(family)),
        "calibration": {"enum": list(get_args(Calibration))},
        "printed": {"anyOf": [{"type": "null"}, _closed(printed)]},
        "local_epsilon": {"type": ["number", "null"], "minimum": 0},
        "holds": _meaning("Whether the accountant confirms the claim.", {"type": "boolean"}),
        "verdict": TEXT,
        "collusion": TEXT,
        "release": _meaning("False: a simulation, which protects nobody.", {"type": "boolean"}),
        "statement": _meaning("Everything as a text for people.", TEXT),
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
        "coalitions": _meaning(
            "Studies: parties, and the epsilon of one person that is left against them by kind of sealing: if they "
            "keep to the protocol, and if they also make up or replace reports.",
            _list(_closed({"parties": _list({"enum": list(PARTIES)}), "left": left})),
        ),
        "unchecked": _meaning("Left out if there are none: packages of noise or events, not checked.", _list(TEXT)),
    }
    whole = _closed({name: dict(entry) for name, entry in entries.items()})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tacit certificate",
        **whole,
        "required": [name for name in whole["required"] if name not in LEFT_OUT],
    }


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
