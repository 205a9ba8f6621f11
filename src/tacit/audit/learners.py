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

Runs of learners whose batches a trusted curator releases, with a canary in the first: scores of two worlds.

The noise of a schedule may be correlated: what later batches show of their noise tells about that of the canary's. The
white box sees them all and weighs them by the exact law of the noise, which is Gaussian: with covariance Σ over the
batches and d what the canary moves in the first one, the likelihood ratio of everything is a function of

    Σ_counters d · e'Σ⁻¹u,     e the noise that each batch would have in the first world, u the first unit vector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from tacit.audit.attack import Finding, Target, attack
from tacit.audit.records import canaries, counters_of
from tacit.audit.runs import Scores, batch_runs, gradient_runs, linear_scores, single_runs
from tacit.audit.views import audit_privatizer
from tacit.data.counts import ExactCounts, count_trajectories, flow_counts, join_counts
from tacit.errors import InvalidInput, NotSupported, UnknownName, require, require_count
from tacit.learners.contract import KernelLearner
from tacit.learners.gradient import GradientLearner
from tacit.learners.table import LEARNERS, LossFacts
from tacit.policies import tabular
from tacit.protocol import Constants, Totals
from tacit.randomness import SimulationNoise, seed_streams
from tacit.release.central_batches import CentralBatches
from tacit.release.losses import AdversarialPrivatizer, make_adversarial
from tacit.release.request import PrivacyRequest, make_claim
from tacit.release.returns import OneBitReturns
from tacit.release.shuffle_release import ShuffleRelease
from tacit.release.staged import Staged
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountShape
from tacit.released.gradients import SoftmaxQuery
from tacit.released.losses import LayeredShape
from tacit.released.returns import ReturnQuery
from tacit.runs.assemble import Assembled, assemble
from tacit.runs.config import RunConfig, parse_learner


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
