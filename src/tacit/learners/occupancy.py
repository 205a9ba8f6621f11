"""The confidence set of the transitions, kept up to date from released counts; shared by all learners of losses.

    theory      counts repaired by Eq. 5.1 and 5.2, intervals by Eq. 3.1, scaled by cb and ce
    practical   the one practical rule of `tacit.planning.widths`
    known       lo = hi = P

E = 4 max(r(N(x,a,x')), r(N(x,a))), r = √(2vL) + cL the radius of the noise as of now: the papers leave its constant
open and take the last episode's for all; under local trust v grows with the users, so E is smaller early on.

UC-O-REPS with or without privacy: entropy-regularised leader over occupancies, full information.

    q_{k+1} = argmin_{q ∈ Δ(𝒫_{k+1})}  ⟨L̃_{k+1}, q⟩ + (1/η) Σ q ln q,      π(a|x) = q(x,a)/q(x)

Without noise this is UC-O-REPS (Rosenberg and Mansour 2019) in the form of a regularised leader; with the transitions
known (`o-reps`) it is O-REPS (Zimin and Neu 2013). Regret Õ(H C_M √K + H X² A E + H E_ε) ([bai2024adversarial]
Theorem 3.3) with η = √(ln(XA/H)/K).

While the set 𝒫 says nothing, every action can lead everywhere, and the policy is π(a|x) ∝ exp(-η L̃(x,a)): it ignores
the transitions (Lemma F7 (vacuous sets are myopic)): the myopic policy which every result shows for comparison.

UOB-REPS (Jin, Jin, Luo, Sra and Yu 2020): entropy mirror descent with upper occupancy bounds, bandit feedback.

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

UOB-LBPS with or without privacy: log-barrier mirror descent with upper occupancy bounds, bandit feedback.

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
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tacit.arrays import Floats
from tacit.kernels import kernel
from tacit.learners.loss_contract import (
    INFEASIBLE,
    TALLY,
    Feedback,
    LossLearner,
    LossRequest,
    Multipliers,
    note_solve,
    read_multipliers,
)
from tacit.planning.barrier_flow import BarrierWork, barrier_work, solve_barrier_flow
from tacit.planning.entropy_flow import EntropyWork, entropy_work, solve_entropy_flow
from tacit.planning.layered import (
    REPORT_SIZE,
    LayeredGeometry,
    UpperWork,
    bound_occupancy,
    known_intervals,
    practical_intervals,
    repair_counts,
    theory_intervals,
    upper_work,
)
from tacit.protocol import Constants, Kernel
from tacit.released.losses import LossStatistics
from tacit.released.precision import CountPrecision, now_radius

PRACTICAL = {"eta": 3.0}


class SetParameters(NamedTuple):
    """Everything that decides the set, all public."""

    geometry: LayeredGeometry
    precision: CountPrecision
    log_term: float
    radius_log: float
    multipliers: Multipliers
    known: bool


class SetBelief(NamedTuple):
    """The intervals lo ≤ P(x'|x,a) ≤ hi and what they are computed from."""

    lo: Floats
    hi: Floats
    counts: Floats
    totals: Floats


def set_parameters(request: LossRequest, multipliers: Multipliers) -> SetParameters:
    """The parameters of a request."""
    return SetParameters(
        geometry=request.geometry,
        precision=request.precision,
        log_term=request.log_term,
        radius_log=request.radius_log,
        multipliers=multipliers,
        known=request.known is not None,
    )


def widths_used(request: LossRequest, multipliers: Multipliers) -> dict[str, float]:
    """What decided the widths, for the record: z, or cb, ce and the largest E (nothing where transitions are known)."""
    if request.known is not None:
        return {}
    if multipliers.z >= 0.0:
        return {"z": multipliers.z}
    E = multipliers.ce * float(precision_now(request.precision, request.variance, request.radius_log))
    return {"cb": multipliers.cb, "ce": multipliers.ce, "precision": E}


def begin_set(request: LossRequest) -> SetBelief:
    """Everything is possible, or exactly one thing is."""
    geometry = request.geometry
    triples, pairs = int(geometry.edges[-1]), len(geometry.edges) - 1
    lo, hi = np.zeros(triples), np.ones(triples)
    if request.known is not None:
        known_intervals(request.known, lo, hi)
    else:
        theory_intervals(geometry, np.zeros(triples), np.zeros(pairs), 0.0, 1.0, 1.0, lo, hi)
    return SetBelief(lo=lo, hi=hi, counts=np.zeros(triples), totals=np.zeros(pairs))


def built(
    request: LossRequest,
    constants: Constants,
    parameters: Any,
    begin: Callable[[], Any],
    update: Kernel,
    settings: Mapping[str, float | str],
    *,
    feedback: Feedback = "bandit",
) -> LossLearner:
    """The learner with these parameters, which have a set of transitions and a learning rate."""
    multipliers = parameters.set.multipliers
    return LossLearner(
        name=request.name,
        geometry=request.geometry,
        feedback=feedback,
        constants=constants,
        z=multipliers.z if multipliers.z >= 0.0 and request.known is None else None,
        settings={
            "eta": multipliers.eta,
            "learning_rate": parameters.eta,
            **widths_used(request, multipliers),
            "failure_prob": request.failure_prob,
            **settings,
        },
        parameters=parameters,
        begin=begin,
        update_kernel=update,
    )


@kernel
def precision_now(precision: CountPrecision, variance: Floats, log_term: float) -> float:
    """E as of now; 0 where nothing is noisy.

    >>> precision_now(CountPrecision(scale=np.zeros(3)), np.array([2.0, 8.0, 0.0]), 4.0)
    32.0
    """
    if variance[0] == 0.0 and variance[1] == 0.0:
        return 0.0
    transitions = now_radius(precision, variance, 0, log_term)
    visits = now_radius(precision, variance, 1, log_term)
    return 4.0 * max(transitions, visits)


@kernel
def update_set(parameters: SetParameters, belief: SetBelief, released: LossStatistics, tally: Floats) -> None:
    """𝒫_{k+1} from the counts that were released after episode k."""
    if parameters.known:
        return
    geometry, tuned = parameters.geometry, parameters.multipliers
    if tuned.z >= 0.0:
        practical_intervals(
            geometry, released.transitions, released.visits, released.variance[0], tuned.z,
            belief.lo, belief.hi, belief.counts,
        )  # fmt: skip
        return
    E = tuned.ce * precision_now(parameters.precision, released.variance, parameters.radius_log)
    tally[INFEASIBLE] += repair_counts(geometry, released.transitions, released.visits, E, belief.counts, belief.totals)
    theory_intervals(
        geometry, belief.counts, belief.totals, E, parameters.log_term, tuned.cb, belief.lo, belief.hi
    )  # fmt: skip


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
    begin = partial(begin_entropy, request)
    return built(request, constants, parameters, begin, update_uc_o_reps, {}, feedback="full")


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
    parameters = ExploringParameters(
        set=set_parameters(request, multipliers), eta=eta, gamma=gamma, radius=E if variance > 0.0 else math.inf
    )
    more: dict[str, float | str] = {"exploration": gamma, **({"loss_radius": E} if variance > 0.0 else {})}
    return built(request, constants, parameters, partial(_begin_exploring, request), update_uob_reps, more)


def _begin_exploring(request: LossRequest) -> ExploringBelief:
    first = begin_entropy(request)
    return ExploringBelief(
        **first._asdict(), upper=np.zeros(len(first.policy)), upper_work=upper_work(request.geometry)
    )


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
    more: dict[str, float | str] = {"loss_radius": E, "estimator": request.estimator}
    return built(request, constants, parameters, partial(_begin_barrier, request), update_uob_lbps, more)


def _possible(geometry: LayeredGeometry, known: Floats) -> Floats:
    """The transitions with every successor possible, be it hardly."""
    raised = np.maximum(known, MIN_KNOWN)
    sums = np.add.reduceat(raised, geometry.edges[:-1])
    return np.asarray(raised / np.repeat(sums, np.diff(geometry.edges)))


def _begin_barrier(request: LossRequest) -> BarrierBelief:
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
