"""One loop, two speeds: interpreted and compiled runs are the same run, bit for bit, whatever the chunks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tacit.environments.tabular import TabularMDP
from tacit.errors import InvalidInput
from tacit.learners.fixed import FixedPolicy
from tacit.learners.psrl import PSRL
from tacit.learners.ucbvi import UCBVI
from tacit.policies import uniform_policy
from tacit.release.none import Unprotected
from tacit.release.request import PrivacyRequest
from tacit.release.table import MECHANISMS, make_privatizer
from tacit.released.counts import CountShape
from tacit.simulation import worlds
from tacit.simulation.simulate import COMPILED_FROM, log_checkpoints, simulate

sys.path.insert(0, str(Path(__file__).parents[1] / "learners"))
from learner_tools import every_learner, shape_of, small_mdp

MDP = small_mdp(6)
EPISODES = 80
EVERY = list(every_learner(MDP, episodes=EPISODES))
PRIVATE = [(trust, name) for trust, names in MECHANISMS.items() for name in names]


def same(left, right) -> None:
    np.testing.assert_array_equal(left.episodes, right.episodes)
    assert left.regret.tobytes() == right.regret.tobytes()
    assert left.policy_changes == right.policy_changes


def speeds(learner, privatizer, mdp=MDP, episodes=EPISODES, seed=3):
    return (
        simulate(
            mdp, learner, privatizer, episodes=episodes, seed=seed, speed=speed, checkpoints=range(1, episodes + 1)
        )
        for speed in ("compiled", "interpreted")
    )


@pytest.mark.slow  # every learner with every option; each learner once: test_loop_registered
@pytest.mark.parametrize(("label", "learner"), EVERY, ids=[label for label, _ in EVERY])
def test_interpreted_is_compiled_for_every_learner(label, learner):
    compiled, interpreted = speeds(learner, Unprotected(shape=learner.shape))
    same(compiled, interpreted)
    assert compiled.regret[-1] > 0.0


def private(trust, mechanism, shape, *, episodes=EPISODES, users_per_batch=1):
    request = PrivacyRequest(
        trust=trust, shape=shape, episodes=episodes, epsilon=5.0, delta=1e-6, calibration="tight", mechanism=mechanism,
        users_per_batch=users_per_batch,
    )  # fmt: skip
    return make_privatizer(request)


@pytest.mark.slow  # every mechanism under a fused loop of its own
@pytest.mark.parametrize(("trust", "mechanism"), PRIVATE)
@pytest.mark.parametrize("staged", [True, False])
def test_interpreted_is_compiled_for_every_step_privatizer(trust, mechanism, staged):
    shape = shape_of(MDP, staged=staged)
    privatizer = private(trust, mechanism, shape, users_per_batch=20 if trust == "shuffle" else 1)
    # A batch is shuffled together: there is nothing to release after one user, and so no kernel.
    users = 20 if trust == "shuffle" else 1
    assert (privatizer.kernel is None) == (trust == "shuffle")
    learner = UCBVI(shape=shape, episodes=EPISODES, constants="practical", z=0.5, users_per_batch=users)
    same(*speeds(learner, privatizer))
    if trust == "shuffle":
        alone = UCBVI(shape=shape, episodes=EPISODES, constants="practical", z=0.5)
        with pytest.raises(InvalidInput, match="number of users per batch is 1, got 20"):
            simulate(MDP, alone, privatizer, episodes=EPISODES, seed=3)


@pytest.mark.parametrize("speed", ["compiled", "interpreted"])
def test_chunks_and_checkpoints_change_nothing(monkeypatch, speed):
    learner, privatizer = PSRL(shape=shape_of(MDP, staged=True)), Unprotected(shape=shape_of(MDP, staged=True))
    every = simulate(MDP, learner, privatizer, episodes=EPISODES, seed=1, speed=speed, checkpoints=range(1, 81))
    monkeypatch.setattr(worlds.TabularSampler, "chunk", 7)
    seen = []
    few = simulate(
        MDP, learner, privatizer, episodes=EPISODES, seed=1, speed=speed, checkpoints=[3, 50, 80], progress=seen.append
    )
    assert few.regret.tobytes() == every.regret[[2, 49, 79]].tobytes()
    assert few.policy_changes == every.policy_changes
    assert seen[-1] == EPISODES
    assert seen == sorted(set(seen))


def test_a_kept_learner_starts_afresh_and_seeds_differ():
    learner, privatizer = (
        UCBVI(shape=shape_of(MDP, staged=True), episodes=50),
        Unprotected(shape=shape_of(MDP, staged=True)),
    )
    first, again, other = (simulate(MDP, learner, privatizer, episodes=50, seed=s) for s in (0, 0, 1))
    same(first, again)
    assert first.regret.tobytes() != other.regret.tobytes()


class Taken(Exception):
    """Which way a run went."""


@pytest.mark.parametrize(
    ("speed", "episodes", "way"),
    [
        ("auto", COMPILED_FROM - 1, "interpret"), ("auto", COMPILED_FROM, "run_fused"),
        ("compiled", 2, "run_fused"), ("interpreted", COMPILED_FROM, "interpret"),
    ],
)  # fmt: skip
def test_only_what_is_long_or_asked_to_be_is_compiled(monkeypatch, speed, episodes, way):
    def stop(name):
        def taken(*arguments):
            raise Taken(name)

        return taken

    monkeypatch.setattr(sys.modules["tacit.simulation.simulate"], "COMPILED_FROM", COMPILED_FROM)  # as users have it
    for name in ("run_fused", "interpret"):
        monkeypatch.setattr(sys.modules["tacit.simulation.simulate"], name, stop(name))
    shape = shape_of(MDP, staged=True)
    with pytest.raises(Taken, match=way):
        simulate(MDP, PSRL(shape=shape), Unprotected(shape=shape), episodes=episodes, seed=0, speed=speed)


SCRIPT = """
import json, sys
sys.path[:0] = sys.argv[1:3]
from learner_tools import every_learner, small_mdp
from tacit.simulation.simulate import simulate
from tacit.release.none import Unprotected
mdp = small_mdp(7, horizon=3)
regret = {}
for label, learner in every_learner(mdp, episodes=40):
    if not label.startswith(tuple(sys.argv[3:])):
        continue
    run = simulate(mdp, learner, Unprotected(shape=learner.shape), episodes=40, seed=5, speed="compiled")
    regret[label] = [value.hex() for value in run.regret.tolist()]
