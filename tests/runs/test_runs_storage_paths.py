"""Results on remote file systems: the same files as here, whole or not at all, resumable."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import uuid
from pathlib import Path

import fsspec
import numpy as np
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

import tacit
from tacit.cli import main
from tacit.errors import InvalidInput, NotSupported
from tacit.runs import storage_paths
from tacit.runs.manifest import write_beside
from tacit.runs.storage_paths import TEMPORARY, resolve_location, write_private, write_whole

SMALL = {"environment": "random-mdp", "learner": "psrl", "episodes": 300, "checkpoints": 12, "workers": 1}
ASKED = ["run", "--environment", "random-mdp", "--learner", "psrl", "--episodes", "300", "--checkpoints", "12"]
SAME = ("results.parquet", "policies.json", "privacy.json")


@pytest.fixture(params=["put", "move"])
def remote(request, monkeypatch):
    """A place of its own; once more as on a file system of which nobody knows that its puts are atomic."""
    if request.param == "move":
        monkeypatch.setattr(storage_paths, "OBJECT_STORES", frozenset())
    return f"memory://bucket/{uuid.uuid4().hex}"


def names(place) -> set[str]:
    return {str(file.relative_to(place)) for file in place.rglob("*") if file.is_file()}


def test_a_run_on_a_remote_file_system_has_the_same_files_and_reads_back_equal(remote, tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    here = tacit.run(**SMALL, seeds=2, out=tmp_path / "run")
    there = tacit.run(**SMALL, seeds=2, out=remote)
    place = resolve_location(remote)
    assert names(place) == names(tmp_path / "run")
    for name in SAME:
        assert (place / name).read_bytes() == (tmp_path / "run" / name).read_bytes()
    np.testing.assert_array_equal(there.regret, here.regret)
    again = tacit.load(remote)
    assert again.to_json()["regret"] == here.to_json()["regret"]
    assert tacit.verify(remote).true
    place.fs.pipe_file((place / "results.parquet").path, (place / "results.parquet").read_bytes() + b"x")
    assert not tacit.verify(remote).true


def test_an_interrupted_run_resumes_there_and_redoes_no_finished_seed(remote, capsys):
    whole = tacit.run(**SMALL, seeds=3)
    tacit.run(**SMALL, seeds=3, out=remote)
    place = resolve_location(remote)
    for lost in ("results.parquet", "seeds/seed-000001.parquet"):
        (place / lost).unlink()
    kept = (place / "seeds" / "seed-000002.json").read_bytes()
    redone = (place / "seeds" / "seed-000001.json").read_bytes()
    with pytest.raises(InvalidInput, match=r"not finished \(2 of 3 seeds\)"):
        tacit.load(remote)
    assert main([*ASKED, "--seeds", "3", "--workers", "1", "--out", remote]) == 0
    out, err = capsys.readouterr()
    assert f"{remote}: 2 of 3 seeds are there already" in err
    assert f"saved in {remote}" in out
    assert (place / "seeds" / "seed-000002.json").read_bytes() == kept
    assert (place / "seeds" / "seed-000001.json").read_bytes() != redone  # other seconds
    np.testing.assert_array_equal(tacit.load(remote).regret, whole.regret)
    with pytest.raises(InvalidInput, match="episodes is 300 there, 301 here"):
        tacit.run(**{**SMALL, "episodes": 301}, seeds=3, out=remote)


class Disk(LocalFileSystem):
    """A file system that nobody knows: a disk that is written to through fsspec only."""

    protocol = "disk"


@pytest.fixture(scope="module")
def disk():
    fsspec.register_implementation("disk", Disk, clobber=True)


@pytest.mark.parametrize("seeds", [1, 2])
def test_interrupted_at_every_write_a_run_on_a_file_system_that_nobody_knows_resumes(
    seeds, disk, tmp_path, monkeypatch
):
    """The write itself, half done, is left there, as by a kill; nothing of it is taken for a file."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    asked = {**SMALL, "episodes": 40, "checkpoints": 4, "seeds": seeds}
    tacit.run(**asked, out=tmp_path / "whole")
    whole, left = Disk.pipe_file, [0]

    class Killed(BaseException):
        pass

    def counted(self, path, value, **options):
        left[0] -= 1
        whole(self, path, value[: len(value) // 2] if left[0] == 0 else value, **options)
        if left[0] == 0:
            raise Killed

    monkeypatch.setattr(Disk, "pipe_file", counted)
    monkeypatch.setattr(Disk, "rm_file", lambda *_: None)  # a kill removes nothing
    for number in range(1, 100):
        left[0], out = number, f"disk://{tmp_path}/killed-{number}"
        with contextlib.suppress(Killed):
            tacit.run(**asked, out=out)
        if left[0] > 0:  # there were not so many writes
            break
        left[0] = 0
        tacit.run(**asked, out=out)
        place = resolve_location(out)
        assert names(place) == names(tmp_path / "whole")
        for name in SAME:
            assert (place / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
        assert tacit.verify(out).true
    assert number == 7 if seeds == 1 else number == 11


def test_a_comparison_is_kept_shown_and_verified_there(remote, tmp_path, capsys):
    (tmp_path / "two.toml").write_text(
        'name = "two"\n[defaults]\nenvironment = "random-mdp"\nepisodes = 300\nseeds = 1\n'
        '[[run]]\nlearner = "psrl"\n[[run]]\nlearner = "uniform"\n'
    )
    assert main(["compare", str(tmp_path / "two.toml"), "--workers", "1", "--out", remote]) == 0
    assert f"figure: {remote}/regret.png" in capsys.readouterr().out
    place = resolve_location(remote)
    assert (place / "regret.png").read_bytes().startswith(b"\x89PNG")
    assert [result.label for result in tacit.load(remote)] == ["psrl", "uniform"]
    assert main(["report", remote]) == 0
    assert b"</html>" in (place / "report.html").read_bytes()
    assert main(["verify", remote]) == 0
    assert "true: " in capsys.readouterr().out
    assert main(["compare", str(tmp_path / "two.toml"), "--workers", "1", "--out", remote]) == 0
    assert "holds all 2 runs already, finished: nothing to do" in capsys.readouterr().err


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(remote, monkeypatch):
    place = resolve_location(remote)
    write_whole(place / "file", b"old")
    kind = type(place.fs)
    whole = kind.pipe_file

    def half(self, path, value, **options):
        if not storage_paths.OBJECT_STORES:  # half a file is there, but not in its place
            whole(self, path, value[:1], **options)
        raise OSError("the network is down")

    monkeypatch.setattr(kind, "pipe_file", half)
    with pytest.raises(OSError, match="the network is down"):
        write_whole(place / "file", b"new")
    assert (place / "file").read_bytes() == b"old"
    assert names(place) == {"file"}
    assert not any(name.startswith(TEMPORARY) for name in names(place))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nowhere://bucket/run", "must begin with a scheme that fsspec knows"),
        ("sftp://me:secret@host/run", "must be named without its password"),
        ("file://tmp/run", "must be followed by an absolute path of this machine, as in file:///tmp/run"),
        ("s3:/bucket/run", "a URL must be given as text, with two slashes: 's3://bucket/run'"),
    ],
)
def test_places_that_make_no_sense_are_refused(url, words, capsys):
    with pytest.raises(InvalidInput, match=words):
        tacit.run(**SMALL, out=url)
    for command in ([*ASKED, "--out", url], ["report", url], ["verify", url], ["plot", url]):
        assert main(command) == 2
        shown = capsys.readouterr().err
        assert words in shown
        assert "secret" not in shown


def test_what_is_missing_for_a_remote_place_is_named(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    assert main([*ASKED, "--out", "s3://bucket/run"]) == 2
    asked = "error: results on s3:// need one package more: Install s3fs to access S3 (pip install s3fs)"
    assert asked in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "upath", None)
    with pytest.raises(NotSupported, match=r"pip install '(\.|tacit-rl)\[fsspec\]'"):
        tacit.run(**SMALL, out="memory://bucket/run")
    assert main(["audit", "--mechanism", "laplace", "--delta", "0", "--out", "memory://a"]) == 2


def test_an_error_of_a_file_system_is_one_line(monkeypatch):
    class NoCredentials(Exception):
        pass

    def refuse(*given, **options):
        raise NoCredentials("no key")

    monkeypatch.setattr(MemoryFileSystem, "pipe_file", refuse)
    with pytest.raises(InvalidInput, match=r"cannot write to memory://.*NoCredentials: no key"):
        tacit.run(**SMALL, out=f"memory://{uuid.uuid4().hex}/run")


def test_paths_of_this_machine_need_nothing(monkeypatch, tmp_path):
    for missing in ("fsspec", "upath"):
        monkeypatch.setitem(sys.modules, missing, None)
    for given in (str(tmp_path / "a"), tmp_path / "b", f"file://{tmp_path}/c", f"file://localhost{tmp_path}/d"):
        tacit.run(**SMALL, out=given)
    assert sorted(place.name for place in tmp_path.iterdir()) == ["a", "b", "c", "d"]
    assert tacit.verify(f"file://{tmp_path}/c").true
    with pytest.raises(InvalidInput, match="a URL must be given as text"):
        tacit.run(**SMALL, out=Path("s3://bucket/run"))  # which has one slash left
    assert isinstance(resolve_location("C:odd//name"), Path)
    assert storage_paths.is_local(resolve_location("a/b"))


@pytest.mark.parametrize("write", [write_whole, write_private, write_beside])
def test_a_pipe_is_written_to_and_not_replaced(tmp_path, write):
    """As the null device is: a rename would put a file in its place."""
    place = tmp_path / "pipe"
    os.mkfifo(place)
    reader = os.open(place, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write(place, b"content")
        assert os.read(reader, 99) == b"content"
        assert stat.S_ISFIFO(place.stat().st_mode)
    finally:
        os.close(reader)
