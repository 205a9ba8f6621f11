"""The device in the browser is the Python device: the same bytes in, the same bytes out, the same refusals."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tacit.service.encryption.envelope import open_envelope
from tacit.service.encryption.hpke import SecretKey

VECTORS = Path(__file__).parents[1] / "vectors"
PACKAGE = Path(__file__).parents[2] / "js" / "tacit-device"
ROWS = ("rows", "moment_bodies")
FILES = ("device.json", "sealing.json")


def vectors(name):
    return json.loads((VECTORS / name).read_text(encoding="utf-8"))


@pytest.fixture
def maker(monkeypatch):
    monkeypatch.syspath_prepend(str(VECTORS))
    spec = importlib.util.spec_from_file_location("make_device", VECTORS / "make_device.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.modules.pop("device_documents", None)


def check(found):
    """Every kind of vector was looked at, none failed, and Python opens what was sealed there."""
    assert found["failed"] == []
    device, sealing = (vectors(name) for name in FILES)
    samplers = ("coins", "logistic", "each", "fair", "below", "orders", "enclosures")
    for kind in (*samplers, "spellings", "bodies", "trajectories", "signatures", "bundles", "keys", "named", *ROWS):
        assert found["checked"][kind] == len(device[kind]) > 0
    assert found["checked"]["row_bundle"] == 3 * len(device["row_bundle"]["people"]) + 2
    assert found["checked"]["sealing"] > 2 * len(sealing["messages"])
    key = SecretKey(bytes.fromhex(sealing["keys"]["shuffler"]["secret"]))
    assert len(found["sealed"]) == len(sealing["envelopes"])
    for sealed, one in zip(found["sealed"], sealing["envelopes"], strict=True):
        opened = open_envelope(bytes.fromhex(sealed), study=bytes.fromhex(sealing["study"]), keys={key.id: key})
        assert (opened.token.hex(), opened.report.hex()) == (one["token"], one["report"])


def test_the_committed_vectors_are_what_python_makes(maker):
    """Also after a change: a device elsewhere is then told by its tests."""
    assert json.loads(json.dumps(maker.made())) == vectors("device.json")


def test_a_vector_covers_every_turn_of_a_sampler(maker):
    """Coins that need a second and a third word, blocks that overflow, labels of 32 bits."""
    device = vectors("device.json")
    assert any(len(one["bytes"]) > 4 * one["count"] + 8 for one in device["coins"])
    lengths: dict[str, set[int]] = {name: set() for name in device["channels"]}
    for one in device["bodies"]:
        lengths[one["channel"]].add(len(one["body"]))
    assert min(len(lengths[name]) for name in ("shuffle overflowing", "shuffle mirrored overflowing")) > 1
    assert {name for name, found in lengths.items() if len(found) > 1} <= {
        "shuffle overflowing",
        "shuffle mirrored overflowing",
        "shuffle u32",
    }
    assert maker.channels()["shuffle u32"].labels.itemsize == 4


def test_vectors_in_node():
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node on this machine: the same vectors are checked in Chromium")
    script = PACKAGE / "test" / "run.js"
    done = subprocess.run(
        [node, str(script), *(str(VECTORS / name) for name in FILES)], capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    check(json.loads(done.stdout))


def test_vectors_in_chromium(page, site):
    page.goto(f"{site.url}/blank")
    check(
        page.evaluate(
            """async ([device, sealing]) => {
                const { checkVectors, sealedHere } = await import("/test/vectors.js");
                return { ...(await checkVectors(device, sealing)), sealed: await sealedHere(sealing) };
            }""",
            [vectors(name) for name in FILES],
        )
    )


def test_the_package_has_one_door_to_randomness_and_loads_nothing():
    sources = [path for path in PACKAGE.rglob("*.js") if "test" not in path.relative_to(PACKAGE).parts]
    assert len(sources) > 15
    for path in sources:
        text = path.read_text(encoding="utf-8")
        for word in ("Math.random", "eval(", "new Function", "innerHTML", "console.", "import(", "Date.now"):
            assert word not in text, (path.name, word)
        imported = re.findall(r'^(?:import|export)\b[^;]*\bfrom "([^"]+)"', text, flags=re.MULTILINE)
        assert all(one.startswith(("./", "../")) for one in imported)
        assert ("getRandomValues(" in text) == (path.name == "randomness.js")
