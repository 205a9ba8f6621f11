"""Sensitive: users of a live world, who act step by step in an environment that has no table.

Two ways to play, one meaning. Single environments step one user after the other; a vector environment steps many at
once and is taken for batches where there is one. In both every user plays exactly one episode of a fresh start, who
has ended is padded (state "ended", reward 0, actions as the policy chooses there) and who has not is cut at the
horizon. Which users come together never depends on what happened to them: nobody is favoured for being quick.

Small groups that follow policies of their own step together where the vector environment can leave places empty.

All coins are those of the run: the environment is seeded once, from the world's generator, and goes on from there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.data.counts import ExactCounts, count_trajectories, join_counts
from tacit.data.trajectories import Trajectories
from tacit.environments.live import LiveWorld, clipped, scaled
from tacit.errors import InvalidInput, require, require_count
from tacit.policies import DeterministicPolicy, Policy

WIDTH: Final = 250
"""How many environments of a vector environment step together."""
MIN_VECTORIZED_USERS: Final = 32
"""Batches of fewer users are played in a single environment."""


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Simulation only: what the simulator saw of some users, in the environment's own unit."""

    returns: Floats
    """[users]: sums of rewards, as they were, neither clipped nor scaled."""
    clipped: int
    """How many rewards of decisions lay outside the declared bounds."""
    decisions: int
    """How many decisions were made before episodes ended."""
    seed: int
    """Of the run they came in."""

    def __repr__(self) -> str:
        return f"Measured({len(self.returns)} users)"  # never their contents


@dataclass(frozen=True, slots=True, eq=False)
class LiveTrajectories(Trajectories):
    """Trajectories of a live world: rewards in [0, 1], and beside them what only the simulator sees."""

    measured: Measured

    def __repr__(self) -> str:
        return f"LiveTrajectories({len(self.actions)} users)"  # never their contents


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LiveCounts(ExactCounts):
    """Counts of a live world, and beside them what only the simulator sees."""

    measured: Measured

    def __repr__(self) -> str:
        return f"LiveCounts({self.users} users)"  # never their contents


