"""A day of a person with a pump: meals, the basal-bolus controller, the sensor, the equations, minute by minute.

Every three minutes, as in the package's simulator:

    seen      the mean of what the sensor showed in the last three minutes; it shows a new reading in the third
    insulin   factor x (basal + bolus), each rounded to what the pump can deliver, constant for three minutes
    bolus     (grams announced / CR + [seen > 150] (seen - 140)/CF) / 3 per minute, where something was announced

The factor is the only thing that anybody decides about. Against a low people take sugar, as they are told to: 15 g when
they see less than 70 mg/dL, and again while it is still less fifteen minutes later. The package has no such thing, and
comparisons with it are made without.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from tacit.arrays import Floats
from tacit.environments.glucose.physiology import INTAKE, LANES, PUMPED, QUEUE, STATES, eat, minute
from tacit.environments.glucose.sensor import LEAST, MOST
from tacit.kernels import lean_kernel

__all__ = ["MEASURES", "READINGS", "People", "live_a_day", "magni", "risk_table"]

READINGS: Final = 480
"""Per day: one every three minutes."""
MEASURES: Final = ("low", "high", "risk", "below 70", "below 54", "above 180")
"""Of a day: shares of what the sensor showed below 70 and above 180 mg/dL, its mean risk; shares of true glucose."""
UNIT: Final = 6000.0
INCREMENT: Final = 0.05
"""The pump's, in pmol per minute."""
FASTEST: Final = 30.0
"""The pump's limit in units per minute."""
AGAIN: Final = 5.0
"""Readings, fifteen minutes, after which a low is treated again."""
GRID: Final = 4.0
"""Entries of the table of risks per mg/dL."""


class People(NamedTuple):
    """Some people in the middle of their lives; the kernels change it in place."""

    lanes: Floats
    """[group, row x lane]: the states of the equations."""
    person: Floats
    """[person, number] (`patients.PERSON`)"""
    shown: Floats
    """[person, 2]: what the sensor shows, and the last mean of it that the controller saw."""
    announced: Floats
    """[person]: grams announced in the last three minutes."""
    waits: Floats
    """[person]: readings before somebody takes sugar again."""


def magni(glucose: Floats) -> Floats:
    """The risk of a blood glucose in mg/dL (Magni and others, 2007): 10 (3.5506 (ln(g)^0.8353 - 3.7932))^2.

    >>> magni(np.array([70.0, 140.0, 280.0])).round(1).tolist()
    [25.0, 0.0, 25.0]
    """
    found: Floats = 10.0 * (3.5506 * (np.log(glucose) ** 0.8353 - 3.7932)) ** 2
    return found


def risk_table() -> Floats:
    """Risks in [0, 1] of what the sensor can show, min(risk, 100)/100, at steps of 0.25 mg/dL; between them a line.

    The line is off by less than 2e-5, and by 1.1e-4 beside 589 mg/dL, where the risk reaches 100.
    """
    return np.minimum(magni(np.arange(LEAST, MOST + 2.0 / GRID, 1.0 / GRID)), 100.0) / 100.0


@lean_kernel
def pumped(rate: float) -> float:
    """Units per minute as the pump delivers them."""
    delivered: float = np.rint(rate * UNIT / INCREMENT) * INCREMENT / UNIT
    return min(delivered, FASTEST)


@lean_kernel
def live_a_day(
    people: People, factor: Floats, times: Floats, grams: Floats, noise: Floats, risks: Floats, sugar: float,
    measures: Floats, trace: Floats,
) -> None:  # fmt: skip
    """One day of everybody; fills measures [person, measure] and, where it has rows, trace [person, minute, 2].

    `sugar` is what people take against a low, in grams; 0: nothing. A trace holds insulin (units per minute) and
    glucose (mg/dL) at the end of every minute.
    """
    for group in range(people.lanes.shape[0]):
        first, lanes = group * LANES, people.lanes[group]
        count = min(LANES, people.person.shape[0] - first)
        measures[first : first + count] = 0.0
        due, busy = _due(times, first, count, -1), True
        for reading in range(READINGS):
            _decide(people, factor, group, count)
            for m in range(3):
                now = 3 * reading + m
                if busy or now == due:
                    busy = _serve(people, times, grams, group, count, now)
                if now == due:
                    due = _due(times, first, count, now)
                minute(lanes, busy)
                if trace.shape[0] > 0:
                    for j in range(count):
                        trace[first + j, now, 0] = lanes[PUMPED * LANES + j] / people.person[first + j, 3]
                        trace[first + j, now, 1] = lanes[(STATES - 1) * LANES + j] / people.person[first + j, 4]
            _read(people, noise, risks, group, count, reading, measures)
            if sugar > 0.0 and _treat(people, group, count, sugar):
                busy = True
        for n in range(first, first + count):
            for k in range(measures.shape[1]):
                measures[n, k] /= READINGS


