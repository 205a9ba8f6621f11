"""Fingerprints of the committed audit: what they say is still so; a pinned sample guards the rules of the attacks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mutants.deployed import DEPLOYED
from mutants.devices import SecureDevices
from mutants.planted import twin
from mutants.shuffle import SHUFFLERS
from papers.audit.fingerprints import ATTACKS, bug_fingerprint, digest_of, row_fingerprint
from papers.audit.record import load_audit
from papers.audit.resume import PLANTED
from papers.audit.suite import all_rows
from papers.fingerprint import BEFORE
from tacit.audit.conformance import NonConformant, check_privatizer
from tacit.audit.records import pooled, record_answers, record_releases
from tacit.audit.views import view_of
from tacit.data.trajectories import Trajectories
from tacit.noise.laplace import Laplace
from tacit.protocol import TOTALS
from tacit.randomness import SimulationNoise
from tacit.released.counts import CountShape

COMMITTED = load_audit(Path(__file__).parents[2] / "results" / "audit")
ROWS = all_rows(COMMITTED.settings.epsilon, COMMITTED.settings.delta)
PINNED = {"mechanism rr": 0.9034493488810745, "mechanism laplace-tree": 0.7998128554560965}
"""What 20,000 trials prove: the rules that all rows share."""


def test_what_the_committed_entries_say_of_themselves_is_still_so():
    """Entries older than fingerprints say that they are; `python -m papers audit --mutations` repeats those."""
    trials, seed = COMMITTED.settings.trials, COMMITTED.settings.seed
    today = {
        "rows": lambda name: row_fingerprint(ROWS[name], trials, seed),
        **{
            part: lambda name, planted=planted: bug_fingerprint(planted[name], seed)
            for part, planted in PLANTED.items()
        },
    }
    stale = [
        (part, name)
        for part, entries in COMMITTED.made.items()
        for name, made in entries.items()
        if made.fingerprint != BEFORE and made.fingerprint != today[part](name)
    ]
    assert stale == []


@pytest.mark.parametrize("name", PINNED)
def test_the_rules_of_the_attacks_are_those_of_their_revision(name):
    """Whoever changes what an attack finds adds a line to `ATTACKS`, and pins the new numbers here."""
    assert set(ATTACKS) == {"mechanism", "privatizer", "messages", "learner", "watchmen"}
    (found,) = ROWS[name].findings(20_000, 1e-3, 0)
    assert found.attacked == pytest.approx(PINNED[name], rel=1e-6)


def test_a_digest_knows_every_setting_and_forgets_defaults():
    one, other = Laplace(scale=2.0, discrete=False), Laplace(scale=2.0, discrete=True)
    assert digest_of(one) == digest_of(Laplace(scale=2.0 * (1.0 + 1e-12), discrete=False))
    assert len({digest_of(one), digest_of(other), digest_of(Laplace(scale=2.1, discrete=False))}) == 3
    shape = CountShape(horizon=2, num_states=3, num_actions=2, staged=True)
    assert digest_of(shape) == digest_of(CountShape(horizon=2, num_states=3, num_actions=2, staged=True, support=None))


@pytest.mark.parametrize("name", ["privatizer local laplace tight", "privatizer central kary-tree tight"])
def test_trials_in_one_compiled_loop_are_releases_one_by_one(name):
    privatizer = ROWS[name].subject().attacked
    users = view_of(privatizer).worlds[0]
    one, other = (SimulationNoise(np.random.default_rng(5)) for _ in range(2))
    together = record_releases(privatizer, TOTALS)(users, 40, one)
    batches = [
        Trajectories(user.states[np.newaxis], user.actions[np.newaxis], user.rewards[np.newaxis]) for user in users
    ]
    alone = record_answers(privatizer, [TOTALS] * len(users))(batches, 40, other)
    shown = [part.size for part in privatizer.begin().released if part.dtype == np.float64]
    assert together.shape[2] == sum(shown)
    assert np.array_equal(together, alone)
    assert one.generator.random() == other.generator.random()
    state, memory = pooled(privatizer.begin())
    memory.floats[:] = 3.0
    assert state.released.visits.min() == 3.0


def test_sums_of_many_batches_are_scored_as_releases_are_and_never_where_they_are_not():
    privatizer = ROWS["privatizer shuffle batch of one layer"].subject().attacked
    view = view_of(privatizer)
    plain = twin_view(view, bulk=None).scores(2500, 3)
    assert all(np.allclose(*pair, rtol=1e-9) for pair in zip(view.scores(2500, 3), plain, strict=True))
    wrong = twin_view(view, bulk=lambda users, count, noise: np.zeros(count))
    assert all(np.array_equal(*pair) for pair in zip(wrong.scores(2500, 3), plain, strict=True))


def twin_view(view, **changes):
    return type(view)(**{name: getattr(view, name) for name in view.__dataclass_fields__} | changes)


# -------------------------------------------------------------------------- lost variance on secure paths


class Quieter(SecureDevices):
    """Broken: a third of the secure noise's variance is lost, whatever the noise, and nothing else."""

    def release(self, state, users, query, noise):
        after, released = super().release(state, users, query, noise)
        exact = Quieter.expected(self, users)
        statistics = released.statistics
        for name in ("transitions", "visits", "rewards"):
            values = getattr(statistics, name)
            values[:] = getattr(exact, name) + (2.0 / 3.0) ** 0.5 * (values - getattr(exact, name))
        return after, released

    def expected(self, users):
        from tacit.audit.count_probe import exact_counts

        return exact_counts(self.shape, users)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("name", DEPLOYED)
def test_lost_variance_on_the_secure_path_of_any_device_is_seen(name):
    """False-alarm rate 1e-6; the noise is the operating system's, so this fails by chance once in a million runs."""
    broken = twin(Quieter, DEPLOYED[name]())
    with pytest.raises(NonConformant) as found:
        check_privatizer(broken, secure=True, only=("variance", "measured"))
    assert {"variance", "measured"} & found.value.rules


def test_every_randomizer_with_a_secure_path_is_an_original():
    """A mechanism of local trust that devices can send, and both kinds of shuffled bits."""
    assert {f"local {name} devices" for name in ("laplace", "gaussian", "oue", "rr", "subset")} == set(DEPLOYED)
    assert {"shuffle binomial", "shuffle mirrored-binomial"} <= set(SHUFFLERS)
