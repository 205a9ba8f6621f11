"""The general harness: rules about what is released, for every kind of privatizer and written for none of them.

    rule       what must hold                                                                    statistical
    fields     every released field is in the view; public ones are the same whoever is replaced  no
    shift      at replayed noise a user moves the same numbers by the same amounts                no
    measured   every number has the exact mean and the stated noise variance, a family no less    yes
    exposed    with the noise as measured, no linear distinguisher is better than the events admit   yes
    tails      extreme numbers come no more often for one user than for another than is certified   yes
    coins      who is sampled is drawn anew for every release, at the stated rate                 yes
    length     one sampled user adds no more than the sampled events say                          yes
    lattice    digits and residues of released numbers say no more about data than is certified   yes

Mean and variance are judged as in `tacit.audit.noise`. For the rest, with m comparisons at a false-alarm rate of α in
all: the variance of a fixed combination w·x of released numbers is at least that of Lemma K3 (linear distinguishers),

    Var(w·x) ≥ (w·d)² / admitted(events)        d = what the replaced user moves

and is refuted below (1 − √(2κ ln(m/α)/N)) times that (Lemma K1 (too little noise)); w is fixed, or chosen on other
releases. Participation of one user in two releases is compared by Fisher's exact test, and what one sampled user adds
by Lemma K4 (length by regression). A residue of a number, any digit from the tens to the eleventh decimal, is an event
like any other: (ε, δ)-privacy bounds how much more often it can come in one world than in the other, and bounds by
Clopper and Pearson say when it does (Lemma K5 (residues)). So no lattice is assumed, and a right certificate is never
refuted more often than stated. The same for extremes, which show whether the noise has the stated distribution where it
has the stated variance: noise that cannot be larger than something gives away whoever is beyond it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations
from typing import Any, Final

import numpy as np
from scipy import stats

from tacit.accounting.composition import epsilon_of
from tacit.arrays import Floats
from tacit.audit.attack import held_out, told_apart
from tacit.audit.bounds import Errors, event_epsilon
from tacit.audit.exposure import admitted
from tacit.audit.probes import Probe
from tacit.errors import InvalidInput

_TOLERANCE: Final = 1e-6
"""Replayed noise cancels up to rounding."""
_DIGITS: Final = range(-1, 12)
"""Residues modulo 10⁻ᵏ that are looked at."""
_PILOT: Final = 60
"""Releases that choose the user whose length is measured."""
_SEEDS: Final = 400
"""How often it is looked who takes part."""


def fields(probe: Probe) -> Iterator[str]:
    """Every released field is in the view, and the public ones do not depend on anybody's data."""
    privatizer, seen = probe.privatizer, set[tuple[bytes, ...]]()
    for person in probe.persons():
        users = probe.given(person, 0)
        _, released = privatizer.release(privatizer.begin(), users, probe.asked(0), probe.noise(0))
        try:
            found = probe.fields(released.statistics)
        except InvalidInput as error:
            yield str(error)
            return
        seen.add(tuple(found[name].tobytes() for name in probe.public))
    if len(seen) != 1:
        yield f"{' or '.join(probe.public)} beside the release depend on users"


def shift(probe: Probe) -> Iterator[str]:
    """What a user moves does not depend on the noise, unless users are sampled or randomize their answers."""
    if not probe.additive or probe.sampled is not None:
        return
    one, other = worst_pair(probe)
    moved = [_moved(probe, one, other, number) for number in range(4)]
    largest = max(1.0, float(np.abs(moved[0]).max()))
    if not all(np.abs(again - moved[0]).max() <= _TOLERANCE * largest for again in moved[1:]):
        yield "what a user moves depends on the noise"


