"""Whole learners through the loop, on two sequences of users that differ in one: the canary.

The canary comes first (or in the first batch that releases everything), in the rarest state with the last action, or in
the first state with the first action, and earns the most in both worlds. Everybody else follows the policies in the
environment. Two adversaries look at the same runs:

    white-box   all that the trust model lets out: every release (central), the canary's message (local), the sums of
                its batch (shuffle), all batches of a schedule (central), the final parameters (policy gradient);
                scored by the exact likelihood ratio
    black-box   the policies of everybody who came later (joint DP: the canary's own is left out), scored by a
                naive Bayes rule that was learned on the held-out trials

Black-box alone sees almost nothing of a learner at these sizes; white-box bounds everything that is computed from it.
Both bounds stand beside the certificate. The two share the false-alarm rate.

Learners that come in stages run up to the canary's batch once: what came before does not depend on the canary, and the
guarantee holds for every history.

Under central trust the noise of a schedule may be correlated: what later batches show of their noise tells about that
of the canary's. The white box sees them all and weighs them by the exact law of the noise, which is Gaussian: with
covariance Σ over the batches and d what the canary moves in the first one, the likelihood ratio of everything is a
function of

    Σ_counters d · e'Σ⁻¹u,     e the noise that each batch would have in the first world, u the first unit vector.

Policy gradients are trained on two fixed batches that differ in one user, and judged by the final parameters alone. For
one release the best test is known: project θ on the line between the two noise-free outcomes (Neyman-Pearson for
Gaussian noise).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from tacit.accounting.claims import no_privacy
from tacit.arrays import Floats, Ints
from tacit.audit.attack import Finding, Target, attack, held_out
from tacit.audit.records import canaries, counters_of, exact_record, record_width
from tacit.audit.views import audit_privatizer, sums_score, view_of
from tacit.data.counts import ExactCounts, count_trajectories, flow_counts, join_counts
from tacit.data.trajectories import Trajectories, Walked, prepare_world, walk
from tacit.environments.tabular import TabularMDP
from tacit.errors import InvalidInput, NotSupported, UnknownName, require, require_count
from tacit.kernels import kernel
from tacit.learners.contract import KernelLearner
from tacit.learners.gradient import GradientLearner, SoftmaxLearner
from tacit.learners.table import LEARNERS, LossFacts
from tacit.policies import tabular
from tacit.protocol import Constants, Measures, Plan, Totals, copy_state
from tacit.randomness import SimulationNoise, Streams, seed_streams
from tacit.release.central_batches import CentralBatches
from tacit.release.gradient import GradientPrivatizer
from tacit.release.losses import AdversarialPrivatizer, make_adversarial
from tacit.release.request import PrivacyRequest, make_claim
from tacit.release.returns import OneBitReturns
from tacit.release.shuffle_release import ShuffleRelease
from tacit.release.stage import NoSecret
from tacit.release.staged import Staged
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountShape, empty_counts
from tacit.released.gradients import SoftmaxQuery
from tacit.released.losses import LayeredShape
from tacit.released.returns import ReturnQuery
from tacit.runs.assemble import Assembled, assemble
from tacit.runs.config import RunConfig, parse_learner
from tacit.simulation.loop import Ended, RoundKernels, fused, interpret
from tacit.statistics.count_vectors import add_trajectory

Distinguisher = Callable[[Floats], float]
"""Final parameters -> a score: the larger, the more it looks like the first data set."""
Outcome = Callable[[Ended], Floats]
"""What an adversary sees of a run."""
Scores = tuple[str, Floats, Floats, str]
"""What is seen, the scores in each of the two worlds, and a note."""


def single_runs(parts: Assembled, users: int, trials: int, seed: int) -> list[Scores]:
    """Users come one by one: the loop is compiled with the learner and the privatizer."""
    learner: Any = parts.learner
    privatizer: Any = parts.privatizer
    shape = privatizer.shape
    require(learner.users_per_batch == 1, "users come one by one here", learner.users_per_batch)
    view, first = view_of(privatizer), canaries(shape, users)[0]
    local, reference = parts.claim.trust == "local", exact_record(shape, first)
    mine, release = learner.kernels, privatizer.kernel
    advance = fused(RoundKernels(mine.plan, act_script, note_policy, mine.ask, release, mine.update, note_release), 1)
    marks = np.arange(1, users + 1)
    white, black = [], []
    for world, canary in enumerate(canaries(shape, 1)):
        streams, prepared = seed_streams(seed + 7919 * world), prepare_world(parts.mdp)
        paths = np.empty((trials, users, record_width(shape)))
        policies = np.empty((trials, users, shape.horizon, shape.num_states), dtype=np.int64)
        belief, state = learner.begin(), privatizer.begin()
        for path, policy in zip(paths, policies, strict=True):
            believed, kept = copy_state(belief), copy_state(state)
            script = Script(prepared, _walked(canary), np.zeros(1, dtype=np.int64))
            # The adversary subtracts what the first of the two canaries would have added.
            truth = Known(_walked(first), kept.released, empty_counts(shape), np.zeros(1, dtype=np.int64))
            advance(
                learner.parameters, believed, learner.query(believed), privatizer.parameters, kept, script,
                _walked(canary), truth, policy, path, marks, 0, users, 1, users + 1,
                streams.world, streams.learner, streams.noise,
            )  # fmt: skip
        # Noise plus what the canary moved, on top of what the view takes for granted about everybody else.
        records = paths[:, :1] + reference[:1] if local else paths + reference
        white.append(view.score(records))
        black.append(policies[:, 1:].reshape(trials, -1))
    scores = naive_bayes(black[0], black[1], parts.mdp.num_actions)
    return [
        (f"white-box: {view.seen}", white[0], white[1], f"{users} users"),
        ("black-box: policies of later users", *scores, f"{users} users"),
    ]


class Script(NamedTuple):
    """A world whose first user is given."""

    world: Any
    first: Walked
    came: Ints


class Known(NamedTuple):
    """What the attacker compares releases with: everybody's data, with the first canary in the place of the user."""

    first: Walked
    released: Any
    exact: Any
    came: Ints


