"""Views: everything that each party of a study can read, recorded while real processes run, place by place.

    run = lives(design, episodes, mixed=True)    people report one after the other; all is recorded after each report
    run = filed(design, episodes)                the same for a study of files, which has neither services nor seals
    run.seen                                     {party: {place: value}}
    run.raw                                      {party: {place: bytes}}: the same files, databases and connections as
                                                 they are, with what nobody has asked for

W1  Every listener stands behind a tap, which keeps what passes it, with the address of who sent it.
W2  All processes read one clock, a file that moves between reports only: two runs have the same moments.
W3  Recorded are tables, files, log lines, metrics, status and traffic. Left out are durations, sizes of processes, how
    often a party polls, and the `date` of answers: they differ from run to run, whatever people report.
W4  What follows from a release is marked as such (`derived`); that it follows is checked by replay. Files of messages
    and tokens are not: they are compared, opened, and searched like anything else.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from chaos.clients import Wire
from chaos.parties import Parties, fast_directory, status
from chaos.worlds import until
from tacit.service.dashboard.app import Tokens
from tacit.service.device import RemoteDevice
from tacit.service.http_client import Backoff, client
from tacit.service.tokens.admission import Enrolment
from tacit.study.collector import Collector
from tacit.study.device import Device
from tacit.study.study import Study
from tacit.study.verify import verify_study
from tacit.study.wire import Report

BEGIN, STEP = 2_000_000_000, 3_661
"""The clock of the first moment, and the seconds between two reports."""
VICTIM = 1
"""The person whose report differs: neither the first nor the last."""
POLLED = ("get_status", "status", "healthz", "metrics", "get_keys", "keys", "mix")
"""Routes that are asked again and again: how often says nothing."""
POLLS = "GET /v1/status"
UNMEASURED = re.compile(r"process_|python_|_seconds|_created|keys_age|steps_total")
LEFT_OUT = ("config.toml", "ready.json", "design.json", "lock")
DERIVED = re.compile(
    r"tables/(release|belief|quarantine|secret)/"
    r"|tables/(bundle|question|stage)/[1-9]"
    r"|files/(policy\.json|last-bundle)"
    r"|/v1/stages/[1-9]"
    r"|messages_total|log/\d+/(messages|dummies)|status/(spent|releases|ledger|worker|head|quarantined)"
    r"|dashboard/released/"
)
"""Places whose content follows from a release (W4), as everything about later stages does."""
RELEASED = re.compile(r"tables/outbox/|/v1/stages/0/questions/0/release#")
"""Places of a release itself: of a sealed stage it names files by their digests, and nothing follows from it."""
PAYLOAD = re.compile(r"tables/body/")
"""Places that hold what a person reports, as far as the party can read it."""
Place = str
Value = Any


# taps


@dataclass
class Flow:
    """One connection: who opened it, and what went up and down."""

    peer: str
    up: bytearray = field(default_factory=bytearray)
    down: bytearray = field(default_factory=bytearray)


class Tap:
    """A listener in front of another one (W1)."""

    def __init__(self, url: str) -> None:
        self.target = ("127.0.0.1", int(url.rpartition(":")[2]))
        self.flows: list[Flow] = []
        self._server = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, (peer, _) = self._server.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(self.target, source_address=(peer, 0))
            except OSError:
                near.close()
                continue
            flow = Flow(peer)
            self.flows.append(flow)
            threading.Thread(target=_pass, args=(near, far, flow), daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._server.close()

    def exchanges(self) -> list[tuple[str, bytes, bytes]]:
        """(peer, request, response) of every exchange that is complete, in the order of their connections."""
        found = []
        for flow in list(self.flows):
            pairs = zip(_messages(bytes(flow.up)), _messages(bytes(flow.down)), strict=False)
            found += [(flow.peer, request, response) for request, response in pairs]
        return found


def _pass(near: socket.socket, far: socket.socket, flow: Flow) -> None:
    """Hand on what comes from either side, until both have ended."""
    with near, far:
        down = threading.Thread(target=_pump, args=(far, near, flow.down), daemon=True)
        down.start()
        _pump(near, far, flow.up)
        down.join()


def _pump(source: socket.socket, target: socket.socket, kept: bytearray) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            kept += data  # before it is handed on, so that an answer never comes before its request
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _messages(data: bytes) -> list[bytes]:
    """The HTTP messages in one direction of a connection; one that is not complete is left out."""
    found = []
    while b"\r\n\r\n" in data:
        head, _, rest = data.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        size = int(length[1]) if length and b" 304 " not in head[:20] else 0
        assert b"chunked" not in head.lower(), head
        if len(rest) < size:
            break
        found.append(head + b"\r\n\r\n" + rest[:size])
        data = rest[size:]
    return found


# parties behind taps, with one clock


def _serve_dashboard(*words: Any) -> None:
    from chaos.preloaded import serve_dashboard

    serve_dashboard(*words)


class Tapped(Parties):
    """Parties whose peers and devices reach them through taps, with the clock of a file (W2)."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.taps: dict[tuple[str, str], Tap] = {}
        self.clock = str(self.directory / "clock")
        self.at(BEGIN)

    def at(self, moment: int) -> None:
        """Set the clock of all parties."""
        self.directory.mkdir(parents=True, exist_ok=True)
        temporary = Path(f"{self.clock}.new")
        temporary.write_text(str(moment))
        temporary.replace(self.clock)

    def public(self, party: str) -> str:
        """The address of a party for devices: its tap's."""
        return self._tapped(party, "public").url

    def begin_dashboard(self) -> None:
        """Fork a dashboard of learner and shuffler."""
        home = self.home("dashboard")
        home.mkdir()
        places = [str(self.home(party) / "config.toml") for party in ("learner", "shuffler")]
        words = (places, str(home / "tokens"), str(home / "ready.json"), str(home / "log.jsonl"), self.clock)
        made = self._context.Process(target=_serve_dashboard, args=words, daemon=True)
        made.start()
        self.forked["dashboard"] = made

    def shown(self) -> Iterator[tuple[str, bytes]]:
        """Every page of the dashboard."""
        ready = self.home("dashboard") / "ready.json"
        until(lambda: ready.is_file() or not self.alive("dashboard"), 60.0)
        assert ready.is_file(), self.last_words("dashboard")
        token = Tokens.at(self.home("dashboard") / "tokens").reader.decode()
        with contextlib.closing(
            Wire(json.loads(ready.read_bytes())["public"], {"authorization": f"Bearer {token}"})
        ) as it:
            for path in ("/v1/status", "/operator", "/officer", "/learner", "/officer/ledger.json"):
                reply = it.ask("GET", path)
                assert reply is not None, path
                assert reply.status == 200, path
                yield path, reply.body

    def stop(self) -> None:
        """End all parties, and the taps."""
        super().stop()
        for tap in self.taps.values():
            tap.close()

    def _peer(self, party: str, home: Path) -> dict[str, Any]:
        return {**super()._peer(party, home), "url": self._tapped(party, "internal").url}

    def _tapped(self, party: str, name: str) -> Tap:
        if (party, name) not in self.taps:
            self.taps[party, name] = Tap(self.addresses[party][name])
        return self.taps[party, name]


