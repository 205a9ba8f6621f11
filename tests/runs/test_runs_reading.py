"""Reading never runs code that the directory names (SECURITY.md): here a module that leaves a file when it is imported.

Every directory here is sealed as tacit seals it, so that nothing stops a reader before the code would be reached.
"""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys

import gymnasium
import pytest

import tacit
from tacit.cli import main
from tacit.documents import digest
from tacit.environments.discretise import Function, discretiser_from_dict
from tacit.environments.live import LiveWorld
from tacit.errors import ForeignCode, TacitError
from tacit.runs.bundle import export_bundle, load_bundle
from tacit.runs.manifest import write_manifest
from tacit.runs.signature import new_keys
from tacit.study.state import decode_state, encode_state

FOREIGN = """
import pathlib
import gymnasium
pathlib.Path(__file__).with_name("RAN").touch()

class Walk(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return 0, {}

    def step(self, action):
        self.place = min(2, self.place + 1) if action else 0
        return self.place, float(self.place == 2), False, False, {}

def see(observation):
    return int(observation)

def usual(environment):
    import numpy as np
    return np.zeros((environment.horizon, environment.num_states), dtype=int)

gymnasium.register("foreign/Walk-v0", entry_point=Walk)
"""
LIVE = {
    "source": "foreign:Walk", "made_by_function": True, "options": {}, "horizon": 4, "repeat": 1,
    "discretiser": {"kind": "numbers", "count": 3, "start": 0}, "rewards": [0.0, 1.0], "ends": True,
    "stationary": False, "evaluation": 20, "vector": None, "actions": [0, 2],
}  # fmt: skip
SPEC = ",horizon=4,low=0,high=1,evaluation=20"
SEES = {"kind": "function", "function": "foreign:see", "count": 3}
NAMED = {
    "a function": {"environment": {"live": LIVE}},
    "any function": {
        "environment": {"live": {**LIVE, "source": "subprocess:run", "options": {"args": "touch RAN", "shell": True}}}
    },
    "a package": {"environment": {"live": {**LIVE, "source": "foreign:foreign/Walk-v0", "made_by_function": False}}},
    "a discretiser": {
        "environment": {"live": {**LIVE, "source": "Walk-v0", "made_by_function": False, "discretiser": SEES}}
    },
    "a name with a function": {"environment": f"gymnasium:foreign:Walk{SPEC}"},
    "a name with a package": {"environment": f"gymnasium:foreign:foreign/Walk-v0{SPEC}"},
    "a name with a discretiser": {"environment": f"gymnasium:FrozenLake-v1,discretise=foreign:see,count=3{SPEC}"},
    "auto": {"environment": f"gymnasium:foreign:Walk{SPEC}", "learner": "auto"},
    "losses": {"environment": f"gymnasium:foreign:Walk{SPEC}", "learner": "uc-o-reps", "adversary": "iid"},
    "gradients": {"environment": f"gymnasium:foreign:Walk{SPEC}", "learner": "dp-pg"},
    "rows": {"environment": f"gymnasium:foreign:Walk{SPEC}", "learner": "lin-ts"},
    "a baseline": {"environment": "riverswim", "baseline": "foreign:usual"},
    "a baseline of a world": {"environment": {"live": LIVE}, "baseline": "foreign:usual"},
    "states of 0.8": {"environment": {"live": {name: part for name, part in LIVE.items() if name != "actions"}}},
}
READERS = (
    "verify PLACE", "verify PLACE --json", "report PLACE", "plot PLACE", "certificate show PLACE",
    "certificate export PLACE --format registry", "certificate show PLACE --notion zcdp",
    "keys sign PLACE --role officer --key KEYS/private.pem", "trial run PLACE --users 100 --against uniform",
    "policy show PLACE/bundle.json", "policy act PLACE/bundle.json --step 0 --state 0", "verify PLACE/bundle.json",
    "trial run PLACE/bundle.json --users 100", "verify PLACE/result.json", "certificate show PLACE/result.json",
    "verify PLACE/cells", "study status PLACE", "study verify PLACE", "study certificate PLACE", "doctor PLACE",
    "collect status PLACE",
)  # fmt: skip


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A run, its bundle, and keys."""
    place = tmp_path_factory.mktemp("base")
    private = {"trust": "central", "epsilon": 1.0, "delta": 1e-6}
    made = tacit.run(
        environment="riverswim", learner="psrl", episodes=20, seeds=1, workers=1, out=place / "run", **private
    )
    export_bundle(made, place / "bundle.json")
    new_keys(place / "KEYS")
    return place


@pytest.fixture
def foreign(tmp_path, monkeypatch):
    """The module of the writer, which the process of the reader could import; what is returned exists if it did."""
    (tmp_path / "foreign.py").write_text(FOREIGN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "foreign", raising=False)
    yield tmp_path / "RAN"
    sys.modules.pop("foreign", None)
    gymnasium.registry.pop("foreign/Walk-v0", None)


def write(path, content):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**content, "digest": digest(content)}))


def named_in(base, place, names):
    """A sealed directory, and documents, whose configuration names this code."""
    shutil.copytree(base / "run", place)
    header = json.loads((place / "config.json").read_text())
    header["config"] |= names
    given = names["environment"]
    header["world"] = given["live"] if isinstance(given, dict) else LIVE
    (place / "config.json").write_text(json.dumps(header))
    listed = json.loads((place / "digests.json").read_text())["files"]
    (place / "digests.json").unlink()
    write_manifest(place, "run", listed)
    bundle = json.loads((base / "bundle.json").read_text())
    bundle["config"] |= names
    write(place / "bundle.json", {name: part for name, part in bundle.items() if name != "digest"})
    words = {name: part for name, part in names.items() if isinstance(part, str)}
    if isinstance(given, str):
        chosen = {"episodes": 20, "seeds": 1, "trust": "central", "epsilon": 1.0, "delta": 1e-6, **words}
        command = "tacit run " + " ".join(f"--{name} '{part}'" for name, part in chosen.items())
        privacy = json.loads((place / "privacy.json").read_text())
        write(place / "result.json", {**privacy, "command": command})
        cell = {"run": "one", "command": command, "certified epsilon": 1.0, "delta": 1e-6}
        write(place / "cells" / "cells.json", {"experiment": "any", "runs": [cell]})
    return place


@pytest.mark.parametrize("names", NAMED.values(), ids=NAMED)
def test_no_reader_runs_code_that_a_directory_names(base, foreign, tmp_path, capsys, names):
    place = named_in(base, tmp_path / "theirs", names)
    for line in READERS:
        words = [word.replace("PLACE", str(place)).replace("KEYS", str(base / "KEYS")) for word in line.split()]
        code = main(words)
        out, err = capsys.readouterr()
        assert not foreign.exists(), line
        assert "Traceback" not in out + err
        if line == "verify PLACE":
            assert code == 1, out  # no such run was ever made: nothing of it may be called true
    with pytest.raises(TacitError):
        load_bundle(place / "bundle.json", unsigned=True)
    try:
        read = tacit.load(place)
    except TacitError:
        read = None
    if read is not None:
        assert read.doubt
        str(read), read._repr_html_()
        for ask in (read.summary, lambda: read.named_policy, lambda: read.against, lambda: tacit.trial(read, users=50)):
            try:
                ask()
            except TacitError as error:
                assert str(error)  # noqa: PT017
    assert not foreign.exists()


def test_the_foreign_module_would_have_shown(foreign):
    tacit.live("foreign:Walk", horizon=4, rewards=(0, 1))
    assert foreign.exists()


def test_a_description_that_was_read_is_neither_made_nor_pickled_into_being(foreign):
    for plain in (names["environment"]["live"] for names in NAMED.values() if isinstance(names["environment"], dict)):
        if "actions" not in plain:
            with pytest.raises(ForeignCode, match="how many actions"):
                LiveWorld.from_dict(plain)
            continue
        world = LiveWorld.from_dict(plain)
        copy = pickle.loads(pickle.dumps(world))  # noqa: S301
        assert copy == world
        for one in (world, copy):
            with pytest.raises(ForeignCode, match=r"environment=tacit.live\(...\)"):
                one.make()
            with pytest.raises(RuntimeError, match="pass the environment yourself"):
                tacit.run(environment=one, learner="psrl", episodes=10, workers=1)
    state = encode_state(Function(function="foreign:see", count=3))
    assert discretiser_from_dict(SEES) == Function(function="foreign:see", count=3)
    with pytest.raises(TacitError, match="types of a state"):
        decode_state(state)
    assert not foreign.exists()


def test_who_names_the_environment_goes_on_with_a_directory(base, foreign, tmp_path):
    """The caller's own code runs where the caller names it: to resume, and to let fresh users come."""
    world = tacit.live("foreign:Walk", horizon=4, rewards=(0, 1), evaluation=20)
    options = {"learner": "psrl", "episodes": 20, "seeds": 2, "workers": 1, "out": tmp_path / "mine"}
    made = tacit.run(environment=world, **options)
    (tmp_path / "mine" / "results.parquet").unlink()  # as if it had been cut off
    again = tacit.run(environment=world, **options)
    assert [one.total[-1] for one in again.returns] == [one.total[-1] for one in made.returns]
    read = tacit.load(tmp_path / "mine")
    assert read.doubt is None
    assert read.config == made.config
    with pytest.raises(ForeignCode):
        tacit.trial(read, users=50, trust="none")
    assert tacit.trial(read, users=50, trust="none", environment=world).arms == ("policy",)
    with pytest.raises(TacitError, match="a result has its environment"):
        tacit.trial(read, users=50, trust="none", environment="gymnasium:FrozenLake-v1")


