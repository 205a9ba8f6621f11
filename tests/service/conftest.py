"""Small studies: fakes stand where channels and designs of real ones do, unless a test plans a real one."""

from __future__ import annotations

import pytest
import study_fakes
from postgres import postgres

from tacit.release.registry import CHANNELS
from tacit.study import contract

__all__ = ["postgres"]


@pytest.fixture(autouse=True)
def _fakes(monkeypatch):
    for kind, channel in study_fakes.FAKES.items():
        monkeypatch.setitem(CHANNELS, kind, channel)
    real = contract.read_design
    monkeypatch.setattr(
        contract,
        "read_design",
        lambda plain: study_fakes.FakeDesign.from_dict(plain) if "labels" in plain else real(plain),
    )
