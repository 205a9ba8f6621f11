"""The named environments, and how a name with parameters becomes one of them.

A specification is a name, or a name with parameters: `riverswim`, `riverswim:states=4,horizon=6`. Which parameters
there are, their types and defaults come from the signature of the builder and stand nowhere else.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tacit.environments.contextual_bandit import contextual_bandit, treatment_bandit
from tacit.environments.ev_charging import ev_charging
from tacit.environments.hard_tree import hard_tree
from tacit.environments.random_mdp import random_mdp
from tacit.environments.recommender import recommender
from tacit.environments.riverswim import riverswim
from tacit.environments.tabular import TabularMDP
from tacit.environments.treatment import treatment
from tacit.errors import InvalidInput, UnknownName

__all__ = ["EnvironmentInfo", "list_environments", "make", "read_parameters"]

BUILDERS: Mapping[str, Callable[..., TabularMDP]] = MappingProxyType(
    {
        "contextual-bandit": contextual_bandit,
        "ev-charging": ev_charging,
        "hard-tree": hard_tree,
        "random-mdp": random_mdp,
        "recommender": recommender,
        "riverswim": riverswim,
        "treatment": treatment,
        "treatment-bandit": treatment_bandit,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentInfo:
    """What a named environment is and what may be chosen about it."""

    name: str
    summary: str
    parameters: Mapping[str, int | float]


def make(spec: str) -> TabularMDP:
    """Build the environment that a specification names.

    >>> make("riverswim:states=5,horizon=8")
    TabularMDP('riverswim', states=5, actions=2, horizon=8, homogeneous, bernoulli rewards)
    >>> make("riverswin")
    Traceback (most recent call last):
    ...
    tacit.errors.UnknownName: unknown environment 'riverswin': did you mean 'riverswim'? Known: contextual-bandit, ...
    """
    if not isinstance(spec, str):
        raise InvalidInput(f"an environment must be named like 'riverswim:states=4,horizon=6', got {spec!r}")
    name, colon, listed = (part.strip() for part in spec.partition(":"))
    if name not in BUILDERS:
        raise UnknownName("environment", name, BUILDERS)
    if colon and not listed:
        raise InvalidInput(f"'{spec}' must name a parameter after the colon; leave the colon out for the defaults")
    try:
        return BUILDERS[name](**read_parameters(name, BUILDERS[name], listed))
    except MemoryError as error:
        raise InvalidInput(f"'{spec}' must fit into memory: {error}; choose a smaller size") from error


def list_environments() -> tuple[EnvironmentInfo, ...]:
    """The named environments with a one-line summary and their parameters with defaults, in alphabetical order.

    >>> [info.name for info in list_environments()]  # doctest: +ELLIPSIS
    ['contextual-bandit', 'ev-charging', 'hard-tree', ..., 'treatment', 'treatment-bandit']
    >>> dict(list_environments()[5].parameters)
    {'states': 4, 'horizon': 6}
    """
    return tuple(
        EnvironmentInfo(name=name, summary=_summary(builder), parameters=MappingProxyType(_defaults(builder)))
        for name, builder in sorted(BUILDERS.items())
    )


def read_parameters(name: str, builder: Callable[..., object], listed: str) -> dict[str, Any]:
    """Read `states=4,horizon=6` with the types of the builder's signature."""
    types = typing.get_type_hints(builder)
    known = list(_defaults(builder))
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


def _summary(builder: Callable[..., TabularMDP]) -> str:
    """The first line of the builder's docstring."""
    return (inspect.getdoc(builder) or "").partition("\n")[0]


def _defaults(builder: Callable[..., object]) -> dict[str, int | float]:
    """What may be chosen: the parameters of a builder that have a default, in the order of its signature."""
    found = inspect.signature(builder).parameters.items()
    return {name: parameter.default for name, parameter in found if parameter.default is not inspect.Parameter.empty}
