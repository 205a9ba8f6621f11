"""Replayed reports, raced tokens, batches that are too small, older databases, wrong clocks, rotating keys."""

from __future__ import annotations

import pytest
from chaos import row_minimum, row_replay, row_restored, row_tokens


@pytest.mark.parametrize("module", [row_replay, row_tokens, row_minimum], ids=lambda module: module.__name__)
def test_bars_at_the_small_scale(module):
    for row in module.run("ci"):
        assert row["met"], row


@pytest.mark.parametrize("part", [row_restored.restored, row_restored.schema, row_restored.clocks])
def test_older_databases_other_schemas_and_wrong_clocks(part):
    row = part()
    assert row["met"], row


@pytest.mark.slow  # an older copy of the other kind of database is restored above
def test_an_older_copy_of_a_postgres_database():
    row = row_restored.postgres()
    if row["measured"] == "not run":
        pytest.skip(row["detail"])
    assert row["met"], row


def test_keys_rotate_under_load():
    for row in (row_restored.rotation(**row_restored.SCALES["ci"]), row_restored.rotation_inside()):
        assert row["met"], row
