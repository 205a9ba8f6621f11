"""What each statistic of an adversarial MDP is covered by: the noise as printed, and the least for the claim.

`paper` is [bai2024adversarial] Sec. 5 as printed: scale 3H⌈log₂K⌉/ε in every tree, 3H/ε for single losses and for local
messages. Its claim of pure ε is false (2 ε with bandit feedback, (4/3 + X'A/3H) ε with full information): the proof
counts H differences per family where a replacement makes 2H, and a loss table as if it were one trajectory.
`tight` drops the visits (they are sums of transitions) and shares the budget for the least error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.composition import epsilon_of
from tacit.accounting.events.gaussian import gaussian_mu
from tacit.accounting.families import Family
from tacit.accounting.search import least_real
from tacit.mechanisms.continual.counter import ContinualCounter, allocate_gaussian, allocate_laplace, gaussian_shares
from tacit.mechanisms.continual.factorization import BufferedToeplitz
from tacit.mechanisms.continual.tree import LaplaceTree, tree_levels
from tacit.mechanisms.noise.gaussian import Gaussian
from tacit.mechanisms.noise.laplace import Laplace

__all__ = [
    "Feedback",
    "LossNoise",
    "Source",
    "paper_parts",
    "source_name",
    "source_scale",
    "source_std",
    "tight_central",
    "tight_local",
]

Feedback = Literal["full", "bandit"]

_ROUNDING = 1e-12  # tight scales are widened by this much, so that rounding stays on the private side
Source = ContinualCounter | Laplace | Gaussian


@dataclass(frozen=True, slots=True, kw_only=True)
class LossNoise:
    """One released statistic: what one user can change in it (None: public) and the noise that covers it."""

    family: Family | None
    source: Source | None


def paper_parts(
    families: list[Family], claim: PrivacyClaim, steps: int, feedback: Feedback, H: int
) -> dict[str, LossNoise]:
    """As printed."""
    single = Laplace(scale=3.0 * H / claim.epsilon, discrete=False)
    counter: Source = single
    if claim.trust == "central":
        scale = 3.0 * H * tree_levels(steps) / claim.epsilon
        counter = LaplaceTree(steps=steps, release_final=False, scale=scale, padded=True)
    visits = Family(name="visits", up=H, down=H, shift=1.0)
    parts = {
        "transitions": LossNoise(family=families[0], source=counter),
        "visits": LossNoise(family=visits, source=counter),
    }
    if len(families) > 1:
        parts["losses"] = LossNoise(family=families[1], source=counter if feedback == "full" else single)
    return parts


def tight_central(
    families: list[Family], claim: PrivacyClaim, steps: int, feedback: Feedback, H: int
) -> dict[str, LossNoise]:
    """The least noise of a curator: factorizations for delta > 0, trees for delta = 0."""
    sources: list[Source]
    once = feedback == "bandit"  # bandit losses are released in one episode only
    if claim.delta > 0.0:
        if once:
            # Half of μ² for each: the counter over the stream, one Gaussian for the losses.
            half = gaussian_mu(claim.epsilon, claim.delta) / math.sqrt(2.0) * (1 - 1e-12)
            norm = BufferedToeplitz.for_steps(steps - 1, 1.0).sensitivity
            shift = math.sqrt(families[0].l2_squared)
            sources = [
                BufferedToeplitz.for_steps(steps - 1, shift * norm / half),
                Gaussian(sigma=math.sqrt(families[1].l2_squared) / half),
            ]
        else:
            weights = [1.0] * len(families)
            sources = list(
                allocate_gaussian(families, weights, claim.epsilon, claim.delta, steps - 1, BufferedToeplitz)
            )
    else:
        levels = tree_levels(steps)
        counts = [levels, 1 if once else levels][: len(families)]
        scales = allocate_laplace(families, [1.0 / n for n in counts], claim.epsilon, counts)
        sources = [LaplaceTree(steps=steps, release_final=False, scale=scales[0])]
        if len(scales) > 1:
            tree = LaplaceTree(steps=steps, release_final=False, scale=scales[1])
            sources.append(Laplace(scale=scales[1], discrete=False) if once else tree)
    names = ("transitions", "losses")
    return {n: LossNoise(family=f, source=s) for n, f, s in zip(names, families, sources, strict=False)}


def tight_local(
    families: list[Family], claim: PrivacyClaim, steps: int, feedback: Feedback, H: int
) -> dict[str, LossNoise]:
    """The least noise of single messages: Laplace for delta = 0; else Laplace or Gaussian, whatever varies least."""
    if feedback == "bandit":
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
    scales = allocate_laplace(families, [1.0] * len(families), claim.epsilon, [1] * len(families))
    sources = _least_local(families, claim, scales)
    names = ("transitions", "losses")
    return {n: LossNoise(family=f, source=s) for n, f, s in zip(names, families, sources, strict=False)}


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


def source_std(source: Source | None) -> float:
    """The deviation of the largest prefix, or of one release or message."""
    if source is None:
        return 0.0
    return source.std if isinstance(source, Laplace | Gaussian) else source.max_std


def source_scale(source: Source | None) -> float:
    """The sub-gamma scale that the source states; 0 for none."""
    return 0.0 if source is None else source.subgamma


def source_name(source: Source | None) -> str:
    """For tables."""
    return "none" if source is None else str(getattr(source, "NAME", type(source).__name__.lower()))
