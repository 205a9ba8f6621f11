"""Colluding devices: what they make up about one counter is found, honest releases are not held up."""

from __future__ import annotations

import numpy as np
import pytest
from chaos import row_poisoning
from chaos.row_poisoning import LIES, PEOPLE, Crowd

from tacit.released.batches import BatchQuery
from tacit.study.flow import IMPOSSIBLE, broken_flow

RUNS = row_poisoning.SCALES["ci"]["runs"]


@pytest.mark.parametrize("name", [name for name, (_, _, must) in LIES.items() if must])
def test_a_lie_about_one_counter_is_quarantined_every_time(name):
    assert row_poisoning.found_lies(name, RUNS, seed=17) == RUNS


@pytest.mark.statistical
def test_weaker_lies_are_found_as_often_as_their_size_says():
    """One message more of 2% is found nearly always, of 1% rarely; the bounds fail by chance below 1e-6."""
    assert row_poisoning.found_lies("one message more on one counter, 2%", RUNS, seed=17) >= 80
    assert row_poisoning.found_lies("one message more on one counter, 1%", RUNS, seed=17) <= 50


def test_what_a_person_may_send_is_not_found():
    """Stated limits: a made-up trajectory per report and made-up rewards keep to every line."""
    for name in ("one made-up trajectory in a report", "rewards that were not had"):
        assert row_poisoning.found_lies(name, RUNS, seed=17) <= 1


@pytest.mark.statistical
def test_honest_releases_are_hardly_ever_quarantined():
    """By design 6.3e-5 of them: more than 2 of 2,000 have a probability of 3e-4; the seed is fixed."""
    runs = row_poisoning.SCALES["ci"]["honest"]
    assert row_poisoning.false_alarms(runs, seed=17) <= row_poisoning.FALSE_ALARMS * runs


def test_every_counter_is_watched():
    """Whatever counter 500 people add a message to: found."""
    crowd = Crowd(1)
    sums = crowd.sums(crowd.counts(PEOPLE))
    assert crowd.verdict(sums) is None
    for place in range(len(sums)):
        lied = sums.copy()
        lied[place] += 500
        assert crowd.verdict(lied) is not None, place


def test_a_stage_about_one_step_is_not_compared_with_steps_that_nobody_released():
    """Honest people of a stage that asks about one layer pass, several lives in a report do not."""
    from dataclasses import replace

    crowd = Crowd(2)
    for layer in (0, 3):
        kind = replace(crowd.channel, query=BatchQuery(layer=layer, failure_prob=None))
        _, payload = kind.simulate(kind.begin_secret(), crowd.counts(PEOPLE), kind.query, crowd.noise)
        _, found = kind.read(kind.begin_memory(), payload, PEOPLE)
        assert broken_flow(found.statistics, "shuffle", layer) is None
        assert broken_flow(found.statistics, "shuffle") is not None
        more = np.frombuffer(payload, dtype="<i8") + 100
        _, found = kind.read(kind.begin_memory(), more.astype("<i8").tobytes(), PEOPLE)
        assert broken_flow(found.statistics, "shuffle", layer) is not None


def test_a_poisoned_stage_through_the_services():
    """Two of forty put every message on one label: the learner holds the release, and can give the stage up."""
    found = row_poisoning.through_services(40, 2)
    assert found["answers"] == {"counted": 40}
    ((stage, question, words),) = found["quarantined"]
    assert (stage, question) == (0, 0)
    assert words.startswith("flow: ")
    assert found["void"] == 200


def test_an_impossible_histogram_is_quarantined_and_can_be_given_up():
    """More messages of one label than so many devices have: the study is not stuck with it."""
    found = row_poisoning.through_services(12, 12)
    assert [one[2] for one in found["quarantined"]] == [IMPOSSIBLE]
    assert found["void"] == 200
