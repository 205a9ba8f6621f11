"""Softmax policies: π_θ(a|l,s) ∝ exp z[l,s,a], with logits z that are the parameters or linear in them.

    tabular   z[l,s,a] = θ[l,s,a]                  d = L S A     [he2025policy] Def. 3 has L = 1
    linear    z[l,s,a] = Σ_j φ[s,a,j] θ[l,j]       d = L k       public features φ

L is H where the steps of an episode are kept apart, and 1 where they share one policy. A gradient with respect to θ is
taken in two steps: with respect to the logits, where ∂ log π(a|s) / ∂z = 1_a - π(·|s), and then through `pull_back`.
Tabular policies are marked by features of width zero, so that one kernel serves both.

Neural softmax policies over finitely many states: a perceptron with one hidden layer, and its tangent features.

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


def tabular_features() -> Floats:
    """The mark of a tabular policy: features of width zero."""
    return np.zeros((1, 1, 0))


def public_features(num_states: int, num_actions: int, width: int, seed: int = 0) -> Floats:
    """Random unit vectors φ[s,a], fixed before anybody comes: features for those who have none of their own.

    >>> np.allclose((public_features(3, 2, 5) ** 2).sum(axis=2), 1.0)
    True
    """
    k = require_count("number of features", width)
    drawn = np.random.default_rng(seed).standard_normal((num_states, num_actions, k))
    return np.asarray(drawn / np.sqrt((drawn**2).sum(axis=2, keepdims=True)))


def parameters_of(features: Floats, stages: int, num_states: int, num_actions: int) -> int:
    """The number d of parameters.

    >>> parameters_of(tabular_features(), 6, 4, 2), parameters_of(np.ones((4, 2, 3)), 6, 4, 2)
    (48, 18)
    """
    width = features.shape[2]
    return stages * (width if width > 0 else num_states * num_actions)


def score_bound(features: Floats) -> float:
    """Sup ‖∇_θ log π_θ(a|s)‖ over all θ, s and a: √2 for tabular softmax, the widest pair of features for linear.

    [he2025policy] App. C prints √(1 - 1/A), which bounds the *mean* of the squared norm over a ~ π only: with π on
    one action and another one taken, ‖1_a - π‖ = √2.

    >>> score_bound(tabular_features()) == math.sqrt(2.0)
    True
    """
    if features.shape[2] == 0:
        return math.sqrt(2.0)
    # φ(s,a) - Σ_b π(b) φ(s,b) is longest where π sits on one other action.
    gaps = features[:, :, None, :] - features[:, None, :, :]
    return float(np.sqrt((gaps**2).sum(axis=3)).max())


@kernel
def softmax_table(features: Floats, theta: Floats, table: Floats) -> None:
    """Write π_θ(a|l,s) into table[l,s,a]."""
    L, S, A = table.shape
    k = features.shape[2]
    for l in range(L):  # noqa: E741 - the letter of the stage
        for s in range(S):
            top = -math.inf
            for a in range(A):
                z = 0.0
                if k == 0:
                    z = theta[(l * S + s) * A + a]
                else:
                    for j in range(k):
                        z += features[s, a, j] * theta[l * k + j]
                table[l, s, a] = z
                top = max(top, z)
            total = 0.0
            for a in range(A):
                table[l, s, a] = math.exp(table[l, s, a] - top)
                total += table[l, s, a]
            for a in range(A):
                table[l, s, a] /= total


@kernel
def add_pull_back(features: Floats, weights: Floats, scale: float, gradient: Floats) -> None:
    """Add to gradient[d] what weights[l,s,a] with respect to the logits are with respect to θ, times `scale`."""
    L, S, A = weights.shape
    k = features.shape[2]
    for l in range(L):  # noqa: E741
        for s in range(S):
            for a in range(A):
                w = scale * weights[l, s, a]
                if k == 0:
                    gradient[(l * S + s) * A + a] += w
                else:
                    for j in range(k):
                        gradient[l * k + j] += w * features[s, a, j]


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
