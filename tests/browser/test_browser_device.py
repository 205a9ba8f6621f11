"""A device in a page: frozen before it is sent, the same bytes after a reload and from two tabs, refusals in words."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tacit.service.encryption.envelope import open_envelope
from tacit.service.encryption.hpke import inner_info, mixer_info
from tacit.study.bundle import Bundle
from tacit.study.wire import Report

sys.path.insert(0, str(Path(__file__).parents[1] / "vectors"))
from device_documents import LOCAL, OUE, STUDY, TOTALS, World

PACKAGE = Path(__file__).parents[2] / "js" / "tacit-device"
NODE = """
    import { readFileSync } from "node:fs";
    const { Device } = await import(process.argv[1]);
    const { pins, bundles, keys, lived } = JSON.parse(readFileSync(0));
    const kept = new Map();
    const recall = async (place) => kept.get(place) ?? null;
    const store = { recall, keep: async (place, state) => void kept.set(place, state) };
    const found = [];
    let bundle;
    const over = async (url, { body = null } = {}) => {
        if (body !== null) found.push(Buffer.from(body).toString("base64"));
        const text = url.endsWith("bundle") ? bundle : body === null ? keys : '{"report":"counted"}';
        return { status: body === null ? 200 : 201, retryAfter: null, content: new TextEncoder().encode(text) };
    };
    const person = { name: "person", cap: 100, floor: 1 };
    const device = await Device.open({ shuffler: "https://shuffler.example", pins, ...person, store, over });
    for (bundle of bundles) {
        try {
            await device.refresh();
            await device.report(lived);
            found.push(await device.send());
        } catch (error) {
            found.push(error.message);
        }
    }
    console.log(JSON.stringify(found));
