"""Everything tacit can refuse, as one tree.

TacitError
├── InvalidInput        your input: what must hold, what was given, what to do
│   └── UnknownName     a name that no registry knows, with the nearest one that it does
├── PrivacyBudgetExceeded  the release would exceed the privacy budget; nothing was released
├── NotSupported        correct in principle, not offered (yet); the message names what is
│   └── ForeignCode     what was read names code of its writer, which reading never runs
└── PrivacyViolation    would not be private; no option turns it on
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from inspect import signature
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from tacit.renamed import old_names

__all__ = [
    "LARGEST_SEED",
    "MAX_COUNT",
    "MAX_COUNTERS",
    "MAX_EPISODES",
    "MAX_FRESH_USERS",
    "MAX_HORIZON",
    "MAX_REPORTS",
    "MAX_TRIALS",
    "MAX_WORKERS",
    "ForeignCode",
    "InvalidInput",
    "NotSupported",
    "PrivacyBudgetExceeded",
    "PrivacyViolation",
    "TacitError",
    "UnknownName",
    "error_context",
    "install_hint",
    "nearest",
    "require",
    "require_count",
    "require_epsilon",
    "require_real",
    "with_suggestions",
]

P = ParamSpec("P")
R = TypeVar("R")


MAX_COUNT: Final = 2**53
"""The largest count that a double precision number holds exactly; larger ones are refused everywhere."""

MAX_HORIZON: Final = 10**6
MAX_REPORTS: Final = 1000
MAX_WORKERS: Final = 1024
MAX_FRESH_USERS: Final = 10**8
MAX_EPISODES: Final = 10**10
MAX_TRIALS: Final = 10**8
MAX_COUNTERS: Final = 10**8
"""Stated sizes, beyond which nothing is computed: steps of a trajectory, reports of a person, processes, simulated
users of an arm, simulated episodes, attacks of an audit, counters of a study."""

LARGEST_SEED: Final = 2**63 - 1
"""Seeds of simulations are kept as 64-bit numbers."""


MIN_EPSILON: Final = 1e-100
MAX_EPSILON: Final = 1e4
"""What may be asked for; beyond, calibrations and accountants overflow, and nobody means it."""


class TacitError(Exception):
    """Base of every error that tacit raises on purpose.

    Examples
    --------
    >>> try:
    ...     require(2 < 1, "a lower bound must be below the upper one", (2, 1))
    ... except TacitError as error:
    ...     print(error)
    a lower bound must be below the upper one, got (2, 1)
    """


class InvalidInput(TacitError, ValueError):
    """The input breaks a stated rule."""


class UnknownName(InvalidInput):
    """A name is not registered; the message suggests the nearest one.

    >>> str(UnknownName("environment", "riverswin", ["riverswim", "random-mdp"]))
    "unknown environment 'riverswin': did you mean 'riverswim'? Known: random-mdp, riverswim"
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        near = nearest(str(name), names)
        hint = f"did you mean '{near}'? " if near is not None else ""
        super().__init__(f"unknown {kind} '{name}': {hint}Known: {', '.join(names) or 'none'}")


class PrivacyBudgetExceeded(TacitError):
    """A release was refused because it would exceed the privacy budget."""


class NotSupported(TacitError):
    """The request makes sense, but this combination is not offered."""


class ForeignCode(NotSupported):
    """A file that was read names code (an environment, a function), and reading runs no code of its writer."""


class PrivacyViolation(TacitError):
    """The request would not be private, so no option turns it on."""


def install_hint(extras: str) -> str:
    """The command that installs these optional dependencies: of the clone or file of this tacit, if there is one.

    The distribution called `tacit` on the package index belongs to another project.

    >>> install_hint("sign").startswith("pip install '"), install_hint("sign").endswith("[sign]'")
    (True, True)
    """
    import json  # only where something is missing: these take a tenth of a second
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.request import url2pathname

    place: Path | None = Path(__file__).parents[2]
    if place is not None and not (place / "pyproject.toml").exists():
        told = ""
        with contextlib.suppress(PackageNotFoundError, ValueError):
            told = json.loads(distribution("tacit-rl").read_text("direct_url.json") or "{}").get("url", "")
        place = Path(url2pathname(told.removeprefix("file://"))) if told.startswith("file://") else None
    where = "tacit-rl" if place is None or not place.exists() else "." if place == Path.cwd() else str(place)
    return f"pip install '{where}[{extras}]'"


