"""The one table of mechanisms: name, trust model, class; the default of each trust model first.

A class states the rest itself (`SUMMARY`, `PURE`, calibration). Other packages add rows through the entry point group
`tacit.mechanisms`: a complete `Randomizer` belongs to local trust, a complete `ContinualCounter` to central trust.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from tacit.errors import InvalidInput, UnknownName
from tacit.noise.binomial import Binomial
from tacit.noise.bounded import Bounded
from tacit.noise.continual.accumulated import AccumulatedNoise
from tacit.noise.continual.counter import ContinualCounter
from tacit.noise.continual.factorization import BufferedToeplitz
from tacit.noise.continual.kary_tree import KaryTree
from tacit.noise.continual.tree import LaplaceTree
from tacit.noise.gaussian import Gaussian
from tacit.noise.laplace import Laplace
from tacit.noise.mirrored import Mirrored
from tacit.noise.protocol import Randomizer, missing_members
from tacit.noise.randomized_response import RandomizedResponse
from tacit.noise.subset_selection import SubsetSelection
from tacit.noise.unary_encoding import UnaryEncoding
from tacit.plugins import named

Where = Literal["central", "shuffle", "local"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One thing about printed noise that the paper prints in two ways, or not at all."""

    name: str
    values: tuple[str, ...]
    """Those that it takes, the default first; "number" stands for any number."""
    build: Callable[[Any, float, float, str], tuple[Randomizer, Randomizer]]
    """From shape, epsilon, delta and the chosen value to the noise of outcomes and of transitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One mechanism of one trust model."""

    trust: Where
    kind: type[Randomizer] | type[ContinualCounter] | type[Binomial] | type[Mirrored]
    printed: bool = False
    """Whether a paper prints its noise (`calibration="paper"`)."""
    candidate: bool = False
    """Whether local trust considers it when no mechanism is named."""
    choice: Choice | None = None
    """What a paper leaves open about its printed noise, written `gaussian:c=statement`; None: nothing."""
    growth: float | None = None
    """Central trust: how fast the batches of its public schedule grow; None if it counts after every user."""

    @property
    def pure(self) -> bool:
        """Whether it can give pure differential privacy (delta = 0)."""
        return self.kind.PURE

    @property
    def summary(self) -> str:
        """One line."""
        return self.kind.SUMMARY


MECHANISMS: Final[Mapping[str, Row]] = {
    "factorization": Row(trust="central", kind=BufferedToeplitz),
    "kary-tree": Row(trust="central", kind=KaryTree),
    "laplace-tree": Row(trust="central", kind=LaplaceTree, printed=True),
    "batched": Row(trust="central", kind=AccumulatedNoise, growth=1.5),
    "batched-factorization": Row(trust="central", kind=BufferedToeplitz, growth=1.05),
    "binomial": Row(trust="shuffle", kind=Binomial, printed=True),
    "mirrored-binomial": Row(trust="shuffle", kind=Mirrored),
    "subset": Row(trust="local", kind=SubsetSelection, candidate=True),
    "oue": Row(trust="local", kind=UnaryEncoding),
    "laplace": Row(
        trust="local",
        kind=Laplace,
        printed=True,
        candidate=True,
        choice=Choice(name="scale", values=("6H", "3H"), build=Laplace.printed),
    ),
    "gaussian": Row(
        trust="local",
        kind=Gaussian,
        printed=True,
        candidate=True,
        choice=Choice(name="c", values=("proof", "statement"), build=Gaussian.printed),
    ),
    "rr": Row(trust="local", kind=RandomizedResponse, printed=True, candidate=True),
    "bounded": Row(
        trust="local",
        kind=Bounded,
        printed=True,
        choice=Choice(name="C", values=("1", "number"), build=Bounded.printed),
    ),
}
"""Every built-in mechanism that a run can name."""

_TABLE: Final[Mapping[str, Any]] = named("tacit.mechanisms", MECHANISMS)


def names_of(trust: str) -> tuple[str, ...]:
    """The built-in mechanisms of a trust model, its default first.

    >>> names_of("local")
    ('subset', 'oue', 'laplace', 'gaussian', 'rr', 'bounded')
    """
    return tuple(name for name, row in MECHANISMS.items() if row.trust == trust)


def known_names(trust: str) -> tuple[str, ...]:
    """All mechanisms of a trust model, those of other packages last; loads the latter."""
    return tuple(name for name in _TABLE if _row(name).trust == trust)


def read_mechanism(spec: str) -> tuple[str, str | None]:
    """A mechanism as it is written: its name, and what is chosen about its printed noise.

    >>> read_mechanism("laplace"), read_mechanism("gaussian:c=statement")
    (('laplace', None), ('gaussian', 'statement'))
    """
    name, colon, chosen = spec.partition(":")
    if not colon:
        return name, None
    choice = MECHANISMS[name].choice if name in MECHANISMS else None
    option, equals, value = (part.strip() for part in chosen.partition("="))
    if choice is None or option != choice.name or not equals or not value:
        able = [f"{row}:{known.choice.name}=..." for row, known in MECHANISMS.items() if known.choice is not None]
        raise InvalidInput(f"a mechanism must be a name, or one of {', '.join(able)}, got {spec!r}")
    return name, value


def mechanism_row(trust: str, spec: str) -> Row:
    """The row of a named mechanism, or an error that suggests the nearest one.

    >>> mechanism_row("local", "laplace").kind.__name__
    'Laplace'
    """
    name, _ = read_mechanism(spec)
    if name not in _TABLE or _row(name).trust != trust:
        raise UnknownName(f"mechanism of trust '{trust}'", name, known_names(trust))
    return _row(name)


def randomizer_named(name: str) -> type[Randomizer]:
    """The class of a local mechanism.

    >>> randomizer_named("subset").__name__
    'SubsetSelection'
    """
    return cast("type[Randomizer]", mechanism_row("local", name).kind)


def counter_named(name: str) -> type[ContinualCounter]:
    """The class of a central mechanism.

    >>> counter_named("batched").__name__
    'AccumulatedNoise'
    """
    return cast("type[ContinualCounter]", mechanism_row("central", name).kind)


def _row(name: str) -> Row:
    """A row, or what another package registered as one."""
    found = _TABLE[name]
    if isinstance(found, Row):
        return found
    protocols: tuple[tuple[Where, type], ...] = (("local", Randomizer), ("central", ContinualCounter))
    missing = (
        {trust: missing_members(found, protocol) for trust, protocol in protocols} if isinstance(found, type) else {}
    )
    for trust, members in missing.items():
        if not members:
            if name != found.NAME:
                raise InvalidInput(f"mechanism '{name}' must be registered under its own NAME, got {found.NAME!r}")
            return Row(trust=trust, kind=found)
    wanted = {trust: f"a {trust} one lacks {', '.join(members)}" for trust, members in missing.items()}
    raise InvalidInput(
        f"the entry point '{name}' of tacit.noise must be a complete Randomizer or ContinualCounter, got {found!r}"
        + "".join(f"; {words}" for words in wanted.values())
    )
