"""Configurations of the four parties: TOML files read into frozen structs.

F1  Unknown means refused: an entry that no party knows, or of another type, is an error that names it.
F2  Paths are relative to the file that they stand in.
F3  Secrets stand in files of their own or in the environment, never in the configuration; no text that is made of a
    configuration contains one.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

import msgspec

from tacit.errors import InvalidInput, UnknownName, require

LARGEST_CONFIG: Final = 2**20
LARGEST_SECRET: Final = 4096
ORIGIN: Final = re.compile(r"https?://[a-z0-9.-]+(:[0-9]{1,5})?")
"""The origin of a web page, spelled as browsers do."""
MIN_BEARER: Final = 16
"""A bearer secret shorter than this could be guessed."""

Port: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=65_535)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=10**9)]
WholeSeconds: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=10**9)]
Engine: TypeAlias = Literal["local", "processes", "ray"]
People: TypeAlias = Literal["issuer", "known", "open"]


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a configuration (F1)."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"  # F3


class Secret(Part, frozen=True, kw_only=True):
    """Where a secret stands: in a file that only its owner reads, or in a variable of the environment."""

    file: Path | None = None
    env: str | None = None

    def __post_init__(self) -> None:
        if (self.file is None) == (self.env is None):
            raise ValueError("a secret stands either in a file or in env")

    def read(self, least: int = MIN_BEARER) -> bytes:
        """The secret, without the white space around it."""
        if self.env is not None:
            place, found = f"the variable {self.env}", os.environ.get(self.env, "").encode()
        else:
            assert self.file is not None  # noqa: S101 - by __post_init__
            place, found = str(self.file), _owned_bytes(self.file)
        secret = found.strip()
        fits = least <= len(secret) <= LARGEST_SECRET
        require(fits, f"{place} must hold a secret of {least} to {LARGEST_SECRET} bytes", "another length")
        return secret


class Listen(Part, frozen=True, kw_only=True):
    """An address to listen at; port 0 lets the kernel choose."""

    host: str = "127.0.0.1"
    port: Port = 0


class Peer(Part, frozen=True, kw_only=True):
    """Another party: its internal address and the secret that it asks for."""

    url: str
    bearer: Secret

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ValueError("a url begins with http:// or https://")


class Keys(Part, frozen=True, kw_only=True):
    """Where a party's keys stand; which of them it needs depends on the party and on the trust model."""

    sign: Path | None = None
    """Its private Ed25519 key, which signs releases, bundles or documents of keys."""
    sealing: Path | None = None
    """The directory of its HPKE key ring."""
    learner: Path | None = None
    """Pinned public Ed25519 keys of the others."""
    shuffler: Path | None = None
    mixer: Path | None = None
    issuer: Path | None = None


class Limits(Part, frozen=True, kw_only=True):
    """What one process takes on at once."""

    body: Count = 65_536
    """Bytes of a request of a device."""
    document: Count = 64 * 2**20
    """Bytes of a request of another party: bundles and documents of keys."""
    read_seconds: Seconds = 10.0
    """How long one body, or one head of a request, may take to arrive."""
    bodies: Count = 256
    """Bodies that arrive slowly at the same time; beyond them the slowest is given up."""
    connections: Count = 2000
    queue: Count = 256
    """Reports that wait for the disk; beyond them a device is asked to come back."""
    together: Count = 256
    """Reports that share one commit."""
    answer_seconds: Seconds = 30.0
    """How long a report may wait for the disk before its device is asked to come back."""
    retry_seconds: WholeSeconds = 2
    """What `Retry-After` says when there is too much to do."""
    keep_alive_seconds: WholeSeconds = 15
    drain_seconds: WholeSeconds = 20
    """How long a process that was asked to end may take."""
    backlog: Count = 4096


class _Party(Part, frozen=True, kw_only=True):
    directory: Path
    """Where the party keeps its state; one party per directory."""
    bearer: Secret
    """What callers of the internal address must send."""
    scraper: Secret | None = None
    """What must be sent for `/metrics` instead; without it the bearer secret opens them, too."""
    database: str | Secret = "sqlite"
    """"sqlite" (a file in the directory) or a URL postgresql://..., which may stand in a secret."""
    internal: Listen = Listen()
    ready: Path | None = None
    """Where the chosen addresses are written as JSON once the party listens."""
    keys: Keys = Keys()
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        if isinstance(self.database, str) and not self.database.startswith(("postgresql://", "sqlite")):
            raise ValueError("a database is 'sqlite' or begins with postgresql://")


def scraper_of(config: _Party) -> bytes | None:
    """The secret that metrics ask for; None: the bearer secret opens them, too."""
    return None if config.scraper is None else config.scraper.read()


