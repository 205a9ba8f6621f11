"""RLSVI: value iteration on randomly perturbed values, where the privacy noise counts as exploration noise.

Osband, Van Roy and Wen (2016) explore by Gaussian noise in the values instead of a bonus. In tables, with P̂, r̂ and n
from the released counts, V_{H+1} = 0 and one draw per policy,

    Q_h(s,a) = clip( r̂ + P̂ V_{h+1} + w, 0, H - h + 1 ),    w ~ N(0, z² v),    V_h(s) = max_a Q_h(s,a)
    v = (Var_P̂ V + r̂(1 - r̂) + ¼/n) / n                     `explore=added`: what sampling asks for
      + (σ_N² Σ_s'(V(s') - P̂V)² + σ_R²) / n²                `explore=full`: and what the released noise asks for
    v = 0                                                   `explore=released`: the privacy noise alone explores

Rows of which nothing is known have P̂ = r̂ = 0 and the standard deviation z (H - h + 1), or none with `explore=released`.

Privacy: everything here is post-processing of the releases of `bucb`, whose batches, noise, projection and weights it
has; the certificate is that of the Gaussian noise in the released sums. Exploration noise cannot take its place: it has
a fixed scale per observation, so a row that one person visited alone carries one observation's worth of it, and that is
what an exact accountant must count with (`python -m papers.frontier.rlsvi` computes it). No bound of the regret under
privacy is claimed.
"""

from __future__ import annotations

from typing import Final, Literal, cast

import numpy as np

from tacit.arrays import Floats
from tacit.learners.bucb import BUCB, POLICIES, BUCBBelief
from tacit.learners.contract import StageRequest
from tacit.learners.schedules import grouped, split_evenly
from tacit.planning.weighted_rows import Rows
from tacit.policies import DeterministicPolicy

Explore = Literal["added", "full", "released"]
EXPLORE: Final[tuple[Explore, ...]] = ("added", "full", "released")


class RLSVI(BUCB):
    """Randomized value iteration in the batches of bucb; see the module."""

    over_support = False
    explore: Explore = "added"

    def explorers(
        self, belief: BUCBBelief, model: Rows, rho: Floats, users: int, rng: np.random.Generator
    ) -> tuple[tuple[DeterministicPolicy, int], ...]:
        """Policies that are greedy for values with noise of their own, and who follows which."""
        J = min(POLICIES, users)
        return grouped(perturbed(model, self.shape.horizon, self._z, self.explore, J, rng), split_evenly(users, J))


def perturbed(
    model: Rows, horizon: int, z: float, explore: Explore, count: int, rng: np.random.Generator
) -> np.ndarray[tuple[int, int, int], np.dtype[np.int64]]:
    """So many greedy policies [j,h,s], each with its own draw of w."""
    P, (L, S, A) = model.P, model.r.shape
    policies, V = np.zeros((count, horizon, S), dtype=np.int64), np.zeros((count, S))
    for h in range(horizon - 1, -1, -1):
        stage, left = min(h, L - 1), float(horizon - h)
        r, known = model.r[stage], model.n[stage] > 0.0
        n = np.where(known, model.n[stage], 1.0)
        mean, squares = (np.einsum("sat,jt->jsa", P[stage], value) for value in (V, V * V))
        # Σ_s' (V(s') - P̂V)²
        spread = (V * V).sum(axis=1)[:, None, None] - 2.0 * mean * V.sum(axis=1)[:, None, None] + S * mean * mean
        v = (np.maximum(squares - mean * mean, 0.0) + r * (1.0 - r) + 0.25 / n) / n
        if explore == "full":
            v = v + (model.count_variance[stage] * np.maximum(spread, 0.0) + model.reward_variance[stage]) / (n * n)
        std = z * np.sqrt(np.where(known, v, left * left))
        w = rng.standard_normal((count, S, A)) * (0.0 if explore == "released" else std)
        Q = np.clip(np.where(known, r + mean, 0.0) + w, 0.0, left)
        V = Q.max(axis=2)
        # Ties are broken at random.
        policies[:, h] = np.where(V[..., None] == Q, rng.random(Q.shape), -1.0).argmax(axis=2)
    return policies


def make_rlsvi(request: StageRequest) -> RLSVI:
    """The learner that a request amounts to."""
    request.practical_only("rlsvi")
    learner = RLSVI(
        shape=request.shape,
        episodes=request.episodes,
        noise=request.noise,
        z=request.z,
        name="rlsvi",
        sizes=request.sizes,
        pooled=request.options.get("share_across_steps") == "true",
    )
    learner.explore = cast("Explore", request.options.get("explore", "added"))
    return learner
