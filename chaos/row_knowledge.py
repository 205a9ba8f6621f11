"""Who can know what: the table of `tacit.accounting.knowledge` against everything that real processes let parties read.

difference   two neighbouring histories, each run twice: whatever is the same in all runs of each history, and differs
             between the histories, tells them apart for certain. It may stand only where the table says "data".
reach        every coalition opens what its keys open: what it reads of one person is what the table says.
grades       addresses, moments, keys, lengths and ids: found where the table says so, and nowhere else.
messages     what is randomized is attacked by trials: no bound on epsilon above what the table says remains.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from chaos import row_shape, views
from chaos.canaries import spellings
from chaos.worlds import row
from tacit.accounting.knowledge import KINDS, PARTIES, Kind, reach, remaining, sight
from tacit.audit.bounds import Errors, event_epsilon
from tacit.data.trajectories import Trajectory
from tacit.randomness import SimulationNoise
from tacit.service.sealing.envelope import open_envelope
from tacit.service.sealing.hpke import inner_info, mixer_info
from tacit.study.sealed import message_size
from tacit.study.wire import Report

PEOPLE = 4
SCALES: dict[str, dict[str, Any]] = {
    "ci": {"kinds": ("central",), "databases": ("sqlite",), "trials": 2_000},
    "chaos": {"kinds": tuple(KINDS), "databases": ("sqlite", "postgresql"), "trials": 20_000},
}
NEIGHBOURS: dict[str, Any] = {"zeros": row_shape.LIVES[0], "ones": row_shape.LIVES[1], "nothing": None}
"""What the person reports whose report differs; None is a dummy report."""
FALSE_ALARM = 1e-6
TRIED = 8
"""How many messages of a sealed report a coalition tries to open: all are sealed alike."""
SHORTEST = 8
"""Values of fewer letters are equal by chance; longer ones that are equal are the same one."""


# histories


def kinds_served() -> tuple[Kind, ...]:
    """The kinds that services run; they refuse shuffle trust without seals."""
    return tuple(kind for kind in KINDS if kind != "plain")


def runs_of(kind: Kind, pair: Sequence[str] = ("zeros", "ones"), url: Any = None) -> dict[str, list[views.Run]]:
    """Two runs of each of two neighbouring histories, in turns, so that nothing that drifts looks like a difference.

    Where something seems to leak there are two more runs of each: what differs by chance does not differ again.
    """
    found: dict[str, list[views.Run]] = {name: [] for name in pair}
    for _ in range(2):
        with ThreadPoolExecutor(2) as both:
            for name, run in both.map(lambda name: (name, _run(kind, name, url)), (*pair, *pair)):
                found[name].append(run)
        if not leaks(differences(found, kind)[0], kind):
            break
    return found


def _run(kind: Kind, name: str, url: Any) -> views.Run:
    lived = [row_shape.LIVES[2 + number % 2] for number in range(PEOPLE)]
    lived[views.VICTIM] = NEIGHBOURS[name]
    design, place = row_shape.design(KINDS[kind][0], PEOPLE), None if url is None else url()
    run = views.lives(design, lived, mixed=kind == "mixed", url=place)
    assert run.answers == ["counted"] * PEOPLE, run.answers
    assert run.replayed, "what a learner has must follow from its releases"
    return run


# the certain attack


def aspects(run: views.Run, kind: Kind) -> dict[tuple[str, str, str], Any]:
    """(party, place, aspect) -> what can be seen: a value, its length, and where the same value was seen first."""
    first: dict[bytes, str] = {}
    found: dict[tuple[str, str, str], Any] = {}
    for party in PARTIES:
        for place, value in run.seen.get(party, {}).items():
            step, _, rest = place.partition("/")
            before = run.seen[party].get(f"0/{rest}") if step.isdigit() else None
            if views.DERIVED.search(place) or step == "0" or (before is not None and before == value):
                continue  # what was there before the first report says nothing about people
            randomized = views.PAYLOAD.search(place) and kind != "central"
            if not randomized:
                found[party, place, "value"] = value
            raw = value.encode() if isinstance(value, str) else value
            if isinstance(raw, bytes):
                found[party, place, "length"] = len(raw)
                if len(raw) >= SHORTEST and not randomized:
                    with contextlib.suppress(ValueError):
                        raw = bytes.fromhex(raw.decode())
                    found[party, place, "first seen"] = first.setdefault(raw, f"{party}/{place}")
    return found


def differences(runs: Mapping[str, Sequence[views.Run]], kind: Kind) -> tuple[set[tuple[str, str, str]], int]:
    """Everything that tells two histories apart for certain; how many aspects were the same in all runs of each."""
    seen = {name: [aspects(run, kind) for run in some] for name, some in runs.items()}
    every = set().union(*(one for some in seen.values() for one in some))
    told, steady = set(), 0
    for key in every:
        one, other = ([run.get(key) for run in some] for some in seen.values())
        if all(value == one[0] for value in one) and all(value == other[0] for value in other):
            steady += 1
            if one[0] != other[0]:
                told.add(key)
    return told, steady


def leaks(told: set[tuple[str, str, str]], kind: Kind) -> list[str]:
    """Differences where the table allows none: of a party that reads data, what it keeps of reports is one."""
    return sorted(
        f"{party}: {place} ({aspect})"
        for party, place, aspect in told
        if not (views.PAYLOAD.search(place) and sight(party, "messages", kind)[0] == "data")  # type: ignore[arg-type]
    )


# coalitions


def coalitions() -> Iterator[tuple[str, ...]]:
    """All of them."""
    for size in range(1, len(PARTIES) + 1):
        yield from itertools.combinations(PARTIES, size)


def opened(run: views.Run, coalition: Sequence[str], kind: Kind) -> bytes | None:
    """The report of the person as far as a coalition can read it, from what it recorded and the keys it holds."""
    design = run.parties.design
    study, channel = bytes.fromhex(design.digest), design.parts().channels[0]
    keys = {party: run.rings[party] for party in coalition if party in run.rings}
    sent = dict(run.envelopes).get(views.address(views.VICTIM))
    if "shuffler" in coalition:
        assert sent is not None
        report = Report.parse(open_envelope(sent, study=study, keys=keys["shuffler"]).report)
        assert report.body == run.bodies[views.VICTIM]
    elif "network" in coalition and sent is not None:
        for some in keys.values():
            with contextlib.suppress(Exception):
                open_envelope(sent, study=study, keys=some)
                raise AssertionError("an envelope opened without the shuffler's key")
        return None
    else:
        return None
    layers = {"sealed": 1, "mixed": 2}.get(kind, 0)
    if not layers:
        return report.body
    size = message_size(channel, layers)
    messages = [report.body[start : start + size] for start in range(0, size * TRIED, size)]
    for party, info in [("mixer", mixer_info)] * (layers - 1) + [("learner", inner_info)]:
        messages = [one for sealed in messages if (one := _open(keys, party, info, study, sealed)) is not None]
    return b"".join(messages) or None


def _open(keys: Mapping[str, Any], party: str, info: Any, study: bytes, sealed: bytes) -> bytes | None:
    """What is in a message, with any key of the coalition."""
    for ring in keys.values():
        for name, key in ring.items():
            found: bytes | None = key.open(info(study, 0, name), sealed)
            if found is not None:
                assert ring is keys.get(party), f"a message for the {party} opened with another party's key"
                return found
    return None


def reached(run: views.Run, coalition: Sequence[str], kind: Kind, life: str) -> str:
    """What a coalition has of one person: nothing but the release, a noisy report, or one that never changes."""
    found = opened(run, coalition, kind)
    if found is None:
        return "release"
    (first, *others) = bodies_of(kind, life)
    return "data" if not others and found == first else "message"


@cache
def bodies_of(kind: Kind, name: str) -> tuple[bytes, ...]:
    """The different bodies that a device makes of a life in 2,000 draws; under a weak claim two runs may be equal."""
    channel = row_shape.design(KINDS[kind][0], PEOPLE).parts().channels[0]
    noise = SimulationNoise(np.random.default_rng(31))
    return tuple({channel.encode(path_of(NEIGHBOURS[name]), noise) for _ in range(2_000)})


def path_of(life: Any) -> Trajectory | None:
    """A life as devices encode it."""
    return None if life is None else Trajectory(*(np.array(life[name]) for name in ("states", "actions", "rewards")))


def wrong_reaches(run: views.Run, kind: Kind, life: str = "zeros") -> list[str]:
    """Coalitions that read more, or less, than the table says of those that do not lie."""
    wrong = []
    for coalition in coalitions():
        said = reach(coalition, kind, active=False)
        said = "release" if said == "rest" else said  # noise of others: attacked by trials
        found = reached(run, coalition, kind, life)
        if found != said:
            wrong.append(f"{'+'.join(coalition)}: {found}, where the table says {said}")
    return wrong


# grades


def wrong_grades(run: views.Run, kind: Kind) -> list[str]:
    """Cells of the table that are not what was recorded."""
    wrong, victim = [], views.VICTIM
    moment = views.BEGIN + views.STEP * (victim + 1)
    minute = time.strftime("%Y-%m-%dT%H:%M", time.gmtime(moment))
    study = bytes.fromhex(run.parties.design.digest)
    inside = open_envelope(run.envelopes[victim][1], study=study, keys=run.rings["shuffler"])
    ids = spellings(Report.parse(inside.report).id)
    for party in PARTIES:
        if party not in run.seen:
            continue
        # A lease holds the time of the party itself, again and again.
        kept = {place: value for place, value in run.seen[party].items() if "tables/lease/" not in place}
        values = [(place, value) for place, value in kept.items() if value is not None]
        text = {place: value if isinstance(value, bytes) else str(value).encode() for place, value in values}

        def found(*words: bytes, among: Mapping[str, bytes] = text) -> bool:
            return any(word in value for value in among.values() for word in words)

        grade = {surface: sight(party, surface, kind)[0] for surface in ("addresses", "times", "keys", "database")}
        if found(views.address(victim).encode()) != (grade["addresses"] == "devices"):
            wrong.append(f"{party}: addresses")
        stored = found(str(moment).encode()) or any(
            isinstance(v, int | float) and 0 <= v - moment < 60 for _, v in values
        )
        if stored:  # moments pass, and are kept nowhere
            wrong.append(f"{party}: a moment")
        if found(minute.encode()) and grade["times"] not in ("minute", "moment"):
            wrong.append(f"{party}: a minute")
        if (party in run.rings) != (grade["keys"] == party != "issuer"):
            wrong.append(f"{party}: keys")
        if found(*ids) != (grade["database"] == "records" and party == "shuffler"):
            wrong.append(f"{party}: ids")
    if len({len(envelope) for _, envelope in run.envelopes}) != 1:
        wrong.append("network: sizes")
    return wrong


# attacks by trials


def bound(first: Any, second: Any, delta: float) -> float:
    """A lower bound on epsilon from two samples [trials, numbers]: half of them choose a direction and a threshold."""
    half = len(first) // 2
    mean = [sample[:half].mean(axis=0) for sample in (first, second)]
    spread = (first[:half].var(axis=0) + second[:half].var(axis=0)) / 2 + 1e-9
    scores = [sample @ ((mean[1] - mean[0]) / spread) for sample in (first, second)]
    cuts = np.unique(np.quantile(np.concatenate([score[:half] for score in scores]), np.linspace(0.002, 0.998, 200)))

    def at(cut: float, part: slice, alarm: float) -> float:
        hits = [int((score[part] > cut).sum()) for score in scores]
        trials = len(scores[0][part])
        errors = Errors(first=trials, first_hits=hits[0], second=trials, second_hits=hits[1])
        return float(event_epsilon(errors, delta, alarm))

    best = max(cuts, key=lambda cut: at(float(cut), slice(half), FALSE_ALARM))
    return at(float(best), slice(half, None), FALSE_ALARM)


def sampled(channel: Any, life: Any, trials: int, seed: int, noise_of: int = 1) -> Any:
    """What a coalition has of one person, [trials, numbers], with the noise of so many devices under shuffle trust."""
    noise = SimulationNoise(np.random.default_rng(seed))
    path = path_of(life)

    def one() -> Any:
        body = channel.encode(path, noise)
        if channel.TRUST != "shuffle":
            return np.unpackbits(np.frombuffer(body, dtype=np.uint8)).astype(np.float64)
        bodies = [body, *(channel.encode(None, noise) for _ in range(noise_of - 1))]
        labels = np.frombuffer(b"".join(bodies), dtype=channel.labels)
        return np.bincount(labels, minlength=channel.spec.num_counters + 1)[:-1].astype(np.float64)

    return np.array([one() for _ in range(trials)])


def attacks(trials: int, seed: int = 23) -> list[tuple[str, float, float]]:
    """(what is attacked, the bound that trials prove, what the table says remains)."""
    from tacit.study.design import plan_study

    sizes: dict[str, Any] = {"states": 2, "actions": 2, "horizon": 2, "stages": 1, "target": 12, "least": 12}
    lives = [{"states": [s] * 3, "actions": [s] * 2, "rewards": [float(s)] * 2} for s in (0, 1)]
    found = []
    local = plan_study(**sizes, epsilon=2.0, delta=0.0, trust="local").parts().channels[0]
    samples = [sampled(local, life, trials, seed + i) for i, life in enumerate(lives)]
    found.append(("local: shuffler reads a message", bound(*samples, 0.0), remaining(["shuffler"], local)))
    shuffled = plan_study(**sizes, epsilon=2.0, delta=1e-3, trust="shuffle", learner="sdp-bucb").parts().channels[0]
    for coalition, devices, count in ((["learner"], 0, 12), (["learner", "device"], 6, 6)):
        samples = [sampled(shuffled, life, trials, seed + i, count) for i, life in enumerate(lives)]
        left = remaining(coalition, shuffled, sealing="sealed", devices=devices)
        found.append((f"shuffle: {'+'.join(coalition)} with {devices} devices", bound(*samples, 1e-3), left))
    return found


def planted(trials: int, seed: int = 29) -> list[tuple[str, float, float]]:
    """The same for messages with less noise than the table was told of; the attack must find them."""
    from tacit.study.design import plan_study

    sizes: dict[str, Any] = {"states": 2, "actions": 2, "horizon": 2, "stages": 1, "target": 12, "least": 12}
    lives = [{"states": [s] * 3, "actions": [s] * 2, "rewards": [float(s)] * 2} for s in (0, 1)]
    weak, said = (plan_study(**sizes, epsilon=e, delta=0.0, trust="local").parts().channels[0] for e in (6.0, 1.0))
    samples = [sampled(weak, life, trials, seed + i) for i, life in enumerate(lives)]
    found = [("local: three times the epsilon", bound(*samples, 0.0), remaining(["shuffler"], said))]
    made = plan_study(**sizes, epsilon=2.0, delta=1e-3, trust="shuffle", learner="sdp-bucb").parts().channels[0]
    silent = replace(made, probability=Fraction(2.0**-10))
    samples = [sampled(silent, life, trials, seed + i, 12) for i, life in enumerate(lives)]
    return [*found, ("shuffle: devices without noise", bound(*samples, 1e-3), remaining(["learner"], made))]


# rows


@contextlib.contextmanager
def databases(name: str) -> Iterator[Any]:
    """What makes the URL of a new database, or None for files."""
    if name == "sqlite":
        yield None
        return
    import postgres

    with postgres.running() as server:
        yield server.database


def run(scale: str = "chaos") -> list[dict[str, Any]]:
    """All rows of this module."""
    size, rows = SCALES[scale], []
    for database in size["databases"]:
        with databases(database) as url:
            for kind in [kind for kind in size["kinds"] if kind in kinds_served()]:
                rows += _kind_rows(kind, database, url, scale)
    for name, lower, left in attacks(size["trials"]):
        rows.append(row(name, f"epsilon {left:.3g} remains", f"at least {lower:.3g}", lower <= left))
    for name, lower, left in planted(size["trials"]):
        rows.append(row(f"planted: {name}", f"found: above {left:.3g}", f"at least {lower:.3g}", lower > left))
    return rows


def _kind_rows(kind: Kind, database: str, url: Any, scale: str) -> list[dict[str, Any]]:
    rows = []
    pairs = [("zeros", "ones")] if scale == "ci" else [("zeros", "ones"), ("zeros", "nothing")]
    for pair in pairs:
        runs = runs_of(kind, pair, url)
        told, steady = differences(runs, kind)
        found, some = leaks(told, kind), runs[pair[0]]
        name = f"{kind}, {database}, {' or '.join(pair)}"
        detail = "; ".join(found[:5])
        rows.append(row(f"difference: {name}", "no leak", f"{len(found)} of {steady:,} aspects", not found, detail))
        if kind == "central":
            rows.append(row(f"difference: {name}, shuffler", "data found", len(told), bool(told)))
        wrong = wrong_reaches(some[0], kind, pair[0]) + wrong_grades(some[0], kind)
        rows.append(
            row(f"reach and grades: {name}", "as the table", f"{len(wrong)} wrong", not wrong, "; ".join(wrong[:5]))
        )
    return rows
