"""The rules of the conformance suite about what a user is exposed to: claim, certificate, families, events, counters.

None of them is statistical. Each yields what is wrong, in words without data.

What a continual counter's own noise gives away is computed exactly, from the counter itself. The noise of the prefixes
is a linear map B of independent draws z; handing in one unit draw at a time reads B off the kernel `advance`. Replacing
user i by a shift of one moves prefixes i, i+1, ...: the vector a_i of ones from i on. The best linear distinguisher of
the two transcripts then has the signal-to-noise ratio

    a_iᵀ (B Bᵀ)⁻¹ a_i / Var z        (infinite if a_i is not in the range of B: a prefix without noise of its own)

and it must not exceed what the counter's events admit (Lemma K3 (linear distinguishers)). A tree that draws a node's
noise anew at every use, that forgets a level or that leaves a prefix bare breaks this, whatever it says about itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from tacit.accounting.certificate import Certificate
from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.composition import epsilon_of
from tacit.accounting.events import Events
from tacit.accounting.events.pure import laplace_variance
from tacit.accounting.families import Family
from tacit.arrays import Floats
from tacit.audit.count_probe import CountProbe, counted, exact_counts, ordinary_users, users_at
from tacit.audit.probes import Probe

STEPS = 64
"""How many prefixes of a continual counter are examined."""

_TOLERANCE = 1e-6
"""Replayed noise cancels up to rounding."""


def claim(probe: Probe) -> Iterator[str]:
    """A claim is there, complete, and about what the families describe: one trajectory replaced by another."""
    stated = probe.privatizer.claim
    if not isinstance(stated, PrivacyClaim):
        yield "there is no claim"
        return
    if stated.trust != "none" and not 0.0 < stated.epsilon < math.inf:
        yield "the claim has no finite epsilon"
    if stated.unit.per_stage > 1:
        yield "the claim protects several reports of one stage, but families and events describe the change of one"
    if (stated.trust == "none") != (probe.privatizer.calibration == "none"):
        yield "calibration 'none' and trust 'none' go together"


def certificate(probe: Probe) -> Iterator[str]:
    """The certificate is what the exact accountant says about the events, and no more than the claim (but in paper)."""
    found, made = probe.privatizer.certificate(), probe.privatizer.claim
    if not isinstance(found, Certificate):
        yield "there is no certificate"
        return
    if found.claim != made or found.calibration != probe.privatizer.calibration:
        yield "the certificate is about another claim or calibration"
    if made.trust == "none":
        return
    really = epsilon_of(probe.privatizer.events(), made.delta)
    if not math.isclose(found.epsilon, really, rel_tol=1e-9):
        yield f"the certificate says epsilon {found.epsilon:.6g} where the accountant finds {really:.6g}"
    stated = [(family.name, family.l1, family.differing) for family in probe.privatizer.families()]
    if [(family.name, family.l1, family.differing) for family in found.families] != stated:
        yield "the certificate lists other families than the privatizer"
    if found.calibration == "paper" and found.paper_says is None:
        yield "a paper calibration must say what the paper prints"
    if found.calibration != "paper" and really > made.epsilon:
        yield f"the accountant finds epsilon {really:.6g} where {made.epsilon:g} is claimed"


def families(probe: Probe) -> Iterator[str]:
    """No replacement of a user, however hostile, moves more than the families say, nor anything else."""
    yield from sorted(_moved_too_far(probe))


@np.errstate(all="ignore")  # what moves without bounds is found, not computed with
def _moved_too_far(probe: Probe) -> set[str]:
    """What is wrong with the families: every two users are compared, released from the same noise."""
    stated = {family.name: family for family in probe.privatizer.families()}
    quiet, wrong, one_slot = probe.quiet(), set[str](), isinstance(probe, CountProbe) and probe.one_slot
    for number in range(24 if one_slot or probe.sampled is not None else 1):
        moved, people = quiet.moved(number), len(probe.persons())
        differing = np.zeros((people, people), dtype=np.int64)
        for name, values in moved.items():
            change = values[:, np.newaxis] - values[np.newaxis, :]  # [users, users, counters]
            l1, l2, largest = np.abs(change).sum(-1), (change**2).sum(-1), np.abs(change).max(initial=0.0)
            differing += (np.abs(change) > _TOLERANCE).sum(-1)
            if name not in stated:
                if not largest <= _TOLERANCE:
                    wrong.add("a user moves released statistics that no family covers")
                continue
            family = stated[name]
            limits = [("in squared L2", l2.max(), family.l2_squared)]
            if not probe.euclidean:
                limits += [("in L1", l1.max(), family.l1), ("in one counter", largest, family.shift)]
            for what, found, most in limits:
                if not found <= most + _TOLERANCE:
                    wrong.add(f"a user moves {name} by {found:.6g} {what}, stated are {most:.6g}")
            whole = np.abs(change - np.rint(change)).max(initial=0.0) <= _TOLERANCE
            if family.shift == 1.0 and whole and (change > 0.5).sum(-1).max() > family.up:
                wrong.add(f"a user moves {(change > 0.5).sum(-1).max()} counters of {name} up, stated are {family.up}")
        vectors = sum(count for _, count in probe.privatizer.events())
        if one_slot and differing.max() > 2 * vectors:
            wrong.add(f"a user changes {differing.max()} bits of a message, stated are {2 * vectors}")
    return wrong


def events(probe: CountProbe) -> Iterator[str]:
    """The events cover the worst replacement: no linear distinguisher is better than they admit."""
    privatizer, shape, std = probe.privatizer, probe.shape, probe.privatizer.noise_std()
    users, counter = ordinary_users(shape, 16, probe.seed), getattr(privatizer, "counter", None)
    exact = [exact_counts(shape, users_at(users, i)) for i in range(len(users))]
    each = [counted(privatizer.families(), shape, statistics) for statistics in exact]
    total = np.zeros((len(users), len(users)))
    for family in privatizer.families():
        values = np.array([counters[family.name] for counters in each])
        if values.size == 0:
            continue
        squared = ((values[:, np.newaxis] - values[np.newaxis, :]) ** 2).sum(-1)
        if counter is not None:
            price = exposure(own_covariance(counter, min(probe.steps, STEPS)))
        else:
            noise = std.get(family.name, std["rewards"]) ** 2 + probe.sampling(family.name)
            price = 1.0 / noise if noise > 0.0 else math.inf
        total[squared > 0.0] += squared[squared > 0.0] * price
    # Reports of one person in different stages: signals of independent noise add up, those of a stream's do at least.
    worst, most = privatizer.claim.unit.reports * float(total.max()), admitted(privatizer.events())
    if not worst <= most * (1.0 + _TOLERANCE):
        yield (
            f"a linear distinguisher of two users reaches a squared signal-to-noise ratio of {worst:.4g}, "
            f"the events admit {most:.4g}"
        )


def continual(probe: CountProbe) -> Iterator[str]:
    """A continual counter's noise is what it says: variance of every prefix, and what it gives away about one user."""
    counter = probe.privatizer.counter
    steps = min(probe.steps, STEPS)
    covariance = own_covariance(counter, steps)
    stated = np.array([counter.variance_at(k) for k in range(1, steps + 1)])
    if not np.allclose(np.diag(covariance), stated, rtol=1e-9) or stated.max() > counter.max_std**2 * (1 + 1e-9):
        yield "the noise variance of the prefixes is not the stated one"
    given, most = exposure(covariance), stated_exposure(counter)
    if not given <= most * (1.0 + _TOLERANCE):
        yield f"the prefixes give away {given:.6g} about a shift of one, the counter states {most:.6g}"


