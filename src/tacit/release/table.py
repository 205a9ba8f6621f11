"""The one table of privatizers: who answers which query under which trust model.

    trust     mechanisms (the default of `tight` first)               calibration `paper`: three families, and
    central   factorization, kary-tree, laplace-tree                  laplace-tree of scale 3H⌈log₂K⌉/ε
              batched, batched-factorization
    shuffle   binomial, mirrored-binomial (both: the less noisy)      τ = 96 ln(2/β)/ε'² noise bits
    local     subset, oue, laplace, gaussian, rr, bounded             as printed in [garcelon2021local]

Without a mechanism, `tight` takes the first one that can give the requested delta: with delta = 0 (pure differential
privacy) central trust uses the k-ary tree, since no Gaussian noise is ever pure. Local trust takes the one of subset,
laplace, rr and gaussian whose transitions vary least where a pair (s,a) has its even share of the users: at a large
epsilon that is rr, which sends every slot, because leaving slots out costs more than noise does.

Other packages add privatizers through the entry point group `tacit.privatizers`, which names a `PrivatizerRow`; a run
chooses it by `mechanism=NAME`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, TypeVar, cast

from tacit.accounting.certificate import Certificate
from tacit.accounting.claims import Output, PrivacyClaim, Trust, no_privacy
from tacit.accounting.composition import epsilon_of
from tacit.accounting.families import Family
from tacit.accounting.terms import NoiseKind, terms_of
from tacit.accounting.units import largest_report_epsilon
from tacit.errors import InvalidInput, NotSupported, UnknownName, require, require_count
from tacit.noise.continual.counter import ContinualCounter
from tacit.noise.continual.tree import LaplaceTree, tree_levels
from tacit.noise.one_slot import OneSlot
from tacit.noise.protocol import Randomizer
from tacit.noise.randomized_response import RandomizedResponse
from tacit.noise.table import MECHANISMS as TABLE
from tacit.noise.table import counter_named, mechanism_row, names_of, randomizer_named, read_mechanism
from tacit.noise.unary_encoding import UnaryEncoding
from tacit.plugins import named
from tacit.protocol import TOTALS, Calibration, Privatizer, Query, Totals
from tacit.release.central import Central, geometric_ends
from tacit.release.central_batches import CentralBatches, Correlation
from tacit.release.contract import StageSize
from tacit.release.gradient import GradientPrivatizer, make_gradients
from tacit.release.local import RANDOMIZERS, Local
from tacit.release.losses import AdversarialPrivatizer, make_adversarial
from tacit.release.none import Unprotected
from tacit.release.printed_moments import PrintedMoments, printed_moments
from tacit.release.request import PrivacyRequest, make_claim
from tacit.release.returns import OneBitReturns
from tacit.release.shuffle.labels import MAX_BITS, BitKind
from tacit.release.shuffle_release import ShufflePlan
from tacit.release.staged import Staged
from tacit.release.totals_release import TotalsPlan
from tacit.release.vectors import VectorPlan
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountShape
from tacit.released.gradients import DoseQuery, SoftmaxQuery
from tacit.released.losses import LossQuery
from tacit.released.moments import MomentQuery
from tacit.released.returns import ReturnQuery
from tacit.statistics.count_vectors import Encoding, count_families
from tacit.statistics.table import STATISTICS

P = TypeVar("P", bound=Privatizer[Any, Any, Any])
Factory = Callable[[PrivacyRequest], Privatizer[Any, Any, Any]]

MECHANISMS: Final[Mapping[Trust, tuple[str, ...]]] = {
    trust: names_of(trust) for trust in ("none", "central", "shuffle", "local")
}
"""The built-in mechanisms of each trust model, the default of `tight` first."""

FIRST_BATCH: Final = 64
"""Counters over batches: the users of the first batch of the public schedule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivatizerRow:
    """A privatizer of another package: what its entry point in the group `tacit.privatizers` names."""

    name: str
    """What a run calls it: `mechanism=NAME`."""
    trust: Trust
    answers: type[Query]
    build: Factory
    """From the request to the privatizer, calibrated."""
    summary: str


