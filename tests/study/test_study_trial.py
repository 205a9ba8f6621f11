"""Trials as studies: secure noise, devices that draw their own arm, and a verdict from the public release alone."""

from __future__ import annotations

import json

import numpy as np
import pytest
from study_fakes import REHEARSAL

from tacit.cli import main
from tacit.errors import InvalidInput, UnknownName
from tacit.planning.arms import interval_of
from tacit.release.arms import make_arms
from tacit.released.arms import BitNoiseSum, FlippedBits, GaussianSum
from tacit.service.dashboard import views
from tacit.study.collector import Collector
from tacit.study.design import plan_study
from tacit.study.device import Device
from tacit.study.study import Study
from tacit.study.trial import is_trial, plan_trial, read_trial, trial_bit

ARMS = ("careful", "new")


def carried_out(place, trust, chances, people=120, epsilon=8.0):
    """A trial in files: every device draws its person's arm and sends one bit."""
    delta = 0.0 if trust == "local" else 1e-6
    design = plan_trial(arms=ARMS, people=people, trust=trust, epsilon=epsilon, delta=delta)
    study = Study.new(place / "study", design, seed=0)
    collector = Collector.new(place / "collector", design)
    bundle = study.plan()
    collector.open(bundle)
    rng, reports = np.random.default_rng(1), []
    for number in range(people):
        device = Device(None, **REHEARSAL)
        device.accept(bundle)
        arm = device.act(0, "everybody")
        bit = trial_bit(10.0 * chances[ARMS.index(arm)], (0.0, 10.0), rng)
        reports.append(
            (device.report({"states": ["everybody"] * 2, "actions": [arm], "rewards": [bit]}), f"person {number}")
        )
    collector.add_many(iter(reports))
    collector.close()
    assert views.trial(study) == {"arms": list(ARMS), "line": None}
    assert read_trial(study) is None
    study.take(collector.release(study.head))
    return study


@pytest.mark.parametrize(
    ("trust", "noise"), [("central", GaussianSum), ("shuffle", BitNoiseSum), ("local", FlippedBits)]
)
def test_a_trial_as_a_study_has_a_verdict_and_the_certificate_of_a_release(tmp_path, capsys, trust, noise):
    study = carried_out(tmp_path, trust, (0.05, 0.95))
    found = read_trial(study, bounds=(0.0, 10.0))
    assert found.verdict == "better"
    assert found.interval.low < 9.0 < found.interval.high
    assert isinstance(found.released.noise, noise)
    assert found.certificate.release
    assert found.certificate.holds
    assert views.trial(study)["line"].endswith("better (120 people)")
    assert main(["trial", "read", str(tmp_path / "study"), "--bounds", "0,10", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "better"


def test_the_law_of_own_lots_is_that_of_one_arm():
    """Exact enumeration by hand: noise in half a signed sum of four counters has the variance that is stated."""
    design = plan_trial(arms=ARMS, people=50, trust="central", epsilon=1.0, delta=1e-6)
    channel = design.parts().channels[0]
    from tacit.study.trial import _noise

    assert _noise(channel, 50).variance() == pytest.approx(channel.std**2)
    shuffled = plan_trial(arms=ARMS, people=50, trust="shuffle", epsilon=1.0, delta=1e-6).parts().channels[0]
    assert _noise(shuffled, 50).variance() == pytest.approx(shuffled.bit_noise(50).total.variance)


def test_a_local_trial_is_that_of_a_simulation_with_the_same_bits(tmp_path):
    """Given how many drew which arm, the interval is the one that `tacit.trial` states for these sums."""
    study = carried_out(tmp_path, "local", (0.3, 0.6), people=60, epsilon=1.0)
    found = read_trial(study, bounds=(0.0, 10.0))
    assert sum(found.released.users) == 60
    assert found.released.noise.flip == make_arms(users=(30, 30), trust="local", epsilon=1.0, delta=0.0).noise.flip
    own = interval_of(found.released, 0.05)
    assert (found.interval.low, found.interval.high) == (10.0 * own.low, 10.0 * own.high)
    assert found.interval.p_value == own.p_value
    assert found.certificate.epsilon == 1.0


def test_a_mean_is_tested_against_a_null():
    from tacit.released.arms import ArmStatistics, NoNoise

    one = ArmStatistics(sums=(70.0,), users=(100,), noise=NoNoise())
    assert interval_of(one, 0.05, null=0.5).p_value < 0.01
    assert interval_of(one, 0.05, null=0.7).p_value > 0.5
    two = ArmStatistics(sums=(70.0, 70.0), users=(100, 100), noise=NoNoise())
    with pytest.raises(InvalidInput, match="remove null"):
        interval_of(two, 0.05, null=0.5)


def test_what_is_no_trial_is_refused(tmp_path, capsys):
    with pytest.raises(InvalidInput, match="as many people in each of 2 arms"):
        plan_trial(arms=ARMS, people=51, trust="local", epsilon=1.0, delta=0.0)
    with pytest.raises(UnknownName, match="trust model of a trial"):
        plan_trial(arms=ARMS, people=50, trust="none", epsilon=1.0, delta=0.0)
    with pytest.raises(InvalidInput, match="two arms"):
        plan_trial(arms=("a", "b", "c"), people=50, trust="central", epsilon=1.0, delta=1e-6)
    design = plan_study(states=2, actions=2, horizon=1, trust="central", epsilon=1.0, delta=1e-6, stages=1, target=20)
    assert not is_trial(design)
    study = Study.new(tmp_path / "other", design)
    with pytest.raises(InvalidInput, match="planned as one"):
        read_trial(study)
    assert views.trial(study) is None
    file = tmp_path / "design.json"
    words = ["trial", "plan", str(file), "--arms", "careful,new", "--people", "40", "--trust", "central"]
    assert main([*words, "--epsilon", "1", "--delta", "1e-6"]) == 0
    assert main(["study", "new", str(tmp_path / "mine"), "--design", str(file)]) == 0
    capsys.readouterr()
    assert main(["trial", "read", str(tmp_path / "mine")]) == 2
    assert "there is none yet" in capsys.readouterr().err


def test_bits_of_returns_are_unbiased():
    rng = np.random.default_rng(3)
    bits = [trial_bit(2.5, (0.0, 10.0), rng) for _ in range(2000)]
    assert abs(np.mean(bits) - 0.25) < 0.05  # five standard deviations
    assert trial_bit(float("nan"), (0.0, 10.0), rng) == 0.0
