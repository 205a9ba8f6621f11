"""SDP-PE as published, in its two frozen variants: policy elimination over an explicit set of policies.

    for stages b with L = 2^b:   crude exploration, layer by layer   ->  infrequent tuples W, absorbing model P_cru
                                 fine exploration                    ->  refined model P_ref, rewards
                                 eliminate what is 2ξ below the best ->  φ_{b+1};  forget the data

`2024`  [bai2024shuffle] crude and fine exploration run π_{h,x,a}, the policy that visits (h,x,a) most, for L/(HXA)
        users each; 2L users per stage; ξ = √(H⁵X²Aι/L) + X³A²H⁵Eι/L.
`2025`  [bai2025secure] a crude layer runs the uniform mixture of its π_{h,x,a} for L/H users; fine exploration runs the
        min-max covering mixture of Eq. 3 and the auxiliary π_0, L users each; ξ = √(XAH³ι/L) + X³AH⁵Eι/L.

Constants `theory`: counts made consistent (Assumption 4), W = {Ñ ≤ C₁EH²ι} with C₁ = 6, C = 1. At published sizes
nothing is ever eliminated. `practical`: the one rule of all learners, V^π(r̂+b) ≥ max_μ V^μ(r̂-b).

Options: `C` (of ξ) and `C1` (of W) under `theory`, where the papers leave C open; `growth` of L from stage to stage
(printed: 2) and the `first` L; `forget=false` joins the fine batches of all stages (each weighed by how little noise it
has for its size; under `theory` their sum, with L and E summed, too) instead of forgetting them as printed.

Decisions where the papers are silent or contradict themselves (docs/papers/bai2025secure.md): 3L users per stage in
`2025`; the first stage is the first that gives every crude batch two users; what is left over joins the last batch;
ι = ln(2HX²AK/δ); E per batch, a union over batches; W of the last layer from its visits; the first-state distribution
from released counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from tacit.arrays import Floats, Ints
from tacit.errors import InvalidInput, require, require_count, require_real
from tacit.learners.contract import DEFAULT_CONSTANTS, PlanningLearner, StageRequest
from tacit.learners.schedules import grouped, split_evenly
from tacit.learners.sdp_pe_plus import inverse_variance_weights
from tacit.planning.policy_set import PolicySet, cover_by_mixture, every_policy
from tacit.planning.public_rows import public_rows
from tacit.planning.widths import DEFAULT_Z, add_widths, combine, estimate_rows, first_states
from tacit.policies import DeterministicPolicy
from tacit.protocol import Constants, Plan, PrivateStatistics
from tacit.released.batches import BatchNoise, BatchQuery, PlannedBatch
from tacit.released.counts import CountShape, CountStatistics

Variant = Literal["2024", "2025"]
Schedule = Literal["exponential", "fixed", "polynomial", "apeve"]
SCHEDULES: Final = ("exponential", "fixed", "polynomial", "apeve")
"""L_b = 2^b as printed, and what [bai2025secure] calls worse: √K, b², K^(1 - 2^-b) (the schedule of APEVE)."""

C_1: Final = 6.0
C: Final = 1.0
TOLERANCE: Final = 0.1
COST: Final = {"2024": 2, "2025": 3}
"""Users per stage, in units of L."""


class Step(NamedTuple):
    """One batch of the schedule: its stage's L, its layer (None: fine exploration) and its users."""

    L: int
    layer: int | None
    users: int


class Rules(NamedTuple):
    """What the papers leave open, or what is varied to see what it is good for."""

    C: float = C
    C1: float = C_1
    growth: float = 2.0
    first: int | None = None
    """The least L of the first stage; None: the first that gives every crude batch enough users."""
    forget: bool = True
    schedule: Schedule = "exponential"


PRINTED: Final = Rules()


class SDPPEBelief(NamedTuple):
    """Where the schedule is, what is still active, and the crude model of this stage (the rest is forgotten)."""

    done: int
    active: PolicySet
    P_cru: Floats
    frequent: NDArray[np.bool_]
    """[H,S,A,S]: not in W; the last layer is about its visits."""
    rho: Floats
    atoms: Ints
    """[H,S,A,H,S]: π_{h,x,a} of this stage."""
    fine: tuple[CountStatistics, ...] = ()
    """The fine batches of earlier stages, where they are not forgotten."""


