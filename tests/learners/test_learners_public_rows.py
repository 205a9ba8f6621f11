"""What a declared support tells every learner of counts about the rows of its model."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tacit.environments.registry import make
from tacit.environments.tabular import TabularMDP
from tacit.errors import NotSupported
from tacit.learners.fixed_bonus import PUCB, PrivateUCBVI
from tacit.planning.dynamic import solve
from tacit.planning.public_rows import public_rows
from tacit.protocol import PrivateStatistics
from tacit.release.none import Unprotected
from tacit.released.counts import CountShape, empty_counts
from tacit.released.precision import CountPrecision, now_radius
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.simulation.simulate import simulate
from tacit.support import Support

RIVER = make("riverswim:states=3,horizon=3")
WIDE = TabularMDP(
    P=RIVER.stage_P[0], r=RIVER.stage_r[0], rho=RIVER.rho, horizon=3,
    support=Support(moves=np.ones((3, 2, 3)), horizon=3),
)  # fmt: skip
LOCAL = {"trust": "local", "epsilon": 1.0, "delta": 0.0}
CENTRAL = {"trust": "central", "epsilon": 1.0, "delta": 1e-6}
CASES = [
    ("ucbvi", CENTRAL, None),
    ("ucbvi:time_homogeneous=true", LOCAL, None),
    ("ucbvi:bonus=bernstein", {}, "theory"),
    ("ldp-obi", LOCAL, "theory"),
    ("dp-ucbvi", CENTRAL, None),
    ("dp-ucbvi:rows=kept", CENTRAL, None),
    ("dp-ucbvi", CENTRAL, "theory"),
    ("private-ucb-po", CENTRAL, None),
    ("private-ucb-po", CENTRAL, "theory"),
    ("private-ucb-vi", CENTRAL, "theory"),
    ("pucb", CENTRAL, "theory"),
    ("psrl", CENTRAL, None),
    ("ldp-psrl:rewards=beta,prior=noise-aware", LOCAL, None),
]


def config(learner, private, constants, environment=RIVER, support="declared"):
    return RunConfig(
        learner=learner, environment=environment, episodes=400, seeds=(0,), support=support, constants=constants,
        checkpoints=2, **private,
    )  # fmt: skip


def flow(world, users):
    """The expected counts of so many people who choose evenly."""
    shape = CountShape(horizon=3, num_states=3, num_actions=2, staged=True)
    at, counts = world.rho * users, empty_counts(shape)
    for h in range(3):
        counts.visits[h] = at[:, None] / 2
        counts.rewards[h] = counts.visits[h] * world.r[h]
        if h < 2:
            counts.transitions[h] = counts.visits[h][..., None] * world.P[h]
            at = counts.transitions[h].sum(axis=(0, 1))
    counts.squares[:] = counts.rewards
    counts.users[0] = int(users)
    return counts


@pytest.mark.parametrize(("name", "private", "constants"), CASES)
def test_a_full_support_changes_no_bit_of_a_plan(name, private, constants):
    found = []
    for support in (None, "declared"):
        learner = assemble(config(name, private, constants, WIDE, support)).learner
        coins, belief = np.random.default_rng(3), learner.begin()
        for users in (50.0, 5_000.0, 200_000.0):
            counts = flow(RIVER, users)
            noise = np.random.default_rng(int(users))
            for part in (counts.transitions[:2], counts.visits, counts.rewards):
                part += noise.normal(0.0, 8.0 if private else 0.0, part.shape)
            counts.variance[:] = 64.0 if private else 0.0
            if not learner.shape.staged:
                pooled = (part.sum(axis=0, keepdims=True) for part in counts[:4])
                counts = counts._replace(**dict(zip(counts._fields, pooled, strict=False)))
            belief, plan = learner.plan(belief, coins)
            belief = learner.update(belief, PrivateStatistics(counts, Unprotected(shape=learner.shape).claim))
            found.append(plan.policy.actions)
        found.append(learner.plan(belief, coins)[1].policy.actions)
    assert all(np.array_equal(one, other) for one, other in zip(found[:4], found[4:], strict=True))


def test_limits_are_the_largest_returns_that_the_support_allows():
    shape = CountShape(horizon=3, num_states=3, num_actions=2, staged=True, support=RIVER.support)
    public, moves, pays = public_rows(shape), RIVER.support.moves[0], RIVER.support.rewards[0]
    assert public.widest == int(moves.sum(axis=2).max())
    for s, a in itertools.product(range(3), range(2)):
        best = 0.0
        for path in itertools.product(range(3), range(2), range(3), range(2)):
            t, b, u, c = path
            if moves[s, a, t] and moves[t, b, u]:
                best = max(best, float(pays[s, a]) + float(pays[t, b]) + float(pays[u, c]))
        assert public.limit[0, s, a] == best


@pytest.mark.parametrize("kind", [PrivateUCBVI, PUCB])
def test_proved_widths_stay_optimistic_at_the_worst_noise_that_they_cover(kind):
    support = RIVER.support
    shape = CountShape(horizon=3, num_states=3, num_actions=2, staged=True, support=support)
    learner = kind(shape=shape, episodes=400, precision=CountPrecision(scale=np.zeros(3)))
    counts = flow(RIVER, 4e8)
    counts.variance[:] = [1e6, 2e6, 1e6]
    precision, log_term = learner.parameters.precision, learner.parameters.log_precision
    E = [now_radius(precision, counts.variance, family, log_term) for family in range(3)]
    counts.transitions.reshape(-1)[support.released.moves] -= E[0]
    counts.visits.reshape(-1)[support.released.zeros] -= E[1]
    counts.rewards.reshape(-1)[support.released.ones] -= E[2]
    h, s, a = np.nonzero(support.released.single >= 0)
    counts.transitions[h, s, a, support.released.single[h, s, a]] = counts.visits[h, s, a]
    Q, _, _ = solve(np.array(RIVER.stage_P), np.array(RIVER.stage_r), 3)
    within = np.repeat(support.reach[..., np.newaxis], 2, axis=2)

    def planned(one):
        belief = one.update(one.begin(), PrivateStatistics(counts, Unprotected(shape=shape).claim))
        return one.plan(belief, np.random.default_rng(0))[0].Q

    found = planned(learner)
    assert (found >= Q - 1e-9)[within].all()
    assert (found < np.array([3.0, 2.0, 1.0])[:, None, None])[within].any()  # the widths are not idle
    bare = kind(shape=shape, episodes=400, precision=CountPrecision(scale=np.zeros(3)))
    bare.parameters = bare.parameters._replace(log_precision=0.0, log_term=0.0)
    assert not (planned(bare) >= Q - 1e-9)[within].all()


def test_printed_constants_refuse_a_declaration():
    with pytest.raises(NotSupported, match="printed"):
        assemble(config("ldp-obi", {**LOCAL, "mechanism": "laplace"}, "printed"))


@pytest.mark.parametrize("sees", [None, (0, 0, 1)])
@pytest.mark.parametrize("learner", ["ldp-obi:time_homogeneous=true", "private-ucb-po"])
def test_a_support_and_features_go_together_under_local_trust(learner, sees):
    parts = assemble(RunConfig(
        learner=learner, environment=RIVER, episodes=200, seeds=(0,), support="declared", sees=sees, batch=50,
        checkpoints=2, **LOCAL,
    ))  # fmt: skip
    assert parts.privatizer.shape.support.num_states == (3 if sees is None else 2)
    found = simulate(parts.mdp, parts.learner, parts.privatizer, episodes=200, seed=0)
    assert 0.0 <= found.regret[-1] < np.inf
    assert parts.privatizer.certificate().epsilon <= 1.0


def test_a_live_world_declares_what_it_knows():
    import tacit

    lake = {"horizon": 3, "options": {"is_slippery": False}}
    size = tacit.live("FrozenLake-v1", **lake).num_states
    world = tacit.live("FrozenLake-v1", **lake, support=Support(moves=np.ones((size, 4, size)), horizon=3))
    assert type(world).from_dict(world.to_dict()) == world
    assert world.fingerprint() != tacit.live("FrozenLake-v1", **lake).fingerprint()
    parts = assemble(config("psrl", LOCAL, None, world))
    assert parts.privatizer.shape.support == world.support
