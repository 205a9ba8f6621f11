"""Places of results: directories of this machine, and what an fsspec URL names (extra `fsspec`).

    results/run                  as ever, without any dependency
    s3://bucket/run, gs://...    an object store: one put per file, which is there whole or not at all
    sftp://host/run, ...         any other file system: a temporary file that is moved into its place

P1  A file is written whole or not at all, wherever it is. What stands there already is replaced, never cut.
P2  A URL holds no password: the commands that results record would hold it, too.
P3  Private files (keys, tokens, the state of a device) are readable by their owner only from the moment they exist, and
    on the disk when the call returns.

Remote places are `UPath`s, which have the methods of `Path` that results need.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import re
import secrets
import tempfile
import uuid
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

from tacit.documents import parse_json
from tacit.errors import InvalidInput, NotSupported, TacitError, install_hint, require
from tacit.system import lock, sync_directory

TEMPORARY: Final = ".tmp-"
"""How the names of files begin that are not written yet."""
OBJECT_STORES: Final = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oss", "memory"})
"""Where one put is atomic, and directories are nothing but names."""
REMOTE: Final = OBJECT_STORES | {"sftp", "ssh", "ftp", "hdfs", "http", "https", "smb", "webhdfs", "hf", "file", "local"}
"""Schemes that no directory is called after by accident."""
URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", flags=re.DOTALL)


def resolve_location(given: str | Path) -> Path:
    """The directory or file that was named: a path of this machine as it is, or a place on a remote file system.

    >>> resolve_location("results/run")
    PosixPath('results/run')
    >>> resolve_location("file:///tmp/run")
    PosixPath('/tmp/run')
    """
    place: object = given
    named = isinstance(place, str | os.PathLike) or hasattr(place, "protocol")  # a UPath
    require(named and place != "", "a file or directory must be named by text or a Path that is not empty", place)
    found = URL.fullmatch(given) if isinstance(given, str) else None
    if found is None:
        _require_no_url(given)
        return Path(given) if isinstance(given, str | Path) else given  # a UPath is what it is
    scheme, rest = found[1].lower(), found[2]
    if "@" in rest.partition("/")[0] and ":" in rest.partition("@")[0]:
        raise InvalidInput(
            f"a place on {scheme}:// must be named without its password, which results would keep; give it in the "
            "settings or the environment of the file system"
        )
    if scheme in ("file", "local"):
        rest = rest.removeprefix("localhost")
        if not rest.startswith("/"):
            raise InvalidInput(
                f"{scheme}:// must be followed by an absolute path of this machine, as in file:///tmp/run, got "
                f"'{given}'; a relative path is given without {scheme}://"
            )
        return Path(rest)
    if importlib.util.find_spec("fsspec") is None or importlib.util.find_spec("upath") is None:
        raise NotSupported(f"results on {scheme}:// need the package fsspec: {install_hint('fsspec')}")
    return _remote(scheme, given)


def _require_no_url(given: str | Path) -> None:
    """Raise where a URL has lost a slash, as it does in a `Path`: results would lie here, in a directory 's3:'."""
    scheme, _, rest = str(given).partition(":")
    if scheme.lower() in REMOTE and rest.startswith("/") and not rest.startswith("//"):
        raise InvalidInput(
            f"a URL must be given as text, with two slashes: '{scheme}://{rest.lstrip('/')}', got '{given}'; "
            f"a directory of this machine is written './{given}'"
        )


def _remote(scheme: str, given: str | Path) -> Path:
    import fsspec
    from fsspec.registry import known_implementations
    from upath import UPath

    try:
        fsspec.get_filesystem_class(scheme)
    except ImportError as error:
        driver = str(known_implementations.get(scheme, {}).get("class", "fsspec")).partition(".")[0]
        install = "" if driver == "fsspec" else f" (pip install {driver})"
        raise NotSupported(f"results on {scheme}:// need one package more: {_first_line(error)}{install}") from error
    except ValueError as error:
        raise InvalidInput(f"'{given}' must begin with a scheme that fsspec knows, such as s3:// or gs://") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that a file system has no class of its own
        place = UPath(given)
    try:
        place.fs  # noqa: B018  made here, so that what is missing is missing now
    except Exception as error:
        raise InvalidInput(f"cannot open {scheme}://: {_first_line(error)}") from error
    return cast("Path", place)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def is_local(path: Path) -> bool:
    """Whether a place is on this machine."""
    return isinstance(path, Path)


def check_writable(path: Path, option: str = "--out") -> None:
    """Raise unless `path` is, or could become, a directory in which this process may write; writes nothing.

    What a remote file system allows it says when it is written to.
    """
    if not is_local(path):
        if path.is_file():
            raise InvalidInput(f"cannot write to {path}: it is not a directory; choose another with --out")
        return
    nearest = path.absolute()
    while not os.path.lexists(nearest) and nearest != nearest.parent:
        nearest = nearest.parent
    if not nearest.is_dir():
        raise InvalidInput(f"cannot write to {path}: {nearest} is not a directory; choose another with {option}")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise InvalidInput(f"cannot write to {path}: no permission in {nearest}; choose another with {option}")


@contextlib.contextmanager
def writing_to(path: Path) -> Iterator[None]:
    """Say in one line that a place cannot be written to, whatever the reason."""
    try:
        yield
    except TacitError:
        raise
    except OSError as error:
        raise InvalidInput(f"cannot write to {path}: {error.strerror or error}") from error
    except Exception as error:
        if is_local(path):
            raise
        # File systems have errors of their own: of credentials, of networks, of what they cannot do.
        raise InvalidInput(f"cannot write to {path}: {type(error).__name__}: {error}") from error


@contextlib.contextmanager
def complete_files(path: Path) -> Iterator[None]:
    """Say in one line that what is kept in a place is not what tacit writes there: an entry is missing or no value."""
    try:
        yield
    except TacitError:
        raise
    except KeyError as error:
        raise InvalidInput(f"the files in {path} must be as tacit wrote them, but {error} is missing") from error
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise InvalidInput(f"the files in {path} must be as tacit wrote them, but an entry is no such value") from error
    except OSError as error:
        raise InvalidInput(f"the files in {path} must be there and readable: {error.strerror or error}") from error


def make_directory(path: Path) -> None:
    """Make a directory and those above it, where there are directories."""
    if is_local(path) or _protocol(path) not in OBJECT_STORES:
        path.mkdir(parents=True, exist_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file, completely or not at all (P1); devices and pipes are written to, never replaced."""
    if _is_device(path):
        path.write_bytes(content)
    else:
        write_together(path.parent, {path.name: content})


