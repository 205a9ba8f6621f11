"""From a configured privatizer to its certificate."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tacit.accounting.certificate import Certificate, CertifiedFamily, certify
from tacit.accounting.composition import pure_epsilon_of
from tacit.errors import NotSupported

if TYPE_CHECKING:
    from tacit.privatizers.contract import CountPrivatizer

__all__ = ["certificate_of"]


def certificate_of(privatizer: CountPrivatizer, *, noise: str, paper_says: str | None = None) -> Certificate:
    """What the exact accountant finds for everything that the privatizer exposes one user to."""
    std = privatizer.noise_std()
    # Rewards and complements (or one-hot outcomes) are one family with the noise of a reward counter.
    families = [
        CertifiedFamily.of(family, noise=noise, std=std.get(family.name, std["rewards"]))
        for family in privatizer.families()
    ]
    events, claim = privatizer.events(), privatizer.claim
    # The events are those of one replaced trajectory; a claim about more of them is a claim that nothing here supports.
    if claim.unit.trajectories > 1:
        raise NotSupported(
            f"a privatizer claims privacy for one trajectory, got a unit of {claim.unit.trajectories}; claim one, and "
            "state what a person with several gets by claim.group(size)"
        )
    # The papers print pure guarantees for noise that can be pure, and (epsilon, delta) for the rest.
    pure = paper_says is not None and math.isfinite(pure_epsilon_of(events))
    return certify(
        events,
        families,
        claim,
        calibration=privatizer.calibration,
        paper_says=paper_says,
        paper_delta=0.0 if pure else None,
    )
