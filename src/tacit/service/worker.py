"""The worker of a learner: plan, hand over, wait, fetch the release, take it, and again until nobody is asked any more.

    plan -> PUT bundle -> (open) wait -> (closed) release -> [sealed: open the batch] -> take -> plan ...
                          (void) void -> plan again, for other people

Y1  Every step may be done again: the worker remembers nothing that matters, so it may be killed anywhere. What it does
    next follows from the study's database and from what the shuffler says.
Y2  A release that contradicts itself stops the loop until somebody has looked into it (`inspected`) or gave it up.
Y3  What is refused (by the shuffler: an older copy of its ledger, a spent budget; here: a release that does not fit) is
    shown and tried again, slowly: it changed nothing, and will change nothing until somebody mends it.
Y4  Keys to seal to stand in the bundle of their stage and in no other message: a rotation while a stage is open, of the
    learner's keys or the mixer's, takes effect with the next one. Which of two keys opens a message would tell when
    its device fetched it.
Y5  The worker sees bundles, releases, sealed batches and counts: no address, id, token or time of anybody is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from tacit.errors import TacitError, require
from tacit.service.peers import Peer, Unreachable
from tacit.study.bundle import Bundle
from tacit.study.study import Study
from tacit.study.wire import ReleasePayload

Outcome = Literal["moved", "waiting", "unreachable", "held", "refused", "finished"]
LONGEST: Final = 300


@dataclass(frozen=True, slots=True)
class Step:
    """What one step of the loop came to."""

    outcome: Outcome
    word: str = ""
    stage: int | None = None
    after: float = 0.0
    """Seconds that the shuffler asked for."""


class Sealed(Protocol):
    """Who opens sealed batches."""

    def documents(self) -> Mapping[str, bytes]:
        """Party -> the signed keys document that the next stage is to have."""
        ...

    def opened(self, release: ReleasePayload, bundle: Bundle) -> bytes:
        """What a sealed release amounts to: the payload that an unsealed one would have had."""
        ...

    def done(self, stage: int) -> None:
        """The batch of this stage is not needed any more."""
        ...


class Issuing(Protocol):
    """Who has tokens issued."""

    def open(self, stage: int) -> None:
        """Let tokens of this stage be issued; done again, nothing changes."""
        ...

    def over(self, stage: int) -> None:
        """No more tokens of this stage."""
        ...


def no_failpoint(edge: str) -> None:
    """Outside of tests nothing happens between two effects."""
    del edge


class Worker:
    """The loop of one study; `step` does one thing and says what it came to."""

    def __init__(
        self,
        study: Study,
        shuffler: Peer,
        *,
        sealed: Sealed | None = None,
        issuing: Issuing | None = None,
        edge: Callable[[str], None] = no_failpoint,
    ) -> None:
        self.study, self.shuffler = study, shuffler
        self.sealed, self.issuing, self._edge = sealed, issuing, edge
        self._handed: dict[str, bytes] = {}
        """Bundles that this process has handed over: a PUT less, and nothing else."""

    def step(self) -> Step:
        """Do the next thing."""
        try:
            return self._step()
        except Unreachable as error:
            return Step("unreachable", error.word, after=error.after)
        except TacitError as error:
            return Step("refused", str(error)[:LONGEST])

    def inspected(self) -> str:
        """Use the quarantined release, on the word of whoever looked into it (Y2)."""
        stage, release = self._quarantined()
        found = self.study.take(release, inspected=True)  # what a batch was opened to is kept with its release
        self._over(stage)
        return found

    def give_up(self, reason: str) -> None:
        """Give the open stage up: the shuffler first, since it may have released by now."""
        waiting = self.study.status()["quarantined"]
        if not waiting:
            stage = self._open_stage()
            self.shuffler.post(f"/v1/stages/{stage}/void", reason.encode())
            self._edge("void:shuffler")
        self.study.void(reason)

    # one thing after the other

    def _step(self) -> Step:
        waiting = self.study.status()["quarantined"]
        killed = self.study.status()["state"] == "ended"
        if waiting and not killed:
            return Step("held", "quarantined", int(waiting[0][0]))
        data = self.study.made()
        if not data:
            data = self.study.plan(None if self.sealed is None or killed else self.sealed.documents())
        self._edge("plan:made")
        bundle = Bundle.parse(data)
        stage = int(bundle["stage"])
        rows = {int(row["stage"]): row for row in self.shuffler.json("/v1/status")["stages"]}
        if bundle.channel is None:
            return self._last(stage, data, rows)
        return self._asked(stage, bundle, data, rows.get(stage))

    def _asked(self, stage: int, bundle: Bundle, data: bytes, row: Mapping[str, Any] | None) -> Step:
        """A stage that people report in."""
        question = int(bundle["question"])
        if row is not None and row["state"] == "void":
            self._over(stage)
            self.study.void(_reason(row))
            self._edge("void:taken")
            return Step("moved", "void", stage)
        path = f"/v1/stages/{stage}/questions/{question}"
        if row is None and self.sealed is not None and not bundle.keys:
            self.study.void("planned by tacit 0.8, without keys")
            return Step("moved", "void", stage)
        if row is None:
            self._handed.pop(path, None)  # a shuffler that does not know the stage is told again, or says why not
        if self.issuing is not None and question == 0 and path not in self._handed:
            self.issuing.open(stage)
            self._edge("issuer:open")
        if self._hand_over(path, data):
            self._edge("bundle:handed")
            if row is None:
                return Step("moved", "asked", stage)
        if row is None or row["state"] == "open":
            return Step("waiting", "open", stage)
        release = self.shuffler.post(f"{path}/release", self.study.head.text.encode())
        self._edge("release:fetched")
        found = self._take(release)
        self._edge("release:taken")
        if found == "quarantined":
            return Step("held", found, stage)
        self._over(stage)
        return Step("moved", found, stage)

    def _last(self, stage: int, data: bytes, rows: Mapping[int, Mapping[str, Any]]) -> Step:
        """The bundle that asks nothing: everybody follows what was learned, or the study was ended."""
        for number, row in rows.items():
            if row["state"] in ("open", "closed"):
                self.shuffler.post(f"/v1/stages/{number}/void", b"ended")
                self._edge("kill:void")
        if self._hand_over(f"/v1/stages/{stage}/questions/0", data):
            self._edge("last:handed")
            for number in range(stage):
                self._over(number)
        return Step("finished", "killed" if Bundle.parse(data)["kill"] else "served", stage)

    def _over(self, stage: int) -> None:
        """A stage has ended: its files and its token key are not needed any more. Left behind by a crash, they are
        deleted when the study is over.
        """
        if self.sealed is not None:
            self.sealed.done(stage)
        if self.issuing is not None:
            self.issuing.over(stage)

    def _hand_over(self, path: str, content: bytes) -> bool:
        """Put something at the shuffler, unless this process has done so; whether it was put now."""
        if self._handed.get(path) == content:
            return False
        self.shuffler.put(path, content)
        self._handed[path] = content
        return True

    def _take(self, data: bytes) -> str:
        if self.sealed is None:
            return self.study.take(data)
        release = ReleasePayload.parse(data)
        bundle = Bundle.parse(self._bundle_of(release))
        opened = self.sealed.opened(release, bundle)
        self._edge("batch:opened")
        return self.study.take(data, opened=opened)

    def _bundle_of(self, release: ReleasePayload) -> bytes:
        with self.study.store.reading() as connection:
            row = connection.execute(
                "SELECT bytes FROM bundle WHERE stage = ? AND question = ?", (release.stage, release.question)
            ).fetchone()
        require(row is not None, "a release must be of a stage that was planned", "another stage")
        return bytes(row[0])

    def _quarantined(self) -> tuple[int, bytes]:
        waiting = self.study.status()["quarantined"]
        require(bool(waiting), "a release must be quarantined to be inspected", "none")
        stage, question = waiting[0][:2]
        with self.study.store.reading() as connection:
            row = connection.execute(
                "SELECT bytes FROM release WHERE stage = ? AND question = ?", (stage, question)
            ).fetchone()
        return int(stage), bytes(row[0])

    def _open_stage(self) -> int:
        stages = self.study.status()["stages"]
        open_now = bool(stages) and stages[-1]["state"] == "open"
        require(open_now, "a stage must be open to be given up", "none")
        return int(stages[-1]["stage"])


def _reason(row: Mapping[str, Any]) -> str:
    """The shuffler's word for giving a stage up, as far as it is one."""
    text = row.get("reason")
    return text if isinstance(text, str) and 0 < len(text) <= 200 and text.isprintable() else "void at the shuffler"
