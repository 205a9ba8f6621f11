"""The learners by name: one literal table of every kind; a miss suggests the nearest name.

A learner is written as its name with options, `ucbvi:replan=geometric`, exactly as environments are. A row
says what the learner asks for; everything else about it stands in its own file. Learners of other packages join
through the entry point group `tacit.learners`, which names a `LearnerRow`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from tacit.errors import InvalidInput, NotSupported, UnknownName
from tacit.learners.auto import AUTO
from tacit.learners.conservative import make_conservative
from tacit.learners.dp_ucbvi import make_dp_ucbvi
from tacit.learners.fixed import make_fixed
from tacit.learners.fixed_bonus import PUCB, PrivateUCBVI
from tacit.learners.gradient import COMMON, ascend, make_gradient, natural_ascend, trust_ascend
from tacit.learners.ldp_obi import TUNING as OBI_TUNING
from tacit.learners.ldp_obi import make_ldp_obi
from tacit.learners.ldp_rts import make_conservative_returns
from tacit.learners.linear import make_linear
from tacit.learners.linucb_published import make_published
from tacit.learners.occupancy import uc_o_reps, uob_lbps, uob_reps
from tacit.learners.private_po import RarelyImproved, make_private_ucb_po
from tacit.learners.psrl import make_ldp_psrl, make_psrl, uses_squares
from tacit.learners.rlsvi import EXPLORE, make_rlsvi
from tacit.learners.schedules import replanned_rarely
from tacit.learners.sdp_pe import make_sdp_pe
from tacit.learners.sdp_pe_plus import make_sdp_pe_plus
from tacit.learners.ucbvi import make_ucbvi
from tacit.planning.loss_budget import LossBudget
from tacit.plugins import named
from tacit.protocol import Constants, Learner, Query, Totals
from tacit.released.batches import BatchQuery
from tacit.released.gradients import SoftmaxQuery
from tacit.released.losses import LossQuery
from tacit.released.moments import MomentQuery
from tacit.released.returns import ReturnQuery

Options = Mapping[str, tuple[str, ...]]


def no_squares(options: Mapping[str, str]) -> bool:
    """Most learners need no squares of rewards, whatever their options."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class LossFacts:
    """What a learner of adversarial losses is shown."""

    feedback: Literal["full", "bandit"]
    private: str | None = None
    """None: it runs under central and local trust; else what to use there unless the transitions are known."""
    known: bool = False
    """Whether it is always told the transitions; others are with the option `transitions=known`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerRow:
    """A row of the table."""

    summary: str
    asks: type[Query]
    """What it asks for: this decides which worlds and privatizers fit."""
    build: Callable[[Any], Learner[Any, Any, Any]]
    """From the request of its kind to the learner."""
    options: Options = field(default_factory=dict)
    """Option -> values it takes, the default first; "number" stands for any number."""
    unverified: str | None = None
    """Which of its statements nobody has checked; shown wherever the learner is."""
    squares: Callable[[Mapping[str, str]], bool] = no_squares
    """Whether squares of rewards must be released, with these options."""
    losses: LossFacts | None = None
    printed: bool = False
    """Whether a paper prints constants for it that differ from those of `theory` (constants 'printed')."""
    valid: bool = False
    """Whether it has bands that provably contain V* (constants 'valid')."""
    warm: bool = False
    """Whether it can begin with the released totals of a log."""
    reference: bool = False
    """Whether it is a reference line: one policy that is given, not learned."""
    conservative: bool = False
    """Whether it can keep to a budget of what may be lost against a baseline."""

    def check(self, name: str, given: Mapping[str, str]) -> None:
        """Raise unless every option is known and has one of its values."""
        for option, value in given.items():
            if f"{option}={value}" in REMOVED:
                raise InvalidInput(f"{name}:{option}={value} went with version 0.9; {REMOVED[f'{option}={value}']}")
            if option not in self.options:
                raise UnknownName(f"option of learner {name}", option, self.options)
            values = self.options[option]
            if value not in values and "number" not in values:
                raise InvalidInput(f"{name}:{option} must be one of {', '.join(values)}, got {value!r}")

    def check_constants(self, name: str, constants: Constants | None) -> None:
        """Raise if the constants 'printed' or 'valid' are chosen for a learner that has none."""
        if constants == "printed" and not self.printed:
            able = ", ".join(known for known, row in LEARNERS.items() if isinstance(row, LearnerRow) and row.printed)
            raise InvalidInput(f"constants 'printed' exist for {able}, got {name}; use 'theory' or 'practical'")
        if constants == "valid" and not self.valid:
            able = ", ".join(known for known, row in LEARNERS.items() if isinstance(row, LearnerRow) and row.valid)
            raise InvalidInput(f"constants 'valid' exist for {able}, got {name}; use 'theory' or 'practical'")

    def check_budget(self, name: str, budget: LossBudget | None) -> None:
        """Raise if a loss budget is given to a learner that cannot keep to one."""
        if budget is not None and not self.conservative:
            able = ", ".join(
                known for known, row in LEARNERS.items() if isinstance(row, LearnerRow) and row.conservative
            )
            raise NotSupported(
                f"{name} explores as it likes and cannot keep to a loss budget; use {able} or auto, whose batches are "
                "planned from bounds, or leave the budget out"
            )


HOMOGENEOUS: Final[Options] = {"time_homogeneous": ("false", "true")}
"""Whether one model serves all steps of an episode, or every step has its own (nonstationary)."""
REPLAN: Final[Options] = {"replan": ("every", "geometric")}
"""Whether the learner plans after every user or when their number has grown by half a percent."""
SHARE: Final = "share_across_steps=true weighs every step by what it saw; results made with 0.8 stay readable"
VALID: Final = "valid bands leave no part out; results made with 0.8 stay readable"
REMOVED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("pooled=true", "pooled=tested"), SHARE),
    **{f"without={part}": VALID for part in ("nothing", "variance", "weights", "projection")},
}
"""Choices of 0.8 that no longer are: what stands in their place."""
TUNING: Final[Options] = {
    "eta": ("number",), "cb": ("number",), "ce": ("number",), "transitions": ("learned", "known"),
}  # fmt: skip
"""What learners of adversarial losses let their user choose."""
UNPROVED: Final = "the numeric constants of its theory widths are neither proved here nor checked against the paper"

LEARNERS: Final[Mapping[str, LearnerRow]] = named("tacit.learners", {
    "ucbvi": LearnerRow(
        summary="optimistic value iteration on counts (Azar et al. 2017)",
        asks=Totals,
        build=replanned_rarely(make_ucbvi),
        options={**HOMOGENEOUS, **REPLAN, "bonus": ("hoeffding", "bernstein")},
    ),
    "ldp-obi": LearnerRow(
        summary="optimism with locally private counts (Garcelon et al. 2021)",
        asks=Totals,
        build=replanned_rarely(make_ldp_obi),
        options={**HOMOGENEOUS, **REPLAN, **dict.fromkeys(OBI_TUNING, ("number",))},
        printed=True,
    ),
    "dp-ucbvi": LearnerRow(
        summary="optimism with a Bernstein bonus on private counts (Qiao and Wang 2023)",
        asks=Totals,
        build=replanned_rarely(make_dp_ucbvi),
        options={**REPLAN, "rows": ("projected", "kept")},
        unverified=UNPROVED,
    ),
    "private-ucb-vi": LearnerRow(
        summary="optimism with a Hoeffding bonus on private counts (Chowdhury and Zhou 2022)",
        asks=Totals,
        build=replanned_rarely(PrivateUCBVI.made),
        options=REPLAN,
    ),
    "private-ucb-po": LearnerRow(
        summary="optimistic policy optimisation on private counts (Chowdhury and Zhou 2022)",
        asks=Totals,
        build=replanned_rarely(make_private_ucb_po, RarelyImproved),
        options=REPLAN,
    ),
    "pucb": LearnerRow(
        summary="UBEV with private counters (Vietri et al. 2020)",
        asks=Totals,
        build=replanned_rarely(PUCB.made),
        options=REPLAN,
    ),
    "ldp-psrl": LearnerRow(
        summary="posterior sampling from locally private counts (Garcelon et al. 2021)",
        asks=Totals,
        build=replanned_rarely(make_ldp_psrl),
        options={
            **HOMOGENEOUS,
            **REPLAN,
            "rewards": ("normal-gamma", "beta"),
            "prior": ("printed", "noise-aware"),
            "sampling": ("noise", "weighed"),
        },
        squares=uses_squares,
    ),
    "ldp-rts": LearnerRow(
        summary="Thompson sampling over stationary policies from one-bit returns, for local trust at a small epsilon",
        asks=ReturnQuery,
        build=make_conservative_returns,
        conservative=True,
    ),
    "psrl": LearnerRow(
        summary="posterior sampling (Osband et al. 2013)",
        asks=Totals,
        build=replanned_rarely(make_psrl),
        options={**HOMOGENEOUS, **REPLAN, "rewards": ("beta", "normal-gamma")},
    ),
    "sdp-pe": LearnerRow(
        summary="policy elimination over an explicit set, as published (Bai et al. 2024, 2025)",
        asks=BatchQuery,
        build=make_sdp_pe,
        options={
            "variant": ("2025", "2024"),
            "C": ("number",),
            "C1": ("number",),
            "growth": ("number",),
            "first": ("number",),
            "forget": ("true", "false"),
            "schedule": ("exponential", "fixed", "polynomial", "apeve"),
            "failure_prob": ("number",),
        },
    ),
    "sdp-pe-plus": LearnerRow(
        summary="policy elimination in polynomial time, the shuffle learner to use",
        asks=BatchQuery,
        build=make_sdp_pe_plus,
    ),
    "bucb": LearnerRow(
        summary="optimism in batches with rows that weigh them: central and shuffle trust",
        asks=BatchQuery,
        build=make_conservative,
        options={"share_across_steps": ("false", "true"), "start": ("uniform", "baseline")},
        conservative=True,
        valid=True,
        warm=True,
    ),
    "rlsvi": LearnerRow(
        summary="randomized values in the batches of bucb, privacy noise counts as exploration (Osband et al. 2016)",
        asks=BatchQuery,
        build=make_rlsvi,
        options={"share_across_steps": ("false", "true"), "explore": EXPLORE},
    ),
    "lin-ts": LearnerRow(
        summary="linear Thompson sampling over rows of features, with the release's noise as uncertainty",
        asks=MomentQuery,
        build=make_linear,
    ),
    "lin-ucb": LearnerRow(
        summary="optimism over rows of features, by the same posterior",
        asks=MomentQuery,
        build=make_linear,
        valid=True,
    ),
    "lin-greedy": LearnerRow(
        summary="the best guess over rows of features, by the same posterior",
        asks=MomentQuery,
        build=make_linear,
    ),
    **{
        name: LearnerRow(
            summary=f"LinUCB on noisy running sums, as published ({paper}); calibration paper",
            asks=MomentQuery,
            build=make_published,
            unverified="noise, shifts and widths are quoted from memory of the paper, not compared with its text",
        )
        for name, paper in (
            ("jdp-linucb", "joint DP: Shariff and Sheffet 2018"),
            ("ldp-linucb", "local: Zheng et al. 2020"),
            ("sdp-linucb", "shuffle: Chowdhury and Zhou 2022"),
        )
    },
    "dp-pg": LearnerRow(
        summary="private policy gradient, one pass over fresh users (He and Zhou 2025)",
        asks=SoftmaxQuery,
        build=make_gradient(ascend),
        options=COMMON,
    ),
    "dp-npg": LearnerRow(
        summary="the same release seen through a data-free Fisher matrix: private natural gradient",
        asks=SoftmaxQuery,
        build=make_gradient(natural_ascend),
        options={**COMMON, "damping": ("number",)},
    ),
    "dp-trpo": LearnerRow(
        summary="private natural gradient that moves the policy by a public KL radius at most: TRPO-style updates",
        asks=SoftmaxQuery,
        build=make_gradient(trust_ascend),
        options={**COMMON, "damping": ("number",), "kl": ("number",)},
    ),
    "dp-ppo": LearnerRow(
        summary="private PPO-style clipped updates: every batch is used several times, and pays for it",
        asks=SoftmaxQuery,
        build=make_gradient(ascend),
        options={**COMMON, "epochs": ("number",), "radius": ("number",), "rate": ("number",)},
    ),
    "uc-o-reps": LearnerRow(
        summary="adversarial losses, full information: (private) UC-O-REPS (Bai et al. 2024)",
        asks=LossQuery,
        build=uc_o_reps,
        options=TUNING,
        losses=LossFacts(feedback="full"),
    ),
    "uob-lbps": LearnerRow(
        summary="adversarial losses, bandit feedback: (private) UOB-LBPS (Bai et al. 2024)",
        asks=LossQuery,
        build=uob_lbps,
        options={**TUNING, "radius": ("number",)},
        losses=LossFacts(feedback="bandit"),
    ),
    "o-reps": LearnerRow(
        summary="adversarial losses, full information, known transitions: (private) O-REPS (Zimin and Neu 2013)",
        asks=LossQuery,
        build=uc_o_reps,
        options={"eta": ("number",)},
        losses=LossFacts(feedback="full", known=True),
    ),
    "uob-reps": LearnerRow(
        summary="adversarial losses, bandit feedback: UOB-REPS (Jin et al. 2020); private with known transitions",
        asks=LossQuery,
        build=uob_reps,
        options=TUNING,
        losses=LossFacts(feedback="bandit", private="uob-lbps, or uob-reps:transitions=known"),
    ),
    "uniform": LearnerRow(
        summary="every action alike: what 'nothing learned' costs", asks=Totals, build=make_fixed, reference=True
    ),
    "optimal": LearnerRow(
        summary="the true optimum, given by the simulator (simulation only)",
        asks=Totals,
        build=make_fixed,
        reference=True,
    ),
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerInfo:
    """What a named learner is, what it asks for, and which options it takes (the default first)."""

    name: str
    summary: str
    asks: str
    options: Options


def list_learners() -> tuple[LearnerInfo, ...]:
    """The named learners, as `tacit list learners` shows them.

    Returns
    -------
    tuple of LearnerInfo
        Name, summary, query and options of each.

    Examples
    --------
    >>> [found.options["bonus"] for found in list_learners() if found.name == "ucbvi"]
    [('hoeffding', 'bernstein')]
    """
    rule = "chosen by trust model, claim, size and declarations: the default of runs"
    return (
        LearnerInfo(name=AUTO, summary=rule, asks="what the chosen one asks for", options={}),
        *(
            LearnerInfo(
                name=name,
                summary=row.summary + (f" (unverified: {row.unverified})" if row.unverified else ""),
                asks=row.asks.words(),
                options=row.options,
            )
            for name, row in LEARNERS.items()
        ),
    )


def learner_row(name: str) -> LearnerRow:
    """The row of a learner; a miss suggests the nearest name.

    >>> learner_row("ucbvi").asks.words()
    'running totals'
    """
    if name not in LEARNERS:
        raise UnknownName("learner", name, LEARNERS)
    row = LEARNERS[name]
    if not isinstance(row, LearnerRow):
        raise InvalidInput(f"the entry point of learner '{name}' must be a LearnerRow, got {type(row).__name__}")
    return row
