"""Simulation only: the worlds that users live in, each with its sampler and its judge.

    TabularWorld   one user after the other, or whole batches at once, in a tabular MDP; deterministic policies or any
    SoftmaxWorld   batches of users of a tabular MDP who follow one stochastic policy
    ReturnWorld    groups of users of a tabular MDP, each of which follows a policy of its own
    GameWorld      a layered world where an adversary chooses the losses of every episode
    DoseWorld      contexts, real-valued doses and binary outcomes

Live worlds have no table: their users step through an environment. People with rows of features stand in
`tacit.simulation.features`.

An environment of another package may be a `World` itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.data.counts import ExactCounts, flow_counts, flow_groups
from tacit.data.gradients import Clinic, Dosed, draw_doses, draw_users, prepare_clinic
from tacit.data.simulator_users import LiveCounts, LiveTrajectories, Players, count_live, join_live, join_trajectories
from tacit.data.trajectories import (
    LayeredWorld,
    LossUser,
    Trajectories,
    Walked,
    prepare_layered,
    prepare_world,
    roll_out,
    walk,
    walk_layered,
)
from tacit.environments.bandits import DoseBandit, FeatureBandit
from tacit.environments.layered import LayeredMDP, LossGame
from tacit.environments.live import LiveWorld
from tacit.environments.state_features import SeenMDP
from tacit.environments.tabular import TabularMDP
from tacit.errors import InvalidInput, NotSupported, require
from tacit.kernels import inlined, kernel, lean_kernel
from tacit.learners.network import NetworkLearner
from tacit.planning.layered import layered_geometry, layered_shape
from tacit.policies import LayeredPolicy, tabular
from tacit.protocol import Kernel, Plan, Query, Totals, World
from tacit.released.batches import BatchQuery
from tacit.released.gradients import DoseQuery, SoftmaxQuery
from tacit.released.losses import LayeredShape, LossQuery
from tacit.released.moments import MomentQuery
from tacit.released.returns import ReturnQuery
from tacit.simulation.features import FeatureWorld, LiveFeatureWorld, SeenWorld, SizedWorld, tabular_values
from tacit.simulation.judges.games import GameJudge, expected_loss, hindsight, loss_truth
from tacit.simulation.judges.live import LiveJudge
from tacit.simulation.judges.softmax import DoseJudge, NetworkJudge, SoftmaxJudge
from tacit.simulation.judges.tabular import TabularJudge


class LiveSampler:
    """Users of a live world: trajectories or counts, as the queries want them."""

    act: Kernel | None = None
    buffers: Any = None
    chunk = 1_000_000

    def __init__(self, world: LiveWorld, *, seed: int, counts: bool) -> None:
        self._world, self._counts = world, counts
        self._players = Players(world, seed=seed)

    def arrays(self, done: int, users: int) -> Any:
        """There is no kernel to draw anything from."""
        return None

    def draw(self, plan: Plan[Query], users: int, rng: np.random.Generator) -> LiveTrajectories | LiveCounts:
        """The groups in the order that the plan has them in."""
        arms = [(tabular(policy), count) for policy, count in plan.arms(users) if count > 0]
        parts = self._players.play_groups(arms, rng)
        alone = users == 1 and not isinstance(plan.query, BatchQuery)
        if not self._counts or alone:
            return parts[0] if len(parts) == 1 else join_trajectories(parts)
        counted = [count_live(self._world, part, rng) for part in parts]
        return join_live(counted) if plan.groups else counted[0]


class LiveCountWorld(SizedWorld):
    """A live world for learners of counts."""

    counts = True

    def values(self) -> tuple[float, float]:
        """Nobody knows them."""
        return float("nan"), float("nan")

    def sampler(self, learner: Any, *, episodes: int, seed: int) -> LiveSampler:
        """Fresh environments for every run."""
        return LiveSampler(self.environment, seed=seed, counts=self.counts)

    def judge(self, learner: Any, checkpoints: Ints) -> LiveJudge:
        """Returns, and no regret."""
        return LiveJudge(self.environment, checkpoints)


class LivePathWorld(LiveCountWorld):
    """A live world for learners of gradients or returns, which take whole trajectories."""

    counts = False


Asked = TypeVar("Asked", bound=Query)

CHUNK: Final = 100_000
"""The compiled loop returns to Python at least this often, for progress and interruption."""
BATCH_CHUNK: Final = 1_000_000
"""The same where users come in batches."""
BLOCK: Final = 20_000
"""Episodes whose losses are in memory at once; the compiled loop returns to Python as often."""
ADVERSARY_STREAM: Final = 3
"""The adversary's coins: the child after those of world, learner and noise."""

_walked = inlined(walk)


