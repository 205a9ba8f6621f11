"""A study over files and a simulation with the same seeds for people, learner and noise plan the same, bit for bit."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from benchmarks.bench_warm_start import released_log
from study_fakes import REHEARSAL
from study_world import fast_directory

from tacit.data.trajectories import Trajectories, prepare_world, roll_out
from tacit.documents import canonical
from tacit.environments.registry import make_environment
from tacit.environments.state_features import seen_through
from tacit.learners import ldp_rts
from tacit.policies import policy_from_dict, policy_to_dict, tabular
from tacit.randomness import SimulationNoise, seed_streams
from tacit.release.returns import ReturnRelease
from tacit.study.bundle import Bundle
from tacit.study.collector import Collector
from tacit.study.design import plan_study
from tacit.study.device import Device
from tacit.study.study import Study

WORLD = "riverswim:states=3,horizon=3"
SIZES = {"states": 3, "actions": 2, "horizon": 3, "epsilon": 2.0, "delta": 1e-6, "stages": 3, "target": 24}
CASES = [
    ("bucb", "shuffle"),
    ("ucbvi", "central"),
    ("sdp-pe-plus", "central"),
    ("psrl", "local"),
    pytest.param("ldp-psrl", "local", marks=pytest.mark.slow),
    ("dp-ppo:epochs=2", "central"),
]
SEES = (0, 1, 1)
DECLARED = {
    "support": {"support": make_environment(WORLD).support},
    "features": {"sees": SEES},
    "both": {"support": make_environment(WORLD).support, "sees": SEES},
}


RETURNS = {"epsilon": 2.0, "delta": 0.0, "stages": 3, "target": 50}
OTHERS = [
    ("ucbvi:time_homogeneous=true", "central", "both"),
    ("psrl", "local", "both"),
    ("psrl:time_homogeneous=true", "local", "support"),
    ("ucbvi", "shuffle", "support"),
    ("sdp-pe-plus", "central", "support"),
]
"""Other learners of counts with declarations: totals, batches and messages."""


def lived_by(policy, declared):
    """The policy over states that people follow."""
    return seen_through(make_environment(WORLD), SEES).lift(policy) if "sees" in declared else tabular(policy)


def people(plan, number, world, coins, declared):
    """Trajectories of people in the order in which they report, as they are seen, and whose policy they follow."""
    followed = [(policy, count) for policy, count in plan.arms(number) if count]
    for arm, (policy, count) in enumerate(followed):
        drawn = roll_out(world, lived_by(policy, declared), count, coins)
        states = np.array(SEES)[drawn.states] if "sees" in declared else drawn.states
        for one in zip(states, drawn.actions, drawn.rewards, strict=True):
            yield arm, one


def encoded(channel, plan, arm, one, noise):
    if isinstance(channel, ReturnRelease):
        return channel.answer(plan.query, arm, Episode(*one), noise)
    return channel.encode(Episode(*one), noise)


def simulated(design, seed: int, world, declared) -> list[bytes]:
    """The policies of a simulation: every stage of the channels, then what was learned."""
    parts, streams = design.parts(), seed_streams(seed)
    learner, noise = parts.learner, SimulationNoise(streams.noise)
    belief, secret = learner.begin(), parts.channels[0].begin_secret()
    memory, found = parts.channels[0].begin_memory(), []
    for channel in parts.channels:
        belief, plan = learner.plan(belief, streams.learner)
        found += [canonical(policy_to_dict(policy)) for policy, count in plan.arms(plan.users) if count]
        lived = people(plan, plan.users, world, streams.world, declared)
        bodies = [encoded(channel, plan, arm, one, noise) for arm, one in lived]
        for question in range(plan.releases):
            belief, query = learner.ask(belief, plan, question)
            secret, payload = channel.release(secret, bodies, query, noise)
            memory, released = channel.read(memory, payload, len(bodies))
            belief = learner.update(belief, released)
    if not learner.uses_last:
        belief, plan = learner.plan(belief, streams.learner)
    found.append(canonical(policy_to_dict(learner.policy(belief, plan.policy))))
    return found


class Episode:
    def __init__(self, states, actions, rewards) -> None:
        self.states, self.actions, self.rewards = states, actions, rewards


def studied(design, seed: int, world, place: Path, declared) -> list[bytes]:
    """The same over files."""
    streams, found, person = seed_streams(seed), [], 0
    noise = SimulationNoise(streams.noise)
    Study.new(place / "study", design, seed=seed)
    Collector.new(place / "collector", design, noise="simulation")
    while True:
        # Everybody starts anew from what is on the disk.
        study, collector = Study(place / "study"), Collector(place / "collector", source=noise)
        data = study.plan()
        bundle = Bundle.parse(data)
        if bundle["query"] is None:
            return [*found, canonical(policy_to_dict(study.policy()))]
        collector.open(data)
        if bundle["question"] == 0:
            found += [canonical(policy_to_dict(policy)) for policy, _ in bundle.arms]
            reports = []
            for arm, (policy, weight) in enumerate(bundle.arms):
                drawn = roll_out(world, lived_by(policy, declared), int(weight * bundle["target"]), streams.world)
                for states, actions, rewards in zip(drawn.states, drawn.actions, drawn.rewards, strict=True):
                    device = Device(None, **REHEARSAL, noise=noise)
                    device.accept(data)
                    device.kept = replace(device.kept, arm=arm)  # its lot: in the order of the simulation
                    reports.append((device.report(Episode(states, actions, rewards)), f"person {person}"))
                    person += 1
            assert set(collector.add_many(reports)) == {"counted"}
            collector.close()
        assert study.take(collector.release(study.head)) == "taken"


def equal(learner, trust, declared):
    world = prepare_world(make_environment(WORLD))
    design = plan_study(learner=learner, trust=trust, **{**SIZES, **declared})
    with fast_directory() as folder:
        found = studied(design, 5, world, Path(folder), declared)
    assert len(found) > len(design.channels)
    assert found == simulated(design, 5, world, declared)
    return design


def test_a_study_that_starts_with_a_log_plans_what_a_simulation_plans():
    log = released_log(WORLD, 500, seed=3)
    design = equal("auto", "central", {"start": log, "states": log.states, "actions": log.actions})
    assert (design.learner, design.epsilon_with_log, design.start) == ("bucb", 2.0, log)


@pytest.mark.parametrize(("learner", "trust"), CASES)
def test_a_study_plans_what_a_simulation_plans(learner, trust):
    equal(learner, trust, {})


@pytest.mark.parametrize(
    ("pooled", "trust", "declared"),
    [
        pytest.param(*case, marks=() if case[::2] in {("false", "support"), ("true", "both")} else pytest.mark.slow)
        for case in product(("false", "true"), ("central", "shuffle"), DECLARED)
    ],
)
def test_a_study_with_declarations_plans_what_a_simulation_plans(pooled, trust, declared):
    declared_as_seen(f"bucb:share_across_steps={pooled}", trust, declared)


@pytest.mark.parametrize(
    ("learner", "trust", "declared"),
    [pytest.param(*case, marks=() if case in OTHERS[:2] else pytest.mark.slow) for case in OTHERS],
)
def test_other_learners_with_declarations_plan_what_a_simulation_plans(learner, trust, declared):
    declared_as_seen(learner, trust, declared)


def declared_as_seen(learner, trust, declared):
    design = equal(learner, trust, DECLARED[declared])
    policy = policy_from_dict(design.fallback)
    assert tabular(policy).probabilities(2).shape == (3, 3 if declared == "support" else 2, 2)


@pytest.mark.parametrize("usual", [{}, {"baseline": "always 0", "loss_budget": 0.3}, {"sees": SEES}])
def test_a_study_of_one_bit_returns_plans_what_a_simulation_plans(usual, monkeypatch):
    monkeypatch.setattr(ldp_rts, "BATCHES", 4)  # fewer and larger stages than the learner would plan
    design = equal("ldp-rts", "local", {**RETURNS, **usual})
    if "sees" not in usual:
        world = prepare_world(make_environment(WORLD))
        assert looped(design, 5, world) == simulated(design, 5, world, usual)


def looped(design, seed: int, world) -> list[bytes]:
    """The same through the privatizer of simulations, whole batches at a time."""
    parts, streams = design.parts(), seed_streams(seed)
    learner, noise, channels = parts.learner, SimulationNoise(streams.noise), parts.privatizer
    belief, state, found = learner.begin(), channels.begin(), []
    for _ in parts.channels:
        belief, plan = learner.plan(belief, streams.learner)
        arms = [(policy, count) for policy, count in plan.arms(plan.users) if count]
        found += [canonical(policy_to_dict(policy)) for policy, _ in arms]
        drawn = [roll_out(world, tabular(policy), count, streams.world) for policy, count in arms]
        users = Trajectories(
            *(np.concatenate([getattr(one, name) for one in drawn]) for name in ("states", "actions", "rewards"))
        )
        state, released = channels.release(state, users, plan.query, noise)
        belief = learner.update(belief, released)
    belief, plan = learner.plan(belief, streams.learner)
    return [*found, canonical(policy_to_dict(learner.policy(belief, plan.policy)))]
