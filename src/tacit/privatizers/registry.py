"""The trust models by name, and how each is configured from a user's request.

    trust     mechanisms (the default of `tight` first)               calibration `paper`: three families, and
    central   factorization, kary-tree, gaussian-tree, laplace-tree   laplace-tree of scale 3H⌈log₂K⌉/ε
              batched, batched-factorization
    shuffle   binomial                                                τ = 96 ln(2/β)/ε'² noise bits
    local     subset, oue, laplace, gaussian, rr, bounded             as printed in [garcelon2021local]

Without a mechanism, `tight` takes the first one that can give the requested delta: with delta = 0 (pure differential
privacy) central trust uses the k-ary tree, since no Gaussian noise is ever pure. Local trust takes the one of subset,
laplace, rr and gaussian whose transitions vary least where a pair (s,a) has its even share of the users: at a large
epsilon that is rr, which sends every slot, because leaving slots out costs more than noise does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tacit.accounting.claims import OUTPUTS, PrivacyClaim, PrivacyUnit, Trust
from tacit.accounting.families import Family
from tacit.errors import InvalidInput, NotSupported, UnknownName, require, require_count
from tacit.mechanisms.accumulated import AccumulatedNoise
from tacit.mechanisms.bounded import Bounded, paper_bounded_limit
from tacit.mechanisms.continual import ContinualCounter
from tacit.mechanisms.factorization import BufferedToeplitz
from tacit.mechanisms.gaussian import Gaussian, paper_gaussian_sigma
from tacit.mechanisms.kary_tree import KaryTree
from tacit.mechanisms.laplace import Laplace, paper_laplace_scale
from tacit.mechanisms.one_slot import OneSlot
from tacit.mechanisms.randomized_response import RandomizedResponse, paper_response_epsilon
from tacit.mechanisms.subset_selection import SubsetSelection, best_size
from tacit.mechanisms.tree import GaussianTree, LaplaceTree, tree_levels
from tacit.mechanisms.unary_encoding import UnaryEncoding
from tacit.privatizers.central import Central
from tacit.privatizers.central_batches import CentralBatches, geometric_ends
from tacit.privatizers.contract import CountPrivatizer
from tacit.privatizers.local import Local
from tacit.privatizers.local_aggregate import LocalMechanism
from tacit.privatizers.none import Unprotected
from tacit.privatizers.shuffle import Shuffle
from tacit.privatizers.shuffle_spec import ReleaseSpec
from tacit.privatizers.shuffled import Shuffled
from tacit.privatizers.statistics import Encoding, count_families
from tacit.protocol import Calibration
from tacit.released.counts import CountShape

__all__ = ["MECHANISMS", "PrivacyRequest", "make_claim", "make_privatizer"]

MECHANISMS: Final[Mapping[Trust, tuple[str, ...]]] = {
    "none": (),
    "central": ("factorization", "kary-tree", "gaussian-tree", "laplace-tree", "batched", "batched-factorization"),
    "shuffle": ("binomial",),
    "local": ("subset", "oue", "laplace", "gaussian", "rr", "bounded"),
}
"""The mechanisms of each trust model, the default of `tight` first."""

NEVER_PURE: Final = ("factorization", "batched-factorization", "gaussian-tree", "binomial", "gaussian", "bounded")
"""Mechanisms that need a delta above zero."""


MOST_NOISE_BITS: Final = 4096
"""What a device is asked to add to one counter, at most; it sets the least batch that can be shuffled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyRequest:
    """What the user asked for; every field is public."""

    trust: Trust
    shape: CountShape
    episodes: int
    epsilon: float | None
    delta: float | None
    """None means 0: pure differential privacy."""
    calibration: Calibration | None
    """None means `tight`."""
    mechanism: str | None
    users_per_batch: int
    allow_large_delta: bool = False
    squares: bool = False
    """Whether the learner needs squares of rewards (LDP-PSRL); only local trust charges for them."""


