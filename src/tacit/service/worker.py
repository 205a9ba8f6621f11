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

The learner's link to the issuer: a stage's key is made before the stage is asked, and handed to everybody at once.

J1  The issuer's document goes to devices through the shuffler, one for everybody: an issuer with a key per person could
    tell people apart (`tacit.service.tokens.token`, K2). The learner refuses one that contradicts what it has seen.
J2  Done again, nothing changes: a stage has one key, and the document of a serial is the same bytes.
J3  When a stage is over its secret key is deleted at the issuer.

The learner's link to a mixer: its keys go to devices through the shuffler, batches go there and come back mixed.

The work is `tacit.service.mixer.mixed_by`; here are the address, the secret, the pinned key, and what a mixer that
does not answer means.

Sealed releases on the learner's side: batch and tokens come onto the disk, are checked against the manifest, opened
and counted, and are deleted once the stage is learned from.

P1  What the manifest does not name is not opened: size and digest of both files, the number of messages for so many
    people (`tacit.study.sealed_batches`).
P2  Where the study has tokens, as many different valid ones as people must lie beside the batch. They are looked at,
    handed to the mixer if there is one, and deleted: the learner keeps a count and the digest in the release.
P3  Where a mixer stands in the row, the shuffler's batch goes there, with the tokens and the issuer's document, and
    what comes back is opened, under the manifest that the pinned mixer signed for this very release.
P4  Opened is with the key that the bundle of the stage names, and with no other one.
P5  A download goes on where it stopped. A file that turns out to be another one is deleted, so that the next try
    begins anew.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import httpx

from tacit.errors import InvalidInput, TacitError, require
from tacit.runs.storage_paths import write_private
from tacit.service.batches.decryption import OpenedBatch, engine, open_batch
from tacit.service.encryption.hpke import SecretKey
from tacit.service.encryption.keyring import Keyring, KeysDocument
from tacit.service.http_client import Peer, Unreachable
from tacit.service.mixer import mixed_by
from tacit.service.tokens.token import TokenKeys
from tacit.study.bundle import Bundle
from tacit.study.sealed_batches import NO_TOKENS, Manifest
from tacit.study.store import no_failpoint
from tacit.study.study import Study
from tacit.study.wire import ReleasePayload

if TYPE_CHECKING:
    from tacit.service.tokens.token import TokenKeys


class IssuerLink:
    """What a learner asks of an issuer; `kept` is the file of the newest document that was seen."""

    def __init__(self, issuer: Peer, shuffler: Peer, *, study: bytes, pinned: Path, kept: Path) -> None:
        self.issuer, self.shuffler = issuer, shuffler
        self.study, self.pinned, self.kept = study, pinned, kept
        self._keys = self._parsed(kept.read_bytes()) if kept.is_file() else None

    def open(self, stage: int) -> None:
        """Have a key made for a stage, and relay the document (J1, J2)."""
        self.issuer.put(f"/v1/stages/{stage}", b"")
        document = self.issuer.get("/v1/keys")
        found = self._parsed(document).after(self._keys)
        require(stage in found.stages, "the issuer must have a key for the stage", f"none for stage {stage}")
        write_private(self.kept, document)
        self._keys = found
        self.shuffler.put("/v1/keys/issuer", document)

    def over(self, stage: int) -> None:
        """A stage has ended (J3)."""
        self.issuer.delete(f"/v1/stages/{stage}")

    def keys(self) -> TokenKeys:
        """The keys that tokens are verified with."""
        if self._keys is None:
            raise InvalidInput("the issuer's keys must be there before tokens are verified; open a stage first")
        return self._keys

    def _parsed(self, document: bytes) -> TokenKeys:
        return TokenKeys.parse(document, study=self.study, pinned=self.pinned)


PATIENCE: Final = 3600.0
"""Seconds that a mixer may take for one batch."""


class MixerLink:
    """What a learner asks of a mixer; `pinned` is its public key."""

    def __init__(self, peer: Peer, pinned: Path) -> None:
        self.peer, self.pinned = peer, pinned

    def document(self) -> bytes:
        """The mixer's signed keys, as they are now."""
        return self.peer.get("/v1/keys")

    def mixed(self, release: ReleasePayload, files: Mapping[str, Path], target: Path) -> Manifest:
        """Have a batch, with its tokens if there are some, mixed into a file at `target`; what its manifest says."""
        with _reachable(), self.peer.session() as session:
            found = mixed_by(
                session, release.encode(), files, target, stage=release.stage, pinned=self.pinned, seconds=PATIENCE
            )
        return found.manifest


