"""Tokens: what is one and what is not, whose keys are believed, and what a device keeps."""

from __future__ import annotations

import base64
import io
import json
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from study_fakes import FakeDesign, bundle_of
from study_world import fast_directory, report_of
from token_tools import STUDY, HandMade

from tacit.cli import main
from tacit.documents import canonical
from tacit.errors import InvalidInput, UnknownName
from tacit.release.registry import CHANNELS
from tacit.runs.signature import new_keys, sign
from tacit.service.tokens import wallet as wallets
from tacit.service.tokens.admission import (
    EnrolledAdmission,
    Enrolment,
    OpenAdmission,
    TokenAdmission,
    known_credential,
    open_name,
    people_of,
)
from tacit.service.tokens.blind_rsa import SecretKey
from tacit.service.tokens.token import LENGTH, REASONS, Refusal, Token, TokenKeys, verify, verify_tokens
from tacit.service.tokens.wallet import Asked, Wallet
from tacit.study import contract
from tacit.study.collector import Collector


@pytest.fixture(scope="module")
def issuer(tmp_path_factory) -> HandMade:
    made = HandMade(tmp_path_factory.mktemp("issuer"))
    made.open(0)
    made.open(1)
    return made


@pytest.fixture(scope="module")
def token(issuer) -> bytes:
    return issuer.token(0)


def reason(found: object) -> str | None:
    return found.reason if isinstance(found, Refusal) else None


# what is a token


def test_a_token_of_the_stage_is_accepted_and_has_one_length(issuer, token):
    found = verify(token, issuer.keys, 0)
    assert isinstance(found, Token)
    assert len(token) == LENGTH == 296
    assert found.encode() == token
    assert token[8:40].hex() not in found.person
    assert repr(found) == "Token(stage=0)"


def test_tokens_expired_foreign_of_another_stage_or_malformed_are_refused(issuer, token, tmp_path):
    other = HandMade(tmp_path / "other")
    other.open(0, SecretKey.new())
    neighbour = HandMade(tmp_path / "neighbour", study=bytes(32))
    neighbour.open(0, issuer.secrets[0])
    assert reason(verify(token, issuer.keys, 1)) == "expired"
    assert reason(verify(issuer.token(1), issuer.keys, 0)) == "other stage"
    assert reason(verify(other.token(0), issuer.keys, 0)) == "foreign"
    assert reason(verify(neighbour.token(0), issuer.keys, 0)) == "foreign"
    # Relabelled: the bytes of stage 0 under the number of stage 1.
    assert reason(verify(token[:4] + b"\1\0\0\0" + token[8:], issuer.keys, 1)) == "foreign"
    unknown = Token(stage=9, nonce=token[8:40], signature=token[40:]).encode()
    assert reason(verify(unknown, issuer.keys, 9)) == "no key"
    for wrong in (b"", b"TCT1", token[:-1], token + b"\0", b"TCT2" + token[4:]):
        assert reason(verify(wrong, issuer.keys, 0)) == "malformed"


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_mutated_token_is_accepted(issuer, token, data):
    place = data.draw(st.integers(0, LENGTH - 1))
    flip = data.draw(st.integers(1, 255))
    changed = token[:place] + bytes([token[place] ^ flip]) + token[place + 1 :]
    assert reason(verify(changed, issuer.keys, 0)) in REASONS


# files of tokens


def test_a_file_of_tokens_is_read_once_and_counted(issuer):
    tokens = sorted(issuer.token(0) for _ in range(4))
    good = b"".join(tokens)
    assert verify_tokens(io.BytesIO(good), issuer.keys, 0, 4) is None
    assert verify_tokens(io.BytesIO(b""), issuer.keys, 0, 0) is None
    wrong = {
        "count": [(good, 3), (good, 5), (b"", 1)],
        "order": [(b"".join(reversed(tokens)), 4), (tokens[0] + tokens[0], 2)],
        "malformed": [(good[:-1], 4), (good + b"\0", 5)],
        "foreign": [(good[:-1] + bytes([good[-1] ^ 1]), 4)],
        "other stage": [(issuer.token(1), 1)],
    }
    for expected, files in wrong.items():
        for data, people in files:
            assert reason(verify_tokens(io.BytesIO(data), issuer.keys, 0, people)) == expected


def test_one_nonce_under_two_signatures_is_one_token_twice(issuer):
    """The holder of a stage's key could sign a nonce under two salts; it counts once all the same."""
    asked = Asked.new(issuer.keys, 0)
    again = _same_nonce(issuer, asked)
    pair = sorted([asked.finish(issuer.reply(asked.body)), again])
    assert pair[0] != pair[1]
    assert reason(verify_tokens(io.BytesIO(b"".join(pair)), issuer.keys, 0, 2)) == "order"


