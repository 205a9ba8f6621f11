"""HPKE, rings of keys, keys documents and envelopes: what opens, what does not, and what is refused."""

from __future__ import annotations

import base64
import json
import os
import stat
from pathlib import Path

import pytest

from tacit.documents import canonical
from tacit.errors import InvalidInput
from tacit.runs.signature import new_keys, sign
from tacit.service.encryption import keyring as rings
from tacit.service.encryption.envelope import EnvelopeRefused, envelope_size, open_envelope, seal_envelope
from tacit.service.encryption.hpke import OVERHEAD, PublicKey, SecretKey, inner_info, mixer_info, outer_info
from tacit.service.encryption.keyring import Keyring, KeysDocument

VECTORS = Path(__file__).parents[1] / "vectors" / "sealing.json"
STUDY, OTHER = bytes(range(32)), bytes(32)
# RFC 9180, A.1.1: base mode of DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM; the first encryption.
RFC = {
    "info": "4f6465206f6e2061204772656369616e2055726e",
    "secret": "4612c550263fc8ad58375df3f557aac531d26850903e55a9f23f21d8534e8ac8",
    "public": "3948cfe0ad1ddb695d780e59077195da6c56506b027329794ab02bca80815c4d",
    "enc": "37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431",
    "aad": "436f756e742d30",
    "sealed": "f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a96d8770ac83d07bea87e13c512a",
    "plain": "4265617574792069732074727574682c20747275746820626561757479",
}


@pytest.fixture
def signer(tmp_path):
    return new_keys(tmp_path / "signer")


def test_the_suite_opens_the_vector_of_the_standard():
    from cryptography.hazmat.bindings._rust import openssl
    from cryptography.hazmat.primitives.asymmetric import x25519

    from tacit.service.encryption.hpke import _suite

    given = {name: bytes.fromhex(text) for name, text in RFC.items()}
    key = x25519.X25519PrivateKey.from_private_bytes(given["secret"])
    assert SecretKey(given["secret"]).public.raw == given["public"]
    # The vector has associated data, which the public interface does not take.
    opened = openssl.hpke._decrypt_with_aad(_suite(), given["enc"] + given["sealed"], key, given["info"], given["aad"])
    assert opened == given["plain"]


def test_committed_vectors_open_to_what_they_say():
    vectors = json.loads(VECTORS.read_text("utf-8"))
    study = bytes.fromhex(vectors["study"])
    keys = {party: SecretKey(bytes.fromhex(one["secret"])) for party, one in vectors["keys"].items()}
    for party, one in vectors["keys"].items():
        assert (keys[party].public.raw.hex(), keys[party].id.hex()) == (one["public"], one["id"])
    assert outer_info(study, keys["shuffler"].id).hex() == vectors["info"]["outer"]
    for stage, text in vectors["info"]["inner"].items():
        assert inner_info(study, int(stage), keys["learner"].id).hex() == text
        assert mixer_info(study, int(stage), keys["mixer"].id).hex() == vectors["info"]["mixer"][stage]
    assert len(vectors["messages"]) == 24
    for one in vectors["messages"]:
        inner = keys["mixer"].open(mixer_info(study, one["stage"], keys["mixer"].id), bytes.fromhex(one["outer"]))
        assert inner == bytes.fromhex(one["inner"])
        plain = keys["learner"].open(inner_info(study, one["stage"], keys["learner"].id), inner)
        assert plain == one["label"].to_bytes(2 if one["kind"] == "u16" else 4, "little")
    for one in vectors["envelopes"]:
        opened = open_envelope(
            bytes.fromhex(one["envelope"]), study=study, keys={keys["shuffler"].id: keys["shuffler"]}
        )
        assert (opened.token.hex(), opened.report.hex()) == (one["token"], one["report"])


def test_what_is_bound_must_fit():
    key, other = SecretKey.new(), SecretKey.new()
    infos = [
        outer_info(STUDY, key.id),
        outer_info(OTHER, key.id),
        outer_info(STUDY, other.id),
        inner_info(STUDY, 1, key.id),
        inner_info(STUDY, 2, key.id),
        inner_info(OTHER, 1, key.id),
        mixer_info(STUDY, 1, key.id),
    ]
    assert len(set(infos)) == len(infos)
    for info in infos:
        sealed = key.public.seal(info, b"ab")
        assert len(sealed) == 2 + OVERHEAD
        assert [key.open(tried, sealed) for tried in infos] == [b"ab" if tried == info else None for tried in infos]
        assert other.open(info, sealed) is None


