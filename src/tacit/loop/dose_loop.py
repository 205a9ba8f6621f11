"""The loop of Gaussian policies on a dose bandit: the same learner and the same noise, other users.

Compiled only: the kernels are those of `tacit.data.doses`, `tacit.privatizers.gradient` and `tacit.learners.dp_pg`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.doses import Clinic, add_dose_gradients, draw_doses, prepare_clinic
from tacit.environments.dose_bandit import DoseBandit
from tacit.errors import require
from tacit.kernels import kernel
from tacit.learners.gradient import GradientLearner, plan_gradient
from tacit.loop.gradient_loop import CHUNK
from tacit.loop.gradient_measures import GradientRun, Objective
from tacit.privatizers.gradient import GradientPrivatizer, add_noise, choose_users
from tacit.randomness import seed_streams

__all__ = ["dose_truth", "run_doses"]

Floats = NDArray[np.float64]


@kernel
def dose_truth(clinic: Clinic, rho: Floats, theta: Floats, means: Floats, gradient: Floats) -> float:
    """Simulation only: J(θ) and ∇J(θ) in closed form; also writes means[s] = θ·x_s."""
    S, k = clinic.features.shape
    spread = clinic.width**2 + clinic.deviation**2
    value = 0.0
    gradient[:] = 0.0
    for s in range(S):
        means[s] = 0.0
        for j in range(k):
            means[s] += theta[j] * clinic.features[s, j]
        gap = means[s] - clinic.target[s]
        # J = Σ_s ρ_s w/√(w²+τ²) exp(-gap²/(2(w²+τ²)))
        part = rho[s] * clinic.width / math.sqrt(spread) * math.exp(-0.5 * gap * gap / spread)
        value += part
        for j in range(k):
            gradient[j] -= part * gap / spread * clinic.features[s, j]
    return value


@cache
def _fused(update: Callable[..., None]) -> Callable[..., None]:
    @kernel
    def advance(
        parameters: Any, belief: Any, noise: Any, state: Any, clinic: Any, rho: Floats, optimal: float, sums: Floats,
        means: Floats, gradient: Floats, pulls: Floats, states: Any, actions: Any, rewards: Any, regret: Floats,
        world_coins: np.random.Generator, learner_coins: np.random.Generator, noise_coins: np.random.Generator,
    ) -> None:  # fmt: skip
        for batch in range(regret.shape[0]):
            plan_gradient(parameters, belief, learner_coins)
            gap = optimal - dose_truth(clinic, rho, belief.theta, means, gradient)
            sums[0] += gap
            for j in range(gradient.shape[0]):
                sums[1] += gradient[j] * gradient[j]
            sums[2] += gap * states.shape[0]
            regret[batch] = sums[2]
            draw_doses(clinic, means, world_coins, states, actions, rewards)
            choose_users(noise.rate, state.chosen, noise_coins)
            total = add_dose_gradients(
                noise.bounds, clinic, means, states, actions, rewards, state.chosen, belief.baseline[0], pulls
            )
            released = state.released
            released.gradient[:] = 0.0
            for s in range(pulls.shape[0]):
                for j in range(released.gradient.shape[0]):
                    released.gradient[j] += pulls[s] * clinic.features[s, j] / noise.divisor
            add_noise(noise, total, state.chosen, released, noise_coins)
            update(parameters, belief, released)

    return advance


def run_doses(
    bandit: DoseBandit,
    learner: GradientLearner,
    privatizer: GradientPrivatizer,
    *,
    episodes: int,
    seed: int,
    marks: NDArray[np.int64],
    progress: Callable[[int], None],
) -> GradientRun:
    """Run the users of a dose bandit through the loop; pseudo-regret is counted in expectation over contexts."""
    S, k = bandit.features.shape
    shape, m = learner.shape, privatizer.users_per_batch
    require(privatizer.shape == shape, "learner and privatizer must agree on the shape of the gradient", shape)
    given = (shape.num_states, shape.num_actions, shape.dimension)
    require(given == (S, 0, k), f"the learner must have {S} contexts, real actions and {k} parameters", given)
    require(privatizer.epochs == 1, "Gaussian policies make one pass", privatizer.epochs)
    batches, streams = episodes // m, seed_streams(seed)
    clinic, rho, optimal = prepare_clinic(bandit), np.array(bandit.rho), bandit.optimal_value
    belief, state = learner.begin(), privatizer.begin()
    sums, means, gradient, pulls = np.zeros(3), np.zeros(S), np.zeros(k), np.zeros(S)
    states, actions, rewards = np.zeros(m, np.int64), np.zeros(m), np.zeros(m)
    regret, stride, advance = np.zeros(batches), max(1, CHUNK // m), _fused(learner.update_kernel)
    started = time.perf_counter()
    for first in range(0, batches, stride):
        part = regret[first : first + stride]
        advance(
            learner.parameters, belief, privatizer.parameters, state, clinic, rho, optimal, sums, means, gradient,
            pulls, states, actions, rewards, part, streams.world, streams.learner, streams.noise,
        )  # fmt: skip
        progress((first + len(part)) * m)
    seconds = time.perf_counter() - started
    final, count = bandit.objective(belief.theta), max(1, batches)
    curve = np.concatenate([[0.0], regret])
    served = m * np.arange(batches + 1.0)
    beyond = np.maximum(marks - served[-1], 0.0) * (optimal - final)
    objective = Objective(
        final=final,
        uniform=bandit.objective(belief.sampled),
        average=optimal - float(sums[0]) / count if batches else final,
        optimal=optimal,
        stationarity=float(sums[1]) / count,
        regularised=float(sums[1]) / count,
    )
    progress(episodes)
    return GradientRun(
        regret=np.interp(marks, served, curve) + beyond,
        objective=objective,
        theta=belief.theta,
        theta_sampled=belief.sampled,
        batches=batches,
        seconds=seconds,
    )
