"""Designs: every learner under every trust model, what is refused, and studies that equal simulations bit for bit."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest
from study_fakes import REHEARSAL

from tacit.accounting.claims import PrivacyUnit
from tacit.data.counts import count_trajectories
from tacit.data.trajectories import Trajectories
from tacit.documents import canonical
from tacit.environments.registry import make
from tacit.errors import InvalidInput, NotSupported, TacitError
from tacit.features import Features
from tacit.learners.table import LEARNERS
from tacit.policies import DeterministicPolicy, policy_to_dict
from tacit.protocol import Plan, Totals
from tacit.randomness import SimulationNoise, seed_streams
from tacit.released.batches import BatchQuery
from tacit.released.gradients import SoftmaxQuery
from tacit.released.losses import LossQuery
from tacit.released.moments import MomentQuery
from tacit.released.returns import ReturnQuery
from tacit.simulation.simulate import simulate
from tacit.simulation.worlds import world_of
from tacit.study.assembly import BASES
from tacit.study.bundle import Bundle
from tacit.study.collector import Collector
from tacit.study.design import StudyDesign, plan_study
from tacit.study.device import Device
from tacit.study.study import Study

SMALL = {
    "states": 3,
    "actions": ("wait", "act"),
    "horizon": 3,
    "epsilon": 2.0,
    "delta": 1e-6,
    "stages": 3,
    "target": 60,
}
SINGLE = {"ldp-psrl"}
"""Learners that add up messages of single people: local trust only."""


MET = {"uob-lbps"}
"""Learners of adversarial losses that are shown what a person met, one person after the other."""


PUBLISHED = {"jdp-linucb", "ldp-linucb", "sdp-linucb"}
"""Published baselines, with printed noise only: simulations (`test_published_baselines_are_refused`)."""


ROWS = Features(age=(18, 90), tired=bool)


def able():
    """Every learner under every trust model that can serve it."""
    for name, row in LEARNERS.items():
        if (row.losses is not None and name not in MET) or name in PUBLISHED:
            continue
        for asks, trust in BASES:
            if row.asks is asks and not row.reference and (name not in SINGLE or trust == "local"):
                yield name, trust


def test_all_kinds_of_queries_are_served():
    assert {asks for asks, _ in BASES} == {Totals, BatchQuery, LossQuery, MomentQuery, SoftmaxQuery, ReturnQuery}


@pytest.mark.parametrize("learner", sorted(PUBLISHED))
def test_published_baselines_are_refused(learner):
    told = {name: SMALL[name] for name in SMALL if name not in ("states", "horizon")}
    with pytest.raises(NotSupported, match="printed noise"):
        plan_study(learner=learner, trust="central", features=ROWS, **told)


@pytest.mark.parametrize(
    ("learner", "trust"),
    [pytest.param(*case, marks=pytest.mark.slow if case == ("sdp-pe", "shuffle") else ()) for case in able()],
)
def test_every_learner_can_be_planned(learner, trust):
    more = {"sdp-pe": {"target": 600}, "uob-lbps": {"target": 1}}.get(learner, {})
    told = {**SMALL, **more}
    if LEARNERS[learner].asks is MomentQuery:
        told = {name: told[name] for name in told if name not in ("states", "horizon")} | {"features": ROWS}
    design = plan_study(learner=learner, trust=trust, **told)
    parts = design.parts()
    assert parts.certificate.holds
    assert parts.certificate.epsilon > 0.9 * design.epsilon
    assert [channel.to_dict() for channel in parts.channels] == list(design.channels)
    # JSON and back: the same study, the same channels
    again = StudyDesign.from_dict(json.loads(canonical(design.to_dict())))
    assert again.digest == design.digest
    assert again.declared() == parts.channels


@pytest.mark.parametrize(
    ("learner", "constants"), [("ldp-psrl", None), ("ldp-obi", "theory"), ("ldp-obi", "practical")]
)
def test_local_learners_take_the_people_of_a_stage_together(learner, constants):
    parts = plan_study(learner=learner, trust="local", constants=constants, **SMALL).parts()
    assert {channel.target for channel in parts.channels} == {parts.learner.users_per_batch} == {SMALL["target"]}


@pytest.mark.parametrize("reports", [2, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("learner", "trust"), [("ucbvi", "central"), ("bucb", "shuffle"), ("psrl", "local"), ("dp-pg", "central")]
)
def test_people_who_come_back_get_more_noise(learner, trust, reports):
    one = plan_study(learner=learner, trust=trust, **SMALL, reports_per_person=1).parts()
    more = plan_study(learner=learner, trust=trust, **{**SMALL, "stages": 5}, reports_per_person=reports).parts()
    assert more.certificate.holds
    assert more.claim.unit == PrivacyUnit(reports=reports, per_stage=1)
    first = one.channels[0].noise_std()
    assert all(std > first[name] for name, std in more.channels[0].noise_std().items() if first[name] > 0.0)


REFUSED = {
    "no trust": ({"trust": "none"}, "trust must be one of"),
    "a reference line": ({"learner": "uniform"}, "learns nothing"),
    "losses": ({"learner": "uc-o-reps", "trust": "central"}, "losses of what was done"),
    "gradients under local trust": ({"learner": "dp-pg", "trust": "local"}, "run under trust central"),
    "batches under local trust": ({"learner": "bucb", "trust": "local"}, "central or shuffle, not local"),
    "policies shared by more and more people": (
        {"learner": "psrl:replan=geometric", "trust": "local", "target": 1, "least": 1},
        "does not take 1 people at a time",
    ),
    "more needed than wanted": ({"least": 61}, "least must be at most"),
    "no epsilon": ({"epsilon": 0.0}, "epsilon must be"),
    "NaN": ({"epsilon": float("nan")}, "epsilon must be"),
    "pure shuffling": ({"delta": 0.0}, "pure"),
    "states without names": ({"states": ("a", "a", "b")}, "each of them once"),
    "no states": ({"states": ()}, "must have names"),
    "rewards upside down": ({"rewards": (1.0, 0.0)}, "below the upper one"),
    "rewards of one number": ({"rewards": 3}, "a list, got 3"),
    "an unknown learner": ({"learner": "bucbb"}, "did you mean 'bucb'"),
    "an unknown mechanism": ({"mechanism": "laplace"}, "binomial"),
    "no reports": ({"reports_per_person": 0}, "reports_per_person"),
    "unequal stages for people who come back": (
        {"learner": "sdp-pe", "target": 600, "reports_per_person": 2},
        "all alike",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_in_words(case):
    changed, words = REFUSED[case]
    with pytest.raises(TacitError, match=words):
        plan_study(**{**SMALL, "learner": "bucb", "trust": "shuffle", **changed})


def test_a_tampered_design_is_refused(tmp_path):
    design = plan_study(learner="bucb", trust="shuffle", **SMALL)
    quieter = [dict(channel) for channel in design.channels]
    quieter[0]["bits_per_user"] = max(1, quieter[0]["bits_per_user"] // 4)
    for forged in (replace(design, channels=tuple(quieter)), replace(design, epsilon=9.0)):
        for kind in (Collector, Study):
            with pytest.raises(TacitError):
                kind.new(tmp_path / "forged", forged)
    plain = design.to_dict()
    for broken in (
        {**plain, "extra": 1},
        {k: v for k, v in plain.items() if k != "least"},
        {**plain, "format_version": 9},
    ):
        with pytest.raises(InvalidInput):
            StudyDesign.from_dict(broken)


def people_of(world, arms, users, rng):
    """Everybody's trajectory, in the order of the arms: the same draws wherever it is called."""
    P, r, rho = np.array(world.P[0]), np.array(world.r[0]), np.array(world.rho)
    H, S, A = world.horizon, *r.shape
    states, actions, rewards = np.zeros((users, H + 1), int), np.zeros((users, H), int), np.zeros((users, H))
    i = 0
    for policy, count in arms:
        table = policy.probabilities(A)
        for _ in range(count):
            s = int(rng.choice(S, p=rho))
            states[i, 0] = s
            for h in range(H):
                a = int(rng.choice(A, p=table[h, s]))
                rewards[i, h] = float(rng.random() < r[s, a])
                s = int(rng.choice(S, p=P[s, a]))
                actions[i, h], states[i, h + 1] = a, s
            i += 1
    return Trajectories(states, actions, rewards)


