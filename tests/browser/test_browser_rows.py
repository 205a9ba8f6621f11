"""A stage of a study over rows whose devices are those of the browser, in node, through real processes."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tacit.features import Features
from tacit.service.loopback import Loopback
from tacit.study.design import plan_study
from tacit.study.study import Study

PACKAGE = Path(__file__).parents[2] / "js" / "tacit-device"
PEOPLE = 12
CROWD = """
const [place, where, people] = process.argv.slice(1).map((text, number) => (number ? JSON.parse(text) : text));
const { Device, MemoryStore } = await import(`${place}/index.js`);
const answers = [];
for (let person = 0; person < people; person += 1) {
  const device = await Device.open({ ...where, store: new MemoryStore(), name: `person ${person}` });
  await device.refresh();
  const row = { age: 20 + 5 * person, tired: person % 2 === 0 };
  const action = device.act(0, row);
  if (!["wait", "walk"].includes(action)) throw new Error("no action");
  const told = { states: [row], actions: [action], rewards: [(action === "wait") === row.tired ? 1 : 0] };
  await (person === 0 ? device.cover() : device.report(told));
  answers.push(await device.send({ within: 60, first: 0.05 }));
}
console.log(JSON.stringify(answers));
"""


@pytest.mark.slow
@pytest.mark.parametrize("trust", ["shuffle", "central", "local"])
def test_devices_of_the_browser_make_a_stage_over_rows(trust: str, tmp_path: Path) -> None:
    """Quick sibling: the shared vectors of rows, bodies and bundles."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node on this machine: the same vectors are checked in Chromium")
    design = plan_study(
        name="rows", features=Features(age=(18, 90), tired=bool), actions=("wait", "walk"), trust=trust, epsilon=8.0,
        delta=0.0 if trust == "local" else 1e-3, stages=1, target=PEOPLE, least=PEOPLE - 2,
    )  # fmt: skip
    quick = {"shuffler": {"tick_seconds": 0.05, "rehearsal": True}, "learner": {"poll_seconds": 0.05}}
    with Loopback.new(tmp_path / "parties", design, tokens=False, options=quick) as parties:
        parties.start()
        parties.until_open(0)
        pins = {"learner": parties.pins.learner.read_text(), "shuffler": parties.pins.shuffler.read_text()}
        where = {"shuffler": parties.public("shuffler"), "pins": pins, "cap": 8, "floor": 2}
        words = [str(PACKAGE), json.dumps(where), str(PEOPLE)]
        done = subprocess.run(
            [node, "--input-type=module", "--eval", CROWD, "--", *words], capture_output=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        assert json.loads(done.stdout) == ["counted"] * PEOPLE
        parties.until(lambda found: found["worker"]["outcome"] == "finished")
        parties.stop()
        study = Study(parties.home("learner") / "state")
        assert [row["people"] for row in study.status()["releases"]] == [PEOPLE]
        assert study.coefficients(1.96) is not None