def measured(probe: Probe) -> Iterator[str]:
    """Every number has the exact value for its mean, and noise of the stated size around it."""
    if not probe.additive:
        return
    person, count = probe.persons()[1], probe.affordable(probe.replicates)
    stated = probe.transcript(person, 0)[1]
    z = probe.transcripts(person, count) - probe.exact(person)
    tests = 4 * z[0].size
    score = np.abs(z.sum(axis=0)) / np.sqrt(np.maximum((z**2).sum(axis=0), 1e-300))
    silent = np.abs(z).max(axis=0) <= _TOLERANCE * (1.0 + np.abs(z).max())
    if score[~silent].max(initial=0.0) > math.sqrt(2.0 * math.log(2.0 * tests / probe.false_alarm)):
        yield "a released number is biased"
    together = (z / np.sqrt(np.where(stated > 0.0, stated, np.inf))).sum(axis=(1, 2))
    if abs(together.sum()) > math.sqrt(2.0 * math.log(2.0 * tests / probe.false_alarm) * float((together**2).sum())):
        yield "released numbers are biased together"
    if np.any(silent & (np.abs(z).max(axis=0) > _TOLERANCE)):
        yield "a released number is off by a constant"
    yield from _stated(probe, stated)
    covered = stated > 0.0
    ratio = (z**2).mean(axis=0)[covered] / stated[covered]
    room = math.sqrt(2.0 * _kurtosis(z[:, covered]) * math.log(tests / probe.false_alarm) / count)
    if probe.sampled is None and not ratio.max(initial=0.0) <= 1.0 + 2.0 * room:
        yield f"a number has {ratio.max():.3g} times the stated noise variance"
    if probe.exact_noise and not ratio.min(initial=1.0) >= 1.0 - room:
        yield f"a number has only {ratio.min():.3g} of the stated noise variance"
    yield from _lost(probe, z)


def _lost(probe: Probe, z: Floats) -> Iterator[str]:
    """Where every counter has a noise of its own and exactly the stated variance, a family has no less on average."""
    exact = probe.counter_variance()
    for name, variance in exact.items():
        released = variance > 0.0
        own = np.array([probe.parts(row)[name][released] for rows in z for row in rows]) / np.sqrt(variance[released])
        room = math.sqrt(2.0 * _kurtosis(own) * math.log(len(exact) / probe.false_alarm) / max(1, own.size))
        if own.size and not (ratio := float(np.mean(own**2))) >= 1.0 - room:
            yield f"the counters of {name} have only {ratio:.3g} of the stated noise variance"


def _stated(probe: Probe, variance: Floats) -> Iterator[str]:
    """The variance beside a release is that of the privatizer's own `noise_std`, which is the largest."""
    said = probe.largest_std()
    for name, values in probe.split(variance.max(axis=0)).items():
        largest, most = float(values.max(initial=0.0)), said.get(name, math.inf) ** 2
        if largest > most * (1.0 + 1e-9) or (probe.exact_noise and most < math.inf and largest < most * (1.0 - 1e-9)):
            yield f"the noise variance beside {name} is {largest:.6g}, stated are {most:.6g}"


