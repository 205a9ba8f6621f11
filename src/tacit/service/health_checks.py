"""A check-up of a party before and while it runs: keys, clocks, disk, sizes of batches, tables and ledger.

X1  Looking changes nothing: databases are read, no key is made, nobody but the shuffler's internal address is asked.
X2  A check that cannot be made has failed; what is merely odd is a warning.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from tacit.errors import InvalidInput, TacitError, require
from tacit.service.config import LearnerConfig, PartyConfig, ShufflerConfig, database_url
from tacit.service.encryption.keyring import Keyring
from tacit.service.stage_windows import look
from tacit.study.collector import Collector
from tacit.study.contract import Head, read_design_file
from tacit.study.databases import database_at
from tacit.study.sealed_batches import body_size
from tacit.study.study import Study

State = Literal["ok", "warning", "failed"]
SAMPLE: Final = 0.2
"""Seconds over which two clocks are compared."""
DRIFT: Final = 0.05
AHEAD: Final = 120.0
"""Seconds that a file may be younger than now."""
OLD_KEYS: Final = 90 * 86_400
BESIDE: Final = 600
"""Bytes that a report takes beside its body: ids, pseudonyms, indices, the token."""
COPIES: Final = 3
"""A body stands in the table, in the log and, sealed, in the batch."""
MIN_ROOM: Final = 64 * 2**20
EARLIEST: Final = 1_700_000_000
"""No clock is before this second: tacit is younger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check came to."""

    check: str
    state: State
    words: str

    def to_dict(self) -> dict[str, str]:
        """JSON-ready values."""
        return {"check": self.check, "state": self.state, "words": self.words}


def check_up(
    config: PartyConfig,
    *,
    head: Head | None = None,
    wall: Callable[[], float] = time.time,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Finding]:
    """All findings about a party; `head` is the place in the ledger that the learner has seen (for a shuffler)."""
    checks: dict[str, Callable[[], Iterator[Finding]]] = {
        "secrets": lambda: _secrets(config),
        "keys": lambda: _keys(config, wall()),
        "clock": lambda: _clock(config, wall, monotonic, sleep),
        "disk": lambda: _disk(config),
    }
    if isinstance(config, ShufflerConfig):
        checks |= {"database": lambda: _collector(config, head, wall()), "batch": lambda: _batch(config, wall())}
    if isinstance(config, LearnerConfig):
        checks |= {"database": lambda: _study(config), "shuffler": lambda: _peer(config)}
    found: list[Finding] = []
    for name, check in checks.items():
        try:
            found.extend(check())
        except TacitError as error:
            found.append(Finding(check=name, state="failed", words=str(error)))
        except OSError as error:
            found.append(Finding(check=name, state="failed", words=f"{error.strerror}"))
    return found


def stage_room(collector: Collector) -> int:
    """The bytes of the disk that a stage of this collector takes at the most."""
    needed = MIN_ROOM
    for channel in collector.channels:
        body = body_size(channel, collector.layers) if collector.layers else channel.body_size
        needed = max(needed, channel.target * (COPIES * body + BESIDE))
    return needed


def _secrets(config: PartyConfig) -> Iterator[Finding]:
    config.bearer.read()
    yield Finding(check="secrets", state="ok", words="the bearer secret is readable by its owner only")


def _keys(config: PartyConfig, now: float) -> Iterator[Finding]:
    from tacit.runs.signature import examine, sign

    keys = config.keys
    if keys.sign is None:
        yield Finding(check="keys", state="warning", words="keys.sign is not given: what leaves is unsigned")
    else:
        mode = keys.sign.stat().st_mode & 0o777
        require(mode & 0o077 == 0, f"{keys.sign} must be readable by its owner only", f"{mode:04o}", "chmod 600")
        sign({"check": "up"}, keys.sign)
        yield Finding(check="keys", state="ok", words="the signing key signs")
    for name in ("learner", "shuffler", "mixer", "issuer"):
        pinned: Path | None = getattr(keys, name)
        if pinned is not None:
            examine({}, pinned)
            yield Finding(check="keys", state="ok", words=f"the pinned key of the {name} is readable")
    place = config.directory / "sealing" if keys.sealing is None else keys.sealing
    if not (place / "keyring.json").exists():
        if keys.sealing is not None or config.directory.exists():
            yield Finding(check="keys", state="warning", words="there is no ring of sealing keys yet")
        return
    ring = Keyring(place)
    usable, states = ring.secrets(now), ring.states()
    require(ring.active in usable, "the active sealing key must be usable", "an expired one")
    over = [name for name in states if name not in usable]
    words = f"{len(usable)} sealing keys are usable, serial {ring.serial}"
    yield Finding(check="keys", state="ok", words=words)
    if over:
        words = f"{len(over)} sealing keys have expired and are still there: delete them by a rotation"
        yield Finding(check="keys", state="warning", words=words)
    if now - (place / "keyring.json").stat().st_mtime > OLD_KEYS:
        yield Finding(check="keys", state="warning", words="the sealing keys are older than 90 days: rotate them")


def _clock(
    config: PartyConfig, wall: Callable[[], float], monotonic: Callable[[], float], sleep: Callable[[float], None]
) -> Iterator[Finding]:
    before = wall(), monotonic()
    sleep(SAMPLE)
    drift = (wall() - before[0]) - (monotonic() - before[1])
    now = wall()
    require(now > EARLIEST, "the clock must show the present", "a time long ago", "set it")
    require(abs(drift) < DRIFT, "the clock must run as fast as time does", f"{drift:+.3f} s in {SAMPLE} s")
    if config.directory.is_dir():
        youngest = max((path.stat().st_mtime for path in config.directory.iterdir()), default=0.0)
        ahead = int(youngest - now)
        hint = "the clock was set back; set it right before a window is judged by it"
        require(youngest <= now + AHEAD, "no file of the party may be of the future", f"one {ahead} s ahead", hint)
    yield Finding(check="clock", state="ok", words="the clock runs, and nothing is of its future")


def _disk(config: PartyConfig) -> Iterator[Finding]:
    place = config.directory
    while not place.exists():
        place = place.parent
    free, needed = shutil.disk_usage(place).free, MIN_ROOM
    if isinstance(config, ShufflerConfig) and database_at(config.directory, database_url(config)).exists("collector"):
        needed = stage_room(Collector(config.directory, database=database_url(config)))
    require(free >= needed, f"the disk must have {needed // 2**20} MiB for a stage", f"{free // 2**20} MiB")
    words = f"{free // 2**20} MiB are free, a stage needs {needed // 2**20} at the most"
    yield Finding(check="disk", state="ok", words=words)


def _collector(config: ShufflerConfig, head: Head | None, now: float) -> Iterator[Finding]:
    url = database_url(config)
    if not database_at(config.directory, url).exists("collector"):
        require(config.design is not None, "design must name the design of the study", "none, and no collector yet")
        yield Finding(check="database", state="warning", words="there is no collector yet: the first start makes one")
        return
    collector = Collector(config.directory, database=url, key=config.keys.sign, learner=config.keys.learner)
    yield Finding(check="database", state="ok", words="the tables are of this version")
    require(collector.layers == config.layers, f"this collector is sealed in {collector.layers} layers", config.layers)
    if config.design is not None:
        _same_design(config.design, collector.design.digest)
    collector.verify(head)
    words = "ledger and releases belong together"
    yield Finding(check="ledger", state="ok", words=words + ("" if head is None else ", and hold the learner's head"))
    if collector.noise == "simulation":
        words = "simulation noise gives no privacy: use it for simulated people only"
        yield Finding(check="noise", state="warning", words=words)


def _batch(config: ShufflerConfig, now: float) -> Iterator[Finding]:
    url = database_url(config)
    if not database_at(config.directory, url).exists("collector"):
        return
    collector = Collector(config.directory, database=url)
    certificate = collector.certificate()
    least = min(channel.least for channel in collector.channels)
    words = f"nothing is released of fewer than {least} people; certified epsilon {certificate.epsilon:.4g}"
    yield Finding(check="batch", state="ok", words=words)
    seen = look(collector)
    if seen is None or seen.state != "open" or seen.ends is None:
        return
    left = seen.ends - now
    hint = "the clock was set back, or the window was longer when the stage opened"
    fits = left <= config.window_seconds + AHEAD
    require(fits, "the end of a window must be at most a window away", f"{int(left)} s", hint)
    words = (
        f"stage {seen.stage} has {seen.reports} of {seen.least} to {seen.target} reports, {int(max(left, 0))} s left"
    )
    low = seen.reports < seen.least and left < config.window_seconds / 10
    yield Finding(check="batch", state="warning" if low else "ok", words=words)


def _study(config: LearnerConfig) -> Iterator[Finding]:
    url = database_url(config)
    if not database_at(config.directory, url).exists("study"):
        require(config.design is not None, "design must name the design of the study", "none, and no study yet")
        yield Finding(check="database", state="warning", words="there is no study yet: the first start makes one")
        return
    study = Study(config.directory, database=url)
    yield Finding(check="database", state="ok", words=f"the tables are of this version; head {study.head.number}")
    if config.design is not None:
        _same_design(config.design, study.design.digest)


def _peer(config: LearnerConfig) -> Iterator[Finding]:
    """Whether the shuffler answers, is of this study, and knows what the learner has seen."""
    import httpx

    secret = config.shuffler.bearer.read().decode("ascii", "replace")
    try:
        with httpx.Client(timeout=5.0, headers={"authorization": f"Bearer {secret}"}) as client:
            reply = client.get(config.shuffler.url.rstrip("/") + "/v1/status")
    except httpx.HTTPError:
        words = "the shuffler does not answer at its internal address: the learner starts, and asks again until it does"
        yield Finding(check="shuffler", state="warning", words=words)
        return
    require(reply.status_code == 200, "the shuffler must answer", f"status {reply.status_code}", "is the secret right?")
    try:
        status: dict[str, Any] = reply.json()
        study, ledger = str(status["study"]), Head.from_text(str(status["ledger"]))
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput("the shuffler must answer with its status, got something else") from error
    url = database_url(config)
    if database_at(config.directory, url).exists("study"):
        mine = Study(config.directory, database=url)
        require(study == mine.design.digest, "the shuffler must collect for this study", "another study")
        hint = "it was restored from an older copy; go on with the newest one"
        fits = ledger.number >= mine.head.number
        must = f"the shuffler's ledger must reach the learner's head {mine.head.number}"
        require(fits, must, ledger.number, hint)
    yield Finding(check="shuffler", state="ok", words="the shuffler answers, and its ledger reaches the learner's head")


def _same_design(path: Path, digest: str) -> None:
    require(
        read_design_file(path).digest == digest, f"{path} must be the design that this party began with", "another one"
    )
