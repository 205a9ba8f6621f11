"""The noise of adversarial counts and losses: what covers each statistic, and the stream of it that a kernel moves.

`paper` is [bai2024adversarial] Sec. 5 as printed: scale 3H⌈log₂K⌉/ε in every tree, 3H/ε for single losses and for local
messages. Its claim of pure ε is false (2 ε with bandit feedback, (4/3 + X'A/3H) ε with full information): the proof
counts H differences per family where a replacement makes 2H, and a loss table as if it were one trajectory.
`tight` drops the visits (they are sums of transitions) and shares the budget for the least error.
Where the transitions are known nothing is counted: losses alone are covered, with all of ε (`tight`) or with the noise
that is printed for them (`paper`, which leaves the other two thirds of its ε unused).

Noise never depends on data, so every statistic is a stream of noise beside exact totals: a continual counter, fresh
noise per user that adds up in the totals (local messages), or silence (nothing protected, or declared public).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np

from tacit.accounting.claims import PrivacyClaim, Trust
from tacit.accounting.composition import epsilon_of
from tacit.accounting.events import Events, UnprotectedEvent
from tacit.accounting.events.gaussian import gaussian_mu
from tacit.accounting.families import Family
from tacit.accounting.search import least_real
from tacit.accounting.units import in_stages
from tacit.arrays import Floats, Ints
from tacit.errors import NotSupported
from tacit.kernels import kernel
from tacit.noise.continual.accumulated import AccumulatedParams, AccumulatedState, accumulated_step
from tacit.noise.continual.counter import (
    ContinualCounter,
    allocate_gaussian,
    allocate_laplace,
    gaussian_shares,
    person_events,
)
from tacit.noise.continual.factorization import BufferedParams, BufferedState, BufferedToeplitz, buffered_step
from tacit.noise.continual.tree import LaplaceTree, TreeParams, TreeState, laplace_tree_step, tree_levels
from tacit.noise.gaussian import Gaussian
from tacit.noise.laplace import Laplace
from tacit.protocol import Calibration
from tacit.released.losses import LayeredShape

Feedback = Literal["full", "bandit"]

SILENT, SINGLE, TREE, BUFFERED = 0, 1, 2, 3
"""Kinds of streams."""

_ROUNDING = 1e-12  # tight scales are widened by this much, so that rounding stays on the private side
Source = ContinualCounter | Laplace | Gaussian


@dataclass(frozen=True, slots=True, kw_only=True)
class LossNoise:
    """One released statistic: what one user can change in it (None: public) and the noise that covers it."""

    family: Family | None
    source: Source | None

    @property
    def name(self) -> str:
        """Of the noise, for tables."""
        return "none" if self.source is None else str(getattr(self.source, "NAME", type(self.source).__name__.lower()))

    @property
    def std(self) -> float:
        """The deviation of the largest prefix, or of one release or message."""
        if self.source is None:
            return 0.0
        return self.source.std if isinstance(self.source, Laplace | Gaussian) else self.source.max_std

    @property
    def scale(self) -> float:
        """The sub-gamma scale that the noise states; 0 for none."""
        return 0.0 if self.source is None else self.source.subgamma

    def events(self, reports: int) -> Events:
        """What a person with so many reports is exposed to: steps of a counter, or that many single noises."""
        if self.family is None:
            return ()
        if self.source is None:
            return ((UnprotectedEvent(), 1),)
        if isinstance(self.source, Laplace | Gaussian):
            return in_stages(self.source.events(self.family), reports)
        return person_events(self.source, (self.family,), reports)


SILENCE: Final = LossNoise(family=None, source=None)
"""Of what is not released, or nobody's data."""


def loss_families(shape: LayeredShape, *, full: bool) -> tuple[Family, Family]:
    """Transitions and losses: Lemma S7 (losses)."""
    H = shape.horizon
    up, down = (shape.pairs, 0) if full else (H, H)
    return (
        Family(name="transitions", up=H, down=H, shift=1.0),
        Family(name="losses", up=up, down=down, shift=1.0),
    )


def loss_parts(
    shape: LayeredShape,
    claim: PrivacyClaim,
    steps: int,
    feedback: Feedback,
    calibration: Calibration,
    *,
    public_losses: bool,
    known_transitions: bool = False,
) -> dict[str, LossNoise]:
    """Every released statistic with the noise that covers it, calibrated to the claim."""
    moves, loss = loss_families(shape, full=feedback == "full")
    families = [loss] if known_transitions else [moves] if public_losses else [moves, loss]
    found = PARTS[calibration, claim.trust](families, claim, steps, feedback == "bandit", shape.horizon)
    if known_transitions:
        return {"transitions": SILENCE, "losses": found["losses"]}
    return found | {"losses": SILENCE} if public_losses else found


