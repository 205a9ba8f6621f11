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

from papers.glucose.physiology import FREE, LANES, MEAL, PUMPED, QUEUE, STATES, minute
from papers.glucose.sensor import LEAST, MOST
from tacit.arrays import Floats, Singles
from tacit.kernels import lean_kernel

__all__ = ["BASAL", "MEASURES", "READINGS", "SHOWN", "VOLUME", "People", "live_a_day", "magni", "risk_table"]

READINGS: Final = 480
"""Per day: one every three minutes."""
MEASURES: Final = ("low", "high", "risk", "below 70", "below 54", "above 180")
"""Of a day: shares of what the sensor showed below 70 and above 180 mg/dL, its mean risk; shares of true glucose."""
UNIT: Final = 6000.0
INCREMENT: Final = 0.05
"""The pump's, in pmol per minute."""
FASTEST: Final = 30.0
"""The pump's limit in units per minute."""
GRID: Final = 4.0
"""Entries of the table of risks per mg/dL."""

SHOWN: Final = FREE
"""Rows: what the sensor shows, and the last mean of it that the controller saw."""
ANNOUNCED: Final = FREE + 2
"""Row: grams announced in the last three minutes."""
WAITS: Final = FREE + 3
"""Row: readings before somebody takes sugar again."""
BASAL: Final = FREE + 4
"""Row: what the pump delivers without a bolus, pmol/kg per minute."""
VOLUME: Final = FREE + 5
"""Row: Vg."""
NOISE: Final = FREE + 6
"""Row: noise of the next reading."""
TALLY: Final = FREE + 7
"""Rows: sums of the measures of the day so far."""

ZERO, ONE, THIRD = (np.float32(number) for number in (0.0, 1.0, 1.0 / 3.0))
AGAIN: Final = np.float32(5.0)
"""Readings, fifteen minutes, after which a low is treated again."""
MIN_SHOWN, MAX_SHOWN, PER_ENTRY = np.float32(LEAST), np.float32(MOST), np.float32(GRID)
VERY_LOW, LOW, HIGH = (np.float32(number) for number in (54.0, 70.0, 180.0))


class People(NamedTuple):
    """Some people in the middle of their lives; the kernels change it in place."""

    lanes: Singles
    """[group, row x lane]: the states of the equations, of sensor and controller."""
    person: Floats
    """[person, number] (`patients.PERSON`)"""


def magni(glucose: Floats) -> Floats:
    """The risk of a blood glucose in mg/dL (Magni and others, 2007): 10 (3.5506 (ln(g)^0.8353 - 3.7932))^2.

    >>> magni(np.array([70.0, 140.0, 280.0])).round(1).tolist()
    [25.0, 0.0, 25.0]
    """
    found: Floats = 10.0 * (3.5506 * (np.log(glucose) ** 0.8353 - 3.7932)) ** 2
    return found


def risk_table() -> Singles:
    """Risks in [0, 1] of what the sensor can show, min(risk, 100)/100, at steps of 0.25 mg/dL; between them a line.

    The line is off by less than 2e-5, and by 1.1e-4 beside 589 mg/dL, where the risk reaches 100.
    """
    risks = np.minimum(magni(np.arange(LEAST, MOST + 2.0 / GRID, 1.0 / GRID)), 100.0) / 100.0
    return risks.astype(np.float32)


@lean_kernel
def pumped(rate: float) -> float:
    """Units per minute as the pump delivers them."""
    delivered: float = np.rint(rate * UNIT / INCREMENT) * INCREMENT / UNIT
    return min(delivered, FASTEST)


@lean_kernel
def live_a_day(
    people: People, factor: Floats, times: Floats, grams: Floats, noise: Floats, risks: Singles, sugar: float,
    measures: Floats, trace: Floats,
) -> None:  # fmt: skip
    """One day of everybody; fills measures [person, measure] and, where it has rows, trace [person, minute, 2].

    `sugar` is what people take against a low, in grams; 0: nothing. A trace holds insulin (units per minute) and
    glucose (mg/dL) at the end of every minute.
    """
    for group in range(people.lanes.shape[0]):
        first, lanes = group * LANES, people.lanes[group]
        count = min(LANES, people.person.shape[0] - first)
        _begin(people, factor, group, count)
        due, announced = _due(times, first, count, -1), True
        for reading in range(READINGS):
            _decide(people, factor, group, count, announced)
            announced = False
            for m in range(3):
                now = 3 * reading + m
                if now == due:
                    _serve(people, times, grams, group, count, now)
                    due, announced = _due(times, first, count, now), True
                minute(lanes)
                if trace.shape[0] > 0:
                    for j in range(count):
                        trace[first + j, now, 0] = lanes[PUMPED * LANES + j] / people.person[first + j, 3]
                        trace[first + j, now, 1] = lanes[(STATES - 1) * LANES + j] / people.person[first + j, 4]
            for j in range(count):
                lanes[NOISE * LANES + j] = noise[first + j, reading]
            _read(lanes)
            _risk(lanes, risks)
            if sugar > 0.0:
                _treat(lanes, np.float32(sugar))
        for j in range(count):
            for k in range(measures.shape[1]):
                measures[first + j, k] = lanes[(TALLY + k) * LANES + j] / READINGS


