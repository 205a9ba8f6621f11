"""A device's wallet: one token per stage, asked for blindly and kept until it was sent.

    accept(document) -> request(stage) -> ... the issuer signs ... -> finish(stage, reply) -> token

A1  Frozen before the first send: `request` writes nonce, blinding and blinded message to the disk before it returns
    them, and returns the same bytes ever after, whatever was answered; an issuer signs one blinded message per stage.
A2  One token per stage. A token that verified is kept, and what links it to the request is deleted with the same write.
A3  Keys are consistent (keys, K2): another key for a stage that was seen, or a lower serial, is refused.
A4  Nothing that was kept can be read by others of the machine (mode 0600), and no error contains any of it.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, Final

from tacit.errors import require
from tacit.runs.signature import canonical
from tacit.runs.storage import check_writable, read_json
from tacit.runs.storage_paths import write_private
from tacit.service.tokens.keys import TokenKeys
from tacit.service.tokens.token_request import Asked

STATE: Final = "wallet.json"


class Wallet:
    """The tokens of one person in one study; `directory` None forgets them with the process."""

    def __init__(self, directory: str | Path | None, *, study: bytes, issuer: str | Path) -> None:
        """A wallet that believes documents signed by `issuer`, the pinned public key."""
        self.study, self.issuer = study, Path(issuer)
        self.directory = None if directory is None else Path(directory)
        self.kept: dict[str, Any] = {"study": study.hex(), "document": None, "stages": {}}
        if self.directory is not None:
            check_writable(self.directory)
            if (self.directory / STATE).is_file():
                self.kept = read_json(self.directory / STATE)
                same = self.kept.get("study") == study.hex()
                require(same, "a wallet must be of this study", "another study", "use another directory")
        text = self.kept["document"]
        self.keys = None if text is None else TokenKeys.parse(text.encode(), study=study, pinned=self.issuer)

    def accept(self, document: bytes) -> TokenKeys:
        """Use the keys of this document from now on, or refuse it and change nothing (A3)."""
        keys = TokenKeys.parse(document, study=self.study, pinned=self.issuer).after(self.keys)
        if self.keys is None or keys.serial > self.keys.serial:
            self._keep({**self.kept, "document": document.decode()})
            self.keys = keys
        return keys

    def request(self, stage: int) -> bytes:
        """The body of `POST /v1/tokens` for a stage: the same bytes every time (A1)."""
        require(not self.token(stage), "a token is asked for once", f"one for stage {stage}", "send the kept one")
        asked = self._asked(stage)
        if asked is None:
            require(self.keys is not None, "a wallet must accept the issuer's document before it asks", "none")
            assert self.keys is not None  # noqa: S101 - for the types
            asked = Asked.new(self.keys, stage)
            self._keep_stage(stage, {"asked": asked.encode().decode()})
        return asked.body

    def finish(self, stage: int, reply: bytes) -> bytes:
        """The token, from what the issuer replied; refused, and the request kept, unless it verifies (A2)."""
        if self.token(stage):
            return self.token(stage)
        asked = self._asked(stage)
        require(asked is not None, "a token must be asked for before it is finished", f"none for stage {stage}")
        assert asked is not None  # noqa: S101 - for the types
        token = asked.finish(reply)
        self._keep_stage(stage, {"token": base64.b64encode(token).decode()})
        return token

    def token(self, stage: int) -> bytes:
        """The finished token of a stage, or nothing."""
        entry = self.kept["stages"].get(str(stage), {})
        return base64.b64decode(entry.get("token", ""))

    def forget(self, before: int) -> None:
        """Delete everything about stages before this one: they are over."""
        stages = {name: entry for name, entry in self.kept["stages"].items() if int(name) >= before}
        if stages != self.kept["stages"]:
            self._keep({**self.kept, "stages": stages})

    def _asked(self, stage: int) -> Asked | None:
        """What was asked for a stage, as long as its token is not there."""
        text = self.kept["stages"].get(str(stage), {}).get("asked")
        return None if text is None else Asked.decode(text.encode())

    def _keep_stage(self, stage: int, entry: dict[str, str]) -> None:
        self._keep({**self.kept, "stages": {**self.kept["stages"], str(stage): entry}})

    def _keep(self, after: dict[str, Any]) -> None:
        """Write down, then believe."""
        if self.directory is not None:
            write_private(self.directory / STATE, canonical(after))
        self.kept = after
