"""What holds for every registered learner: it is charged before anybody comes, has one meaning and is asked to fit."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from registered import EPISODES, EVERY, ancestors, names

from tacit.accounting.claims import OUTPUTS, PrivacyClaim, PrivacyUnit
from tacit.accounting.ledger import Ledger
from tacit.errors import InvalidInput, PrivacyBudgetExceeded
from tacit.policies import policy_from_dict, policy_to_dict
from tacit.runs.assemble import Assembled, assemble
from tacit.runs.config import RunConfig
from tacit.runs.verify import _fits_shape
from tacit.simulation.simulate import simulate
from tacit.simulation.worlds import world_of

LABELS = [label for label, _ in EVERY]
PARTS = [parts for _, parts in EVERY]
PRIVATE = [(label, parts) for label, parts in EVERY if parts.claim.trust != "none"]
SAMPLED = assemble(
    RunConfig(environment="riverswim:states=3,horizon=3", learner="dp-ppo:rate=0.5", episodes=EPISODES, seeds=(0,),
              trust="central", epsilon=5.0, delta=1e-6)
)  # fmt: skip


def test_every_learner_runs_and_all_but_the_ancestors_run_in_private() -> None:
    assert {label.split()[0] for label in LABELS} == set(names())
    assert {label.split()[0] for label, _ in PRIVATE} == set(names()) - ancestors()
    assert {label.split()[1] for label in LABELS} == {"riverswim", "dose-bandit", "linear-bandit", "layered"}


class Watched:
    """A world that notes what the ledger holds whenever users come."""

    def __init__(self, parts: Assembled, ledger: Ledger) -> None:
        self._world, self._ledger = world_of(parts.mdp, parts.learner.asks), ledger
        self.charges: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)

    def judge(self, learner: Any, marks: Any) -> Any:
        return self._world.judge(learner, marks)

    def sampler(self, learner: Any, *, episodes: int, seed: int) -> Any:
        return _Noted(self._world.sampler(learner, episodes=episodes, seed=seed), self._note)

    def _note(self) -> None:
        self.charges.append(len(self._ledger.entries()))


class _Noted:
    """A sampler that is noted: users come from `draw`, or from the kernel once it has the arrays of the world."""

    def __init__(self, sampler: Any, note: Any) -> None:
        self._sampler, self._note = sampler, note

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sampler, name)

    def arrays(self, done: int, users: int) -> Any:
        self._note()
        return self._sampler.arrays(done, users)

    def draw(self, plan: Any, users: int, coins: np.random.Generator) -> Any:
        self._note()
        return self._sampler.draw(plan, users, coins)


def run(parts: Assembled, world: Any, seed: int, **options: Any) -> Any:
    return simulate(world, parts.learner, parts.privatizer, episodes=EPISODES, seed=seed, **options)


CHARGED = {**dict(PRIVATE), "rate": SAMPLED}


@pytest.mark.parametrize("parts", CHARGED.values(), ids=CHARGED)
def test_users_are_charged_once_and_before_the_first_one_comes(parts, tmp_path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.sqlite", parts.claim)
    world, came = Watched(parts, ledger), []
    run(parts, world, 0, ledger=ledger, progress=came.append, speed="interpreted")
    assert set(world.charges) == {1}
    assert came[-1] == EPISODES
    (entry,) = ledger.entries()
    assert (entry.users, entry.claim, entry.committed) == (range(EPISODES), parts.claim, True)
    if 2.0 * parts.certificate.epsilon < parts.claim.epsilon:  # printed noise that claims more than it spends
        return
    again, came = Watched(parts, ledger), []
    with pytest.raises(PrivacyBudgetExceeded):
        run(parts, again, 1, ledger=ledger, progress=came.append, speed="interpreted")
    assert (again.charges, came, len(ledger.entries())) == ([], [], 1)


@pytest.mark.parametrize("parts", [p for p in PARTS if p.claim.trust == "none"],
                         ids=[n for n, p in EVERY if p.claim.trust == "none"])  # fmt: skip
def test_without_privacy_no_budget_is_enough_and_nobody_comes(parts, tmp_path) -> None:
    budget = PrivacyClaim(
        trust="central", epsilon=100.0, delta=1e-3, unit=PrivacyUnit(reports=1, per_stage=1), neighbours="replace-one",
        output=OUTPUTS["central"][0], allow_large_delta=True,
    )  # fmt: skip
    ledger = Ledger.open(tmp_path / "ledger.sqlite", budget)
    world, came = Watched(parts, ledger), []
    with pytest.raises(PrivacyBudgetExceeded):
        run(parts, world, 0, ledger=ledger, progress=came.append)
    assert (world.charges, came, ledger.entries()) == ([], [], ())


def bits(value: Any) -> Any:
    """Everything that a value holds, down to the bits of its arrays."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    if dataclasses.is_dataclass(value):
        return type(value), [bits(getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, tuple | list):
        return type(value), [bits(part) for part in value]
    assert value is None or isinstance(value, int | float | bool | str), f"cannot compare a {type(value).__name__}"
    return value


OPEN = "ucbvi riverswim none"
"""One learner whose loop is fused without privacy, too."""


def speeds():
    """Every learner, in private wherever it can be; without privacy, where each is compiled anew, before a merge."""
    kept = {label for label, _ in PRIVATE} | {OPEN} | {label for label in LABELS if label.split()[0] in ancestors()}
    for label, parts in EVERY:
        yield pytest.param(parts, marks=() if label in kept else pytest.mark.slow, id=label)
    yield pytest.param(SAMPLED, id="rate")


@pytest.mark.parametrize("parts", list(speeds()))
def test_both_speeds_are_the_same_run_bit_for_bit(parts) -> None:
    marks = [1, 2, 10, 133, EPISODES]
    fast, slow = (run(parts, parts.mdp, 5, checkpoints=marks, speed=speed) for speed in ("compiled", "interpreted"))
    for part in ("regret", "belief", "policy", "released", "objective", "losses", "policy_changes"):
        assert bits(getattr(fast, part)) == bits(getattr(slow, part)), part
    # The policy is kept, is one of this world, and can be exported.
    assert fast.policy is not None
    assert _fits_shape(fast.policy, parts.learner.shape)
    assert bits(policy_from_dict(json.loads(json.dumps(policy_to_dict(fast.policy))))) == bits(fast.policy)


class Foreign:
    """Somebody else's privatizer; what it answers is all that is known of it."""

    def __init__(self, inner: Any) -> None:
        self._inner, self.name, self.answers = inner, "foreign", inner.answers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.mark.parametrize("parts", PARTS, ids=LABELS)
def test_a_privatizer_that_answers_something_else_is_refused(parts, tmp_path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.sqlite", parts.claim)
    others = {other.privatizer.answers: other.privatizer for other in PARTS if other.learner.asks != parts.learner.asks}
    assert len(others) == 6
    for answered, privatizer in others.items():
        message = (
            f"{parts.learner.name} asks for {parts.learner.asks.words()}, which foreign does not answer: it answers "
        )
        with pytest.raises(InvalidInput) as refused:
            simulate(parts.mdp, parts.learner, Foreign(privatizer), episodes=EPISODES, seed=0, ledger=ledger)
        assert str(refused.value) == message + answered.words()
    assert ledger.entries() == ()
