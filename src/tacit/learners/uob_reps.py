"""UOB-REPS (Jin, Jin, Luo, Sra and Yu 2020): entropy mirror descent with upper occupancy bounds, bandit feedback.

    l̂_k(x,a) = l_k(x,a) 1{visited} / (u_k(x,a) + γ),      q_{k+1} = argmin_{q ∈ Δ(𝒫_{k+1})} η ⟨l̂_k, q⟩ + KL(q ‖ q_k)

with η = γ = √(H ln(HXA/δ)/(KXA)). The ancestor of UOB-LBPS, without privacy. Deviation: the set 𝒫 is that of
[bai2024adversarial] Eq. 3.1, which is smaller.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tacit.arrays import Floats
from tacit.kernels import kernel
from tacit.learners.loss_contract import LossLearner, LossRequest, note_solve, read_multipliers
from tacit.learners.transition_set import SetBelief, SetParameters, set_parameters, update_set, widths_used
from tacit.learners.uc_o_reps import begin_entropy
from tacit.planning.entropy_flow import EntropyWork, solve_entropy_flow
from tacit.planning.layered import UpperWork, bound_occupancy, upper_work
from tacit.released.losses import LossStatistics

__all__ = ["ExploringBelief", "ExploringParameters", "uob_reps", "update_uob_reps"]


PRACTICAL = {"eta": 3.0}
LEAST_OCCUPANCY = 1e-300


class ExploringParameters(NamedTuple):
    """Public parameters of the kernel."""

    set: SetParameters
    eta: float
    gamma: float


class ExploringBelief(NamedTuple):
    """The policy, the occupancy behind it, the set of transitions and the solvers' memory."""

    policy: Floats
    occupancy: Floats
    costs: Floats
    prior: Floats
    """[triples]: ln q_k."""
    upper: Floats
    set: SetBelief
    work: EntropyWork
    upper_work: UpperWork
    report: Floats
    tally: Floats


@kernel
def update_uob_reps(parameters: ExploringParameters, belief: ExploringBelief, released: LossStatistics) -> None:
    """Bound, estimate, set, descent, policy."""
    geometry = parameters.set.geometry
    bound_occupancy(geometry, belief.upper_work, belief.policy, belief.set.lo, belief.set.hi, belief.upper)
    for pair in range(belief.costs.shape[0]):
        # η l̂ = η l 1{visited}/(u + γ)
        belief.costs[pair] = parameters.eta * released.losses[pair] / (belief.upper[pair] + parameters.gamma)
    for triple in range(belief.prior.shape[0]):
        belief.prior[triple] = math.log(max(belief.occupancy[triple], LEAST_OCCUPANCY))
    update_set(parameters.set, belief.set, released, belief.tally)
    solve_entropy_flow(
        geometry, belief.work, belief.costs, belief.prior, belief.set.lo, belief.set.hi, False,
        belief.policy, belief.occupancy, belief.report,
    )  # fmt: skip
    note_solve(belief.tally, belief.report)


def uob_reps(request: LossRequest) -> LossLearner:
    """Build the learner."""
    constants, multipliers = read_multipliers(request, PRACTICAL)
    X, A, H = request.num_states, request.geometry.actions, len(request.geometry.layers) - 2
    # η = γ = √(H ln(HXA/δ)/(KXA))
    rate = math.sqrt(H * math.log(H * X * A / request.failure_prob) / (request.episodes * X * A))
    eta = multipliers.eta * rate
    return LossLearner(
        name=request.name,
        geometry=request.geometry,
        feedback="bandit",
        constants=constants,
        z=multipliers.z if multipliers.z >= 0.0 else None,
        settings={
            "eta": multipliers.eta,
            "learning_rate": eta,
            **widths_used(request, multipliers),
            "failure_prob": request.failure_prob,
            "exploration": eta,
        },
        parameters=ExploringParameters(set=set_parameters(request, multipliers), eta=eta, gamma=eta),
        begin=lambda: _begin(request),
        update_kernel=update_uob_reps,
    )


def _begin(request: LossRequest) -> ExploringBelief:
    first = begin_entropy(request)
    return ExploringBelief(
        policy=first.policy,
        occupancy=first.occupancy,
        costs=first.costs,
        prior=first.prior,
        upper=np.zeros(len(first.policy)),
        set=first.set,
        work=first.work,
        upper_work=upper_work(request.geometry),
        report=first.report,
        tally=first.tally,
    )
