"""`check_learner`: every learner of the table keeps the contract, every broken twin is told its rule."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from tacit.audit.conformance import NonConformant
from tacit.audit.learner_rules import LEARNER_RULES, check_learner
from tacit.errors import UnknownName
from tacit.learners.linucb_published import PUBLISHED
from tacit.learners.table import LEARNERS
from tacit.policies import DeterministicPolicy
from tacit.protocol import TOTALS, copy_state
from tacit.released.batches import BatchQuery
from tacit.released.gradients import SoftmaxQuery
from tacit.released.moments import MomentQuery
from tacit.released.returns import ReturnQuery
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig

DOSES = "dp-pg:policy=gaussian,clip=1"
RARELY = "ucbvi:replan=geometric"


@cache
def parts_of(learner: str, **changes: Any) -> tuple[Any, int]:
    """The smallest run of a learner."""
    row = LEARNERS[learner.split(":")[0]]
    asked: dict[str, Any] = {"environment": "riverswim:states=3,horizon=2", "episodes": 40}
    if row.losses is not None:
        asked |= {"environment": "layered:layers=3,states=2,actions=2", "adversary": "switching:segments=4"}
    elif row.asks is SoftmaxQuery:
        world = "dose-bandit" if learner == DOSES else "contextual-bandit:contexts=2,actions=2"
        asked |= {"environment": world, "batch": 8}
    elif row.asks is MomentQuery:
        asked |= {"environment": "linear-bandit:features=3,actions=2", "episodes": 400}
        if learner in PUBLISHED:
            asked |= {"trust": PUBLISHED[learner], "calibration": "paper", "epsilon": 1.0, "delta": 1e-6}
    elif row.asks in (BatchQuery, ReturnQuery):
        asked |= {"episodes": 400}
    config = RunConfig(learner=learner, seeds=(0,), **asked | changes)
    return assemble(config), config.episodes


def check(learner: Any, parts: Any, episodes: int, **settings: Any) -> Any:
    return check_learner(learner, parts.privatizer, parts.world, episodes=episodes, **settings)


NO_SPEEDS = tuple(rule for rule in LEARNER_RULES if rule != "speeds")


@pytest.mark.parametrize("name", [*LEARNERS, DOSES, RARELY])
def test_every_learner_of_the_table_keeps_the_contract(name):
    """All rules but the compiled loop, which takes half a minute to compile for all of them: see the slow test."""
    parts, episodes = parts_of(name)
    assert check(parts.learner, parts, episodes, only=NO_SPEEDS).passed == NO_SPEEDS


@pytest.mark.slow
@pytest.mark.parametrize("name", [*LEARNERS, DOSES, RARELY])
def test_both_speeds_agree_for_every_learner(name):
    parts, episodes = parts_of(name)
    assert check(parts.learner, parts, episodes, only=["speeds"]).passed == ("speeds",)


@pytest.mark.parametrize("trust", ["central", "local"])
def test_noisy_releases_change_nothing(trust):
    parts, episodes = parts_of("psrl", trust=trust, epsilon=1.0, delta=1e-6)
    assert set(check(parts.learner, parts, episodes, only=NO_SPEEDS).passed) == set(NO_SPEEDS)


# -------------------------------------------------------------------------------------------------- broken twins


class Twin:
    """A learner that does as another one does."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class BeginsOnce(Twin):
    def begin(self) -> Any:
        if not hasattr(self, "kept"):
            self.kept = self.inner.begin()
        return self.kept


class BeginsAnyhow(Twin):
    def begin(self) -> Any:
        belief = self.inner.begin()
        next(part for part in belief if part.dtype == np.float64).ravel()[0] += np.random.default_rng().random()
        return belief


class PlansInPlace(Twin):
    def plan(self, belief: Any, coins: Any) -> Any:
        self.inner.kernels.plan(self.inner.parameters, belief, coins)
        return self.inner.plan(belief, coins)


class UpdatesInPlace(Twin):
    def update(self, belief: Any, released: Any) -> Any:
        after = self.inner.update(belief, released)
        for old, new in zip(belief, after, strict=True):
            old[...] = new
        return belief


