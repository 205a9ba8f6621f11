"""The statistical rules of the conformance suite: the noise is there, as large as stated, fresh and independent.

Every rule works on standardized noise: released minus exact, divided by what is stated, so that it has mean 0 and
variance 1. For continual counters the stated covariance over time is taken out as well (a Cholesky factor), so that
fresh draws must come out. With m comparisons at a false-alarm rate α for all together (Lemma K1 (too little noise),
Lemma K2 (fair signs)):

    too little    mean(z²) < 1 − √(2κ ln(m/α)/N)            P ≤ α/m for independent z of kurtosis κ, by E e^{−λz²}
    too much      mean(z²) > (1 + 2√(2κ ln(m/α)/N)) · stated extra       (normal approximation, with room)
    a mean        |Σ z| > √(2 ln(2m/α) Σ z²)                P ≤ α/m for symmetric z: given |z|, the signs are fair coins
    dependence    |Σ zz'| > √(2 ln(2m/α) Σ z²z'²)           P ≤ α/m likewise
    two paths     Kolmogorov-Smirnov, p < α/m               conservative for lattices
    precision     more values outside than Binomial(N, p) has with probability α/m

κ is what the data say, and at least that of Laplace noise, 6. Power: with the default 300 replicates a noise scale 25%
off is found in every family (the tests prove it), one counter without noise, with half of it or with another's, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tacit.arrays import Floats
from tacit.audit.count_probe import CountProbe, counted, counts_of, exact_counts, one_user, stacked
from tacit.audit.exposure import own_covariance
from tacit.audit.probes import PREFIXES
from tacit.release.counts_contract import count_precision
from tacit.release.local import Local
from tacit.release.shuffle_release import ShuffleRelease
from tacit.release.staged import Staged
from tacit.released.precision import CELL, REWARD, VISIT, now_radius, sum_radius

Path = Literal["messages", "aggregate"]

_CROWD = 20  # users per local batch: enough that sums of bits are spread out
_COLUMNS = {"transitions": 0, "visits": 1}  # of the stated variances; all others go with the rewards
_FAILURE = 0.02  # of a radius under examination


class Sample(NamedTuple):
    """Standardized noise of repeated releases."""

    values: Floats
    """[replicates, releases, counters]: mean 0 and variance 1 if all is as stated."""
    extra: Floats
    """[counters]: the largest total variance that is stated, in units of the noise variance."""
    filled: NDArray[np.bool_]
    """[counters]: whether the counter counts anybody."""
    parts: dict[str, slice]
    """Where the counters of each family stand."""
    errors: Floats
    """[replicates, releases, counters]: the noise as it was released."""
    stated: Floats
    """[3]: the noise variance that came with one release, of transitions, visits and rewards."""


def sampled(probe: CountProbe, path: Path) -> Sample:
    """Releases of a crowd that all do the same, again and again with fresh noise."""
    privatizer, shape = probe.privatizer, probe.shape
    counter, families = getattr(privatizer, "counter", None), privatizer.families()
    # Local users come in crowds; all others as the schedule says.
    single = counter is None and probe.batch_size == 1
    releases = 2 if counter is None else min(probe.steps, PREFIXES)
    users = [_CROWD if single else probe.users_at_step(k if counter is not None else 0) for k in range(releases)]
    one = one_user(shape, state=0, action=0, reward=1.0)
    one.rewards[:, ::2] = 0.0
    batches = [stacked([one] * count) for count in users]
    given = batches if path == "messages" else [counts_of(shape, batch) for batch in batches]
    exact = counted(families, shape, exact_counts(shape, one))
    names = [family.name for family in families if exact[family.name].size > 0]
    truth = np.concatenate([exact[name] for name in names])
    raw = np.empty(
        (probe.replicates if path == "aggregate" else probe.affordable(probe.replicates), releases, len(truth))
    )
    for i, rows in enumerate(raw):
        state, noise = privatizer.begin(), probe.noise(1000 + i)
        for row, batch in zip(rows, given, strict=True):
            state, private = privatizer.release(state, batch, probe.asked(0), noise)
            released = private.statistics
            found = counted(families, shape, released)
            row[:] = np.concatenate([found[name] for name in names])
    ends = np.cumsum([exact[name].size for name in names]).tolist()
    parts = {name: slice(end - exact[name].size, end) for name, end in zip(names, ends, strict=True)}
    raw -= truth * np.cumsum(users)[:, np.newaxis]
    scale, extra, filled = np.ones(len(truth)), np.ones(len(truth)), truth > 0.0
    if counter is not None:
        fresh = np.linalg.solve(np.linalg.cholesky(own_covariance(counter, releases)), raw)
        return Sample(fresh, extra, filled, parts, raw, released.variance)
    std, stated = privatizer.noise_std(), released.variance / releases
    for name, part in parts.items():
        column = _COLUMNS.get(name, 2)
        noise_std = std.get(name, std["rewards"]) * (_CROWD**0.5 if single else 1.0)
        scale[part], extra[part] = noise_std, stated[column] / noise_std**2
    increments = np.diff(raw, axis=1, prepend=0.0)
    # Where nobody is counted there is nothing but the noise.
    return Sample(increments / scale, np.where(filled, np.maximum(extra, 1.0), 1.0), filled, parts, increments, stated)


def variance(probe: CountProbe, sample: Sample) -> Iterator[str]:
    """Every counter has the stated noise: each one, each family, each release, and the sum over each family."""
    z, extra = sample.values, sample.extra
    replicates, releases, counters = z.shape
    kurtosis = max(6.0, float(np.mean(z**4)) / max(float(np.mean(z**2)) ** 2, 1e-300))
    tests = counters + releases + 2 * len(sample.parts)
    room = 2.0 * kurtosis * math.log(tests / probe.false_alarm)
    yield from _amiss("a release", np.mean(z**2, axis=(0, 2)), float(extra.mean()), room / (replicates * counters))
    for name, part in sample.parts.items():
        own, count = z[..., part], part.stop - part.start
        each = np.mean(own**2, axis=(0, 1)) / np.array([np.ones(count), extra[part]])  # against the least, the most
        yield from _amiss(f"a counter of {name}", each, 1.0, room / (replicates * releases))
        whole = np.mean(own**2, keepdims=True)
        yield from _amiss(name, whole, float(extra[part].mean()), room / (replicates * releases * count))
        empty = own[..., ~sample.filled[part]]
        if empty.shape[2] > 1 and not probe.subsets:
            together = np.mean(empty.sum(axis=2, keepdims=True) ** 2, keepdims=True) / empty.shape[2]
            yield from _amiss(f"the sum over {name}", together, 1.0, room / (replicates * releases))


def _amiss(name: str, ratio: Floats, most: float, room: float) -> Iterator[str]:
    """Variances in units of the stated ones; two rows are two opinions on the same counters, the least and the most."""
    low, high = (ratio[0], ratio[1]) if ratio.ndim == 2 else (ratio.ravel(), ratio.ravel())
    if not low.min(initial=1.0) >= 1.0 - math.sqrt(room):
        yield f"{name} has only {low.min():.3g} of the stated noise variance"
    if not high.max(initial=1.0) <= most * (1.0 + 2.0 * math.sqrt(room)):
        yield f"{name} has {high.max():.3g} times the stated noise variance"


def independent(probe: CountProbe, sample: Sample) -> Iterator[str]:
    """Noise is shared neither between counters nor between releases."""
    replicates, releases, counters = sample.values.shape
    flat = sample.values.reshape(replicates, -1)
    tests = (releases * counters) ** 2 + counters**2 + releases**2
    bound = math.sqrt(2.0 * math.log(2.0 * tests / probe.false_alarm))
    # Sending one slot makes counts depend on each other, and only counts: pairs with an empty counter do not.
    spared = np.outer(sample.filled, sample.filled) if probe.one_slot else np.eye(counters, dtype=bool)
    # Subsets have a fixed size: there only positive dependence is amiss.
    one_sided = probe.subsets
    pairs = _scores(flat, positive=one_sided)
    if probe.one_slot:
        pairs = pairs * ~np.tile(spared, (releases, releases))
    if pairs.max(initial=0.0) > bound:
        yield "the noise of two counters or of two releases depends on each other"
    across = _scores(sample.values.reshape(-1, counters), positive=one_sided) * ~spared
    if across.max(initial=0.0) > bound:
        yield "two counters share noise"
    if _scores(np.moveaxis(sample.values, 1, 2).reshape(-1, releases)).max(initial=0.0) > bound:
        yield "two releases share noise"


def unbiased(probe: CountProbe, sample: Sample) -> Iterator[str]:
    """What is released has the exact counts for its mean."""
    values = sample.values
    tests = values.shape[2] + 2
    bound = math.sqrt(2.0 * math.log(2.0 * tests / probe.false_alarm))
    groups = [values, values[..., sample.filled].reshape(-1, 1, 1), values[..., ~sample.filled].reshape(-1, 1, 1)]
    for name, group in zip(("a counter", "the counted", "the empty counters"), groups, strict=True):
        root = np.sqrt((group**2).sum(axis=(0, 1)))
        score = np.abs(group.sum(axis=(0, 1))) / np.where(root > 0.0, root, 1.0)
        if score.max(initial=0.0) > bound:
            yield f"{name} is biased"


def paths(probe: CountProbe, messages: Sample, aggregate: Sample) -> Iterator[str]:
    """Real messages and the aggregate path have the same distribution."""
    for name, part in messages.parts.items():
        for kind, chosen in (("empty", ~messages.filled[part]), ("filled", messages.filled[part])):
            # Rounded, because the same lattice point may be reached by sums in another order.
            one, other = (sample.values[..., part][..., chosen].round(9).ravel() for sample in (messages, aggregate))
            if len(one) and stats.ks_2samp(one, other, method="asymp").pvalue < probe.false_alarm / 8:
                yield f"{kind} counters of {name} are distributed differently as messages and in aggregate"


def precise(probe: CountProbe, sample: Sample) -> Iterator[str]:
    """The stated radii cover the noise as often as they say."""
    for name, part in sample.parts.items():
        errors = np.abs(sample.errors[..., part])
        for radius in _radii(probe.privatizer, name, sample.stated):
            outside = int(np.sum(errors > radius))
            if stats.binom.sf(outside - 1, errors.size, _FAILURE) < probe.false_alarm / (2 * len(sample.parts)):
                yield f"{outside / errors.size:.3g} of the noise in {name} leaves a radius for {_FAILURE}"


def _radii(privatizer: Any, name: str, variance: Floats) -> Iterator[float]:
    """The radii that are stated for one release of a sample with failure probability `_FAILURE`."""
    log_term = math.log(2.0 / _FAILURE)
    yield float(now_radius(count_precision(privatizer), variance, _COLUMNS.get(name, 2), log_term))
    if isinstance(privatizer, Local):
        statistic = {"transitions": CELL, "visits": VISIT}.get(name, REWARD)
        yield float(sum_radius(privatizer.precision(), statistic, float(_CROWD), log_term))
    elif hasattr(privatizer, "counter"):
        yield float(privatizer.counter.radius(_FAILURE))
    elif isinstance(privatizer, Staged) and privatizer.repeated and privatizer.shape.staged:
        stage = privatizer.first
        if isinstance(stage, ShuffleRelease):
            yield float(stage.law(stage.target).radius(_FAILURE))


def _scores(columns: Floats, *, positive: bool = False) -> Floats:
    """|Σ zz'| / √(Σ z²z'²) for every two columns, or with its sign; 0 on the diagonal."""
    products, roots = columns.T @ columns, np.sqrt((columns**2).T @ (columns**2))
    sums = products if positive else np.abs(products)
    scores = np.where(roots > 0.0, sums / np.where(roots > 0.0, roots, 1.0), 0.0)
    np.fill_diagonal(scores, 0.0)
    return np.asarray(scores)
