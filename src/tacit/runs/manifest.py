"""Manifests: one file, digests.json, lists every file of a directory that tacit wrote, with its kind and SHA-256.

    run          config.json, privacy.json, rows, policies, seconds, parts; figures and pages that were drawn there
    comparison   its index, its figures, and the manifest of every run in it, which lists the files of that run
    release      of `tacit learn`: learned.json, policy.json, certificate.json
    results      cells.json, rows and figures of a paper's experiment

M1  Nothing in a manifest is free: it is derived again from the files, and another byte in it is found.
M2  A file that is missing, altered, not listed, or that tacit has no name for, is named (`doubts_about_files`).
M3  Signatures are about the digest of the manifest and stand beside it (`tacit.runs.signature`); they are not listed.
M4  What is drawn into a directory later is added to its manifest; into one that is signed nothing is drawn.

A digest alone shows accidents: whoever can edit a file can write a new digest beside it, but not a new signature.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tacit.documents import digest
from tacit.errors import InvalidInput, require
from tacit.runs.signature import SIGNATURES
from tacit.runs.storage_paths import json_bytes, read_json, write_json, write_together, write_whole

DIGESTS: Final = "digests.json"
FORMAT: Final = "tacit-manifest"
FORMAT_VERSION: Final = 1
FileDigests = Mapping[str, str]
"""The name of a file in its directory -> SHA-256 of its content."""

KINDS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    r"config\.json": ("configuration", ("run",)),
    r"privacy\.json": ("certificate", ("run",)),
    r"certificate\.json": ("certificate", ("release",)),
    r"results\.parquet": ("rows", ("run", "results")),
    r"policies\.json": ("policy", ("run",)),
    r"policy\.json": ("policy", ("release",)),
    r"(returns|intervals|arms)\.json": ("released", ("run",)),
    r"timing\.json": ("seconds", ("run",)),
    r"environment\.npz": ("model", ("run",)),
    r"seeds/seed-[0-9]{6,}\.(parquet|json)": ("part", ("run",)),
    r"learned\.json": ("release", ("release",)),
    r"comparison\.json": ("index", ("comparison",)),
    rf"([^/]+/)+{re.escape(DIGESTS)}": ("manifest", ("comparison",)),
    r"(cells|measures|study)\.json": ("results", ("results",)),
    r"([^/]+/)*[^/]+\.(png|svg|pdf)": ("figure", ("run", "comparison", "results")),
    r"([^/]+/)*[^/]+\.html|certificates\.txt": ("page", ("run", "comparison", "results")),
}
"""What the files are that tacit writes, and in which kinds of directories."""
DRAWN: Final = ("figure", "page")


def sha256(content: bytes) -> str:
    """The digest of a file."""
    return hashlib.sha256(content).hexdigest()


def make_manifest(kind: str, files: FileDigests) -> dict[str, Any]:
    """The manifest of a directory with these files; one without a kind is refused."""
    unknown = [name for name in files if _kind(name, kind) is None]
    require(not unknown, "the files of a manifest must be files that tacit writes", unknown)
    listed = {name: {"kind": _kind(name, kind), "sha256": files[name]} for name in sorted(files)}
    return {"format": FORMAT, "format_version": FORMAT_VERSION, "kind": kind, "files": listed}


def manifest_digest(place: Path) -> str:
    """What a signature of a directory is about."""
    return digest(read_json(place / DIGESTS))


def write_manifest(place: Path, kind: str, names: Iterable[str]) -> None:
    """List these files of a directory as they are now; what was drawn into it and listed before stays listed."""
    before = read_json(place / DIGESTS) if (place / DIGESTS).is_file() else {}
    drawn = {name: one["sha256"] for name, one in before.get("files", {}).items() if one.get("kind") in DRAWN}
    found = make_manifest(kind, {**drawn, **{name: sha256((place / name).read_bytes()) for name in names}})
    if found != before:
        write_json(place / DIGESTS, found)


def write_beside(path: Path, content: bytes) -> None:
    """Write a figure or page; where the directories above it have manifests, it is listed there (M4)."""
    if path.is_file() and path.read_bytes() == content:
        return
    listing: list[tuple[Path, dict[str, Any]]] = []
    for place in list(path.parents)[:4]:
        if (place / DIGESTS).is_file() and read_json(place / DIGESTS).get("format") == FORMAT:
            signed, hint = (place / SIGNATURES).exists(), "write it elsewhere with --out"
            require(not signed, f"{place} must not change: it is signed", "a new figure or page", hint)
            listing.append((place, read_json(place / DIGESTS)))
    write_whole(path, content)
    for place, manifest in listing:
        files = {name: one["sha256"] for name, one in manifest["files"].items()}
        name = path.relative_to(place).as_posix()
        content = json_bytes(make_manifest(manifest["kind"], {**files, name: sha256(content)}))
        path = place / DIGESTS
        write_together(place, {DIGESTS: content})


def doubts_about_files(place: Path, kind: str) -> tuple[list[str], list[str], list[str]]:
    """(what is wrong, what cannot be known, the files that were looked at) of a directory and its manifest (M2)."""
    there, unnamed = _digests(place, kind)
    wrong = [f"{name} is no file that tacit writes there" for name in unnamed]
    if not (place / DIGESTS).is_file():
        return wrong, [f"{DIGESTS} is missing, which lists its files"], []
    text = (place / DIGESTS).read_bytes()
    stated = read_json(place / DIGESTS)
    if "format" not in stated:
        differing = [name for name in stated if stated[name] != there.get(name)]
        wrong = [f"{name} is not as it was written (its digest differs)" for name in differing]
        return (
            wrong,
            [f"{DIGESTS} is of tacit 0.8.0 or older and does not list every file"],
            sorted({*stated} & {*there}),
        )
    try:
        require(stated["format"] == FORMAT and stated["format_version"] == FORMAT_VERSION, "a manifest", "another")
        listed = {str(name): str(one["sha256"]) for name, one in stated["files"].items()}
        expected = make_manifest(kind, listed)
        require(json_bytes(expected) == text, "a manifest must be as it was written", "another spelling")
    except (InvalidInput, KeyError, TypeError, AttributeError):
        return [*wrong, f"{DIGESTS} is not as it was written"], [], []
    for name in sorted({*listed, *there}):
        if name not in there:
            wrong.append(f"{name} is missing")
        elif name not in listed:
            wrong.append(f"{name} is not listed in {DIGESTS}")
        elif listed[name] != there[name]:
            wrong.append(f"{name} is not as it was written (its digest differs)")
    return wrong, [], sorted({*listed} & {*there})


def _digests(place: Path, kind: str) -> tuple[dict[str, str], list[str]]:
    """The digests of the files below a directory that tacit has a name for; and the other files."""
    found, unnamed = dict[str, str](), list[str]()
    for name, path in _files(place, ""):
        if _kind(name, kind) is None or not path.is_file():
            unnamed.append(name)
        else:
            found[name] = sha256(path.read_bytes())
    return found, unnamed


def _files(place: Path, before: str) -> Iterator[tuple[str, Path]]:
    """Every file below a directory by its name there; of one with a manifest of its own that manifest alone."""
    for path in sorted(place.iterdir(), key=str):
        name = before + path.name
        if path.is_dir():
            if (path / DIGESTS).is_file():
                yield f"{name}/{DIGESTS}", path / DIGESTS
            elif path.is_symlink():  # it may lead around in a circle
                yield name, path
            elif name != SIGNATURES:
                yield from _files(path, f"{name}/")
        elif name != DIGESTS:
            yield name, path


def _kind(name: str, place: str) -> str | None:
    """What a file of this name is in such a directory."""
    found = (kind for pattern, (kind, places) in KINDS.items() if place in places and re.fullmatch(pattern, name))
    return next(found, None)
