"""Trials as studies: a stage of one step in which every device draws its person's arm, and what its release shows.

    plan_trial     a design with one state, one step and the two arms as actions, which are drawn by fair lots
    trial_bit      what a device records as the reward: the person's whole return, rounded to 0 or 1 in declared bounds
    read_trial     the difference of the arms with its interval and verdict, from the public release alone

A device acts once: it names the arm, its person follows the policy of that arm for a whole episode, and reports one
bit. Lots are fair and of everybody's own. Under central and shuffle trust how many are in an arm is not known, and need
not be: Lemma B5 (exact arms). Under local trust a report names its arm, which says nothing about its person, and one
flipped bit: arms are compared as in a simulated trial, given how many drew which. Whoever cannot report stays away; a
cover report would count as half a success and half a failure. People are fresh: a person who was in another study has
spent a budget there, and this one adds to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from tacit.accounting.certificate import Certificate
from tacit.accounting.claims import Trust
from tacit.data.arms import require_bounds
from tacit.errors import InvalidInput, NotSupported, UnknownName, require, require_real
from tacit.noise.exact import bernoulli_each
from tacit.planning.arms import ArmInterval, Verdict, interval_of, verdict_of
from tacit.randomness import SecureNoise
from tacit.release.batch_release import BatchRelease
from tacit.release.contract import Release
from tacit.release.fixed_point import total_variation
from tacit.release.returns import ReturnRelease
from tacit.release.shuffle_release import ShuffleRelease
from tacit.released.arms import ArmNoise, ArmStatistics, BitNoiseSum, FlippedBits, GaussianSum
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountStatistics
from tacit.released.returns import ReturnStatistics
from tacit.study import uniform_assignment
from tacit.study.design import StudyDesign, plan_study
from tacit.study.stage_summaries import followed
from tacit.study.study import Study
from tacit.study.wire import ReleasePayload

EVERYBODY: Final = ("everybody",)
"""The one state of a trial."""
LEARNERS: Final[Mapping[str, str]] = {"central": "bucb", "shuffle": "bucb", "local": uniform_assignment.NAME}
"""The first stage of bucb is uniform play, which is all of a trial; local devices name the arm that they drew."""
TAKEN: Final = """SELECT bytes, opened FROM release
    WHERE EXISTS (SELECT 1 FROM belief WHERE kind = 'take' AND belief.stage = release.stage)"""


def plan_trial(
    *,
    arms: Sequence[str],
    people: int,
    trust: Trust,
    epsilon: float,
    delta: float,
    least: int | None = None,
    honest_fraction: float | None = None,
    name: str = "trial",
) -> StudyDesign:
    """Plan a trial as a study of one stage (`plan_study` has the other parameters).

    Parameters
    ----------
    arms
        Two names: the baseline's first, then the policy's.
    people
        How many reports are asked for.

    >>> design = plan_trial(arms=("careful", "new"), people=200, trust="central", epsilon=1.0, delta=1e-6)
    >>> design.actions, len(design.channels), is_trial(design)
    (('careful', 'new'), 1, True)
    """
    require(len(arms) == 2, "a trial has two arms, the baseline and the policy", list(arms))
    if trust not in LEARNERS:
        raise UnknownName("trust model of a trial", str(trust), LEARNERS)
    return plan_study(
        name=name,
        states=EVERYBODY,
        actions=tuple(arms),
        horizon=1,
        learner=LEARNERS[trust],
        trust=trust,
        epsilon=epsilon,
        delta=delta,
        stages=1,
        target=people,
        least=least,
        honest_fraction=honest_fraction,
    )


def is_trial(design: Any) -> bool:
    """Whether a design is that of a trial."""
    if not isinstance(design, StudyDesign):
        return False
    sizes = (len(design.states), len(design.actions), design.horizon, len(design.channels))
    planned = design.learner == LEARNERS.get(design.trust)
    return sizes == (1, 2, 1, 1) and planned and design.states == EVERYBODY and design.rewards == (0.0, 1.0)


def trial_bit(total: float, bounds: Sequence[float], rng: np.random.Generator | None = None) -> float:
    """A person's return as the bit that the device reports: 1 with probability clip((G − low)/(high − low)).

    Without `rng` (simulations have them) the coin is exact and the operating system's.

    >>> trial_bit(7.0, (0.0, 5.0)), trial_bit(-1.0, (0.0, 5.0))
    (1.0, 0.0)
    """
    low, high = require_bounds(bounds)
    share = min(1.0, max(0.0, (float(np.nan_to_num(total, nan=low)) - low) / (high - low)))
    return float(bernoulli_each(share, SecureNoise()) if rng is None else rng.random() < share)


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyTrial:
    """What the release of a trial shows; in the unit of the declared bounds."""

    arms: tuple[str, str]
    people: int
    bounds: tuple[float, float]
    released: ArmStatistics
    """How many people spoke for the policy: ones in its arm and zeros in the other one; locally ones of each arm."""
    interval: ArmInterval
    certificate: Certificate

    @property
    def verdict(self) -> Verdict:
        """Whether the policy is better, with the errors of `tacit.planning.arms.wrong_verdict`."""
        return verdict_of(self.interval)

    @property
    def line(self) -> str:
        """For people."""
        found, (baseline, policy) = self.interval, self.arms
        shown = f"{found.estimate:.4g} [{found.low:.4g}, {found.high:.4g}]"
        level = f"with probability {1.0 - found.alpha:.4g}, p ≤ {found.p_value:.2g}"
        return f"{policy} against {baseline}: {shown} {level}: {self.verdict} ({self.people:,} people)"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        found = self.interval
        return {
            "arms": list(self.arms),
            "people": self.people,
            "bounds": list(self.bounds),
            "released": self.released.to_dict(),
            "estimate": found.estimate,
            "low": found.low,
            "high": found.high,
            "alpha": found.alpha,
            "p_value": found.p_value,
            "verdict": self.verdict,
            "certificate": self.certificate.to_dict(),
        }


def read_trial(study: Study, *, alpha: float = 0.05, bounds: Sequence[float] = (0.0, 1.0)) -> StudyTrial | None:
    """The verdict of a trial from its public release; None before it was released and taken.

    `bounds` are those that devices rounded returns in.
    """
    low, high = require_bounds(bounds)
    require_real("alpha", alpha, low=0.0, high=0.5, open_low=True)
    require(is_trial(study.design), "a trial must be planned as one ('tacit trial plan')", study.design.name)
    lots = followed(study)
    if not lots:
        return None
    fair = bool((lots[0].shares == 0.5).all()) and not lots[0].killed
    require(fair, "the arms of a trial are drawn uniformly at random", "others", "it was ended before anybody came")
    found = _release(study)
    if found is None:
        return None
    channel, statistics, people = found
    interval, released = (
        _of_bits(channel, statistics, alpha) if isinstance(statistics, ReturnStatistics)
        else _of_counts(channel, statistics, people, alpha)
    )  # fmt: skip
    arms = (study.design.actions[0], study.design.actions[1])
    return StudyTrial(
        arms=arms,
        people=people,
        bounds=(low, high),
        released=released,
        interval=replace(
            interval,
            estimate=(high - low) * interval.estimate,
            low=(high - low) * interval.low,
            high=(high - low) * interval.high,
        ),
        certificate=study.certificate(),
    )


def _of_bits(channel: Release, statistics: ReturnStatistics, alpha: float) -> tuple[ArmInterval, ArmStatistics]:
    """The difference of two arms whose people are known, from flipped bits."""
    if not isinstance(channel, ReturnRelease):
        raise NotSupported(f"bits about returns come from their own channel, not from {channel.name}")
    found = statistics.first(2)
    both = bool((found.groups > 0).all())
    require(both, "both arms of a trial must have people", "one without", "ask more people")
    released = ArmStatistics(
        sums=(float(found.ones[0]), float(found.ones[1])),
        users=(int(found.groups[0]), int(found.groups[1])),
        noise=FlippedBits(flip=channel.bit_noise().flip),
    )
    return interval_of(released, alpha), released


def _of_counts(
    channel: Release, statistics: CountStatistics, people: int, alpha: float
) -> tuple[ArmInterval, ArmStatistics]:
    """The difference of two arms by own lots: how many speak for the policy."""
    ones, visits = statistics.rewards[0, 0], statistics.visits[0, 0]
    # (n + R₁ − M₁ − R₀ + M₀)/2 with M = N − R: how many speak for the policy
    contrast = (2.0 * ones[1] - visits[1]) - (2.0 * ones[0] - visits[0])
    released = ArmStatistics(sums=(float(people + contrast) / 2.0,), users=(people,), noise=_noise(channel, people))
    share = interval_of(released, alpha, null=0.5)
    # d = 2π − 1
    interval = ArmInterval(
        estimate=2.0 * share.estimate - 1.0,
        low=2.0 * share.low - 1.0,
        high=2.0 * share.high - 1.0,
        alpha=share.alpha,
        p_value=share.p_value,
    )
    return interval, released


def _release(study: Study) -> tuple[Release, CountStatistics | ReturnStatistics, int] | None:
    """The one release of a trial, read as anybody reads it; None where there is none that was taken."""
    with study.store.reading() as connection:
        row = connection.execute(TAKEN).fetchone()
    if row is None:
        return None
    given, channel = ReleasePayload.parse(bytes(row[0])), study.parts.channels[0]
    payload = given.payload if row[1] is None else bytes(row[1])
    _, released = channel.read(channel.begin_memory(), payload, given.people)
    if not isinstance(released.statistics, CountStatistics | ReturnStatistics):
        raise InvalidInput("a trial releases counts or bits; this study released something else")
    return channel, released.statistics, given.people


def _noise(channel: Release, people: int) -> ArmNoise:
    """The law of half a signed sum of four counters' noise."""
    plain = isinstance(channel.query, BatchQuery) and channel.query.layer is None
    if plain and isinstance(channel, BatchRelease):
        distance = total_variation(4, channel.variance)
        return GaussianSum(std=channel.std, rounding=1.0 / channel.unit, distance=distance)
    if plain and isinstance(channel, ShuffleRelease):
        total = channel.bit_noise(people).total
        # (B₁ + B₄ − B₂ − B₃)/2, each Binomial(N, q), or where bits are mirrored the difference of two of these
        return BitNoiseSum(bits=2 * total.biases * total.bits, probability=total.probability)
    raise NotSupported(f"trials are released by batches under central or shuffle trust, not by {channel.name}")
