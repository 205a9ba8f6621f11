"""Types of arguments: what cannot be meant is refused in words, before a function looks at it."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial, wraps
from inspect import Parameter, signature
from numbers import Real
from typing import Any, Final, Literal, ParamSpec, TypeVar, get_origin

from tacit.errors import require

P = ParamSpec("P")
R = TypeVar("R")


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which refuses arguments that are not of the types in its signature.

    Checked are numbers, truth values, texts, paths, lists, tables, functions, and classes that its module imports at
    run time. Protocols and other aliases are left to the function.

    Parameters
    ----------
    function
        A public function with annotations.

    Returns
    -------
    Callable
        The same function; a wrong type raises `InvalidInput`.

    Examples
    --------
    >>> @checked
    ... def batch(users: int, share: float = 1.0) -> float:
    ...     return users * share
    >>> batch(10, share=0.5)
    5.0
    >>> batch("10")
    Traceback (most recent call last):
    ...
    tacit.errors.InvalidInput: users must be a whole number, got '10'
    """
    known = signature(function).parameters

    @cache
    def expected() -> dict[str, tuple[list[str], list[Callable[[Any], bool]]]]:
        # On the first call: what a module imports at run time is complete then.
        names = vars(sys.modules[function.__module__])
        found = {name: _parts(str(one.annotation), names) for name, one in known.items()
                 if one.annotation is not Parameter.empty}  # fmt: skip
        return {name: part for name, part in found.items() if part is not None}

    @wraps(function)
    def checking(*args: P.args, **kwargs: P.kwargs) -> R:
        for name, value in (*zip(known, args, strict=False), *kwargs.items()):
            if name in expected():
                words, fits = expected()[name]
                require(any(fit(value) for fit in fits), f"{name} must be {' or '.join(words)}", value)
        return function(*args, **kwargs)

    return checking


def _whole(value: object) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _is(kind: type, value: object) -> bool:
    return isinstance(value, kind)


def _listed(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes)


KINDS: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "int": ("a whole number", _whole),
    "float": ("a number", lambda value: isinstance(value, Real) and not isinstance(value, bool)),
    "bool": ("True or False", lambda value: type(value).__name__ in ("bool", "bool_")),
    "str": ("text", lambda value: isinstance(value, str)),
    "Path": ("a path", lambda value: isinstance(value, os.PathLike) or hasattr(value, "protocol")),
    "None": ("None", lambda value: value is None),
    "EllipsisType": ("left out", lambda value: value is ...),
    "Mapping": ("a table of names and values", lambda value: isinstance(value, Mapping)),
    "Callable": ("a function", callable),
    "Literal": ("text", lambda value: isinstance(value, str)),
    **dict.fromkeys(("Sequence", "tuple", "list", "Iterable", "Events"), ("a list", _listed)),
}
"""What an annotation is called, and what fits it."""


def _parts(annotation: str, names: Mapping[str, Any]) -> tuple[list[str], list[Callable[[Any], bool]]] | None:
    """The members of a union, in words and as checks; None where one of them is not known."""
    words, fits = list[str](), list[Callable[[Any], bool]]()
    for part in _members(ast.parse(annotation, mode="eval").body):
        name = ast.unparse(part.value if isinstance(part, ast.Subscript) else part)
        alias = get_origin(names.get(name))
        name = getattr(alias, "__name__", None) or ("Literal" if alias is Literal else name)
        if name in KINDS:
            said, fit = KINDS[name]
        elif isinstance(names.get(name), type) and not hasattr(names[name], "_is_protocol") and names[name] is not Any:
            said, fit = f"a {name}", partial(_is, names[name])
        else:
            return None
        words, fits = [*dict.fromkeys([*words, said])], [*fits, fit]
    return words, fits


def _members(tree: ast.expr) -> list[ast.expr]:
    if isinstance(tree, ast.BinOp):
        return [*_members(tree.left), *_members(tree.right)]
    if isinstance(tree, ast.Constant) and isinstance(tree.value, str):  # a quoted name
        return _members(ast.parse(tree.value, mode="eval").body)
    return [tree]
