"""Random histories over real processes: people who come, return, send again and forge, closes, releases, voids, kills.

    python -m chaos.histories SEED [MUTANT]        one history again, step by step

A history is decided by its seed: one thing happens at a time, and the learner does one step when it is told to. A
process dies between two things, or at the n-th edge within one. What was acknowledged is known exactly in the end,
since a report without an answer is sent again once the shuffler is back.
"""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import study_fakes

from chaos import studies
from chaos.clients import Reply, Wire, insist
from chaos.oracle import NOTHING, Book, Sent, audit
from chaos.parties import END_SECONDS, START_SECONDS, Parties, _toml, fast_directory
from tacit.errors import InvalidInput
from tacit.service.encryption.envelope import seal_envelope
from tacit.service.encryption.hpke import PublicKey
from tacit.service.encryption.keyring import Keyring, KeysDocument
from tacit.service.tokens.admission import open_name
from tacit.study.wire import REPORT_HEAD, Report

FAILURES = Path(__file__).parent / "failures"
SIZES = {"stages": 30, "target": 20, "least": 3, "labels": 24, "reports": 2}
OPERATIONS = {
    "new": 38,
    "late": 3,
    "resend": 6,
    "forged": 4,
    "stranger": 3,
    "close": 10,
    "release": 5,
    "step": 28,
    "plan": 2,
    "void": 3,
    "kill": 3,
    "rotate": 2,
    "restore": 3,
}
FINDINGS = (*NOTHING, "another person's report", "an older database released", "rejected after a rotation")


class Steps(Parties):
    """Parties whose learner does one step at a time."""

    words: Any = None

    def begin_learner(self) -> None:
        """Start the learner, and wait until it listens to words."""
        home = self.home("learner")
        self.addresses.setdefault("learner", {"internal": self._address("learner", "internal")})
        (home / "config.toml").write_text(_toml(self._config("learner")), encoding="utf-8")
        self.words, theirs = self._context.Pipe()
        places = (str(home / "config.toml"), str(home / "log.jsonl"), str(self.trap("learner")))
        made = self._context.Process(target=_steps, args=(*places, theirs), daemon=True)
        made.start()
        theirs.close()
        self.forked["learner"] = made
        self.told_learner(None, START_SECONDS)

    def told_learner(self, word: str | None, seconds: float = END_SECONDS) -> Any:
        """What the learner answers; None if it died."""
        try:
            if word is not None:
                self.words.send(word)
            if not self.words.poll(seconds):
                raise RuntimeError("the learner does not answer")
            return self.words.recv()
        except (EOFError, OSError):
            self.await_death("learner")
            return None


