"""A whole RiverSwim study through real services equals the one in process, bit for bit, in all trust models.

The same design, the same coins of the learner, the same people with the same simulation noise: once through collector
and study objects, once through processes of shuffler and learner, envelopes and HTTP (and sealed messages under shuffle
trust). Beliefs, policies and what was counted are the same bytes. Bundles and releases are, too, under central and
local trust. A sealed release holds the digest of a file in random order instead of its counts, so there the place in
the ledger differs, and bundles have keys; everything else of them must not.
"""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest
from worker_tools import everything

from tacit.documents import canonical
from tacit.environments.registry import make
from tacit.features import Features
from tacit.randomness import SimulationNoise
from tacit.service.device import RemoteDevice
from tacit.service.http_client import async_client, converse_all
from tacit.service.loopback import Loopback
from tacit.study.bundle import Bundle
from tacit.study.collector import Collector
from tacit.study.demo import ACTIONS, STATES, live
from tacit.study.design import plan_study
from tacit.study.device import Device
from tacit.study.record import export_policy, replayed
from tacit.study.study import Study
from tacit.study.trial import EVERYBODY
from tacit.study.wire import ReleasePayload

STAGES, TARGET = 2, 16
QUICK = {"shuffler": {"tick_seconds": 0.1, "rehearsal": True}, "learner": {"poll_seconds": 0.1, "seed": 5}}


DECLARED = {"learner": "bucb", "support": make("riverswim").support, "sees": (0, 1, 1, 2)}
"""A river that its devices see in three parts."""


RETURNS = {"states": EVERYBODY, "actions": ("careful", "new"), "horizon": 1, "learner": "fair-lots"}
"""Two arms between which devices draw lots."""


ROWS = {
    "states": None, "horizon": None, "actions": ("wait", "walk"), "learner": "lin-ts",
    "features": Features(age=(18, 90), tired=bool),
}  # fmt: skip
"""Rows of features, of which devices take the draws of a bundle."""


def design_of(trust, **more):
    world = make("riverswim")
    sizes = {"states": STATES, "actions": ACTIONS, "horizon": world.horizon}
    return plan_study(
        name="equal",
        trust=trust,
        epsilon=8.0,
        delta=0.0 if trust == "local" else 1e-6,
        stages=STAGES,
        target=TARGET,
        least=TARGET - 4,
        **{**sizes, **more},
    )


def hooked(stage, number):
    """Noise and coins of one device, and the world of its person."""
    made = [np.random.default_rng([17, stage, number, part]) for part in range(3)]
    return {"noise": SimulationNoise(made[0]), "rng": made[1]}, made[2]


def lived(device, number, rng):
    """Report, or cover: every seventh person has nothing to tell."""
    if number % 7 == 3:
        device.cover()
    elif device.bundle.features is not None:
        row = {"age": float(rng.uniform(18, 90)), "tired": bool(rng.random() < 0.5)}
        device.report({"states": [row], "actions": [device.act(0, row)], "rewards": [float(rng.random())]})
    elif device.bundle["horizon"] == 1:
        device.report({"states": [0, 0], "actions": [device.act(0, 0)], "rewards": [float(rng.random())]})
    else:
        device.report(live(device, make("riverswim"), rng))


def in_process(place, design, keys):
    """The study of objects."""
    study = Study.new(place / "study", design, key=keys["learner"][0], collector=keys["shuffler"][1], seed=5)
    options = {"key": keys["shuffler"][0], "learner": keys["learner"][1]}
    collector = Collector.new(place / "collector", design, noise="simulation", seed=6, **options)
    for stage in range(STAGES):
        bundle = study.plan()
        collector.open(bundle)
        sent = []
        for number in range(TARGET):
            told, rng = hooked(stage, number)
            device = Device(None, cap=10.0, floor=2, key=keys["learner"][1], **told)
            device.accept(bundle)
            lived(device, number, rng)
            sent.append((device.sent(), f"person {stage} {number}"))
        assert set(collector.add_many(sent)) == {"counted"}
        collector.close()
        assert study.take(collector.release(study.head)) == "taken"
    study.plan()
    return study, collector


