"""Privatizers for adversarial MDPs: noisy counts and noisy losses, under central or local trust.

Every user brings a trajectory through a layered world and losses: the whole table l_k(x,a) with full information, the H
losses met on the way with bandit feedback. What one user can change (replace-one; Lemma S7 (losses)):

    transitions N(x,a,x')   2H counters by one           visits N(x,a)   2H counters by one (released by `paper` only)
    losses, full            X'A counters by one, unless the table is declared public: then nothing
    losses, bandit          2H counters by one; with complements (l, 1-l) on the visited pairs still 2H together

Where the transitions are known to the learner, neither transitions nor visits are counted or released (they read zero):
only losses leave, and only they are paid for.

G1  Central: transitions, visits and full-information losses are continual counters, one step per user; bandit losses
    are released once, in the user's own episode. Local: every user sends one message.
G2  Everything that one user can change is covered by `events()`; `tight` meets the claim.
G3  Losses are clipped to [0, 1] here, whatever a user reports.
G4  With known transitions nothing that is released depends on a trajectory but through the losses.

One kernel serves every trust model: what is released after a user is exact totals plus streams of noise, whose
calibrations `tight` and `paper` stand in `tacit.release.loss_noise`; bandit losses are released once, with the
fresh noise of the user's own episode.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from tacit.accounting.certificate import Certificate, CertifiedFamily, certify
from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.events import Events, UnprotectedEvent
from tacit.accounting.families import Family
from tacit.accounting.units import largest_report_epsilon
from tacit.arrays import Floats, Ints
from tacit.data.counts import ExactLosses, take_in
from tacit.data.trajectories import LossUser
from tacit.errors import InvalidInput, NotSupported, PrivacyBudgetExceeded, require, require_count
from tacit.kernels import kernel, lean_kernel
from tacit.protocol import Calibration, Kernel, Noise, PrivateStatistics, copy_state
from tacit.randomness import SimulationNoise
from tacit.release.counts_contract import require_answer, require_unit
from tacit.release.loss_noise import (
    PARTS,
    Feedback,
    LossNoise,
    NoiseParams,
    NoiseState,
    Stream,
    loss_parts,
    noise_step,
    stream_of,
)
from tacit.released.losses import LayeredShape, LossQuery, LossStatistics, empty_losses
from tacit.released.precision import CountPrecision

OWN, SUMS, COMPLEMENTS = 0, 1, 2
"""Where visits come from: a stream of their own, sums of transitions, or losses plus complements."""


class LossLayout(NamedTuple):
    """What is counted and how it is shown; the same type under every trust model."""

    pair_of: Ints
    """[triples]"""
    full: bool
    visits_from: int
    releases: int
    variance: Floats
    """[3]: of the noise in transitions, visits, losses: of one release, or of one user's share of it."""
    growth: Floats
    """[3]: 1 where the noise of all users adds up, else 0."""
    counted: bool
    """Whether transitions and visits are released; else they read zero."""


class LossParameters(NamedTuple):
    """Public parameters of the kernel: the layout and those of the four streams."""

    layout: LossLayout
    transitions: NoiseParams
    visits: NoiseParams
    losses: NoiseParams
    complements: NoiseParams


class LossState(NamedTuple):
    """The memory of whoever counts: exact totals (sensitive), noise streams (secret) and what was released."""

    exact: ExactLosses
    transitions: NoiseState
    visits: NoiseState
    losses: NoiseState
    complements: NoiseState
    released: LossStatistics

    def __repr__(self) -> str:
        return f"LossState({int(self.exact.users[0])} users)"  # never what they did


@kernel
def release_losses(
    parameters: LossParameters, state: LossState, users: LossUser, query: LossQuery, generator: np.random.Generator
) -> None:
    """Take in one user and release anew, in place."""
    if state.exact.users[0] >= parameters.layout.releases:
        raise PrivacyBudgetExceeded("all releases of this privatizer are spent; calibrate for more episodes")
    take_in(parameters.layout.full, state.exact, users.pairs, users.triples, users.losses)
    noise_step(parameters.transitions, state.transitions, generator)
    noise_step(parameters.visits, state.visits, generator)
    noise_step(parameters.losses, state.losses, generator)
    noise_step(parameters.complements, state.complements, generator)
    # Bandit losses are shown with the fresh noise of their own episode, everything else with that of the totals.
    publish(
        parameters.layout, state.exact, state.transitions.noise, state.visits.noise, state.losses.noise,
        state.losses.draws[0], state.complements.noise, state.released,
    )  # fmt: skip