PLUGINS: Final[Mapping[str, PrivatizerRow]] = named("tacit.privatizers", {})
"""The privatizers of other packages, by name."""


def is_plugin(name: str | None) -> bool:
    """Whether this names a privatizer of another package, not a mechanism.

    >>> is_plugin(None), is_plugin("laplace")
    (False, False)
    """
    return name is not None and name not in TABLE and name in PLUGINS


def make_privatizer(request: PrivacyRequest) -> Privatizer[Any, Any, Any]:
    """Build the privatizer that answers the queries of a request, calibrated to it; equal requests share one.

    >>> shape = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
    >>> request = PrivacyRequest(trust="local", shape=shape, episodes=1000, epsilon=1.0, delta=0.0, calibration=None,
    ...                          mechanism=None, users_per_batch=1)
    >>> make_privatizer(request).name
    'local/subset'
    """
    return _made(request)


def certified(request: PrivacyRequest, noise: str | None) -> tuple[Privatizer[Any, Any, Any], Certificate]:
    """A privatizer and what is certified if this noise is drawn: "secure", "simulation"; None: secure where it can be.

    With `request.whole` the privatizer is that of the stages of a study, whose noise devices or a curator draw.
    """
    made = make_privatizer(request)
    if noise == "secure" and not has_secure_noise(made):
        raise NotSupported(f"{made.name} has no secure noise: choose another mechanism, or simulation noise")
    return made, certificate_under(made, request, noise)


def certificate_under(made: Any, request: PrivacyRequest, noise: str | None) -> Certificate:
    """The certificate of a privatizer with its terms (see `certified`)."""
    kind: NoiseKind = "secure" if has_secure_noise(made) and noise != "simulation" else "simulation"
    terms = terms_of(made, noise=kind, episodes=request.episodes, users_per_batch=request.users_per_batch)
    found: Certificate = made.certificate()
    return found.under(terms, made)


def has_secure_noise(made: object) -> bool:
    """Whether devices or a collector draw the very noise of this privatizer, as exact whole numbers."""
    if isinstance(made, Local):
        laws = (made.outcome, made.transition)
        return all(RANDOMIZERS.get(law.NAME) is type(law) and getattr(law, "discrete", True) for law in laws)
    return isinstance(made, Staged)


@lru_cache(maxsize=256)  # calibrations are remembered
def _made(request: PrivacyRequest) -> Privatizer[Any, Any, Any]:
    if request.trust not in MECHANISMS:
        raise UnknownName("trust model", str(request.trust), MECHANISMS)
    require_count("episodes", request.episodes)
    require_count("users_per_batch", request.users_per_batch)
    _require_support(request)
    whole = request.trust in ("local", "shuffle") or (request.trust == "central" and request.asks is Totals)
    if request.whole and (not whole or is_plugin(request.mechanism)):
        raise NotSupported("whole numbers are asked of built-in noise of totals or of devices; remove whole")
    if request.mechanism is not None and is_plugin(request.mechanism):
        return _foreign(request, request.mechanism)
    if (request.asks, request.trust) not in PRIVATIZERS:
        *able, last = [trust for asked, trust in PRIVATIZERS if asked is request.asks]
        raise NotSupported(
            f"{request.asks.words()}: released under trust {', '.join(able)} or {last}, not {request.trust}; "
            "choose one of these, or another learner"
        )
    return PRIVATIZERS[request.asks, request.trust](request)


def _require_support(request: PrivacyRequest) -> None:
    """Raise where a support is declared to a privatizer that would release counters which cannot move."""
    if getattr(request.shape, "support", None) is None:
        return
    foreign = request.mechanism is not None and is_plugin(request.mechanism)
    if foreign or request.calibrated == "paper" or request.asks not in OVER_SUPPORT:
        able = " and ".join(asks.words() for asks in OVER_SUPPORT)
        raise NotSupported(
            f"a declared support is used for {able}, with built-in noise of the calibration 'tight', not for "
            f"{request.asks.words()} as asked; leave the support out, or use another learner, 'tight' or no mechanism"
        )


