"""Random small models for hypothesis, rows of probabilities that may miss some mass included."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st


@st.composite
def models(draw, *, max_states=4, max_actions=3, max_horizon=4, substochastic=True):
    """(P, r, rho, horizon): sparse rows, ties and missing mass are all common."""
    S, A = draw(st.integers(1, max_states)), draw(st.integers(1, max_actions))
    horizon = draw(st.integers(1, max_horizon))
    stages = draw(st.sampled_from([1, horizon]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    P = rng.dirichlet(np.full(S, draw(st.sampled_from([0.1, 1.0]))), size=(stages, S, A))
    if substochastic and draw(st.booleans()):
        P *= rng.random((stages, S, A, 1))
        P[rng.random((stages, S, A)) < 0.2] = 0.0
    r = np.round(rng.random((stages, S, A)), 1)
    rho = rng.dirichlet(np.ones(S))
    return P, r, rho, horizon


def random_policy(rng, horizon, S, A):
    """Probabilities[h,s,a] with zeros among them."""
    table = rng.dirichlet(np.full(A, 0.5), size=(horizon, S))
    table[rng.random((horizon, S)) < 0.3] = np.eye(A)[rng.integers(A)]
    return table
