"""All parties of one study on one machine, each as a real process: for demonstrations, rehearsals and tests.

    with Loopback.new(directory, design, tokens=True) as parties:
        parties.start()
        parties.public("shuffler"), parties.internal("learner") ...

Every party has a directory, keys, a secret and a configuration of its own, as in a deployment, and listens on loopback
at ports that the kernel chose. What it does not give is what a deployment is for: here one operator sees everything.

B1  Whatever ends the block, or this process, ends the others: they are asked (SIGTERM), then killed, and waited for.
B2  A party that is started again finds its state in its directory; its address may have changed, so those who talk to
    it are configured again.
"""

from __future__ import annotations

import atexit
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tacit.documents import canonical
from tacit.errors import InvalidInput, require
from tacit.runs.signature import new_keys
from tacit.runs.storage_paths import write_private
from tacit.service.config import Limits
from tacit.service.dashboard.app import Tokens, entrance
from tacit.service.device import PinnedKeys
from tacit.service.http_client import Peer
from tacit.service.shuffler import largest_envelope
from tacit.service.tokens.admission import Enrolment
from tacit.study.contract import Design, channels_of

ORDER: Final = ("shuffler", "mixer", "issuer", "learner")
"""Parties in the order in which they are started: whoever is talked to comes first."""
START_SECONDS: Final = 60.0
END_SECONDS: Final = 30.0
WAIT_SECONDS: Final = 300.0
"""Seconds that one step of the parties may take."""
Plain = Mapping[str, Any]


