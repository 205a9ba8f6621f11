"""RiverSwim: a swimmer who must fight the current for a long time before anything worth having is found.

A chain of states. Swimming left always works and pays a little at the left bank; swimming right often fails and pays
much, but only at the right bank. Whoever does not explore stays at the left bank.

Transitions of `right` (the numbers of Osband, Russo and Van Roy, 2013):

    left bank     0.60 forward, 0.40 stay
    between       0.35 forward, 0.60 stay, 0.05 back
    right bank    0.60 stay,    0.40 back

With 4 states and horizon 6: V* = 0.4758, the uniform policy 0.0316. The horizon must leave time to cross: with 6 states
and horizon 6 the right bank is reached too late and too rarely, and "always left" is optimal.

Random MDPs: sparse Dirichlet transitions and rewards that are 0 or 1.

    p(· | s, a) ~ Dirichlet(0.1, ..., 0.1),    r(s, a) = 1{U(s, a) ≤ 0.5},    U(s, a) ~ Uniform[0, 1]

all drawn once, when the MDP is made. With a drift d every step has rows and rewards of its own,

    p_h = (1 − d) p + d q_h,    r_h = (1 − d) r + d u_h,    q_h and u_h drawn as p and r

so that d = 1 makes every step another and d = 0, the default, all of them alike. The experiments of [garcelon2021local]
section 6 use S = A = H = 2. The paper does not say where an episode begins; here it is state 0.

The instance behind the lower bound of local privacy: one good action hidden in one leaf of a tree.

[garcelon2021local] Theorem 2 and appendix B: S - 2 states form an A-ary tree that is descended deterministically. In a
leaf every action leads to the state + or − with probability 1/2 each, except for one hidden pair (leaf, action), which
leads to + with probability 1/2 + Δ. Both are absorbing; + pays 1 in each step, all else pays 0. With the leaves at
depth d − 1 and steps counted from 0,

    V^π = (H − d) (1/2 + Δ P^π(s_{d−1} = x*, a_{d−1} = a*))                                                  (Eq. 7)

so nothing but the hidden pair matters, and it must be found among A times as many pairs as there are leaves.

The paper takes the tree to be perfect without loss of generality. Where S - 2 states do not make a perfect tree we
number them level by level; a node that lacks children repeats its last one, and a leaf one level too high waits there
for one step (which makes the MDP time-dependent), so that Eq. 7 holds for every S ≥ 3.

Taxi of Gymnasium's toy text, as a table with its public structure declared.

A taxi on a 5 x 5 map fetches a passenger at one of four places and brings them to another. The map is public: where a
move leads is known, and what a policy needs to see of a state is where the taxi is, where it has to go next and whether
somebody is in it (`goal`, 201 features of 500 states). What actions pay is to be learned.

Transitions and rewards are Gymnasium's; an episode that has ended stays where it is and pays nothing more.

EV charging: when to charge a delivery van, and when to send it out, under a tariff that moves.

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
import math

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.environments.tabular import RewardKind, TabularMDP
from tacit.errors import require, require_count, require_real
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


CONCENTRATION = 0.1
REWARD_PROBABILITY = 0.5


def random_mdp(*, states: int = 2, actions: int = 2, horizon: int = 2, seed: int = 0, drift: float = 0.0) -> TabularMDP:
    """Sparse Dirichlet transitions and rewards in {0, 1}, drawn once.

    Parameters
    ----------
    states, actions, horizon
        The size.
    seed
        Which MDP; nothing else depends on it. Some seeds give MDPs in which every policy is optimal.
    drift
        How different the steps are, from 0 (alike) to 1.

    Examples
    --------
    >>> random_mdp(seed=1) == random_mdp(seed=1), random_mdp(seed=1) == random_mdp(seed=2)
    (True, False)
    """
    S, A = require_count("states", states), require_count("actions", actions)
    generator = np.random.default_rng(require_count("seed", seed, least=0))
    # p(· | s, a) ~ Dirichlet(0.1, ..., 0.1)
    P = generator.dirichlet(np.full(S, CONCENTRATION), size=(S, A))
    # r(s, a) = 1{U(s, a) ≤ 0.5}
    r = (generator.random((S, A)) <= REWARD_PROBABILITY).astype(np.float64)
    d, H = require_real("drift", drift, low=0.0, high=1.0), require_count("horizon", horizon)
    if d > 0.0:
        Q = generator.dirichlet(np.full(S, CONCENTRATION), size=(H, S, A))
        u = (generator.random((H, S, A)) <= REWARD_PROBABILITY).astype(np.float64)
        # p_h = (1 − d) p + d q_h and r_h = (1 − d) r + d u_h
        P, r = (1.0 - d) * P + d * Q, (1.0 - d) * r + d * u
    kind: RewardKind = "bernoulli" if d > 0.0 else "deterministic"
    return TabularMDP(P=P, r=r, rho=np.eye(S)[0], horizon=H, reward_kind=kind, name="random-mdp")


def hard_tree(
    *, states: int = 15, actions: int = 3, horizon: int = 7, gap: float = 0.25, good_leaf: int = 0, good_action: int = 1
) -> TabularMDP:
    """The lower-bound instance of local privacy: one hidden good action in one leaf of a tree.

    Parameters
    ----------
    states
        S ≥ 3, the states + and − included; the tree is perfect for S - 2 = 1 + A + A² + ...
    actions
        A ≥ 2, children of a node.
    horizon
        H ≥ 2 log_A(S - 2) + 2, as Theorem 2 asks.
    gap
        Δ in (0, 1/2], the advantage of the hidden pair.
    good_leaf, good_action
        The hidden pair, counted from 0.

    Examples
    --------
    >>> tree = hard_tree()
    >>> tree.state_names[4:6], tree.P[2, 4, 1, -2:]
    (('leaf 0', 'leaf 1'), array([0.75, 0.25]))
    """
    S, A = require_count("states", states, least=3), require_count("actions", actions, least=2)
    H, delta = require_count("horizon", horizon), require_real("gap", gap, low=0.0, high=0.5, open_low=True)
    least_horizon = math.ceil(2 * math.log(S - 2) / math.log(A) + 2 - 1e-9)
    require(least_horizon <= H, f"horizon must be at least 2 log_A(S - 2) + 2 = {least_horizon} (Theorem 2)", given=H)
    nodes, plus, minus = S - 2, S - 2, S - 1
    leaves = np.array([node for node in range(nodes) if A * node + 1 >= nodes])
    good_leaf = require_count("good_leaf", good_leaf, least=0)
    require(good_leaf < len(leaves), f"good_leaf must be below {len(leaves)}, the number of leaves", given=good_leaf)
    good_action = require_count("good_action", good_action, least=0)
    require(good_action < A, f"good_action must be below {A}, the number of actions", given=good_action)

    P = np.zeros((S, A, S))  # [s, a, s']
    for node in range(leaves[0]):
        for a in range(A):
            P[node, a, min(A * node + 1 + a, nodes - 1)] = 1.0
    P[leaves, :, plus] = P[leaves, :, minus] = 0.5
    # P(+ | x*, a*) = 1/2 + Δ
    P[leaves[good_leaf], good_action, [plus, minus]] = 0.5 + delta, 0.5 - delta
    P[plus, :, plus] = P[minus, :, minus] = 1.0
    r = np.zeros((S, A))  # [s, a]
    r[plus] = 1.0
    return TabularMDP(
        P=_wait_in_high_leaves(P, leaves, nodes, A, H),
        r=r,
        rho=np.eye(S)[0],
        horizon=H,
        reward_kind="deterministic",
        name="hard-tree",
        state_names=[*(f"node {s}" for s in range(leaves[0])), *(f"leaf {i}" for i in range(len(leaves))), "+", "-"],
    )


def _wait_in_high_leaves(P: Floats, leaves: Ints, nodes: int, A: int, H: int) -> Floats:
    """P itself for a perfect tree; else [H, S, A, S'] where every leaf stays put before step d - 1."""
    depth = [0] * nodes
    for node in range(1, nodes):
        depth[node] = depth[(node - 1) // A] + 1
    deepest = depth[-1]  # d - 1
    if all(depth[leaf] == deepest for leaf in leaves):
        return P
    # Deviation: appendix B is content with leaves at depth d - 1 or d - 2; unequal depths would pay unequally.
    staged = np.repeat(P[None], H, axis=0)  # [h, s, a, s']
    for h in range(deepest):
        staged[h, leaves] = 0.0
        staged[h, leaves, :, leaves] = 1.0
    return staged


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
