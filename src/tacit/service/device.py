"""Devices over HTTP: a person's side of a study behind services, in every trust model.

    device = RemoteDevice(directory, shuffler=url, pins=Pins(...), credential=..., cap=2.0, floor=100)
    device.refresh()                     keys and bundle, fetched and verified
    device.act(step, state) ...          offline
    device.report(trajectory)            frozen on the disk; or device.cover()
    device.send()                        the same bytes until there is an answer

The offline core is `tacit.study.device.Device` with its refusals and its state (D1-D7); this adds the network.

E1  Keys are believed if their party's pinned key signed them, for this study, with a serial that does not go back;
    whatever is refused changes nothing.
    Keys of learner and mixer are those in the bundle of the stage: one set for everybody, whatever changes while the
    stage is open (Lemma M9 (sealed messages)). A sealed stage whose bundle has none is refused.
E2  What is sent was frozen before: report, inner seals, id and envelope are on the disk when the first byte leaves. A
    crash anywhere, and any number of tries, give the shuffler the same report; noise is drawn once.
E3  Under shuffle trust every message is sealed to the learner, in an order of its own: the shuffler that mixes cannot
    read. Under all trust models the envelope is sealed to the shuffler: nobody between can.
E4  A final refusal is kept as its word and the bytes are dropped; a stage that is over drops them, too.
E5  The device never talks to the learner: bundle and keys come through the shuffler, signed by the learner.

Pins: the public keys that a person has from elsewhere, by which a device knows who speaks to it.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from tacit.arguments import checked
from tacit.errors import InvalidInput, TacitError, require, require_real
from tacit.policies import AnyPolicy
from tacit.protocol import Noise
from tacit.service.encryption.envelope import seal_body, seal_envelope
from tacit.service.encryption.keyring import KeysDocument, Party, believed_keys
from tacit.service.http_client import (
    FINAL,
    Backoff,
    Exchange,
    HttpRequest,
    HttpResponse,
    Pause,
    client,
    converse,
    problem_of,
    retry_after,
    understood,
)
from tacit.study.bundle import LARGEST_BUNDLE, Bundle
from tacit.study.device import Device, DeviceState
from tacit.study.wire import Report

if TYPE_CHECKING:
    import httpx

    from tacit.service.tokens.wallet import Wallet


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedKeys:
    """Public Ed25519 keys that the person has from elsewhere; what they did not sign is not believed."""

    learner: Path
    shuffler: Path
    mixer: Path | None = None
    """Pinned where a second shuffler stands in the row: then every message is sealed to it, too."""
    issuer: Path | None = None

    @classmethod
    def of(cls, files: Mapping[str, str | Path]) -> PinnedKeys:
        """The pins in these files, by party.

        >>> PinnedKeys.of({"learner": "learner.pem", "shuffler": "shuffler.pem"}).issuer is None
        True
        """
        known = {"learner", "shuffler"} <= set(files) <= {"learner", "shuffler", "mixer", "issuer"}
        hint = "and mixer or issuer, where the study has them"
        require(known, "keys of learner and shuffler must be pinned", sorted(files), hint)
        return cls(**{party: Path(file) for party, file in files.items()})


Result = TypeVar("Result")
WAITING: Final = "waiting"
"""There is no answer yet; the frozen bytes are there for the next `send`."""
LARGEST_KEYS: Final = 2**24
SHUFFLER: Final = "shuffler"
LOTS: Final = random.SystemRandom().random
BYTES: Final = {"content-type": "application/octet-stream"}


class RemoteDevice:
    """A person's device that talks to the shuffler and, where there are tokens, to the issuer.

    Parameters
    ----------
    directory
        The device's own directory; None keeps nothing, for simulations.
    shuffler, issuer
        Public addresses; the issuer only where there are tokens.
    pins
        Public keys of the parties.
    credential, name
        How the person is admitted: a credential of an enrollment list, or a name where everyone may report.
    cap, floor
        The largest epsilon and the fewest people that the person accepts; required.
    noise, rng, backoff, over, sleep, clock, lots
        Noise source, random numbers, retries, HTTP client and clocks, for tests.

    Raises
    ------
    InvalidInput
        If a value breaks a stated rule; the message names it.

    Examples
    --------
    >>> import tempfile
    >>> from tacit.runs.signature import new_keys
    >>> with tempfile.TemporaryDirectory() as place:
    ...     pins = {party: new_keys(Path(place, party))[1] for party in ("learner", "shuffler")}
    ...     device = RemoteDevice(None, shuffler="https://shuffler.example", pins=pins, name="ada", cap=1.0, floor=100)
    >>> device.bundle is None
    True
    """

    @checked
    def __init__(
        self,
        directory: str | Path | None,
        *,
        shuffler: str,
        pins: PinnedKeys | Mapping[str, str | Path],
        issuer: str | None = None,
        credential: str | None = None,
        name: str | None = None,
        cap: float | EllipsisType = ...,
        floor: int | EllipsisType = ...,
        noise: Noise | None = None,
        rng: np.random.Generator | None = None,
        backoff: Backoff | None = None,
        over: httpx.Client | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        lots: Callable[[], float] = LOTS,
    ) -> None:
        """A device in a directory (None: it forgets with the process) that trusts the pinned keys.

        `pins` are public keys that the person has from elsewhere, as `PinnedKeys` or by party: {"learner": file, ...}.
        `credential` is what the study knows the person by: shown to the issuer where there is one, else to the
        shuffler. A `name` instead is for studies that are open to anybody (demonstrations). `cap` and `floor` are the
        person's own limits and have no default; these, `noise` and `rng` are as in `tacit.study.device.Device`.
        """
        pinned = pins if isinstance(pins, PinnedKeys) else PinnedKeys.of(pins)
        require((credential is None) != (name is None), "a device has either a credential or a name", "both or none")
        require(issuer is None or credential is not None, "an issuer needs a credential", "none")
        require(
            (issuer is None) == (pinned.issuer is None), "an issuer and its pinned key belong together", "one of them"
        )
        self.core = Device(directory, cap=cap, floor=floor, key=pinned.learner, noise=noise, rng=rng)
        self.shuffler, self.issuer = (None if url is None else url.rstrip("/") for url in (shuffler, issuer))
        self.pins, self.credential = pinned, credential
        self._badge = b"" if issuer is not None else _badge(credential, name)
        self.backoff = Backoff() if backoff is None else backoff
        self._over, self._sleep, self._clock, self._lots = over, sleep, clock, lots
        self._shuffler_keys: KeysDocument | None = None
        self._purse: Wallet | None = None

    # offline

    @property
    def bundle(self) -> Bundle | None:
        """The bundle that is followed, if one was accepted."""
        return self.core.bundle

    @property
    def kept(self) -> DeviceState:
        """What is kept on the disk."""
        return self.core.kept

    @property
    def asks(self) -> bool:
        """Whether this stage wants a report, and this person may still send one."""
        try:
            self.core.asked()
        except TacitError:
            return False
        return True

    @property
    def answer(self) -> str:
        """How the report of this stage ended, or nothing yet."""
        return self.kept.answer

    @property
    def policy(self) -> AnyPolicy:
        """The policy of this person in this stage."""
        return self.core.policy

    def act(self, step: int, state: int | str | Mapping[str, Any]) -> str:
        """The action to take at a step (from 0) in a state, by name or number."""
        return self.core.act(step, state)

    def report(self, trajectory: Any) -> None:
        """Freeze the report of this stage (E2); one that is frozen stays as it is."""
        self._freeze(lambda: self.core.report(trajectory))

    def cover(self) -> None:
        """Freeze a report that says nothing, of the same length."""
        self._freeze(self.core.cover)

    # over the network

    def refresh(self) -> Bundle:
        """Fetch and verify bundle and keys; refused ones change nothing (E1)."""
        return self._conversed(self.refreshing())

    def join(self) -> bool:
        """Ask the issuer for the token of this stage, ahead of the report; whether it is there.

        Whoever joins and sends at different times gives issuer and shuffler nothing to compare.
        """
        return self._conversed(self.joining())

    def send(self, within: float | None = None) -> str:
        """Send the frozen report until there is an answer, or until so many seconds are over ("waiting").

        "counted" and "again" are good ends; "late" is a stage that is over; everything else is why it was refused.
        """
        return self._conversed(self.sending(within))

    def refreshing(self) -> Exchange[Bundle]:
        """`refresh` as an exchange."""
        # What names a bundle is its digest (`relay.Kept`): a tag that a server chose would be a cookie.
        kept = sha256(self.kept.bundle.encode()).hexdigest()
        headers = {"if-none-match": f'"{kept}"'} if self.bundle is not None else {}
        reply = yield HttpRequest("GET", f"{self.shuffler}/v1/bundle", headers=headers, most=LARGEST_BUNDLE)
        if reply is not None and reply.status == 304 and self.bundle is not None:
            bundle = self.bundle
        else:
            data = _content(reply, "a bundle")
            self._named(Bundle.parse(data))
            bundle = self.core.accept(data)
        named = {party: text.decode() for party, text in bundle.keys.items()}
        self.core.change(lambda kept: replace(kept, documents={**kept.documents, **named}))
        if self.issuer is not None:
            self._wallet.forget(bundle["stage"])
        if bundle.channel is not None:
            yield from self._fetching()
        return bundle

    def joining(self) -> Exchange[bool]:
        """`join` as an exchange."""
        self._asked()
        if self.issuer is None or self.kept.answer:
            return True
        yield from self._joining()
        return self._wallet.token(self.kept.stage) != b""

    def sending(self, within: float | None = None) -> Exchange[str]:
        """`send` as an exchange."""
        end = math.inf if within is None else self._clock() + require_real("within", within, low=0.0)
        attempt = 0
        while not self.kept.answer:
            digest = self.kept.digest
            require(
                self.kept.report != b"", "a report must be frozen before it is sent", "none", "report or cover first"
            )
            after = 0.0
            if not self.kept.envelope:
                after = yield from self._enveloping()
            if self.kept.envelope:
                reply = yield HttpRequest(
                    "POST", f"{self.shuffler}/v1/reports", content=self.kept.envelope, headers=BYTES
                )
                answer = understood(reply)
                after = answer.after
                if answer.next in ("done", "refused", "over"):
                    self._end(answer.word, digest)
                elif answer.next == "rekey" and (yield from self._rekeyed()):
                    continue
            if not self.kept.answer:
                seconds = self.backoff.seconds(attempt, after=after, lot=self._lots())
                if self._clock() + seconds >= end:
                    return WAITING
                yield Pause(seconds)
                attempt += 1
        return self.kept.answer

    # inside

    def _freeze(self, make: Callable[[], bytes]) -> None:
        if self.kept.answer or self.kept.report:
            return
        bundle = self._asked()
        plain = make()  # the core has frozen it: a crash from here on draws nothing again
        if not plain:  # another process has an answer
            return
        sealed = self._sealed(bundle, plain)
        self._keep(bundle, lambda kept: kept if kept.report else replace(kept, report=sealed))
        if self.issuer is None and not self.kept.envelope:
            self._envelop(self._badge)

    def _asked(self) -> Bundle:
        bundle = self.core.asked()
        self._keys()
        self._named(bundle)
        return bundle

    def _sealed(self, bundle: Bundle, plain: bytes) -> bytes:
        """The report as the collector counts it: under shuffle trust its messages are sealed (E3)."""
        channel = bundle.channel
        if channel is None or channel.TRUST != "shuffle":
            return plain
        report = Report.parse(plain)
        keys = {party: document.active for party, document in self._named(bundle).items()}
        body = seal_body(channel, report.body, study=report.study, stage=report.stage, **keys)
        return Report(study=report.study, stage=report.stage, id=report.id, body=body).encode()

    def _envelop(self, token: bytes) -> None:
        """Freeze the bytes that are sent (E2)."""
        bundle = self._asked()
        key = self._keys().active
        self._keep(
            bundle,
            lambda kept: replace(kept, envelope=seal_envelope(kept.report, token, study=bundle.study, key=key)),
        )

    def _enveloping(self) -> Generator[HttpRequest | Pause, HttpResponse | None, float]:
        """Freeze an envelope, with a token where tokens are asked for; else the seconds to wait, at least."""
        if self.issuer is None:
            self._envelop(self._badge)
            return 0.0
        after = yield from self._joining()
        if not self.kept.answer and self._wallet.token(self.kept.stage):
            self._envelop(self._wallet.token(self.kept.stage))
        return after

    def _joining(self) -> Generator[HttpRequest | Pause, HttpResponse | None, float]:
        """Ask the issuer for the token of this stage, unless it is there; the seconds to wait if it is not."""
        wallet, stage = self._wallet, self.kept.stage
        if wallet.token(stage):
            return 0.0
        if wallet.keys is None or stage not in wallet.keys.stages:
            reply = yield HttpRequest("GET", f"{self.shuffler}/v1/keys/issuer", most=LARGEST_KEYS)
            if reply is None or reply.status != 200:
                return 0.0 if reply is None else retry_after(reply.headers)
            if stage not in wallet.accept(reply.content).stages:
                return 0.0
        headers = {"content-type": "application/json", "authorization": f"Bearer {self.credential}"}
        reply = yield HttpRequest("POST", f"{self.issuer}/v1/tokens", content=wallet.request(stage), headers=headers)
        if reply is None:
            return 0.0
        if reply.status in (200, 201):
            wallet.finish(stage, reply.content)
            return 0.0
        word = problem_of(reply)
        if word in FINAL or word in ("late", "unauthorized"):
            self._end(word, self.kept.digest)
        return retry_after(reply.headers)

    def _rekeyed(self) -> Generator[HttpRequest | Pause, HttpResponse | None, bool]:
        """Whether the shuffler has another key by now: then a new envelope goes around the same report."""
        before = self._keys().active
        yield from self._fetching()
        if self._keys().active == before:
            return False
        self._envelop(self._badge if self.issuer is None else self._wallet.token(self.kept.stage))
        return True

    def _end(self, word: str, digest: str) -> None:
        self.core.end(word, digest)
        if self.issuer is not None:
            self._wallet.forget(self.kept.stage + 1)

    @property
    def _wallet(self) -> Wallet:
        """Where tokens are kept; there is one from the first bundle on."""
        if self._purse is None:
            bundle = self.core.bundle
            assert bundle is not None  # noqa: S101 - tokens are asked for a stage
            assert self.pins.issuer is not None  # noqa: S101 - checked when the device was made
            from tacit.service.tokens.wallet import Wallet

            self._purse = Wallet(self.core.directory, study=bundle.study, issuer=self.pins.issuer)
        return self._purse

    def _named(self, bundle: Bundle) -> dict[Party, KeysDocument]:
        """The keys that the messages of a bundle are sealed to, or a refusal (E1)."""
        sealed = bundle.channel is not None and bundle.channel.TRUST == "shuffle"
        bundle.require_keys(0 if not sealed else 1 if self.pins.mixer is None else 2)
        before, pins = {party: text.encode() for party, text in self.kept.documents.items()}, self.pins
        return believed_keys(bundle.keys, study=bundle.study, learner=pins.learner, mixer=pins.mixer, before=before)

    def _fetching(self) -> Generator[HttpRequest | Pause, HttpResponse | None, None]:
        """Fetch, verify and keep the shuffler's keys (E1); nobody's answer leaves those that were kept."""
        reply = yield HttpRequest("GET", f"{self.shuffler}/v1/keys/{SHUFFLER}")
        if SHUFFLER in self.kept.documents and (reply is None or reply.status >= 500):
            return
        data = _content(reply, "the keys of the shuffler")
        found = self._read(data, self._keys() if SHUFFLER in self.kept.documents else None)
        self.core.change(lambda kept: replace(kept, documents={**kept.documents, SHUFFLER: data.decode()}))
        self._shuffler_keys = found

    def _keys(self) -> KeysDocument:
        """The shuffler's keys as they were kept."""
        if self._shuffler_keys is None:
            text = self.kept.documents.get(SHUFFLER)
            if text is None:
                raise InvalidInput("a device must have the keys of the shuffler before it reports; call refresh first")
            self._shuffler_keys = self._read(text.encode(), None)
        return self._shuffler_keys

    def _read(self, data: bytes, seen: KeysDocument | None) -> KeysDocument:
        bundle = self.core.bundle
        assert bundle is not None  # noqa: S101 - keys are read after a bundle was accepted
        return KeysDocument.read(data, party=SHUFFLER, study=bundle.study, pinned=self.pins.shuffler, seen=seen)

    def _keep(self, bundle: Bundle, make: Callable[[DeviceState], DeviceState]) -> None:
        """Change what is kept about the report of a bundle, unless it has ended or there is another bundle by now."""
        digest = bundle.digest
        self.core.change(lambda kept: make(kept) if kept.digest == digest and not kept.answer else kept)

    def _conversed(self, exchange: Exchange[Result]) -> Result:
        if self._over is not None:
            return converse(exchange, self._over, self._sleep)
        with client() as over:
            return converse(exchange, over, self._sleep)


def _badge(credential: str | None, name: str | None) -> bytes:
    """What stands in an envelope in the place of a token."""
    from tacit.service.tokens.admission import known_credential, open_name

    return known_credential(credential) if credential is not None else open_name(name or "")


def _content(reply: HttpResponse | None, what: str) -> bytes:
    """The bytes of a good reply."""
    if reply is None:
        raise InvalidInput(f"{what} must come from the shuffler, got no answer; try again later")
    word = problem_of(reply) or "something else"
    require(reply.status == 200, f"{what} must come from the shuffler", f"status {reply.status} ({word})")
    return reply.content
