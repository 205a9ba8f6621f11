"""The dashboard behind HTTP: three views, a stream of changes, and a few acts.

    GET  /operator /officer /learner     pages; they ask for themselves again when the stream says so
    GET  /events                         server-sent events: the version of what is shown
    GET  /v1/status                      everything on the pages, as JSON
    GET  /officer/ledger.json, certificate.json, releases/{stage}/{question}      what an officer takes along
    POST /officer/verify                 verify in place; a reader may
    POST /act/close, void, kill          need the writing token
    GET  /enter, POST /session, /leave   tokens become sessions

D1  Without a token nothing but the page to enter, styles, scripts and /healthz is served: 401. A reader who writes is
    refused: 403, and nothing happened.
D2  Every page is under `SERVED_POLICY`: no inline script or style, nothing from elsewhere, in no frame.
D3  A page refuses in words, a request that does not ask for HTML by a problem document.

Access to the dashboard: one token reads, another one writes, and a session stands for either in a browser.

S1  Tokens are 32 random bytes in files that only their owner reads. They are compared in constant time, both of them
    whichever fits, and stand in no page, log, cookie or address that a server sees: an address carries one behind `#`.
S2  A session is a random cookie (HttpOnly, SameSite=Strict) that this process knows by its SHA-256; it ends after
    twelve hours, when it is left, and with the process.
S3  A form that writes carries the session's own secret, and comes from this very origin; a request with an
    Authorization header needs neither, since no other page can make a browser send one.

Serving a dashboard: its process, its tokens and its address.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import parse_qs, urlsplit

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tacit._version import __version__
from tacit.documents import canonical
from tacit.errors import TacitError, require
from tacit.pages.page import ASSETS, SERVED_POLICY, asset, render_served
from tacit.runs.storage_paths import write_private
from tacit.service.config import Limits, Listen, Secret
from tacit.service.dashboard import views
from tacit.service.dashboard.state import DashboardState
from tacit.service.dashboard.watched import close, kill, void, watch
from tacit.service.metrics import Log, Meters
from tacit.service.server import Listener, Party
from tacit.service.web import (
    BYTES,
    HTML,
    MEDIA_TYPE,
    Drain,
    Offer,
    Refused,
    application,
    health_route,
    json_response,
    problem_response,
    refusal_of,
    said,
)

Role = Literal["reader", "writer"]
READER: Final = "reader.token"
WRITER: Final = "writer.token"
HOURS: Final = 12
MAX_SESSIONS: Final = 1000
"""Sessions at once; beyond them the oldest ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The two tokens of a dashboard."""

    reader: bytes = field(repr=False)
    writer: bytes = field(repr=False)
    made: bool
    """Whether they were made now."""

    @classmethod
    def at(cls, directory: Path) -> Tokens:
        """The tokens in a directory, made where there are none (S1)."""
        made = False
        for name in (READER, WRITER):
            if not (directory / name).exists():
                write_private(directory / name, secrets.token_urlsafe(32).encode())
                made = True
        found = {name: Secret(file=directory / name).read() for name in (READER, WRITER)}
        return cls(reader=found[READER], writer=found[WRITER], made=made)

    def role(self, given: bytes) -> Role | None:
        """What a token allows; both comparisons are always made (S1)."""
        digest = hashlib.sha256(given).digest()
        reads = hmac.compare_digest(digest, hashlib.sha256(self.reader).digest())
        writes = hmac.compare_digest(digest, hashlib.sha256(self.writer).digest())
        return "writer" if writes else "reader" if reads else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Who asks: what they may do, and the secret of their forms; None where an Authorization header was sent."""

    role: Role
    form: str | None = field(repr=False)
    ends: float


