"""Bundles: a policy with its certificate, written, loaded, and refused when anything in it was changed."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tacit
from tacit.errors import InvalidInput, NotSupported
from tacit.runs.assemble import assemble
from tacit.runs.bundle import _digest, _Watched, final_policy
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
    assert np.array_equal(found.policy.table, final_policy(result.config, 1))
    assert found.audit == ({"verdict": "holds"},)
    assert found.version == tacit.__version__
    json.loads(path.read_text(), parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


def changed_claim(content):
    content["claim"]["epsilon"] = 0.1


def changed_policy(content):
    content["policy"]["probabilities"][0][0] = [1.0] + [0.0] * (len(content["policy"]["probabilities"][0][0]) - 1)


def changed_certificate(content):
    content["certificate"]["epsilon"] = 0.5
    content["certificate"]["verdict"] = (
        "The claim is true: the accountant certifies epsilon 0.5 at delta 1e-06, 2 times stronger than claimed."
    )


def changed_configuration(content):
    content["config"]["epsilon"] = 2.0


def cut_policy(content):
    content["policy"]["probabilities"] = content["policy"]["probabilities"][:-1]


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


def test_the_policy_is_the_last_one_of_the_run_at_both_speeds():
    config = RunConfig(environment="random-mdp", learner="psrl", episodes=60, seeds=(5,))
    parts = assemble(config)
    watched = _Watched(parts.learner)
    tacit.simulate(parts.mdp, watched, parts.privatizer, episodes=60, seed=5, speed="interpreted")
    assert np.array_equal(final_policy(config, 5), watched.last.probabilities(parts.mdp.num_actions))
    assert not np.array_equal(final_policy(config, 5), final_policy(config, 6))


def test_what_cannot_be_bundled_is_refused(result, tmp_path):
    with pytest.raises(InvalidInput, match="seed must be one of"):
        tacit.export_bundle(result, tmp_path / "bundle.json", seed=99)
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(InvalidInput, match="tacit-bundle"):
        tacit.load_bundle(tmp_path / "other.json")
    with pytest.raises(NotSupported, match="dp-pg"):
        final_policy(RunConfig(environment="contextual-bandit", learner="dp-pg", episodes=100, seeds=(0,)), 0)