def make_privatizer(request: PrivacyRequest) -> CountPrivatizer:
    """Build the privatizer of a trust model, calibrated to the request.

    >>> shape = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
    >>> request = PrivacyRequest(trust="local", shape=shape, episodes=1000, epsilon=1.0, delta=None, calibration=None,
    ...                          mechanism=None, users_per_batch=1)
    >>> make_privatizer(request).name
    'local/subset'
    """
    if request.trust not in MECHANISMS:
        raise UnknownName("trust model", str(request.trust), MECHANISMS)
    require_count("episodes", request.episodes)
    require_count("users_per_batch", request.users_per_batch)
    for size in ("horizon", "num_states", "num_actions"):
        require_count(size, getattr(request.shape, size))
    if request.trust == "none":
        for option in ("epsilon", "delta", "mechanism"):
            require(
                getattr(request, option) is None,
                f"{option} makes no sense with trust 'none', which protects nobody",
                getattr(request, option),
                "choose trust central, shuffle or local, or leave it out",
            )
        return Unprotected(shape=request.shape)
    calibration: Calibration = request.calibration or "tight"
    require(calibration in ("tight", "paper"), "calibration must be 'tight' or 'paper'", calibration)
    claim, mechanism = make_claim(request), _mechanism(request, calibration)
    if mechanism in BATCHED:
        require(calibration == "tight", "no paper prints batched central counters", calibration, "use 'tight'")
        return _batches(request, claim, mechanism)
    if request.trust == "central":
        return _central(request, claim, calibration, mechanism)
    if request.trust == "shuffle":
        return _shuffle(request, claim, calibration)
    return _local(request, claim, calibration, mechanism)


def make_claim(request: PrivacyRequest) -> PrivacyClaim:
    """The claim that a request amounts to: one trajectory, replace-one, the customary output of the trust model."""
    if request.epsilon is None:
        raise InvalidInput(f"trust '{request.trust}' needs an epsilon; for instance epsilon 1")
    return PrivacyClaim(
        trust=request.trust,
        epsilon=request.epsilon,
        delta=0.0 if request.delta is None else request.delta,
        unit=PrivacyUnit(trajectories=1),
        neighbours="replace-one",
        output=OUTPUTS[request.trust][0],
        allow_large_delta=request.allow_large_delta,
    )


def _mechanism(request: PrivacyRequest, calibration: Calibration) -> str:
    """The named mechanism, or the best one that can give the requested delta."""
    known, pure = MECHANISMS[request.trust], not request.delta
    able = [name for name in known if not (pure and name in NEVER_PURE)]
    if request.mechanism is None:
        if not able:
            raise NotSupported(
                f"trust '{request.trust}' cannot give pure differential privacy (delta 0); "
                "give a delta such as 1e-6, or choose trust central or local"
            )
        if calibration == "paper":
            return {"central": "laplace-tree", "local": "laplace"}.get(request.trust, able[0])
        return _quietest(request, able) if request.trust == "local" else able[0]
    if request.mechanism not in known:
        raise UnknownName(f"mechanism of trust '{request.trust}'", request.mechanism, known)
    if request.mechanism not in able:
        raise NotSupported(
            f"{request.mechanism} noise is never pure (delta 0); give a delta such as 1e-6"
            + (f", or use {able[0]}" if able else ", or choose trust central or local")
        )
    return request.mechanism


def _quietest(request: PrivacyRequest, able: list[str]) -> str:
    """The local mechanism whose transitions vary least where a pair (s,a) has its even share of the users."""
    claim = make_claim(request)
    candidates = [name for name in ("subset", "laplace", "rr", "gaussian") if name in able]
    if request.squares:  # these round rewards to 0 or 1, their own squares
        candidates = [name for name in candidates if name not in ("subset", "rr")]

    def noise(name: str) -> tuple[float, float]:
        made = _local(request, claim, "tight", name)
        mechanism, moved = made.mechanism, made.transition_mechanism
        if isinstance(mechanism, OneSlot) and isinstance(moved, OneSlot):
            pairs = request.shape.num_states * request.shape.num_actions
            return moved.variance_at(moved.feeding / pairs), mechanism.variance_at(mechanism.feeding / pairs)
        transitions, _, rewards = made.parameters.variance
        return float(transitions), float(rewards)

    return min(candidates, key=noise)


