"""Simulation only: worlds seen through features. People live in the states; everybody else sees features.

Users are walked through the states under the lifted policy, and their states are replaced by features before anything
is counted. Regret is that of the lifted policies, against the optimum over the states.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.data.counts import ExactCounts, count_trajectories
from tacit.data.trajectories import Trajectories, World, prepare_world, roll_out, walk
from tacit.environments.state_features import SeenMDP
from tacit.errors import require
from tacit.kernels import inlined, lean_kernel
from tacit.planning.dynamic import solve, value_of
from tacit.policies import AnyPolicy, tabular, uniform_policy
from tacit.protocol import Kernel, Plan
from tacit.released.batches import BatchQuery
from tacit.released.returns import ReturnQuery
from tacit.simulation.judges.tabular import TabularJudge, Tally, record_regret, refresh, truth_of

CHUNK = 100_000
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

    chunk = CHUNK

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


class SeenWorld:
    """A world seen through features, for learners of counts and of returns."""

    def __init__(self, seen: SeenMDP) -> None:
        self.environment, self.name = seen, seen.name

    def fits(self, shape: Any, part: str) -> None:
        """Raise unless horizon, features and actions agree: kernels do not check their indices."""
        seen = self.environment
        wanted = (seen.horizon, seen.num_states, seen.num_actions)
        sizes = (shape.horizon, shape.num_states, shape.num_actions)
        require(sizes == wanted, f"the {part} must have the horizon, features, actions {wanted} of the world", sizes)

    def values(self) -> tuple[float, float]:
        """V* over the states, and the value of the uniform policy."""
        mdp = self.environment.mdp
        P, r = np.array(mdp.stage_P), np.array(mdp.stage_r)
        _, best, _ = solve(P, r, mdp.horizon)
        uniform = uniform_policy(mdp.horizon, mdp.num_states, mdp.num_actions)
        found = value_of(P, r, uniform.probabilities(mdp.num_actions))
        return float(mdp.rho @ best[0]), float(mdp.rho @ found[0])

    def sampler(self, learner: Any, *, episodes: int, seed: int) -> SeenSampler:
        """One by one where the learner plans after every user."""
        alone = getattr(learner, "users_per_batch", None) == 1
        return SeenSampler(self.environment, alone=alone, paths=self.environment.paths or learner.asks is ReturnQuery)

    def judge(self, learner: Any, checkpoints: Ints) -> SeenJudge:
        """Pseudo-regret over the states."""
        return SeenJudge(self.environment, checkpoints)
