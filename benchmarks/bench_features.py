"""Rows of features: how long `LinearBandit.fit` takes, and how long and how large a shuffled report is.

Times are the best of several on one core. A report of d = 10 and 4 actions in a batch of 4,000 carries its noise bits.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
import pandas

import tacit
from tacit.accounting.claims import PrivacyClaim, PrivacyUnit
from tacit.data.trajectories import FeatureUsers
from tacit.randomness import SecureNoise
from tacit.release.contract import StageSize
from tacit.release.vectors import VectorPlan
from tacit.released.moments import MomentQuery, MomentShape

Row = dict[str, Any]


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
    for _ in range(3):
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
    where = f"d = {d}, {actions} actions, a batch of {users:,}, epsilon 1"
    return [
        {"name": "shuffled report, milliseconds", "ratio": min(times), "target": 5.0, "better": "lower",
         "detail": f"Python, {where}; median {np.median(times):.2f}"},
        {"name": "shuffled report, bytes", "ratio": max(sizes), "target": 4000, "better": "lower",
         "detail": f"unsealed body, {where}"},
    ]  # fmt: skip
