"""States as bytes: nested tuples of arrays, written without pickle and read back bit for bit.

    "TACB1" | length u32 | header JSON | raw arrays, little endian | SHA-256 of all before

The header is a tree: {"tuple": [...], "type": "module:Name"} for NamedTuples, {"array": dtype, "shape": [...]} for
arrays, plain JSON for numbers, texts and None. Only NamedTuples of packages that the reader names are rebuilt.

Everything a learner is between two steps, as bytes that give every bit back.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final

import numpy as np

from tacit.accounting.journal import Connection
from tacit.errors import InvalidInput, require
from tacit.learners.contract import PlanningLearner
from tacit.protocol import Learner, Plan

MAGIC: Final = b"TACB1"
DIGEST: Final = 32
KINDS: Final = "biuf"
"""Arrays of truth values, whole numbers and floats; nothing that could hold an object."""

FOLDERS: Final = (
    *("data", "learners", "planning", "policies", "protocol", "release", "released", "statistics"),
    "study.uniform_assignment",
)
"""Of tacit: what states are made of. Nothing there imports, opens or starts anything when it is built."""


def encode_state(value: Any) -> bytes:
    """A nested tuple of arrays as bytes.

    >>> decode_state(encode_state((np.arange(3), None, 0.1)))
    (array([0, 1, 2]), None, 0.1)
    """
    arrays: list[bytes] = []
    header = json.dumps(_describe(value, arrays), separators=(",", ":"), allow_nan=False).encode()
    body = b"".join([MAGIC, len(header).to_bytes(4, "little"), header, *arrays])
    return body + hashlib.sha256(body).digest()


def decode_state(data: bytes, packages: tuple[str, ...] = ("tacit",)) -> Any:
    """The state that `encode_state` wrote; `packages` are those whose tuples may be rebuilt."""
    body, digest = data[:-DIGEST], data[-DIGEST:]
    whole = body.startswith(MAGIC) and hashlib.sha256(body).digest() == digest
    require(whole, "a state must be as it was written: its digest must fit", "another digest")
    start = len(MAGIC) + 4
    size = int.from_bytes(body[len(MAGIC) : start], "little")
    reader = _Reader(body[start + size :], packages)
    value = reader.build(json.loads(body[start : start + size]))
    require(not reader.rest, "a state must end where its header says", "bytes left over")
    return value


def _describe(value: Any, arrays: list[bytes]) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, np.generic):
        return {"scalar": _describe(np.asarray(value), arrays)}
    if isinstance(value, float):
        # JSON has no infinities; hexadecimal keeps every bit.
        return value if math.isfinite(value) else {"float": value.hex()}
    if isinstance(value, np.ndarray):
        require(value.dtype.kind in KINDS, "arrays of a state must hold numbers", value.dtype.name)
        plain = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
        arrays.append(plain.tobytes())
        return {"array": plain.dtype.str, "shape": list(value.shape)}
    if isinstance(value, tuple):
        named = hasattr(value, "_fields")
        parts = [_describe(part, arrays) for part in value]
        return {"tuple": parts, "type": _name(value)} if named else {"tuple": parts}
    if is_dataclass(value) and not isinstance(value, type):
        parts = [_describe(getattr(value, field.name), arrays) for field in fields(value)]
        return {"fields": parts, "type": _name(value)}
    raise InvalidInput(f"a state is made of tuples, arrays and numbers, got {type(value).__name__}")


def _name(value: Any) -> str:
    return f"{type(value).__module__}:{type(value).__qualname__}"


class _Reader:
    """Rebuilds values in the order in which they were described."""

    def __init__(self, rest: bytes, packages: tuple[str, ...]) -> None:
        self.rest = rest
        self.packages = packages

    def build(self, plain: Any) -> Any:
        if not isinstance(plain, dict):
            return plain
        if "float" in plain:
            return float.fromhex(plain["float"])
        if "scalar" in plain:
            return self.build(plain["scalar"])[()]
        if "array" in plain:
            return self._array(np.dtype(plain["array"]), tuple(plain["shape"]))
        if "fields" in plain:
            kind = self._kind(plain["type"], tuple_wanted=False)
            names = [field.name for field in fields(kind)]
            # By name: fields may be keyword-only.
            return kind(**{name: self.build(part) for name, part in zip(names, plain["fields"], strict=True)})
        parts = tuple(self.build(part) for part in plain["tuple"])
        return self._kind(plain["type"], tuple_wanted=True)(*parts) if "type" in plain else parts

    def _array(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
        require(dtype.kind in KINDS, "arrays of a state must hold numbers", dtype.name)
        size = math.prod(shape) * dtype.itemsize
        require(len(self.rest) >= size, "a state must hold all of its arrays", "too few bytes")
        raw, self.rest = self.rest[:size], self.rest[size:]
        return np.frombuffer(raw, dtype=dtype).reshape(shape).astype(dtype.newbyteorder("="))

    def _kind(self, name: str, *, tuple_wanted: bool) -> Any:
        module, _, qualname = name.partition(":")
        package, _, inside = module.partition(".")
        known = package in self.packages and qualname.isidentifier()
        known = known and (package != "tacit" or f"{inside}.".startswith(tuple(f"{one}." for one in FOLDERS)))
        require(known, f"types of a state must be of {', '.join(self.packages)}", name)
        kind = getattr(importlib.import_module(module), qualname, None)
        # Not what the module imports from elsewhere.
        fits = (
            isinstance(kind, type)
            and kind.__module__ == module
            and ((issubclass(kind, tuple) and hasattr(kind, "_fields")) if tuple_wanted else is_dataclass(kind))
        )
        require(fits, "types of a state must be named tuples or dataclasses", name)
        return kind


COINS = ("PCG64", "PCG64DXSM", "Philox", "SFC64", "MT19937")


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerState:
    """Everything a learner is between two steps."""

    belief: Any
    plan: Plan[Any] | None
    memory: Any
    """What was released so far, as far as channels need it: public."""
    rng: np.random.Generator

    def rows(self) -> tuple[bytes, bytes, bytes, str]:
        """The state as bytes, column by column."""
        state = json.dumps(self.rng.bit_generator.state, sort_keys=True)
        return encode_state(self.belief), encode_state(self.plan), encode_state(self.memory), state

    def served(self, learner: Learner[Any, Any, Any]) -> LearnerState:
        """The state once all stages were asked: with a plan that asks nothing, where the learner would go on."""
        belief, plan = learner.plan(self.belief, self.rng)
        if plan.query is not None and isinstance(learner, PlanningLearner):
            belief, plan = self.belief, learner.last(self.belief, plan, self.rng)
        return LearnerState(belief=belief, plan=plan, memory=self.memory, rng=self.rng)

    @classmethod
    def read(cls, row: Sequence[Any], packages: tuple[str, ...]) -> LearnerState:
        """The state that `rows` wrote."""
        belief, plan, memory = (decode_state(data, packages) for data in row[:3])
        state = json.loads(row[3])
        known = state["bit_generator"] in COINS
        require(known, f"coins must be of one of {', '.join(COINS)}", state["bit_generator"])
        bits = getattr(np.random, state["bit_generator"])()
        bits.state = state
        return cls(belief=belief, plan=plan, memory=memory, rng=np.random.Generator(bits))


def keep(connection: Connection, kind: str, stage: int | None, question: int | None, mind: LearnerState) -> None:
    """Store the state after a step of this kind."""
    connection.execute(
        "INSERT INTO belief (kind, stage, question, belief, plan, memory, coins) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (kind, stage, question, *mind.rows()),
    )