def _foreign(request: PrivacyRequest, name: str) -> Privatizer[Any, Any, Any]:
    """The privatizer of another package, if it is what its row says and what is asked for."""
    row = PLUGINS[name]
    if not isinstance(row, PrivatizerRow) or row.name != name:
        raise InvalidInput(
            f"the entry point '{name}' of tacit.release must be a PrivatizerRow of this name, got {row!r}"
        )
    if row.trust != request.trust or not issubclass(request.asks, row.answers):
        raise NotSupported(
            f"privatizer '{name}' answers {row.answers.words()} under trust '{row.trust}'; "
            f"it was asked for {request.asks.words()} under trust '{request.trust}'"
        )
    if not request.unit.one:
        raise NotSupported(f"privatizer '{name}' of another package describes one report per person; leave several out")
    made = row.build(request)
    kept = made.claim.trust == row.trust and issubclass(request.asks, made.answers)
    require(kept, f"privatizer '{name}' must claim the trust and answer the queries of its row", made.name)
    return made


def _claimed(request: PrivacyRequest) -> tuple[CountShape, PrivacyClaim, Calibration, str]:
    """Shape, claim, calibration and mechanism of a request for counts."""
    shape: CountShape = _sized(request)
    calibration, claim = request.calibrated, make_claim(request)
    return shape, claim, calibration, _mechanism(request, calibration)


def _sized(request: PrivacyRequest) -> CountShape:
    shape: CountShape = request.shape
    for size in ("horizon", "num_states", "num_actions"):
        require_count(size, getattr(shape, size))
    return shape


def _open(request: PrivacyRequest) -> PrivacyClaim:
    """The claim of whoever protects nobody: nothing may be asked of it."""
    require(request.unit.one, "reports_per_person requires a trust model other than 'none'", request.unit)
    for option in ("epsilon", "delta", "mechanism"):
        require(
            getattr(request, option) is None,
            f"{option} requires a trust model other than 'none'",
            getattr(request, option),
            "choose trust central, shuffle or local, or leave it out",
        )
    return no_privacy()


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
        candidates = [name for name in able if TABLE[name].candidate]
        return _quietest(request, candidates) if candidates else able[0]
    row = mechanism_row(request.trust, request.mechanism)
    if pure and not row.pure:
        raise NotSupported(
            f"{request.mechanism} noise is never pure (delta 0); give a delta such as 1e-6"
            + (f", or use {able[0]}" if able else ", or choose trust central or local")
        )
    return request.mechanism


def _quietest(request: PrivacyRequest, candidates: list[str]) -> str:
    """The local mechanism whose transitions vary least where a pair (s,a) has its even share of the users."""
    claim, shape = make_claim(request), request.shape
    encoding = _encoding(request, "tight")
    pairs, steps = shape.num_states * shape.num_actions, 1 if shape.staged else shape.horizon

    def noise(name: str) -> tuple[float, float]:
        made = _randomized(request, claim, "tight", name)
        moved = made.transition.typical_variance(pairs, max(1, steps - 1))
        # A single step has no transitions; who sends one slot of several must not gain by that.
        alone = shape.horizon == 1 and made.transition.weight == 1.0
        return 0.0 if alone else moved, made.outcome.typical_variance(pairs, steps)

    return min((name for name in candidates if encoding in randomizer_named(name).ENCODINGS), key=noise)


def _encoding(request: PrivacyRequest, calibration: Calibration) -> Encoding:
    """What a device or a curator counts: as printed three families, else complements; squares if asked for."""
    if request.squares:
        return "squares"
    return "families" if calibration == "paper" else "complement"


def _unprotected(request: PrivacyRequest) -> Unprotected:
    _sized(request)
    _open(request)
    return Unprotected(shape=request.shape, batches=() if request.asks is BatchQuery else None)


