"""From Gymnasium: the exact model of an environment that exposes its transition table.

FrozenLake, CliffWalking and Taxi (Gymnasium >= 1) list `(probability, s', reward, terminated)` in
`env.unwrapped.P[s][a]`. What is kept exactly: the distribution of states, and the mean reward r(s, a). What is not: a
reward that depends on the next state is replaced by its mean over s', which changes no value and no regret.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.environments.tabular import RewardKind, TabularMDP
from tacit.errors import InvalidInput, NotSupported, require_count

if TYPE_CHECKING:
    import gymnasium

__all__ = ["from_gymnasium"]

Outcome = tuple[float, int, float, bool]  # probability, next state, reward, terminated
Table = Mapping[int, Mapping[int, Sequence[Outcome]]]


def from_gymnasium(
    env: gymnasium.Env[Any, Any],
    *,
    horizon: int,
    rho: ArrayLike | None = None,
    reward_kind: RewardKind = "deterministic",
) -> TabularMDP:
    """The `TabularMDP` of a Gymnasium environment with Discrete spaces that exposes its table `P`.

    A state in which the episode ends becomes absorbing, with zero reward in the original unit. If an episode can also
    pass through such a state alive, ending transitions lead to one extra absorbing state instead, the last one.
    Rewards become their mean r(s, a) over the next state, rescaled to [0, 1]; `reward_scale` and `reward_offset` keep
    the original unit, and `original_value` converts a value back.

    Parameters
    ----------
    env
        The environment; its wrappers are ignored (a time limit is replaced by `horizon`).
    horizon
        The number of steps of an episode.
    rho
        Distribution of the first state; by default the environment's own `initial_state_distrib`.
    reward_kind
        How a simulation draws rewards from their means.

    Examples
    --------
    >>> import gymnasium
    >>> TabularMDP.from_gymnasium(gymnasium.make("FrozenLake-v1"), horizon=20)
    TabularMDP('FrozenLake-v1', states=16, actions=4, horizon=20, homogeneous, deterministic rewards)
    """
    horizon = require_count("horizon", horizon)
    S, A, table = _table(env)
    first = _first_states(env, rho, S)
    endings = _endings(table)
    # A state is made absorbing in place unless the episode can also pass through it alive.
    extra = bool(_alive(table, first) & endings)
    absorbing = set() if extra else endings
    P = np.zeros((S + extra, A, S + extra))  # [s, a, s']
    r = np.zeros((S + extra, A))  # [s, a], original unit
    for s in range(S + extra):
        for a in range(A):
            if s == S or s in absorbing:
                P[s, a, s] = 1.0
                continue
            for probability, s_next, reward, terminated in table[s][a]:
                # r(s, a) = Σ_s' p(s' | s, a) r(s, a, s')
                r[s, a] += probability * reward
                P[s, a, S if extra and terminated else s_next] += probability
    if not np.isfinite(r).all():
        raise InvalidInput("the rewards of the environment must be finite numbers; wrap it or correct its table P")
    offset, scale = float(r.min()), float(r.max() - r.min()) or 1.0
    return TabularMDP(
        P=P,
        r=np.clip((r - offset) / scale, 0.0, 1.0),
        rho=np.concatenate([first, np.zeros(int(extra))]),
        horizon=horizon,
        reward_kind=reward_kind,
        name=env.spec.id if env.spec is not None else type(env.unwrapped).__name__,
        reward_scale=scale,
        reward_offset=offset,
        state_names=[*(str(s) for s in range(S)), "ended"] if extra else None,
    )


def _table(env: gymnasium.Env[Any, Any]) -> tuple[int, int, Table]:
    """The number of states and actions and the table of the environment, or a refusal that says what is missing."""
    from gymnasium.spaces import Discrete

    bare = env.unwrapped
    states, actions = bare.observation_space, bare.action_space
    if not isinstance(states, Discrete) or not isinstance(actions, Discrete) or states.start != 0 or actions.start != 0:
        raise NotSupported(f"from_gymnasium needs Discrete observations and actions from 0, got {states} and {actions}")
    table = getattr(bare, "P", None)
    if not isinstance(table, Mapping):
        raise NotSupported(
            f"from_gymnasium needs a table P[s][a] of (probability, next state, reward, terminated), "
            f"{type(bare).__name__} has none"
        )
    S, A = int(states.n), int(actions.n)
    for s in range(S):
        for a in range(A):
            try:
                targets = [int(outcome[1]) for outcome in table[s][a] if len(outcome) == 4]
                complete = len(targets) == len(table[s][a]) > 0 and all(0 <= target < S for target in targets)
            except (KeyError, IndexError, TypeError, ValueError):
                complete = False
            if not complete:
                raise InvalidInput(
                    f"P[{s}][{a}] must list (probability, next state, reward, terminated) with states < {S}"
                )
    return S, A, table


def _first_states(env: gymnasium.Env[Any, Any], rho: ArrayLike | None, S: int) -> NDArray[np.float64]:
    """The distribution of the first state: the caller's, else the environment's."""
    given = getattr(env.unwrapped, "initial_state_distrib", None) if rho is None else rho
    if given is None:
        kind = type(env.unwrapped).__name__
        raise InvalidInput(f"{kind} has no initial_state_distrib; pass the distribution of its first state as rho=")
    first = np.asarray(given, dtype=np.float64)
    if first.shape != (S,):
        raise InvalidInput(f"rho must have one entry for each of the {S} states, got shape {first.shape}")
    return first


def _alive(table: Table, first: NDArray[np.float64]) -> set[int]:
    """The states that an episode can be in before it has ended."""
    alive = {int(s) for s in np.flatnonzero(first)}
    frontier = list(alive)
    while frontier:
        outcomes = (outcome for row in table[frontier.pop()].values() for outcome in row)
        new = {int(s_next) for p, s_next, _, terminated in outcomes if p > 0 and not terminated} - alive
        alive |= new
        frontier.extend(new)
    return alive


def _endings(table: Table) -> set[int]:
    """The states in which an episode can end."""
    outcomes = (outcome for rows in table.values() for row in rows.values() for outcome in row)
    return {int(s_next) for p, s_next, _, terminated in outcomes if p > 0 and terminated}
