"""Hostile bytes at a small scale: thousands of mutants, huge and slow bodies, requests that are no HTTP."""

from __future__ import annotations

import pytest
from chaos import row_fuzz, row_load
from chaos.mutations import LARGEST

QUICK, LONG = 8_000, row_fuzz.SCALES["ci"]["mutants"]
"""Mutants with every change, and before a merge; that every answer occurs among them is asserted."""


@pytest.mark.parametrize("mutants", [QUICK, pytest.param(LONG, marks=pytest.mark.slow)])
def test_thousands_of_mutants(mutants):
    """None is a fault, none ends the process or fills its memory, and honest reports between them are counted."""
    found = row_fuzz.mutated_row(mutants, seed=17, processes=1)
    counts = found["counts"]
    assert found["met"], found
    assert sum(counts["kinds"].values()) == sum(counts["statuses"].values()) == mutants
    assert {"200", "201", "400", "403", "404", "409", "422"} <= set(counts["statuses"])
    assert set(map(int, counts["statuses"])) <= {200, 201, 400, 403, 404, 409, 410, 422}


def test_a_fault_among_the_mutants_would_be_found(monkeypatch):
    """The same row over a shuffler that fails on one kind of them."""
    import asyncio

    from chaos import studies
    from chaos.parties import fast_directory

    from tacit.service import shuffler

    real = shuffler.open_envelope

    def careless(data, **more):
        if data[:4] == b"TCE2":
            raise KeyError("a version that nobody thought of")
        return real(data, **more)

    monkeypatch.setattr(shuffler, "open_envelope", careless)
    with studies.registered(), fast_directory() as folder:
        found = asyncio.run(row_fuzz._against(folder / "open", "open", 2000, 17))
    assert found["statuses"][500] == found["faults"] > 0
    assert found["counted"] == found["honest"]


@pytest.fixture(scope="module")
def parties():
    """One shuffler over HTTP, patient enough that slow bodies outlast the test."""
    with row_load.shuffling(limits={"body": LARGEST, "read_seconds": 120.0}) as made:
        yield made


def test_huge_slow_and_broken_requests(parties):
    size = row_fuzz.SCALES["ci"]
    rows = row_fuzz.network_rows(parties, size, seed=17)
    assert [found["name"] for found in rows if not found["met"]] == []
    hung = rows[2]["counts"]
    assert hung["hanging_before"] >= size["slow"] // 2
    assert hung["hanging_after"] >= size["slow"] // 2
    assert hung["statuses"] == {"201": size["honest"]}
    assert parties.alive("shuffler")


def test_a_long_body_behind_its_head_is_no_long_head(parties):
    """Head and body arrive in one piece that is longer than a head may be; a head of that length is refused."""
    import socket
    from urllib.parse import urlsplit

    from tacit.service.server import LARGEST_HEAD

    def status(data):
        with socket.create_connection((where.hostname, where.port), timeout=30.0) as line:
            line.sendall(data)
            return int(line.recv(4096)[9:12])

    where = urlsplit(parties.addresses["shuffler"]["internal"])
    secret = (parties.home("shuffler") / "bearer").read_text().strip()
    body = b"[" + b" " * LARGEST_HEAD + b"]"
    head = f"PUT /v1/keys/learner HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {secret}\r\n"
    assert status(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body) == 409
    assert status(f"{head}x: {'y' * LARGEST_HEAD}\r\n\r\n".encode()) == 400