@pytest.mark.parametrize("options", [{}, {"baseline": "always 1"}], ids=["alone", "with a baseline"])
@pytest.mark.parametrize(
    "environment", ["world", f"gymnasium:foreign:Walk{SPEC}", f"gymnasium:foreign:foreign/Walk-v0{SPEC}"]
)
def test_a_run_in_code_of_its_writer_verifies_where_that_code_is_unknown(
    foreign, tmp_path, capsys, environment, options
):
    if environment == "world":
        environment = tacit.live("foreign:Walk", horizon=4, rewards=(0, 1), evaluation=20)
    private = {"trust": "central", "epsilon": 1.0, "delta": 1e-6}
    made = tacit.run(
        environment=environment, episodes=200, seeds=1, workers=1, out=tmp_path / "run", **private, **options
    )
    new_keys(tmp_path / "keys")
    export_bundle(made, tmp_path / "bundle.json", key=tmp_path / "keys" / "private.pem")
    (tmp_path / "foreign.py").unlink()
    sys.modules.pop("foreign")
    for line in ("report run", "plot run", "keys sign run --role officer --key keys/private.pem", "verify run"):
        assert main(line.split()) == 0, capsys.readouterr()
    assert "actions and observations of its environment" in capsys.readouterr().out
    assert main(["verify", "bundle.json", "--key", "keys/public.pem"]) == 0
    read = tacit.load("run")
    assert (read.doubt, read.config) == (None, made.config)
    assert load_bundle("bundle.json", key="keys/public.pem").policy.actions.tolist() == made.policy.actions.tolist()


