"""The learner behind HTTP: a study, the worker that moves it, and one internal address for its operators.

    GET  /healthz /metrics /v1/status /v1/policy
    POST /v1/inspected      use the release that is quarantined
    POST /v1/void           give the open stage up; the body is the reason
    POST /v1/kill           end the study for good; the body is the reason

A1  Devices never talk to the learner, and it keeps no address, id, token or time of anybody: what it writes are
    bundles, releases, counts and beliefs.
A2  What the learner's simulator would know (returns, regret) is not known here, and no metric pretends to.

The loop of a learner's process: one thread that steps the worker while this process holds the lease.

Z1  Two processes of one study never work at the same time: a step is made under a lease in the study's database, and
    every transaction of it is fenced. Whoever slept through the end of its lease and was overtaken writes nothing. A
    second thread renews the lease while a step takes long; after a crash others wait for `LEASE_SECONDS` at most.
Z2  Waiting grows from `first` to the poll's length and falls back when something moved; a call of an operator ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from tacit.errors import TacitError, require
from tacit.service.batches.decryption import OpenedBatch
from tacit.service.config import LearnerConfig, database_url, scraper_of
from tacit.service.config import Peer as PeerConfig
from tacit.service.encryption.keyring import Keyring
from tacit.service.http_client import Peer
from tacit.service.metrics import Log, Meters
from tacit.service.server import Listener, Party
from tacit.service.web import Drain, Offer, Refused, application, health_route, json_response, metrics_route
from tacit.service.worker import BatchOpener, IssuerLink, MixerLink, Outcome, Step, Worker
from tacit.study.contract import channels_of, read_design_file
from tacit.study.databases import database_at
from tacit.study.record import export_policy
from tacit.study.sealed_batches import require_seals
from tacit.study.store import Lease, no_failpoint
from tacit.study.study import Study

OUTCOMES: Final[tuple[Outcome, ...]] = ("moved", "waiting", "unreachable", "held", "refused", "finished")
FIRST: Final = 0.05
LONGEST_WORD: Final = 300
LEASE_SECONDS: Final = 10
JOB: Final = "worker"
SLOW: Final = 30.0
"""Seconds between two tries of what was refused, at most."""


class Loop:
    """The thread that works; made before the listeners, begun with them."""

    def __init__(
        self,
        worker: Worker,
        *,
        log: Log,
        meters: Meters,
        poll: float,
        window: float,
        finished: Callable[[], None] = lambda: None,
    ) -> None:
        self.worker, self.log = worker, log
        self._lease: Lease | None = None
        self._holder = secrets.token_hex(8)
        self.poll, self.window = poll, window
        self.last = Step("waiting", "begun")
        self.broken = False
        self._finished = finished
        self._stop, self._wake = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)
        self._renewing = threading.Thread(target=self._renew, name="lease", daemon=True)
        self._steps = meters.counter("steps", "Steps of the worker by what they came to.", "outcome")
        self._stage = meters.gauge("stage", "The stage that the worker is at.")
        self._overdue = meters.gauge("overdue", "1 if the open stage takes longer than its window.")
        self._state = meters.gauge("state", "1 for what the last step came to.", "outcome")
        self._since = time.monotonic()

    def begin(self) -> None:
        """Begin to work."""
        self._thread.start()
        self._renewing.start()

    def wake(self) -> None:
        """Look again, now."""
        self._wake.set()

    def end(self, seconds: float) -> None:
        """Stop after the present step and wait for it, at most so long."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    @property
    def working(self) -> bool:
        """Whether the thread is alive, or was never begun."""
        return not self.broken

    def status(self) -> dict[str, Any]:
        """What the last step came to."""
        return {"outcome": self.last.outcome, "word": self.last.word, "stage": self.last.stage}

    def _run(self) -> None:
        wait = FIRST
        try:
            while not self._stop.is_set():
                step = self._once()
                wait = FIRST if step.outcome == "moved" else min(2 * wait, self._longest(step))
                if step.outcome != "moved":
                    self._wake.wait(max(wait, step.after))
                    self._wake.clear()
        except Exception as error:  # a fault of the program: said, and seen in /healthz
            self.log.fault(error)
            self.broken = True
        finally:
            self._leave()

    def _once(self) -> Step:
        """One step under the lease (Z1)."""
        try:
            lease = self._held()
        except TacitError as error:
            return self._seen(Step("refused", str(error)[:LONGEST_WORD]))
        if lease is None:
            return self._seen(Step("waiting", "another process works"))
        with lease.fenced():
            return self._seen(self.worker.step())

    def _held(self) -> Lease | None:
        """The lease, renewed or taken; None if another process has it."""
        if self._lease is not None:
            try:
                self._lease.renew()
            except TacitError:
                self._lease = None  # it was taken over
        if self._lease is None:
            store = self.worker.study.store
            self._lease = Lease.take(store, JOB, holder=self._holder, seconds=LEASE_SECONDS)
        return self._lease

    def _renew(self) -> None:
        """Keep the lease while a step takes long."""
        while not self._stop.wait(LEASE_SECONDS / 3):
            lease = self._lease
            if lease is not None:
                with contextlib.suppress(TacitError):  # the next step finds out
                    lease.renew()

    def _seen(self, step: Step) -> Step:
        self._steps.labels(step.outcome).inc()
        for outcome in OUTCOMES:
            self._state.labels(outcome).set(outcome == step.outcome)
        if step.stage is not None:
            self._stage.set(step.stage)
        changed = (step.outcome, step.word, step.stage) != (self.last.outcome, self.last.word, self.last.stage)
        if changed:
            self._since = time.monotonic()
            self.log.event("step", outcome=step.outcome, reason=step.word, stage=step.stage)
        self._overdue.set(step.outcome == "waiting" and time.monotonic() - self._since > self.window)
        if step.outcome == "finished" and changed:
            self._finished()
        self.last = step
        return step

    def _longest(self, step: Step) -> float:
        return max(self.poll, SLOW) if step.outcome in ("refused", "finished") else self.poll

    def _leave(self) -> None:
        if self._lease is not None:
            with contextlib.suppress(TacitError):  # then it ends by itself
                self._lease.give_back()


