"""The named environments, and how a name with parameters becomes one of them.

A specification is a name, or a name with parameters: `riverswim`, `riverswim:states=4,horizon=6`. Which parameters
there are, their types and defaults come from the signature of the builder and stand nowhere else.
Adversaries are written in the same way. Live worlds, which have no table, are written `gymnasium:ID,option=value`.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeVar

from tacit.environments.bandits import (
    DoseBandit,
    FeatureBandit,
    contextual_bandit,
    dose_bandit,
    linear_bandit,
    treatment_bandit,
)
from tacit.environments.layered import LossWorld, layered, layered_support, layered_trap, loss_world
from tacit.environments.live import LIVE_PREFIX, LiveWorld, live_from_spec
from tacit.environments.live_sources import PRESETS, is_id
from tacit.environments.tabular import TabularMDP
from tacit.environments.tabular_worlds import ev_charging, hard_tree, random_mdp, riverswim, taxi
from tacit.environments.treatment import recommender, treatment
from tacit.errors import InvalidInput, UnknownName
from tacit.plugins import named
from tacit.system import available_memory, require_free

Environment = TabularMDP | LossWorld | DoseBandit | FeatureBandit | LiveWorld
Built = TypeVar("Built")
Values = dict[str, Any]
TRUTH: Final = {"true": True, "false": False}
TABLES: Final = 3
"""Numbers per transition while a world is made and simulated: its probability and two of the alias table."""

ENVIRONMENTS: Final[Mapping[str, Callable[..., Environment]]] = named("tacit.environments", {
    "contextual-bandit": contextual_bandit,
    "dose-bandit": dose_bandit,
    "ev-charging": ev_charging,
    "hard-tree": hard_tree,
    "layered": layered,
    "layered-support": layered_support,
    "layered-trap": layered_trap,
    "linear-bandit": linear_bandit,
    "random-mdp": random_mdp,
    "recommender": recommender,
    "riverswim": riverswim,
    "taxi": taxi,
    "treatment": treatment,
    "treatment-bandit": treatment_bandit,
})  # fmt: skip
"""Every environment that has a name, of every kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentInfo:
    """What a named environment or adversary is and what may be chosen about it."""

    name: str
    summary: str
    parameters: Mapping[str, int | float | str]


