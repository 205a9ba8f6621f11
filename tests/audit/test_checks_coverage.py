"""Everything that is released has a row of the audit or a named reason, and reasons are compared, not believed."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache

import pytest

from papers.audit.coverage import LEARNER_OPTIONS, RUN_OPTIONS, SAME
from papers.audit.suite import PLACES, all_rows
from tacit.audit.learners import learner_target
from tacit.errors import TacitError
from tacit.learners.table import LEARNERS
from tacit.noise.table import MECHANISMS
from tacit.protocol import TOTALS
from tacit.release.arms import RANK
from tacit.release.contract import StageSize
from tacit.release.table import PRIVATIZERS
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig

ROWS = all_rows(1.0, 1e-6)
TRUSTS = ("central", "shuffle", "local")


@cache
def attacked(name):
    found = ROWS[name].subject().attacked
    return getattr(found, "privatizer", found)


def asked(learner, trust):
    delta = 0.0 if trust == "local" else 1e-6
    found = learner_target(learner, trust=trust, epsilon=1.0, delta=delta)
    return getattr(found, "privatizer", found)


def learners():
    for name, row in LEARNERS.items():
        if row.losses is not None and row.losses.private is None and "transitions" in row.options:
            yield from ((f"{name}:transitions=known", trust) for trust in TRUSTS)
        known = ":transitions=known" if row.losses is not None and row.losses.private is not None else ""
        if not row.reference:
            yield from ((name + known, trust) for trust in TRUSTS)


def test_every_learner_under_every_trust_model_has_rows_or_the_row_of_an_equal_privatizer():
    for learner, trust in learners():
        own = [name for name in ROWS if name.startswith(f"learner {learner} {trust}")]
        if own or (learner, trust) in SAME:
            continue
        with pytest.raises(TacitError):  # nothing is released there
            asked(learner, trust)


@pytest.mark.parametrize(("learner", "trust"), SAME)
def test_what_is_said_to_be_the_same_release_is(learner, trust):
    other, here = attacked(SAME[learner, trust]), asked(learner, trust)
    assert type(here) is type(other)
    assert here == other
    assert here.events() == other.events()


def test_every_query_under_every_trust_model_has_a_row():
    found = {(one.answers, one.claim.trust) for one in map(attacked, ROWS) if hasattr(one, "answers")}
    assert {pair for pair in PRIVATIZERS if pair[1] != "none"} <= found


def test_every_mechanism_and_every_channel_of_trials_has_rows():
    for name, row in MECHANISMS.items():
        assert f"privatizer {row.trust} {name} tight" in ROWS, name
        assert not row.printed or f"privatizer {row.trust} {name} paper" in ROWS, name
    for trust in set(RANK) - {"none"}:
        assert {f"trial {trust} {words}" for words in ("two arms", "one arm", "of the same people")} <= set(ROWS)


def test_every_option_of_a_run_and_of_a_learner_is_named():
    assert set(RUN_OPTIONS) == {field.name for field in fields(RunConfig)}
    assert set(LEARNER_OPTIONS) == {option for row in LEARNERS.values() for option in row.options}
    for covered in (*RUN_OPTIONS.values(), *LEARNER_OPTIONS.values()):
        assert set(covered.rows) <= set(ROWS), covered
        assert covered.why or covered.rows


def test_the_table_has_places_for_all_rows():
    assert len(ROWS) <= PLACES


@pytest.mark.parametrize(("learner", "trust"), [("bucb", "central"), ("bucb", "shuffle"), ("ldp-rts", "local")])
def test_a_loss_budget_changes_no_noise_and_no_event(learner, trust):
    """Only who follows which policy: sizes of batches may differ, and the events of a batch are compared by size."""
    settings = {"baseline": "uniform", "loss_budget": 0.05}
    run = RunConfig(
        environment="riverswim:states=3,horizon=2", learner=learner, episodes=400, seeds=(0,), trust=trust,
        epsilon=1.0, delta=0.0 if trust == "local" else 1e-6,
    )  # fmt: skip
    plain, kept = (assemble(config).privatizer for config in (run, replace(run, **settings)))
    assert type(kept) is type(plain)
    assert kept.claim == plain.claim
    if trust == "local":
        assert kept == plain
        return
    again = plain.planned(kept.batches, getattr(kept, "following", None))
    assert kept == again
    assert kept.events() == again.events()


@pytest.mark.parametrize(("learner", "trust"), [("bucb", "central"), ("bucb", "shuffle"), ("ucbvi", "local")])
def test_features_are_the_states_of_the_release(learner, trust):
    """Three states seen as two release what a world of two states does."""
    delta = 0.0 if trust == "local" else 1e-6
    seen, small = (
        assemble(
            RunConfig(
                environment=f"riverswim:states={states},horizon=2", learner=learner, episodes=400, seeds=(0,),
                trust=trust, epsilon=1.0, delta=delta, sees=sees,
            )
        ).privatizer
        for states, sees in ((3, (0, 1, 1)), (2, None))
    )  # fmt: skip
    assert seen.shape == small.shape
    assert seen.claim == small.claim
    assert seen.events() == small.events()


def test_where_others_are_dishonest_the_honest_are_a_batch_of_their_own():
    """Their noise is known to the adversary: events are those of the same bits in a batch of the honest alone."""
    whole = attacked("privatizer shuffle binomial tight")
    users = 2 * whole.first.target
    plan = replace(whole.basis, users_per_batch=users, honest=0.5)
    half = plan.release_of(StageSize(target=users, least=users, query=TOTALS))
    alone = replace(half.bit_noise(users), users=half.honest)
    assert half.honest == whole.first.target
    assert half.events() == alone.events(half.families())
    assert half.bit_noise(users).honest == alone.total
