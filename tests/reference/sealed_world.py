"""A small sealed study and its parts, for tests of sealing and batches."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from study_fakes import REHEARSAL

from tacit.data.trajectories import Trajectory
from tacit.documents import canonical
from tacit.randomness import SimulationNoise
from tacit.runs.signature import new_keys, sign
from tacit.service.encryption.envelope import seal_body
from tacit.service.encryption.hpke import SUITE, SecretKey
from tacit.service.encryption.keyring import FORMAT, VERSION, entry
from tacit.study.bundle import Bundle
from tacit.study.design import plan_study
from tacit.study.device import Device
from tacit.study.wire import Report


@cache
def design(stages: int = 3, target: int = 8, **more: Any) -> Any:
    """A design of a few people with little noise: what is sealed is a few dozen labels each."""
    sizes: dict[str, Any] = {"states": 2, "actions": 2, "horizon": 2, "epsilon": 12.0, "delta": 1e-3}
    chosen = {**sizes, "learner": "bucb", "trust": "shuffle", "stages": stages, "target": target, **more}
    return plan_study(**chosen)


def documents(learner: SecretKey, mixer: SecretKey | None = None, of: Any = None) -> dict[str, bytes]:
    """Keys documents of these keys, signed by keys that nobody has pinned: what a plan of a sealed stage needs."""
    found, plain = {}, {"format": FORMAT, "version": VERSION, "suite": SUITE, "serial": 1}
    plain["study"] = (design() if of is None else of).digest
    with tempfile.TemporaryDirectory() as folder:
        for party, key in (("learner", learner), ("mixer", mixer)):
            if key is not None:
                content = {**plain, "party": party, "keys": [entry(key.public, "active")]}
                found[party] = canonical(sign(content, new_keys(Path(folder) / party)[0]))
    return found


def channel() -> Any:
    return design().parts().channels[0]


def bodies(number: int, seed: int = 0) -> list[bytes]:
    """Bodies of so many people who did something at random."""
    rng, found = np.random.default_rng(seed), channel()
    noise = SimulationNoise(rng)
    episodes = [Trajectory(rng.integers(0, 2, 3), rng.integers(0, 2, 2), rng.random(2)) for _ in range(number)]
    return [found.encode(one, noise) for one in episodes]


def histogram(some: list[bytes], of: Any = None) -> bytes:
    """What an unsealed collector would release."""
    found = channel() if of is None else of
    labels = np.frombuffer(b"".join(some), dtype=found.labels)
    C = found.spec.num_counters
    return np.bincount(labels, minlength=C + 1)[:C].astype("<i8").tobytes()


def sealed_report(data: bytes, learner: SecretKey, mixer: SecretKey | None = None, channel: Any = None) -> bytes:
    """A report with its body sealed."""
    report = Report.parse(data)
    body = seal_body(
        design().parts().channels[0] if channel is None else channel,
        report.body,
        study=report.study,
        stage=report.stage,
        learner=learner.public,
        mixer=None if mixer is None else mixer.public,
    )
    return Report(study=report.study, stage=report.stage, id=report.id, body=body).encode()


def answers(bundle: bytes, seed: int) -> list[bytes]:
    """The reports of all people of a stage, with seeded noise and lives."""
    asked = Bundle.parse(bundle)
    rng = np.random.default_rng([seed, asked["stage"]])
    found = []
    for _ in range(asked["target"]):
        device = Device(None, **REHEARSAL, noise=SimulationNoise(rng), rng=rng)
        device.accept(bundle)
        life = {
            "states": rng.integers(0, 2, 3).tolist(),
            "actions": rng.integers(0, 2, 2).tolist(),
            "rewards": rng.random(2).tolist(),
        }
        found.append(device.report(life))
    return found
