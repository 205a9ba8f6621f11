"""BUCB with pooled steps that weigh what they saw: weights, reductions, and what it refuses."""

import numpy as np
import pytest

import tacit
from tacit.environments.registry import make
from tacit.learners.bucb import BUCB, BUCBBelief
from tacit.planning.flow_projection import Kept, counters_of
from tacit.planning.weighted_rows import blank_rows, mixture_visits, row_weights, weighted_rows
from tacit.release.none import Unprotected
from tacit.released.counts import CountShape
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.simulation.simulate import simulate

SHAPE = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
CLAIM = {"epsilon": 1.0, "delta": 1e-6}


def pooled_model(moved, visits, rewards, weights, variance, kept):
    """The pooled model of counts [B,H,...], all of which are released; kept [H] of a transition and of a reward."""
    _, H, S, A = visits.shape
    index = counters_of(CountShape(horizon=H, num_states=S, num_actions=A, staged=True), True)
    moves, cells = (np.broadcast_to(part[:, None, None], (H, S, A)).copy() for part in kept)
    model = blank_rows(index, 1)
    weighted_rows(
        *index.cells, index.single, index.by_row(moved), visits, rewards, weights, variance,
        Kept(moves, 2.0 * cells, cells), model,
    )  # fmt: skip
    return model


def assembled(**changed):
    chosen = {
        "environment": "riverswim",
        "trust": "central",
        "learner": "bucb:share_across_steps=true",
        **CLAIM,
        **changed,
    }
    return assemble(RunConfig(episodes=20_000, seeds=(0,), **chosen))


def test_steps_weigh_as_in_one_system_of_all_batches_and_steps():
    """w = (Σ + diag(m/4))⁻¹ m over batches and steps together, whose noise is independent from step to step."""
    rng = np.random.default_rng(0)
    H, B = 3, 4
    m = rng.exponential(30.0, (H, 1, 1, B))
    root = rng.normal(size=(B, B))
    covariance = root @ root.T + 5.0 * np.eye(B)
    weights, variance = row_weights(m, covariance, together=True)
    whole = np.kron(np.eye(H), covariance)
    raw = np.maximum(np.linalg.solve(whole + np.diag(m.ravel() / 4.0), m.ravel()), 0.0)
    np.testing.assert_allclose(weights.ravel(), raw / raw.max())
    assert variance.sum() == pytest.approx(float(weights.ravel() @ whole @ weights.ravel()))


def test_no_other_weights_say_more_about_a_row():
    """(w'm)² / w'(Σ + diag(m/4))w is largest there: what was seen against noise and sampling."""
    rng = np.random.default_rng(1)
    m = rng.exponential(30.0, (4, 1, 1, 3))
    covariance = np.diag([40.0, 60.0, 90.0])
    system = np.kron(np.eye(4), covariance) + np.diag(m.ravel() / 4.0)

    def told(w):
        return float(w @ m.ravel()) ** 2 / float(w @ system @ w)

    best = row_weights(m, covariance, together=True)[0].ravel()
    plain = np.tile(row_weights(m.sum(axis=0, keepdims=True), covariance)[0].ravel(), 4)
    assert told(best) > told(plain)
    for _ in range(200):
        assert told(best) >= told(np.maximum(best + 0.05 * rng.normal(size=best.size), 0.0)) - 1e-9


def test_one_weight_for_all_steps_is_the_plain_sum():
    """The same bits: rows of one weight, and rows whose weight stands at every step."""
    rng = np.random.default_rng(2)
    B, H, S, A = 3, 4, 3, 2
    counts = rng.normal(30.0, 9.0, (B, H, S, A, S)), rng.normal(90.0, 9.0, (B, H, S, A)), rng.normal(size=(B, H, S, A))
    weights, variance = rng.random((1, S, A, B)), rng.exponential(9.0, (1, S, A))
    kept = rng.random(H), rng.random(H)
    found = []
    for steps in (1, H):
        every = np.repeat(weights, steps, axis=0), np.repeat(variance, steps, axis=0)
        found.append(pooled_model(*counts, *every, kept)[2:])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_row_is_the_weighted_sum_over_batches_and_steps():
    rng = np.random.default_rng(3)
    B, H, S, A = 2, 3, 3, 2
    moved, visits = rng.uniform(40.0, 60.0, (B, H, S, A, S)), rng.uniform(100.0, 200.0, (B, H, S, A))
    rewards = rng.uniform(10.0, 90.0, (B, H, S, A))
    weights, variance = rng.random((H, S, A, B)), rng.exponential(1.0, (H, S, A))
    kept = rng.random(H), rng.random(H)
    model = pooled_model(moved, visits, rewards, weights, variance, kept)
    total = np.einsum("hsab,bhsat->sat", weights[:-1], moved[:, :-1])
    np.testing.assert_allclose(model.n[0], total.sum(axis=2))
    np.testing.assert_allclose(model.P[0], total / total.sum(axis=2, keepdims=True))
    seen = np.einsum("hsab,bhsa->sa", weights, visits)
    np.testing.assert_allclose(model.r[0], np.einsum("hsab,bhsa->sa", weights, rewards) / seen)
    np.testing.assert_allclose(model.count_variance[0], np.einsum("h,hsa->sa", kept[0], variance))
    np.testing.assert_allclose(model.reward_variance[0], np.einsum("h,hsa->sa", kept[1], variance))