class SDPPE(PlanningLearner[SDPPEBelief, BatchQuery]):
    """Explicit policy elimination; `batches` is its public schedule."""

    asks = BatchQuery
    over_support = True

    def __init__(
        self,
        *,
        shape: CountShape,
        episodes: int,
        noise: BatchNoise,
        variant: Variant = "2025",
        constants: Constants = "practical",
        z: float | None = None,
        failure_prob: float = 0.05,
        rules: Rules = PRINTED,
    ) -> None:
        require(shape.staged, "sdp-pe keeps the steps of an episode apart (staged)", shape.staged)
        require(variant in COST, "variant must be '2024' or '2025'", variant)
        require(constants in ("theory", "practical"), "constants must be 'theory' or 'practical'", constants)
        if constants == "theory" and z is not None:
            raise InvalidInput("z belongs to the practical rule; use constants='practical' with it")
        if constants == "practical" and (rules.C, rules.C1) != (C, C_1):
            raise InvalidInput("C and C1 belong to the widths of the theorem; use constants='theory' with them")
        require_real("C", rules.C, low=0.0, open_low=True)
        require_real("C1", rules.C1, low=0.0)
        require(rules.schedule in SCHEDULES, f"schedule must be one of {', '.join(SCHEDULES)}", rules.schedule)
        if rules.schedule != "exponential" and rules.growth != 2.0:
            raise InvalidInput("growth belongs to the schedule 'exponential'; leave it out")
        self.rules = rules
        self.name = "sdp-pe"
        self.shape = shape
        self.variant = variant
        self.constants: Constants = constants
        self._z = require_real("z", DEFAULT_Z if z is None else z, low=0.0)
        self.z: float | None = self._z if constants == "practical" else None
        H, S, A = shape.horizon, shape.num_states, shape.num_actions
        self._policies = every_policy(horizon=H, num_states=S, num_actions=A)
        K = require_count("episodes", episodes)
        delta = require_real("failure_prob", failure_prob, low=0.0, high=1.0, open_low=True)
        self.iota = math.log(2.0 * H * S * S * A * K / delta)
        self.steps = tuple(_schedule(K, shape, variant, rules))
        self._noise = noise
        each = delta / len(self.steps) if constants == "theory" else None
        self._requests = tuple(BatchQuery(layer=step.layer, failure_prob=each) for step in self.steps)
        # The last batch ends the run: nobody has to report in it.
        planned = zip(self.steps[:-1], self._requests[:-1], strict=True)
        self.batches = tuple(PlannedBatch(users=step.users, query=request) for step, request in planned)

    def begin(self) -> SDPPEBelief:
        """All policies are active and nothing is known."""
        H, S, A = self.shape.horizon, self.shape.num_states, self.shape.num_actions
        return SDPPEBelief(
            done=0,
            active=self._policies,
            P_cru=np.zeros((H, S, A, S)),
            frequent=np.zeros((H, S, A, S), dtype=np.bool_),
            rho=np.full(S, 1.0 / S),
            atoms=np.zeros((H, S, A, H, S), dtype=np.int64),
        )

    def plan(self, belief: SDPPEBelief, rng: np.random.Generator) -> tuple[SDPPEBelief, Plan[BatchQuery]]:
        """The next batch: a crude layer or fine exploration."""
        step, request = self.steps[belief.done], self._requests[belief.done]
        if step.layer is None:
            groups = self._fine(belief, step, rng)
        else:
            belief, groups = self._crude(belief, step.layer, step.users, rng)
        reports = belief.done < len(self.steps) - 1
        plan = Plan(policy=groups[0][0], users=step.users, query=request if reports else None, groups=groups)
        return belief, plan

    def update(self, belief: SDPPEBelief, released: PrivateStatistics[CountStatistics]) -> SDPPEBelief:
        """Take in one batch: extend the crude model, or eliminate and forget."""
        step = self.steps[belief.done]
        E = self._noise.batch_precision(step.users, self._requests[belief.done])
        if step.layer is not None:
            return self._extend(belief, step.layer, released.statistics, E)
        fine, L = (*belief.fine, released.statistics), step.L
        if not self.rules.forget:
            counts, E, L = self._joined(fine)
        else:
            counts, fine = released.statistics, ()
        P, u, floor, strict = self._refined(belief, counts, E, L)
        fresh = self.begin()
        active = belief.active.keep(P, belief.rho, u, floor, strict=strict)
        return fresh._replace(done=belief.done + 1, active=active, rho=belief.rho, fine=fine)

    def _joined(self, fine: tuple[CountStatistics, ...]) -> tuple[CountStatistics, float, int]:
        """The fine batches so far as one, its E and its L: the ablation of forgetting."""
        past = [(step, request) for step, request in zip(self.steps, self._requests, strict=True) if step.layer is None]
        past = past[: len(fine)]
        E = math.fsum(self._noise.batch_precision(step.users, request) for step, request in past)
        even = self.constants == "theory"
        weights = (1.0,) * len(fine) if even else inverse_variance_weights(fine)
        return combine(fine, weights), E, sum(step.L for step, _ in past)

    def _crude(
        self, belief: SDPPEBelief, h: int, users: int, rng: np.random.Generator
    ) -> tuple[SDPPEBelief, tuple[tuple[DeterministicPolicy, int], ...]]:
        """Alg. 2, lines 3-6: π_{h,x,a} = argmax V^π(1_{h,x,a}, P_cru) over the active set, and who runs which."""
        S, A = self.shape.num_states, self.shape.num_actions
        atoms = belief.atoms.copy()
        for s in range(S):
            for a in range(A):
                atoms[h, s, a] = self._most_visits(belief, h, s, a, rng)
        mine = atoms[h].reshape(S * A, *atoms.shape[3:])
        return belief._replace(atoms=atoms), self._share(mine, users, rng)

    def _most_visits(self, belief: SDPPEBelief, h: int, s: int, a: int, rng: np.random.Generator) -> Ints:
        w = np.zeros((self.shape.horizon, self.shape.num_states, self.shape.num_actions))
        w[h, s, a] = 1.0
        return belief.active.maximize(belief.P_cru, belief.rho, w, rng)[1]

    def _fine(
        self, belief: SDPPEBelief, step: Step, rng: np.random.Generator
    ) -> tuple[tuple[DeterministicPolicy, int], ...]:
        """Alg. 3: every π_{h,x,a} alike (2024), or the covering mixture and π_0 in equal parts (2025)."""
        H, S, A = self.shape.horizon, self.shape.num_states, self.shape.num_actions
        atoms = belief.atoms.reshape(H * S * A, H, S)
        if self.variant == "2024":
            return self._share(atoms, step.users, rng)
        found = cover_by_mixture(belief.active, belief.P_cru, belief.rho, atoms, rng, tolerance=TOLERANCE)
        half = step.users // 2
        drawn = rng.multinomial(step.users - half, found.weights)
        return (*grouped(found.policies, drawn.tolist()), *self._share(atoms, half, rng))

    def _share(
        self, policies: Ints, users: int, rng: np.random.Generator
    ) -> tuple[tuple[DeterministicPolicy, int], ...]:
        """Users over policies: equal numbers (2024), or one policy drawn uniformly by each user (2025)."""
        count = len(policies)
        even = self.variant == "2024"
        shares = split_evenly(users, count) if even else rng.multinomial(users, np.full(count, 1.0 / count)).tolist()
        return grouped(policies, shares)

    def _extend(self, belief: SDPPEBelief, h: int, released: CountStatistics, E: float) -> SDPPEBelief:
        """Alg. 2, lines 8-10: W and P_cru of layer h; the first layer also tells where users start."""
        last = h == self.shape.horizon - 1
        cells = released.visits[h][..., None] if last else released.transitions[h]
        if self.constants == "theory":
            floor = self.rules.C1 * max(E, 1.0) * self.shape.horizon**2 * self.iota
        else:
            floor = max(0.5, 0.5 * math.sqrt(float(released.variance[1 if last else 0])))
        frequent, P = belief.frequent.copy(), belief.P_cru.copy()
        frequent[h] = cells > floor
        if not last:
            kept = np.where(frequent[h], cells, 0.0)
            # P_cru = Ñ(x,a,x') / Ñ(x,a) off W, 0 on W; the practical rule normalises over what is kept
            total = released.visits[h] if self.constants == "theory" else kept.sum(axis=-1)
            P[h] = kept / np.where(total > 0.0, total, 1.0)[..., None]
        rho = first_states(released) if h == 0 else belief.rho
        return belief._replace(done=belief.done + 1, P_cru=P, frequent=frequent, rho=rho)

    def _refined(
        self, belief: SDPPEBelief, released: CountStatistics, E: float, L: int
    ) -> tuple[Floats, Floats, float, bool]:
        """The refined model, what policies are valued by, and the value that none may fall short of."""
        H, S, A = self.shape.horizon, self.shape.num_states, self.shape.num_actions
        transitions = np.where(belief.frequent, released.transitions, 0.0)
        visits = released.visits.copy()
        visits[-1] = np.where(belief.frequent[-1].any(axis=-1), visits[-1], 0.0)
        rng = np.random.default_rng(0)  # only values are asked for, so nothing depends on these
        if self.constants == "theory":
            known = visits > 0.0
            safe = np.where(known, visits, 1.0)
            P = transitions / safe[..., None]
            r = np.clip(np.where(known, released.rewards / safe, 0.0), 0.0, 1.0)
            best, _ = belief.active.maximize(P, belief.rho, r, rng)
            return P, r, best - 2.0 * self.width(L, E), True
        counts = released._replace(transitions=transitions, visits=visits)
        P, r, n = np.zeros((H, S, A, S)), np.zeros((H, S, A)), np.zeros((H, S, A))
        estimate_rows(counts, P, r, n)
        upper, lower = np.zeros((H, S, A)), np.zeros((H, S, A))
        add_widths(P, r, n, released.variance, self._z, public_rows(self.shape), upper, lower)
        # Keep π iff V^π(r̂+b) ≥ max_μ V^μ(r̂-b)
        best, _ = belief.active.maximize(P, belief.rho, lower, rng)
        return P, upper, best - 1e-12, False

    def width(self, L: int, E: float) -> float:
        """ξ, half of what the elimination rule allows."""
        return xi(self.variant, self.shape, self.iota, L, E, self.rules.C)


