"""Shuffled stages for tests: batches of a simulation, and releases with any counters and any noise bits."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from tacit.accounting.claims import OUTPUTS, PrivacyClaim, PrivacyUnit
from tacit.data.trajectories import Trajectories, Trajectory
from tacit.protocol import TOTALS, Totals
from tacit.release.counts_contract import batch_spec
from tacit.release.shuffle.labels import BitNoise
from tacit.release.shuffle.roles import Transport
from tacit.release.shuffle_release import ShufflePlan, ShuffleRelease
from tacit.release.staged import Staged
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountShape

EVERYTHING = BatchQuery(layer=None, failure_prob=None)


def shuffle_claim(*, epsilon: float = 1.0, delta: float = 1e-6, reports: int = 1) -> PrivacyClaim:
    unit = PrivacyUnit(reports=reports, per_stage=1)
    return PrivacyClaim(
        trust="shuffle", epsilon=epsilon, delta=delta, unit=unit, neighbours="replace-one", output=OUTPUTS["shuffle"][0]
    )


def plan_of(shape: CountShape, claim: PrivacyClaim | None = None, **more: Any) -> ShufflePlan:
    """As a simulation has it: everybody who is planned for reports, and blocks hold everything."""
    given = {"overflow": 0.0, "most_bits": None, **more}
    return ShufflePlan(shape=shape, claim=shuffle_claim() if claim is None else claim, **given)


def shuffled_batches(shape: CountShape, claim: PrivacyClaim, calibration: Any = "tight", **more: Any) -> Staged:
    """A simulation of single batches, to be planned."""
    return Staged(channels=(), basis=plan_of(shape, claim, calibration=calibration, **more), batches=())


def release_with(
    shape: CountShape,
    noise: BitNoise,
    *,
    query: Totals | BatchQuery = EVERYTHING,
    printed: bool = False,
    overflow: float = 0.0,
    claim: PrivacyClaim | None = None,
) -> ShuffleRelease:
    """A release with these noise bits, not calibrated, for exactly as many people."""
    layer = None if isinstance(query, Totals) else query.layer
    spec = batch_spec(shape, "paper" if printed else "tight", layer)
    if printed and query == TOTALS:
        spec = replace(spec, transitions=tuple(range(shape.horizon)))
    transport = Transport(
        num_counters=spec.num_counters,
        slots=spec.slots,
        users=noise.users,
        bits_per_user=noise.bits_per_user,
        probability=noise.probability,
        mirrored=noise.mirrored,
        overflow_prob=overflow,
    )
    return ShuffleRelease(
        claim=shuffle_claim() if claim is None else claim,
        shape=shape,
        query=query,
        target=noise.users,
        least=noise.users,
        honest=noise.honest_users,
        bits_per_user=noise.bits_per_user,
        probability=Fraction(noise.probability),
        block=transport.block,
        overflow=Fraction(overflow),
        mirrored=noise.mirrored,
        printed=printed,
    )


def rows_of(batch: Trajectories) -> list[Trajectory]:
    return [Trajectory(*row) for row in zip(batch.states, batch.actions, batch.rewards, strict=True)]


def through_messages(release: ShuffleRelease, batch: Trajectories, noise: Any) -> Any:
    """Unbiased counts of real reports."""
    bodies = [release.encode(one, noise) for one in rows_of(batch)]
    return release.noisy(release.release(release.begin_secret(), bodies, release.query, noise)[1], len(bodies))


def at_once(release: ShuffleRelease, counts: Any, noise: Any) -> Any:
    """Unbiased counts from the law of the sums."""
    return release.noisy(release.simulate(release.begin_secret(), counts, release.query, noise)[1], counts.users)
