"""EV charging: when to charge a delivery van, and when to send it out, under a tariff that moves.

One episode is one van's working day, one step is one hour. All numbers are illustrative; none was taken from a source.

States (36): battery, tariff and whether a customer is waiting, written `3/5, day, free`.

- Battery, 6 levels from `0/5` (empty) to `5/5` (full), 12 kWh each.
- Tariff: `night` 0.12, `day` 0.25 or `peak` 0.45 euros per kWh. The next hour's tariff: from night, night 0.80, day
  0.20; from day, night 0.15, day 0.60, peak 0.25; from peak, day 0.40, peak 0.60.
- `free` or `called`: a customer asks for a delivery now. The probability that the next hour brings a call depends on
  the tariff of that hour: night 0.15, day 0.50, peak 0.40.

Actions:

- `wait`: nothing moves.
- `slow charge`: one level; 12 kWh at the tariff.
- `fast charge`: two levels; the same price per kWh and 15% on top. A full battery draws nothing.
- `deliver`: if called and the battery has two levels or more, earns 14 euros and takes two levels, or, if there are
  more than two, three with probability 0.3. If not called, or without the charge, it is an empty run: nothing moves,
  and the driver costs 2 euros.

A call that is not served loses 5 euros of goodwill. A day begins with `2/5, night, free`.

Rewards are euros per hour, rescaled to [0, 1]; `original_value` gives euros per day.
"""

from __future__ import annotations

import itertools

import numpy as np

from tacit.environments.tabular import TabularMDP

LEVELS = 6
KWH_PER_LEVEL = 12.0
PRICES = {"night": 0.12, "day": 0.25, "peak": 0.45}
NEXT_TARIFF = np.array([[0.80, 0.20, 0.00], [0.15, 0.60, 0.25], [0.00, 0.40, 0.60]])
CALL_PROBABILITY = np.array([0.15, 0.50, 0.40])
ACTIONS = ("wait", "slow charge", "fast charge", "deliver")
FAST_SURCHARGE = 1.15
FARE, GOODWILL, EMPTY_RUN = 14.0, 5.0, 2.0
TRIP_LEVELS, LONG_TRIP = 2, 0.3
FIRST = "2/5, night, free"


def ev_charging(*, horizon: int = 12) -> TabularMDP:
    """Charging and sending out a delivery van under a moving tariff.

    Parameters
    ----------
    horizon
        Hours of a working day.

    Examples
    --------
    >>> depot = ev_charging()
    >>> depot.num_states, depot.action_names, f"{depot.reward_scale:.2f} euros"
    (36, ('wait', 'slow charge', 'fast charge', 'deliver'), '31.42 euros')
    """
    cells = list(itertools.product(range(LEVELS), PRICES, ("free", "called")))
    names = [f"{level}/{LEVELS - 1}, {tariff}, {call}" for level, tariff, call in cells]
    S, A = len(cells), len(ACTIONS)
    P = np.zeros((S, A, S))  # [s, a, s']
    euros = np.zeros((S, A))  # [s, a]
    for (s, (level, tariff, call)), (a, action) in itertools.product(enumerate(cells), enumerate(ACTIONS)):
        served = action == "deliver" and call == "called" and level >= TRIP_LEVELS
        outlook = _outlook(tariff)  # [tariff, call] of the next hour
        for next_level, probability in _battery(level, action, served=served).items():
            first = next_level * outlook.size
            P[s, a, first : first + outlook.size] += probability * outlook.ravel()
        euros[s, a] = FARE if served else -_energy(level, tariff, action) - GOODWILL * (call == "called")
        euros[s, a] -= EMPTY_RUN * (action == "deliver" and not served)
    offset, scale = float(euros.min()), float(euros.max() - euros.min())
    return TabularMDP(
        P=P,
        r=(euros - offset) / scale,
        rho=[float(name == FIRST) for name in names],
        horizon=horizon,
        reward_kind="deterministic",
        name="ev-charging",
        reward_scale=scale,
        reward_offset=offset,
        state_names=names,
        action_names=ACTIONS,
    )


def _outlook(tariff: str) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Probabilities [tariff, free or called] of the next hour."""
    tariffs = NEXT_TARIFF[list(PRICES).index(tariff)]
    return np.stack([tariffs * (1.0 - CALL_PROBABILITY), tariffs * CALL_PROBABILITY], axis=1)


def _charged(level: int, action: str) -> int:
    """Levels that charging adds."""
    wanted = {"slow charge": 1, "fast charge": 2}.get(action, 0)
    return min(wanted, LEVELS - 1 - level)


def _battery(level: int, action: str, *, served: bool) -> dict[int, float]:
    """Probabilities of the next battery level."""
    if not served:
        return {level + _charged(level, action): 1.0}
    if level == TRIP_LEVELS:
        return {0: 1.0}
    return {level - TRIP_LEVELS: 1.0 - LONG_TRIP, level - TRIP_LEVELS - 1: LONG_TRIP}


def _energy(level: int, tariff: str, action: str) -> float:
    """Euros for the energy drawn in this hour."""
    surcharge = FAST_SURCHARGE if action == "fast charge" else 1.0
    return _charged(level, action) * KWH_PER_LEVEL * PRICES[tariff] * surcharge