class Players:
    """Whoever plays in a live world during one run: its environments, seeded once."""

    def __init__(self, world: LiveWorld, *, seed: int) -> None:
        self._world, self._seed = world, seed
        self._single: Any = None
        self._many: Any = None
        self._vectors: Any = None
        self._wide = world.vector is not False

    def play(self, policy: Policy, users: int, rng: np.random.Generator) -> LiveTrajectories:
        """Let so many users follow the policy, one episode each."""
        (found,) = self._play([(policy, require_count("users", users))], rng)
        return found

    def play_groups(self, groups: Sequence[tuple[Policy, int]], rng: np.random.Generator) -> list[LiveTrajectories]:
        """Let groups of users follow a policy each: together where places can be left empty, or one after the other."""
        together = len(groups) > 1 and self._wide and hasattr(getattr(self._made(), "unwrapped", None), "wanted")
        return self._play(groups, rng) if together else [self.play(*group, rng) for group in groups]

    def _play(self, groups: Sequence[tuple[Policy, int]], rng: np.random.Generator) -> list[LiveTrajectories]:
        world, users = self._world, sum(count for _, count in groups)
        H, S, A = world.horizon, world.num_states, world.num_actions
        for policy, _ in groups:
            shape = policy.probabilities(A).shape
            require(shape == (H, S, A), f"the policy must have the shape {(H, S, A)} of the world", shape)
        states = np.full((users, H + 1), world.ended, dtype=np.int64)
        actions, rewards = np.zeros((users, H), dtype=np.int64), np.zeros((users, H))
        lengths = np.zeros(users, dtype=np.int64)
        choosers = [Chooser(policy, A) for policy, _ in groups]
        ends = np.cumsum([count for _, count in groups])
        if (users >= MIN_VECTORIZED_USERS or len(groups) > 1) and self._vector(rng) is not None:
            whose = np.searchsorted(ends, np.arange(users), side="right")
            for first in range(0, users, WIDTH):
                part = slice(first, min(first + WIDTH, users))
                chooser = choosers[0] if len(groups) == 1 else Choosers(choosers, whose[part])
                self._together(chooser, states[part], actions[part], rewards[part], lengths[part], rng)
        else:
            self._one_by_one(choosers[0], states, actions, rewards, lengths, rng)
        if not world.ends and int(lengths.min()) < H:
            raise InvalidInput(f"{world.name} ended before the horizon of {H}; say ends=True, so that it is padded")
        found = []
        for chooser, (_, count), end in zip(choosers, groups, ends.tolist(), strict=True):
            mine = slice(end - count, end)
            _pad(chooser, actions[mine], lengths[mine], world.ended, rng)
            got, outside = clipped(world, rewards[mine])
            measured = Measured(got.sum(axis=1), outside, int(lengths[mine].sum()), self._seed)
            found.append(LiveTrajectories(states[mine], actions[mine], scaled(world, got), measured))
        return found

    def _one_by_one(
        self, chooser: Chooser, states: Ints, actions: Ints, rewards: Floats, lengths: Ints, rng: np.random.Generator
    ) -> None:
        world = self._world
        seed: int | None = None
        if self._single is None:
            self._single, seed = world.make(), _seed(rng)
        reset, step = self._single.reset, self._single.step
        find, first, repeat, H = world.discretiser.state, world.first_action, world.repeat, world.horizon
        for i in range(len(actions)):
            observation, _ = reset(seed=seed)
            seed = None
            s, h, over = find(observation), 0, False
            while h < H and not over:
                a = chooser.one(h, s, rng)
                states[i, h], actions[i, h] = s, a
                total = 0.0
                for _ in range(repeat):
                    observation, reward, terminated, truncated, _ = step(first + a)
                    total += float(reward)
                    if terminated or truncated:
                        over = True
                        break
                rewards[i, h] = total
                h += 1
                if not over:
                    s = find(observation)
            lengths[i] = h
            # The state after the last decision: "ended", unless the episode was cut.
            if not over or not world.ends:
                states[i, h] = s if not over else find(observation)

    def _together(
        self, chooser: Chooser | Choosers, states: Ints, actions: Ints, rewards: Floats, lengths: Ints,
        rng: np.random.Generator,
    ) -> None:  # fmt: skip
        """All at once; who has ended, and whoever fills the vector up, is stepped on and not looked at.

        A vector environment with an attribute `wanted` is told how many are looked at, and may leave out the rest.
        """
        world, (many, seed), users = self._world, self._many, len(actions)
        if hasattr(many.unwrapped, "wanted"):
            many.unwrapped.wanted = users  # such an environment leaves the other places empty
        observations, _ = many.reset(seed=seed)
        self._many = (many, None)
        alive = np.ones(WIDTH, dtype=np.bool_)
        find = world.discretiser.states
        now = find(observations)
        for h in range(world.horizon):
            decide = alive.copy()
            seen, size = now[:users][alive[:users]], world.discretiser.size
            inside = bool(((seen >= 0) & (seen < size)).all())
            require(inside, f"observations must have states from 0 to {size - 1}", "others")
            chosen = chooser.many(h, np.where(alive, np.clip(now, 0, size - 1), 0), rng)
            total = np.zeros(WIDTH)
            for _ in range(world.repeat):
                observations, reward, terminated, truncated, _ = many.step(world.first_action + chosen)
                total += np.where(alive, reward, 0.0)
                alive &= ~(np.asarray(terminated) | np.asarray(truncated))
                if not alive.any():
                    break
            mine = decide[:users]
            states[mine, h], actions[mine, h] = now[:users][mine], chosen[:users][mine]
            rewards[mine, h], lengths[mine] = total[:users][mine], h + 1
            if not alive.any() and world.ends:
                return
            now = find(observations)
            # The state after this decision: "ended" stays where it was written.
            kept = alive[:users] if world.ends else np.ones(users, dtype=np.bool_)
            states[kept, h + 1] = now[:users][kept]

    def _vector(self, rng: np.random.Generator) -> Any:
        """The vector environment, made and seeded when it is first needed; None where there is none."""
        if self._wide and self._many is None:
            made = self._made()
            self._many = None if made is None else (made, _seed(rng))
        return self._many

    def _made(self) -> Any:
        """The vector environment, perhaps not seeded yet; None where there is none."""
        if self._wide and self._vectors is None:
            self._vectors = self._world.make_vector(WIDTH)
            self._wide = self._vectors is not None
        return self._vectors

    def close(self) -> None:
        """Let the environments go."""
        if self._single is not None:
            self._single.close()
        if self._vectors is not None:
            self._vectors.close()


