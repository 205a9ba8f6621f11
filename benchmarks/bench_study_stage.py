"""A stage of a study over files: CPU of collector and learner for 10,000 reports, from the first byte to the belief.

Measured: every report is parsed, checked and written with its pseudonym (`add_many`), the stage is closed, its secure
noise drawn, charged, stored and scrubbed (`release`), and the learner reads the release and plans again (`take`,
`plan`). Not measured: the reports themselves, which devices encode (see the benchmark `study`), and the plan of the
study. CPU seconds of the process, user and system, databases on the disk. S=4, A=2, H=6, (epsilon, delta) = (1, 1e-6),
10,000 people of whom 9,000 are needed.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import numpy as np

from tacit.data.trajectories import Trajectory
from tacit.randomness import SecureNoise
from tacit.study.bundle import Bundle
from tacit.study.collector import Collector
from tacit.study.design import plan_study
from tacit.study.study import Study
from tacit.study.wire import Report

PEOPLE, MOST, DIFFERENT = 10_000, 5.0, 200
STUDIES = {
    "shuffle, a batch": ("bucb", "shuffle", None),
    "shuffle, totals": ("ucbvi", "shuffle", None),
    "local, subset": ("psrl", "local", "subset"),
    "local, gaussian": ("psrl", "local", "gaussian"),
    "central, factorization": ("ucbvi", "central", "factorization"),
    "central, a batch": ("bucb", "central", None),
    "central, gradient": ("dp-pg:clip=1.0", "central", None),
}


def run() -> list[dict[str, object]]:
    """Rows {name, ratio, target, better, detail}."""
    return [_row(name, *choice) for name, choice in STUDIES.items()]


def _row(name: str, learner: str, trust: str, mechanism: str | None) -> dict[str, object]:
    design = plan_study(
        states=4,
        actions=2,
        horizon=6,
        learner=learner,
        trust=trust,  # type: ignore[arg-type]
        epsilon=1.0,
        delta=0.0 if mechanism == "subset" else 1e-6,
        stages=2,
        target=PEOPLE,
        least=9 * PEOPLE // 10,
        mechanism=mechanism,
    )
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        study, collector = Study.new(place / "study", design, seed=1), Collector.new(place / "collector", design)
        spent = [_stage(study, collector) for _ in range(2)]
    # The first stage compiles; both have the same work.
    best = min(spent, key=sum)
    add, release, take = best
    parts = f"add {add:.2f}, close and release {release:.2f}, take and plan {take:.2f}"
    return {
        "name": f"stage of {PEOPLE:,} reports, {name}",
        "ratio": sum(best) / MOST,
        "target": 1.0,
        "better": "lower",
        "detail": f"{sum(best):.2f} s of {MOST:g} s CPU: {parts}",
    }


def _stage(study: Study, collector: Collector) -> tuple[float, float, float]:
    """CPU seconds of adding, of releasing, of learning."""
    data = study.plan()
    bundle = Bundle.parse(data)
    collector.open(data)
    rng, noise, channel = np.random.default_rng(1), SecureNoise(), bundle.channel
    assert channel is not None
    lived = [Trajectory(rng.integers(0, 4, 7), rng.integers(0, 2, 6), rng.random(6)) for _ in range(DIFFERENT)]
    bodies = [channel.encode(one, noise) for one in lived]
    reports = [
        Report(study=collector.study, stage=bundle["stage"], id=os.urandom(16), body=bodies[i % DIFFERENT]).encode()
        for i in range(channel.target)
    ]
    started = time.process_time()
    answers = collector.add_many((report, f"person {bundle['stage']} {i}") for i, report in enumerate(reports))
    added = time.process_time()
    assert set(answers) == {"counted"}
    collector.close()
    release = collector.release(study.head)
    released = time.process_time()
    study.take(release, inspected=True)
    study.plan()
    return added - started, released - added, time.process_time() - released


if __name__ == "__main__":
    for row in run():
        print(row)
