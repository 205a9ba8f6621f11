"""What the parties of a study ask of its design; and `Head`, a place in the ledger for people.

A public ladder of sizes says how many reports of a stage count. How many people report may say something about them:
the sick stay away. With a ladder n₁ < n₂ < ... the number that leaves is the highest rung that was reached,

    n = max { n_i : n_i <= number of reports },

and n of the reports are kept, every set of them with the same probability. The first rung is the least size of a stage,
so that one rung alone makes the number the same in every stage.

G1  A ladder never adds anybody and never goes below the least size: noise and certificate are those of the stage.
G2  Which reports are dropped depends on exact lots only, and it is drawn once, when the stage is closed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Protocol

from tacit.accounting.certificate import Certificate
from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.events import Events
from tacit.accounting.journal import Receipt
from tacit.documents import canonical, parse_json
from tacit.errors import InvalidInput, require, require_count
from tacit.features import Features as RowFeatures
from tacit.noise.exact import permutation
from tacit.planning.loss_budget import LossBudget
from tacit.protocol import Learner, Noise
from tacit.randomness import SimulationNoise
from tacit.release.contract import Release
from tacit.release.registry import channel_from_dict
from tacit.runs.signature import sign
from tacit.study.declarations import Features


def require_ladder(ladder: Sequence[int], *, least: int, target: int) -> tuple[int, ...]:
    """The sizes of a ladder from `least` up to at most `target`; none at all is a stage of any size between them."""
    sizes = tuple(require_count("a size of the ladder", size) for size in ladder)
    if sizes:
        rising = all(low < high for low, high in pairwise(sizes))
        fits = rising and sizes[0] == least and sizes[-1] <= target
        require(fits, f"a ladder must rise from the least size {least} to at most the target {target}", list(sizes))
    return sizes


def rung_of(ladder: Sequence[int], reports: int) -> int:
    """How many of so many reports count; where no rung was reached, all of them, and the stage is too small.

    >>> [rung_of((90, 95), n) for n in (89, 90, 94, 100)], rung_of((), 97)
    ([89, 90, 90, 95], 97)
    """
    return max((size for size in ladder if size <= reports), default=reports)


def left_out(reports: int, kept: int, noise: Noise) -> list[int]:
    """The places of the reports that do not count, every set of them with the same probability (G2)."""
    drawn = noise.generator.permutation(reports) if isinstance(noise, SimulationNoise) else permutation(reports, noise)
    return sorted(int(place) for place in drawn[kept:])


DIGEST: Final = 32
LARGEST_FILE: Final = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A place in a ledger that somebody saw: the number of a record and the digest of all records up to it.

    >>> Head.from_text(GENESIS_HEAD.text) == GENESIS_HEAD
    True
    """

    number: int
    digest: bytes

    def __post_init__(self) -> None:
        require_count("the number of a head", self.number, least=0)
        require(len(self.digest) == DIGEST, f"the digest of a head must have {DIGEST} bytes", len(self.digest))

    @property
    def text(self) -> str:
        """The head as it is written on a command line: number:digest."""
        return f"{self.number}:{self.digest.hex()}"

    @classmethod
    def from_text(cls, text: str) -> Head:
        """The head that `text` wrote."""
        if re.fullmatch("[0-9]{1,18}:[0-9a-f]{64}", text) is None:
            raise InvalidInput(
                "a head must be NUMBER:DIGEST with 64 hexadecimal digits, as 'tacit study status' prints it"
            )
        number, _, digest = text.partition(":")
        return cls(number=int(number), digest=bytes.fromhex(digest))

    @classmethod
    def of(cls, receipt: Receipt) -> Head:
        """The place of a receipt."""
        return cls(number=receipt.number, digest=bytes.fromhex(receipt.digest))

    @property
    def receipt(self) -> Receipt:
        """The same as a receipt."""
        return Receipt(number=self.number, digest=self.digest.hex())


GENESIS_HEAD: Final = Head(number=0, digest=bytes(DIGEST))
"""The head of whoever has seen no release yet."""


