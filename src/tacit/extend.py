"""What extensions import: learners, noise, privatizers and events of other packages (docs/adding.md).

These names are stable; the modules behind them are not. Importing them loads the compiler of kernels.

>>> row = LearnerRow(summary="explore, then commit", asks=Totals, build=lambda request: None)
>>> row.asks.words()
'running totals'
"""

from __future__ import annotations

from tacit.accounting.events import Event, GaussianEvent, LaplaceEvent
from tacit.audit import check_learner, check_privatizer
from tacit.errors import InvalidInput, NotSupported
from tacit.kernels import kernel
from tacit.learners.contract import CountRequest, KernelLearner, PlanningLearner, StageRequest
from tacit.learners.table import LearnerRow
from tacit.noise import Additive, ContinualCounter, Laplace, Randomizer
from tacit.noise.additive import Amount, lattice_encoder
from tacit.planning.dynamic import backward_induction
from tacit.policies import DeterministicPolicy, StochasticPolicy, uniform_policy
from tacit.protocol import TOTALS, Plan, PrivateStatistics, Query, Totals
from tacit.release.request import PrivacyRequest
from tacit.release.table import PrivatizerRow, make_privatizer
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountShape, CountStatistics

__all__ = [
    "TOTALS",
    "Additive",
    "Amount",
    "BatchQuery",
    "ContinualCounter",
    "CountRequest",
    "CountShape",
    "CountStatistics",
    "DeterministicPolicy",
    "Event",
    "GaussianEvent",
    "InvalidInput",
    "KernelLearner",
    "Laplace",
    "LaplaceEvent",
    "LearnerRow",
    "NotSupported",
    "Plan",
    "PlanningLearner",
    "PrivacyRequest",
    "PrivateStatistics",
    "PrivatizerRow",
    "Query",
    "Randomizer",
    "StageRequest",
    "StochasticPolicy",
    "Totals",
    "backward_induction",
    "check_learner",
    "check_privatizer",
    "kernel",
    "lattice_encoder",
    "make_privatizer",
    "uniform_policy",
]
