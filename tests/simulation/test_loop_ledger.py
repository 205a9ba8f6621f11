"""The loop charges before it lets anybody in."""

from __future__ import annotations

import pytest
from registered import EPISODES, EVERY

from tacit.accounting.ledger import Ledger
from tacit.errors import PrivacyBudgetExceeded
from tacit.simulation.simulate import simulate


def test_a_compiled_run_is_charged_once_and_refused_when_the_budget_is_spent(tmp_path) -> None:
    parts = dict(EVERY)["ucbvi riverswim central"]  # whose loop is compiled for other tests, too
    ledger = Ledger.open(tmp_path / "ledger.sqlite", parts.claim)
    asked = {"episodes": EPISODES, "ledger": ledger, "speed": "compiled"}
    simulate(parts.mdp, parts.learner, parts.privatizer, seed=0, **asked)
    assert len(ledger.entries()) == 1
    assert not ledger.pending()
    came = []
    with pytest.raises(PrivacyBudgetExceeded):
        simulate(parts.mdp, parts.learner, parts.privatizer, seed=1, progress=came.append, **asked)
    assert came == []
    assert len(ledger.entries()) == 1
