"""Signatures of directories: one file, signature.json, over the digests of everything in a directory that counts.

    a run           configuration, privacy, rows, policies and model: all files but the seconds
    a comparison    its index, and the files of every run in it
    results         cells.json and results.parquet

G1  Whatever of these files is edited, missing or new since it was signed makes the directory false.
G2  Taking the signature away makes a directory "unsigned", which is false for whoever insists on a key.
G3  A run that is not finished is not signed, and `tacit keys sign` signs nothing that is false.

A digest alone shows accidents: whoever can edit a file can write a new digest beside it, but not a new signature.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tacit._version import __version__
from tacit.errors import require
from tacit.runs.signature import sign
from tacit.runs.storage import RUN_FILES, RunDirectory, read_json, write_json, writing_to

SIGNATURE: Final = "signature.json"
FORMAT: Final = "tacit-directory"
INDEX, RESULTS_OF_A_PAPER = "comparison.json", ("cells.json", "results.parquet")


def runs_of(place: Path) -> list[Path]:
    """The runs of a directory: itself, those of a comparison (none of which may lie outside), or none."""
    if RunDirectory(place).begun:
        return [place]
    if not (place / INDEX).is_file():
        return []
    listed = [Path(str(one)) for one in read_json(place / INDEX).get("runs", ())]
    for one in listed:
        require(not one.is_absolute() and ".." not in one.parts, "runs of a comparison must lie inside it", str(one))
    return [place / str(one) for one in listed]


def sign_directory(directory: str | Path, private: str | Path) -> Path:
    """Write signature.json over the files of a directory as they are now; an older one is never replaced."""
    place = Path(directory)
    target = place / SIGNATURE
    require(not target.exists(), f"{place} must not be signed yet", "a signature")
    for run in runs_of(place):
        require(RunDirectory(run).finished, f"{run} must be finished to be signed", "an unfinished run")
    content = {"format": FORMAT, "version": __version__, "files": _digests(place)}
    with writing_to(target):
        write_json(target, sign(content, private))
    return target


def kept_signature(directory: Path) -> dict[str, Any]:
    """The contents of signature.json; empty where nothing is signed."""
    path = directory / SIGNATURE
    return read_json(path) if path.is_file() else {}


def doubts_about_signature(directory: Path) -> list[str]:
    """What is not as it was signed (G1); empty if all is, or nothing was signed."""
    content = kept_signature(directory)
    if not content:
        return []
    signed, now = content.get("files"), _digests(directory)
    if content.get("format") != FORMAT or not isinstance(signed, dict):
        return [f"{SIGNATURE} is no signature of a directory"]
    return [f"{name} is not what was signed" for name in sorted({*signed, *now}) if signed.get(name) != now.get(name)]


def _digests(place: Path) -> dict[str, str]:
    """SHA-256 of every file that counts, by its path in the directory."""
    return {str(file.relative_to(place)): hashlib.sha256(file.read_bytes()).hexdigest() for file in _files(place)}


def _files(place: Path) -> Iterator[Path]:
    runs = runs_of(place)
    names = [run / name for run in runs for name in RUN_FILES] or [place / name for name in RESULTS_OF_A_PAPER]
    yield from (path for path in (place / INDEX, *names) if path.is_file())