@lean_kernel
def act_one(world: Any, belief: Any, users: Any, rng: np.random.Generator) -> None:
    """One user follows the deterministic policy of the belief."""
    _walked(world, belief.policy, rng, users.states, users.actions, users.rewards)


@kernel
def act_batch(world: Any, belief: Any, users: Any, rng: np.random.Generator) -> None:
    """A batch of users follows the stochastic policy of the belief."""
    draw_users(world, belief.table, rng, users.states, users.actions, users.rewards)


class Dosing(NamedTuple):
    """A clinic, and the preferred doses of the present policy."""

    clinic: Clinic
    means: Floats


@kernel
def act_doses(world: Dosing, belief: Any, users: Any, rng: np.random.Generator) -> None:
    """A batch of users gets doses around θ·x_s."""
    features = world.clinic.features
    for s in range(features.shape[0]):
        world.means[s] = 0.0
        for j in range(features.shape[1]):
            world.means[s] += belief.theta[j] * features[s, j]
    draw_doses(world.clinic, world.means, rng, users.states, users.actions, users.rewards)


class Arena(NamedTuple):
    """A layered world, the losses of the coming episodes, and which of them comes next."""

    world: LayeredWorld
    losses: Floats
    """[episodes, pairs]"""
    next: Ints
    """[1]"""
    full: bool
    """Whether users see the losses of all pairs, or of those that they visit."""


@lean_kernel
def act_game(world: Arena, belief: Any, users: LossUser, rng: np.random.Generator) -> None:
    """One user follows the policy of the belief against the losses of the present episode."""
    episode = world.next[0]
    walk_layered(world.world, belief.policy, rng, users.pairs, users.triples)
    for pair in range(users.row.shape[0]):
        users.row[pair] = world.losses[episode, pair]
    if world.full:
        for pair in range(users.row.shape[0]):
            users.losses[pair] = users.row[pair]
    else:
        for h in range(users.pairs.shape[0]):
            users.losses[h] = users.row[users.pairs[h]]
    world.next[0] = episode + 1


class TabularSampler:
    """Users of a tabular MDP: kernels draw one, everybody else trajectories or counts."""

    chunk = CHUNK

    def __init__(self, mdp: TabularMDP, *, alone: bool) -> None:
        self._mdp, self._world = mdp, prepare_world(mdp)
        H = mdp.horizon
        self.act: Kernel | None = act_one if alone else None
        self.buffers = Walked(np.zeros(H + 1, dtype=np.int64), np.zeros(H, dtype=np.int64), np.zeros(H))

    def arrays(self, done: int, users: int) -> Any:
        """The alias tables."""
        return self._world

    def draw(self, plan: Plan[Any], users: int, rng: np.random.Generator) -> Trajectories | ExactCounts:
        """One user as a trajectory; more, and batches with queries of their own, as counts."""
        if plan.groups:
            arms = [(tabular(policy), count) for policy, count in plan.arms(users) if count > 0]
            return flow_groups(self._mdp, arms, rng)
        if users == 1 and not isinstance(plan.query, BatchQuery):
            return roll_out(self._world, tabular(plan.policy), 1, rng)
        return flow_counts(self._mdp, tabular(plan.policy), users, rng)


class ReturnSampler:
    """Groups of users of a tabular MDP: trajectories where their returns are asked, counts where nobody is."""

    act: Kernel | None = None
    buffers: Any = None
    chunk = BATCH_CHUNK

    def __init__(self, mdp: TabularMDP) -> None:
        self._mdp, self._world = mdp, prepare_world(mdp)

    def arrays(self, done: int, users: int) -> Any:
        """The alias tables."""
        return self._world

    def draw(self, plan: Plan[ReturnQuery], users: int, rng: np.random.Generator) -> Trajectories | ExactCounts:
        """One group after the other, as the plan has them."""
        if plan.query is None and not plan.groups:
            return flow_counts(self._mdp, tabular(plan.policy), users, rng)
        arms = [(tabular(policy), count) for policy, count in plan.arms(users) if count > 0]
        parts = [roll_out(self._world, policy, count, rng) for policy, count in arms]
        fields = ("states", "actions", "rewards")
        return Trajectories(*(np.concatenate([getattr(part, name) for part in parts]) for name in fields))


class SoftmaxSampler:
    """Batches of users of a tabular MDP under one stochastic policy."""

    act = staticmethod(act_batch)
    chunk = BATCH_CHUNK

    def __init__(self, mdp: TabularMDP, users: int) -> None:
        self._world, size = prepare_world(mdp), (users, mdp.horizon)
        self.buffers = Walked(np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size))

    def arrays(self, done: int, users: int) -> Any:
        """The alias tables."""
        return self._world

    def draw(self, plan: Plan[SoftmaxQuery], users: int, rng: np.random.Generator) -> Trajectories:
        """A batch of trajectories."""
        m, H = self.buffers.actions.shape
        require(users == m, f"a batch must have exactly {m} users", users)
        drawn = Trajectories(np.zeros((m, H), np.int64), np.zeros((m, H), np.int64), np.zeros((m, H)))
        table = _asked(plan).behaviour
        draw_users(self._world, table, rng, drawn.states, drawn.actions, drawn.rewards)
        return drawn


