"""Random MDPs: sparse Dirichlet transitions and rewards that are 0 or 1.

    p(· | s, a) ~ Dirichlet(0.1, ..., 0.1),    r(s, a) = 1{U(s, a) ≤ 0.5},    U(s, a) ~ Uniform[0, 1]

all drawn once, when the MDP is made. The experiments of [garcelon2021local] section 6 use S = A = H = 2. The paper does
not say where an episode begins; here it is state 0.
"""

from __future__ import annotations

import numpy as np

from tacit.environments.tabular import TabularMDP
from tacit.errors import require_count

__all__ = ["random_mdp"]

CONCENTRATION = 0.1
REWARD_PROBABILITY = 0.5


def random_mdp(*, states: int = 2, actions: int = 2, horizon: int = 2, seed: int = 0) -> TabularMDP:
    """Sparse Dirichlet transitions and rewards in {0, 1}, drawn once.

    Parameters
    ----------
    states, actions, horizon
        The size.
    seed
        Which MDP; nothing else depends on it. Some seeds give MDPs in which every policy is optimal.

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
    return TabularMDP(P=P, r=r, rho=np.eye(S)[0], horizon=horizon, reward_kind="deterministic", name="random-mdp")
