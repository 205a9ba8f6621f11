"""The table of guarantees: regenerated, compared with another accountant, and checked where the two disagree."""

from __future__ import annotations

import json
import math
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from mpmath import erfc, exp, log, mp, mpf, sqrt

from papers.bai2025secure.verdicts import first_leak, first_violation, leak
from papers.garcelon2021local.verdicts import bounded_epsilon, printed_delta, printed_least_delta
from papers.guarantees import render_guarantees, render_rows, verdicts
from papers.he2025policy import hidden_actions as hidden
from papers.statements import STATEMENTS
from papers.verdict import Verdict
from tacit.accounting.events.gaussian import classical_gaussian_sigma
from tacit.cli import main
from tacit.noise.binomial import paper_threshold
from tacit.noise.bounded import paper_bounded_limit

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "guarantees.md"
TIGHT = (1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17)
"""Rows with least noise for what is claimed."""
COMMANDS = (1, 2, 12, 13, 14, 15, 16)
"""Rows with a command beside them."""
TAU = paper_threshold(6, 1.0, 1e-6)


def row_of(number: int) -> Verdict:
    """Computed when a test asks, not when tests are collected."""
    return verdicts()[number - 1]


def test_rows_are_listed_where_they_belong():
    assert [verdict.row for verdict in verdicts()] == list(range(1, 19))
    assert TIGHT == tuple(verdict.row for verdict in verdicts() if verdict.tight_epsilon is not None)
    assert COMMANDS == tuple(verdict.row for verdict in verdicts() if verdict.command is not None)


def numbers(text: str) -> list[float]:
    return [float(word) for word in re.findall(r"(?<![\w.^-])\d+(?:\.\d+)?(?:e-?\d+)?(?![\w(-])", text)]


def test_the_page_is_what_the_code_says():
    assert PAGE.read_text(encoding="utf-8") == render_guarantees()
    assert (DOCS / "tables" / "guarantees.csv").read_text(encoding="utf-8") == render_rows()


def test_every_row_states_neighbours_unit_and_version():
    page = render_guarantees()
    assert [verdict.row for verdict in verdicts()] == list(range(1, 19))
    assert render_rows().count(",replace-one,") == 18
    assert "python -m papers.guarantees" in page
    assert re.search(r"tacit \d+\.\d+", page)


# What another accountant gave, on a coarser grid: (verdict, epsilons in the order of the certified column).
NOTED = {
    1: (True, [0.0629, 0.0628, 0.0622, 0.0595, 0.0497]),
    2: (True, [0.0554, 0.0554, 0.0550]),
    4: (True, [0.0192, 0.0132]),
    5: (True, [0.751]),
    6: (False, [1.61, 1.29, 1.16]),
    8: (False, [3.67, 3.86, 5.57, 0.484, 0.51, 0.76]),
    9: (False, [2.00, 2.07, 2.69, 0.77]),
    10: (False, [2 / 3]),
    11: (False, [2.00, 3.67, 1.37]),
    12: (True, [0.944]),
    13: (True, [0.124]),
    14: (False, [1.144]),
    15: (True, [0.944]),
    16: (False, [4.26]),
    17: (True, [0.958]),
    18: (False, [34.0]),
}


@pytest.mark.parametrize("row", NOTED)
def test_certified_epsilons_are_those_of_another_accountant(row):
    true, noted = NOTED[row]
    assert row_of(row).true is true
    found = numbers(row_of(row).certified.replace(f"delta {1e-6:g}: ", ""))
    for epsilon in noted:
        # Equal to the digits that were noted, give or take one in the last of them.
        assert any(abs(value - epsilon) <= 0.008 * epsilon for value in found), (epsilon, found)
    assert row_of(row).epsilon == pytest.approx(noted[0], rel=0.005)


