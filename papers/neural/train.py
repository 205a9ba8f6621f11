"""DP-PG with a neural policy on a Gymnasium environment: the same claim, calibration and certificate as for tables.

    θ_{t+1} = θ_t + Adam(∇̃),    ∇̃ = (1/m) Σ_i clip_C(g_i) + N(0, σ² I)

One pass over fresh users; the optimiser and the baseline see released values only. Everything after the noise is
post-processing. `python -m papers.neural.train --help` runs it from the command line.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from papers.gradient_requests import gradient_request
from papers.neural.gradients import NeuralBatch, clipped_sum
from papers.neural.policy import NeuralPolicy, require_torch
from papers.neural.rollout import Users, policy_for
from tacit.accounting.certificate import Certificate
from tacit.accounting.claims import PrivacyClaim
from tacit.errors import require, require_count, require_real
from tacit.protocol import PrivateStatistics
from tacit.randomness import SimulationNoise
from tacit.release.gradient import GradientPrivatizer, both_claims
from tacit.release.table import make_privatizer
from tacit.released.gradients import GradientShape, GradientStatistics

if TYPE_CHECKING:
    import torch

__all__ = ["NeuralResult", "neural_privatizer", "release", "train"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NeuralResult:
    """What was learned and what is promised; returns are simulation-only."""

    theta: np.ndarray[Any, Any]
    """The final parameters: what a curator would publish, and all that an audit may look at."""
    returns: tuple[float, ...]
    """Simulation only: the mean return of each batch of users."""
    claim: PrivacyClaim
    certificate: Certificate
    sigma: float

    @property
    def claims(self) -> tuple[PrivacyClaim, ...]:
        """DP of the final policy and joint DP of the online run."""
        return both_claims(self.claim)


def neural_privatizer(
    policy: NeuralPolicy,
    *,
    users_per_batch: int,
    clip: float,
    epsilon: float | None,
    delta: float | None,
) -> GradientPrivatizer:
    """The calibrated privatizer of a network's gradients; epsilon None: no noise, no protection."""
    shape = GradientShape(horizon=1, num_states=1, num_actions=policy.actions, staged=True, dimension=policy.dimension)
    made: Any = make_privatizer(
        gradient_request(
            shape=shape,
            trust="none" if epsilon is None else "central",
            epsilon=epsilon,
            delta=None if epsilon is None else delta,
            calibration="tight",
            users_per_batch=users_per_batch,
            clip=clip,
            tabular=False,
            baseline=None,
        )
    )
    found: GradientPrivatizer = made
    return found


def release(
    privatizer: GradientPrivatizer,
    policy: NeuralPolicy,
    theta: torch.Tensor,
    batch: NeuralBatch,
    noise: SimulationNoise,
) -> PrivateStatistics[GradientStatistics]:
    """The only door from users to the optimiser: clip, sum, divide by the public batch size, add noise."""
    m = privatizer.users_per_batch
    require(len(batch) == m, f"a batch must have exactly {m} users", len(batch), "drop a short last batch")
    parameters = privatizer.parameters
    total = clipped_sum(policy, theta, batch, privatizer.spec.bounds.clip).double().numpy()
    # A share that is not finite counts as zero: clamp lets NaN through.
    share = float(batch.shares.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).clamp(0.0, 1.0).sum()) / m
    gradient = total / m + parameters.sigma * noise.generator.standard_normal(policy.dimension)
    reward = share + parameters.reward_sigma * noise.generator.standard_normal()
    statistics = GradientStatistics(
        gradient=gradient,
        reward=np.array([reward]),
        variance=np.array([parameters.sigma**2, parameters.reward_sigma**2]),
        releases=np.ones(1, dtype=np.int64),
    )
    return PrivateStatistics(statistics, privatizer.claim)


def train(
    environment: str = "CartPole-v1",
    *,
    users: int,
    epsilon: float | None,
    delta: float | None,
    users_per_batch: int = 200,
    clip: float = 1.0,
    step: float = 0.02,
    hidden: int = 32,
    horizon: int = 500,
    seed: int = 0,
) -> NeuralResult:
    """Train a neural policy on fresh users, one episode each.

    Parameters
    ----------
    environment
        Any Gymnasium id with Box observations and Discrete actions; rewards are clipped to [0, 1].
    users, users_per_batch
        N and m; T = ⌊N/m⌋ updates, the other users are not needed.
    epsilon, delta
        The claim; None: no noise.
    clip, step, hidden, horizon, seed
        The greatest norm of a user's gradient, the step of Adam, the width of the network, the longest episode.
    """
    torch = require_torch()
    m = require_count("users per batch", users_per_batch)
    require(require_count("users", users) >= m, f"there must be at least one batch of {m} users", given=users)
    require_real("step", step, low=0.0, open_low=True)
    policy = policy_for(environment, hidden)
    privatizer = neural_privatizer(policy, users_per_batch=m, clip=clip, epsilon=epsilon, delta=delta)
    noise = SimulationNoise(np.random.default_rng(np.random.SeedSequence((seed, 1))))
    stream = Users(environment, parallel=m, horizon=horizon, seed=seed)
    theta = policy.initial(seed).requires_grad_()
    optimiser = torch.optim.Adam([theta], lr=step, maximize=True)
    precision, baseline, returns = np.zeros(2), 0.0, []
    for _ in range(users // m):
        batch = stream.play(policy, theta.detach(), baseline)
        returns.append(float(batch.shares.mean()) * horizon)
        found = release(privatizer, policy, theta, batch, noise).statistics
        del batch
        theta.grad = torch.as_tensor(found.gradient, dtype=theta.dtype)
        optimiser.step()
        # Later policies are better: an older mean counts half as much with every batch.
        weight = 1.0 / max(float(found.variance[1]), 1e-6)
        precision = 0.5 * precision + np.array([float(found.reward[0]) * weight, weight])
        baseline = min(max(float(precision[0] / precision[1]), 0.0), 1.0)
    return NeuralResult(
        theta=theta.detach().numpy().copy(),
        returns=tuple(returns),
        claim=privatizer.claim,
        certificate=privatizer.certificate(),
        sigma=privatizer.sigma,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line: one JSON object on stdout."""
    import argparse

    parser = argparse.ArgumentParser(prog="python -m papers.neural.train", description=__doc__)
    parser.add_argument("--environment", default="CartPole-v1")
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--epsilon", type=float)
    parser.add_argument("--delta", type=float)
    parser.add_argument("--batch", type=int, default=200)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--step", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    found = train(
        given.environment,
        users=given.users,
        epsilon=given.epsilon,
        delta=given.delta,
        users_per_batch=given.batch,
        clip=given.clip,
        step=given.step,
        seed=given.seed,
    )
    content = {
        "returns": found.returns,
        "sigma": found.sigma,
        "claims": [claim.to_dict() for claim in found.claims],
        "certificate": found.certificate.to_dict(),
        "options": vars(given),
        "simulation_only": ["returns"],
    }
    sys.stdout.write(json.dumps(content, allow_nan=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