def _walked(users: Trajectories) -> Walked:
    return Walked(users.states[0].copy(), users.actions[0].copy(), users.rewards[0].copy())


@kernel
def act_script(world: Script, belief: Any, users: Walked, rng: np.random.Generator) -> None:
    """The first user is scripted, the others follow the policies."""
    if world.came[0] > 0:
        walk(world.world, belief.policy, rng, users.states, users.actions, users.rewards)
    world.came[0] += 1


@kernel
def note_policy(truth: Known, policies: Ints, parameters: Any, belief: Any, users: Walked) -> None:
    """Keep the policy, and what the user adds to the exact totals."""
    number = truth.came[0]
    for h in range(policies.shape[1]):
        for s in range(policies.shape[2]):
            policies[number, h, s] = belief.policy[h, s]
    if number == 0:
        add_trajectory(truth.exact, truth.first.states, truth.first.actions, truth.first.rewards)
    else:
        add_trajectory(truth.exact, users.states, users.actions, users.rewards)
    truth.came[0] = number + 1


@kernel
def note_release(truth: Known, policies: Ints, path: Floats, mark: int, past: int) -> None:
    """Keep the difference of the released and the exact totals."""
    released, exact = truth.released, truth.exact
    stages, S, A = exact.visits.shape
    cells = stages * S * A
    c = 0
    for h in range(stages):
        for s in range(S):
            for a in range(A):
                for x in range(S):
                    path[mark, S * c + x] = released.transitions[h, s, a, x] - exact.transitions[h, s, a, x]
                path[mark, S * cells + c] = released.visits[h, s, a] - exact.visits[h, s, a]
                path[mark, (S + 1) * cells + c] = released.rewards[h, s, a] - exact.rewards[h, s, a]
                path[mark, (S + 2) * cells + c] = released.squares[h, s, a] - exact.squares[h, s, a]
                c += 1