def _covered(families: Sequence[Family], sources: Sequence[Source]) -> dict[str, LossNoise]:
    return {f.name: LossNoise(family=f, source=s) for f, s in zip(families, sources, strict=True)}


def _visits(H: int) -> Family:
    return Family(name="visits", up=H, down=H, shift=1.0)


def _open_parts(families: list[Family], claim: PrivacyClaim, steps: int, once: bool, H: int) -> dict[str, LossNoise]:
    """Nothing is protected."""
    moves, loss = families
    return {family.name: LossNoise(family=family, source=None) for family in (moves, _visits(H), loss)}


def _paper_parts(families: list[Family], claim: PrivacyClaim, steps: int, once: bool, H: int) -> dict[str, LossNoise]:
    """As printed, whatever else is released."""
    single = Laplace(scale=3.0 * H / claim.epsilon, discrete=False)
    counter: Source = single
    total: Source = single
    if claim.trust == "central":
        # Counts come from the plain Binary Mechanism, losses from its variant with exactly ⌈log₂ K⌉ noises (Alg. 4).
        scale = 3.0 * H * tree_levels(steps) / claim.epsilon
        counter, total = (
            LaplaceTree(steps=steps, release_final=False, scale=scale, padded=padded) for padded in (False, True)
        )
    printed = {"transitions": counter, "losses": single if once else total}
    found = _covered(families, [printed[family.name] for family in families])
    if "transitions" not in found:
        return found
    first = found.pop("transitions")
    return {"transitions": first, "visits": LossNoise(family=_visits(H), source=counter), **found}


def _tight_central(families: list[Family], claim: PrivacyClaim, steps: int, once: bool, H: int) -> dict[str, LossNoise]:
    """The least noise of a curator: factorizations for delta > 0, trees for delta = 0; `once`: of losses, one noise."""
    alone = families[0].name == "losses"
    if claim.delta == 0.0:
        levels = tree_levels(steps)
        single = [once and family.name == "losses" for family in families]
        counts = [1 if one else levels for one in single]
        weights = [1.0 if alone else 1.0 / n for n in counts]
        scales = allocate_laplace(families, weights, claim.epsilon, counts)
        return _covered(families, [
            Laplace(scale=scale, discrete=False) if one else LaplaceTree(steps=steps, release_final=False, scale=scale)
            for one, scale in zip(single, scales, strict=True)
        ])  # fmt: skip
    if not once:
        weights = [1.0] * len(families)
        counters = allocate_gaussian(families, weights, claim.epsilon, claim.delta, steps - 1, BufferedToeplitz)
        return _covered(families, counters)
    mu, shifts = gaussian_mu(claim.epsilon, claim.delta), [math.sqrt(family.l2_squared) for family in families]
    if alone:
        # μ = ‖shift‖₂/σ
        return _covered(families, [Gaussian(sigma=shifts[0] / mu * (1.0 + _ROUNDING))])
    # Half of μ² for each: the counter over the stream, one Gaussian for the losses.
    half = mu / math.sqrt(2.0) * (1.0 - _ROUNDING)
    norm = BufferedToeplitz.for_steps(steps - 1, 1.0).sensitivity
    counter = BufferedToeplitz.for_steps(steps - 1, shifts[0] * norm / half)
    return _covered(families, [counter, Gaussian(sigma=shifts[1] / half)])


def _tight_local(families: list[Family], claim: PrivacyClaim, steps: int, once: bool, H: int) -> dict[str, LossNoise]:
    """The least noise of single messages: Laplace for delta = 0; else Laplace or Gaussian, whatever varies least."""
    if not once or len(families) == 1:
        scales = allocate_laplace(families, [1.0] * len(families), claim.epsilon, [1] * len(families))
        return _covered(families, _least_local(families, claim, scales))
    # (l, 1-l) on the visited pairs costs as much as l alone: two shifts of Laplace noise tell no more than one of
    # their sum, l² + (1-l)² ≤ 1 for Gaussian noise. So 2H in all, and N(x,a) is their sum.
    together = Family(name="losses and complements", up=H, down=H, shift=1.0)
    pure = (4.0 * H / claim.epsilon * (1.0 + _ROUNDING),) * 2
    noise, same = _least_local([families[0], together], claim, pure)
    return {
        "transitions": LossNoise(family=families[0], source=noise),
        "losses": LossNoise(family=together, source=same),
        "complements": LossNoise(family=None, source=same),
    }


