"""The demo page: a person plays and takes part, under a strict policy and without a word on the console."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from axe_tools import serious
from demo_tools import HORIZON, take_part

from tacit.environments.registry import make
from tacit.study.demo import ACTIONS, STATES

sys.path.insert(0, str(Path(__file__).parents[1] / "vectors"))
from device_documents import CHANNEL, World

SIZES = {"horizon": HORIZON, "num_states": len(STATES), "num_actions": len(ACTIONS), "staged": True}
COUNTERS = 5 * 4 * 2 * 4 + 6 * 4 * 2 * 2


def river(world):
    """A bundle about the river, signed by the learner."""
    uniform = {"kind": "stochastic", "table": [[[0.5, 0.5]] * len(STATES)] * HORIZON}
    return world.bundle(
        states=list(STATES),
        actions=list(ACTIONS),
        horizon=HORIZON,
        policies=[[uniform, [1, 1]]],
        fallback=uniform,
        channel={**CHANNEL, "shape": SIZES, "block": COUNTERS},
        keys={"learner": json.loads(world.document(by="learner", party="learner"))},
    )


def test_a_person_plays_and_takes_part(page, site, tmp_path):
    world = World(tmp_path)
    pins = {who: world.signers[who][1].read_text() for who in ("learner", "shuffler")}
    site.extra |= {
        "/v1/bundle": river(world),
        "/v1/keys/shuffler": world.document(),
        "/demo/study.json": json.dumps({"shuffler": site.url, "pins": pins, "cap": 6, "floor": 45}).encode(),
    }
    take_part(page, site, epsilon=6, delta=0.001)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert serious(page) == [], scheme


def test_a_study_above_the_cap_is_refused_on_the_page(page, site, tmp_path):
    world = World(tmp_path)
    pins = {who: world.signers[who][1].read_text() for who in ("learner", "shuffler")}
    site.extra["/v1/bundle"] = river(world)
    site.extra["/demo/study.json"] = json.dumps({"shuffler": site.url, "pins": pins, "cap": 1, "floor": 1}).encode()
    page.goto(f"{site.url}/demo/")
    page.get_by_text("epsilon must be at most 1, the cap of this device").wait_for()
    assert page.get_by_role("button", name="Send my private report").is_disabled()


def test_the_river_of_the_page_is_that_of_tacit(page, site):
    page.goto(f"{site.url}/blank")
    plain = page.evaluate("async () => ({ ...(await import('/demo/riverswim.js')) })")
    world = make("riverswim")
    assert plain["HORIZON"] == world.horizon == HORIZON
    assert plain["NEXT"] == np.array(world.stage_P)[0].tolist()
    assert plain["REWARD"] == np.array(world.stage_r)[0].tolist()
    assert np.array(world.rho)[plain["START"]] == 1.0
    assert (len(STATES), len(ACTIONS)) == (len(plain["NEXT"]), len(plain["NEXT"][0]))


def test_a_page_without_a_study_says_so(chromium, site):
    context = chromium.new_context()
    try:
        opened = context.new_page()
        opened.goto(f"{site.url}/demo/")
        said = opened.get_by_text("This page has no study: study.json is missing.")
        said.wait_for(timeout=120_000)
        assert said.is_visible()
    finally:
        context.close()
