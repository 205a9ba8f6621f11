"""The transcript of a shuffled batch: single bits hold, everything that says more is refuted."""

from __future__ import annotations

import numpy as np
import pytest
from shuffle_tools import plan_of, shuffle_claim

from mutants.planted import twin
from mutants.shuffle import NotShuffled
from tacit.audit.mechanisms import DISTINGUISHERS, IntegerMessages, as_printed, audit_messages, message_scores
from tacit.release.contract import StageSize
from tacit.release.shuffle_release import ShuffleRelease
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountShape

SHAPE = CountShape(horizon=2, num_states=2, num_actions=2, staged=True)


def stage_of(users: int) -> ShuffleRelease:
    size = StageSize(target=users, least=users, query=BatchQuery(layer=0, failure_prob=None))
    return plan_of(SHAPE, shuffle_claim(epsilon=3.0)).release_of(size)


PROTOCOL = stage_of(10)


@pytest.mark.statistical
def test_G1_single_bits_hold_and_G2_integers_do_not():
    """False-alarm rate 0.01 for all four distinguishers together; power: the printed protocol is refuted."""
    bits = audit_messages(PROTOCOL, epsilon=3.0, delta=1e-6, trials=1200, name="bits")
    integers = audit_messages(as_printed(PROTOCOL), epsilon=3.0, delta=1e-6, trials=1200, name="integers")
    assert (bits.verdict, integers.verdict) == ("holds", "CERTIFICATE REFUTED")
    assert "values" in integers.note
    assert bits.confidence == integers.confidence == pytest.approx(0.99)


def test_an_integer_of_m_plus_1_proves_the_data():
    """It comes with probability q^m, and never from anybody else."""
    first, second = message_scores(as_printed(PROTOCOL), 600, 0)
    m, q = PROTOCOL.bits_per_user, float(PROTOCOL.probability)
    most = m + 1
    assert (first[:, 0] < most).all()
    assert np.mean(second[:, 0] == most) == pytest.approx(q**m, abs=0.035)
    assert (message_scores(PROTOCOL, 50, 0)[1][:, 0] <= 1).all()


def test_G2_messages_in_their_order_tell_who_sent_them():
    """Labels are sorted within a body, so noise bits hide the data bits there: few of them where many people come."""
    sorted_out = twin(NotShuffled, stage_of(150))
    found = audit_messages(sorted_out, epsilon=3.0, delta=1e-6, trials=300, name="in order")
    assert found.verdict == "CERTIFICATE REFUTED"
    assert "order" in found.note
    assert len(DISTINGUISHERS) == 4


def test_the_printed_protocol_releases_the_same_sums():
    printed = as_printed(PROTOCOL)
    assert isinstance(printed, IntegerMessages)
    assert printed.events() == PROTOCOL.events()