def _is_device(path: Path) -> bool:
    """Whether this is a device or pipe."""
    return is_local(path) and path.exists() and not path.is_file() and not path.is_dir()


def write_together(directory: Path, files: Mapping[str, bytes]) -> None:
    """Write files of one directory, each whole or not at all (P1), in this order: the last one is there if all are.

    All of them are on the disk before the first gets its name, so that the file system commits them together.
    """
    if not is_local(directory):
        for name, content in files.items():
            _put_whole(cast("Any", directory / name), content)
        return
    place, token, made = str(directory), secrets.token_hex(8), dict[str, str]()
    with contextlib.ExitStack() as opened:
        try:
            handles = []
            for number, (name, content) in enumerate(files.items()):
                temporary = f"{place}/{TEMPORARY}{token}-{number}"
                # Results are meant to be read: by whom, the umask says.
                handles.append(opened.enter_context(io.FileIO(temporary, "x")))
                made[temporary] = f"{place}/{name}"
                _write_all(handles[-1], content)
            for handle in handles:
                os.fsync(handle.fileno())
            for temporary, path in list(made.items()):
                os.replace(temporary, path)
                del made[temporary]
        except BaseException:
            for temporary in made:
                Path(temporary).unlink(missing_ok=True)
            raise


def _write_all(handle: io.FileIO, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[handle.write(left) :]


def _put_whole(path: Any, content: bytes) -> None:
    if _protocol(path) in OBJECT_STORES:
        path.fs.pipe_file(path.path, content)
        return
    temporary = path.parent / f"{TEMPORARY}{uuid.uuid4().hex}"
    try:
        path.fs.pipe_file(temporary.path, content)
        path.fs.mv(temporary.path, path.path)
    except BaseException:
        with contextlib.suppress(Exception):
            path.fs.rm_file(temporary.path)
        raise


def write_private(path: Path, content: bytes) -> None:
    """Replace a file of this machine by one that only its owner reads (P3); a new directory is private, too."""
    if _is_device(path):
        path.write_bytes(content)
        return
    with writing_to(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # mkstemp makes files of mode 0600, and a rename keeps that.
        handle, name = tempfile.mkstemp(prefix=TEMPORARY, dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        sync_directory(path.parent)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[int]:
    """Keep other processes that lock this private file out; it is made where it is missing. Yields its descriptor."""
    with writing_to(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        lock(handle)
        yield handle
    finally:
        os.close(handle)


def write_json(path: Path, content: Mapping[str, Any], *, indent: int | None = 2) -> None:
    """Write valid JSON (no NaN, no Infinity), whole or not at all."""
    write_whole(path, json_bytes(content, indent=indent))


def json_bytes(content: Mapping[str, Any], *, indent: int | None = 2) -> bytes:
    """Valid JSON (no NaN, no Infinity), as it is written to files."""
    return (json.dumps(content, indent=indent, allow_nan=False, ensure_ascii=False) + "\n").encode()


def read_json(path: Path) -> dict[str, Any]:
    """Read what `write_json` wrote, strictly (`tacit.documents`)."""
    try:
        content = parse_json(path.read_bytes(), str(path))
    except OSError as error:
        raise InvalidInput(f"{path} must be readable JSON written by tacit: {error}") from error
    if not isinstance(content, dict):
        raise InvalidInput(f"{path} must hold one JSON object")
    return content


def _protocol(path: Any) -> str:
    return str(path.protocol)
