"""The page about the shuffle protocol says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tacit.release.shuffle.protocol import Shuffle
from tacit.statistics.count_spec import ReleaseSpec

PAGE = (Path(__file__).parents[2] / "docs" / "shuffle-protocol.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in row.split("|")] for row in re.findall(r"^\| (\d+ \|.+) \|$", PAGE, flags=re.MULTILINE)
]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_the_cost_table_is_what_the_code_says(row):
    spec = ReleaseSpec.fine(num_states=4, num_actions=2, horizon=6)
    common = {"epsilon": 1.0, "delta": 1e-6, "users": int(row[0])}
    batch = Shuffle.tight(spec, **common)
    noise = batch.bit_noise
    every = Shuffle(spec=spec, bit_noise=noise, messages="every-bit")
    costs = [described.cost() for described in (every, batch, Shuffle.tight(spec, **common, overflow_prob=1e-10))]
    assert row[1:] == [
        str(noise.bits_per_user),
        f"{noise.probability:.4f}",
        f"{noise.total.std:.1f}",
        *(f"{cost.messages_per_user} ({cost.bytes_per_user})" for cost in costs),
    ]


def test_the_table_was_found():
    assert [row[0] for row in ROWS] == ["100", "1000", "10000"]
