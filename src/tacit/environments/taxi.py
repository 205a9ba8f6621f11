"""Taxi of Gymnasium's toy text, as a table with its public structure declared.

A taxi on a 5 x 5 map fetches a passenger at one of four places and brings them to another. The map is public: where a
move leads is known, and what a policy needs to see of a state is where the taxi is, where it has to go next and whether
somebody is in it (`goal`, 201 features of 500 states). What actions pay is to be learned.

Transitions and rewards are Gymnasium's; an episode that has ended stays where it is and pays nothing more.
"""

from __future__ import annotations

from tacit.environments.tabular import TabularMDP
from tacit.errors import require_count
from tacit.support import Support

IN_TAXI = 4
"""The place of a passenger who is in the taxi."""
PLACES = 4


def taxi(*, horizon: int = 6) -> TabularMDP:
    """Gymnasium's Taxi-v4: fetch a passenger and bring them where they want to go.

    Parameters
    ----------
    horizon
        Steps of one ride. Six bring those home who wait near the taxi and go near; 20 are enough from everywhere.

    Examples
    --------
    >>> taxi().num_states, max(taxi().features["goal"]) + 1
    (500, 201)
    """
    from tacit.environments.gym import from_gymnasium

    H = require_count("horizon", horizon)
    table = from_gymnasium("Taxi-v4", horizon=H)
    return TabularMDP(
        P=table.stage_P[0],
        r=table.stage_r[0],
        rho=table.rho,
        horizon=H,
        reward_kind=table.reward_kind,
        name="taxi",
        reward_scale=table.reward_scale,
        reward_offset=table.reward_offset,
        support=Support.of_tables(table.stage_P[0], table.rho, H),
        features={"goal": [_goal(s) for s in range(table.num_states)]},
    )


def _goal(state: int) -> int:
    """Where the taxi is, where it has to go and whether the passenger is in it; one feature for rides that ended."""
    square, passenger, destination = state // (5 * PLACES), state // PLACES % 5, state % PLACES
    if passenger == destination:
        return 25 * PLACES * 2
    goal = destination if passenger == IN_TAXI else passenger
    return (square * PLACES + goal) * 2 + (passenger == IN_TAXI)
