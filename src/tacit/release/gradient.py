"""Central trust: the curator adds Gaussian noise to the gradient of each batch ([he2025policy] Alg. 1, line 4).

    released = (1/m) Σ_i g_i + N(0, σ² I_d)

G1  Replacing one user moves the mean of a batch by at most `reach.shift` / m, whatever that user does (per-user
    clipping, or the exact supremum for one step of tabular softmax). Rewards are clipped to the declared interval
    first. With Poisson samples the length `reach.norm` / q m of what one user adds counts as well (see G5).
G2  Batches are disjoint and their sizes fixed beforehand, so every user is exposed to the releases of one batch
    only (Lemma P7 (parallel composition)): one, or `epochs` of them where users are re-used, which compose. A person
    with several reports is in that many batches, once in each, and those compose (Lemma P14 (several stages)).
G3  The divisor is public: m, or the expected size q m of a Poisson sample. A short batch is dropped, never
    re-normalised.
G4  All iterates are post-processing of the releases. So the final policy is (ε, δ)-DP, and by Lemma P8 (billboard) the
    actions of all other users are, too (joint DP): [he2025policy] Def. 2 and Remark 3.
G5  Amplification by sampling is claimed only for rate < 1, and then every user of the batch is drawn by a coin of their
    own in every epoch. The event compares "adds v" with "adds v'", each against "adds nothing", so |v| counts and not
    only |v - v'|: the mean reward is centred at the public middle of [low, high], which whoever is not drawn adds.

`tight`: the least σ for the exact reach (analytic Gaussian; PLD with sampling). `paper`: σ = √(8 ln(1.25/δ)) R_max G/(m
ε) for rewards in [-R_max, R_max], with G = √(1 - 1/A) as App. C prints it for softmax; see the certificate for what is
true.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.certificate import Certificate, CertifiedFamily, certify
from tacit.accounting.claims import LARGEST_DELTA, PrivacyClaim
from tacit.accounting.events import Events, UnprotectedEvent
from tacit.accounting.families import Family
from tacit.accounting.units import in_stages
from tacit.data.gradients import Bounds, Dosed, GradientSums, add_dose_gradients, add_gradients, begin_sums, in_range
from tacit.data.trajectories import Trajectories, Walked
from tacit.errors import require, require_count, require_real
from tacit.kernels import kernel
from tacit.policies.softmax import add_pull_back
from tacit.protocol import Calibration, Kernel, Noise, PrivateStatistics, Query, copy_state
from tacit.randomness import SimulationNoise
from tacit.release.counts_contract import require_answer, require_unit
from tacit.release.gradient_noise import CALIBRATED, GradientSpec, Reach, gradient_event, gradient_families
from tacit.released.gradients import DoseQuery, GradientShape, GradientStatistics, SoftmaxQuery, empty_gradient


class GradientNoise(NamedTuple):
    """Public parameters of the kernels."""

    bounds: Bounds
    sigma: float
    """Standard deviation of the noise in one coordinate of the mean."""
    reward_sigma: float
    """The same for the mean reward; infinity: it is not released."""
    divisor: float
    """The public size of a batch, q m."""
    rate: float


class GradientState(NamedTuple):
    """The curator's memory within a batch (sensitive), and what was published."""

    sums: GradientSums
    chosen: NDArray[np.bool_]
    released: GradientStatistics

    def __repr__(self) -> str:
        return f"GradientState({int(self.released.releases[0])} releases)"  # never what users did


@kernel
def choose_users(rate: float, chosen: NDArray[np.bool_], generator: np.random.Generator) -> None:
    """A coin for every user of the batch, or everybody."""
    for i in range(chosen.shape[0]):
        chosen[i] = True if rate >= 1.0 else generator.random() < rate


