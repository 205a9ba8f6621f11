"""Goldens as values: short hashes of everything, a part of it to read, and where two of them differ first.

Nothing of tacit is imported here. A hash sees values only: never names of classes, of modules or of fields.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

SCRATCH = ("scratch",)
"""Space of a belief that is no state."""
YOUNGER = ("per_stage",)
"""Fields of dataclasses that are younger than the first goldens."""
LONG, HEAD, TEXT = 12, 4, 160
"""Arrays of more numbers are shown by their shape, hash, sum and first numbers; longer lists by their first entries."""


def golden(value: Any) -> dict[str, Any]:
    """What is committed for a value: the hash of all of it, and what can be read of it."""
    full = _full(value)
    return {"hash": text_digest(canonical(full)), "values": _shown(full)}


def difference(expected: Any, found: Any, *, tolerance: float = 0.0, path: str = "") -> str | None:
    """The first place where two shown values differ, with both of them; None: they agree."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in [*expected, *(key for key in found if key not in expected)]:
            here = f"{path}.{key}" if path else str(key)
            if key not in expected or key not in found:
                missing = "is not there" if key not in found else "is new"
                return f"{here} {missing}"
            if tolerance and key == "sha" and ("head" in expected or "first" in expected):
                continue
            line = difference(expected[key], found[key], tolerance=tolerance, path=here)
            if line:
                return line
        return None
    if isinstance(expected, list) and isinstance(found, list):
        if tolerance and _is_fraction(expected) and _is_fraction(found):
            expected, found = [expected[0] / expected[1]], [found[0] / found[1]]
        if len(expected) != len(found):
            return f"{path}: expected {len(expected)} entries, got {len(found)}"
        pairs = enumerate(zip(expected, found, strict=True))
        lines = (difference(a, b, tolerance=tolerance, path=f"{path}[{i}]") for i, (a, b) in pairs)
        return next((line for line in lines if line), None)
    numbers = isinstance(expected, int | float) and isinstance(found, int | float)
    near = tolerance and numbers and math.isclose(expected, found, rel_tol=tolerance, abs_tol=tolerance)
    same = near or (expected == found and type(expected) is type(found))
    return None if same else f"{path or 'value'}: expected {expected!r}, got {found!r}"


def _is_fraction(value: list[Any]) -> bool:
    """Whether this is a float as documents have it: [numerator, a power of two]."""
    whole = len(value) == 2 and all(isinstance(part, int) for part in value)
    return whole and value[1] > 2**20 and value[1] & (value[1] - 1) == 0


def _full(value: Any) -> Any:
    """The same as JSON has it, nothing left out; records are lists of their values."""
    if isinstance(value, np.ndarray):
        return _full(value.tolist())
    if isinstance(value, np.generic):
        return _full(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, bytes):
        return {"bytes": len(value), "hex": value.hex()}
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    if isinstance(value, dict):
        return {str(key): _full(part) for key, part in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [_full(part) for name, part in zip(value._fields, value, strict=True) if name not in SCRATCH]
    if isinstance(value, tuple | list):
        return [_full(part) for part in value]
    if dataclasses.is_dataclass(value):
        return [_full(getattr(value, field.name)) for field in dataclasses.fields(value)]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"goldens hold numbers, texts, bytes and arrays, got {type(value).__name__}")


def _shown(full: Any) -> Any:
    """What can be read of a full value."""
    if isinstance(full, dict) and set(full) == {"bytes", "hex"}:
        return full if len(full["hex"]) <= 32 else {"bytes": full["bytes"], "sha": text_digest(full["hex"])}
    if isinstance(full, dict):
        return {key: _shown(part) for key, part in full.items()}
    if isinstance(full, str) and len(full) > TEXT:
        return {"text": full[: TEXT // 2], "length": len(full), "sha": text_digest(full)}
    if not isinstance(full, list):
        return full
    leaves, shape = list(_flat(full)), _shape(full)
    numbers = shape is not None and all(isinstance(leaf, int | float) for leaf in leaves)
    if numbers and len(leaves) > LONG:
        head = {"shape": list(shape), "sha": text_digest(canonical(full))}
        return {**head, "sum": math.fsum(leaves), "head": leaves[:HEAD]}
    if len(full) > LONG:
        first = [_shown(part) for part in full[:HEAD]]
        return {"first": first, "length": len(full), "sha": text_digest(canonical(full))}
    return [_shown(part) for part in full]


def _shape(full: Any) -> tuple[int, ...] | None:
    if not isinstance(full, list):
        return ()
    shapes = {_shape(part) for part in full}
    return (len(full), *shapes.pop()) if len(shapes) == 1 and None not in shapes else None


def _flat(full: Any) -> Iterator[Any]:
    if isinstance(full, list):
        for part in full:
            yield from _flat(part)
    else:
        yield full


# The hashes of the first goldens ------------------------------------------------------------------------------


def digest(value: Any) -> str:
    """The first 16 hexadecimal digits of SHA-256 over all values inside, in order."""
    found = hashlib.sha256()
    for leaf in _leaves(value):
        found.update(len(leaf).to_bytes(8, "little") + leaf)
    return found.hexdigest()[:16]


def text_digest(text: str) -> str:
    """The same of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def canonical(content: Any) -> str:
    """JSON with sorted keys; floats as their shortest text, which gives them back bit for bit."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"goldens hold numbers and texts, got {type(value).__name__}")


def _leaves(value: Any) -> Iterator[bytes]:
    """Every array, number and text inside, in order; containers leave no trace but their contents."""
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise TypeError("goldens hold arrays of numbers, got one of objects")
        yield f"{value.dtype.str}{value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif value is None or isinstance(value, bool | int | float | str | np.generic):
        yield repr(value.item() if isinstance(value, np.generic) else value).encode()
    elif isinstance(value, dict):
        for key in value:
            yield from _leaves(value[key])
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for name, part in zip(value._fields, value, strict=True):
            if name not in SCRATCH:
                yield from _leaves(part)
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _leaves(part)
    elif dataclasses.is_dataclass(value):
        for field in (field for field in dataclasses.fields(value) if field.name not in YOUNGER):
            yield from _leaves(getattr(value, field.name))
    else:
        raise TypeError(f"goldens hold nested tuples of arrays, got {type(value).__name__}")