@contextlib.contextmanager
def error_context(what: str) -> Iterator[None]:
    """Put the name of what is refused in front of the refusal, whose class stays the same.

    >>> with error_context("run 'second'"):
    ...     raise UnknownName("learner", "ucb", ["pucb", "ucbvi"])
    Traceback (most recent call last):
    ...
    tacit.errors.UnknownName: run 'second': unknown learner 'ucb': did you mean 'ucbvi'? Known: pucb, ucbvi
    """
    try:
        yield
    except TacitError as error:
        error.args = (f"{what}: {error}",)
        raise


def with_suggestions(**examples: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A function that names the nearest keyword to an unknown one, and an example of a missing one.

    >>> @with_suggestions(epsilon="1.0")
    ... def release(*, epsilon: float) -> float:
    ...     return epsilon
    >>> release(epsilom=1.0)
    Traceback (most recent call last):
    ...
    TypeError: release() has no option 'epsilom'; did you mean 'epsilon'? Its options are epsilon
    >>> release()
    Traceback (most recent call last):
    ...
    TypeError: release() needs the option 'epsilon', for instance epsilon=1.0
    """

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        name = function.__qualname__.removesuffix(".__init__")
        known = [option for option in signature(function).parameters if option != "self"]

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            for option in kwargs:
                if option not in known:
                    near = nearest(option, known)
                    hint = "" if near is None else f"did you mean {near!r}? "
                    raise TypeError(f"{name}() has no option {option!r}; {hint}Its options are {', '.join(known)}")
            for option, example in examples.items():
                if option not in kwargs:
                    raise TypeError(f"{name}() needs the option {option!r}, for instance {option}={example}")
            return function(*args, **kwargs)

        return checked

    return decorated


def require(condition: bool, must: str, given: object, hint: str = "") -> None:
    """Raise `InvalidInput` in the house form unless `condition` holds.

    >>> require(2 > 1, "two exceeds one", given=2)
    >>> require(False, "episodes must be at least 1", given=-3, hint="use --episodes 20000")
    Traceback (most recent call last):
    ...
    tacit.errors.InvalidInput: episodes must be at least 1, got -3; use --episodes 20000
    """
    if not condition:
        raise InvalidInput(f"{must}, got {given!r}" + (f"; {hint}" if hint else ""))


def require_count(name: str, value: object, least: int = 1, most: int = MAX_COUNT) -> int:
    """Return `value` as an int between `least` and `most`, or raise.

    >>> require_count("horizon", 6)
    6
    >>> require_count("episodes", 10**20)
    Traceback (most recent call last):
    ...
    tacit.errors.InvalidInput: episodes must be a whole number of at most 9007199254740992, got 100000000000000000000
    """
    number = least - 1
    if not isinstance(value, bool):
        with contextlib.suppress(TypeError):  # which arrays of several numbers raise, too
            number = index(value)  # type: ignore[arg-type]
    if number < least:
        raise InvalidInput(f"{name} must be a whole number of at least {least}, got {value!r}")
    if number > most:
        shown = number if number < 10**30 else f"a number of {int(math.log10(number)) + 1} digits"
        raise InvalidInput(f"{name} must be a whole number of at most {most}, got {shown}")
    return number


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant: the shortest that begins with `name`, or the one with fewest typos.

    A typo is a letter that is missing, superfluous, wrong or swapped with its neighbour; more of them than a third of
    the letters, one at least, suggest nothing. Where no whole name is near enough, its first and last part may be.

    >>> nearest("ucb", ["pucb", "ucbvi", "dp-ucbvi"])
    'ucbvi'
    >>> nearest("riverswin", ["riverswim", "random-mdp"]), nearest("x", ["riverswim"])
    ('riverswim', None)
    >>> nearest("laplce", ["kary-tree", "laplace-tree"]), nearest("titration", ["cases/titration", "frontier"])
    ('laplace-tree', 'cases/titration')
    """
    given, names = name.lower().strip(), sorted(known)
    begun = [other for other in names if given and other.lower().startswith(given)]
    if begun:
        return min(begun, key=lambda other: (len(other), other))
    cut = [other for other in names if len(other) > 2 and given.startswith(other.lower())]
    if cut:
        return max(cut, key=lambda other: (len(other), other))
    allowed = max(1, len(given) // 3)
    if allowed >= max(2, len(given)):
        return None
    ranked = sorted((_typos(given, other.lower()), other) for other in names)
    if ranked and ranked[0][0] <= allowed:
        return ranked[0][1]
    parts = ((_typos(given, part), len(part), other) for other in names for part in _ends(other.lower()))
    near = sorted((typos, other) for typos, length, other in parts if typos == 0 or (typos <= allowed and length > 3))
    return near[0][1] if near else None


def _ends(name: str) -> tuple[str, str]:
    """The first and the last part of a name like laplace-tree, cases/titration or gymnasium:Blackjack-v1."""
    first, last = re.split("[-/:]", name)[0], re.split("[/:]", name)[-1]
    return first, last if last != name else name.rpartition("-")[2]


def _typos(one: str, other: str) -> int:
    """The distance of Damerau and Levenshtein, in its restricted form."""
    rows = [list(range(len(other) + 1))]
    for i, mine in enumerate(one, start=1):
        row = [i]
        for j, theirs in enumerate(other, start=1):
            best = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (mine != theirs))
            if i > 1 and j > 1 and mine == other[j - 2] and one[i - 2] == theirs:
                best = min(best, rows[-2][j - 2] + 1)
            row.append(best)
        rows.append(row)
    return rows[-1][-1]


def require_real(
    name: str, value: object, low: float = -math.inf, high: float = math.inf, *, open_low: bool = False, hint: str = ""
) -> float:
    """Return `value` as a finite float in [low, high] (or (low, high]), or raise; NaN never passes.

    >>> require_real("epsilon", 1, low=0.0, open_low=True)
    1.0
    """
    try:
        other = isinstance(value, bool | str | bytes) or type(value).__name__ in ("bool", "bool_")  # of NumPy
        number = math.nan if other else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not (math.isfinite(number) and (number > low if open_low else number >= low) and number <= high):
        left = "(" if open_low or low == -math.inf else "["
        right = ")" if high == math.inf else "]"
        raise InvalidInput(
            f"{name} must be a finite number in {left}{low:g}, {high:g}{right}, got {value!r}"
            + (f"; {hint}" if hint else "")
        )
    return number


def number_from(text: str) -> float | str:
    """The number that a text of an option means; the text itself where it means none, for the check that follows.

    >>> number_from("0.5"), number_from("half")
    (0.5, 'half')
    """
    try:
        return float(text)
    except ValueError:
        return text


def require_epsilon(value: object) -> float:
    """Return the epsilon that somebody asks for, or raise.

    >>> require_epsilon(1)
    1.0
    >>> require_epsilon(1e308)
    Traceback (most recent call last):
    ...
    tacit.errors.InvalidInput: epsilon must be a finite number in [1e-100, 10000], got 1e+308
    """
    if isinstance(value, str):
        raise InvalidInput(f"epsilon must be a number, got the text {value!r}")
    return require_real("epsilon", value, MIN_EPSILON, MAX_EPSILON)


if not TYPE_CHECKING:
    __getattr__ = old_names(
        __name__,
        BudgetSpent="PrivacyBudgetExceeded",
        Unsupportable="PrivacyViolation",
        naming="error_context",
        MOST="MAX_COUNT",
    )
