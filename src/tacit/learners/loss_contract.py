"""What learners of adversarial losses share: released statistics in, a stochastic policy for the next user out.

A `LossLearner` is one update kernel over a belief that is a (nested) NamedTuple of arrays with `policy[pairs]` and a
`tally` of what its solver did. It sees noisy counts and losses of a layered world (`LossStatistics`), nothing else.

Every number that is tuned has a name and is recorded with the result:

    eta    multiplies the learning rate of the theorem
    cb     multiplies the confidence width of Eq. 3.1
    ce     multiplies the precision E of the counts
    z      the parameter of the one practical rule for widths, which replaces cb and ce

`theory` means eta = cb = ce = 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from tacit.arrays import Floats
from tacit.errors import InvalidInput, number_from, require_real
from tacit.kernels import lean_kernel
from tacit.learners.contract import DEFAULT_CONSTANTS, KernelLearner, ask_nothing, plan_nothing
from tacit.planning.layered import CONVERGED, FALLBACKS, GAP, ITERATIONS, RESIDUAL, LayeredGeometry, layered_shape
from tacit.policies import AnyPolicy, LayeredPolicy
from tacit.protocol import Constants, Kernel, LearnerKernels
from tacit.released.losses import LayeredShape, LossQuery, LossStatistics
from tacit.released.precision import CountPrecision
from tacit.types import Estimator

__all__ = [
    "TALLY",
    "Estimator",
    "LossLearner",
    "LossRequest",
    "Multipliers",
    "note_solve",
    "read_multipliers",
]

Feedback = Literal["full", "bandit"]

TALLY: Final = ("solves", "unconverged", "iterations", "fallbacks", "worst_gap", "worst_residual", "infeasible")
"""The entries of `belief.tally`."""
JOINT_Z: Final = 3.0
"""The default of the practical rule here: a set must hold all transitions at once. Measured at K = 10⁴: the truth is
outside in up to 0.1 of the episodes with 3, in half of them with 2."""
SOLVES, UNCONVERGED, STEPS, FALLEN, WORST_GAP, WORST_RESIDUAL, INFEASIBLE = range(7)


class Multipliers(NamedTuple):
    """What was tuned."""

    eta: float
    cb: float
    ce: float
    z: float
    """Negative: widths by Eq. 3.1, not by the practical rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossRequest:
    """What a learner of adversarial losses may know before it starts: public sizes and the user's choices."""

    name: str
    geometry: LayeredGeometry
    episodes: int
    constants: Constants | None
    z: float | None
    options: Mapping[str, str]
    precision: CountPrecision
    """Sub-gamma scales of the noise in transitions, visits and losses."""
    variance: Floats
    """[3]: variance of that noise at its largest, before the last episode."""
    loss_radius: float
    """E': how far the noise of one bandit loss goes; 0 where there is none."""
    estimator: Estimator
    known: Floats | None = None
    """P(x'|x,a), for learners that are told the transitions."""

    def number(self, option: str) -> float:
        """An option of the learner, read as a number."""
        text = self.options[option]
        return require_real(
            f"{self.name}:{option}", number_from(text), low=0.0, high=math.inf, open_low=option == "eta"
        )

    @property
    def failure_prob(self) -> float:
        """δ = XA/K, at most 1/2: what the theorems set."""
        return min(0.5, self.num_states * self.geometry.actions / self.episodes)

    @property
    def num_states(self) -> int:
        """X, the last state included."""
        return int(self.geometry.layers[-1])

    @property
    def log_term(self) -> float:
        """The log factor of the theorems: ln ι = ln(XAK/δ)."""
        return math.log(self.num_states * self.geometry.actions * self.episodes / self.failure_prob)

    @property
    def radius_log(self) -> float:
        """The L for which every count of every release is within its radius, but for the probability δ."""
        numbers = int(self.geometry.edges[-1]) + len(self.geometry.edges) - 1
        return math.log(2.0 * numbers * self.episodes / self.failure_prob)


class LossLearner(KernelLearner[Any, LossQuery, LossStatistics]):
    """A learner of adversarial losses: every release makes the next policy."""

    asks = LossQuery

    def __init__(
        self,
        *,
        name: str,
        geometry: LayeredGeometry,
        feedback: Feedback,
        constants: Constants,
        z: float | None,
        settings: Mapping[str, float | str],
        parameters: Any,
        begin: Callable[[], Any],
        update_kernel: Kernel,
    ) -> None:
        shape: LayeredShape = layered_shape(geometry)
        super().__init__(name=name, shape=shape, constants=constants, z=z, parameters=parameters, users_per_batch=1)
        self.geometry = geometry
        self.feedback: Feedback = feedback
        self.settings = dict(settings)
        self._begin = begin
        self.kernels = LearnerKernels(plan_nothing, ask_nothing, update_kernel)

    def begin(self) -> Any:
        """The first policy, from the first set of transitions."""
        return self._begin()

    def query(self, belief: Any) -> LossQuery:
        """Counts, and the losses that the feedback shows."""
        return LossQuery(full=self.feedback == "full")

    def policy(self, belief: Any, planned: AnyPolicy | None = None) -> LayeredPolicy:
        """Probabilities of the pairs of the layered world."""
        return LayeredPolicy(belief.policy.copy(), int(self.geometry.actions))


@lean_kernel
def note_solve(tally: Floats, report: Floats) -> None:
    """Keep book of one solve; what did not converge is counted, never hidden."""
    tally[SOLVES] += 1.0
    tally[STEPS] += report[ITERATIONS]
    tally[FALLEN] += report[FALLBACKS]
    if report[CONVERGED] != 1.0:
        tally[UNCONVERGED] += 1.0
    tally[WORST_GAP] = max(tally[WORST_GAP], report[GAP])
    tally[WORST_RESIDUAL] = max(tally[WORST_RESIDUAL], report[RESIDUAL])


def read_multipliers(request: LossRequest, defaults: Mapping[str, float]) -> tuple[Constants, Multipliers]:
    """The constants that a request amounts to, and their multipliers."""
    given = {name: request.number(name) for name in ("eta", "cb", "ce") if name in request.options}
    constants: Constants = request.constants or DEFAULT_CONSTANTS
    if constants == "theory":
        if given or request.z is not None:
            named = [*given, *(["z"] if request.z is not None else [])]
            raise InvalidInput(
                f"theory constants leave nothing to choose, got {', '.join(named)}; use constants 'practical'"
            )
        return "theory", Multipliers(eta=1.0, cb=1.0, ce=1.0, z=-1.0)
    if constants != "practical":
        raise InvalidInput(f"constants must be 'theory' or 'practical', got {constants!r}")
    scaled = "cb" in given or "ce" in given
    if scaled and request.z is not None:
        raise InvalidInput("z is the practical rule for widths, cb and ce scale those of the theorem: give one kind")
    z = -1.0 if scaled else (JOINT_Z if request.z is None else request.z)
    return "practical", Multipliers(
        eta=given.get("eta", defaults["eta"]), cb=given.get("cb", 1.0), ce=given.get("ce", 1.0), z=z
    )
