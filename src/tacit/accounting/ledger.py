"""The ledger: what was released, to whom, under which claim, and the refusal of whatever would exceed the budget.

A release is charged before it happens and committed after it happened:

    receipt = ledger.charge(users=range(0, 1000), claim=claim, events=events, recipient="learner", what=..., noise=...)
    ...                                                    # release here
    ledger.commit(receipt)

L1  Never too late: `charge` returns only after the charge is on the disk. A crash between charge and commit leaves the
    charge counted: the budget may be spent without a release, never the other way round.
L2  Never too much: for every single user, what the charges on that user add up to stays within the budget. The
    release that would exceed it raises `PrivacyBudgetExceeded` and leaves the ledger as it was.
L3  Disjoint users compose in parallel (a user pays only for the charges whose range contains that user); charges on the
    same user compose sequentially. Gaussian charges add μ², all others add ε and δ: both stay valid when a later
    charge is chosen in view of earlier releases (fully adaptive composition), which exact composition of other noise
    across charges would not. Within one charge, the exact accountant decides.
L4  Append-only, tamper-evident and safe with concurrent writers: see `tacit.accounting.journal`.

The ledger knows ranges of users, claims and events; it never sees data.

References: fully adaptive composition, R. Rogers et al. (NeurIPS 2016) for (ε, δ) and A. Smith and A. Thakurta (2022)
for Gaussian differential privacy: Lemma P9 (adaptive budgets); disjoint users: Lemma P7 (parallel composition).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.composition import added_up, all_gaussian, delta_of, epsilon_of
from tacit.accounting.events import Events, event_from_dict, event_to_dict
from tacit.accounting.journal import Journal, Receipt, Record, Writer
from tacit.accounting.terms import NOISE_KINDS, NoiseKind
from tacit.arguments import checked
from tacit.errors import PrivacyBudgetExceeded, TacitError, require

if TYPE_CHECKING:
    from tacit.accounting.certificate import Certificate

__all__ = ["Entry", "Ledger", "NoiseKind", "Receipt", "charging"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One charge as the ledger holds it; `committed` says whether the release is known to have happened."""

    number: int
    users: range
    claim: PrivacyClaim
    events: Events | None
    recipient: str
    what: str
    noise: NoiseKind
    charged_at: str
    committed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """A ledger file and its budget; all state is in the file.

    >>> import tempfile
    >>> from tacit.accounting.claims import PrivacyUnit
    >>> claim = PrivacyClaim(trust="local", epsilon=1.0, delta=0.0, unit=PrivacyUnit(reports=1, per_stage=1),
    ...                      neighbours="replace-one", output="every-message")
    >>> release = dict(claim=claim, events=None, recipient="learner", what="visits", noise="secure")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = Ledger.open(Path(folder) / "ledger.db", claim)
    ...     ledger.commit(ledger.charge(users=range(100), **release))
    ...     ledger.charge(users=range(99, 101), **release)
    Traceback (most recent call last):
    ...
    tacit.errors.PrivacyBudgetExceeded: users 99 to 99 would reach epsilon 2, delta 0, over the budget of...
    """

    path: Path
    budget: PrivacyClaim

    @classmethod
    @checked
    def open(cls, path: Path | str, budget: PrivacyClaim) -> Ledger:
        """Open the ledger at `path`, or create it with this budget; an existing ledger must have the same budget."""
        ledger = cls(path=Path(path), budget=budget)
        with ledger._journal.transaction() as writer:
            if writer.count() == 0:
                writer.append("budget", {"budget": budget.to_dict()})
        ledger.verify()
        return ledger

    @classmethod
    @checked
    def load(cls, path: Path | str) -> Ledger:
        """Open an existing ledger with its own budget; a missing file is an error, not a fresh start."""
        require(Path(path).is_file(), "the ledger file must exist", given=str(path))
        with Journal(path=Path(path)).transaction() as writer:
            budget = _budget(writer)
        return cls.open(path, budget)

    @checked
    def charge(
        self,
        *,
        users: range,
        claim: PrivacyClaim,
        events: Events | None,
        recipient: str,
        what: str,
        noise: NoiseKind,
    ) -> Receipt:
        """Charge these users with this claim, before the release; over budget raises `PrivacyBudgetExceeded`.

        `events` says which noise the release adds (None if all that is known is the claim); if they do not give what
        the claim says, the charge is refused as invalid.
        """
        body = self._body(users, claim, events, recipient=recipient, what=what, noise=noise)
        with self._journal.transaction() as writer:
            self._require_budget(writer, users, claim, events)
            return writer.append("charge", body, span=users)

    def _body(
        self, users: range, claim: PrivacyClaim, events: Events | None, *, recipient: str, what: str, noise: NoiseKind
    ) -> dict[str, object]:
        """The record of a charge whose events give its claim."""
        require(len(users) > 0 and users.step == 1 and users.start >= 0, "users must be range(first, stop)", users)
        require(noise in NOISE_KINDS, "noise must be 'simulation' or 'secure'", noise)
        self._require_comparable(claim)
        if events is not None and claim.trust != "none":
            delta = delta_of(events, claim.epsilon)
            require(
                delta <= claim.delta,
                f"the events must give what the claim says (delta {claim.delta:g} at epsilon {claim.epsilon:g})",
                given=delta,
                hint="claim what the certificate says, or add noise",
            )
        return {
            "users": [users.start, users.stop],
            "claim": claim.to_dict(),
            "events": None if events is None else _events_to_plain(events),
            "recipient": recipient,
            "what": what,
            "noise": noise,
            "charged_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }

    def commit(self, receipt: Receipt) -> None:
        """Note that the charged release has happened; a charge is committed once."""
        with self._journal.transaction() as writer:
            found = writer.records(kind="charge", number=receipt.number)
            held = len(found) == 1 and found[0].digest == receipt.digest
            require(held, "the receipt must be of a charge in this ledger", given=receipt.number)
            require(not found[0].referred, "a charge is committed once", given=f"charge {receipt.number} again")
            writer.append("commit", {"charge": receipt.number}, refers=receipt.number)

    def entries(self) -> tuple[Entry, ...]:
        """All charges in the order in which they were made."""
        with self._journal.transaction() as writer:
            return tuple(_entry(record) for record in writer.records(kind="charge"))

    def pending(self) -> tuple[Entry, ...]:
        """Charges without a commit: in flight, or cut short by a crash; they count as spent."""
        return tuple(entry for entry in self.entries() if not entry.committed)

    def spent(self, user: int) -> tuple[float, float]:
        """The (epsilon, delta) that this user has been charged with so far."""
        with self._journal.transaction() as writer:
            records = writer.records(kind="charge", touching=range(user, user + 1))
        return self._total([(entry.claim, entry.events) for entry in map(_entry, records)])

    def head(self) -> Receipt:
        """The last record's number and digest: keep it elsewhere, and nothing up to it can vanish unnoticed."""
        return self._journal.head()

    def verify(self, anchor: Receipt | None = None) -> None:
        """Raise `InvalidInput` unless the file is as it was written, with our budget, and contains the `anchor`."""
        self._journal.verify(anchor)
        with self._journal.transaction() as writer:
            budget = _budget(writer)
        require(
            budget == self.budget,
            f"the budget of this ledger is {budget}",
            given=self.budget,
            hint="open it with its own budget: a budget cannot be changed",
        )

    @property
    def _journal(self) -> Journal:
        return Journal(path=self.path)

    def _require_comparable(self, claim: PrivacyClaim) -> None:
        """Refuse a charge whose claim is about something else than what the budget protects."""
        if self.budget.trust == "none" or claim.trust == "none":
            return
        loosest = replace(
            self.budget, epsilon=claim.epsilon, delta=claim.delta, unit=claim.unit, allow_large_delta=True
        )
        require(
            claim.implies(loosest),
            f"the charge must protect what the budget protects ({self.budget.notion}, {self.budget.neighbours})",
            given=f"{claim.notion}, {claim.neighbours}",
        )

    def _require_budget(self, writer: Writer, users: range, claim: PrivacyClaim, events: Events | None) -> None:
        if self.budget.trust == "none":
            return
        entries = [_entry(record) for record in writer.records(kind="charge", touching=users)]
        edges = {edge for entry in entries for edge in (entry.users.start, entry.users.stop) if edge in users}
        cuts = sorted({users.start, users.stop} | edges)
        for first, stop in itertools.pairwise(cuts):
            # Users between two cuts are covered by the same charges.
            charges = [(entry.claim, entry.events) for entry in entries if first in entry.users]
            epsilon, delta = self._total([*charges, (claim, events)])
            if epsilon > self.budget.epsilon or delta > self.budget.delta:
                raise PrivacyBudgetExceeded(
                    f"users {first} to {stop - 1} would reach epsilon {epsilon:g}, delta {delta:g}, over the budget of "
                    f"epsilon {self.budget.epsilon:g}, delta {self.budget.delta:g}; nothing was charged or released"
                )

    def _total(self, charges: list[tuple[PrivacyClaim, Events | None]]) -> tuple[float, float]:
        """What these charges on the same user add up to (L3)."""
        same_unit = all(claim.unit.covers(self.budget.unit) for claim, _ in charges)
        if len(charges) > 1 and same_unit and all(events and all_gaussian(events) for _, events in charges):
            together = tuple(pair for _, events in charges for pair in events or ())
            return epsilon_of(together, self.budget.delta), self.budget.delta
        claims = [_for_unit(claim, self.budget) for claim, _ in charges]
        return added_up(claim.epsilon for claim in claims), added_up(claim.delta for claim in claims)


@contextmanager
def charging(
    path: str | Path | None,
    certificate: Certificate,
    budget: tuple[float, float] | None,
    *,
    users: range,
    recipient: str,
    what: str,
    whole: bool = False,
) -> Iterator[None]:
    """Charge the ledger of a file, release in the block, commit: one transaction, and nothing of it if one fails.

    What the block releases must reach no party before the block has ended. None: no ledger. A new ledger has (epsilon,
    delta) of `budget`, or the claim itself; where the block fails, it goes again. `whole`: the claim protects a person
    with all reports, whatever their number, so also the unit of the budget.
    """
    if path is None:
        yield
        return
    place, claim = Path(path), certificate.claim
    new = not place.exists()
    noise: NoiseKind = "secure" if certificate.release else "simulation"
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        epsilon, delta = (claim.epsilon, claim.delta) if budget is None else budget
        kept = Ledger.open(place, replace(claim, epsilon=epsilon, delta=delta)) if new else Ledger.load(place)
        claim = replace(claim, unit=kept.budget.unit) if whole else claim
        if claim.trust == kept.budget.trust == "central":
            # The noise is in the sums of a log, and all that is published follows from them.
            claim = replace(claim, output=kept.budget.output)
        body = kept._body(users, claim, certificate.events, recipient=recipient, what=what, noise=noise)
        with kept._journal.transaction() as writer:
            kept._require_budget(writer, users, claim, certificate.events)
            receipt = writer.append("charge", body, span=users)
            yield
            writer.append("commit", {"charge": receipt.number}, refers=receipt.number)
    except BaseException:
        with suppress(TacitError):
            # Another process may have charged it since.
            if new and not Ledger.load(place).entries():
                place.unlink()
        raise


def _budget(writer: Writer) -> PrivacyClaim:
    first = writer.records(kind="budget")
    require(len(first) == 1, "a ledger has one budget", given=f"{len(first)} budgets")
    return PrivacyClaim.from_dict(first[0].body["budget"])


def _entry(record: Record) -> Entry:
    plain = record.body
    return Entry(
        number=record.number,
        users=range(*plain["users"]),
        claim=PrivacyClaim.from_dict(plain["claim"]),
        events=None if plain["events"] is None else _events_from_plain(plain["events"]),
        recipient=plain["recipient"],
        what=plain["what"],
        noise=plain["noise"],
        charged_at=plain["charged_at"],
        committed=record.referred,
    )


def _events_to_plain(events: Events) -> list[list[object]]:
    plain = [(event_to_dict(event), count) for event, count in events]
    return [[fields.pop("event"), fields, count] for fields, count in plain]


def _events_from_plain(plain: list[Any]) -> Events:
    return tuple((event_from_dict({**fields, "event": name}), count) for name, fields, count in plain)


def _for_unit(claim: PrivacyClaim, budget: PrivacyClaim) -> PrivacyClaim:
    """The claim for a person of the budget's unit: group privacy if the claim protects fewer reports."""
    return claim.group(budget.unit.parts(claim.unit))
