"""The door to the mechanisms: every name works, a miss suggests the nearest, every file keeps its promises."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import tacit.noise
from tacit.accounting.calibrate import calibrate, events_of
from tacit.accounting.composition import epsilon_of
from tacit.accounting.families import Family
from tacit.errors import UnknownName
from tacit.noise.table import MECHANISMS, mechanism_row
from tacit.randomness import SimulationNoise

NAMES = [name for name, row in MECHANISMS.items() if row.trust != "central"]
"""The noise that covers one release."""


@pytest.mark.parametrize("name", NAMES)
def test_every_name_calibrates_samples_and_accounts(name: str) -> None:
    slot = (Family(name="slot", up=1, down=1, shift=1.0),)
    mechanism = calibrate(MECHANISMS[name].kind, slot, epsilon=2.0, delta=1e-4)
    assert 0.0 < epsilon_of(events_of(mechanism, slot), 1e-4) <= 2.0
    draws = mechanism.sample((200, 100), SimulationNoise(np.random.default_rng(5)))
    assert draws.shape == (200, 100)
    assert abs(draws.mean()) < 6.0 * mechanism.std / np.sqrt(draws.size)
    assert (np.abs(draws.sum(axis=1)) <= mechanism.radius(1e-9, 100)).all()
    assert mechanism.std == pytest.approx(np.sqrt(mechanism.variance))


def test_a_miss_suggests_the_nearest_name() -> None:
    with pytest.raises(UnknownName, match="did you mean 'laplace'"):
        mechanism_row("local", "laplase")


@pytest.mark.parametrize("name", NAMES)
def test_every_numbered_guarantee_has_a_test_of_its_name(name: str) -> None:
    module = inspect.getmodule(MECHANISMS[name].kind)
    assert module is not None
    promised = set(re.findall(r"^(G\d+)  ", module.__doc__ or "", flags=re.MULTILINE))
    assert promised >= {"G1", "G2", "G3", "G4"}
    stem = module.__name__.rsplit(".", 1)[1]
    source = (Path(__file__).parent / f"test_mechanisms_{stem}.py").read_text()
    tested = {number.upper() for number in re.findall(r"^def test_(g\d+)_", source, flags=re.MULTILINE)}
    assert promised == tested


def test_everything_public_is_there() -> None:
    for name in tacit.noise.__all__:
        assert hasattr(tacit.noise, name)
