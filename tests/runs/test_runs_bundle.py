"""Bundles: a policy with its certificate, written, signed, loaded, and refused when anything in it was changed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.cli import main
from tacit.documents import digest
from tacit.errors import InvalidInput, NotSupported
from tacit.runs.signature import PRIVATE, PUBLIC, new_keys, sign

SHUFFLED = {
    "environment": "treatment:horizon=3", "learner": "bucb", "trust": "shuffle", "epsilon": 1.0, "delta": 1e-6,
    "episodes": 2000, "seeds": 2, "workers": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def result():
    return tacit.run(**SHUFFLED)


@pytest.fixture(scope="module")
def keys(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("keys")
    new_keys(place / "ours")
    new_keys(place / "theirs")
    return place


def test_what_was_written_is_read(result, keys, tmp_path):
    path = tacit.export_bundle(
        result, tmp_path / "bundle.json", seed=1, audit=[{"verdict": "holds"}], key=keys / "ours" / PRIVATE
    )
    found = tacit.load_bundle(path, key=keys / "ours" / PUBLIC)
    assert (found.claim, found.certificate, found.seed) == (result.claim, result.certificate, 1)
    assert found.config == result.config.with_seeds([1])
    assert np.array_equal(found.policy.actions, result.policy_of(1).actions)
    assert found.audit == ({"verdict": "holds"},)
    assert found.version == tacit.__version__
    assert found.signature.startswith("signed by the pinned key ")
    json.loads(path.read_text(), parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


def changed_claim(content):
    content["claim"]["epsilon"] = 0.1


def changed_certificate(content):
    content["certificate"]["epsilon"] = 0.5
    content["certificate"]["verdict"] = (
        "The claim is true: the accountant certifies epsilon 0.5 at delta 1e-06, 2 times stronger than claimed."
    )


def changed_events(content):
    content["certificate"]["events"][0][0]["bits"] *= 4


def changed_configuration(content):
    content["config"]["epsilon"] = 2.0


def cut_policy(content):
    content["policy"]["actions"] = content["policy"]["actions"][:-1]


def lost_claim(content):
    del content["claim"]


def another_format(content):
    content["format_version"] = 2


def an_entry_more(content):
    content["seal"] = "approved"


def swapped_policy(content):
    rows = content["policy"]["actions"]
    rows[0][0] = 1 - min(rows[0][0], 1)


REFUSED = [changed_claim, changed_certificate, changed_events, changed_configuration, cut_policy, lost_claim]
REFUSED += [another_format, an_entry_more]


def changed(path: Path, change, *, forged: bool) -> Path:
    content = json.loads(path.read_text())
    change(content)
    if forged:
        content["digest"] = digest(content)
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize("change", [*REFUSED, swapped_policy])
@pytest.mark.parametrize("forged", [False, True], ids=["as it is", "with a new digest"])
def test_what_was_changed_is_refused(result, keys, tmp_path, change, forged):
    signed = tacit.export_bundle(result, tmp_path / "signed.json", key=keys / "ours" / PRIVATE)
    with pytest.raises(InvalidInput, match="of version 3" if change is another_format else "forged"):
        tacit.load_bundle(changed(signed, change, forged=forged), key=keys / "ours" / PUBLIC)
    assert main(["verify", str(signed)]) == 1
    unsigned = changed(tacit.export_bundle(result, tmp_path / "unsigned.json"), change, forged=forged)
    if change is not swapped_policy or not forged:
        with pytest.raises(InvalidInput):
            tacit.load_bundle(unsigned, unsigned=True)


def test_a_policy_with_a_new_digest_is_loaded_only_by_whoever_takes_unsigned_bundles(result, keys, tmp_path, capsys):
    """A digest is no signature: without a key nobody can tell, so nobody is told that it is genuine."""
    path = changed(tacit.export_bundle(result, tmp_path / "bundle.json"), swapped_policy, forged=True)
    with pytest.raises(InvalidInput, match=r"must be signed by a key you know, got 'unsigned'; pass the public key"):
        tacit.load_bundle(path)
    with pytest.raises(InvalidInput, match="unsigned"):
        tacit.load_bundle(path, key=keys / "ours" / PUBLIC)
    with pytest.raises(InvalidInput, match="unsigned"):
        tacit.load_bundle(path, key=keys / "ours" / PUBLIC, unsigned=True)
    assert tacit.load_bundle(path, unsigned=True).signature == "unsigned"
    assert main(["verify", str(path), "--key", str(keys / "ours" / PUBLIC)]) == 1
    assert capsys.readouterr().out.startswith(f"FALSE: {path} (bundle, unsigned): unsigned\n")
    assert tacit.verify(path).outcome == "not verified", "its policy rests on nothing in it"


def test_another_key_is_no_key(result, keys, tmp_path, capsys):
    path = tacit.export_bundle(result, tmp_path / "bundle.json", key=keys / "theirs" / PRIVATE)
    with pytest.raises(InvalidInput, match="another key"):
        tacit.load_bundle(path, key=keys / "ours" / PUBLIC)
    with pytest.raises(InvalidInput, match="which nobody pinned"):
        tacit.load_bundle(path)
    assert main(["verify", str(path), "--key", str(keys / "ours" / PUBLIC)]) == 1
    assert "signed by another key" in capsys.readouterr().out
    assert main(["verify", str(path)]) == 1, "without a key its policy rests on nothing"
    assert "which nobody pinned (give --key)" in capsys.readouterr().out
    assert main(["verify", str(path), "--key", str(keys / "theirs" / PUBLIC)]) == 0
    assert "signed by the pinned key" in capsys.readouterr().out


def test_keys_are_private_never_overwritten_and_sign_only_what_is_true(result, tmp_path, capsys):
    assert main(["keys", "new", str(tmp_path / "k")]) == 0
    assert (tmp_path / "k" / PRIVATE).stat().st_mode & 0o077 == 0
    assert main(["keys", "new", str(tmp_path / "k")]) == 2
    path = tacit.export_bundle(result, tmp_path / "bundle.json")
    assert main(["keys", "sign", str(path), "--key", str(tmp_path / "k" / PRIVATE)]) == 2, "its policy rests on nothing"
    path = tacit.export_bundle(result, tmp_path / "ours.json", key=tmp_path / "k" / PRIVATE)
    needed = ["--require", f"learner={tmp_path / 'k' / PUBLIC}"]
    assert main(["keys", "sign", str(path), "--key", str(tmp_path / "k" / PRIVATE), *needed]) == 0
    assert tacit.load_bundle(path, key=tmp_path / "k" / PUBLIC).signature.startswith("signed by the pinned key")
    assert main(["keys", "sign", str(path), "--key", str(tmp_path / "k" / PRIVATE)]) == 2
    false = changed(tacit.export_bundle(result, tmp_path / "false.json"), changed_certificate, forged=True)
    assert main(["keys", "sign", str(false), "--key", str(tmp_path / "k" / PRIVATE)]) == 2
    assert not list(tmp_path.glob("false.json.*"))
    assert main(["verify", str(path), "--key", str(tmp_path / "k" / PRIVATE)]) == 2, "a private key is not for readers"
    capsys.readouterr()


def test_a_signature_is_about_everything_but_itself_and_the_digest(keys):
    content = {"a": 1, "b": [1.5, "x"], "digest": "d"}
    signed = sign(content, keys / "ours" / PRIVATE)
    assert sign({"b": [1.5, "x"], "a": 1}, keys / "ours" / PRIVATE)["signature"] == signed["signature"]
    assert sign({**content, "a": 2}, keys / "ours" / PRIVATE)["signature"] != signed["signature"]


def test_without_the_package_signatures_are_refused_in_words_and_the_rest_works(result, keys, tmp_path, monkeypatch):
    path = tacit.export_bundle(result, tmp_path / "signed.json", key=keys / "ours" / PRIVATE)
    for name in [name for name in sys.modules if name.split(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(NotSupported, match=r"pip install '(\.|tacit-rl)\[sign\]'"):
        new_keys(tmp_path / "keys")
    with pytest.raises(NotSupported, match="cryptography"):
        tacit.load_bundle(path, key=keys / "ours" / PUBLIC)
    unsigned = tacit.export_bundle(result, tmp_path / "unsigned.json")
    assert tacit.verify(unsigned).line.startswith("not verified: ")


def test_what_cannot_be_bundled_is_refused(result, tmp_path):
    with pytest.raises(InvalidInput, match="seed must be one of"):
        tacit.export_bundle(result, tmp_path / "bundle.json", seed=99)
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(InvalidInput, match="tacit-bundle"):
        tacit.load_bundle(tmp_path / "other.json")
