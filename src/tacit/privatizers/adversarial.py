"""Privatizers for adversarial MDPs: noisy counts and noisy losses, under central or local trust.

Every user brings a trajectory through a layered world and losses: the whole table l_k(x,a) with full information, the H
losses met on the way with bandit feedback. What one user can change (replace-one; maxima attained together):

    transitions N(x,a,x')   2H counters by one           visits N(x,a)   2H counters by one (released by `paper` only)
    losses, full            X'A counters by one, unless the table is declared public: then nothing
    losses, bandit          2H counters by one; with complements (l, 1-l) on the visited pairs still 2H together

G1  Central: transitions, visits and full-information losses are continual counters, one step per user; bandit losses
    are released once, in the user's own episode. Local: every user sends one message.
G2  Everything that one user can change is covered by `events()`; `tight` meets the claim.
G3  Losses are clipped to [0, 1] here, whatever a user reports.

`paper` is [bai2024adversarial] Sec. 5 as printed: scale 3H⌈log₂K⌉/ε in every tree, 3H/ε for single losses and for local
messages. Its claim of pure ε is false (2 ε with bandit feedback, (4/3 + X'A/3H) ε with full information): the proof
counts H differences per family where a replacement makes 2H, and a loss table as if it were one trajectory.
`tight` drops the visits (they are sums of transitions) and shares the budget for the least error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.certificate import Certificate, CertifiedFamily, certify
from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.events import Events
from tacit.accounting.families import Family
from tacit.accounting.gaussian import gaussian_mu
from tacit.errors import InvalidInput, NotSupported, require, require_count
from tacit.mechanisms.allocation import allocate_gaussian, allocate_laplace
from tacit.mechanisms.continual import ContinualCounter
from tacit.mechanisms.factorization import BufferedToeplitz
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.tree import LaplaceTree, tree_levels
from tacit.privatizers.contract import Calibration
from tacit.randomness import SimulationNoise
from tacit.released.losses import LayeredShape, LossStatistics

__all__ = ["AdversarialPrivatizer", "Feedback", "LossNoise", "LossState", "LossUser", "make_adversarial"]

Feedback = Literal["full", "bandit"]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Source = ContinualCounter | Laplace | Gaussian


class LossUser(NamedTuple):
    """Sensitive: one user's visited pairs[H] and triples[H], and losses[X'A] (full) or losses[H] (bandit)."""

    pairs: Ints
    triples: Ints
    losses: Floats

    def __repr__(self) -> str:
        return "LossUser()"  # never its contents


class LossState(NamedTuple):
    """The memory of whoever counts: exact totals where a counter adds the noise, sums of noisy numbers elsewhere."""

    totals: dict[str, Floats]
    streams: dict[str, Any]
    users: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LossNoise:
    """One released statistic: what one user can change in it (None: public) and the noise that covers it."""

    family: Family | None
    source: Source | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdversarialPrivatizer:
    """Noisy counts and losses for learners of adversarial MDPs; build one with `make_adversarial`."""

    shape: LayeredShape
    claim: PrivacyClaim
    calibration: Calibration
    feedback: Feedback
    public_losses: bool
    parts: dict[str, LossNoise]
    """transitions, losses, and either visits (`paper`) or, local bandit, complements."""

    def families(self) -> tuple[Family, ...]:
        """What one user can change."""
        return tuple(part.family for part in self.parts.values() if part.family is not None)

    def events(self) -> Events:
        """Everything one user is exposed to."""
        exposed: Events = ()
        for part in self.parts.values():
            if part.family is not None and part.source is not None:
                exposed += part.source.events(part.family)
        return exposed

    def noise_std(self) -> dict[str, float]:
        """The deviation of the noise in each statistic: of the largest prefix, or of one release or message."""
        std = {name: _std(part.source) for name, part in self.parts.items() if name != "complements"}
        if "visits" not in std:
            if "complements" in self.parts:
                std["visits"] = math.hypot(std["losses"], _std(self.parts["complements"].source))
            else:
                fan = max(np.bincount(self.shape.pair_of))
                std["visits"] = std["transitions"] * math.sqrt(fan)
        return std

    def certificate(self) -> Certificate:
        """What the exact accountant finds; the printed guarantees are pure."""
        std = self.noise_std()
        described = [
            CertifiedFamily.of(part.family, noise=_name(part.source), std=std.get(name, std["losses"]))
            for name, part in self.parts.items()
            if part.family is not None
        ]
        paper = self.calibration == "paper"
        return certify(
            self.events(),
            described,
            self.claim,
            calibration=self.calibration,
            paper_says=f"pure epsilon {self.claim.epsilon:g}, {self.feedback} information" if paper else None,
            paper_delta=0.0 if paper else None,
        )

    def begin(self) -> LossState:
        """Nobody came yet."""
        sizes = {name: self._size(name) for name in self.parts}
        streams = {
            name: part.source.begin(sizes[name])
            for name, part in self.parts.items()
            if part.source is not None and not isinstance(part.source, Laplace | Gaussian)
        }
        return LossState(totals={name: np.zeros(size) for name, size in sizes.items()}, streams=streams, users=0)

    def release(self, state: LossState, user: LossUser, noise: SimulationNoise) -> tuple[LossState, LossStatistics]:
        """Take in one user; the given state is left as it was."""
        if not isinstance(noise, SimulationNoise):
            raise TypeError(f"this privatizer simulates and takes SimulationNoise, not {type(noise).__name__}")
        exact, totals, streams, shown = self._contribution(user), {}, {}, {}
        for name, part in self.parts.items():
            running = self._running(name)
            if part.source is None or isinstance(part.source, Laplace | Gaussian):
                fresh = exact[name]
                if part.source is not None:
                    fresh = fresh + part.source.sample(fresh.size, noise)
                totals[name] = state.totals[name] + fresh
                shown[name] = totals[name] if running else fresh
            else:
                totals[name] = state.totals[name] + exact[name]
                stream = type(state.streams[name])(*(field.copy() for field in state.streams[name]))
                if int(stream.time[0]) < part.source.releases:
                    part.source.step(part.source.params, stream, noise.generator)
                streams[name] = stream
                shown[name] = totals[name] + stream.noise
        after = LossState(totals=totals, streams=streams, users=state.users + 1)
        if "complements" in totals:
            # Ñ(x,a) = Σ_k l̃_k 1 + Σ_k (1-l_k)~ 1
            shown["visits"] = totals["losses"] + totals["complements"]
        return after, self._statistics(shown, after.users)

    def _statistics(self, shown: dict[str, Floats], users: int) -> LossStatistics:
        if "visits" in shown:
            visits = shown["visits"]
        else:
            sums = np.bincount(self.shape.pair_of, weights=shown["transitions"], minlength=self.shape.pairs)
            visits = np.asarray(sums, dtype=np.float64)
        std = self.noise_std()
        scale = dict.fromkeys(("transitions", "visits", "losses"), 1 if self.claim.trust == "central" else users)
        if not self._running("losses"):
            scale["losses"] = 1
        variance = np.array([std[name] ** 2 * scale[name] for name in ("transitions", "visits", "losses")])
        return LossStatistics(shown["transitions"], visits, shown["losses"], variance, users)

    def _running(self, name: str) -> bool:
        """Whether totals are released (True) or each user's own numbers (bandit losses)."""
        return name != "losses" or self.feedback == "full"

    def _size(self, name: str) -> int:
        return self.shape.triples if name == "transitions" else self.shape.pairs

    def _contribution(self, user: LossUser) -> dict[str, Floats]:
        """One user's exact numbers, clipped into range (G3): nothing here raises on data."""
        shape = self.shape
        pairs = np.clip(user.pairs[: shape.horizon], 0, shape.pairs - 1)
        triples = np.clip(user.triples[: shape.horizon], 0, shape.triples - 1)
        losses = np.clip(np.nan_to_num(user.losses, nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0)
        exact = {
            "transitions": np.bincount(triples, minlength=shape.triples).astype(np.float64),
            "visits": np.bincount(pairs, minlength=shape.pairs).astype(np.float64),
        }
        # A layered trajectory visits a pair at most once; whoever reports one twice counts once.
        exact = {name: np.minimum(counts, 1.0) for name, counts in exact.items()}
        table = np.zeros(shape.pairs)
        if self.feedback == "full":
            table[: min(shape.pairs, losses.size)] = losses[: shape.pairs]
        else:
            met = min(len(pairs), losses.size)
            table[pairs[:met]] = losses[:met]
        exact["losses"] = table
        exact["complements"] = exact["visits"] - table if self.feedback == "bandit" else np.zeros(shape.pairs)
        return exact


def make_adversarial(
    *,
    shape: LayeredShape,
    claim: PrivacyClaim,
    episodes: int,
    feedback: Feedback,
    calibration: Calibration = "tight",
    public_losses: bool = False,
) -> AdversarialPrivatizer:
    """Build the central or local privatizer of an adversarial MDP, calibrated to the claim.

    `public_losses` declares that the full-information loss tables are no user's data (an oblivious adversary): they are
    then released as they are and protect nobody. It is off unless you say so.
    """
    require_count("episodes", episodes)
    require(feedback in ("full", "bandit"), "feedback must be 'full' or 'bandit'", feedback)
    require(calibration in ("tight", "paper"), "calibration must be 'tight' or 'paper'", calibration)
    if claim.trust not in ("central", "local"):
        raise NotSupported(f"adversarial MDPs have central and local privatizers, not {claim.trust!r}")
    if public_losses and feedback == "bandit":
        raise InvalidInput("bandit losses tell where a user was; only full-information tables can be declared public")
    H = shape.horizon
    moves = Family(name="transitions", up=H, down=H, shift=1.0)
    loss = Family(name="losses", up=shape.pairs, down=0, shift=1.0)
    if feedback == "bandit":
        loss = Family(name="losses", up=H, down=H, shift=1.0)
    families = [moves] if public_losses else [moves, loss]
    steps = max(2, episodes)
    build = _paper_parts if calibration == "paper" else _tight_central if claim.trust == "central" else _tight_local
    parts = build(families, claim, steps, feedback, H)
    if public_losses:
        parts["losses"] = LossNoise(family=None, source=None)
    return AdversarialPrivatizer(
        shape=shape, claim=claim, calibration=calibration, feedback=feedback, public_losses=public_losses, parts=parts
    )


def _paper_parts(
    families: list[Family], claim: PrivacyClaim, steps: int, feedback: Feedback, H: int
) -> dict[str, LossNoise]:
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


def _tight_central(
    families: list[Family], claim: PrivacyClaim, steps: int, feedback: Feedback, H: int
) -> dict[str, LossNoise]:
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


def _tight_local(
    families: list[Family], claim: PrivacyClaim, steps: int, feedback: Feedback, H: int
) -> dict[str, LossNoise]:
    if feedback == "bandit":
        # (l, 1-l) on the visited pairs costs as much as l alone: 4H in all, and N(x,a) is their sum
        noise = Laplace(scale=4.0 * H / claim.epsilon, discrete=False)
        together = Family(name="losses and complements", up=H, down=H, shift=1.0)
        return {
            "transitions": LossNoise(family=families[0], source=noise),
            "losses": LossNoise(family=together, source=noise),
            "complements": LossNoise(family=None, source=noise),
        }
    scales = allocate_laplace(families, [1.0] * len(families), claim.epsilon, [1] * len(families))
    names = ("transitions", "losses")
    return {
        name: LossNoise(family=family, source=Laplace(scale=scale, discrete=False))
        for name, family, scale in zip(names, families, scales, strict=False)
    }


def _std(source: Source | None) -> float:
    if source is None:
        return 0.0
    return source.std if isinstance(source, Laplace | Gaussian) else source.max_std


def _name(source: Source | None) -> str:
    return "none" if source is None else type(source).__name__