def test_nothing_that_was_changed_opens():
    key = SecretKey.new()
    sealed = key.public.seal(b"info", b"ab")
    for place in range(8 * len(sealed)):
        changed = bytearray(sealed)
        changed[place // 8] ^= 1 << (place % 8)
        assert key.open(b"info", bytes(changed)) is None, place
    for cut in range(len(sealed)):
        assert key.open(b"info", sealed[:cut]) is None
    assert key.open(b"info", sealed + b"\0") is None


def test_keys_that_cannot_be_are_refused_and_secrets_are_not_shown():
    key = SecretKey.new()
    assert key.raw.hex() not in repr(key)
    assert str(key.raw) not in repr(key)
    for wrong in (b"", bytes(31), bytes(33)):
        with pytest.raises(InvalidInput):
            PublicKey(wrong)
        with pytest.raises(InvalidInput):
            SecretKey(wrong)
    with pytest.raises(InvalidInput, match="small order"):
        PublicKey(bytes(32)).seal(b"", b"ab")
    for stage in (-1, 2**32, True, 1.0):
        with pytest.raises(InvalidInput):
            inner_info(STUDY, stage, key.id)


# envelopes


def test_envelopes_have_one_length_and_open_for_their_study_and_key_only():
    key, other = SecretKey.new(), SecretKey.new()
    keys = {one.id: one for one in (key, other)}
    sealed = [seal_envelope(report, b"t" * 9, study=STUDY, key=key.public) for report in (bytes(50), b"\xff" * 50)]
    assert {len(one) for one in sealed} == {envelope_size(9, 50)}
    assert open_envelope(sealed[1], study=STUDY, keys=keys) == (b"t" * 9, b"\xff" * 50)

    def reason(data, study=STUDY, known=keys):
        with pytest.raises(EnvelopeRefused) as refused:
            open_envelope(data, study=study, keys=known)
        assert "tttt" not in str(refused.value)
        return refused.value.reason

    data = sealed[0]
    assert reason(data, study=OTHER) == "unknown-study"
    assert reason(data, known={other.id: other}) == "unknown-key"
    # The key of another name does not open what was sealed to this one.
    assert reason(data[:36] + other.id + data[44:]) == "malformed"
    assert reason(b"TCE2" + data[4:]) == "malformed"
    for cut in (0, 3, 43, 44, envelope_size(0, 0) - 1, len(data) - 1):
        assert reason(data[:cut]) == "malformed"
    assert reason(data + b"\0") == "malformed"


def test_lengths_inside_of_an_envelope_are_exact():
    key = SecretKey.new()
    head = b"TCE1" + STUDY + key.id
    for inside in (b"", b"TCP1", b"TCP1\x01\x00", b"TCP2\x00\x00", b"TCP1\xff\xff" + bytes(65534)):
        data = head + key.public.seal(outer_info(STUDY, key.id), inside)
        with pytest.raises(EnvelopeRefused) as refused:
            open_envelope(data, study=STUDY, keys={key.id: key})
        assert refused.value.reason == "malformed"
    with pytest.raises(InvalidInput, match="at most 65535"):
        seal_envelope(b"", bytes(65536), study=STUDY, key=key.public)


# rings of keys


def sealed_to(ring, signer):
    document = KeysDocument.read(ring.document(signer[0]), party=ring.party, study=STUDY, pinned=signer[1])
    return seal_envelope(b"report", b"", study=STUDY, key=document.active)


def test_a_key_opens_from_pending_to_the_end_of_its_grace(tmp_path, signer):
    ring = Keyring.new(tmp_path / "ring", party="shuffler", study=STUDY)
    old = sealed_to(ring, signer)
    first = ring.active
    (pending,) = [name for name, state in ring.states().items() if state == "pending"]
    # Who has read the next document already seals to what is pending here.
    early = seal_envelope(b"report", b"", study=STUDY, key=ring.secrets(0.0)[pending].public)
    assert open_envelope(early, study=STUDY, keys=ring.secrets(0.0)).report == b"report"
    ring.rotate(1000.0, grace=600)
    assert ring.active == pending
    assert ring.states()[first] == "expired"
    assert open_envelope(old, study=STUDY, keys=ring.secrets(1600.0)).report == b"report"
    assert open_envelope(sealed_to(ring, signer), study=STUDY, keys=ring.secrets(1600.0)).report == b"report"
    with pytest.raises(EnvelopeRefused) as refused:
        open_envelope(old, study=STUDY, keys=ring.secrets(1000.0 + 600 + 61))
    assert refused.value.reason == "unknown-key"
    assert (ring.directory / f"{first.hex()}.key").exists()
    assert ring.forget(1000.0) == 0
    assert ring.forget(2000.0) == 1
    assert not (ring.directory / f"{first.hex()}.key").exists()
    assert first not in ring.states()
    assert ring.serial == 3


def test_a_rotation_that_stops_anywhere_leaves_one_active_key(tmp_path, monkeypatch, signer):
    ring = Keyring.new(tmp_path / "ring", party="learner", study=STUDY)
    real, steps = rings.sync_directory, []
    for stop in range(4):
        before = (ring.serial, ring.states())
        passed = iter(range(100))

        def stopping(directory, passed=passed, stop=stop):
            real(directory)
            if next(passed) == stop:
                raise KeyboardInterrupt

        monkeypatch.setattr(rings, "sync_directory", stopping)
        try:
            ring.rotate(10_000.0 * (stop + 1), grace=60)
        except KeyboardInterrupt:
            steps.append(stop)
        monkeypatch.setattr(rings, "sync_directory", real)
        again = Keyring(ring.directory)
        assert again.serial in (before[0], before[0] + 1)
        assert (again.serial == before[0]) == (again.states() == before[1])
        assert list(again.states().values()).count("active") == 1
        again.document(signer[0])
    assert len(steps) >= 2
    ring.rotate(1e6, grace=60)
    left = {path.name for path in ring.directory.glob("*.key")}
    assert left == {f"{name.hex()}.key" for name in ring.states()}


def test_keys_are_private_and_what_others_may_read_is_refused(tmp_path):
    ring = Keyring.new(tmp_path / "ring", party="mixer", study=STUDY)
    files = [*ring.directory.iterdir()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    with pytest.raises(InvalidInput, match="no keys yet"):
        Keyring.new(tmp_path / "ring", party="mixer", study=STUDY)
    path = ring.directory / f"{ring.active.hex()}.key"
    path.chmod(0o644)
    with pytest.raises(InvalidInput, match="owner only"):
        ring.secrets(0.0)
    path.chmod(0o600)
    path.write_bytes(os.urandom(32))
    with pytest.raises(InvalidInput, match="named after"):
        ring.secrets(0.0)
    path.unlink()
    with pytest.raises(InvalidInput, match="must hold a key"):
        ring.secrets(0.0)
    with pytest.raises(InvalidInput):
        Keyring(tmp_path / "nothing")


def test_documents_are_stable_and_what_does_not_fit_is_refused(tmp_path, signer):
    ring = Keyring.new(tmp_path / "ring", party="shuffler", study=STUDY)
    data = ring.document(signer[0])
    assert data == ring.document(signer[0])
    assert not any(key.raw in data or key.raw.hex().encode() in data for key in ring.secrets(0.0).values())
    read = {"party": "shuffler", "study": STUDY, "pinned": signer[1]}
    first = KeysDocument.read(data, **read)
    assert first.active.id == ring.active
    ring.rotate(0.0, grace=60)
    second = KeysDocument.read(ring.document(signer[0]), **read, seen=first)
    assert second.serial == first.serial + 1
    with pytest.raises(InvalidInput, match="serial of at least"):
        KeysDocument.read(data, **read, seen=second)
    content = json.loads(data)
    plain = {name: part for name, part in content.items() if name != "signature"}
    other = new_keys(tmp_path / "other")
    key = content["keys"][0]
    fresh = SecretKey.new().public

    def forged(**changes):
        return canonical(sign({**plain, **changes}, signer[0]))

    refused = {
        "another party": forged(party="learner"),
        "another study": forged(study=OTHER.hex()),
        "another suite": forged(suite="P256"),
        "version": forged(version=2),
        "no active": forged(keys=[{**key, "state": "pending"}]),
        "two active": forged(
            keys=[key, {"id": fresh.id.hex(), "public": base64.b64encode(fresh.raw).decode(), "state": "active"}]
        ),
        "twice": forged(keys=[key, {**key, "state": "pending"}]),
        "wrong id": forged(keys=[{**key, "id": "00" * 8}]),
        "state": forged(keys=[{**key, "state": "deleted"}]),
        "not base64": forged(keys=[{**key, "public": "*"}]),
        "key entry": forged(keys=[{**key, "more": "1"}]),
        "keys": forged(keys={}),
        "serial": forged(serial=0),
        "serial true": forged(serial=True),
        "unknown entry": forged(extra=1),
        "unsigned": canonical(plain),
        "forged": canonical({**content, "serial": 99}),
        "other key": canonical(sign(plain, other[0])),
        "spelling": json.dumps(content).encode(),
        "no JSON": b"{",
        "long": data + b" " * 70_000,
        "list": b"[]",
    }
    for wrong in refused.values():
        with pytest.raises(InvalidInput):
            KeysDocument.read(wrong, **read)
    # The same serial with other keys: somebody is shown something else than the others.
    with pytest.raises(InvalidInput, match="one keys document"):
        KeysDocument.read(forged(keys=[key]), **read, seen=first)