POLICY: Final = "policy.json"
ISSUER_KEYS: Final = "issuer-keys.json"
LONGEST: Final = 200


class LearnerService:
    """A study, its worker and the application around them."""

    def __init__(
        self, config: LearnerConfig, *, log: Log | None = None, edge: Callable[[str], None] = no_failpoint
    ) -> None:
        self.config, self.drain = config, Drain()
        self.log = Log("learner") if log is None else log
        self.meters = Meters("learner")
        _require_whole(config)
        self.study = open_study(config)
        self._peers = {name: _peer(getattr(config, name)) for name in ("shuffler", "mixer", "issuer")}
        shuffler = self._peers["shuffler"]
        assert shuffler is not None  # noqa: S101 - a learner has one
        self._opened = self.meters.counter("messages", "Messages of sealed batches by what they held.", "kind")
        self._link = self._issuer_link(shuffler)
        self.worker = Worker(self.study, shuffler, sealed=self._opener(shuffler), issuing=self._link, edge=edge)
        self.loop = Loop(
            self.worker,
            log=self.log,
            meters=self.meters,
            poll=config.poll_seconds,
            window=config.window_seconds,
            finished=self._export,
        )
        self.internal = application(
            [*self._routes(), health_route(self.drain, lambda: self.loop.working), metrics_route(self.meters)],
            limits=config.limits,
            meters=self.meters,
            log=self.log,
            drain=self.drain,
            bearer=config.bearer.read(),
            scraper=scraper_of(config),
        )

    async def begin(self) -> None:
        """Begin to work."""
        self.loop.begin()

    async def end(self) -> None:
        """Stop after the present step; what it has not done is done when the process is started again."""
        await asyncio.to_thread(self.loop.end, float(self.config.limits.drain_seconds))
        for peer in self._peers.values():
            if peer is not None:
                peer.close()

    def _routes(self) -> list[Offer]:
        return [
            Offer("GET", "/v1/status", self.get_status),
            Offer("GET", "/v1/policy", self.get_policy),
            Offer("POST", "/v1/inspected", self.post_inspected),
            Offer("POST", "/v1/void", self.post_void, takes="text/plain"),
            Offer("POST", "/v1/kill", self.post_kill, takes="text/plain"),
        ]

    async def get_status(self, request: Request) -> Response:
        """Where the study is, and what the worker does."""
        found = await asyncio.to_thread(self.study.status)
        return json_response({**found, "worker": self.loop.status()})

    async def get_policy(self, request: Request) -> Response:
        """What was learned, signed, with its certificate; there once the study is over."""
        data = await asyncio.to_thread(_read, self.config.directory / POLICY)
        return Response(data, media_type="application/json", headers={"cache-control": "no-store"})

    async def post_inspected(self, request: Request) -> Response:
        """Use the release that is quarantined."""
        return await self._acted(lambda: {"taken": self.worker.inspected()})

    async def post_void(self, request: Request) -> Response:
        """Give the open stage up."""
        reason = await _reason(request, "given up")
        return await self._acted(lambda: _done(self.worker.give_up, reason))

    async def post_kill(self, request: Request) -> Response:
        """End the study."""
        reason = await _reason(request, "ended")
        return await self._acted(lambda: _done(self.study.kill, reason))

    async def _acted(self, call: Callable[[], dict[str, Any]]) -> Response:
        try:
            return json_response(await asyncio.to_thread(call))
        finally:
            self.loop.wake()

    def _opener(self, shuffler: Peer) -> BatchOpener | None:
        config = self.config
        if not config.sealed:
            return None
        assert config.keys.sealing is not None and config.keys.sign is not None  # noqa: S101, PT018 - for the types
        ring = Keyring.own(config.keys.sealing, party="learner", study=self.study.study)
        return BatchOpener(
            config.directory / "batches",
            shuffler,
            ring=ring,
            sign=config.keys.sign,
            mixer=self._mixer_link(),
            issued=None if self._link is None else self._link.keys,
            issuer=None if self._link is None else self._link.kept,
            engine_name=config.engine,
            workers=config.workers,
            counted=self._count,
        )

    def _mixer_link(self) -> MixerLink | None:
        mixer, pinned = self._peers["mixer"], self.config.keys.mixer
        return None if mixer is None or pinned is None else MixerLink(mixer, pinned)

    def _issuer_link(self, shuffler: Peer) -> IssuerLink | None:
        config, issuer = self.config, self._peers["issuer"]
        if issuer is None:
            return None
        assert config.keys.issuer is not None  # noqa: S101 - for the types
        kept = config.directory / ISSUER_KEYS
        return IssuerLink(issuer, shuffler, study=self.study.study, pinned=config.keys.issuer, kept=kept)

    def _count(self, found: OpenedBatch) -> None:
        self._opened.labels("dummy").inc(found.dummies)
        self._opened.labels("foreign").inc(found.foreign)

    def _export(self) -> None:
        """Write down what was learned, where anything was."""
        try:
            export_policy(self.study, self.config.directory / POLICY)
        except TacitError as error:
            self.log.event("export", outcome="refused", reason=type(error).__name__)


