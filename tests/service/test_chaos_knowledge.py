"""What parties can know: the table against real processes, every coalition, and attacks by trials."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chaos import row_knowledge, row_shape, views
from chaos.parties import Parties, fast_directory

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
FASTER = ("sealed",)
"""With every change; the others before a merge, since their processes are the same ones."""


@pytest.fixture(
    scope="module",
    params=[pytest.param((kind, "sqlite"), marks=() if kind in FASTER else pytest.mark.slow) for kind in SERVED]
    + [pytest.param((kind, "postgresql"), marks=pytest.mark.slow) for kind in SERVED],
    ids="-".join,
)
def recorded(request):
    """Two runs of each of two neighbouring histories."""
    kind, database = request.param
    with row_knowledge.databases(database) as url:
        yield kind, row_knowledge.runs_of(kind, url=url)


def test_neighbouring_histories_look_the_same_to_everybody(recorded):
    """But for what the table calls data: the reports that a curator reads, and there the harness must find them."""
    kind, runs = recorded
    told, steady = row_knowledge.differences(runs, kind)
    assert row_knowledge.leaks(told, kind) == []
    assert bool(told) == (kind == "central")
    assert steady > 3_000
    parties = {party for party in PARTIES if party not in ("issuer", "mixer")}
    parties |= {"issuer"} if kind in ("sealed", "mixed") else set()
    assert set(runs["zeros"][0].seen) == parties | ({"mixer"} if kind == "mixed" else set())


def test_every_coalition_opens_what_the_table_says(recorded):
    kind, runs = recorded
    assert len(list(row_knowledge.coalitions())) == 127
    assert row_knowledge.wrong_reaches(runs["zeros"], kind) == []


def test_addresses_moments_keys_lengths_and_ids_are_where_the_table_says(recorded):
    kind, runs = recorded
    for run in (*runs["zeros"], *runs["ones"]):
        assert row_knowledge.wrong_grades(run, kind) == []


def test_a_leak_anywhere_is_found(recorded):
    """A count, a length, an order of two values, a label of a metric: planted in the records of one history."""
    kind, runs = recorded
    for party in runs["zeros"][0].seen:
        for place, one, other in (
            ("2/metrics/planted", 3.0, 4.0),
            ("log/9/reason", "a word", "a longer word"),
            ("3/tables/planted/0/id", None, None),
            ("2/status/planted", "there", None),
        ):
            changed = {name: [replace(run, seen={**run.seen}) for run in some] for name, some in runs.items()}
            for name, value in (("zeros", one), ("ones", other)):
                for number, run in enumerate(changed[name]):
                    # The last one: random bytes that are, in one of the histories, those of another place.
                    token = bytes([number] * 16)
                    again = {"2/tables/planted/0/id": token if name == "ones" else token[::-1] + b"-"}
                    more = again | {place: token} if one is None and "id" in place else {place: value}
                    run.seen[party] = {**run.seen[party], **{k: v for k, v in more.items() if v is not None}}
            found = row_knowledge.leaks(row_knowledge.differences(changed, kind)[0], kind)
            assert any(line.startswith(f"{party}: {place} ") for line in found), (party, place)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SERVED)
def test_a_dummy_report_looks_like_any_other(kind):
    runs = row_knowledge.runs_of(kind, ("zeros", "nothing"))
    told, _ = row_knowledge.differences(runs, kind)
    assert row_knowledge.leaks(told, kind) == []


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
    for people, coalition in (
        ("issuer", ["issuer"]),
        ("issuer", ["shuffler"]),
        ("open", ["network"]),
        ("known", ["shuffler"]),
    ):
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
    assert breaches("sealed") == (("shuffler",), ("issuer",))
    assert breaches("mixed") == (("shuffler",), ("issuer",))
    assert breaches("mixed", people="known") == (("shuffler",),)
    assert breaches("mixed", people="open") == tuple((party,) for party in PARTIES)


def test_the_page_is_as_generated():
    made = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "operations" / "threats.py"))
    assert made["PAGE"].read_text(encoding="utf-8") == made["page"](), "run python docs/operations/threats.py"
