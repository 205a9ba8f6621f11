"""Baseline policies: what people do already, the yardstick that "uniform" is not.

    uniform         every action alike
    always NAME     the same action everywhere, by its name
    a name          a policy of the environment: those of live worlds (`live_sources`) and of the table below
    a table         actions [S] or [H, S], or probabilities [H, S, A]; on a command line a file, policy.json
    a function      package.module:function, which is told the environment and returns a policy or a table

A baseline is public and chosen before anybody comes. It changes nothing that learners do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from tacit.environments.discretise import by_name
from tacit.environments.live import LiveWorld
from tacit.environments.tabular import TabularMDP
from tacit.errors import ForeignCode, InvalidInput, NotSupported, UnknownName, require
from tacit.policies import DeterministicPolicy, Policy, StochasticPolicy, uniform_policy
from tacit.policies.named import NamedPolicy

Table = tuple[Any, ...]
"""A policy as nested tuples, so that a configuration can be compared, hashed and kept."""
ALWAYS: Final = "always "


def _careful(mdp: TabularMDP) -> Policy:
    """Pause while side effects are serious, a low dose otherwise."""
    pause, low = mdp.action_names.index("pause"), mdp.action_names.index("low dose")
    row = [pause if name.endswith("serious") else low for name in mdp.state_names]
    return DeterministicPolicy(np.tile(np.array(row, dtype=np.int64), (mdp.horizon, 1)))


BASELINES: Final[Mapping[str, Mapping[str, Callable[[TabularMDP], Policy]]]] = {"treatment": {"careful": _careful}}
"""Named policies of named environments."""


def baseline_table(given: object) -> str | Table:
    """A baseline as a configuration keeps it: a name, or a table as nested tuples; a file is read."""
    if isinstance(given, str):
        name = given.strip()
        require(bool(name), "a baseline must have a name", given)
        return _nested(_file(Path(name)).to_numpy()) if name.endswith(".json") else name
    if isinstance(given, NamedPolicy):
        return _nested(given.to_numpy())
    if isinstance(given, DeterministicPolicy):
        return _nested(given.actions)
    if isinstance(given, StochasticPolicy):
        return _nested(given.table)
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise InvalidInput(f"a baseline must be a name, a policy or a rectangular table: {error}") from error
    whole, real = array.dtype.kind in "iu", array.dtype.kind == "f"
    fits = (whole and array.ndim in (1, 2)) or ((whole or real) and array.ndim == 3)
    rule = "a baseline must be a name, a policy, actions [S] or [H, S], or probabilities [H, S, A]"
    require(fits and array.size > 0, rule, type(given).__name__ if array.dtype.kind == "O" else array.shape)
    return _nested(array)


def baseline_policy(environment: object, given: str | Table, *, read: bool = False) -> Policy:
    """The policy of an environment that a baseline names, checked against its sizes; no function if a file names it.

    >>> from tacit.environments.registry import make
    >>> baseline_policy(make("riverswim"), "always right").actions[0].tolist()
    [1, 1, 1, 1]
    >>> baseline_policy(make("treatment"), "carefull")
    Traceback (most recent call last):
    ...
    tacit.errors.UnknownName: unknown baseline 'carefull': did you mean 'careful'? Known: always high dose, ...
    """
    if not isinstance(environment, TabularMDP | LiveWorld):
        raise NotSupported("baselines are policies of tabular and live worlds; leave the baseline out")
    H, S, A = environment.horizon, environment.num_states, environment.num_actions
    if not isinstance(given, str):
        return _fitted(np.array(given), H, S, A)
    if given == "uniform":
        return uniform_policy(H, S, A)
    if given.startswith(ALWAYS) and given.removeprefix(ALWAYS) in environment.action_names:
        a = environment.action_names.index(given.removeprefix(ALWAYS))
        return DeterministicPolicy(np.full((H, S), a, dtype=np.int64))
    if isinstance(environment, LiveWorld):
        table = environment.policy_table(given)
        if table is not None:
            return DeterministicPolicy(np.array(table, dtype=np.int64))
    elif given in BASELINES.get(environment.name, {}):
        return BASELINES[environment.name][given](environment)
    if read and (":" in given or (isinstance(environment, LiveWorld) and environment.read)):
        raise ForeignCode(f"the baseline {given} is code that the file names, which is not run")
    if ":" in given:
        function = by_name(given)
        try:
            made = function(environment)
        except Exception as error:
            raise InvalidInput(
                f"the baseline {given} must return a policy or a table, it raised {type(error).__name__}: {error}"
            ) from error
        told = baseline_table(made)
        require(not isinstance(told, str), f"the function {given} must return a policy or a table", told)
        return _fitted(np.array(told), H, S, A)
    raise UnknownName("baseline", given, baseline_names(environment))


def baseline_names(environment: TabularMDP | LiveWorld) -> tuple[str, ...]:
    """The baselines that an environment has by name."""
    named = dict(environment.policies) if isinstance(environment, LiveWorld) else BASELINES.get(environment.name, {})
    return ("uniform", *named, *(f"{ALWAYS}{name}" for name in environment.action_names))


def _fitted(array: np.ndarray[Any, Any], H: int, S: int, A: int) -> Policy:
    shape = array.shape
    if array.ndim == 3:
        require(shape == (H, S, A), f"a baseline's probabilities must have the shape {(H, S, A)}", shape)
        return StochasticPolicy(array.astype(np.float64))
    if array.ndim == 1:
        array = np.broadcast_to(array, (H, *shape))
    require(array.shape == (H, S), f"a baseline's actions must have the shape {(S,)} or {(H, S)}", shape)
    inside = bool(((array >= 0) & (array < A)).all())
    require(inside, f"a baseline's actions must be from 0 to {A - 1}", "others")
    return DeterministicPolicy(np.ascontiguousarray(array, dtype=np.int64))


def _file(path: Path) -> NamedPolicy:
    try:
        return NamedPolicy.from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"cannot read the baseline {path}: {error.strerror or error}") from error


def _nested(array: np.ndarray[Any, Any]) -> Table:
    def tuples(value: Any) -> Any:
        return tuple(tuples(part) for part in value) if isinstance(value, list) else value

    found: Table = tuples(array.tolist())
    return found
