"""Shufflers that break one promise each: a harness that does not find them would find nothing else either."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import study_histories

import tacit.service.shuffler
import tacit.service.shuffler_internal
import tacit.service.windows
from chaos.preloaded import see

MUTANTS = ("publish first", "person twice", "no minimum", "closed lets in")


def become(mutant: str, views: Path) -> None:
    """Make the shuffler of this process a mutant."""
    kinds: dict[str, Any] = {
        "publish first": study_histories.PublishesFirst,
        "person twice": study_histories.Twice,
        "no minimum": study_histories.NoMinimum,
        "closed lets in": study_histories.LetsIn,
    }
    kind = kinds[mutant]
    if mutant == "publish first":
        kind.show = staticmethod(lambda data: see(views, data))
    if mutant == "no minimum":
        look = tacit.service.windows.look

        def careless(collector: Any) -> Any:
            found = look(collector)
            return None if found is None else replace(found, least=1)

        for module in (tacit.service.windows, tacit.service.shuffler_internal):
            module.look = careless  # type: ignore[attr-defined]
    tacit.service.shuffler.Collector = kind  # type: ignore[misc]
