"""Simulation only: people with rows of features, and the judge of what they missed.

Regret is that of the people who came: what the best action promises to each of them, less what the action that was
taken promises. The value of the best policy, and of the uniform one, is a mean over rows from fixed coins.

Live worlds of one decision (`tacit.live(..., features=...)`) have returns and no regret.

Simulation only: worlds seen through features. People live in the states; everybody else sees features.

Users are walked through the states under the lifted policy, and their states are replaced by features before anything
is counted. Regret is that of the lifted policies, against the optimum over the states.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.data.counts import ExactCounts, count_trajectories
from tacit.data.simulator_users import Measured
from tacit.data.trajectories import FeatureUsers, Trajectories, World, prepare_world, roll_out, walk
from tacit.environments.bandits import FeatureBandit
from tacit.environments.discretise import Rows
from tacit.environments.live import LiveWorld, clipped, scaled
from tacit.environments.state_features import SeenMDP
from tacit.environments.tabular import TabularMDP
from tacit.errors import InvalidInput, NotSupported, require
from tacit.kernels import inlined, lean_kernel
from tacit.planning.dynamic import solve, value_of
from tacit.policies import AnyPolicy, LinearPolicy, tabular, uniform_policy
from tacit.protocol import Kernel, Measures, Plan
from tacit.released.batches import BatchQuery
from tacit.released.moments import MomentQuery
from tacit.released.returns import ReturnQuery
from tacit.simulation.judges.live import EVALUATION_STREAM, Estimate, LiveJudge, ReturnMeasures, estimate_of
from tacit.simulation.judges.tabular import TabularJudge, Tally, record_regret, refresh, truth_of

CHUNK: Final = 1 << 19
"""Numbers of rows that are held at once."""
MEASURED: Final = 200_000
"""Rows over which values are averaged."""


class VisitedUsers(FeatureUsers):
    """Simulation only: people together with what each of them missed."""

    missed: Floats
    """[n]"""


class FeatureSampler:
    """Batches of people who follow one linear policy."""

    act: Kernel | None = None
    buffers: Any = None
    chunk = 1_000_000

    def __init__(self, world: FeatureBandit) -> None:
        self._world = world

    def arrays(self, done: int, users: int) -> Any:
        """There are no kernels."""
        return None

    def draw(self, plan: Plan[MomentQuery], users: int, rng: np.random.Generator) -> VisitedUsers:
        """Rows, actions and rewards; a public lot comes before everything else."""
        world, policy = self._world, plan.policy
        if not isinstance(policy, LinearPolicy):
            raise InvalidInput(f"rows of features need a linear policy, got a {type(policy).__name__}")
        lots = plan.query is not None and plan.query.lots
        step = max(1, CHUNK // (world.features * (world.actions if world.shared else 1)))
        parts = [self._visit(policy, lots, min(step, users - first), rng) for first in range(0, users, step)]
        x, actions, rewards, given, missed = (np.concatenate(column) for column in zip(*parts, strict=True))
        found = VisitedUsers(x, actions, rewards, given)
        found.missed = missed
        return found

    def _visit(
        self, policy: LinearPolicy, lots: bool, people: int, rng: np.random.Generator
    ) -> tuple[Floats, Ints, Floats, Ints, Floats]:
        world = self._world
        given = rng.integers(0, world.actions, people) if lots else np.full(people, -1)
        x = world.contexts(people, rng)
        actions = given if lots else policy.choose(x, rng)
        means = world.means(x)
        promised = means[np.arange(people), actions]
        rewards = (rng.random(people) < promised).astype(np.float64)
        return world.own_rows(x, actions), actions, rewards, given, means.max(axis=1) - promised


class FeatureJudge:
    """Pseudo-regret of the very people who came."""

    truth: Any = None
    tally: Any = None
    curves: Any = None
    count: Kernel
    record: Kernel

    def __init__(self, world: FeatureBandit, checkpoints: Ints) -> None:
        self._world = world
        self._checkpoints, self._curve = checkpoints, np.zeros(len(checkpoints))
        self._total, self._changes = 0.0, 0
        self._last: LinearPolicy | None = None

    def see(self, learner: Any, belief: Any, plan: Plan[Any], users: VisitedUsers, done: int, number: int) -> None:
        """Count a batch, person by person."""
        self._changes += plan.policy is not self._last
        self._last = plan.policy if isinstance(plan.policy, LinearPolicy) else None
        self._take(users, done, number)

    def _take(self, users: VisitedUsers, done: int, number: int) -> None:
        total = self._total + np.cumsum(users.missed)
        inside = (self._checkpoints > done) & (self._checkpoints <= done + number)
        self._curve[inside] = total[self._checkpoints[inside] - done - 1]
        self._total = float(total[-1])

    def finish(self, learner: Any, belief: Any, rounds: int, done: int) -> Measures:
        """The regret at the checkpoints; those who are left are served by the last policy, with coins of their own."""
        left = int(self._checkpoints[-1]) - done
        if left > 0 and self._last is not None:
            plan: Plan[MomentQuery] = Plan(policy=self._last, users=left, query=None)
            self._take(FeatureSampler(self._world).draw(plan, left, np.random.default_rng(done)), done, left)
        return Measures(self._curve, self._changes, {})


class FeatureWorld:
    """A bandit over rows of features."""

    def __init__(self, bandit: FeatureBandit) -> None:
        self.environment, self.name = bandit, bandit.name

    def fits(self, shape: Any, part: str) -> None:
        """Raise unless features, actions and parameters agree."""
        bandit = self.environment
        wanted = (bandit.features, bandit.actions, bandit.shared)
        sizes = (shape.features, shape.actions, shape.shared)
        require(sizes == wanted, f"the {part} must have the features, actions, shared {wanted} of the world", sizes)

    def values(self) -> tuple[float, float]:
        """The mean reward of the best policy and of the uniform one, over fixed rows."""
        return _values(self.environment)

    def sampler(self, learner: Any, *, episodes: int, seed: int) -> FeatureSampler:
        """Batch by batch."""
        return FeatureSampler(self.environment)

    def judge(self, learner: Any, checkpoints: Ints) -> FeatureJudge:
        """Pseudo-regret."""
        return FeatureJudge(self.environment, checkpoints)


@lru_cache(maxsize=64)  # the runs of a sweep share their world
def _values(bandit: FeatureBandit) -> tuple[float, float]:
    rng, best, alike = np.random.default_rng(0), 0.0, 0.0
    step = max(1, CHUNK // (bandit.features * (bandit.actions if bandit.shared else 1)))
    for first in range(0, MEASURED, step):
        means = bandit.means(bandit.contexts(min(step, MEASURED - first), rng))
        best, alike = best + float(means.max(axis=1).sum()), alike + float(means.mean(axis=1).sum())
    return best / MEASURED, alike / MEASURED


class LiveRows(FeatureUsers):
    """Simulation only: people of a live world with what the simulator saw of them."""

    measured: Measured


class LiveFeatureSampler:
    """People who step through an environment once each: a row is observed, an action taken, a reward paid."""

    act: Kernel | None = None
    buffers: Any = None
    chunk = 1_000_000

    def __init__(self, world: LiveWorld, *, seed: int) -> None:
        self._world, self._seed = world, seed
        self._made: Any = None

    def arrays(self, done: int, users: int) -> Any:
        """There are no kernels."""
        return None

    def draw(self, plan: Plan[MomentQuery], users: int, rng: np.random.Generator) -> LiveRows:
        """One person after the other."""
        lots = plan.query is not None and plan.query.lots
        return self.play(plan.policy, users, rng, lots=lots)

    def play(self, policy: Any, users: int, rng: np.random.Generator, *, lots: bool = False) -> LiveRows:
        """Let so many people follow the policy, or public lots."""
        world = self._world
        if not isinstance(policy, LinearPolicy):
            raise InvalidInput(f"rows of features need a linear policy, got a {type(policy).__name__}")
        rule, seed = rows_of(world), None
        if self._made is None:
            self._made, seed = world.make(), int(rng.integers(2**31))
        made: Any = self._made
        x = np.zeros((users, rule.features.dimension))
        actions, earned = np.zeros(users, dtype=np.int64), np.zeros(users)
        given = rng.integers(0, world.num_actions, users) if lots else np.full(users, -1)
        for i in range(users):
            observation, _ = made.reset(seed=seed)
            seed = None
            x[i] = rule.encode([observation])[0]
            actions[i] = given[i] if lots else policy.choose(x[i : i + 1], rng)[0]
            for _ in range(world.repeat):
                _, reward, ended, cut, _ = made.step(world.first_action + int(actions[i]))
                earned[i] += float(reward)
                if ended or cut:
                    break
        earned, outside = clipped(world, earned)
        found = LiveRows(x, actions, scaled(world, earned), given)
        found.measured = Measured(earned, outside, users, self._seed)
        return found


def rows_of(world: LiveWorld) -> Rows:
    """What observations of this world mean as rows."""
    if not isinstance(world.discretiser, Rows):
        raise NotSupported(
            f"{world.name} has states, and linear learners need rows: make it with "
            "tacit.live(..., features=Features(...)), or use another learner"
        )
    return world.discretiser


class LiveFeatureJudge(LiveJudge):
    """Returns, and no regret."""

    def finish(self, learner: Any, belief: Any, rounds: int, done: int) -> Measures:
        """Serve those who are left by the last policy, then measure policies with fresh people."""
        world, episodes = self._world, int(self._checkpoints[-1])
        children = np.random.SeedSequence(self._seed, spawn_key=(EVALUATION_STREAM,)).spawn(3)
        left, final, alike = (np.random.Generator(np.random.PCG64(child)) for child in children)
        policy = learner.policy(belief, self._last)
        if done < episodes:
            self._take(LiveFeatureSampler(world, seed=self._seed).play(policy, episodes - done, left).measured, done)
        shape = (1, learner.shape.slots, learner.shape.features)
        uniform = LinearPolicy(np.zeros(shape), learner.shape.actions, uniform=True)

        def measured(followed: LinearPolicy, rng: np.random.Generator) -> Estimate:
            played = LiveFeatureSampler(world, seed=0).play(followed, world.evaluation, rng)
            return estimate_of(played.measured.returns)

        found = ReturnMeasures(
            total=tuple(self._total.tolist()),
            squares=tuple(self._square.tolist()),
            final=measured(policy, final),
            uniform=measured(uniform, alike),
            baseline=None,
            clipped=self._clipped / max(1, self._decisions),
            length=self._decisions / episodes,
        )
        return Measures(np.full(len(self._checkpoints), np.nan), self._changes, {"returns": found})


class LiveFeatureWorld:
    """A live world of one decision, for linear learners."""

    def __init__(self, world: LiveWorld) -> None:
        self.environment, self.name = world, world.name

    def fits(self, shape: Any, part: str) -> None:
        """Raise unless features and actions agree."""
        wanted = (rows_of(self.environment).features.dimension, self.environment.num_actions, False)
        sizes = (shape.features, shape.actions, shape.shared)
        require(sizes == wanted, f"the {part} must have the features, actions, shared {wanted} of the world", sizes)

    def values(self) -> tuple[float, float]:
        """They are not known."""
        return float("nan"), float("nan")

    def sampler(self, learner: Any, *, episodes: int, seed: int) -> LiveFeatureSampler:
        """Fresh environments for every run."""
        return LiveFeatureSampler(self.environment, seed=seed)

    def judge(self, learner: Any, checkpoints: Ints) -> LiveFeatureJudge:
        """Returns, and no regret."""
        return LiveFeatureJudge(self.environment, checkpoints)


PEOPLE: Final = 100_000
_walked = inlined(walk)
_refreshed = inlined(refresh)


@dataclass(frozen=True, slots=True, eq=False)
class SeenTrajectories(Trajectories):
    """Trajectories over features, and beside them what only the simulator sees: the first states."""

    first: Ints

    def __repr__(self) -> str:
        return f"SeenTrajectories({len(self.actions)} users)"  # never their contents


class SeenWalked(NamedTuple):
    """One user as kernels see it: features[H+1], actions[H], rewards[H]; the first state is the simulator's own."""

    states: Ints
    actions: Ints
    rewards: Floats
    first: Ints

    def __repr__(self) -> str:
        return "SeenWalked()"  # never their contents


