"""Returns of arms under every trust model: a one-step batch with one action per arm, by the privatizers there are.

    central   counts of (arm, bit) with Gaussian noise: `CentralBatches`
    shuffle   counts of (arm, bit) with the noise bits of all devices: `ShuffleRelease`
    local     every bit flipped on its device: `OneBitReturns`
    none      the bits as they are, which protects nobody

G1  Everybody is in one arm, by lots that are public and do not depend on data, and reports once. Replacing one user
    moves one count of (arm, bit) up and another one down, so the claim is that of one such batch.
G2  How many users an arm has is public: n = R + M for its ones R and zeros M. So (R̃ + n − M̃)/2 estimates R, with half
    the noise variance of R̃; its law is that of `ArmStatistics.noise`, exactly.
G3  Users of other batches are other people: Lemma P7 (parallel composition). Whoever reports in both is told so by
    `composed`, which adds up everything that one person is exposed to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from tacit.accounting.certificate import Certificate, certify
from tacit.accounting.claims import PrivacyClaim, Trust
from tacit.accounting.terms import terms_of
from tacit.data.counts import ExactCounts, count_trajectories
from tacit.data.trajectories import Trajectories
from tacit.errors import InvalidInput, NotSupported, UnknownName, require, require_count, require_epsilon
from tacit.protocol import Noise, Privatizer, Query
from tacit.randomness import SimulationNoise
from tacit.release.central_batches import CentralBatches
from tacit.release.request import PrivacyRequest
from tacit.release.returns import OneBitReturns
from tacit.release.shuffle.labels import MIN_PEOPLE
from tacit.release.shuffle_release import ShufflePlan
from tacit.release.stage import EVERYTHING
from tacit.release.staged import Staged
from tacit.release.table import make_privatizer
from tacit.released.arms import ArmNoise, ArmStatistics, BitNoiseSum, FlippedBits, GaussianSum, NoNoise
from tacit.released.batches import BatchQuery, PlannedBatch
from tacit.released.counts import CountShape, CountStatistics
from tacit.released.returns import ReturnQuery, ReturnStatistics


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRelease:
    """The way from users in arms to released sums: a privatizer of one batch, its query and the sizes of the arms."""

    users: tuple[int, ...]
    privatizer: Privatizer[Any, Any, Any]
    query: Query
    noise: ArmNoise

    @property
    def claim(self) -> PrivacyClaim:
        """What is promised to everybody in an arm."""
        return self.privatizer.claim

    def certificate(self) -> Certificate:
        """What the exact accountant finds for one user of this batch, with its terms."""
        people = sum(self.users)
        terms = terms_of(self.privatizer, noise="simulation", episodes=people, users_per_batch=people)
        return self.privatizer.certificate().under(terms, self.privatizer)

    def release(self, users: Trajectories, noise: Noise) -> ArmStatistics:
        """The sums of the arms, one after the other as `tacit.data.arms.as_one_step` has them."""
        came = np.bincount(np.clip(users.actions[:, 0], 0, len(self.users) - 1), minlength=len(self.users))
        require(tuple(came.tolist()) == self.users, f"the arms must have {self.users} users", "others")
        batch: Trajectories | ExactCounts = users
        if isinstance(self.query, BatchQuery) and isinstance(noise, SimulationNoise):
            batch = count_trajectories(users, 1, len(self.users))  # the same law without a message for every bit
        _, released = self.privatizer.release(self.privatizer.begin(), batch, self.query, noise)
        return ArmStatistics(sums=_sums(released.statistics, self.users), users=self.users, noise=self.noise)


def make_arms(
    *,
    users: tuple[int, ...],
    trust: Trust,
    epsilon: float | None,
    delta: float | None,
    honest_fraction: float = 1.0,
    allow_large_delta: bool = False,
) -> ArmRelease:
    """Calibrate the release of arms with so many users each.

    >>> arms = make_arms(users=(500, 500), trust="central", epsilon=1.0, delta=1e-6)
    >>> round(arms.noise.std, 2), arms.privatizer.certificate().holds
    (4.22, True)
    """
    require(len(users) in (1, 2), "one arm or two are released", len(users))
    sizes = tuple(require_count("users of an arm", count) for count in users)
    if trust not in RANK:
        raise UnknownName("trust model", str(trust), RANK)
    people, local = sum(sizes), trust in ("local", "none")
    request = PrivacyRequest(
        asks=ReturnQuery if local else BatchQuery,
        trust=trust,
        shape=CountShape(horizon=1, num_states=1, num_actions=len(sizes), staged=True),
        episodes=people,
        epsilon=None if epsilon is None else require_epsilon(epsilon),
        delta=delta,
        calibration=None,
        mechanism="batched" if trust == "central" else None,
        users_per_batch=people,
        allow_large_delta=allow_large_delta,
        honest_fraction=honest_fraction,
    )
    made, batches = make_privatizer(request), [PlannedBatch(users=people, query=EVERYTHING)]
    noise: ArmNoise
    if isinstance(made, CentralBatches):
        # Nobody acts on the sums before they are published, and then everybody sees them.
        made = replace(made, claim=replace(made.claim, output="published-sums", allow_large_delta=True))
        # (e₁ − e₀)/2, each of variance v: v/2
        noise = GaussianSum(std=made.noise.std / 2.0**0.5)
        return ArmRelease(users=sizes, privatizer=made.planned(batches), query=EVERYTHING, noise=noise)
    if isinstance(made, Staged) and isinstance(made.basis, ShufflePlan):
        require(people >= MIN_PEOPLE, "a shuffler needs more than one user", people, "let more users come")
        total = made.basis.law(people, EVERYTHING)
        noise = BitNoiseSum(bits=total.biases * total.bits, probability=total.probability)
        return ArmRelease(users=sizes, privatizer=made.planned(batches), query=EVERYTHING, noise=noise)
    if isinstance(made, OneBitReturns):
        query = ReturnQuery(groups=sizes, bit="mean", level=1.0)
        noise = NoNoise() if made.mechanism is None else FlippedBits(flip=made.mechanism.flip)
        return ArmRelease(users=sizes, privatizer=made, query=query, noise=noise)
    raise InvalidInput(f"arms are released as batches of counts or as bits, not by {type(made).__name__}")


def composed(before: Certificate, after: Certificate) -> Certificate:
    """The certificate for a person who is in both: everything that one is exposed to, added up.

    The claim of the sum is the sum of the claims (basic composition), and the accountant finds what it really costs.
    """
    if before.claim.trust == "none" or after.claim.trust == "none":
        raise NotSupported("a release with trust 'none' cannot be composed with a private one; use fresh people")
    if before.events is None or after.events is None or before.others:
        raise NotSupported("a certificate that does not list all events cannot be added to; ask fresh people")
    if (before.terms is None) != (after.terms is None):
        raise NotSupported("a certificate that does not say where its noise comes from cannot be added to; run again")
    same = before.claim.unit == after.claim.unit and before.claim.neighbours == after.claim.neighbours
    require(same, "claims that are added up must protect the same unit", before.claim.unit.describe())
    weaker = before.claim if RANK[before.claim.trust] <= RANK[after.claim.trust] else after.claim
    claim = replace(
        weaker,
        epsilon=before.claim.epsilon + after.claim.epsilon,
        delta=before.claim.delta + after.claim.delta,
        allow_large_delta=True,  # each of the two was checked by itself
    )
    families = (*before.families, *after.families)
    found = certify((*before.events, *after.events), families, claim, calibration=after.calibration)
    found = found.resting_on((*before.unchecked, *after.unchecked))
    if before.terms is None or after.terms is None:
        return found
    return found.under(before.terms.with_also(after.terms, claim))


RANK: Final[Mapping[Trust, int]] = {"none": 0, "central": 1, "shuffle": 2, "local": 3}
"""Whom one has to trust, most first."""


def _sums(released: object, users: tuple[int, ...]) -> tuple[float, ...]:
    """The sums of the arms' bits in a release (G2)."""
    if isinstance(released, ReturnStatistics):
        return tuple(float(ones) for ones in released.ones)
    if isinstance(released, CountStatistics):
        ones, visits = released.rewards[0, 0], released.visits[0, 0]
        # (R̃ + n − M̃)/2 with M̃ = Ñ − R̃
        return tuple(float(2.0 * ones[i] + n - visits[i]) / 2.0 for i, n in enumerate(users))
    raise InvalidInput(f"arms are released as counts or bits, not as {type(released).__name__}")
