"""JSON documents that are verified or signed: read strictly, hashed in one form, compared entry by entry.

D1  A name that stands twice, NaN, Infinity and numbers beyond double precision are refused wherever JSON is read: two
    readers of one document read the same.
D2  The digest is SHA-256 over canonical JSON (sorted names, no spaces) of everything but digest and signature.
D3  `differences` names every entry that is missing, unknown or another one than what was derived again.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tacit.errors import InvalidInput

OUTSIDE: Final = ("signature", "digest")
TOLERANCE: Final = 1e-6
"""Numbers that another machine derives again agree to a part in 10⁶."""
HUGE: Final = re.compile(r"[0-9][eE]\+?[0-9]{3}|[0-9]{309}")


def parse_json(text: str | bytes, what: str) -> Any:
    """The value in a JSON text (D1).

    >>> parse_json('{"a": 1, "a": 2}', "a claim")
    Traceback (most recent call last):
    ...
    tacit.errors.InvalidInput: a claim must be JSON with every name once and finite numbers, got a name twice
    """
    try:
        plain = text.decode("utf-8") if isinstance(text, bytes) else text
        huge = HUGE.search(plain) is not None  # the check of each number costs more than reading it
        return json.loads(plain, object_pairs_hook=_once, parse_constant=_finite, parse_float=_finite if huge else None)
    except InvalidInput as error:
        raise InvalidInput(f"{what} must be JSON with every name once and finite numbers, got {error}") from None
    except (ValueError, RecursionError) as error:
        place = f" at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise InvalidInput(f"{what} must be readable JSON, got {type(error).__name__}{place}") from None


def canonical(content: Mapping[str, Any]) -> bytes:
    """JSON with sorted keys and no spaces: the same content always gives the same bytes."""
    plain = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return plain.encode()


def digest(content: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON of everything but digest and signature (D2)."""
    return hashlib.sha256(canonical(without_seal(content))).hexdigest()


def vouched(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content with its digest."""
    return {**content, "digest": digest(content)}


def without_seal(content: Mapping[str, Any]) -> dict[str, Any]:
    """Everything but digest and signature."""
    return {name: part for name, part in content.items() if name not in OUTSIDE}


def json_values(content: Any) -> Any:
    """The content as it is read back from JSON: lists for tuples, text for the names of entries."""
    return json.loads(json.dumps(content, allow_nan=False))


def differences(stated: Any, derived: Any, name: str = "") -> Iterator[str]:
    """What is stated and not derived, entry by entry (D3).

    >>> list(differences({"a": [1, 2.0], "c": 0}, {"a": [1, 3.0], "b": None}, "claim"))
    ['claim.a[1] is 2, where 3 is derived', 'claim.b is missing', 'claim.c is no entry of it']
    """
    if isinstance(stated, Mapping) and isinstance(derived, Mapping):
        for key in {**derived, **stated}:
            inner = f"{name}.{key}" if name else str(key)
            if key not in stated:
                yield f"{inner} is missing"
            elif key not in derived:
                yield f"{inner} is no entry of it"
            else:
                yield from differences(stated[key], derived[key], inner)
    elif _lists(stated, derived) and len(stated) == len(derived):
        for place, (one, other) in enumerate(zip(stated, derived, strict=True)):
            yield from differences(one, other, f"{name}[{place}]")
    elif not _alike(stated, derived):
        yield f"{name} is {_short(stated)}, where {_short(derived)} is derived"


def same(stated: Any, derived: Any) -> bool:
    """Whether nothing differs."""
    return next(differences(stated, derived), None) is None


def _alike(stated: Any, derived: Any) -> bool:
    """Whether two values that are no objects are the same; numbers to a part in 10⁶."""
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in (stated, derived))
    if numbers and (isinstance(stated, float) or isinstance(derived, float)):
        return math.isclose(stated, derived, rel_tol=TOLERANCE, abs_tol=0.0)
    return type(stated) is type(derived) and bool(stated == derived)


def _lists(*values: Any) -> bool:
    return all(isinstance(value, Sequence) and not isinstance(value, str) for value in values)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise InvalidInput("a name twice")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise InvalidInput("a number that is not finite")
    return number


def _short(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
