"""Batches of their own: what a learner may ask of one batch of users, and what it may know about the noise beforehand.

Learners that come in stages do not keep running totals. Each stage asks its own users for its own statistics (all
layers, or one), with noise calibrated to exactly that batch; how the batches are combined is the learner's business.
Sizes and statistics of all batches are fixed before the first user comes, so they depend on nobody's data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from tacit.arrays import Floats
from tacit.errors import require, require_count, require_real
from tacit.released.precision import CountPrecision


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchQuery:
    """Which statistics one batch releases.

    >>> BatchQuery(layer=None, failure_prob=None).name, BatchQuery(layer=2, failure_prob=None).name
    ('all layers', 'layer 2')
    """

    layer: int | None
    """None: transitions, visits and rewards of all steps. h: only who moved where at step h (no rewards)."""
    failure_prob: float | None
    """None: unbiased counts. A probability: consistent counts that are right within E but for this probability."""

    @staticmethod
    def words() -> str:
        """What is asked, for refusals."""
        return "counts of single batches"

    def __post_init__(self) -> None:
        if self.layer is not None:
            require_count("layer", self.layer, least=0)
        if self.failure_prob is not None:
            require_real("failure_prob", self.failure_prob, low=0.0, high=1.0, open_low=True)

    @property
    def name(self) -> str:
        """For tables."""
        return "all layers" if self.layer is None else f"layer {self.layer}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBatch:
    """One batch of the schedule: so many users release that."""

    users: int
    query: BatchQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """What one kind of batch promises and costs; every number is public and known before the first user comes."""

    users: int
    statistic: str
    batches: int
    """How many batches of the run are of this kind."""
    epsilon: float
    """Certified by the exact accountant at this delta."""
    delta: float
    std: float
    """Standard deviation of the noise in one counter."""
    bits_per_user: int
    """Noise bits that a device adds to each counter."""
    messages_per_user: int
    """Messages of one device, padding included."""
    bytes_per_user: int
    noise: str | None = None
    """The name of the noise; None: written before version 0.6.0, which did not say."""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values; infinity is written "inf"."""
        plain = asdict(self)
        return plain | {"epsilon": "inf" if self.epsilon == float("inf") else self.epsilon}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> BatchReport:
        """The report that `to_dict` wrote."""
        names = set(cls.__dataclass_fields__)
        known = set(plain) in (names, names - {"noise"})
        require(known, f"a batch has the entries {', '.join(sorted(names))}", sorted(plain))
        return cls(**{**plain, "epsilon": float(plain["epsilon"])})


class BatchNoise(Protocol):
    """The public calibration of batches: how much noise a batch of this size would carry."""

    def batch_std(self, users: int, query: BatchQuery) -> float:
        """The standard deviation of the noise in one counter; 0 without privacy."""
        ...

    def batch_precision(self, users: int, query: BatchQuery) -> float:
        """E of the consistent counts that the query asks for; 0 without privacy."""
        ...

    def batch_covariance(self, sizes: Sequence[int], following: Sequence[int]) -> Floats:
        """[B,B]: of the noise in one counter over batches of these sizes, where so many users act on each one."""
        ...

    def count_precision(self) -> CountPrecision:
        """The sub-gamma scales of the noise in single counters; 0 for Gaussian noise."""
        ...