class Hooked(Device):
    """A device whose ids and lots leave the noise of its report alone."""

    def _bytes(self, count):
        return os.urandom(count)

    def _draw_arm(self, found):
        return 0


class Lived:
    """Simulation only: a world whose people can be met again in a study."""

    name, act, buffers, chunk = "lived", None, None, 1

    def __init__(self, mdp, asks):
        self.environment, self._world = mdp, world_of(mdp, asks)
        self.fits, self.values, self.judge = self._world.fits, self._world.values, self._world.judge
        self.plans, self.met = [], []

    def sampler(self, learner, *, episodes, seed):
        return self

    def arrays(self, done, users):
        raise AssertionError("never compiled")

    def draw(self, plan, users, coins):
        arms = plan.arms(users)
        self.plans.append([policy_to_dict(policy) for policy, count in arms if count > 0])
        self.met.append(people_of(self.environment, arms, users, coins))
        return self.met[-1]


EQUAL = [
    ("bucb", "shuffle"), ("ucbvi", "shuffle"), ("ucbvi", "central"), ("bucb", "central"), ("psrl", "local"),
    ("ldp-obi", "local"), ("dp-pg", "central"), ("dp-ppo:epochs=2", "central"),
]  # fmt: skip


@pytest.mark.parametrize(("learner", "trust"), EQUAL)
def test_a_study_equals_its_simulation_bit_for_bit(learner, trust, tmp_path):
    """Files, databases and JSON on one side, `simulate` on the other; people, coins and noise are the same."""
    design = plan_study(
        states=4, actions=2, horizon=6, learner=learner, trust=trust, epsilon=3.0, delta=1e-6, stages=3, target=40
    )
    parts = design.parts()
    # Where the last round is of no use to anybody, the simulation has one more, which reports nothing.
    rounds = 3 if parts.learner.uses_last else 4
    world = Lived(make("riverswim"), parts.learner.asks)
    run = simulate(world, parts.learner, parts.privatizer, episodes=40 * rounds, seed=3, speed="interpreted")

    source = SimulationNoise(seed_streams(3).noise)
    study = Study.new(tmp_path / "study", design, seed=3)
    Collector.new(tmp_path / "collector", design, noise="simulation")
    plans = []
    for number, users in enumerate(world.met[:3]):
        while True:
            bundle = study.plan()
            found = Bundle.parse(bundle)
            if found["stage"] != number:
                break
            collector = Collector(tmp_path / "collector", source=source)
            collector.open(bundle)
            if found["question"] == 0:
                plans.append([policy_to_dict(policy) for policy, _ in found.arms])
                assert set(collector.add_many(reports_of(users, bundle, source, number))) == {"counted"}
                collector.close()
            assert study.take(collector.release(study.head)) == "taken"
            study = Study(tmp_path / "study")  # everything it knows is on the disk
    assert plans == world.plans[:3]
    assert policy_to_dict(study.policy()) == policy_to_dict(run.policy)


