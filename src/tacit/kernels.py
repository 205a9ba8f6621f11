"""`@kernel`: numba compilation with a disk cache that never runs stale code.

Numba's own cache checks only the file of the function itself, so an edit in an imported kernel goes unnoticed; and it
never hits for a closure over other kernels, because their identity differs in every process. Both are repaired here:
a cached kernel is stamped with the contents of its module, of the modules of the kernels it closes over and of every
tacit module that these import, however indirectly; and a closure is known by the names of the kernels it was made from,
in the cache and in the symbols of its compiled code.
So a loop fused from a learner and a privatizer is compiled once per machine and version. A process whose sources were
edited under its feet compiles for itself and writes nothing to the cache.

The cache lives beside the sources or, when these are read-only, in the user's cache directory (numba's own rule).
Nothing is compiled, hashed or read when a module is imported: only when a kernel is first called.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import caching, config
from numba.core.serialize import dumps

__all__ = ["inlined", "is_lean", "kernel", "lean_kernel", "source_stamp"]

F = TypeVar("F", bound=Callable[..., Any])

PACKAGE_ROOT = Path(__file__).parent
_STARTED = time.time()
_IMPORT = re.compile(r"^\s*(?:from\s+(tacit[\w.]*)\s+import\s+(\([^)]*\)|[^\n]*)|import\s+(tacit[\w.]*))", re.MULTILINE)


def kernel(function: F) -> F:
    """Compile `function` in nopython mode, cached on disk; `function.py_func` stays the readable original.

    >>> @kernel
    ... def twice(x):
    ...     return 2 * x
    >>> twice(21), twice.py_func(21)
    (42, 42)
    """
    return _compiled(function)


def lean_kernel(function: F) -> F:
    """A kernel that allocates nothing, compiled without reference counts: those cost more than small kernels do.

    Every array must come from outside, and stays alive there; an allocation inside fails to compile.

    >>> @lean_kernel
    ... def add(total, values):
    ...     for i in range(len(values)):
    ...         total[i] += values[i]
    >>> import numpy as np
    >>> total = np.zeros(2)
    >>> add(total, np.ones(2))
    >>> total.tolist()
    [1.0, 1.0]
    """
    return _compiled(function, _nrt=False)


def is_lean(compiled: Callable[..., Any]) -> bool:
    """Whether this is a lean kernel.

    A kernel compiles with the flags of its first caller, so only what allocates nothing may be called by a lean one.
    """
    return getattr(compiled, "targetoptions", {}).get("_nrt", True) is False


def inlined(compiled: F) -> F:
    """A lean kernel to be copied into the kernel that calls it, where handing over its arrays costs more than its work.

    Other kernels, and closures over kernels, come back as they are.
    """
    if not is_lean(compiled) or compiled.py_func.__closure__:  # type: ignore[attr-defined]
        return compiled
    return cast("F", numba.njit(inline="always", _nrt=False, error_model="numpy")(compiled.py_func))  # type: ignore[attr-defined]


def _compiled(function: F, **flags: bool) -> F:
    if config.DISABLE_JIT:
        function.py_func = function  # type: ignore[attr-defined]
        return function
    compiled = numba.njit(error_model="numpy", **flags)(function)
    if PACKAGE_ROOT in Path(function.__code__.co_filename).parents:
        compiled._cache = _StampedCache(function)
    return cast("F", compiled)


def source_stamp(files: Iterable[Path]) -> str:
    """A hash of these files and of every tacit module they import, directly or not."""
    digest = hashlib.sha256(numba.__version__.encode())
    for path, text in sorted(_sources(files).items()):
        digest.update(path.name.encode() + text)
    return digest.hexdigest()


def _sources(files: Iterable[Path]) -> dict[Path, bytes]:
    """The contents of these files and of every tacit module they import, directly or not."""
    seen: dict[Path, bytes] = {}
    todo = list(files)
    while todo:
        path = todo.pop()
        if path not in seen:
            seen[path], imported = _read(path)
            todo.extend(imported)
    return seen


@cache
def _read(path: Path) -> tuple[bytes, tuple[Path, ...]]:
    """The contents of a source file and the tacit source files it names in its imports."""
    text = path.read_bytes()
    found: list[Path] = []
    for module, names, plain in _IMPORT.findall(text.decode()):
        dotted = module or plain
        inside = [f"{dotted}.{name}" for name in re.findall(r"\w+", names)]
        found.extend(file for candidate in [dotted, *inside] for file in _module_files(candidate))
    return text, tuple(found)


def _module_files(dotted: str) -> list[Path]:
    base = PACKAGE_ROOT.joinpath(*dotted.split(".")[1:])
    return [path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()]


class _IndexFile(caching.IndexDataCacheFile):  # type: ignore[misc]
    """Numba's index of compiled kernels; one that another version of tacit left behind counts as empty."""

    def _load_index(self) -> Any:
        try:
            return super()._load_index()
        except Exception:  # types of modules that are gone cannot be read, and need not be
            return {}


