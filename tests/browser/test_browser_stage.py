"""A complete stage of fifty devices in the browser, through real processes; one is a person on the demo page."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from demo_tools import HORIZON, take_part

from tacit.service.demo import run_service_demo
from tacit.service.loopback import Loopback
from tacit.study.demo import ACTIONS, STATES
from tacit.study.design import plan_study
from tacit.study.study import Study

PEOPLE, COVERED = 50, 5
LIVED = {"states": [0, 1, 1, 2, 3, 3, 3], "actions": [1, 1, 1, 1, 1, 1], "rewards": [0, 0, 0, 0, 1, 1]}
CROWD = """async ([where, lived, people, covered]) => {
    const { Device, BrowserStore } = await import("/index.js");
    const store = new BrowserStore("crowd");
    const answers = [];
    for (let person = 0; person < people; person += 1) {
        const device = await Device.open({ ...where, store, place: `person ${person}`, name: `person ${person}` });
        await device.refresh();
        const actions = lived.actions.map((_, step) => device.act(step, lived.states[step]));
        if (actions.some((action) => !device.bundle.actions.includes(action))) throw new Error("no action");
        await (person < covered ? device.cover() : device.report(lived));
        answers.push(await device.send({ within: 60, first: 0.05 }));
    }
    return answers;
}"""


@pytest.fixture
def parties(tmp_path, site):
    design = plan_study(
        name="the river",
        states=STATES,
        actions=ACTIONS,
        horizon=HORIZON,
        trust="shuffle",
        epsilon=8.0,
        delta=1e-3,
        stages=1,
        target=PEOPLE,
    )
    quick = {"shuffler": {"tick_seconds": 0.05, "origins": [site.url]}, "learner": {"poll_seconds": 0.05}}
    with Loopback.new(tmp_path / "parties", design, tokens=False, options=quick) as made:
        made.start()
        made.until_open(0)
        yield made


@pytest.mark.slow
def test_fifty_devices_in_the_browser_make_a_stage(page, site, parties):
    pins = {"learner": parties.pins.learner.read_text(), "shuffler": parties.pins.shuffler.read_text()}
    where = {"shuffler": parties.public("shuffler"), "pins": pins, "cap": 8, "floor": 45}
    page.goto(f"{site.url}/blank")
    answers = page.evaluate(CROWD, [where, LIVED, PEOPLE - 1, COVERED])
    assert answers == ["counted"] * (PEOPLE - 1)
    site.extra["/demo/study.json"] = json.dumps(where).encode()
    take_part(page, site, epsilon=8, delta=0.001)
    parties.until(lambda found: found["worker"]["outcome"] == "finished")
    metrics = parties.internal("learner").get("/metrics").decode()
    assert 'kind="foreign"} 0.0' in metrics  # every message opened
    parties.stop()
    study = Study(parties.home("learner") / "state")
    with study.store.reading() as connection:
        people, opened = connection.execute("SELECT people, opened FROM release").fetchone()
    assert people == PEOPLE
    channel = study.parts.channels[0]
    counted = np.frombuffer(opened, dtype="<i8")
    ones = channel.spec.labels(*(np.array(LIVED[part], dtype=np.int64) for part in ("states", "actions", "rewards")))
    reported = PEOPLE - 1 - COVERED
    # Each counter has the noise ones of 50 devices on top of what people did; false alarms: below 1e-9 per counter.
    noise = channel.bit_noise(PEOPLE).total
    radius, released = noise.radius(1e-9), counted - noise.mean
    assert all(reported - radius <= released[label] <= PEOPLE - COVERED + radius for label in ones)
    assert np.delete(released, ones).max() <= 1 + radius < reported - radius


@pytest.mark.slow
def test_a_person_takes_part_in_the_demonstration(page, tmp_path):
    """What `tacit serve demo --page` does, with Chromium in the place of the person."""
    visited = []

    def visit(url):
        where = SimpleNamespace(url=url.removesuffix("/demo/"))
        told = json.loads(page.request.get(f"{url}study.json").body())
        take_part(page, where, epsilon=8, delta=0, least=told["floor"])
        visited.append(url)

    found = run_service_demo(trust="local", epsilon=8.0, people=60, stages=1, person=visit)
    assert len(visited) == 1
    [stage] = found.stages
    assert stage["reports"] == sum(stage["answers"].values()) + 1, "the person's report was counted"
    assert set(stage["answers"]) == {"counted"}
