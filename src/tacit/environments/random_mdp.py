"""Random MDPs: sparse Dirichlet transitions and rewards that are 0 or 1.

    p(· | s, a) ~ Dirichlet(0.1, ..., 0.1),    r(s, a) = 1{U(s, a) ≤ 0.5},    U(s, a) ~ Uniform[0, 1]

all drawn once, when the MDP is made. With a drift d every step has rows and rewards of its own,

    p_h = (1 − d) p + d q_h,    r_h = (1 − d) r + d u_h,    q_h and u_h drawn as p and r

so that d = 1 makes every step another and d = 0, the default, all of them alike. The experiments of [garcelon2021local]
section 6 use S = A = H = 2. The paper does not say where an episode begins; here it is state 0.
"""

from __future__ import annotations

import numpy as np

from tacit.environments.tabular import RewardKind, TabularMDP
from tacit.errors import require_count, require_real

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