class Remembers(Twin):
    """Keeps the number of releases outside the belief."""

    seen = 0

    def update(self, belief: Any, released: Any) -> Any:
        self.seen += 1
        after = copy_state(self.inner.update(belief, released))
        after[0].ravel()[0] = self.seen
        return after


class OwnDice(Twin):
    def plan(self, belief: Any, coins: Any) -> Any:
        after, plan = self.inner.plan(belief, coins)
        actions = np.random.default_rng().integers(0, 2, plan.policy.actions.shape)
        return after, replace(plan, policy=DeterministicPolicy(actions))


class NobodyComes(Twin):
    def plan(self, belief: Any, coins: Any) -> Any:
        after, plan = self.inner.plan(belief, coins)
        return after, replace(plan, users=0)


class HalfAUser(Twin):
    def plan(self, belief: Any, coins: Any) -> Any:
        after, plan = self.inner.plan(belief, coins)
        return after, replace(plan, users=1.5)


class AsksSomethingElse(Twin):
    def plan(self, belief: Any, coins: Any) -> Any:
        after, plan = self.inner.plan(belief, coins)
        return after, replace(plan, query=BatchQuery(layer=None, failure_prob=None))

    def ask(self, belief: Any, plan: Any, number: int) -> Any:
        return belief, TOTALS


class AnotherWorld(Twin):
    def plan(self, belief: Any, coins: Any) -> Any:
        after, plan = self.inner.plan(belief, coins)
        return after, replace(plan, policy=DeterministicPolicy(plan.policy.actions[:, :-1].copy()))


class HandsOutItsBelief(Twin):
    """Users hold an array that the next plan rewrites."""

    table = np.zeros((2, 3), dtype=np.int64)

    def plan(self, belief: Any, coins: Any) -> Any:
        after, plan = self.inner.plan(belief, coins)
        self.table[:] = plan.policy.actions
        return after, replace(plan, policy=DeterministicPolicy(self.table))


class KnowsItsBelief(Twin):
    """Goes by the identity of the belief, which no checkpoint keeps."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.known: dict[int, Any] = {}

    def update(self, belief: Any, released: Any) -> Any:
        after = self.inner.update(belief, released)
        self.known[id(after)] = after
        return after

    def plan(self, belief: Any, coins: Any) -> Any:
        after, plan = self.inner.plan(belief, coins)
        if self.known and id(belief) not in self.known:
            plan = replace(plan, policy=DeterministicPolicy(1 - plan.policy.actions))
        return after, plan


class TakesAnything(Twin):
    def update(self, belief: Any, released: Any) -> Any:
        try:
            return self.inner.update(belief, released)
        except Exception:
            return belief


class FasterOtherwise(Twin):
    """The interpreted learner is another one than the compiled."""

    def plan(self, belief: Any, coins: Any) -> Any:
        after, plan = self.inner.plan(belief, coins)
        return after, replace(plan, policy=DeterministicPolicy(1 - plan.policy.actions))


TWINS = {
    BeginsOnce: "begin", BeginsAnyhow: "begin", PlansInPlace: "state", UpdatesInPlace: "state", Remembers: "coins",
    OwnDice: "coins", NobodyComes: "plan", HalfAUser: "plan", AsksSomethingElse: "query", AnotherWorld: "policy",
    HandsOutItsBelief: "policy", KnowsItsBelief: "kept", TakesAnything: "foreign", FasterOtherwise: "speeds",
}  # fmt: skip


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.__name__)
def test_every_broken_learner_is_told_its_rule(twin):
    parts, episodes = parts_of("psrl" if twin in (FasterOtherwise, PlansInPlace) else "ucbvi")
    rule = TWINS[twin]
    with pytest.raises(NonConformant) as caught:
        check(twin(parts.learner), parts, episodes, only=[rule])
    assert caught.value.rules == {rule}
    assert "cannot be checked" not in caught.value.violations[0][1]
    check(Twin(parts.learner), parts, episodes, only=[rule])  # the scaffolding alone is sound


def test_every_rule_has_a_twin_that_breaks_it():
    assert set(TWINS.values()) == set(LEARNER_RULES)


def test_rules_are_named():
    parts, episodes = parts_of("psrl")
    with pytest.raises(UnknownName, match="did you mean 'policy'"):
        check(parts.learner, parts, episodes, only=["polcy"])
