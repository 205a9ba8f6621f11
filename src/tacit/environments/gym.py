"""Gymnasium, both ways: any `TabularMDP` as a `gymnasium.Env`, and the exact model of an environment that exposes it.

To Gymnasium: `import tacit.environments` registers the named environments under their ids. The episode terminates at
the horizon, because a finite horizon belongs to the model.

From Gymnasium: FrozenLake, CliffWalking and Taxi (Gymnasium >= 1) list `(probability, s', reward, terminated)` in
`env.unwrapped.P[s][a]`. What is kept exactly: the distribution of states, and the mean reward r(s, a). What is not: a
reward that depends on the next state is replaced by its mean over s', which changes no value and no regret.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import ArrayLike

from tacit.arguments import checked
from tacit.arrays import Floats
from tacit.environments.registry import make
from tacit.environments.tabular import RewardKind, TabularMDP, floats
from tacit.errors import InvalidInput, NotSupported, require_count
from tacit.gymnasium_ids import GYMNASIUM_IDS, register_all

__all__ = ["GYMNASIUM_IDS", "TabularEnv", "from_gymnasium", "named_env", "register_all"]

Outcome = tuple[float, int, float, bool]  # probability, next state, reward, terminated
Table = Mapping[int, Mapping[int, Sequence[Outcome]]]


class TabularEnv(gymnasium.Env[Any, Any]):
    """A `TabularMDP` to be stepped through; the observation is the state, `info["step"]` the step from 0.

    Rewards are those of the model, in [0, 1]: coins or means, as its `reward_kind` says.

    Parameters
    ----------
    mdp
        The model.
    render_mode
        None, or `"ansi"` for a line of text that names step and state.

    Examples
    --------
    >>> from tacit.environments.tabular_worlds import riverswim
    >>> env = TabularEnv(riverswim())
    >>> env.reset(seed=7)
    (0, {'step': 0})
    >>> env.step(0)[0], env.step(0)[-1]
    (0, {'step': 2})
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 - the attribute that Gymnasium reads

    def __init__(self, mdp: TabularMDP, render_mode: str | None = None) -> None:
        if not isinstance(mdp, TabularMDP):
            raise InvalidInput(f"TabularEnv needs a TabularMDP, got {type(mdp).__name__}")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise InvalidInput(f"render_mode must be None or 'ansi', got {render_mode!r}")
        self.mdp = mdp
        self.render_mode = render_mode
        self.observation_space = gymnasium.spaces.Discrete(mdp.num_states)
        self.action_space = gymnasium.spaces.Discrete(mdp.num_actions)
        self._cumulative = _cumulative(mdp.stage_P)  # [1 or H, S, A, S']
        self._cumulative_first = _cumulative(mdp.rho)  # [S]
        self._state = 0
        self._step = mdp.horizon  # nothing may be stepped before the first reset

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Begin an episode in a first state drawn from ρ; `options` are not used."""
        super().reset(seed=seed, options=options)
        self._state = self._draw(self._cumulative_first)
        self._step = 0
        return self._state, {"step": 0}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Take one action: next state, reward, whether the horizon is reached, False (no truncation), and the step."""
        if self._step >= self.mdp.horizon:
            raise InvalidInput(f"an episode of {self.mdp.horizon} steps must begin with reset(); call it first")
        if not self.action_space.contains(action):
            raise InvalidInput(f"the action must be one of 0 to {self.mdp.num_actions - 1}, got {action!r}")
        stage = 0 if self.mdp.homogeneous else self._step
        mean = float(self.mdp.stage_r[stage, self._state, action])
        reward = mean if self.mdp.reward_kind == "deterministic" else float(self.np_random.random() < mean)
        self._state = self._draw(self._cumulative[stage, self._state, action])
        self._step += 1
        return self._state, reward, self._step == self.mdp.horizon, False, {"step": self._step}

    def render(self) -> str | None:
        """One line of text if the mode is `"ansi"`."""
        if self.render_mode is None:
            return None
        return f"step {self._step} of {self.mdp.horizon}: {self.mdp.state_names[self._state]}"

    def _draw(self, cumulative: Floats) -> int:
        """An index with the given cumulative distribution, by inversion of one uniform number."""
        return int(np.searchsorted(cumulative, self.np_random.random(), side="right"))


