"""Neural softmax policies over finitely many states: a perceptron with one hidden layer, and its tangent features.

    z(s) = W₂ t(s) + b₂,   t(s) = tanh(W₁ x_s + b₁),   θ = (W₁, b₁, W₂, b₂) flattened,   π_θ(a|s) ∝ exp z(s)_a

x_s are public inputs, one vector per state, fixed before anybody comes. The score of such a policy is that of a linear
one whose features are the derivatives of the logits at the present θ (Lemma D9 (tangent features)):

    ∇_θ log π_θ(a|s) = φ_θ(s,a) - Σ_b π_θ(b|s) φ_θ(s,b),    φ_θ(s,a) = ∂z(s)_a/∂θ

So a batch gradient at a network is asked for, clipped and noised by the very code that serves linear policies, with
φ_θ, a public function of θ, as features. States that are not `active`, such as the one of an ended episode, have logits
of zero whatever θ is: no user adds anything there.

The same network over observations that are real numbers, with gradients by PyTorch, is `papers.neural`.
"""

from __future__ import annotations

import math

import numpy as np

from tacit.arrays import Floats
from tacit.errors import require_count
from tacit.kernels import kernel


def network_dimension(inputs: int, hidden: int, actions: int) -> int:
    """The number d of parameters.

    >>> network_dimension(4, 32, 2)
    226
    """
    return hidden * (inputs + 1) + actions * (hidden + 1)


def first_weights(inputs: int, hidden: int, actions: int, seed: int = 0) -> Floats:
    """θ₁: small random W₁, drawn before anybody comes; W₂ = 0, so every action is alike.

    >>> first_weights(1, 2, 2).round(3).tolist()
    [0.126, -0.132, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """
    n, h = require_count("inputs", inputs), require_count("hidden units", hidden)
    theta = np.zeros(network_dimension(n, h, actions))
    theta[: h * n] = np.random.default_rng(seed).standard_normal(h * n) / math.sqrt(n)
    return theta


@kernel
def network_table(inputs: Floats, active: Floats, hidden: int, theta: Floats, table: Floats) -> None:
    """Write π_θ(a|s) into table[0,s,a]."""
    S, n = inputs.shape
    A = table.shape[2]
    bias, out = hidden * n, hidden * (n + 1)
    last = out + A * hidden
    for s in range(S):
        for a in range(A):
            table[0, s, a] = active[s] * theta[last + a]
        for u in range(hidden):
            t = active[s] * _unit(inputs, hidden, theta, s, u, bias)
            for a in range(A):
                table[0, s, a] += theta[out + a * hidden + u] * t
        top = -math.inf
        for a in range(A):
            top = max(top, table[0, s, a])
        total = 0.0
        for a in range(A):
            table[0, s, a] = math.exp(table[0, s, a] - top)
            total += table[0, s, a]
        for a in range(A):
            table[0, s, a] /= total


@kernel
def network_tangent(inputs: Floats, active: Floats, hidden: int, theta: Floats, features: Floats) -> None:
    """Write φ_θ(s,a) = ∂z(s)_a/∂θ into features[s,a,d]; zero where a state is not active."""
    S, n = inputs.shape
    A = features.shape[1]
    bias, out = hidden * n, hidden * (n + 1)
    last = out + A * hidden
    features[:] = 0.0
    for s in range(S):
        if active[s] == 0.0:
            continue
        for u in range(hidden):
            t = _unit(inputs, hidden, theta, s, u, bias)
            for a in range(A):
                # ∂z_a/∂W₂[a,u] = t_u;  ∂z_a/∂b₁[u] = W₂[a,u] (1 - t_u²);  ∂z_a/∂W₁[u,i] = the same times x_i
                back = theta[out + a * hidden + u] * (1.0 - t * t)
                features[s, a, out + a * hidden + u] = t
                features[s, a, bias + u] = back
                for i in range(n):
                    features[s, a, u * n + i] = back * inputs[s, i]
        for a in range(A):
            features[s, a, last + a] = 1.0


@kernel
def _unit(inputs: Floats, hidden: int, theta: Floats, s: int, u: int, bias: int) -> float:
    """tanh(W₁ x_s + b₁) of one hidden unit."""
    n = inputs.shape[1]
    total = theta[bias + u]
    for i in range(n):
        total += theta[u * n + i] * inputs[s, i]
    return math.tanh(total)