def make_environment(spec: str, stated: Mapping[str, Any] | None = None) -> Environment:
    """Build the environment that a specification names, of whatever kind.

    Parameters
    ----------
    spec
        Name with options, such as `riverswim:states=4,horizon=6`.
    stated
        Where a file names it: what the file states about a live world, whose code is then not run.

    Returns
    -------
    Environment
        A `TabularMDP`, or an environment of another kind.

    Raises
    ------
    UnknownName
        If no registry knows a name; the message suggests the nearest one.

    Examples
    --------
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
    if spec.strip().startswith(LIVE_PREFIX):
        return live_from_spec(spec.strip(), stated)
    bare = spec.partition(",")[0].strip()
    if bare not in ENVIRONMENTS and is_id(f":{bare}"):  # a world of Gymnasium, by its id alone
        raise UnknownName("environment", bare, {*ENVIRONMENTS, f"{LIVE_PREFIX}{bare}"})
    builder, parameters = read_spec("environment", spec, ENVIRONMENTS)
    _require_table(spec, {**_defaults_of(builder), **parameters})
    try:
        found = builder(**parameters)
    except MemoryError as error:
        raise InvalidInput(f"'{spec}' must fit into memory: {error}; choose a smaller size") from error
    if isinstance(found, TabularMDP):  # a plan has a value for every step, state and action, however small P is
        plan = 8 * found.horizon * found.num_states * found.num_actions
        require_free(f"a plan for '{spec}'", plan, available_memory(), "choose a shorter horizon")
    return found


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
    live = isinstance(spec, str) and spec.strip().startswith(LIVE_PREFIX)  # refused without being made
    found = None if live else make_environment(spec)
    if isinstance(found, DoseBandit):
        raise InvalidInput(f"'{spec}' has real-valued actions: an adversary needs states and actions to put losses on")
    if found is None or isinstance(found, LiveWorld | FeatureBandit):
        raise InvalidInput(f"'{spec}' has no table: an adversary needs transitions to play against a best policy")
    return loss_world(found)


def list_environments() -> tuple[EnvironmentInfo, ...]:
    """The named environments with a one-line summary and their parameters with defaults, in alphabetical order.

    Returns
    -------
    tuple of EnvironmentInfo
        Name, summary and parameters of each.

    Examples
    --------
    >>> [info.name for info in list_environments()]  # doctest: +ELLIPSIS
    ['contextual-bandit', 'dose-bandit', 'ev-charging', ..., 'treatment', 'treatment-bandit']
    >>> [dict(info.parameters) for info in list_environments() if info.name == "riverswim"]
    [{'states': 4, 'horizon': 6}]
    """
    return described(ENVIRONMENTS)


def list_live() -> tuple[EnvironmentInfo, ...]:
    """The live worlds for which everything is chosen already, and how any other is named.

    >>> [info.name for info in list_live()][:2]
    ['gymnasium:Blackjack-v1', 'gymnasium:CartPole-v1']
    """
    known = [
        EnvironmentInfo(
            name=f"{LIVE_PREFIX}{name}",
            summary=f"Live, no table: {preset.summary}.",
            parameters=MappingProxyType({"horizon": preset.horizon or 0, "repeat": preset.repeat}),
        )
        for name, preset in sorted(PRESETS.items())
    ]
    other = EnvironmentInfo(
        name=f"{LIVE_PREFIX}ID,horizon=...,low=...,high=...",
        summary="Live, no table: any Gymnasium id with Discrete actions, and bounds of a decision's reward; "
        "real observations need tacit.live(ID, discretise=...) or discretise=package.module:function,count=...",
        parameters=MappingProxyType({}),
    )
    return (*known, other)


def described(table: Mapping[str, Callable[..., object]]) -> tuple[EnvironmentInfo, ...]:
    """The rows of a table of builders: the first line of the docstring, and the parameters with their defaults."""
    return tuple(
        EnvironmentInfo(
            name=name,
            summary=(inspect.getdoc(builder) or "").partition("\n")[0],
            parameters=MappingProxyType(_defaults_of(builder)),
        )
        for name, builder in sorted(table.items())
    )


def read_spec(kind: str, spec: str, table: Mapping[str, Callable[..., Built]]) -> tuple[Callable[..., Built], Values]:
    """The builder that a specification names, and the parameters it gives to it."""
    name, colon, listed = (part.strip() for part in spec.partition(":"))
    if name not in table:
        raise UnknownName(kind, name, table)
    if colon and not listed:
        raise InvalidInput(f"'{spec}' must name a parameter after the colon; leave the colon out for the defaults")
    return table[name], _read_parameters(name, table[name], listed)


def _read_parameters(name: str, builder: Callable[..., object], listed: str) -> Values:
    """Read `states=4,horizon=6` with the types of the builder's signature."""
    types = typing.get_type_hints(builder)
    known = list(_defaults_of(builder))
    values: Values = {}
    for item in listed.split(",") if listed else []:
        key, equals, text = (part.strip() for part in item.partition("="))
        if not equals:
            raise InvalidInput(f"a parameter of {name} must be written name=value, got '{item.strip()}'")
        if key not in known:
            raise UnknownName(f"parameter of {name}", key, known)
        if key in values:
            raise InvalidInput(f"each parameter of {name} must be given once, got {key} twice")
        try:
            values[key] = TRUTH[text.lower()] if types[key] is bool else types[key](text)
        except KeyError as error:
            raise InvalidInput(f"{key} of {name} must be true or false, got '{text}'") from error
        except ValueError as error:
            kind = "a whole number" if types[key] is int else "a number"
            raise InvalidInput(f"{key} of {name} must be {kind}, got '{text}'") from error
    return values


def _require_table(spec: str, sizes: Values) -> None:
    """Refuse a table of S states and A actions that will not fit, P and its alias table, before it is made."""
    S, A = sizes.get("states"), sizes.get("actions", 1)
    if isinstance(S, int) and isinstance(A, int) and S > 0 and A > 0:
        require_free(f"'{spec}'", TABLES * 8 * S * A * S, available_memory(), "choose a smaller size")


def _defaults_of(builder: Callable[..., object]) -> Values:
    """What may be chosen: the parameters of a builder that have a default, in the order of its signature."""
    found = inspect.signature(builder).parameters.items()
    return {name: parameter.default for name, parameter in found if parameter.default is not inspect.Parameter.empty}
