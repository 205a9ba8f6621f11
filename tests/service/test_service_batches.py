"""Sealed batches: uniform order, the same histogram on every engine, bounded memory, copies and forgeries refused."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sealed_world as world
from scipy import stats
from study_world import fast_directory

from tacit.errors import InvalidInput, NotSupported, UnknownName
from tacit.service.batches.decryption import Copies, engine, mix_batch, open_batch
from tacit.service.encryption.envelope import seal_body
from tacit.service.encryption.hpke import SecretKey
from tacit.study import external_shuffle as permuting
from tacit.study.external_shuffle import permuted, write_permuted
from tacit.study.sealed_batches import Manifest, message_size
from tacit.study.wire import sha256

FALSE_ALARM = 1e-6
STUDY, STAGE = bytes(range(32)), 5
PEOPLE = 6


@pytest.fixture(scope="module")
def keys():
    return {name: SecretKey.new() for name in ("learner", "mixer")}


@pytest.fixture
def fast():
    """A directory in memory where there is one: these tests write thousands of files."""
    with fast_directory() as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def bodies():
    return world.bodies(PEOPLE)


def sealed_batch(path, some, keys, *, layers=1, stage=STAGE, study=STUDY):
    """A file of sealed messages and its manifest."""
    mixer = keys["mixer"].public if layers == 2 else None
    parts = [
        seal_body(world.channel(), body, study=study, stage=stage, learner=keys["learner"].public, mixer=mixer)
        for body in some
    ]
    size = message_size(world.channel(), layers)
    written = write_permuted(parts, path, size=size, total=sum(map(len, parts)))
    return Manifest(digest=written.digest, count=written.count, size=size, tokens=sha256(b""))


def opened(path, manifest, keys, **more):
    found = {"study": STUDY, "stage": STAGE, **more}
    return open_batch(path, manifest, world.channel(), keys={key.id: key for key in keys.values()}, **found)


def of_bytes(path, data, size):
    path.write_bytes(data)
    return Manifest(digest=sha256(data), count=len(data) // size, size=size, tokens=sha256(b""))


# the order


def orders(number, rounds, make):
    items = bytes(range(number))
    return Counter(make(items) for _ in range(rounds))


def uniform(counts, outcomes):
    """p-value of a chi-square test that all outcomes are equally likely."""
    found = np.zeros(outcomes)
    found[: len(counts)] = list(counts.values())
    return stats.chisquare(found).pvalue


@pytest.mark.statistical
@pytest.mark.parametrize("path_in", ["memory", "buckets"])
def test_every_order_of_a_few_messages_is_equally_likely(path_in, fast):
    # Both are tested once, at a false-alarm rate of 1e-6 each; 4 messages have 24 orders.
    fresh = itertools.count()

    def on_disk(items):
        path = fast / str(next(fresh))
        write_permuted([items], path, size=1, total=len(items), memory=8)  # two messages fit, four do not
        data = path.read_bytes()
        path.unlink()
        return data

    rounds = 24 * 40 if path_in == "buckets" else 24 * 400
    counts = orders(4, rounds, on_disk if path_in == "buckets" else lambda items: permuted(items, 1))
    assert set(counts) <= {bytes(order) for order in itertools.permutations(range(4))}
    assert uniform(counts, 24) > FALSE_ALARM


@pytest.mark.statistical
def test_the_test_of_uniformity_finds_a_scatter_without_orders():
    # What buckets alone would give: the order of arrival stays within a bucket.
    rng = np.random.default_rng(1)
    counts = orders(
        4,
        24 * 40,
        lambda items: bytes(np.array(list(items))[np.argsort(rng.integers(0, 2, 4), kind="stable")].tolist()),
    )
    assert uniform(counts, 24) < FALSE_ALARM


@pytest.mark.statistical
def test_every_place_is_equally_likely_when_buckets_are_scattered_again(fast):
    # 64 messages, memory for 2: buckets of about 1, many of them scattered again.
    number, rounds = 64, 40
    places = np.zeros((number, 8))
    for turn in range(rounds):
        path = fast / str(turn)
        write_permuted([bytes([one]) for one in range(number)], path, size=1, total=number, memory=8)
        order = np.frombuffer(path.read_bytes(), dtype=np.uint8)
        assert sorted(order.tolist()) == list(range(number))
        places[order, np.arange(number) // 8] += 1
    # Eighths of the file against first and last halves of the arrivals: 2 x 8 table of counts.
    table = places.reshape(2, number // 2, 8).sum(axis=1)
    assert stats.chisquare(table.ravel()).pvalue > FALSE_ALARM


def test_a_permutation_is_whole_and_leaves_nothing_behind(tmp_path):
    data = os.urandom(50 * 3001)
    pieces = [data[start : start + 50 * 7] for start in range(0, len(data), 50 * 7)]
    path = tmp_path / "batch"
    written = write_permuted(pieces, path, size=50, total=len(data), memory=20_000)
    found = path.read_bytes()
    assert (written.count, written.digest) == (3001, sha256(found))
    rows = [sorted(one[start : start + 50] for start in range(0, len(data), 50)) for one in (data, found)]
    assert rows[0] == rows[1]
    assert found != data
    assert [*tmp_path.iterdir()] == [path]
    assert path.stat().st_mode & 0o077 == 0
    for wrong, options in (([b"123"], {}), ([bytes(100)], {"total": 50}), ([], {"memory": 10})):
        with pytest.raises(InvalidInput):
            write_permuted(wrong, tmp_path / "wrong", **{"size": 50, "total": 1000, **options})
        (tmp_path / "wrong").unlink(missing_ok=True)
    with pytest.raises(InvalidInput, match="cannot write"):
        write_permuted([], path, size=50, total=0)


def test_a_permutation_that_fails_leaves_no_buckets(tmp_path):
    def failing():
        yield bytes(5000)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_permuted(failing(), tmp_path / "batch", size=50, total=100_000, memory=10_000)
    assert {path.name for path in tmp_path.iterdir()} <= {"batch"}


# opening and counting


def test_a_batch_opens_to_the_histogram_of_the_unsealed_bodies(tmp_path, keys, bodies):
    manifest = sealed_batch(tmp_path / "batch", bodies, keys)
    found = opened(tmp_path / "batch", manifest, keys)
    assert found.histogram == world.histogram(bodies)
    labels = int(np.frombuffer(found.histogram, "<i8").sum())
    assert (found.dummies, found.foreign) == (manifest.count - labels, 0)
    assert [*tmp_path.iterdir()] == [tmp_path / "batch"]


@pytest.mark.parametrize("name", ["processes", pytest.param("ray", marks=pytest.mark.slow)])
def test_every_engine_finds_the_same(name, tmp_path, keys, bodies):
    manifest = sealed_batch(tmp_path / "batch", bodies, keys)
    alone = opened(tmp_path / "batch", manifest, keys, chunk=50 * 40)
    with engine(name, workers=2) as chosen:
        assert opened(tmp_path / "batch", manifest, keys, with_engine=chosen, chunk=50 * 40) == alone
        double = sealed_batch(tmp_path / "double", bodies, keys, layers=2)
        mixed = mix_batch(
            tmp_path / "double",
            double,
            world.channel(),
            tmp_path / "mixed",
            keys={keys["mixer"].id: keys["mixer"]},
            study=STUDY,
            stage=STAGE,
            with_engine=chosen,
            chunk=98 * 40,
        )
        after = Manifest(digest=mixed.written.digest, count=mixed.written.count, size=mixed.size, tokens=sha256(b""))
        assert opened(tmp_path / "mixed", after, keys, with_engine=chosen).histogram == alone.histogram


def test_unknown_engines_are_refused():
    with pytest.raises(UnknownName):
        engine("threads")
    with pytest.raises(InvalidInput):
        engine("processes", workers=0)


def test_messages_of_another_stage_study_or_key_are_foreign(tmp_path, keys, bodies):
    others = {"learner": SecretKey.new(), "mixer": keys["mixer"]}
    right = [seal(body, keys) for body in bodies[:1]]
    wrong = [
        seal(bodies[1], keys, stage=STAGE + 1),
        seal(bodies[2], keys, study=bytes(32)),
        seal(bodies[3], others),
        # Right key and stage, but no label: too large a number, and of another length.
        *(keys["learner"].public.seal(b"", plain) for plain in (b"\xff\xff",)),
        keys["learner"].public.seal(inner(keys), b"\xff\xff"),
    ]
    data = b"".join([*right, *wrong])
    manifest = of_bytes(tmp_path / "batch", data, 50)
    found = opened(tmp_path / "batch", manifest, keys)
    assert found.histogram == world.histogram(bodies[:1])
    assert found.foreign == manifest.count - len(right[0]) // 50


def seal(body, keys, *, stage=STAGE, study=STUDY):
    return seal_body(world.channel(), body, study=study, stage=stage, learner=keys["learner"].public)


def inner(keys):
    from tacit.service.encryption.hpke import inner_info

    return inner_info(STUDY, STAGE, keys["learner"].id)


def test_old_and_new_keys_open_one_batch(tmp_path, keys, bodies):
    new = SecretKey.new()
    data = seal(bodies[0], keys) + seal(bodies[1], {"learner": new})
    manifest = of_bytes(tmp_path / "batch", data, 50)
    both = {key.id: key for key in (new, keys["learner"])}
    assert opened(tmp_path / "batch", manifest, both).histogram == world.histogram(bodies[:2])
    with pytest.raises(InvalidInput, match="a key to open with"):
        opened(tmp_path / "batch", manifest, {})


def test_a_forged_manifest_is_refused(tmp_path, keys, bodies):
    manifest = sealed_batch(tmp_path / "batch", bodies, keys)
    for wrong in (
        replace(manifest, digest=bytes(32)),
        replace(manifest, count=manifest.count - 1),
        replace(manifest, count=manifest.count // 2),
        replace(manifest, size=98),
    ):
        with pytest.raises(InvalidInput):
            opened(tmp_path / "batch", wrong, keys)
    data = bytearray((tmp_path / "batch").read_bytes())
    data[40] ^= 1
    (tmp_path / "batch").write_bytes(data)
    with pytest.raises(InvalidInput, match="the file that its release names"):
        opened(tmp_path / "batch", manifest, keys)
    for wrong in (b"", manifest.encode()[:-1], manifest.encode() + b"\0", b"TCM2" + manifest.encode()[4:]):
        with pytest.raises(InvalidInput):
            Manifest.parse(wrong)


@pytest.mark.parametrize("memory", [2**20, 4096])
def test_a_copied_message_refuses_the_whole_batch(memory, tmp_path, keys, bodies):
    data = b"".join(seal(body, keys) for body in bodies)
    for source, place in ((0, len(data) - 50), (50, 100), (len(data) - 50, 0)):
        copied = bytearray(data)
        copied[place : place + 50] = data[source : source + 50]
        manifest = of_bytes(tmp_path / "batch", bytes(copied), 50)
        with pytest.raises(InvalidInput, match="twice"):
            opened(tmp_path / "batch", manifest, keys, memory=memory)
    manifest = of_bytes(tmp_path / "batch", data, 50)
    assert opened(tmp_path / "batch", manifest, keys, memory=memory).histogram == world.histogram(bodies)


def test_copies_are_found_in_files_as_in_memory(tmp_path):
    names = [sha256(bytes([one % 256, one // 256])) for one in range(2000)]
    for memory in (2**20, 2**12):
        with Copies(expected=2000, memory=memory, folder=tmp_path) as copies:
            assert bool(copies.files) == (memory == 2**12)
            for start in range(0, 2000, 100):
                copies.add(b"".join(names[start : start + 100]), size=32)
            copies.require_none()
            copies.add(names[1234], size=32)
            with pytest.raises(InvalidInput):
                copies.require_none()
    assert [*tmp_path.iterdir()] == []


# mixing


def test_a_mixer_takes_one_layer_off_and_keeps_the_number_of_messages(tmp_path, keys, bodies):
    manifest = sealed_batch(tmp_path / "double", bodies, keys, layers=2)
    assert manifest.size == 98
    mine = {keys["mixer"].id: keys["mixer"]}
    where = {"keys": mine, "study": STUDY, "stage": STAGE}
    mixed = mix_batch(tmp_path / "double", manifest, world.channel(), tmp_path / "mixed", **where)
    assert (mixed.written.count, mixed.size, mixed.foreign) == (manifest.count, 50, 0)
    after = Manifest(digest=mixed.written.digest, count=mixed.written.count, size=50, tokens=sha256(b""))
    assert opened(tmp_path / "mixed", after, keys).histogram == world.histogram(bodies)
    # Nothing of the layer outside is left, so the learner cannot tell which message was which.
    first = (tmp_path / "double").read_bytes()
    second = (tmp_path / "mixed").read_bytes()
    assert not {first[at : at + 32] for at in range(0, len(first), 98)} & {
        second[at : at + 32] for at in range(0, len(second), 50)
    }
    # One stage further nothing opens: random bytes of the same length stand for it.
    moved = mix_batch(tmp_path / "double", manifest, world.channel(), tmp_path / "moved", **{**where, "stage": 6})
    assert (moved.written.count, moved.foreign) == (manifest.count, manifest.count)
    with pytest.raises(InvalidInput, match="the file that its release names"):
        mix_batch(tmp_path / "double", replace(manifest, digest=bytes(32)), world.channel(), tmp_path / "no", **where)
    assert not (tmp_path / "no").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"double", "mixed", "moved"}


def test_only_sums_of_labels_have_batches():
    other = world.design(trust="central", learner="sdp-pe-plus", stages=1).parts().channels[0]
    with pytest.raises(NotSupported, match="shuffle trust only"):
        message_size(other, 1)


# memory

SCRIPT = """
import os, re, sys
from pathlib import Path
from tacit.service.batches.decryption import Copies
from tacit.study.external_shuffle import pieces_of, write_permuted
place, megabytes, memory = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) * 2**20

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])

write_permuted([os.urandom(5000)] * 10, place / "warm", size=50, total=50_000)
before = peak()
total = megabytes * 2**20 // 5000 * 5000
pieces = (os.urandom(5000) for _ in range(total // 5000))
written = write_permuted(pieces, place / "batch", size=50, total=total, memory=memory)
with Copies(expected=written.count, memory=memory, folder=place) as copies:
    for piece in pieces_of(place / "batch", size=50, chunk=2**18):
        copies.add(piece, size=50)
    copies.require_none()
print((peak() - before) // 1024)
"""


@pytest.mark.parametrize(("allowed", "bounded"), [(2, True), (1024, False)])
def test_memory_does_not_grow_with_the_file(allowed, bounded, fast):
    # 16 MB of messages: with 2 MB of memory the peak rises by at most 12; with plenty of it, by more.
    source = Path(permuting.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(fast), "16", str(allowed)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(source)},
    )
    assert (int(done.stdout) <= 12) == bounded