@lean_kernel
def publish(
    layout: LossLayout,
    exact: ExactLosses,
    transition_noise: Floats,
    visit_noise: Floats,
    loss_noise: Floats,
    fresh_noise: Floats,
    complement_noise: Floats,
    released: LossStatistics,
) -> None:
    """Released numbers = exact numbers + the streams' current noise."""
    for pair in range(released.visits.shape[0]):
        released.visits[pair] = 0.0
    for triple in range(released.transitions.shape[0]):
        if layout.counted:
            released.transitions[triple] = exact.transitions[triple] + transition_noise[triple]
            # Ñ(x,a) = Σ_x' Ñ(x,a,x')
            released.visits[layout.pair_of[triple]] += released.transitions[triple]
        else:
            released.transitions[triple] = 0.0
    for pair in range(released.visits.shape[0]):
        if not layout.counted:
            released.visits[pair] = 0.0
        elif layout.visits_from == OWN:
            released.visits[pair] = exact.visits[pair] + visit_noise[pair]
        elif layout.visits_from == COMPLEMENTS:
            # Ñ(x,a) = Σ_k l̃_k 1 + Σ_k (1-l_k)~ 1
            released.visits[pair] = exact.visits[pair] + loss_noise[pair] + complement_noise[pair]
        if layout.full:
            released.losses[pair] = exact.losses[pair] + loss_noise[pair]
        else:
            released.losses[pair] = exact.own[pair] + fresh_noise[pair]
    released.users[0] = exact.users[0]
    for i in range(3):
        grown = 1.0 + layout.growth[i] * (exact.users[0] - 1.0)
        released.variance[i] = layout.variance[i] * grown


