"""To Gymnasium: any `TabularMDP` as a `gymnasium.Env`, and the named environments under their ids.

`import tacit.environments` registers the ids; the class itself is loaded by the first `gymnasium.make`. The episode is
truncated at the horizon by the environment itself, because the horizon belongs to the model.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from tacit.environments.registry import make
from tacit.environments.tabular import TabularMDP
from tacit.errors import InvalidInput

__all__ = ["TabularEnv", "named_env"]


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
    >>> from tacit.environments.riverswim import riverswim
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
        """Take one action: next state, reward, False, whether the horizon is reached, and the step."""
        if self._step >= self.mdp.horizon:
            raise InvalidInput(f"an episode of {self.mdp.horizon} steps must begin with reset(); call it first")
        if not self.action_space.contains(action):
            raise InvalidInput(f"the action must be one of 0 to {self.mdp.num_actions - 1}, got {action!r}")
        stage = 0 if self.mdp.homogeneous else self._step
        mean = float(self.mdp.stage_r[stage, self._state, action])
        reward = mean if self.mdp.reward_kind == "deterministic" else float(self.np_random.random() < mean)
        self._state = self._draw(self._cumulative[stage, self._state, action])
        self._step += 1
        return self._state, reward, False, self._step == self.mdp.horizon, {"step": self._step}

    def render(self) -> str | None:
        """One line of text if the mode is `"ansi"`."""
        if self.render_mode is None:
            return None
        return f"step {self._step} of {self.mdp.horizon}: {self.mdp.state_names[self._state]}"

    def _draw(self, cumulative: NDArray[np.float64]) -> int:
        """An index with the given cumulative distribution, by inversion of one uniform number."""
        return int(np.searchsorted(cumulative, self.np_random.random(), side="right"))


def named_env(name: str, parameters: str = "", render_mode: str | None = None) -> TabularEnv:
    """The entry point of the registered ids: a named environment with the parameters of a specification.

    >>> named_env("riverswim", parameters="states=5,horizon=8").observation_space
    Discrete(5)
    """
    return TabularEnv(make(f"{name}:{parameters}" if parameters else name), render_mode=render_mode)


def _cumulative(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cumulative sums of rows, divided by the last so that they end in exactly 1 and no draw falls off the end."""
    sums = np.cumsum(rows, axis=-1)
    return np.asarray(sums / sums[..., -1:])