def _least_local(families: list[Family], claim: PrivacyClaim, pure: tuple[float, ...]) -> list[Source]:
    """One noise per family from the pure scales: as they are, less of them by what delta allows, or Gaussian noise."""

    def laplace(level: float) -> list[Source]:
        return [Laplace(scale=level * scale, discrete=False) for scale in pure]

    if claim.delta == 0.0:
        return laplace(1.0)

    def excess(level: float) -> float:
        events = tuple(pair for f, source in zip(families, laplace(level), strict=True) for pair in source.events(f))
        found = epsilon_of(events, claim.delta)
        return math.log(found / claim.epsilon) if found > 0.0 else -math.inf

    # Equal weights, as for the pure scales: least Σ_f σ_f².
    sigmas = gaussian_shares(families, [1.0] * len(families), gaussian_mu(claim.epsilon, claim.delta))
    level = math.sqrt(sum(sigma**2 for sigma in sigmas) / sum(2.0 * scale**2 for scale in pure))
    # The level at which Laplace noise would vary as much: it wins if less is private, too.
    if level < 1.0 and excess(level) > 0.0:
        return [Gaussian(sigma=sigma) for sigma in sigmas]
    return laplace(min(1.0, least_real(excess, min(1.0, level), tolerance=1e-5)))


PARTS: Final[Mapping[tuple[Calibration, Trust], Callable[..., dict[str, LossNoise]]]] = {
    ("tight", "none"): _open_parts,
    ("paper", "none"): _open_parts,
    ("tight", "central"): _tight_central,
    ("paper", "central"): _paper_parts,
    ("tight", "local"): _tight_local,
    ("paper", "local"): _paper_parts,
}
"""What covers each statistic, by calibration and trust model."""


class NoiseParams(NamedTuple):
    """Public parameters of one stream of noise, whatever its kind."""

    kind: int
    releases: int
    scale: float
    levels: int
    flag: bool
    """Tree: padded. Single noises: Laplace, not Gaussian."""
    rates: Floats
    weights: Floats


class NoiseState(NamedTuple):
    """The noise of d counters, whatever the kind of stream."""

    time: Ints  # [1], users so far
    memory: Floats  # [levels or buffers, d]
    draws: Floats  # [1 or levels, d], fresh noise of this user
    noise: Floats  # [d], noise of the current totals


class Stream(NamedTuple):
    """A stream of noise: its parameters and the shape of its memory."""

    params: NoiseParams
    memory: int
    draws: int

    def begin(self, dimension: int) -> NoiseState:
        """The stream before the first user."""
        return NoiseState(
            time=np.zeros(1, dtype=np.int64),
            memory=np.zeros((self.memory, dimension)),
            draws=np.zeros((self.draws, dimension)),
            noise=np.zeros(dimension),
        )


def stream_of(source: Source | None, steps: int) -> Stream:
    """The stream of a source over so many users; single noises add up (`noise`) and are kept (`draws`)."""
    none = np.zeros(0)
    if source is None:
        return Stream(NoiseParams(SILENT, 0, 0.0, 0, False, none, none), memory=1, draws=1)
    if isinstance(source, Laplace | Gaussian):
        pure = isinstance(source, Laplace)
        scale = source.scale if isinstance(source, Laplace) else source.sigma
        return Stream(NoiseParams(SINGLE, steps, scale, 0, pure, none, none), memory=1, draws=1)
    if isinstance(source, LaplaceTree):
        tree = source.params
        params = NoiseParams(TREE, tree.releases, tree.scale, tree.levels, tree.padded, none, none)
        return Stream(params, memory=tree.levels, draws=tree.levels if tree.padded else 1)
    if isinstance(source, BufferedToeplitz):
        kept = source.params
        params = NoiseParams(BUFFERED, kept.releases, kept.sigma, 0, False, kept.rates, kept.weights)
        return Stream(params, memory=len(kept.rates), draws=1)
    raise NotSupported(f"losses are counted with trees and factorizations, not with {type(source).__name__}")


@kernel
def noise_step(params: NoiseParams, state: NoiseState, generator: np.random.Generator) -> None:
    """Move a stream by one user: the step kernel of its mechanism. One type for all, so that one loop serves all."""
    if params.kind == TREE:
        tree = TreeParams(params.releases, params.scale, params.levels, params.flag)
        laplace_tree_step(tree, TreeState(state.time, state.memory, state.draws, state.noise), generator)
    elif params.kind == BUFFERED:
        buffered = BufferedParams(params.releases, params.scale, params.rates, params.weights)
        buffered_step(buffered, BufferedState(state.time, state.memory, state.draws, state.noise), generator)
    elif params.kind == SINGLE:
        single = AccumulatedParams(params.releases, params.scale, params.flag)
        accumulated_step(single, AccumulatedState(state.time, state.draws, state.noise), generator)
