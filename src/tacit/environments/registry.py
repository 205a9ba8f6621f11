"""The named environments, and how a name with parameters becomes one of them.

A specification is a name, or a name with parameters: `riverswim`, `riverswim:states=4,horizon=6`. Which parameters
there are, their types and defaults come from the signature of the builder and stand nowhere else.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tacit.environments.contextual_bandit import contextual_bandit, treatment_bandit
from tacit.environments.dose_bandit import DoseBandit, dose_bandit
from tacit.environments.ev_charging import ev_charging
from tacit.environments.hard_tree import hard_tree
from tacit.environments.layered_worlds import LossWorld, layered, layered_support, layered_trap, loss_world
from tacit.environments.parameters import defaults_of, read_parameters
from tacit.environments.random_mdp import random_mdp
from tacit.environments.recommender import recommender
from tacit.environments.riverswim import riverswim
from tacit.environments.tabular import TabularMDP
from tacit.environments.treatment import treatment
from tacit.errors import InvalidInput, UnknownName
from tacit.plugins import named

__all__ = [
    "ENVIRONMENTS",
    "Environment",
    "EnvironmentInfo",
    "list_environments",
    "make",
    "make_environment",
    "make_layered",
]

Environment = TabularMDP | LossWorld | DoseBandit

ENVIRONMENTS: Final[Mapping[str, Callable[..., Environment]]] = named("tacit.environments", {
    "contextual-bandit": contextual_bandit,
    "dose-bandit": dose_bandit,
    "ev-charging": ev_charging,
    "hard-tree": hard_tree,
    "layered": layered,
    "layered-support": layered_support,
    "layered-trap": layered_trap,
    "random-mdp": random_mdp,
    "recommender": recommender,
    "riverswim": riverswim,
    "treatment": treatment,
    "treatment-bandit": treatment_bandit,
})  # fmt: skip
"""Every environment that has a name, of every kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentInfo:
    """What a named environment is and what may be chosen about it."""

    name: str
    summary: str
    parameters: Mapping[str, int | float]


def make_environment(spec: str) -> Environment:
    """Build the environment that a specification names, of whatever kind.

    >>> make_environment("riverswim:states=5,horizon=8")
    TabularMDP('riverswim', states=5, actions=2, horizon=8, homogeneous, bernoulli rewards)
    >>> make_environment("dose-bandit:contexts=3").num_states
    3
    >>> make_environment("riverswin")
    Traceback (most recent call last):
    ...
    tacit.errors.UnknownName: unknown environment 'riverswin': did you mean 'riverswim'? Known: contextual-bandit, ...
    """
    if not isinstance(spec, str):
        raise InvalidInput(f"an environment must be named like 'riverswim:states=4,horizon=6', got {spec!r}")
    name, colon, listed = (part.strip() for part in spec.partition(":"))
    if name not in ENVIRONMENTS:
        raise UnknownName("environment", name, ENVIRONMENTS)
    if colon and not listed:
        raise InvalidInput(f"'{spec}' must name a parameter after the colon; leave the colon out for the defaults")
    builder = ENVIRONMENTS[name]
    try:
        return builder(**read_parameters(name, builder, listed))
    except MemoryError as error:
        raise InvalidInput(f"'{spec}' must fit into memory: {error}; choose a smaller size") from error


def make(spec: str) -> TabularMDP:
    """Build the tabular environment that a specification names.

    >>> make("riverswim:states=5,horizon=8").num_states
    5
    """
    found = make_environment(spec)
    if not isinstance(found, TabularMDP):
        raise InvalidInput(f"'{spec}' must be a table of transitions and rewards, it is a {type(found).__name__}")
    return found


def make_layered(spec: str) -> LossWorld:
    """Build the layered world that a specification names; tabular environments are unrolled.

    >>> make_layered("layered:layers=3,states=2").mdp.widths
    (1, 2, 2, 1)
    >>> make_layered("riverswim").mdp.horizon
    6
    """
    found = make_environment(spec)
    if isinstance(found, DoseBandit):
        raise InvalidInput(f"'{spec}' has real-valued actions: an adversary needs states and actions to put losses on")
    return loss_world(found)


def list_environments() -> tuple[EnvironmentInfo, ...]:
    """The named environments with a one-line summary and their parameters with defaults, in alphabetical order.

    >>> [info.name for info in list_environments()]  # doctest: +ELLIPSIS
    ['contextual-bandit', 'dose-bandit', 'ev-charging', ..., 'treatment', 'treatment-bandit']
    >>> dict(list_environments()[9].parameters)
    {'states': 4, 'horizon': 6}
    """
    return tuple(
        EnvironmentInfo(name=name, summary=_summary(builder), parameters=MappingProxyType(defaults_of(builder)))
        for name, builder in sorted(ENVIRONMENTS.items())
    )


def _summary(builder: Callable[..., object]) -> str:
    """The first line of the builder's docstring."""
    return (inspect.getdoc(builder) or "").partition("\n")[0]
