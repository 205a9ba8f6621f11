"""Checks that every continual counter must pass, and that its broken twins must fail."""

from __future__ import annotations

import numpy as np


def impulse_response(counter, draws):
    """B, by feeding the stream unit vectors: counter c sees 1 at the c-th fresh draw and 0 elsewhere."""
    state, used, rows = counter.begin(draws), 0, []
    for k in range(1, counter.releases + 1):
        count = counter.draws_at(k)
        fresh = np.zeros((count, draws))
        fresh[np.arange(count), used + np.arange(count)] = 1.0
        used += count
        counter.advance(counter.params, state, fresh)
        rows.append(state.noise.copy())
    assert used == draws
    return np.array(rows)


def covariance_misfit(path, expected):
    """The largest |z|-score of an entry of the empirical covariance of independent columns against `expected`."""
    worst = 0.0
    for k in range(len(path)):
        for i in range(k + 1):
            product = path[k] * path[i]
            error = product.std() / np.sqrt(product.size)
            worst = max(worst, abs(product.mean() - expected[k, i]) / error)
    return worst