# values by place


def flat(value: Any, place: str) -> Iterator[tuple[Place, Value]]:
    """The leaves of a JSON value, by their place."""
    if isinstance(value, Mapping):
        for name in sorted(value):
            yield from flat(value[name], f"{place}/{name}")
    elif isinstance(value, list | tuple):
        yield f"{place}/length", len(value)
        for number, one in enumerate(value):
            yield from flat(one, f"{place}/{number}")
    else:
        yield place, value


def content(data: bytes, place: str) -> Iterator[tuple[Place, Value]]:
    """A document by its entries, or bytes as they are; the length of both."""
    yield f"{place}/bytes", len(data)
    try:
        plain = json.loads(data)
    except ValueError:
        yield place, data
    else:
        yield from flat(plain, place)


def tables(database: str | Path) -> Iterator[tuple[Place, Value]]:
    """Every column of every row, in the order in which they lie there."""
    with contextlib.ExitStack() as stack:
        if isinstance(database, Path):
            if not database.exists():
                return
            connection: Any = stack.enter_context(
                contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True))
            )
            names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name"
            found = [(row[0], f'"{row[0]}"') for row in connection.execute(names)]
        else:
            import psycopg

            url, _, schema = database.partition("?schema=")
            connection = stack.enter_context(psycopg.connect(url))
            listed = connection.execute(
                "SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema LIKE %s "
                "ORDER BY table_name",
                (f"{schema}%",),
            ).fetchall()
            found = [(name, f'"{where}"."{name}"') for where, name in listed]
        for name, quoted in found:
            cursor = connection.execute(f"SELECT * FROM {quoted}")  # noqa: S608 - names of tables
            columns = [column[0] for column in cursor.description]
            for number, row in enumerate(cursor.fetchall()):
                for column, value in zip(columns, row, strict=True):
                    kept = bytes(value) if isinstance(value, memoryview) else value
                    if isinstance(kept, bytes | str) and name in ("bundle", "question"):
                        data = kept if isinstance(kept, bytes) else kept.encode()
                        yield from content(data, f"tables/{name}/{number}/{column}")
                    else:
                        yield f"tables/{name}/{number}/{column}", kept


