"""Acts of a dashboard: close a stage, give it up, end the study. The objects of the parties decide whether they may.

Where the collector is watched it is asked itself; where only a served learner is, its shuffler is. Every act names the
stage that its page showed, so that an old page does not close a new stage.
"""

from __future__ import annotations

from tacit.errors import InvalidInput, TacitError, require
from tacit.service.dashboard.watched import Watched
from tacit.service.peers import Unreachable
from tacit.service.stage_windows import close_stage, void_stage
from tacit.study.study import Study

LONGEST = 200


def close(watched: Watched, stage: int) -> str:
    """Close the open stage, if enough reports are in."""
    if watched.collector is not None:
        n = close_stage(watched.collector, stage)
        return f"stage {stage} is closed with {n} reports"
    _post(watched, f"/v1/stages/{stage}/close", b"")
    return f"stage {stage} is closed"


def void(watched: Watched, stage: int, reason: str) -> str:
    """Give the open stage up: the collector first, since it may have released by now."""
    words, study = _reason(reason, "given up"), watched.study
    held = study is not None and bool(study.status()["quarantined"])
    if watched.collector is not None and not held:
        void_stage(watched.collector, stage, words)
    elif watched.shuffler is not None and not held:
        _post(watched, f"/v1/stages/{stage}/void", words.encode())
    if study is not None:
        _void_study(study, stage, words)
    return f"stage {stage} is void"


def kill(watched: Watched, reason: str) -> str:
    """End the study for good."""
    study = watched.study
    require(study is not None, "the kill switch is the learner's", "a collector", "watch the study, too")
    assert study is not None  # noqa: S101 - for the types
    study.kill(_reason(reason, "ended"))
    return "the study is ended: its next bundle tells devices to fall back and to send nothing"


def _void_study(study: Study, stage: int, reason: str) -> None:
    """The learner's side of a void stage; its worker may have noticed first."""
    last = study.status()["stages"]
    require(bool(last) and last[-1]["stage"] == stage, "the last stage must be this one", "another")
    try:
        study.void(reason)
    except TacitError:
        if study.status()["stages"][stage]["state"] != "void":
            raise


def _post(watched: Watched, path: str, content: bytes) -> None:
    peer = watched.shuffler
    if peer is None:
        raise InvalidInput("a stage is closed where its reports are: watch the collector, or serve the learner")
    try:
        peer.post(path, content)
    except Unreachable as error:
        raise InvalidInput(f"the shuffler must answer at its internal address, got {error.word}") from error


def _reason(text: str, default: str) -> str:
    found = text.strip() or default
    fits = len(found) <= LONGEST and found.isprintable()
    require(fits, f"a reason must have at most {LONGEST} characters in one line", "another")
    return found
