"""An environment class of a script or notebook runs on several processes, as an installed one does."""

from __future__ import annotations

import subprocess
import sys

import pytest

WORLD = '''
import gymnasium
import tacit

class Walk(gymnasium.Env):
    """Three places in a row, the last one pays; workers cannot import this class."""

    observation_space, action_space = gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return 0, {}

    def step(self, action):
        moved = self.np_random.random() < 0.8
        self.place = min(2, self.place + 1) if action and moved else max(0, self.place - 1)
        return self.place, float(self.place == 2), False, False, {}

def made():
    return Walk()

gymnasium.register("Walk-v0", entry_point="__main__:Walk", max_episode_steps=4)
'''
RUNS = """
for walk in ("Walk-v0", made):
    world = tacit.live(walk, horizon=4, rewards=(0, 1), evaluation=200)
    options = dict(environment=world, learner="psrl", episodes=EPISODES, seeds=2)
    many, one = tacit.run(**options, workers=WORKERS), tacit.run(**options, workers=1)
    assert [p.actions.tolist() for p in many.policies] == [p.actions.tolist() for p in one.policies]
    assert [r.final for r in many.returns] == [r.final for r in one.returns]
    print("equal")
"""


def script(tmp_path, text):
    (tmp_path / "own.py").write_text(text.replace("EPISODES", "300").replace("WORKERS", "2"))
    done = subprocess.run([sys.executable, "own.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


def test_a_script_with_its_own_class_runs_on_two_processes(tmp_path):
    done = script(tmp_path, WORLD + RUNS)
    assert done.stdout.split() == ["equal", "equal"]
    assert "one process" not in done.stderr


def test_what_cannot_be_sent_runs_in_one_process_and_says_so(tmp_path):
    locked = WORLD.replace("gymnasium.register", "import threading\nWalk.lock = threading.Lock()\n\ngymnasium.register")
    done = script(tmp_path, locked + RUNS)
    assert done.stdout.split() == ["equal", "equal"]
    assert "one process runs all seeds: the run cannot be sent to others" in done.stderr


@pytest.mark.slow
def test_a_notebook_with_its_own_class_runs_on_default_workers():
    nbformat, convert = pytest.importorskip("nbformat"), pytest.importorskip("nbconvert.preprocessors")
    runs = RUNS.replace("EPISODES", "60_000").replace("WORKERS", "None")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in (WORLD, runs)])
    convert.ExecutePreprocessor(timeout=600, kernel_name="python3").preprocess(book, {})
    assert "equal" in str(book.cells[1].outputs)
