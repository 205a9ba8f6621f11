"""The learner's link to the issuer: a stage's key is made before the stage is asked, and handed to everybody at once.

J1  The issuer's document goes to devices through the shuffler, one for everybody: an issuer with a key per person could
    tell people apart (`tacit.service.tokens.keys`, K2). The learner refuses one that contradicts what it has seen.
J2  Done again, nothing changes: a stage has one key, and the document of a serial is the same bytes.
J3  When a stage is over its secret key is deleted at the issuer.
"""

from __future__ import annotations

from pathlib import Path

from tacit.errors import InvalidInput, require
from tacit.runs.storage_paths import write_private
from tacit.service.peers import Peer
from tacit.service.tokens.keys import TokenKeys


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
