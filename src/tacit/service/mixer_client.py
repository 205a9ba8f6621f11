"""The learner's link to a mixer: its keys go to devices through the shuffler, batches go there and come back mixed.

The work is `tacit.service.mixer.mixed_by`; here are the address, the secret, the pinned key, and what a mixer that
does not answer means.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import httpx

from tacit.service.mixer import mixed_by
from tacit.service.peers import Peer, Unreachable
from tacit.study.sealed_batches import Manifest
from tacit.study.wire import ReleasePayload

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
