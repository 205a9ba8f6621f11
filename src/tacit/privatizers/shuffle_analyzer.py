"""G, the analyzer: untrusted. It sees single-bit messages in random order, counts the ones and subtracts the mean.

    N_noisy(c) = #{ones labelled c} − n·m·q                     [bai2024shuffle] Alg. 4, lines 12-16, message by message

Unbiased; the error Binomial(n·m, q) − n·m·q does not depend on the data. Everything after it is post-processing.
"""

from __future__ import annotations

import numpy as np

from tacit.errors import require
from tacit.privatizers.shuffle_messages import Messages, Transport
from tacit.privatizers.shuffle_noise import BitNoise
from tacit.privatizers.shuffle_spec import NoisyCounts, ReleaseSpec

__all__ = ["analyze"]


def analyze(spec: ReleaseSpec, transport: Transport, bit_noise: BitNoise, messages: Messages) -> NoisyCounts:
    """The noisy statistics of a complete, shuffled batch; dummies and labels that do not exist count for nothing."""
    require(
        transport.fits(len(messages), transport.users),
        f"a batch must have {transport.users} reports of {transport.report_size} messages each",
        f"{len(messages)} messages",
    )
    ones = messages.counters[(messages.bits != 0) & (messages.counters < transport.num_counters)]
    totals = np.bincount(ones, minlength=transport.num_counters).astype(np.float64)
    return spec.arrays(totals - bit_noise.total.mean)