def files(home: Path) -> Iterator[tuple[Place, Value]]:
    """Every file of a party but its databases and logs."""
    for path in sorted(home.rglob("*")):
        name = str(path.relative_to(home)).removeprefix("state/")
        hidden = path.name.startswith(".") or ".db" in path.name or path.name in (*LEFT_OUT, "log.jsonl")
        if path.is_file() and not hidden:
            named = re.sub(r"[0-9a-f]{16,}", "*", name)  # digests of random files
            with contextlib.suppress(FileNotFoundError):
                yield from content(path.read_bytes(), f"files/{named}")


def log_lines(data: bytes) -> Iterator[tuple[Place, Value]]:
    """The lines of a log: events in their order, requests by what they are counted by."""
    for number, line in enumerate(row for row in data.splitlines() if b'"requests"' not in row):
        yield from flat(json.loads(line), f"log/{number}")
    for line in data.splitlines():
        row = json.loads(line)
        if row.get("event") == "requests" and row["route"] not in POLLED and row["reason"] != "draining":
            place = f"log/{row['minute']}/{row['route']}/{row['status']}/{row['reason']}"
            yield place, row["count"]


def metrics(data: bytes) -> Iterator[tuple[Place, Value]]:
    """The samples of a scrape."""
    for line in data.decode().splitlines():
        name, _, value = line.rpartition(" ")
        polled = any(f'route="{route}"' in name for route in POLLED)
        if not line.startswith("#") and not UNMEASURED.search(name) and not polled:
            yield f"metrics/{name}", value


def traffic(link: str, exchanges: Sequence[tuple[str, bytes, bytes]], only: str = "") -> Iterator[tuple[Place, Value]]:
    """What passed a tap: every part of every exchange; one that repeats the one before is left out.

    Polls are recorded while the stage is open (`only`): how many there are between its end and its release is chance.
    """
    before: dict[str, tuple[Any, ...]] = {}
    numbers: dict[str, int] = {}
    for peer, request, response in exchanges:
        asked, said = (message.partition(b"\r\n\r\n") for message in (request, response))
        first = asked[0].split(b"\r\n")[0].decode().removesuffix(" HTTP/1.1")
        if first.startswith(POLLS) != bool(only):
            continue
        same = (peer, said[0].split(b"\r\n")[0], asked[2], said[2])
        if before.get(first) == same:
            continue
        before[first] = same
        number = numbers[first] = numbers.get(first, -1) + 1
        place = f"{link}/{first}#{number}"
        yield f"{place}/peer", peer
        for name, (head, _, body) in (("request", asked), ("response", said)):
            yield f"{place}/{name}", head.split(b"\r\n")[0]
            for line in sorted(head.split(b"\r\n")[1:]):
                header, _, value = line.decode().partition(": ")
                if header.lower() not in ("date", "host"):
                    yield f"{place}/{name}/{header.lower()}", value
            yield from content(body, f"{place}/{name}/body")


