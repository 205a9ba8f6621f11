"""Simulation only: the exact objective of Gaussian policies on a dose bandit, in closed form."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.data.doses import Clinic, prepare_clinic
from tacit.environments.dose_bandit import DoseBandit
from tacit.kernels import kernel
from tacit.loop.judges.softmax import BatchJudge, Objective

__all__ = ["DoseJudge", "dose_truth"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class DoseTruth(NamedTuple):
    """The true outcomes of doses."""

    clinic: Clinic
    rho: Floats
    optimal: float


class DoseTally(NamedTuple):
    """Running sums over the iterates, and scratch."""

    sums: Floats
    """[4]: Σ_t J* - J(θ_t), Σ_t ‖∇J(θ_t)‖², nothing, regret in expectation over contexts."""
    means: Floats
    gradient: Floats
    round: Floats
    """[2]: the regret before the latest round, and how many users came in it."""


@kernel
def dose_truth(clinic: Clinic, rho: Floats, theta: Floats, means: Floats, gradient: Floats) -> float:
    """Simulation only: J(θ) and ∇J(θ) in closed form; also writes means[s] = θ·x_s."""
    S, k = clinic.features.shape
    spread = clinic.width**2 + clinic.deviation**2
    value = 0.0
    gradient[:] = 0.0
    for s in range(S):
        means[s] = 0.0
        for j in range(k):
            means[s] += theta[j] * clinic.features[s, j]
        gap = means[s] - clinic.target[s]
        # J = Σ_s ρ_s w/√(w²+τ²) exp(-gap²/(2(w²+τ²)))
        part = rho[s] * clinic.width / math.sqrt(spread) * math.exp(-0.5 * gap * gap / spread)
        value += part
        for j in range(k):
            gradient[j] -= part * gap / spread * clinic.features[s, j]
    return value


@kernel
def count_doses(truth: DoseTruth, tally: DoseTally, parameters: Any, belief: Any, users: Any) -> None:
    """Add the exact gap and the gradient's norm of the iterate; every user of the batch costs the gap."""
    gap = truth.optimal - dose_truth(truth.clinic, truth.rho, belief.theta, tally.means, tally.gradient)
    tally.sums[0] += gap
    for j in range(tally.gradient.shape[0]):
        tally.sums[1] += tally.gradient[j] * tally.gradient[j]
    tally.round[0] = tally.sums[3]
    tally.round[1] = users.states.shape[0]
    tally.sums[3] += gap * users.states.shape[0]


class DoseJudge(BatchJudge):
    """The score of Gaussian policies; pseudo-regret is counted in expectation over contexts."""

    count = staticmethod(count_doses)

    def __init__(self, bandit: DoseBandit, marks: Ints) -> None:
        super().__init__(marks)
        self._bandit = bandit
        S, k = bandit.features.shape
        self.truth = DoseTruth(prepare_clinic(bandit), np.array(bandit.rho), bandit.optimal_value)
        self.tally = DoseTally(np.zeros(4), np.zeros(S), np.zeros(k), np.zeros(2))

    def objective(self, learner: Any, belief: Any, rounds: int) -> Objective:
        """Averages over the iterates, and the exact values of the last and of a uniform one."""
        final, number = self._bandit.objective(belief.theta), max(1, rounds)
        stationarity = float(self.tally.sums[1]) / number
        return Objective(
            final=final,
            uniform=self._bandit.objective(belief.sampled),
            average=self.truth.optimal - float(self.tally.sums[0]) / number if rounds else final,
            optimal=self.truth.optimal,
            stationarity=stationarity,
            regularised=stationarity,
        )