@kernel
def add_noise(
    noise: GradientNoise,
    reward_sum: float,
    chosen: NDArray[np.bool_],
    released: GradientStatistics,
    generator: np.random.Generator,
) -> None:
    """Add N(0, σ² I) to released.gradient, which holds the exact mean, and release the mean reward if that is asked.

    The mean reward is c + Σ_chosen (r_i - c) / (q m) with the public middle c of [low, high]: its mean over the coins
    is (1/m) Σ r_i, and a user adds at most half the width, against nothing when not chosen (G5). It is written as the
    sum of rewards with q m - |chosen| times c beside it, which is exactly the sum when everybody is chosen.
    """
    if noise.sigma > 0.0:
        for j in range(released.gradient.shape[0]):
            released.gradient[j] += noise.sigma * generator.standard_normal()
    released.variance[0] = noise.sigma * noise.sigma
    if noise.reward_sigma < np.inf:
        absent = noise.divisor
        for i in range(chosen.shape[0]):
            if chosen[i]:
                absent -= 1.0
        middle = noise.bounds.low + 0.5 * (noise.bounds.high - noise.bounds.low)
        released.reward[0] = (reward_sum + middle * absent) / noise.divisor
        if noise.reward_sigma > 0.0:
            released.reward[0] += noise.reward_sigma * generator.standard_normal()
        released.variance[1] = noise.reward_sigma * noise.reward_sigma
    released.releases[0] += 1


@kernel
def release_softmax(
    noise: GradientNoise, state: GradientState, users: Walked, query: SoftmaxQuery, rng: np.random.Generator
) -> None:
    """Release the gradient of a batch at a softmax policy."""
    choose_users(noise.rate, state.chosen, rng)
    add_gradients(
        noise.bounds, query.features, query.table, query.behaviour, users.states, users.actions, users.rewards,
        state.chosen, query.baseline[0], state.sums,
    )  # fmt: skip
    gradient = state.released.gradient
    for j in range(gradient.shape[0]):
        gradient[j] = 0.0
    # (1/m) Σ_i g_i
    add_pull_back(query.features, state.sums.weights, 1.0 / noise.divisor, gradient)
    add_noise(noise, state.sums.reward[0], state.chosen, state.released, rng)


@kernel
def release_doses(
    noise: GradientNoise, state: GradientState, users: Dosed, query: DoseQuery, rng: np.random.Generator
) -> None:
    """Release the gradient of a batch at a Gaussian policy over doses."""
    choose_users(noise.rate, state.chosen, rng)
    pulls = state.sums.square[0]  # scratch of the right size, side by side
    total = add_dose_gradients(
        noise.bounds, query, query.means, users.states, users.actions, users.rewards, state.chosen, query.baseline[0],
        pulls,
    )  # fmt: skip
    gradient = state.released.gradient
    gradient[:] = 0.0
    for s in range(pulls.shape[0]):
        for j in range(gradient.shape[0]):
            gradient[j] += pulls[s] * query.features[s, j] / noise.divisor
    add_noise(noise, total, state.chosen, state.released, rng)