def test_a_run_with_a_function_as_baseline_is_reported_and_not_verified(foreign, tmp_path, capsys):
    options = {"trust": "central", "epsilon": 0.05, "delta": 1e-6, "baseline": "foreign:usual", "value_users": 40}
    made = tacit.run(environment="riverswim", learner="bucb", episodes=200, workers=1, out=tmp_path / "run", **options)
    assert made.against is not None
    assert len(made.trials) == 1
    foreign.unlink()
    assert main(["report", "run"]) == main(["plot", "run"]) == 0, capsys.readouterr()
    assert main(["verify", "run"]) == 1
    assert "not verified: run" in capsys.readouterr().out
    read = tacit.load("run")
    assert (read.against, read.advice, read.trials) == (None, None, ())
    assert "the baseline foreign:usual is code that the file names" in read.doubt
    assert not foreign.exists()


def test_a_run_of_a_script_is_read_by_every_other_process(tmp_path, capsys):
    """The class stands in `__main__`, which no other process has (and this one has another)."""
    text = FOREIGN.partition("def see")[0].replace("pathlib.Path", "# ") + (
        "import tacit\n"
        "walk = dict(environment=tacit.live(Walk, horizon=4, rewards=(0, 1), evaluation=20), workers=1)\n"
        "tacit.run(**walk, episodes=200, trust='central', epsilon=1.0, delta=1e-6, out='own')\n"
        "sweep = [walk['environment'], 'riverswim']\n"
        "tacit.compare(environment=sweep, learner=['psrl'], episodes=[20], workers=1, out='swept')\n"
    )
    (tmp_path / "own.py").write_text(text)
    done = subprocess.run([sys.executable, "own.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in ("own", "swept"):
        for line in (f"verify {tmp_path / name}", f"report {tmp_path / name}", f"plot {tmp_path / name}"):
            assert main(line.split()) == 0, capsys.readouterr()
        assert tacit.load(tmp_path / name) is not None
