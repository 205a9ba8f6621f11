"""Sealed releases on the learner's side: batch and tokens come onto the disk, are checked against the manifest, opened
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
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.errors import InvalidInput, require
from tacit.service.batches.decryption import OpenedBatch, open_batch
from tacit.service.batches.executors import engine
from tacit.service.encryption.documents import KeysDocument
from tacit.service.encryption.hpke import SecretKey
from tacit.service.encryption.keyring import Keyring
from tacit.service.mixer_client import MixerLink
from tacit.service.peers import Peer
from tacit.study.bundle import Bundle
from tacit.study.sealed_batches import NO_TOKENS, Manifest
from tacit.study.wire import ReleasePayload

if TYPE_CHECKING:
    from tacit.service.tokens.keys import TokenKeys


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
