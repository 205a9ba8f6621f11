"""What holds for every registered learner."""

from __future__ import annotations

import numpy as np
import pytest
from contract_calls import told
from learner_tools import every_learner, exact_statistics, shape_of, small_mdp
from named_learners import make_learner

from tacit.errors import InvalidInput, UnknownName
from tacit.learners.contract import CountRequest, KernelLearner
from tacit.learners.table import LEARNERS
from tacit.policies import DeterministicPolicy, uniform_policy
from tacit.protocol import Plan, Totals, copy_state
from tacit.release.none import Unprotected

MDP = small_mdp()
EVERY = list(every_learner(MDP, episodes=100))


def bits(state):
    return [field.tobytes() if isinstance(field, np.ndarray) else field for field in state]


@pytest.mark.parametrize(("label", "learner"), EVERY, ids=[label for label, _ in EVERY])
def test_state_goes_in_and_comes_out(label, learner):
    released = exact_statistics(MDP, uniform_policy(4, 3, 2), 50, staged=learner.shape.staged)
    given, before_it = learner.begin(), bits(released)
    before = bits(given)
    planned, plan = learner.plan(given, np.random.default_rng(0))
    assert bits(given) == before
    between = bits(planned)
    updated = told(learner, planned, released)
    assert bits(planned) == between
    assert bits(released) == before_it
    assert bits(updated) != between
    # The plan owns its policy: planning again does not rewrite what users already hold.
    assert isinstance(plan, Plan)
    assert isinstance(plan.policy, DeterministicPolicy)
    held = plan.policy.actions.copy()
    for field in planned:
        if isinstance(field, np.ndarray):
            field[...] = 0
    np.testing.assert_array_equal(plan.policy.actions, held)
    # Same belief, same coins, same plan.
    once, again = (learner.plan(updated, np.random.default_rng(5))[1].policy.actions for _ in range(2))
    np.testing.assert_array_equal(once, again)


def test_a_copied_state_shares_nothing():
    belief = EVERY[0][1].begin()
    copied = copy_state(belief)
    assert type(copied) is type(belief)
    shared = [np.shares_memory(a, b) for a, b in zip(belief, copied, strict=True) if isinstance(a, np.ndarray)]
    assert shared
    assert not any(shared)


def test_every_kernel_learner_records_its_constants():
    for _, learner in EVERY:
        assert isinstance(learner, KernelLearner)
        assert learner.constants in ("theory", "practical", "none")
        assert (learner.z is not None) == (learner.constants == "practical")


def request(name: str, **changes) -> CountRequest:
    settings = {
        "name": name, "shape": shape_of(MDP, staged=True), "episodes": 10, "constants": None, "z": None,
        "users_per_batch": 1, "noisy": False,
        "precision": Unprotected(shape=shape_of(MDP, staged=True)).precision(), "options": {},
    }  # fmt: skip
    return CountRequest(**settings | changes)


def test_the_table_refuses_what_it_does_not_know():
    with pytest.raises(UnknownName, match="did you mean 'ucbvi'"):
        make_learner(request("ucbvy"))
    with pytest.raises(UnknownName, match="did you mean 'bonus'"):
        make_learner(request("ucbvi", options={"bonsu": "bernstein"}))
    with pytest.raises(InvalidInput, match="hoeffding, bernstein"):
        make_learner(request("ucbvi", options={"bonus": "magic"}))
    with pytest.raises(InvalidInput, match="do not account for privacy noise"):
        make_learner(request("ucbvi", noisy=True, constants="theory"))
    with pytest.raises(InvalidInput, match="prior"):
        make_learner(request("psrl", constants="practical"))
    for name in ("ucbvi", "dp-ucbvi", "ldp-obi", "private-ucb-vi", "private-ucb-po", "pucb"):
        assert make_learner(request(name)).constants == "practical", "one default, whatever the trust model"
    assert make_learner(request("ucbvi", noisy=True)).constants == "practical"


def test_every_option_lists_its_default_first():
    for name, entry in LEARNERS.items():
        if entry.asks is not Totals or entry.reference:
            continue
        defaults = {option: values[0] for option, values in entry.options.items() if "number" not in values}
        plain, spelt = make_learner(request(name)), make_learner(request(name, options=defaults))
        assert str(plain.parameters) == str(spelt.parameters)
        assert entry.summary
