"""A whole study over HTTP on one machine, with simulated people: what `tacit serve demo` shows.

Shuffler, issuer and learner are real processes on loopback, each with its own directory, database and keys; people are
simulated (they swim in RiverSwim) and their devices talk to the parties over HTTP, with tokens, envelopes and, under
shuffle trust, sealed messages. Noise comes from the operating system.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

from tacit.accounting.certificate import Certificate
from tacit.accounting.claims import Trust
from tacit.accounting.composition import epsilon_of
from tacit.environments.registry import make
from tacit.errors import UnknownName, require, require_count
from tacit.policies.named import NamedPolicy
from tacit.service.demo_people import Lived, Slice, live_stage
from tacit.service.loopback import Loopback
from tacit.service.tokens.enrolment import Enrolment
from tacit.study.demo import ACTIONS, STATES
from tacit.study.design import StudyDesign, plan_study

__all__ = ["STAGES", "ServiceDemo", "run_service_demo"]

STAGES: Final = 3
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceDemo:
    """What a demonstration ends with."""

    design: StudyDesign
    policy: NamedPolicy
    certificate: Certificate
    stages: tuple[dict[str, Any], ...]
    """One row per stage; the mean return is simulation only."""
    seconds: float
    per_second: float
    """Reports that were counted per second while devices sent, all their own work included."""
    directory: Path | None
    """Where the files of the parties are, if they were kept."""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {
            "study": self.design.digest,
            "trust": self.design.trust,
            "epsilon": self.design.epsilon,
            "delta": self.design.delta,
            "policy": self.policy.to_dict(),
            "certificate": self.certificate.to_dict(),
            "stages": list(self.stages),
            "seconds": self.seconds,
            "reports_per_second": self.per_second,
            "directory": None if self.directory is None else str(self.directory),
        }


def run_service_demo(
    directory: str | Path | None = None,
    *,
    trust: str = "shuffle",
    epsilon: float = 2.0,
    delta: float = 1e-6,
    people: int = 2000,
    stages: int = STAGES,
    seed: int = 0,
    database: str | None = None,
    dashboard: bool = False,
    wait: Callable[[], object] | None = None,
    say: Say | None = None,
) -> ServiceDemo:
    """Run a study of so many simulated people; without a directory nothing of it is left.

    `database` is a postgresql:// URL; every party gets a schema of its own there. The seed moves the people, never the
    noise. With `dashboard` the study is shown while it runs, at an address that `say` is told, until `wait` returns.
    """
    tell, begun = say or _silent, time.monotonic()
    known = [name for name in get_args(Trust) if name != "none"]
    if trust not in known:
        raise UnknownName("trust model", trust, known)
    count = require_count("stages", stages)
    target = require_count("people", people, least=10 * count) // count
    design = _design(trust, epsilon, delta, count, target)
    tell(f"designed: {count} stages of {target} people under trust {trust}, epsilon {epsilon:g}")
    with _place(directory) as place:
        parties = Loopback.new(place, design, tokens=True, options=_options(database))
        credentials = Enrolment(parties.enrolment).enrol(count * target)
        with parties, _crowd() as (pool, workers):
            parties.start()
            tell("started: " + ", ".join(f"{name} {parties.addresses[name]['internal']}" for name in parties.parties))
            parties.until_open(0)
            if dashboard:
                tell(f"dashboard: {parties.start_dashboard(simulated=True)}")
            rows = tuple(
                _stage(parties, pool, workers, number, credentials[number * target :][:target], seed, design, tell)
                for number in range(count)
            )
            status = parties.until(lambda found: found["worker"]["outcome"] == "finished")
            require(status["worker"]["word"] == "served", "a study must end with a policy", status["worker"]["word"])
            exported = json.loads(parties.internal("learner").get("/v1/policy"))
            if dashboard and wait is not None:
                wait()
    sent, seconds = sum(row["reports"] for row in rows), sum(row["seconds"] for row in rows)
    return ServiceDemo(
        design=design,
        policy=NamedPolicy.from_dict(exported["policy"]),
        certificate=Certificate.from_dict(exported["certificate"]),
        stages=rows,
        seconds=time.monotonic() - begun,
        per_second=sent / max(seconds, 1e-9),
        directory=None if directory is None else Path(directory),
    )


def _stage(
    parties: Loopback,
    pool: ProcessPoolExecutor,
    workers: int,
    number: int,
    credentials: list[str],
    seed: int,
    design: StudyDesign,
    tell: Say,
) -> dict[str, Any]:
    """One stage: devices act and report, the stage is closed, the learner takes its release."""
    parties.until_open(number)
    begun = time.monotonic()
    parts = [
        Slice(
            shuffler=parties.public("shuffler"),
            issuer=parties.public("issuer"),
            pins=parties.pins,
            credentials=credentials[worker::workers],
            seed=(seed, number, worker),
        )
        for worker in range(workers)
    ]
    lived: list[Lived] = list(pool.map(live_stage, parts))
    seconds = time.monotonic() - begun
    answers = sum((Counter(part.answers) for part in lived), Counter[str]())
    shuffler = parties.internal("shuffler")
    reports = int(json.loads(shuffler.post(f"/v1/stages/{number}/close"))["reports"])
    found = parties.until(lambda found: len(found["releases"]) > number or bool(found["quarantined"]))
    require(not found["quarantined"], "a release of honest people must not be quarantined", "one that is")
    mean = sum(part.returns for part in lived) / max(1, sum(part.people for part in lived))
    spent = epsilon_of(design.parts().channels[number].events_at(reports), design.delta)
    row = {"stage": number, "reports": reports, "epsilon": spent, "answers": dict(answers), "seconds": seconds}
    tell(
        f"stage {number}: {reports} reports in {seconds:.1f} s ({reports / seconds:.0f} per second), one report cost "
        f"epsilon {spent:.3f}; mean return {mean:.3f} (simulation only)"
    )
    return {**row, "mean_return": mean}


def _design(trust: Any, epsilon: float, delta: float, stages: int, target: int) -> StudyDesign:
    world = make("riverswim")
    return plan_study(
        name="riverswim over HTTP",
        states=STATES,
        actions=ACTIONS,
        horizon=world.horizon,
        stationary=world.stationary,
        trust=trust,
        epsilon=epsilon,
        delta=0.0 if trust == "local" else delta,
        stages=stages,
        target=target,
    )


def _options(database: str | None) -> dict[str, dict[str, Any]]:
    """Further entries of the parties' configurations."""
    quick = {"poll_seconds": 0.25}
    found: dict[str, dict[str, Any]] = {"shuffler": {"tick_seconds": 0.25}, "issuer": {}, "learner": quick}
    if database is not None:
        mark = os.urandom(4).hex()
        for party, entries in found.items():
            entries["database"] = f"{database}{'&' if '?' in database else '?'}schema=demo_{mark}_{party}"
    return found


@contextmanager
def _crowd() -> Iterator[tuple[ProcessPoolExecutor, int]]:
    """Processes for the devices: sealing is work for more than one core."""
    workers = max(1, len(os.sched_getaffinity(0)))
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool, workers


@contextmanager
def _place(directory: str | Path | None) -> Iterator[Path]:
    """The directory of a demonstration; without a name, one that goes with it."""
    if directory is not None:
        yield Path(directory)
        return
    with tempfile.TemporaryDirectory(prefix="tacit-demo-") as made:
        yield Path(made) / "demo"


def _silent(line: str) -> None:
    del line
