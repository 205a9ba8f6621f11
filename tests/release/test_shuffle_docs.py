"""The page about the shuffle protocol says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from shuffle_tools import EVERYTHING, plan_of

from tacit.release.contract import StageSize
from tacit.released.counts import CountShape

PAGE = (Path(__file__).parents[2] / "docs" / "shuffle-protocol.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in row.split("|")] for row in re.findall(r"^\| (\d+ \|.+) \|$", PAGE, flags=re.MULTILINE)
]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_the_cost_table_is_what_the_code_says(row):
    shape = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
    size = StageSize(target=int(row[0]), least=int(row[0]), query=EVERYTHING)
    batch, few = (plan_of(shape, overflow=overflow).release_of(size) for overflow in (0.0, 1e-10))
    costs = [described.transport.cost() for described in (batch, few)]
    assert row[1:] == [
        str(batch.bits_per_user),
        f"{float(batch.probability):.4f}",
        f"{batch.law(size.target).std:.1f}",
        *(f"{cost.messages_per_user} ({cost.bytes_per_user})" for cost in costs),
    ]


def test_the_table_was_found():
    assert [row[0] for row in ROWS] == ["100", "1000", "10000"]
