"""Parameters in specifications, `states=4,horizon=6`: names, types and defaults come from the builder's signature."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any

from tacit.errors import InvalidInput, UnknownName

__all__ = ["defaults_of", "read_parameters"]


def read_parameters(name: str, builder: Callable[..., object], listed: str) -> dict[str, Any]:
    """Read `states=4,horizon=6` with the types of the builder's signature."""
    types = typing.get_type_hints(builder)
    known = list(defaults_of(builder))
    values: dict[str, Any] = {}
    for item in listed.split(",") if listed else []:
        key, equals, text = (part.strip() for part in item.partition("="))
        if not equals:
            raise InvalidInput(f"a parameter of {name} must be written name=value, got '{item.strip()}'")
        if key not in known:
            raise UnknownName(f"parameter of {name}", key, known)
        if key in values:
            raise InvalidInput(f"each parameter of {name} must be given once, got {key} twice")
        try:
            values[key] = types[key](text)
        except ValueError as error:
            kind = "a whole number" if types[key] is int else "a number"
            raise InvalidInput(f"{key} of {name} must be {kind}, got '{text}'") from error
    return values


def defaults_of(builder: Callable[..., object]) -> dict[str, int | float]:
    """What may be chosen: the parameters of a builder that have a default, in the order of its signature."""
    found = inspect.signature(builder).parameters.items()
    return {name: parameter.default for name, parameter in found if parameter.default is not inspect.Parameter.empty}