def batch_runs(parts: Assembled, trials: int, seed: int) -> list[Scores]:
    """Users come in batches: up to the canary's batch once, then that batch again and again."""
    learner, shape = parts.learner, parts.privatizer.shape
    privatizer: Any = parts.privatizer
    streams = seed_streams(seed)
    belief, state, crowd, plan = _before(parts, streams)
    request, people = plan.query, crowd.users + 1
    stage: ShuffleRelease = privatizer.stage(state)
    worlds = [
        join_counts([count_trajectories(canary, shape.num_states, shape.num_actions), crowd])
        for canary in canaries(shape, 1)
    ]
    rounded = [_rounded(batch, streams.world) for batch in worlds]
    score = sums_score(stage, shape, rounded[0], rounded[1])
    seen = max(100, trials // 25)
    white, black = [], []
    for world, batch in enumerate(rounded):
        noise = SimulationNoise(np.random.default_rng([seed, 17, world]))
        rng = np.random.default_rng([seed, 19, world])
        drawn = (stage.simulate(NoSecret(), batch, request, noise)[1] for _ in range(trials))
        white.append(np.concatenate([score(stage.noisy(payload, people)) for payload in drawn]))
        tables = []
        for _ in range(seen):
            _, released = privatizer.release(state, batch, request, noise)
            _, after = learner.plan(learner.update(belief, released), rng)
            policies = [after.policy, *(policy for policy, _ in after.groups)]
            tables.append(
                np.mean([tabular(policy).probabilities(shape.num_actions) for policy in policies], axis=0).ravel()
            )
        black.append(np.array(tables))
    scores = linear_scores(black[0], black[1])
    count = f"batch of {people}"
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
        if plan.users is None or plan.query is None:
            raise InvalidInput("no batch before the last one releases everything; audit with more episodes")
        users = plan.users
        batch = flow_counts(parts.mdp, tabular(plan.policy), users, streams.world)
        if not isinstance(plan.query, BatchQuery) or plan.query.layer is None:
            return belief, state, flow_counts(parts.mdp, tabular(plan.policy), users - 1, streams.world), plan
        state, released = privatizer.release(state, batch, plan.query, noise)
        belief = learner.update(belief, released)


def _rounded(batch: ExactCounts, generator: np.random.Generator) -> ExactCounts:
    """Rewards rounded to 0 or 1 once, as every device does: the adversary knows everybody else's."""
    if batch.binary:
        return batch
    mean = np.clip(batch.rewards / np.maximum(batch.visits, 1), 0.0, 1.0)
    return replace(batch, rewards=generator.binomial(batch.visits, mean).astype(np.float64), binary=True)


def gradient_runs(parts: Assembled, trials: int, seed: int) -> list[Scores]:
    """Policy gradients: the final parameters of one batch of fixed users.

    A trust region keeps little more than the direction of a release, so there the release itself is attacked as well.
    """
    learner: Any = parts.learner
    privatizer: Any = parts.privatizer
    shape, m = privatizer.shape, privatizer.users_per_batch
    require(isinstance(parts.mdp, TabularMDP), "the attack knows finitely many actions", type(parts.mdp).__name__)
    H, high = shape.horizon, privatizer.spec.bounds.high
    worlds = []
    for state, action in ((0, 0), (shape.num_states - 1, shape.num_actions - 1)):
        states, actions = np.zeros((m, H + 1), dtype=np.int64), np.zeros((m, H), dtype=np.int64)
        states[0], actions[0] = state, action
        rewards = np.full((m, H), privatizer.spec.bounds.low)
        rewards[0] = high
        worlds.append(Trajectories(states, actions, rewards))
    views: list[tuple[str, Outcome]] = [("the final parameters", _theta)]
    if learner.parameters.kl < math.inf:
        views.append(("the released gradient", lambda ended: np.asarray(ended.released.gradient).copy()))
    scores: list[Scores] = []
    for view, outcome in views:
        judge = matched_distinguisher(learner, privatizer, worlds[1], worlds[0], outcome)
        found = []
        for i, users in enumerate(worlds):
            seen = final_parameters(learner, privatizer, users, runs=max(100, trials), seed=seed + i, outcome=outcome)
            found.append(np.array([judge(row) for row in seen]))
        scores.append((view, found[0], found[1], f"batch of {m}"))
    return scores


def naive_bayes(first: Ints, second: Ints, actions: int) -> tuple[Floats, Floats]:
    """Log odds of every chosen action, learned on the held-out trials."""
    fit = [table[held_out(table)] for table in (first, second)]
    weight = np.zeros((first.shape[1], actions))
    for a in range(actions):
        often = [((table == a).sum(axis=0) + 1.0) / (len(table) + actions) for table in fit]
        weight[:, a] = np.log(often[1]) - np.log(often[0])
    places = np.arange(first.shape[1])
    found = [weight[places, table].sum(axis=1) for table in (first, second)]
    return found[0], found[1]


def linear_scores(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """The projection on the difference of the means, entry by entry in units of the spread; learned on the held-out."""
    fit = [table[held_out(table)] for table in (first, second)]
    spread = np.maximum(np.concatenate(fit).var(axis=0), 1e-12)
    weight = (fit[1].mean(axis=0) - fit[0].mean(axis=0)) / spread
    return np.asarray(first @ weight), np.asarray(second @ weight)


def _theta(ended: Ended) -> Floats:
    return np.asarray(ended.belief.theta)


def final_parameters(
    learner: SoftmaxLearner,
    privatizer: GradientPrivatizer,
    users: Trajectories,
    *,
    runs: int,
    seed: int,
    outcome: Outcome = _theta,
) -> Floats:
    """θ after one batch of these very users, [runs, d], or another outcome: only the noise differs between runs."""
    rng = np.random.default_rng(seed)
    streams = Streams(world=rng, learner=rng, noise=rng)
    found = []
    for _ in range(require_count("runs", runs)):
        found.append(outcome(interpret(learner, privatizer, _Fixed(users), _Nobody(), len(users), streams, _silent)))
    return np.array(found)


class _Fixed:
    """The same users whatever the policy."""

    act, buffers, chunk = None, None, 0

    def __init__(self, users: Trajectories) -> None:
        self._users = users

    def arrays(self, done: int, users: int) -> None:
        """Nothing is drawn."""

    def draw(self, plan: Plan[Any], users: int, rng: np.random.Generator) -> Trajectories:
        """The given users."""
        return self._users


class _Nobody:
    """Nobody keeps a score."""

    truth = tally = curves = None
    count = record = staticmethod(lambda *_: None)

    def see(self, learner: Any, belief: Any, plan: Plan[Any], users: Trajectories, done: int, number: int) -> None:
        """Nothing is counted."""

    def finish(self, learner: Any, belief: Any, rounds: int, done: int) -> Measures:
        """No score."""
        return Measures(np.zeros(0), 0, {})


def _silent(done: int) -> None:
    """Nobody watches."""


def matched_distinguisher(
    learner: SoftmaxLearner,
    privatizer: GradientPrivatizer,
    one: Trajectories,
    other: Trajectories,
    outcome: Outcome = _theta,
) -> Distinguisher:
    """The projection on the line between the two noise-free outcomes, zero half-way."""
    silent = replace(privatizer, claim=no_privacy(), calibration="none", sigma=0.0, says=None)
    first, second = (
        final_parameters(learner, silent, users, runs=1, seed=0, outcome=outcome)[0] for users in (one, other)
    )
    require(bool((first != second).any()), "the two data sets must differ in their statistics", "no difference")
    direction = (first - second) / np.linalg.norm(first - second)
    middle = float(direction @ (first + second)) / 2.0
    return lambda theta: float(direction @ theta) - middle


def curator_runs(parts: Assembled, trials: int, seed: int) -> list[Scores]:
    """All batches of the schedule again and again, and the policies that follow from the canary's."""
    privatizer: Any = parts.privatizer
    learner, shape, sizes = parts.learner, privatizer.shape, [batch.users for batch in privatizer.batches]
    streams = seed_streams(seed)
    belief, plan = learner.plan(learner.begin(), streams.learner)
    if plan.users is None or plan.query is None:
        raise InvalidInput("the first batch releases nothing; audit with more episodes")
    policy = tabular(plan.policy)
    crowd = flow_counts(parts.mdp, policy, sizes[0] - 1, streams.world)
    later = [flow_counts(parts.mdp, policy, users, streams.world) for users in sizes[1:]]
    worlds = [
        [join_counts([count_trajectories(canary, shape.num_states, shape.num_actions), crowd]), *later]
        for canary in canaries(shape, 1)
    ]
    was, became = (np.array([_counters(privatizer, batch) for batch in world]) for world in worlds)
    # Σ⁻¹u, and d, which is not zero in the first batch only
    weights = np.linalg.inv(privatizer.batch_covariance(sizes, privatizer.following))[:, 0]
    moved = became[0] - was[0]
    white, black = [], []
    for world, batches in enumerate(worlds):
        noise = SimulationNoise(np.random.default_rng([seed, 29, world]))
        scores = np.empty(trials)
        for trial in range(trials):
            state, seen = privatizer.begin(), []
            for batch in batches:
                state, released = privatizer.release(state, batch, plan.query, noise)
                seen.append(_counters(privatizer, released.statistics))
            scores[trial] = weights @ (np.array(seen) - was) @ moved
        white.append(scores)
        rng, tables = np.random.default_rng([seed, 31, world]), []
        for _ in range(max(100, trials // 25)):
            _, released = privatizer.release(privatizer.begin(), batches[0], plan.query, noise)
            _, after = learner.plan(learner.update(belief, released), rng)
            policies = [after.policy, *(policy for policy, _ in after.groups)]
            tables.append(np.mean([tabular(one).probabilities(shape.num_actions) for one in policies], axis=0).ravel())
        black.append(np.array(tables))
    return [
        (f"white-box: all {len(sizes)} batches", white[0], white[1], f"the first of {sizes[0]}"),
        ("black-box: the next policies", *linear_scores(black[0], black[1]), f"batch of {sizes[0]}"),
    ]


def _counters(privatizer: CentralBatches, counts: ExactCounts | Any) -> np.ndarray[Any, Any]:
    """Counts, exact or released, as the independent counters that carry noise."""
    moves = np.array(counts.transitions, dtype=np.float64)
    moves[privatizer.shape.horizon - 1] = 0.0  # nobody releases the successors of the last step
    parts = (moves, counts.visits, counts.rewards, counts.rewards)
    record = np.concatenate([np.asarray(part, dtype=np.float64).ravel() for part in parts])
    return np.concatenate(list(counters_of(privatizer.families(), privatizer.shape, record).values()))


AUDITED_LEARNERS: Final = tuple(
    name for name, row in LEARNERS.items() if not row.reference and (row.losses is None or row.losses.private is None)
)
"""Everything that can learn in private, by name."""

LAYERED: Final = LayeredShape(horizon=2, pairs=4, pair_of=(0, 0, 1, 1, 2, 3))
"""Two layers of two pairs; the pairs of the first one have two successors each."""
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
    return BANDIT if LEARNERS[parse_learner(learner)[0]].asks is SoftmaxQuery else SMALL


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
    constants: Constants | None = None,
    settings: Mapping[str, Any] | None = None,
    trials: int = 50_000,
    false_alarm: float = 0.01,
    seed: int = 0,
) -> tuple[Finding, ...]:
    """Attack a whole learner; one finding for each adversary. `settings` are other options of a run, by name."""
    attacked = learner_target(
        learner,
        trust=trust,
        epsilon=epsilon,
        delta=delta,
        environment=environment,
        episodes=episodes,
        mechanism=mechanism,
        calibration=calibration,
        constants=constants,
        settings=settings,
    )
    return attack_learner(shown_learner(learner, constants, settings), attacked, trials, false_alarm, seed)


def learner_target(
    learner: str,
    *,
    trust: str,
    epsilon: float,
    delta: float,
    environment: str | None = None,
    episodes: int | None = None,
    mechanism: str | None = None,
    calibration: str = "tight",
    constants: Constants | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Assembled | AdversarialPrivatizer:
    """What is attacked of a learner: the parts of a small run, or the privatizer where policies follow from it."""
    name, options = parse_learner(learner)
    told = options.get("transitions") == "known"
    if name not in AUDITED_LEARNERS and not (told and name in LEARNERS):
        raise UnknownName("learner that can be private", name, AUDITED_LEARNERS)
    require(trust != "none", "trust must be central, shuffle or local", trust, "without trust nothing is claimed")
    row = LEARNERS[name]
    if row.losses is not None:
        require(constants is None, "learners of losses have no constants to choose", constants)
        row.check(name, options)
        facts = replace(row.losses, known=row.losses.known or told)
        return _loss_privatizer(facts, trust, epsilon, delta, calibration, **(settings or {}))
    batches, batch = trust == "shuffle" or row.asks in (SoftmaxQuery, ReturnQuery, BatchQuery), None
    if row.asks is SoftmaxQuery:
        batch = 8
    if trust == "shuffle" and row.asks is Totals:
        batch = STAGED_USERS // 4
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
        constants=constants,
        **(settings or {}),
    )
    return assemble(config)


def shown_learner(learner: str, constants: Constants | None, settings: Mapping[str, Any] | None) -> str:
    """A learner with what was chosen about its run, for tables.

    >>> shown_learner("bucb", "valid", {"support": "declared"})
    'bucb, valid constants, support=declared'
    """
    chosen = [] if constants is None else [f"{constants} constants"]
    return ", ".join([learner, *chosen, *(f"{name}={value}" for name, value in (settings or {}).items())])


def attack_learner(shown: str, attacked: Any, trials: int, false_alarm: float, seed: int) -> tuple[Finding, ...]:
    """The findings of what `learner_target` made."""
    require_count("trials", trials, least=100)
    if not isinstance(attacked, Assembled):
        return _follows(shown, attacked, trials, false_alarm, seed)
    learner: object = attacked.learner
    private: object = attacked.privatizer
    if isinstance(private, OneBitReturns):
        return _follows(shown, private, trials, false_alarm, seed)
    if isinstance(learner, GradientLearner):
        scores: Any = gradient_runs(attacked, trials // 2, seed)
    elif isinstance(private, Staged) and isinstance(private.first, ShuffleRelease):
        scores = batch_runs(attacked, trials, seed)
    elif isinstance(private, CentralBatches):
        scores = curator_runs(attacked, trials, seed)
    elif isinstance(learner, KernelLearner) and attacked.privatizer.kernel is not None:
        scores = single_runs(attacked, attacked.config.episodes - 1, trials, seed)
    else:
        raise NotSupported(f"{shown} with {attacked.privatizer.name} is neither one user at a time nor in batches")
    return tuple(
        attack(target_of(shown, attacked, view), first, second, false_alarm=false_alarm / len(scores), note=note)
        for view, first, second, note in scores
    )


def target_of(learner: str, parts: Assembled, view: str) -> Target:
    """What is said about a learner."""
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


def _follows(shown: str, privatizer: Any, trials: int, false_alarm: float, seed: int) -> tuple[Finding, ...]:
    """Learners of returns or losses: policies are computed from the releases, which are attacked directly."""
    found = audit_privatizer(privatizer, trials=trials, false_alarm=false_alarm, seed=seed)
    note = "policies follow from the releases"
    return (replace(found, kind="learner", name=shown, view=f"white-box: {found.view}", note=note),)


def _loss_privatizer(
    facts: LossFacts, trust: str, epsilon: float, delta: float, calibration: str, *, public_losses: bool = False
) -> AdversarialPrivatizer:
    """What a learner of adversarial losses is shown of a small layered world."""
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
    return make_adversarial(
        shape=LAYERED,
        claim=make_claim(asked),
        episodes=USERS,
        feedback=facts.feedback,
        calibration=calibration,  # type: ignore[arg-type]
        public_losses=public_losses,
        known_transitions=facts.known,
    )
