"""One simulated run with adversarial losses: users come one by one, a layered world, losses that change every episode.

    walk under the current policy -> release noisy counts and losses -> forget -> update

The adversary is oblivious: its losses are made block by block from coins of their own. The same kernels run fused into
one compiled loop or one by one from Python, with bit-identical results. The last user's data are of use to nobody and
are never released.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.layered import prepare_layered, walk_layered
from tacit.environments.layered_worlds import LossWorld
from tacit.environments.loss_sequences import Adversary
from tacit.errors import require
from tacit.kernels import kernel
from tacit.learners.loss_contract import TALLY, LossLearner
from tacit.loop.adversarial_truth import begin_loss_tally, count_episode, loss_truth, record_mark
from tacit.privatizers.adversarial import AdversarialPrivatizer, LossUser
from tacit.randomness import SimulationNoise, seed_streams

__all__ = ["LossGame", "LossMeasures", "LossRun", "run_losses"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BLOCK = 20_000
"""Episodes whose losses are in memory at once; the compiled loop returns to Python as often."""
ADVERSARY_STREAM = 3
"""The adversary's coins: the child after those of world, learner and noise."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LossGame:
    """A layered world and the adversary who plays in it."""

    world: LossWorld
    adversary: Adversary

    @property
    def horizon(self) -> int:
        """H."""
        return self.world.mdp.horizon

    @property
    def num_states(self) -> int:
        """X, first and last included."""
        return self.world.mdp.num_states

    @property
    def num_actions(self) -> int:
        """A."""
        return self.world.mdp.num_actions

    def fingerprint(self) -> str:
        """SHA-256 of transitions, mean losses and adversary."""
        digest = hashlib.sha256(self.world.mdp.fingerprint().encode())
        digest.update(self.world.base.astype("<f8").tobytes() + self.adversary.described.encode())
        return digest.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class LossMeasures:
    """Simulation only: what stands beside the regret of one run."""

    uniform: tuple[float, ...]
    """At each checkpoint: the regret of the uniform policy on the same losses."""
    myopic: tuple[float, ...]
    """At each checkpoint: the regret of the policy that ignores transitions."""
    solves: int
    unconverged: int
    """Solves whose certificate was not good enough; the policy is feasible all the same."""
    iterations: float
    """Newton steps per solve."""
    fallbacks: int
    worst_gap: float
    worst_residual: float
    infeasible: int
    """Rows of counts for which Eq. 5.1 had no solution."""
    floored: int
    """Occupancies that were raised to the least positive value."""
    outside: float
    """Share of the episodes in which the true transitions were outside the set."""
    width: float
    """Mean hi - lo of the last set, over steps that can lead to several states."""
    optimism: float = 0.0
    """Σ_k ⟨q^{P,π_k} - q_k, l_k⟩: what was paid beyond what the learner's own occupancies promised. It is the part of
    the regret that unknown transitions cause, Õ(H C_M √K) in Theorems 3.3 and 4.2."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LossRun:
    """What the simulator saw of one run."""

    regret: Floats
    """[checkpoint]: against the best policy in hindsight (simulation only); may be negative."""
    measures: LossMeasures
    seconds: float


@cache
def _fused(release: Callable[..., None], update: Callable[..., None]) -> Callable[..., None]:
    """The loop fused with one privatizer and one learner; it advances a run by one block of losses."""

    @kernel
    def advance(
        parameters: Any, belief: Any, privacy: Any, state: Any, world: Any, truth: Any, tally: Any,
        losses: Floats, done: int, marks: Ints, curves: Floats, pairs: Ints, triples: Ints, met: Floats,
        world_coins: np.random.Generator, noise: np.random.Generator,
    ) -> None:  # fmt: skip
        mark = 0
        while mark < marks.shape[0] and marks[mark] <= done:
            mark += 1
        for i in range(losses.shape[0]):
            episode = done + i + 1
            row = losses[i]
            walk_layered(world, belief.policy, world_coins, pairs, triples)
            count_episode(truth, tally, belief.policy, belief.occupancy, row, belief.set.lo, belief.set.hi)
            if episode < marks[marks.shape[0] - 1]:
                if privacy.layout.full:
                    release(privacy, state, pairs, triples, row, noise)
                else:
                    meet(row, pairs, met)
                    release(privacy, state, pairs, triples, met, noise)
                update(parameters, belief, state.released)
            if mark < marks.shape[0] and marks[mark] == episode:
                record_mark(truth, tally, mark, curves)
                mark += 1

    return advance


@kernel
def meet(losses: Floats, pairs: Ints, met: Floats) -> None:
    """Bandit feedback: the losses of the visited pairs."""
    for h in range(pairs.shape[0]):
        met[h] = losses[pairs[h]]


def run_losses(
    game: LossGame,
    learner: LossLearner,
    privatizer: AdversarialPrivatizer,
    *,
    seed: int,
    marks: Ints,
    compiled: bool,
    progress: Callable[[int], None],
) -> LossRun:
    """Run the users through the loop, at either speed, and return the regret at the marks."""
    mdp = game.world.mdp
    truth = loss_truth(mdp)
    same = np.array_equal(truth.geometry.layers, learner.geometry.layers)
    fits = same and mdp.num_actions == learner.geometry.actions
    require(fits, f"the learner must have the layers {mdp.widths} and {mdp.num_actions} actions of the world", "others")
    require(privatizer.shape == learner.shape, "learner and privatizer must agree on the shape", privatizer.shape.pairs)
    require(privatizer.feedback == learner.feedback, f"{learner.name} needs {learner.feedback}", privatizer.feedback)
    episodes = int(marks[-1])
    require(episodes <= game.adversary.episodes, "the adversary must have losses for all episodes", episodes)
    tally, curves = begin_loss_tally(truth), np.zeros((3, len(marks)))
    coins = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(ADVERSARY_STREAM,))))
    streams, world = seed_streams(seed), prepare_layered(mdp)
    belief, state = learner.begin(), privatizer.begin()
    pairs, triples = np.zeros(mdp.horizon, np.int64), np.zeros(mdp.horizon, np.int64)
    met = np.zeros(mdp.horizon)
    privacy, noise = privatizer.parameters, SimulationNoise(streams.noise)
    advance = _fused(privatizer.release_kernel, learner.update_kernel)
    started = time.perf_counter()
    for done in range(0, episodes, BLOCK):
        losses = game.adversary.losses(done, min(BLOCK, episodes - done), coins)
        if compiled:
            advance(
                learner.parameters, belief, privacy, state, world, truth, tally, losses, done, marks, curves,
                pairs, triples, met, streams.world, streams.noise,
            )  # fmt: skip
        else:
            for i, row in enumerate(losses):
                episode = done + i + 1
                walk_layered(world, belief.policy, streams.world, pairs, triples)
                count_episode(truth, tally, belief.policy, belief.occupancy, row, belief.set.lo, belief.set.hi)
                if episode < episodes:
                    seen = row if learner.feedback == "full" else row[pairs]
                    user = LossUser(pairs.copy(), triples.copy(), seen)
                    state, released = privatizer.release(state, user, noise)
                    del user
                    belief = learner.update(belief, released)
                for mark in np.flatnonzero(marks == episode):
                    record_mark(truth, tally, int(mark), curves)
        progress(done + len(losses))
    seconds = time.perf_counter() - started
    return LossRun(regret=curves[0], measures=_measures(belief, tally, curves, truth, episodes), seconds=seconds)


def _measures(belief: Any, tally: Any, curves: Floats, truth: Any, episodes: int) -> LossMeasures:
    found = dict(zip(TALLY, belief.tally.tolist(), strict=True))
    fans = np.diff(truth.geometry.edges)
    several = np.repeat(fans, fans) > 1
    widths = (belief.set.hi - belief.set.lo)[several]
    floored = getattr(belief.work, "floored", None)
    return LossMeasures(
        uniform=tuple(curves[1].tolist()),
        myopic=tuple(curves[2].tolist()),
        solves=int(found["solves"]),
        unconverged=int(found["unconverged"]),
        iterations=found["iterations"] / max(1.0, found["solves"]),
        fallbacks=int(found["fallbacks"]),
        worst_gap=found["worst_gap"],
        worst_residual=found["worst_residual"],
        infeasible=int(found["infeasible"]),
        floored=0 if floored is None else int(floored[0]),
        outside=float(tally.outside[0]) / episodes,
        width=float(widths.mean()) if len(widths) else 0.0,
        optimism=float(tally.paid[0] - tally.promised[0]),
    )