def _same_nonce(issuer: HandMade, asked: Asked) -> bytes:
    from tacit.service.tokens.blind_rsa import blind
    from tacit.service.tokens.token import message

    made = blind(issuer.secrets[0].public, asked.nonce + message(STUDY, 0))
    other = Asked(
        study=STUDY,
        stage=0,
        nonce=asked.nonce,
        inverse=made.inverse.to_bytes(256),
        blinded=made.message,
        key=asked.key,
    )
    return other.finish(issuer.reply(other.body))


def test_files_are_read_in_pieces(issuer, token):
    class Counted(io.BytesIO):
        most = 0

        def read(self, size=-1):
            Counted.most = max(Counted.most, size)
            assert size > 0
            return super().read(size)

    file = Counted(token)
    assert verify_tokens(file, issuer.keys, 0, 1) is None
    assert Counted.most <= 2**20


# whose keys


def test_a_document_is_read_back(issuer):
    assert TokenKeys.parse(issuer.document, study=STUDY, pinned=issuer.public) == issuer.keys


def test_documents_that_nobody_signed_or_that_say_something_else_are_refused(issuer, tmp_path):
    _, public = new_keys(tmp_path / "stranger")
    with pytest.raises(InvalidInput, match="pinned"):
        TokenKeys.parse(issuer.document, study=STUDY, pinned=public)
    with pytest.raises(InvalidInput, match="this study"):
        TokenKeys.parse(issuer.document, study=bytes(32), pinned=issuer.public)
    plain = json.loads(issuer.document)
    spki = plain["stages"]["0"]
    for change in (
        {"format": "tacit-keys"},
        {"version": 2},
        {"more": 1},
        {"serial": True},
        {"serial": -1},
        {"serial": "2"},
        {"stages": []},
        {"stages": {"00": spki}},
        {"stages": {"-1": spki}},
        {"stages": {"4294967296": spki}},
        {"stages": {"²": spki}},
        {"stages": {"0": "?"}},
        {"stages": {"0": 7}},
        {"stages": {"0": spki, "1": spki}},
    ):
        document = canonical(sign({**plain, **change}, issuer.private))
        with pytest.raises(InvalidInput):
            TokenKeys.parse(document, study=STUDY, pinned=issuer.public)
    unsigned = canonical({name: value for name, value in plain.items() if name != "signature"})
    for wrong in (b"", b"[]", b"{}", b"[" * 100_000, unsigned, issuer.document + b"\n", b" " + issuer.document):
        with pytest.raises(InvalidInput):
            TokenKeys.parse(wrong, study=STUDY, pinned=issuer.public)


def test_a_key_that_was_seen_stays(issuer):
    """An issuer with a key per person could link: whoever saw one document refuses the other."""
    first = issuer.keys
    swapped = TokenKeys(study=STUDY, serial=3, stages={**first.stages, 0: SecretKey.new().public})
    with pytest.raises(InvalidInput, match="must stay what it was, got 'another one for stage 0'"):
        swapped.after(first)
    gone = TokenKeys(study=STUDY, serial=3, stages={1: first.stages[1]})
    with pytest.raises(InvalidInput, match="must stay"):
        gone.after(first)
    older = TokenKeys(study=STUDY, serial=1, stages={0: first.stages[0]})
    with pytest.raises(InvalidInput, match="serial"):
        older.after(first)
    more = {**first.stages, 2: SecretKey.new().public}
    with pytest.raises(InvalidInput, match="one serial"):
        TokenKeys(study=STUDY, serial=2, stages=more).after(first)
    assert TokenKeys(study=STUDY, serial=3, stages=more).after(first).serial == 3


# what a device keeps


def test_a_wallet_asks_with_the_same_bytes_until_it_is_answered(issuer, tmp_path):
    first = Wallet(tmp_path, study=STUDY, issuer=issuer.public)
    with pytest.raises(InvalidInput, match="accept"):
        first.request(0)
    first.accept(issuer.document)
    body = first.request(0)
    # The process dies before it sent anything, or after: both times the same bytes.
    again = Wallet(tmp_path, study=STUDY, issuer=issuer.public)
    assert again.request(0) == body == first.request(0)
    assert again.request(1) != body
    with pytest.raises(InvalidInput, match="must verify"):
        again.finish(0, issuer.reply(again.request(1)))
    token = again.finish(0, issuer.reply(body))
    assert isinstance(verify(token, issuer.keys, 0), Token)
    later = Wallet(tmp_path, study=STUDY, issuer=issuer.public)
    assert later.token(0) == token == later.finish(0, b"whatever comes now")
    assert later.token(1) == b""
    with pytest.raises(InvalidInput, match="asked for once"):
        later.request(0)