def through_services(parties):
    """The same people over HTTP."""
    for stage in range(STAGES):
        parties.until_open(stage)
        assert asyncio.run(one_stage(parties, stage)) == ["counted"] * TARGET
        parties.until(lambda found: len(found["releases"]) > stage)  # noqa: B023
    return parties.until(lambda found: found["worker"]["outcome"] == "finished")


async def one_stage(parties, stage):
    devices, worlds = [], []
    for number in range(TARGET):
        told, rng = hooked(stage, number)
        name = f"person {stage} {number}"
        devices.append(
            RemoteDevice(
                None, shuffler=parties.public("shuffler"), pins=parties.pins, name=name, cap=10.0, floor=2, **told
            )
        )
        worlds.append(rng)
    async with async_client(8) as over:
        for bundle in await converse_all((device.refreshing() for device in devices), over):
            assert isinstance(bundle, Bundle), bundle
        for number, (device, rng) in enumerate(zip(devices, worlds, strict=True)):
            lived(device, number, rng)
        return await converse_all((device.sending(60.0) for device in devices), over)


def apart(bundle):
    """A bundle without its place in the ledger, in the chain, its signature, and the keys of a sealed stage."""
    left_out = ("head", "previous", "signature", "keys")
    return canonical({name: part for name, part in json.loads(bundle).items() if name not in left_out})


@pytest.mark.parametrize(
    ("trust", "declared"),
    [
        # Every trust model once; the same with nothing declared before a merge.
        ("central", {}),
        ("shuffle", DECLARED),
        ("local", RETURNS),
        pytest.param("shuffle", ROWS, marks=pytest.mark.slow),
        pytest.param("central", ROWS, marks=pytest.mark.slow),
        pytest.param("local", ROWS, marks=pytest.mark.slow),
        pytest.param("shuffle", {}, marks=pytest.mark.slow),
        pytest.param("local", {}, marks=pytest.mark.slow),
    ],
)
def test_the_services_learn_bit_for_bit_what_the_study_learns(tmp_path, trust, declared):
    design = design_of(trust, **declared)
    with Loopback.new(tmp_path / "parties", design, tokens=False, options=QUICK) as parties:
        keys = {
            who: (parties.home(who) / "keys" / "private.pem", parties.home(who) / "keys" / "public.pem")
            for who in ("learner", "shuffler")
        }
        expected, collector = in_process(tmp_path, design, keys)
        # The noise of a curator is hooked by making its collector here; the process finds it in its directory.
        Collector.new(
            parties.home("shuffler") / "state",
            design,
            noise="simulation",
            seed=6,
            key=keys["shuffler"][0],
            learner=keys["learner"][1],
            sealed=int(trust == "shuffle"),
        )
        parties.start()
        assert through_services(parties)["worker"]["word"] == "served"
        policy = parties.internal("learner").get("/v1/policy")
    found = Study(parties.home("learner") / "state")
    here, there = everything(expected), everything(found)
    assert there["belief"] == here["belief"]
    assert there["stage"] == here["stage"]
    assert [apart(row[2]) for row in there["bundle"]] == [apart(row[2]) for row in here["bundle"]]
    counted = [ReleasePayload.parse(row[2]) for row in here["release"]]
    if trust == "shuffle":
        with found.store.reading() as connection:
            opened = connection.execute("SELECT opened FROM release ORDER BY stage").fetchall()
        assert [row[0] for row in opened] == [release.payload for release in counted]
    else:
        assert there["release"] == here["release"]
        assert there["bundle"] == here["bundle"]
        assert policy == export_policy(expected, tmp_path / "policy.json").read_bytes()
    people = [ReleasePayload.parse(row[2]).people for row in there["release"]]
    assert people == [release.people for release in counted] == [TARGET] * STAGES
    learned = json.loads(policy)
    assert learned["policy"] == json.loads(export_policy(expected, tmp_path / "again.json").read_bytes())["policy"]
    replayed(found)
    collector.verify(expected.head)
    Collector(parties.home("shuffler") / "state").verify(found.head)
