"""`tacit certify`: CPU seconds until a request is answered or refused, ordinary and extreme ones.

The ratio is to one CPU second. Every request is met for the first time (calibrations are remembered), in one process
that has done one other before; both calibrations are certified, as the command does.
"""

from __future__ import annotations

import time
from typing import Any

from tacit.errors import InvalidInput
from tacit.release.request import PrivacyRequest
from tacit.released.counts import CountShape
from tacit.runs.certification import certification

Row = dict[str, Any]

ORDINARY, EXTREME = (1.0, 1e-6), (1e-3, 1e-12)
MECHANISMS = {
    "central": ("factorization", "laplace-tree", "kary-tree", "batched"),
    "local": ("laplace", "bounded", "rr", "subset"),
    "shuffle": (None,),
}
SMALL = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
LARGE = CountShape(horizon=50, num_states=20, num_actions=2, staged=True)


def run() -> list[Row]:
    """Every row of the table."""
    request("central", "factorization", SMALL, ORDINARY, 1)  # modules load, transforms are planned
    rows = [row("shuffle, hopeless: refused", 1.0, "shuffle", None, SMALL, (1e-5, 1e-12), 1000)]
    for trust, mechanisms in MECHANISMS.items():
        for mechanism in mechanisms:
            name = f"{trust}/{mechanism or 'binomial'}"
            batch = 1000 if trust == "shuffle" else 1
            rows.append(row(f"{name}, ordinary", 1.0, trust, mechanism, SMALL, ORDINARY, batch))
            for shape, users in ((SMALL, 10**6), (LARGE, 10**7)):
                batch = users if trust == "shuffle" else 1
                label = f"{name}, extreme, H = {shape.horizon}"
                rows.append(row(label, 5.0, trust, mechanism, shape, EXTREME, batch))
    return rows


def row(
    name: str,
    target: float,
    trust: str,
    mechanism: str | None,
    shape: CountShape,
    goal: tuple[float, float],
    batch: int,
) -> Row:
    """The CPU seconds of one request, with its answer."""
    started = time.process_time()
    answer = request(trust, mechanism, shape, goal, batch)
    seconds = time.process_time() - started
    return {"name": f"certify {name}", "ratio": seconds, "target": target, "better": "lower", "detail": answer}


def request(trust: str, mechanism: str | None, shape: CountShape, goal: tuple[float, float], batch: int) -> str:
    """The certified epsilon of a request, or why it was refused."""
    asked = PrivacyRequest(
        trust=trust,  # type: ignore[arg-type]
        shape=shape,
        episodes=10**7,
        epsilon=goal[0],
        delta=goal[1],
        calibration="tight",
        mechanism=mechanism,
        users_per_batch=batch,
    )
    try:
        found = certification(asked)["certificate"]
    except InvalidInput as refusal:
        return str(refusal)
    return f"epsilon {found['epsilon']:.4g} at delta {goal[1]:g}"
