"""Every noise primitive under its worst pair of neighbours, attacked with the exact likelihood ratio.

The worst pair (Lemma S1 (full pattern)) moves half of the `differing` counters up and half down, by one.
For a continual counter it replaces the first of `steps` users, and the adversary sees all prefixes. The noise is drawn
by the mechanism's own vectorised sampler: a million trials take seconds.

G1  A mechanism that is as stated is called refuted with probability at most `false_alarm`.
G2  With 10⁶ trials the attack proves at least 0.8 of the certified epsilon for Laplace, Gaussian and binomial noise and
    for randomized response (for small epsilon at delta = 1e-6 through the trade-off curve, see `tacit.audit.bounds`).
G3  Where the output is discrete, the exact epsilon by enumeration stands beside it (two differing counters).

The best known distinguisher on the whole output of a continual counter: every prefix it ever publishes, at once.

The noise of the prefixes is V = B z with independent draws z (B is read off the counter's own kernel). One replaced
user moves the prefixes by a known path. If B is square, z = B⁻¹ V comes back exactly, and the likelihood ratio is that
of independent draws; otherwise the best linear score is used, which is exact for Gaussian noise:

    score = aᵀ Σ⁻¹ (V − a/2),        a = the moved prefixes, Σ = B Bᵀ Var z

The shuffle transcript (`audit_messages`) as an attacker sees it: all messages in their order, their sizes, and how many
everybody sent. Four distinguishers share the false-alarm rate of an audit:

    values   the largest message on a counter that only the replaced user can have raised
    counts   how many messages the replaced user sent
    order    what the first messages of the transcript say about the replaced user, who came first
    sums     the exact likelihood ratio of the number of ones per counter, which is all that may be seen

[bai2024shuffle] and [bai2025secure] print a protocol whose messages are integers z = y + noise, one per user and
counter. On a counter where nobody else has a one, a message of m + 1 proves y = 1: with probability 2⁻ᵐ, whatever
epsilon is (`IntegerMessages` is that protocol). tacit sends every bit as a message of its own.

G4  The protocol of single bits is called refuted with probability at most `false_alarm`.
G5  Integer messages, messages that are not padded and messages in their order are refuted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tacit.accounting.calibrate import events_of
from tacit.accounting.families import Family
from tacit.arrays import Floats
from tacit.audit.attack import Finding, Target, attack
from tacit.audit.bounds import exact_epsilon
from tacit.audit.exposure import noise_map, own_covariance
from tacit.audit.records import canaries
from tacit.data.trajectories import Trajectories, Trajectory
from tacit.errors import NotSupported, UnknownName, require, require_count
from tacit.noise.binomial import Binomial
from tacit.noise.bounded import Bounded
from tacit.noise.continual.accumulated import AccumulatedNoise
from tacit.noise.continual.counter import sample_path
from tacit.noise.continual.factorization import BufferedToeplitz
from tacit.noise.continual.kary_tree import KaryTree
from tacit.noise.continual.tree import LaplaceTree
from tacit.noise.gaussian import Gaussian
from tacit.noise.laplace import Laplace
from tacit.noise.mirrored import Mirrored
from tacit.noise.one_slot import bit_ratio
from tacit.noise.randomized_response import RandomizedResponse
from tacit.noise.subset_selection import SubsetSelection
from tacit.noise.unary_encoding import UnaryEncoding
from tacit.randomness import SimulationNoise
from tacit.release.shuffle.roles import permuted
from tacit.release.shuffle_release import ShuffleRelease
from tacit.release.stage import NoSecret


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class StreamScore:
    """A distinguisher on prefixes 1..steps of independent counters."""

    draws: Laplace | None
    """The law of one draw where it can be recovered and is not Gaussian; None: the linear score."""
    unmix: Floats
    """[steps, steps]: B⁻¹, or Σ⁻¹ for the linear score."""

    def __call__(self, noise: Floats, moved: Floats) -> Floats:
        """Scores of trials: `noise`[trials, steps, counters] against prefixes that `moved`[steps, counters]."""
        if self.draws is None:
            weights = self.unmix @ moved
            return np.asarray(np.einsum("nkc,kc->n", noise - 0.5 * moved, weights, optimize=True))
        recovered = np.einsum("jk,nkc->njc", self.unmix, noise, optimize=True)
        shift = self.unmix @ moved
        touched = np.abs(shift) > 1e-9
        return np.asarray(self.draws.log_ratio(recovered[:, touched], shift[touched]).sum(axis=1))


def stream_score(counter: Any, steps: int) -> StreamScore:
    """The distinguisher for the first `steps` prefixes of a counter.

    >>> tree = LaplaceTree(steps=8, release_final=False, scale=3.0)
    >>> score = stream_score(tree, 7)
    >>> first = np.ones((7, 1))                      # replacing the first user moves every prefix
    >>> round(float(score(np.zeros((1, 7, 1)), first)[0]), 9), round(float(score(9 * first[np.newaxis], first)[0]), 9)
    (-1.0, 1.0)
    """
    rows = noise_map(counter, steps)
    used = np.abs(rows).max(axis=0, initial=0.0) > 0.0
    rows = rows[:, used]
    square = rows.shape[0] == rows.shape[1] and np.linalg.matrix_rank(rows) == steps
    law = _draws(counter)
    if square and law is not None:
        return StreamScore(draws=law, unmix=np.asarray(np.linalg.inv(rows)))
    return StreamScore(
        draws=None, unmix=np.asarray(np.linalg.pinv(own_covariance(counter, steps), rcond=1e-10, hermitian=True))
    )


def _draws(counter: Any) -> Laplace | None:
    """The law of one fresh draw, where it is Laplace noise."""
    if isinstance(counter, LaplaceTree | KaryTree) or (isinstance(counter, AccumulatedNoise) and counter.pure):
        return Laplace(scale=counter.scale, discrete=False)
    return None


Families = tuple[Family, ...]

ONE_RELEASE: Final[Mapping[str, Callable[[Families, float, float], Any]]] = {
    "laplace": Laplace.calibrate,
    "discrete-laplace": lambda families, epsilon, delta: Laplace.calibrate(families, epsilon, delta, discrete=True),
    "gaussian": Gaussian.calibrate,
    "discrete-gaussian": lambda families, epsilon, delta: Gaussian.calibrate(families, epsilon, delta, discrete=True),
    "binomial": Binomial.calibrate,
    "mirrored-binomial": Mirrored.calibrate,
    "rr": RandomizedResponse.calibrate,
    "oue": UnaryEncoding.calibrate,
    "subset": lambda families, epsilon, delta: SubsetSelection.calibrate(families, epsilon, delta, cells=CELLS),
    "bounded": Bounded.calibrate,
}
"""Noise for one release, calibrated to (families, epsilon, delta)."""

CONTINUAL: Final[Mapping[str, type[Any]]] = {
    "laplace-tree": LaplaceTree,
    "kary-tree": KaryTree,
    "factorization": BufferedToeplitz,
    "accumulated": AccumulatedNoise,
}
"""Counters that publish after every user but the last."""

AUDITED_MECHANISMS: Final = (*ONE_RELEASE, *CONTINUAL)
"""What can be attacked, by name."""

PURE: Final = ("laplace", "discrete-laplace", "rr", "oue", "subset", "laplace-tree", "kary-tree", "accumulated")
"""Those that can have delta = 0."""

CELLS: Final = 8
"""Of the slot from which a subset is selected."""

_CHUNK: Final = 4_000_000  # numbers that are drawn at once


def audit_mechanism(
    name: str,
    *,
    epsilon: float,
    delta: float,
    trials: int = 1_000_000,
    differing: int = 2,
    steps: int = 8,
    false_alarm: float = 0.01,
    seed: int = 0,
) -> Finding:
    """Attack one mechanism, calibrated to (epsilon, delta).

    >>> found = audit_mechanism("rr", epsilon=1.0, delta=0.0, trials=20_000)
    >>> found.verdict, found.attacked > 0.8, round(found.exact, 6)
    ('holds', True, 1.0)
    """
    n = require_count("differing", differing)
    mechanism = calibrated_mechanism(name, epsilon=epsilon, delta=delta, differing=n, steps=steps)
    family = _family(n)
    target = Target(
        kind="mechanism",
        name=name,
        trust="-",
        calibration="tight",
        view="all prefixes" if hasattr(mechanism, "releases") else "all released counters",
        claimed=epsilon,
        delta=delta,
        events=events_of(mechanism, (family,)),
    )
    first, second = mechanism_scores(mechanism, family, trials, seed)
    exact = _enumerated(mechanism, family, delta)
    return attack(target, first, second, false_alarm=false_alarm, exact=exact, note=f"{n} differing counters")


def calibrated_mechanism(name: str, *, epsilon: float, delta: float, differing: int = 2, steps: int = 8) -> Any:
    """The noise of this name for so many differing counters, or for all prefixes of so many users."""
    if name not in AUDITED_MECHANISMS:
        raise UnknownName("mechanism", name, AUDITED_MECHANISMS)
    if delta == 0.0 and name not in PURE:
        raise NotSupported(f"{name} noise is never pure (delta 0); give a delta such as 1e-6")
    n = require_count("differing", differing)
    require_count("steps", steps, least=2)
    require(name not in ("oue", "subset") or n == 2, "one slot is one one-hot vector: two bits differ", n)
    if name in ONE_RELEASE:
        return ONE_RELEASE[name]((_family(n),), epsilon, delta)
    return CONTINUAL[name].for_releases((_family(n),), epsilon, delta, steps - 1)


def _family(differing: int) -> Family:
    return Family(name="counters", up=differing - differing // 2, down=differing // 2, shift=1.0)


def mechanism_scores(mechanism: Any, family: Family, trials: int, seed: int) -> tuple[Floats, Floats]:
    """Log-likelihood ratios of so many releases in each of the two worlds."""
    size = require_count("trials", trials, least=10)
    shift = family.shift * np.concatenate([np.ones(family.up), -np.ones(family.down)])
    noise = SimulationNoise(np.random.default_rng([seed, 9]))
    worlds: list[Floats] = []
    for world in (0, 1):
        parts = [
            _scores(mechanism, shift, count, noise, second=world == 1) for count in _chunks(mechanism, size, shift)
        ]
        worlds.append(np.concatenate(parts))
    return worlds[0], worlds[1]


def _chunks(mechanism: Any, trials: int, shift: Floats) -> Iterator[int]:
    most = max(10, _CHUNK // (len(shift) * int(getattr(mechanism, "releases", 1))))
    for start in range(0, trials, most):
        yield min(most, trials - start)


def _scores(mechanism: Any, shift: Floats, trials: int, noise: SimulationNoise, *, second: bool) -> Floats:
    size = (trials, len(shift))
    if isinstance(mechanism, SubsetSelection):
        # The true cell moves from 1 to 0; a subset with it and without the other is e^ε times as probable.
        sent = mechanism.randomize(np.full(trials, 0 if second else 1), noise)
        return np.asarray(mechanism.epsilon * (sent[:, 0] - sent[:, 1]), dtype=np.float64)
    if isinstance(mechanism, RandomizedResponse | UnaryEncoding):
        zero = np.broadcast_to(shift < 0.0, size)  # counters that go down were one
        one = ~zero
        sent, bits = mechanism.randomize(one if second else zero, noise) == 1, mechanism.parameters
        return np.asarray(bit_ratio(sent, zero, one, bits.keep, bits.rise).sum(axis=1))
    if not hasattr(mechanism, "releases"):
        values = mechanism.sample(size, noise) + (shift if second else 0.0)
        return np.asarray(mechanism.log_ratio(values, shift).sum(axis=1))
    steps = mechanism.releases
    path = sample_path(mechanism, trials * len(shift), noise)
    path = np.moveaxis(path.reshape(steps, *size), 0, 1)  # [trials, steps, counters]
    moved = np.broadcast_to(shift, (steps, len(shift)))  # the first user is in every prefix
    return stream_score(mechanism, steps)(path + (moved if second else 0.0), moved)


def _enumerated(mechanism: Any, family: Family, delta: float) -> float | None:
    """ε of one counter up and one down by enumeration of both distributions, where they are discrete."""
    if family.differing != 2:
        return None
    if isinstance(mechanism, SubsetSelection):
        # By what the subset says of the two cells: the first alone, the second alone, both or none.
        alone = mechanism.keep - mechanism.keep * (mechanism.size - 1) / (mechanism.cells - 1)
        other = alone * math.exp(-mechanism.epsilon)
        was, became = np.log([[other, alone, 1.0 - alone - other], [alone, other, 1.0 - alone - other]])
        return exact_epsilon(was, became, delta)
    if isinstance(mechanism, RandomizedResponse | UnaryEncoding):
        bits = mechanism.parameters
        was, became = np.log([1.0 - bits.rise, bits.rise]), np.log([1.0 - bits.keep, bits.keep])
        return exact_epsilon(_pair(was, became), _pair(became, was), delta)
    masses = _masses(mechanism)
    # One counter goes up, the other one down: (0, 1) against (1, 0).
    return None if masses is None else exact_epsilon(_pair(*masses), _pair(*reversed(masses)), delta)


def _masses(mechanism: Any) -> tuple[Floats, Floats] | None:
    """The log masses of a counter that stays and of one that goes up, on the same integers, far enough out."""
    if isinstance(mechanism, Binomial) and mechanism.bits <= 4000:
        k = np.arange(mechanism.bits + 2)
        law = stats.binom(mechanism.bits, mechanism.probability)
        return np.asarray(law.logpmf(k)), np.asarray(law.logpmf(k - 1))
    if isinstance(mechanism, Mirrored) and mechanism.bits <= 4000:
        one = stats.binom(mechanism.bits, mechanism.probability).pmf(np.arange(mechanism.bits + 1))
        with np.errstate(divide="ignore"):
            logs = np.log(np.convolve(one, one[::-1]))
        return np.append(logs, -np.inf), np.insert(logs, 0, -np.inf)
    if isinstance(mechanism, Laplace | Gaussian) and mechanism.discrete and mechanism.std < 60.0:
        far = int((40 if isinstance(mechanism, Laplace) else 12) * mechanism.std + 20)
        z = np.arange(-far, far + 1, dtype=np.float64)
        stays, up = (
            -np.abs(x) / mechanism.scale if isinstance(mechanism, Laplace) else -0.5 * (x / mechanism.sigma) ** 2
            for x in (z, z - 1.0)
        )
        total = np.logaddexp.reduce(stays)
        return np.asarray(stays - total), np.asarray(up - total)
    return None


def _pair(one: Floats, other: Floats) -> Floats:
    """The log masses of two independent discrete outputs, flattened."""
    return np.asarray(np.add.outer(one, other).ravel())


DISTINGUISHERS: Final = ("values", "counts", "order", "sums")


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerMessages(ShuffleRelease):
    """As printed, and not private: one message per counter that carries y plus all noise bits of the user."""

    def encode(self, trajectory: Any, noise: Any) -> bytes:
        """One integer per counter, as label + (C + 1) · integer."""
        labels, C = np.frombuffer(ShuffleRelease.encode(self, trajectory, noise), dtype=self.labels), self._counters
        return (np.arange(C) + (C + 1) * np.bincount(labels, minlength=C + 1)[:C]).astype("<u4").tobytes()

    def shuffle(self, bodies: Sequence[bytes], noise: Any) -> NDArray[np.uint32]:
        """All integers in random order."""
        return permuted([np.frombuffer(body, dtype="<u4") for body in bodies], noise)

    def release(self, secret: NoSecret, bodies: Sequence[bytes], query: Any, noise: Any) -> tuple[NoSecret, bytes]:
        """Add the integers up."""
        labels, values = np.divmod(np.frombuffer(b"".join(bodies), dtype="<u4"), self._counters + 1)[::-1]
        sums = np.bincount(labels, weights=values, minlength=self._counters)
        return secret, sums.astype("<i8").tobytes()

    @property
    def _counters(self) -> int:
        return self.spec.num_counters


def as_printed(release: ShuffleRelease) -> IntegerMessages:
    """The same noise, sent as the papers print it."""
    return IntegerMessages(**{field.name: getattr(release, field.name) for field in fields(ShuffleRelease)})


def audit_messages(
    release: ShuffleRelease,
    *,
    epsilon: float,
    delta: float,
    trials: int = 2000,
    false_alarm: float = 0.01,
    seed: int = 0,
    name: str,
) -> Finding:
    """Attack the transcript of one batch; every message is real."""
    target = Target(
        kind="messages",
        name=name,
        trust="shuffle",
        calibration="-",
        view="the shuffled transcript",
        claimed=epsilon,
        delta=delta,
        events=release.events(),
    )
    scores = message_scores(release, trials, seed)
    each = false_alarm / len(DISTINGUISHERS)
    found = {
        view: attack(target, scores[0][:, i], scores[1][:, i], false_alarm=each, note=f"best seen in the {view}")
        for i, view in enumerate(DISTINGUISHERS)
    }
    order = {"CERTIFICATE REFUTED": 2, "claim refuted": 1, "holds": 0}
    best = max(found.values(), key=lambda finding: (order[finding.verdict], finding.attacked))
    return replace(best, confidence=1.0 - false_alarm)


def message_scores(release: ShuffleRelease, trials: int, seed: int) -> tuple[Floats, Floats]:
    """Scores [trials, distinguishers] of whole transcripts in two worlds."""
    worlds = canaries(release.shape, release.target)
    ones = [_totals(release, users) for users in worlds]
    moved = np.flatnonzero(ones[0] != ones[1])
    noise = SimulationNoise(np.random.default_rng([seed, 13]))
    found = []
    for users in worlds:
        rows = np.empty((trials, len(DISTINGUISHERS)))
        for row in rows:
            row[:] = _transcript_scores(release, users, ones[0], ones[1], moved, noise)
        found.append(rows)
    return found[0], found[1]


def _transcript_scores(
    release: ShuffleRelease,
    users: Trajectories,
    was: Floats,
    became: Floats,
    moved: NDArray[Any],
    noise: SimulationNoise,
) -> tuple[float, float, float, float]:
    rows = zip(users.states, users.actions, users.rewards, strict=True)
    bodies = [release.encode(Trajectory(*row), noise) for row in rows]
    C, sent = len(was), release.shuffle(bodies, noise)
    # A message is a label that stands for one bit, or C; as printed, a label and an integer.
    labels, values = (sent % (C + 1), sent // (C + 1)) if isinstance(release, IntegerMessages) else (sent, sent < C)
    up = moved[became[moved] > was[moved]]
    sign = np.zeros(C + 1)
    sign[moved] = np.sign(became[moved] - was[moved])
    largest = float(values[np.isin(labels, up)].max(initial=0))
    early = slice(0, len(sent) // len(bodies))  # the messages of the first body, if they are in their order
    order = float((sign[labels[early]] * values[early]).sum())
    totals = np.bincount(labels, weights=values, minlength=C)[:C]
    law = release.law(release.target)
    seen = totals[moved] - law.mean - was[moved]
    sums = float(np.clip(law.log_ratio(seen, became[moved] - was[moved]), -1e6, 1e6).sum())
    return largest, float(len(bodies[0])), order, sums


def _totals(release: ShuffleRelease, users: Trajectories) -> Floats:
    """How many ones each counter holds, without noise (rewards are 0 or 1)."""
    spec, total = release.spec, np.zeros(release.spec.num_counters)
    for states, actions, rewards in zip(users.states, users.actions, users.rewards, strict=True):
        np.add.at(total, spec.labels(states, actions, rewards.astype(np.int64)), 1.0)
    return total
