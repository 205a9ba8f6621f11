"""Sealed studies: constant shape, the same policies as unsealed ones, crashes in a release, what batches hold."""

from __future__ import annotations

import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import sealed_world as world
from scipy.stats import binomtest
from study_world import fast_directory

from tacit.data.trajectories import Trajectory
from tacit.errors import InvalidInput, NotSupported
from tacit.randomness import SecureNoise
from tacit.service.batches.decryption import open_batch
from tacit.service.database import close_all
from tacit.service.encryption.envelope import seal_body
from tacit.service.encryption.hpke import SecretKey
from tacit.study.bundle import Bundle
from tacit.study.collector import Collector
from tacit.study.record import replayed
from tacit.study.sealed_batches import Manifest, body_size, check_sealed, message_size
from tacit.study.study import Study
from tacit.study.wire import ReleasePayload, Report, sha256
from tacit.support import Support

LEARNER, MIXER = SecretKey.new(), SecretKey.new()


@pytest.fixture
def place():
    with fast_directory() as folder:
        yield Path(folder)


def parties(place, *, sealed, design=None, edge=lambda name: None):
    chosen = world.design() if design is None else design
    study = Study.new(place / "study", chosen, seed=3, sealed=sealed, edge=edge)
    collector = Collector.new(place / "collector", chosen, noise="simulation", seed=4, sealed=sealed, edge=edge)
    return study, collector


def planned(study):
    """The bundle of the next stage, with the learner's key where the study is sealed."""
    return study.plan(world.documents(LEARNER, of=study.design) if study.layers else None)


def one_stage(study, collector, seed=0):
    """Everybody reports, the stage is closed and released; (bundle, release, unsealed reports)."""
    bundle = planned(study)
    collector.open(bundle)
    plain = world.answers(bundle, seed)
    channel = collector.channels[0]
    sent = [world.sealed_report(one, LEARNER, channel=channel) for one in plain] if collector.layers else plain
    found = collector.add_many((one, f"person {seed}.{i}") for i, one in enumerate(sent))
    assert set(found) == {"counted"}
    collector.close()
    return bundle, collector.release(study.head), plain


def opened_of(collector, release):
    made = ReleasePayload.parse(release)
    channel = collector.channels[0]
    return open_batch(
        collector.batch_file(made.stage),
        Manifest.parse(made.payload),
        channel,
        keys={LEARNER.id: LEARNER},
        study=made.study,
        stage=made.stage,
    )


# shape


def test_bodies_have_one_length_whatever_a_person_did():
    channel, huge = world.channel(), np.iinfo(np.int64)
    lives = [
        None,
        Trajectory(np.zeros(3, dtype=int), np.zeros(2, dtype=int), np.zeros(2)),
        Trajectory(np.ones(3, dtype=int), np.ones(2, dtype=int), np.ones(2)),
        Trajectory(np.full(3, huge.max), np.full(2, huge.min), np.full(2, np.nan)),
        Trajectory(np.array([0, 1, 0]), np.array([1, 0]), np.array([np.inf, -np.inf])),
    ]
    for layers, mixer in ((1, None), (2, MIXER.public)):
        lengths = set()
        for life in lives * 3:
            body = channel.encode(life, SecureNoise())
            sealed = seal_body(channel, body, study=bytes(32), stage=1, learner=LEARNER.public, mixer=mixer)
            check_sealed(channel, sealed, layers)
            lengths.add(len(sealed))
        assert lengths == {body_size(channel, layers)} == {channel.transport.report_size * (2 + 48 * layers)}


