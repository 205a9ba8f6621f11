"""Releases of moments with one bug each, and the honest ones in which they are planted. For the mutation tests only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from mutants.planted import Mutation, bug, twin
from tacit.learners.linear import PlannedMoments
from tacit.release.curator import FreshNoise
from tacit.release.directions import DirectionRelease
from tacit.release.request import PrivacyRequest
from tacit.release.table import make_privatizer
from tacit.release.vectors import CentralVectors
from tacit.released.moments import MomentQuery, MomentShape
from tacit.statistics.moments import MomentVector, Rows

__all__ = ["MOMENTS", "MOMENT_BUGS", "moments"]

USERS: Final = 20
"""Under local trust there is one person: an attack sees one message."""


def moments(trust: Any, kind: type | None = None, statistic: type = MomentVector) -> Any:
    """A twin of a correct stage of moments of two features and two actions."""
    users = 1 if trust == "local" else USERS
    request = PrivacyRequest(
        trust=trust,
        shape=MomentShape(features=2, actions=2, shared=False, grid=64),
        episodes=users,
        epsilon=1.0,
        delta=0.0 if trust == "local" else 1e-5,
        calibration=None,
        mechanism=None,
        users_per_batch=1,
        asks=MomentQuery,
    )
    made: Any = make_privatizer(request)
    found = made.planned([PlannedMoments(users=users, query=MomentQuery(lots=False))])
    stage = found.channels[0]
    planted = twin(kind or type(stage), stage, statistic=twin(statistic, stage.statistic))
    return replace(found, channels=(planted,))


class _LargestEntry(MomentVector):
    """Rows shortened until their largest entry is 1, not until their length is."""

    def people(self, users: Any, noise: Any) -> Rows:
        found, N = MomentVector.people(self, users, noise), self.shape.grid
        finite = np.where(np.isfinite(users.x), users.x, 0.0)
        largest = np.maximum(np.abs(finite).max(axis=1, keepdims=True), 1.0)
        rows = np.trunc(finite / largest * N).astype(np.int64)
        square = np.where((finite != 0.0).sum(axis=1) > 1, 1, 0)[:, None]  # dense rows come with all entries at 1
        return found._replace(x=np.where(square == 1, np.sign(rows) * N, rows))


class _AsLongAsGiven(MomentVector):
    """Rows that are never shortened."""

    def people(self, users: Any, noise: Any) -> Rows:
        found = MomentVector.people(self, users, noise)
        return found._replace(x=np.trunc(np.clip(np.nan_to_num(users.x), -50, 50) * self.shape.grid).astype(np.int64))


class _RoundedTooFar(MomentVector):
    """Rewards that are rounded up, past their bound."""

    def people(self, users: Any, noise: Any) -> Rows:
        found = MomentVector.people(self, users, noise)
        return found._replace(levels=found.levels + 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class _OnlyRewards(FreshNoise):
    """Noise in v alone."""

    def add(self, secret: Any, own: Any, noise: Any) -> tuple[Any, Any]:
        secret, noisy = FreshNoise.add(self, secret, own, noise)
        found = noisy.reshape(2, -1).copy()
        found[:, :3] = own.reshape(2, -1)[:, :3]
        return secret, found.ravel()


@dataclass(frozen=True, slots=True, kw_only=True)
class _OneForAll(FreshNoise):
    """The noise of the first arm in every arm."""

    def add(self, secret: Any, own: Any, noise: Any) -> tuple[Any, Any]:
        secret, noisy = FreshNoise.add(self, secret, own, noise)
        first = (noisy - own).reshape(2, -1)[0]
        return secret, own + np.tile(first, 2)


class _GramOpen(CentralVectors):
    @property
    def noise(self) -> FreshNoise:
        return twin(_OnlyRewards, CentralVectors.noise.fget(self))  # type: ignore[attr-defined]


class _Shared(CentralVectors):
    @property
    def noise(self) -> FreshNoise:
        return twin(_OneForAll, CentralVectors.noise.fget(self))  # type: ignore[attr-defined]


class _Twice(DirectionRelease):
    """Four indices about one draw of directions, under the epsilon of one."""

    @property
    def _keep(self) -> float:
        four = twin(DirectionRelease, self, epsilon=4.0 * self.epsilon)
        return float(DirectionRelease._keep.fget(four))  # type: ignore[attr-defined]


MOMENTS: Final[Mapping[str, Callable[[], Any]]] = {
    f"{trust} moments": lambda trust=trust: moments(trust)  # type: ignore[misc]
    for trust in ("central", "shuffle", "local")
}
"""Honest stages by name."""

MOMENT_BUGS: Final[Mapping[str, Mutation]] = {
    "row of the wrong norm": bug(
        "rows are bounded entry by entry, and their length is not",
        lambda: moments("central", statistic=_LargestEntry), rules=("families", "exposed"),
    ),
    "row not shortened": bug(
        "rows that are longer than declared are added as they come",
        lambda: moments("central", statistic=_AsLongAsGiven), rules=("families",),
    ),
    "reward beyond its bound": bug(
        "rewards are rounded up without a bound",
        lambda: moments("central", statistic=_RoundedTooFar), rules=("families",),
    ),
    "gram without noise": bug(
        "noise covers the rewards and not the second moments",
        lambda: moments("central", _GramOpen), rules=("lattice", "exposed"),
    ),
    "noise shared between arms": bug(
        "all arms get the noise of the first", lambda: moments("central", _Shared), rules=("exposed",)
    ),
    "direction reused": bug(
        "a draw of directions is used for four indices, with epsilon each",
        lambda: moments("local", _Twice), "audit",
    ),
}  # fmt: skip
"""Bugs by name."""