class GameSampler:
    """Users of a layered world, one by one, and the losses that the adversary chose for each."""

    act = staticmethod(act_game)
    chunk = BLOCK

    def __init__(self, game: LossGame, *, full: bool, episodes: int, seed: int) -> None:
        most = game.adversary.episodes
        require(episodes <= most, "the adversary must have losses for all episodes", episodes)
        mdp = game.world.mdp
        self._adversary, self._episodes, self._block = game.adversary, episodes, range(0)
        self._coins = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(ADVERSARY_STREAM,))))
        H, pairs = mdp.horizon, _shape_of(mdp).pairs
        seen = np.zeros(pairs if full else H)
        self.buffers = LossUser(np.zeros(H, np.int64), np.zeros(H, np.int64), seen, np.zeros(pairs))
        self._arena = Arena(prepare_layered(mdp), np.zeros((0, pairs)), np.zeros(1, np.int64), full)

    def arrays(self, done: int, users: int) -> Arena:
        """The losses of the coming episodes, from the adversary's own coins."""
        losses = self._adversary.losses(done, users, self._coins)
        self._block = range(done, done + users)
        self._arena = self._arena._replace(losses=losses, next=np.zeros(1, np.int64))
        return self._arena

    def draw(self, plan: Plan[LossQuery], users: int, rng: np.random.Generator) -> LossUser:
        """The next user."""
        require(users == 1, "users of a game come one by one", users)
        policy = plan.policy
        if not isinstance(policy, LayeredPolicy):
            raise InvalidInput(f"a game needs a policy over pairs, got a {type(policy).__name__}")
        if self._arena.next[0] >= len(self._block):
            done = self._block.stop
            self.arrays(done, min(BLOCK, self._episodes - done))
        episode = int(self._arena.next[0])
        self._arena.next[0] += 1
        H, row = len(self.buffers.pairs), self._arena.losses[episode].copy()
        pairs, triples = np.zeros(H, np.int64), np.zeros(H, np.int64)
        walk_layered(self._arena.world, policy.flat, rng, pairs, triples)
        return LossUser(pairs, triples, row if self._arena.full else row[pairs], row)


class DoseSampler:
    """Batches of users of a dose bandit."""

    act = staticmethod(act_doses)
    chunk = BATCH_CHUNK

    def __init__(self, bandit: DoseBandit, users: int) -> None:
        self._dosing = Dosing(prepare_clinic(bandit), np.zeros(bandit.num_states))
        self._users = users
        self.buffers = self._empty()

    def _empty(self) -> Dosed:
        m = self._users
        return Dosed(np.zeros(m, np.int64), np.zeros(m), np.zeros(m))

    def arrays(self, done: int, users: int) -> Dosing:
        """The clinic."""
        return self._dosing

    def draw(self, plan: Plan[DoseQuery], users: int, rng: np.random.Generator) -> Dosed:
        """A batch of contexts, doses and outcomes."""
        require(users == self._users, f"a batch must have exactly {self._users} users", users)
        drawn = self._empty()
        draw_doses(self._dosing.clinic, _asked(plan).means, rng, drawn.states, drawn.actions, drawn.rewards)
        return drawn


class _Tabular(SizedWorld):
    """What the worlds of a tabular MDP share."""

    def values(self) -> tuple[float, float]:
        """V* and the value of the uniform policy, averaged over first states."""
        return tabular_values(self.environment)


class TabularWorld(_Tabular):
    """A tabular MDP for learners of counts."""

    def sampler(self, learner: Any, *, episodes: int, seed: int) -> TabularSampler:
        """One by one where the learner plans after every user."""
        return TabularSampler(self.environment, alone=getattr(learner, "users_per_batch", None) == 1)

    def judge(self, learner: Any, checkpoints: Ints) -> TabularJudge:
        """Pseudo-regret."""
        return TabularJudge(self.environment, checkpoints)


class ReturnWorld(_Tabular):
    """A tabular MDP for learners of returns."""

    def sampler(self, learner: Any, *, episodes: int, seed: int) -> ReturnSampler:
        """Group by group."""
        return ReturnSampler(self.environment)

    def judge(self, learner: Any, checkpoints: Ints) -> TabularJudge:
        """Pseudo-regret, by the exact values of everybody's policy."""
        return TabularJudge(self.environment, checkpoints)


