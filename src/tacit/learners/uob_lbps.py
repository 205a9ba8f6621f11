"""UOB-LBPS with or without privacy: log-barrier mirror descent with upper occupancy bounds, bandit feedback.

    q_{k+1} = argmin_{q ∈ Δ(𝒫_{k+1})}  η ⟨l̂_k, q⟩ + D_ψ(q ‖ q_k),      ψ(q) = Σ ln(1/q(x,a,x'))
    u_k(x,a) = max_{P ∈ 𝒫_k} q^{P,π_k}(x,a)

Two estimators of the losses, from the noisy l̃ = l 1{visited} + noise, |noise| ≤ E':

    as-written   l̂ = (l̃ + E') / ((2E' + 1) u)        [bai2024adversarial] Eq. 4.1, 4.2; l̃ clipped as below
    centred      l̂ = l̃ / ((2E' + 1) u)               l̃ clipped to [-E', 1 + E'], η times 2E' + 1

As written, E'/((2E' + 1) u) is added to every loss. It is not the same for all actions: with u ≈ q it is the gradient
of ½ Σ ln q, so it cancels the barrier, rare actions look worse the rarer they are, and the policy freezes on whatever
came first (regret grows linearly). In the proof of Theorem 4.2 the inequality for that term goes the wrong way.
`centred` is unbiased up to q/u; since its losses may be negative, η is capped so that η q |l̂| ≤ ½, which is all that a
barrier needs (Lemma F9 (offset of the estimator), Lemma F10 (barrier without signs)). Without noise both are the same.

The option `radius` replaces E': without any noise it shows what the offset alone does.

With known transitions (`transitions=known`) 𝒫 = {P}: u = q, the estimator is unbiased, and no counts are released. The
barrier of an impossible successor would be infinite: P(x'|x,a) is taken as 1e-9 at least, and rows are scaled to 1.

Regret Õ(H C_M √K + H X⁴ A E + A E' √(X³K)) is claimed with η = √(X/K).
"""

from __future__ import annotations

import math
from dataclasses import replace
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
from tacit.planning.barrier_flow import BarrierWork, barrier_work, solve_barrier_flow
from tacit.planning.layered import REPORT_SIZE, LayeredGeometry, UpperWork, bound_occupancy, upper_work
from tacit.released.losses import LossStatistics

PRACTICAL = {"eta": 3.0}
MIN_UPPER = 1e-150
MIN_KNOWN = 1e-9


class BarrierParameters(NamedTuple):
    """Public parameters of the kernel."""

    set: SetParameters
    eta: float
    """η of l̃/u (centred) or of l̂ (as written)."""
    radius: float
    """E'"""
    centred: bool


class BarrierBelief(NamedTuple):
    """The policy, the occupancy behind it, the set of transitions and the solvers' memory."""

    policy: Floats
    occupancy: Floats
    costs: Floats
    upper: Floats
    set: SetBelief
    work: BarrierWork
    upper_work: UpperWork
    report: Floats
    tally: Floats


@kernel
def update_uob_lbps(parameters: BarrierParameters, belief: BarrierBelief, released: LossStatistics) -> None:
    """[bai2024adversarial] Alg. 3, lines 6 to 10: bound, estimate, set, descent, policy."""
    geometry, E = parameters.set.geometry, parameters.radius
    bound_occupancy(geometry, belief.upper_work, belief.policy, belief.set.lo, belief.set.hi, belief.upper)
    for pair in range(belief.costs.shape[0]):
        # Clipping is post-processing; on the good event it does nothing.
        loss = min(max(released.losses[pair], -E), 1.0 + E)
        if not parameters.centred:
            # l̈ = (l̃ + E')/(2E' + 1)
            loss = (loss + E) / (2.0 * E + 1.0)
        # η l̂ = η l̈/u
        belief.costs[pair] = parameters.eta * loss / max(belief.upper[pair], MIN_UPPER)
    update_set(parameters.set, belief.set, released, belief.tally)
    solve_barrier_flow(
        geometry, belief.work, belief.costs, belief.occupancy, belief.set.lo, belief.set.hi,
        belief.policy, belief.occupancy, belief.report,
    )  # fmt: skip
    note_solve(belief.tally, belief.report)


def uob_lbps(request: LossRequest) -> LossLearner:
    """Build the learner."""
    if request.known is not None:
        request = replace(request, known=_possible(request.geometry, request.known))
    constants, multipliers = read_multipliers(request, PRACTICAL)
    E, centred = request.loss_radius, request.estimator == "centred"
    if "radius" in request.options:
        E = request.number("radius")
    # η = √(X/K)
    eta = multipliers.eta * math.sqrt(request.num_states / request.episodes)
    if centred and E > 0.0:
        # η (2E' + 1) l̂ u = η l̃: at most ½ in absolute value
        eta = min(eta, 0.5 / (1.0 + E))
    parameters = BarrierParameters(set=set_parameters(request, multipliers), eta=eta, radius=E, centred=centred)
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
            "loss_radius": E,
            "estimator": request.estimator,
        },
        parameters=parameters,
        begin=lambda: _begin(request),
        update_kernel=update_uob_lbps,
    )


def _possible(geometry: LayeredGeometry, known: Floats) -> Floats:
    """The transitions with every successor possible, be it hardly."""
    raised = np.maximum(known, MIN_KNOWN)
    sums = np.add.reduceat(raised, geometry.edges[:-1])
    return np.asarray(raised / np.repeat(sums, np.diff(geometry.edges)))


def _begin(request: LossRequest) -> BarrierBelief:
    """q_1(x,a,x') is uniform on each layer."""
    geometry = request.geometry
    triples, pairs = int(geometry.edges[-1]), len(geometry.edges) - 1
    occupancy = np.zeros(triples)
    for here, after in zip(geometry.layers[:-2], geometry.layers[1:-1], strict=True):
        first, last = geometry.edges[here * geometry.actions], geometry.edges[after * geometry.actions]
        occupancy[first:last] = 1.0 / (last - first)
    return BarrierBelief(
        policy=np.full(pairs, 1.0 / geometry.actions),
        occupancy=occupancy,
        costs=np.zeros(pairs),
        upper=np.zeros(pairs),
        set=begin_set(request),
        work=barrier_work(geometry),
        upper_work=upper_work(geometry),
        report=np.zeros(REPORT_SIZE),
        tally=np.zeros(len(TALLY)),
    )
