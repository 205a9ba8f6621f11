"""Bundles: a policy with its certificate, written, loaded, and refused when anything in it was changed."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest

import tacit
from tacit.errors import InvalidInput
from tacit.policies import policy_to_dict
from tacit.runs.assemble import assemble
from tacit.runs.bundle import _digest
from tacit.runs.config import RunConfig


@pytest.fixture(scope="module")
def result():
    return tacit.run(
        environment="treatment:horizon=3", learner="sdp-bucb", trust="shuffle", epsilon=1.0, delta=1e-6, episodes=2000,
        seeds=2, workers=1,
    )  # fmt: skip


def test_what_was_written_is_read(result, tmp_path):
    path = tacit.export_bundle(result, tmp_path / "bundle.json", seed=1, audit=[{"verdict": "holds"}])
    found = tacit.load_bundle(path)
    assert (found.claim, found.certificate, found.seed) == (result.claim, result.certificate, 1)
    assert found.config == result.config.with_seeds([1])
    assert np.array_equal(found.policy.actions, result.policy_of(1).actions)
    assert found.audit == ({"verdict": "holds"},)
    assert found.version == tacit.__version__
    json.loads(path.read_text(), parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


def changed_claim(content):
    content["claim"]["epsilon"] = 0.1


def changed_policy(content):
    content["policy"]["actions"][0][0] ^= 1


def changed_certificate(content):
    content["certificate"]["epsilon"] = 0.5
    content["certificate"]["verdict"] = (
        "The claim is true: the accountant certifies epsilon 0.5 at delta 1e-06, 2 times stronger than claimed."
    )


def changed_configuration(content):
    content["config"]["epsilon"] = 2.0


def cut_policy(content):
    content["policy"]["actions"] = content["policy"]["actions"][:-1]


def lost_claim(content):
    del content["claim"]


ALL = [changed_claim, changed_policy, changed_certificate, changed_configuration, cut_policy, lost_claim]


@pytest.mark.parametrize("change", ALL)
@pytest.mark.parametrize("forged", [False, True], ids=["as it is", "with a new digest"])
def test_what_was_changed_is_refused(result, tmp_path, change, forged):
    path = tacit.export_bundle(result, tmp_path / "bundle.json")
    content = json.loads(path.read_text())
    change(content)
    if forged:
        del content["digest"]
        content["digest"] = _digest(content)
    path.write_text(json.dumps(content))
    if forged and change is changed_policy:
        return  # whoever can write a digest can write a policy: a digest is no signature
    with pytest.raises(InvalidInput, match="digest" if not forged else "must"):
        tacit.load_bundle(path)


def test_the_policy_is_the_last_one_that_was_planned():
    config = RunConfig(environment="random-mdp", learner="psrl", episodes=60, seeds=(5, 6))
    parts, result = assemble(config), tacit.run(**config.to_dict(), workers=1)
    planned = []

    class Watched(type(parts.learner)):
        def plan(self, belief, coins):
            after, plan = super().plan(belief, coins)
            planned.append(plan.policy.actions)
            return after, plan

    watched = copy.copy(parts.learner)
    watched.__class__ = Watched
    tacit.simulate(parts.world, watched, parts.privatizer, episodes=60, seed=5, speed="interpreted")
    assert len(planned) == 60
    assert np.array_equal(result.policy.actions, planned[-1])
    assert not np.array_equal(result.policy_of(5).actions, result.policy_of(6).actions)


@pytest.mark.parametrize(
    ("learner", "options"),
    [
        ("dp-pg:policy=gaussian", {"environment": "dose-bandit:contexts=2"}),
        ("uc-o-reps", {"environment": "layered:layers=3,states=2", "adversary": "iid"}),
        ("dp-ppo", {"environment": "contextual-bandit", "trust": "central", "epsilon": 1.0, "delta": 1e-6}),
    ],
)
def test_policies_that_are_no_tables_of_actions_are_bundled_and_kept(learner, options, tmp_path):
    given = tacit.run(learner=learner, episodes=200, seeds=1, workers=1, out=tmp_path / "run", **options)
    kept = tacit.load(tmp_path / "run")
    found = tacit.load_bundle(tacit.export_bundle(kept, tmp_path / "bundle.json"))
    assert policy_to_dict(found.policy) == policy_to_dict(kept.policy) == policy_to_dict(given.policy)


def test_a_directory_of_a_version_that_kept_no_policies_still_loads(tmp_path):
    tacit.run(environment="riverswim", learner="psrl", episodes=50, seeds=1, workers=1, out=tmp_path / "run")
    (tmp_path / "run" / "policies.json").unlink()
    old = tacit.load(tmp_path / "run")
    assert old.regret.shape[0] == 1
    with pytest.raises(InvalidInput, match="holds no policies; run it again: tacit run --environment riverswim"):
        tacit.export_bundle(old, tmp_path / "bundle.json")


def test_what_cannot_be_bundled_is_refused(result, tmp_path):
    with pytest.raises(InvalidInput, match="seed must be one of"):
        tacit.export_bundle(result, tmp_path / "bundle.json", seed=99)
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(InvalidInput, match="tacit-bundle"):
        tacit.load_bundle(tmp_path / "other.json")
