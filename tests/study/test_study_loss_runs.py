"""Studies of adversarial losses: one person per stage, from the device to the policy, and the same in a simulation."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from central_tools import simulated

import tacit
from tacit.data.trajectories import Trajectory
from tacit.environments.adversaries import make_adversary
from tacit.environments.layered import LossGame, loss_world
from tacit.errors import InvalidInput, NotSupported
from tacit.planning.layered import layered_geometry, layered_shape
from tacit.policies import LayeredPolicy
from tacit.randomness import SecureNoise
from tacit.released.losses import LayeredShape, unrolled
from tacit.statistics.trajectory_body import LossBody
from tacit.study.assembly import unknown_world
from tacit.study.bundle import Bundle
from tacit.study.collector import Collector
from tacit.study.design import StudyDesign, plan_study
from tacit.study.device import Device
from tacit.study.study import Study
from tacit.study.wire import ReleasePayload

H, S, A = 2, 3, 2
PUBLIC = {"states": S, "actions": A, "horizon": H, "trust": "central", "epsilon": 1.0, "delta": 1e-6, "target": 1}


def design_of(stages: int = 6, **changes: object) -> StudyDesign:
    return plan_study(**{**PUBLIC, "learner": "uob-lbps", "stages": stages, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("sizes", [(1, 2, 1), (2, 3, 2), (4, 2, 3)])
def test_the_unrolled_world_is_that_of_the_planner(sizes) -> None:
    """Pairs and triples are numbered as the learner's geometry has them, and every trajectory is walked in it."""
    steps, states, actions = sizes
    geometry = layered_geometry((1, *[states] * steps, 1), actions)
    shape = unrolled(*sizes)
    assert shape == layered_shape(geometry)
    assert shape.steps == sizes
    with pytest.raises(InvalidInput, match="world of steps"):
        _ = LayeredShape(horizon=2, pairs=4, pair_of=(0, 0, 1, 1, 2, 3)).steps
    body, rng = LossBody(shape=shape, full=False, levels=16), np.random.default_rng(0)
    firsts = set()
    for seed in range(40):
        life = Trajectory(
            rng.integers(states, size=steps + 1), rng.integers(actions, size=steps), rng.integers(17, size=steps) / 16
        )
        user = body.walked(life, simulated(seed))
        firsts.add(int(user.pairs[0]))
        assert np.array_equal(user.losses, [0.0, *(1.0 - life.rewards)])
        x = np.array([0, *(1 + h * states + life.states[h] for h in range(steps)), geometry.layers[-2]])
        assert np.array_equal(user.pairs // actions, x[:-1])
        assert np.array_equal(user.pairs[1:] % actions, life.actions)
        for h, (pair, triple) in enumerate(zip(user.pairs, user.triples, strict=True)):
            assert geometry.edges[pair] <= triple < geometry.edges[pair + 1]
            assert geometry.layers[h + 1] + triple - geometry.edges[pair] == x[h + 1]
        for noise in (simulated(seed), SecureNoise()):
            sent = body.encode(life, noise)
            body.check(sent)
            sums = body.sums(sent)
            assert sums.transitions.sum() == 16 * (steps + 1)
            assert sums.losses.sum() == 16 * (1.0 - life.rewards).sum()
    assert firsts == set(range(actions))
    wild = Trajectory(np.full(steps, 2**40), np.full(steps, -7), np.full(steps, np.nan))
    body.check(body.encode(wild, SecureNoise()))
    with pytest.raises(InvalidInput, match="met"):
        LossBody(shape=shape, full=True, levels=16).encode(life, SecureNoise())


def test_a_design_states_its_noise_and_is_refused_where_it_cannot_be_run() -> None:
    """Every stage is one person; the certificate is that of the whole study; other learners are refused by name."""
    design = design_of(reports_per_person=2)
    again = StudyDesign.from_dict(json.loads(json.dumps(design.to_dict())))
    assert again == design
    stages = {(channel.KIND, channel.target, channel.least) for channel in design.declared()}
    assert stages == {("central-losses", 1, 1)}
    parts = design.parts()
    assert parts.certificate.holds
    assert 0.99 < parts.certificate.epsilon <= 1.0
    assert parts.certificate.terms.public["losses"] == "private"
    assert parts.certificate.terms.public["first states"].startswith("private")
    assert parts.events == parts.basis.exposure(parts.channels, 2)
    for learner, said in (
        ("uc-o-reps", "losses of what was done"),
        ("uob-lbps:transitions=known", "transitions are not known"),
        ("uob-reps", "use uob-lbps"),
    ):
        with pytest.raises(NotSupported, match=said):
            design_of(learner=learner)
    with pytest.raises(NotSupported, match="2 people at a time"):
        design_of(target=2)
    with pytest.raises(NotSupported, match="central"):
        design_of(trust="local", delta=0.0)
    with pytest.raises(NotSupported, match="delta"):
        design_of(delta=0.0)
    with pytest.raises(InvalidInput, match="world of steps"):
        design_of(states=1)


def test_from_devices_to_a_policy(tmp_path) -> None:
    """Bundles, devices, collector and learner: what is learned follows from the payloads alone, bit by bit."""
    design, rng = design_of(), np.random.default_rng(1)
    study = Study.new(tmp_path / "study", design, seed=3)
    collector = Collector.new(tmp_path / "collector", design)
    parts = design.parts()
    memory, belief = parts.channels[0].begin_memory(), parts.learner.begin()
    tables = []
    for stage in range(6):
        bundle = study.plan()
        collector.open(bundle)
        device = Device(None, cap=1.0, floor=1, key=None)
        device.accept(bundle)
        tables.append(Bundle.parse(bundle).arms[0][0].probabilities(A))
        states, actions = [int(rng.integers(S))], []
        for h in range(H):
            actions.append(int(device.act(h, states[-1])))
            states.append(int(rng.integers(S)))
        life = {"states": states, "actions": actions, "rewards": [float(a == 1) for a in actions]}
        report = device.cover() if stage == 4 else device.report(life)
        assert collector.add(report, f"person {stage}") == "counted"
        collector.close()
        release = collector.release(study.head)
        assert study.take(release) == "taken"
        memory, found = parts.channels[stage].read(memory, ReleasePayload.parse(release).payload, 1)
        belief = parts.learner.update(belief, found)
    study.plan()
    table = study.policy().probabilities(A)
    assert table.shape == (H, S, A)
    learned = parts.learner.policy(belief)
    assert isinstance(learned, LayeredPolicy)
    assert np.array_equal(table, learned.over_steps(H).table)
    assert any(not np.array_equal(one, other) for one, other in pairwise(tables))
    collector.verify(study.head)
    assert collector.realised()[-1]["epsilon"] <= 1.0


def test_the_same_study_in_a_simulation() -> None:
    """`simulate` runs the stages of the study against an adversary, bit for bit the same again."""
    stages = 60
    design = design_of(stages, epsilon=5.0)
    parts = design.parts()
    world = loss_world(unknown_world(H, ["0", "1", "2"], ["0", "1"]))
    game = LossGame(world=world, adversary=make_adversary("iid", world, stages))
    run = tacit.simulate(game, parts.learner, parts.privatizer, episodes=stages, seed=2, speed="interpreted")
    again = tacit.simulate(game, parts.learner, parts.privatizer, episodes=stages, seed=2, speed="interpreted")
    assert np.isfinite(run.regret).all()
    assert np.array_equal(run.regret, again.regret)