def _central(request: PrivacyRequest) -> Central | Staged:
    if request.whole:
        plan, users = TotalsPlan.of(request, least=Fraction(1)), request.users_per_batch
        stage = StageSize(target=users, least=users, query=TOTALS)
        return Staged(channels=plan.channels([stage] * plan.releases), basis=plan)
    shape, claim, calibration, mechanism = _claimed(request)
    row = mechanism_row("central", mechanism)
    ends: tuple[int, ...] | None = None
    encoding: Encoding = "families" if calibration == "paper" else "complement"
    families = count_families(shape, encoding)
    counter: ContinualCounter | None = None
    steps = max(2, math.ceil(request.episodes / request.users_per_batch))
    if row.growth is not None:
        require(calibration == "tight", "no paper prints batched central counters", calibration, "use 'tight'")
        episodes = max(2, request.episodes)
        ends = geometric_ends(episodes, first=max(1, min(FIRST_BATCH, episodes // 16)), growth=row.growth)
        releases = len(ends)
    elif calibration == "paper":
        require(row.printed, "the papers count with laplace-tree", mechanism, "leave the mechanism out")
        # b = 3H ⌈log₂ K⌉ / ε in each family; the plain Binary Mechanism serves counts ([bai2024adversarial] Sec. 5.1)
        scale = 3.0 * shape.horizon * tree_levels(steps) / claim.epsilon
        counter = LaplaceTree(steps=steps, release_final=False, scale=scale, padded=False)
    else:
        # Prefixes 1..K-1 are released: the data of the last user are of use to nobody.
        releases = steps - 1

    def made(epsilon: float) -> Central:
        return Central(
            shape=shape,
            claim=claim,
            calibration=calibration,
            encoding=encoding,
            counter=counter or counter_named(mechanism).for_releases(families, epsilon, claim.delta, releases),
            mechanism=mechanism,
            ends=ends,
        )

    return _for_unit(claim, made)


def _shuffled(request: PrivacyRequest) -> Staged:
    """Running totals: every batch is a stage of one size."""
    users = request.users_per_batch
    require(users > 1, "shuffling needs batches of more than one user", users, "set a batch size such as 1000")
    require(users <= request.episodes, "a batch cannot be larger than the number of episodes", users)
    plan = _shuffle_plan(request, users)
    return Staged(
        channels=(plan.release_of(StageSize(target=users, least=users, query=TOTALS)),), basis=plan, repeated=True
    )


def _shuffled_batches(request: PrivacyRequest) -> Staged:
    """Batches of any size, until the learner has planned them."""
    return Staged(channels=(), basis=_shuffle_plan(request, None), batches=())


def _shuffle_plan(request: PrivacyRequest, users_per_batch: int | None) -> ShufflePlan:
    """Everybody who is planned for reports, so blocks hold everything: nothing is taken off delta."""
    shape, claim, calibration, _ = _claimed(request)
    return ShufflePlan(
        claim=claim,
        shape=shape,
        honest=request.honest_fraction,
        kind=_bit_kind(request),
        users_per_batch=users_per_batch,
        overflow=0.0,
        calibration=calibration,
        variant=request.variant,
        most_bits=None if users_per_batch is None else MAX_BITS,
    )


def _bit_kind(request: PrivacyRequest) -> BitKind | None:
    """The noise bits that are named; None: the least noise of all (`tight`), or what is printed."""
    if request.mechanism is None:
        return None
    row, name = mechanism_row("shuffle", request.mechanism), cast("BitKind", request.mechanism)
    if request.calibrated == "paper" and not row.printed:
        raise NotSupported(f"no paper prints {name} noise; use the calibration 'tight', or leave the mechanism out")
    return name


def _central_batches(request: PrivacyRequest) -> CentralBatches:
    shape, calibration, claim = _sized(request), request.calibrated, make_claim(request)
    require(calibration == "tight", "no paper prints central batches", calibration, "use 'tight'")
    if claim.pure:
        raise NotSupported("central batches carry Gaussian noise, which is never pure (delta 0); give a delta")
    best: Correlation = "correlated" if request.unit.one else "fresh"
    known: Mapping[str | None, Correlation] = {None: best, "correlated": "correlated", "batched": "fresh"}
    if request.mechanism not in known:
        raise UnknownName("mechanism of central batches", str(request.mechanism), ("correlated", "batched"))
    return CentralBatches.calibrated(shape, claim, known[request.mechanism])


def _local(request: PrivacyRequest) -> Local:
    if request.whole and request.calibrated != "tight":
        raise NotSupported("stages of a study have the least noise; remove the calibration, or use 'tight'")
    # The mechanism is the quietest one of simulations, whatever the noise on the integers is.
    _, claim, calibration, mechanism = _claimed(replace(request, whole=False))
    if request.whole and mechanism not in RANDOMIZERS:
        raise UnknownName("local mechanism with an exact integer form", mechanism, RANDOMIZERS)
    return _randomized(request, claim, calibration, mechanism)


@lru_cache(maxsize=256)  # the quietest mechanism is sought and then built
def _randomized(request: PrivacyRequest, claim: PrivacyClaim, calibration: Calibration, mechanism: str) -> Local:
    encoding = _encoding(request, calibration)
    kind, shape, delta = randomizer_named(mechanism), request.shape, claim.delta
    choice, (name, chosen) = mechanism_row("local", mechanism).choice, read_mechanism(mechanism)
    if chosen is not None:
        require(calibration == "paper", f"'{mechanism}' chooses among printed noises", calibration, "use 'paper'")
        require(not request.squares, f"{name} is not printed for squares of rewards", request.squares)

    def made(outcome: Randomizer, transition: Randomizer) -> Local:
        return Local(
            shape=shape,
            claim=claim,
            calibration=calibration,
            encoding=encoding,
            outcome=outcome,
            transition=transition,
        )

    if chosen is not None and choice is not None:
        return made(*choice.build(shape, claim.epsilon, delta, chosen))
    if calibration == "paper":
        return made(*kind.paper(shape, claim.epsilon, delta, squares=request.squares))
    families, g = count_families(shape, encoding), claim.unit.reports
    found = made(*_for_reports(kind, shape, families, claim, request.whole))
    if g > 1 and not request.whole and epsilon_of(found.events(), delta) > claim.epsilon:
        # Noise of another package that does not cover g times the counters: so much of epsilon for every report.
        return _for_unit(claim, lambda epsilon: made(*kind.tight(shape, families, epsilon, delta)))
    return found


def _for_reports(
    kind: Any, shape: CountShape, families: tuple[Family, ...], claim: PrivacyClaim, whole: bool
) -> tuple[Randomizer, Randomizer]:
    """The least noise under which all messages of one person together keep the claim; `whole`: on the integers.

    g messages     g times the counters under the same noise; one slot: the largest ε₁ with g pure ε₁ within the claim
    """
    epsilon, delta, g = claim.epsilon, claim.delta, claim.unit.reports
    if issubclass(kind, OneSlot):
        vectors = Family(name="slots", up=g, down=g, shift=1.0)
        each = epsilon if g == 1 else UnaryEncoding.calibrate((vectors,), epsilon, delta).epsilon
        outcome, transition = kind.tight(shape, families, each, delta)
        return outcome, transition
    many = tuple(replace(family, up=g * family.up, down=g * family.down) for family in families)
    if whole and "discrete" in kind.__dataclass_fields__:
        outcome = transition = kind.calibrate(many, epsilon, delta, discrete=True)
    else:
        outcome, transition = kind.tight(shape, many, epsilon, delta)
    return outcome, transition


def _for_unit(claim: PrivacyClaim, made: Callable[[float], P]) -> P:
    """The privatizer with this claim and the least noise for its unit; `made(ε₁)` has the noise of one report at ε₁."""
    if claim.unit.one:
        return made(claim.epsilon)
    return largest_report_epsilon(made, lambda found: found.events(), claim.epsilon, claim.delta)


def _promised(request: PrivacyRequest, output: Output | None = None) -> PrivacyClaim:
    """The claim of a request, or that of whoever protects nobody."""
    return _open(request) if request.trust == "none" else make_claim(request, output=output)


def _losses(request: PrivacyRequest) -> AdversarialPrivatizer:
    claim = _promised(request)
    if request.mechanism is not None:
        raise NotSupported(f"counts and losses have one mechanism per trust model; leave {request.mechanism} out")
    if request.users_per_batch != 1:
        raise NotSupported("users come one by one where losses are released; leave the batch out")
    if request.feedback is None:
        raise InvalidInput("a request for losses must say their feedback, 'full' or 'bandit'")
    return make_adversarial(
        shape=request.shape,
        claim=claim,
        episodes=request.episodes,
        feedback=request.feedback,
        calibration=request.calibrated,
        public_losses=request.public_losses,
        known_transitions=request.known_transitions,
    )


def _gradients(request: PrivacyRequest) -> GradientPrivatizer:
    private = request.trust != "none"
    if private and request.mechanism not in (None, "gaussian"):
        raise NotSupported(f"gradients are released with gaussian noise, not with {request.mechanism}")
    if request.gradient is None:
        raise InvalidInput("a request for gradients must say what they are made of (gradient=GradientSpec(...))")
    if private and (request.epsilon is None or not request.delta):
        raise InvalidInput("a private gradient needs an epsilon and a delta above 0 (Gaussian noise is never pure)")
    # DP of the final policy, which comes with joint DP of the online run.
    claim = _promised(request, output="final-policy")
    calibration: Calibration = request.calibrated if private else "none"
    return make_gradients(request.shape, claim, calibration, request.users_per_batch, request.gradient)


def _returns(request: PrivacyRequest) -> OneBitReturns:
    claim, shape = make_claim(request), _sized(request)
    require(request.calibrated == "tight", "no paper prints one-bit returns", request.calibrated, "use 'tight'")
    if request.mechanism not in (None, RandomizedResponse.NAME):
        raise NotSupported(f"bits about returns are sent by randomized response (rr), not with {request.mechanism}")

    def made(epsilon: float) -> OneBitReturns:
        return OneBitReturns(shape=shape, claim=claim, mechanism=RandomizedResponse(epsilon=epsilon))

    return _for_unit(claim, made)


def _open_returns(request: PrivacyRequest) -> OneBitReturns:
    return OneBitReturns(shape=_sized(request), claim=_open(request), mechanism=None)


def _vectors(request: PrivacyRequest) -> Staged | PrintedMoments:
    """Stages of a statistic, until the learner has planned them; blocks hold everything: nothing is taken off delta."""
    if request.calibrated == "paper" and request.asks is MomentQuery and request.trust != "none":
        return printed_moments(request)
    if request.mechanism is not None or request.calibrated != "tight":
        raise NotSupported(
            f"{request.asks.words()} have one noise per trust model, the least: remove the mechanism, or use 'tight'"
        )
    claim = _promised(request)
    plan = VectorPlan(claim=claim, shape=request.shape, asks=request.asks, honest=request.honest_fraction, overflow=0.0)
    return Staged(channels=(), basis=plan, batches=())


PRIVATIZERS: Final[Mapping[tuple[type[Query], Trust], Factory]] = {
    (Totals, "none"): _unprotected,
    (Totals, "central"): _central,
    (Totals, "shuffle"): _shuffled,
    (Totals, "local"): _local,
    (BatchQuery, "none"): _unprotected,
    (BatchQuery, "central"): _central_batches,
    (BatchQuery, "shuffle"): _shuffled_batches,
    (LossQuery, "none"): _losses,
    (LossQuery, "central"): _losses,
    (LossQuery, "local"): _losses,
    (SoftmaxQuery, "none"): _gradients,
    (SoftmaxQuery, "central"): _gradients,
    (DoseQuery, "none"): _gradients,
    (DoseQuery, "central"): _gradients,
    (ReturnQuery, "none"): _open_returns,
    (ReturnQuery, "local"): _returns,
    **{(row.ASKS, trust): _vectors for row in STATISTICS.values() for trust in MECHANISMS},
}
"""Who answers which query under which trust model."""

OVER_SUPPORT: Final[tuple[type[Query], ...]] = (Totals, BatchQuery)
"""What is released over the counters that can move only, where a support is declared; everything else refuses."""
