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
from functools import partial
from pathlib import Path
from typing import Any, Final, get_args

from tacit.accounting.certificate import Certificate
from tacit.accounting.claims import Trust
from tacit.accounting.composition import epsilon_of
from tacit.environments.registry import make
from tacit.errors import UnknownName, require, require_count
from tacit.policies.named import NamedPolicy
from tacit.service.demo_page import DemoPage, serve_page
from tacit.service.demo_people import Lived, Slice, live_stage
from tacit.service.loopback import Loopback
from tacit.service.tokens.enrolment import Enrolment
from tacit.study.demo import ACTIONS, STATES
from tacit.study.design import StudyDesign, plan_study

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
    person: Callable[[str], object] | None = None,
    say: Say | None = None,
) -> ServiceDemo:
    """Run a study of so many simulated people; without a directory nothing of it is left.

    `database` is a postgresql:// URL; every party gets a schema of its own there. The seed moves the people, never the
    noise. With `dashboard` the study is shown while it runs, at an address that `say` is told, until `wait` returns.
    `person` is called with the address of a page on which somebody can play and take part in the first stage, which is
    open until it returns; a browser has no blind tokens, so that the study is then open to anybody, without an issuer.
    """
    tell, begun = say or _silent, time.monotonic()
    known = [name for name in get_args(Trust) if name != "none"]
    if trust not in known:
        raise UnknownName("trust model", trust, known)
    count = require_count("stages", stages)
    target = require_count("people", people, least=10 * count) // count
    design = _design(trust, epsilon, delta, count, target)
    tell(f"designed: {count} stages of {target} people under trust {trust}, epsilon {epsilon:g}")
    with _place(directory) as place, _page(person) as page:
        options = _options(database)
        if page is not None:
            options["shuffler"]["origins"] = [page.origin]
        parties = Loopback.new(place, design, tokens=page is None, options=options)
        credentials = _credentials(parties, count * target)
        with parties, _crowd() as (pool, workers):
            parties.start()
            tell("started: " + ", ".join(f"{name} {parties.addresses[name]['internal']}" for name in parties.parties))
            parties.until_open(0)
            if dashboard:
                tell(f"dashboard: {parties.start_dashboard(simulated=True)}")
            rows = []
            for number in range(count):
                names = credentials[number * target :][:target]
                visit = None
                if page is not None and person is not None and number == 0:
                    names, visit = names[1:], partial(person, _told(page, parties, design))
                rows.append(_stage(parties, pool, workers, number, names, seed, design, tell, visit))
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
        stages=tuple(rows),
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
    visit: Callable[[], object] | None,
) -> dict[str, Any]:
    """One stage: devices act and report, and whoever visits; the stage is closed, the learner takes its release."""
    parties.until_open(number)
    begun = time.monotonic()
    parts = [
        Slice(
            shuffler=parties.public("shuffler"),
            issuer=parties.public("issuer") if parties.tokens else None,
            pins=parties.pins,
            credentials=credentials[worker::workers],
            seed=(seed, number, worker),
            cap=design.epsilon,
            floor=int(design.channels[number]["least"]),
        )
        for worker in range(workers)
    ]
    lived: list[Lived] = list(pool.map(live_stage, parts))
    seconds = time.monotonic() - begun
    answers = sum((Counter(part.answers) for part in lived), Counter[str]())
    if visit is not None:
        visit()
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


def _credentials(parties: Loopback, people: int) -> list[str]:
    """What simulated people are known by: credentials of the issuer, or names where there is none."""
    if parties.tokens:
        return Enrolment(parties.enrolment).enrol(people)
    return [f"person {number}" for number in range(people)]


def _told(page: DemoPage, parties: Loopback, design: StudyDesign) -> str:
    """The address of the page, which now knows the study; its device insists on what the design promises."""
    pins = {who: (parties.home(who) / "keys" / "public.pem").read_text("utf-8") for who in ("learner", "shuffler")}
    least = design.parts().channels[0].least
    page.tell(shuffler=parties.public("shuffler"), pins=pins, cap=design.epsilon, floor=least)
    return page.url


@contextmanager
def _page(person: Callable[[str], object] | None) -> Iterator[DemoPage | None]:
    """The page where somebody visits, before the parties start: the shuffler is told its origin."""
    if person is None:
        yield None
        return
    with serve_page() as page:
        yield page


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
