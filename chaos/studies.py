"""Studies for chaos: fakes without noise, where any honest result is 0/1 per label, and a small sealed one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cache
from typing import Any

import chaos  # noqa: F401 - makes the fakes importable

import study_fakes  # isort: skip

from tacit.release.registry import CHANNELS
from tacit.study import contract

REAL = contract.read_design


def read_design(plain: Any) -> Any:
    """A fake design, or a real one."""
    return study_fakes.FakeDesign.from_dict(plain) if "labels" in plain else REAL(plain)


def register() -> None:
    """Let this process know the fakes, for good."""
    study_fakes.register()
    contract.read_design = read_design  # type: ignore[assignment]


@contextlib.contextmanager
def registered() -> Iterator[None]:
    """Let this process know the fakes for a while."""
    known, before = dict(CHANNELS), contract.read_design
    register()
    try:
        yield
    finally:
        contract.read_design = before
        for kind in set(CHANNELS) - set(known):
            del CHANNELS[kind]  # type: ignore[attr-defined]


def labelled(**sizes: Any) -> Any:
    """A study without noise whose releases carry a random stamp, so that two draws are never equal."""
    chosen = {"kind": "test-central", "stages": 1, "target": 24, "least": 12, "labels": 48, **sizes}
    return study_fakes.FakeDesign(**{**chosen, "states": tuple(f"s{i}" for i in range(40))})


@cache
def sealed(stages: int = 3, target: int = 8, **more: Any) -> Any:
    """A design of a few people with little noise: what is sealed is a few dozen labels each."""
    from tacit.study.design import plan_study

    sizes: dict[str, Any] = {"states": 2, "actions": 2, "horizon": 2, "epsilon": 12.0, "delta": 1e-3}
    return plan_study(**{**sizes, "learner": "bucb", "trust": "shuffle", "stages": stages, "target": target, **more})
