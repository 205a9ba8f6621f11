"""A study over files and a simulation with the same seeds for people, learner and noise plan the same, bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest
from study_world import fast_directory

from tacit.data.trajectories import prepare_world, roll_out
from tacit.environments.registry import make_environment
from tacit.policies import policy_to_dict, tabular
from tacit.randomness import SimulationNoise, seed_streams
from tacit.runs.signature import canonical
from tacit.study.bundle import Bundle
from tacit.study.collector import Collector
from tacit.study.design import plan_study
from tacit.study.device import Device
from tacit.study.study import Study

WORLD = "riverswim:states=3,horizon=3"
SIZES = {"states": 3, "actions": 2, "horizon": 3, "epsilon": 2.0, "delta": 1e-6, "stages": 3, "target": 24}
CASES = [
    ("sdp-bucb", "shuffle"),
    ("ucbvi", "central"),
    ("sdp-pe-plus", "central"),
    ("psrl", "local"),
    ("dp-ppo:epochs=2", "central"),
]


def people(plan, number, world, coins):
    """Trajectories of people in the order in which they report."""
    for policy, count in plan.arms(number):
        if count:
            drawn = roll_out(world, tabular(policy), count, coins)
            yield from zip(drawn.states, drawn.actions, drawn.rewards, strict=True)


def simulated(design, seed: int, world) -> list[bytes]:
    """The policies of a simulation: every stage of the channels, then what was learned."""
    parts, streams = design.parts(), seed_streams(seed)
    learner, noise = parts.learner, SimulationNoise(streams.noise)
    belief, secret = learner.begin(), parts.channels[0].begin_secret()
    memory, found = parts.channels[0].begin_memory(), []
    for channel in parts.channels:
        belief, plan = learner.plan(belief, streams.learner)
        found += [canonical(policy_to_dict(policy)) for policy, count in plan.arms(plan.users) if count]
        bodies = [channel.encode(Episode(*one), noise) for one in people(plan, plan.users, world, streams.world)]
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


def studied(design, seed: int, world, place: Path) -> list[bytes]:
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
            for policy, weight in bundle.arms:
                drawn = roll_out(world, tabular(policy), int(weight * bundle["target"]), streams.world)
                for states, actions, rewards in zip(drawn.states, drawn.actions, drawn.rewards, strict=True):
                    device = Device(noise=noise)
                    device.accept(data)
                    reports.append((device.report(Episode(states, actions, rewards)), f"person {person}"))
                    person += 1
            assert set(collector.add_many(reports)) == {"counted"}
            collector.close()
        assert study.take(collector.release(study.head)) == "taken"


@pytest.mark.parametrize(("learner", "trust"), CASES)
def test_a_study_plans_what_a_simulation_plans(learner, trust):
    world = prepare_world(make_environment(WORLD))
    design = plan_study(learner=learner, trust=trust, **SIZES)
    with fast_directory() as folder:
        found = studied(design, 5, world, Path(folder))
    assert len(found) > len(design.channels)
    assert found == simulated(design, 5, world)
