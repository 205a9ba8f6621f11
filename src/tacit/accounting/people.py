"""The ledger for people: one fixed public schedule of stages, reserved at once and drawn down stage by stage.

It lives in somebody else's database and in their transactions, so that a charge and what is released for it are
written together or not at all. Whoever has the connection begins and ends transactions:

    ledger = PeopleLedger.within(connection)
    ledger.begin(writer="collector", budget=claim, study=digest, noise="secure")     # once, when the study is made
    ledger.reserve(schedule=[channel.events() for ...], exposure=events)             # once, the whole schedule
    receipt = ledger.draw(stage=3, question=0, events=..., noise="secure")           # before the noise is drawn
    ledger.commit(receipt, digest)                                                   # what was released for it

A1  Never too much: a reserve is the exact composition of what the worst person meets over the whole schedule, and it
    must keep the budget. Events, order and sizes of the schedule are public and fixed before the first stage, so exact
    composition is allowed (Lemma P14 (several stages)); nothing that was not reserved is drawn.
A2  Once: one budget, one reserve, one draw for a question of a stage, one commit for a draw. A stage that was given up
    may be drawn again; if something of it had been drawn, the whole schedule is accounted for with that stage twice.
A3  The noise of a ledger is of one kind: a ledger of secure noise refuses every other, and the other way round.
A4  Append-only and tamper-evident like every journal (`tacit.accounting.journal`); a refusal leaves it as it was.
A5  Two copies of a ledger that both go on differ from their first record on: draws and voids carry a nonce. A commit
    follows its draw at once and holds the digest of the release, so `committed_at` gives its place in the ledger to
    a reader of the release.

How many reports a person has is not known here: the budget's unit says at most how many there are, one per stage, and
the collector keeps to it. No record is about a person, and none holds data.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.composition import epsilon_of, merged
from tacit.accounting.events import Events, event_from_dict, event_to_dict
from tacit.accounting.journal import Connection, Receipt, Record, Writer, following
from tacit.accounting.terms import NOISE_KINDS, NoiseKind
from tacit.accounting.units import worst_exposure
from tacit.errors import InvalidInput, NotSupported, PrivacyBudgetExceeded, require, require_count

DIGEST: Final = re.compile(r"[0-9a-f]{64}")
KINDS: Final = ("budget", "reserve", "draw", "commit", "void")
SAME: Final = 1e-4
"""Two epsilons of one exposure, computed in two ways (and with slack counted in two ways), may differ by this share."""


class Spent(NamedTuple):
    """What the worst person has been charged with."""

    epsilon: float
    """Of what was drawn so far, at the budget's delta."""
    delta: float
    reserved: float
    """The epsilon of the whole schedule."""
    drawn: tuple[int, ...]
    """The stages of which something was drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """One charge; `release` is the digest of what was released for it, None if nothing is known to have been."""

    number: int
    stage: int
    question: int
    noise: NoiseKind
    day: str
    release: str | None
    given_up: bool
    """Whether its stage was given up afterwards."""


class _Begun(NamedTuple):
    budget: PrivacyClaim
    study: str
    noise: NoiseKind


class _Reserve(NamedTuple):
    schedule: tuple[Events, ...]
    questions: tuple[int, ...]
    exposure: Events
    epsilon: float
    independent: bool


@dataclass(frozen=True, slots=True)
class PeopleLedger:
    """The ledger in one connection's database; all state is in the database.

    >>> from tacit.accounting.claims import PrivacyUnit
    >>> from tacit.accounting.events import PureEvent
    >>> claim = PrivacyClaim(trust="local", epsilon=1.0, delta=0.0, unit=PrivacyUnit(reports=2, per_stage=1),
    ...                      neighbours="replace-one", output="every-message")
    >>> import sqlite3
    >>> connection = sqlite3.connect(":memory:", isolation_level=None)
    >>> ledger, message = PeopleLedger.within(connection), ((PureEvent(epsilon=0.5), 1),)
    >>> _ = connection.execute("BEGIN IMMEDIATE")
    >>> _ = ledger.begin(writer="collector", budget=claim, study="0" * 64, noise="secure")
    >>> _ = ledger.reserve(schedule=[message] * 10, exposure=message * 2)
    >>> _ = ledger.draw(stage=0, question=0, events=message, noise="secure")
    >>> ledger.spent()
    Spent(epsilon=0.5, delta=0.0, reserved=1.0, drawn=(0,))
    """

    writer: Writer

    @classmethod
    def within(cls, connection: Connection) -> PeopleLedger:
        """The ledger in this database, which may still be empty."""
        return cls(Writer(connection))

    def begin(self, *, writer: str, budget: PrivacyClaim, study: str, noise: str) -> Receipt:
        """Create the ledger: who writes it, the budget of every person, the study and the kind of noise."""
        self._require_transaction()
        require(budget.trust != "none", "a budget of people must protect them", budget.trust)
        require(budget.unit.per_stage == 1, "a person must have at most one report per stage", budget.unit.per_stage)
        require(noise in NOISE_KINDS, f"noise must be one of {', '.join(NOISE_KINDS)}", noise)
        known = DIGEST.fullmatch(study) is not None
        require(known, "a study is known by its SHA-256, 64 hexadecimal digits", len(study))
        self.writer.prepare()
        require(self.writer.count() == 0, "a ledger is begun once", "one that was begun")
        body = {"writer": writer, "budget": budget.to_dict(), "study": study, "noise": noise, "day": _today()}
        return self.writer.append("budget", body)

    def reserve(
        self, *, schedule: Sequence[Events], exposure: Events, questions: Sequence[int] | None = None
    ) -> Receipt:
        """Set the whole schedule aside, or raise `PrivacyBudgetExceeded` (A1).

        `schedule` holds what one report costs in each stage, over all of its `questions` (one in each, if that is left
        out). `exposure` is what the worst person meets over all stages: `worst_exposure` of the schedule where stages
        have noise of their own.
        """
        self._require_transaction()
        begun = self._begun()
        require(not self.writer.records(kind="reserve"), "a schedule is reserved once", "a second one")
        stages = tuple(map(_known, schedule))
        require(len(stages) > 0, "a schedule must have at least one stage", 0)
        asked = [require_count("questions", number) for number in questions or [1] * len(stages)]
        require(len(asked) == len(stages), f"there must be a number of questions for {len(stages)} stages", len(asked))
        budget, whole = begun.budget, _known(exposure)
        epsilon = epsilon_of(whole, budget.delta)
        if not epsilon <= budget.epsilon:
            raise PrivacyBudgetExceeded(
                f"the whole schedule would reach epsilon {epsilon:g} at delta {budget.delta:g}, over the budget of "
                f"epsilon {budget.epsilon:g}; nothing was reserved"
            )
        alone, compared = _alone(stages, budget)
        least = epsilon_of(alone, budget.delta)
        covered = least <= epsilon * (1.0 + SAME)
        require(covered, f"the exposure of a person must cover the reports one by one (epsilon {least:g})", epsilon)
        body = {
            "schedule": _packed(stages),
            "questions": asked,
            "exposure": _plain(whole),
            "epsilon": epsilon,
            "independent": compared and set(merged(alone)) == set(merged(whole)),
        }
        return self.writer.append("reserve", body)

    def draw(self, *, stage: int, question: int, events: Events, noise: str, nonce: str | None = None) -> Receipt:
        """Charge one question of a reserved stage, before its noise is drawn (A2, A3).

        The nonce (A5) is drawn here; a rehearsal that is to be repeated bit for bit states its own.
        """
        self._require_transaction()
        begun, reserved = self._begun(), self._reserved()
        require(noise == begun.noise, f"this ledger is of {begun.noise} noise", noise)
        place, number = self._stage(stage, reserved), require_count("question", question, least=0)
        most = reserved.questions[place]
        require(number < most, f"stage {place} was reserved for {most} question{'s' * (most > 1)}", number + 1)
        same = merged(events) == merged(reserved.schedule[place])
        require(same, f"stage {place} must cost what was reserved for it", "other events", "plan a study anew")
        draws = self._draws()
        done = sum(draw.stage == place and not draw.given_up for draw in draws)
        require(number >= done, f"question {number} of stage {place} is drawn once", "a second time")
        require(number == done, f"the next question of stage {place} is number {done}", number)
        if number == 0 and _rounds(draws, place) > 0:
            self._require_twice(begun.budget, reserved, draws, place)
        body = {"stage": place, "question": number, "noise": noise, "day": _today(), "nonce": _nonce(nonce)}
        return self.writer.append("draw", body)

    def commit(self, receipt: Receipt, digest: str) -> Receipt:
        """Note the SHA-256 of what was released for a draw; once for each."""
        self._require_transaction()
        self._begun()
        known = DIGEST.fullmatch(digest) is not None
        require(known, "a release is known by its SHA-256, 64 hexadecimal digits", len(digest))
        found = self.writer.records(kind="draw", number=receipt.number)
        held = len(found) == 1 and found[0].digest == receipt.digest
        require(held, "the receipt must be of a draw in this ledger", receipt.number)
        require(not found[0].referred, "a draw is committed once", f"draw {receipt.number} again")
        made = self.writer.append("commit", _commit(receipt, digest), refers=receipt.number)
        require(made == committed_at(receipt, digest), "a commit must follow its draw at once", "records between them")
        return made

    def void(self, *, stage: int, reason: str, nonce: str | None = None) -> Receipt:
        """Note that a stage was given up; what was drawn of it stays drawn."""
        self._require_transaction()
        place = self._stage(stage, self._reserved())
        require(isinstance(reason, str) and 0 < len(reason) <= 200, "a reason must have 1 to 200 characters", "another")
        body = {"stage": place, "reason": reason, "day": _today(), "nonce": _nonce(nonce)}
        return self.writer.append("void", body)

    def entries(self) -> tuple[Draw, ...]:
        """All draws in the order in which they were made."""
        self._begun()
        return tuple(self._draws())

    def pending(self) -> tuple[Draw, ...]:
        """Draws without a commit: in flight, or cut short by a crash; they count as spent."""
        return tuple(draw for draw in self.entries() if draw.release is None)

    def spent(self) -> Spent:
        """What the worst person has been charged with: exactly where stages have noise of their own, else all of it."""
        budget, reserved, draws = self._begun().budget, self._reserved(), self.entries()
        stages = tuple(sorted({draw.stage for draw in draws}))
        if not stages:
            return Spent(epsilon=0.0, delta=0.0, reserved=reserved.epsilon, drawn=())
        epsilon = reserved.epsilon
        try:
            if reserved.independent:
                drawn = _instances(reserved, draws)
                epsilon = epsilon_of(worst_exposure(drawn, budget.unit.reports, budget.delta), budget.delta)
        except NotSupported:  # too many choices to compare: the reserve covers them all
            pass
        return Spent(epsilon=epsilon, delta=budget.delta, reserved=reserved.epsilon, drawn=stages)

    @property
    def budget(self) -> PrivacyClaim:
        """What every person is promised."""
        return self._begun().budget

    @property
    def noise(self) -> NoiseKind:
        """The kind of noise that every draw must have."""
        return self._begun().noise

    def head(self) -> Receipt:
        """The last record: keep it elsewhere, and nothing up to it can vanish unnoticed."""
        self._begun()
        return self.writer.head()

    def verify(self, anchor: Receipt | None = None) -> None:
        """Raise `InvalidInput` unless the ledger is as it was written, adds up, and contains the `anchor`."""
        budget = self._begun().budget
        self.writer.verify(anchor)
        strange = [record.kind for record in self.writer.everything() if record.kind not in KINDS]
        require(not strange, f"the records of this ledger are {', '.join(KINDS)}", strange)
        if self.writer.records(kind="reserve"):
            kept = epsilon_of(self._reserved().exposure, budget.delta) <= budget.epsilon
            require(kept, "what was reserved must keep the budget", "more")

    def export(self) -> dict[str, Any]:
        """The whole ledger as JSON-ready values; there are no data in it."""
        self._begun()
        head = self.writer.head()
        return {
            "head": {"number": head.number, "digest": head.digest},
            "records": [
                {"number": record.number, "kind": record.kind, "body": dict(record.body), "digest": record.digest}
                for record in self.writer.everything()
            ],
        }

    # what the records say

    def _begun(self) -> _Begun:
        require(self.writer.prepared(), "a ledger of people must have been begun", "a database without one")
        found = self.writer.records(kind="budget")
        require(len(found) == 1, "a ledger has one budget", f"{len(found)} budgets")
        body = found[0].body
        return _Begun(PrivacyClaim.from_dict(body["budget"]), str(body["study"]), body["noise"])

    def _reserved(self) -> _Reserve:
        found = self.writer.records(kind="reserve")
        require(len(found) == 1, "the schedule must be reserved before anything is drawn", f"{len(found)} reserves")
        body = found[0].body
        return _Reserve(
            schedule=_unpacked(body["schedule"]),
            questions=tuple(body["questions"]),
            exposure=_events(body["exposure"]),
            epsilon=float(body["epsilon"]),
            independent=body.get("independent") is True,
        )

    def _draws(self) -> list[Draw]:
        """All draws, with what became of them."""
        voids = [(record.number, int(record.body["stage"])) for record in self.writer.records(kind="void")]
        released = {record.body["draw"]: str(record.body["release"]) for record in self.writer.records(kind="commit")}
        return [_draw(record, voids, released) for record in self.writer.records(kind="draw")]

    def _stage(self, stage: int, reserved: _Reserve) -> int:
        place, last = require_count("stage", stage, least=0), len(reserved.schedule) - 1
        require(place <= last, f"stage must be one of the reserved 0..{last}", place)
        return place

    def _require_twice(self, budget: PrivacyClaim, reserved: _Reserve, draws: Sequence[Draw], stage: int) -> None:
        """Refuse to draw a stage again after something of it was drawn, if that exceeds the budget (A2)."""
        if not reserved.independent:
            raise NotSupported(
                f"stage {stage} was drawn and given up, and stages that share their noise cannot be drawn again; go on "
                "with the next one"
            )
        counts = {n: max(1, _rounds(draws, n) + (n == stage)) for n in range(len(reserved.schedule))}
        planned = [reserved.schedule[n] for n, count in counts.items() for _ in range(count)]
        exposure = worst_exposure(planned, budget.unit.reports, budget.delta)
        epsilon = epsilon_of(exposure, budget.delta)
        if not epsilon <= budget.epsilon:
            raise PrivacyBudgetExceeded(
                f"drawing stage {stage} again would reach epsilon {epsilon:g}, over the budget of epsilon "
                f"{budget.epsilon:g}; nothing was drawn"
            )

    def _require_transaction(self) -> None:
        inside = self.writer.connection.in_transaction
        require(inside, "a ledger of people is written inside its owner's transaction", "none", "begin one")


def committed_at(draw: Receipt, digest: str) -> Receipt:
    """Where the commit of a draw stands that released what has this SHA-256 (A5)."""
    return following(draw, "commit", _commit(draw, digest), refers=draw.number)


def _commit(draw: Receipt, digest: str) -> dict[str, Any]:
    return {"draw": draw.number, "release": digest}


def _nonce(given: str | None) -> str:
    found = secrets.token_hex(16) if given is None else given
    require(len(found) == 32, "a nonce must have 32 hexadecimal digits", len(found))
    return found


def _alone(schedule: Sequence[Events], budget: PrivacyClaim) -> tuple[Events, bool]:
    """What the worst person meets where stages have noise of their own; those that share it cost no less.

    For a factorization of non-negative, non-increasing c that is ‖Σ_{i≤g} C e_i‖² ≥ g ‖c‖² (Lemma C10 (several
    reports)). Where there are too many choices to be compared, it is the dearest single stage, and False.
    """
    try:
        return worst_exposure(schedule, budget.unit.reports, budget.delta), True
    except NotSupported:
        return max(set(schedule), key=lambda events: epsilon_of(events, budget.delta)), False


def _rounds(draws: Sequence[Draw], stage: int) -> int:
    """How many times something of this stage was drawn: every round draws question 0, once and first."""
    return sum(draw.stage == stage and draw.question == 0 for draw in draws)


def _instances(reserved: _Reserve, draws: Sequence[Draw]) -> list[Events]:
    """The stages that were drawn, each as often as it was."""
    return [reserved.schedule[draw.stage] for draw in draws if draw.question == 0]


def _draw(record: Record, voids: Sequence[tuple[int, int]], released: Mapping[int, str]) -> Draw:
    stage = int(record.body["stage"])
    return Draw(
        number=record.number,
        stage=stage,
        question=int(record.body["question"]),
        noise=record.body["noise"],
        day=str(record.body["day"]),
        release=released.get(record.number),
        given_up=any(number > record.number and given == stage for number, given in voids),
    )


def _known(events: Events) -> Events:
    """The events, if each of them can be written down and read again."""
    found = tuple(events)
    require(_events(_plain(found)) == found, "events of a ledger must be the same when they are read", "others")
    return found


def _plain(events: Events) -> list[list[Any]]:
    return [[event_to_dict(event), count] for event, count in events]


def _events(plain: Sequence[Any]) -> Events:
    try:
        return tuple((event_from_dict(event), require_count("count of an event", n, least=0)) for event, n in plain)
    except (TypeError, ValueError) as error:
        raise InvalidInput("events of a ledger are pairs of an event and a count, got something else") from error


def _packed(schedule: Sequence[Events]) -> dict[str, Any]:
    """The schedule with every kind of stage written once."""
    kinds = list(dict.fromkeys(schedule))
    return {"kinds": [_plain(kind) for kind in kinds], "stages": [kinds.index(events) for events in schedule]}


def _unpacked(plain: Mapping[str, Any]) -> tuple[Events, ...]:
    kinds = [_events(kind) for kind in plain["kinds"]]
    return tuple(kinds[place] for place in plain["stages"])


def _today() -> str:
    """The day, UTC: coarse enough to be published."""
    return datetime.now(UTC).date().isoformat()
