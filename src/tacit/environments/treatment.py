"""Worlds of ladders, levels that rise or fall by one: a treatment and a recommender. All numbers are illustrative.

`treatment`: how much of a drug to give when the dose that helps is also the dose that harms. Illness and side effects
move by at most one level from visit to visit, independently of each other, as the dose says; with serious side effects
a patient may give up for good (`stopped`). The reward is 1 with probability well-being times the share that side
effects leave of it.

`recommender`: what to show a reader who may become a subscriber, or have enough. A stage of the funnel and a level of
fatigue; after each step a person may leave (`gone`), a weary one may fall back one stage. The reward is Bernoulli: the
click, and the subscription on top. All numbers stand in the tables below, and in words on docs/environments.md.
"""

from __future__ import annotations

import numpy as np

from tacit.arrays import Floats
from tacit.environments.tabular import TabularMDP
from tacit.errors import require_count
from tacit.support import Support

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

STAGES = ("new", "browsing", "interested", "engaged", "subscriber")
FATIGUE = ("fresh", "tired", "weary")
RESPONSE = (1.0, 0.7, 0.3)  # by fatigue: what is left of clicks and of moves up the funnel
LEAVING = (0.01, 0.05, 0.25)  # by fatigue
FALLING_BACK = (0.0, 0.0, 0.3)  # by fatigue
SUBSCRIPTION = 0.30
# action: (click by stage, one stage up by stage, fatigue up, fatigue down)
ACTIONS = {
    "popular": ((0.30, 0.30, 0.25, 0.20, 0.20), (0.50, 0.20, 0.05, 0.0, 0.0), 0.20, 0.10),
    "personal": ((0.10, 0.30, 0.50, 0.60, 0.65), (0.10, 0.35, 0.40, 0.0, 0.0), 0.40, 0.00),
    "surprising": ((0.10, 0.15, 0.20, 0.25, 0.25), (0.10, 0.10, 0.10, 0.0, 0.0), 0.00, 0.60),
    "invitation": ((0.0, 0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.60, 0.0), 0.80, 0.00),
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
    rho = [FIRST.get(name, 0.0) for name in [*names, "stopped"]]
    effects = [s % len(SIDE_EFFECTS) for s in range(stopped)]
    return TabularMDP(
        P=P,
        r=r,
        rho=rho,
        horizon=horizon,
        reward_kind="bernoulli",
        name="treatment",
        state_names=[*names, "stopped"],
        action_names=list(DOSES),
        # Levels move by one, from visit to visit, and who has stopped has stopped: public, as are the first states.
        support=Support.of_tables(P, rho, require_count("horizon", horizon)),
        features={"side-effects": [*effects, len(SIDE_EFFECTS)]},
    )


def recommender(*, horizon: int = 10) -> TabularMDP:
    """Leading a reader through an engagement funnel without tiring them out.

    Parameters
    ----------
    horizon
        Recommendations for one person.

    Examples
    --------
    >>> recommender().state_names[0], recommender().state_names[-1], recommender().num_states
    ('new, fresh', 'gone', 16)
    """
    names = [f"{stage}, {fatigue}" for stage in STAGES for fatigue in FATIGUE]
    S, A, gone = len(names) + 1, len(ACTIONS), len(names)
    P = np.zeros((S, A, S))  # [s, a, s']
    r = np.zeros((S, A))  # [s, a]
    for a, (clicks, ups, tiring, resting) in enumerate(ACTIONS.values()):
        fatigue_moves = ladder(len(FATIGUE), up=tiring, down=resting)  # [fatigue, next fatigue]
        for stage in range(len(STAGES)):
            for fatigue in range(len(FATIGUE)):
                s = stage * len(FATIGUE) + fatigue
                up = ups[stage] * RESPONSE[fatigue]
                stage_moves = ladder(len(STAGES), up=up, down=FALLING_BACK[fatigue])[stage]
                P[s, a, :gone] = (1.0 - LEAVING[fatigue]) * np.outer(stage_moves, fatigue_moves[fatigue]).ravel()
                P[s, a, gone] = LEAVING[fatigue]
                r[s, a] = clicks[stage] * RESPONSE[fatigue] + SUBSCRIPTION * (STAGES[stage] == "subscriber")
    P[gone, :, gone] = 1.0
    rho = np.eye(S)[0]
    return TabularMDP(
        P=P,
        r=r,
        rho=rho,
        horizon=horizon,
        reward_kind="bernoulli",
        name="recommender",
        state_names=[*names, "gone"],
        action_names=list(ACTIONS),
        support=Support.of_tables(P, rho, require_count("horizon", horizon)),
    )


def ladder(levels: int, *, up: float, down: float) -> Floats:
    """The matrix [level, next level] of a level that rises with probability `up` and falls with probability `down`.

    At either end the move that would leave the ladder stays put.

    >>> ladder(3, up=0.25, down=0.5)
    array([[0.75, 0.25, 0.  ],
           [0.5 , 0.25, 0.25],
           [0.  , 0.5 , 0.5 ]])
    """
    moves = np.zeros((levels, levels))
    for level in range(levels):
        moves[level, min(level + 1, levels - 1)] += up
        moves[level, max(level - 1, 0)] += down
        moves[level, level] += 1.0 - up - down
    return moves