# one run


@dataclass
class Run:
    """What was recorded in one run, and what an attacker may open with it."""

    design: Any
    seen: dict[str, dict[Place, Value]] = field(default_factory=dict)
    raw: dict[str, dict[Place, bytes]] = field(default_factory=dict)
    answers: list[str] = field(default_factory=list)
    envelopes: list[tuple[str, bytes]] = field(default_factory=list)
    """(address, envelope) of every report, in the order of arrival."""
    bodies: list[bytes] = field(default_factory=list)
    """What the shuffler stores of every report until the stage ends, in the order of arrival."""
    plain: list[bytes] = field(default_factory=list)
    """What every device encoded, before it was sealed, in the order of arrival."""
    moment: float = float(BEGIN + STEP * (VICTIM + 1))
    """When the person reported."""
    rings: dict[str, dict[bytes, Any]] = field(default_factory=dict)
    """Secret keys of parties, by their id."""
    replayed: bool = False


def lives(
    design: Any,
    lived: Sequence[Any],
    *,
    mixed: bool = False,
    server: Any = None,
    mutant: str = "",
    mutants: Sequence[str] = ("shuffler",),
) -> Run:
    """One run of one stage: people report one after the other, and what everybody has is recorded after each report.

    `lived` are episodes, or None for a dummy report; `server` is a PostgreSQL server, or None for SQLite; `mutant` is
    what these parties are (see `chaos.mutants`).
    """
    tokens, url = design.trust == "shuffle", None if server is None else server.database()
    options: dict[str, dict[str, Any]] = {
        "shuffler": {"tick_seconds": 0.05, "window_seconds": 10**8},
        "learner": {"seed": 5},  # its own coins say nothing about people
    }
    if url is not None:
        for party in ("shuffler", "learner", "issuer"):
            options[party] = {**options.get(party, {}), "database": f"{url}?schema={party}"}
    with (
        fast_directory() as folder,
        Tapped.new(folder / "w", design, tokens=tokens, mixed=mixed, options=options, mutant=mutant) as it,
    ):
        it.mutants = tuple(mutants)
        credentials = list(Enrolment(it.enrolment).enrol(len(lived))) if tokens else [None] * len(lived)
        it.start(*(party for party in it.parties if party != "learner"))
        it.start("learner")
        run = Run(design)
        it.until_open(0)
        it.begin_dashboard()
        _record(run, it, 0, folder, url)
        for number, (credential, episode) in enumerate(zip(credentials, lived, strict=True)):
            it.at(BEGIN + STEP * (number + 1))
            _report(run, it, folder / f"device-{number}", number, credential, episode)
            if number + 1 < len(lived):
                _polled(it)
                _record(run, it, number + 1, folder, url)
                if number == VICTIM:
                    _dashboard(run, it, f"{number + 1}/dashboard")
                looks = dict(traffic("shuffler/internal", it.taps["shuffler", "internal"].exchanges(), POLLS))
        until(lambda: status(it, "learner")["worker"]["outcome"] in ("finished", "held"), 120.0)
        _finish(run, it, folder, url)
        for party in ("shuffler", "learner", "network"):
            run.seen[party].update(looks)
        _rings(run, it)
        if server is not None:  # what the server keeps besides tables: its log, and the log that it recovers from
            kept = {f"postgresql/{path.name}": path.read_bytes() for path in _kept_by(server)}
            run.raw.setdefault("shuffler", {}).update(kept)
    return run


