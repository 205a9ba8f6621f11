"""One simulated run of a policy gradient learner: batches of fresh users come, noisy gradients leave.

    plan -> roll out a batch -> (release -> update) per epoch -> forget

The same kernels run fused into one compiled loop or one by one from Python, with bit-identical results. A short last
batch only acts: it is never released and never re-normalised.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.gradients import draw_users
from tacit.data.trajectories import Trajectories
from tacit.data.world import prepare_world
from tacit.environments.tabular import TabularMDP
from tacit.errors import require
from tacit.kernels import kernel
from tacit.learners.dp_pg import add_barrier
from tacit.learners.gradient import GradientLearner, plan_gradient
from tacit.loop.gradient_measures import GradientRun, Objective
from tacit.loop.gradient_truth import begin_gradient_tally, evaluate, gradient_truth
from tacit.policies.softmax import softmax_table
from tacit.privatizers.gradient import GradientPrivatizer, release_gradient
from tacit.randomness import SimulationNoise, Streams, seed_streams

__all__ = ["CHUNK", "run_gradient"]

Floats = NDArray[np.float64]
CHUNK = 1_000_000
"""The compiled loop returns to Python about once per so many users, for progress and interruption."""


@cache
def _fused(update: Callable[..., None]) -> Callable[..., None]:
    """The loop fused with one update kernel; it advances a run by any number of batches."""

    @kernel
    def advance(
        parameters: Any, belief: Any, noise: Any, state: Any, world: Any, truth: Any, tally: Any, barrier: Floats,
        states: Any, actions: Any, rewards: Any, behaviour: Floats, epochs: int, regret: Floats,
        world_coins: np.random.Generator, learner_coins: np.random.Generator, noise_coins: np.random.Generator,
    ) -> None:  # fmt: skip
        for batch in range(regret.shape[0]):
            plan_gradient(parameters, belief, learner_coins)
            count_iterate(parameters, belief, truth, tally, barrier)
            behaviour[:] = belief.table
            draw_users(world, behaviour, world_coins, states, actions, rewards)
            count_users(truth, tally, states)
            regret[batch] = tally.sums[3]
            for epoch in range(epochs):
                if epoch > 0:
                    softmax_table(parameters.features, belief.theta, belief.table)
                release_gradient(
                    noise, state, parameters.features, belief.table, behaviour, states, actions, rewards,
                    belief.baseline[0], noise_coins,
                )  # fmt: skip
                update(parameters, belief, state.released)

    return advance


@kernel
def count_iterate(parameters: Any, belief: Any, truth: Any, tally: Any, barrier: Floats) -> None:
    """Simulation only: add the exact gap and gradient norms of the present iterate."""
    value = evaluate(truth, parameters.features, belief.table, tally)
    tally.sums[0] += truth.optimal - value
    for j in range(barrier.shape[0]):
        barrier[j] = tally.gradient[j]
        tally.sums[1] += tally.gradient[j] * tally.gradient[j]
    add_barrier(parameters, belief, barrier)
    for j in range(barrier.shape[0]):
        tally.sums[2] += barrier[j] * barrier[j]


@kernel
def count_users(truth: Any, tally: Any, states: Any) -> None:
    """Simulation only: Σ_i V*(s_i) - V^π(s_i) over the users of a batch, from their first states."""
    for i in range(states.shape[0]):
        s = states[i, 0]
        tally.sums[3] += truth.best[s] - tally.V[0, s]


def run_gradient(
    mdp: TabularMDP,
    learner: GradientLearner,
    privatizer: GradientPrivatizer,
    *,
    episodes: int,
    seed: int,
    marks: NDArray[np.int64],
    compiled: bool,
    progress: Callable[[int], None],
) -> GradientRun:
    """Run the users through the loop, at either speed, and return the regret at the marks."""
    shape, m = learner.shape, privatizer.users_per_batch
    require(privatizer.shape == shape, "learner and privatizer must agree on the shape of the gradient", shape)
    sizes = (mdp.horizon, mdp.num_states, mdp.num_actions)
    given = (shape.horizon, shape.num_states, shape.num_actions)
    require(given == sizes, f"the learner must have the horizon, states, actions {sizes} of the mdp", given)
    batches = episodes // m
    truth, tally = gradient_truth(mdp), begin_gradient_tally(mdp, shape.stages, shape.dimension)
    streams = seed_streams(seed)
    belief, state = learner.begin(), privatizer.begin(learner.parameters.features)
    regret = np.zeros(batches)
    started = time.perf_counter()
    run = _compiled if compiled else _interpreted
    belief = run(mdp, learner, privatizer, belief, state, truth, tally, regret, streams, progress)
    seconds = time.perf_counter() - started
    # Whoever is left over is served by the final policy and reports nothing.
    averages = tally.sums[:3] / max(1, batches)
    table = learner.policy(belief.theta).table[: shape.stages].copy()
    final = evaluate(truth, learner.parameters.features, table, tally)
    served = m * np.arange(batches + 1.0)
    beyond = np.maximum(marks - served[-1], 0.0) * (truth.optimal - final)
    curve = np.interp(marks, served, np.concatenate([[0.0], regret])) + beyond
    sampled = learner.policy(belief.sampled if batches else belief.theta).table[: shape.stages].copy()
    uniform = evaluate(truth, learner.parameters.features, sampled, tally)
    objective = Objective(
        final=float(final),
        uniform=float(uniform),
        average=float(truth.optimal - averages[0]) if batches else float(final),
        optimal=truth.optimal,
        stationarity=float(averages[1]),
        regularised=float(averages[2]),
    )
    progress(episodes)
    return GradientRun(
        regret=curve,
        objective=objective,
        theta=belief.theta,
        theta_sampled=belief.sampled,
        batches=batches,
        seconds=seconds,
    )


def _compiled(
    mdp: TabularMDP,
    learner: GradientLearner,
    privatizer: GradientPrivatizer,
    belief: Any,
    state: Any,
    truth: Any,
    tally: Any,
    regret: Floats,
    streams: Streams,
    progress: Callable[[int], None],
) -> Any:
    m, H = privatizer.users_per_batch, mdp.horizon
    states, actions, rewards = np.zeros((m, H), np.int64), np.zeros((m, H), np.int64), np.zeros((m, H))
    advance, world, behaviour = _fused(learner.update_kernel), prepare_world(mdp), belief.table.copy()
    barrier = np.zeros(learner.shape.dimension)
    stride = max(1, CHUNK // m)
    for first in range(0, len(regret), stride):
        part = regret[first : first + stride]
        advance(
            learner.parameters, belief, privatizer.parameters, state, world, truth, tally, barrier, states, actions,
            rewards, behaviour, privatizer.epochs, part, streams.world, streams.learner, streams.noise,
        )  # fmt: skip
        progress((first + len(part)) * m)
    return belief


def _interpreted(
    mdp: TabularMDP,
    learner: GradientLearner,
    privatizer: GradientPrivatizer,
    belief: Any,
    state: Any,
    truth: Any,
    tally: Any,
    regret: Floats,
    streams: Streams,
    progress: Callable[[int], None],
) -> Any:
    m, H = privatizer.users_per_batch, mdp.horizon
    world, noise, features = prepare_world(mdp), SimulationNoise(streams.noise), learner.parameters.features
    barrier = np.zeros(learner.shape.dimension)
    for batch in range(len(regret)):
        belief = learner.plan(belief, streams.learner)
        count_iterate(learner.parameters, belief, truth, tally, barrier)
        behaviour = belief.table.copy()
        users = Trajectories(np.zeros((m, H), np.int64), np.zeros((m, H), np.int64), np.zeros((m, H)))
        draw_users(world, behaviour, streams.world, users.states, users.actions, users.rewards)
        count_users(truth, tally, users.states)
        regret[batch] = tally.sums[3]
        for epoch in range(privatizer.epochs):
            if epoch > 0:
                softmax_table(features, belief.theta, belief.table)
            state, released = privatizer.release(
                state, users, noise, features=features, table=belief.table, behaviour=behaviour,
                baseline=float(belief.baseline[0]),
            )  # fmt: skip
            belief = learner.update(belief, released.statistics)
        del users
        progress((batch + 1) * m)
    return belief