def exposed(probe: Probe) -> Iterator[str]:
    """Measured noise against the events, from above: whole transcripts, single fields and single releases."""
    one, other = worst_pair(probe)
    moved = _moved(probe, one, other, 0) if probe.additive and probe.sampled is None else _expected(probe, one, other)
    count = probe.affordable(10 * probe.replicates)
    seen = probe.transcripts(one, count).reshape(count, -1)
    directions = _directions(probe, moved, seen[: count // 2])
    most, rest = admitted(probe.privatizer.events()), seen[count // 2 :]
    for name, weights in directions.items():
        signal = float(weights @ moved.ravel()) ** 2
        values = rest @ weights
        values = values - values.mean()
        room = 2.0 * _kurtosis(values) * math.log(len(directions) / probe.false_alarm) / len(values)
        least = signal / most if most > 0.0 else math.inf
        noise = float(np.mean(values**2)) * len(values) / (len(values) - 1.0)
        if signal > 0.0 and (noise <= 0.0 or not noise >= least * (1.0 - math.sqrt(min(1.0, room)))):
            ratio = signal / noise if noise > 0.0 else math.inf
            yield (
                f"a linear distinguisher of {name} reaches a squared signal-to-noise ratio of {ratio:.4g}, "
                f"the events admit {most:.4g}"
            )


def tails(probe: Probe) -> Iterator[str]:
    """The distribution of the noise far out: no extreme of the moved counters is a better event than is certified."""
    pair, claim, count = worst_pair(probe), probe.privatizer.claim, probe.affordable(5 * probe.replicates)
    certified = epsilon_of(probe.privatizer.events(), claim.delta)
    was, became = (_counters(probe, probe.exact(who)[np.newaxis])[0] for who in pair)
    used = np.flatnonzero(was != became)
    if len(used) == 0:
        return
    sign = np.sign(became - was)[used]
    seen = [
        _counters(probe, probe.transcripts(who, count, first=40_000 + i * count))[:, used] * sign
        for i, who in enumerate(pair)
    ]
    pilot = np.concatenate([values[held_out(values)] for values in seen])
    scaled = [(values - pilot.mean(axis=0)) / np.maximum(pilot.std(axis=0), 1e-300) for values in seen]
    for extreme in (np.max, np.min):
        first, second = (np.asarray(extreme(values, axis=1)) for values in scaled)
        if told_apart(first, second, claim.delta, probe.false_alarm / 2) > certified:
            yield "the extremes of released numbers tell users apart"
            return


def coins(probe: Probe) -> Iterator[str]:
    """Where users are sampled, each release draws its own sample, at most at the stated rate."""
    if probe.sampled is None:
        return
    one, other = worst_pair(probe)
    moved = np.array([np.abs(_moved(probe, one, other, 3000 + i)).max(axis=1) > 0.0 for i in range(_SEEDS)])
    tests = probe.releases + probe.releases**2
    rarely = stats.binom.sf(moved.sum(axis=0) - 1, _SEEDS, probe.sampled[0])
    if rarely.min() < probe.false_alarm / tests:
        yield f"a user takes part in {moved.mean(axis=0).max():.3g} of the releases, stated are {probe.sampled[0]:.3g}"
    for k, j in combinations(range(probe.releases), 2):
        table = [[np.sum(moved[:, k] & moved[:, j]), np.sum(moved[:, k] & ~moved[:, j])],
                 [np.sum(~moved[:, k] & moved[:, j]), np.sum(~moved[:, k] & ~moved[:, j])]]  # fmt: skip
        if stats.fisher_exact(table).pvalue < probe.false_alarm / tests:
            yield "whoever takes part in one release takes part in another: the sample is not drawn anew"
            return


def length(probe: Probe) -> Iterator[str]:
    """One sampled user adds at most the stated length, whatever public number the release begins with.

    All users of a batch do the same. Replayed with another crowd, the difference of two releases counts how many took
    part, n; the slope of the release in n is what one of them adds (Lemma K4 (length by regression)).
    """
    if probe.sampled is None:
        return
    _, most = probe.sampled
    corners = _corners(probe)
    # The longest by a few releases; only that one is judged, on others.
    pilots = [(one, *_slope(probe, one, 9000, _PILOT)) for one in corners]
    person, _, _, weights = max(pilots, key=lambda found: found[1])
    found, spread, _ = _slope(probe, person, 20_000, probe.affordable(4 * probe.replicates), weights)
    # b ~ N(w·u, spread²) and w·u ≤ |u| ≤ most: the slope exceeds this with probability at most α
    if not found <= most * (1.0 + _TOLERANCE) + spread * math.sqrt(2.0 * math.log(1.0 / probe.false_alarm)):
        yield f"a user adds {found:.4g} times the noise to a release, the sampled events say {most:.4g}"


def _slope(
    probe: Probe, person: Any, first: int, count: int, weights: Floats | None = None
) -> tuple[float, float, Floats]:
    """What one user adds to a release, in units of its noise, along `weights` or along what is found; its deviation."""
    plain, other = probe.seeded(), max(
        _corners(probe), key=lambda one: float(np.abs(_expected(probe, person, one)).max())
    )  # fmt: skip
    stated = plain.transcript(person, 0)[1][0]
    whitened = np.where(stated > 0.0, 1.0 / np.sqrt(np.where(stated > 0.0, stated, 1.0)), 0.0)
    moves = (_moved(probe, person, other, number)[0] * whitened for number in range(_SEEDS))
    step = next((move for move in moves if np.any(move)), None)
    if step is None:
        return 0.0, 0.0, whitened
    shown = [
        whitened * plain.transcripts(one, count, first=first, everybody=True, releases=1)[:, 0]
        for one in (person, other)
    ]
    came = (shown[1] - shown[0]) @ step / float(step @ step)
    came -= came.mean()
    # b = Σ (n − n̄)(x − x̄) / Σ (n − n̄)²
    total = max(float(came @ came), 1e-300)
    slope, spread = came @ (shown[0] - shown[0].mean(axis=0)) / total, 1.0 / math.sqrt(total)
    if weights is None:
        norm = float(np.linalg.norm(slope))
        return norm, spread, slope / max(norm, 1e-300)
    return float(slope @ weights), spread, weights


def lattice(probe: Probe) -> Iterator[str]:
    """No digit and no residue of a released number says more about data than is certified (Lemma K5 (residues))."""
    claim, count = probe.privatizer.claim, probe.affordable(probe.replicates)
    certified = epsilon_of(probe.privatizer.events(), claim.delta)
    corners = _corners(probe)
    for pair in (worst_pair(probe), (corners[0], corners[-1])):
        seen = [probe.transcripts(who, count, first=7000 + i * count).reshape(count, -1) for i, who in enumerate(pair)]
        if _digits_tell(seen, certified, claim.delta, probe.false_alarm / 2.0):
            yield "a digit of a released number tells users apart"
            return


def _digits_tell(seen: list[Floats], certified: float, delta: float, false_alarm: float) -> bool:
    """Whether a digit comes more often in one world than the certificate admits."""
    count, numbers = seen[0].shape
    tests = 20.0 * len(_DIGITS) * numbers
    for k in _DIGITS:
        near = np.maximum(np.abs(seen[0]).max(axis=0), np.abs(seen[1]).max(axis=0)) * 10.0**k < 1e14
        digits = [np.floor(10.0 * np.mod(np.round(np.abs(values[:, near]) * 10.0**k, 3), 1.0)) for values in seen]
        for d in range(10):
            hits = [(values == d).sum(axis=0) for values in digits]
            for at in np.flatnonzero(np.abs(hits[0] - hits[1]) > count / 3):
                errors = Errors(first=count, first_hits=int(hits[0][at]), second=count, second_hits=int(hits[1][at]))
                if event_epsilon(errors, delta, false_alarm / tests) > certified:
                    return True
    return False


def worst_pair(probe: Probe) -> tuple[Any, Any]:
    """Of the corners, the two users whose releases are farthest apart, in units of the stated noise."""
    if "worst pair" not in probe.memory:
        probe.memory["worst pair"] = _farthest(probe)
    first, second = probe.memory["worst pair"]
    return first, second


def _farthest(probe: Probe) -> tuple[Any, Any]:
    persons = _corners(probe)
    exact = [_expected(probe, person, persons[0]) for person in persons]
    stated = np.maximum(probe.transcript(persons[0], 0)[1], 1e-12)
    pairs = list(combinations(range(len(persons)), 2))
    far = [float((((exact[i] - exact[j]) ** 2) / stated).sum()) for i, j in pairs]
    i, j = pairs[int(np.argmax(far))]
    return persons[i], persons[j]


def _counters(probe: Probe, transcripts: Floats) -> Floats:
    """[count, counters]: transcripts by the counters of the families, each of which has noise of its own."""
    return np.array(
        [np.concatenate([part for row in rows for part in probe.parts(row).values()]) for rows in transcripts]
    )


def _corners(probe: Probe) -> list[Any]:
    """The ordinary users."""
    return list(probe.persons()[: probe.ordinary])


def _moved(probe: Probe, one: Any, other: Any, number: int) -> Floats:
    """[releases, numbers]: by how much replacing `one` by `other` moves what is released, at replayed noise."""
    plain = probe.seeded()
    return np.asarray(plain.transcript(other, number)[0] - plain.transcript(one, number)[0])


def _expected(probe: Probe, one: Any, other: Any) -> Floats:
    """The same in the mean."""
    return np.asarray(probe.exact(other) - probe.exact(one))


def _directions(probe: Probe, moved: Floats, pilot: Floats) -> dict[str, Floats]:
    """Combinations of numbers that may tell two users apart: by the noise of `pilot`, one by one and together."""
    spread = pilot.var(axis=0).reshape(moved.shape)
    floor = _TOLERANCE * max(1e-300, float(np.abs(moved).max())) ** 2
    plain = np.where(moved != 0.0, moved / np.maximum(spread, floor), 0.0)
    found = {"whole transcripts": plain}
    at = 0
    for name, size in probe.sizes().items():
        only = np.zeros_like(plain)
        only[:, at : at + size] = plain[:, at : at + size]
        found[name], at = only, at + size
    for k in range(len(moved)):
        numbers = pilot.reshape(len(pilot), *moved.shape)[:, k]
        covariance = np.atleast_2d(np.cov(numbers, rowvar=False)) + np.eye(moved.shape[1]) * (
            floor + 0.02 * float(spread[k].mean())
        )
        fitted = np.zeros_like(plain)
        fitted[k] = np.linalg.solve(covariance, moved[k])
        found[f"release {k + 1}"] = fitted
    used = np.flatnonzero(moved.ravel())
    if len(moved) > 1 and len(pilot) > 4 * len(used):
        covariance = np.cov(pilot[:, used], rowvar=False) + 1e-3 * float(spread.mean()) * np.eye(len(used))
        together = np.zeros(moved.size)
        together[used] = np.linalg.solve(covariance, moved.ravel()[used])
        found["all releases"] = together.reshape(moved.shape)
    return {name: weights.ravel() for name, weights in found.items() if np.any(weights)}


def _kurtosis(values: Floats) -> float:
    """What the data say, and at least that of Laplace noise."""
    return max(6.0, float(np.mean(values**4)) / max(float(np.mean(values**2)) ** 2, 1e-300)) if values.size else 6.0
