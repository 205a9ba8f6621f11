"""Signatures of directories: whatever is edited, added, removed or signed by somebody else is found."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

import tacit
from tacit.cli import main
from tacit.documents import vouched
from tacit.errors import InvalidInput
from tacit.runs.manifest import DIGESTS
from tacit.runs.signature import PRIVATE, PUBLIC, ROLES, new_keys, sign
from tacit.runs.storage_paths import json_bytes
from tacit.runs.verify import runs_of
from tacit.study.verify import sign_path

ROOT = Path(__file__).parents[2]
ASKED = {
    "environment": "random-mdp", "learner": "ucbvi", "episodes": 40, "seeds": 1, "workers": 1, "trust": "local",
    "epsilon": 1.0, "delta": 0.0, "mechanism": "laplace",
}  # fmt: skip


@pytest.fixture(scope="module")
def keys(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("keys")
    for name in ("ours", "theirs", "officer"):
        new_keys(place / name)
    return place


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("original") / "run"
    tacit.run(**ASKED, out=place)
    return place


@pytest.fixture
def kept(original, tmp_path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "run"))


def call(capsys, *words: object) -> tuple[int, str]:
    code = main([str(word) for word in words])
    found = capsys.readouterr()
    return code, found.out + found.err


def relist(place: Path, *names: str) -> None:
    """The forger's best: a manifest that fits the altered files."""
    content = json.loads((place / DIGESTS).read_text())
    for name in names:
        content["files"][name]["sha256"] = hashlib.sha256((place / name).read_bytes()).hexdigest()
    (place / DIGESTS).write_bytes(json_bytes(content))


def test_a_run_is_unsigned_until_it_is_signed(kept, keys, capsys):
    ours = keys / "ours" / PUBLIC
    code, out = call(capsys, "verify", kept)
    assert code == 0
    assert "(run, unsigned)" in out
    code, out = call(capsys, "verify", kept, "--key", ours)
    assert (code, out.splitlines()[0]) == (1, f"FALSE: {kept} (run, unsigned): unsigned")
    code, out = call(capsys, "keys", "sign", kept, "--key", keys / "ours" / PRIVATE)
    assert code == 0
    assert out.startswith(f"signed: {kept / 'signatures' / 'learner-'}")
    code, out = call(capsys, "verify", kept, "--key", ours)
    assert code == 0
    assert "signed by the pinned key of its learner" in out
    code, out = call(capsys, "verify", kept)
    assert code == 0
    assert "signed by the key of its learner" in out
    code, out = call(capsys, "verify", kept, "--key", keys / "theirs" / PUBLIC)
    assert code == 1
    assert "signed by other keys" in out
    code, out = call(capsys, "keys", "sign", kept, "--key", keys / "ours" / PRIVATE)
    assert code == 2
    assert "must not be signed yet" in out
    assert tacit.load(kept).doubt is None, "a signed run loads as before"


def test_several_parties_sign_the_same_digest_and_none_undoes_another(kept, keys, capsys):
    for role, name in zip(ROLES, ("ours", "officer", "theirs"), strict=True):
        assert call(capsys, "keys", "sign", kept, "--role", role, "--key", keys / name / PRIVATE)[0] == 0
    signed = [json.loads(path.read_text()) for path in (kept / "signatures").iterdir()]
    assert {one["role"] for one in signed} == set(ROLES)
    assert len({one["digest"] for one in signed}) == 1
    required = ["--require", f"learner={keys / 'ours' / PUBLIC}", "--require", f"officer={keys / 'officer'}"]
    assert call(capsys, "verify", kept, *required)[0] == 0
    code, out = call(capsys, "verify", kept, "--require", f"officer={keys / 'ours' / PUBLIC}")
    assert code == 1, "the learner's key is not the officer's"
    assert "not signed by the officer" in out
    next((kept / "signatures").glob("operator-*")).unlink()
    assert call(capsys, "verify", kept, *required)[0] == 0
    assert call(capsys, "verify", kept, "--require", f"operator={keys / 'theirs' / PUBLIC}")[0] == 1
    # Nobody becomes an officer by another name of the file, or by an edit of the role.
    learner = next((kept / "signatures").glob("learner-*"))
    content = json.loads(learner.read_text())
    learner.rename(learner.with_name(learner.name.replace("learner", "officer")))
    assert call(capsys, "verify", kept)[0] == 1
    learner.write_bytes(json_bytes({**content, "role": "officer"}))
    code, out = call(capsys, "verify", kept)
    assert code == 1
    assert "is forged or no signature" in out


