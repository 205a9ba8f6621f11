"""Dry runs: memory, noise and certificate without a run; and the refusal where memory will not do."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import tacit
from tacit import system as memory
from tacit.cli import main
from tacit.environments import registry
from tacit.errors import InvalidInput
from tacit.runs import estimate as module
from tacit.runs import runner, schedule
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.runs.estimate import BASE, SHARE, estimate, memory_of

CENTRAL = {"trust": "central", "epsilon": 1.0, "delta": 1e-6}
PRIVATE = ["--trust", "central", "--epsilon", "1", "--delta", "1e-6"]
RUN = ["run", "--environment", "riverswim", "--learner", "ucbvi", "--episodes", "3000", "--seeds", "2", *PRIVATE]


@pytest.fixture
def no_run(monkeypatch):
    """Nothing is scheduled."""

    def run(*_, **__):
        pytest.fail("a dry run ran")

    monkeypatch.setattr(runner, "run_tasks", run)
    monkeypatch.setattr(schedule, "run_seed", run)


def test_a_dry_run_says_everything_and_writes_nothing(capsys, tmp_path, monkeypatch, no_run):
    monkeypatch.chdir(tmp_path)
    assert main([*RUN, "--dry-run", "--out", "run"]) == 0
    out = capsys.readouterr().out
    for word in ("memory: about", "noise (standard deviation): transitions", "The claim is true"):
        assert word in out
    assert "regret" not in out
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_as_json_agrees_with_the_run(capsys, no_run):
    assert main([*RUN, "--dry-run", "--json", "--workers", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    parts = assemble(RunConfig.from_dict(found["config"]))
    assert found["dry_run"] is True
    assert found["noise"] == parts.privatizer.noise_std()
    assert found["certificate"] == json.loads(json.dumps(parts.certificate.to_dict()))
    assert (found["processes"], found["memory"]) == (1, memory_of(parts))


def test_learners_in_stages_have_an_estimate_too():
    found = estimate(
        RunConfig(environment="riverswim", episodes=5000, seeds=(0,), trust="shuffle", epsilon=1.0, delta=1e-6)
    )
    assert found.config.learner.startswith("bucb")
    assert found.noise == assemble(found.config).privatizer.noise_std()


@pytest.mark.parametrize("learner", ["ucbvi", "psrl:replan=geometric", "bucb", "sdp-pe-plus", "dp-pg", "ldp-rts"])
def test_every_kind_of_learner_is_refused_before_the_run_where_memory_will_not_do(monkeypatch, no_run, learner):
    kinds = {"dp-pg": CENTRAL, "ldp-rts": {"trust": "local", "epsilon": 1.0, "delta": 0.0}}
    config = RunConfig(environment="riverswim", learner=learner, episodes=5000, seeds=(0, 1), **kinds.get(learner, {}))
    needed = memory_of(assemble(config))
    monkeypatch.setattr(module, "available_memory", lambda: int(2 * needed / SHARE) + 2)
    assert estimate(config, workers=2).memory == needed
    module.require_memory([(config, needed)], workers=2)
    monkeypatch.setattr(module, "available_memory", lambda: int(2 * needed / SHARE) - 2)
    for refused in (lambda: estimate(config, workers=2), lambda: module.require_memory([(config, needed)], workers=2)):
        with pytest.raises(InvalidInput, match="of the available memory"):
            refused()


@pytest.mark.slow
@pytest.mark.parametrize("learner", ["uc-o-reps", "uob-lbps"])
def test_learners_of_losses_are_refused_too(monkeypatch, learner):
    config = RunConfig(environment="layered", adversary="iid", learner=learner, episodes=50, seeds=(0,))
    monkeypatch.setattr(module, "available_memory", lambda: BASE)
    with pytest.raises(InvalidInput, match="of the available memory"):
        module.require_memory([(config, memory_of(assemble(config)))], workers=1)


def test_a_comparison_can_be_dry(capsys, tmp_path, monkeypatch, no_run):
    monkeypatch.chdir(tmp_path)
    shared = '[defaults]\nenvironment = "riverswim"\nepisodes = 99\nseeds = 1\n'
    (tmp_path / "runs.toml").write_text(shared + '[[run]]\nlearner = "uniform"\n[[run]]\nlearner = "psrl"\n')
    assert main(["compare", "runs.toml", "--dry-run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(run["label"], run["dry_run"]) for run in found["runs"]] == [("uniform", True), ("psrl", True)]
    assert main(["compare", "runs.toml", "--dry-run"]) == 0
    assert capsys.readouterr().out.count("memory: about") == 2
    assert sorted(tmp_path.iterdir()) == [tmp_path / "runs.toml"]


def test_what_does_not_fit_is_refused_before_anything_is_written(capsys, tmp_path, monkeypatch, no_run):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "available_memory", lambda: 2**28)
    words = ["--out", "run", "--workers", "2"]
    assert main([*RUN, *words]) == 2
    err = capsys.readouterr().err
    assert "must fit into 90% of the available memory, 256 MiB: it needs about 400 MiB" in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InvalidInput, match="must fit into"):
        estimate(RunConfig(environment="riverswim", learner="ucbvi", episodes=9, seeds=(0, 1)), workers=2)
    monkeypatch.setattr(module, "available_memory", lambda: None)  # unknown: nobody is refused for it
    assert estimate(RunConfig(environment="riverswim", learner="uniform", episodes=9, seeds=(0,))).available is None


def test_an_absurd_size_is_refused(no_run):
    S, H = 1500, 60
    P = np.broadcast_to(np.full((1, 1, 1, S), 1.0 / S), (1, S, 1, S))
    world = tacit.TabularMDP(P=P, r=np.zeros((1, S, 1)), rho=np.full(S, 1.0 / S), horizon=H, reward_kind="bernoulli")
    config = {"environment": world, "learner": "ucbvi", "episodes": 10**6, "trust": "central", "epsilon": 1.0}
    needed = 8 * H * S * (S + 2)  # one set of counters: a gigabyte
    assert memory_of(assemble(RunConfig(**config, delta=1e-6, seeds=(0,)))) > 10 * needed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "available_memory", lambda: 4 * 2**30)
        with pytest.raises(InvalidInput, match="of the available memory"):
            tacit.run(**config, delta=1e-6)


@pytest.mark.parametrize("states", [40, 80])
def test_batches_over_a_declared_support_need_no_memory_for_what_is_not_released(states):
    """Every batch keeps its released counters only: here those of the states that 20 steps can reach."""
    config = {"environment": f"riverswim:states={states},horizon=20", "learner": "bucb", "episodes": 20_000}
    parts = assemble(RunConfig(**config, support="declared", seeds=(0,)))
    C, world = 20 * states * 2 * (states + 2), 3 * 8 * states * 2 * states
    R, batches = sum(map(len, parts.learner.shape.cells[:3])), len(parts.learner.batches)
    assert batches > 10
    assert 1000 < R < 2000
    assert memory_of(parts) == BASE + world + 4 * 8 * C + 3 * 8 * (C + R) + 3 * 8 * R * batches
    everything = memory_of(assemble(RunConfig(**config, seeds=(0,))))
    assert everything - BASE > 4 * (memory_of(parts) - BASE)


@pytest.mark.slow
def test_a_run_over_a_declared_support_stays_within_what_was_said():
    """In a process of its own: what was said holds, and is not more than three times too large."""
    code = """if True:
        from tacit.runs.assemble import assemble
        from tacit.runs.config import RunConfig
        from tacit.runs.estimate import memory_of
        from tacit.simulation.simulate import simulate
        config = RunConfig(environment="riverswim:states=600,horizon=20", learner="bucb", episodes=20_000, seeds=(0,),
                           trust="central", epsilon=1.0, delta=1e-6, support="declared")
        parts = assemble(config)
        said = memory_of(parts)
        simulate(parts.mdp, parts.learner, parts.privatizer, episodes=20_000, seed=0, speed="compiled")
        peak, = (int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM:"))
        print(said, peak)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    said, peak = map(int, done.stdout.split())
    assert peak <= said <= 3 * peak


def test_the_rule(monkeypatch):
    """process = BASE + world + 4·8C + 3·(state + belief + 8C·batches), and both begin with C numbers at least."""
    parts = assemble(RunConfig(environment="riverswim", learner="ucbvi", episodes=100, seeds=(0,)))
    C, world = 6 * 4 * 2 * (4 + 2), 3 * 8 * 4 * 2 * 4
    assert memory_of(parts) == BASE + world + 4 * 8 * C + 3 * 2 * 8 * C
    monkeypatch.setattr(module, "SMALL", 1)
    state, belief = (module._bytes(part.begin()) for part in (parts.privatizer, parts.learner))
    assert memory_of(parts) == BASE + world + 4 * 8 * C + 3 * max(2 * 8 * C, state + belief)
    free = int(memory_of(parts) / SHARE) + 1
    module._refuse("run", memory_of(parts), free)
    with pytest.raises(InvalidInput):
        module._refuse("run", memory_of(parts), free - 2)


def test_available_memory_is_what_the_kernel_says(tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:   7 kB\n")
    assert memory._number(tmp_path / "meminfo", "MemAvailable:", 1024) == 7 * 1024
    (tmp_path / "max").write_text("max\n")
    assert memory._number(tmp_path / "max") is None
    assert memory._number(tmp_path / "nowhere") is None


MEMORY = "must fit into 90% of the available memory"


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_a_named_world_whose_table_will_not_fit_is_refused_before_it_is_made(capsys, monkeypatch, no_run, dry):
    def build(*, states: int = 2, actions: int = 2):
        pytest.fail(f"a table of {states} states and {actions} actions was made")

    size = 3 * 8 * 500 * 2 * 500
    monkeypatch.setattr(registry, "ENVIRONMENTS", {"large": build})
    monkeypatch.setattr(registry, "available_memory", lambda: int(size / SHARE) - 2)
    assert main(["run", "--environment", "large:states=500", "--learner", "ucbvi", "--episodes", "9", *dry]) == 2
    assert "'large:states=500' must fit into 90% of the available memory" in capsys.readouterr().err
    monkeypatch.setattr(registry, "available_memory", lambda: int(size / SHARE) + 2)
    with pytest.raises(pytest.fail.Exception, match="500 states and 2 actions"):
        registry.make_environment("large:states=500")


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
@pytest.mark.parametrize(
    ("asked", "because"),
    [
        (["--environment", "riverswim:horizon=9999999999", "--learner", "ucbvi"], "at most 1000000"),  # one P
        (["--environment", "riverswim", "--learner", "dp-pg:policy=neural,hidden=99999999999"], MEMORY),
        (["--environment", "gymnasium:Blackjack-v1,horizon=999999999999", "--learner", "ucbvi"], MEMORY),
    ],
)
def test_long_horizons_and_wide_networks_are_refused_before_anything_is_tried(capsys, no_run, asked, because, dry):
    assert main(["run", *asked, "--episodes", "9", *dry]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert because in err
