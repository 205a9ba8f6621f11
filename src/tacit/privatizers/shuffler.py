"""F, the shuffler: the one trusted party. It sees who reports, and puts all messages of the batch in a random order.

It passes on nothing until the batch is complete: with fewer reports than planned there would be less noise than
certified, so the batch is aborted and nothing is released. It does not look into messages (in a deployment they are
encrypted to the analyzer); their number per report is public and constant, and that is all it checks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacit.errors import Unsupportable, require
from tacit.mechanisms.exact import permutation
from tacit.privatizers.shuffle_messages import Messages, Transport
from tacit.randomness import SecureNoise, SimulationNoise

__all__ = ["require_complete", "shuffle"]


def shuffle(transport: Transport, reports: Sequence[Messages], noise: SimulationNoise | SecureNoise) -> Messages:
    """All messages of a complete batch in a uniformly random order: every order of all messages is equally likely."""
    require_complete(len(reports), transport.users)
    for report in reports:
        require(
            transport.fits(len(report), 1),
            f"a report must have {transport.report_size} messages",
            len(report),
            "ask that device to encode with the description of this batch",
        )
    counters = np.concatenate([report.counters for report in reports])
    bits = np.concatenate([report.bits for report in reports])
    if isinstance(noise, SimulationNoise):
        order = noise.generator.permutation(len(counters))
    else:
        order = permutation(len(counters), noise)
    return Messages(counters[order], bits[order])


def require_complete(reports: int, users: int) -> None:
    """Abort a batch whose number of reports is not the planned one, before anything is released.

    >>> require_complete(999, 1000)
    Traceback (most recent call last):
    ...
    tacit.errors.Unsupportable: the batch has 999 reports of 1000 planned, so its noise would be below the certified \
one: batch aborted, nothing released; plan a smaller batch and collect anew
    """
    if reports < users:
        raise Unsupportable(
            f"the batch has {reports} reports of {users} planned, so its noise would be below the certified one: "
            "batch aborted, nothing released; plan a smaller batch and collect anew"
        )
    require(reports == users, f"a batch must have exactly the {users} planned reports", reports)