class SoftmaxWorld(_Tabular):
    """A tabular MDP for policy gradients."""

    def sampler(self, learner: Any, *, episodes: int, seed: int) -> SoftmaxSampler:
        """Batches of the learner's size."""
        return SoftmaxSampler(self.environment, learner.users_per_batch)

    def judge(self, learner: Any, checkpoints: Ints) -> SoftmaxJudge:
        """Pseudo-regret, and the exact objective."""
        kind = NetworkJudge if isinstance(learner, NetworkLearner) else SoftmaxJudge
        return kind(self.environment, learner.shape.stages, learner.shape.dimension, checkpoints)


class GameWorld:
    """A layered world with an adversary."""

    def __init__(self, game: LossGame) -> None:
        self.environment, self.name = game, game.world.mdp.name

    def fits(self, shape: Any, part: str) -> None:
        """Raise unless layers, pairs and triples agree."""
        mdp = self.environment.world.mdp
        same = shape == _shape_of(mdp)
        rule = f"the {part} must have the layers {mdp.widths} and {mdp.num_actions} actions of the world"
        require(same, rule, "others")

    def values(self) -> tuple[float, float]:
        """Minus the expected losses per episode of the best fixed and of the uniform policy."""
        truth, mean = loss_truth(self.environment.world.mdp), np.array(self.environment.adversary.mean)
        states, policy = np.zeros(self.environment.num_states), np.zeros(len(mean))
        best = hindsight(truth, mean, states, policy)
        uniform = expected_loss(truth, np.full(len(mean), 1.0 / self.environment.num_actions), mean, states)
        return -best, -uniform

    def sampler(self, learner: Any, *, episodes: int, seed: int) -> GameSampler:
        """One by one, with the losses that the learner is allowed to see."""
        return GameSampler(self.environment, full=learner.feedback == "full", episodes=episodes, seed=seed)

    def judge(self, learner: Any, checkpoints: Ints) -> GameJudge:
        """Regret in hindsight."""
        return GameJudge(self.environment.world.mdp, checkpoints)


class DoseWorld:
    """A dose bandit for Gaussian policies."""

    def __init__(self, bandit: DoseBandit) -> None:
        self.environment, self.name = bandit, bandit.name

    def fits(self, shape: Any, part: str) -> None:
        """Raise unless contexts and parameters agree."""
        S, k = self.environment.features.shape
        given = (shape.num_states, shape.num_actions, shape.dimension)
        require(given == (S, 0, k), f"the {part} must have {S} contexts, real actions and {k} parameters", given)

    def values(self) -> tuple[float, float]:
        """J* and J of the first policy."""
        return self.environment.optimal_value, self.environment.objective(np.zeros(self.environment.dimension))

    def sampler(self, learner: Any, *, episodes: int, seed: int) -> DoseSampler:
        """Batches of the learner's size."""
        return DoseSampler(self.environment, learner.users_per_batch)

    def judge(self, learner: Any, checkpoints: Ints) -> DoseJudge:
        """The exact objective in closed form."""
        return DoseJudge(self.environment, checkpoints)


WORLDS: Final[Mapping[tuple[type, type], Callable[[Any], World]]] = {
    (TabularMDP, Totals): TabularWorld,
    (TabularMDP, BatchQuery): TabularWorld,
    (TabularMDP, SoftmaxQuery): SoftmaxWorld,
    (TabularMDP, ReturnQuery): ReturnWorld,
    (SeenMDP, Totals): SeenWorld,
    (SeenMDP, BatchQuery): SeenWorld,
    (SeenMDP, ReturnQuery): SeenWorld,
    (LossGame, LossQuery): GameWorld,
    (DoseBandit, DoseQuery): DoseWorld,
    (FeatureBandit, MomentQuery): FeatureWorld,
    (LiveWorld, MomentQuery): LiveFeatureWorld,
    (LiveWorld, Totals): LiveCountWorld,
    (LiveWorld, BatchQuery): LiveCountWorld,
    (LiveWorld, SoftmaxQuery): LivePathWorld,
    (LiveWorld, ReturnQuery): LivePathWorld,
}
"""Which world an environment is, for a learner that asks such queries."""


def world_of(environment: object, asks: type[Query]) -> World:
    """The world that an environment is for a learner with these queries."""
    found = WORLDS.get((type(environment), asks))
    if found is not None:
        return found(environment)
    if isinstance(environment, World):
        return environment
    words = asks.words()
    raise NotSupported(
        f"a {type(environment).__name__} has no users who can be asked for {words}; choose another environment "
        "or another learner (see 'tacit list')"
    )


def _asked(plan: Plan[Asked]) -> Asked:
    if plan.query is None:
        raise InvalidInput("users of a policy gradient are always asked; give the plan a query")
    return plan.query


def _shape_of(mdp: LayeredMDP) -> LayeredShape:
    return layered_shape(layered_geometry(mdp.widths, mdp.num_actions))
