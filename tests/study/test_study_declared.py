"""Declarations of a study: what is refused, what is encoded, what is released, and studies of all options together."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from channel_tools import EVERYTHING, bits_channel, noises
from study_fakes import REHEARSAL
from study_world import fast_directory

from tacit.data.counts import count_trajectories
from tacit.data.trajectories import Trajectories, Trajectory
from tacit.documents import canonical
from tacit.environments.registry import make
from tacit.environments.state_features import seen_through
from tacit.errors import InvalidInput, NotSupported, UnknownName
from tacit.policies import uniform_policy
from tacit.randomness import SimulationNoise
from tacit.release.request import PrivacyRequest
from tacit.release.table import make_privatizer
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountShape, CountStatistics, empty_counts
from tacit.simulation.simulate import simulate
from tacit.simulation.worlds import world_of
from tacit.study.collector import Collector
from tacit.study.declarations import Features, declared_support
from tacit.study.design import StudyDesign, plan_study
from tacit.study.device import Device
from tacit.study.flow import broken_flow, flow_gaps, flow_scores
from tacit.study.study import Study
from tacit.support import Support

STATES, ACTIONS, H = ("up", "mid", "down"), ("drift", "swim"), 3
RIVER = make("riverswim:states=3,horizon=3").support
SEES = {"up": "far", "mid": "far", "down": "near"}
SIZES = {"states": STATES, "actions": ACTIONS, "horizon": H, "stages": 2, "target": 12, "least": 8}
BUDGET = {"epsilon": 8.0, "delta": 1e-3}
STEPS = Support(
    moves=[[[[1, 1], [0, 1]], [[0, 1], [1, 1]]], [[[1, 0], [1, 1]], [[1, 0], [0, 1]]]],
    horizon=2,
    starts=[1, 0],
    rewards=[[1, 0], [0, 1]],
)
"""Steps of their own: rows with one successor, a state that is out of reach at first, pairs that earn nothing."""


def planned(trust="shuffle", learner="bucb", **more):
    return plan_study(**{**SIZES, **BUDGET, "learner": learner, "trust": trust, **more})


# the design


def test_a_support_by_name_is_the_support_of_the_arrays():
    named = {
        "moves": {"up": {"drift": ["up"], "swim": ["up", "mid"]}, "mid": {"drift": ["up"]}, "down": ["mid", "down"]},
        "starts": ["up"],
        "rewards": {"mid": [], "up": ["drift"]},
    }
    moves = np.ones((3, 2, 3))
    moves[0, 0], moves[0, 1], moves[1, 0], moves[2] = [1, 0, 0], [1, 1, 0], [1, 0, 0], [0, 1, 1]
    wanted = Support(moves=moves, horizon=H, starts=[1, 0, 0], rewards=[[1, 0], [0, 0], [1, 1]])
    assert declared_support(named, STATES, ACTIONS, H) == wanted
    assert declared_support(json.loads(canonical(wanted.to_dict())), STATES, ACTIONS, H) == wanted
    assert declared_support({}, STATES, ACTIONS, H) == Support(moves=np.ones((3, 2, 3)), horizon=H)


def test_a_design_is_the_same_after_json_and_one_without_declarations_says_nothing_of_them():
    plain, told = planned(), planned(support=RIVER, sees=SEES)
    assert not {"support", "sees"} & set(plain.to_dict())
    assert "support" not in plain.channels[0]["shape"]
    assert StudyDesign.from_dict(plain.to_dict()) == plain
    again = StudyDesign.from_dict(json.loads(canonical(told.to_dict())))
    assert (again, again.digest) == (told, told.digest)
    assert again.sees == Features(names=("far", "near"), of=(0, 0, 1))
    assert again.parts().shape.support == RIVER.seen_through((0, 0, 1))
    assert len({one.digest for one in (plain, told, planned(support=RIVER), planned(sees=SEES))}) == 4
    assert set(told.declarations) == {"support", "features"} <= set(told.parts().certificate.terms.public)


WRONG = {
    "support of another size": ({"support": make("riverswim").support}, InvalidInput, "horizon, states, actions"),
    "no support": ({"support": "declared"}, InvalidInput, "must be a Support"),
    "unknown part": ({"support": {"ends": []}}, InvalidInput, "nothing else"),
    "unknown state": ({"support": {"moves": {"sea": ["up"]}}}, UnknownName, "state"),
    "unknown action": ({"support": {"moves": {"up": {"fly": ["up"]}}}}, UnknownName, "action"),
    "no list": ({"support": {"starts": "up"}}, InvalidInput, "lists of names"),
    "no table": ({"support": {"moves": ["up"]}}, InvalidInput, "lists by name"),
    "nothing follows": ({"support": {"moves": {"up": {"drift": []}}}}, InvalidInput, "at least one next state"),
    "nowhere to begin": ({"support": {"starts": []}}, InvalidInput, "begin somewhere"),
    "feature numbers with a gap": ({"sees": (0, 2, 2)}, InvalidInput, "without gaps"),
    "negative feature": ({"sees": (0, -1, 1)}, InvalidInput, "without gaps"),
    "too few features": ({"sees": (0, 1)}, InvalidInput, "all 3 states"),
    "a state without a feature": ({"sees": {"up": "far"}}, InvalidInput, "none for mid"),
    "feature of no state": ({"sees": {**SEES, "sea": "far"}}, UnknownName, "state"),
    "features in a text": ({"sees": "side-effects"}, InvalidInput, "by name or number"),
    "fallback over states": ({"sees": SEES, "fallback": uniform_policy(3, 3, 2)}, InvalidInput, "features and actions"),
    "baseline": ({"sees": SEES, "baseline": "uniform"}, NotSupported, "fallback"),
    "gradients see states": ({"sees": SEES, "learner": "dp-pg", "trust": "central"}, NotSupported, "features"),
    "gradients over a support": ({"support": RIVER, "learner": "dp-pg", "trust": "central"}, NotSupported, "bucb"),
    "valid bands": ({"sees": SEES, "constants": "valid", "trust": "central"}, NotSupported, "Markov"),
    "valid bands over a support": ({"support": RIVER, "constants": "valid"}, NotSupported, "declared support"),
    "plain pooling": ({"support": RIVER, "learner": "bucb:pooled=true"}, InvalidInput, "went with version 0.9"),
    "loss budget": (
        {"support": RIVER, "baseline": "uniform", "loss_budget": 0.1, "trust": "central"}, NotSupported, "declared",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_used_is_refused_by_name(name):
    given, kind, words = WRONG[name]
    with pytest.raises(kind, match=words):
        planned(**given)


def test_a_support_has_one_spelling():
    plain = STEPS.to_dict()
    assert Support.from_dict(plain) == STEPS
    for wrong in (
        {"moves": plain["moves"][::-1]},
        {"moves": [*plain["moves"][:-1], [1, 1, 1, -1]]},
        {"moves": [*plain["moves"], plain["moves"][-1]]},
        {"stages": 2.0},
        {"stages": 10**12},
        {"starts": [True, False]},
        {"rewards": plain["rewards"][0]},
        {"rewards": 1},
    ):
        with pytest.raises(InvalidInput):
            Support.from_dict({**plain, **wrong})


# what a device encodes and a collector takes


def slow_counters(support, states, actions, rewards):
    """The counters of one trajectory, by hand: {(family, step, ...): value}; what cannot be sets none."""
    found, here = {}, [set(np.flatnonzero(support.starts))]
    for h in range(support.horizon):
        moves = support.moves[min(h, len(support.moves) - 1)]
        here.append({t for s in here[h] for a in range(2) for t in np.flatnonzero(moves[s, a])})
    for h, (s, a, r) in enumerate(zip(states, actions, rewards, strict=False)):
        if s not in here[h]:
            continue
        pays = support.rewards[min(h, len(support.rewards) - 1)][s, a]
        found["one", h, s, a] = r if pays else 0.0
        found["zero", h, s, a] = 1.0 - found["one", h, s, a]
        row = support.moves[min(h, len(support.moves) - 1)][s, a]
        if h < support.horizon - 1 and row.sum() == 1:
            found["move", h, s, a, int(row.argmax())] = 1.0  # follows from the visit, wherever they went
        elif h < support.horizon - 1 and row[states[h + 1]]:
            found["move", h, s, a, states[h + 1]] = 1.0
    return {name: value for name, value in found.items() if value}


def read_counters(statistics):
    parts = {"one": statistics.rewards, "zero": statistics.visits - statistics.rewards, "move": statistics.transitions}
    return {
        (name, *map(int, place)): float(part[tuple(place)])
        for name, part in parts.items()
        for place in np.argwhere(np.abs(part) > 1e-9)
    }


@pytest.mark.parametrize("trust", ["central", "shuffle"])
def test_every_trajectory_sets_the_counters_of_the_layout_and_no_others(trust):
    shape = CountShape(horizon=2, num_states=2, num_actions=2, staged=True, support=STEPS)
    design = plan_study(states=2, actions=2, horizon=2, stages=1, target=2, **BUDGET, trust=trust, learner="bucb",
                        support=STEPS)  # fmt: skip
    channel = design.parts().channels[0]
    assert channel.spec.num_counters == STEPS.counters[0] < STEPS.counters[1]
    if trust == "shuffle":
        channel = bits_channel(shape, EVERYTHING, target=2, least=2, q=Fraction(1, 2**60))
    else:
        channel = replace(channel, variance=2**16, unit=2**30)  # rounding to a whole count leaves nothing of it
    noise = SimulationNoise(np.random.default_rng(3))
    families = {"outcomes": sum(f.up for f in channel.families() if f.name == "outcomes")}
    families["moves"] = sum(f.up for f in channel.families() if f.name == "transitions")
    for states, actions in product(product((0, 1), repeat=3), product((0, 1), repeat=2)):
        for rewards in product((0.0, 1.0) if trust == "shuffle" else (0.0, 0.25, 1.0), repeat=2):
            body = channel.encode(Trajectory(*map(np.array, (states, actions, rewards))), noise)
            channel.check(body)
            _, payload = channel.release(channel.begin_secret(), [body, channel.encode(None, noise)], EVERYTHING, noise)
            _, released = channel.read(channel.begin_memory(), payload, 2)
            rounded = released.statistics._replace(
                **{
                    name: np.round(getattr(released.statistics, name), 5)
                    for name in ("transitions", "visits", "rewards")
                }
            )
            wanted = slow_counters(STEPS, states, actions, rewards)
            assert read_counters(rounded) == pytest.approx(wanted)
            # Lemma S9 (declared support): at most one up per step and family
            assert sum(value for name, value in wanted.items() if name[0] == "move") <= families["moves"]
            assert sum(value for name, value in wanted.items() if name[0] != "move") <= families["outcomes"]


def test_labels_that_the_layout_does_not_have_are_refused():
    told, plain = (planned(**more).parts().channels[0] for more in ({"support": RIVER}, {}))
    assert told.body_size < plain.body_size
    for body in (plain.encode(None, noises(0)["secure"]), b"\xff" * told.body_size):
        with pytest.raises(InvalidInput):
            told.check(body)


def test_a_device_acts_by_the_feature_and_tells_no_more_of_a_state():
    with fast_directory() as folder:
        bundle = Study.new(Path(folder) / "study", planned("central", support=RIVER, sees=SEES), seed=1).plan()
    sent = []
    for states in (["up", "mid", "down"], ["mid", "up", "down"], ["mid", "down", "down"]):
        device = Device(None, **REHEARSAL, noise=SimulationNoise(np.random.default_rng(5)))
        parsed = device.accept(bundle)
        sent.append(device.report({"states": states, "actions": ["swim"] * 3, "rewards": [0.3, 0.0, 1.0]})[52 + 4 :])
        table = parsed.arms[0][0].probabilities(2)
        assert table.shape == (H, 2, 2)
        assert device.act(0, "up") in ACTIONS
    assert sent[0] == sent[1] != sent[2]


def test_a_collector_takes_the_features_of_its_design_only():
    design = planned("central", sees=SEES)
    with fast_directory() as folder:
        study = Study.new(Path(folder) / "study", design, seed=1)
        collector = Collector.new(Path(folder) / "collector", design)
        plain = json.loads(study.plan())
        for other in ({"features": ["far", "near"], "of": [0, 1, 1]}, {"features": ["a", "b"], "of": [0, 0, 1]}):
            with pytest.raises(InvalidInput, match="features of its design"):
                collector.open(canonical({**plain, "sees": other}))
        plain.pop("sees")
        with pytest.raises(InvalidInput):  # policies and channel of another size
            collector.open(canonical(plain))
        collector.open(study.plan())


# what is released, and what it says


@pytest.mark.parametrize("trust", ["central", "shuffle"])
def test_noise_and_certificate_are_those_of_a_simulation(trust):
    """The privatizer of simulations over the same support: the same families, and a certificate that holds."""
    design = planned(trust, support=RIVER, sees=SEES, least=12)
    parts = design.parts()
    request = PrivacyRequest(trust=trust, shape=parts.shape, episodes=24, **BUDGET, calibration=None, mechanism=None,
                             users_per_batch=12, asks=BatchQuery)  # fmt: skip
    simulated = make_privatizer(request)
    channel = parts.channels[0]
    assert channel.spec.num_counters == parts.shape.support.counters[0]
    if trust == "central":
        assert channel.families()[0].up == simulated.families()[0].up
        assert channel.std == pytest.approx(simulated.noise.std, rel=1e-3)
    else:
        alone = simulated.batch_std(12, EVERYTHING)
        assert channel.bit_noise(12).total.std == pytest.approx(alone, rel=1e-2)
    assert parts.certificate.holds
    assert parts.certificate.epsilon == pytest.approx(8.0, rel=1e-2)


def test_a_simulation_runs_the_channels_over_features():
    world = seen_through(make("riverswim:states=3,horizon=3"), (0, 0, 1)).for_run("shuffle")
    parts = planned(support=RIVER, sees=SEES).parts()
    result = simulate(world_of(world, BatchQuery), parts.learner, parts.privatizer, episodes=24, seed=2)
    assert np.isfinite(result.regret).all()


def test_counts_at_once_are_the_counts_of_reports():
    shape = CountShape(horizon=2, num_states=2, num_actions=2, staged=True, support=STEPS)
    channel = bits_channel(shape, EVERYTHING, q=Fraction(1, 2**60))
    rng = np.random.default_rng(0)
    users = Trajectories(
        rng.integers(0, 2, (9, 3)), rng.integers(0, 2, (9, 2)), rng.integers(0, 2, (9, 2)).astype(float)
    )
    noise = SimulationNoise(rng)
    one = channel.simulate(channel.begin_secret(), users, EVERYTHING, noise)
    other = channel.simulate(channel.begin_secret(), count_trajectories(users, 2, 2), EVERYTHING, noise)
    assert one == other


def world_counts(support, people, seed, *, outside=False):
    """Exact counts of people who walk within a support (or anywhere) as a release has them, without noise."""
    rng = np.random.default_rng(seed)
    shape = CountShape(
        horizon=support.horizon, num_states=support.num_states, num_actions=2, staged=True, support=support
    )
    channel = bits_channel(shape, EVERYTHING, target=people, least=2, q=Fraction(1, 2**60))
    bodies, noise = [], SimulationNoise(rng)
    for _ in range(people):
        states, actions = [int(rng.choice(np.flatnonzero(support.starts)))], rng.integers(0, 2, support.horizon)
        for h in range(support.horizon):
            row = support.moves[min(h, len(support.moves) - 1), states[h], actions[h]]
            states.append(int(rng.integers(len(row)) if outside else rng.choice(np.flatnonzero(row))))
        walk = Trajectory(np.array(states), actions, rng.integers(0, 2, support.horizon).astype(float))
        bodies.append(channel.encode(walk, noise))
    _, payload = channel.release(channel.begin_secret(), bodies, EVERYTHING, noise)
    return channel, channel.read(channel.begin_memory(), payload, people)[1].statistics


@pytest.mark.parametrize("support", [RIVER, STEPS], ids=["river", "steps"])
def test_honest_people_keep_the_flow_of_a_support_and_a_false_declaration_shows(support):
    _, counts = world_counts(support, 400, 1)
    silent = counts._replace(variance=np.zeros(3))
    assert [float(gap.max(initial=0.0)) for gap, _ in flow_gaps(silent, None, support)] == pytest.approx([0.0] * 3)
    assert broken_flow(silent, "central", None, support) is None
    _, false = world_counts(support, 400, 1, outside=True)
    found = broken_flow(false._replace(variance=np.array([1.0, 2.0, 1.0])), "shuffle", None, support)
    assert found is not None
    assert "declared support" in found
    twice = silent._replace(
        visits=2.0 * silent.visits, rewards=2.0 * silent.rewards, transitions=2.0 * silent.transitions
    )
    assert flow_scores(twice, "central", None, support)[2].largest == float("inf")


SURE = Support(moves=[[[0, 1, 0]] * 2, [[0, 0, 1]] * 2, [[1, 0, 0]] * 2], horizon=3, starts=[1, 1, 0])
"""Every row has a single successor: no transition has a counter."""


@pytest.mark.parametrize("support", [RIVER, STEPS, SURE], ids=["river", "steps", "sure"])
def test_the_stated_deviation_of_every_line_is_that_of_its_counters(support):
    """Each counter of the release is moved by a little: the squares of what a line moves add up to its variance."""
    channel, _ = world_counts(support, 4, 0)
    lines = None
    base = np.full(channel.spec.num_counters, 1000.0) * np.linspace(1.0, 2.0, channel.spec.num_counters)

    def gaps(values):
        arrays = channel.spec.arrays(values)
        empty = empty_counts(channel.shape)
        variance = np.array([1.0 if len(support.released.moves) else 0.0, 2.0, 1.0])
        made = CountStatistics(*arrays, squares=empty.squares, variance=variance, users=np.array([10]))
        return flow_gaps(made, None, support)

    lines = [np.zeros(gap.shape) for gap, _ in gaps(base)]
    for place in range(len(base)):
        moved = base.copy()
        moved[place] += 0.5
        for line, (before, _), (after, _) in zip(lines, gaps(base), gaps(moved), strict=True):
            line += ((after - before) / 0.5) ** 2
    for line, (_, sigma) in zip(lines, gaps(base), strict=True):
        np.testing.assert_allclose(np.sqrt(line), sigma, rtol=1e-9)