"""
UNDEFINED = "undefined"
LIVED = {"states": ["a", "b"], "actions": ["x", "y"], "rewards": [1, 0]}
OPEN = """async ([plain, replies]) => {
    const { Device, BrowserStore } = await import("/index.js");
    const fromText = (text) => new TextEncoder().encode(text);
    const posted = [];
    const waits = [];
    const store = new BrowserStore("test");
    let document = 0;
    const over = async (url, { method = "GET", body = null } = {}) => {
        const path = new URL(url).pathname;
        if (path === "/v1/bundle") return { status: 200, retryAfter: null, content: fromText(plain.bundle) };
        if (path === "/v1/keys/shuffler") {
            const found = plain.shuffler[Math.min(document, plain.shuffler.length - 1)];
            document += 1;
            return { status: 200, retryAfter: null, content: fromText(found) };
        }
        // What is sent stands in the database already.
        const kept = await store.recall("person");
        const frozen = kept.envelope !== null && kept.envelope.every((byte, place) => byte === body[place]);
        posted.push({ frozen, method, body: btoa(String.fromCharCode(...body)) });
        const reply = replies.shift() ?? null;
        return reply && { ...reply, content: fromText(reply.content) };
    };
    const sleep = async (seconds) => { waits.push(seconds); };
    const person = { name: "person", cap: 6, floor: 45, ...plain.person };
    for (const [limit, given] of Object.entries(person)) if (given === "undefined") delete person[limit];
    const where = { shuffler: "https://shuffler.example/", pins: plain.pins, store, place: "person", over, sleep };
    const another = () => Device.open({ ...where, ...person });
    window.tacit = { device: await another(), posted, waits, another };
}"""


COUNTING = """
const { Device, MemoryStore } = await import(index);
const content = (text) => new TextEncoder().encode(text);
const found = [];
const store = new MemoryStore();
let posted = 0;
for (const [number, bundle] of given.bundles.entries()) {
    const texts = { bundle, learner: given.learner, shuffler: given.shuffler[0] };
    const over = async (url, { method = "GET" } = {}) => {
        if (method === "GET") return { status: 200, retryAfter: null, content: content(texts[url.split("/").at(-1)]) };
        posted += 1;
        const kept = await store.recall("person"); // counted by now
        if (kept.left.length === 0) throw new Error("sent before it was counted");
        const reply = given.replies[number];
        return { ...reply, content: content(reply.content) };
    };
    const limits = given.limits ?? { name: "person", cap: 6, floor: 1 };
    let asks = null;
    try {
        const where = { shuffler: "https://shuffler.example", pins: given.pins, store, place: "person", over };
        const device = await Device.open({ ...where, ...limits });
        await device.refresh();
        asks = device.asks;
        await device.report(given.lived);
        found.push({ answer: await device.send({ within: 30 }), asks, posted });
    } catch (error) {
        found.push({ answer: error.message, asks, posted });
    }
}
console.log(JSON.stringify(found));
"""


def in_node(program, given):
    """What a program prints that is handed JSON and the address of the package."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node on this machine")
    package = (Path(__file__).parents[2] / "js" / "tacit-device" / "index.js").as_uri()
    whole = f"const index = {json.dumps(package)};\nconst given = {json.dumps(given)};\n{program}"
    done = subprocess.run(
        [node, "--input-type=module"], input=whole, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


@pytest.fixture
def plain(world):
    pins = {who: world.signers[who][1].read_text() for who in ("learner", "shuffler")}
    learner = world.document(by="learner", party="learner", keys=world.listed("active", first=7))
    rotated = world.document(serial=5, keys=world.listed("active", "pending", first=1))
    return {
        "bundle": world.bundle(keys={"learner": json.loads(learner)}).decode(),
        "shuffler": [world.document().decode(), rotated.decode()],
        "pins": pins,
    }


def problem(slug, status, after=None):
    return {"status": status, "retryAfter": after, "content": f'{{"type":"urn:tacit:problem:{slug}"}}'}


COUNTED = {"status": 201, "retryAfter": None, "content": '{"report":"counted"}'}


def opened(world, posted, key=0):
    assert posted["frozen"]
    secret = world.secret(key)
    data = base64.b64decode(posted["body"])
    return open_envelope(data, study=bytes.fromhex(STUDY), keys={secret.id: secret})


def labels_in(world, report):
    """The labels of a sealed body, opened by the learner."""
    bundle, secret = Bundle.parse(world.bundle()), world.secret(7)
    body = Report.parse(report).body
    opener = secret.opener(inner_info(bytes.fromhex(STUDY), 3, secret.id))
    found = [opener(body[start : start + 50]) for start in range(0, len(body), 50)]
    assert None not in found
    bundle.channel.check(b"".join(sorted(found, key=lambda label: int.from_bytes(label, "little"))))
    return [int.from_bytes(label, "little") for label in found]


def test_a_report_is_frozen_and_its_bytes_survive_a_reload(page, site, world, plain):
    page.goto(f"{site.url}/blank")
    page.evaluate(OPEN, [plain, []])
    first = page.evaluate(
        """async (lived) => {
            const { device, posted } = window.tacit;
            await device.refresh();
            const action = device.act(0, "a");
            await device.report(lived);
            return { answer: await device.send({ within: 0 }), posted, action, asks: device.asks };
        }""",
        LIVED,
    )
    assert (first["answer"], first["asks"]) == ("waiting", True)
    assert first["action"] in ("x", "y")
    page.reload()
    replies = [None, problem("overloaded", 429, "7"), {"status": 200, "retryAfter": None, "content": "<html>"}, COUNTED]
    page.evaluate(OPEN, [plain, replies])
    again = page.evaluate(
        """async (lived) => {
            const { device, posted, waits } = window.tacit;
            const frozen = device.frozen;
            await device.refresh();
            await device.report({ ...lived, rewards: [0, 1] });
            const answer = await device.send({ first: 0.001, within: 30 });
            await device.report(lived);
            await device.cover();
            const rest = [device.state.report, device.state.envelope];
            return { answer, posted, waits, frozen, rest, last: await device.send() };
        }""",
        LIVED,
    )
    assert (again["answer"], again["last"], again["frozen"]) == ("counted", "counted", True)
    assert again["rest"] == [None, None]
    bodies = {one["body"] for one in first["posted"] + again["posted"]}
    assert (len(bodies), len(again["posted"])) == (1, 4)
    assert 7 <= again["waits"][1] < 8
    found = opened(world, again["posted"][0])
    assert found.token == b"TCO1\x06\0person"
    # A transition and two outcomes, as they were lived before the reload.
    spec = Bundle.parse(world.bundle()).channel.spec
    ones = spec.labels(np.array([0, 1]), np.array([0, 1]), np.array([1, 0])).tolist()
    assert ones == [1, 9, 22]
    assert set(ones) <= set(labels_in(world, found.report))


def test_two_tabs_freeze_one_report(page, site, world, plain):
    page.goto(f"{site.url}/blank")
    page.evaluate(OPEN, [plain, [COUNTED]])
    found = page.evaluate(
        """async (lived) => {
            const { device, another, posted } = window.tacit;
            await device.refresh();
            const tabs = [device, await another(), await another()];
            await Promise.all(tabs.map((tab) => tab.report(lived)));
            const bytes = tabs.map((tab) => tab.state.envelope.join());
            const answers = [];
            for (const tab of tabs) answers.push(await tab.send({ within: 1 }));
            return { different: new Set(bytes).size, answers, posted: posted.length };
        }""",
        LIVED,
    )
    assert found == {"different": 1, "answers": ["counted"] * 3, "posted": 1}


def test_a_key_that_is_gone_means_a_new_envelope_around_the_same_report(page, site, world, plain):
    page.goto(f"{site.url}/blank")
    page.evaluate(OPEN, [plain, [problem("unknown-key", 404), COUNTED]])
    found = page.evaluate(
        """async () => {
            const { device, posted } = window.tacit;
            await device.refresh();
            await device.cover();
            return { answer: await device.send({ within: 30 }), posted };
        }"""
    )
    assert found["answer"] == "counted"
    before, after = opened(world, found["posted"][0], 0), opened(world, found["posted"][1], 1)
    assert before == after


def local(reports):
    """A stage under local trust in which a message costs epsilon 1, all that the claim has."""
    claim = {**LOCAL, "unit": {"reports": reports, "per_stage": 1}}
    return {"claim": claim, "query": TOTALS, "least": 1, "channel": {**OUE, "claim": claim}}


@pytest.mark.parametrize(
    ("stage", "word", "slot", "words"),
    [
        (local(1), "full", 1, "at most 1 times, got '1 reports that have left'"),
        (local(1), "late", 0, "at most 1 times"),
        (local(2), "full", 1, "must cost at most epsilon 1,"),
        ({}, "twice", 1, "at most 1 times"),
        ({}, "twice", 0, "counted"),
        ({}, "full", 1, "counted"),
        ({}, "late", 1, "counted"),
    ],
)
def test_reports_are_counted_before_they_leave(world, plain, stage, word, slot, words):
    """Refuse what a person sends, and ask again in the next stage, also after a reload; in node, in memory."""
    stage = stage or {"keys": json.loads(plain["bundle"])["keys"]}  # under shuffle trust
    first = world.bundle(**stage)
    told = [first, world.next(first, **stage, slot=slot)]
    replies = [problem(word, 409), COUNTED]
    given = {**plain, "bundles": [one.decode() for one in told], "replies": replies, "lived": LIVED}
    before, after = in_node(COUNTING, given)
    assert before == {"answer": word, "asks": True, "posted": 1}
    assert words in after["answer"]
    assert (after["asks"], after["posted"]) == ((True, 2) if words == "counted" else (False, 1))


def test_limits_have_no_default(plain):
    """As `Device.open` says it in node."""
    given = {**plain, "bundles": ["{}"], "replies": [], "lived": LIVED, "limits": {"name": "person", "floor": 1}}
    assert in_node(COUNTING, given)[0]["answer"].startswith("a device must be given cap and floor, got 'no cap'; give")


@pytest.mark.parametrize(
    ("person", "words"),
    [
        ({"issuer": "https://issuer.example"}, "no blind tokens yet"),
        ({"credential": "secret"}, "either a credential or a name"),
        ({"seed": 1}, "known options"),
        ({"floor": 0}, "number of people"),
        ({"cap": UNDEFINED}, "given cap and floor, got 'no cap'"),
        ({"floor": UNDEFINED}, "given cap and floor, got 'no floor'"),
        ({"cap": 5.5}, "the cap of this device"),
        ({"floor": 46}, "the floor of this device"),
    ],
)
def test_what_a_person_did_not_agree_to_is_refused_in_words(page, site, plain, person, words):
    page.goto(f"{site.url}/blank")
    refused = page.evaluate(
        f"""async (given) => {{
            try {{
                await ({OPEN})(given);
                await window.tacit.device.refresh();
                return "accepted";
            }} catch (error) {{
                return `${{error.name}}: ${{error.message}}`;
            }}
        }}""",
        [{**plain, "person": person}, []],
    )
    assert words in refused
    assert refused.startswith("NotSupported" if "issuer" in person else "InvalidInput")


def test_messages_are_sealed_to_the_keys_of_the_bundle_and_a_stage_without_them_is_refused(world):
    """In node: the device of a browser with a mixer pinned, through a stage, a rotation and refused bundles."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node on this machine: the keys of a bundle are checked with the vectors in Chromium")

    def keys(first, serial, by="mixer"):
        made = {"learner": ("learner", first), "mixer": (by, first + 10)}
        return {
            party: json.loads(world.document(by=who, party=party, serial=serial, keys=world.listed("active", first=n)))
            for party, (who, n) in made.items()
        }

    first = world.bundle(keys=keys(7, 4))
    second = world.next(first, keys=keys(8, 5))
    after = {"stage": 5, "previous": Bundle.parse(second).digest, "head": Bundle.parse(second)["head"]}
    refused = {
        "got ''; pin the mixer where there is one; a stage that tacit 0.8 planned has none": world.bundle(**after),
        "serial of at least 5": world.bundle(**after, keys=keys(7, 4)),
        "keys must be signed by the pinned key": world.bundle(**after, keys=keys(9, 6, by="learner")),
    }
    given = {
        "pins": {who: world.signers[who][1].read_text() for who in ("learner", "shuffler", "mixer")},
        "bundles": [text.decode() for text in (first, second, *refused.values())],
        "keys": world.document().decode(),
        "lived": LIVED,
    }
    done = subprocess.run(
        [node, "--input-type=module", "-e", NODE, str(PACKAGE / "index.js")],
        input=json.dumps(given).encode(),
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    assert (found[1], found[3], len(found)) == ("counted", "counted", 4 + len(refused))
    for sent, stage, number in ((found[0], 3, 7), (found[2], 4, 8)):
        body = Report.parse(opened(world, {"frozen": True, "body": sent}).report).body
        learner, mixer = world.secret(number), world.secret(number + 10)
        outer = mixer.opener(mixer_info(bytes.fromhex(STUDY), stage, mixer.id))
        inner = learner.opener(inner_info(bytes.fromhex(STUDY), stage, learner.id))
        assert all(inner(outer(body[start : start + 98])) is not None for start in range(0, len(body), 98))
    for words, said in zip(refused, found[4:], strict=True):
        assert words in said