class Loopback:
    """Directories and processes of shuffler and learner, and of issuer and mixer where the study has them."""

    def __init__(
        self, directory: Path, *, tokens: bool, sealed: bool, mixed: bool, options: Mapping[str, Plain]
    ) -> None:
        self.directory, self.tokens, self.sealed, self.mixed = directory, tokens, sealed, mixed
        absent = {party for party, there in (("issuer", tokens), ("mixer", mixed)) if not there}
        self.parties = tuple(party for party in ORDER if party not in absent)
        self.options = options
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.addresses: dict[str, dict[str, str]] = {}
        self._peers: dict[str, Peer] = {}
        self.room = 0
        """The longest envelope of the study."""

    @classmethod
    def new(
        cls,
        directory: str | Path,
        design: Design,
        *,
        tokens: bool,
        mixed: bool = False,
        options: Mapping[str, Plain] | None = None,
    ) -> Self:
        """Make directories, keys and secrets of all parties in a new directory.

        Messages are sealed under shuffle trust, with a mixer in the row if `mixed`. `options` are further entries of
        the parties' configurations.
        """
        place = Path(directory)
        require(not place.exists() or not any(place.iterdir()), f"{place} must be a new directory", "files in it")
        made = cls(place, tokens=tokens, sealed=design.trust == "shuffle", mixed=mixed, options=options or {})
        require(made.sealed or not mixed, "a mixer is for sealed messages, under shuffle trust", design.trust)
        made.room = largest_envelope(channels_of(design), int(made.sealed) + int(mixed))
        for party in made.parties:
            new_keys(made.home(party) / "keys")
            write_private(made.home(party) / "bearer", secrets.token_hex(24).encode())
            (made.home(party) / "design.json").write_bytes(canonical(design.to_dict()))
        if tokens:
            Enrolment.new(made.enrolment)
        return made

    # where things are

    def home(self, party: str) -> Path:
        """The directory of a party."""
        return self.directory / party

    @property
    def enrolment(self) -> Path:
        """The issuer's list of people."""
        return self.home("issuer") / "people.txt"

    @property
    def pins(self) -> PinnedKeys:
        """What devices pin."""
        return PinnedKeys.of({party: self._public_key(party) for party in self.parties})

    def public(self, party: str) -> str:
        """The address of a party for devices."""
        return self.addresses[party]["public"]

    def internal(self, party: str) -> Peer:
        """The internal address of a party, with its secret."""
        url = self.addresses[party]["internal"]
        if url not in self._peers:
            self._peers[url] = Peer(url, (self.home(party) / "bearer").read_bytes())
        return self._peers[url]

    # processes

    def start(self, *parties: str) -> None:
        """Start these parties, or all of them, and wait until they listen."""
        atexit.unregister(self.stop)
        atexit.register(self.stop)
        for party in parties or self.parties:
            require(self._gone(party), f"the {party} must not run already", "a running one")
            home = self.home(party)
            ready = home / "ready.json"
            ready.unlink(missing_ok=True)
            (home / "config.toml").write_text(_toml(self._config(party)), encoding="utf-8")
            self._spawn(party, [str(home / "config.toml")])
            self.addresses[party] = self._awaited(party, ready)

    def start_dashboard(self, *, simulated: bool) -> str:
        """Serve a dashboard of shuffler and learner, once they run; the address that enters with the writing token."""
        require(self._gone("dashboard"), "the dashboard must not run already", "a running one")
        home = self.home("dashboard")
        tokens = Tokens.at(home / "tokens")  # made here, so that the process has none to print
        ready = home / "ready.json"
        ready.unlink(missing_ok=True)
        places = [str(self.home(party) / "config.toml") for party in ("learner", "shuffler")]
        options = ["--secrets", str(home / "tokens"), "--ready", str(ready), *(["--simulated"] * simulated)]
        self._spawn("dashboard", [*places, *options])
        self.addresses["dashboard"] = self._awaited("dashboard", ready)
        return entrance(self.public("dashboard"), tokens.writer)

    def until(self, when: Callable[[dict[str, Any]], bool], seconds: float = WAIT_SECONDS) -> dict[str, Any]:
        """The learner's status once it is so; a learner that is refused, or takes too long, is an error."""
        end = time.monotonic() + seconds
        while True:
            found = self.internal("learner").json("/v1/status")
            if when(found):
                return found
            worker = found["worker"]
            if worker["outcome"] == "refused" or time.monotonic() > end:
                raise InvalidInput(f"the learner must go on, got {worker['outcome']}: {worker['word']}")
            time.sleep(0.05)

    def until_open(self, stage: int) -> None:
        """Wait until devices can report in a stage."""
        self.until(lambda found: (found["worker"]["word"], found["worker"]["stage"]) == ("open", stage))

    def kill(self, party: str) -> None:
        """Kill a party at once (SIGKILL)."""
        self.processes[party].kill()
        self.processes[party].wait(END_SECONDS)

    def stop(self) -> None:
        """End all parties (B1)."""
        atexit.unregister(self.stop)
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()
        running = [process for process in self.processes.values() if process.poll() is None]
        for process in running:
            process.send_signal(signal.SIGTERM)
        for process in running:
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(END_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # inside

    def _spawn(self, party: str, arguments: list[str]) -> None:
        """Start the process of a party; what it says goes into its log."""
        with (self.home(party) / "log.jsonl").open("ab") as log:
            self.processes[party] = subprocess.Popen(  # noqa: S603 - this interpreter, our own arguments
                [sys.executable, "-m", "tacit", "serve", party, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )

    def _gone(self, party: str) -> bool:
        process = self.processes.get(party)
        return process is None or process.poll() is not None

    def _awaited(self, party: str, ready: Path) -> dict[str, str]:
        """The addresses that a party wrote down once it listened."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            if ready.is_file():
                found: dict[str, str] = json.loads(ready.read_bytes())
                return found
            if self._gone(party):
                break
            time.sleep(0.02)
        log = self.home(party) / "log.jsonl"
        raise InvalidInput(f"the {party} must come up, got none that listens; its last words are in {log}")

    def _public_key(self, party: str) -> Path:
        return self.home(party) / "keys" / "public.pem"

    def _config(self, party: str) -> dict[str, Any]:
        """The configuration of a party: paths are relative to its directory, where they can be."""
        home = self.home(party)
        others = [other for other in self.parties if other != party]
        keys = {"sign": "keys/private.pem", "sealing": "sealing"}
        keys |= {other: os.path.relpath(self._public_key(other), home) for other in others}
        config: dict[str, Any] = {
            "directory": "state",
            "design": "design.json",
            "ready": "ready.json",
            "bearer": {"file": "bearer"},
            "internal": {"port": 0},
            "keys": keys,
        }
        if party == "shuffler":
            config |= {"people": "issuer" if self.tokens else "open", "sealed": self.sealed, "public": {"port": 0}}
            config |= {"mixed": self.mixed, "limits": {"body": max(Limits().body, self.room)}}
        elif party == "issuer":
            config |= {"credentials": self.enrolment.name, "public": {"port": 0}}
            del keys["sealing"]
        elif party == "learner":
            config |= {"sealed": self.sealed, "tokens": self.tokens}
            config |= {other: self._peer(other, home) for other in others}
        return {**config, **self.options.get(party, {})}

    def _peer(self, party: str, home: Path) -> dict[str, Any]:
        secret = os.path.relpath(self.home(party) / "bearer", home)
        return {"url": self.addresses[party]["internal"], "bearer": {"file": secret}}


def _toml(config: Plain, table: str = "") -> str:
    """A configuration as TOML: texts, numbers, truths and tables of them."""
    plain = {name: value for name, value in config.items() if not isinstance(value, Mapping)}
    lines = [f"{name} = {json.dumps(value)}" for name, value in plain.items()]
    text = "\n".join(([f"\n[{table}]"] if table else []) + lines) + "\n"
    for name, value in config.items():
        if isinstance(value, Mapping):
            text += _toml(value, f"{table}.{name}" if table else name)
    return text
