"""Files that the commands of a study read and write: whole or not at all, and no word about what is in them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from tacit.documents import parse_json
from tacit.errors import InvalidInput, require
from tacit.runs.storage_paths import check_writable, write_whole, writing_to

Key: TypeAlias = Annotated[Path | None, typer.Option(help="The private key that signs (see 'tacit keys new').")]
Pinned: TypeAlias = Annotated[Path | None, typer.Option(help="The public key that must have signed.")]
OutFile: TypeAlias = Annotated[Path | None, typer.Option(help="The file to write.")]
LARGEST = 2**30


def read_bytes(path: Path) -> bytes:
    """The bytes of a file."""
    try:
        require(path.stat().st_size <= LARGEST, "a file must have at most 1 GiB", "more")
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path} must be a readable file: {error.strerror}") from error


def check_out(path: Path | None, made: bytes) -> None:
    """Refuse a file that could not be written before anything happens; `made` is what may stand in it already."""
    if path is None:
        return
    check_writable(path.parent)
    if path.exists():
        require(path.is_file() and path.read_bytes() == made, f"{path} must be new or the same", "another file")


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file; one that is there must be the same."""
    check_out(path, content)
    if path.exists():
        return
    with writing_to(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)


def read_json_file(path: Path) -> Any:
    """What stands in a JSON file."""
    return parse_json(read_bytes(path), str(path))