class SeenArrays(NamedTuple):
    """The alias tables of the states, the map, and room for a lifted policy."""

    world: World
    features: Ints
    lifted: Ints


@lean_kernel
def act_seen(world: SeenArrays, belief: Any, users: SeenWalked, rng: np.random.Generator) -> None:
    """One user follows the policy of the belief, which is over features."""
    H, S = world.lifted.shape
    for h in range(H):
        for s in range(S):
            world.lifted[h, s] = belief.policy[h, world.features[s]]
    _walked(world.world, world.lifted, rng, users.states, users.actions, users.rewards)
    users.first[0] = users.states[0]
    for h in range(H + 1):
        users.states[h] = world.features[users.states[h]]


class SeenTruth(NamedTuple):
    """The true model over the states, the optimal values, the map, and room for a lifted policy."""

    P: Floats
    r: Floats
    best: Floats
    features: Ints
    lifted: Ints


@lean_kernel
def count_seen(truth: Any, tally: Tally, parameters: Any, belief: Any, users: Any) -> None:
    """Add one user: V*(s_1) - V^π(s_1) of the lifted policy."""
    H, S = truth.lifted.shape
    for h in range(H):
        for s in range(S):
            truth.lifted[h, s] = belief.policy[h, truth.features[s]]
    _refreshed(truth, tally, truth.lifted)
    tally.regret[0] += truth.best[users.first[0]] - tally.V[0, users.first[0]]


