"""Mutations of every file of every kind of directory and document are found, and honest ones pass.

A mutation replaces, flips, removes or adds bytes of one class (digits, letters, marks, spaces, others), or cuts,
empties or removes the file; in a database it changes one value of one row. A document by itself is the same document
when its JSON says the same, so there only mutations of what it says count.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import random
import re
import shutil
import sqlite3
import string
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.bench_warm_start import released_log
from study_fakes import REHEARSAL

import tacit
from tacit.accounting.certificate import Certificate
from tacit.cli import main
from tacit.documents import json_values, vouched, without_seal
from tacit.errors import TacitError
from tacit.policies.named import NamedPolicy
from tacit.randomness import SimulationNoise, seed_streams
from tacit.runs.comparison import Run, run_comparison
from tacit.runs.config import RunConfig
from tacit.runs.manifest import DIGESTS, sha256, write_manifest
from tacit.runs.signature import PRIVATE, PUBLIC, new_keys
from tacit.runs.storage_paths import json_bytes
from tacit.runs.verify import SIMULATED, VERSIONS
from tacit.study.collector import Collector
from tacit.study.design import plan_study
from tacit.study.device import Device
from tacit.study.learn_files import save_evaluation, save_learned
from tacit.study.learning import learn
from tacit.study.record import export_policy
from tacit.study.study import DESIGN, Study
from tacit.study.verify import sign_path

WORLD = "random-mdp:states=2,actions=2,horizon=2"
SMALL = {"environment": WORLD, "episodes": 8, "seeds": 1, "checkpoints": 2, "workers": 1}
LOCAL = {"learner": "psrl", "trust": "local", "epsilon": 1.0, "delta": 0.0, "mechanism": "laplace"}
MAPPING = {
    "states": [{"column": "ward", "categories": ["well", "sick"]}],
    "actions": {"column": "drug", "categories": ["none", "pill"]},
    "reward": {"column": "points", "low": -1, "high": 3},
    "horizon": 2,
}
CLASSES = {
    "digits": string.digits.encode(),
    "letters": string.ascii_letters.encode(),
    "marks": string.punctuation.encode(),
    "spaces": b" \n",
}


def a_log(place: Path) -> Path:
    rows = [["person", "episode", "step", "ward", "drug", "points"]]
    rows += [[p, f"{p}0", str(h), "sick" if h else "well", "pill", "1"] for p in ("a", "b", "c") for h in range(2)]
    with (place / "log.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return place / "log.csv"


def a_run(place: Path, **options) -> Path:
    tacit.run(**{**SMALL, **LOCAL, **options}, out=place)
    return place


def a_comparison(place: Path) -> Path:
    """Two runs and the page about them."""
    asked = {**SMALL, **LOCAL, "seeds": (0,)}
    del asked["workers"]
    runs = [Run(label=name, config=RunConfig(**asked | more)) for name, more in TWO.items()]
    run_comparison(runs, name="two", out=place, command="tacit compare two.toml", workers=1)
    assert main(["report", str(place)]) == 0
    return place


TWO: dict[str, dict[str, object]] = {"one": {}, "other": {"epsilon": 2.0}}


def learned(place: Path, **options) -> Path:
    place.mkdir()
    found = learn(
        a_log(place), MAPPING, epsilon=1.0, delta=1e-6, behaviour="known", reports_per_person=2, fallback="none"
    )
    save_learned(found, place / "out", **options)
    return place / "out"


def a_study(place: Path) -> Path:
    """A rehearsed study of two stages, one of which was given up once, with its bundle and its policy beside it."""
    sizes = {"states": 2, "actions": 2, "horizon": 2, "stages": 2, "target": 4, "least": 3, "epsilon": 1.0}
    design = plan_study(**sizes, delta=0.0, learner="psrl", trust="local", mechanism="laplace")
    study = Study.new(place / "study", design, seed=1)
    collector = Collector.new(place / "collector", design, noise="simulation", seed=1)
    for stage in range(2):
        if stage == 1:
            study.plan()
            study.void("too few people")
        data = study.plan()
        collector.open(data)
        for i in range(4):
            source = seed_streams(10 * stage + i)
            device = Device(None, **REHEARSAL, noise=SimulationNoise(source.noise), rng=source.learner)
            device.accept(data)
            lived = {"states": [i % 2, 0, 1], "actions": [i % 2, 1], "rewards": [1, 0]}
            collector.add(device.report(lived), f"person {stage} {i}")
        collector.close()
        study.take(collector.release(study.head), inspected=True)
        export_policy(study, place / f"policy-{stage}.json")
        (place / "study" / f"bundle-{stage + stage}-0.json").write_bytes(data)
    study.plan()
    export_policy(study, place / "study" / "policy.json")
    return place / "study"


def a_document(place: Path, made: Path) -> Path:
    """The same file by itself."""
    place.mkdir()
    return Path(shutil.copy(made, place / made.name))


@pytest.fixture(scope="module")
def keys(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("keys")
    new_keys(place)
    return place


@pytest.fixture(scope="module")
def kinds(tmp_path_factory, keys) -> dict[str, Path]:
    return every_kind(tmp_path_factory.mktemp("kinds"), keys)


def every_kind(place: Path, keys: Path) -> dict[str, Path]:
    """One honest directory or document of every kind."""
    signed, released = a_run(place / "signed"), learned(place / "logs")
    vouched_for, study = learned(place / "vouched", key=keys / PRIVATE), a_study(place / "parties")
    for role in ("learner", "officer"):
        sign_path(signed, keys / PRIVATE, role)
    world = tacit.make_environment(WORLD)
    model = tacit.run(**{**SMALL, **LOCAL, "environment": world}, out=place / "model")
    trial = [
        "trial",
        "run",
        "always 0",
        "--environment",
        WORLD,
        "--against",
        "always 1",
        "--users",
        "40",
        "--trust",
        "local",
    ]
    assert model.doubt is None
    assert main([*trial, "--epsilon", "1", "--delta", "0", "--out", str(place / "trial.json")]) == 0
    return {
        "run": a_run(place / "run"),
        "run of two seeds with fresh users": a_run(place / "seeds", seeds=2, value_users=20),
        "run of a model": place / "model",
        "signed run": signed,
        "comparison": a_comparison(place / "two"),
        "release from a log": released,
        "signed release": vouched_for,
        "study": study,
        "collector": study.with_name("collector"),
        "learned.json": a_document(place / "a", released / "learned.json"),
        "certificate.json": a_document(place / "b", released / "certificate.json"),
        "policy.json": a_document(place / "c", vouched_for / "policy.json"),
        "policy of a study": export_policy(Study(study), place / "policy.json", keys / PRIVATE),
        "bundle": tacit.export_bundle(tacit.load(signed), place / "vouched.json", key=keys / PRIVATE),
        "trial": place / "trial.json",
    }


RESTS_ON_A_KEY = ("policy.json", "policy of a study", "bundle of a stage", "bundle")
"""Kinds that are true only for readers who insist on the key of a party that signed them."""


def passes(path: Path, key: Path | None = None) -> bool:
    try:
        return tacit.verify(path, key=key).true
    except TacitError:
        return False


def mutated(data: bytes, rng: random.Random) -> Iterator[tuple[str, bytes]]:
    """One mutation of every sort of every class of bytes, and of the file as a whole."""
    classes = {**CLASSES, "others": bytes(set(range(256)) - set(b"".join(CLASSES.values())))}
    for name, members in classes.items():
        there = [i for i, byte in enumerate(data) if byte in members]
        if not there:
            continue
        places = [rng.choice(there) for _ in range(4)]
        other = bytes([rng.choice([byte for byte in members if byte != data[places[0]]])])
        yield f"{name} replaced at {places[0]}", data[: places[0]] + other + data[places[0] + 1 :]
        flipped = bytes([data[places[1]] ^ (1 << rng.randrange(8))])
        yield f"{name} flipped at {places[1]}", data[: places[1]] + flipped + data[places[1] + 1 :]
        yield f"{name} removed at {places[2]}", data[: places[2]] + data[places[2] + 1 :]
        yield f"{name} doubled at {places[3]}", data[: places[3]] + data[places[3] :][:1] + data[places[3] :]
    yield "cut", data[: rng.randrange(len(data))]
    yield "empty", b""
    yield "longer", data + b" "


def says(data: bytes) -> object:
    """What a document says; its bytes where it is no JSON."""
    try:
        return json.dumps(json.loads(data, object_pairs_hook=lambda pairs: sorted(pairs)), sort_keys=True)
    except ValueError:
        return data


def files_of(place: Path) -> list[Path]:
    return (
        [place]
        if place.is_file()
        else sorted(path for path in place.rglob("*") if path.is_file() and ".db" not in path.name)
    )


def missed(place: Path, rng: random.Random, rounds: int, key: Path | None = None) -> tuple[int, list[str]]:
    """How many mutations of the files of a directory or of a document were tried, and which passed."""
    tried, found, alone = 0, [], place.is_file()
    for path in files_of(place):
        data = path.read_bytes()
        for _ in range(rounds):
            for what, content in mutated(data, rng):
                by_itself = alone or (path.parent.name == "study" and path.name == "policy.json")
                if content == data or (by_itself and says(content) == says(data)):
                    continue
                path.write_bytes(content)
                tried += 1
                if passes(place, key):
                    found.append(f"{path.name}: {what}")
        path.unlink()
        tried += 1
        # Without a signature it is unsigned, and says so; what a study has handed out may be gone.
        if (
            passes(place, key)
            and path.parent.name != "signatures"
            and (path.parent.name != "study" or path.name == DESIGN)
        ):
            found.append(f"{path.name}: removed")
        path.write_bytes(data)
    if not alone:
        for name in ("notes.txt", "config.json", "seeds/seed-000009.json", "figure.png"):
            more = place / name
            if not more.exists() and (more.parent == place or more.parent.is_dir()):
                more.write_text("{}")
                tried += 1
                found += [f"{name}: added"] if passes(place) else []
                more.unlink()
    return tried, found


TABLES = ("meta", "stage", "bundle", "release", "belief")
COLLECTED = ("meta", "stage", "question", "outbox", "records")
STATED_ROWS = {"stage.reason", "meta.seed"}
"""Taken as stated, and said so; the seed of a rehearsal decides nothing that was released already."""


def missed_rows(place: Path, needed: list[tuple[str, Path]], tables=TABLES) -> tuple[int, list[str]]:
    """The same for every value of every row of the database of a study or collector."""
    tried, found, file = 0, [], next(place.glob("*.db"))
    data = file.read_bytes()
    for table in tables:
        key = "name" if table == "meta" else "rowid"
        with contextlib.closing(sqlite3.connect(file)) as connection:
            names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            rows = connection.execute(f"SELECT {key}, * FROM {table}").fetchall()  # noqa: S608 - names of tables
        for row, *values in rows:
            for name, value in zip(names, values, strict=True):
                if value is None or (table, name) == ("meta", "name"):
                    continue
                tails = "01" if isinstance(value, str) else (b"0", b"1")
                others = [value + 1] if isinstance(value, int) else [value[:-1] + tail for tail in tails]
                changed = next(other for other in others if other != value)
                statement = f'UPDATE {table} SET "{name}" = ? WHERE {key} = ?'  # noqa: S608 - the same
                if not updated(file, statement, changed, row):
                    continue
                tried += 1
                found += [f"{table}.{row if table == 'meta' else name}"] if accepted(place, needed) else []
                for path in place.glob(f"{file.name}*"):
                    path.unlink()
                file.write_bytes(data)
    return tried, found


def updated(file: Path, statement: str, *values: object) -> bool:
    """Whether a value was changed, with all triggers out of the way; they are put back."""
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f'DROP TRIGGER "{name}"')
        try:
            return connection.execute(statement, values).rowcount == 1
        except sqlite3.IntegrityError:
            return False
        finally:
            for _, made in triggers:
                connection.execute(made)


def accepted(place: Path, needed: list[tuple[str, Path]]) -> bool:
    try:
        return tacit.verify(place, needed=needed).true
    except TacitError:
        return False


def test_every_honest_kind_is_true(kinds, keys):
    for kind, path in kinds.items():
        found = tacit.verify(path)
        assert found.outcome == ("not verified" if kind in RESTS_ON_A_KEY else "true"), (kind, found.line)
        assert tacit.verify(path, key=keys / PUBLIC).true == ("signed by" in found.signature or kind in RESTS_ON_A_KEY)
        there = {str(file.relative_to(path)) for file in files_of(path)} if path.is_dir() else {path.name}
        looked = {name for name, how in found.looked_at.items() if how != "not looked at"}
        assert {name for name in there if not name.startswith("signatures/")} <= looked, kind


def count_and_require_found(kinds, keys, rounds: int, seed: int) -> int:
    rng, total = random.Random(seed), 0  # noqa: S311 - places of mutations
    for kind, path in kinds.items():
        key = keys / PUBLIC if kind in RESTS_ON_A_KEY else None
        tried, wrong = missed(path, rng, rounds, key)
        assert wrong == [], kind
        assert passes(path, key), "and as it was it is true again"
        total += tried
    return total


def test_mutations_are_found(kinds, keys):
    assert count_and_require_found(kinds, keys, 1, seed=1) >= 300


@pytest.mark.slow
def test_three_thousand_mutations_are_found(kinds, keys):
    assert count_and_require_found(kinds, keys, 4, seed=2) >= 3000


def test_every_value_of_a_study_is_derived_or_signed(tmp_path, keys):
    place = a_study(tmp_path)
    unsigned = missed_rows(place, [])
    assert unsigned[0] > 60
    assert set(unsigned[1]) <= STATED_ROWS
    tried, wrong = missed_rows(tmp_path / "collector", [], COLLECTED)
    assert tried > 40
    assert set(wrong) <= STATED_ROWS
    sign_path(place, keys / PRIVATE, "officer")
    needed = [("officer", keys / PUBLIC)]
    assert tacit.verify(place, needed=needed).true
    tried, wrong = missed_rows(place, needed, ("meta", "stage"))
    assert tried > 10
    assert wrong == []


def test_an_exchanged_policy_beside_its_study_is_found(tmp_path):
    place = a_study(tmp_path)
    file = place / "policy.json"
    content = json.loads(file.read_text())
    learned = content["policy"]["policy"]["actions"]
    other = {**content["policy"]["policy"], "actions": [[1 - action for action in row] for row in learned]}
    changes = {
        "tables": {"policy": {**content["policy"], "policy": other}},
        "killed": {"policy": {**content["policy"], "killed": True}},
        "version": {"version": "0.7.9", "certificate": {**content["certificate"], "epsilon": 0.001}},
        "no releases": {"releases": None},
        "format_version": {"format_version": True},
        "people": {"releases": [{**row, "people": 5} for row in content["releases"]]},
        "the first release alone": {"releases": content["releases"][:1]},
        "an earlier policy": {"policy": json.loads((tmp_path / "policy-0.json").read_text())["policy"]},
    }
    assert changes["an earlier policy"]["policy"] != content["policy"]
    assert passes(place)
    for name, change in changes.items():
        for edited in (vouched({**without_seal(content), **change}), {**without_seal(content), **change}):
            file.write_text(json.dumps(edited))
            assert not passes(place), name
    file.write_text(json.dumps({**without_seal(content), "digest": content["digest"]}))
    assert passes(place)
    (place / "bundle-0-0.json").unlink()
    (place / "bundle-0-0.json").mkdir()
    assert not passes(place)


def test_signatures_of_policies_and_of_other_things_beside_a_study(tmp_path, keys):
    place = a_study(tmp_path)
    signature = sign_path(place / "policy.json", keys / PRIVATE, "officer")
    assert tacit.verify(place).true, "a policy in it may be signed by itself"
    kept = signature.read_bytes()
    signature.write_bytes(kept.replace(b"officer", b"learner"))
    assert not passes(place)
    signature.write_bytes(kept)
    (place / "signatures").mkdir()
    shutil.copy(signature, place / "signatures")
    assert "or the signature is of something else" in tacit.verify(place).signature
    assert not accepted(place, [("officer", keys / PUBLIC)])


# edits of the structure, with digests and manifests that fit


def more_kinds(place: Path, keys: Path) -> dict[str, Path]:
    """Honest documents and directories of the kinds that edits of the structure are tried on, besides `every_kind`."""
    rng, n = np.random.default_rng(0), 80
    walk, tired = rng.random(n) < 0.5, rng.random(n) < 0.5
    log = {"tired": tired, "given": np.where(walk, "walk", "wait"), "points": rng.random(n)}
    asked = {"features": tacit.Features(tired=bool), "reward": (0, 1), "epsilon": 1.0, "reports_per_person": 1}
    bandit = tacit.LinearBandit(actions=["wait", "walk"], trust="central", delta=1e-6, **asked)
    bandit.fit(log, action="given", reward="points").save(place / "linear")
    lines = [f"{k},{k},{h},{('well', 'sick')[h]},pill,1,0.5" for k in range(40) for h in range(2)]
    (place / "log.csv").write_text("\n".join(["person,episode,step,ward,drug,points,p", *lines]) + "\n")
    mapping = {**MAPPING, "columns": {"propensity": "p"}}
    released = learned(place / "log-of-policies")
    policy = NamedPolicy.from_dict(without_seal(json.loads((released / "policy.json").read_text())))
    values = {"epsilon": 1.0, "delta": 1e-6, "min_propensity": 0.5}
    found = {"release of features": place / "linear"}
    for trust in ("central", "shuffle", "local"):
        asked = {**values, "trust": trust, "delta": 0.0 if trust == "local" else 1e-6}
        made = tacit.evaluate({"p": policy}, place / "log.csv", mapping, **asked)
        found[f"evaluation, {trust}"] = save_evaluation(made, place / f"values-{trust}.json")
    certify = ["certify", "--states", "2", "--actions", "2", "--horizon", "2", "--episodes", "2000", "--epsilon", "1"]
    run = ["run", "--environment", WORLD, "--learner", "psrl", "--mechanism", "laplace", "--episodes", "8"]
    for name, words in {
        "certify, local": [*certify, "--trust", "local", "--delta", "0"],
        "certify, shuffle": [*certify, "--trust", "shuffle", "--delta", "1e-6", "--noise", "secure"],
        "certify, paper": [*certify, "--trust", "central", "--delta", "1e-6", "--calibration", "paper"],
        "certify, losses": [*certify, "--trust", "central", "--delta", "1e-6", "--feedback", "full"],
        "run --json": [*run, "--trust", "local", "--epsilon", "1", "--delta", "0", "--checkpoints", "2"],
    }.items():
        with contextlib.redirect_stdout(io.StringIO()) as out:
            assert main([*words, "--json"]) == 0
        found[name] = place / f"{name}.json"
        found[name].write_text(out.getvalue())
    sizes = {"states": 2, "actions": 2, "horizon": 2, "stages": 2, "target": 40, "least": 30, "epsilon": 1.0}
    for trust in ("central", "shuffle"):
        study = Study.new(place / f"study-{trust}", plan_study(**sizes, delta=1e-6, trust=trust), key=keys / PRIVATE)
        found[f"bundle of a stage, {trust}"] = place / f"bundle-{trust}.json"
        found[f"bundle of a stage, {trust}"].write_bytes(study.plan())
        found[f"design, {trust}"] = Path(shutil.copy(study.directory / DESIGN, place / f"design-{trust}.json"))
        found[f"begun study, {trust}"] = study.directory
    rows = plan_study(
        features=tacit.Features(tired=bool), actions=("wait", "walk"), rewards=(0, 5), trust="local", delta=0.0,
        **{name: sizes[name] for name in ("stages", "target", "least", "epsilon")},
    )  # fmt: skip
    found["begun study over features"] = Study.new(place / "study-rows", rows, seed=1).directory
    Study(place / "study-rows").plan()
    world = "riverswim:states=2,horizon=2"
    start = released_log(world, 500, seed=1)
    warm = {"environment": world, "learner": "bucb", "trust": "central", "epsilon": 1.0, "delta": 1e-6}
    tacit.run(**warm, episodes=200, seeds=1, workers=1, start=start, out=place / "warm")
    found["run that starts from a log"] = place / "warm"
    cells = {"experiment": "x", "runs": [cell_of(place / "warm", world)]}
    (place / "results").mkdir()
    (place / "results" / "cells.json").write_bytes(json_bytes(vouched(cells)))
    write_manifest(place / "results", "results", ["cells.json"])
    return {**found, "results": place / "results"}


def cell_of(place: Path, world: str) -> dict[str, object]:
    """A row of committed results."""
    command = f"tacit run --environment {world} --learner psrl --trust local --epsilon 1 --delta 0 --episodes 20"
    return {"run": "a", "command": command, "certified epsilon": 1.0, "delta": 0.0, "regret": 1.0}


STATED = {
    "run": r"config\.json\.(command|config\.).*|(policies|timing|returns|intervals|arms)\.json.*",
    "comparison": r"comparison\.json\.(name|scale|command)",
    "trial": r".*\.(environment|arms|bounds|seed|command|released\.sums|truth)\b.*",
    "release": r".*\.(request|payloads)\b.*",
    "learned.json": r".*\.(request|payloads)\b.*",
    "certificate.json": r".*\.request\b.*",
    "evaluation": r".*\.(request|payloads)\b.*",
    "run --json": rf".*\.json\.({'|'.join(SIMULATED)})\b.*",
    "results": r"cells\.json\.(experiment|runs\.0\.(run|regret|command|zzz)|zzz)\b.*",
    "design": r".*\.json\.(name|states|actions|rewards|fallback|because|by_size|z|constants)\b.*",
    "study": r"(?!)",
}
"""Kind -> what is taken as stated, and said to be, or asked for: a name in a request, a released number."""


def stated_in(kind: str) -> str:
    return STATED.get(max((name for name in STATED if name in kind), key=len, default=""), r"(?!)")


def edits(content: object, rng: random.Random, number: int) -> Iterator[tuple[str, object]]:
    """(a place, the document with the entry there exchanged for one of another sort, removed, or one added to it)."""
    places = []

    def walk(node: object, place: tuple[object, ...]) -> None:
        if place:
            places.append(place)
        parts = node.items() if isinstance(node, dict) else enumerate(node[:3]) if isinstance(node, list) else ()
        for name, part in parts:
            walk(part, (*place, name))

    walk(content, ())
    values = (3, -1, "x", [], {}, None, True, 1e308, 0.5, "remove", "add")
    every = [(place, value) for place in places for value in values]
    for place, value in rng.sample(every, min(number, len(every))):
        edited = json.loads(json.dumps(content))
        node = edited
        for name in place[:-1]:
            node = node[name]
        old = node[place[-1]]
        if value == "remove":
            del node[place[-1]]
        elif value == "add" and isinstance(old, dict):
            old["zzz"] = 1
        elif value == "add" or (old == value and type(old) is type(value)):
            continue
        else:
            node[place[-1]] = value
        yield ".".join(map(str, place)) + (".zzz" if value == "add" else ""), edited


def missed_edits(kind: str, place: Path, rng: random.Random, number: int, key: Path | None) -> tuple[int, list[str]]:
    """How many edits of the JSON files were tried, and which passed and are not said to be taken as stated."""
    tried, found = 0, []
    for path in [place] if place.is_file() else sorted(place.glob("*.json")):
        data = path.read_bytes()
        listed = None if place.is_file() or not (place / DIGESTS).is_file() else (place / DIGESTS).read_bytes()
        if path.name == DIGESTS:
            continue
        content = json.loads(data)
        sealed = isinstance(content, dict) and "digest" in content
        plain = without_seal(content) if sealed else content
        for what, edited in edits(plain, rng, number):
            path.write_bytes(json_bytes(vouched(edited) if sealed and isinstance(edited, dict) else edited))
            if listed is not None:
                manifest = json.loads(listed)
                manifest["files"][path.name]["sha256"] = sha256(path.read_bytes())
                (place / DIGESTS).write_bytes(json_bytes(manifest))
            tried += 1
            if passes(place, key) and not re.fullmatch(stated_in(kind), f"{path.name}.{what}"):
                found.append(f"{path.name}.{what}")
        path.write_bytes(data)
        if listed is not None:
            (place / DIGESTS).write_bytes(listed)
    return tried, found


def key_of(kind: str, keys: Path) -> Path | None:
    return keys / PUBLIC if kind.partition(",")[0] in RESTS_ON_A_KEY else None


def test_edits_of_the_structure_are_found(kinds, keys, tmp_path):
    total = 0
    for number, (kind, path) in enumerate({**kinds, **more_kinds(tmp_path, keys)}.items()):
        assert passes(path, key_of(kind, keys)), (kind, tacit.verify(path).line)
        tried, wrong = missed_edits(kind, path, random.Random(number), 12, key_of(kind, keys))  # noqa: S311
        assert wrong == [], kind
        total += tried
    assert total >= 400


def honest(place: Path, number: int) -> list[Path]:
    """Runs, releases and bundles that differ in what decides their files."""
    learners = ("psrl", "ucbvi", "uniform", "optimal")
    trusts = ({"trust": "none"}, LOCAL, {"trust": "central", "epsilon": 1.0, "delta": 1e-6})
    found = []
    new_keys(place / "keys")
    for i in range(number):
        learner = learners[i % 4]
        options = {"trust": "none"} if i % 4 > 1 else {**trusts[i % 3]}
        made = {**SMALL, **options, "learner": learner, "seeds": [i], "episodes": 6 + i % 5}
        if options["trust"] == "none":
            made = {name: value for name, value in made.items() if name not in ("epsilon", "delta", "mechanism")}
        tacit.run(**made, out=place / f"run-{i}")
        found.append(place / f"run-{i}")
        if i % 10 == 0:
            bundle = tacit.export_bundle(tacit.load(found[-1]), place / f"{i}.json", key=place / "keys" / PRIVATE)
            found += [learned(place / f"log-{i}"), bundle]
    return found


def not_passing(place: Path, found: list[Path]) -> list[str]:
    """Bundles rest on the key that signed them."""
    return [path.name for path in found if not passes(path, place / "keys" / PUBLIC if path.is_file() else None)]


def test_honest_directories_pass(tmp_path):
    assert not_passing(tmp_path, honest(tmp_path, 20)) == []


@pytest.mark.slow
def test_two_hundred_honest_directories_pass(tmp_path):
    found = honest(tmp_path, 200)
    assert len(found) >= 200
    assert not_passing(tmp_path, found) == []


def test_the_committed_run_found_all_of_them():
    """`python tests/review/mutation_run.py` wrote it, with the version that it names."""
    found = json.loads((Path(__file__).parents[2] / "results" / "verification" / "mutations.json").read_text())
    assert VERSIONS.fullmatch(found["version"])
    assert found["total"]["mutations"] == sum(one["mutations"] for one in found["kinds"].values()) >= 3000
    assert found["total"]["missed"] == 0
    assert all(one["missed"] == [] and one["true as it was"] for one in found["kinds"].values())
    wanted = (
        "study",
        "collector",
        "evaluation, shuffle",
        "release of features",
        "begun study over features",
        "results",
    )
    assert set(wanted) < set(found["kinds"])
    assert found["honest"]["directories"] >= 200
    assert found["honest"]["false alarms"] == []


def test_a_trial_under_the_claim_of_another_is_false(tmp_path):
    """What was released has the noise of epsilon 5; claim and certificate say 1; the digest fits."""
    contents = []
    for epsilon in ("1", "5"):
        out = tmp_path / f"trial-{epsilon}.json"
        words = ["trial", "run", "always 0", "--environment", WORLD, "--against", "always 1", "--users", "40"]
        words += ["--trust", "local", "--epsilon", epsilon, "--delta", "0", "--out", str(out)]
        assert main(words) == 0
        contents.append(json.loads(out.read_text()))
    small, large = contents
    forged = tmp_path / "forged.json"
    swapped = {"certificate": small["certificate"]}
    forged.write_text(json.dumps(vouched({**without_seal(large), **swapped})))
    assert not passes(forged)
    forged.write_text(json.dumps(vouched(without_seal(large))))
    assert passes(forged)


def test_a_rehearsed_policy_that_calls_its_noise_secure_is_not_verified(tmp_path):
    place = a_study(tmp_path) / "policy.json"
    content = without_seal(json.loads(place.read_text()))
    content["releases"] = [{**row, "noise": "secure"} for row in content["releases"]]
    content["certificate"] = plain_under(content["certificate"], "secure")
    forged = tmp_path / "policy.json"
    forged.write_text(json.dumps(vouched(content)))
    found = tacit.verify(forged)
    assert found.outcome == "not verified", found.why
    assert "secure" in found.why


def plain_under(stated, noise: str):
    """The certificate as it would be with another source of noise."""
    found = Certificate.from_dict(stated)
    return json_values(found.under(replace(found.terms, noise=noise)).to_dict())