class Access:
    """The sessions of one process."""

    def __init__(
        self, tokens: Tokens, study: str, *, secure: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tokens, self._secure, self._clock = tokens, secure, clock
        self.cookie = f"tacit-{study[:12]}"
        """Browsers tell cookies apart by host, not by port, so that the study is in the name."""
        self._sessions: dict[bytes, Session] = {}

    def enter(self, token: str) -> tuple[str, Session]:
        """A new session, and the name that its cookie holds."""
        role = self._tokens.role(token.strip().encode())
        if role is None:
            raise Refused("unauthorized")
        while len(self._sessions) >= MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        name = secrets.token_urlsafe(32)
        made = Session(role=role, form=secrets.token_urlsafe(32), ends=self._clock() + 3600 * HOURS)
        self._sessions[_known(name)] = made
        return name, made

    def leave(self, request: Request) -> None:
        """End the session of a request."""
        self._sessions.pop(_known(request.cookies.get(self.cookie, "")), None)

    def header(self, name: str, *, seconds: int = 3600 * HOURS) -> str:
        """The cookie of a session (S2)."""
        secure = "; Secure" if self._secure else ""
        return f"{self.cookie}={name}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"

    def reading(self, request: Request) -> Session:
        """Who asks, if they may read."""
        given = request.headers.get("authorization")
        if given is not None:
            kind, _, token = given.partition(" ")
            role = self._tokens.role(token.strip().encode())
            if kind.lower() != "bearer" or role is None:
                raise Refused("unauthorized")
            return Session(role=role, form=None, ends=self._clock() + 1)
        found = self._sessions.get(_known(request.cookies.get(self.cookie, "")))
        if found is None or self._clock() >= found.ends:
            raise Refused("unauthorized")
        return found

    def posting(self, request: Request, form: dict[str, str], *, writes: bool) -> Session:
        """Who asks, if what they send is their own (S3) and, if it `writes`, they may."""
        session = self.reading(request)
        if session.form is not None:
            own = hmac.compare_digest(form.get("form", "").encode(), session.form.encode())
            if not own or not same_origin(request):
                raise Refused("forbidden")
        if writes and session.role != "writer":
            raise Refused("forbidden")
        return session


def same_origin(request: Request) -> bool:
    """Whether a browser says that a request comes from a page of this very host; one that says nothing is none."""
    origin, fetched = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    if fetched is not None and fetched not in ("same-origin", "none"):
        return False
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


def _known(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


Handler = Callable[[Request], Awaitable[Response]]
VIEWS: Final = ("operator", "officer", "learner")
HEADERS: Final = {
    "content-security-policy": SERVED_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
LONGEST_FORM: Final = 8192
FORM: Final = "application/x-www-form-urlencoded"


class Dashboard:
    """Pages of one study."""

    def __init__(self, live: DashboardState, access: Access) -> None:
        self.live, self.access = live, access
        self._verifying = asyncio.Lock()

    def routes(self) -> list[Offer]:
        """Everything that is served, each behind its check (D1)."""
        open_to_all = [
            Offer("GET", "/enter", self.get_enter, gives=HTML),
            self._behind("POST", "/session", self.post_session, gives=None, answers=(303,), takes=FORM),
            Offer("GET", "/static/{digest}/{name}", self.get_static, gives="*/*"),
        ]
        release = "/officer/releases/{stage:number}/{question:number}"
        return [
            *open_to_all,
            self._behind("GET", "/events", self.get_events, gives="text/event-stream"),
            self._behind("GET", "/v1/status", self.get_status),
            self._behind("GET", "/officer/ledger.json", self.get_ledger),
            self._behind("GET", "/officer/certificate.json", self.get_certificate),
            self._behind("GET", release, self.get_release, gives=BYTES),
            self._behind("POST", "/leave", self.post_leave, gives=None, answers=(303,), takes=FORM),
            self._behind("POST", "/officer/verify", self.post_verify, gives="*/*", answers=(200, 303), takes=FORM),
            self._behind("POST", "/act/{act}", self.post_act, gives="*/*", takes=FORM),
            self._behind("GET", "/", self.get_front, gives=None, answers=(303,)),
            self._behind("GET", "/{view}", self.get_view, gives=HTML),
        ]

    def _behind(self, method: str, path: str, call: Handler, **more: Any) -> Offer:
        """A route that refuses in words where a page is wanted."""
        return Offer(method, path, self._worded(call), refuses=(MEDIA_TYPE, HTML), **more)

    # entering and leaving

    async def get_enter(self, request: Request) -> Response:
        """The page with the form; it shows nothing."""
        return _page(self._enter(wrong=False))

    async def post_session(self, request: Request) -> Response:
        """Change a token for a session."""
        form = await _form(request)
        if not same_origin(request):
            raise Refused("forbidden")
        try:
            name, _ = self.access.enter(form.get("token", ""))
        except Refused:
            if not _wants_page(request):
                raise
            said(request, "unauthorized")
            return _page(self._enter(wrong=True), 401)
        return _moved("/operator", {"set-cookie": self.access.header(name)})

    async def post_leave(self, request: Request) -> Response:
        """End the session."""
        self.access.posting(request, await _form(request), writes=False)
        self.access.leave(request)
        return _moved("/enter", {"set-cookie": self.access.header("", seconds=0)})

    # reading

    async def get_front(self, request: Request) -> Response:
        """The first view."""
        self.access.reading(request)
        return _moved("/operator")

    async def get_view(self, request: Request) -> Response:
        """One of the three views."""
        session, view = self.access.reading(request), request.path_params["view"]
        if view not in VIEWS:
            raise Refused("not-found")
        return _page(self._view(view, session))

    async def get_events(self, request: Request) -> Response:
        """The version of what is shown, whenever it is another one."""
        self.access.reading(request)
        return StreamingResponse(self._events(), media_type="text/event-stream", headers={**HEADERS})

    async def get_status(self, request: Request) -> Response:
        """Everything that is on the pages."""
        self.access.reading(request)
        return json_response({**self.live.facts, "version": self.live.version}, headers=HEADERS)

    async def get_ledger(self, request: Request) -> Response:
        """The ledger as a file."""
        self.access.reading(request)
        found = await asyncio.to_thread(views.ledger, self.live.watched)
        return _file(canonical(found), "ledger.json", "application/json")

    async def get_certificate(self, request: Request) -> Response:
        """The certificate as a file."""
        self.access.reading(request)
        return _file(canonical(self.live.certificate.to_dict()), "certificate.json", "application/json")

    async def get_release(self, request: Request) -> Response:
        """The bytes of a release."""
        self.access.reading(request)
        stage, question = request.path_params["stage"], request.path_params["question"]
        data = await asyncio.to_thread(views.release_bytes, self.live.watched, stage, question)
        return _file(data, f"release-{stage}-{question}.tcl", "application/octet-stream")

    async def get_static(self, request: Request) -> Response:
        """A file of the package; its address has its digest, so that it never changes."""
        name = request.path_params["name"]
        if name not in ASSETS:
            raise Refused("not-found")
        data, kind = asset(name)
        kept = {**HEADERS, "cache-control": "public, max-age=31536000, immutable"}
        return Response(data, media_type=kind, headers=kept)

    # acting

    async def post_verify(self, request: Request) -> Response:
        """Verify everything that is watched, one after the other; nothing is changed."""
        self.access.posting(request, await _form(request), writes=False)
        async with self._verifying:
            found = await asyncio.to_thread(views.verified, self.live.watched)
        when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
        self.live.verdicts = {"rows": [verdict.to_dict() | {"path": verdict.kind} for verdict in found], "when": when}
        await self.live.look()
        if not _wants_page(request):
            return json_response(self.live.verdicts, headers=HEADERS)
        return _moved("/officer")

    async def post_act(self, request: Request) -> Response:
        """Close a stage, give it up, or end the study."""
        form, act = await _form(request), request.path_params["act"]
        session = self.access.posting(request, form, writes=True)
        if act not in ("close", "void", "kill"):
            raise Refused("not-found")
        try:
            words = await asyncio.to_thread(self._act, act, form)
        except TacitError as error:
            said(request, "refused")
            await self.live.look()
            if not _wants_page(request):
                return problem_response(Refused("refused", detail=str(error)))
            return _page(self._view("operator", session, {"fine": False, "text": f"Refused: {error}"}), 409)
        await self.live.look()
        if not _wants_page(request):
            return json_response({"done": words}, headers=HEADERS)
        return _page(self._view("operator", session, {"fine": True, "text": f"Done: {words}."}))

    def _act(self, act: str, form: dict[str, str]) -> str:
        """In a thread: one act."""
        watched, reason = self.live.watched, form.get("reason", "")
        if act == "kill":
            if form.get("sure") != "yes":
                raise Refused("malformed", detail="the kill switch is final: say that you are sure")
            return kill(watched, reason)
        text = form.get("stage", "")
        if not (text.isascii() and text.isdigit() and len(text) <= 9):
            raise Refused("malformed", detail="an act names its stage")
        return close(watched, int(text)) if act == "close" else void(watched, int(text), reason)

    # inside

    def _view(self, view: str, session: Session, word: dict[str, Any] | None = None) -> str:
        facts = self.live.facts
        rate, learner = facts["operator"]["rate"] or [], facts["learner"]
        rows = [] if learner is None else [row for row in learner["returns"] if row["low"] is not None]
        return render_served(
            f"{view}.html",
            title=f"{view}: {facts['study']['name']}",
            view=view,
            version=self.live.version,
            tacit=__version__,
            role=session.role,
            form=session.form,
            word=word,
            certificate=views.certificate_entries(self.live.certificate.describe()),
            rate_values=[[-minute for minute, _ in rate], [count for _, count in rate]],
            return_values=[[row[name] for row in rows] for name in ("stage", "mean", "high", "low")],
            **facts,
        )

    def _enter(self, *, wrong: bool) -> str:
        return render_served("enter.html", title="A study", version=__version__, wrong=wrong)

    async def _events(self) -> AsyncIterator[bytes]:
        yield b"retry: 1000\n\n"
        async for version in self.live.versions():
            yield b": beat\n\n" if version is None else f"id: {version}\nevent: change\ndata: {version}\n\n".encode()

    def _worded(self, call: Handler) -> Handler:
        """Refuse in words where a page is wanted (D3)."""

        async def worded(request: Request) -> Response:
            try:
                return await call(request)
            except Refused as error:
                refused = error
            except TacitError as error:  # its words name no data, and whoever reads them has a token
                refused = refusal_of(error, detailed=True)
            said(request, refused.slug)
            if not _wants_page(request):
                return problem_response(refused)
            problem = refused.problem
            words = refused.detail or problem.title
            page = render_served("refused.html", title="Refused", status=problem.status, words=words)
            return _page(page, problem.status)

        worded.__name__, worded.__doc__ = call.__name__, call.__doc__
        return worded


def _wants_page(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "")


def _page(text: str, status: int = 200) -> Response:
    return Response(text, status, headers=HEADERS, media_type="text/html")


def _moved(where: str, headers: dict[str, str] | None = None) -> Response:
    return Response(status_code=303, headers={**HEADERS, "location": where, **(headers or {})})


def _file(data: bytes, name: str, kind: str) -> Response:
    return Response(data, media_type=kind, headers={**HEADERS, "content-disposition": f'attachment; filename="{name}"'})


async def _form(request: Request) -> dict[str, str]:
    """The fields of a form, each once."""
    data = await request.body()
    if len(data) > LONGEST_FORM:
        raise Refused("too-large")
    try:
        fields = parse_qs(data.decode(), keep_blank_values=True, strict_parsing=bool(data), max_num_fields=20)
    except ValueError as error:
        raise Refused("malformed") from error
    if any(len(values) != 1 for values in fields.values()):
        raise Refused("malformed")
    return {name: values[0] for name, values in fields.items()}


SECRETS: Final = "dashboard"
"""The directory of the tokens, beside the files of the first party that is watched."""
LIMITS: Final = Limits(body=16_384, connections=200, drain_seconds=5)
Say = Callable[[str], None]


def dashboard_party(
    places: Sequence[str | Path],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    secrets: str | Path | None = None,
    ready: str | Path | None = None,
    simulated: bool = False,
    behind_tls: bool = False,
    tick: float = 0.5,
    say: Say | None = None,
) -> Party:
    """The process of a dashboard for these places; `say` is told the addresses with their tokens, once.

    Tokens are made in `secrets` where there are none; an address that others reach must stand behind TLS.
    """
    hint = "put a proxy with TLS in front, and say so (--behind-tls)"
    require(behind_tls or _loopback(host), "a dashboard without TLS must listen on loopback", host, hint)
    watched = watch(places, simulated=simulated)
    kept = watched.places[0].directory / SECRETS if secrets is None else Path(secrets)
    tokens = Tokens.at(kept)
    log, drain = Log("dashboard"), Drain()
    live = DashboardState(watched, kept, log=log, tick=tick)
    board = Dashboard(live, Access(tokens, watched.design.digest, secure=behind_tls))
    drain.when_asked(live.leave)
    app = application(
        [health_route(drain), *board.routes()], limits=LIMITS, meters=Meters("dashboard"), log=log, drain=drain
    )

    def started(addresses: Mapping[str, str]) -> None:
        if say is None:
            return
        url = addresses["public"]
        if tokens.made:
            say(f"to read:  {entrance(url, tokens.reader)}")
            say(f"to write: {entrance(url, tokens.writer)}")
            say(f"these addresses are printed once; the tokens stand in {kept}")
        else:
            say(f"{url}/enter (the tokens stand in {kept})")

    return Party(
        name="dashboard",
        listeners=(Listener(name="public", app=app, listen=Listen(host=host, port=port)),),
        limits=LIMITS,
        log=log,
        drain=drain,
        begin=live.begin,
        end=live.end,
        ready=None if ready is None else Path(ready),
        started=started,
    )


def entrance(url: str, token: bytes) -> str:
    """The address that enters with a token: browsers keep what is behind # to themselves."""
    return f"{url}/enter#token={token.decode('ascii')}"


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
