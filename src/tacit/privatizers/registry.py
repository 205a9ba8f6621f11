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
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tacit.accounting.claims import OUTPUTS, PrivacyClaim, PrivacyUnit, Trust
from tacit.errors import InvalidInput, NotSupported, UnknownName, require, require_count
from tacit.mechanisms.continual.counter import ContinualCounter
from tacit.mechanisms.continual.tree import LaplaceTree, tree_levels
from tacit.mechanisms.table import MECHANISMS as TABLE
from tacit.mechanisms.table import counter_named, mechanism_row, names_of, randomizer_named
from tacit.privatizers.central import Central
from tacit.privatizers.central_batches import CentralBatches, geometric_ends
from tacit.privatizers.contract import CountPrivatizer
from tacit.privatizers.local import Local
from tacit.privatizers.none import Unprotected
from tacit.privatizers.shuffle import Shuffle
from tacit.privatizers.shuffle_spec import ReleaseSpec
from tacit.privatizers.shuffled import Shuffled
from tacit.privatizers.statistics import Encoding, count_families
from tacit.protocol import Calibration
from tacit.released.counts import CountShape

__all__ = ["MECHANISMS", "PrivacyRequest", "make_claim", "make_privatizer"]

MECHANISMS: Final[Mapping[Trust, tuple[str, ...]]] = {
    trust: names_of(trust) for trust in ("none", "central", "shuffle", "local")
}
"""The built-in mechanisms of each trust model, the default of `tight` first."""

NEVER_PURE: Final = tuple(name for name, row in TABLE.items() if not row.pure)
"""Built-in mechanisms that need a delta above zero."""

FIRST_BATCH: Final = 64
"""Counters over batches: the users of the first batch of the public schedule."""

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
    """0 is pure differential privacy; there is no default (None only without a trust model)."""
    calibration: Calibration | None
    """None means `tight`."""
    mechanism: str | None
    users_per_batch: int
    allow_large_delta: bool = False
    squares: bool = False
    """Whether the learner needs squares of rewards (LDP-PSRL); only local trust charges for them."""
    honest_fraction: float = 1.0
    """Trust shuffle: the share of a batch's devices whose noise is counted on."""


