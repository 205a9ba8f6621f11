"""Treatment: how much of a drug to give when the dose that helps is also the dose that harms.

One episode is one patient, one step is one visit. All numbers are illustrative; none was taken from a study.

States (13): an illness level and a side-effect level, written `illness, side effects`, and one final state.

| illness | well-being | | side effects | share of well-being kept |
|---|---|---|---|---|
| remission | 0.95 | | none | 1.00 |
| mild | 0.75 | | tolerable | 0.85 |
| moderate | 0.45 | | serious | 0.45 |
| severe | 0.15 | | | |

- `remission, none` ... `severe, serious`: the twelve combinations. Until the next visit illness and side effects move
  by at most one level, independently of each other, as the dose says.
- `stopped`: the patient has given up the treatment for good. Well-being is 0.20 from then on.

Actions, with the probabilities of a move:

| action | illness better / worse | side effects worse / better | gives up if serious |
|---|---|---|---|
| pause | 0.05 / 0.30 | 0.00 / 0.60 | 0.05 |
| low dose | 0.30 / 0.12 | 0.15 / 0.20 | 0.20 |
| high dose | 0.55 / 0.05 | 0.50 / 0.05 | 0.20 |

The reward is 1 if the patient reports a good period, which happens with probability well-being times the share kept. A
patient begins with `moderate, none` (0.6) or `severe, none` (0.4).
"""

from __future__ import annotations

import numpy as np

from tacit.environments.ladders import ladder
from tacit.environments.tabular import TabularMDP

__all__ = ["treatment"]

ILLNESS = {"remission": 0.95, "mild": 0.75, "moderate": 0.45, "severe": 0.15}
SIDE_EFFECTS = {"none": 1.0, "tolerable": 0.85, "serious": 0.45}
STOPPED_WELL_BEING = 0.20
FIRST = {"moderate, none": 0.6, "severe, none": 0.4}
# action: (illness better, illness worse, side effects worse, side effects better, gives up if serious)
DOSES = {
    "pause": (0.05, 0.30, 0.00, 0.60, 0.05),
    "low dose": (0.30, 0.12, 0.15, 0.20, 0.20),
    "high dose": (0.55, 0.05, 0.50, 0.05, 0.20),
}


def treatment(*, horizon: int = 8) -> TabularMDP:
    """Dosing a drug whose side effects drive patients away.

    Parameters
    ----------
    horizon
        Visits of one patient.

    Examples
    --------
    >>> treatment().state_names[3:5], treatment().action_names
    (('mild, none', 'mild, tolerable'), ('pause', 'low dose', 'high dose'))
    """
    names = [f"{illness}, {effects}" for illness in ILLNESS for effects in SIDE_EFFECTS]
    S, A, stopped = len(names) + 1, len(DOSES), len(names)
    serious = np.tile(np.array(list(SIDE_EFFECTS)) == "serious", len(ILLNESS))  # [s], without the last state
    P = np.zeros((S, A, S))  # [s, a, s']
    for a, (better, worse, harm, recovery, quits) in enumerate(DOSES.values()):
        # Both levels count upwards from good to bad, and move independently.
        moves = np.kron(ladder(len(ILLNESS), up=worse, down=better), ladder(len(SIDE_EFFECTS), up=harm, down=recovery))
        quitting = np.where(serious, quits, 0.0)
        P[:stopped, a, :stopped] = (1.0 - quitting[:, None]) * moves
        P[:stopped, a, stopped] = quitting
    P[stopped, :, stopped] = 1.0
    well_being = np.outer(list(ILLNESS.values()), list(SIDE_EFFECTS.values())).ravel()
    r = np.tile(np.append(well_being, STOPPED_WELL_BEING)[:, None], (1, A))  # [s, a]
    return TabularMDP(
        P=P,
        r=r,
        rho=[FIRST.get(name, 0.0) for name in [*names, "stopped"]],
        horizon=horizon,
        reward_kind="bernoulli",
        name="treatment",
        state_names=[*names, "stopped"],
        action_names=list(DOSES),
    )
