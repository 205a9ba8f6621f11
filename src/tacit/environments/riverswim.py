"""RiverSwim: a swimmer who must fight the current for a long time before anything worth having is found.

A chain of states. Swimming left always works and pays a little at the left bank; swimming right often fails and pays
much, but only at the right bank. Whoever does not explore stays at the left bank.

Transitions of `right` (the numbers of Osband, Russo and Van Roy, 2013):

    left bank     0.60 forward, 0.40 stay
    between       0.35 forward, 0.60 stay, 0.05 back
    right bank    0.60 stay,    0.40 back

With 4 states and horizon 6: V* = 0.4758, the uniform policy 0.0316. The horizon must leave time to cross: with 6 states
and horizon 6 the right bank is reached too late and too rarely, and "always left" is optimal.
"""

from __future__ import annotations

import numpy as np

from tacit.environments.tabular import TabularMDP
from tacit.errors import require_count
from tacit.support import Support

LEFT, RIGHT = 0, 1
LEFT_REWARD = 0.005


def riverswim(*, states: int = 4, horizon: int = 6) -> TabularMDP:
    """A chain with a small reward at hand and a large one far upstream.

    Parameters
    ----------
    states
        Length of the chain, at least 2.
    horizon
        Steps of an episode.

    Examples
    --------
    >>> riverswim().P[0, 1, 1]
    array([0.05, 0.6 , 0.35, 0.  ])
    """
    S = require_count("states", states, least=2)
    last = S - 1
    P = np.zeros((S, 2, S))  # [s, a, s']
    for s in range(S):
        P[s, LEFT, max(s - 1, 0)] = 1.0
    P[0, RIGHT, :2] = 0.40, 0.60
    for s in range(1, last):
        P[s, RIGHT, s - 1 : s + 2] = 0.05, 0.60, 0.35
    P[last, RIGHT, last - 1 :] = 0.40, 0.60
    r = np.zeros((S, 2))  # [s, a]
    r[0, LEFT] = LEFT_REWARD
    r[last, RIGHT] = 1.0
    rho = np.eye(S)[0]
    return TabularMDP(
        P=P,
        r=r,
        rho=rho,
        horizon=horizon,
        reward_kind="bernoulli",
        name="riverswim",
        state_names=["left bank", *(f"{s} from the left" for s in range(1, last)), "right bank"],
        action_names=["left", "right"],
        # The map of the river is public: one place to the left or right at most, from the left bank. The pay is not.
        support=Support.of_tables(P, rho, require_count("horizon", horizon)),
    )
