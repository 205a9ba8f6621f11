"""The channel of one-bit returns: what a device says, what is read of it, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from channel_tools import SMALL, extreme, noises, people, rejected, request_of, rows, tampered

from tacit.accounting.claims import PrivacyUnit
from tacit.accounting.composition import epsilon_of
from tacit.data.trajectories import Trajectory
from tacit.errors import InvalidInput, NotSupported, PrivacyViolation, TacitError
from tacit.learners import ldp_rts
from tacit.protocol import TOTALS, PrivateStatistics
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.release.contract import StageSize
from tacit.release.registry import channel_from_dict
from tacit.release.returns import GROUPS, groups_of
from tacit.release.table import make_privatizer
from tacit.released.returns import ReturnQuery
from tacit.study.bundle import Bundle, query_from_dict, query_to_dict
from tacit.study.design import StudyDesign, plan_study
from tacit.study.study import Study

HALF = ReturnQuery(groups=(3, 4), bit="mean", level=2.0)
TAIL = ReturnQuery(groups=(7,), bit="tail", level=0.5)


def channel_of(*, epsilon=1.0, reports=1, target=7, least=1):
    unit = PrivacyUnit(reports=reports, per_stage=1)
    plan = make_privatizer(request_of("local", SMALL, asks=ReturnQuery, epsilon=epsilon, delta=0.0, unit=unit))
    return plan.release_of(StageSize(target=target, least=least, query=HALF))


def earning(reward):
    return Trajectory(np.zeros(3, dtype=np.int64), np.zeros(2, dtype=np.int64), np.full(2, reward))


@pytest.mark.parametrize(("query", "reward", "chance"), [(HALF, 0.25, 0.25), (HALF, 1.0, 1.0), (TAIL, 0.25, 0.0)])
@pytest.mark.parametrize("source", ["secure", "simulation"])
def test_a_bit_has_the_law_of_randomized_response(query, reward, chance, source):
    """A false alarm has probability 1e-6; a flip of 0.35 in place of 0.269 is found with probability 0.9999."""
    channel, noise, draws = channel_of(), noises(1)[source], 3000
    flip = 1.0 / (math.e + 1.0)
    one = chance * (1.0 - flip) + (1.0 - chance) * flip
    bodies = [channel.answer(query, 0, earning(reward), noise) for _ in range(draws)]
    assert {body[0] for body in bodies} == {0}
    ones = sum(body[1] for body in bodies)
    assert not rejected([ones, draws - ones], [draws * one, draws * (1.0 - one)])
    wrong = 0.35 if chance < 0.5 else 0.65
    if chance in (0.0, 1.0):
        assert rejected([ones, draws - ones], [draws * wrong, draws * (1.0 - wrong)])


def test_a_cover_report_is_a_fair_coin_of_the_same_length():
    channel = channel_of(epsilon=8.0)
    for noise in noises(2).values():
        bodies = [channel.answer(HALF, 1, None, noise) for _ in range(800)]
        assert {len(body) for body in bodies} == {channel.body_size}
        ones = sum(body[1] for body in bodies)
        assert not rejected([ones, 800 - ones], [400.0, 400.0])


def test_all_of_epsilon_is_on_the_bits_of_one_person():
    assert epsilon_of(channel_of(epsilon=0.7).events(), 0.0) == 0.7
    twice = channel_of(epsilon=0.7, reports=2)
    assert 2.0 * twice.epsilon <= 0.7
    assert 2.0 * twice.epsilon > 0.7 - 1e-9
    design = plan_study(
        states=2, actions=2, horizon=2, trust="local", epsilon=1.5, delta=0.0, stages=2, target=60, learner="ldp-rts",
        reports_per_person=3,
    )  # fmt: skip
    found = design.parts().certificate
    assert found.holds
    assert found.epsilon == pytest.approx(1.5, abs=1e-9)


def test_what_is_read_are_ones_and_people_of_every_group():
    channel, noise = channel_of(epsilon=40.0), SimulationNoise(np.random.default_rng(3))
    users = people(SMALL, 7, 4, rewards=1.0)
    users.rewards[[0, 4, 5]] = 0.0
    secret, payload = channel.simulate(channel.begin_secret(), users, HALF, noise)
    memory, released = channel.read(channel.begin_memory(), payload, 7)
    assert isinstance(released, PrivateStatistics)
    assert released.statistics.ones[:3].tolist() == [2.0, 2.0, 0.0]
    assert released.statistics.groups[:3].tolist() == [3, 4, 0]
    assert len(released.statistics.ones) == GROUPS
    assert memory.released.users.tolist() == [7]
    assert channel.skip(memory, payload, 7) is memory
    bodies = [channel.answer(HALF, g, one, noise) for g, one in zip(groups_of(HALF), rows(users), strict=True)]
    assert channel.release(secret, bodies, HALF, noise)[1] == payload  # at epsilon 40 nothing is flipped


def test_reports_of_groups_that_nobody_was_asked_for_change_nothing():
    learner = ldp_rts.LDPRTS(shape=SMALL, episodes=200, noise=channel_of().bit_noise())
    belief, coins = learner.begin(), np.random.default_rng(5)
    while learner.stages[belief.stage].halving is not None:
        belief, plan = learner.plan(belief, coins)
        belief = learner.update(belief, answered(plan, ()))
    belief, plan = learner.plan(belief, coins)
    honest, forged = (learner.update(belief, answered(plan, extra)) for extra in ((), (b"\xff\x01", b"\xfe\x01")))
    assert honest.gram.tobytes() == forged.gram.tobytes()
    assert honest.sums.tobytes() == forged.sums.tobytes()


def answered(plan, extra):
    users = plan.users + len(extra)
    bodies = [bytes([group, group % 2]) for group in groups_of(plan.query)]
    channel = channel_of(target=users)
    _, payload = channel.release(channel.begin_secret(), [*bodies, *extra], plan.query, SecureNoise())
    return channel.read(channel.begin_memory(), payload, users)[1]


def test_nothing_raises_on_what_a_person_did():
    for noise in noises(6).values():
        for odd in extreme(SMALL):
            assert channel_of().answer(TAIL, 0, odd, noise)[1] in (0, 1)


def test_what_no_device_sends_is_refused():
    channel = channel_of(least=2)
    for body in (b"", b"\x00", b"\x00\x02", b"\x00\x01\x00"):
        with pytest.raises(InvalidInput):
            channel.check(body)
    with pytest.raises(InvalidInput, match="sorted"):
        channel.read(channel.begin_memory(), b"\x01\x00\x00\x01", 2)
    with pytest.raises(InvalidInput, match="3 messages"):
        channel.read(channel.begin_memory(), b"\x00\x01", 3)
    with pytest.raises(PrivacyViolation, match="needs 2"):
        channel.release(channel.begin_secret(), [b"\x00\x01"], HALF, SecureNoise())
    with pytest.raises(InvalidInput, match="one bit about returns"):
        channel.release(channel.begin_secret(), [b"\x00\x01"] * 2, TOTALS, SecureNoise())
    with pytest.raises(InvalidInput, match="one bit about returns"):
        channel.answer(TOTALS, 0, None, SecureNoise())
    with pytest.raises(InvalidInput, match="below 2"):
        channel.answer(HALF, 2, None, SecureNoise())
    with pytest.raises(NotSupported, match="use a Device"):
        channel.encode(earning(1.0), SecureNoise())


def test_a_channel_is_read_as_it_was_written_and_not_otherwise():
    channel = channel_of()
    assert channel_from_dict(channel.to_dict()) == channel
    for plain in tampered(channel.to_dict()):
        with pytest.raises(TacitError):
            channel_from_dict(plain)
    for query in (HALF, TAIL):
        assert query_from_dict(query_to_dict(query)) == query
    with pytest.raises(InvalidInput, match="whole numbers"):
        query_from_dict({**query_to_dict(HALF), "groups": [1.5]})


def test_a_bundle_has_as_many_policies_as_its_question_has_groups(tmp_path):
    design = plan_study(
        states=2, actions=2, horizon=2, trust="local", epsilon=2.0, delta=0.0, stages=2, target=600, name="bits"
    )
    assert design.learner == "ldp-rts"
    assert design.because == "below epsilon 5 one bit about a return says most"
    assert StudyDesign.from_dict(design.to_dict()).digest == design.digest
    data = Study.new(tmp_path / "study", design, seed=1).plan()
    bundle = Bundle.parse(data)
    assert len(bundle.arms) == len(bundle.query.groups) > 1
    wrong = {**bundle.content, "query": {**bundle.content["query"], "groups": [1]}}
    with pytest.raises(InvalidInput, match="one policy for every group"):
        Bundle.make({name: value for name, value in wrong.items() if name not in ("format", "version")}, None)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"trust": "shuffle", "delta": 1e-6}, "ldp-rts run under trust local"),
        ({"mechanism": "subset"}, "randomized response"),
        ({"constants": "practical"}, "prior instead of confidence widths"),
        ({"target": 20}, "run at least 75"),
    ],
)
def test_studies_of_returns_are_refused_where_they_make_no_sense(more, message):
    given = {"trust": "local", "delta": 0.0, "target": 60} | more
    with pytest.raises(TacitError, match=message):
        plan_study(states=2, actions=2, horizon=2, epsilon=1.0, stages=2, learner="ldp-rts", **given)
