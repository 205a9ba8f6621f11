"""Rows of features: how long `LinearBandit.fit` takes, and how long and how large a shuffled report is.

Times are the best of several on one core. A report of d = 10 and 4 actions in a batch of 4,000 carries its noise bits.
The device of the browser runs in node here. Sealed, every label is a message of its own: no target, for comparison.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas

import tacit
from tacit.accounting.claims import PrivacyClaim, PrivacyUnit
from tacit.data.trajectories import FeatureUsers
from tacit.documents import canonical
from tacit.randomness import SecureNoise
from tacit.release.contract import StageSize
from tacit.release.vectors import VectorPlan
from tacit.released.moments import MomentQuery, MomentShape
from tacit.service.encryption.envelope import seal_body
from tacit.service.encryption.hpke import SecretKey

Row = dict[str, Any]
DEVICE = Path(__file__).parents[1] / "js" / "tacit-device"
ENCODE = """
const { channelFrom } = await import(`${process.argv[1]}/channel.js`);
const { encode } = await import(`${process.argv[1]}/encode.js`);
const { parse } = await import(`${process.argv[1]}/json.js`);
const { sealBody } = await import(`${process.argv[1]}/seal.js`);
const { fromHex } = await import(`${process.argv[1]}/bytes.js`);
const channel = channelFrom(parse(process.argv[2]));
const person = { x: JSON.parse(process.argv[3]), action: 1, reward: 0.7, lot: -1 };
const [times, sealing] = [[], []];
let body = null;
for (let i = 0; i < 60; i += 1) {
  const start = performance.now();
  body = encode(channel, person);
  times.push(performance.now() - start);
}
for (let i = 0; i < 3; i += 1) {
  const start = performance.now();
  await sealBody(channel, body, { study: new Uint8Array(32), stage: 0, learner: fromHex(process.argv[4]) });
  sealing.push(performance.now() - start);
}
console.log(JSON.stringify({ times: times.sort((a, b) => a - b), bytes: body.length, sealing: Math.min(...sealing) }));
"""


def run() -> list[Row]:
    """A fit of 100,000 rows, and one shuffled report."""
    return [fitted(100_000, 20), *reported(4000, 10, 4)]


def fitted(n: int, d: int) -> Row:
    """Seconds of `fit` from a pandas frame, secure noise and the certificate included."""
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({f"x{i}": rng.uniform(-1.0, 1.0, n) for i in range(d - 1)})
    frame["given"] = rng.choice(["a", "b", "c", "d"], n)
    frame["points"] = rng.random(n)
    frame["who"] = np.arange(n)
    space = tacit.Features({f"x{i}": (-1.0, 1.0) for i in range(d - 1)})
    times = []
    for _ in range(7):
        bandit = tacit.LinearBandit(
            actions=["a", "b", "c", "d"],
            features=space,
            reward=(0, 1),
            trust="central",
            epsilon=1.0,
            delta=1e-6,
            reports_per_person=1,
        )
        start = perf_counter()
        bandit.fit(frame, action="given", reward="points", person="who")
        times.append(perf_counter() - start)
    told = (
        f"seconds of fit, {n:,} rows of a pandas frame, d = {d}, 4 actions, secure noise; first of them {times[0]:.2f}"
    )
    return {"name": "LinearBandit.fit", "ratio": min(times), "target": 1.0, "better": "lower", "detail": told}


def reported(users: int, d: int, actions: int) -> list[Row]:
    """Milliseconds and bytes of one unsealed report under shuffle trust."""
    claim = PrivacyClaim(
        trust="shuffle",
        epsilon=1.0,
        delta=1e-6,
        unit=PrivacyUnit(reports=1, per_stage=1),
        neighbours="replace-one",
        output="shuffled-transcript",
    )
    shape = MomentShape(features=d, actions=actions, shared=False)
    plan = VectorPlan(claim=claim, shape=shape, asks=MomentQuery)
    release = plan.release_of(StageSize(target=users, least=users, query=MomentQuery(lots=False)))
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, d))
    person = FeatureUsers(x / np.linalg.norm(x), np.array([1]), np.array([0.7]), np.array([-1]))
    noise, times, sizes = SecureNoise(), [], []
    for _ in range(30):
        start = perf_counter()
        body = release.encode(person, noise)
        times.append(1e3 * (perf_counter() - start))
        sizes.append(len(body))
    key = SecretKey.new().public
    start = perf_counter()
    sealed = len(seal_body(release, body, study=bytes(32), stage=0, learner=key))
    sealing = 1e3 * (perf_counter() - start)
    where = f"d = {d}, {actions} actions, a batch of {users:,}, epsilon 1"
    return [
        {"name": "shuffled report, milliseconds", "ratio": min(times), "target": 5.0, "better": "lower",
         "detail": f"Python, {where}; median {np.median(times):.2f}"},
        {"name": "shuffled report, bytes", "ratio": max(sizes), "target": 4000, "better": "lower",
         "detail": f"unsealed body, {where}"},
        {"name": "shuffled report, sealed, milliseconds", "ratio": sealing,
         "detail": f"Python, {len(body) // 2:,} messages sealed one by one, {sealed:,} bytes; {where}"},
        *in_node(release, person.x[0].tolist(), key.raw.hex(), where),
    ]  # fmt: skip


def in_node(release: Any, x: list[float], key: str, where: str) -> list[Row]:
    """The same by the device of the browser; nothing where there is no node."""
    node = shutil.which("node")
    if node is None:
        return []
    words = [str(DEVICE), canonical(release.to_dict()).decode(), json.dumps(x), key]
    given = [node, "--input-type=module", "--eval", ENCODE, "--", *words]
    found = json.loads(subprocess.run(given, capture_output=True, check=True, text=True).stdout)
    times = found["times"]
    return [
        {"name": "shuffled report in JavaScript, milliseconds", "ratio": times[0], "target": 5.0, "better": "lower",
         "detail": f"node, {where}; median {np.median(times):.2f}, first {times[-1]:.0f}; {found['bytes']:,} bytes"},
        {"name": "shuffled report in JavaScript, sealed, milliseconds", "ratio": found["sealing"],
         "detail": f"node, {found['bytes'] // 2:,} messages sealed one by one; {where}"},
    ]  # fmt: skip
