"""`bucb` over a declared support, and every learner that has no use for one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tacit
from tacit.environments.registry import make
from tacit.environments.tabular import TabularMDP
from tacit.errors import InvalidInput, NotSupported, UnknownName
from tacit.learners.bucb import BUCB
from tacit.learners.table import LEARNERS
from tacit.planning.dynamic import solve
from tacit.planning.weighted_rows import pessimist
from tacit.protocol import PrivateStatistics
from tacit.release.none import Unprotected
from tacit.released.counts import CountShape, empty_counts
from tacit.released.moments import MomentQuery
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.simulation.simulate import simulate
from tacit.support import Support

RIVER = "riverswim:states=3,horizon=3"
UNABLE = {"ldp-rts", "rlsvi", "dp-pg", "dp-npg", "dp-trpo", "dp-ppo", "uniform", "optimal"}


def config(learner="bucb", **given):
    values = {"environment": RIVER, "episodes": 400, "seeds": (0,), "support": "declared", "checkpoints": 2}
    return RunConfig(learner=learner, **{**values, **given})


@pytest.mark.parametrize("pooled", [False, True])
def test_exact_counts_become_the_true_model(pooled):
    river = make(RIVER)
    shape = CountShape(horizon=3, num_states=3, num_actions=2, staged=True, support=river.support)
    silent = Unprotected(shape=shape, batches=())
    learner = BUCB(shape=shape, episodes=100, noise=silent, pooled=pooled)
    n = 1e6
    at, counts = river.rho * n, empty_counts(shape)
    for h in range(3):
        counts.visits[h] = at[:, None] / 2
        counts.rewards[h] = counts.visits[h] * river.r[h]
        counts.transitions[h] = counts.visits[h][..., None] * river.P[h]
        at = counts.transitions[h].sum(axis=(0, 1))
    counts.transitions.reshape(-1)[np.setdiff1d(np.arange(counts.transitions.size), river.support.released.moves)] = 0.0
    counts.users[0] = n
    belief, _ = learner.plan(learner.begin(), np.random.default_rng(0))
    belief = learner.update(belief, PrivateStatistics(counts, silent.claim))
    model, rho = learner.model(belief)
    assert rho.tolist() == river.rho.tolist()
    for stage in range(len(model.r)):
        for s in np.flatnonzero(river.support.reach[min(stage, 2)]):
            for a in range(2):
                if len(model.r) == 1 or stage < 2:  # the last step leads nowhere
                    assert np.allclose(model.P[stage, s, a], river.P[stage, s, a])
                assert model.r[stage, s, a] == pytest.approx(river.r[stage, s, a])
    greedy = pessimist(model, 3, 1.0, np.zeros((3, 3)))
    _, _, best = solve(np.array(river.stage_P), np.array(river.stage_r), 3)
    reach = river.support.reach
    assert np.array_equal(greedy[reach], best[reach])


@pytest.mark.parametrize("rule", [{}, {"pooled": True}], ids=str)
def test_a_support_that_excludes_nothing_is_no_support(rule):
    """The same model and the same plans, bit for bit, where every row is known."""
    rng = np.random.default_rng(0)
    plain = CountShape(horizon=4, num_states=3, num_actions=2, staged=True)
    told = replace(plain, support=Support(moves=np.ones((3, 2, 3)), horizon=4))
    found = []
    counts = empty_counts(plain)
    counts.transitions[:-1] = 5 + rng.poisson(4.0, (3, 3, 2, 3))
    counts.visits[:-1], counts.visits[-1] = counts.transitions[:-1].sum(axis=3), rng.poisson(9.0, (3, 2))
    counts.rewards[:], counts.users[0] = counts.visits * rng.random(counts.visits.shape), 60
    for shape in (plain, told):
        silent = Unprotected(shape=shape, batches=())
        learner = BUCB(shape=shape, episodes=400, noise=silent, **rule)
        belief, _ = learner.plan(learner.begin(), np.random.default_rng(0))
        belief = learner.update(belief, PrivateStatistics(counts, silent.claim))
        model, rho = learner.model(belief)
        policies = [learner.exploiter(belief, model, np.random.default_rng(1)).actions]
        policies += [
            policy.actions for policy, _ in learner.explorers(belief, model, rho, 100, np.random.default_rng(2))
        ]
        found.append((model.P, *model[3:], rho, *policies))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("trust", ["none", "central", "shuffle"])
def test_a_run_uses_what_is_declared_and_says_so(trust):
    private = {} if trust == "none" else {"trust": trust, "epsilon": 1.0, "delta": 1e-6}
    parts = assemble(config(**private))
    assert not parts.learner.counters.full
    assert assemble(config(support=None, **private)).learner.counters.full
    assert parts.privatizer.shape.support == make(RIVER).support
    found = simulate(parts.mdp, parts.learner, parts.privatizer, episodes=400, seed=0)
    assert 0.0 <= found.regret[-1] < np.inf
    plain = parts.config.to_dict()
    assert plain["support"] == "declared"
    assert "--support declared" in parts.config.command()
    assert RunConfig.from_dict(plain) == parts.config
    assert "support" not in config(support=None, **private).to_dict()


@pytest.mark.slow
def test_a_support_halves_the_regret_of_the_river():
    private = {"trust": "central", "epsilon": 1.0, "delta": 1e-6, "environment": "riverswim", "episodes": 20_000}
    shares = [
        tacit.run(**{**config(**private, support=told).to_dict(), "seeds": 6}).relative_regret
        for told in (None, "declared")
    ]
    assert shares[1] < 0.7 * shares[0]


def test_every_learner_of_counts_uses_a_declaration_and_all_others_refuse_it():
    for name, row in LEARNERS.items():
        if name in UNABLE or row.losses is not None or row.asks is MomentQuery:
            with pytest.raises(NotSupported, match="declared support"):
                assemble(config(name))
        else:
            assert assemble(config(name)).learner.shape.support == make(RIVER).support
    with pytest.raises(NotSupported, match="no counter that could be left out"):
        assemble(config("ldp-rts", trust="local", epsilon=1.0, delta=0.0))
    with pytest.raises(NotSupported, match="layers are its public support"):
        assemble(config("uc-o-reps", environment="layered", adversary="iid"))


def test_declarations_are_refused_where_there_are_none():
    river = make(RIVER)
    bare = TabularMDP(P=river.stage_P[0], r=river.stage_r[0], rho=river.rho, horizon=3, name="bare")
    with pytest.raises(InvalidInput, match="bare must declare its support"):
        assemble(config(environment=bare))
    with pytest.raises(UnknownName, match="declared"):
        config(support="known")
    shape = CountShape(horizon=3, num_states=3, num_actions=2, staged=True, support=river.support)
    unable = BUCB(shape=shape, episodes=100, noise=Unprotected(shape=shape, batches=()))
    unable.over_support = False
    with pytest.raises(NotSupported, match="does not learn over a declared support"):
        simulate(river, unable, Unprotected(shape=shape, batches=()), episodes=100, seed=0)


def test_models_with_other_declarations_are_other_models():
    river = make(RIVER)
    wide = Support(moves=np.ones((3, 2, 3)), horizon=3)
    same = TabularMDP(P=river.stage_P[0], r=river.stage_r[0], rho=river.rho, horizon=3, support=wide)
    assert same.fingerprint() == river.fingerprint()
    assert same != river
    plain = config(environment=same).to_dict()
    assert RunConfig.from_dict(plain, model=same) == config(environment=same)
    with pytest.raises(InvalidInput, match="declared support with fingerprint"):
        RunConfig.from_dict(plain, model=river)
