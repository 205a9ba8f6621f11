"""Readings: what anybody can compute of a study's releases, stage by stage; nothing here is unreleased or secret.

The mean return of a stage is a released sum of rewards over the number of reports, with an interval of 95% that covers
the privacy noise and the accident of who came:

    μ̂  =  Σ_c R̃(c) / n            Var  =  C σ² / n²  +  μ̂ (H - μ̂) / n

C counters carry independent noise of variance σ² each; the second term bounds the variance of returns in [0, H] by
their mean (Bhatia and Davis). Running totals are subtracted from each other, with the noise of the difference. Under
local trust messages of different devices are independent and public, so that sums of random groups of them tell the
variance of both together. A cover report counts as a return of nothing.

Policies that people followed, stage by stage, by name, and what changed from one stage to the next: all public.

A bundle may hold several policies with weights, of which everybody draws one. What is shown is the share of people who
take an action at a step in a state, over those draws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from tacit.errors import InvalidInput
from tacit.noise.support_index import places_of
from tacit.policies import tabular
from tacit.protocol import Totals
from tacit.release.batch_release import BatchRelease
from tacit.release.local import LocalRelease
from tacit.release.shuffle_release import ShuffleRelease
from tacit.release.totals_release import TotalsRelease
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountStatistics, empty_counts
from tacit.study.bundle import Bundle
from tacit.study.contract import Design
from tacit.study.declarations import support_of
from tacit.study.flow import FlowScore, flow_scores
from tacit.study.study import Study
from tacit.study.wire import ReleasePayload

Use = Literal["used", "quarantined", "skipped"]
Z: Final = 1.959964
"""97.5% of a normal distribution lie below it."""
GROUPS: Final = 40
NOT_HELD: Final = "the releases of this learner hold no sum of rewards"
ROWS: Final = """SELECT release.stage, release.question, bytes, digest, charge, noise, opened, stage.slot,
    (SELECT kind FROM belief WHERE kind IN ('take', 'void') AND belief.stage = release.stage
     AND belief.question = release.question) FROM release JOIN stage ON stage.number = release.stage ORDER BY charge"""


class Return(NamedTuple):
    """The mean return of a stage in the world's own unit, with its interval."""

    mean: float
    low: float
    high: float
    noise_std: float | None
    """The part of the privacy noise in the standard deviation; None where it is not told apart from the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSummary:
    """What one release says."""

    stage: int
    question: int
    people: int
    noise: str
    digest: str
    charge: int
    use: Use
    returned: Return | None
    why: str
    """Why there is no return, where there is none."""
    flow: tuple[FlowScore, ...]


def readings(study: Study) -> tuple[StageSummary, ...]:
    """What the releases of a study say, in the order of the ledger."""
    with study.store.reading() as connection:
        rows = connection.execute(ROWS).fetchall()
    memory, before = study.parts.channels[0].begin_memory(), None
    found: list[StageSummary] = []
    for stage, question, data, digest, charge, noise, opened, slot, done in rows:
        given, channel = ReleasePayload.parse(bytes(data)), study.parts.channels[slot]
        payload = given.payload if opened is None else bytes(opened)
        use: Use = "used" if done == "take" else "skipped" if done == "void" else "quarantined"
        returned, why = None, "it was not learned from"
        flow: tuple[FlowScore, ...] = ()
        try:
            after, released = channel.read(memory, payload, given.people)
        except InvalidInput:
            why = "it cannot be read: no reports add up to it"
        else:
            layer, support = getattr(channel.query, "layer", None), support_of(channel)
            flow = flow_scores(released.statistics, study.design.trust, layer, support)
            if use == "used":
                returned, why = return_of(
                    study.design, channel, memory, before, released.statistics, payload, given.people
                )
            kept = use == "used" or (isinstance(channel, TotalsRelease) and not channel.noise.fresh)
            if use != "quarantined" and kept:
                before = released.statistics
            memory = after if use == "used" else channel.skip(memory, payload, given.people) if done else memory
        found.append(
            StageSummary(
                stage=stage,
                question=question,
                people=given.people,
                noise=noise,
                digest=digest,
                charge=charge,
                use=use,
                returned=returned,
                why=why,
                flow=flow,
            )
        )
    return tuple(found)


def return_of(
    design: Design, channel: Any, memory: Any, before: Any, statistics: Any, payload: bytes, people: int
) -> tuple[Return | None, str]:
    """The return of one stage, or why there is none; `memory` and `before` (totals) are those before its release."""
    if not isinstance(statistics, CountStatistics):
        return None, NOT_HELD
    H = design.horizon
    if isinstance(channel, LocalRelease):
        mean, half = _of_messages(channel, payload)
        return _scaled(design, mean, half, None), ""
    if isinstance(channel.query, BatchQuery) and isinstance(channel, ShuffleRelease | BatchRelease):
        if channel.query.layer is not None:
            return None, "this stage asks about one step"
        total, variance = float(statistics.rewards.sum()), float(statistics.variance[2])
    elif isinstance(channel.query, Totals) and isinstance(channel, ShuffleRelease | TotalsRelease):
        last = empty_counts(channel.shape) if before is None else before
        total = float(statistics.rewards.sum() - last.rewards.sum())
        variance = _added(channel, memory, last, statistics)
    else:
        return None, NOT_HELD
    mean = total / people
    # Cσ²/n² + μ(H - μ)/n
    noisy = places_of(channel.shape).num_ones
    noise = noisy * variance / people**2
    inside = min(max(mean, 0.0), float(H))
    half = Z * math.sqrt(noise + inside * (H - inside) / people)
    return _scaled(design, mean, half, math.sqrt(noise)), ""


def _added(channel: Any, memory: Any, last: CountStatistics, now: CountStatistics) -> float:
    """The noise variance of one counter of rewards in the difference of two running totals."""
    if not isinstance(channel, TotalsRelease):
        return float(now.variance[2] - last.variance[2])
    return channel.noise.step_variance(int(memory.releases[0]) + 1)


def _of_messages(channel: LocalRelease, payload: bytes) -> tuple[float, float]:
    """Mean and half width of an interval from the messages of a local stage, in groups of a public random order."""
    size = channel.body_size
    bodies = [payload[start : start + size] for start in range(0, len(payload), size)]
    order = np.random.default_rng(0).permutation(len(bodies))
    groups = np.array_split(order, min(GROUPS, len(bodies)))
    sums = np.array([_rewards(channel, [bodies[i] for i in group]) for group in groups])
    sizes = np.array([len(group) for group in groups], dtype=np.float64)
    mean = float(sums.sum() / sizes.sum())
    if len(groups) < 2:
        return mean, math.inf
    # Var(mean) = Σ_g n_g² (mean_g - mean)² / n² · G/(G-1)
    spread = float(((sums - sizes * mean) ** 2).sum()) * len(groups) / (len(groups) - 1)
    return mean, float(stdtrit(len(groups) - 1, 0.975)) * math.sqrt(spread) / float(sizes.sum())


def _rewards(channel: LocalRelease, bodies: Sequence[bytes]) -> float:
    counts = empty_counts(channel.shape)
    channel.add(counts, channel.wire.total(bodies))
    return float(counts.rewards.sum())


def _scaled(design: Design, mean: float, half: float, noise: float | None) -> Return:
    """A return in the world's own unit: rewards were brought into [0, 1] by their public bounds."""
    low, high = (float(bound) for bound in design.rewards)
    base, unit = design.horizon * low, high - low
    return Return(
        mean=base + unit * mean,
        low=base + unit * (mean - half),
        high=base + unit * (mean + half),
        noise_std=None if noise is None else unit * noise,
    )


