"""Estimated models: a table made of sampled episodes of a live world, for planning on paper and never for regret.

    P̂(s'|s,a) = N(s,a,s') / N(s,a),   r̂(s,a) = R(s,a) / N(s,a),   ρ̂(s) = starts in s / episodes

Pairs that no episode visited stay where they are and earn nothing. A discretised world need not be Markov, so an
estimated model can mislead even with endless episodes: its name says "estimated", and whatever is planned on it must be
measured in the live world. The episodes are the caller's own; no user of any run is among them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.arguments import checked
from tacit.environments.live import LiveWorld, live, scaled
from tacit.environments.tabular import TabularMDP
from tacit.errors import require_count


@checked
def estimate_model(environment: LiveWorld | str | Any, episodes: int, *, seed: int = 0, **choices: Any) -> TabularMDP:
    """A `TabularMDP` from episodes under uniformly random actions, marked as estimated; pooled over the steps.

    Parameters
    ----------
    environment
        A live world, an id or an environment.
    episodes
        How many are sampled under uniformly random actions.
    seed
        Of the sampling.
    **choices
        Those of `tacit.live`, where it is not a live world already.

    Returns
    -------
    TabularMDP
        Marked as estimated; for planning, never for regret.

    Raises
    ------
    InvalidInput
        If a value breaks a stated rule; the message names it.

    Examples
    --------
    >>> model = estimate_model("Blackjack-v1", 200)
    >>> model.name, model.num_states, model.horizon
    ('Blackjack-v1 (estimated from 200 episodes)', 29, 4)
    """
    world = environment if isinstance(environment, LiveWorld) else live(environment, **choices)
    n, rng = require_count("episodes", episodes), np.random.default_rng(require_count("seed", seed, least=0))
    S, A = world.num_states, world.num_actions
    moves, earned, starts = np.zeros((S, A, S)), np.zeros((S, A)), np.zeros(S)
    env, find = world.make(), world.discretiser.state
    first: int | None = int(rng.integers(2**31))
    for _ in range(n):
        observation, _ = env.reset(seed=first)
        first, s = None, find(observation)
        starts[s] += 1
        over = False
        for _ in range(world.horizon):
            a, total = int(rng.integers(A)), 0.0
            for _ in range(world.repeat):
                observation, reward, terminated, truncated, _ = env.step(world.first_action + a)
                total += float(reward)
                over = bool(terminated or truncated)
                if over:
                    break
            after = world.ended if over and world.ends else find(observation)
            moves[s, a, after] += 1
            earned[s, a] += float(scaled(world, np.array([total]))[0])
            s = after
            if over:
                break
    env.close()
    if world.ends:  # by the public rule of padding, not by data
        moves[world.ended], earned[world.ended] = 0.0, float(scaled(world, np.zeros(1))[0])
        moves[world.ended, :, world.ended] = 1.0
    visits = moves.sum(axis=2)
    stay = np.broadcast_to(np.eye(S)[:, np.newaxis], (S, A, S))
    P = np.where(visits[..., np.newaxis] > 0, moves / np.maximum(visits, 1)[..., np.newaxis], stay)
    return TabularMDP(
        P=P,
        r=np.clip(earned / np.maximum(visits, 1), 0.0, 1.0),
        rho=starts / n,
        horizon=world.horizon,
        name=f"{world.name} (estimated from {n:,} episodes)",
        reward_scale=world.reward_scale,
        reward_offset=world.reward_offset,
        state_names=world.state_names,
        action_names=world.action_names,
    )