print(json.dumps(regret))
"""


@pytest.mark.parametrize(
    ("names", "least"),
    # What else there is, each with a fused loop of its own, before a merge.
    [(("ucbvi",), 2), pytest.param(("",), 6, marks=pytest.mark.slow)],
)
def test_without_a_compiler_the_numbers_are_the_same_bits(names, least):
    tests = Path(__file__).parents[1]
    said = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT, str(tests / "learners"), str(tests / "reference"), *names],
            env=os.environ | {"NUMBA_DISABLE_JIT": disabled}, check=True, capture_output=True, text=True,
        ).stdout
        for disabled in ("0", "1")
    ]  # fmt: skip
    compiled, interpreted = (json.loads(text) for text in said)
    assert len(compiled) >= least
    assert compiled == interpreted


def test_log_checkpoints():
    assert log_checkpoints(1).tolist() == [1]
    grid = log_checkpoints(20_000)
    assert grid[0] == 1
    assert grid[-1] == 20_000
    assert (np.diff(grid) > 0).all()
    assert len(grid) <= 100
    for wrong in (0, -3, 2.5, True):
        with pytest.raises(InvalidInput):
            log_checkpoints(wrong)


def test_what_does_not_fit_together_is_refused():
    shape, other = shape_of(MDP, staged=True), CountShape(horizon=4, num_states=4, num_actions=2, staged=True)
    pooled = shape_of(MDP, staged=False)
    for learner_shape, privatizer_shape in ((other, shape), (shape, other), (shape, pooled), (other, other)):
        with pytest.raises(InvalidInput):
            simulate(MDP, PSRL(shape=learner_shape), Unprotected(shape=privatizer_shape), episodes=10, seed=0)
    learner, privatizer = PSRL(shape=shape), Unprotected(shape=shape)
    for marks in ([], [0, 10], [5], [3, 3, 10], [10, 20]):
        with pytest.raises(InvalidInput, match="checkpoints"):
            simulate(MDP, learner, privatizer, episodes=10, seed=0, checkpoints=marks)
    for changes in ({"episodes": 0}, {"seed": -1}):
        with pytest.raises(InvalidInput):
            simulate(MDP, learner, privatizer, **{"episodes": 10, "seed": 0} | changes)


def test_who_has_no_fused_form_is_driven_from_python_at_both_speeds():
    shape = shape_of(MDP, staged=True)
    fixed = FixedPolicy(name="uniform", policy=uniform_policy(4, 3, 2), shape=shape)
    batches = UCBVI(shape=shape, episodes=EPISODES, constants="practical", users_per_batch=30)
    for learner in (fixed, batches):
        fast, slow = speeds(learner, Unprotected(shape=shape))
        same(fast, slow)
        assert fast.regret[-1] > 0.0


@pytest.mark.parametrize(
    ("trust", "mechanism"),
    [
        ("central", "factorization"),
        ("local", "oue"),
    ],
)
def test_one_step_episodes_run_under_every_trust_model(trust, mechanism):
    mdp = TabularMDP(P=np.ones((1, 2, 1)), r=[[0.2, 0.8]], rho=[1.0], horizon=1)
    for staged in (True, False):
        shape = shape_of(mdp, staged=staged)
        learner = UCBVI(shape=shape, episodes=300, constants="practical", z=0.5)
        privatizer = private(trust, mechanism, shape, episodes=300)
        fast, slow = speeds(learner, privatizer, mdp=mdp, episodes=300)
        same(fast, slow)
        assert fast.regret.tobytes() == slow.regret.tobytes()


def test_a_run_without_privacy_hands_no_index_to_every_user() -> None:
    """The arrays of a support index are counted in and out with every user: half of the time of a small run."""
    dense = Unprotected(shape=CountShape(horizon=2, num_states=2, num_actions=1, staged=True))
    assert all(isinstance(part, int) for part in dense.parameters)
