"""The fingerprint of the algorithm that made a result: names, revisions and constants, in words anybody can check.

    ucbvi r1 | totals, central, tight r1: factorization r1, std transitions 84.1, ... | practical r1, z=1

Learner, privatizer with mechanism and noise, rule for the widths, and a simulated world whose numbers have ever
changed. Revisions come from `papers.revisions`; the noise is what the certificate states, so that another
calibration shows even where nobody thought of a revision. Two equal fingerprints of one configuration give equal rows;
the version of tacit is not part of it.
"""

from __future__ import annotations

from typing import Any, Final

from papers.revisions import (
    ANSWERS,
    MECHANISMS,
    PRIVATIZERS,
    RULES,
    SUPPORTED,
    learner_revision,
    revision_of,
    world_revision,
)
from tacit.environments.live import LiveWorld
from tacit.protocol import Privatizer
from tacit.runs.assemble import Assembled
from tacit.runs.config import parse_learner

__all__ = ["BEFORE", "fingerprint_of", "privatizer_words"]

BEFORE: Final = "before fingerprints"
"""What results say that were made before there were any: nobody knows."""

NOT_TUNED: Final = ("z", "effective_support")
"""Settings that stand elsewhere in the fingerprint, or that say something about the world."""


def fingerprint_of(parts: Assembled, *, noise: bool = True) -> str:
    """The fingerprint of what a configuration stands for today; without `noise`, without the deviations of its noise.

    >>> from tacit.runs.assemble import assemble
    >>> from tacit.runs.config import RunConfig
    >>> run = {"environment": "riverswim", "episodes": 20_000, "seeds": (0,)}
    >>> fingerprint_of(assemble(RunConfig(learner="ucbvi", constants="practical", **run)))
    'ucbvi r1 | totals, none r1 | practical r1, z=1'
    >>> fingerprint_of(assemble(RunConfig(learner="psrl", trust="local", epsilon=1.0, delta=0.0, **run)))
    'psrl r1 | totals, local, tight r1: subset r1, std transitions 6.112, rewards and complements 5.85 | none r1'
    """
    name, options = parse_learner(parts.config.learner)
    options = {**options, "constants": parts.learner.constants}
    learner = learner_revision(name, options, _mechanism(parts.privatizer))
    rule = revision_of(RULES, parts.learner.constants)
    if parts.learner.z is not None:
        rule += f", z={parts.learner.z:g}"
    settings = parts.settings or {}
    tuned = [
        f"{key}={value:.6g}"
        for key, value in sorted(settings.items())
        if isinstance(value, float) and key not in NOT_TUNED
    ]
    world = world_revision(parts.mdp.source) if isinstance(parts.mdp, LiveWorld) else ()
    return " | ".join([learner, _privatizer(parts, noise=noise), ", ".join([rule, *tuned]), *world])


def privatizer_words(privatizer: Privatizer[Any, Any, Any]) -> str:
    """The revisions of a privatizer and of its mechanism.

    >>> from tacit.release.arms import make_arms
    >>> privatizer_words(make_arms(users=(50, 50), trust="local", epsilon=1.0, delta=0.0).privatizer)
    'returns, local, tight r1: rr r1'
    """
    trust, asked = privatizer.claim.trust, ANSWERS.get(privatizer.answers, "foreign queries")
    if trust == "none":
        return revision_of(PRIVATIZERS, f"{asked}, none")
    mechanism = _mechanism(privatizer)
    named = revision_of(MECHANISMS, mechanism) if mechanism in MECHANISMS else mechanism
    return f"{revision_of(PRIVATIZERS, f'{asked}, {trust}, {privatizer.calibration}')}: {named}"


def _mechanism(privatizer: Privatizer[Any, Any, Any]) -> str:
    """The name of the noise; nothing where there is none."""
    return "" if privatizer.claim.trust == "none" else str(privatizer.name.partition("/")[2].split(" ")[0])


def _privatizer(parts: Assembled, *, noise: bool) -> str:
    words, mechanism = privatizer_words(parts.privatizer), _mechanism(parts.privatizer)
    if mechanism in SUPPORTED and getattr(parts.privatizer.shape, "support", None) is not None:
        words += f", {revision_of(SUPPORTED, mechanism).replace(mechanism, 'over a support')}"
    if parts.claim.trust == "none" or not noise:
        return words
    stated = ", ".join(f"{family.name} {family.std:.4g}" for family in parts.families)
    return f"{words}, std {stated}"
