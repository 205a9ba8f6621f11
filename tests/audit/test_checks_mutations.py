"""Every planted bug is caught, by whom the table says; nothing honest is flagged; the committed run agrees."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from mutants.loop import LOOPS
from mutants.mutations import MUTATIONS, ORIGINALS, TOTAL_FALSE_ALARM, examine
from mutants.release import RELEASES
from papers.audit.pages import missing, render_page, tables
from papers.audit.picture import REFUTED, WATCHMEN, audit_digest, draw_audit
from papers.audit.record import load_audit
from papers.audit.suite import AS_PRINTED, alarming, all_rows
from tacit.audit.conformance import check_privatizer
from tacit.errors import UnknownName

ROOT = Path(__file__).parents[2]
COMMITTED = load_audit(ROOT / "results" / "audit")
ASKED = (
    "noise halved", "H for 2H", "ln K for log2 K levels", "shared noise", "tree noise redrawn",
    "raw initial-state estimate", "data-dependent batch size", "un-noised update", "integer messages",
    "unpadded message counts", "seed reuse across users", "reward not clipped", "last batch re-normalised",
    "regret leaked into the plan",
)  # fmt: skip
GENERAL = {
    "mean reward without noise": "exposed",
    "Poisson coins reused": "coins",
    "reward dropped from the sampled norm": "length",
    "state in the tenth decimal": "lattice",
    "secure bits cut to two digits": "measured",
}
"""Bugs that rules for all privatizers must catch, not rules that know them."""


def test_there_are_at_least_sixty_and_all_that_were_asked_for():
    assert len(MUTATIONS) >= 60
    assert {*ASKED, *GENERAL} <= set(MUTATIONS)
    assert all(bug.expected for bug in MUTATIONS.values())
    assert sum(bug.secure for bug in MUTATIONS.values()) >= 8
    assert TOTAL_FALSE_ALARM <= 0.01


DEVICES_ALONE = ("secure device noise halved", "secure answers for twice epsilon")
"""The noise of real devices is measured with every change by `test_deployed_messages_have_the_stated_noise`."""


def waits(name):
    """Thousands of releases take seconds: these bugs are planted before a merge, the rest with every change."""
    slow = name in DEVICES_ALONE or (MUTATIONS[name].rules[:1] == ("exposed",) and name not in GENERAL)
    return pytest.param(name, marks=pytest.mark.slow if slow else ())


@pytest.mark.statistical
@pytest.mark.parametrize("name", [waits(name) for name in MUTATIONS])
def test_every_bug_is_caught(name):
    """By the first watchman of its list, who alone is asked; the committed run asks all three."""
    bug = MUTATIONS[name]
    rules = (GENERAL.get(name, bug.rules[0]),) if bug.rules else None
    found = examine(name, bug, watchmen=bug.expected[:1], trials=3000, rules=rules)
    assert found.by == bug.expected[:1], found.details


@pytest.mark.statistical
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in LOOPS else pytest.mark.slow)
        for name in ORIGINALS
        if name != "shuffle binomial"
    ],
)
def test_nothing_honest_is_attacked(name):
    """False-alarm rate 1e-4 each; the power is proved by the bugs above. Messages have a test of their own."""
    found = examine(name, ORIGINALS[name], watchmen=("accountant", "audit"), trials=1000)
    assert found.by == (), found.details


SECURE = ("local oue devices, secure", "shuffled batch of a layer, secure")
"""One of every kind with noise from the operating system."""


@pytest.mark.statistical
@pytest.mark.parametrize(
    "name",
    [
        # Devices, curators and shufflers with seeded noise are of the registry, where every mechanism conforms
        # (`test_checks_conformance`); so do single batches (`test_batches_times_stages`).
        pytest.param(name, marks=() if name in SECURE else pytest.mark.slow)
        for name in ORIGINALS
        if name not in {**LOOPS, **RELEASES}
    ],
)
def test_every_original_conforms(name):
    """All rules that apply. False alarms below 1.2e-5 each (twelve statistical rules); power: the bugs above.

    Noise of the operating system is not reproducible: of a hundred thousand runs one may fail. What other releases were
    planted in has a test of its own (`test_checks_harness`); loops have no rules.
    """
    original = ORIGINALS[name]
    passed = check_privatizer(original.plant(), replicates=100, secure=original.secure).passed
    general, counts = ("measured", "exposed", "tails", "lattice"), ("variance", "independent", "unbiased", "precise")
    if original.secure:
        assert passed == (*general, *(counts if "devices" in name else ()))
        return
    assert {*general, "families", "state", "noise source", "silence"} <= set(passed)
    assert ({"batch size", "messages"} <= set(passed)) == ("shuffle" in name)
    assert (set(counts) <= set(passed)) == ("shuffled batch" not in name)


def test_an_unknown_watchman_is_refused():
    with pytest.raises(UnknownName, match="did you mean 'audit'"):
        examine("x", ORIGINALS["plan"], watchmen=("audits",))


def test_the_committed_run_has_todays_rows_and_nothing_alarms():
    asked = COMMITTED.settings
    assert set(COMMITTED.rows) == set(all_rows(asked.epsilon, asked.delta))
    assert list(missing(COMMITTED)) == []
    assert asked.trials == 1_000_000
    assert list(alarming(COMMITTED.findings)) == []
    (integers,) = [f for f in COMMITTED.findings if f.calibration == AS_PRINTED]
    assert integers.verdict == "CERTIFICATE REFUTED"
    # What is printed and certified to be false is refuted by an attack, too.
    assert {f.name for f in COMMITTED.findings if f.verdict == "claim refuted"} >= {
        "local/laplace, full losses", "local/laplace, bandit losses", "central/gaussian-gradient, softmax",
    }  # fmt: skip


def test_a_page_names_what_was_not_made_yet():
    record = load_audit(ROOT / "results" / "audit")
    name, bug = list(record.rows)[-1], next(iter(record.mutations))
    del record.rows[name], record.mutations[bug]
    lacking = missing(record)
    assert len(lacking) == 2
    assert name in lacking[0]
    assert bug in lacking[1]
    assert f"**Not made yet:** {', '.join(lacking)}." in render_page(record)


def test_the_committed_run_is_tight():
    found = {f.name: f for f in COMMITTED.findings if f.kind == "mechanism"}
    for name in ("laplace", "gaussian", "binomial", "rr"):
        assert 0.8 * found[name].certified <= max(found[name].by_events, found[name].by_curve)
    assert all(f.attacked <= f.certified * (1 + 1e-6) for f in COMMITTED.findings if f.calibration == "tight")


def test_the_committed_run_caught_every_bug_and_flagged_nothing():
    assert set(COMMITTED.mutations) == set(MUTATIONS)
    assert set(COMMITTED.originals) == set(ORIGINALS)
    for name, caught in COMMITTED.mutations.items():
        assert set(MUTATIONS[name].expected) <= set(caught.by), name
    assert [name for name, caught in COMMITTED.originals.items() if caught.by] == []


def test_the_page_is_made_of_the_committed_run():
    assert (ROOT / "docs" / "audit.md").read_text(encoding="utf-8") == render_page(COMMITTED)
    files = {path.name: path.read_text("utf-8") for path in (ROOT / "docs" / "tables").glob("audit*.csv")}
    assert files == tables(COMMITTED)
    assert files["audit.csv"].count("\n") == len(COMMITTED.findings) + 1


def test_the_figure_is_drawn_from_the_committed_run_and_shows_every_row():
    """Redraw it with `python -m papers.audit.picture results/audit`."""
    with Image.open(ROOT / "results" / "audit" / "audit.png") as picture:
        assert picture.text["Source"] == audit_digest(ROOT / "results" / "audit")
    attacks, bugs = draw_audit(COMMITTED).axes
    shares = sorted(line.get_ydata()[0] for line in attacks.lines if len(line.get_xdata()) == 1)
    expected = [finding.attacked / finding.claimed for finding in COMMITTED.findings]
    assert shares == sorted(min(share, 3.0) for share in expected)
    refuted = [line for line in attacks.lines if line.get_color() == REFUTED and len(line.get_xdata()) == 1]
    assert len(refuted) == sum(finding.verdict != "holds" for finding in COMMITTED.findings)
    caught = [sum(name in bug.by for bug in COMMITTED.mutations.values()) for name in WATCHMEN]
    assert [bar.get_width() for bar in bugs.patches] == caught
    assert {name for bug in COMMITTED.mutations.values() for name in bug.by} == set(WATCHMEN)