def _kept_by(server: Any) -> list[Path]:
    """The files of a PostgreSQL server that outlive what was deleted."""
    return [path for path in (server.directory / "output", *server.directory.glob("data/pg_wal/*")) if path.is_file()]


def filed(design: Any, lived: Sequence[Any], *, server: Any = None) -> Run:
    """One run of one stage of a study of files: what services refuse, a shuffler that reads every report."""
    url = None if server is None else server.database()
    with fast_directory() as folder:
        places = {party: folder / "w" / party for party in ("shuffler", "learner")}
        where = {party: None if url is None else f"{url}?schema={party}" for party in places}
        for place in places.values():
            place.mkdir(parents=True)
        study = Study.new(places["learner"] / "state", design, seed=5, database=where["learner"])
        collector = Collector.new(places["shuffler"] / "state", design, database=where["shuffler"])
        run = Run(design)
        bundle = study.plan()
        collector.open(bundle)

        def record(step: int) -> None:
            for party, place in places.items():
                _keep(run, party, step, place, place / "state", where[party])
            _others(run, step, folder)

        record(0)
        for number, episode in enumerate(lived):
            device = Device(folder / f"device-{number}", cap=100.0, floor=2, key=None)
            device.accept(bundle)
            report = device.cover() if episode is None else device.report(episode)
            run.plain.append(Report.parse(report).body)
            run.moment = time.time() if number == VICTIM else run.moment
            run.answers.append(collector.add(report, f"person {number:04d}"))
            if number + 1 < len(lived):
                record(number + 1)
        collector.close()
        study.take(collector.release(study.head))
        study.plan()
        record(len(lived))
        run.replayed = verify_study(places["learner"] / "state", database=where["learner"]).true
    return run


def _report(run: Run, it: Tapped, folder: Path, number: int, credential: str | None, episode: Any) -> None:
    """One device, from its first request to its last, at an address of its own."""
    over = client(transport=httpx.HTTPTransport(local_address=address(number)))
    with contextlib.closing(over):
        device = RemoteDevice(
            folder,
            shuffler=it.public("shuffler"),
            issuer=None if credential is None else it.public("issuer"),
            pins=it.pins,
            credential=credential,
            name=None if credential is not None else f"person {number:04d}",
            cap=100.0,
            floor=2,
            backoff=Backoff(first=0.05, most=0.4),
            over=over,
        )
        device.refresh()
        if credential is not None:
            until(device.join, 30.0)
        if episode is None:
            device.cover()
        else:
            device.report(episode)
        run.plain.append(Report.parse(device.core.sent()).body)
        run.answers.append(device.send(within=60.0))


def address(number: int) -> str:
    """The address of a person's device."""
    return f"127.66.77.{number + 10}"


def _polled(it: Tapped) -> None:
    """Wait until the learner has looked twice: then it has seen what there is to see."""
    tap = it.taps["shuffler", "internal"]
    before = _looks(tap)
    until(lambda: _looks(tap) >= before + 2, 60.0)
    time.sleep(0.06)  # the shuffler's own tick


def _looks(tap: Tap) -> int:
    return sum(bytes(flow.down).count(b"HTTP/1.1 200") for flow in list(tap.flows))


def _record(run: Run, it: Tapped, step: int, folder: Path, url: str | None) -> None:
    """What everybody has after a step."""
    for party in it.parties:
        _keep(run, party, step, it.home(party), it.state(party), f"{url}?schema={party}" if url else None)
        with contextlib.closing(it.internally(party)) as wire:
            for path, read in (("/metrics", metrics), ("/v1/status", lambda body: content(body, "status"))):
                reply = wire.ask("GET", path)
                if reply is not None and reply.status == 200:
                    for reader, place in ((party, f"{step}"), ("operator", f"{step}/{party}")):
                        found = {f"{place}/{name}": value for name, value in read(reply.body)}
                        run.seen.setdefault(reader, {}).update(found)
                        run.raw.setdefault(reader, {})[f"{place}{path}"] = reply.body
    _others(run, step, folder)


