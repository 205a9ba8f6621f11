"""The benchmark of unit costs runs, small: it ended in an error while nothing ran it."""

from __future__ import annotations

from benchmarks import bench_unit_costs


def test_unit_costs_are_measured_for_every_trust_model(monkeypatch):
    for name, small in (("PEOPLE", 4000), ("REPORTS", 40), ("MESSAGES", 500)):
        monkeypatch.setattr(bench_unit_costs, name, small)
    monkeypatch.setattr(bench_unit_costs, "_taking", lambda: bench_unit_costs._row("take report", 0.0))  # a process
    rows = {row["name"]: row for row in bench_unit_costs.run()}
    assert {f"encode {kind}" for kind in ("central", "local", "shuffle", "local return")} <= set(rows)
    assert {"count central", "count local", "seal message", "take report"} <= set(rows)