class Chooser:
    """A policy as users follow it: one action, or a row of them."""

    def __init__(self, policy: Policy, num_actions: int) -> None:
        self._fixed = isinstance(policy, DeterministicPolicy)
        if isinstance(policy, DeterministicPolicy):
            self._rows: Any = policy.actions.tolist()
            self._array: Any = np.asarray(policy.actions, dtype=np.int64)
            return
        table = policy.probabilities(num_actions)
        sums = np.cumsum(table, axis=2)
        # Rounding must not lead to an action that is never taken: the last possible one takes the rest.
        last = num_actions - 1 - np.argmax(table[:, :, ::-1] > 0.0, axis=2)
        sums[np.arange(num_actions) >= last[:, :, np.newaxis]] = 1.0
        self._rows, self._array = sums.tolist(), sums

    def one(self, h: int, s: int, rng: np.random.Generator) -> int:
        """The action of one user."""
        row = self._rows[h][s]
        # The first action whose cumulative probability exceeds a uniform number.
        return int(row) if self._fixed else bisect_right(row, rng.random())

    def many(self, h: int, states: Ints, rng: np.random.Generator) -> Ints:
        """The actions of several users."""
        rows = self._array[h, states]
        if self._fixed:
            return np.asarray(rows, dtype=np.int64)
        return np.asarray((rows <= rng.random(len(states))[:, np.newaxis]).sum(axis=1), dtype=np.int64)


class Choosers:
    """Several policies side by side; users beyond those that are asked for follow the first one."""

    def __init__(self, choosers: Sequence[Chooser], whose: Ints) -> None:
        padded = np.zeros(WIDTH, dtype=np.int64)
        padded[: len(whose)] = whose
        self._places = [(choosers[k], np.flatnonzero(padded == k)) for k in np.unique(padded)]

    def many(self, h: int, states: Ints, rng: np.random.Generator) -> Ints:
        """The actions of several users."""
        found = np.zeros(len(states), dtype=np.int64)
        for chooser, places in self._places:
            found[places] = chooser.many(h, states[places], rng)
        return found


def count_live(world: LiveWorld, users: LiveTrajectories, rng: np.random.Generator) -> LiveCounts:
    """Counts of these users; where the world says so, everybody's device rounds every reward to 0 or 1 first."""
    if world.rounded:
        bits = (rng.random(users.rewards.shape) < users.rewards).astype(np.float64)
        users = replace(users, rewards=bits)
    return _live_counts(count_trajectories(users, world.num_states, world.num_actions), users.measured)


def join_live(parts: Sequence[LiveCounts]) -> LiveCounts:
    """The counts of users who followed several policies."""
    return _live_counts(join_counts(list(parts)), join_measured([part.measured for part in parts]))


def join_measured(parts: Sequence[Measured]) -> Measured:
    """What was seen of several groups, one after the other."""
    returns = np.concatenate([part.returns for part in parts])
    clipped, decisions = sum(part.clipped for part in parts), sum(part.decisions for part in parts)
    return Measured(returns, clipped, decisions, parts[0].seed)


def join_trajectories(parts: Sequence[LiveTrajectories]) -> LiveTrajectories:
    """Users of several groups, one after the other."""
    return LiveTrajectories(
        np.concatenate([part.states for part in parts]),
        np.concatenate([part.actions for part in parts]),
        np.concatenate([part.rewards for part in parts]),
        join_measured([part.measured for part in parts]),
    )


def _live_counts(counts: ExactCounts, measured: Measured) -> LiveCounts:
    return LiveCounts(
        transitions=counts.transitions,
        visits=counts.visits,
        rewards=counts.rewards,
        starts=counts.starts,
        users=counts.users,
        binary=counts.binary,
        groups=counts.groups,
        measured=measured,
    )


def _pad(chooser: Chooser, actions: Ints, lengths: Ints, ended: int, rng: np.random.Generator) -> None:
    """Who has ended goes on choosing, as the policy says in the state "ended"; it changes nothing."""
    for h in range(int(lengths.min(initial=actions.shape[1])), actions.shape[1]):
        padded = np.flatnonzero(lengths <= h)
        actions[padded, h] = chooser.many(h, np.full(len(padded), ended), rng)


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))