class History:
    """One history; what was seen is kept here, outside of the databases."""

    def __init__(self, seed: int, parties: Steps, *, crashes: bool) -> None:
        self.coins = random.Random(seed)  # noqa: S311 - a history that can be told again
        self.parties, self.crashes = parties, crashes
        self.book, self.log = Book(), []  # type: ignore[var-annotated]
        self.stage, self.state = -1, "none"
        self.sent: list[tuple[bytes, int]] = []
        self.kept: set[bytes] = set()
        self.odd = dict.fromkeys(FINDINGS, 0)
        self.backup = parties.directory / "backup"
        self.backup_taken = -1
        self.taken = 0
        self.key: PublicKey | None = None
        parties.start("shuffler")
        parties.begin_learner()
        self.public, self.internal = parties.publicly("shuffler"), parties.internally("shuffler")

    def run(self, operations: int) -> dict[str, int]:
        """So many things, then the findings."""
        names, weights = list(OPERATIONS), list(OPERATIONS.values())
        self.step()
        for _ in range(operations):
            name = self.coins.choices(names, weights)[0]
            victim = self._trapped(name)
            self.log.append(name + (f" (dies: {victim})" if victim else ""))
            getattr(self, name)()
            self.revive()
        self.finish()
        return self.findings()

    # processes

    def _trapped(self, name: str) -> str:
        """Set a trap for one of the parties, sometimes."""
        share = 0.0 if not self.crashes or name in ("kill", "restore") else 0.4 if name in ("release", "step") else 0.06
        if self.coins.random() >= share:
            return ""
        victim = "learner" if name in ("step", "plan") and self.coins.random() < 0.5 else "shuffler"
        self.parties.trap(victim).write_text(f"*{self.coins.randrange(1, 10)}")
        return victim

    def revive(self) -> None:
        """Nobody dies by an old trap; whoever is dead is started again, and what has no answer is asked again."""
        for party in ("shuffler", "learner"):
            self.parties.trap(party).unlink(missing_ok=True)
        if not self.parties.alive("shuffler"):
            self._start_shuffler()
        if not self.parties.alive("learner"):
            self.parties.begin_learner()

    def _start_shuffler(self) -> None:
        self.parties.start("shuffler")
        for wire in (self.public, self.internal):
            wire.close()  # its connection was to the process before

    def kill(self) -> None:
        """A process dies between two things."""
        self.parties.kill(self.coins.choice(("shuffler", "learner")))

    def ask(self, wire: Wire, method: str, path: str, body: bytes = b"") -> Reply:
        """An answer; if the shuffler dies over it, it is started again and asked again."""
        found = wire.ask(method, path, body)
        if found is None or found.status >= 500:
            with contextlib.suppress(AssertionError):
                self.parties.await_death("shuffler", 5.0)
            self.revive()
            found = insist(lambda: wire.ask(method, path, body), lambda reply: reply.status < 500)
        return found

    # people

    def send(self, report: bytes, person: int, name: str | None = None) -> str:
        """Send a report until it is known what became of it."""
        if self.key is None or self.coins.random() < 0.3:  # else it is the one that was fetched some time ago
            document = self.ask(self.public, "GET", "/v1/keys/shuffler").body
            self.key = KeysDocument.read(document, party="shuffler", study=self.parties.study, pinned=None).active
        token = open_name(name or f"person {person}")
        envelope = seal_envelope(report, token, study=self.parties.study, key=self.key)
        word = self.ask(self.public, "POST", "/v1/reports", envelope).word
        self.odd["rejected after a rotation"] += word == "unknown-key"
        self.log[-1] += f" {word}"
        if name is None:
            self.sent.append((report, person))
            with contextlib.suppress(InvalidInput):
                made = Report.parse(report)
                self.book.answered(Sent(made.stage, person, f"person {person}", made.id), word)
            if word in ("counted", "again"):
                self.kept.add(report)
        return word

    def made(self, stage: int, person: int) -> bytes:
        """A report with an id by this history's coins."""
        name = self.coins.randbytes(16)
        body = study_fakes.body_of(person)
        return Report(study=self.parties.study, stage=stage, id=name, body=body).encode()

    def new(self) -> None:
        """Somebody reports in the present stage."""
        person = self.coins.randrange(SIZES["labels"])
        self.send(self.made(max(self.stage, 0), person), person)

    def late(self) -> None:
        """Somebody reports in a stage that is over."""
        person = self.coins.randrange(SIZES["labels"])
        self.send(self.made(self.coins.randrange(max(self.stage, 1)), person), person)

    def resend(self) -> None:
        """A report comes again."""
        if self.sent:
            self.send(*self.coins.choice(self.sent))

    def forged(self) -> None:
        """A report comes with another head, and cut."""
        if self.sent:
            report, person = self.coins.choice(self.sent)
            changed = bytearray(report)
            changed[self.coins.randrange(REPORT_HEAD.size)] ^= self.coins.randrange(1, 256)
            self.send(bytes(changed), person)
            self.send(report[:-1], person)

    def stranger(self) -> None:
        """Somebody hands in another person's report, which is there already."""
        known = [one for one in self.sent if one[0] in self.kept]
        if known:
            report, person = self.coins.choice(known)
            word = self.send(report, person, f"person {(person + 1) % SIZES['labels']}")
            self.odd["another person's report"] += word == "counted"

    def rotate(self) -> None:
        """The shuffler's keys change."""
        Keyring(self.parties.home("shuffler") / "sealing").rotate(time.time(), grace=3600)

    # the shuffler and the learner

    def close(self) -> None:
        """The stage is closed, mostly when there are enough."""
        if len(self.book.acknowledged(self.stage)) < SIZES["least"] and self.coins.random() < 0.8:
            return
        reply = self.ask(self.internal, "POST", f"/v1/stages/{max(self.stage, 0)}/close")
        if reply.status == 200:
            self.book.closed.setdefault(self.stage, json.loads(reply.body)["reports"])
            self.log[-1] += " closed"

    def release(self) -> None:
        """Somebody asks for the release with the learner's head; the learner may not know of it."""
        head = self.told("head")
        path = f"/v1/stages/{max(self.stage, 0)}/questions/0/release"
        self.log[-1] += f" {self.ask(self.internal, 'POST', path, head.encode()).status}"

    def void(self) -> None:
        """The stage is given up, mostly when there are too few."""
        if len(self.book.acknowledged(self.stage)) >= SIZES["least"] and self.coins.random() < 0.8:
            return
        self.ask(self.internal, "POST", f"/v1/stages/{max(self.stage, 0)}/void", b"nobody came")

    def plan(self) -> None:
        """The learner plans, and tells nobody."""
        self.parties.told_learner("plan")

    def step(self) -> None:
        """The learner does its next thing: plan and hand over, or fetch and take."""
        found = self.parties.told_learner("step")
        self.revive()
        reply = self.public.ask("GET", "/v1/bundle")
        if reply is not None and reply.status == 200:
            self.stage = json.loads(reply.body)["stage"]
        if found is not None:
            self.taken += found[1] == "taken"
            if self.log:
                self.log[-1] += f" {found[0]} {found[1][:40]}"

    def told(self, word: str) -> Any:
        """What the learner answers, started again if it is dead."""
        self.revive()
        return self.parties.told_learner(word)

    def restore(self) -> None:
        """A backup is made; or one from before a release that the learner has taken since is put back, and refused."""
        if self.backup_taken < 0 or self.taken <= self.backup_taken:
            if self.backup_taken < 0:
                self.parties.copy("shuffler", self.backup)
                self.backup_taken = self.taken
            return
        head, before = self.told("head"), self._views()
        self.parties.kill("shuffler")
        true = self.parties.directory / "true"
        shutil.copytree(self.parties.state("shuffler"), true)
        self.parties.restore("shuffler", self.backup)
        self._start_shuffler()
        outcome = self.told("step")
        for stage in range(self.stage + 1):
            self.internal.ask("POST", f"/v1/stages/{stage}/close")
            self.internal.ask("POST", f"/v1/stages/{stage}/questions/0/release", head.encode())
        refused = outcome is not None and outcome[0] == "refused"
        self.odd["an older database released"] += (not refused) + (self._views() != before)
        self.log[-1] += f" {outcome and outcome[0]}"
        self.parties.kill("shuffler")
        self.parties.restore("shuffler", true)
        shutil.rmtree(true)
        self.backup_taken = -1

    # the end

    def finish(self) -> None:
        """What is closed is released and taken, so that every acknowledged report of such a stage is seen."""
        self.revive()
        self.log.append("end")
        for _ in range(3):
            self.step()

    def findings(self) -> dict[str, int]:
        """Everything that may not have happened."""
        for wire in (self.public, self.internal):
            wire.close()
        for party in ("shuffler", "learner"):
            self.parties.kill(party)
        found = audit(self.parties, self.book, limit=SIZES["reports"], least=SIZES["least"], labels=SIZES["labels"])
        return {name: found.get(name, 0) + self.odd[name] for name in FINDINGS}

    def _views(self) -> list[str]:
        return sorted(path.name for path in self.parties.views.iterdir())


def history(seed: int, mutant: str = "", operations: int = 60, *, keep: bool = True) -> tuple[dict[str, int], History]:
    """The findings of one history; those of an honest shuffler that are not zero are kept as a reproduction."""
    with studies.registered(), fast_directory() as folder:
        parties = Steps.new(folder / "w", studies.labelled(**SIZES), mutant=mutant)
        with parties:
            told = History(seed, parties, crashes=seed % 2 == 0)
            found = told.run(operations)
    if keep and not mutant and any(found.values()):
        FAILURES.mkdir(exist_ok=True)
        content = {"seed": seed, "operations": operations, "command": f"python -m chaos.histories {seed}"}
        wrong = {name: count for name, count in found.items() if count}
        text = json.dumps({**content, "findings": wrong, "history": told.log}, indent=2)
        (FAILURES / f"{seed}.json").write_text(text + "\n", encoding="utf-8")
    return found, told


def _steps(*words: Any) -> None:
    from chaos.preloaded import serve_steps

    serve_steps(*words)


def main(words: list[str]) -> int:
    """Tell one history again."""
    found, told = history(int(words[0]), *words[1:2], keep=False)
    print("\n".join(told.log))
    print(json.dumps({name: count for name, count in found.items() if count}))
    return int(any(found.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