@pytest.mark.parametrize(
    "words", [("--require", "officer"), ("--require", "boss=k.pem"), ("--require", "officer=nowhere.pem")]
)
def test_a_requirement_is_a_role_and_a_key(kept, capsys, words):
    code, out = call(capsys, "verify", kept, *words)
    assert code == 2
    assert out.count("\n") == 1


FILES = ("config.json", "privacy.json", "policies.json", "results.parquet", "timing.json")


@pytest.mark.parametrize("name", FILES)
def test_an_edit_after_signing_is_false_even_with_a_new_manifest(kept, keys, capsys, name):
    sign_path(kept, keys / "ours" / PRIVATE)
    if name.endswith(".json"):  # the same content, spelled otherwise: everything else about it stays true
        (kept / name).write_text(json.dumps(json.loads((kept / name).read_text()), indent=7))
    else:
        (kept / name).write_bytes((kept / name).read_bytes() + b"\n")
    relist(kept, name)
    code, out = call(capsys, "verify", kept)
    assert code == 1
    assert "about something else" in out or name == "results.parquet", "which can no more be read"


def test_added_missing_and_unlisted_files_are_named(kept, keys, capsys):
    sign_path(kept, keys / "ours" / PRIVATE)
    (kept / "returns.json").write_text("{}")
    code, out = call(capsys, "verify", kept)
    assert code == 1
    assert "returns.json is not listed" in out
    (kept / "returns.json").unlink()
    (kept / "notes.txt").write_text("mine")
    code, out = call(capsys, "verify", kept)
    assert code == 1
    assert "notes.txt is no file that tacit writes there" in out
    (kept / "notes.txt").unlink()
    policies = (kept / "policies.json").read_bytes()
    (kept / "policies.json").unlink()
    code, out = call(capsys, "verify", kept)
    assert code == 1
    assert "policies.json is missing" in out
    (kept / "policies.json").write_bytes(policies)
    assert call(capsys, "verify", kept)[0] == 0
    (kept / DIGESTS).unlink()
    shutil.rmtree(kept / "signatures")
    code, out = call(capsys, "verify", kept)
    assert code == 1
    assert "not verified" in out
    assert "digests.json is missing" in out


def test_a_signature_cannot_be_moved_or_rewritten(kept, keys, capsys, tmp_path):
    signature = sign_path(kept, keys / "ours" / PRIVATE)
    other = tmp_path / "other"
    tacit.run(**ASKED | {"epsilon": 2.0}, out=other)
    shutil.copytree(kept / "signatures", other / "signatures")
    code, out = call(capsys, "verify", other, "--key", keys / "ours" / PUBLIC)
    assert code == 1
    assert "is about something else" in out
    shutil.rmtree(other / "signatures")
    # A digest under the old signature, and a signature inside where one beside belongs.
    theirs = sign_path(other, keys / "theirs" / PRIVATE)
    forged = {**json.loads(theirs.read_text()), "value": json.loads(signature.read_text())["value"]}
    theirs.write_bytes(json_bytes(forged))
    code, out = call(capsys, "verify", other)
    assert code == 1
    assert "forged" in out
    theirs.write_text(json.dumps(sign({"format": "else"}, keys / "ours" / PRIVATE)))
    assert call(capsys, "verify", other, "--key", keys / "ours" / PUBLIC)[0] == 1


