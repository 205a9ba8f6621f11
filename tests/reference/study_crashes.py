"""Exits at every edge of a study: a process that stops dead, then another one that carries on, then an audit.

python study_crashes.py KIND [mutant] [STEP ...] [postgresql://...]

prints {"edges": n, "found": {finding: count}} as JSON; where steps (open, release, take) are named, at theirs only.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import study_fakes
from study_world import audit, drive, fast_directory

from tacit.study import contract
from tacit.study.databases import SqliteDatabase

STOPPED = 7


REAL: dict[str, dict[str, Any]] = {
    "shuffle": {"learner": "bucb", "trust": "shuffle", "stages": 1},
    "central": {"learner": "sdp-pe-plus", "trust": "central", "stages": 1},
    "factorization": {"learner": "ucbvi", "trust": "central", "mechanism": "factorization", "stages": 2},
    "local": {"learner": "psrl", "trust": "local", "stages": 1, "epsilon": 4.0, "least": 2},
    "gradient": {"learner": "dp-ppo:epochs=2", "trust": "central", "stages": 1},
}
"""Studies with the channels of deployments, by the channel's kind."""


def design_of(kind: str, mutant: bool) -> Any:
    """A small study with this channel."""
    if kind in REAL:
        from tacit.study.design import plan_study

        sizes: dict[str, Any] = {"states": 2, "actions": 2, "horizon": 2, "epsilon": 1.0, "delta": 1e-6, "target": 3}
        return plan_study(**{**sizes, **REAL[kind]})
    questions = 2 if kind == "test-central" else 1
    stages = 2 if kind == "test-stamped" and not mutant else 1
    return study_fakes.FakeDesign(kind=kind, stages=stages, least=2, target=3, questions=questions, labels=240)


def in_a_process(place: Path, design: Any, stop: int | None, mutant: bool, databases: Any, steps: Any) -> bool:
    """Whether the study came to its end; the process exits at edge number `stop`, without a word."""
    child = os.fork()
    if child == 0:
        passed = itertools.count()

        def edge(name: str) -> None:
            if (not steps or name.partition(":")[0] in steps) and next(passed) == stop:
                os._exit(STOPPED)

        try:
            drive(place, design, edge, mutant=mutant, databases=databases)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, STOPPED), code
    return code == 0


def databases_at(url: str) -> Any:
    """Schemas of a server, named by the last two folders of a directory."""
    from tacit.service.database import PostgresDatabase

    return lambda place: PostgresDatabase(f"{url}?schema={place.parent.name}_{place.name}")


def main(kind: str, mutant: bool, steps: list[str], databases: Any, end: Callable[[], None]) -> None:
    study_fakes.register()
    if kind not in REAL:
        contract.read_design = study_fakes.FakeDesign.from_dict
    design = design_of(kind, mutant)
    found: Counter[str] = Counter()
    with fast_directory() as folder:
        # Once without a crash: what is compiled here need not be compiled in every process.
        warm = Path(folder) / "warm"
        warm.mkdir()
        drive(warm, design, lambda name: None, mutant=mutant, databases=databases)
        for stop in itertools.count():
            place = Path(folder) / f"edge_{stop}"
            place.mkdir()
            ended = in_a_process(place, design, stop, mutant, databases, steps)
            if not ended:
                assert in_a_process(place, design, None, mutant, databases, steps)
            found.update(audit(place, design, databases))
            end()
            shutil.rmtree(place)
            if ended:
                break
    print(json.dumps({"edges": stop, "found": dict(found)}))


if __name__ == "__main__":
    words = sys.argv[2:]
    urls = [word for word in words if "://" in word]
    steps = [word for word in words if word != "mutant" and word not in urls]
    if urls:
        from tacit.service.database import close_all

        main(sys.argv[1], "mutant" in words, steps, databases_at(urls[0]), close_all)
    else:
        main(sys.argv[1], "mutant" in words, steps, SqliteDatabase, lambda: None)
