"""What a declared support does to time and bytes: the same runs with and without it, in turn.

    ratio = CPU of a run with support="declared" / CPU of the same run without it

Whole runs: people, release, learner and regret. Both sides take turns in one process, after compilation, each the best
of 2 to 60 seeds, the more the shorter a run is. With its support a learner may plan more batches and more policies (the
states within reach decide the first batch), so a run of `bucb` is not the same run with fewer counters; the detail says
how many batches there were.

Under local trust simulated people of small worlds are dealt their places if a support is declared, and otherwise shared
out as they always were: other coins would make committed results stale. "both dealt" deals on both sides, which leaves
what structure alone does.

`taxi` has rides of 4 steps, as in `frontier/structure`: without its support a batch has 4.5 million counters.
"""

from __future__ import annotations

import time
from typing import Any

import tacit.noise.one_slot as dealt
from tacit import lazy_jit
from tacit.environments.registry import make
from tacit.runs.assemble import Assembled, assemble
from tacit.runs.config import RunConfig
from tacit.simulation.simulate import simulate
from tacit.study.design import plan_study

Row = dict[str, Any]

EPISODES = 20_000
WORLDS = ("riverswim", "treatment")
TAXI = "taxi:horizon=4"
BATCH = {"batch": 100}
SHORT = 4.0
"""Runs of 20 milliseconds differ by a fifth from one to the next: repeated so many seconds, or `MOST` times."""
MOST = 60
CASES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("bucb:share_across_steps=false", "central", {}),
    ("bucb:share_across_steps=true", "central", {}),
    ("bucb:share_across_steps=false", "shuffle", {}),
    ("sdp-pe-plus", "shuffle", {}),
    ("dp-ucbvi", "central", {}),
    ("dp-ucbvi:replan=geometric", "central", {"mechanism": "batched-factorization"}),
    ("private-ucb-po", "central", {}),
    ("ldp-obi", "local", {}),
    ("ldp-obi:time_homogeneous=true", "local", BATCH),
    ("dp-ucbvi", "local", BATCH),
)
"""Learner, trust, and how else it is run."""


def run() -> list[Row]:
    """Every row of the table."""
    lazy_jit.EAGER = True
    try:
        rows = [time_row(world, *case) for world in WORLDS for case in CASES]
        rows += [dealt_row(world, *case) for world in WORLDS for case in CASES if case[2] is BATCH]
        rows.append(time_row(TAXI, "bucb:share_across_steps=true", "central", {}, repeats=2))
        rows.append(time_row(TAXI, "sdp-pe-plus", "shuffle", {}, repeats=2))
    finally:
        lazy_jit.EAGER = False
    return [*rows, *(bytes_row(world, trust) for world in WORLDS for trust in ("shuffle", "local"))]


def time_row(world: str, learner: str, trust: str, options: dict[str, Any], *, repeats: int = 3) -> Row:
    """CPU with the support over CPU without it."""
    full, told = (parts_of(world, learner, trust, support, options) for support in (None, "declared"))
    apart, together = in_turn([full, told], repeats)
    stages = [len(getattr(parts.learner, "stages", ())) for parts in (full, told)]
    batches = f"; {stages[1]} batches in place of {stages[0]}" if stages[0] != stages[1] else ""
    batch = f", batches of {options['batch']}" if "batch" in options else ""
    named = f", {options['mechanism']}" if "mechanism" in options else ""
    return {
        "name": f"{world}, {learner}, {trust}{named}{batch}: a run with the support against one without",
        "ratio": together / apart,
        "target": 1.0,
        "better": "lower",
        "detail": f"{1e3 * together:,.1f} ms against {1e3 * apart:,.1f} ms, K={EPISODES:,}{batches}",
    }


def dealt_row(world: str, learner: str, trust: str, options: dict[str, Any]) -> Row:
    """The same where people are dealt on both sides."""
    before, dealt.CELLS = dealt.CELLS, 0  # type: ignore[misc]
    try:
        found = time_row(world, learner, trust, options)
    finally:
        dealt.CELLS = before  # type: ignore[misc]
    return {**found, "name": found["name"].replace(": a run", ", both dealt: a run")}


def parts_of(world: str, learner: str, trust: str, support: Any, options: dict[str, Any]) -> Assembled:
    """One side."""
    delta = 0.0 if trust == "local" else 1e-6
    config = RunConfig(
        environment=world, learner=learner, episodes=EPISODES, seeds=(0,), constants="practical",
        trust=trust, epsilon=1.0, delta=delta, support=support, **options,  # type: ignore[arg-type]
    )  # fmt: skip
    return assemble(config)


def in_turn(sides: list[Assembled], repeats: int) -> list[float]:
    """CPU seconds of a run of each side, the best of several, one after the other."""
    best, spent, seed = [float("inf")] * len(sides), 0.0, 0
    while seed <= repeats or (spent < SHORT and seed <= MOST):
        for i, parts in enumerate(sides):
            started = time.process_time()
            simulate(parts.mdp, parts.learner, parts.privatizer, episodes=EPISODES, seed=seed)
            if seed:  # the first one compiles
                best[i] = min(best[i], time.process_time() - started)
                spent += time.process_time() - started
        seed += 1
    return best


def bytes_row(world: str, trust: str) -> Row:
    """Bytes of one report of a device, at epsilon 1 and 1,000 people per stage."""
    mdp = make(world)
    design: dict[str, Any] = {
        "states": tuple(f"state {s}" for s in range(mdp.num_states)),
        "actions": tuple(f"action {a}" for a in range(mdp.num_actions)),
        "horizon": mdp.horizon, "trust": trust, "epsilon": 1.0, "stages": 4, "target": 1000,
        "learner": "bucb" if trust == "shuffle" else "ldp-obi", "delta": 1e-6 if trust == "shuffle" else 0.0,
    }  # fmt: skip
    full, told = (plan_study(**design, **declared).parts() for declared in ({}, {"support": mdp.support}))
    sizes = [parts.channels[0].body_size for parts in (full, told)]
    return {
        "name": f"{world}, {trust}: bytes of a report with the support against one without",
        "ratio": sizes[1] / sizes[0],
        "target": 1.0,
        "better": "lower",
        "detail": f"{sizes[1]:,} bytes against {sizes[0]:,}",
    }
