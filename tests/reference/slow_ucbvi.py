"""UCBVI as a plain NumPy loop: every episode starts again from the counts, nothing is kept but the last Q.

Written from the formulas of Azar, Osband and Munos (2017) and of the practical rule, for comparison with the compiled
learner: as an oracle in the tests, and as "what one would write without a compiler" in the benchmarks.
"""

from __future__ import annotations

import math

import numpy as np


class SlowUCBVI:
    """Counts in, policy out. `rule` is "hoeffding", "bernstein" or "practical"."""

    def __init__(self, *, horizon, num_states, num_actions, staged, rule, episodes, z=1.0, failure_prob=0.05):
        self.H, self.S, self.A = horizon, num_states, num_actions
        self.stages = horizon if staged else 1
        self.rule, self.z = rule, z
        self.L = math.log(5 * self.stages * num_states * num_actions * horizon * episodes / failure_prob)
        self.moves = np.zeros((self.stages, num_states, num_actions, num_states))
        self.visits = np.zeros((self.stages, num_states, num_actions))
        self.rewards = np.zeros((self.stages, num_states, num_actions))
        self.noise = (0.0, 0.0, 0.0)
        self.Q = np.array([np.full((num_states, num_actions), float(horizon - h)) for h in range(horizon)])

    def observe(self, states, actions, rewards):
        """Count one episode; where the last step leads is nobody's business."""
        for h in range(self.H):
            k = h if self.stages > 1 else 0
            s, a = states[h], actions[h]
            self.visits[k, s, a] += 1
            self.rewards[k, s, a] += rewards[h]
            if h + 1 < self.H:
                self.moves[k, s, a, states[h + 1]] += 1

    def plan(self, coins):
        """The optimistic policy[h,s]; coins[h,s] choose among equally good actions."""
        policy = np.zeros((self.H, self.S), dtype=np.int64)
        V = np.zeros(self.S)
        for h in reversed(range(self.H)):
            k = h if self.stages > 1 else 0
            kept, n, r = self._model(k, last=h == self.H - 1)
            known = n > 0
            safe_n = np.where(known, n, 1.0)
            total = kept.sum(axis=2, keepdims=True)
            P = kept / np.where(total > 0, total, 1.0)
            mean = P @ V
            gap = V - mean[..., None]
            variance, spread = (P * gap**2).sum(axis=2), (gap**2).sum(axis=2)
            optimistic = r + mean + self._width(h, k, P, safe_n, r, variance, spread)
            Q = np.where(known, np.minimum(self.H - h, optimistic), float(self.H - h))
            if self.rule != "practical":
                Q = np.minimum(Q, self.Q[h])
            self.Q[h] = Q
            V = Q.max(axis=1)
            for s in range(self.S):
                best = np.flatnonzero(Q[s] == V[s])
                policy[h, s] = best[int(coins[h, s] * len(best))]
        return policy

    def _model(self, k, *, last):
        """Counts that stand out of the noise, how many there are, and the mean reward."""
        sigma_N, sigma_n = math.sqrt(self.noise[0]), math.sqrt(self.noise[1])
        floor = max(0.5, sigma_N / 2)
        kept = np.where(self.moves[k] > floor, self.moves[k], 0.0)
        n = kept.sum(axis=2)
        base = np.where(self.visits[k] > floor, self.visits[k], n)
        r = np.where(base > floor, np.clip(self.rewards[k] / np.where(base > floor, base, 1.0), 0.0, 1.0), 0.0)
        if last:
            n = np.where(self.visits[k] > sigma_n / 2, self.visits[k], 0.0)
        return kept, n, r

    def _width(self, h, k, P, n, r, variance, spread):
        H, S, A, L = self.H, self.S, self.A, self.L
        if self.rule == "hoeffding":
            return 7 * H * L / np.sqrt(n)
        if self.rule == "practical":
            inside = (variance + r * (1 - r) + 0.25 / n) / n
            inside = inside + (self.noise[0] * spread + self.noise[2]) / n**2
            return self.z * np.sqrt(inside) + self.z**2 / 3 * (H - h) / n
        width = np.sqrt(8 * L * variance / n) + 14 * H * L / (3 * n)
        width = width + np.sqrt(2 * r * (1 - r) * L / n) + 7 * L / (3 * n)
        if h + 1 < H:
            arrived = self.visits[k + 1 if self.stages > 1 else 0].sum(axis=1)
            with np.errstate(divide="ignore"):
                doubt = np.minimum(1e4 * H**3 * S**2 * A * L**2 / arrived, H**2)
            width = width + np.sqrt(8 * (P @ doubt) / n)
        return width
