"""All parties of one small study, in one process, each of which can be made to deviate: real classes, real keys."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import sealed_world
from device_tools import Slept, design_of
from token_tools import HandMade
from worker_tools import BEARER

from tacit.documents import canonical
from tacit.randomness import SimulationNoise
from tacit.runs.signature import new_keys, sign
from tacit.service.config import Keys
from tacit.service.device import PinnedKeys, RemoteDevice
from tacit.service.encryption.envelope import seal_body
from tacit.service.encryption.keyring import Keyring
from tacit.service.http_client import Backoff, Peer
from tacit.service.mixer import Mixer
from tacit.service.relay import Relay
from tacit.service.tokens.admission import TokenAdmission
from tacit.service.tokens.blind_rsa import SecretKey
from tacit.service.worker import BatchOpener, MixerLink
from tacit.study.bundle import Bundle
from tacit.study.collector import Collector
from tacit.study.device import Device
from tacit.study.sealed_batches import Manifest
from tacit.study.study import Study
from tacit.study.wire import ReleasePayload, Report, sha256

LEAST, TARGET = 8, 12
LIVED = {"states": [0, 1, 1], "actions": [0, 1], "rewards": [0.0, 1.0]}


@cache
def token_key(stage: int, issuer: str = "") -> SecretKey:
    """The issuer's key of a stage: made once, since it takes long."""
    return SecretKey.new()