@pytest.mark.parametrize(
    ("row", "paper", "tight"),
    [
        (1, [335.9, 336.2, 339.1, 353.6, 418.0, 470.0], [25.37, 24.65, 19.83]),
        (2, [378.0, 387.0], [25.37, 24.65, 19.83]),
        (4, [336.0], [8.49, 6.08]),
        (5, [4.845], [3.731]),
        (6, [6.85], [10.55, 7.46]),
        # 1285: printed counts are not padded, so at most 13 nodes of the tree add up
        (8, [1285.0], [2667.0, 9334.0, 99.1, 135.6]),
        (9, [1285.0, 25.5], [2667.0, 50.9, 82.7, 20.7]),
        (10, [25.5], [50.9]),
        (11, [25.5], [50.9, 33.9]),
        (12, [50.9], [48.1, 31.1, 44.0]),
        (13, [352.6], [52.0, 41.2]),
        (14, [46.0], []),
        (15, [88.2], [19.94]),
        (16, [49.5], [146.0]),
        (17, [67.9], [65.1, 31.1]),
    ],
)
def test_standard_deviations_are_those_of_another_accountant(row, paper, tight):
    for text, noted in ((row_of(row).paper_std, paper), (row_of(row).tight_std, tight)):
        for std in noted:
            assert any(abs(value - std) <= 0.003 * std for value in numbers(text)), (std, text)


@pytest.mark.parametrize("row", TIGHT)
def test_tight_noise_keeps_what_the_paper_claims(row):
    verdict = row_of(row)
    assert 0.99 * verdict.claimed[0] < verdict.tight_epsilon <= verdict.claimed[0] * (1 + 1e-15)


