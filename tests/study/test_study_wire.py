"""Bytes between the parties: whatever is cut, longer, changed, unknown or badly signed is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from study_fakes import FakeDesign, bundle_of

from tacit.documents import canonical
from tacit.errors import InvalidInput
from tacit.protocol import TOTALS
from tacit.released.batches import BatchQuery
from tacit.released.gradients import SoftmaxQuery
from tacit.released.losses import LossQuery
from tacit.runs.signature import new_keys
from tacit.study.bundle import ENTRIES, Bundle, query_from_dict, query_to_dict
from tacit.study.contract import GENESIS_HEAD, Head
from tacit.study.wire import RELEASE_HEAD, REPORT_HEAD, ReleasePayload, Report

HEAD = Head(number=5, digest=bytes(range(32)))
DESIGN = FakeDesign()


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return new_keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    return new_keys(tmp_path_factory.mktemp("others"))


def release(payload: bytes = b"\x01\x02\x03") -> ReleasePayload:
    return ReleasePayload(study=bytes(32), stage=2, question=1, people=7, noise="secure", charge=HEAD, payload=payload)


@given(stage=st.integers(0, 2**32 - 1), body=st.binary(max_size=40), name=st.binary(min_size=16, max_size=16))
def test_reports_come_back_as_they_were(stage, body, name):
    made = Report(study=bytes(range(32)), stage=stage, id=name, body=body)
    assert Report.parse(made.encode()) == made
    assert len(made.encode()) == REPORT_HEAD.size + len(body) == 56 + len(body)


@given(payload=st.binary(max_size=64), noise=st.sampled_from(["secure", "simulation"]))
def test_releases_come_back_as_they_were(payload, noise):
    made = ReleasePayload(study=bytes(32), stage=1, question=0, people=3, noise=noise, charge=HEAD, payload=payload)
    assert ReleasePayload.parse(made.encode()) == made
    assert made.examined(None).words == "unsigned"


def test_a_cut_or_longer_release_is_refused_at_every_length(keys):
    for data in (release().encode(), release().signed(keys[0]).encode()):
        for length in range(len(data)):
            with pytest.raises(InvalidInput):
                ReleasePayload.parse(data[:length])
        with pytest.raises(InvalidInput, match="as long as it says"):
            ReleasePayload.parse(data + b"\x00")


def test_a_report_without_a_whole_header_is_refused():
    data = Report(study=bytes(32), stage=0, id=bytes(16), body=b"").encode()
    for length in range(len(data)):
        with pytest.raises(InvalidInput):
            Report.parse(data[:length])


def test_every_flipped_bit_of_a_signed_release_is_found(keys):
    data = release().signed(keys[0]).encode()
    assert ReleasePayload.parse(data).examined(keys[1]).pinned
    for place in range(8 * len(data)):
        changed = bytearray(data)
        changed[place // 8] ^= 1 << (place % 8)
        try:
            found = ReleasePayload.parse(bytes(changed))
        except InvalidInput:
            continue
        assert not found.examined(keys[1]).pinned, place


def test_another_key_is_not_the_pinned_one(keys, others):
    made = release().signed(others[0])
    assert made.examined(None).valid
    assert not made.examined(None).pinned
    assert not made.examined(keys[1]).valid
    assert release().examined(keys[1]).words == "unsigned"


@pytest.mark.parametrize(
    "wrong",
    [
        {"stage": -1},
        {"stage": 2**32},
        {"question": True},
        {"people": 1.5},
        {"noise": "none"},
        {"study": b"short"},
        {"signature": b"short"},
    ],
)
def test_a_release_out_of_range_is_never_written(wrong):
    with pytest.raises(InvalidInput):
        ReleasePayload(**{**release()._fields(), **wrong})


def test_nothing_sensitive_is_printed():
    assert "body" not in repr(Report(study=bytes(32), stage=0, id=bytes(16), body=b"secret"))
    assert "secret" not in repr(Report(study=bytes(32), stage=0, id=bytes(16), body=b"secret"))
    assert RELEASE_HEAD.size == 93


@pytest.mark.parametrize(
    "query",
    [
        TOTALS,
        BatchQuery(layer=3, failure_prob=0.05 / 7),
        BatchQuery(layer=None, failure_prob=None),
        LossQuery(full=True),
        SoftmaxQuery(
            np.zeros((1, 1, 0)), np.full((2, 3, 2), 1 / 3), np.random.default_rng(0).random((2, 3, 2)), np.ones(1)
        ),
    ],
)
def test_queries_come_back_bit_for_bit(query):
    plain = json.loads(canonical(query_to_dict(query)))
    found = query_from_dict(plain)
    assert type(found) is type(query)
    assert query_to_dict(found) == plain == query_to_dict(query)


@pytest.mark.parametrize(
    "plain",
    [
        {},
        {"kind": "everything"},
        {"kind": "totals"},
        {"kind": "totals", "every": 0, "more": 1},
        {"kind": "batch", "layer": -1, "failure_prob": None},
        {"kind": "losses", "full": "yes"},
        {"kind": "doses", "features": {"shape": [2], "values": [1.0]}},
    ],
)
def test_other_queries_are_refused(plain):
    with pytest.raises(InvalidInput):
        query_from_dict(plain)


def test_a_bundle_is_canonical_and_complete():
    data = bundle_of(DESIGN)
    assert Bundle.parse(data).channel == DESIGN._channel
    plain = json.loads(data)
    assert set(plain) == ENTRIES
    for spelled in (json.dumps(plain).encode(), data + b"\n", data[:-1], b"[]", b"", b"\xff", b"null", b"[" * 100_000):
        with pytest.raises(InvalidInput):
            Bundle.parse(spelled)
    for name in ENTRIES:
        with pytest.raises(InvalidInput):
            Bundle.parse(canonical({key: value for key, value in plain.items() if key != name}))
    with pytest.raises(InvalidInput, match="unknown"):
        Bundle.parse(canonical({**plain, "extension": 1}))


@pytest.mark.parametrize(
    "entries",
    [
        {"stage": -1},
        {"stage": "0"},
        {"question": 1},
        {"questions": 0},
        {"horizon": 0},
        {"states": ["s0"] * 40},
        {"states": []},
        {"actions": ["wait", 1]},
        {"rewards": [1.0, 0.0]},
        {"rewards": [0.0]},
        {"query": None},
        {"query": {"kind": "nothing"}},
        {"channel": None},
        {"channel": {"kind": "none"}},
        {"channel": {"kind": "test-labels"}},
        {"target": 7},
        {"least": 1},
        {"kill": 1},
        {"kill": True},
        {"policies": []},
        {"policies": [[DESIGN.fallback, [1, 2]]]},
        {"policies": [[DESIGN.fallback, [1, 0]]]},
        {"policies": [[DESIGN.fallback, [3, 2]], [DESIGN.fallback, [-1, 2]]]},
        {"policies": [[{"kind": "deterministic", "actions": [[0, 1]]}, [1, 1]]]},
        {"policies": [[{"kind": "deterministic", "actions": [[2] * 40] * 2}, [1, 1]]]},
        {"fallback": {"kind": "nothing"}},
        {"head": "5"},
        {"head": "5:zz"},
        {"previous": "00"},
        {"study": "zz"},
        {"claim": {}},
        {"format": "tacit-bundle"},
        {"version": 2},
    ],
)
def test_a_bundle_that_does_not_fit_is_refused(entries):
    plain = {**json.loads(bundle_of(DESIGN)), **entries}
    with pytest.raises(InvalidInput):
        Bundle.parse(canonical(plain))


def test_the_signature_of_a_bundle_covers_every_entry(keys, others):
    data = bundle_of(DESIGN, key=keys[0])
    assert Bundle.parse(data).examined(keys[1]).pinned
    assert not Bundle.parse(bundle_of(DESIGN, key=others[0])).examined(keys[1]).valid
    plain = json.loads(data)
    changed = Bundle.parse(canonical({**plain, "stage": 1}))
    assert not changed.examined(None).valid
    assert Bundle.parse(data).digest == Bundle.parse(bundle_of(DESIGN)).digest


@pytest.mark.parametrize("text", ["", "1", "a:" + "00" * 32, "1:00", "-1:" + "00" * 32, "1:" + "0g" * 32])
def test_a_head_is_a_number_and_a_digest(text):
    with pytest.raises(InvalidInput):
        Head.from_text(text)
    assert Head.from_text(GENESIS_HEAD.text) == GENESIS_HEAD


@pytest.mark.parametrize("strange", [b"NaN", b"1e400", b"-Infinity", b'"\\ud800"'])
def test_numbers_and_texts_that_json_cannot_spell_again_are_refused(strange):
    whole = b'{"format":"tacit-stage","version":1,' + b",".join(
        b'"%s":%s' % (name.encode(), strange) for name in sorted(ENTRIES - {"format", "version"})
    )
    with pytest.raises(InvalidInput):
        Bundle.parse(whole + b"}")
