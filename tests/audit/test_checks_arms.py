"""Returns of arms before the conformance suite and the audit: what is right holds, and noise that is short is found."""

from __future__ import annotations

import pytest

from tacit.audit.conformance import NonConformant, check_privatizer
from tacit.audit.views import audit_privatizer
from tacit.noise.gaussian import Gaussian
from tacit.release.arms import make_arms

CLAIMS = {"central": 1e-6, "shuffle": 1e-6, "local": 0.0}
RULES = ("claim", "certificate", "fields", "measured", "exposed")


def arms(trust):
    return make_arms(users=(6, 6), trust=trust, epsilon=1.0, delta=CLAIMS[trust]).privatizer


@pytest.mark.parametrize("trust", CLAIMS)
def test_what_arms_release_conforms(trust):
    """False-alarm rate 1e-6 per statistical rule."""
    passed = check_privatizer(arms(trust), replicates=100, only=RULES).passed
    assert {"claim", "certificate", "fields"} <= set(passed)


def test_half_the_noise_does_not_conform(monkeypatch):
    whole = Gaussian.sample
    monkeypatch.setattr(Gaussian, "sample", lambda self, size, noise: 0.5 * whole(self, size, noise))
    with pytest.raises(NonConformant) as found:
        check_privatizer(arms("central"), replicates=100, only=RULES)
    assert {"measured", "exposed"} & found.value.rules


@pytest.mark.slow
@pytest.mark.parametrize("trust", CLAIMS)
def test_arms_are_attacked_through_everything_they_release(trust):
    """False-alarm rate 0.001 each; one flipped bit is attacked to within a tenth of its epsilon."""
    found = audit_privatizer(arms(trust), trials=20_000, false_alarm=1e-3, name=f"arms, {trust}")
    assert found.verdict == "holds"
    assert found.attacked <= found.certified
    assert found.attacked > (0.9 if trust == "local" else 0.3)