def test_visits_of_a_pooled_model_are_told_step_by_step():
    """Summed over the steps they are what the pooled form finds, and they are those of the staged model."""
    mdp = make("riverswim")
    policies, each = np.random.default_rng(0).integers(0, 2, (3, 6, 4)), np.array([10.0, 20.0, 30.0])
    found = {}
    for rows, steps in ((1, 6), (1, 1), (6, 6)):
        model = blank_rows(counters_of(SHAPE, rows == 1), rows)._replace(p=np.array(mdp.P)[:rows].reshape(-1, 4))
        found[rows, steps] = np.zeros((steps, 4, 2))
        mixture_visits(model, np.array(mdp.rho), policies, each, found[rows, steps])
    np.testing.assert_array_equal(found[1, 6], found[6, 6])
    np.testing.assert_allclose(found[1, 6].sum(axis=0), found[1, 1][0])


def test_with_one_step_it_is_bucb():
    """H = 1: steps apart and shared are one learner, bit for bit."""
    world = "riverswim:states=3,horizon=1"
    regrets = set()
    for pooled in ("false", "true"):
        parts = assembled(environment=world, learner=f"bucb:share_across_steps={pooled}")
        run = simulate(parts.mdp, parts.learner, parts.privatizer, episodes=20_000, seed=1)
        regrets.add(run.regret.tobytes())
    assert len(regrets) == 1


def test_without_noise_its_model_is_the_pooled_empirical_one():
    mdp = make("riverswim")
    noise = Unprotected(shape=SHAPE, batches=())
    learner = BUCB(shape=SHAPE, episodes=4000, noise=noise, pooled=True)
    belief = simulate(mdp, learner, noise.planned(learner.batches), episodes=4000, seed=0).belief
    model, _ = learner.model(belief)
    counts = belief.transitions.sum(axis=(0, 1))
    total = counts.sum(axis=2, keepdims=True)
    known = total[..., 0] > 0.5
    np.testing.assert_allclose(model.P[0][known], (counts / np.maximum(total, 1))[known])


def test_steps_that_nobody_reaches_weigh_next_to_nothing():
    """Everybody begins at the left bank: nobody is at the right one in the first two steps."""
    parts = assembled(trust="shuffle")
    learner, seen = parts.learner, []

    class Watching(BUCB):
        def _rows(self, belief: BUCBBelief, weights, variance):
            seen.append(weights)
            return super()._rows(belief, weights, variance)

    learner.__class__ = Watching
    simulate(parts.mdp, learner, parts.privatizer, episodes=20_000, seed=0)
    right = seen[-1][:, 3, 1]  # [step, batch] of the last state under the action that swims
    assert right[:2].max() < 0.1
    assert right[3:].max() == 1.0


@pytest.mark.parametrize("trust", ["none", "central", "shuffle"])
@pytest.mark.parametrize("constants", ["practical", "valid"])
def test_it_learns_riverswim_under_every_trust_model_and_rule(trust, constants):
    claim = {} if trust != "none" else {"epsilon": None, "delta": None}
    parts = assembled(trust=trust, constants=constants, **claim)
    best, uniform = parts.values
    run = simulate(parts.mdp, parts.learner, parts.privatizer, episodes=20_000, seed=0, checkpoints=[20_000])
    assert run.regret[-1] < 0.35 * 20_000 * (best - uniform)


@pytest.mark.parametrize("budget", [None, 0.1])
def test_it_starts_from_a_baseline_and_keeps_to_a_budget(budget):
    start = "" if budget else ",start=baseline"
    result = tacit.run(
        environment="treatment", learner=f"bucb:share_across_steps=true{start}", episodes=2000, seeds=1,
        trust="central", baseline="uniform", loss_budget=budget, workers=1, **CLAIM,
    )  # fmt: skip
    assert result.certificate.epsilon <= 1.0
    assert result.config.learner.startswith("bucb:share_across_steps=true")


def test_a_declared_support_is_learned_over_and_auto_does_so():
    parts = assembled(support="declared")
    run = simulate(parts.mdp, parts.learner, parts.privatizer, episodes=20_000, seed=0, checkpoints=[20_000])
    best, uniform = parts.values
    assert run.regret[-1] < 0.2 * 20_000 * (best - uniform)
    shared = {"environment": "riverswim", "episodes": 2000, "seeds": (0,), "trust": "shuffle", **CLAIM}
    assert RunConfig(**shared).learner == "bucb:share_across_steps=true"
    assert RunConfig(**shared, support="declared").learner == "bucb:share_across_steps=true"


def test_auto_shares_steps_in_live_worlds_and_with_a_budget_too():
    live = RunConfig(
        environment="gymnasium:papers.worlds:tacit/Titration-v0", episodes=2000, seeds=(0,), trust="shuffle", **CLAIM
    )
    assert live.learner == "bucb:share_across_steps=true"
    careful = RunConfig(
        environment="treatment",
        episodes=2000,
        seeds=(0,),
        trust="central",
        baseline="uniform",
        loss_budget=0.1,
        **CLAIM,
    )
    assert careful.learner == "bucb:share_across_steps=true"