class World:
    """A study whose first stage is planned; `layers` are those of its seals, and there are tokens where it is sealed.

    What is in `served` is what parties are handed in place of what honest ones would hand out.
    """

    def __init__(self, place: Path, trust: str = "shuffle", layers: int = 1) -> None:
        self.place, self.layers = place, layers if trust == "shuffle" else 0
        self.design = sealed_world.design(3, TARGET, least=LEAST) if trust == "shuffle" else design_of(trust)
        self.digest = bytes.fromhex(self.design.digest)
        pairs = {who: new_keys(place / "keys" / who) for who in ("learner", "shuffler", "mixer", "stranger")}
        self.sign, self.pin = ({who: pair[side] for who, pair in pairs.items()} for side in (0, 1))
        self.rings = {
            who: Keyring.new(place / "rings" / who, party=who, study=self.digest)
            for who in ("learner", "shuffler", "mixer")
        }
        self.issuer = self.new_issuer("")
        self.study = Study.new(
            place / "study",
            self.design,
            key=self.sign["learner"],
            collector=self.pin["shuffler"],
            seed=3,
            sealed=self.layers,
        )
        self.collector = Collector.new(
            place / "collector",
            self.design,
            key=self.sign["shuffler"],
            learner=self.pin["learner"],
            sealed=self.layers,
        )
        self.planned = self.study.plan(self.documents())
        self.released, self.plain, self.served, self.posted, self.made = b"", [], {}, [], 0

    def new_issuer(self, name: str) -> HandMade:
        """An issuer with keys of two stages."""
        made = HandMade(self.place / f"issuer {name}", study=self.digest)
        for stage in (0, 1):
            made.open(stage, token_key(stage, name))
        return made

    def new(self, name: str) -> Path:
        """A place that was not used before."""
        self.made += 1
        return self.place / f"{name} {self.made}"

    # what is signed

    def document(self, who: str, by: str | None = None) -> bytes:
        """The keys document of a party."""
        return self.rings[who].document(self.sign[by or who])

    def documents(self) -> dict[str, bytes]:
        return {who: self.document(who) for who in ("learner", "mixer")[: self.layers]}

    def bundle(self, by: str | None = "learner", **changes: Any) -> bytes:
        """The planned bundle with other entries, signed again (None: unsigned)."""
        content = {**Bundle.parse(self.planned).content, **changes}
        plain = {name: value for name, value in content.items() if name != "signature"}
        return canonical(plain if by is None else sign(plain, self.sign[by]))

    def channel(self, **changes: Any) -> dict[str, Any]:
        """The entries of a bundle whose channel has other numbers, and that fits it otherwise."""
        found = {**self.design.channels[0], **changes}
        return {"channel": found, "least": found["least"], "target": found["target"], "claim": found["claim"]}

    def after(self, data: bytes, **changes: Any) -> bytes:
        """The bundle of the stage after this one, chained to it."""
        before = Bundle.parse(data)
        return self.bundle(**{"stage": before["stage"] + 1, "previous": before.digest, **changes})

    def forged(self, by: str | None = "shuffler", manifest: dict[str, Any] | None = None, **changes: Any) -> bytes:
        """The release with other fields, signed again."""
        given = ReleasePayload.parse(self.released)
        if manifest is not None:
            changes["payload"] = replace(Manifest.parse(given.payload), **manifest).encode()
        made = replace(given, signature=b"", **changes)
        return made.signed(None if by is None else self.sign[by]).encode()

    # people

    def device(self, **options: Any) -> Device:
        return Device(**{"directory": None, "cap": 12.0, "floor": LEAST, "key": self.pin["learner"], **options})

    def remote(self, **options: Any) -> RemoteDevice:
        """A device over HTTP, which meets what is in `served`."""
        pins = {who: self.pin[who] for who in ("learner", "shuffler", "mixer")[: 2 + (self.layers == 2)]}
        told = {
            "name": "ada",
            "cap": 12.0,
            "floor": LEAST,
            "pins": PinnedKeys.of(pins),
            "backoff": Backoff(first=1.0, most=8.0),
        }
        told |= {"over": httpx.Client(transport=httpx.MockTransport(self.answer)), "sleep": Slept()}
        told |= {"lots": lambda: 0.5, "clock": lambda: 0.0}
        return RemoteDevice(None, shuffler="http://shuffler", **{**told, **options})

    def answer(self, request: httpx.Request) -> httpx.Response:
        """What a device, or the learner, gets from the shuffler."""
        path = request.url.path
        if request.method == "POST":
            self.posted.append(request.read())
        if path in self.served:
            found = self.served[path]
            return found if isinstance(found, httpx.Response) else httpx.Response(200, content=found)
        honest = {
            "/v1/bundle": lambda: self.planned,
            "/v1/keys/shuffler": lambda: self.document("shuffler"),
            "/v1/stages/0/batch": lambda: self.collector.batch_file(0).read_bytes(),
            "/v1/stages/0/tokens": lambda: self.collector.tokens_file(0).read_bytes(),
        }
        return httpx.Response(200, content=honest[path]())

    def report(self, seed: int = 0, data: bytes | None = None) -> bytes:
        """The report of a person, sealed where the study is."""
        device = self.device(noise=SimulationNoise(np.random.default_rng(seed)))
        bundle = device.accept(self.planned if data is None else data)
        plain = Report.parse(device.report(LIVED))
        self.plain.append(plain.body)
        return self.sealed(plain, bundle).encode()

    def sealed(self, plain: Report, bundle: Bundle) -> Report:
        """A report with its body sealed to the keys of its stage."""
        rings = {who: self.rings[who] for who in ("learner", "mixer")[: self.layers]}
        keys = {who: ring.secret(ring.active).public for who, ring in rings.items()}
        if not keys:
            return plain
        return replace(plain, body=seal_body(bundle.channel, plain.body, study=plain.study, stage=plain.stage, **keys))

    # stages

    def fill(self, people: int = LEAST) -> None:
        """So many people report in the open stage."""
        stage = Bundle.parse(self.planned)["stage"]
        for number in range(people):
            token = (self.issuer.token(stage),) if self.layers else ()
            found = self.collector.add_many([(self.report(number), f"{stage} {number}", *token)])
            assert found == ("counted",)

    def run(self, people: int = LEAST) -> bytes:
        """Open, fill, close and release the planned stage."""
        self.collector.open(self.planned)
        self.fill(people)
        self.collector.close()
        self.released = self.collector.release(self.study.head)
        return self.released

    def learn(self) -> bytes:
        """The whole planned stage, and the plan of the next one; what was released is returned."""
        self.study.take(self.run(), opened=self.opened() if self.layers else None, inspected=True)
        self.planned = self.study.plan(self.documents())
        return self.released

    @property
    def counts(self) -> bytes:
        """What an honest batch opens to."""
        return sealed_world.histogram(self.plain, self.design.parts().channels[0])

    # learner, relay and mixer

    def relay(self) -> Relay:
        keys = Keys(sign=self.sign["shuffler"], learner=self.pin["learner"], mixer=self.pin["mixer"])
        return Relay(self.collector, keys, self.rings["shuffler"], self.holders())

    def holders(self, document: bytes | None = None) -> TokenAdmission:
        return TokenAdmission(study=self.digest, issuer=self.issuer.public, document=document)

    def opened(self, release: bytes | None = None, **lies: Any) -> bytes:
        """What the learner's opener makes of a release, of the files in `served`, and of a mixer that lies.

        `document` and `file` are functions of what an honest mixer hands out; `counted` is told what a batch held.
        """
        given = ReleasePayload.parse(self.released if release is None else release)
        source = Peer("http://shuffler", BEARER, over=httpx.Client(transport=httpx.MockTransport(self.answer)))
        mixer, issuer = None, self.new("issuer document")
        issuer.write_bytes(self.issuer.document)
        if self.layers == 2:
            mixer = MixerLink(self.mixing(**lies), self.pin["mixer"])
        opener = BatchOpener(
            self.new("files"),
            source,
            ring=self.rings["learner"],
            sign=self.sign["learner"],
            mixer=mixer,
            issued=lies.get("issued", lambda: self.issuer.keys),
            issuer=issuer,
            counted=lies.get("counted"),
        )
        return opener.opened(given, Bundle.parse(self.planned))

    def mixing(self, document: Any = None, file: Any = None, **more: Any) -> Peer:
        """A mixer behind its address."""
        options = {"key": self.sign["mixer"], "shuffler": self.pin["shuffler"], "issuer": self.issuer.public}
        mixer = Mixer(self.new("mixer"), self.design, ring=self.rings["mixer"], **options)

        def answer(request: httpx.Request) -> httpx.Response:
            words, data = request.url.path.split("/")[4:], request.read()
            if request.method == "PUT":
                mixer.part(0, int(words[1]), data, words[0])
                return httpx.Response(201)
            if request.method == "POST":
                made, change = mixer.mix(0, data), document
            else:
                made, change = mixer.batch(0).read_bytes(), file
            found = made if change is None else change(made)
            return found if isinstance(found, httpx.Response) else httpx.Response(200, content=found)

        found = Peer("http://mixer", BEARER)
        found.session = lambda: httpx.Client(transport=httpx.MockTransport(answer), base_url="http://mixer")  # type: ignore[method-assign]
        return found

    def with_batch(self, batch: bytes, **lies: Any) -> bytes:
        """What the learner makes of another batch, for which the shuffler signs a manifest."""
        self.served = {"/v1/stages/0/batch": batch}
        return self.opened(self.forged(manifest={"digest": sha256(batch)}), **lies)

    def with_tokens(self, tokens: list[bytes]) -> bytes:
        """The same for another file of tokens."""
        file = b"".join(tokens)
        self.served = {"/v1/stages/0/tokens": file}
        return self.opened(self.forged(manifest={"tokens": sha256(file)}))

    def batch(self) -> list[bytes]:
        """The messages of the batch in their order."""
        size, data = (
            Manifest.parse(ReleasePayload.parse(self.released).payload).size,
            self.collector.batch_file(0).read_bytes(),
        )
        return [data[start : start + size] for start in range(0, len(data), size)]