@contextlib.contextmanager
def _reachable() -> Iterator[None]:
    try:
        yield
    except httpx.TransportError as error:
        raise Unreachable("no answer") from error


class BatchOpener:
    """Opens the batches of one study; `source`, the shuffler, serves them."""

    def __init__(
        self,
        directory: Path,
        source: Peer,
        *,
        ring: Keyring,
        sign: Path,
        mixer: MixerLink | None = None,
        issued: Callable[[], TokenKeys] | None = None,
        issuer: Path | None = None,
        engine_name: str = "local",
        workers: int = 1,
        counted: Callable[[OpenedBatch], None] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`issued` gives the issuer's keys where reports have tokens, and `issuer` is the file of its signed document;
        `counted` is told what a batch held.
        """
        self.directory, self.source, self.ring, self.sign = directory, source, ring, sign
        self._mixer, self._issued, self._counted, self._clock = mixer, issued, counted, clock
        self._issuer, self._engine, self._workers = issuer, engine_name, workers

    def documents(self) -> Mapping[str, bytes]:
        """The learner's keys as they are now, and the mixer's, if there is one."""
        mixed = {} if self._mixer is None else {"mixer": self._mixer.document()}
        return {"learner": self.ring.document(self.sign), **mixed}

    def opened(self, release: ReleasePayload, bundle: Bundle) -> bytes:
        """The histogram of a sealed release (P1, P2)."""
        channel = bundle.channel
        require(channel is not None, "a sealed release must be of a stage that asks something", "another")
        assert channel is not None  # noqa: S101 - for the types
        manifest = Manifest.parse(release.payload)
        manifest.require_fits(channel, release.people, 1 if self._mixer is None else 2)
        tokens = self._tokens(release, manifest)
        batch = self._path(release.stage, "batch")
        self.source.fetch(f"/v1/stages/{release.stage}/batch", batch, manifest.count * manifest.size)
        if self._mixer is not None:
            first, batch = batch, self._path(release.stage, "mixed")
            with _whole(first):
                manifest = self._mixer.mixed(release, {"batch": first, **tokens}, batch)
        if tokens:
            tokens["tokens"].unlink()
        with _whole(batch), engine(self._engine, self._workers) as chosen:
            found = open_batch(
                batch,
                manifest,
                channel,
                keys=self._keys(bundle),
                study=release.study,
                stage=release.stage,
                with_engine=chosen,
            )
        if self._counted is not None:
            self._counted(found)
        return found.histogram

    def _keys(self, bundle: Bundle) -> Mapping[bytes, SecretKey]:
        """What a batch is opened with (P4); a stage that tacit 0.8 opened has no key of its own."""
        if not bundle.keys:
            return self.ring.secrets(self._clock())
        named = KeysDocument.read(bundle.keys["learner"], party="learner", study=bundle.study, pinned=None).active.id
        return {named: self.ring.secret(named)}

    def done(self, stage: int) -> None:
        """Delete what is left of a stage's files."""
        for name in ("batch", "mixed", "tokens"):
            self._path(stage, name).unlink(missing_ok=True)

    def _tokens(self, release: ReleasePayload, manifest: Manifest) -> dict[str, Path]:
        """Refuse a batch without as many valid tokens as people (P2); the files that a mixer verifies them with."""
        if self._issued is None:
            require(manifest.tokens == NO_TOKENS, "a study without tokens must have none", "a file of them")
            return {}
        from tacit.service.tokens.token import LENGTH, require_tokens

        tokens = self._path(release.stage, "tokens")
        self.source.fetch(f"/v1/stages/{release.stage}/tokens", tokens, release.people * LENGTH)
        with _whole(tokens):
            require_tokens(tokens, manifest.tokens, self._issued(), stage=release.stage, people=release.people)
        return {"tokens": tokens, **({} if self._issuer is None else {"issuer": self._issuer})}

    def _path(self, stage: int, name: str) -> Path:
        return self.directory / f"stage-{stage}.{name}"


@contextlib.contextmanager
def _whole(path: Path) -> Iterator[None]:
    """Delete a file that is refused (P5)."""
    try:
        yield
    except InvalidInput:
        path.unlink(missing_ok=True)
        raise


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


class Worker:
    """The loop of one study; `step` does one thing and says what it came to."""

    def __init__(
        self,
        study: Study,
        shuffler: Peer,
        *,
        sealed: BatchOpener | None = None,
        issuing: IssuerLink | None = None,
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
