"""Metrics of one process for Prometheus: counts, sizes and latencies, no label that somebody sent.

M1  Labels come from fixed lists: routes by the name of their function, refusals by their slug, states by their word.
M2  No moment of a single request is kept: series say no time of creation, latencies stand in histograms.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import Final

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

COMMITS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
COMMIT_SIZE_BUCKETS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
REQUESTS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.5, 5.0, 10.0)
STATES: Final = ("new", "open", "closed", "released", "void")


class Meters:
    """What a party counts, in a registry of its own."""

    def __init__(self, party: str) -> None:
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # M2
        self.registry = CollectorRegistry()
        self.party = party
        ProcessCollector(registry=self.registry)
        self.requests = self.counter("requests", "Requests by route, status and reason.", "route", "status", "reason")
        self.seconds = self.histogram("request_seconds", "From the head of a request to its answer.", REQUESTS)
        self._arriving: list[Sized] = []
        bodies = self.gauge("bodies_arriving", "Bodies that are on their way.")
        bodies.set_function(lambda: sum(len(some) for some in self._arriving))
        self.draining = self.gauge("draining", "1 once the process was asked to end.")

    def watch_bodies(self, arriving: Sized) -> None:
        """Count the bodies in this collection, too: every listener has its own."""
        self._arriving.append(arriving)

    def counter(self, name: str, words: str, *labels: str) -> Counter:
        """A number that only grows: tacit_<party>_<name>_total."""
        return Counter(f"tacit_{self.party}_{name}", words, labels, registry=self.registry)

    def gauge(self, name: str, words: str, *labels: str) -> Gauge:
        """A number that goes up and down."""
        return Gauge(f"tacit_{self.party}_{name}", words, labels, registry=self.registry)

    def histogram(self, name: str, words: str, buckets: tuple[float, ...] = COMMITS) -> Histogram:
        """Counts by size."""
        return Histogram(f"tacit_{self.party}_{name}", words, buckets=buckets, registry=self.registry)

    def text(self) -> bytes:
        """Everything, in the text format of Prometheus."""
        return prometheus_client.generate_latest(self.registry)
