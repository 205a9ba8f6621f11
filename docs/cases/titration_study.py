"""Insulin titration as a study with secure noise, end to end: the people are virtual, everything else is real.

    python docs/cases/titration_study.py DIRECTORY results/cases/titration

A design, signed bundles, a device for every person that draws its own noise from the operating system, reports, two
databases, a ledger, releases and an exported policy. Secure noise cannot be seeded, so no two studies are alike; what
came of one is committed (`study.json`). If a stage fails, people are dosed by the textbook rule.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from papers.cases.titration_measures import DAYS, measure
from papers.glucose.titration import ACTIONS, FACTORS, TEXTBOOK, YESTERDAY, Ward
from tacit.policies import DeterministicPolicy
from tacit.policies.named import NamedPolicy
from tacit.runs.signature import new_keys
from tacit.runs.storage import read_json, write_json
from tacit.study.collector import Collector, summary
from tacit.study.design import StudyDesign, plan_study
from tacit.study.device import Device
from tacit.study.record import export_policy
from tacit.study.study import Study

__all__ = ["STATES", "main", "plan", "run_study"]

STATES: Final = tuple(f"{factor:g} and {day}" for factor in FACTORS for day in YESTERDAY)
AWAY: Final = 0.03
"""The share of people who stay away."""
STAGES, PEOPLE = 5, 500
"""People per stage."""
Say = Callable[[str], None]


def plan(*, stages: int = STAGES, people: int = PEOPLE, epsilon: float = 1.0) -> StudyDesign:
    """Shuffle trust, one report per person."""
    return plan_study(
        name="titration",
        states=STATES,
        actions=ACTIONS,
        horizon=DAYS,
        stationary=True,
        trust="shuffle",
        epsilon=epsilon,
        delta=1e-6,
        stages=stages,
        target=people,
        fallback=DeterministicPolicy(np.tile(np.array(TEXTBOOK, dtype=np.int64), (DAYS, 1))),
    )


def run_study(place: Path, design: StudyDesign, *, seed: int, weeks: int, say: Say = print) -> dict[str, Any]:
    """Run it in a new directory; the seed moves the people, never the noise."""
    (secret, public), (sealing, sealed) = (new_keys(place / "keys" / who) for who in ("learner", "collector"))
    study = Study.new(place / "study", design, key=secret, collector=sealed, seed=seed)
    collector = Collector.new(place / "collector", design, key=sealing, learner=public)
    coins, rows = np.random.default_rng(seed), []
    for stage in range(len(design.channels)):
        bundle = study.plan()
        collector.open(bundle)
        devices = [Device(None, cap=design.epsilon, floor=design.least, key=public) for _ in range(design.target)]
        for device in devices:
            device.accept(bundle)
        reports, returns, noise = _lived(devices, coins)
        named = ((report, f"person {stage}-{i}") for i, report in enumerate(reports) if report is not None)
        refused = summary(collector.add_many(named))["refused"]
        counted = collector.close()
        taken = study.take(collector.release(study.head))
        paid = collector.realised()[-1]["epsilon"]
        rows.append(
            {
                "stage": stage,
                "reports": counted,
                "refused": refused,
                "epsilon": paid,
                "taken": taken,
                "noise": noise,
                "mean_return": returns,
            }
        )
        say(
            f"stage {stage}: {counted} reports, epsilon {paid:.3f}, {taken}; "
            f"mean return {returns:.3f} (simulation only)"
        )
    study.plan()
    file = export_policy(study, place / "policy.json", secret)
    collector.verify(study.head)
    table = np.asarray(NamedPolicy.from_dict(read_json(file)["policy"]).to_numpy())
    actions = np.ascontiguousarray(table.argmax(axis=2) if table.ndim == 3 else table)
    found = measure({seed: DeterministicPolicy(actions)}, weeks=weeks)
    certificate = design.parts().certificate
    return {
        "design": design.digest,
        "learner": design.learner,
        "trust": design.trust,
        "certified epsilon": certificate.epsilon,
        "delta": design.delta,
        "holds": certificate.holds,
        "stages": rows,
        "policy": actions.tolist(),
        "measured": found,
    }


def _lived(devices: list[Device], coins: np.random.Generator) -> tuple[list[bytes | None], float, str]:
    """A week of everybody, as their devices say, and what these report; None: stayed away."""
    ward, count = Ward(), len(devices)
    states = ward.admit(count, coins)
    seen = [states]
    taken: list[list[str]] = []
    paid = []
    for day in range(DAYS):
        taken.append([device.act(day, STATES[s]) for device, s in zip(devices, states, strict=True)])
        states = ward.decide(np.array([ACTIONS.index(action) for action in taken[-1]]), coins)
        seen.append(states)
        paid.append(ward.rewards)
    away = coins.random(count) < AWAY
    reports: list[bytes | None] = []
    for i, device in enumerate(devices):
        episode = {
            "states": [STATES[row[i]] for row in seen],
            "actions": [row[i] for row in taken],
            "rewards": [float(row[i]) for row in paid],
        }
        reports.append(None if away[i] else device.report(episode))
    return reports, float(np.sum(paid) / count), devices[0].noise.kind


def main(place: Path, target: Path) -> None:
    """One study; writes `study.json`."""
    found = run_study(place, plan(), seed=70, weeks=4_000)
    target.mkdir(parents=True, exist_ok=True)
    write_json(target / "study.json", found)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
