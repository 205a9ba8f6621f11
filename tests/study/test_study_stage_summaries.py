"""What releases say in public: returns with honest intervals, z-scores of contradictions, policies by name."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from scipy import stats
from study_fakes import REHEARSAL

from tacit.data.counts import count_trajectories
from tacit.data.trajectories import Trajectories
from tacit.noise.support_index import places_of
from tacit.randomness import SimulationNoise
from tacit.released.counts import CountShape, CountStatistics, empty_counts
from tacit.statistics.count_vectors import add_vector
from tacit.study.bundle import Bundle
from tacit.study.collector import Collector
from tacit.study.design import StudyDesign, plan_study
from tacit.study.device import Device
from tacit.study.flow import broken_flow, flow_scores
from tacit.study.stage_summaries import StagePolicy, changes, followed, readings, return_of
from tacit.study.study import Study
from tacit.study.wire import ReleasePayload

LIVED = {"states": ["low", "high", "high"], "actions": ["wait", "act"], "rewards": [0.0, 1.0]}
PEOPLE, STAGES = 30, 3


@cache
def design_of(trust: str, **options) -> StudyDesign:
    return plan_study(
        states=("low", "high"),
        actions=("wait", "act"),
        horizon=2,
        trust=trust,
        epsilon=2.0,
        delta=0.0 if trust == "local" else 1e-6,
        stages=STAGES,
        target=PEOPLE,
        least=20,
        **options,
    )


def lived(rng: np.random.Generator) -> Trajectories:
    return Trajectories(
        rng.integers(2, size=(PEOPLE, 3)),
        rng.integers(2, size=(PEOPLE, 2)),
        rng.integers(2, size=(PEOPLE, 2)).astype(float),
    )


@pytest.mark.statistical
@pytest.mark.parametrize("trust", ["central", "shuffle"])
def test_the_stated_noise_is_that_of_a_single_stage(trust):
    """600 studies over the same data: squared errors over the stated variance add up to a chi-square (four standard
    deviations, false alarms 6e-5 for each of three stages); noise that is 25% off would be 10 of them away.
    """
    design, rng, runs = design_of(trust), np.random.default_rng(3), 600
    data = [count_trajectories(lived(rng), 2, 2) for _ in range(STAGES)]
    channels = design.parts().channels
    scores = np.zeros((runs, STAGES))
    for run in range(runs):
        secret, memory, before = channels[0].begin_secret(), channels[0].begin_memory(), None
        for k, channel in enumerate(channels):
            secret, payload = channel.simulate(secret, data[k], channel.query, SimulationNoise(rng))
            after, found = channel.read(memory, payload, PEOPLE)
            got, why = return_of(design, channel, memory, before, found.statistics, payload, PEOPLE)
            assert got is not None, why
            scores[run, k] = (got.mean - data[k].rewards.sum() / PEOPLE) / got.noise_std
            memory, before = after, found.statistics
    ratios = np.square(scores).mean(axis=0)
    assert np.abs(ratios - 1.0).max() < 4.0 * math.sqrt(2.0 / runs), ratios


def test_the_interval_of_a_local_stage_is_that_of_its_messages(tmp_path):
    """The textbook interval of a mean, message by message."""
    design = design_of("local", rewards=(2.0, 4.0))
    study, collector = Study.new(tmp_path / "s", design, seed=0), Collector.new(tmp_path / "c", design)
    release = stage_of(study, collector)
    study.take(release)
    (found,) = readings(study)
    channel, values = study.parts.channels[0], []
    payload = ReleasePayload.parse(release).payload
    for start in range(0, len(payload), channel.body_size):
        counts = empty_counts(channel.shape)
        message = channel.wire.total([payload[start : start + channel.body_size]])
        add_vector(counts, message, places_of(channel.shape), channel.encoding == "complement")
        values.append(4.0 + 2.0 * counts.rewards.sum())
    half = stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values))
    assert found.returned.mean == pytest.approx(np.mean(values))
    assert found.returned.high - found.returned.mean == pytest.approx(half)
    assert found.returned.noise_std is None
    assert found.flow == ()


def test_an_interval_without_noise_covers_who_came():
    """The part of the accident is that of returns of 0 or H, the widest there are."""
    design = design_of("central")
    channel = design.parts().channels[0]
    counts = empty_counts(channel.shape)
    counts.rewards[0, 0, 0], counts.users[0] = 30.0, 30
    got, _ = return_of(design, channel, channel.begin_memory(), None, counts, b"", 30)
    assert got.mean == pytest.approx(1.0)
    assert got.high - got.mean == pytest.approx(1.959964 * math.sqrt(got.noise_std**2 + 1.0 / 30))


def test_who_holds_no_rewards_says_so():
    got, why = return_of(design_of("central"), None, None, None, object(), b"", 30)
    assert got is None
    assert "no sum of rewards" in why


def stage_of(study: Study, collector: Collector, people: int = 25) -> bytes:
    bundle = study.plan()
    collector.open(bundle)
    stage = Bundle.parse(bundle)["stage"]
    for person in range(people):
        device = Device(None, **REHEARSAL)
        device.accept(bundle)
        collector.add(device.report(LIVED), f"{stage}-{person}")
    collector.close()
    return collector.release(study.head)


@pytest.mark.parametrize("trust", ["central", "shuffle"])
def test_a_skipped_stage_is_in_no_return_and_a_quarantined_one_is_not_learned_from(tmp_path, trust, monkeypatch):
    design = design_of(trust)
    study, collector = Study.new(tmp_path / "s", design, seed=0), Collector.new(tmp_path / "c", design)
    assert study.take(stage_of(study, collector)) == "taken"
    release = stage_of(study, collector)
    study.void("given up here")
    assert study.take(release) == "skipped"
    release = stage_of(study, collector)
    monkeypatch.setattr("tacit.study.study.broken_flow", lambda *_: "flow: made up")
    assert study.take(release) == "quarantined"
    used, skipped, held = readings(study)
    assert (used.use, skipped.use, held.use) == ("used", "skipped", "quarantined")
    assert used.returned.low < used.returned.mean < used.returned.high
    assert skipped.returned is None
    assert held.returned is None
    assert study.take(release, inspected=True) == "taken"
    last = readings(study)[-1]
    assert last.use == "used"
    assert abs(last.returned.mean - 1.0) < 6 * last.returned.noise_std, "everybody's return is one"


@pytest.mark.parametrize("broken", [False, True])
def test_scores_are_beyond_what_is_allowed_where_a_release_is_quarantined(broken):
    rng = np.random.default_rng(5)
    shape = CountShape(horizon=3, num_states=2, num_actions=2, staged=True)
    counts: CountStatistics = empty_counts(shape)
    counts.variance[:], counts.users[0] = 4.0, 100
    counts.visits[:] = 25.0 + rng.normal(0, 2, counts.visits.shape)
    counts.transitions[:-1] = 12.5 + rng.normal(0, 2, counts.transitions[:-1].shape)
    counts.visits[1, 0, 0] += 60.0 * broken
    scores = flow_scores(counts, "shuffle")
    assert [(score.law, score.lines) for score in scores] == [("arrivals", 4), ("departures", 8), ("people", 3)]
    assert any(score.largest > score.allowed for score in scores) == broken
    assert (broken_flow(counts, "shuffle") is not None) == broken
    assert flow_scores(counts, "local") == ()
    assert [score.law for score in flow_scores(counts, "central", layer=1)] == ["people"]


def test_changes_are_named_by_step_and_state():
    def of(stage: int, shares) -> StagePolicy:
        names = {"states": ("low", "high"), "actions": ("wait", "act")}
        return StagePolicy(stage=stage, asks=True, killed=False, shares=np.array(shares), **names)

    before = of(0, [[[1.0, 0.0], [0.0, 1.0]]])
    after = of(1, [[[1.0, 0.0], [0.5, 0.5]]])
    (found,) = changes(before, after)
    assert (found.step, found.state, found.before, found.after) == (0, "high", "act", "wait 50%, act 50%")
    assert changes(after, after) == ()


def test_the_policies_of_all_stages_are_those_of_their_bundles(tmp_path):
    design = design_of("central")
    study, collector = Study.new(tmp_path / "s", design, seed=0), Collector.new(tmp_path / "c", design)
    study.take(stage_of(study, collector))
    study.plan()
    study.kill()
    study.plan()
    found = followed(study)
    assert [(one.stage, one.asks, one.killed) for one in found] == [
        (0, True, False),
        (1, True, False),
        (2, False, True),
    ]
    assert all(np.allclose(one.shares.sum(axis=2), 1.0) for one in found)
    assert {found[-1].words(h, s) for h in range(2) for s in range(2)} == {"wait 50%, act 50%"}, "the fall-back"
