"""A whole study over HTTP on one machine, with simulated people: what `tacit serve demo` shows.

Shuffler, issuer and learner are real processes on loopback, each with its own directory, database and keys; people are
simulated (they swim in RiverSwim) and their devices talk to the parties over HTTP, with tokens, envelopes and, under
shuffle trust, sealed messages. Noise comes from the operating system.

The page of a demonstration, on loopback: a person plays RiverSwim in a browser and takes part in the study.

The page is the device of `js/tacit-device` as it stands there. It comes from a party of its own, which neither shuffles
nor learns, under a policy that lets it load its own files and talk to the shuffler.

P1  Only files of the device are served, by their names; whatever else is asked for is not found.
P2  The page answers nobody but this machine, and keeps nothing.

Simulated people of a demonstration: a slice of them lives one stage, each with a device of its own over HTTP.

Devices keep their state in memory here: thousands on one disk would measure the disk. Some people stay away and some
send a cover report; everybody takes a token at another time than the report is sent.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np

from tacit.accounting.certificate import Certificate
from tacit.accounting.claims import Trust
from tacit.accounting.composition import epsilon_of
from tacit.environments.registry import make
from tacit.errors import InvalidInput, NotSupported, TacitError, UnknownName, require, require_count
from tacit.policies.named import NamedPolicy
from tacit.service.device import PinnedKeys, RemoteDevice
from tacit.service.http_client import Backoff, async_client, converse_all
from tacit.service.loopback import Loopback
from tacit.service.tokens.admission import Enrolment
from tacit.study.demo import ACTIONS, AWAY, COVERED, STATES, live
from tacit.study.design import StudyDesign, plan_study
from tacit.system import cores

TYPES: Final = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
STUDY: Final = "/demo/study.json"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self' http://127.0.0.1:*; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HERE: Final = Path(__file__).parents[1]
PLACES: Final = (HERE / "pages" / "device", HERE.parents[1] / "js" / "tacit-device")
"""The device in an installed package, and in a checkout."""


def device_files() -> dict[str, Path]:
    """The files of the device in the browser, by the addresses at which they are served (P1).

    >>> {"/index.js", "/demo/index.html", "/demo/page.js"} <= set(device_files())
    True
    """
    for place in PLACES:
        if (place / "index.js").is_file():
            found = (path for path in sorted(place.rglob("*")) if path.suffix in TYPES)
            named = {f"/{path.relative_to(place).as_posix()}": path for path in found}
            return {name: path for name, path in named.items() if not name.startswith("/test/")}
    raise NotSupported("this installation has no device for browsers: take js/tacit-device from the repository")


class DemoPage:
    """Where the page is, and the study that it asks for."""

    def __init__(self, port: int) -> None:
        self.origin = f"http://127.0.0.1:{port}"
        self.url = f"{self.origin}/demo/"
        self.study: bytes | None = None

    def tell(self, *, shuffler: str, pins: Mapping[str, str], cap: float, floor: int) -> None:
        """Where the study is and whom it trusts; `cap` and `floor` are the person's own limits."""
        self.study = json.dumps({"shuffler": shuffler, "pins": dict(pins), "cap": cap, "floor": floor}).encode()


