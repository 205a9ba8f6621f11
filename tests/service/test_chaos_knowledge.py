"""What parties can know: the table against real processes, every coalition, and attacks by trials."""

from __future__ import annotations

import json
import os
import runpy
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chaos import mutants, row_knowledge, row_shape, views
from chaos.parties import Parties, fast_directory

from tacit.accounting import knowledge
from tacit.accounting.knowledge import KINDS, PARTIES, SURFACES, breaches, kind_of, reach, remaining, sight
from tacit.errors import InvalidInput, NotSupported
from tacit.randomness import SimulationNoise
from tacit.service.config import read_party
from tacit.service.learner import open_study
from tacit.service.loopback import Loopback, _toml
from tacit.service.shuffler import collector_of
from tacit.study.device import Device

SERVED = row_knowledge.kinds_served()
TRUSTS, SEALINGS = ("central", "shuffle", "local"), ("plain", "sealed", "mixed")
FASTER = ("plain", "sealed")
"""With every change, and mixed ones once; the others before a merge, since their processes are the same ones."""
RUN = {"plain": {"learner", "shuffler", "device"}} | {
    kind: {"learner", "shuffler", "device", "operator", "network"}
    | ({"issuer"} if kind in ("sealed", "mixed") else set())
    | ({"mixer"} if kind == "mixed" else set())
    for kind in SERVED
}
"""The parties that there are."""


@pytest.fixture(
    scope="module",
    params=[pytest.param((kind, "sqlite"), marks=() if kind in FASTER else pytest.mark.slow) for kind in KINDS]
    + [pytest.param((kind, "postgresql"), marks=pytest.mark.slow) for kind in KINDS],
    ids="-".join,
)
def recorded(request):
    """Two runs of each of two neighbouring histories."""
    kind, database = request.param
    with row_knowledge.databases(database) as server:
        yield kind, row_knowledge.runs_of(kind, server=server)


@pytest.fixture(scope="module")
def mutated():
    """Runs in which one party does not permute, and an honest one with a mixer."""
    parties = {"shuffler": "sealed", "mixer": "mixed", "": "mixed"}

    def one(party):
        mutant = mutants.UNPERMUTED if party else ""
        return row_knowledge.run_of(parties[party], "zeros", mutant=mutant, of=(party,))

    with ThreadPoolExecutor(len(parties)) as together:
        return dict(zip(parties, together.map(one, parties), strict=True))


def test_neighbouring_histories_look_the_same_to_everybody(recorded):
    """But for what the table calls data: the reports that a curator reads, and there the harness must find them."""
    kind, runs = recorded
    told, steady = row_knowledge.differences(runs, kind)
    assert row_knowledge.leaks(told, kind) == []
    assert bool(told) == (kind == "central")
    assert steady > (3_000 if kind in SERVED else 500)
    assert set(runs["zeros"][0].seen) == RUN[kind]


def test_every_coalition_opens_what_the_table_says(recorded):
    kind, runs = recorded
    assert len(list(row_knowledge.coalitions())) == 127
    for life, some in runs.items():
        for run in some:
            assert row_knowledge.wrong_reaches(run, kind, life) == []


def test_every_cell_of_the_table_is_what_was_measured(recorded):
    kind, runs = recorded
    for life, some in runs.items():
        for run in some:
            grades = row_knowledge.measured(run, kind, life)
            assert {party for party, _ in grades} == RUN[kind]
            assert len(grades) == len(RUN[kind]) * len(SURFACES)
            assert row_knowledge.wrong_grades(grades, kind) == []
            assert row_knowledge.stored(run) == []


def test_what_the_person_reported_is_in_no_byte_of_a_party_that_may_not_read_it(recorded):
    kind, runs = recorded
    for life, some in runs.items():
        for run in some:
            assert row_knowledge.canaries(run, life, kind) == []


# what the harness must find


def falsified(monkeypatch, party, surface, kind, grade):
    """The table with one cell that says something else."""
    cell = knowledge.SEES[party][surface]
    cells = dict.fromkeys(KINDS, cell) if isinstance(cell, str) else dict(cell)
    lie = {**knowledge.SEES[party], surface: {**cells, kind: f"{grade}: a lie"}}
    monkeypatch.setattr(knowledge, "SEES", {**knowledge.SEES, party: lie})


