"""UC-O-REPS with or without privacy: entropy-regularised leader over occupancies, full information.

    q_{k+1} = argmin_{q ∈ Δ(𝒫_{k+1})}  ⟨L̃_{k+1}, q⟩ + (1/η) Σ q ln q,      π(a|x) = q(x,a)/q(x)

Without noise this is UC-O-REPS (Rosenberg and Mansour 2019) in the form of a regularised leader; with the transitions
known (`o-reps`) it is O-REPS (Zimin and Neu 2013). Regret Õ(H C_M √K + H X² A E + H E_ε) ([bai2024adversarial]
Theorem 3.3) with η = √(ln(XA/H)/K).

While the set 𝒫 says nothing, every action can lead everywhere, and the policy is π(a|x) ∝ exp(-η L̃(x,a)): it ignores
the transitions (Lemma F7 (vacuous sets are myopic)): the myopic policy which every result shows for comparison.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tacit.arrays import Floats
from tacit.kernels import kernel
from tacit.learners.loss_contract import TALLY, LossLearner, LossRequest, note_solve, read_multipliers
from tacit.learners.transition_set import (
    SetBelief,
    SetParameters,
    begin_set,
    set_parameters,
    update_set,
    widths_used,
)
from tacit.planning.entropy_flow import EntropyWork, entropy_work, solve_entropy_flow
from tacit.planning.layered import REPORT_SIZE
from tacit.released.losses import LossStatistics

PRACTICAL = {"eta": 3.0}


class EntropyParameters(NamedTuple):
    """Public parameters of the kernel."""

    set: SetParameters
    eta: float


class EntropyBelief(NamedTuple):
    """The policy, the occupancy behind it, the set of transitions and the solver's memory."""

    policy: Floats
    occupancy: Floats
    costs: Floats
    prior: Floats
    """[triples]: zeros for a leader, ln q_k for mirror descent."""
    set: SetBelief
    work: EntropyWork
    report: Floats
    tally: Floats


@kernel
def update_uc_o_reps(parameters: EntropyParameters, belief: EntropyBelief, released: LossStatistics) -> None:
    """[bai2024adversarial] Alg. 1, lines 7 to 9: the set, the leader, the policy."""
    update_set(parameters.set, belief.set, released, belief.tally)
    for pair in range(belief.costs.shape[0]):
        # η L̃_{k+1}(x,a)
        belief.costs[pair] = parameters.eta * released.losses[pair]
    solve_entropy_flow(
        parameters.set.geometry, belief.work, belief.costs, belief.prior, belief.set.lo, belief.set.hi, True,
        belief.policy, belief.occupancy, belief.report,
    )  # fmt: skip
    note_solve(belief.tally, belief.report)


def uc_o_reps(request: LossRequest) -> LossLearner:
    """Build the learner; with `request.known` it is O-REPS."""
    constants, multipliers = read_multipliers(request, PRACTICAL)
    X, A, H = request.num_states, request.geometry.actions, len(request.geometry.layers) - 2
    # η = √(ln(XA/H)/K)
    eta = multipliers.eta * math.sqrt(math.log(X * A / H) / request.episodes)
    parameters = EntropyParameters(set=set_parameters(request, multipliers), eta=eta)
    return LossLearner(
        name=request.name,
        geometry=request.geometry,
        feedback="full",
        constants=constants,
        z=multipliers.z if multipliers.z >= 0.0 and request.known is None else None,
        settings={
            "eta": multipliers.eta,
            "learning_rate": eta,
            **widths_used(request, multipliers),
            "failure_prob": request.failure_prob,
        },
        parameters=parameters,
        begin=lambda: begin_entropy(request),
        update_kernel=update_uc_o_reps,
    )


def begin_entropy(request: LossRequest) -> EntropyBelief:
    """q_1: the flow of the largest entropy in the first set."""
    geometry = request.geometry
    triples, pairs = int(geometry.edges[-1]), len(geometry.edges) - 1
    belief = EntropyBelief(
        policy=np.zeros(pairs),
        occupancy=np.zeros(triples),
        costs=np.zeros(pairs),
        prior=np.zeros(triples),
        set=begin_set(request),
        work=entropy_work(geometry),
        report=np.zeros(REPORT_SIZE),
        tally=np.zeros(len(TALLY)),
    )
    solve_entropy_flow(
        geometry, belief.work, belief.costs, belief.prior, belief.set.lo, belief.set.hi, False,
        belief.policy, belief.occupancy, belief.report,
    )  # fmt: skip
    note_solve(belief.tally, belief.report)
    return belief