@contextmanager
def serve_page() -> Iterator[DemoPage]:
    """Serve the page until the block ends, at a port that the kernel chooses (P2)."""
    files = device_files()

    class Handler(BaseHTTPRequestHandler):
        """Answers GET, and nothing else."""

        def do_GET(self) -> None:
            """A file of the device, or the study."""
            asked = "/demo/index.html" if self.path in ("/", "/demo/") else self.path
            if asked == STUDY and page.study is not None:
                self._answer(200, "application/json", page.study)
            elif asked in files:
                self._answer(200, TYPES[files[asked].suffix], files[asked].read_bytes())
            else:
                self._answer(404, "text/plain", b"not found")

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", f"{kind}; charset=utf-8")
            self.send_header("content-length", str(len(body)))
            self.send_header("content-security-policy", POLICY)
            self.send_header("x-content-type-options", "nosniff")
            self.send_header("referrer-policy", "no-referrer")
            self.send_header("cache-control", "no-store")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            """Nobody is written down."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        page = DemoPage(int(server.server_address[1]))
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield page
        finally:
            server.shutdown()
            thread.join(10)


AT_ONCE: Final = 8
"""Devices that talk at the same time; with more, the client looks through its connections more than it sends."""
PATIENCE: Final = 120.0
"""Seconds that a device tries to send."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Some people of one stage, and where their devices go."""

    shuffler: str
    issuer: str | None
    pins: PinnedKeys
    credentials: Sequence[str]
    """One per person; without an issuer, their names."""
    seed: Sequence[int]
    """Moves what they live through, never the noise."""
    cap: float
    floor: int
    """The limits of their devices."""
    spare: int
    """So many may stay away at most: the others are enough for a release, however few people there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lived:
    """What became of a slice: numbers only."""

    answers: dict[str, int]
    returns: float
    """The sum of their returns: simulation only."""
    people: int
    """How many of them reported what they lived through."""


def live_stage(part: Slice) -> Lived:
    """Let a slice of people live one stage."""
    return asyncio.run(_live_stage(part))


async def _live_stage(part: Slice) -> Lived:
    rng, world = np.random.default_rng(list(part.seed)), make("riverswim")
    away = np.flatnonzero(rng.random(len(part.credentials)) < AWAY)[: part.spare].tolist()
    devices = [_device(part, credential) for i, credential in enumerate(part.credentials) if i not in away]
    returns, people = 0.0, 0
    async with async_client(AT_ONCE) as over:
        _require(await converse_all((device.refreshing() for device in devices), over, at_once=AT_ONCE))
        _require(await converse_all((device.joining() for device in devices), over, at_once=AT_ONCE))
        for device in devices:
            if rng.random() < COVERED:
                device.cover()
            else:
                lived = live(device, world, rng)
                device.report(lived)
                returns, people = returns + float(sum(lived["rewards"])), people + 1
        sent = _require(await converse_all((device.sending(PATIENCE) for device in devices), over, at_once=AT_ONCE))
    return Lived(answers=dict(Counter(str(word) for word in sent)), returns=returns, people=people)


def _device(part: Slice, credential: str) -> RemoteDevice:
    return RemoteDevice(
        None,
        shuffler=part.shuffler,
        issuer=part.issuer,
        pins=part.pins,
        credential=None if part.issuer is None else credential,
        name=credential if part.issuer is None else None,
        cap=part.cap,
        floor=part.floor,
        backoff=Backoff(first=0.1, most=5.0),
    )


def _require(results: Sequence[object]) -> Sequence[object]:
    """Raise the first refusal: in a demonstration there should be none."""
    for result in results:
        if isinstance(result, TacitError):
            raise InvalidInput(f"a simulated device was refused: {result}")
    return results


STAGES: Final = 3
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceDemo:
    """What a demonstration ends with."""

    design: StudyDesign
    policy: NamedPolicy
    certificate: Certificate
    stages: tuple[dict[str, Any], ...]
    """One row per stage; the mean return is simulation only."""
    seconds: float
    per_second: float
    """Reports that were counted per second while devices sent, all their own work included."""
    directory: Path | None
    """Where the files of the parties are, if they were kept."""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {
            "study": self.design.digest,
            "trust": self.design.trust,
            "epsilon": self.design.epsilon,
            "delta": self.design.delta,
            "policy": self.policy.to_dict(),
            "certificate": self.certificate.to_dict(),
            "stages": list(self.stages),
            "seconds": self.seconds,
            "reports_per_second": self.per_second,
            "directory": None if self.directory is None else str(self.directory),
        }


def run_service_demo(
    directory: str | Path | None = None,
    *,
    trust: str = "shuffle",
    epsilon: float = 2.0,
    delta: float = 1e-6,
    people: int = 2000,
    stages: int = STAGES,
    seed: int = 0,
    database: str | None = None,
    dashboard: bool = False,
    wait: Callable[[], object] | None = None,
    person: Callable[[str], object] | None = None,
    say: Say | None = None,
) -> ServiceDemo:
    """Run a study of so many simulated people; without a directory nothing of it is left.

    `database` is a postgresql:// URL; every party gets a schema of its own there. The seed moves the people, never the
    noise. With `dashboard` the study is shown while it runs, at an address that `say` is told, until `wait` returns.
    `person` is called with the address of a page on which somebody can play and take part in the first stage, which is
    open until it returns; a browser has no blind tokens, so that the study is then open to anybody, without an issuer.
    """
    tell, begun = say or _silent, time.monotonic()
    known = [name for name in get_args(Trust) if name != "none"]
    if trust not in known:
        raise UnknownName("trust model", trust, known)
    count = require_count("stages", stages)
    target = require_count("people", people, least=10 * count) // count
    design = _design(trust, epsilon, delta, count, target)
    tell(f"designed: {count} stages of {target} people under trust {trust}, epsilon {epsilon:g}")
    with _place(directory) as place, _page(person) as page:
        options = _options(database)
        if page is not None:
            options["shuffler"]["origins"] = [page.origin]
        parties = Loopback.new(place, design, tokens=page is None, options=options)
        credentials = _credentials(parties, count * target)
        with parties, _crowd() as (pool, workers):
            parties.start()
            tell("started: " + ", ".join(f"{name} {parties.addresses[name]['internal']}" for name in parties.parties))
            parties.until_open(0)
            if dashboard:
                tell(f"dashboard: {parties.start_dashboard(simulated=True)}")
            rows = []
            for number in range(count):
                names = credentials[number * target :][:target]
                visit = None
                if page is not None and person is not None and number == 0:
                    names, visit = names[1:], partial(person, _told(page, parties, design))
                rows.append(_stage(parties, pool, workers, number, names, seed, design, tell, visit))
            status = parties.until(lambda found: found["worker"]["outcome"] == "finished")
            require(status["worker"]["word"] == "served", "a study must end with a policy", status["worker"]["word"])
            exported = json.loads(parties.internal("learner").get("/v1/policy"))
            if dashboard and wait is not None:
                wait()
    sent, seconds = sum(row["reports"] for row in rows), sum(row["seconds"] for row in rows)
    return ServiceDemo(
        design=design,
        policy=NamedPolicy.from_dict(exported["policy"]),
        certificate=Certificate.from_dict(exported["certificate"]),
        stages=tuple(rows),
        seconds=time.monotonic() - begun,
        per_second=sent / max(seconds, 1e-9),
        directory=None if directory is None else Path(directory),
    )


def _stage(
    parties: Loopback,
    pool: ProcessPoolExecutor,
    workers: int,
    number: int,
    credentials: list[str],
    seed: int,
    design: StudyDesign,
    tell: Say,
    visit: Callable[[], object] | None,
) -> dict[str, Any]:
    """One stage: devices act and report, and whoever visits; the stage is closed, the learner takes its release."""
    parties.until_open(number)
    begun = time.monotonic()
    least = int(design.channels[number]["least"])
    parts = [
        Slice(
            shuffler=parties.public("shuffler"),
            issuer=parties.public("issuer") if parties.tokens else None,
            pins=parties.pins,
            credentials=credentials[worker::workers],
            seed=(seed, number, worker),
            cap=design.epsilon,
            floor=least,
            spare=(len(credentials) - least + worker) // workers,
        )
        for worker in range(workers)
    ]
    lived: list[Lived] = list(pool.map(live_stage, parts))
    seconds = time.monotonic() - begun
    answers = sum((Counter(part.answers) for part in lived), Counter[str]())
    if visit is not None:
        visit()
    shuffler = parties.internal("shuffler")
    reports = int(json.loads(shuffler.post(f"/v1/stages/{number}/close"))["reports"])
    found = parties.until(lambda found: len(found["releases"]) > number or bool(found["quarantined"]))
    require(not found["quarantined"], "a release of honest people must not be quarantined", "one that is")
    mean = sum(part.returns for part in lived) / max(1, sum(part.people for part in lived))
    spent = epsilon_of(design.parts().channels[number].events_at(reports), design.delta)
    row = {"stage": number, "reports": reports, "epsilon": spent, "answers": dict(answers), "seconds": seconds}
    tell(
        f"stage {number}: {reports} reports in {seconds:.1f} s ({reports / seconds:.0f} per second), one report cost "
        f"epsilon {spent:.3f}; mean return {mean:.3f} (simulation only)"
    )
    return {**row, "mean_return": mean}


def _design(trust: Any, epsilon: float, delta: float, stages: int, target: int) -> StudyDesign:
    world = make("riverswim")
    return plan_study(
        name="riverswim over HTTP",
        states=STATES,
        actions=ACTIONS,
        horizon=world.horizon,
        stationary=world.stationary,
        trust=trust,
        epsilon=epsilon,
        delta=0.0 if trust == "local" else delta,
        stages=stages,
        target=target,
    )


def _options(database: str | None) -> dict[str, dict[str, Any]]:
    """Further entries of the parties' configurations."""
    quick = {"poll_seconds": 0.25}
    found: dict[str, dict[str, Any]] = {"shuffler": {"tick_seconds": 0.25}, "issuer": {}, "learner": quick}
    if database is not None:
        mark = os.urandom(4).hex()
        for party, entries in found.items():
            entries["database"] = f"{database}{'&' if '?' in database else '?'}schema=demo_{mark}_{party}"
    return found


