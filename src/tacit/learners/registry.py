"""The learners by name. One literal table; a miss suggests the nearest name.

A learner is written as its name with options, `ucbvi:bonus=bernstein,staged=false`, exactly as environments are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from tacit.errors import InvalidInput, NotSupported, UnknownName
from tacit.learners.contract import KernelLearner
from tacit.learners.dp_ucbvi import DPUCBVI, Rows
from tacit.learners.gradient_registry import GRADIENT_LEARNERS
from tacit.learners.ldp_obi import LDPOBI
from tacit.learners.ldp_psrl import LDPPSRL, CountPrior
from tacit.learners.private_po import PrivateUCBPO
from tacit.learners.private_ucb_vi import PrivateUCBVI
from tacit.learners.psrl import PSRL, RewardPosterior
from tacit.learners.pucb import PUCB
from tacit.learners.rarely import RarelyReplanned
from tacit.learners.stage_registry import STAGE_LEARNERS
from tacit.learners.ucbvi import UCBVI, Bonus
from tacit.protocol import Constants, Learner
from tacit.released.counts import CountShape
from tacit.released.precision import CountPrecision, Sampling, SumPrecision

__all__ = ["LEARNERS", "REFERENCE_LEARNERS", "LearnerEntry", "LearnerRequest", "make_learner", "needs_squares"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerRequest:
    """What a learner may know before it starts: public sizes and the user's choices."""

    shape: CountShape
    episodes: int
    constants: Constants | None
    """None: the learner's own default."""
    z: float | None
    users_per_batch: int
    noisy: bool
    """Whether the statistics carry privacy noise."""
    precision: SumPrecision | None = None
    """How far the noise of sums over users can go, if the privatizer releases such sums."""
    counts: CountPrecision | None = None
    """The sub-gamma scales of the noise in released counts; None: Gaussian, or none at all."""
    sampling: Sampling | None = None
    """What it costs that users send a random part of their trajectory; None: they send everything."""
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerEntry:
    """A row of the table."""

    summary: str
    build: Callable[[LearnerRequest], Learner[Any, Any, Any]]
    options: Mapping[str, tuple[str, ...]]
    """Option -> values it takes, the default first."""


def _ucbvi(request: LearnerRequest) -> Learner[Any, Any, Any]:
    constants: Constants = request.constants or ("practical" if request.noisy else "theory")
    if request.noisy and constants == "theory":
        raise InvalidInput(
            "the theory constants of ucbvi know nothing of privacy noise; use constants 'practical' under a trust model"
        )
    return UCBVI(
        shape=request.shape,
        episodes=request.episodes,
        constants=constants,
        bonus=cast("Bonus", request.options.get("bonus", "hoeffding")),
        z=request.z,
        users_per_batch=request.users_per_batch,
        sampling=request.sampling,
    )


def _psrl(request: LearnerRequest) -> Learner[Any, Any, Any]:
    if request.constants is not None or request.z is not None:
        raise InvalidInput("psrl has a prior instead of confidence widths; leave constants and z out")
    return PSRL(
        shape=request.shape,
        reward_posterior=cast("RewardPosterior", request.options.get("rewards", "beta")),
        users_per_batch=request.users_per_batch,
    )


def _ldp_obi(request: LearnerRequest) -> Learner[Any, Any, Any]:
    if request.constants == "practical":
        # Under the shared rule the widths are those of UCBVI, and so is the learner.
        return UCBVI(
            shape=request.shape,
            episodes=request.episodes,
            constants="practical",
            z=request.z,
            sampling=request.sampling,
            name="ldp-obi",
        )
    if request.z is not None:
        raise InvalidInput("z belongs to the practical rule; use constants 'practical' with it")
    if request.precision is None:
        raise NotSupported("ldp-obi adds up messages of single users: use trust 'local' (or 'none', without noise)")
    return LDPOBI(shape=request.shape, precision=request.precision)


def _dp_ucbvi(request: LearnerRequest) -> Learner[Any, Any, Any]:
    return DPUCBVI(
        shape=request.shape,
        episodes=request.episodes,
        precision=request.counts,
        constants=_constants(request),
        rows=cast("Rows", request.options.get("rows", "projected")),
        z=request.z,
        users_per_batch=request.users_per_batch,
    )


def _private_ucb_po(request: LearnerRequest) -> Learner[Any, Any, Any]:
    return PrivateUCBPO(
        shape=request.shape,
        episodes=request.episodes,
        precision=request.counts,
        constants=_constants(request),
        z=request.z,
        users_per_batch=request.users_per_batch,
    )


def _fixed_bonus(
    name: str, learner: type[PrivateUCBVI] | type[PUCB]
) -> Callable[[LearnerRequest], Learner[Any, Any, Any]]:
    def build(request: LearnerRequest) -> Learner[Any, Any, Any]:
        users = request.users_per_batch
        if _constants(request) == "practical":
            # Under the shared rule the widths are those of UCBVI, and so is the learner.
            return UCBVI(
                shape=request.shape,
                episodes=request.episodes,
                constants="practical",
                z=request.z,
                users_per_batch=users,
                sampling=request.sampling,
                name=name,
            )
        if request.z is not None:
            raise InvalidInput("z belongs to the practical rule; use constants 'practical' with it")
        return learner(shape=request.shape, episodes=request.episodes, precision=request.counts, users_per_batch=users)

    return build


