"""Recommender: what to show a reader who may become a subscriber, or have enough.

One episode is one person, one step is one recommendation. All numbers are illustrative; none was taken from a source.

States (16): a stage of the funnel and a level of fatigue, written `engaged, tired`, and one final state.

- `new`: nothing is known; popular items work best.
- `browsing`: looks around; popular and personal items work about equally well.
- `interested`: personal items start to pay.
- `engaged`: comes back; the only stage in which an invitation has a good chance.
- `subscriber`: pays 0.30 on top of every click; stays a subscriber unless weary.
- Fatigue `fresh`, `tired`, `weary`: clicks keep 1.0, 0.7 and 0.3 of their probability, moves up the funnel likewise.
- `gone`: has left for good and pays nothing.

Actions, with the probabilities of a click and of a move one stage up, each listed by stage from `new` to `subscriber`,
and those of a move of fatigue:

| action | click | one stage up | fatigue up / down |
|---|---|---|---|
| popular | .30 .30 .25 .20 .20 | .50 .20 .05 .00 .00 | 0.20 / 0.10 |
| personal | .10 .30 .50 .60 .65 | .10 .35 .40 .00 .00 | 0.40 / 0.00 |
| surprising | .10 .15 .20 .25 .25 | .10 .10 .10 .00 .00 | 0.00 / 0.60 |
| invitation | .00 .00 .00 .00 .00 | .00 .00 .00 .60 .00 | 0.80 / 0.00 |

A weary person falls back one stage with probability 0.3. After each step a person leaves with probability 0.01 (fresh),
0.05 (tired) or 0.25 (weary). The reward is Bernoulli: the click, and the subscription on top. Everybody begins as
`new, fresh`.
"""

from __future__ import annotations

import numpy as np

from tacit.environments.ladders import ladder
from tacit.environments.tabular import TabularMDP

__all__ = ["recommender"]

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
    return TabularMDP(
        P=P,
        r=r,
        rho=np.eye(S)[0],
        horizon=horizon,
        reward_kind="bernoulli",
        name="recommender",
        state_names=[*names, "gone"],
        action_names=list(ACTIONS),
    )