@dataclass(frozen=True, slots=True, kw_only=True)
class AdversarialPrivatizer:
    """Noisy counts and losses for learners of adversarial MDPs; build one with `make_adversarial`."""

    shape: LayeredShape
    claim: PrivacyClaim
    calibration: Calibration
    feedback: Feedback
    public_losses: bool
    episodes: int
    """How many users come; the last one's data are of use to nobody and are never released."""
    known_transitions: bool = False
    """Whether the learner knows the transitions, so that nothing is counted."""
    parts: dict[str, LossNoise]
    """transitions, losses, and either visits (`paper`, or no privacy) or, local bandit, complements."""
    parameters: LossParameters = field(init=False, repr=False, compare=False)
    """Public parameters of the kernel."""
    _streams: tuple[Stream, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        found = {name: part.source for name, part in self.parts.items()}
        steps = max(1, self.episodes - 1)
        streams = (stream_of(found.get(n), steps) for n in ("transitions", "visits", "losses", "complements"))
        object.__setattr__(self, "_streams", tuple(streams))
        object.__setattr__(self, "parameters", self._public())

    @property
    def name(self) -> str:
        """Trust model and mechanisms, for tables."""
        if self.claim.trust == "none":
            return "none"
        used = dict.fromkeys(part.name for part in self.parts.values() if part.source is not None)
        return f"{self.claim.trust}/{'+'.join(used)}"

    def families(self) -> tuple[Family, ...]:
        """What one user can change."""
        return tuple(part.family for part in self.parts.values() if part.family is not None)

    def events(self) -> Events:
        """Everything one person is exposed to: Lemma C10 (several reports), Lemma P14 (several stages)."""
        if self.claim.trust == "none":
            return ((UnprotectedEvent(), 1),)
        return tuple(pair for part in self.parts.values() for pair in part.events(self.claim.unit.reports))

    def noise_std(self) -> dict[str, float]:
        """The deviation of the noise in each statistic: of the largest prefix, or of one release or message."""
        std = {name: part.std for name, part in self.parts.items() if name != "complements"}
        if "visits" not in std:
            if "complements" in self.parts:
                std["visits"] = math.hypot(std["losses"], self.parts["complements"].std)
            else:
                std["visits"] = std["transitions"] * math.sqrt(max(np.bincount(self.shape.pair_of)))
        return std

    def precision(self) -> CountPrecision:
        """The sub-gamma scales of the noise in transitions, visits and losses; variances come with each release."""
        scale = {name: part.scale for name, part in self.parts.items()}
        visits = max(scale["losses"], scale["complements"]) if "complements" in scale else scale["transitions"]
        return CountPrecision(scale=np.array([scale["transitions"], scale.get("visits", visits), scale["losses"]]))

    def largest_variance(self) -> Floats:
        """[3]: the variance of the noise in transitions, visits and losses, before the last user."""
        layout = self.parameters.layout
        return np.asarray(layout.variance * (1.0 + layout.growth * (self.episodes - 2)))

    def loss_radius(self, failure_prob: float) -> float:
        """E': how far the noise of one released bandit loss goes, but for this probability."""
        source = self.parts["losses"].source
        return 0.0 if source is None else source.radius(failure_prob)  # None: nobody is protected

    def certificate(self) -> Certificate:
        """What the exact accountant finds; the printed guarantees are pure."""
        require_unit(self.claim.unit, several=True)
        paper = self.calibration == "paper"
        return certify(
            self.events(),
            self.certified_families(),
            self.claim,
            calibration=self.calibration,
            paper_says=f"pure epsilon {self.claim.epsilon:g}, {self.feedback} information" if paper else None,
            paper_delta=0.0 if paper else None,
        )

    def certified_families(self) -> tuple[CertifiedFamily, ...]:
        """The families of the certificate, without its accounting."""
        std = self.noise_std()
        return tuple(
            CertifiedFamily.of(part.family, noise=part.name, std=std.get(name, std["losses"]))
            for name, part in self.parts.items()
            if part.family is not None
        )

    answers = LossQuery

    @property
    def kernel(self) -> Kernel:
        """`(parameters, state, users, query, coins)`: take in one user, in place."""
        return release_losses

    def begin(self) -> LossState:
        """Nobody came yet."""
        T, P = self.shape.triples, self.shape.pairs
        transitions, visits, losses, complements = (
            stream.begin(size) for stream, size in zip(self._streams, (T, P, P, P), strict=True)
        )
        return LossState(
            exact=ExactLosses(np.zeros(T), np.zeros(P), np.zeros(P), np.zeros(P), np.zeros(1, dtype=np.int64)),
            transitions=transitions,
            visits=visits,
            losses=losses,
            complements=complements,
            released=empty_losses(self.shape),
        )

    def release(
        self, state: LossState, users: LossUser, query: LossQuery, noise: Noise
    ) -> tuple[LossState, PrivateStatistics[LossStatistics]]:
        """Take in one user; the given state is left as it was."""
        require_answer(self, query)
        full = self.feedback == "full"
        require(query == LossQuery(full=full), f"{self.name} answers for {self.feedback} information", query)
        if not isinstance(noise, SimulationNoise):
            raise TypeError(f"this privatizer simulates and takes SimulationNoise, not {type(noise).__name__}")
        H, size = self.shape.horizon, self.shape.pairs if full else self.shape.horizon
        after: LossState = copy_state(state)
        losses = np.ascontiguousarray(users.losses[:size], dtype=np.float64)
        user = LossUser(_whole(users.pairs[:H]), _whole(users.triples[:H]), losses)
        self.kernel(self.parameters, after, user, query, noise.generator)
        return after, PrivateStatistics(after.released, self.claim)

    def _public(self) -> LossParameters:
        std = self.noise_std()
        growing = self.claim.trust == "local"
        growth = [growing, growing, growing and self.feedback == "full"]
        visits_from = OWN if "visits" in self.parts else COMPLEMENTS if "complements" in self.parts else SUMS
        layout = LossLayout(
            pair_of=np.array(self.shape.pair_of, dtype=np.int64),
            full=self.feedback == "full",
            visits_from=visits_from,
            releases=max(1, self.episodes - 1),
            variance=np.array([std[name] ** 2 for name in ("transitions", "visits", "losses")]),
            growth=np.array(growth, dtype=np.float64),
            counted=not self.known_transitions,
        )
        return LossParameters(layout, *(stream.params for stream in self._streams))


def make_adversarial(
    *,
    shape: LayeredShape,
    claim: PrivacyClaim,
    episodes: int,
    feedback: Feedback,
    calibration: Calibration = "tight",
    public_losses: bool = False,
    known_transitions: bool = False,
) -> AdversarialPrivatizer:
    """Build the privatizer of an adversarial MDP, central, local or none at all, calibrated to the claim.

    `public_losses` declares that the full-information loss tables are no user's data (an oblivious adversary): they are
    then released as they are and protect nobody. It is off unless you say so. With `known_transitions` no counts are
    released, and the whole claim is spent on the losses.
    """
    require_count("episodes", episodes)
    require(feedback in ("full", "bandit"), "feedback must be 'full' or 'bandit'", feedback)
    require(calibration in ("tight", "paper"), "calibration must be 'tight' or 'paper'", calibration)
    if public_losses and claim.trust == "none":
        raise InvalidInput("public_losses requires a trust model other than 'none'; remove public_losses")
    if (calibration, claim.trust) not in PARTS:
        raise NotSupported(f"adversarial MDPs have central and local privatizers, not {claim.trust!r}")
    if public_losses and feedback == "bandit":
        raise InvalidInput("bandit losses tell where a user was; only full-information tables can be declared public")
    if known_transitions and claim.trust == "none":
        raise InvalidInput("known transitions require a trust model other than 'none'; remove them")
    if known_transitions and public_losses:
        raise InvalidInput(
            "with known transitions losses are all that is released; if they are public, use trust 'none'"
        )
    steps = max(2, episodes)

    def made(epsilon: float) -> AdversarialPrivatizer:
        one = replace(claim, epsilon=epsilon, allow_large_delta=True)
        return AdversarialPrivatizer(
            shape=shape,
            claim=claim,
            calibration="none" if claim.trust == "none" else calibration,
            feedback=feedback,
            public_losses=public_losses,
            known_transitions=known_transitions,
            episodes=steps,
            parts=loss_parts(
                shape,
                one,
                steps,
                feedback,
                calibration,
                public_losses=public_losses,
                known_transitions=known_transitions,
            ),
        )

    if claim.unit.one or claim.trust == "none":
        return made(claim.epsilon)
    require(calibration == "tight", "the papers print guarantees for one trajectory", calibration, "use 'tight'")
    return largest_report_epsilon(made, lambda found: found.events(), claim.epsilon, claim.delta)


def _whole(numbers: Ints) -> Ints:
    return np.ascontiguousarray(numbers, dtype=np.int64)