def test_a_wallet_is_private_and_forgets_what_links(issuer, tmp_path):
    one = Wallet(tmp_path / "wallet", study=STUDY, issuer=issuer.public)
    one.accept(issuer.document)
    asked = json.loads(one.request(0))["blinded"]
    file = tmp_path / "wallet" / wallets.STATE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert asked in file.read_text()
    one.finish(0, issuer.reply(one.request(0)))
    kept = file.read_text()
    assert asked not in kept
    assert "inverse" not in kept
    one.forget(1)
    assert Wallet(tmp_path / "wallet", study=STUDY, issuer=issuer.public).token(0) == b""


def test_a_wallet_writes_before_it_returns(issuer, tmp_path, monkeypatch):
    one = Wallet(tmp_path, study=STUDY, issuer=issuer.public)
    one.accept(issuer.document)

    def full(path, content):
        raise InvalidInput("the disk is full")

    monkeypatch.setattr(wallets, "write_private", full)
    with pytest.raises(InvalidInput, match="full"):
        one.request(0)
    assert one.kept["stages"] == {}


def test_a_wallet_refuses_another_key_and_another_study(issuer, tmp_path):
    one = Wallet(tmp_path, study=STUDY, issuer=issuer.public)
    one.accept(issuer.document)
    before = dict(one.kept)
    swapped = TokenKeys(study=STUDY, serial=3, stages={**issuer.keys.stages, 0: SecretKey.new().public})
    for wallet in (one, Wallet(tmp_path, study=STUDY, issuer=issuer.public)):
        with pytest.raises(InvalidInput, match="stay"):
            wallet.accept(swapped.signed(issuer.private))
        assert wallet.kept == before
    with pytest.raises(InvalidInput, match="this study"):
        Wallet(tmp_path, study=bytes(32), issuer=issuer.public)
    with pytest.raises(InvalidInput, match="key for the stage"):
        one.request(7)


@pytest.mark.parametrize("reply", [b"", b"{}", b"[]", b"null", b'{"signature": 3}', b'{"signature": "?"}', b"[" * 5000])
def test_replies_that_are_no_signature_are_refused_and_the_request_is_kept(issuer, reply):
    one = Wallet(None, study=STUDY, issuer=issuer.public)
    one.accept(issuer.document)
    body = one.request(0)
    with pytest.raises(InvalidInput):
        one.finish(0, reply)
    assert one.request(0) == body
    assert one.finish(0, issuer.reply(body))


# who may report


def test_holders_of_tokens_are_admitted_under_the_nonce(issuer, token):
    people = TokenAdmission(study=STUDY, issuer=issuer.public)
    assert reason(people.admit(token, 0)) == "no key"
    people.accept(issuer.document)
    assert people.admit(token, 0) == people.admit(token, 0)
    assert people.admit(token, 0) != people.admit(issuer.token(0), 0)
    assert reason(people.admit(b"anything", 0)) == "malformed"
    swapped = TokenKeys(study=STUDY, serial=3, stages={**issuer.keys.stages, 0: SecretKey.new().public})
    with pytest.raises(InvalidInput, match="stay"):
        people.accept(swapped.signed(issuer.private))
    assert isinstance(people.admit(token, 0), str)


def test_known_persons_are_those_on_the_list(tmp_path):
    enrolment = Enrolment.new(tmp_path / "people")
    ann, ben = enrolment.enrol(2)
    people = EnrolledAdmission(Enrolment(tmp_path / "people"))
    name = people.admit(known_credential(ann), 0)
    assert isinstance(name, str)
    assert name != people.admit(known_credential(ben), 0)
    assert reason(people.admit(known_credential("guessed"), 0)) == "foreign"
    # A renewed credential is the same person; the old one is nobody. The running object sees it at once.
    anew = enrolment.renew(ann)
    assert people.admit(known_credential(anew), 0) == name
    assert reason(people.admit(known_credential(ann), 0)) == "foreign"
    enrolment.remove(ben)
    assert reason(people.admit(known_credential(ben), 0)) == "foreign"
    (tmp_path / "people").unlink()
    assert reason(people.admit(known_credential(anew), 0)) == "foreign"


def test_the_list_contains_no_credential_and_its_key_is_private(tmp_path):
    enrolment = Enrolment.new(tmp_path / "people")
    (credential,) = enrolment.enrol(1)
    text = (tmp_path / "people").read_text()
    assert credential not in text
    for file in ("people", "people.key"):
        assert stat.S_IMODE((tmp_path / file).stat().st_mode) == 0o600
    (tmp_path / "people.key").chmod(0o644)
    with pytest.raises(InvalidInput, match="owner only"):
        Enrolment(tmp_path / "people")


