"""Exact integer noise per second, against OpenDP's integer mechanisms called from Python.

Both draw integer noise meant for releases, one vector per call. Seconds are CPU seconds of the whole process, kernel
included, so a busy machine does not shift the ratio and threads are not free. Our tables are built before the clock
starts; what that costs stands in the detail. The peer runs in its own environment (`make bench-peers`); without it the
rows say so and have no ratio.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tacit.noise import exact
from tacit.randomness import SecureNoise

TARGET = 5.0
DRAWS = 1_000_000
SCALES = (20, 1000)
PEER_PYTHON = Path(__file__).parents[1] / ".venv-peers" / "bin" / "python"

# Prints {"version": ..., "laplace 20": samples per second, ...}. OpenDP adds noise to a vector of zeros.
PEER = """
import json, sys, time
from importlib.metadata import version
import opendp.prelude as dp
dp.enable_features("contrib")
draws = 50_000
vectors, zeros = dp.vector_domain(dp.atom_domain(T=int)), [0] * draws
found = {"version": version("opendp")}
for scale in json.loads(sys.argv[1]):
    for name, measurement in (
        ("laplace", dp.m.make_laplace(vectors, dp.l1_distance(T=int), scale=float(scale))),
        ("gaussian", dp.m.make_gaussian(vectors, dp.l2_distance(T=float), scale=float(scale))),
    ):
        best = float("inf")
        for _ in range(3):
            start = time.process_time()
            measurement(zeros)
            best = min(best, time.process_time() - start)
        found[f"{name} {scale}"] = draws / best
print(json.dumps(found))
"""


def run() -> list[dict[str, object]]:
    """Rows {name, ratio, target, detail}: our throughput over the peer's."""
    noise = SecureNoise()
    peer = _peer()
    table: list[dict[str, object]] = []
    for scale in SCALES:
        ours: dict[str, Callable[[int], object]] = {
            "laplace": lambda n, b=scale: exact.discrete_laplace(n, noise, scale=b),
            "gaussian": lambda n, s=scale: exact.discrete_gaussian(n, noise, variance=s**2),
        }
        for name, draw in ours.items():
            build, rate = _throughput(draw)
            theirs = peer.get(f"{name} {scale}")
            against = f"opendp {peer['version']} {float(theirs):,.0f}/s" if theirs else str(peer["missing"])
            table.append(
                {
                    "name": f"exact {name} noise, scale {scale}",
                    "ratio": rate / float(theirs) if theirs else None,
                    "target": TARGET,
                    "detail": f"tacit {rate:,.0f}/s (first call {build * 1e3:.0f} ms), {against}",
                }
            )
    table.extend(_without_peer(noise))
    return table


def _without_peer(noise: SecureNoise) -> list[dict[str, object]]:
    """The other samplers, for the record: no peer offers them."""
    probabilities = np.linspace(0.0, 1.0, DRAWS)
    others: dict[str, Callable[[int], object]] = {
        "coin of probability 1/3": lambda n: exact.bernoulli(n, noise, probability=1 / 3),
        "coin per probability": lambda n: exact.bernoulli_each(probabilities[:n], noise),
        "permutation": lambda n: exact.permutation(n, noise),
    }
    return [
        {
            "name": f"exact {name}",
            "ratio": None,
            "target": None,
            "detail": f"tacit {_throughput(draw)[1]:,.0f}/s, no peer",
        }
        for name, draw in others.items()
    ]


def _throughput(draw: Callable[[int], object]) -> tuple[float, float]:
    """Seconds of the first call (with its tables), and draws per second afterwards, the best of three."""
    start = time.process_time()
    draw(1)
    build, best = time.process_time() - start, float("inf")
    for _ in range(3):
        start = time.process_time()
        draw(DRAWS)
        best = min(best, time.process_time() - start)
    return build, DRAWS / best


def _peer(python: Path = PEER_PYTHON) -> dict[str, object]:
    """The peer's samples per second, or {"missing": why}."""
    if not python.exists():
        return {"missing": "peer not installed: make bench-peers"}
    done = subprocess.run(
        [str(python), "-c", PEER, json.dumps(SCALES)], capture_output=True, text=True, check=False, timeout=300
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"missing": f"peer does not run ({reason}): make bench-peers"}
    found: dict[str, object] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    for row in run():
        print(row)