def xi(variant: Variant, shape: CountShape, iota: float, L: float, E: float, constant: float = C) -> float:
    """ξ of a stage of length L whose counts are within E (Theorem 6), times C.

    >>> shape = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
    >>> round(xi("2025", shape, 16.0, 10**6, 0.0), 3), round(xi("2024", shape, 16.0, 10**6, 0.0), 3)
    (0.166, 1.995)
    """
    H, X, A = shape.horizon, shape.num_states, shape.num_actions
    if variant == "2024":
        return constant * (math.sqrt(H**5 * X**2 * A * iota / L) + X**3 * A**2 * H**5 * E * iota / L)
    return constant * (math.sqrt(X * A * H**3 * iota / L) + X**3 * A * H**5 * E * iota / L)


def stage_lengths(episodes: int, shape: CountShape, variant: Variant, rules: Rules = PRINTED) -> tuple[int, ...]:
    """L of every stage: powers of two (or of `growth`), then what is left.

    >>> stage_lengths(20_000, CountShape(horizon=6, num_states=4, num_actions=2, staged=True), "2025")
    (16, 32, 64, 128, 256, 512, 1024, 2048, 2586)
    """
    H, pairs = shape.horizon, shape.num_states * shape.num_actions
    least = H * pairs if variant == "2024" else 2 * H
    cost, growth = COST[variant], require_real("growth", rules.growth, low=1.1, high=1e6)
    first = least if rules.first is None else require_count("first", rules.first, least=least)
    if episodes < cost * least:
        raise InvalidInput(
            f"one stage of sdp-pe must have {cost * least} users, so that every crude batch has enough; "
            f"got {episodes} episodes: run more"
        )
    lengths: list[int] = []
    # L_b = 2^b, from the first that is long enough
    start = 2 ** math.ceil(math.log2(first)) if growth == 2.0 else first
    left, L = episodes, min(start, episodes // cost)
    while min(L, left // cost) >= least:
        b = len(lengths) + 1
        planned = {
            "exponential": L,
            "fixed": math.ceil(math.sqrt(episodes)),
            "polynomial": b * b,
            "apeve": math.ceil(episodes ** (1.0 - 0.5**b)),
        }[rules.schedule]
        lengths.append(min(max(planned, first), left // cost))
        left -= cost * lengths[-1]
        L = math.ceil(L * growth)
    return tuple(lengths)


def _schedule(episodes: int, shape: CountShape, variant: Variant, rules: Rules) -> list[Step]:
    lengths, cost = stage_lengths(episodes, shape, variant, rules), COST[variant]
    steps = []
    for L in lengths:
        steps += [Step(L, h, users) for h, users in enumerate(split_evenly(L, shape.horizon))]
        steps.append(Step(L, None, (cost - 1) * L))
    # What does not make another stage joins the last batch.
    steps[-1] = steps[-1]._replace(users=steps[-1].users + episodes - cost * sum(lengths))
    return steps


def make_sdp_pe(request: StageRequest) -> SDPPE:
    """The learner that a request amounts to."""
    request.own_schedule("sdp-pe")
    return SDPPE(
        shape=request.shape,
        episodes=request.episodes,
        noise=request.noise,
        variant=cast("Variant", request.options.get("variant", "2025")),
        constants=request.constants or DEFAULT_CONSTANTS,
        z=request.z,
        failure_prob=_number(request.options, "failure_prob", 0.05),
        rules=_rules(request.options),
    )


def _number(options: Mapping[str, str], name: str, printed: float) -> float:
    try:
        return float(options.get(name, printed))
    except ValueError:
        raise InvalidInput(f"{name} of sdp-pe must be a number, got {options[name]!r}") from None


def _rules(options: Mapping[str, str]) -> Rules:
    first = _number(options, "first", 0.0)
    require(first == int(first) if math.isfinite(first) else False, "first must be a whole number", first)
    return Rules(
        C=_number(options, "C", C),
        C1=_number(options, "C1", C_1),
        growth=_number(options, "growth", 2.0),
        first=int(first) or None,
        forget=options.get("forget", "true") == "true",
        schedule=cast("Schedule", options.get("schedule", "exponential")),
    )
