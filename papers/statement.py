"""`Statement`: one figure, table or theorem of a paper, and what became of it here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Statement", "Status"]

Status = Literal["reproduced", "partly", "refuted", "not reproducible", "open"]


@dataclass(frozen=True, slots=True)
class Statement:
    """One figure, table or theorem."""

    paper: str
    name: str
    says: str
    """In our own words."""
    status: Status
    why: str
    experiment: str | None = None
    """The experiment that shows it, by the name of `python -m papers reproduce`."""
    test: str | None = None
    """The file of tests that shows it, where no experiment does."""
    under: str | None = None
    """What is refuted: under which definition or assumption it is false as printed."""