def all_lies_are_found(run, kind, monkeypatch):
    """Every cell is falsified, one at a time, to every other grade that its surface has anywhere."""
    grades = row_knowledge.measured(run, kind)
    assert row_knowledge.wrong_grades(grades, kind) == []
    known = {
        surface: {"none", "data", *(sight(party, surface, other)[0] for party in PARTIES for other in KINDS)}
        for surface in SURFACES
    }
    lies = 0
    for party, surface in grades:
        for grade in known[surface] - {sight(party, surface, kind)[0]}:
            with monkeypatch.context() as patch:
                falsified(patch, party, surface, kind, grade)
                found = row_knowledge.wrong_grades(grades, kind)
            assert len(found) == 1, (party, surface, grade)
            assert found[0].startswith(f"{party}/{surface}: "), (party, surface, grade)
            lies += 1
    assert lies >= len(grades)


def test_a_lie_in_any_cell_is_found(recorded, monkeypatch):
    kind, runs = recorded
    all_lies_are_found(runs["zeros"][0], kind, monkeypatch)


def test_a_mixed_study_is_as_the_table_says_and_a_lie_in_any_cell_is_found(mutated, monkeypatch):
    """Once with every change: the quick sibling of the runs with a mixer."""
    assert set(mutated[""].seen) == RUN["mixed"]
    assert row_knowledge.wrong(mutated[""], "mixed", "zeros") == []
    all_lies_are_found(mutated[""], "mixed", monkeypatch)


def test_a_party_that_does_not_permute_is_found(mutated):
    """By the learner alone, and with a mixer by those that know the other order."""
    reaches = row_knowledge.wrong_reaches(mutated["shuffler"], "sealed")
    assert "learner: message, where the table says release" in reaches
    assert not any("shuffler" in line.partition(":")[0] for line in reaches)  # those know the report in any case
    grades = row_knowledge.wrong_grades(row_knowledge.measured(mutated["shuffler"], "sealed"), "sealed")
    assert {line.partition(":")[0] for line in grades} == {"learner/messages", "learner/orders"}
    assert any(
        line.startswith("learner: sealed in ")
        for line in row_knowledge.canaries(mutated["shuffler"], "zeros", "sealed")
    )
    reaches = row_knowledge.wrong_reaches(mutated["mixer"], "mixed")
    assert "learner+shuffler: message, where the table says release" in reaches
    assert {"learner", "shuffler"} <= set.intersection(*(set(line.partition(":")[0].split("+")) for line in reaches))


@pytest.mark.slow
def test_a_shuffler_that_does_not_permute_before_a_mixer_is_found():
    """The mixer sees who sent what, and with the learner it reads it."""
    run = row_knowledge.run_of("mixed", "zeros", mutant=mutants.UNPERMUTED)
    assert "learner+mixer: message, where the table says release" in row_knowledge.wrong_reaches(run, "mixed")
    assert any(
        line.startswith("mixer/orders: arrival")
        for line in row_knowledge.wrong_grades(row_knowledge.measured(run, "mixed"), "mixed")
    )


@pytest.mark.parametrize("turned", ["whole reports", "in turns", "backwards"])
def test_other_orders_that_are_not_uniform_are_found(mutated, turned):
    """The recorded file of messages, put into another order: reports change places, take turns, or are turned round."""
    run, kind = mutated["shuffler"], "sealed"
    size = len(row_knowledge.batches(run, kind)[0][0])
    bodies = [row_knowledge._cut(body, size) for body in row_knowledge.arrived(run)]
    orders = {
        "whole reports": [one for body in (bodies[2], bodies[0], bodies[3], bodies[1]) for one in body],
        "in turns": [one for together in zip(*bodies, strict=True) for one in together],
        "backwards": [one for body in reversed(bodies) for one in reversed(body)],
    }
    place = f"{row_knowledge.BATCHES[0]}/response/body"
    seen = {party: {**values} for party, values in run.seen.items()}
    for party in ("learner", "shuffler", "network"):
        seen[party][place] = b"".join(orders[turned])
    changed = replace(run, seen=seen)
    assert "learner: message, where the table says release" in row_knowledge.wrong_reaches(changed, kind)


PLANTED = {
    "messages": "shuffler/internal/GET /v1/stages/0/batch#0/response/planted",
    "times": "4/status/ends/planted",
    "sizes": "shuffler/internal/GET /v1/bundle#0/response/content-length",
    "orders": "4/files/batches/*.tokens",
    "keys": "4/files/sealing/keyring.json/keys/0/planted",
    "addresses": "shuffler/public/POST /v1/reports#1/peer/planted",
    "logs": "log/9/reason",
    "metrics": "4/metrics/planted",
    "database": "4/tables/body/9/planted",
    "releases": "4/tables/outbox/0/planted",
    "beliefs": "4/tables/belief/0/planted",
    "mixed files": "4/files/0/mixed/planted",
    "later stages": "shuffler/internal/PUT /v1/stages/1/questions/0#0/request/planted",
}


