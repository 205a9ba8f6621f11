"""`lazy_jit`: small work is done by a kernel's readable original, so that nobody waits for a compiler to do it.

To compile a kernel takes half a second or more; to run its original on a world of four states takes milliseconds. A
tiered kernel is therefore interpreted until it has done `BUDGET` units of work in this process, and compiled from then
on. It is compiled at once where the compiled form is loaded or cached already, or where a single call is larger than
`CALL`. The rule counts work and never time.

Both forms are the same IEEE operations in the same order (numba reorders and contracts none unless it is told to), so
their results are equal bit for bit: `tests/packaging/test_packaging_lazy_jit.py` compares them. Kernels that add up by
NumPy, or that draw random numbers, are not tiered.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final, Generic, ParamSpec, TypeVar, cast

import numpy as np
from numba.core import config

BUDGET: Final = 2_000_000
"""Units of work, steps of about a quarter of a microsecond, that may be interpreted per kernel and process."""
CALL: Final = 50_000
"""The most units of one call that is interpreted."""

EAGER = False
"""Whether everything is compiled at once, for whoever measures or tests compiled code."""

P = ParamSpec("P")
R = TypeVar("R")


class LazyJit(Generic[P, R]):
    """A kernel that is compiled when that pays; make one with `lazy_jit`. Only Python calls it, no other kernel."""

    def __init__(self, compiled: Callable[P, R], work: Callable[P, int]) -> None:
        self.__doc__ = compiled.__doc__
        self.compiled = compiled
        self._work = work
        self._original: Callable[P, R] = interpreted(compiled)
        self._left = BUDGET
        self._ready = bool(config.DISABLE_JIT)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Interpreted or compiled: the same bits."""
        if not self._ready and not self._is_small(*args, **kwargs):
            self._ready = True
        if self._ready:
            return self.compiled(*args, **kwargs)
        with np.errstate(all="ignore"):  # as compiled code does, which divides by zero without a word
            return self._original(*args, **kwargs)

    def _is_small(self, *args: P.args, **kwargs: P.kwargs) -> bool:
        """Whether to interpret this call; only the first one looks into the cache."""
        if EAGER:
            return False
        first = self._left == BUDGET
        work = self._work(*args, **kwargs)
        self._left -= work
        if work > CALL or self._left < 0 or getattr(self.compiled, "overloads", None):
            return False
        return not (first and _is_cached(self.compiled, args))


def lazy_jit(work: Callable[P, int]) -> Callable[[Callable[P, R]], LazyJit[P, R]]:
    """A decorator that puts a kernel in two tiers; `work` tells the innermost steps of a call from its arguments.

    >>> from tacit.planning.dynamic import backward_induction
    >>> solve = lazy_jit(lambda P, r, horizon: horizon * P[0].size)(backward_induction)
    >>> _, V, _ = solve(np.ones((1, 1, 1, 1)), np.ones((1, 1, 1)), 3)
    >>> V[:, 0].tolist()
    [3.0, 2.0, 1.0, 0.0]
    """

    def decorate(compiled: Callable[P, R]) -> LazyJit[P, R]:
        return LazyJit(compiled, work)

    return decorate


def interpreted(compiled: Callable[P, R]) -> Callable[P, R]:
    """The readable original of a kernel, in which the kernels that it calls are originals, too."""
    original: Any = getattr(compiled, "py_func", compiled)
    if not isinstance(original, FunctionType) or original.__closure__:
        raise TypeError(f"{compiled!r} must be a kernel without a closure")
    names = original.__code__.co_names
    seen = {name: original.__globals__[name] for name in names if name in original.__globals__}
    inside = {name: interpreted(value) if hasattr(value, "py_func") else value for name, value in seen.items()}
    space = {"__builtins__": builtins, "__name__": original.__module__, **inside}
    twin = FunctionType(original.__code__, space, original.__name__, original.__defaults__)
    return cast("Callable[P, R]", twin)


def _is_cached(compiled: Any, args: tuple[Any, ...]) -> bool:
    holds = getattr(getattr(compiled, "_cache", None), "holds", None)
    return holds is not None and bool(holds(compiled, args))