class Parts(Protocol):
    """What a design amounts to, computed anew by whoever asks."""

    @property
    def learner(self) -> Learner[Any, Any, Any]:
        """Who plans."""
        ...

    @property
    def channels(self) -> Sequence[Release]:
        """One for every stage that reports."""
        ...

    @property
    def claim(self) -> PrivacyClaim:
        """What is promised to a person."""
        ...

    @property
    def events(self) -> Events:
        """What a person is exposed to at the worst, over the study."""
        ...

    @property
    def certificate(self) -> Certificate:
        """What the accountant finds."""
        ...


class Design(Protocol):
    """The public plan of a study; frozen, and the same for all parties."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def states(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def actions(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def horizon(self) -> int: ...  # noqa: D102
    @property
    def rewards(self) -> tuple[float, float]: ...  # noqa: D102
    @property
    def trust(self) -> str: ...  # noqa: D102
    @property
    def epsilon(self) -> float: ...  # noqa: D102
    @property
    def delta(self) -> float: ...  # noqa: D102
    @property
    def unit(self) -> Any: ...  # noqa: D102
    @property
    def ladder(self) -> tuple[int, ...]: ...  # noqa: D102
    @property
    def fallback(self) -> Mapping[str, Any]: ...  # noqa: D102
    @property
    def channels(self) -> Sequence[Mapping[str, Any]]: ...  # noqa: D102
    @property
    def sees(self) -> Features | None: ...  # noqa: D102
    @property
    def features(self) -> RowFeatures | None: ...  # noqa: D102
    @property
    def declarations(self) -> dict[str, str]: ...  # noqa: D102
    @property
    def baseline(self) -> Mapping[str, Any] | None: ...  # noqa: D102
    @property
    def budget(self) -> LossBudget | None: ...  # noqa: D102
    @property
    def digest(self) -> str: ...  # noqa: D102

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        ...

    def parts(self) -> Parts:
        """Learner, channels, claim and certificate."""
        ...


def usable_key(path: str | Path | None) -> Path | None:
    """The file of a private key that signs, or None."""
    if path is None:
        return None
    sign({}, Path(path))
    return Path(path)


def read_design(plain: Mapping[str, Any]) -> Design:
    """The design that `to_dict` wrote."""
    from tacit.study.design import StudyDesign

    return StudyDesign.from_dict(plain)


def read_design_file(path: Path) -> Design:
    """The design in a JSON file."""
    try:
        require(path.stat().st_size <= LARGEST_FILE, f"{path} must have at most 1 GiB", "more")
        plain = parse_json(path.read_bytes(), str(path))
        require(isinstance(plain, dict), f"{path} must be a design as 'tacit study new' writes it", "something else")
        return read_design(plain)
    except InvalidInput:
        raise
    except OSError as error:
        raise InvalidInput(f"{path} must be a readable file: {error.strerror}") from error
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidInput(f"{path} must be a complete design: {type(error).__name__}") from error


def stored_design(meta: Mapping[str, Any]) -> Design:
    """The design that a party has stored."""
    try:
        return read_design(parse_json(meta["design"], "the design of a study"))
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidInput(f"the stored design of a study must be complete: {type(error).__name__}") from error


def channels_of(design: Design) -> tuple[Release, ...]:
    """The channels as the design spells them out."""
    return tuple(channel_from_dict(plain) for plain in design.channels)


def parts_of(design: Design) -> Parts:
    """The parts of a design whose certificate holds and whose channels are what its own numbers give."""
    parts = design.parts()
    derived = canonical({"channels": [channel.to_dict() for channel in parts.channels]})
    same = derived == canonical({"channels": [dict(plain) for plain in design.channels]})
    require(same, "the channels of a design must follow from its other entries", "other channels", "plan it again")
    found = parts.certificate
    require(found.holds, "a design must keep its claim", found.verdict, "plan it again")
    return parts


def certificate_under(certificate: Certificate, noise: str) -> Certificate:
    """The certificate with the source of noise that was used; one of a log that was simulated stays a simulation."""
    if certificate.terms is None or certificate.terms.noise == "simulation":
        return certificate
    return certificate.under(replace(certificate.terms, noise=noise))  # type: ignore[arg-type]


def packages_of(*values: object) -> tuple[str, ...]:
    """The packages whose tuples may stand in a state: tacit's and those that the parts come from."""
    return tuple(sorted({"tacit", *(type(value).__module__.partition(".")[0] for value in values)}))
