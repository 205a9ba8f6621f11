"""What the parties of a study ask of its design and of the ledger for people; and `Head`, a place in that ledger."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol

from tacit.accounting.certificate import Certificate
from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.events import Events
from tacit.accounting.journal import Receipt
from tacit.errors import InvalidInput, require, require_count
from tacit.protocol import Learner
from tacit.runs.signature import canonical, sign
from tacit.study.channels import channel_from_dict
from tacit.study.contract import Channel

__all__ = [
    "NOWHERE",
    "Design",
    "Head",
    "Ledger",
    "Parts",
    "certificate_under",
    "channels_of",
    "ledger_within",
    "packages_of",
    "parts_of",
    "read_design",
    "usable_key",
]

DIGEST: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A place in a ledger that somebody saw: the number of a record and the digest of all records up to it.

    >>> Head.from_text(NOWHERE.text) == NOWHERE
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
        number, _, digest = text.partition(":")
        try:
            return cls(number=int(number), digest=bytes.fromhex(digest))
        except ValueError as error:
            raise InvalidInput(
                "a head must be NUMBER:DIGEST with 64 hexadecimal digits, as 'tacit study status' prints it"
            ) from error

    @classmethod
    def of(cls, receipt: Receipt) -> Head:
        """The place of a receipt."""
        return cls(number=receipt.number, digest=bytes.fromhex(receipt.digest))

    @property
    def receipt(self) -> Receipt:
        """The same as a receipt."""
        return Receipt(number=self.number, digest=self.digest.hex())


NOWHERE: Final = Head(number=0, digest=bytes(DIGEST))
"""The head of whoever has seen no release yet."""


class Parts(Protocol):
    """What a design amounts to, computed anew by whoever asks."""

    @property
    def learner(self) -> Learner[Any, Any, Any]:
        """Who plans."""
        ...

    @property
    def channels(self) -> Sequence[Channel]:
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
    def fallback(self) -> Mapping[str, Any]: ...  # noqa: D102
    @property
    def channels(self) -> Sequence[Mapping[str, Any]]: ...  # noqa: D102
    @property
    def digest(self) -> str: ...  # noqa: D102

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        ...

    def parts(self) -> Parts:
        """Learner, channels, claim and certificate."""
        ...


class Ledger(Protocol):
    """What a collector asks of the ledger for people, inside its own transaction."""

    @classmethod
    def within(cls, connection: sqlite3.Connection) -> Ledger:
        """The ledger in this database; whoever has the connection begins and ends transactions."""
        ...

    def begin(self, *, writer: str, budget: PrivacyClaim, study: str, noise: str) -> Receipt:
        """The first record."""
        ...

    def reserve(self, *, schedule: Sequence[Events], exposure: Events, questions: Sequence[int]) -> Receipt:
        """Set the whole schedule aside, or raise `BudgetSpent`."""
        ...

    def draw(self, *, stage: int, question: int, events: Events, noise: str) -> Receipt:
        """Charge one release of the schedule, before it happens."""
        ...

    def commit(self, receipt: Receipt, digest: str) -> Receipt:
        """Note what was released for that charge."""
        ...

    def void(self, *, stage: int, reason: str) -> Receipt:
        """Note that a stage was given up."""
        ...

    def head(self) -> Receipt:
        """The last record."""
        ...

    def verify(self, anchor: Receipt | None = None) -> None:
        """Raise unless the ledger is as it was written and holds the anchor."""
        ...

    def spent(self) -> tuple[float, float]:
        """What a person has been charged with at the worst."""
        ...


def usable_key(path: str | Path | None) -> Path | None:
    """The file of a private key that signs, or None."""
    if path is None:
        return None
    sign({}, Path(path))
    return Path(path)


def read_design(plain: Mapping[str, Any]) -> Design:
    """The design that `to_dict` wrote."""
    found: Design = import_module("tacit.study.design").StudyDesign.from_dict(plain)
    return found


def channels_of(design: Design) -> tuple[Channel, ...]:
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
    """The certificate with the source of noise that was used."""
    if certificate.terms is None:
        return certificate
    return certificate.under(replace(certificate.terms, noise=noise))  # type: ignore[arg-type]


def packages_of(*values: object) -> tuple[str, ...]:
    """The packages whose tuples may stand in a state: tacit's and those that the parts come from."""
    return tuple(sorted({"tacit", *(type(value).__module__.partition(".")[0] for value in values)}))


def ledger_within(connection: sqlite3.Connection) -> Ledger:
    """The ledger for people in a collector's database."""
    found: Ledger = import_module("tacit.accounting.people").PeopleLedger.within(connection)
    return found
