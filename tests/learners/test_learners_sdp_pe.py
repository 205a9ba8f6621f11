"""SDP-PE as published: schedules, the two variants, constants, elimination, refusals; removed names."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from contract_calls import shown
from stage_tools import build, regrets, shape_of

import tacit
from tacit.data.counts import flow_counts, join_counts
from tacit.environments.registry import make
from tacit.errors import InvalidInput, NotSupported
from tacit.learners.sdp_pe import SDPPE, stage_lengths
from tacit.randomness import SimulationNoise, seed_streams
from tacit.runs.config import RunConfig

RIVER = make("riverswim")
TINY = make("riverswim:states=3,horizon=4")


@pytest.mark.parametrize(("variant", "cost"), [("2024", 2), ("2025", 3)])
@pytest.mark.parametrize("episodes", [200, 999, 20_000])
def test_stages_double_and_use_every_user(variant, cost, episodes):
    learner = SDPPE(shape=shape_of(RIVER), episodes=episodes, noise=build_noise(), variant=variant)
    lengths = stage_lengths(episodes, shape_of(RIVER), variant)
    assert sum(step.users for step in learner.steps) == episodes
    assert len(learner.steps) == 7 * len(lengths)
    assert len(learner.batches) == len(learner.steps) - 1  # the last batch ends the run and reports nothing
    for first, second in itertools.pairwise(lengths[:-1]):
        assert second == 2 * first
    crude = [step for step in learner.steps if step.layer is not None]
    assert min(step.users for step in crude) >= (RIVER.num_states * RIVER.num_actions if variant == "2024" else 2)
    assert cost * sum(lengths) <= episodes


def build_noise():
    return build("sdp-pe-plus", RIVER, None, 1_000)[1]


def test_what_cannot_work_is_refused():
    with pytest.raises(InvalidInput, match="one stage of sdp-pe must have 36 users"):
        build("sdp-pe", RIVER, None, 30)
    with pytest.raises(NotSupported, match="sdp-pe-plus"):
        build("sdp-pe", make("riverswim:states=5,horizon=8"), None, 20_000)
    with pytest.raises(InvalidInput, match="z belongs to the practical rule"):
        build("sdp-pe", RIVER, None, 20_000, constants="theory", z=1.0)
    with pytest.raises(InvalidInput, match="variant"):
        build("sdp-pe", RIVER, None, 20_000, variant="2026")


def play(learner, privatizer, mdp, seed, batches):
    """Run the first batches by hand; yields (plan, belief after it)."""
    streams = seed_streams(seed)
    belief, state = learner.begin(), privatizer.begin()
    for _ in range(batches):
        belief, plan = learner.plan(belief, streams.learner)
        assert sum(users for _, users in plan.groups) == plan.users
        parts = [flow_counts(mdp, policy, users, streams.world) for policy, users in plan.groups]
        state, released = privatizer.release(state, join_counts(parts), plan.query, SimulationNoise(streams.noise))
        belief = learner.update(belief, released)
        yield plan, belief


@pytest.mark.parametrize("variant", ["2024", "2025"])
def test_stages_build_a_crude_model_eliminate_and_forget(variant):
    learner, privatizer = build("sdp-pe", TINY, None, 40_000, variant=variant, z=0.5)
    H, sizes = TINY.horizon, []
    for number, (plan, belief) in enumerate(play(learner, privatizer, TINY, 0, 8 * (H + 1)), start=1):
        layer = (number - 1) % (H + 1)
        assert plan.query.layer == (layer if layer < H else None)
        if variant == "2024" and layer < H:
            counts = [users for _, users in plan.groups]
            assert sum(counts) == plan.users
        if layer < H:
            assert belief.frequent[layer].any()  # the crude model grows layer by layer
            assert not belief.frequent[layer + 1 :].any()
        else:
            assert not belief.P_cru.any()  # forgotten
            sizes.append(belief.active.size)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 2 ** (TINY.num_states * H)


def test_theory_constants_never_eliminate_at_published_sizes():
    """As printed, 2ξ exceeds the horizon at every stage, with any noise and even without."""
    for epsilon in (None, 1.0):
        for variant in ("2024", "2025"):
            learner, privatizer = build("sdp-pe", RIVER, epsilon, 20_000, constants="theory", variant=variant)
            E = privatizer.batch_precision(privatizer.batches[-7].users, privatizer.batches[-7].query)
            # The width falls with L, so the last stage is the one to look at.
            assert 2.0 * learner.width(learner.steps[-1].L, E) > RIVER.horizon
    # ... while a run long enough does eliminate: the rule is not vacuous in itself.
    learner, _ = build("sdp-pe", RIVER, None, 2_000)
    assert 2.0 * learner.width(10**9, 0.0) < 0.1


def test_consistent_counts_reach_the_learner_under_theory_constants():
    learner, privatizer = build("sdp-pe", TINY, 1.0, 2_000, constants="theory")
    streams = seed_streams(0)
    belief, state = learner.begin(), privatizer.begin()
    belief, plan = learner.plan(belief, streams.learner)
    batch = join_counts([flow_counts(TINY, policy, users, streams.world) for policy, users in plan.groups])
    _, released = shown(privatizer, state, batch, SimulationNoise(streams.noise), plan.query)
    E = privatizer.batch_precision(plan.users, plan.query)
    assert E > 0.0
    assert (released.transitions[0] > 0.0).all()
    np.testing.assert_allclose(released.transitions[0].sum(axis=-1), released.visits[0])
    assert (released.visits[0] >= batch.visits[0]).all()
    assert (np.abs(released.transitions[0] - batch.transitions[0]) <= E).all()
    assert not released.transitions[1:].any()  # nothing else was released


@pytest.mark.slow  # stages that eliminate, and noise that reaches them, are tested above
def test_private_elimination_is_slower_the_more_noise_there_is():
    """Regret on RiverSwim at K = 20,000: none < tight at epsilon 4 < printed, which stays at the uniform policy."""
    free = regrets("sdp-pe", RIVER, None, 20_000, [0]).mean()
    tight = regrets("sdp-pe", RIVER, 4.0, 20_000, [0]).mean()
    printed = regrets("sdp-pe", RIVER, 1.0, 20_000, [0], calibration="paper").mean()
    assert free < 0.5 < tight < 0.95 < printed
    assert printed > 0.95


def test_what_0_8_named_otherwise_is_read_with_a_warning_and_what_went_is_refused():
    asked = {"environment": TINY, "episodes": 2000, "seeds": 1}
    plain = tacit.run(**asked, learner="bucb", workers=1)
    with pytest.warns(DeprecationWarning, match="'sdp-bucb' is written 'bucb' now"):
        old = tacit.run(**asked, learner="sdp-bucb", workers=1)
    assert old.regret.tobytes() == plain.regret.tobytes()
    assert old.config.to_dict() == plain.config.to_dict() | {"learner": "sdp-bucb"}  # stored runs keep their name
    with pytest.warns(DeprecationWarning, match="'bucb:pooled=weighed' is written 'bucb:share_across_steps=true' now"):
        shared = RunConfig(environment="riverswim", episodes=2000, seeds=(0,), learner="bucb:pooled=weighed")
    assert shared.learner == "bucb:share_across_steps=true"
    assert shared.to_dict()["learner"] == "bucb:pooled=weighed"
    assert RunConfig.from_dict(shared.to_dict()) == shared
    for gone in ("pooled=true", "pooled=tested", "without=weights"):
        with pytest.raises(InvalidInput, match=f"bucb:{gone} went with version 0.9"):
            tacit.run(**asked, learner=f"bucb:{gone}")
        assert RunConfig(**asked | {"seeds": (0,)}, learner=f"bucb:{gone}").to_dict()["learner"] == f"bucb:{gone}"