def test_a_leak_with_a_random_part_is_found_on_every_surface(recorded):
    """A reward behind random bytes, spelled differently at every place: among what follows from releases, too."""
    kind, runs = recorded
    for life, some in runs.items():
        run, spelled = some[0], sorted(row_knowledge.secrets(some[0], life, kind)["rewards"])
        words = [spelled[step * len(spelled) // (len(PLANTED) + 1)] for step in range(len(PLANTED) + 1)]
        label = next(word.decode() for word in spelled if word.isascii() and word not in words)
        leaks = {place: os.urandom(9) + word for place, word in zip(PLANTED.values(), words, strict=False)}
        # In the name of a place, too, as labels of metrics are; and beside everything that is asked for.
        leaks[f"4/metrics/x{os.urandom(4).hex()}{label}"] = b"1.0"
        seen = {party: {**values, **leaks} for party, values in run.seen.items()}
        raw = {party: {"state/.left": os.urandom(9) + words[-1]} for party in run.seen}
        found = row_knowledge.canaries(replace(run, seen=seen, raw=raw), life, kind)
        for party in run.seen:
            mine = [line for line in found if line.startswith(f"{party}: rewards in ")]
            for place in (*leaks, "raw state/.left"):
                assert any(f" {place}" in line for line in mine), (party, place)


def test_a_word_behind_a_random_one_tells_two_histories_apart(recorded):
    """No spelling of the report, but the same word in all runs of one history: values are compared in parts."""
    kind, runs = recorded
    places = ("log/9/reason", "2/tables/token/9/bytes", "4/files/batches/*.batch", "3/tables/planted/0/id")
    changed = {name: [replace(run, seen={**run.seen}) for run in some] for name, some in runs.items()}
    for name, some in changed.items():
        for run in some:
            for party in run.seen:
                text = f"{os.urandom(4).hex()} answer={name}"
                binary = os.urandom(11) + name.encode() * 3 + os.urandom(3)
                more = {places[0]: text, places[1]: binary, places[2]: binary, places[3]: text.encode()}
                run.seen[party] = {**run.seen[party], **more}
    found = row_knowledge.leaks(row_knowledge.differences(changed, kind)[0], kind)
    for party in runs["zeros"][0].seen:
        for place in places:
            assert f"{party}: {place} (part)" in found, (party, place)


def test_a_record_that_changes_is_measured(mutated):
    """One planted record per surface moves the grade of its cell, so no predicate reads nothing."""
    run, kind, number = mutated[""], "mixed", row_knowledge.PEOPLE
    ids = row_knowledge.Look(run, "shuffler", kind, "zeros").ids[views.VICTIM]
    report = next(word.decode() for word in sorted(ids) if word.isascii())
    rows = {f"{step}/tables/planted/{row}/x": row for step in range(number) for row in range(step)}
    peers = {f"x/public/POST /v1/reports#{place}/peer": views.address(place) for place in range(number)}
    planted = [
        ("issuer", "messages", "sealed", {"x/GET /v1/stages/0/batch#0/response/body": b"any"}),
        ("operator", "messages", "sealed", {"4/files/0/mixed": b"any"}),
        ("device", "times", "minute", {"3/device-0/files/x": "2033-05-18T05:35Z"}),
        ("operator", "times", "moment", peers),
        ("shuffler", "sizes", "varying", {"shuffler/public/POST /v1/reports#9/request/body/bytes": 7}),
        ("issuer", "sizes", "constant", {"x/public/POST /v1/reports#9/request/body/bytes": 7}),
        ("learner", "orders", "arrival", peers),
        ("operator", "keys", "public", {"x/GET /v1/keys/shuffler#0/response/body/serial": 1}),
        ("learner", "addresses", "devices", {"4/status/x": views.address(views.VICTIM)}),
        ("learner", "logs", "records", {"log/9/x": report}),
        ("operator", "metrics", "records", {f'4/x/metrics/y{{peer="{views.address(2)}"}}': "1.0"}),
        ("learner", "database", "records", rows),
        ("network", "database", "release", {"4/tables/x/0/y": 1}),
    ]
    assert {surface for _, surface, _, _ in planted} == set(SURFACES)
    for party, surface, grade, more in planted:
        changed = replace(run, seen={**run.seen, party: {**run.seen[party], **more}})
        look = row_knowledge.Look(changed, party, kind, "zeros")
        before = row_knowledge.MEASURED[surface](replace(look, run=run))
        assert before == sight(party, surface, kind)[0] != grade
        assert row_knowledge.MEASURED[surface](look) == grade, (party, surface)


def test_a_leak_anywhere_is_found(recorded):
    """A count, a length, an order of two values, a label of a metric: planted in the records of one history."""
    kind, runs = recorded
    planted = {
        "2/metrics/planted": (3.0, 4.0),
        "log/9/reason": ("a word", "a longer word"),
        "2/status/planted": ("there", None),
    }
    changed = {name: [replace(run, seen={**run.seen}) for run in some] for name, some in runs.items()}
    for side, name in enumerate(("zeros", "ones")):
        for run in changed[name]:
            for party in run.seen:
                # Random bytes that are, in one of the histories, those of another place.
                token = os.urandom(16)
                tokens = {"2/tables/planted/0/id": token if side else os.urandom(16), "3/tables/planted/0/id": token}
                more = tokens | {place: values[side] for place, values in planted.items() if values[side] is not None}
                run.seen[party] = {**run.seen[party], **more}
    found = row_knowledge.leaks(row_knowledge.differences(changed, kind)[0], kind)
    for party in runs["zeros"][0].seen:
        for place in (*planted, "3/tables/planted/0/id"):
            assert any(line.startswith(f"{party}: {place} ") for line in found), (party, place)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_dummy_report_looks_like_any_other(kind):
    runs = row_knowledge.runs_of(kind, ("zeros", "nothing"))
    told, _ = row_knowledge.differences(runs, kind)
    assert row_knowledge.leaks(told, kind) == []
    for run in runs["nothing"]:
        assert row_knowledge.wrong(run, kind, "nothing") == []


@pytest.mark.slow
def test_an_id_that_follows_from_the_report_is_found(monkeypatch):
    """A device that names a report by its episode instead of by chance: the same bytes again, in a sealed study."""
    import hashlib

    from tacit.study import device as core

    made = Device._report

    def named(self, trajectory):
        told = b"" if trajectory is None else b"".join(np.asarray(part).tobytes() for part in vars_of(trajectory))
        monkeypatch.setattr(core.os, "urandom", lambda size: hashlib.sha256(told).digest()[:size])
        try:
            return made(self, trajectory)
        finally:
            monkeypatch.undo()
            monkeypatch.setattr(Device, "_report", named)

    def vars_of(trajectory):
        return (trajectory.states, trajectory.actions, trajectory.rewards)

    monkeypatch.setattr(Device, "_report", named)
    monkeypatch.setattr(row_shape, "LIVES", [*row_shape.LIVES[:2], *row_shape.LIVES[2:]])
    lives = [row_shape.LIVES[place] for place in (2, 3, 4, 5)]
    design = row_shape.design("shuffle", row_knowledge.PEOPLE)
    runs = {"zeros": [], "ones": []}
    for name in ("zeros", "ones") * 2:
        lived = [*lives]
        lived[views.VICTIM] = row_knowledge.NEIGHBOURS[name]
        runs[name].append(views.lives(design, lived))
    found = row_knowledge.leaks(row_knowledge.differences(runs, "sealed")[0], "sealed")
    assert any("tables/report/1/id (value)" in line for line in found), found


# combinations


@pytest.mark.parametrize("trust", TRUSTS)
@pytest.mark.parametrize("sealing", SEALINGS)
def test_a_combination_is_served_or_refused_in_words(trust, sealing):
    """Seals are for shuffle trust, and services of shuffle trust have them; a plain one is for files in one hand."""
    served = (trust, sealing) in [KINDS[kind] for kind in SERVED]
    if (trust, sealing) not in KINDS.values():
        with pytest.raises(NotSupported, match="under shuffle trust only"):
            kind_of(trust, sealing)
    design = row_shape.design(trust, row_knowledge.PEOPLE)
    options = {"shuffler": {"sealed": sealing != "plain", "mixed": sealing == "mixed"}}
    options["learner"] = {"sealed": sealing != "plain"}
    with fast_directory() as folder:
        made = Parties.new(folder / "w", design, mixed=sealing == "mixed" and trust == "shuffle", options=options)
        made.addresses = {
            party: {"public": "http://127.0.0.1:1", "internal": "http://127.0.0.1:1"} for party in PARTIES
        }
        for party, begin in (("shuffler", collector_of), ("learner", open_study)):
            config = made.home(party) / "config.toml"
            config.write_text(_toml(Loopback._config(made, party)), encoding="utf-8")
            if served:
                begin(read_party(config, party))
            else:
                with pytest.raises((InvalidInput, NotSupported), match="sealed"):
                    begin(read_party(config, party))


# what a coalition that lies reaches


def test_made_up_people_leave_the_report_of_one():
    """An issuer (or anybody where all may report) subtracts what it made up: the report of one is left."""
    channel = row_shape.design("shuffle", row_knowledge.PEOPLE).parts().channels[0]
    noise = SimulationNoise(np.random.default_rng(3))
    victim, *made_up = (channel.encode(None, noise) for _ in range(channel.least))
    _, payload = channel.release(channel.begin_secret(), [victim, *made_up], channel.query, noise)
    counters = channel.spec.num_counters
    sums = np.frombuffer(payload, dtype="<i8")[:counters]
    known = np.frombuffer(b"".join(made_up), dtype=channel.labels)
    own = np.bincount(np.frombuffer(victim, dtype=channel.labels), minlength=counters + 1)[:counters]
    assert (sums - np.bincount(known, minlength=counters + 1)[:counters] == own).all()
    liars = (("issuer", ["issuer"]), ("issuer", ["shuffler"]), ("known", ["shuffler"]), ("open", ["network"]))
    for people, coalition in liars:
        for sealing in ("sealed", "mixed"):
            assert reach(coalition, kind_of("shuffle", sealing), people=people) == "message"
            alone = remaining(coalition, channel, sealing=sealing, people=people)
            assert alone > remaining(["learner"], channel, sealing=sealing) == pytest.approx(8.0, rel=1e-5)


@pytest.mark.statistical
def test_trials_prove_no_more_than_the_table_says_remains():
    """2,000 trials, false alarms 1e-6: bounds up to 4.3 can be proved; messages with less noise are found."""
    trials = row_knowledge.SCALES["ci"]["trials"]
    for name, lower, left in row_knowledge.attacks(trials):
        assert 0.0 < lower <= left, name
    for name, lower, left in row_knowledge.planted(trials):
        assert lower > left, name


# the table itself


def test_every_cell_has_a_grade_and_words():
    for kind in KINDS:
        for party in PARTIES:
            for surface in SURFACES:
                assert all(sight(party, surface, kind)), (party, surface, kind)


def test_a_result_of_another_version_says_that_it_is_stale():
    """A number that was measured with other code is no promise; `python -m chaos --stale` marks them."""
    from chaos.__main__ import RESULTS, unmarked

    assert len(list(RESULTS.glob("*.json"))) >= 12
    for path in RESULTS.glob("*.json"):
        assert {"version", "commit", "rows"} <= set(json.loads(path.read_bytes())), path.name
    assert [path.name for path in unmarked()] == []


def test_more_parties_never_know_less():
    order = ("release", "rest", "message", "data")
    for kind in KINDS:
        for people in ("issuer", "known", "open"):
            for coalition in row_knowledge.coalitions():
                mine = order.index(reach(coalition, kind, people=people))
                assert mine >= order.index(reach(coalition, kind, people=people, active=False))
                for party in PARTIES:
                    assert order.index(reach({*coalition, party}, kind, people=people)) >= mine


def test_the_smallest_coalitions():
    assert breaches("central") == (("shuffler",),)
    assert breaches("local", people="open") == ()
    assert breaches("sealed", active=False) == (("learner", "shuffler"),)
    assert breaches("mixed", active=False) == (("learner", "shuffler", "mixer"),)
    assert breaches("sealed") == breaches("mixed") == (("shuffler",), ("issuer",))  # reports replaced, people made up
    assert breaches("mixed", people="known") == (("shuffler",),)
    assert breaches("mixed", people="open") == tuple((party,) for party in PARTIES)


def test_the_page_is_as_generated():
    made = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "operations" / "threats.py"))
    assert made["PAGE"].read_text(encoding="utf-8") == made["page"](), "run python -m docs.operations.threats"
    assert all((made["FOLDER"] / file).read_text(encoding="utf-8") == text for file, text in made["tables"]().items())