@lean_kernel
def _begin(people: People, factor: Floats, group: int, count: int) -> None:
    """Everybody's basal insulin of the day; nothing is measured yet."""
    lanes = people.lanes[group]
    lanes[TALLY * LANES : (TALLY + len(MEASURES)) * LANES] = ZERO
    for j in range(count):
        n = group * LANES + j
        lanes[BASAL * LANES + j] = pumped(factor[n] * people.person[n, 0]) * people.person[n, 3]


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
def _serve(people: People, times: Floats, grams: Floats, group: int, count: int, now: int) -> None:
    """Meals of this minute are announced."""
    lanes = people.lanes[group]
    for j in range(count):
        for m in range(times.shape[1]):
            if times[group * LANES + j, m] == now:
                lanes[MEAL * LANES + j] += grams[group * LANES + j, m]
        lanes[ANNOUNCED * LANES + j] += lanes[MEAL * LANES + j]


@lean_kernel
def _decide(people: People, factor: Floats, group: int, count: int, announced: bool) -> None:
    """What everybody's pump does in the next three minutes."""
    lanes = people.lanes[group]
    for j in range(LANES):
        lanes[PUMPED * LANES + j] = lanes[BASAL * LANES + j]
    if not announced:
        return
    for j in range(count):
        n, grams, seen = group * LANES + j, lanes[ANNOUNCED * LANES + j], lanes[(SHOWN + 1) * LANES + j]
        if grams > ZERO:
            ratio, correction, unit = people.person[n, 1], people.person[n, 2], people.person[n, 3]
            bolus = grams / ratio
            if seen > 150.0:
                bolus += (seen - 140.0) / correction
            lanes[PUMPED * LANES + j] += pumped(factor[n] * (bolus / 3.0)) * unit
            lanes[ANNOUNCED * LANES + j] = ZERO


@lean_kernel
def _read(lanes: Singles) -> None:
    """A new reading, and what it adds to the shares of the day."""
    for j in range(LANES):
        glucose, held = lanes[(STATES - 1) * LANES + j] / lanes[VOLUME * LANES + j], lanes[SHOWN * LANES + j]
        new = glucose + lanes[NOISE * LANES + j]
        new = new if new > MIN_SHOWN else MIN_SHOWN
        new = new if new < MAX_SHOWN else MAX_SHOWN
        seen = (held + held + new) * THIRD
        lanes[SHOWN * LANES + j], lanes[(SHOWN + 1) * LANES + j] = new, seen
        lanes[TALLY * LANES + j] += ONE if seen < LOW else ZERO
        lanes[(TALLY + 1) * LANES + j] += ONE if seen > HIGH else ZERO
        lanes[(TALLY + 3) * LANES + j] += ONE if glucose < LOW else ZERO
        lanes[(TALLY + 4) * LANES + j] += ONE if glucose < VERY_LOW else ZERO
        lanes[(TALLY + 5) * LANES + j] += ONE if glucose > HIGH else ZERO


@lean_kernel
def _risk(lanes: Singles, risks: Singles) -> None:
    """What the last reading adds to the risk of the day."""
    for j in range(LANES):
        at = (lanes[(SHOWN + 1) * LANES + j] - MIN_SHOWN) * PER_ENTRY
        cell = min(max(int(at), 0), risks.shape[0] - 2)
        share = at - np.float32(cell)
        lanes[(TALLY + 2) * LANES + j] += risks[cell] + share * (risks[cell + 1] - risks[cell])


@lean_kernel
def _treat(lanes: Singles, sugar: np.float32) -> None:
    """Who sees a low takes sugar, and again if it is still one fifteen minutes later."""
    for j in range(LANES):
        waits = lanes[WAITS * LANES + j] - ONE
        takes = lanes[(SHOWN + 1) * LANES + j] < LOW and waits <= ZERO
        lanes[WAITS * LANES + j] = AGAIN if takes else waits if waits > ZERO else ZERO
        lanes[QUEUE * LANES + j] += sugar if takes else ZERO