class ShufflerConfig(_Party, frozen=True, kw_only=True):
    """The shuffler: a collector behind HTTP."""

    people: People
    """Who may report: holders of the issuer's tokens, known persons, or anybody (demonstrations only)."""
    sealed: bool
    """Whether messages are sealed to the learner, so that the shuffler only permutes (shuffle trust)."""
    mixed: bool = False
    """Whether a mixer follows, around whose key messages are sealed a second time."""
    design: Path | None = None
    """The design of the study; needed where the directory has no collector yet."""
    rehearsal: bool = False
    """Simulation noise in a new collector: for made-up people only."""
    public: Listen = Listen()
    origins: tuple[str, ...] = ()
    """Web pages whose devices may report from a browser, as "https://host" or "https://host:port"; none by default."""
    known: Path | None = None
    """The file of HMAC-ed credentials of known persons; needed with people = "known"."""
    window_seconds: WholeSeconds = 86_400
    """How long a stage stays open."""
    tick_seconds: Seconds = 1.0
    """How often windows are looked at."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.people == "known") != (self.known is not None):
            raise ValueError('known is for people = "known", and needed there')
        if self.people == "issuer" and self.keys.issuer is None:
            raise ValueError('people = "issuer" needs keys.issuer, the public key of the issuer')
        if self.mixed and not self.sealed:
            raise ValueError("mixed needs sealed")
        if not all(ORIGIN.fullmatch(origin) for origin in self.origins):
            raise ValueError("origins are addresses like https://study.example, without a path and never '*'")

    @property
    def layers(self) -> int:
        """How many layers messages are sealed in."""
        return int(self.sealed) + int(self.mixed)


class LearnerConfig(_Party, frozen=True, kw_only=True):
    """The learner: a study and a worker that plans, asks and takes."""

    shuffler: Peer
    design: Path | None = None
    """The design of the study; needed where the directory has no study yet."""
    mixer: Peer | None = None
    issuer: Peer | None = None
    sealed: bool = False
    """Whether messages are sealed to the learner."""
    tokens: bool = False
    """Whether every report carries a token of the issuer, which the learner checks again."""
    seed: int | None = None
    """Moves the coins of a learner that draws some; for rehearsals."""
    poll_seconds: Seconds = 2.0
    window_seconds: WholeSeconds = 86_400
    """How long a stage may take before the learner says so in its metrics."""
    engine: Engine = "local"
    workers: Count = 1


class IssuerConfig(_Party, frozen=True, kw_only=True):
    """The issuer of unlinkable tokens."""

    design: Path
    credentials: Path
    """The file of HMAC-ed credentials of the persons who may take part."""
    public: Listen = Listen()


class MixerConfig(_Party, frozen=True, kw_only=True):
    """A second shuffler in a row; the learner brings it what to mix, so it needs no secret of the shuffler."""

    design: Path
    engine: Engine = "local"
    workers: Count = 1


PartyConfig: TypeAlias = ShufflerConfig | LearnerConfig | IssuerConfig | MixerConfig
PARTIES: Final[dict[str, type[Any]]] = {
    "learner": LearnerConfig,
    "shuffler": ShufflerConfig,
    "issuer": IssuerConfig,
    "mixer": MixerConfig,
}
"""The parties that can be served, by name."""

Config = TypeVar("Config", bound=Part)


def read_config(path: str | Path, kind: type[Config]) -> Config:
    """The configuration of a party in a TOML file (F1, F2)."""
    place = Path(path)
    try:
        require(place.stat().st_size <= LARGEST_CONFIG, f"{place} must be a configuration", "more than a MiB")
        text = place.read_text(encoding="utf-8")
        plain = tomllib.loads(text)
    except OSError as error:
        raise InvalidInput(f"{place} must be a readable file: {error.strerror}") from error
    except ValueError as error:
        found = re.search(r"\(at ([^()]*)\)$", str(error))  # the place only: the text may hold a secret (F3)
        at = f"an error at {found[1]}" if found else type(error).__name__
        raise InvalidInput(f"{place} must be TOML: {at}") from error
    base = place.absolute().parent

    def path_in(kind: type[Any], value: Any) -> Any:
        if kind is not Path:
            raise TypeError("unsupported")
        if not isinstance(value, str) or not value:
            raise ValueError("a path is a text")
        return base / value

    try:
        return msgspec.convert(plain, type=kind, dec_hook=path_in)
    except msgspec.ValidationError as error:
        line = _line_of(text, str(error))
        where = "" if line is None else f", line {line},"
        raise InvalidInput(f"{place}{where} must be a configuration of a party: {error}") from error


def _line_of(text: str, words: str) -> int | None:
    r"""The line of a TOML text that holds the entry which these words of msgspec are about, or its table's head.

    >>> _line_of("[listen]\nport = 'x'\n", "Expected `int`, got `str` - at `$.listen.port`")
    2
    >>> _line_of("a = 1\n[listen]\nprot = 1\n", "Object contains unknown field `prot` - at `$.listen`")
    3
    """
    path = re.search(r"at `\$\.?([^`]*)`", words)
    wanted = [part for part in re.split(r"[.\[\]]+", path[1] if path else "") if part]
    unknown = re.search(r"unknown field `([^`]*)`", words)
    wanted += [unknown[1]] if unknown else []
    table: list[str] = []
    best: tuple[int, int] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        head = re.match(r"\s*\[+([^\[\]]+)\]+", line)
        table = [part.strip() for part in head[1].split(".")] if head else table
        key = re.match(r"\s*([\w.-]+)\s*=", line)
        here = table + (key[1].split(".") if key else [])
        if (head or key) and here and here == wanted[: len(here)] and (best is None or len(here) > best[0]):
            best = len(here), number
    return None if best is None else best[1]


def read_party(path: str | Path, party: str) -> Any:
    """The configuration of a party that is given by its name."""
    if party not in PARTIES:
        raise UnknownName("party", party, PARTIES)
    return read_config(path, PARTIES[party])


def database_url(config: _Party) -> str | None:
    """The URL of a party's database; None is the SQLite file in its directory."""
    found = config.database if isinstance(config.database, str) else config.database.read(least=1).decode()
    if found == "sqlite":
        return None
    require(found.startswith("postgresql://"), "a database must be 'sqlite' or begin with postgresql://", "another")
    return found


def _owned_bytes(path: Path) -> bytes:
    """The bytes of a file that only its owner reads."""
    try:
        mode = path.stat().st_mode
        require(mode & 0o077 == 0, f"{path} must be readable by its owner only", f"{mode & 0o777:04o}", "chmod 600")
        with path.open("rb") as file:
            return file.read(LARGEST_SECRET + 64)
    except OSError as error:
        raise InvalidInput(f"{path} must be a readable file: {error.strerror}") from error
