"""UOB-REPS (Jin, Jin, Luo, Sra and Yu 2020): entropy mirror descent with upper occupancy bounds, bandit feedback.

    l̂_k(x,a) = l_k(x,a) 1{visited} / (u_k(x,a) + γ),      q_{k+1} = argmin_{q ∈ Δ(𝒫_{k+1})} η ⟨l̂_k, q⟩ + KL(q ‖ q_k)

with η = γ = √(H ln(HXA/δ)/(KXA)). The ancestor of UOB-LBPS. Deviation: the set 𝒫 is that of [bai2024adversarial] Eq.
3.1, which is smaller.

With privacy (known transitions only) l 1{visited} comes with noise of variance σ² on every pair, |noise| ≤ E' on the
good event, and is clipped to [-E', 1 + E']. With u = q the regret is at most

    H ln(XA/H)/η + η K Σ q E[l̂²] + γ K XA,      Σ q E[l̂²] ≤ XA (1 + σ²/(4γ)),      q/(q + γ)² ≤ 1/(4γ)

up to constants as long as η l̂ ≥ -1, where e^{-x} ≤ 1 - x + x². The choice that balances the three terms,

    γ = max(rate, (σ² H ln(XA/H)/(4 K XA))^{1/3}),      η = min(rate, √(4γ H ln(XA/H)/(σ² K XA)), γ/(1 + E')),

gives K^{2/3}: entropy pays for noise on pairs that are hardly met, which the barrier of UOB-LBPS (√K) does not. The
choice is ours; no theorem of the paper covers it.
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

PRACTICAL = {"eta": 3.0}
MIN_OCCUPANCY = 1e-300


class ExploringParameters(NamedTuple):
    """Public parameters of the kernel."""

    set: SetParameters
    eta: float
    gamma: float
    radius: float
    """E'; infinite where losses have no noise."""


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
        # Clipping is post-processing; on the good event it does nothing.
        loss = min(max(released.losses[pair], -parameters.radius), 1.0 + parameters.radius)
        # η l̂ = η l 1{visited}/(u + γ)
        belief.costs[pair] = parameters.eta * loss / (belief.upper[pair] + parameters.gamma)
    for triple in range(belief.prior.shape[0]):
        belief.prior[triple] = math.log(max(belief.occupancy[triple], MIN_OCCUPANCY))
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
    eta = gamma = multipliers.eta * rate
    variance, E = float(request.variance[2]), request.loss_radius
    if variance > 0.0:
        entropy, pairs = H * math.log(X * A / H), request.episodes * X * A
        # γ = max(rate, (σ² H ln(XA/H)/(4 K XA))^(1/3)),  η = min(rate, √(4γ H ln(XA/H)/(σ² K XA)), γ/(1 + E'))
        gamma = max(gamma, math.cbrt(variance * entropy / (4.0 * pairs)))
        eta = min(eta, multipliers.eta * math.sqrt(4.0 * gamma * entropy / (variance * pairs)), gamma / (1.0 + E))
    return LossLearner(
        name=request.name,
        geometry=request.geometry,
        feedback="bandit",
        constants=constants,
        z=multipliers.z if multipliers.z >= 0.0 and request.known is None else None,
        settings={
            "eta": multipliers.eta,
            "learning_rate": eta,
            **widths_used(request, multipliers),
            "failure_prob": request.failure_prob,
            "exploration": gamma,
            **({"loss_radius": E} if variance > 0.0 else {}),
        },
        parameters=ExploringParameters(
            set=set_parameters(request, multipliers), eta=eta, gamma=gamma, radius=E if variance > 0.0 else math.inf
        ),
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
