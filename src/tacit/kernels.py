"""`@kernel`: numba compilation with a disk cache that is keyed by content.

A cached kernel is known by a digest of its own byte code and constants, of the values it reads, and of the kernels it
reaches through globals, modules and closures. An edit elsewhere, a comment or another copy of the sources changes
nothing; an edit below a kernel changes its digest. One file holds one compiled signature, under the digest of both, so
no two kernels share a file, and compiled closures carry their digest in their symbols.

The cache is `kernels` in the user's cache directory of tacit (`TACIT_CACHE_DIR` overrides it), so a second clone starts
warm. A kernel that reads a value of a kind that is not known here is compiled in each process and never cached.
Nothing is compiled, hashed or read when a module is imported: only when a kernel is first called.
"""

from __future__ import annotations

import dis
import hashlib
import os
import pickle
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, Final, TypeVar, cast

import numba
import numpy as np
from numba.core import caching, config, types
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps
from numba.misc.appdirs import user_cache_dir

from tacit.jit_progress import watch_compiler

F = TypeVar("F", bound=Callable[..., Any])

COMPILER: Final = (numba.__version__, np.__version__, sys.implementation.cache_tag)
"""What compiled code depends on besides its source and the processor."""


watch_compiler()


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


def folded_kernel(function: F) -> F:
    """A lean kernel that the compiler copies into its callers once its types are known.

    Unlike `inlined` it may ask whether an argument is None: such a branch is chosen before the copy.
    """
    return _compiled(function, _nrt=False, forceinline=True)


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
    compiled._cache = _ContentCache(compiled)
    return cast("F", compiled)


def cache_directory() -> Path:
    """Where compiled kernels are kept: `TACIT_CACHE_DIR`, or the user's cache directory of tacit."""
    return Path(os.environ.get("TACIT_CACHE_DIR") or user_cache_dir("tacit", appauthor=False)) / "kernels"


def digest(compiled: Callable[..., Any]) -> str:
    """The content of a kernel: its byte code, what it reads and the kernels it reaches."""
    return _digest(compiled, {})


def _digest(compiled: Any, known: dict[int, str]) -> str:
    """The digest of one kernel; `known` holds those of this walk, by identity."""
    if id(compiled) in known:
        return known[id(compiled)]
    function: FunctionType = compiled.py_func
    known[id(compiled)] = function.__name__  # while it is walked: a kernel that calls itself
    codes = list(_codes(function.__code__))
    names = sorted({name for code in codes for name in code.co_names})
    constants = [value for code in codes for value in code.co_consts if not isinstance(value, CodeType)]
    read = [cell.cell_contents for cell in function.__closure__ or ()]
    loaded = {step.argval for code in codes for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL"}
    read += [function.__globals__[name] for name in sorted(loaded) if name in function.__globals__]
    content = (
        [(code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_exceptiontable) for code in codes],
        [_value(value, names, known) for value in (*constants, *read, function.__defaults__)],
        sorted(getattr(compiled, "targetoptions", {}).items()),
    )
    known[id(compiled)] = hashlib.sha256(repr(content).encode()).hexdigest()
    return known[id(compiled)]


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


def _value(value: Any, names: list[str], known: dict[int, str]) -> object:
    """What a kernel reads, by value; kernels by digest, modules by the kernels that are named in the code."""
    if hasattr(value, "py_func"):
        return ("kernel", _digest(value, known))
    if isinstance(value, ModuleType):
        inside = [getattr(value, name, None) for name in names]
        return (value.__name__, [_digest(item, known) for item in inside if hasattr(item, "py_func")])
    if isinstance(value, tuple):
        return (type(value).__qualname__, [_value(item, names, known) for item in value])
    if isinstance(value, np.ndarray):
        return ("array", str(value.dtype), value.shape, value.tobytes())
    if isinstance(value, type):
        return ("class", value.__module__, value.__qualname__, getattr(value, "_fields", None))
    if isinstance(value, BuiltinFunctionType | np.ufunc):
        return ("builtin", getattr(value, "__module__", None), value.__name__)
    if isinstance(value, FunctionType) and not value.__module__.startswith("tacit"):
        return ("function", value.__module__, value.__qualname__)
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | np.generic):
        return (type(value).__name__, repr(value))
    raise _UnknownValue(type(value).__qualname__)


class _UnknownValue(TypeError):
    """A kernel reads a value whose content cannot be told from another's."""


def _type_name(kind: Any) -> object:
    """A numba type as text that is the same in every process."""
    kinds: Any = types
    if isinstance(kind, kinds.BaseNamedTuple):
        made = kind.instance_class
        return (made.__module__, made.__qualname__, kind.fields, [_type_name(item) for item in kind])
    if isinstance(kind, kinds.BaseTuple):
        return [_type_name(item) for item in kind]
    if isinstance(kind, kinds.Dispatcher):
        return digest(kind.dispatcher)
    return str(kind)


class _ContentCache(caching._Cache):  # type: ignore[misc]
    """One file per kernel, signature and processor, named by the digest of all three."""

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled
        self._enabled = True

    def content(self) -> str | None:
        """The digest of the kernel as it is now, or None where it cannot be told."""
        if not self._enabled:
            return None
        try:
            found = digest(self._compiled)
        except _UnknownValue:
            self._enabled = False
            return None
        function = self._compiled.py_func
        if function.__closure__:
            # Symbols of compiled code are this name and a number that counts from one in every process: without the
            # digest, two closures that two processes have cached could share both.
            function.__qualname__ = f"{function.__code__.co_qualname}_{found[:16]}"
        return found

    def path(self, signature: tuple[Any, ...], codegen: Any) -> Path | None:
        """The file of one signature, on this processor."""
        content = self.content()
        if content is None:
            return None
        key = repr((content, COMPILER, codegen.magic_tuple(), [_type_name(kind) for kind in signature]))
        name = re.sub(r"[^\w.]", "", self._compiled.py_func.__code__.co_qualname.replace(".<locals>", ""))
        return cache_directory() / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:40]}.nbc"

    @property
    def cache_path(self) -> str:
        return str(cache_directory())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled form, or None; a file that cannot be read counts as none."""
        path = self.path(sig, target_context.codegen())
        if path is None or not path.is_file():
            return None
        try:
            target_context.refresh()
            return CompileResult._rebuild(target_context, *pickle.loads(path.read_bytes()))  # noqa: S301
        except Exception:  # left behind by other versions of libraries, or cut off
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled form; a cache that cannot be written is no error."""
        path = self.path(sig, data.codegen)
        if path is None or data.library.has_dynamic_globals or any(not part.can_cache for part in data.lifted):
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with NamedTemporaryFile(dir=path.parent, prefix=path.stem, delete=False) as file:
                file.write(dumps(data._reduce()))
            Path(file.name).replace(path)
        except OSError:
            self._enabled = False

    def holds(self, compiled: Any, args: tuple[Any, ...]) -> bool:
        """Whether a compiled form for such arguments is in the cache; nothing is loaded."""
        path = self.path(tuple(compiled.typeof_pyval(value) for value in args), compiled.targetctx.codegen())
        return path is not None and path.is_file()

    def enable(self) -> None:
        self._enabled = True

    def disable(self) -> None:
        self._enabled = False

    def flush(self) -> None:
        """Nothing is indexed, so nothing is stale."""
