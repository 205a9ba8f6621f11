"""The lower bound of joint privacy: a line that private learners cannot cross, and that a public one does cross."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from papers.committed import committed
from papers.frontier.bound import EPSILONS, LINES, gaps, least_regret, runs

RESULTS = Path(__file__).parents[2] / "results"
PAIRS, PAID = 9, 3


def followed(gap: float, lie: float, episodes: int) -> float:
    """Exact mean regret over the hidden pairs: stay after a +, else go on to the next pair; bits lie at this rate."""
    stay = np.full(PAIRS, 0.5)
    stay[0] = (0.5 + gap) * (1 - lie) + (0.5 - gap) * lie
    law, regret = np.full(PAIRS, 1 / PAIRS), 0.0  # where it is, counted from the hidden pair
    for _ in range(episodes):
        regret += PAID * gap * (1 - law[0])
        law = law * stay + np.roll(law * (1 - stay), 1)
    return regret


@pytest.mark.parametrize("gap", [0.5, 0.3, 0.014])
@pytest.mark.parametrize("epsilon", [0.05, 0.2, 1.0, 5.0])
def test_a_private_rule_whose_regret_is_computed_obeys_the_bound(gap, epsilon):
    # One randomized bit per user is ε-DP for all that follows, under replacement of any user.
    lie = 1 / (1 + math.exp(epsilon))
    for episodes in (1, 2, 20, 200, 1_000):
        regret = followed(gap, lie, episodes)
        assert regret >= least_regret(episodes, gap, epsilon) * (1 - 1e-12)
        assert regret >= least_regret(episodes, gap, epsilon, 1e-6) * (1 - 1e-12)
        assert followed(gap, 0.0, episodes) >= least_regret(episodes, gap) * (1 - 1e-12)


def test_the_same_rule_without_noise_crosses_it():
    assert followed(0.5, 0.0, 2_000) < 0.4 * least_regret(2_000, 0.5, 0.1)
    assert followed(0.5, 0.0, 2_000) < 0.7 * least_regret(2_000, 0.5, 0.1, 1e-6)


def test_the_bound_has_the_rates_it_is_named_for():
    a, b = (least_regret(10**5, 0.5, epsilon) for epsilon in (0.002, 0.02))
    assert a / b == pytest.approx(10, rel=0.02)
    roots = [least_regret(K, list(gaps(K).values())[1]) for K in (10_000, 1_000_000)]
    assert roots[1] / roots[0] == pytest.approx(10, rel=0.02)
    # by hand: K = 1 has 1 - 1/M; K = 2 at Δ = 1/2 loses 1/(2M) more in the second episode
    assert least_regret(1, 0.5) == pytest.approx(PAID * 0.5 * 8 / 9)
    assert least_regret(2, 0.5) == pytest.approx(PAID * 0.5 * (16 / 9 - 1 / 18))


def test_the_terms_are_those_of_a_loop_written_again():
    K, gap, epsilon, delta, M = 50, 0.3, 0.2, 0.01, 9
    total = 0.0
    for k in range(1, K + 1):
        terms = [0.0, 1 - 1 / M - math.sqrt(-math.log(1 - 4 * gap * gap) * (k - 1) / (4 * M))]
        for m in range(25):
            group = sum(delta * math.exp(j * epsilon) for j in range(m))
            terms.append(math.exp(-m * epsilon) * (1 - 1 / M - gap * (k - 1) / M / (m + 1) - group))
        total += max(terms)
    assert least_regret(K, gap, epsilon, delta) == pytest.approx(PAID * gap * total)


def test_no_committed_average_is_below_its_bound_by_more_than_its_interval():
    averages = committed(RESULTS, "frontier/lower-bound").json("lower-bound.json")["averages"]
    places = {(one["line"], one["panel"], one["epsilon"]) for one in averages}
    private = [line for line, (_, delta) in LINES.items() if delta is not None]
    assert places >= set(itertools.product(private, gaps(20_000), EPSILONS))
    for one in averages:
        assert one["runs"] >= 10
        epsilon = math.inf if one["epsilon"] is None else one["epsilon"]
        held = least_regret(one["episodes"], gaps(one["episodes"])[one["panel"]], epsilon, one["delta"] or 0.0)
        assert one["bound"] == pytest.approx(held)
        # 22 averages: if all touched their bounds, 3 standard errors would be missed with probability 3%.
        assert one["regret"] + 3 * one["standard_error"] >= held
    public = next(one for one in averages if one["epsilon"] is None and one["panel"] == "Δ = 1/2")
    assert public["regret"] + 3 * public["standard_error"] < least_regret(20_000, 0.5, 0.1)  # power


def test_averages_are_those_of_the_committed_rows():
    found = committed(RESULTS, "frontier/lower-bound")
    for one in found.json("lower-bound.json")["averages"]:
        words = "" if one["epsilon"] is None else f", ε={one['epsilon']:g}"
        keys = [key for key in found.cells if key[0] == f"{one['line']}, {one['panel']}{words}"]
        assert len(keys) == PAIRS
        finals = np.array([found.finals(*key) for key in keys])
        assert finals.mean() == pytest.approx(one["regret"], rel=1e-5)
        error = np.sqrt((finals.std(axis=1, ddof=1) ** 2 / finals.shape[1]).sum()) / PAIRS
        assert error == pytest.approx(one["standard_error"], rel=1e-4)


def test_what_runs_is_what_the_bound_is_about():
    for run in runs("paper"):
        config = run.config
        assert config.trust == ("none" if config.epsilon is None else "central")
        assert "hard-tree:states=6,actions=3,horizon=5" in config.environment
        if run.label.startswith("pucb"):
            assert config.delta == 0.0
