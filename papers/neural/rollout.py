"""Users of a Gymnasium environment: one episode each, many side by side. Simulation only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from papers.neural.gradients import NeuralBatch
from papers.neural.policy import NeuralPolicy, require_torch
from tacit.errors import NotSupported, require, require_count

if TYPE_CHECKING:
    import torch

__all__ = ["Users", "policy_for"]


def policy_for(environment: str, hidden: int = 32) -> NeuralPolicy:
    """The network that fits the spaces of a Gymnasium environment."""
    import gymnasium

    env = gymnasium.make(environment)
    observations, actions = env.observation_space, env.action_space
    env.close()
    if not isinstance(actions, gymnasium.spaces.Discrete) or not isinstance(observations, gymnasium.spaces.Box):
        raise NotSupported(f"{environment} must have Box observations and Discrete actions")
    require(len(observations.shape) == 1, "observations must be vectors", given=observations.shape)
    return NeuralPolicy(inputs=int(observations.shape[0]), hidden=hidden, actions=int(actions.n))


class Users:
    """A stream of fresh users of an environment; every one plays one episode of at most `horizon` steps."""

    def __init__(self, environment: str, *, parallel: int, horizon: int, seed: int) -> None:
        import gymnasium

        self.parallel = require_count("parallel users", parallel)
        self.horizon = require_count("horizon", horizon)
        # Whoever has finished is started anew by the environment, and ignored here.
        self.envs: Any = gymnasium.make_vec(environment, num_envs=self.parallel)
        self._seeds = np.random.SeedSequence(require_count("seed", seed, least=0))

    def play(self, policy: NeuralPolicy, theta: torch.Tensor, baseline: float) -> NeuralBatch:
        """Let `parallel` users play one episode each.

        The weight of a step is Σ_{j≥h} r_j / H - b: the share of the horizon that was still gained, with rewards
        clipped to [0, 1], minus a public baseline; so it lies in [-1, 1].
        """
        torch = require_torch()
        m, H = self.parallel, self.horizon
        child = self._seeds.spawn(1)[0].generate_state(2)
        generator = torch.Generator().manual_seed(int(child[0]))
        x, _ = self.envs.reset(seed=int(child[1]))
        observations = torch.zeros(m, H, policy.inputs)
        actions = torch.zeros(m, H, dtype=torch.int64)
        rewards = np.zeros((m, H))
        alive, active = np.ones(m, dtype=bool), np.zeros((m, H), dtype=bool)
        for h in range(H):
            seen = torch.as_tensor(np.asarray(x, dtype=np.float32))
            with torch.no_grad():
                chosen = torch.multinomial(torch.softmax(policy.logits(theta, seen), -1), 1, generator=generator)[:, 0]
            observations[:, h] = torch.where(torch.as_tensor(alive)[:, None], seen, torch.zeros_like(seen))
            actions[:, h] = chosen
            active[:, h] = alive
            x, gained, ended, cut, _ = self.envs.step(chosen.numpy())
            rewards[:, h] = np.where(alive, np.clip(np.nan_to_num(gained), 0.0, 1.0), 0.0)
            alive &= ~(ended | cut)
            if not alive.any():
                break
        to_go = np.cumsum(rewards[:, ::-1], axis=1)[:, ::-1]
        weights = np.where(active, to_go / H - baseline, 0.0)
        shares = torch.as_tensor(rewards.sum(axis=1) / H, dtype=torch.float32)
        lengths = torch.as_tensor(active.sum(axis=1))
        return NeuralBatch(observations, actions, torch.as_tensor(weights, dtype=torch.float32), shares, lengths)