def _constants(request: LearnerRequest) -> Constants:
    """Theory constants learn nothing at published sizes under noise: there the practical rule is the default."""
    return request.constants or ("practical" if request.noisy else "theory")


def _ldp_psrl(request: LearnerRequest) -> Learner[Any, Any, Any]:
    if request.constants is not None or request.z is not None:
        raise InvalidInput("ldp-psrl has a prior instead of confidence widths; leave constants and z out")
    if request.precision is None:
        raise NotSupported("ldp-psrl adds up messages of single users: use trust 'local' (or 'none', without noise)")
    return LDPPSRL(
        shape=request.shape,
        precision=request.precision,
        episodes=request.episodes,
        reward_posterior=cast("RewardPosterior", request.options.get("rewards", "normal-gamma")),
        prior=cast("CountPrior", request.options.get("prior", "printed")),
    )


STAGED: Final = {"staged": ("true", "false")}
"""Whether the model keeps the steps of an episode apart or pools them (time-homogeneous)."""
REPLAN: Final = {"replan": ("every", "rarely")}
"""Whether the learner plans after every user or when their number has grown by half a percent (see `rarely`)."""

LEARNERS: Final[Mapping[str, LearnerEntry]] = {
    "ucbvi": LearnerEntry(
        summary="optimistic value iteration on counts (Azar et al. 2017)",
        build=_ucbvi,
        options={**STAGED, **REPLAN, "bonus": ("hoeffding", "bernstein")},
    ),
    "ldp-obi": LearnerEntry(
        summary="optimism with locally private counts (Garcelon et al. 2021)",
        build=_ldp_obi,
        options={**STAGED, **REPLAN},
    ),
    "dp-ucbvi": LearnerEntry(
        summary="optimism with a Bernstein bonus on private counts (Qiao and Wang 2023)",
        build=_dp_ucbvi,
        options={"rows": ("projected", "kept")},
    ),
    "private-ucb-vi": LearnerEntry(
        summary="optimism with a Hoeffding bonus on private counts (Chowdhury and Zhou 2022)",
        build=_fixed_bonus("private-ucb-vi", PrivateUCBVI),
        options={},
    ),
    "private-ucb-po": LearnerEntry(
        summary="optimistic policy optimisation on private counts (Chowdhury and Zhou 2022)",
        build=_private_ucb_po,
        options={},
    ),
    "pucb": LearnerEntry(
        summary="UBEV with private counters (Vietri et al. 2020)",
        build=_fixed_bonus("pucb", PUCB),
        options={},
    ),
    "ldp-psrl": LearnerEntry(
        summary="posterior sampling from locally private counts (Garcelon et al. 2021)",
        build=_ldp_psrl,
        options={**STAGED, **REPLAN, "rewards": ("normal-gamma", "beta"), "prior": ("printed", "noise-aware")},
    ),
    "psrl": LearnerEntry(
        summary="posterior sampling (Osband et al. 2013)",
        build=_psrl,
        options={**STAGED, **REPLAN, "rewards": ("beta", "normal-gamma")},
    ),
}

REFERENCE_LEARNERS: Final[Mapping[str, str]] = {
    "uniform": "every action alike: what 'nothing learned' costs",
    "optimal": "the true optimum, given by the simulator (simulation only)",
}
"""Policies that learn nothing; the simulator builds them, since a learner cannot see the environment."""


def needs_squares(name: str, options: Mapping[str, str]) -> bool:
    """Whether a learner with these options uses squares of rewards that a device must release as a fourth family.

    >>> needs_squares("ldp-psrl", {}), needs_squares("ldp-psrl", {"rewards": "beta"}), needs_squares("ucbvi", {})
    (True, False, False)
    """
    return name == "ldp-psrl" and options.get("rewards", "normal-gamma") == "normal-gamma"


def make_learner(name: str, request: LearnerRequest) -> Learner[Any, Any, Any]:
    """Build a learner by its name.

    >>> shape = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
    >>> make_learner("psrl", LearnerRequest(shape=shape, episodes=10, constants=None, z=None, users_per_batch=1,
    ...                                     noisy=False, options={})).name
    'psrl'
    """
    if name not in LEARNERS:
        raise UnknownName("learner", name, [*LEARNERS, *STAGE_LEARNERS, *GRADIENT_LEARNERS, *REFERENCE_LEARNERS])
    entry = LEARNERS[name]
    for option, value in request.options.items():
        if option not in entry.options:
            raise UnknownName(f"option of learner {name}", option, entry.options)
        if value not in entry.options[option]:
            raise InvalidInput(f"{name}:{option} must be one of {', '.join(entry.options[option])}, got {value!r}")
    learner = entry.build(request)
    if request.options.get("replan") != "rarely":
        return learner
    if request.precision is None or request.users_per_batch != 1 or not isinstance(learner, KernelLearner):
        raise NotSupported(
            "replan=rarely needs trust 'local' or 'none', users one by one: others have batches of their own"
        )
    return RarelyReplanned(learner)
