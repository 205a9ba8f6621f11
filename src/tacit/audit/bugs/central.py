"""Curators with one bug each: tree noise that is redrawn, late or short, statistics without noise. Never use them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tacit.audit.bugs.local import configured, twin
from tacit.errors import BudgetSpent
from tacit.mechanisms.continual.tree import LaplaceTree
from tacit.privatizers.central import Central, publish
from tacit.privatizers.statistics import add_trajectory

__all__ = [
    "ExactVisits",
    "HalfTheStream",
    "LastUserPublished",
    "LevelShort",
    "OffByOne",
    "PlainCentral",
    "Redrawn",
    "central",
    "level_short",
]


class Redrawn(LaplaceTree):
    """Draws the noise of all nodes of a prefix anew at every release: averages over releases are exact."""

    @property
    def step(self) -> Callable[..., None]:  # type: ignore[override]
        """Fresh noise for the same nodes."""

        def step(params: Any, stream: Any, generator: Any) -> None:
            stream.time[0] += 1
            terms = int(stream.time[0]).bit_count()
            stream.noise[:] = generator.laplace(scale=params.scale, size=(terms, len(stream.noise))).sum(axis=0)

        return step


class OffByOne(LaplaceTree):
    """User k sits at leaf k: the first prefix is bare, and every later one carries the noise of the prefix before."""

    @property
    def step(self) -> Callable[..., None]:  # type: ignore[override]
        """One step late."""
        inner = super().step

        def step(params: Any, stream: Any, generator: Any) -> None:
            if stream.time[0] == 0 and not stream.draws.any():
                stream.draws[:] = 1.0  # remembers that the first user came
                stream.noise[:] = 0.0
            else:
                inner(params, stream, generator)

        return step


class LevelShort(LaplaceTree):
    """⌊ln K⌋ levels where there are ⌈log₂ K⌉."""

    @property
    def params(self) -> Any:
        """The kernels use all levels."""
        return super().params._replace(levels=super().levels)

    @property
    def levels(self) -> int:
        """The accountant is told of fewer."""
        return math.floor(math.log(self.steps))


class HalfTheStream(LaplaceTree):
    """Half of the stated noise in every node."""

    @property
    def step(self) -> Callable[..., None]:  # type: ignore[override]
        """Half the scale."""
        inner = super().step
        return lambda params, stream, generator: inner(params._replace(scale=params.scale / 2), stream, generator)


class PlainCentral(Central):
    """Central in plain Python, so that counters in plain Python fit in. Not a bug by itself."""

    @property
    def release_kernel(self) -> Callable[..., None]:
        """Count, then publish."""

        def release(parameters: Any, state: Any, states: Any, actions: Any, rewards: Any, generator: Any) -> None:
            if state.stream.time[0] > parameters.releases:
                raise BudgetSpent("all releases of this counter are spent; calibrate for more episodes")
            add_trajectory(state.exact, states, actions, rewards)
            if state.stream.time[0] < parameters.releases:
                self.counter.step(parameters.counter, state.stream, generator)
                self.published(state)
            else:
                self.afterwards(state)

        return release

    def published(self, state: Any) -> None:
        """What is shown after a user."""
        publish(self.parameters, state)

    def afterwards(self, state: Any) -> None:
        """What happens with the last user."""
        state.stream.time[0] += 1


class ExactVisits(PlainCentral):
    """Publishes visits without noise."""

    def published(self, state: Any) -> None:
        """Noise on everything else."""
        publish(self.parameters, state)
        state.released.visits[:] = state.exact.visits


class LastUserPublished(PlainCentral):
    """Publishes the last user with the noise of the one before."""

    def afterwards(self, state: Any) -> None:
        """One release more than was paid for."""
        publish(self.parameters, state)


def central(kind: type, counter: type = LaplaceTree, **changes: Any) -> Any:
    """A twin of a correct central privatizer with a Laplace tree."""
    original = configured("central", "laplace-tree")
    return twin(kind, original, counter=twin(counter, original.counter, **changes))


def level_short() -> Any:
    """Calibrated to too few levels."""
    original = configured("central", "laplace-tree")
    scale = original.counter.scale * math.floor(math.log(original.counter.steps)) / original.counter.levels
    return twin(Central, original, counter=twin(LevelShort, original.counter, scale=scale))
