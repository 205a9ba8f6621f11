"""The transcript of a shuffled batch: single bits hold, everything that says more is refuted."""

from __future__ import annotations

import numpy as np
import pytest

from mutants.shuffle import NotShuffled
from tacit.audit.messages import DISTINGUISHERS, IntegerMessages, as_printed, audit_messages, message_scores
from tacit.release.shuffle.protocol import Shuffle
from tacit.statistics.count_spec import ReleaseSpec

SPEC = ReleaseSpec.crude(num_states=2, num_actions=2, horizon=2, layer=0)
PROTOCOL = Shuffle.tight(SPEC, epsilon=3.0, delta=1e-6, users=10)


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
    noise = PROTOCOL.bit_noise
    most = noise.bits_per_user + 1
    assert (first[:, 0] < most).all()
    assert np.mean(second[:, 0] == most) == pytest.approx(noise.probability**noise.bits_per_user, abs=0.035)
    assert (message_scores(PROTOCOL, 50, 0)[1][:, 0] <= 1).all()


def test_G2_messages_in_their_order_tell_who_sent_them():
    sorted_out = NotShuffled(spec=SPEC, bit_noise=PROTOCOL.bit_noise)
    found = audit_messages(sorted_out, epsilon=3.0, delta=1e-6, trials=300, name="in order")
    assert found.verdict == "CERTIFICATE REFUTED"
    assert "order" in found.note
    assert len(DISTINGUISHERS) == 4


def test_the_printed_protocol_releases_the_same_sums():
    printed = as_printed(PROTOCOL)
    assert isinstance(printed, IntegerMessages)
    assert printed.events() == PROTOCOL.events()
