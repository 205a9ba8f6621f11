"""A perceptron with one hidden layer written down plainly, one observation at a time, with back-propagation by hand."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Network:
    inputs: int
    hidden: int
    actions: int

    def parts(self, theta):
        n, h, a = self.inputs, self.hidden, self.actions
        w1, b1, w2, b2 = np.split(theta, np.cumsum([h * n, h, a * h]))
        return w1.reshape(h, n), b1, w2.reshape(a, h), b2

    def logits(self, theta, x):
        w1, b1, w2, b2 = self.parts(theta)
        return w2 @ np.tanh(w1 @ x + b1) + b2

    def policy(self, theta, x):
        z = self.logits(theta, x)
        e = np.exp(z - z.max())
        return e / e.sum()

    def score(self, theta, x, action):
        """∇_θ log π_θ(action|x)."""
        w1, b1, w2, _ = self.parts(theta)
        t = np.tanh(w1 @ x + b1)
        error = -self.policy(theta, x)
        error[action] += 1.0
        hidden = (w2.T @ error) * (1.0 - t**2)
        return np.concatenate([np.outer(hidden, x).ravel(), hidden, np.outer(error, t).ravel(), error])