_UNIT = Family(name="one count", up=1, down=0, shift=1.0)


def noise_map(counter: Any, steps: int) -> Floats:
    """B: the noise of prefixes 1..steps as a linear map of all fresh draws up to then, read off the kernel."""
    fresh = [int(counter.draws_at(k)) for k in range(1, steps + 1)]
    rows, stream, used = np.zeros((steps, sum(fresh))), counter.begin(max(1, sum(fresh))), 0
    for k, count in enumerate(fresh):
        draws = np.zeros((max(1, count), max(1, sum(fresh))))
        draws[np.arange(count), used + np.arange(count)] = 1.0
        counter.advance(counter.params, stream, draws)
        rows[k] = stream.noise[: sum(fresh)]
        used += count
    return rows


def own_covariance(counter: Any, steps: int) -> Floats:
    """The covariance of the prefixes' noise, by the counter's own kernel and its stated first variance."""
    rows = noise_map(counter, steps)
    first = float(rows[0] @ rows[0])
    return np.asarray(rows @ rows.T * (counter.variance_at(1) / first if first > 0.0 else 1.0))


def exposure(covariance: Floats) -> float:
    """The largest a_iᵀ Σ⁻¹ a_i over all users i, for prefixes with this noise covariance.

    >>> round(exposure(np.array([[1.0, 1.0], [1.0, 2.0]])), 9)  # one node for the first user, one more for the second
    1.0
    """
    steps = len(covariance)
    shifts = np.tril(np.ones((steps, steps)))  # column i: the prefixes that contain user i
    solved, *_ = np.linalg.lstsq(covariance, shifts, rcond=1e-10)
    if np.abs(covariance @ solved - shifts).max() > 1e-6:
        return math.inf
    return float(np.einsum("ki,ki->i", shifts, solved).max())


def stated_exposure(counter: Any) -> float:
    """What the counter's events admit for a shift of one in one counter."""
    if {"levels", "scale"} <= set(dir(counter)):  # trees of Laplace noise: nodes that contain one user
        return float(counter.levels) / laplace_variance(counter.scale, discrete=False)
    return admitted(counter.events(_UNIT))


def admitted(events: Events) -> float:
    """The largest signal-to-noise ratio (squared) that any linear distinguisher may have under these events."""
    return math.fsum(count * event.signal() for event, count in events)
