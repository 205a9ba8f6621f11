"""Pins: the public keys that a person has from elsewhere, by which a device knows who speaks to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tacit.errors import require


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedKeys:
    """Public Ed25519 keys that the person has from elsewhere; what they did not sign is not believed."""

    learner: Path
    shuffler: Path
    mixer: Path | None = None
    """Pinned where a second shuffler stands in the row: then every message is sealed to it, too."""
    issuer: Path | None = None

    @classmethod
    def of(cls, files: Mapping[str, str | Path]) -> PinnedKeys:
        """The pins in these files, by party.

        >>> PinnedKeys.of({"learner": "learner.pem", "shuffler": "shuffler.pem"}).issuer is None
        True
        """
        known = {"learner", "shuffler"} <= set(files) <= {"learner", "shuffler", "mixer", "issuer"}
        hint = "and mixer or issuer, where the study has them"
        require(known, "keys of learner and shuffler must be pinned", sorted(files), hint)
        return cls(**{party: Path(file) for party, file in files.items()})
