"""A study of simulated people with its dashboard: what tests look at, the benchmark measures and the picture shows.

    python -m benchmarks.watched docs/operations/dashboard.png       the picture of the documentation

The parties are real and over files; the people swim in RiverSwim. The dashboard is a process of its own, on loopback.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tacit.environments.registry import make
from tacit.study.collector import Collector
from tacit.study.demo import ACTIONS, STATES, live
from tacit.study.design import plan_study
from tacit.study.device import Device
from tacit.study.study import Study

STAGES = 4


class Rehearsal:
    """A study under central trust: people report, a stage is released, the next one opens."""

    def __init__(self, place: Path, *, target: int = 40, stages: int = STAGES, epsilon: float = 4.0) -> None:
        self.place, self.target = place, target
        self.world, self.rng = make("riverswim"), np.random.default_rng(0)
        design = plan_study(
            name="RiverSwim, a rehearsal",
            states=STATES,
            actions=ACTIONS,
            horizon=self.world.horizon,
            stationary=self.world.stationary,
            trust="central",
            epsilon=epsilon,
            delta=1e-6,
            stages=stages,
            target=target,
        )
        self.study = Study.new(place / "study", design, seed=0)
        self.collector = Collector.new(place / "collector", design)
        self.bundle, self.number = b"", -1
        self.open()

    def open(self) -> None:
        """Open the next stage."""
        self.bundle, self.number = self.study.plan(), self.number + 1
        self.collector.open(self.bundle)

    def report(self, people: int) -> None:
        """So many people live through the open stage and report; one of them twice, and something else is no report."""
        answers = self.collector.add_many(self._sent(people))
        assert list(answers).count("counted") == people

    def _sent(self, people: int) -> Iterator[tuple[bytes, str]]:
        for person in range(people):
            device = self._device()
            yield device.report(live(device, self.world, self.rng)), f"person {self.number}-{person}"
        yield self._device().cover(), f"person {self.number}-0"
        yield b"no report", "nobody"

    def _device(self) -> Device:
        device = Device(None, cap=math.inf, floor=1, key=None)
        device.accept(self.bundle)
        return device

    def release(self) -> float:
        """Close and release the open stage; when it was written, by the monotonic clock."""
        self.collector.close()
        taken = self.study.take(self.collector.release(self.study.head))
        assert taken == "taken"
        return time.monotonic()


@contextmanager
def served(place: Path, *options: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The address of a dashboard of a study, and its two tokens; its process ends with the block."""
    ready, secrets = place / "ready.json", place / "tokens"
    words = [sys.executable, "-m", "tacit", "serve", "dashboard", str(place / "study"), str(place / "collector")]
    words += ["--ready", str(ready), "--secrets", str(secrets), *options]
    source = str(Path(__file__).parents[1] / "src")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])}
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment) as process:
        try:
            end = time.monotonic() + 60
            while not ready.is_file():
                assert process.poll() is None, "the dashboard must come up"
                assert time.monotonic() < end, "the dashboard must listen within a minute"
                time.sleep(0.02)
            url = json.loads(ready.read_bytes())["public"]
            yield url, {name: (secrets / f"{name}.token").read_text() for name in ("reader", "writer")}
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def system_chromium() -> tuple[str, list[str]]:
    """Where the system's Chromium is ("" if there is none), and how it is started here."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    return path or "", ["--no-sandbox"] if os.geteuid() == 0 else []


def enter(page: Any, url: str, token: str) -> None:
    """Enter a dashboard as a person does, by the address that was printed."""
    page.goto(f"{url}/enter#token={token}")
    page.wait_for_url(f"{url}/operator")
    page.locator("#live[data-state=live]").wait_for()


def picture(file: Path) -> None:
    """Write the picture of a study whose third stage is open: the operator's view, by a reader."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    path, arguments = system_chromium()
    with tempfile.TemporaryDirectory() as made:
        rehearsal = Rehearsal(Path(made), target=1000)
        for _ in range(2):
            rehearsal.report(990)
            rehearsal.release()
            rehearsal.open()
        with served(Path(made), "--simulated") as (url, tokens), sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=path, args=arguments)
            page = browser.new_page(viewport={"width": 1180, "height": 900}, color_scheme="light")
            enter(page, url, tokens["reader"])
            rehearsal.report(420)
            page.get_by_text("420").first.wait_for()
            page.screenshot(path=str(file))
            browser.close()
    Image.open(file).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(file, optimize=True)
    print(f"{file}: {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    picture(Path(sys.argv[1]))