def reports_of(users, bundle, source, number):
    """What the devices of these people send."""
    for i in range(len(users)):
        device = Hooked(None, noise=source, **REHEARSAL)
        device.accept(bundle)
        lived = {name: getattr(users, name)[i].tolist() for name in ("states", "actions", "rewards")}
        yield device.report(lived), f"person {number}-{i}"


@pytest.mark.parametrize(("learner", "trust"), [("bucb", "shuffle"), ("ucbvi", "central"), ("ldp-obi", "local")])
def test_the_channels_of_a_study_learn_riverswim_in_the_simulator(learner, trust):
    epsilon = 8.0 if trust == "local" else 2.0
    design = plan_study(
        states=4, actions=2, horizon=6, learner=learner, trust=trust, epsilon=epsilon, delta=1e-6, stages=8, target=1000
    )
    parts, world = design.parts(), make("riverswim")
    run = simulate(world, parts.learner, parts.privatizer, episodes=9000, seed=1, checkpoints=[8000, 9000])
    best, uniform = world_of(world, Totals).values()
    # The last thousand people, after all that was learned, against uniform play
    late = (run.regret[1] - run.regret[0]) / (1000 * (best - uniform))
    assert late < 0.7


def test_several_reports_under_gaussian_noise_may_meet_unequal_stages():
    with pytest.raises(NotSupported, match="all alike"):
        plan_study(learner="sdp-pe", trust="shuffle", **{**SMALL, "target": 600}, reports_per_person=2)
    design = plan_study(learner="sdp-pe", trust="central", **{**SMALL, "target": 600}, reports_per_person=2)
    assert design.parts().certificate.holds


@pytest.mark.parametrize("grouped", [False, True])
def test_the_judge_counts_trajectories_as_it_counts_their_sums(grouped):
    """Simulation only: a batch of people costs the same whether they come as trajectories or as counts."""
    mdp = make("random-mdp:states=4,actions=2,horizon=3")
    rng = np.random.default_rng(0)
    first, second = (DeterministicPolicy(rng.integers(0, 2, (3, 4))) for _ in range(2))
    plan = Plan(policy=first, users=30, query=Totals(), groups=((second, 12),) if grouped else ())
    arms = [(policy, count) for policy, count in plan.arms(30) if count > 0]
    users = people_of(mdp, arms, 30, rng)
    ends = np.cumsum([count for _, count in arms])
    starts = [np.bincount(group, minlength=4) for group in np.split(users.states[:, 0], ends[:-1])]
    counts = replace(count_trajectories(users, 4, 2), groups=tuple(starts))
    marks = np.array([30])
    one, two = (world_of(mdp, Totals).judge(None, marks) for _ in range(2))
    one.see(None, None, plan, users, 0, 30)
    two.see(None, None, plan, counts, 0, 30)
    assert one.curves[0, -1] == pytest.approx(two.curves[0, -1], rel=1e-12)
    assert one.curves[0, -1] > 0.0


def test_a_study_of_very_many_people_can_be_planned_under_local_trust():
    """Stages are planned once each, however many people they have; a rule for plans after every user does not apply."""
    design = plan_study(
        states=("a", "b", "c", "d"),
        actions=("x", "y"),
        horizon=6,
        trust="local",
        epsilon=1.0,
        delta=0.0,
        stages=4,
        target=10**8,
    )
    assert "rarely" not in design.learner
