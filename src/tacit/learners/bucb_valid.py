"""BUCB with constants 'valid': the same batches, planned in bands that contain V* with probability 1 - β.

Bands (`tacit.planning.valid_bands`, Lemma W4 (valid bands)) hold whatever the policies were, so everything around them
is free. An eighth of every mixture is optimistic for their upper ends, the others follow the practical rule among the
actions that the bands do not exclude; the last batch is cautious for their lower ends. Ties go to the practical rule.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, cast

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.errors import NotSupported, require_real
from tacit.learners.batch_bands import BETA, confidence_of, evidence_of, interval_in
from tacit.learners.bucb import BUCB
from tacit.learners.contract import StageRequest
from tacit.planning.valid_bands import Bands, ValueInterval, cautious_plan, widen_nothing, write_bands
from tacit.planning.weighted_rows import ProvedBands, Rows
from tacit.policies import DeterministicPolicy
from tacit.protocol import Constants, Plan, PrivateStatistics
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountStatistics

GROWTH: Final = 2.0
"""How much larger than the one before a batch is: fewer batches carry less noise, and bands weigh little else."""


class BandBelief(NamedTuple):
    """The belief of BUCB, and the bands that everything released so far leaves."""

    transitions: Floats
    """[B,H,S,A,S]"""
    visits: Floats
    """[B,H,S,A]"""
    rewards: Floats
    """[B,H,S,A]"""
    users: Floats
    """[B]"""
    policies: tuple[Ints, ...]
    shares: tuple[Floats, ...]
    upper: Floats
    """[H+1,S]"""
    lower: Floats
    """[H+1,S]"""
    q_upper: Floats
    """[H,S,A]"""
    q_lower: Floats
    """[H,S,A]"""
    sampling: Floats
    """[H,S,A]: the part of a row's width that more people make smaller like a root."""
    noise: Floats
    """[H,S,A]: the part that they make smaller in proportion."""

    @property
    def bands(self) -> Bands:
        """What is known of V* and Q*."""
        return Bands(self.upper, self.lower, self.q_upper, self.q_lower)


class ValidBUCB(BUCB):
    """BUCB that plans in valid bands and ends with an interval of V*."""

    growth = GROWTH

    def __init__(self, *, beta: float = BETA, **common: Any) -> None:
        super().__init__(**common)
        self.constants: Constants = "valid"
        self.beta = require_real("beta", beta, low=0.0, high=1.0, open_low=True)
        self.sure = confidence_of(self, plans=len(self.batches), beta=beta)

    def begin(self) -> BandBelief:  # type: ignore[override]
        """Nothing was released, and V* may be anything."""
        H, S, A = self.shape.horizon, self.shape.num_states, self.shape.num_actions
        wide = widen_nothing(H, S, A)
        return BandBelief(*super().begin(), *wide, sampling=np.zeros((H, S, A)), noise=wide.q_upper.copy())

    def proved(self, belief: BandBelief) -> ProvedBands:  # type: ignore[override]
        """The bands so far."""
        return ProvedBands(belief.bands, belief.sampling, belief.noise)

    def exploiter(self, belief: BandBelief, model: Rows, rng: np.random.Generator) -> DeterministicPolicy:  # type: ignore[override]
        """The policy that is cautious in the bands; where actions tie, what the practical rule exploits."""
        otherwise = super().exploiter(belief, model, rng)  # type: ignore[arg-type]
        return DeterministicPolicy(cautious_plan(belief.bands, otherwise.actions))

    def last(self, belief: BandBelief, plan: Plan[BatchQuery], rng: np.random.Generator) -> Plan[BatchQuery]:  # type: ignore[override]
        """The practical rule's policy, as in version 0.8.0: the record of a study that ended early replays."""
        if len(belief.users) == 0:
            return Plan(policy=plan.policy, users=None, query=None)
        policy = super().exploiter(belief, self.model(belief)[0], rng)  # type: ignore[arg-type]
        return Plan(policy=policy, users=None, query=None)

    def update(self, belief: BandBelief, released: PrivateStatistics[CountStatistics]) -> BandBelief:  # type: ignore[override]
        """Keep the batch, projected, and tighten the bands."""
        kept = cast("BandBelief", super().update(belief, released))  # type: ignore[arg-type]
        bands = Bands(*(np.array(part) for part in belief.bands))
        sampling, noise = np.zeros_like(belief.sampling), np.zeros_like(belief.noise)
        write_bands(evidence_of(self, kept), self.sure, bands, sampling, noise)
        return kept._replace(**bands._asdict(), sampling=sampling, noise=noise)

    def interval(self, belief: BandBelief) -> ValueInterval:  # type: ignore[override]
        """Where V* lies."""
        return interval_in(self, belief, belief.bands, self.sure, self.beta)


def make_bucb(request: StageRequest) -> BUCB:
    """The learner that a request amounts to: practical, or in valid bands; steps apart or shared."""
    start = request.started("bucb")
    if request.log is not None and (request.constants == "valid" or request.shape.support is not None or start):
        raise NotSupported("bucb starts with a log by the practical rule, without baseline and declared support only")
    common: dict[str, Any] = {
        "shape": request.shape,
        "episodes": request.episodes,
        "noise": request.noise,
        "z": request.z,
        "pooled": request.options.get("share_across_steps") == "true",
        "sizes": request.sizes,
    }
    if request.constants == "valid":
        if request.shape.support is not None:
            raise NotSupported("constants 'valid' allow no declared support; remove it, or use constants 'practical'")
        if start is not None:
            raise NotSupported(
                "bucb starts from a baseline, and keeps to a loss budget, by the practical rule only; use constants "
                "'practical'"
            )
        return ValidBUCB(**common)
    request.practical_only("bucb")
    if start is not None and request.shape.support is not None:
        raise NotSupported(
            "bucb starts from a baseline, and keeps to a loss budget, on all counters only; leave the declared support "
            "out"
        )
    return BUCB(start=start, log=request.log, **common)