@pytest.mark.parametrize("row", COMMANDS)
def test_the_command_beside_a_row_finds_the_same_number(row, capsys):
    verdict = row_of(row)
    assert main([*shlex.split(verdict.command)[1:], "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    side = found["paper_2024" if row == 1 else "paper"]
    epsilon = side["certificate"]["epsilon"]
    if row in (1, 2):  # the row shows several batch sizes, the command one of them
        assert math.ceil(epsilon * 1e5) / 1e5 in numbers(verdict.certified)
    else:
        assert epsilon == pytest.approx(verdict.epsilon, rel=1e-9)
    assert side["holds"] is verdict.true


def test_row_3_integers_break_the_claimed_delta_from_tau_over_24_on():
    assert math.isinf(row_of(3).epsilon)
    first = first_leak(TAU)
    assert leak(first, TAU) > 1e-6 >= leak(first - 1, TAU)
    assert math.ceil(TAU / first) == 24  # Lemma M2 (integers leak): 24 bits are not enough, 25 are
    # Exactly, in integers: 18 counters, each shows m + 1 = 25 with probability 2^-24 if and only if the user was there.
    assert 2**-24 * 18 - math.comb(18, 2) * 2**-48 <= leak(first, TAU) <= 2**-24 * 18
    assert [leak(n, TAU) for n in (20_000, 50_000, 100_000, 1_000_000)] == pytest.approx(
        [2.1e-6, 0.017, 0.435, 0.99], rel=0.03
    )


def gaussian_delta_exactly(epsilon: float, delta: float) -> mpf:
    """δ of the classical calibration at ε with 50 digits."""
    with mp.workdps(50):
        e = mpf(epsilon)
        mu = e / sqrt(2 * log(mpf("1.25") / mpf(str(delta))))
        phi = lambda x: erfc(-x / sqrt(mpf(2))) / 2  # noqa: E731
        return phi(mu / 2 - e / mu) - exp(e) * phi(-mu / 2 - e / mu)


def test_row_5_the_classical_gaussian_first_fails_just_below_8_42():
    assert gaussian_delta_exactly(8.42, 1e-5) > 1e-5 >= gaussian_delta_exactly(8.419, 1e-5)
    assert 8.419 < first_violation(1e-5) < 8.42
    for delta, noted in ((1e-3, 7.47), (1e-6, 8.79), (1e-8, 9.38)):
        assert first_violation(delta) == pytest.approx(noted, abs=0.01)
    assert classical_gaussian_sigma(1.0, 1e-5) == pytest.approx(4.845, abs=5e-4)


def test_row_5_a_hidden_action_hides_nothing_of_two_actions_played_alike():
    # Contribution R_a (1_a - π): rewards (1, -1) against (-1, 1), at the printed G = √(1/2), whichever action is drawn.
    scores = np.eye(2) - 0.5
    one, other = (np.array(rewards)[:, None] * scores for rewards in ((1.0, -1.0), (-1.0, 1.0)))
    assert (one == one[0]).all()
    assert (other == other[0]).all()
    assert np.linalg.norm(one[0] - other[0]) == pytest.approx(2.0 * math.sqrt(1.0 - 1.0 / 2))


def test_row_6_the_softmax_score_reaches_root_2_and_the_printed_bound_is_its_expectation():
    probability = np.array([1e-9, 1.0 - 1e-9])
    scores = np.eye(2) - probability
    norms = (scores**2).sum(axis=1)
    assert norms.max() == pytest.approx(2.0, abs=1e-8)
    rng = np.random.default_rng(0)
    for A in (2, 4, 10):
        policies = rng.dirichlet(np.ones(A), 2000)
        squares = ((np.eye(A)[None] - policies[:, None]) ** 2).sum(axis=2)
        assert squares.max() <= 2.0
        assert (policies * squares).sum(axis=1).max() <= 1.0 - 1.0 / A + 1e-12


def test_row_6_with_a_hidden_action_the_printed_noise_is_enough():
    # By joint convexity, coupled action by action: enough from five actions on, at (1, 1e-5).
    alike = {A: max(hidden.same_action_delta(policy) for policy in hidden.policies(A)) for A in (2, 4, 5, 10)}
    assert alike[2] > alike[4] > 1e-5 > alike[5] > alike[10]
    assert alike[5] == pytest.approx(7.4e-6, rel=0.02)
    assert alike[10] == pytest.approx(3.6e-6, rel=0.02)
    assert hidden.same_state_delta(np.array([1e-7, 5e-8, 1.0 - 1.5e-7])) < 1e-7  # a policy that is nearly certain
    # With the best coupling for every number of actions; two actions exactly, as a mixture on a line.
    for A in (2, 3, 4, 5):
        assert hidden.hidden_action_delta(A) < 1e-7
    x = np.linspace(-40.0, 40.0, 80_001)
    sigma = hidden.printed_sigma(2)
    for p in (0.094, 0.3, 0.5):  # means R_a (1_a - π) along (1, -1)/√2, with rewards (1, 1) against (-1, -1)
        means = math.sqrt(2.0) * np.array([1.0 - p, -p])
        first, second = (
            sum(
                w * np.exp(-((x - s * mean) ** 2) / (2 * sigma**2)) for w, mean in zip((p, 1.0 - p), means, strict=True)
            )
            for s in (1.0, -1.0)
        )
        density = np.maximum(first - math.e * second, 0.0) / (sigma * math.sqrt(2 * math.pi))
        exact = density.sum() * (x[1] - x[0])
        assert exact <= hidden.same_state_delta(np.array([p, 1.0 - p])) * (1 + 1e-6)
    # A wrong bound would be seen: half of the noise is not enough even then.
    assert hidden.gaussian_delta(np.array([2.0 * math.sqrt(2.0) / (0.5 * sigma)]))[0] > 1e-5


def test_row_16_claims_nothing_at_these_sizes_and_depends_on_c():
    assert printed_least_delta(8) == pytest.approx(0.9774, abs=1e-4)
    assert printed_delta(1 / 18, 6, printed_least_delta(8), printed_least_delta(32)) > 1.0
    assert printed_delta(0.2 / 6, 2, printed_least_delta(4), printed_least_delta(8)) > 1.0  # the paper's figures
    assert printed_least_delta(2 * 10**11) < 0.5 < printed_least_delta(10**11)
    assert [bounded_epsilon(C) for C in (1.0, 2.0, 2.95)] == pytest.approx([4.26, 1.599, 0.963], rel=2e-3)
    assert row_of(16).decided is False
    assert "refuted" not in {s.status for s in STATEMENTS if s.name == "Proposition 14"}


def test_a_printed_constant_can_be_certified_from_the_command_line(capsys):
    words = "certify --trust local --states 2 --actions 2 --horizon 2 --episodes 100 --epsilon 2 --pooled --delta 1e-3"
    found = {}
    for mechanism in ("bounded", "bounded:C=2.95", "gaussian:c=statement"):
        assert main([*words.split(), "--calibration", "paper", "--mechanism", mechanism, "--json"]) == 0
        found[mechanism] = json.loads(capsys.readouterr().out)
    one, other = (found[name]["paper"]["noise_std"]["visits"] for name in ("bounded", "bounded:C=2.95"))
    assert other == pytest.approx(2.95 * one)
    assert found["bounded:C=2.95"]["tight"] == found["bounded"]["tight"]
    assert main([*words.split(), "--mechanism", "bounded:C=2.95"]) == 2  # `tight` chooses its own noise
    assert "use 'paper'" in capsys.readouterr().err


def lower_delta(counters: dict[tuple[float, int], int], epsilon: float) -> float:
    """A lower bound on δ(ε) of bounded noise by other means: cells of outcomes, losses rounded down, plain FFT.

    Telling only the cell of an outcome is post-processing, and a smaller loss means a smaller δ.
    """
    spacing, half, points = 1e-5, 2**20, 2**21
    spectrum = np.ones(points // 2 + 1, dtype=complex)
    for (radius, shift), count in counters.items():
        fine = np.linspace(-radius, radius + shift, 400_001)
        middle = 0.5 * (fine[1:] + fine[:-1])

        def mass(x: np.ndarray, radius: float = radius) -> np.ndarray:
            inside = np.clip(1.0 - (x / radius) ** 2, 2e-3, None)
            return np.where(np.abs(x) < radius, np.exp(-np.exp(1.0 / inside)), 0.0)

        p, q = mass(middle), mass(middle - shift)
        p, q = p / p.sum(), q / q.sum()
        kept = (p > 1e-25) & (q > 1e-25)
        index = np.floor(np.log(p[kept] / q[kept]) / spacing).astype(int)
        inside = np.abs(index) < half // 2
        table = np.bincount(index[inside] % points, p[kept][inside], minlength=points)
        spectrum *= np.fft.rfft(table) ** count
    masses = np.fft.irfft(spectrum, points)
    losses = spacing * np.where(np.arange(points) < half, np.arange(points), np.arange(points) - points)
    above = losses > epsilon
    return float((masses[above] * -np.expm1(epsilon - losses[above])).sum())


def test_row_16_a_radius_of_509_is_not_enough_and_the_printed_one_is_far_off():
    assert lower_delta({(509.0, 6): 4, (509.0, 5): 2}, 1.0) > 1e-5
    assert lower_delta({(511.0, 6): 4, (511.0, 5): 2}, 1.0) < 1e-5  # the bound can tell: a larger radius passes
    assert 509.0 < float(re.search(r"R = ([\d.]+)", row_of(16).tight_std)[1]) < 509.4
    small, large = (paper_bounded_limit(cells, 6, 1.0, 1e-5) for cells in (8, 32))
    assert lower_delta({(small, 6): 4, (large, 5): 2}, 1.0) > 100 * 1e-5


def test_the_blocks_of_the_accounting_page_run(capsys):
    blocks = re.findall(r"^```python\n(.*?)^```$", (DOCS / "accounting.md").read_text(encoding="utf-8"), re.M | re.S)
    # The blocks after a console block need its files: tests/test_docs.py runs the whole page, in order.
    alone = [block for block in blocks if "river/" not in block and 'verify("' not in block]
    assert (len(blocks), len(alone)) == (10, 8)
    exec(compile("\n".join(alone), "accounting.md", "exec"), {})  # noqa: S102
    assert capsys.readouterr().out.startswith("PRIVACY CERTIFICATE\n")
