"""Places to watch: the directory of a study, of a collector, or of both, or the configurations of their services.

Acts of a dashboard: close a stage, give it up, end the study. The objects of the parties decide whether they may.

Where the collector is watched it is asked itself; where only a served learner is, its shuffler is. Every act names the
stage that its page showed, so that an old page does not close a new stage.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tacit.errors import InvalidInput, TacitError, require
from tacit.service.config import Keys, LearnerConfig, ShufflerConfig, database_url, read_config
from tacit.service.http_client import Peer, Unreachable
from tacit.service.stage_windows import close_stage, void_stage
from tacit.study.collector import Collector
from tacit.study.contract import Design
from tacit.study.databases import database_at
from tacit.study.study import Study

INSIDE: Final = ("learner/config.toml", "shuffler/config.toml", "study", "collector")
"""Where parties stand in a directory of several."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class WatchedParty:
    """One party: its object, where its files are, and where its keys are."""

    party: Study | Collector
    directory: Path
    database: str | None
    keys: Keys
    peer: Peer | None = None
    """The shuffler of a learner that is served."""

    @property
    def name(self) -> str:
        """What the party is called."""
        return "study" if isinstance(self.party, Study) else "collector"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Watched:
    """What is watched: a study, its collector, or both."""

    places: tuple[WatchedParty, ...]
    simulated: bool
    """Whether people are simulated, so that their returns are simulation only."""

    @property
    def study(self) -> Study | None:
        """The learner's side, if it is watched."""
        return next((place.party for place in self.places if isinstance(place.party, Study)), None)

    @property
    def collector(self) -> Collector | None:
        """The collector's side, if it is watched."""
        return next((place.party for place in self.places if isinstance(place.party, Collector)), None)

    @property
    def design(self) -> Design:
        """The public plan."""
        return self.places[0].party.design

    @property
    def shuffler(self) -> Peer | None:
        """The shuffler's internal address, where the learner's configuration names it."""
        return next((place.peer for place in self.places if place.peer is not None), None)

    @property
    def rehearsal(self) -> bool:
        """Whether what is shown is about simulated people: said by whoever serves, or by the noise of the collector."""
        return self.simulated or (self.collector is not None and self.collector.noise == "simulation")


def watch(paths: Sequence[str | Path], *, simulated: bool = False) -> Watched:
    """Open what stands at these paths: at most one study and one collector, of the same design."""
    places = tuple(place for path in paths for place in _places(Path(path)))
    names = [place.name for place in places]
    hint = "give the directory of a study, of a collector, or the configuration of a learner or shuffler"
    require(bool(names), "there must be a study or a collector to watch", "none", hint)
    require(len(set(names)) == len(names), "one study and one collector can be watched", f"{len(names)} places")
    same = len({place.party.design.digest for place in places}) == 1
    require(same, "study and collector must have the same design", "two designs")
    if len(places) > 1:  # what both know is asked of the collector itself
        places = tuple(replace(place, peer=None) for place in places)
    return Watched(places=places, simulated=simulated)


def _places(path: Path) -> Iterator[WatchedParty]:
    if path.is_file():
        yield _configured(path)
        return
    require(path.is_dir(), f"{path} must be a directory or a configuration (TOML)", "neither")
    found = list(_in_directory(path))
    for name in () if found else INSIDE:
        inner = path / name
        if inner.is_file():
            yield _configured(inner)
        elif inner.is_dir():
            yield from _in_directory(inner)
    yield from found


def _in_directory(path: Path) -> Iterator[WatchedParty]:
    """The parties whose files stand in a directory itself."""
    where = database_at(path, None)
    if where.exists("study"):
        yield WatchedParty(party=Study(path), directory=path, database=None, keys=Keys())
    if where.exists("collector"):
        yield WatchedParty(party=Collector(path), directory=path, database=None, keys=Keys())


def _configured(path: Path) -> WatchedParty:
    """The party of a service's configuration, with the keys that it names."""
    config: Any = read_config(path, _kind(path))
    url, keys = database_url(config), config.keys
    if isinstance(config, ShufflerConfig):
        require(
            database_at(config.directory, url).exists("collector"),
            f"the shuffler of {path} must have begun to collect",
            "no collector",
            "start it first",
        )
        collector = Collector(config.directory, database=url)
        return WatchedParty(party=collector, directory=config.directory, database=url, keys=keys)
    require(
        database_at(config.directory, url).exists("study"),
        f"the learner of {path} must have begun its study",
        "no study",
        "start it first",
    )
    study = Study(config.directory, database=url)
    peer = Peer(config.shuffler.url, config.shuffler.bearer.read())
    return WatchedParty(party=study, directory=config.directory, database=url, keys=keys, peer=peer)


def _kind(path: Path) -> type[ShufflerConfig] | type[LearnerConfig]:
    """Whose configuration a file is, by an entry that only that party has."""
    try:
        plain = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} must be a configuration in TOML: {type(error).__name__}") from error
    if "people" in plain:
        return ShufflerConfig
    hint = "issuer and mixer have nothing to show"
    require("shuffler" in plain, f"{path} must be the configuration of a learner or a shuffler", "another", hint)
    return LearnerConfig


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