@lru_cache(maxsize=256)  # calibrations are remembered
def _central(request: PrivacyRequest, claim: PrivacyClaim, calibration: Calibration, mechanism: str) -> Central:
    steps = max(2, math.ceil(request.episodes / request.users_per_batch))
    encoding: Encoding = "families" if calibration == "paper" else "complement"
    families = count_families(request.shape, encoding)
    counter: ContinualCounter
    if calibration == "paper":
        require(mechanism == "laplace-tree", "the papers count with laplace-tree", mechanism, "leave the mechanism out")
        # b = 3H ⌈log₂ K⌉ / ε in each family, padded to exactly ⌈log₂ K⌉ terms ([bai2024adversarial] Sec. 5)
        scale = 3.0 * request.shape.horizon * tree_levels(steps) / claim.epsilon
        counter = LaplaceTree(steps=steps, release_final=False, scale=scale, padded=True)
    else:
        counter = _CENTRAL[mechanism](families, claim.epsilon, claim.delta, steps)
    return Central(
        shape=request.shape,
        claim=claim,
        calibration=calibration,
        encoding=encoding,
        counter=counter,
        mechanism=mechanism,
    )


@lru_cache(maxsize=256)  # calibrations are remembered
def _batches(request: PrivacyRequest, claim: PrivacyClaim, mechanism: str) -> CentralBatches:
    growth, calibrate = BATCHED[mechanism]
    episodes = max(2, request.episodes)
    ends = geometric_ends(episodes, first=max(1, min(FIRST_BATCH, episodes // 16)), growth=growth)
    families = count_families(request.shape, "complement")
    return CentralBatches(
        shape=request.shape,
        claim=claim,
        calibration="tight",
        encoding="complement",
        counter=calibrate(families, claim.epsilon, claim.delta, len(ends)),
        ends=ends,
        mechanism=mechanism,
    )


FIRST_BATCH: Final = 64
BATCHED: Final[Mapping[str, tuple[float, Callable[[tuple[Family, ...], float, float, int], ContinualCounter]]]] = {
    "batched": (1.5, AccumulatedNoise.calibrate),
    "batched-factorization": (1.05, BufferedToeplitz.calibrate),
}
"""The counters over batches, with the growth of their public schedule; the first batch has `FIRST_BATCH` users."""

# Prefixes 1..K-1 are released: the data of the last user are of use to nobody.
_CENTRAL: Final[Mapping[str, Callable[[tuple[Family, ...], float, float, int], ContinualCounter]]] = {
    "factorization": lambda families, epsilon, delta, steps: BufferedToeplitz.calibrate(
        families, epsilon, delta, steps - 1
    ),
    "kary-tree": lambda families, epsilon, delta, steps: KaryTree.calibrate(families, epsilon, delta, steps),
    "gaussian-tree": lambda families, epsilon, delta, steps: GaussianTree.calibrate(families, epsilon, delta, steps),
    "laplace-tree": lambda families, epsilon, delta, steps: LaplaceTree.calibrate(families, epsilon, delta, steps),
}


@lru_cache(maxsize=256)  # calibrations are remembered
def _shuffle(request: PrivacyRequest, claim: PrivacyClaim, calibration: Calibration) -> Shuffled:
    shape, users = request.shape, request.users_per_batch
    H, S, A = shape.horizon, shape.num_states, shape.num_actions
    require(users > 1, "shuffling needs batches of more than one user", users, "set a batch size such as 1000")
    require(users <= request.episodes, "a batch cannot be larger than the number of episodes", users)
    if calibration == "paper":
        spec = ReleaseSpec.fine(num_states=S, num_actions=A, horizon=H, last_transition=True)
        batch = Shuffle.paper(spec, epsilon=claim.epsilon, delta=claim.delta, users=users, variant="2025")
    else:
        spec = ReleaseSpec.one_hot(num_states=S, num_actions=A, horizon=H)
        batch = Shuffle.tight(
            spec, epsilon=claim.epsilon, delta=claim.delta, users=users, max_bits_per_user=MOST_NOISE_BITS
        )
    return Shuffled(shape=shape, claim=claim, calibration=calibration, protocol=batch)


@lru_cache(maxsize=256)  # calibrations are remembered
def _local(request: PrivacyRequest, claim: PrivacyClaim, calibration: Calibration, mechanism: str) -> Local:
    encoding: Encoding = "families" if calibration == "paper" else "complement"
    if request.squares:
        encoding = "squares"
    outcome, transition = (
        _paper_local(request, claim, mechanism) if calibration == "paper" else _tight_local(request, claim, mechanism)
    )
    return Local(
        shape=request.shape,
        claim=claim,
        calibration=calibration,
        encoding=encoding,
        mechanism=outcome,
        transition_mechanism=transition,
    )


def _tight_local(request: PrivacyRequest, claim: PrivacyClaim, mechanism: str) -> tuple[LocalMechanism, LocalMechanism]:
    families = count_families(request.shape, "squares" if request.squares else "complement")
    chosen: LocalMechanism
    match mechanism:
        case "laplace":
            chosen = Laplace.calibrate(families, claim.epsilon, claim.delta, discrete=False)
        case "gaussian":
            chosen = Gaussian.calibrate(families, claim.epsilon, claim.delta)
        case "rr":
            chosen = RandomizedResponse.calibrate(families, claim.epsilon, claim.delta)
        case "bounded":
            chosen = Bounded.calibrate(families, claim.epsilon, claim.delta)
        case _:
            # Every step is a slot of outcomes (s,a,r), all but the last one a slot of transitions (s,a,s').
            H = request.shape.horizon
            feeding = (1, 1) if request.shape.staged else (H, max(1, H - 1))
            if mechanism == "oue":
                outcome, moved = (UnaryEncoding(epsilon=claim.epsilon, slots=2 * H - 1, feeding=n) for n in feeding)
                return outcome, moved
            rows = request.shape.num_states * request.shape.num_actions
            cells = (2 * rows, rows * request.shape.num_states)
            one, two = (
                SubsetSelection(
                    epsilon=claim.epsilon, slots=2 * H - 1, feeding=n, cells=d, size=best_size(d, claim.epsilon)
                )
                for n, d in zip(feeding, cells, strict=True)
            )
            return one, two
    return chosen, chosen


def _paper_local(request: PrivacyRequest, claim: PrivacyClaim, mechanism: str) -> tuple[LocalMechanism, LocalMechanism]:
    H, S, A = request.shape.horizon, request.shape.num_states, request.shape.num_actions
    chosen: LocalMechanism
    if request.squares and mechanism != "laplace":
        raise NotSupported("squares of rewards are printed with laplace noise only; use calibration 'tight'")
    match mechanism:
        case "laplace":
            # 6H/ε, or 8H/ε with the squares of LDP-PSRL
            families = 4 if request.squares else 3
            chosen = Laplace(scale=paper_laplace_scale(H, claim.epsilon, families=families), discrete=False)
        case "gaussian":
            # The proof's constant, the one that the paper's curves can only have used; its claim is false.
            chosen = Gaussian(sigma=paper_gaussian_sigma(H, claim.epsilon, claim.delta, proved_constant=True))
        case "rr":
            chosen = RandomizedResponse(epsilon=paper_response_epsilon(H, claim.epsilon))
        case "bounded":
            return (
                Bounded(limit=paper_bounded_limit(S * A, H, claim.epsilon, claim.delta)),
                Bounded(limit=paper_bounded_limit(S * S * A, H, claim.epsilon, claim.delta)),
            )
        case _:
            raise NotSupported("no paper sends one slot only; use calibration 'tight' with it")
    return chosen, chosen