def _dashboard(run: Run, it: Tapped, place: str) -> None:
    """What the operator is shown."""
    for path, body in it.shown():
        run.seen["operator"].update(content(body, f"{place}{path}"))
        run.raw["operator"][f"{place}{path}"] = body


def _keep(run: Run, party: str, step: int, home: Path, state: Path, url: str | None) -> None:
    """The files and tables of a party after a step."""
    kept: dict[Place, Value] = dict(files(home))
    for database in [url] if url else sorted(state.glob("*.db")):
        kept |= dict(tables(database))
    run.seen.setdefault(party, {}).update({f"{step}/{place}": value for place, value in kept.items()})
    run.raw.setdefault(party, {}).update({f"{step}/{place}": data for place, data in _bytes_of(home)})
    if party == "shuffler":
        bodies = [value for place, value in kept.items() if re.fullmatch(r"tables/body/\d+/bytes", place)]
        run.bodies = bodies or run.bodies


def _bytes_of(folder: Path) -> Iterator[tuple[Place, bytes]]:
    """Every file as it is, databases and what lies beside them too."""
    for path in sorted(folder.rglob("*")):
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            yield str(path.relative_to(folder)), path.read_bytes()


def _others(run: Run, step: int, folder: Path) -> None:
    """What the devices of other people have."""
    for path in sorted(folder.glob("device-*")):
        if path.name != f"device-{VICTIM}":
            kept = {f"{step}/{path.name}/{place}": value for place, value in files(path)}
            run.seen.setdefault("device", {}).update(kept)
            kept = {f"{step}/{path.name}/{place}": data for place, data in _bytes_of(path)}
            run.raw.setdefault("device", {}).update(kept)


def _finish(run: Run, it: Tapped, folder: Path, url: str | None) -> None:
    """The last records: what was released and learned, logs, and everything that passed the taps."""
    _record(run, it, len(run.answers), folder, url)
    _dashboard(run, it, f"{len(run.answers)}/dashboard/released")
    learner = f"{url}?schema=learner" if url else None
    run.replayed = verify_study(it.state("learner"), database=learner).true
    for party in reversed(it.parties):  # whoever asks others ends first
        assert it.end(party) == 0, it.last_words(party)
        log = (it.home(party) / "log.jsonl").read_bytes()
        shown = dict(log_lines(log))
        run.seen[party].update(shown)
        run.seen["operator"].update({f"{party}/{place}": value for place, value in shown.items()})
        run.raw[party]["log"] = run.raw["operator"][f"{party}/log"] = log
    for (party, name), tap in it.taps.items():
        exchanges = tap.exchanges()
        passed = dict(traffic(f"{party}/{name}", exchanges))
        for reader in {party, "network", *(("learner",) if name == "internal" else ())}:
            run.seen.setdefault(reader, {}).update(passed)
            for number, flow in enumerate(list(tap.flows)):
                run.raw.setdefault(reader, {})[f"{party}/{name}/{number}"] = bytes(flow.up) + bytes(flow.down)
        if (party, name) == ("shuffler", "public"):
            sent = [(peer, asked) for peer, asked, _ in exchanges if asked.startswith(b"POST /v1/reports")]
            run.envelopes = [(peer, asked.partition(b"\r\n\r\n")[2]) for peer, asked in sent]


def _rings(run: Run, it: Tapped) -> None:
    from tacit.service.encryption.keyring import Keyring

    for party in it.parties:
        for path in it.home(party).rglob("keyring.json"):
            run.rings[party] = dict(Keyring(path.parent).secrets(float(BEGIN)))
