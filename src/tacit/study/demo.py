"""A whole study over real files, with simulated people: what `tacit study demo` shows.

The people are simulated (they swim in RiverSwim), everything else is real: a design, signed bundles, a device for every
person that draws its own noise from the operating system, report files, two databases, releases, a ledger, a policy.
Some people stay away, some send a cover report, and one tries to report twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from tacit.accounting.claims import Trust
from tacit.environments.registry import make
from tacit.environments.tabular import TabularMDP
from tacit.errors import NotSupported, require, require_count
from tacit.policies.named import NamedPolicy
from tacit.runs.signature import new_keys
from tacit.study.bundle import Bundle
from tacit.study.collector import Collector, summary
from tacit.study.design import StudyDesign, plan_study
from tacit.study.device import Device
from tacit.study.record import export_policy
from tacit.study.study import Study

STAGES: Final = 5
AWAY, COVERED = 0.04, 0.02
"""The shares of people who stay away and who send a cover report."""
MAX_PEOPLE: Final = 10**6
"""Each of them is a device with files of its own."""
STATES: Final = ("upstream", "shallows", "rapids", "downstream")
ACTIONS: Final = ("drift", "swim")
Say = Callable[[str], None]


class Acting(Protocol):
    """A device that tells a person what to do."""

    def act(self, step: int, state: int | str) -> str:
        """The action to take at a step in a state."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """What a demonstration ends with."""

    design: StudyDesign
    study: Study
    collector: Collector
    policy: NamedPolicy
    file: Path
    signature: str
    stages: tuple[dict[str, Any], ...]
    """One row per stage; the mean return is simulation only."""


def run_demo(
    directory: str | Path,
    *,
    trust: Trust = "shuffle",
    epsilon: float = 2.0,
    delta: float = 1e-6,
    people: int = 5000,
    seed: int = 0,
    say: Say | None = None,
) -> DemoResult:
    """Run a study of so many simulated people in a new directory; the seed moves the people, never the noise."""
    tell = say or _silent
    place = Path(directory)
    require(not place.exists() or not any(place.iterdir()), f"{place} must be a new directory", "files in it")
    target = require_count("people", people, least=STAGES * 10, most=MAX_PEOPLE) // STAGES
    world = make("riverswim")
    design = plan_study(
        name="riverswim demonstration",
        states=STATES,
        actions=ACTIONS,
        horizon=world.horizon,
        stationary=world.stationary,
        trust=trust,
        epsilon=epsilon,
        delta=0.0 if trust == "local" else delta,
        stages=STAGES,
        target=target,
    )
    sizes = [int(channel["target"]) for channel in design.channels]
    tell(f"designed: {len(sizes)} stages of {sum(sizes)} people in all under trust {trust}, epsilon {epsilon:g}")
    tell(str(design.choice))
    keys, signature = _keys(place)
    study = Study.new(place / "study", design, key=keys[0], collector=keys[3], seed=seed)
    collector = Collector.new(place / "collector", design, key=keys[2], learner=keys[1])
    rng, rows = np.random.default_rng(seed), []
    for number, size in enumerate(sizes):
        bundle = study.plan()
        (place / f"bundle-{number}.json").write_bytes(bundle)
        collector.open(bundle)
        names = [f"person {number}-{i}" for i in range(size)]
        returns: list[float] = []
        answers = collector.add_many(_reports(place, bundle, names, world, rng, keys[1], returns))
        counted = collector.close()
        release = collector.release(study.head)
        (place / f"release-{number}.bin").write_bytes(release)
        taken = study.take(release)
        paid = collector.realised()[-1]
        row = {"stage": number, "reports": counted, "epsilon": paid["epsilon"], "taken": taken}
        rows.append({**row, "refused": summary(answers)["refused"], "mean_return": float(np.mean(returns))})
        tell(
            f"stage {number}: {counted} reports of {target} wanted, one report cost epsilon {paid['epsilon']:.3f}, "
            f"{taken}; mean return {np.mean(returns):.3f} (simulation only)"
        )
    study.plan()
    file = export_policy(study, place / "policy.json", keys[0])
    collector.verify(study.head)
    policy = NamedPolicy.from_dict(_exported(file))
    return DemoResult(
        design=design,
        study=study,
        collector=collector,
        policy=policy,
        file=file,
        signature=signature,
        stages=tuple(rows),
    )


def _reports(
    place: Path,
    bundle: bytes,
    names: list[str],
    world: TabularMDP,
    rng: np.random.Generator,
    key: Path | None,
    returns: list[float],
) -> Iterator[tuple[bytes, str]]:
    """What the devices of a stage send, through files; the last one sends a second report under another id."""
    folder = place / "reports"
    folder.mkdir(parents=True, exist_ok=True)
    asked = Bundle.parse(bundle)
    limits: dict[str, Any] = {"cap": asked.claim.epsilon, "floor": asked["least"], "key": key}
    for name in names:
        device = Device(None, **limits)
        device.accept(bundle)
        lot = rng.random()
        if lot < AWAY:
            continue
        if lot < AWAY + COVERED:
            report = device.cover()
        else:
            lived = live(device, world, rng)
            returns.append(float(sum(lived["rewards"])))
            report = device.report(lived)
        path = folder / f"{name}.tcr"
        path.write_bytes(report)
        yield path.read_bytes(), name
        path.unlink()
        if name == names[-1]:
            again = Device(None, **limits)
            again.accept(bundle)
            yield again.cover(), name


def live(device: Acting, world: TabularMDP, rng: np.random.Generator) -> dict[str, list[Any]]:
    """One simulated person's episode, as the device sees it."""
    P, r = np.array(world.stage_P), np.array(world.stage_r)
    s = int(rng.choice(len(STATES), p=np.array(world.rho)))
    states, actions, rewards = [STATES[s]], list[str](), list[float]()
    for h in range(world.horizon):
        action = device.act(h, STATES[s])
        a, stage = ACTIONS.index(action), min(h, len(P) - 1)
        actions.append(action)
        rewards.append(float(rng.random() < r[min(h, len(r) - 1), s, a]))
        s = int(rng.choice(len(STATES), p=P[stage, s, a]))
        states.append(STATES[s])
    return {"states": states, "actions": actions, "rewards": rewards}


def _keys(place: Path) -> tuple[tuple[Path | None, ...], str]:
    """Key pairs of learner and collector, or none where signing is not installed."""
    try:
        pairs = [new_keys(place / "keys" / who) for who in ("learner", "collector")]
    except NotSupported:
        return (None,) * 4, "unsigned: the extra 'sign' is not installed"
    return tuple(path for pair in pairs for path in pair), "signed"


def _exported(file: Path) -> dict[str, Any]:
    import json

    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))["policy"]
    return found


def _silent(line: str) -> None:
    del line
