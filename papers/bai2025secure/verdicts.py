"""Rows 1 to 7, batches of fresh users: shuffled bits [bai2024shuffle, bai2025secure], gradients [he2025policy]."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from papers.verdict import (
    ACTIONS,
    DELTA,
    EPSILON,
    HORIZON,
    LOCAL_DELTA,
    STATES,
    Verdict,
    listed,
    up,
)
from tacit.accounting.bits import least_bits
from tacit.accounting.events.binomial import binomial_epsilon
from tacit.accounting.events.gaussian import classical_gaussian_sigma, gaussian_epsilon, gaussian_mu
from tacit.accounting.search import least_integer
from tacit.errors import require_real
from tacit.noise.binomial import paper_binomial, paper_threshold

__all__ = ["first_violation", "gradient_verdicts", "hoeffding_bits", "leak", "shuffle_verdicts"]

USERS: Final = (100, 1_000, 10_000)
SDP: Final = f"({EPSILON:g}, {DELTA:g})-SDP"
COMMAND: Final = (
    f"tacit certify --trust shuffle --states {STATES} --actions {ACTIONS} --horizon {HORIZON} --episodes 20000 "
    f"--batch 1000 --epsilon {EPSILON:g} --delta {DELTA:g}"
)
BATCHES: Final = "B-batch SDP (Definition 3)"
REWARD_EPISODE: Final = "one episode (s, a, R) of a user"


def shuffle_verdicts() -> tuple[Verdict, ...]:
    """Rows 1 to 4."""
    differing = 6 * HORIZON
    each = differing // 2
    fine = {n: math.sqrt(bits) / 2 for n in (36, 34, 22) for bits in [least_bits(EPSILON, DELTA, n // 2, n // 2)]}
    basic = hoeffding_bits(EPSILON / differing, DELTA / differing)
    rows = []
    for row, source, cells in ((1, "bai2024shuffle", None), (2, "bai2025secure", HORIZON * STATES * ACTIONS)):
        small = [paper_binomial(HORIZON, EPSILON, DELTA, users=n, cells=cells) for n in USERS]
        large = [paper_binomial(HORIZON, EPSILON, DELTA, users=n, cells=cells) for n in (10**5, 10**6, 10**7)]
        epsilons = [binomial_epsilon(b.bits, b.probability, each, each, DELTA) for b in (*small, *large)]
        rows.append(
            Verdict(
                row=row,
                source=source,
                mechanism="shuffled bits, sum view, three families",
                epsilon=max(epsilons),
                certified=f"{listed(epsilons[:3], certifies=True)} for n = 100 / 1000 / 10000; "
                f"{listed(epsilons[3:], certifies=True)} for n = 1e5 / 1e6 / 1e7",
                remark="the proof is wrong (2H, not H, counters per family differ; delta is not composed), the claim "
                "survives by its constant 96",
                sound=f"N_H(eps/6H, delta/6H) = {basic} fair bits, std {math.sqrt(basic) / 2:.4g}",
                paper_std=f"{listed([b.std for b in small])}; {listed([b.std for b in large])}",
                tight_std=f"{fine[36]:.4g} (6H counters), {fine[34]:.4g} (6H-2), {fine[22]:.4g} (4H-2, one-hot); "
                f"variance of n = 1000 / {(small[1].std / fine[36]) ** 2:.0f} ... "
                f"/ {(small[1].std / fine[22]) ** 2:.0f}",
                tight_epsilon=_fair(36),
                definition=BATCHES,
                accounted=f"{differing} x Binomial, {each} up and {each} down by one",
                claim=SDP,
                claimed=(EPSILON, DELTA),
                command=COMMAND,
            )
        )
    tau = paper_threshold(HORIZON, EPSILON, DELTA)
    sizes = (20_000, 50_000, 100_000, 1_000_000)
    rows.append(
        Verdict(
            row=3,
            source="bai2024shuffle, bai2025secure",
            mechanism="the same as printed: one integer y + noise per user is shuffled",
            claim=SDP,
            claimed=(EPSILON, DELTA),
            epsilon=math.inf,
            certified="delta >= 1-(1-2^-m)^(3H) at EVERY epsilon: "
            + ", ".join(f"{leak(n, tau):.2g} (n = {n:.0e})".replace("e+0", "e") for n in sizes),
            remark=f"from n = {first_leak(tau)} on, where m = ceil(tau/n) = {math.ceil(tau / first_leak(tau))}",
            sound="every bit is its own message, or a secure sum: rows 1 and 2",
            paper_std="as rows 1 and 2",
            tight_std="as rows 1 and 2",
            tight_epsilon=None,
            definition=BATCHES,
            accounted=f"{each} up counters that no other user has: y + noise = m + 1 proves y = 1",
        )
    )
    paper = paper_binomial(HORIZON, EPSILON, DELTA, users=1000)
    crude = {n: math.sqrt(least_bits(EPSILON, DELTA, n // 2, n // 2)) / 2 for n in (4, 2)}
    epsilons = [binomial_epsilon(paper.bits, paper.probability, n // 2, n // 2, DELTA) for n in (4, 2)]
    quarter = hoeffding_bits(EPSILON / 4, DELTA / 4)
    rows.append(
        Verdict(
            row=4,
            source="bai2024shuffle, bai2025secure",
            mechanism="crude exploration, one layer of a batch is used",
            claim=SDP,
            claimed=(EPSILON, DELTA),
            epsilon=max(epsilons),
            certified=f"{up(epsilons[0])} (transitions and visits), {up(epsilons[1])} (transitions only)",
            remark="noise for 6H counters where 4 or 2 differ",
            sound=f"N_H(eps/4, delta/4) = {quarter} fair bits, std {math.sqrt(quarter) / 2:.4g}",
            paper_std=f"{paper.std:.4g}",
            tight_std=f"{crude[4]:.4g} (4 counters), {crude[2]:.4g} (2); variance / {(paper.std / crude[4]) ** 2:.0f} "
            f"and / {(paper.std / crude[2]) ** 2:.0f}",
            tight_epsilon=_fair(4),
            definition=BATCHES,
            accounted="4 (2) x Binomial, half up and half down by one",
        )
    )
    return tuple(rows)


def gradient_verdicts() -> tuple[Verdict, ...]:
    """Rows 5 to 7; noise in units of the sensitivity, or of the largest reward over the batch size m."""
    paper, tight = classical_gaussian_sigma(EPSILON, LOCAL_DELTA), 1.0 / gaussian_mu(EPSILON, LOCAL_DELTA)
    claim = f"({EPSILON:g}, {LOCAL_DELTA:g})-DP"
    # G = √(1 − 1/A) bounds the expected norm of the softmax score; the norm itself reaches √2.
    wrong = {A: math.sqrt(1.0 - 1.0 / A) for A in (2, 4, 10)}
    softmax = [gaussian_epsilon(LOCAL_DELTA, math.sqrt(2.0) / (G * paper)) for G in wrong.values()]
    firsts = {delta: first_violation(delta) for delta in (1e-3, 1e-5, 1e-6, 1e-8)}
    return (
        Verdict(
            row=5,
            mechanism="policy gradient, classical Gaussian, correct G",
            claim=f"{claim}; printed for every epsilon",
            epsilon=gaussian_epsilon(LOCAL_DELTA, 1.0 / paper),
            certified=up(gaussian_epsilon(LOCAL_DELTA, 1.0 / paper)),
            remark="at this epsilon; FALSE beyond "
            + ", ".join(f"{value:.2f} (delta {delta:g})" for delta, value in firsts.items()),
            sound="sigma = Delta2 / mu(eps, delta), analytic",
            paper_std=f"{paper:.4g} Delta2",
            tight_std=f"{tight:.4g} Delta2 (x {tight / paper:.2f})",
            tight_epsilon=gaussian_epsilon(LOCAL_DELTA, 1.0 / tight),
            definition="Definition 2",
            accounted="1 x Gaussian over Delta2, fresh users in every batch",
            unit=REWARD_EPISODE,
            source="he2025policy",
            claimed=(EPSILON, LOCAL_DELTA),
        ),
        Verdict(
            row=6,
            mechanism="softmax policy with G = sqrt(1-1/A) (Theorem 4)",
            claim=claim,
            epsilon=max(softmax),
            certified=f"{listed(softmax, certifies=True)} for A = 2 / 4 / 10, action known to the adversary",
            remark="true under Definition 2 (hidden action) at this epsilon and delta, although the proof is wrong: "
            "the printed G bounds a mean square, the norm reaches sqrt(2)",
            sound="G = sqrt(2), or clip every user's gradient",
            paper_std=f"{2.0 * wrong[2] * paper:.4g} Rmax/m (A = 2)",
            tight_std=f"{2.0 * math.sqrt(2.0) * tight:.4g} Rmax/m (rewards in [-Rmax, Rmax]), "
            f"{2.0 * tight:.4g} Rmax/m (in [0, Rmax])",
            tight_epsilon=gaussian_epsilon(LOCAL_DELTA, 1.0 / tight),
            definition="a known action",
            accounted="1 x Gaussian over 2 sqrt(2) Rmax/m",
            unit=REWARD_EPISODE,
            source="he2025policy",
            claimed=(EPSILON, LOCAL_DELTA),
        ),
        Verdict(
            row=7,
            mechanism="Gaussian policy, said to satisfy the bound on G",
            claim=claim,
            epsilon=math.inf,
            certified="none: the score (a - mean) phi / s^2 is unbounded, so is the sensitivity",
            remark="the theorem does not apply without a bound on the score",
            undecided="not proved",
            sound="clip every user's gradient to norm C: Delta2 = 2C/m",
            paper_std="-",
            tight_std=f"{2.0 * tight:.4g} C/m after clipping",
            tight_epsilon=gaussian_epsilon(LOCAL_DELTA, 1.0 / tight),
            definition="Definition 2",
            accounted="nothing: no finite sensitivity",
            unit=REWARD_EPISODE,
            source="he2025policy",
            claimed=(EPSILON, LOCAL_DELTA),
        ),
    )


def leak(users: int, threshold: float) -> float:
    """The least delta, at every epsilon, of shuffling integers: P[some up counter shows m + 1] = 1 − (1 − p)^(3H).

    >>> round(leak(100_000, paper_threshold(HORIZON, EPSILON, DELTA)), 3)
    0.435
    """
    certain = 2.0 ** -math.ceil(threshold / users) if users <= threshold else threshold / (2.0 * users)
    return -math.expm1(3 * HORIZON * math.log1p(-certain))


def first_leak(threshold: float) -> int:
    """The smallest batch in which the integers alone break the claimed delta."""
    return _least(lambda users: leak(users, threshold) > DELTA, 1, math.ceil(threshold))


def first_violation(delta: float) -> float:
    """Up to which epsilon the classical Gaussian calibration is private at this delta."""
    low, high = 2.0, 20.0
    while high - low > 1e-6:
        middle = 0.5 * (low + high)
        private = gaussian_epsilon(delta, 1.0 / classical_gaussian_sigma(middle, delta)) <= middle
        low, high = (middle, high) if private else (low, middle)
    return low


def _fair(differing: int) -> float:
    """What the least number of fair bits gives to this many counters."""
    half = differing // 2
    return binomial_epsilon(least_bits(EPSILON, DELTA, half, half), 0.5, half, half, DELTA)


def _least(holds: Callable[[int], bool], low: int, high: int) -> int:
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def hoeffding_bits(epsilon: float, delta: float) -> int:
    """N_H: the fewest fair bits for which Hoeffding's inequality proves one counter (epsilon, delta)-private.

    The closed formula for one counter (Lemma M3 (enough bits)), to be used with basic composition; `least_bits` is
    exact and about fifty times smaller for the counters of a whole trajectory.

    >>> hoeffding_bits(1 / 4, 2.5e-7)
    2070
    """
    require_real("epsilon", epsilon, low=0.0, open_low=True)
    require_real("delta", delta, low=0.0, high=1.0, open_low=True)

    def excess(bits: int) -> float:
        # P[|k − N/2| > t] ≤ 2 exp(−2t²/N) = δ, and otherwise |ℓ| ≤ ln((N/2 + t + 1)/(N/2 − t)).
        t = math.sqrt(bits * math.log(2.0 / delta) / 2.0)
        return math.log((bits / 2 + t + 1) / (bits / 2 - t)) - epsilon if bits / 2 > t else math.inf

    return least_integer(excess, 8.0 * math.log(2.0 / delta) / epsilon**2)
