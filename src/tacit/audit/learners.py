"""Whole learners through the loop, on two sequences of users that differ in one: the canary.

The canary comes first (or in the first batch that releases everything), in the rarest state with the last action, or in
the first state with the first action, and earns the most in both worlds. Everybody else follows the policies in the
environment. Two adversaries look at the same runs:

    white-box   all that the trust model lets out: every release (central), the canary's message (local), the sums of
                its batch (shuffle), the final parameters (policy gradient); scored by the exact likelihood ratio
    black-box   the policies of everybody who came later (joint DP: the canary's own is left out), scored by a
                naive Bayes rule that was learned on the held-out trials

Black-box alone sees almost nothing of a learner at these sizes; white-box bounds everything that is computed from it.
Both bounds stand beside the certificate. The two share the false-alarm rate.

Learners that come in stages run up to the canary's batch once: what came before does not depend on the canary, and the
guarantee holds for every history.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.audit.attack import Finding, Target, attack, held_out
from tacit.audit.losses import LAYERED, audit_losses
from tacit.audit.privatizers import sums_score, view_of
from tacit.audit.views import canaries, exact_record, record_width
from tacit.data.counts import ExactCounts, count_trajectories, flow_counts, join_counts
from tacit.data.trajectories import Trajectories, walk
from tacit.data.world import prepare_world
from tacit.environments.tabular import TabularMDP
from tacit.errors import InvalidInput, NotSupported, UnknownName, require, require_count
from tacit.experiments.assemble import Assembled, assemble
from tacit.experiments.config import RunConfig, parse_learner
from tacit.kernels import kernel
from tacit.learners.contract import KernelLearner
from tacit.learners.gradient import GradientLearner
from tacit.learners.gradient_registry import GRADIENT_LEARNERS
from tacit.learners.loss_registry import LOSS_LEARNERS
from tacit.learners.registry import LEARNERS
from tacit.learners.stage_registry import STAGE_LEARNERS
from tacit.loop.gradient_audit import final_parameters, matched_distinguisher
from tacit.privatizers.adversarial import make_adversarial
from tacit.privatizers.batched import BatchShuffle
from tacit.privatizers.contract import copy_state
from tacit.privatizers.registry import PrivacyRequest, make_claim
from tacit.privatizers.shuffled import Shuffled
from tacit.privatizers.statistics import add_trajectory
from tacit.randomness import SimulationNoise, seed_streams
from tacit.released.counts import CountShape, empty_counts

__all__ = ["AUDITED_LEARNERS", "audit_learner", "default_environment"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

AUDITED_LEARNERS: Final = (
    *LEARNERS,
    *STAGE_LEARNERS,
    *GRADIENT_LEARNERS,
    *(name for name, entry in LOSS_LEARNERS.items() if entry.private),
)
"""Everything that can learn in private, by name."""

SMALL: Final = "riverswim:states=3,horizon=2"
"""A world with a rare state that is small enough for many runs."""
BANDIT: Final = "contextual-bandit:contexts=2,actions=2"
USERS: Final = 9
"""How many users come one by one."""
STAGED_USERS: Final = 400
"""How many users come where they come in batches."""


def default_environment(learner: str) -> str:
    """The world in which a learner is audited unless somebody names another.

    >>> default_environment("ucbvi"), default_environment("dp-pg")
    ('riverswim:states=3,horizon=2', 'contextual-bandit:contexts=2,actions=2')
    """
    return BANDIT if parse_learner(learner)[0] in GRADIENT_LEARNERS else SMALL


def audit_learner(
    learner: str,
    *,
    trust: str,
    epsilon: float,
    delta: float,
    environment: str | None = None,
    episodes: int | None = None,
    mechanism: str | None = None,
    calibration: str = "tight",
    trials: int = 50_000,
    false_alarm: float = 0.01,
    seed: int = 0,
) -> tuple[Finding, ...]:
    """Attack a whole learner; one finding for each adversary."""
    name, _ = parse_learner(learner)
    if name not in AUDITED_LEARNERS:
        raise UnknownName("learner that can be private", name, AUDITED_LEARNERS)
    require(trust != "none", "trust must be central, shuffle or local", trust, "without trust nothing is claimed")
    require_count("trials", trials, least=100)
    if name in LOSS_LEARNERS:
        return _loss_learner(name, trust, epsilon, delta, calibration, trials, false_alarm, seed)
    batches = trust == "shuffle" or name in GRADIENT_LEARNERS
    batch = STAGED_USERS // 4 if trust == "shuffle" and name in LEARNERS else 8 if name in GRADIENT_LEARNERS else None
    config = RunConfig(
        environment=default_environment(learner) if environment is None else environment,
        learner=learner,
        episodes=(STAGED_USERS if batches else USERS) if episodes is None else episodes,
        seeds=(0,),
        trust=trust,  # type: ignore[arg-type]
        epsilon=epsilon,
        delta=delta,
        calibration=calibration,  # type: ignore[arg-type]
        mechanism=mechanism,
        batch=batch,
    )
    parts = assemble(config)
    given: Any = parts.learner
    if isinstance(given, GradientLearner):
        scores: Any = _gradient_runs(parts, trials // 2, seed)
    elif isinstance(parts.privatizer, Shuffled | BatchShuffle):
        scores = _batch_runs(parts, trials, seed)
    elif isinstance(given, KernelLearner) and hasattr(parts.privatizer, "release_kernel"):
        scores = _single_runs(parts, config.episodes - 1, trials, seed)
    else:
        raise NotSupported(f"{name} with {parts.privatizer.name} is neither one user at a time nor in batches")
    return tuple(
        attack(_target(learner, parts, view), first, second, false_alarm=false_alarm / len(scores), note=note)
        for view, first, second, note in scores
    )


def _target(learner: str, parts: Assembled, view: str) -> Target:
    claim = parts.claim
    return Target(
        kind="learner",
        name=learner,
        trust=claim.trust,
        calibration=parts.privatizer.calibration,
        view=view,
        claimed=claim.epsilon,
        delta=claim.delta,
        events=parts.privatizer.events(),
    )


def _single_runs(parts: Assembled, users: int, trials: int, seed: int) -> list[tuple[str, Floats, Floats, str]]:
    """Users come one by one: the loop is compiled with the learner and the privatizer."""
    learner: Any = parts.learner
    privatizer: Any = parts.privatizer
    shape = privatizer.shape
    require(learner.users_per_batch == 1, "users come one by one here", learner.users_per_batch)
    view, first = view_of(privatizer), canaries(shape, users)[0]
    local, reference = parts.claim.trust == "local", exact_record(shape, first)
    run = _runner(type(learner).plan_kernel, type(learner).update_kernel, privatizer.release_kernel)
    white, black = [], []
    for world, canary in enumerate(canaries(shape, 1)):
        streams, prepared = seed_streams(seed + 7919 * world), prepare_world(parts.mdp)
        paths = np.empty((trials, users, record_width(shape)))
        policies = np.empty((trials, users, shape.horizon, shape.num_states), dtype=np.int64)
        belief, state, exact = learner.begin(), privatizer.begin(), empty_counts(shape)
        for path, policy in zip(paths, policies, strict=True):
            run(
                learner.parameters, copy_state(belief), privatizer.parameters, copy_state(state),
                prepared, copy_state(exact), canary.states[0], canary.actions[0], canary.rewards[0],
                first.states[0], first.actions[0], first.rewards[0],
                streams.world, streams.learner, streams.noise, path, policy,
            )  # fmt: skip
        # Noise plus what the canary moved, on top of what the view takes for granted about everybody else.
        records = paths[:, :1] + reference[:1] if local else paths + reference
        white.append(view.score(records))
        black.append(policies[:, 1:].reshape(trials, -1))
    scores = _naive_bayes(black[0], black[1], parts.mdp.num_actions)
    return [
        (f"white-box: {view.seen}", white[0], white[1], f"{users} users"),
        ("black-box: policies of later users", *scores, f"{users} users"),
    ]


@cache
def _runner(
    plan: Callable[..., None], update: Callable[..., None], release: Callable[..., None]
) -> Callable[..., None]:
    """One whole run: the first user is scripted, the others follow the policies."""

    @kernel
    def run(
        parameters: Any, belief: Any, privacy: Any, state: Any, world: Any, exact: Any,
        states: Ints, actions: Ints, rewards: Floats, known_states: Ints, known_actions: Ints, known_rewards: Floats,
        world_coins: np.random.Generator, learner_coins: np.random.Generator, noise: np.random.Generator,
        path: Floats, policies: Ints,
    ) -> None:  # fmt: skip
        at, did, earned = states.copy(), actions.copy(), rewards.copy()
        for k in range(path.shape[0]):
            plan(parameters, belief, learner_coins)
            policies[k] = belief.policy
            if k == 0:
                # The adversary subtracts what the first of the two canaries would have added.
                add_trajectory(exact, known_states, known_actions, known_rewards)
            else:
                walk(world, belief.policy, world_coins, at, did, earned)
                add_trajectory(exact, at, did, earned)
            release(privacy, state, at, did, earned, noise)
            update(parameters, belief, state.released)
            c = 0
            for i in range(exact.transitions.size):
                path[k, c] = state.released.transitions.ravel()[i] - exact.transitions.ravel()[i]
                c += 1
            for i in range(exact.visits.size):
                path[k, c] = state.released.visits.ravel()[i] - exact.visits.ravel()[i]
                c += 1
            for i in range(exact.rewards.size):
                path[k, c] = state.released.rewards.ravel()[i] - exact.rewards.ravel()[i]
                c += 1
            for i in range(exact.squares.size):
                path[k, c] = state.released.squares.ravel()[i] - exact.squares.ravel()[i]
                c += 1

    return run


def _batch_runs(parts: Assembled, trials: int, seed: int) -> list[tuple[str, Floats, Floats, str]]:
    """Users come in batches: up to the canary's batch once, then that batch again and again."""
    learner, shape = parts.learner, parts.privatizer.shape
    privatizer: Any = parts.privatizer
    streams = seed_streams(seed)
    belief, state, crowd, plan = _before(parts, streams)
    request = plan.request
    protocol = privatizer.protocol if request is None else privatizer.protocol(crowd.users + 1, request)
    worlds = [
        join_counts([count_trajectories(canary, shape.num_states, shape.num_actions), crowd])
        for canary in canaries(shape, 1)
    ]
    rounded = [_rounded(batch, streams.world) for batch in worlds]
    score = sums_score(protocol, shape, rounded[0], rounded[1])
    seen = max(100, trials // 25)
    white, black = [], []
    for world, batch in enumerate(rounded):
        noise = SimulationNoise(np.random.default_rng([seed, 17, world]))
        coins = np.random.default_rng([seed, 19, world])
        white.append(np.concatenate([score(protocol.aggregate(batch, noise)) for _ in range(trials)]))
        tables = []
        for _ in range(seen):
            if request is None:
                _, released = privatizer.release(state, batch, noise)
            else:
                _, released = privatizer.release_batch(state, batch, noise, request)
            _, after = learner.plan(learner.update(belief, released), coins)
            policies = [after.policy, *(policy for policy, _ in after.groups)]
            tables.append(np.mean([policy.probabilities(shape.num_actions) for policy in policies], axis=0).ravel())
        black.append(np.array(tables))
    scores = _linear(black[0], black[1])
    count = f"batch of {crowd.users + 1}"
    return [
        ("white-box: the sums of the batch", white[0], white[1], count),
        ("black-box: the next policies", *scores, count),
    ]


def _before(parts: Assembled, streams: Any) -> tuple[Any, Any, ExactCounts, Any]:
    """Belief, state, crowd and plan at the first batch that releases everything."""
    learner, privatizer = parts.learner, parts.privatizer
    belief, state = learner.begin(), privatizer.begin()
    noise = SimulationNoise(streams.noise)
    while True:
        belief, plan = learner.plan(belief, streams.learner)
        if plan.users is None or not plan.reports:
            raise InvalidInput("no batch before the last one releases everything; audit with more episodes")
        users = plan.users
        batch = flow_counts(parts.mdp, plan.policy, users, streams.world)
        if plan.request is None or plan.request.layer is None:
            return belief, state, flow_counts(parts.mdp, plan.policy, users - 1, streams.world), plan
        state, released = privatizer.release_batch(state, batch, noise, plan.request)  # type: ignore[attr-defined]
        belief = learner.update(belief, released)


def _rounded(batch: ExactCounts, generator: np.random.Generator) -> ExactCounts:
    """Rewards rounded to 0 or 1 once, as every device does: the adversary knows everybody else's."""
    if batch.binary:
        return batch
    mean = np.clip(batch.rewards / np.maximum(batch.visits, 1), 0.0, 1.0)
    return replace(batch, rewards=generator.binomial(batch.visits, mean).astype(np.float64), binary=True)


def _gradient_runs(parts: Assembled, trials: int, seed: int) -> list[tuple[str, Floats, Floats, str]]:
    """Policy gradients: the final parameters of one batch of fixed users."""
    learner: Any = parts.learner
    privatizer: Any = parts.privatizer
    shape, m = privatizer.shape, privatizer.users_per_batch
    require(isinstance(parts.mdp, TabularMDP), "the attack knows finitely many actions", type(parts.mdp).__name__)
    H, high = shape.horizon, privatizer.bounds.high
    worlds = []
    for state, action in ((0, 0), (shape.num_states - 1, shape.num_actions - 1)):
        states, actions = np.zeros((m, H + 1), dtype=np.int64), np.zeros((m, H), dtype=np.int64)
        states[0], actions[0] = state, action
        rewards = np.full((m, H), privatizer.bounds.low)
        rewards[0] = high
        worlds.append(Trajectories(states, actions, rewards))
    judge = matched_distinguisher(learner, privatizer, worlds[1], worlds[0])
    found = []
    for i, users in enumerate(worlds):
        theta = final_parameters(learner, privatizer, users, runs=max(100, trials), seed=seed + i)
        found.append(np.array([judge(row) for row in theta]))
    return [("the final parameters", found[0], found[1], f"batch of {m}")]


def _loss_learner(
    name: str, trust: str, epsilon: float, delta: float, calibration: str, trials: int, false_alarm: float, seed: int
) -> tuple[Finding, ...]:
    """Learners of adversarial losses: policies are computed from the releases, which are attacked directly."""
    shape = CountShape(horizon=1, num_states=1, num_actions=1, staged=True)
    asked = PrivacyRequest(
        trust=trust,  # type: ignore[arg-type]
        shape=shape,
        episodes=USERS,
        epsilon=epsilon,
        delta=delta,
        calibration=None,
        mechanism=None,
        users_per_batch=1,
    )
    privatizer = make_adversarial(
        shape=LAYERED,
        claim=make_claim(asked),
        episodes=USERS,
        feedback=LOSS_LEARNERS[name].feedback,
        calibration=calibration,  # type: ignore[arg-type]
    )
    found = audit_losses(privatizer, trials=trials, false_alarm=false_alarm, seed=seed)
    note = "policies follow from the releases"
    return (replace(found, kind="learner", name=name, view=f"white-box: {found.view}", note=note),)


def _naive_bayes(first: Ints, second: Ints, actions: int) -> tuple[Floats, Floats]:
    """Log odds of every chosen action, learned on the held-out trials."""
    fit = [table[held_out(table)] for table in (first, second)]
    weight = np.zeros((first.shape[1], actions))
    for a in range(actions):
        often = [((table == a).sum(axis=0) + 1.0) / (len(table) + actions) for table in fit]
        weight[:, a] = np.log(often[1]) - np.log(often[0])
    places = np.arange(first.shape[1])
    found = [weight[places, table].sum(axis=1) for table in (first, second)]
    return found[0], found[1]


def _linear(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """The projection on the difference of the means, entry by entry in units of the spread; learned on the held-out."""
    fit = [table[held_out(table)] for table in (first, second)]
    spread = np.maximum(np.concatenate(fit).var(axis=0), 1e-12)
    weight = (fit[1].mean(axis=0) - fit[0].mean(axis=0)) / spread
    return np.asarray(first @ weight), np.asarray(second @ weight)