def _credentials(parties: Loopback, people: int) -> list[str]:
    """What simulated people are known by: credentials of the issuer, or names where there is none."""
    if parties.tokens:
        return Enrolment(parties.enrolment).enrol(people)
    return [f"person {number}" for number in range(people)]


def _told(page: DemoPage, parties: Loopback, design: StudyDesign) -> str:
    """The address of the page, which now knows the study; its device insists on what the design promises."""
    pins = {who: (parties.home(who) / "keys" / "public.pem").read_text("utf-8") for who in ("learner", "shuffler")}
    least = design.parts().channels[0].least
    page.tell(shuffler=parties.public("shuffler"), pins=pins, cap=design.epsilon, floor=least)
    return page.url


@contextmanager
def _page(person: Callable[[str], object] | None) -> Iterator[DemoPage | None]:
    """The page where somebody visits, before the parties start: the shuffler is told its origin."""
    if person is None:
        yield None
        return
    with serve_page() as page:
        yield page


@contextmanager
def _crowd() -> Iterator[tuple[ProcessPoolExecutor, int]]:
    """Processes for the devices: sealing is work for more than one core."""
    workers = cores()
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool, workers


@contextmanager
def _place(directory: str | Path | None) -> Iterator[Path]:
    """The directory of a demonstration; without a name, one that goes with it."""
    if directory is not None:
        yield Path(directory)
        return
    with tempfile.TemporaryDirectory(prefix="tacit-demo-") as made:
        yield Path(made) / "demo"


def _silent(line: str) -> None:
    del line