def test_an_overflowing_block_adds_whole_blocks_and_no_other_length_passes():
    channel = world.channel()
    transport, size = channel.transport, message_size(world.channel(), 1)
    assert 0.0 < float(channel.overflow) <= 1e-3
    each = transport.noise_bits // transport.num_counters
    # All noise bits set: more ones than a block holds, as happens with the certified probability.
    full = np.sort(np.repeat(np.arange(transport.num_counters), each)).astype(channel.labels)
    blocks = -(-len(full) // transport.block)
    assert blocks > 1
    dummies = np.full(transport.slots + blocks * transport.block - len(full), transport.dummy, dtype=channel.labels)
    body = np.concatenate([full, dummies]).tobytes()
    sealed = seal_body(channel, body, study=bytes(32), stage=1, learner=LEARNER.public)
    assert len(sealed) == body_size(channel, 1) + (blocks - 1) * transport.block * size
    check_sealed(channel, sealed, 1)
    block = transport.block * size
    for wrong in (b"", sealed[:-1], sealed[:-size], sealed + bytes(size), sealed + bytes(block), sealed[:block]):
        with pytest.raises(InvalidInput, match="whole blocks more"):
            check_sealed(channel, wrong, 1)
    with pytest.raises(InvalidInput):
        check_sealed(channel, sealed, 2)


def test_only_what_a_channel_made_is_sealed():
    with pytest.raises(InvalidInput):
        seal_body(world.channel(), b"12", study=bytes(32), stage=1, learner=LEARNER.public)
    central = world.design(trust="central", learner="sdp-pe-plus", stages=1)
    with pytest.raises(NotSupported, match="outer envelope"):
        seal_body(central.parts().channels[0], b"", study=bytes(32), stage=1, learner=LEARNER.public)


@pytest.mark.parametrize("kind", [Study, Collector])
def test_only_sums_of_labels_can_be_sealed(kind, place):
    central = world.design(trust="central", learner="sdp-pe-plus", stages=1)
    with pytest.raises(NotSupported, match="outer envelope"):
        kind.new(place / "party", central, sealed=True)
    for layers in (-1, 3, 0.5, "yes"):
        with pytest.raises(InvalidInput):
            kind.new(place / "party", world.design(), sealed=layers)
    assert not (place / "party").exists() or not [*(place / "party").glob("*.db")]


# a whole study


LINE = Support(moves=[[[1, 1], [0, 1]], [[1, 1], [0, 1]]], horizon=2, starts=[1, 0], rewards=[[1, 0], [0, 1]])
DECLARED = {"learner": "bucb", "epsilon": 4.0, "support": LINE, "sees": (1, 0)}
"""People of these tests do anything, so this support is false: what cannot be is counted by nobody.

With less noise than at epsilon 4 the check of flows would see that, and quarantine the release.
"""


@pytest.mark.parametrize("more", [{}, DECLARED], ids=["plain", "declared"])
def test_a_sealed_study_equals_the_unsealed_one_bit_for_bit(place, more):
    bundles, design = {}, world.design(**more)
    for sealed in (False, True):
        (place / str(sealed)).mkdir()
        study, collector = parties(place / str(sealed), sealed=sealed, design=design)
        bundles[sealed] = []
        for stage in range(3):
            bundle, release, plain = one_stage(study, collector, seed=stage)
            bundles[sealed].append(
                {k: v for k, v in Bundle.parse(bundle).content.items() if k not in ("head", "previous", "keys")}
            )
            opened = None
            if sealed:
                found = opened_of(collector, release)
                opened = found.histogram
                assert found.foreign == 0
                assert opened == world.histogram([Report.parse(one).body for one in plain], collector.channels[0])
                with pytest.raises(InvalidInput, match="what its batch holds"):
                    study.take(release)
            assert study.take(release, opened=opened) == "taken"
            assert study.take(release, opened=opened) == "again"
            assert study.take(release) == "again"
        bundles[sealed].append(Bundle.parse(planned(study))["policies"])
        assert replayed(study) > 6
        collector.verify(study.head)
        assert Collector(place / str(sealed) / "collector").layers == int(sealed)
    assert bundles[True] == bundles[False]


def test_what_was_opened_must_fit_the_manifest(place):
    study, collector = parties(place, sealed=True)
    _, release, _ = one_stage(study, collector)
    right = opened_of(collector, release).histogram
    sums = np.frombuffer(right, dtype="<i8").copy()
    sums[0] += 10_000
    for wrong in (b"", right[:-8], right + bytes(8), sums.tobytes(), (-sums).tobytes()):
        with pytest.raises(InvalidInput):
            study.take(release, opened=wrong)
    assert study.take(release, opened=right) == "taken"
    other = np.frombuffer(right, dtype="<i8")[::-1].tobytes()
    assert other != right
    with pytest.raises(InvalidInput, match="one histogram"):
        study.take(release, opened=other)
    assert study.take(release, opened=right) == "again"
    plain = Collector.new(place / "plain", world.design(), noise="simulation", seed=1)
    with pytest.raises(InvalidInput, match="only sealed stages"):
        plain.batch_file(0)


def test_a_plain_study_takes_nothing_opened_and_no_manifest(place):
    study, collector = parties(place, sealed=False)
    _, release, _ = one_stage(study, collector)
    with pytest.raises(InvalidInput, match="not sealed"):
        study.take(release, opened=bytes(8))
    (place / "two").mkdir()
    sealed_study, sealed_collector = parties(place / "two", sealed=True)
    _, manifest, _ = one_stage(sealed_study, sealed_collector)
    with pytest.raises(InvalidInput):
        study.take(manifest)
    with pytest.raises(InvalidInput, match="TCM1"):
        sealed_study.take(release, opened=bytes(8))


def test_a_sealed_collector_counts_lengths_and_rows_of_another_stage_do_not_open(place):
    study, collector = parties(place, sealed=True)
    bundle = planned(study)
    collector.open(bundle)
    plain = world.answers(bundle, 0)
    assert collector.add(plain[0], "a") == "bad body"
    assert collector.add(world.sealed_report(plain[0], LEARNER, MIXER), "a") == "bad body"
    first = Report.parse(plain[0])
    # A body sealed for stage 1, moved into a report of stage 0: its length is right, and nothing of it opens.
    moved = seal_body(world.channel(), first.body, study=first.study, stage=1, learner=LEARNER.public)
    forged = Report(study=first.study, stage=0, id=first.id, body=moved).encode()
    assert collector.add(forged, "a") == "counted"
    for i, one in enumerate(plain[1:]):
        assert collector.add(world.sealed_report(one, LEARNER), f"b{i}") == "counted"
    collector.close()
    release = collector.release(study.head)
    found = opened_of(collector, release)
    assert found.foreign == world.channel().transport.report_size
    assert found.histogram == world.histogram([Report.parse(one).body for one in plain[1:]])
    assert study.take(release, opened=found.histogram) in ("taken", "quarantined")


def test_a_batch_holds_nothing_but_messages(place):
    study, collector = parties(place, sealed=True)
    bundle = planned(study)
    collector.open(bundle)
    plain = world.answers(bundle, 0)
    sent = [world.sealed_report(one, LEARNER) for one in plain]
    tokens = [os.urandom(296) for _ in sent]
    names = [f"canary-{i}-203.0.113.7" for i in range(len(sent))]
    assert set(collector.add_many(zip(sent, names, tokens, strict=True))) == {"counted"}
    collector.close()
    release = ReleasePayload.parse(collector.release(study.head))
    data = collector.batch_file(0).read_bytes()
    reports = [Report.parse(one) for one in sent]
    pseudonyms = [collector.pseudonyms.of(name) for name in names]
    for canary in (*tokens, *(one.id for one in reports), *pseudonyms, *(name.encode() for name in names)):
        assert canary not in data
        assert canary not in release.payload
        assert canary[:16] not in data
    # All messages are there, not in the order in which they came.
    size = message_size(world.channel(), 1)
    whole = b"".join(one.body for one in reports)
    came = [whole[at : at + size] for at in range(0, len(whole), size)]
    went = [data[at : at + size] for at in range(0, len(data), size)]
    assert sorted(came) == sorted(went)
    assert came != went
    # Neighbours of a body are not neighbours of the batch: about count^2/n^2 pairs by chance, far from all of them.
    after = dict(itertools.pairwise(went))
    assert sum(after.get(one) == following for one, following in itertools.pairwise(came)) < 20
    assert collector.tokens_file(0).read_bytes() == b"".join(sorted(tokens))
    assert Manifest.parse(release.payload).tokens == sha256(b"".join(sorted(tokens)))
    with collector.store.reading() as connection:
        assert (
            connection.execute("SELECT (SELECT count(*) FROM body) + (SELECT count(*) FROM token)").fetchone()[0] == 0
        )


def test_some_tokens_are_refused(place):
    study, collector = parties(place, sealed=True)
    bundle = planned(study)
    collector.open(bundle)
    sent = [world.sealed_report(one, LEARNER) for one in world.answers(bundle, 0)]
    rows = [(one, f"p{i}", b"token") if i else (one, "p") for i, one in enumerate(sent)]
    assert set(collector.add_many(rows)) == {"counted"}
    collector.close()
    with pytest.raises(InvalidInput, match="every report of a stage has a token or none"):
        collector.release(study.head)


# files and crashes


def test_files_are_kept_until_the_learner_has_taken_the_release(place):
    study, collector = parties(place, sealed=True)
    with pytest.raises(InvalidInput, match="must be released"):
        collector.batch_file(0)
    _, release, _ = one_stage(study, collector)
    path = collector.batch_file(0)
    assert path.stat().st_mode & 0o077 == 0
    (path.parent / "orphan.batch").write_bytes(b"x")
    again = Collector(place / "collector")
    assert {one.suffix for one in path.parent.iterdir()} == {".batch", ".tokens"}
    assert again.batch_file(0) == path
    assert again.release(study.head) == release
    study.take(release, opened=opened_of(again, release).histogram)
    again.open(planned(study))
    assert [*path.parent.iterdir()] == []
    with pytest.raises(InvalidInput, match="kept until"):
        again.batch_file(0)
    # The last stage has none after it: the learner says what it has seen.
    for one in world.answers(planned(study), 1):
        again.add(world.sealed_report(one, LEARNER), Report.parse(one).id.hex())
    again.close()
    last = again.release(study.head)
    study.take(last, opened=opened_of(again, last).histogram)
    again.seen(study.head)
    assert [*path.parent.iterdir()] == []


class Stopped(BaseException):
    pass


def edges_of_release():
    """The names of all edges of a sealed release, in order."""
    names = []
    with fast_directory() as folder:
        study, collector = parties(Path(folder), sealed=True, design=world.design())
        collector.store.edge = names.append
        one_stage(study, collector)
    return [name for name in names if name.startswith("release")]


EDGES = edges_of_release()


def test_the_edges_of_a_sealed_release_are_known():
    assert EDGES.index("release:batch written") < EDGES.index("release:batch named") < EDGES.index("release:stored")
    assert EDGES.index("release:stored") < EDGES.index("release:before commit") < EDGES.index("release:after commit")


def stopped_by_error(place, head, stop):
    """An error at this edge of a release: the transaction is rolled back."""
    collector = Collector(place / "collector")
    collector.store.edge = edge_number(stop, Stopped)
    with pytest.raises(Stopped):
        collector.release(head)


def stopped_dead(place, head, stop):
    """A process that ends at this edge of a release, without a word."""
    child = os.fork()
    if child == 0:
        try:
            collector = Collector(place / "collector")
            collector.store.edge = edge_number(stop, lambda: os._exit(7))
            collector.release(head)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def edge_number(stop, end):
    passed = itertools.count()

    def edge(name):
        if next(passed) == stop:
            found = end()
            if found is not None:
                raise found

    return edge


@pytest.mark.parametrize("crash", [stopped_by_error, stopped_dead])
@pytest.mark.parametrize("stop", range(len(EDGES)), ids=EDGES)
def test_a_crash_in_a_release_leaves_one_view_and_serves_no_orphan(stop, crash, place):
    study, collector = parties(place, sealed=True)
    bundle = planned(study)
    collector.open(bundle)
    for i, one in enumerate(world.answers(bundle, 0)):
        collector.add(world.sealed_report(one, LEARNER), f"person {i}")
    collector.close()
    crash(place, study.head, stop)
    after = Collector(place / "collector")
    committed = bool(after.stored())
    assert committed == (stop >= EDGES.index("release:after commit"))
    if not committed:
        # What the stopped process wrote is gone, and was never served.
        assert [*after.batches.folder.glob("*")] == []
        with pytest.raises(InvalidInput, match="must be released"):
            after.batch_file(0)
    release = after.release(study.head)
    assert after.release(study.head) == release
    manifest = Manifest.parse(ReleasePayload.parse(release).payload)
    assert sha256(after.batch_file(0).read_bytes()) == manifest.digest
    assert len([*after.batches.folder.glob("*.batch")]) == 1
    assert study.take(release, opened=opened_of(after, release).histogram) == "taken"
    after.verify(study.head)


def test_a_stage_given_up_leaves_no_file(place):
    study, collector = parties(place, sealed=True)
    bundle = planned(study)
    collector.open(bundle)
    collector.add(world.sealed_report(world.answers(bundle, 0)[0], LEARNER), "a")
    collector.close()
    with pytest.raises(InvalidInput, match="at least"):
        collector.release(study.head)
    collector.void()
    assert not collector.batches.folder.exists()


def test_many_who_ask_at_once_get_one_view_and_one_file(place):
    study, collector = parties(place, sealed=True)
    bundle = planned(study)
    collector.open(bundle)
    for i, one in enumerate(world.answers(bundle, 0)):
        collector.add(world.sealed_report(one, LEARNER), f"person {i}")
    collector.close()
    head = study.head

    def ask(_):
        # Whoever starts meanwhile sweeps: nothing that is being made may be lost.
        return Collector(place / "collector").release(head)

    with ThreadPoolExecutor(6) as pool:
        found = set(pool.map(ask, range(12)))
    assert len(found) == 1
    manifest = Manifest.parse(ReleasePayload.parse(found.pop()).payload)
    assert sha256(collector.batch_file(0).read_bytes()) == manifest.digest
    assert len([*collector.batches.folder.iterdir()]) == 2


def test_a_sealed_stage_on_postgresql(place, postgres):
    try:
        databases = {name: postgres.new(name) for name in ("study", "collector")}
        design = world.design()
        study = Study.new(place / "study", design, seed=3, sealed=True, database=databases["study"])
        collector = Collector.new(place / "collector", design, sealed=True, database=databases["collector"])
        bundle = planned(study)
        collector.open(bundle)
        plain = world.answers(bundle, 0)
        tokens = [bytes([255 - i]) * 40 for i in range(len(plain))]
        sent = [(world.sealed_report(one, LEARNER), f"person {i}", tokens[i]) for i, one in enumerate(plain)]
        assert set(collector.add_many(sent)) == {"counted"}
        collector.close()
        release = collector.release(study.head)
        again = Collector(place / "collector", database=databases["collector"])
        assert again.release(study.head) == release
        assert again.tokens_file(0).read_bytes() == b"".join(sorted(tokens))
        opened = opened_of(again, release).histogram
        assert opened == world.histogram([Report.parse(one).body for one in plain])
        assert study.take(release, opened=opened) == "taken"
        assert study.take(release, opened=opened) == "again"
        with pytest.raises(InvalidInput, match="one histogram"):
            study.take(release, opened=bytes(len(opened)))
        again.open(planned(study))
        assert [*again.batches.folder.iterdir()] == []
        assert replayed(study) > 2
    finally:
        close_all()


class _Seen:
    """A key that seals nothing, so that the order of labels is seen."""

    id = b"8 bytes!"

    def sealer(self, info: bytes):
        return lambda label: label


def test_labels_leave_a_device_in_a_fresh_uniform_order():
    """False-alarm rate 1e-6: a label stands first, and last, as often as there are such labels; none is lost."""
    channel = world.channel()
    width = channel.labels.itemsize
    body = world.bodies(1)[0]
    labels = sorted(body[start : start + width] for start in range(0, len(body), width))
    watched, draws, ends = labels[0], 2000, {0: 0, -1: 0}
    share = labels.count(watched) / len(labels)
    assert share < 0.9
    for _ in range(draws):
        sealed = seal_body(channel, b"".join(labels), study=b"s" * 32, stage=0, learner=_Seen())
        found = [sealed[start : start + width] for start in range(0, len(sealed), width)]
        assert sorted(found) == labels
        for end in ends:
            ends[end] += found[end] == watched
    for count in ends.values():
        assert binomtest(count, draws, share).pvalue > 1e-6 / 2