def named_env(name: str, parameters: str = "", render_mode: str | None = None) -> TabularEnv:
    """The entry point of the registered ids: a named environment with the parameters of a specification.

    >>> named_env("riverswim", parameters="states=5,horizon=8").observation_space
    Discrete(5)
    """
    return TabularEnv(make(f"{name}:{parameters}" if parameters else name), render_mode=render_mode)


@checked
def from_gymnasium(
    env: gymnasium.Env[Any, Any] | str,
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
        The environment, or its id; its wrappers are ignored (a time limit is replaced by `horizon`).
    horizon
        The number of steps of an episode.
    rho
        Distribution of the first state; by default the environment's own `initial_state_distrib`.
    reward_kind
        How a simulation draws rewards from their means.

    Returns
    -------
    TabularMDP
        The model, with rewards scaled to [0, 1].

    Raises
    ------
    NotSupported
        If the environment exposes no table or has other spaces.

    Examples
    --------
    >>> from_gymnasium("FrozenLake-v1", horizon=20)
    TabularMDP('FrozenLake-v1', states=16, actions=4, horizon=20, homogeneous, deterministic rewards)
    """
    horizon = require_count("horizon", horizon)
    if isinstance(env, str):
        env = _made(env)
    if not isinstance(env, gymnasium.Env):
        raise InvalidInput(f"from_gymnasium needs an environment or an id such as 'FrozenLake-v1', got {env!r}")
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


def _made(name: str) -> gymnasium.Env[Any, Any]:
    try:
        return gymnasium.make(name, disable_env_checker=True)
    except (gymnasium.error.Error, ModuleNotFoundError) as error:
        raise InvalidInput(f"'{name}' must be a Gymnasium id that can be made: {error}") from error


def _table(env: gymnasium.Env[Any, Any]) -> tuple[int, int, Table]:
    """The number of states and actions and the table of the environment, or a refusal that says what is missing."""
    from gymnasium.spaces import Discrete

    bare = env.unwrapped
    states, actions = bare.observation_space, bare.action_space
    if not isinstance(states, Discrete) or not isinstance(actions, Discrete) or states.start != 0 or actions.start != 0:
        raise NotSupported(
            f"from_gymnasium needs Discrete observations and actions from 0, got {states} and {actions}; "
            "tacit.live(...) takes others, with a discretiser"
        )
    table = getattr(bare, "P", None)
    if not isinstance(table, Mapping):
        raise NotSupported(
            f"from_gymnasium needs a table P[s][a] of (probability, next state, reward, terminated), "
            f"{type(bare).__name__} has none; tacit.live(...) needs no table"
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


def _first_states(env: gymnasium.Env[Any, Any], rho: ArrayLike | None, S: int) -> Floats:
    """The distribution of the first state: the caller's, else the environment's."""
    given = getattr(env.unwrapped, "initial_state_distrib", None) if rho is None else rho
    if given is None:
        kind = type(env.unwrapped).__name__
        raise InvalidInput(f"{kind} has no initial_state_distrib; pass the distribution of its first state as rho=")
    first = floats("rho", given)
    if first.shape != (S,):
        raise InvalidInput(f"rho must have one entry for each of the {S} states, got shape {first.shape}")
    return first


def _alive(table: Table, first: Floats) -> set[int]:
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


def _cumulative(rows: Floats) -> Floats:
    """Cumulative sums of rows, divided by the last so that they end in exactly 1 and no draw falls off the end."""
    sums = np.cumsum(rows, axis=-1)
    return np.asarray(sums / sums[..., -1:])