def test_the_command_puts_people_on_a_list(tmp_path, capsys):
    place = tmp_path / "people"
    assert main(["serve", "enrol", str(place), "--count", "2"]) == 0
    assert main(["serve", "enrol", str(place), "--json"]) == 0
    *two, last = capsys.readouterr().out.splitlines()
    made = [*two, *json.loads(last)["credentials"]]
    people = EnrolledAdmission(Enrolment(place))
    assert len({people.admit(known_credential(one), 0) for one in made}) == len(people.enrolment) == 3
    place.write_text("something else")
    assert main(["serve", "enrol", str(place)]) == 2
    assert place.read_text() == "something else"


def test_lists_are_never_overwritten_and_broken_ones_refused(tmp_path):
    Enrolment.new(tmp_path / "people").enrol(2)
    with pytest.raises(InvalidInput, match="must not exist"):
        Enrolment.new(tmp_path / "people")
    whole = (tmp_path / "people").read_text()
    for wrong in ("", "other\n", whole + "x y\n", whole + whole.splitlines()[1] + "\n"):
        (tmp_path / "people").write_text(wrong)
        with pytest.raises(InvalidInput):
            Enrolment(tmp_path / "people")


def test_people_enrolled_at_once_are_all_on_the_list(tmp_path):
    Enrolment.new(tmp_path / "people")
    made: list[str] = []
    threads = [threading.Thread(target=lambda: made.extend(Enrolment(tmp_path / "people").enrol(3))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    people = EnrolledAdmission(Enrolment(tmp_path / "people"))
    assert len({people.admit(known_credential(one), 0) for one in made}) == 24


def test_anybody_is_anybody_and_only_whole_credentials_are_read():
    assert OpenAdmission().admit(open_name("a"), 0) != OpenAdmission().admit(open_name("b"), 0)
    for wrong in (
        b"",
        b"TCO1",
        b"TCO1\0\0",
        b"TCO1\2\0a",
        b"TCK1\1\0a",
        open_name("a") + b"x",
        b"TCO1\xff\xff" + b"a" * 65535,
    ):
        assert reason(OpenAdmission().admit(wrong, 0)) == "malformed"


def test_people_are_chosen_by_name_and_unknown_ones_refused(issuer, tmp_path):
    assert isinstance(people_of("open", study=STUDY), OpenAdmission)
    found = people_of("issuer", study=STUDY, issuer=issuer.public, document=issuer.document)
    assert isinstance(found, TokenAdmission)
    assert found.keys == issuer.keys
    Enrolment.new(tmp_path / "people")
    assert isinstance(people_of("known", study=STUDY, known=tmp_path / "people"), EnrolledAdmission)
    for kind in ("issuer", "known"):
        with pytest.raises(InvalidInput, match="must come with"):
            people_of(kind, study=STUDY)
    with pytest.raises(UnknownName):
        people_of("everybody", study=STUDY)


# one use


def test_one_token_raced_by_a_hundred_requests_counts_once(tmp_path, monkeypatch):
    """A hundred threads, a hundred different reports, one token: one is counted, every other one is the second."""
    import study_fakes

    for kind, channel in study_fakes.FAKES.items():
        monkeypatch.setitem(CHANNELS, kind, channel)
    monkeypatch.setattr(contract, "read_design", FakeDesign.from_dict)
    design = FakeDesign(kind="test-stamped")
    study = bytes.fromhex(design.digest)
    issuer = HandMade(tmp_path / "issuer", study=study)
    issuer.open(0)
    people = TokenAdmission(study=study, issuer=issuer.public, document=issuer.document)
    token = issuer.token(0)
    with fast_directory() as folder:
        Collector.new(Path(folder) / "collector", design).open(bundle_of(design))
        barrier, answers = threading.Barrier(100), []

        def send(place: int) -> None:
            person = people.admit(token, 0)
            collector = Collector(Path(folder) / "collector")
            barrier.wait(timeout=60)
            answers.append(collector.add(report_of(study, 0, place % 3, name=place.to_bytes(16)), person))

        threads = [threading.Thread(target=send, args=(place,)) for place in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(answers) == ["counted"] + ["twice"] * 99
        other = people.admit(issuer.token(0), 0)
        assert Collector(Path(folder) / "collector").add(report_of(study, 0, 1, name=b"x" * 16), other) == "counted"


def test_what_is_asked_is_kept_and_read_back(issuer):
    asked = Asked.new(issuer.keys, 0)
    assert Asked.decode(asked.encode()) == asked
    assert base64.b64encode(asked.nonce) not in asked.body
    for wrong in (b"", b"{}", asked.encode()[:-4], b"[]"):
        with pytest.raises(InvalidInput):
            Asked.decode(wrong)