def make_privatizer(request: PrivacyRequest) -> CountPrivatizer:
    """Build the privatizer of a trust model, calibrated to the request.

    >>> shape = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
    >>> request = PrivacyRequest(trust="local", shape=shape, episodes=1000, epsilon=1.0, delta=0.0, calibration=None,
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
    growth = mechanism_row(request.trust, mechanism).growth
    if growth is not None:
        require(calibration == "tight", "no paper prints batched central counters", calibration, "use 'tight'")
        return _batches(request, claim, mechanism, growth)
    if request.trust == "central":
        return _central(request, claim, calibration, mechanism)
    if request.trust == "shuffle":
        return _shuffle(request, claim, calibration)
    return _local(request, claim, calibration, mechanism)


def make_claim(request: PrivacyRequest) -> PrivacyClaim:
    """The claim that a request amounts to: one trajectory, replace-one, the customary output of the trust model."""
    if request.epsilon is None:
        raise InvalidInput(f"trust '{request.trust}' needs an epsilon; for instance epsilon 1")
    if request.delta is None:
        raise InvalidInput(
            f"trust '{request.trust}' needs a delta, which has no default; 0 is pure differential privacy, else well "
            "below 1/K, for instance 1e-6"
        )
    return PrivacyClaim(
        trust=request.trust,
        epsilon=request.epsilon,
        delta=request.delta,
        unit=PrivacyUnit(trajectories=1),
        neighbours="replace-one",
        output=OUTPUTS[request.trust][0],
        allow_large_delta=request.allow_large_delta,
    )


def _mechanism(request: PrivacyRequest, calibration: Calibration) -> str:
    """The named mechanism, or the best one that can give the requested delta."""
    pure = not request.delta
    able = [name for name in MECHANISMS[request.trust] if TABLE[name].pure or not pure]
    if request.mechanism is None:
        if not able:
            raise NotSupported(
                f"trust '{request.trust}' cannot give pure differential privacy (delta 0); "
                "give a delta such as 1e-6, or choose trust central or local"
            )
        if calibration == "paper":
            return next(name for name in able if TABLE[name].printed)
        return _quietest(request, able) if request.trust == "local" else able[0]
    if pure and not mechanism_row(request.trust, request.mechanism).pure:
        raise NotSupported(
            f"{request.mechanism} noise is never pure (delta 0); give a delta such as 1e-6"
            + (f", or use {able[0]}" if able else ", or choose trust central or local")
        )
    return request.mechanism


def _quietest(request: PrivacyRequest, able: list[str]) -> str:
    """The local mechanism whose transitions vary least where a pair (s,a) has its even share of the users."""
    claim, shape = make_claim(request), request.shape
    encoding = "squares" if request.squares else "complement"
    candidates = [name for name in able if TABLE[name].candidate and encoding in randomizer_named(name).ENCODINGS]
    pairs, steps = shape.num_states * shape.num_actions, 1 if shape.staged else shape.horizon

    def noise(name: str) -> tuple[float, float]:
        made = _local(request, claim, "tight", name)
        moved = made.transition_mechanism.typical_variance(pairs, max(1, steps - 1))
        # A single step has no transitions; who sends one slot of several must not gain by that.
        alone = shape.horizon == 1 and made.transition_mechanism.weight == 1.0
        return 0.0 if alone else moved, made.mechanism.typical_variance(pairs, steps)

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
        # Prefixes 1..K-1 are released: the data of the last user are of use to nobody.
        counter = counter_named(mechanism).for_releases(families, claim.epsilon, claim.delta, steps - 1)
    return Central(
        shape=request.shape,
        claim=claim,
        calibration=calibration,
        encoding=encoding,
        counter=counter,
        mechanism=mechanism,
    )


@lru_cache(maxsize=256)  # calibrations are remembered
def _batches(request: PrivacyRequest, claim: PrivacyClaim, mechanism: str, growth: float) -> CentralBatches:
    kind, episodes = counter_named(mechanism), max(2, request.episodes)
    ends = geometric_ends(episodes, first=max(1, min(FIRST_BATCH, episodes // 16)), growth=growth)
    families = count_families(request.shape, "complement")
    return CentralBatches(
        shape=request.shape,
        claim=claim,
        calibration="tight",
        encoding="complement",
        counter=kind.for_releases(families, claim.epsilon, claim.delta, len(ends)),
        ends=ends,
        mechanism=mechanism,
    )


@lru_cache(maxsize=256)  # calibrations are remembered
def _shuffle(request: PrivacyRequest, claim: PrivacyClaim, calibration: Calibration) -> Shuffled:
    shape, users = request.shape, request.users_per_batch
    H, S, A = shape.horizon, shape.num_states, shape.num_actions
    require(users > 1, "shuffling needs batches of more than one user", users, "set a batch size such as 1000")
    require(users <= request.episodes, "a batch cannot be larger than the number of episodes", users)
    if calibration == "paper":
        spec = ReleaseSpec.fine(num_states=S, num_actions=A, horizon=H, last_transition=True)
        batch = Shuffle.paper(
            spec,
            epsilon=claim.epsilon,
            delta=claim.delta,
            users=users,
            variant="2025",
            honest_fraction=request.honest_fraction,
        )
    else:
        spec = ReleaseSpec.one_hot(num_states=S, num_actions=A, horizon=H)
        batch = Shuffle.tight(
            spec,
            epsilon=claim.epsilon,
            delta=claim.delta,
            users=users,
            honest_fraction=request.honest_fraction,
            max_bits_per_user=MOST_NOISE_BITS,
        )
    return Shuffled(shape=shape, claim=claim, calibration=calibration, protocol=batch)


@lru_cache(maxsize=256)  # calibrations are remembered
def _local(request: PrivacyRequest, claim: PrivacyClaim, calibration: Calibration, mechanism: str) -> Local:
    encoding: Encoding = "families" if calibration == "paper" else "complement"
    if request.squares:
        encoding = "squares"
    kind, epsilon, delta = randomizer_named(mechanism), claim.epsilon, claim.delta
    if calibration == "paper":
        outcome, transition = kind.paper(request.shape, epsilon, delta, squares=request.squares)
    else:
        outcome, transition = kind.tight(request.shape, count_families(request.shape, encoding), epsilon, delta)
    return Local(
        shape=request.shape,
        claim=claim,
        calibration=calibration,
        encoding=encoding,
        mechanism=outcome,
        transition_mechanism=transition,
    )
