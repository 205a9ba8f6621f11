"""REINFORCE written down plainly, one user and one step at a time, in NumPy."""

import numpy as np


def softmax(z):
    e = np.exp(z - z.max())
    return e / e.sum()


def log_policy(theta, features, stages, h, s, a):
    """log π_θ(a|h,s); `features` None means tabular."""
    stage = min(h, stages - 1)
    z = theta[stage, s] if features is None else features[s] @ theta[stage]
    return float(z[a] - np.log(np.exp(z - z.max()).sum()) - z.max())


def score(theta, features, stages, h, s, a):
    """∇ log π_θ(a|h,s) with the shape of θ."""
    stage = min(h, stages - 1)
    grad = np.zeros_like(theta)
    if features is None:
        grad[stage, s] = -softmax(theta[stage, s])
        grad[stage, s, a] += 1.0
    else:
        pi = softmax(features[s] @ theta[stage])
        grad[stage] = features[s, a] - pi @ features[s]
    return grad


def user_gradient(theta, features, stages, states, actions, rewards, *, baseline=0.0, clip=np.inf):
    """Σ_h (Σ_{j≥h} r_j - b) ∇ log π(a_h|s_h), clipped."""
    total = np.zeros_like(theta)
    for h, (s, a) in enumerate(zip(states, actions, strict=True)):
        to_go = sum(np.clip(r, 0.0, 1.0) - baseline for r in rewards[h:])
        total += to_go * score(theta, features, stages, h, s, a)
    norm = np.linalg.norm(total)
    return total if norm <= clip else total * clip / norm
