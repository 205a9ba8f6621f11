"""The compiled twin of the UVA/Padova equations against stored traces, meals and noise of the reference package."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from papers.glucose.day import MEASURES, READINGS, SHOWN, People, live_a_day, magni, risk_table
from papers.glucose.meals import MEALS, draw_meals
from papers.glucose.patients import laid_out, patient_names, patients, persons
from papers.glucose.physiology import LANES, MEAL, PUMPED, _emptying, minute
from papers.glucose.sensor import BLOCK, LEAST, MOST, draw_noise, first_noise, spline

HERE = Path(__file__).parent / "glucose"


def traces() -> list[tuple[str, float, dict[str, np.ndarray]]]:
    with gzip.open(HERE / "traces.csv.gz", "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = []
    for key in dict.fromkeys((row["patient"], row["factor"]) for row in rows):
        mine = [row for row in rows if (row["patient"], row["factor"]) == key]
        columns = ("meal", "insulin", "glucose", "sensor")
        found.append((key[0], float(key[1]), {c: np.array([float(row[c]) for row in mine]) for c in columns}))
    return found


TRACES = traces()
NUMBER = {name: i for i, name in enumerate(patient_names())}


def coins(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


# The equations -------------------------------------------------------------------------------------------


def test_there_are_ten_patient_days_of_children_adolescents_and_adults():
    assert sum(len(found["glucose"]) for _, _, found in TRACES) == 10 * 1440
    assert {name.partition("#")[0] for name, _, _ in TRACES} == {"child", "adolescent", "adult"}
    assert min(found["glucose"].min() for _, _, found in TRACES) < 20.0
    assert max(found["glucose"].max() for _, _, found in TRACES) > 280.0


def test_glucose_is_that_of_the_reference_given_its_insulin_and_meals():
    who = np.array([NUMBER[name] for name, _, _ in TRACES])
    lanes, person = laid_out(who)[0], persons(who)
    longest = max(len(found["glucose"]) for _, _, found in TRACES)
    worst = 0.0
    for now in range(longest):
        for j, (_, _, found) in enumerate(TRACES):
            if now < len(found["meal"]):
                lanes[PUMPED * LANES + j] = found["insulin"][now] * person[j, 3]
                lanes[MEAL * LANES + j] = found["meal"][now]
        minute(lanes)
        for j, (_, _, found) in enumerate(TRACES):
            if now < len(found["meal"]):
                worst = max(worst, abs(lanes[12 * LANES + j] / person[j, 4] - found["glucose"][now]))
    assert worst < 0.01


def test_a_whole_day_with_controller_and_pump_is_that_of_the_reference():
    who = np.array([NUMBER[name] for name, _, _ in TRACES])
    n, minutes = len(who), 3 * READINGS
    times, grams = np.full((n, 6), -1.0), np.zeros((n, 6))
    noise = np.zeros((n, READINGS))
    for i, (_, _, found) in enumerate(TRACES):
        for m, at in enumerate(np.flatnonzero(found["meal"][:minutes])):
            times[i, m], grams[i, m] = at, found["meal"][at]
        # In the third minute of every three the sensor shows a new reading: glucose and noise.
        noise[i] = (found["sensor"] - found["glucose"])[2:minutes:3]
    first = np.array([found["sensor"][0] for _, _, found in TRACES])
    people = People(laid_out(who), persons(who))
    for row in (SHOWN, SHOWN + 1):
        people.lanes[0, row * LANES : row * LANES + n] = first
    factor = np.array([factor for _, factor, _ in TRACES])
    measures, trace = np.zeros((n, len(MEASURES))), np.zeros((n, minutes, 2))
    live_a_day(people, factor, times, grams, noise, risk_table(), 0.0, measures, trace)
    for i, (_, _, found) in enumerate(TRACES):
        assert np.abs(trace[i, :, 1] - found["glucose"][:minutes]).max() < 0.01
        assert np.abs(trace[i, :, 0] - found["insulin"][:minutes]).max() < 2e-4  # the pump's increment is 8e-6
        true = found["glucose"][2:minutes:3]
        assert measures[i, 3] == pytest.approx((true < 70.0).mean(), abs=1.5 / READINGS)
        assert measures[i, 5] == pytest.approx((true > 180.0).mean(), abs=1.5 / READINGS)
        shown = found["sensor"][:minutes].reshape(-1, 3).mean(axis=1)
        assert measures[i, 2] == pytest.approx(np.minimum(magni(shown), 100.0).mean() / 100.0, abs=1e-4)


def test_nobody_depends_on_who_lies_beside_them():
    alone, beside = laid_out(np.array([3])), laid_out(np.array([7, 3, 20]))
    for now in range(300):
        for lanes, j in ((alone[0], 0), (beside[0], 1)):
            lanes[PUMPED * LANES + j] = 1.0
            lanes[MEAL * LANES + j] = 60.0 if now == 10 else 0.0
        beside[0, MEAL * LANES] = 40.0 if now in (5, 100) else 0.0
        minute(alone[0])
        minute(beside[0])
    rows = np.arange(13) * LANES
    assert alone[0][rows].tobytes() == beside[0][rows + 1].tobytes()


def test_emptying_has_the_two_hyperbolic_tangents_of_the_model():
    p = patients()[1]
    kmin, kmax, b, d = p["kmin"], p["kmax"], p["b"], p["d"]
    Q, one = np.float32(60_000.0), np.ones(len(b))
    given = np.stack([kmax, kmax - kmin, 5 / (1 - b) / Q, 5 * b / (1 - b), 5 / d / Q, 5 * one]).astype(np.float32)
    for q in np.linspace(0.0, Q, 201, dtype=np.float32):
        a, c = 5 / (2 * Q * (1 - b)), 5 / (2 * Q * d)
        wanted = kmin + (kmax - kmin) / 2 * (np.tanh(a * (q - b * Q)) - np.tanh(c * (q - d * Q)) + 2)
        found = [_emptying(q, tuple(mine)) for mine in given.T]
        assert np.abs(found / wanted - 1.0).max() < 1e-5


def test_people_take_sugar_against_a_low_and_only_then():
    who = np.arange(30)
    day = (np.full((30, 6), -1.0), np.zeros((30, 6)), np.zeros((30, READINGS)), risk_table())
    lowest = []
    for sugar in (0.0, 15.0):
        people = People(laid_out(who), persons(who))
        people.lanes[:, SHOWN * LANES : (SHOWN + 2) * LANES] = 140.0
        measures, trace = np.zeros((30, 6)), np.zeros((30, 3 * READINGS, 2))
        live_a_day(people, np.full(30, 1.3), *day, sugar, measures, trace)
        lowest.append(trace[:, :, 1].min(axis=1))
    without, treated = lowest
    low = without < 69.9
    assert low.sum() == 4  # without meals most people stay where they are
    assert (treated[low] > without[low]).all()
    assert treated[~low].tolist() == without[~low].tolist()
    assert treated.min() > 40.0


def test_magni_has_the_risks_of_its_paper_and_the_table_follows_it():
    assert magni(np.array([70.0, 280.0])).tolist() == pytest.approx([25.0, 25.0], abs=0.1)
    at = np.linspace(LEAST, MOST - 0.3, 7000)
    table = risk_table()
    found = np.interp((at - LEAST) * 4.0, np.arange(len(table)), table)
    off = np.abs(found - np.minimum(magni(at), 100.0) / 100.0)
    corner = at[magni(at) > 100.0].min()
    assert off[np.abs(at - corner) > 0.5].max() < 2e-5
    assert off.max() < 1.2e-4


# Meals and noise, in distribution ------------------------------------------------------------------------
# Seeds are fixed; how often other seeds would raise a false alarm, and what is found, stands with each test.


def test_meals_have_the_law_of_the_reference():
    """Kolmogorov-Smirnov per meal, at 1e-7; twelve of these and six of frequencies: false alarms below 3e-6.

    A shift of 10 minutes or 1.7 g of a main meal is found with probability 0.99 (300 of 300 repetitions).
    """
    days = 40_000
    reference = json.loads((HERE / "meals.json").read_text(encoding="utf-8"))
    times, grams = np.zeros((days, 6)), np.zeros((days, 6))
    draw_meals(MEALS, coins(1), times, grams)
    edges = [*MEALS[:, 1].tolist(), 1381.0]
    theirs: list[list[tuple[int, int]]] = [[] for _ in range(6)]
    for day in reference:
        for at, amount in day:
            meal = int(np.searchsorted(edges, at, side="right")) - 1
            theirs[meal].append((at, amount))
    for m in range(6):
        # Minutes that two meals share are left out on both sides: whose meal it was cannot be told there.
        low, high = MEALS[m, 1], MEALS[m, 2]
        mine = (times[:, m] + 300.0 > low) & (times[:, m] + 300.0 < high)
        other = np.array([(at, amount) for at, amount in theirs[m] if low < at < high], dtype=float)
        expected = mine.mean()
        assert abs(len(other) / len(reference) - expected) < 5.4 * np.sqrt(expected * (1 - expected) / len(reference))
        for ours, column in ((times[mine, m] + 300.0, 0), (grams[mine, m], 1)):
            assert stats.ks_2samp(ours, other[:, column]).pvalue > 1e-7


def test_noise_has_the_law_of_the_reference():
    """Quantiles from 5% to 95% of noise and of its changes over 3 minutes, 15 minutes and 5 hours.

    With 300 weeks on either side a difference has a standard deviation of at most 1.8% (noise, at the ends), 0.6% (3
    and 15 minutes) and 1.0% (5 hours) of the distance between the quartiles, measured over 24 repetitions. Allowed
    are 5%, so a quantile that is off by 10% is found with probability 0.99; over all seeds up to one run in 100 is a
    false alarm, and the seed is fixed.
    """
    reference, weeks = json.loads((HERE / "noise.json").read_text(encoding="utf-8")), 300
    process, noise = np.zeros((weeks, 2)), np.zeros((weeks, 68 * BLOCK))
    random = coins(2)
    first_noise(random, process)
    assert draw_noise(spline(), random, process, 0, noise) == 68 * BLOCK
    noise = noise[:, :3360]
    quantiles = np.array(reference["quantiles"])
    inner = (quantiles > 0.045) & (quantiles < 0.955)
    series = {"noise": noise} | {
        name: noise[:, lag:] - noise[:, :-lag] for name, lag in (("3 minutes", 1), ("15 minutes", 5), ("5 hours", 100))
    }
    for name, values in series.items():
        theirs = np.array(reference[name])
        spread = np.interp(0.75, quantiles, theirs) - np.interp(0.25, quantiles, theirs)
        assert np.abs(np.quantile(values, quantiles) - theirs)[inner].max() < 0.05 * spread
    assert stats.ttest_ind(noise.mean(axis=1), reference["weekly means"]).pvalue > 1e-6


def test_noise_goes_on_where_it_ended():
    """Two splines at once, or one after the other, are the same readings: the last value begins the next spline."""
    process, again = np.zeros((1, 2)), np.zeros((1, 2))
    both, single = np.zeros((1, 2 * BLOCK)), np.zeros((1, BLOCK))
    one, two = coins(3), coins(3)
    first_noise(one, process)
    first_noise(two, again)
    draw_noise(spline(), one, process, 0, both)
    parts = []
    for _ in range(2):
        draw_noise(spline(), two, again, 0, single)
        parts.append(single.copy())
    assert np.concatenate(parts, axis=1).tobytes() == both.tobytes()
    assert both[0, BLOCK - 1] != 0.0
