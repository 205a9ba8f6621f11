"""The page about growth: made of the committed benchmarks, number by number."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from benchmarks import bench_growth, bench_horizon, growth_page
from benchmarks.bench_loop import shape
from benchmarks.bench_scaling import Watched
from benchmarks.cells import TRUSTS, counting

from tacit.environments.tabular_worlds import random_mdp
from tacit.lazy_jit import interpreted
from tacit.learners.ucbvi import UCBVI
from tacit.protocol import copy_state
from tacit.release.none import Unprotected
from tacit.renamed import LEARNERS
from tacit.simulation.simulate import simulate


def test_the_page_is_made_of_the_committed_results():
    assert growth_page.PAGE.read_text("utf-8") == growth_page.page(*growth_page.committed())
    assert growth_page.TABLE.read_text("utf-8") == growth_page.table(*growth_page.committed()[:2])
    assert growth_page.FIGURE.stat().st_size > 10_000


def test_another_number_is_another_page():
    results = growth_page.committed()
    written = documents(results)
    for which in range(4):
        changed = copy.deepcopy(list(results))
        row = next(row for row in changed[which]["rows"] if row["ratio"] is not None and _shown(row))
        row["ratio"] = 123.456
        if "cell" in row:
            row["cell"]["running"] = 123.456
        assert documents(changed) != written


def documents(results):
    return growth_page.page(*results), growth_page.table(*results[:2])


def _shown(row) -> bool:
    shown = ("ucbvi, exponent in H", "everything planned: time per user, exponent in H over 4 to 32")
    return "cell" in row or row["name"] in shown or row.get("what") == "time in S"


def test_every_counting_learner_is_on_the_page_under_every_trust_model():
    rows = growth_page.committed()[0]["rows"]
    assert {(row["learner"], row["trust"]) for row in rows if row["learner"] not in LEARNERS} == set(counting())
    assert {trust for _, trust in counting()} == set(TRUSTS)
    for name, trust in counting():
        kinds = {row["what"] for row in rows if (row["learner"], row["trust"]) == (name, trust)}
        assert kinds == {"refused"} or {f"time in {axis}" for axis in "SAHK"} <= kinds


def test_exponents_are_slopes_over_the_largest_sizes_along_one_axis():
    cells = list(bench_growth._cells("ucbvi", "central"))
    for cell in cells:
        cell["running"] = 1e-7 * cell["S"] ** 2 * cell["A"] * cell["H"] ** 1.5 * cell["K"]
        cell["grown"] = 1000 * cell["S"] ** 2 * cell["A"] * cell["H"]
    found = {axis: bench_growth._fitted(cells, axis, "time")["ratio"] for axis in "SAHK"}
    assert found == pytest.approx({"S": 2.0, "A": 1.0, "H": 1.5, "K": 1.0})
    memory = {axis: bench_growth._fitted(cells, axis, "memory")["ratio"] for axis in "SAH"}
    assert memory == pytest.approx({"S": 2.0, "A": 1.0, "H": 1.0})
    cells[0]["running"] = 0.5  # the smallest of four is not fitted
    assert bench_growth._fitted(cells, "S", "time")["ratio"] == pytest.approx(2.0)
    assert bench_growth._fitted([{**cell, "grown": 1} for cell in cells], "S", "memory")["ratio"] is None


def test_the_share_of_computed_states_is_what_plans_compute():
    """States that a plan does not compute keep whatever stood in Q: here, nothing."""
    mdp = random_mdp(states=3, actions=2, horizon=5, seed=1)
    computed = 0

    class Blank(Watched):
        def plan(self, belief, coins):
            nonlocal computed
            emptied = belief._replace(Q=np.full_like(belief.Q, np.nan))
            after, _ = UCBVI.plan(self, emptied, np.random.default_rng(0))
            computed += int((~np.isnan(after.Q).any(axis=2)).sum())
            return super().plan(belief, coins)

    blank = Blank(shape=shape(mdp, staged=True), episodes=60, constants="practical")
    simulate(mdp, blank, Unprotected(shape=blank.shape), episodes=60, seed=0, speed="interpreted")
    assert blank.computed == computed
    assert 0.2 < blank.computed / blank.planned < 1.0


def test_the_twin_that_plans_everything_is_the_same_run_and_evaluations_are_counted():
    """Under the practical rule every evaluation asks for one width: the originals of plans are counted by that."""
    mdp = random_mdp(states=3, actions=2, horizon=5, seed=1)
    sizes = {"shape": shape(mdp, staged=True), "episodes": 60, "constants": "practical"}
    asked = []

    def counting(function):
        original = interpreted(function)
        width = original.__globals__["practical_width"]
        original.__globals__["practical_width"] = lambda *given: asked.append(1) or width(*given)
        return original

    plans = counting(bench_horizon.plan)
    whole = interpreted(bench_horizon.plan_everything)
    whole.__globals__["plan"] = plans

    class Asked(bench_horizon.Counted):
        def plan(self, belief, coins):
            for count, kernel in (("seen", plans), ("seen_all", whole)):
                asked.clear()
                kernel(self.parameters, copy_state(belief), np.random.default_rng(0))
                setattr(self, count, getattr(self, count, 0) + len(asked))
            return super().plan(belief, coins)

    learner, twin = Asked(**sizes), bench_horizon.Everything(**sizes)
    as_it_is, in_full = (
        simulate(mdp, one, Unprotected(shape=one.shape), episodes=60, seed=0, speed="interpreted")
        for one in (learner, twin)
    )
    assert as_it_is.regret.tobytes() == in_full.regret.tobytes()
    assert (learner.rows, learner.all_rows) == (learner.seen, learner.seen_all)
    assert 0 < learner.rows < learner.all_rows