def both_claims(claim: PrivacyClaim) -> tuple[PrivacyClaim, ...]:
    """DP of the final policy and joint DP of the online run: both hold, because every iterate is released (G4)."""
    if claim.trust == "none":
        return (claim,)
    return claim, replace(claim, output="other-users-actions", allow_large_delta=claim.delta > LARGEST_DELTA)


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientPrivatizer:
    """The only door from users to gradients; every field is public. Make one with `make_gradients`."""

    shape: GradientShape
    claim: PrivacyClaim
    calibration: Calibration
    users_per_batch: int
    spec: GradientSpec
    reach: Reach
    """Of what one user adds to the sum, the mean reward included if it is released."""
    sigma: float
    """Standard deviation of the noise in one coordinate of the mean; 0 with trust 'none' only."""
    reward_weight: float = 0.0
    """The weight of a user's mean reward beside the gradient; 0: not released."""
    says: str | None = None
    """The guarantee that the paper prints, for calibration `paper`."""

    def __post_init__(self) -> None:
        require_count("users per batch", self.users_per_batch)
        require_count("epochs", self.spec.epochs)
        require_real("sampling rate", self.spec.rate, low=0.0, high=1.0, open_low=True)
        require_real("sigma", self.sigma, low=0.0, open_low=self.claim.trust != "none")
        require(self.claim.trust in ("none", "central"), "gradients are released centrally", given=self.claim.trust)

    @property
    def name(self) -> str:
        """Trust model and mechanism, for tables."""
        return "none" if self.claim.trust == "none" else "central/gaussian-gradient"

    @property
    def claims(self) -> tuple[PrivacyClaim, ...]:
        """Everything that is promised (G4)."""
        return both_claims(self.claim)

    @property
    def divisor(self) -> float:
        """The public number that sums are divided by (G3)."""
        return self.spec.rate * self.users_per_batch

    @property
    def sensitivity(self) -> float:
        """How far replacing one user can move the released mean (G1)."""
        return self.reach.over(self.divisor).shift

    @property
    def parameters(self) -> GradientNoise:
        """What the kernels need to know."""
        return GradientNoise(
            bounds=self.spec.bounds,
            sigma=self.sigma,
            reward_sigma=self.sigma / self.reward_weight if self.reward_weight > 0.0 else np.inf,
            divisor=self.divisor,
            rate=self.spec.rate,
        )

    def families(self) -> tuple[Family, ...]:
        """What one user can change in the mean."""
        return gradient_families(self.reach.over(self.divisor))

    def events(self) -> Events:
        """Everything one person is exposed to (G2, G5)."""
        if self.claim.trust == "none":
            return ((UnprotectedEvent(), 1),)
        one = gradient_event(self.reach.over(self.divisor), self.sigma, self.spec.rate)
        return in_stages(((one, self.spec.epochs),), self.claim.unit.reports)

    def noise_std(self) -> dict[str, float]:
        """The standard deviation of the noise in one coordinate."""
        return {"gradient": self.sigma}

    def certificate(self) -> Certificate:
        """What the exact accountant finds."""
        require_unit(self.claim.unit, several=True)
        families = self.certified_families()
        return certify(self.events(), families, self.claim, calibration=self.calibration, paper_says=self.says)

    def certified_families(self) -> tuple[CertifiedFamily, ...]:
        """The families of the certificate, without its accounting."""
        if self.claim.trust == "none":
            return ()
        rate = self.spec.rate
        noise = "gaussian" if rate == 1.0 else f"gaussian, Poisson rate {rate:g}"
        return tuple(CertifiedFamily.of(family, noise=noise, std=self.sigma) for family in self.families())

    def begin(self) -> GradientState:
        """The state before anybody came."""
        shape, width = self.shape, np.zeros((1, 1, self.spec.width(self.shape)))
        sums = begin_sums(width, shape.stages, shape.num_states, max(1, shape.num_actions), shape.horizon)
        chosen = np.ones(self.users_per_batch, dtype=np.bool_)
        return GradientState(sums=sums, chosen=chosen, released=empty_gradient(shape.dimension))

    @property
    def doses(self) -> bool:
        """Whether actions are real numbers."""
        return self.shape.num_actions == 0

    @property
    def answers(self) -> type[Query]:
        """Gradients at one kind of policy."""
        return DoseQuery if self.doses else SoftmaxQuery

    @property
    def kernel(self) -> Kernel:
        """`(parameters, state, users, query, coins)`: release in place."""
        return release_doses if self.doses else release_softmax

    def kernel_users(self, users: Any) -> NamedTuple:
        """Users as the kernel takes them, moved into the public range."""
        shape = self.shape
        if self.doses:
            contexts = np.clip(users.states, 0, shape.num_states - 1)
            return Dosed(np.ascontiguousarray(contexts, dtype=np.int64), users.actions, users.rewards)
        inside = in_range(users, shape.num_states, shape.num_actions, shape.horizon)
        return Walked(inside.states, inside.actions, inside.rewards)

    def release(
        self, state: GradientState, users: Trajectories | Dosed, query: Any, noise: Noise
    ) -> tuple[GradientState, PrivateStatistics[GradientStatistics]]:
        """Release the gradient of a batch of exactly m users at the policy of the query. Simulation only."""
        require_answer(self, query)
        if not isinstance(noise, SimulationNoise):
            raise TypeError(f"kernels draw simulation noise, got {type(noise).__name__}")
        low, high = self.spec.baselines
        covered = math.isfinite(self.spec.bounds.clip) or low <= float(query.baseline[0]) <= high
        require(covered, f"without a clip, the baseline must lie in [{low:g}, {high:g}]", "another baseline")
        given, m = self.kernel_users(users), self.users_per_batch
        came = len(given[0])
        require(came == m, f"a batch must have exactly {m} users", came, "drop a short last batch")
        after = copy_state(state)
        self.kernel(self.parameters, after, given, query, noise.generator)
        return after, PrivateStatistics(after.released, self.claim)


def make_gradients(
    shape: GradientShape, claim: PrivacyClaim, calibration: Calibration, users_per_batch: int, spec: GradientSpec
) -> GradientPrivatizer:
    """Build and calibrate the privatizer of gradients of batches of so many users."""
    found = CALIBRATED[calibration](spec, shape, claim, users_per_batch)
    return GradientPrivatizer(
        shape=shape, claim=claim, calibration=calibration, users_per_batch=users_per_batch, **found._asdict()
    )