class SeenSampler:
    """Users of a world seen through features."""

    chunk = PEOPLE

    def __init__(self, seen: SeenMDP, *, alone: bool, paths: bool) -> None:
        self._seen, self._world, self._paths = seen, prepare_world(seen.mdp), paths
        H, S = seen.horizon, seen.mdp.num_states
        self.act: Kernel | None = act_seen if alone else None
        steps, first = np.zeros(H + 1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        self.buffers = SeenWalked(steps, np.zeros(H, dtype=np.int64), np.zeros(H), first)
        self._arrays = SeenArrays(self._world, seen.map, np.zeros((H, S), dtype=np.int64))

    def arrays(self, done: int, users: int) -> SeenArrays:
        """What the kernel draws users from."""
        return self._arrays

    def draw(self, plan: Plan[Any], users: int, rng: np.random.Generator) -> Trajectories | ExactCounts:
        """One group after the other, as the plan has them: trajectories where they are wanted, counts otherwise."""
        groups = []
        for policy, count in plan.arms(users):
            if count > 0:
                drawn = roll_out(self._world, self._seen.lift(policy), count, rng)
                rewards = drawn.rewards
                if self._seen.rounded and self._seen.mdp.reward_kind != "bernoulli":
                    rewards = (rng.random(rewards.shape) < rewards).astype(np.float64)
                groups.append(
                    SeenTrajectories(self._seen.map[drawn.states], drawn.actions, rewards, drawn.states[:, 0])
                )
        names = ("states", "actions", "rewards", "first")
        whole = SeenTrajectories(*(np.concatenate([getattr(group, name) for group in groups]) for name in names))
        if self._paths or (users == 1 and not isinstance(plan.query, BatchQuery)):
            return whole
        S = self._seen.mdp.num_states
        starts = tuple(np.bincount(group.first, minlength=S).astype(np.int64) for group in groups)
        counts = count_trajectories(whole, self._seen.num_states, self._seen.num_actions)
        binary = self._seen.rounded or self._seen.mdp.reward_kind == "bernoulli"
        starting = np.asarray(np.sum(starts, axis=0))
        return replace(counts, starts=starting, binary=binary, groups=starts if plan.groups else ())


class SeenJudge(TabularJudge):
    """Pseudo-regret of lifted policies, against the optimum over the states."""

    count = staticmethod(count_seen)
    record = staticmethod(record_regret)

    def __init__(self, seen: SeenMDP, checkpoints: Ints) -> None:
        super().__init__(seen.mdp, checkpoints)
        H, S = seen.horizon, seen.mdp.num_states
        self._seen, self._lifts = seen, dict[int, tuple[AnyPolicy, AnyPolicy]]()
        known = truth_of(seen.mdp)
        self.truth: Any = SeenTruth(known.P, known.r, known.best, seen.map, np.zeros((H, S), dtype=np.int64))

    def _lifted(self, policy: AnyPolicy) -> AnyPolicy:
        """The same object for the same policy: changes are counted by identity."""
        kept = self._lifts.get(id(policy))
        if kept is None or kept[0] is not policy:
            self._lifts = {id(policy): (policy, self._seen.lift(policy))}
        return self._lifts[id(policy)][1]

    def see(
        self, learner: Any, belief: Any, plan: Plan[Any], users: Trajectories | ExactCounts, done: int, number: int
    ) -> None:
        """Count a round by the first states and the lifted policies."""
        groups = tuple((tabular(self._seen.lift(policy)), count) for policy, count in plan.groups)
        lifted = replace(plan, policy=self._lifted(plan.policy), groups=groups)
        if isinstance(users, SeenTrajectories):
            users = Trajectories(users.first[:, np.newaxis], users.actions, users.rewards)
        super().see(learner, belief, lifted, users, done, number)


class SizedWorld:
    """What worlds with a horizon, states (or features in their place) and actions share."""

    def __init__(self, environment: Any) -> None:
        self.environment, self.name = environment, environment.name

    def fits(self, shape: Any, part: str) -> None:
        """Raise unless horizon, states and actions agree: kernels do not check their indices."""
        wanted, sizes = ((sized.horizon, sized.num_states, sized.num_actions) for sized in (self.environment, shape))
        require(sizes == wanted, f"the {part} must have the horizon, states, actions {wanted} of the world", sizes)


@lru_cache(maxsize=16)  # the runs of a sweep share their table
def tabular_values(mdp: TabularMDP) -> tuple[float, float]:
    """V* and the value of the uniform policy, averaged over first states."""
    P, r = np.array(mdp.stage_P), np.array(mdp.stage_r)
    _, best, _ = solve(P, r, mdp.horizon)
    uniform = uniform_policy(mdp.horizon, mdp.num_states, mdp.num_actions)
    found = value_of(P, r, uniform.probabilities(mdp.num_actions))
    return float(mdp.rho @ best[0]), float(mdp.rho @ found[0])


class SeenWorld(SizedWorld):
    """A world seen through features, for learners of counts and of returns."""

    def values(self) -> tuple[float, float]:
        """V* over the states, and the value of the uniform policy."""
        return tabular_values(self.environment.mdp)

    def sampler(self, learner: Any, *, episodes: int, seed: int) -> SeenSampler:
        """One by one where the learner plans after every user."""
        alone = getattr(learner, "users_per_batch", None) == 1
        return SeenSampler(self.environment, alone=alone, paths=self.environment.paths or learner.asks is ReturnQuery)

    def judge(self, learner: Any, checkpoints: Ints) -> SeenJudge:
        """Pseudo-regret over the states."""
        return SeenJudge(self.environment, checkpoints)
