"""Curators with one bug each, simulated (trees) or as they are deployed (batches). For the mutation suite only."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from mutants.planted import SHAPE, Mutation, bug, claim_of, configured, twin
from tacit.errors import PrivacyBudgetExceeded
from tacit.noise.continual.tree import LaplaceTree
from tacit.release.batch_release import BatchPlan, BatchRelease
from tacit.release.central import Central, publish
from tacit.release.fixed_point import draw_noise, to_payload
from tacit.release.none import Unprotected
from tacit.release.staged import Staged
from tacit.released.batches import BatchQuery, PlannedBatch
from tacit.statistics.count_vectors import add_trajectory

__all__ = ["CURATED", "CURATORS", "CURATOR_BUGS", "PlainCentral", "central"]

Step = Callable[..., None]


class _Redrawn(LaplaceTree):
    @property
    def step(self) -> Step:  # type: ignore[override]
        def step(params: Any, stream: Any, generator: Any) -> None:
            stream.time[0] += 1
            terms = int(stream.time[0]).bit_count()
            stream.noise[:] = generator.laplace(scale=params.scale, size=(terms, len(stream.noise))).sum(axis=0)

        return step


class _OffByOne(LaplaceTree):
    @property
    def step(self) -> Step:  # type: ignore[override]
        inner = super().step

        def step(params: Any, stream: Any, generator: Any) -> None:
            if stream.time[0] == 0 and not stream.draws.any():
                stream.draws[:] = 1.0  # remembers that the first user came
                stream.noise[:] = 0.0
            else:
                inner(params, stream, generator)

        return step


class _LevelShort(LaplaceTree):
    @property
    def params(self) -> Any:
        return super().params._replace(levels=super().levels)

    @property
    def levels(self) -> int:
        return math.floor(math.log(self.steps))


class _HalfTheStream(LaplaceTree):
    @property
    def step(self) -> Step:  # type: ignore[override]
        inner = super().step
        return lambda params, stream, generator: inner(params._replace(scale=params.scale / 2), stream, generator)


class _NarrowRadius(LaplaceTree):
    def radius(self, failure_prob: float, terms: int = 1) -> float:
        return 0.5 * super().radius(failure_prob, terms)


class PlainCentral(Central):
    """Central in plain Python, so that counters in plain Python fit in. Not a bug by itself."""

    @property
    def kernel(self) -> Step:
        """Count, then publish."""

        def release(parameters: Any, state: Any, users: Any, query: Any, coins: Any) -> None:
            add_trajectory(state.exact, users.states, users.actions, users.rewards)
            self.advance(state, coins)

        return release

    def advance(self, state: Any, generator: Any) -> None:
        """Publish what is due."""
        if state.stream.time[0] > self.counter.releases:
            raise PrivacyBudgetExceeded("all releases of this counter are spent; calibrate for more episodes")
        if state.stream.time[0] < self.counter.releases:
            self.counter.step(self.counter.params, state.stream, generator)
            self.published(state)
        else:
            self.afterwards(state)

    def published(self, state: Any) -> None:
        """What is shown after a user."""
        publish(self.parameters, state)

    def afterwards(self, state: Any) -> None:
        """What happens with the last user."""
        state.stream.time[0] += 1


class _ExactVisits(PlainCentral):
    def published(self, state: Any) -> None:
        publish(self.parameters, state)
        state.released.visits[:] = state.exact.visits


class _ExactSquares(PlainCentral):
    def published(self, state: Any) -> None:
        publish(self.parameters, state)
        state.released.squares[:] = state.exact.squares


class _LastUserPublished(PlainCentral):
    def afterwards(self, state: Any) -> None:
        publish(self.parameters, state)


class _TellingVariance(PlainCentral):
    def published(self, state: Any) -> None:
        publish(self.parameters, state)
        state.released.variance[2] += 1e-6 * state.exact.rewards.sum()


class _MutatesItsState(Central):
    def release(self, state: Any, users: Any, query: Any, noise: Any) -> Any:
        after, released = super().release(state, users, query, noise)
        state.exact.visits[:] = after.exact.visits
        return after, released


class _ClaimsWithoutNoise(Unprotected):
    @property
    def claim(self) -> Any:
        return claim_of("central", 1.0, 0.0)

    @property
    def calibration(self) -> Any:
        return "tight"

    def noise_std(self) -> dict[str, float]:
        return {"transitions": 1.0, "visits": 1.0, "rewards": 1.0}


def central(kind: type, counter: type = LaplaceTree, **changes: Any) -> Any:
    """A twin of a correct central privatizer with a Laplace tree."""
    original = configured("central", "laplace-tree")
    return twin(kind, original, counter=twin(counter, original.counter, **changes))


def _level_short() -> Any:
    original = configured("central", "laplace-tree")
    scale = original.counter.scale * math.floor(math.log(original.counter.steps)) / original.counter.levels
    return twin(Central, original, counter=twin(_LevelShort, original.counter, scale=scale))


class _HalfTheWholeNoise(BatchRelease):
    def _added(self, secret: Any, own: Any, noise: Any) -> Any:
        quieter = replace(self.noise, variance=self.variance // 4)
        return secret, to_payload(quieter.add(secret, own, noise)[1])


class _OneDrawForAll(BatchRelease):
    def _added(self, secret: Any, own: Any, noise: Any) -> Any:
        return secret, to_payload(own * (self.unit // self.levels) + draw_noise(1, self.variance, noise))


def curated(kind: type = BatchRelease) -> Any:
    """A twin of a correct curator of batches in whole numbers, as it is deployed."""

    class Planted(BatchPlan):
        __slots__ = ()

        def release_of(self, stage: Any) -> Any:
            return twin(kind, BatchPlan.release_of(self, stage))

    plan = Planted(shape=SHAPE, claim=claim_of("central", 3.0, 1e-5))
    batch = PlannedBatch(users=20, query=BatchQuery(layer=None, failure_prob=None))
    return Staged(channels=(), basis=plan, batches=()).planned([batch])


CURATED: Final[dict[str, Callable[[], Any]]] = {"curated batches": curated}
"""Deployed curators, without a bug."""

CURATOR_BUGS: Final[dict[str, Mutation]] = {
    "whole noise halved": bug(
        "a curator adds whole numbers of half of the stated scale",
        lambda: curated(_HalfTheWholeNoise), rules=("exposed",), secure=True,
    ),
    "one whole draw for all": bug(
        "all counters of a batch share one draw", lambda: curated(_OneDrawForAll), rules=("exposed",), secure=True
    ),
    "tree noise halved": bug(
        "every node of the tree has half of the stated noise",
        lambda: central(PlainCentral, _HalfTheStream), "audit", rules=("variance", "exposed"),
    ),
    "tree noise redrawn": bug(
        "the noise of a tree node is drawn anew at every release",
        lambda: central(PlainCentral, _Redrawn), rules=("independent", "variance"),
    ),
    "ln K for log2 K levels": bug(
        "noise for ⌊ln K⌋ levels of the tree, of which there are ⌈log₂ K⌉", _level_short, rules=("continual",)
    ),
    "off-by-one tree": bug(
        "user k sits at leaf k, as printed: the first prefix has no noise at all",
        lambda: central(PlainCentral, _OffByOne), "audit", rules=("variance", "exposed"),
    ),
    "exact visits": bug(
        "visits are published without noise", lambda: central(_ExactVisits), rules=("variance", "exposed")
    ),
    "exact squares": bug(
        "squares of rewards are published without noise", lambda: central(_ExactSquares), rules=("families",)
    ),
    "telling variance": bug(
        "the variance beside a release has the sum of rewards in its sixth decimal",
        lambda: central(_TellingVariance), rules=("fields",),
    ),
    "last user published": bug(
        "one release more than was paid for, with the noise of the one before",
        lambda: central(_LastUserPublished), rules=("spent",),
    ),
    "state changed in place": bug(
        "a release changes the state that it was given", lambda: central(_MutatesItsState), rules=("state",)
    ),
    "radius too small": bug(
        "the stated precision is half of the true one", lambda: central(Central, _NarrowRadius), rules=("precise",)
    ),
    "a claim without noise": bug(
        "exact counts are released under a claim", lambda: _ClaimsWithoutNoise(shape=SHAPE), "accountant"
    ),
}  # fmt: skip
"""Bugs of curators, by name."""

CURATORS: Final[dict[str, Callable[[], Any]]] = {"central laplace-tree": lambda: central(PlainCentral)}
"""What they were planted in."""