def party(config: LearnerConfig) -> Party:
    """The learner of a configuration; a new directory begins a new study of the design."""
    service = LearnerService(config)
    return Party(
        name="learner",
        listeners=(Listener(name="internal", app=service.internal, listen=config.internal),),
        limits=config.limits,
        log=service.log,
        drain=service.drain,
        begin=service.begin,
        end=service.end,
        ready=config.ready,
    )


def open_study(config: LearnerConfig) -> Study:
    """The study in the directory of a configuration, begun if there is none; it must be that of the design."""
    keys, url = config.keys, database_url(config)
    design = None if config.design is None else read_design_file(config.design)
    layers = 0 if not config.sealed else 1 if config.mixer is None else 2
    if not database_at(config.directory, url).exists("study"):
        require(design is not None, "a new study must have its design", "none")
        assert design is not None  # noqa: S101 - for the types
        require_seals(channels_of(design), config.sealed)
        return Study.new(
            config.directory,
            design,
            key=keys.sign,
            collector=keys.shuffler,
            seed=config.seed,
            sealed=layers,
            database=url,
        )
    study = Study(config.directory, key=keys.sign, collector=keys.shuffler, database=url)
    same = design is None or design.digest == study.design.digest
    require(same, "a study must be that of its design", "another design")
    require(study.layers == layers, f"this study seals messages in {study.layers} layers", layers)
    return study


def _require_whole(config: LearnerConfig) -> None:
    """Refuse a configuration that lacks something, before anything is made."""
    keys = config.keys
    require(keys.sign is not None, "a learner must have keys.sign", "none", "make it: tacit keys new")
    require(keys.shuffler is not None, "a learner must have keys.shuffler, the public key of the shuffler", "none")
    whole = config.tokens == (config.issuer is not None) == (keys.issuer is not None)
    require(whole, "tokens, issuer and keys.issuer must be given together", "some of them")
    paired = (config.mixer is None) == (keys.mixer is None)
    require(paired, "a mixer and keys.mixer must be given together", "one of them")
    require(config.mixer is None or config.sealed, "a mixer is for sealed messages", "messages that are not sealed")
    sealing = not config.sealed or keys.sealing is not None
    require(sealing, "a learner of sealed messages must have keys.sealing", "none")


def _done(call: Callable[[str], None], reason: str) -> dict[str, Any]:
    call(reason)
    return {"reason": reason}


def _peer(config: PeerConfig | None) -> Peer | None:
    return None if config is None else Peer(config.url, config.bearer.read())


async def _reason(request: Request, default: str) -> str:
    data = await request.body()
    try:
        text = data.decode().strip()
    except UnicodeDecodeError as error:
        raise Refused("malformed", detail="a reason is a text") from error
    fits = len(text) <= LONGEST and text.isprintable()
    if not fits:
        raise Refused("malformed", detail=f"a reason has at most {LONGEST} characters in one line")
    return text or default


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Refused("not-found", detail="nothing was exported yet") from error
