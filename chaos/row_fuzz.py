"""Hostile bytes: mutated bodies, huge and slow ones, broken HTTP; while honest people are counted as always.

mutants     straight into the shuffler's application, in a process of their own, whose memory is measured
huge        64 MB, announced or in chunks: refused before it is read
slow        200 sockets whose bodies never end, and 200 whose heads never do
garbage     requests that are not HTTP
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import socket
import time
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from chaos import row_load, studies
from chaos.flood import peak_memory
from chaos.mutations import LARGEST, Mutator
from chaos.parties import Parties, fast_directory, warm
from chaos.worlds import row

SCALES: dict[str, dict[str, Any]] = {
    "ci": {"mutants": 100_000, "processes": 1, "garbage": 400, "slow": 200, "seconds": None, "honest": 400},
    "chaos": {"mutants": 1_000_000, "processes": 2, "garbage": 20_000, "slow": 200, "seconds": 30.0, "honest": 60_000},
}
MEMORY = 512 * 2**20
TOGETHER = 64
"""Mutants that are on their way at the same time, with one honest report among them."""
PAIRS = 200
TOKENS = 40
"""Tokens that are mutated, and honest ones: signing them takes longer than everything else."""
SHARE = {"open": 0.8, "issuer": 0.1, "sealed": 0.1}
"""How mutants are shared among studies: open to anybody, with tokens, with sealed messages."""
HUGE = 64 * 2**20
LATENCY = 1.0
PATIENCE = 180.0


# mutants, in a process of their own


def mutants(number: int, seed: int, processes: int = 1) -> dict[str, Any]:
    """What became of so many mutants and of the honest reports between them."""
    context = warm()
    parts = []
    for place in range(processes):
        mine, theirs = context.Pipe()
        made = context.Process(target=_mutants, args=(theirs, number // processes, seed + place), daemon=True)
        made.start()
        theirs.close()
        parts.append((mine, made))
    found = []
    for mine, made in parts:
        if not mine.poll(30.0 + number / 200.0):
            made.kill()
            raise RuntimeError("the process of the mutants did not answer")
        found.append(mine.recv())  # one that crashed has sent nothing: EOFError
        made.join(PATIENCE)
    whole: dict[str, Any] = {name: sum((one[name] for one in found), start=Counter()) for name in ("statuses", "kinds")}
    whole |= {name: sum(one[name] for one in found) for name in ("mutants", "honest", "counted", "stored", "cpu")}
    whole["memory"] = max(one["memory"] for one in found)
    whole["faults"] = sum(one["faults"] for one in found)
    whole["crashes"] = sum(made.exitcode != 0 for _, made in parts)
    return whole


def _mutants(pipe: Any, number: int, seed: int) -> None:
    studies.register()
    total: dict[str, Any] = {"statuses": Counter(), "kinds": Counter()}
    total |= dict.fromkeys(("mutants", "honest", "counted", "stored", "faults"), 0)
    with fast_directory() as folder:
        for kind, share in SHARE.items():
            found = asyncio.run(_against(folder / kind, kind, int(number * share), seed))
            for name, value in found.items():
                total[name] += value
    total |= {"memory": peak_memory(os.getpid()), "cpu": time.process_time()}
    pipe.send(total)
    pipe.close()
    os._exit(0)


async def _against(folder: Path, kind: str, number: int, seed: int) -> dict[str, Any]:
    """Mutants against one shuffler."""
    from shuffler_world import talking

    folder.mkdir(parents=True)
    place, pairs, honest, document = _study(folder, kind, -(-number // TOGETHER))
    statuses: Counter[int] = Counter()
    kinds: Counter[str] = Counter()
    async with talking(place) as talk:
        if document is not None:
            talk.made.people.accept(document)  # type: ignore[union-attr]
        await talk.open()
        await talk.made.windows.stop()
        app = talk.devices._transport.app  # type: ignore[attr-defined]
        mutator = Mutator(seed, study=place.study, key=_key(place), pairs=pairs)
        made = iter(mutator)
        counted = sent = 0
        for start in range(0, number, TOGETHER):
            some = []
            for _ in range(min(TOGETHER, number - start)):
                name, data = next(made)
                kinds[name] += 1
                some.append(ask(app, data, mutator.coins))
            own = [ask(app, mutator.sealed(mutator.inside(*pair))) for pair in honest[sent : sent + 1]]
            answers = await asyncio.gather(*some, *own)
            counted, sent = counted + sum(answer == 201 for answer in answers[len(some) :]), sent + len(own)
            del answers[len(some) :]
            statuses.update(answers)
        ids = {report[40:56] for _, report in honest[:sent]}
        with talk.made.collector.store.reading() as connection:
            there = {row[0] for row in connection.execute("SELECT id FROM report").fetchall()}
        talk.made.log.flush()
        faults = talk.log.getvalue().count('"fault"')
    return {
        "statuses": statuses,
        "kinds": kinds,
        "mutants": number,
        "honest": sent,
        "counted": counted,
        "stored": len(ids & there),
        "faults": faults,
    }


def _study(folder: Path, kind: str, honest: int) -> tuple[Any, list[Any], list[Any], bytes | None]:
    """Files of a shuffler, and pairs of token and report: some to mutate, the others honest."""
    import study_fakes
    from shuffler_world import Place

    from tacit.service.tokens.admission import open_name

    pairs_of, most = (TOKENS, TOKENS) if kind == "issuer" else (PAIRS, honest)
    count, body, document = pairs_of + min(honest, most), None, None
    if kind == "sealed":
        design = row_load.design()
        place = SealedPlace(folder, design)
        body = os.urandom(row_load.BODY)
    else:
        design = study_fakes.FakeDesign(kind="test-central", stages=1, target=10**6, least=10, labels=40)
        config = 'people = "issuer"' if kind == "issuer" else ""
        place = Place(folder, design, config=config)
    reports = [place.report(number % 40, body=body) for number in range(count)]
    tokens = [open_name(os.urandom(8).hex()) for _ in range(count)]  # no mutant is by accident another person
    if kind == "issuer":
        tokens, document = _tokens(place, count)
    pairs = list(zip(tokens, reports, strict=True))
    return place, pairs[:pairs_of], pairs[pairs_of:], document


def _tokens(place: Any, count: int) -> tuple[list[bytes], bytes]:
    """Tokens that the issuer of this study has signed, and the document of its keys."""
    from tacit.service.tokens.blind_rsa import SecretKey
    from tacit.service.tokens.token import TokenKeys

    secret = SecretKey.new()
    keys = TokenKeys(study=place.study, serial=1, stages={0: secret.public})
    return [_token(keys, secret) for _ in range(count)], keys.signed(place.learner)


def _token(keys: Any, secret: Any) -> bytes:
    import base64
    import json

    from tacit.service.tokens.blind_rsa import blind_sign
    from tacit.service.tokens.wallet import Asked

    asked = Asked.new(keys, 0)
    signature = blind_sign(secret, base64.b64decode(json.loads(asked.body)["blinded"]))
    made: bytes = asked.finish(json.dumps({"signature": base64.b64encode(signature).decode()}).encode())
    return made


class SealedPlace:
    """The files of a shuffler whose messages are sealed: `Place` with a real design."""

    def __new__(cls, folder: Path, design: Any) -> Any:
        from shuffler_world import Place

        from tacit.service.encryption.keyring import Keyring
        from tacit.study.study import Study

        place = Place(folder, design, config="sealed = true")
        study = Study.new(folder / "study", design, key=place.learner, seed=1, sealed=1)
        ring = Keyring.new(folder / "ring", party="learner", study=study.study)
        bundle = study.plan({"learner": ring.document(place.learner)})
        place.bundle = lambda *_, **__: bundle  # type: ignore[method-assign]
        return place


def _key(place: Any) -> Any:
    from tacit.service.encryption.keyring import Keyring

    ring = Keyring(place.directory / "collector" / "sealing")
    return ring.secrets(time.time())[ring.active].public


async def ask(app: Any, body: bytes, coins: random.Random | None = None) -> int:
    """The status of one POST to an application, without a network; with `coins`, in parts."""
    headers = [(b"content-length", b"%d" % len(body)), (b"host", b"shuffler")]
    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http"}
    scope |= {"path": "/v1/reports", "raw_path": b"/v1/reports", "query_string": b"", "root_path": ""}
    scope |= {"headers": headers, "client": ("203.0.113.5", 1), "server": ("shuffler", 80), "state": {}}
    parts = [body]
    if coins is not None and body and coins.random() < 0.1:
        place = coins.randrange(len(body))
        parts = [body[:place], b"", body[place:]]
        del headers[0]
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    messages[-1]["more_body"] = False
    arriving = iter(messages)
    status = 0

    async def receive() -> Any:
        return next(arriving, {"type": "http.disconnect"})

    async def send(message: Any) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]

    await app(scope, receive, send)
    return status


# over the network


def huge(url: str, chunked: bool) -> tuple[int, int]:
    """Send 64 MB: the status, and how many bytes left before there was an answer."""
    where = urlsplit(url)
    head = "transfer-encoding: chunked" if chunked else f"content-length: {HUGE}"
    sent = 0
    with socket.create_connection((where.hostname, where.port), timeout=PATIENCE) as line:
        line.sendall(f"POST /v1/reports HTTP/1.1\r\nhost: x\r\n{head}\r\n\r\n".encode())
        part = bytes(2**16)
        whole = b"%x\r\n%s\r\n" % (len(part), part) if chunked else part
        line.settimeout(0.0)
        found = b""
        end = time.monotonic() + PATIENCE
        while sent < HUGE and time.monotonic() < end:
            with contextlib.suppress(BlockingIOError):
                found += line.recv(4096)
            if b"\r\n\r\n" in found:
                break
            try:
                sent += line.send(whole)
            except BlockingIOError:
                time.sleep(0.001)
            except OSError:
                break
        line.settimeout(PATIENCE)
        with contextlib.suppress(OSError):
            while b"\r\n\r\n" not in found and (more := line.recv(4096)):
                found += more
    return int(found[9:12] or 0), sent


class Slow:
    """Sockets that begin a request and never end it; `tend` replaces those that were given up."""

    def __init__(self, url: str, number: int) -> None:
        where = urlsplit(url)
        self.address, self.number, self.given_up = (where.hostname, where.port), number, 0
        self.lines: list[socket.socket] = []
        self.tend()

    def tend(self) -> None:
        for line in list(self.lines):
            try:
                line.send(b"x")
                gone = line.recv(1) == b""
            except BlockingIOError:
                gone = False
            except OSError:
                gone = True
            if gone:
                self.given_up += 1
                line.close()
                self.lines.remove(line)
        while len(self.lines) < self.number:
            line = socket.create_connection(self.address, timeout=PATIENCE)
            head = b"POST /v1/reports HTTP/1.1\r\nhost: x\r\ncontent-length: 60000\r\n"
            line.sendall(head + (b"\r\nTCE1" if len(self.lines) % 2 else b""))
            line.setblocking(False)
            self.lines.append(line)

    def close(self) -> None:
        for line in self.lines:
            line.close()


def arriving(parties: Parties) -> int:
    """How many bodies the shuffler says are on their way."""
    with contextlib.closing(parties.internally("shuffler")) as wire:
        found = wire.ask("GET", "/metrics")
    assert found is not None
    assert found.status == 200
    return int(float(re.findall(r"^tacit_shuffler_bodies_arriving (\S+)", found.body.decode(), re.M)[0]))


def slow(parties: Parties, sockets: int, honest: int, seconds: float | None) -> dict[str, Any]:
    """Honest reports while sockets hang: half of them in bodies, half in heads."""
    url = parties.public("shuffler")
    with contextlib.closing(Slow(url, sockets)) as crowd:
        end = time.monotonic() + PATIENCE
        while arriving(parties) < sockets // 2 and time.monotonic() < end:
            time.sleep(0.02)
        hanging = arriving(parties)
        with row_load.flood(parties, each=honest // 2, seed=7) as clients:
            if seconds is None:
                found = clients.run(connections=8)
            else:
                parts, until = [], time.monotonic() + seconds
                while time.monotonic() < until:
                    parts.append(clients.run(connections=8, seconds=1.0))
                    crowd.tend()
                found = _joined(parts)
            lost = row_load.lost_and_invented(clients, found, row_load.stored(parties))[0]
        still = arriving(parties)
    return {
        "sockets": sockets,
        "hanging_before": hanging,
        "hanging_after": still,
        "given_up": crowd.given_up,
        "honest": len(found),
        "statuses": found.counts,
        "lost": lost,
        "p99_ms": round(1e3 * found.quantile(0.99), 1),
        "most_ms": round(1e3 * found.quantile(1.0), 1),
    }


def _joined(parts: list[Any]) -> Any:
    import numpy as np

    first = parts[0]
    for name in ("numbers", "statuses", "seconds", "moments"):
        setattr(first, name, np.concatenate([getattr(part, name) for part in parts]))
    first.ended = parts[-1].ended
    return first


def garbage(url: str, number: int, seed: int) -> dict[str, Any]:
    """Requests that are no HTTP, or nearly: what came back."""
    where, coins = urlsplit(url), random.Random(seed)  # noqa: S311 - what is sent
    plain = b"POST /v1/reports HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello"
    odd = (
        lambda: coins.randbytes(coins.randrange(1, 400)) + b"\r\n\r\n",
        lambda: Mutator.bits(_Coins(coins), plain) + b"\r\n\r\n",  # type: ignore[arg-type]
        lambda: plain.replace(b"5", coins.choice((b"-1", b"5, 6", b"0x5", b"9" * 40, b"", b"\xff"))),
        lambda: plain.replace(b"host: x", b"x: " + b"y" * coins.choice((10, 70_000))),
        lambda: plain.replace(b"POST", coins.choice((b"PUT", b"BREW", b"get", b"CONNECT", b"TRACE"))),
        lambda: plain.replace(b"/v1/reports", coins.choice((b"//", b"/%00", b"/v1/../..", b"*", b"/" + b"a" * 9000))),
        lambda: plain.replace(b"HTTP/1.1", coins.choice((b"HTTP/9.9", b"HTTP/1.0", b"HTTP", b"ICAP/1.0"))),
        lambda: plain.replace(b"content-length: 5", b"transfer-encoding: chunked").replace(b"hello", b"zz\r\nhello"),
        lambda: plain.replace(b"content-length: 5", b"content-length: 5\r\ntransfer-encoding: chunked"),
        lambda: plain.replace(b"host: x", b"upgrade: websocket\r\nconnection: upgrade\r\nexpect: 100-continue"),
        lambda: plain * coins.randrange(2, 20),
    )
    statuses: Counter[str] = Counter()
    for _ in range(number):
        with contextlib.suppress(OSError), socket.create_connection((where.hostname, where.port), timeout=2.0) as line:
            line.sendall(coins.choice(odd)())
            line.shutdown(socket.SHUT_WR)
            found = b""
            with contextlib.suppress(OSError):
                while more := line.recv(65_536):
                    found += more
            statuses.update(word.decode() for word in re.findall(rb"HTTP/1.1 (\d{3})", found) or [b"closed"])
    return {"sent": number, "statuses": dict(statuses)}


class _Coins:
    """What `Mutator.bits` needs of a mutator."""

    def __init__(self, coins: random.Random) -> None:
        self.coins = coins


# rows


def run(scale: str = "chaos", seed: int = 17) -> list[dict[str, Any]]:
    """All rows of this module."""
    size = SCALES[scale]
    rows = [mutated_row(size["mutants"], seed, size["processes"])]
    with row_load.shuffling(limits={"body": LARGEST, "read_seconds": 8.0}) as parties:
        return rows + network_rows(parties, size, seed)


def mutated_row(number: int, seed: int, processes: int) -> dict[str, Any]:
    """The row of the mutants."""
    found = mutants(number, seed, processes)
    errors = sum(count for status, count in found["statuses"].items() if status >= 500 or status == 0)
    honest = found["counted"] == found["stored"] == found["honest"] > 0
    met = errors == found["faults"] == found["crashes"] == 0 and found["memory"] <= MEMORY and honest
    return row(
        f"{found['mutants']:,} mutated bodies",
        "0 5xx, 0 crashes, memory <= 512 MB, honest reports between them counted",
        f"{errors} 5xx, {found['crashes']} crashes, {found['memory'] / 2**20:.0f} MB, "
        f"{found['counted']} of {found['honest']} honest",
        met,
        f"{1e6 * found['cpu'] / found['mutants']:.0f} us of CPU per mutant",
        statuses={str(status): count for status, count in sorted(found["statuses"].items())},
        kinds=dict(sorted(found["kinds"].items())),
        faults=found["faults"],
        seed=seed,
    )


def network_rows(parties: Parties, size: dict[str, Any], seed: int) -> list[dict[str, Any]]:
    """The rows of huge, slow and broken requests."""
    url, pid = parties.public("shuffler"), parties.pid("shuffler")
    large = [huge(url, chunked) for chunked in (False, True)]
    broken = garbage(url, size["garbage"], seed)
    hung = slow(parties, size["slow"], size["honest"], size["seconds"])
    memory = peak_memory(pid)
    errors = sum(count for word, count in broken["statuses"].items() if word.startswith("5"))
    timely = size["seconds"] is None or hung["p99_ms"] <= 1e3 * LATENCY
    good = set(hung["statuses"]) == {"201"} and hung["lost"] == 0
    return [
        row(
            "64 MB body, announced and in chunks",
            "413 before it is read",
            ", ".join(f"{status} after {sent:,} bytes" for status, sent in large),
            all(status == 413 for status, _ in large) and all(sent < HUGE // 8 for _, sent in large),
            "bytes that the sockets' buffers took",
        ),
        row(
            f"{size['garbage']:,} requests that are no HTTP",
            "0 5xx",
            f"{errors} 5xx",
            errors == 0,
            **broken,
        ),
        row(
            f"slow bodies and heads on {size['slow']} sockets",
            "honest reports all counted, p99 <= 1 s",
            f"{hung['statuses']}, {hung['lost']} lost, p99 {hung['p99_ms']:.0f} ms",
            good and timely,
            f"{hung['given_up']} sockets given up",
            **hung,
        ),
        row("memory of the shuffler", "<= 512 MB", f"{memory / 2**20:.0f} MB", memory <= MEMORY, ""),
    ]
