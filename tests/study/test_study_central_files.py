"""Central studies over files: learner and collector with the channels of real designs, all with secure noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from central_tools import SMALL, one, people
from study_world import fast_directory

from tacit.data.trajectories import Trajectories
from tacit.randomness import SecureNoise
from tacit.study.bundle import Bundle
from tacit.study.collector import Collector
from tacit.study.design import StudyDesign, plan_study
from tacit.study.record import replayed
from tacit.study.study import Study
from tacit.study.wire import ReleasePayload, Report, sha256

COUNT = 12


def design_of(learner: str, **options) -> StudyDesign:
    return plan_study(
        name="small", states=2, actions=2, horizon=3, learner=learner, trust="central", epsilon=1.0, delta=1e-6,
        stages=4, target=COUNT, least=10, **options,
    )  # fmt: skip


def collect(study: Study, collector: Collector, users: Trajectories) -> bytes:
    """One stage, or its next question, from the bundle to the release."""
    data = study.plan()
    bundle = Bundle.parse(data)
    collector.open(data)
    if collector.status()["state"] == "open":
        for i in range(len(users)):
            body = bundle.channel.encode(one(users, i), SecureNoise())
            name = sha256(f"{bundle['stage']}:{i}".encode())[:16]
            report = Report(study=collector.study, stage=bundle["stage"], id=name, body=body).encode()
            assert collector.add(report, f"person {bundle['stage']} {i}") == "counted"
        collector.close()
    return collector.release(study.head)


@pytest.mark.parametrize("mechanism", ["factorization", "batched"])
def test_a_quarantined_stage_that_is_given_up_leaves_later_totals_right(mechanism, monkeypatch):
    """The second of four stages is quarantined and given up: later totals hold its people, or leave them out."""
    flags = iter([None, "flow: planted", None, None])
    monkeypatch.setattr("tacit.study.study.broken_flow", lambda *_: next(flags))
    with fast_directory() as place:
        design = design_of("ucbvi", mechanism=mechanism)
        study, collector = Study.new(f"{place}/study", design, seed=1), Collector.new(f"{place}/collector", design)
        stages = [people(SMALL, COUNT, seed, binary=True) for seed in range(4)]
        seen = []
        honest = type(study.parts.channels[0]).read

        def watched(self, memory, payload, count):
            after, found = honest(self, memory, payload, count)
            seen.append(found.statistics)
            return after, found

        for number, users in enumerate(stages):
            release = collect(study, collector, users)
            assert ReleasePayload.parse(release).people == COUNT
            if number == 3:
                monkeypatch.setattr(type(study.parts.channels[0]), "read", watched)
            if number == 1:
                assert study.take(release) == "quarantined"
                study.void("made-up reports")
            else:
                assert study.take(release) == "taken"
        last = seen[-1]
        counted = stages if mechanism == "factorization" else [stages[0], stages[2], stages[3]]
        exact = sum(users.rewards.sum() for users in counted)
        # All 12 cells: a sum of twelve noises of the stated variance, eight standard deviations (1e-15).
        assert abs(last.rewards.sum() - exact) <= 8.0 * math.sqrt(12 * last.variance[2])
        assert last.users[0] == COUNT * len(counted)
        monkeypatch.setattr(type(study.parts.channels[0]), "read", honest)
        assert replayed(study) > 8


@pytest.mark.parametrize("learner", ["bucb", "dp-pg:clip=1.0", "dp-ppo"])
def test_other_central_learners_run_over_files(learner):
    """Single batches and gradients, with several questions about the same people where there are epochs."""
    with fast_directory() as place:
        design = design_of(learner)
        study, collector = Study.new(f"{place}/study", design, seed=1), Collector.new(f"{place}/collector", design)
        questions = study.parts.channels[0].questions
        assert (questions > 1) == (learner == "dp-ppo")
        for stage in range(len(study.parts.channels)):
            target = study.parts.channels[stage].target
            users = people(SMALL, target, stage, binary=True)
            for _ in range(questions):
                assert study.take(collect(study, collector, users)) == "taken"
        assert Bundle.parse(study.plan())["query"] is None
        table = study.policy().probabilities(2)
        assert np.allclose(table.sum(axis=-1), 1.0)
        assert study.certificate().holds
        assert replayed(study) > 0
