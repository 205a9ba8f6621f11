"""Releases of studies over rows keep every rule of the contract; a device that does not shorten rows breaks one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mutants.moments import _AsLongAsGiven
from mutants.planted import twin
from tacit.audit.conformance import NonConformant, check_privatizer
from tacit.features import Features
from tacit.study.design import plan_study


def privatizer(trust: str) -> Any:
    """Of a study of one stage whose rows have two numbers."""
    design = plan_study(
        features=Features(age=(18, 90)), actions=("a", "b"), trust=trust, epsilon=2.0,
        delta=0.0 if trust == "local" else 1e-5, stages=1, target=20, least=20, learner="lin-ts",
    )  # fmt: skip
    return design.parts().privatizer  # type: ignore[attr-defined]


@pytest.mark.statistical
@pytest.mark.parametrize("trust", ["central", "shuffle", "local"])
def test_releases_of_a_study_over_rows_conform(trust: str) -> None:
    """False alarms below 1e-6 per statistical rule, seeded."""
    found = check_privatizer(privatizer(trust))
    assert {"certificate", "families", "exposed", "lattice", "silence"} <= set(found.passed)


@pytest.mark.statistical
@pytest.mark.parametrize("trust", ["central", "shuffle"])
def test_rows_that_are_not_shortened_are_caught(trust: str) -> None:
    honest = privatizer(trust)
    stage = honest.channels[0]
    bug = twin(type(stage), stage, statistic=twin(_AsLongAsGiven, stage.statistic))
    with pytest.raises(NonConformant, match="families"):
        check_privatizer(replace(honest, channels=(bug,)), only=("families",))
