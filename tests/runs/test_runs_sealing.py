"""Signatures of directories: whatever is edited, added, removed or signed by somebody else is found."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import tacit
from tacit.cli import main
from tacit.errors import InvalidInput
from tacit.runs.directory_signature import SIGNATURE, runs_of, sign_directory
from tacit.runs.signature import PRIVATE, PUBLIC, new_keys, sign
from tacit.runs.storage import DIGESTS, RUN_FILES

ROOT = Path(__file__).parents[2]
ASKED = {
    "environment": "random-mdp", "learner": "ucbvi", "episodes": 40, "seeds": 1, "workers": 1, "trust": "local",
    "epsilon": 1.0, "delta": 0.0, "mechanism": "laplace",
}  # fmt: skip


@pytest.fixture(scope="module")
def keys(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("keys")
    for name in ("ours", "theirs"):
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


def test_a_run_is_unsigned_until_it_is_signed(kept, keys, capsys):
    ours = keys / "ours" / PUBLIC
    code, out = call(capsys, "verify", kept)
    assert code == 0
    assert "(run, unsigned)" in out
    assert call(capsys, "verify", kept, "--key", ours) == (1, f"FALSE: {kept} (run, unsigned): unsigned\n")
    code, out = call(capsys, "keys", "sign", kept, "--key", keys / "ours" / PRIVATE)
    assert (code, out) == (0, f"signed: {kept / SIGNATURE}\n")
    code, out = call(capsys, "verify", kept, "--key", ours)
    assert code == 0
    assert "signed by the pinned key" in out
    code, out = call(capsys, "verify", kept)
    assert code == 0
    assert "which nobody pinned" in out
    code, out = call(capsys, "verify", kept, "--key", keys / "theirs" / PUBLIC)
    assert code == 1
    assert "signed by another key" in out
    code, out = call(capsys, "keys", "sign", kept, "--key", keys / "ours" / PRIVATE)
    assert code == 2
    assert "must not be signed yet" in out
    assert tacit.load(kept).doubt is None, "a signed run loads as before"


@pytest.mark.parametrize(
    "name",
    [name for name in RUN_FILES if name not in ("environment.npz", "returns.json", "intervals.json", "arms.json")],
)
def test_an_edit_after_signing_is_false_even_with_new_digests(kept, keys, capsys, name):
    sign_directory(kept, keys / "ours" / PRIVATE)
    if name.endswith(".json"):  # the same content, spelled otherwise: everything else about it stays true
        (kept / name).write_text(json.dumps(json.loads((kept / name).read_text()), indent=7))
    else:
        (kept / name).write_bytes((kept / name).read_bytes() + b"\n")
    (kept / DIGESTS).unlink()  # the forger takes the digests away
    code, out = call(capsys, "verify", kept)
    assert code == 1
    assert f"{name} is not what was signed" in out


def test_returns_that_were_added_after_signing_are_false(kept, keys, capsys):
    sign_directory(kept, keys / "ours" / PRIVATE)
    (kept / DIGESTS).unlink()
    (kept / "returns.json").write_text("{}")
    code, out = call(capsys, "verify", kept)
    assert code == 1
    assert "returns.json is not what was signed" in out


def test_added_and_missing_files_are_false(kept, keys, capsys):
    sign_directory(kept, keys / "ours" / PRIVATE)
    (kept / DIGESTS).unlink()
    policies = (kept / "policies.json").read_bytes()
    (kept / "policies.json").unlink()
    code, out = call(capsys, "verify", kept)
    assert code == 1
    assert "policies.json is not what was signed" in out
    (kept / "policies.json").write_bytes(policies)
    assert call(capsys, "verify", kept)[0] == 0
    signed = json.loads((kept / SIGNATURE).read_text())
    assert set(signed["files"]) == {name for name in RUN_FILES if (kept / name).is_file()}


def test_a_signature_cannot_be_moved_or_rewritten(kept, keys, capsys, tmp_path):
    sign_directory(kept, keys / "ours" / PRIVATE)
    content = json.loads((kept / SIGNATURE).read_text())
    other = tmp_path / "other"
    tacit.run(**ASKED | {"epsilon": 2.0}, out=other)
    shutil.copy(kept / SIGNATURE, other / SIGNATURE)
    code, out = call(capsys, "verify", other, "--key", keys / "ours" / PUBLIC)
    assert code == 1
    assert "is not what was signed" in out
    # New digests under the old signature, and under a signature of one's own.
    (other / SIGNATURE).unlink()
    sign_directory(other, keys / "theirs" / PRIVATE)
    forged = json.loads((other / SIGNATURE).read_text())
    (other / SIGNATURE).write_text(json.dumps({**forged, "signature": content["signature"]}))
    code, out = call(capsys, "verify", other)
    assert code == 1
    assert "forged" in out
    (other / SIGNATURE).write_text(json.dumps(forged))
    assert call(capsys, "verify", other, "--key", keys / "ours" / PUBLIC)[0] == 1
    (other / SIGNATURE).write_text(json.dumps(sign({"format": "else"}, keys / "ours" / PRIVATE)))
    code, out = call(capsys, "verify", other, "--key", keys / "ours" / PUBLIC)
    assert code == 1
    assert "is no signature of a directory" in out


def test_what_is_false_or_unfinished_is_not_signed(kept, keys, capsys):
    rows = (kept / "results.parquet").read_bytes()
    (kept / "results.parquet").unlink()
    with pytest.raises(InvalidInput, match="must be finished to be signed"):
        sign_directory(kept, keys / "ours" / PRIVATE)
    (kept / "results.parquet").write_bytes(rows + b"\n")
    code, out = call(capsys, "keys", "sign", kept, "--key", keys / "ours" / PRIVATE)
    assert code == 2
    assert "must be true to be signed" in out
    assert not (kept / SIGNATURE).exists()


def test_comparisons_are_signed_with_all_of_their_runs(keys, capsys, tmp_path):
    place = tmp_path / "out"
    (tmp_path / "c.toml").write_text(
        '[defaults]\nenvironment = "random-mdp"\nepisodes = 20\nseeds = 1\n[[run]]\nlearner = "psrl"\n'
        '[[run]]\nlearner = "ucbvi"\ntrust = "local"\nepsilon = 1.0\ndelta = 0.0\nmechanism = "laplace"\n'
    )
    tacit.compare(tmp_path / "c.toml", out=place, workers=1)
    assert call(capsys, "keys", "sign", place, "--key", keys / "ours" / PRIVATE)[0] == 0
    assert call(capsys, "verify", place, "--key", keys / "ours" / PUBLIC)[0] == 0
    runs = runs_of(place)
    assert len(runs) == 2
    # A run less in the index would leave a comparison of true runs.
    index = json.loads((place / "comparison.json").read_text())
    (place / "comparison.json").write_text(json.dumps({**index, "runs": index["runs"][:1]}))
    code, out = call(capsys, "verify", place)
    assert code == 1
    assert "is not what was signed" in out
    (place / "comparison.json").write_text(json.dumps({**index, "runs": ["../elsewhere"]}))
    with pytest.raises(InvalidInput, match="must lie inside it"):
        tacit.verify(place)


def test_committed_results_are_signed_with_their_rows(keys, capsys, tmp_path):
    place = tmp_path / "fig1"
    place.mkdir()
    committed = json.loads((ROOT / "results" / "garcelon2021local" / "fig1" / "cells.json").read_text())
    committed["runs"] = [run for run in committed["runs"] if "laplace" in run["command"]][:1]
    (place / "cells.json").write_text(json.dumps(committed))
    (place / "results.parquet").write_bytes(b"rows")
    assert call(capsys, "keys", "sign", place, "--key", keys / "ours" / PRIVATE)[0] == 0
    assert call(capsys, "verify", place, "--key", keys / "ours" / PUBLIC)[0] == 0
    (place / "results.parquet").write_bytes(b"other rows")
    code, out = call(capsys, "verify", place)
    assert code == 1
    assert "results.parquet is not what was signed" in out
    # The file by itself can be signed in place, too.
    assert call(capsys, "keys", "sign", place / "cells.json", "--key", keys / "ours" / PRIVATE)[0] == 0
    code, out = call(capsys, "verify", place / "cells.json", "--key", keys / "ours" / PUBLIC)
    assert code == 0
    assert "signed by the pinned key" in out
