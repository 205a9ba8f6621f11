"""The loop charges before it lets anybody in."""

from __future__ import annotations

import pytest

from tacit.accounting.ledger import Ledger
from tacit.environments import make
from tacit.errors import BudgetSpent
from tacit.loop.simulate import simulate
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig


def test_a_run_is_charged_once_and_refused_when_the_budget_is_spent(tmp_path) -> None:
    config = RunConfig(
        environment="riverswim",
        learner="ucbvi",
        episodes=40,
        seeds=(0,),
        trust="local",
        epsilon=1.0,
        delta=0.0,
        mechanism="oue",
    )
    parts = assemble(config)
    ledger = Ledger.open(tmp_path / "ledger.sqlite", parts.claim)
    simulate(make("riverswim"), parts.learner, parts.privatizer, episodes=40, seed=0, ledger=ledger, speed="compiled")
    assert len(ledger.entries()) == 1
    assert not ledger.pending()
    came = []
    with pytest.raises(BudgetSpent):
        simulate(
            make("riverswim"), parts.learner, parts.privatizer, episodes=40, seed=1, ledger=ledger,
            progress=came.append, speed="compiled",
        )  # fmt: skip
    assert came == []
    assert len(ledger.entries()) == 1
