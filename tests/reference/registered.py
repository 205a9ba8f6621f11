"""Every registered learner wherever it can act, without privacy and under a trust model that it supports."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from tacit.errors import InvalidInput, NotSupported
from tacit.learners.linucb_published import PUBLISHED
from tacit.learners.table import LEARNERS
from tacit.runs.assemble import Assembled, assemble
from tacit.runs.config import RunConfig

EPISODES = 400
WORLDS = (
    ("", {"environment": "riverswim:states=3,horizon=3"}),
    (":policy=gaussian", {"environment": "dose-bandit:contexts=2"}),
    ("", {"environment": "linear-bandit:features=3,actions=2"}),
    ("", {"environment": "layered:layers=3,states=2,actions=2,seed=1", "adversary": "iid"}),
)
"""A table, doses, a linear bandit and a layered world with an adversary, with the options that learners need."""
PRIVATE = ("central", "local", "shuffle")


def names() -> tuple[str, ...]:
    """All learners; this is the one place that knows where they are listed."""
    return tuple(LEARNERS)


def ancestors() -> set[str]:
    """Learners that are offered without privacy only."""
    return {name for name, row in LEARNERS.items() if row.losses is not None and row.losses.private is not None}


def runs(name: str) -> Iterator[tuple[str, str, Assembled]]:
    """(world, trust model, parts): each world without privacy, and with the first trust model that is supported."""
    for options, world in WORLDS:
        for trusts in (("none",), PRIVATE):
            found = (parts_of(name + options, trust, tuple(world.items())) for trust in trusts)
            parts = next((parts for parts in found if parts is not None), None)
            if parts is not None:
                yield world["environment"].partition(":")[0], parts.claim.trust, parts


@cache
def parts_of(learner: str, trust: str, world: tuple[tuple[str, str], ...]) -> Assembled | None:
    """The parts of a run; None: this learner does not act there."""
    privacy = {} if trust == "none" else {"trust": trust, "epsilon": 5.0, "delta": 1e-6}
    privacy |= {"calibration": "paper"} if learner in PUBLISHED else {}
    try:
        return assemble(RunConfig(learner=learner, episodes=EPISODES, seeds=(0,), **dict(world), **privacy))
    except (InvalidInput, NotSupported):
        return None


EVERY = [(f"{name} {world} {trust}", parts) for name in names() for world, trust, parts in runs(name)]
"""(label, parts) of all of them."""