def test_what_is_false_or_unfinished_is_not_signed(kept, keys, capsys):
    rows = (kept / "results.parquet").read_bytes()
    (kept / "results.parquet").unlink()
    with pytest.raises(InvalidInput, match="must be true to be signed"):
        sign_path(kept, keys / "ours" / PRIVATE)
    (kept / "results.parquet").write_bytes(rows + b"\n")
    code, out = call(capsys, "keys", "sign", kept, "--key", keys / "ours" / PRIVATE)
    assert code == 2
    assert "must be true to be signed" in out
    assert not (kept / "signatures").exists()


def test_comparisons_are_signed_with_all_of_their_runs(keys, capsys, tmp_path):
    place = tmp_path / "out"
    (tmp_path / "c.toml").write_text(
        '[defaults]\nenvironment = "random-mdp"\nepisodes = 20\nseeds = 1\n[[run]]\nlearner = "psrl"\n'
        '[[run]]\nlearner = "ucbvi"\ntrust = "local"\nepsilon = 1.0\ndelta = 0.0\nmechanism = "laplace"\n'
    )
    assert call(capsys, "compare", tmp_path / "c.toml", "--out", place, "--workers", "1")[0] == 0
    assert (place / "regret.png").is_file(), "which was drawn after the manifest and is listed there"
    assert call(capsys, "verify", place)[0] == 0
    figure = (place / "regret.png").read_bytes()
    (place / "regret.png").write_bytes(figure[:-1])
    assert call(capsys, "verify", place)[0] == 1
    (place / "regret.png").write_bytes(figure)
    inner = runs_of(place)[0] / "mine.png"
    assert call(capsys, "plot", runs_of(place)[0], "--out", inner)[0] == 0
    assert call(capsys, "verify", place)[0] == 0, "the manifests of run and comparison have it"
    assert call(capsys, "keys", "sign", place, "--key", keys / "ours" / PRIVATE, "--role", "officer")[0] == 0
    assert call(capsys, "verify", place, "--key", keys / "ours" / PUBLIC)[0] == 0
    code, out = call(capsys, "report", place)
    assert code == 2, "into what is signed nothing is drawn"
    assert "it is signed" in out
    assert call(capsys, "verify", place)[0] == 0
    assert call(capsys, "compare", tmp_path / "c.toml", "--out", place, "--workers", "1")[0] == 0
    assert call(capsys, "verify", place)[0] == 0, "the same comparison again changes nothing"
    runs = runs_of(place)
    assert len(runs) == 2
    # A run less in the index would leave a comparison of true runs.
    index = json.loads((place / "comparison.json").read_text())
    (place / "comparison.json").write_bytes(json_bytes({**index, "runs": index["runs"][:1]}))
    relist(place, "comparison.json")
    code, out = call(capsys, "verify", place)
    assert code == 1
    assert "is about something else" in out
    (place / "comparison.json").write_text(json.dumps({**index, "runs": ["../elsewhere"]}))
    with pytest.raises(InvalidInput, match="must lie inside it"):
        tacit.verify(place)


def test_documents_are_signed_beside(keys, capsys, tmp_path):
    place = tmp_path / "fig1"
    place.mkdir()
    committed = json.loads((ROOT / "results" / "garcelon2021local" / "fig1" / "cells.json").read_text())
    committed["runs"] = [run for run in committed["runs"] if "laplace" in run["command"]][:1]
    cells = place / "cells.json"
    cells.write_text(json.dumps(vouched(committed)))
    assert call(capsys, "verify", place)[0] == 1, "nothing lists the files of this directory"
    for role in ("learner", "officer"):
        assert call(capsys, "keys", "sign", cells, "--key", keys / "ours" / PRIVATE, "--role", role)[0] == 0
    required = [word for role in ("learner", "officer") for word in ("--require", f"{role}={keys / 'ours'}")]
    assert call(capsys, "verify", cells, *required)[0] == 0
    cells.write_text(json.dumps({**committed, "seconds": 1}))
    assert call(capsys, "verify", cells, *required)[0] == 1