class _StampedCache(caching.FunctionCache):  # type: ignore[misc]
    """Numba's function cache, prepared at the first use, with our stamp and our key."""

    def __init__(self, py_func: Callable[..., Any]) -> None:
        self._py_func = py_func
        self._ready = False
        self.enable()

    def _prepare(self) -> None:
        if self._ready:
            return
        self._ready = True
        if self._py_func.__closure__:
            # Symbols of compiled code have this name and a number that counts from one in every process: two closures
            # of one name, cached by two processes, could share both, and a third process would run one for the other.
            # Index files have this name, too: two learners fused into one loop do not overwrite each other's stamp.
            self._py_func.__qualname__ = f"{self._py_func.__code__.co_qualname}_{self._closure_digest()[:16]}"
        named = [Path(function.__code__.co_filename) for function in _functions(self._py_func)]
        files = [path for path in named if path.is_file()]
        stamp = source_stamp(files)
        self._name = repr(self._py_func)
        self._impl = self._impl_class(self._py_func)
        self._cache_path = self._impl.locator.get_cache_path()
        self._cache_file = _IndexFile(
            cache_path=self._cache_path, filename_base=self._impl.filename_base, source_stamp=stamp
        )
        # A file edited while this process runs may not be what was imported, and what is typed into a session has no
        # file: compile, but leave the cache alone.
        if len(files) < len(named) or max(path.stat().st_mtime for path in _sources(files)) > _STARTED:
            self.disable()

    @property
    def cache_path(self) -> str:
        self._prepare()
        return cast("str", self._cache_path)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        self._prepare()
        return super().load_overload(sig, target_context)

    def holds(self, compiled: Any, args: tuple[Any, ...]) -> bool:
        """Whether a compiled form for such arguments is in the cache; nothing is loaded."""
        self._prepare()
        index = self._cache_file._load_index() if Path(self._cache_file._index_path).is_file() else {}
        if not index:
            return False
        signature = tuple(compiled.typeof_pyval(value) for value in args)
        return self._index_key(signature, compiled.targetctx.codegen()) in index

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return (sig, codegen.magic_tuple(), self._closure_digest())

    def _closure_digest(self) -> str:
        return hashlib.sha256(self._py_func.__code__.co_code + dumps(_cells(self._py_func))).hexdigest()


def _cells(function: Callable[..., Any]) -> list[object]:
    """What a closure contributes to the cache key: the names of its kernels and of theirs, anything else by value."""
    described: list[object] = []
    for cell in function.__closure__ or ():
        original = getattr(cell.cell_contents, "py_func", None)
        if original is None:
            described.append(cell.cell_contents)
        else:
            described.append((original.__module__, original.__code__.co_qualname, _cells(original)))
    return described


def _functions(function: Callable[..., Any]) -> list[Callable[..., Any]]:
    """A function and the originals of all kernels it closes over, directly or not."""
    inner = [getattr(cell.cell_contents, "py_func", None) for cell in function.__closure__ or ()]
    return [function, *(deep for original in inner if original is not None for deep in _functions(original))]