SAME: Final = 0.005
"""Shares that differ by less look the same in whole per cent."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class StagePolicy:
    """What people of one stage follow; a stage that nobody reports in serves what was learned."""

    stage: int
    asks: bool
    killed: bool
    states: tuple[str, ...]
    """Features, where they are declared."""
    actions: tuple[str, ...]
    shares: NDArray[np.float64]
    """[H,S,A]"""

    def words(self, step: int, state: int) -> str:
        """The action at a step in a state, or the shares of several."""
        row = self.shares[step, state]
        certain = np.flatnonzero(row > 1.0 - SAME)
        if len(certain) == 1:
            return self.actions[int(certain[0])]
        return ", ".join(f"{name} {p:.0%}" for name, p in zip(self.actions, row, strict=True) if p >= SAME)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One place where the policy is another one than in the stage before."""

    step: int
    state: str
    before: str
    after: str


def followed(study: Study) -> tuple[StagePolicy, ...]:
    """The policies of all stages that were planned; without those that have no table."""
    with study.store.reading() as connection:
        rows = connection.execute("SELECT bytes FROM bundle WHERE question = 0 ORDER BY stage").fetchall()
    found = [_followed(Bundle.parse(bytes(data))) for (data,) in rows]
    return tuple(one for one in found if one is not None)


def changes(before: StagePolicy, after: StagePolicy) -> tuple[Change, ...]:
    """Where two policies differ, by step and state."""
    differ = np.abs(before.shares - after.shares).max(axis=2) >= SAME
    return tuple(
        Change(step=h, state=after.states[s], before=before.words(h, s), after=after.words(h, s))
        for h, s in np.argwhere(differ).tolist()
    )


def _followed(bundle: Bundle) -> StagePolicy | None:
    states, actions = bundle.rows, tuple(bundle["actions"])
    arms: Any = ((bundle.fallback, 1),) if bundle["kill"] else bundle.arms
    try:
        shares = sum(float(weight) * tabular(policy).probabilities(len(actions)) for policy, weight in arms)
    except InvalidInput:  # policies of worlds without a table
        return None
    return StagePolicy(
        stage=int(bundle["stage"]),
        asks=bundle.channel is not None,
        killed=bool(bundle["kill"]),
        states=states,
        actions=actions,
        shares=np.asarray(shares, dtype=np.float64),
    )