@lean_kernel
def _due(times: Floats, first: int, count: int, after: int) -> int:
    """The next minute after this one in which somebody's meal begins; none: a minute of no day."""
    found = 3 * READINGS
    for n in range(first, first + count):
        for m in range(times.shape[1]):
            if after < times[n, m] < found:
                found = int(times[n, m])
    return found


@lean_kernel
def _treat(people: People, group: int, count: int, sugar: float) -> bool:
    """Who sees a low takes sugar, and again if it is still one fifteen minutes later; whether anybody does."""
    anybody = False
    for j in range(count):
        n = group * LANES + j
        people.waits[n] = max(0.0, people.waits[n] - 1.0)
        if people.shown[n, 1] < 70.0 and people.waits[n] == 0.0:
            people.waits[n] = AGAIN
            people.lanes[group, QUEUE * LANES + j] += sugar
            anybody = True
    return anybody


@lean_kernel
def _decide(people: People, factor: Floats, group: int, count: int) -> None:
    """What everybody's pump does in the next three minutes."""
    for j in range(count):
        n = group * LANES + j
        basal, ratio, correction, unit = (
            people.person[n, 0],
            people.person[n, 1],
            people.person[n, 2],
            people.person[n, 3],
        )
        rate, seen = pumped(factor[n] * basal), people.shown[n, 1]
        if people.announced[n] > 0.0:
            bolus = people.announced[n] / ratio
            if seen > 150.0:
                bolus += (seen - 140.0) / correction
            rate += pumped(factor[n] * (bolus / 3.0))
            people.announced[n] = 0.0
        people.lanes[group, PUMPED * LANES + j] = rate * unit


@lean_kernel
def _serve(people: People, times: Floats, grams: Floats, group: int, count: int, now: int) -> bool:
    """Meals of this minute are announced, and whoever has something left to eat eats; whether anybody does."""
    lanes, anybody = people.lanes[group], False
    for j in range(count):
        n, announced = group * LANES + j, 0.0
        for m in range(times.shape[1]):
            if times[n, m] == now:
                announced += grams[n, m]
        people.announced[n] += announced
        eat(lanes, j, announced)
        anybody = anybody or lanes[INTAKE * LANES + j] > 0.0
    return anybody


@lean_kernel
def _read(people: People, noise: Floats, risks: Floats, group: int, count: int, reading: int, measures: Floats) -> None:
    """A new reading, and what it adds to the measures of the day."""
    for j in range(count):
        n = group * LANES + j
        glucose = people.lanes[group, (STATES - 1) * LANES + j] / people.person[n, 4]
        held, new = people.shown[n, 0], min(max(glucose + noise[n, reading], LEAST), MOST)
        seen = held / 3.0 + held / 3.0 + new / 3.0
        people.shown[n, 0], people.shown[n, 1] = new, seen
        at = (seen - LEAST) * GRID
        cell = min(int(at), risks.shape[0] - 2)
        share = at - cell
        measures[n, 0] += 1.0 if seen < 70.0 else 0.0
        measures[n, 1] += 1.0 if seen > 180.0 else 0.0
        measures[n, 2] += (1.0 - share) * risks[cell] + share * risks[cell + 1]
        measures[n, 3] += 1.0 if glucose < 70.0 else 0.0
        measures[n, 4] += 1.0 if glucose < 54.0 else 0.0
        measures[n, 5] += 1.0 if glucose > 180.0 else 0.0
