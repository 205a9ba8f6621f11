"""Kernels in two tiers: interpreted and compiled forms give the same bits, and the rule counts work."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from tacit import lazy_jit
from tacit.data.trajectories import alias_tables
from tacit.kernels import kernel
from tacit.planning.dynamic import solve, value_of
from tacit.planning.flow_projection import Counters, Kept, counters_of
from tacit.planning.valid_bands import Bands
from tacit.planning.weighted_rows import (
    ProvedBands,
    Rows,
    blank_rows,
    mixture_visits,
    optimists,
    pessimist,
    policy_visits,
    weighted_rows,
)
from tacit.protocol import copy_state
from tacit.released.counts import CountShape
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.simulation.judges.tabular import Tally, Truth
from tacit.simulation.judges.tabular import _refresh as refresh
from tacit.simulation.simulate import simulate
from tacit.support import Support

SIZES = [(3, 2, 4, 2), (5, 4, 2, 3), (2, 6, 3, 1)]
"""H, S, A, B"""


def rows_of(rng: np.random.Generator, index: Counters, L: int) -> Rows:
    blank = blank_rows(index, L)
    n = rng.exponential(50.0, blank.n.shape) * (rng.random(blank.n.shape) > 0.2)
    noise = (rng.exponential(9.0, n.shape) for _ in range(2))
    return Rows(*blank[:2], rng.random(blank.p.shape) / index.even.shape[1], rng.random(n.shape), n, *noise)


def indices(rng: np.random.Generator, H: int, S: int, A: int) -> list[CountShape]:
    """All counters, and those of some support."""
    moves = rng.random((S, A, S)) < 0.5
    moves[..., 0] |= ~moves.any(axis=-1)
    sizes = {"horizon": H, "num_states": S, "num_actions": A, "staged": True}
    return [CountShape(**sizes), CountShape(**sizes, support=Support(moves=moves, horizon=H))]


def flat(value) -> list[bytes]:
    if value is None:
        return []
    if isinstance(value, tuple):
        return [part for each in value for part in flat(each)]
    return [np.asarray(value).tobytes()]


def calls(rng: np.random.Generator, size: tuple[int, int, int, int]):
    """Every tiered kernel with arguments of its own."""
    H, S, A, B = size
    P, r = rng.dirichlet(np.ones(S), size=(H, S, A)), rng.random((H, S, A))
    rho = rng.dirichlet(np.ones(S))
    policies = rng.integers(0, A, (4, H, S))
    yield solve, (P, r, H)
    yield value_of, (P, r, rng.dirichlet(np.ones(A), size=(H, S)))
    yield alias_tables, (np.where(rng.random((S * A, S)) < 0.3, 0.0, rng.random((S * A, S))) + np.eye(S)[[0] * S * A],)
    tally = Tally(np.zeros(1), np.full((H, S), -1), np.zeros((H + 1, S)), np.zeros(1, dtype=np.int64))
    yield refresh, (Truth(P, r, np.zeros(S)), tally, policies[0])
    bands = Bands(*(rng.random(part) * H for part in ((H + 1, S), (H + 1, S), (H, S, A), (H, S, A))))
    for shape in indices(rng, H, S, A):
        for L in (1, H):
            index = counters_of(shape, L == 1)
            model = rows_of(rng, index, L)
            for proved in (None, ProvedBands(bands, rng.random((H, S, A)), rng.random((H, S, A)))):
                blank = np.zeros((9, H, S), dtype=np.int64)
                yield optimists, (model, proved, rho, 1.0, 25.0, 40.0, rng.random((9, H, S)), blank)
            yield pessimist, (model, H, 0.5, rng.random((H, S)))
            moved = index.by_row(rng.normal(3.0, 5.0, (B, *index.shape)))
            seen, earned = rng.normal(9.0, 9.0, (B, H, S, A)), rng.normal(size=(B, H, S, A))
            kept = Kept(*(rng.random((H, S, A)) for _ in range(3)))
            for steps in {L, H}:
                found = np.zeros((steps, S, A))
                yield mixture_visits, (model, rho, policies, rng.exponential(20.0, 4), found)
                yield policy_visits, (model, rho, 9.0, rng.random((H, S, A)), 2.0, found)
                weights = rng.random((steps, S, A, B)), rng.exponential(9.0, (steps, S, A))
                counts = *index.cells, index.single, moved, seen, earned
                yield weighted_rows, (*counts, *weights, kept, blank_rows(index, L))


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("seed", range(5))
def test_both_forms_give_the_same_bits(size, seed):
    seen = set()
    for tier, args in calls(np.random.default_rng(seed), size):
        mine, theirs = ([copy_state(value) for value in args] for _ in range(2))
        with np.errstate(all="ignore"):
            found = lazy_jit.interpreted(tier.compiled)(*mine)
        wanted = tier.compiled(*theirs)
        assert flat((found, *mine)) == flat((wanted, *theirs)), tier.compiled.__name__
        seen.add(tier.compiled.__name__)
    assert len(seen) == 9


@pytest.mark.parametrize("learner", ["bucb", "bucb:share_across_steps=true"])
def test_a_run_is_the_same_in_both_tiers(monkeypatch, learner):
    config = RunConfig(
        environment="riverswim", learner=learner, episodes=400, seeds=(0,), trust="shuffle", epsilon=1.0, delta=1e-6
    )
    parts = assemble(config)

    def regret():
        return simulate(parts.mdp, parts.learner, parts.privatizer, episodes=400, seed=3).regret.tobytes()

    monkeypatch.setattr(lazy_jit, "EAGER", True)
    compiled = regret()
    monkeypatch.setattr(lazy_jit.LazyJit, "_is_small", lambda *_: True)
    monkeypatch.setattr(lazy_jit.LazyJit, "_ready", False, raising=False)
    planning = (optimists, pessimist, mixture_visits, policy_visits, weighted_rows)
    for tier in (solve, value_of, alias_tables, refresh, *planning):
        monkeypatch.setattr(tier, "_ready", False)
        monkeypatch.setattr(tier, "compiled", None)  # nobody calls it
    assert regret() == compiled


def test_the_rule_counts_work(monkeypatch, tmp_path):
    monkeypatch.setenv("TACIT_CACHE_DIR", str(tmp_path / "first"))

    @kernel
    def total(values):
        found = 0.0
        for i in range(len(values)):
            found += values[i]
        return found

    tier = lazy_jit.LazyJit(total, lambda values: len(values))
    assert tier(np.ones(10)) == 10.0
    assert not total.overloads
    assert tier(np.ones(lazy_jit.CALL + 1)) == lazy_jit.CALL + 1
    assert total.overloads
    monkeypatch.setenv("TACIT_CACHE_DIR", str(tmp_path / "second"))
    total2 = kernel(total.py_func)
    tier = lazy_jit.LazyJit(total2, lambda values: lazy_jit.CALL)
    for _ in range(lazy_jit.BUDGET // lazy_jit.CALL):
        tier(np.ones(1))
        assert not total2.overloads
    tier(np.ones(1))
    assert total2.overloads


def test_closures_and_plain_functions_are_refused():
    def made(x):
        return lambda y: x + y

    with pytest.raises(TypeError, match="without a closure"):
        lazy_jit.interpreted(made(1))


SCRIPT = """
import sys
from numba.core import event
compiled = []
class Watch(event.Listener):
    def on_start(self, event): compiled.append(event.data["dispatcher"].py_func.__qualname__)
    def on_end(self, event): pass
event.register("numba:compile", Watch())
from tacit.cli import main
code = main(sys.argv[1:])
print(len(compiled), code)
"""


def test_the_first_command_of_the_readme_compiles_nothing(tmp_path):
    """With an empty cache: it took 17 seconds of a processor once, all but two of them for the compiler."""
    private = ["--trust", "central", "--epsilon", "1", "--delta", "1e-6"]
    words = ["run", "--environment", "riverswim", *private, "--episodes", "20000", "--seeds", "2"]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *words, "--workers", "1"],
        env={"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "0 0"
