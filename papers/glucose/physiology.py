"""Glucose and insulin of people with type 1 diabetes: the UVA/Padova equations, sixteen people at a time.

The published model (Dalla Man, Rizza and Cobelli, 2007; Kovatchev, Breton, Dalla Man and Cobelli, 2009) as in the
package simglucose: thirteen states, inputs constant over a minute. With q = q1 + q2:

    stomach       q1' = -kmax q1 + D                      q2' = kmax q1 - kgut(q) q2        (mg)
    gut           q3' = kgut(q) q2 - kabs q3              Ra = f kabs q3 / BW
    emptying      kgut = kmin + (kmax - kmin)/2 [tanh(a (q - b Q)) - tanh(c (q - d Q)) + 2]
                  with a = 5/(2 Q (1 - b)), c = 5/(2 Q d), Q what was in the stomach when the meal began plus the meal
    glucose       Gp' = max(kp1 - kp2 Gp - kp3 X2, 0) + Ra - Fsnc - ke1 max(Gp - ke2, 0) - k1 Gp + k2 Gt   (mg/kg)
                  Gt' = -(Vm0 + Vmx X) Gt / (Km0 + Gt) + k1 Gp - k2 Gt
    under skin    Gs' = ksc (Gp - Gs)                     glucose = Gs / Vg                 (mg/dL)
    insulin       Ip' = -(m2 + m4) Ip + m1 Il + ka1 s1 + ka2 s2,  I = Ip / Vi               (pmol/kg)
                  Il' = -(m1 + m30) Il + m2 Ip
                  s1' = u - (ka1 + kd) s1                 s2' = kd s1 - ka2 s2
    its action    X' = p2u (I - Ib - X)                   X1' = ki (I - X1)                 X2' = ki (X1 - X2)

Insulin and q1 are linear, so they are exact (`patients` has the exponentials); the rest takes steps of Kutta's third
order, half a minute long for q2 and q3 (emptying is steep while somebody eats) and a minute long for glucose.
Glucose that would become negative stays where it is.

Sixteen people lie side by side in one array of single precision with constant distances, so the compiler handles eight
of them with every instruction; nothing is reordered within a person and everybody takes the same steps, so results do
not depend on who lies beside whom. tanh is computed by exp(y) = exp(y/32)^32 for the same reason.
Loops are short, so that the processor works on both halves of sixteen people at once.
"""

from __future__ import annotations

from typing import Any, Final

import numba
import numpy as np

from tacit.arrays import Singles
from tacit.kernels import lean_kernel

__all__ = ["CONSTANTS", "EATS", "LANES", "MEAL", "MOVES", "PUMPED", "QUEUE", "ROWS", "STATES", "STOMACH", "minute"]

LANES: Final = 16
STATES: Final = 13
"""q1, q2, q3, Gp, Gt, Ip, X, X1, X2, Il, s1, s2, Gs, in the order of the parameter table."""
MEAL: Final = 13
"""Grams that are announced in this minute."""
PUMPED: Final = 14
"""Insulin that is pumped in this minute, pmol/kg."""
QUEUE: Final = 15
"""Grams left to eat, and grams eaten a minute ago."""
STOMACH: Final = 17
"""Q, mg."""
APPEARS: Final = 18
"""Ra at the beginning, in the middle and at the end of a minute."""
ACTION: Final = 21
"""X at the beginning and in the middle of a minute, and X2."""
CONSTANTS: Final = 25
"""Ten of stomach and gut, then twelve of glucose."""
MOVES: Final = 47
"""How insulin moves in half a minute (X, X2) and in a minute (s1, s2, Ip, Il, X, X1, X2), without zeros."""
EATS: Final = 96
"""What is eaten in this minute (D, mg), what a quarter of it adds to q1, and 5/(Q (1 - b)) and 5/(Q d)."""
EMPTIED: Final = 100
"""kgut(q) q2 at the beginning and in the middle of a step."""
FREE: Final = 102
"""The first of thirteen rows for whoever lets people live (`day`)."""
ROWS: Final = 115

MAX_EATEN, MILLIGRAMS = np.float32(5.0), np.float32(1000.0)
"""Grams per minute; of a gram."""
FAR: Final = np.float32(24.0)
"""Beyond this 1/(exp(y) + 1) is 0 or 1 to the last digit."""
ZERO, QUARTER, HALF, ONE, FOUR = (np.float32(number) for number in (0.0, 0.25, 0.5, 1.0, 4.0))
PART, SIXTH, TWENTY_FOURTH = (np.float32(number) for number in (1 / 32, 1 / 6, 1 / 24))


@numba.njit(inline="always", error_model="numpy")  # type: ignore[untyped-decorator]
def _exp(y: Any) -> Any:
    """exp(y) for |y| <= 24, exactly enough for 1/(exp(y) + 1), which is off by less than 1e-6.

    A Taylor polynomial of y/32, squared five times.
    """
    z = y * PART
    e = ONE + z * (ONE + z * (HALF + z * (SIXTH + z * TWENTY_FOURTH)))
    e = e * e
    e = e * e
    e = e * e
    e = e * e
    return e * e


@numba.njit(inline="always", error_model="numpy")  # type: ignore[untyped-decorator]
def _kutta(k1: Any, k2: Any, k3: Any) -> Any:
    """The slope of Kutta's third order: (k1 + 4 k2 + k3)/6, k2 in the middle, k3 at the end after 2 k2 - k1."""
    return (k1 + FOUR * k2 + k3) * SIXTH


@numba.njit(inline="always", error_model="numpy")  # type: ignore[untyped-decorator]
def _emptying(q: Any, given: Any) -> Any:
    """Kgut(q)."""
    kmax, span, b_slope, b_place, d_slope, d_place = given
    # tanh(a (q - bQ)) - tanh(c (q - dQ)) = 2/(v + 1) - 2/(u + 1), u = exp(5 (q/Q - b)/(1 - b)), v = exp(5 (q/Q - d)/d);
    # as 0 <= q <= Q, u is never very large and v never very small.
    low, high = b_slope * q - b_place, d_slope * q - d_place
    u = _exp(low if low > -FAR else -FAR) + ONE
    v = _exp(high if high < FAR else FAR) + ONE
    return kmax + span * ((u - v) / (u * v))


@numba.njit(inline="always", error_model="numpy")  # type: ignore[untyped-decorator]
def _rate(lanes: Any, j: int, q: Any) -> Any:
    """Kgut(q) of a person."""
    c = CONSTANTS * LANES + j
    given = (
        lanes[c], lanes[c + LANES], lanes[(EATS + 2) * LANES + j], lanes[c + 3 * LANES], lanes[(EATS + 3) * LANES + j],
        lanes[c + 5 * LANES],
    )  # fmt: skip
    return _emptying(q, given)


@lean_kernel
def eat(lanes: Singles) -> None:
    """Everybody eats at most 5 g of what was announced and is left, over a minute.

    A meal begins when somebody eats who did not eat a minute ago; emptying follows what was in the stomach then plus
    what was eaten since (Q). Who does not eat has the Q and the emptying of the minute before.
    """
    # The most that anybody has left, by halves: one comparison after the other would take as long as eating.
    here = EATS * LANES
    for j in range(LANES):
        lanes[here + j] = lanes[QUEUE * LANES + j] + lanes[MEAL * LANES + j]
    for j in range(LANES // 2):
        one, other = lanes[here + j], lanes[here + LANES // 2 + j]
        lanes[here + j] = one if one > other else other
    for j in range(LANES // 4):
        one, other = lanes[here + j], lanes[here + LANES // 4 + j]
        lanes[here + j] = one if one > other else other
    most = ZERO
    for j in range(LANES // 4):
        most = max(most, lanes[here + j])
    if most > ZERO:
        _eat(lanes)
    else:
        for j in range(LANES):
            lanes[(QUEUE + 1) * LANES + j] = lanes[EATS * LANES + j] = lanes[(EATS + 1) * LANES + j] = ZERO


@lean_kernel
def _eat(lanes: Singles) -> None:
    """A minute in which somebody eats."""
    for j in range(LANES):
        left, before = lanes[QUEUE * LANES + j] + lanes[MEAL * LANES + j], lanes[(QUEUE + 1) * LANES + j]
        grams = left if left < MAX_EATEN else MAX_EATEN
        lanes[MEAL * LANES + j] = ZERO
        lanes[QUEUE * LANES + j], lanes[(QUEUE + 1) * LANES + j] = left - grams, grams
        q = lanes[j] + lanes[LANES + j]
        Q = (q if grams > ZERO and before <= ZERO else lanes[STOMACH * LANES + j]) + MILLIGRAMS * grams
        c = CONSTANTS * LANES + j
        lanes[STOMACH * LANES + j], lanes[EATS * LANES + j] = Q, MILLIGRAMS * grams
        lanes[(EATS + 1) * LANES + j] = lanes[c + 7 * LANES] * grams
        lanes[(EATS + 2) * LANES + j] = lanes[c + 2 * LANES] / Q
        lanes[(EATS + 3) * LANES + j] = lanes[c + 4 * LANES] / Q
        e = _rate(lanes, j, q) * lanes[LANES + j]
        lanes[EMPTIED * LANES + j] = e if grams > ZERO else lanes[EMPTIED * LANES + j]


@lean_kernel
def digest(lanes: Singles) -> None:
    """Half a minute of everybody's stomach and gut: q' = D - e, q3' = e - kabs q3, with e = kgut(q) q2.

    q1 is exact. The e at the end serves as the first one of the next step, with what the correction of q adds to it
    (kgut times the correction). Ra at the end goes beside the last two.
    """
    c = CONSTANTS * LANES
    for j in range(LANES):
        q1, e1 = lanes[j], lanes[EMPTIED * LANES + j]
        q = q1 + lanes[LANES + j] + QUARTER * (lanes[EATS * LANES + j] - e1)
        q1 = lanes[c + 6 * LANES + j] * q1 + lanes[(EATS + 1) * LANES + j]
        lanes[(EMPTIED + 1) * LANES + j] = _rate(lanes, j, q) * (q - q1)
    for j in range(LANES):
        q1, q, q3 = lanes[j], lanes[j] + lanes[LANES + j], lanes[2 * LANES + j]
        decay, kabs = lanes[c + 6 * LANES + j], lanes[c + 8 * LANES + j]
        eaten, e1, e2 = lanes[EATS * LANES + j], lanes[EMPTIED * LANES + j], lanes[(EMPTIED + 1) * LANES + j]
        q1 = decay * q1 + lanes[(EATS + 1) * LANES + j]
        q1 = decay * q1 + lanes[(EATS + 1) * LANES + j]
        end = q + HALF * (eaten - e2 - e2 + e1)
        rate = _rate(lanes, j, end)
        e3 = rate * (end - q1)
        k1 = e1 - kabs * q3
        k2 = e2 - kabs * (q3 + QUARTER * k1)
        k3 = e3 - kabs * (q3 + HALF * (k2 + k2 - k1))
        q, q3 = q + HALF * (eaten - _kutta(e1, e2, e3)), q3 + HALF * _kutta(k1, k2, k3)
        lanes[j], lanes[LANES + j], lanes[2 * LANES + j] = q1, q - q1, q3
        lanes[EMPTIED * LANES + j] = rate * (q - q1)
        lanes[APPEARS * LANES + j] = lanes[(APPEARS + 1) * LANES + j]
        lanes[(APPEARS + 1) * LANES + j] = lanes[(APPEARS + 2) * LANES + j]
        lanes[(APPEARS + 2) * LANES + j] = lanes[c + 9 * LANES + j] * q3


@numba.njit(inline="always", error_model="numpy")  # type: ignore[untyped-decorator]
def _from_five(lanes: Any, at: int, now: Any) -> Any:
    """What s1, s2, Ip, Il and u add to a state, with the five constants from row `at` on."""
    s1, s2, ip, il, u = now
    return (
        lanes[at] * s1 + lanes[at + LANES] * s2 + lanes[at + 2 * LANES] * ip + lanes[at + 3 * LANES] * il
        + lanes[at + 4 * LANES] * u
    )  # fmt: skip


@lean_kernel
def infuse(lanes: Singles) -> None:
    """One minute of the insulin of sixteen people, x <- exp(A) x; X and X2 of its beginning and middle are kept."""
    for j in range(LANES):
        x, x1, x2 = lanes[6 * LANES + j], lanes[7 * LANES + j], lanes[8 * LANES + j]
        s1, s2, u = lanes[10 * LANES + j], lanes[11 * LANES + j], lanes[PUMPED * LANES + j]
        now = (s1, s2, lanes[5 * LANES + j], lanes[9 * LANES + j], u)
        m = MOVES * LANES + j
        lanes[ACTION * LANES + j], lanes[(ACTION + 2) * LANES + j] = x, x2
        lanes[(ACTION + 1) * LANES + j] = _from_five(lanes, m, now) + lanes[m + 5 * LANES] * x - lanes[m + 6 * LANES]
        lanes[(ACTION + 3) * LANES + j] = (
            _from_five(lanes, m + 7 * LANES, now) + lanes[m + 12 * LANES] * x1 + lanes[m + 13 * LANES] * x2
        )
        lanes[10 * LANES + j] = lanes[m + 14 * LANES] * s1 + lanes[m + 15 * LANES] * u
        lanes[11 * LANES + j] = lanes[m + 16 * LANES] * s1 + lanes[m + 17 * LANES] * s2 + lanes[m + 18 * LANES] * u
        lanes[5 * LANES + j] = _from_five(lanes, m + 19 * LANES, now)
        lanes[9 * LANES + j] = _from_five(lanes, m + 24 * LANES, now)
        lanes[6 * LANES + j] = (
            _from_five(lanes, m + 29 * LANES, now) + lanes[m + 34 * LANES] * x - lanes[m + 35 * LANES]
        )
        lanes[7 * LANES + j] = _from_five(lanes, m + 36 * LANES, now) + lanes[m + 41 * LANES] * x1
        lanes[8 * LANES + j] = (
            _from_five(lanes, m + 42 * LANES, now) + lanes[m + 47 * LANES] * x1 + lanes[m + 48 * LANES] * x2
        )


@numba.njit(inline="always", error_model="numpy")  # type: ignore[untyped-decorator]
def _glucose_slopes(now: Any, ra: Any, x: Any, x2: Any, given: Any) -> Any:
    """Glucose in plasma, in tissue and under the skin (Gp, Gt, Gs), driven by gut and insulin."""
    gp, gt, gs = now
    kp1, kp2, kp3, fsnc, ke1, ke2, k1, k2, vm0, vmx, km0, ksc = given
    produced = kp1 - kp2 * gp - kp3 * x2
    produced = produced if produced > ZERO else ZERO
    lost = gp - ke2
    lost = ke1 * lost if lost > ZERO else ZERO
    exchange = k1 * gp - k2 * gt
    dgp = produced + ra - fsnc - lost - exchange
    dgt = exchange - (vm0 + vmx * x) * gt / (km0 + gt)
    return (
        dgp if gp >= ZERO else ZERO,
        dgt if gt >= ZERO else ZERO,
        ksc * (gp - gs) if gs >= ZERO else ZERO,
    )


@lean_kernel
def circulate(lanes: Singles) -> None:
    """One minute of the glucose of sixteen people."""
    for j in range(LANES):
        c = (CONSTANTS + 10) * LANES + j
        given = (
            lanes[c], lanes[c + LANES], lanes[c + 2 * LANES], lanes[c + 3 * LANES], lanes[c + 4 * LANES],
            lanes[c + 5 * LANES], lanes[c + 6 * LANES], lanes[c + 7 * LANES], lanes[c + 8 * LANES],
            lanes[c + 9 * LANES], lanes[c + 10 * LANES], lanes[c + 11 * LANES],
        )  # fmt: skip
        ra, x = APPEARS * LANES + j, ACTION * LANES + j
        gp, gt, gs = lanes[3 * LANES + j], lanes[4 * LANES + j], lanes[12 * LANES + j]
        a = _glucose_slopes((gp, gt, gs), lanes[ra], lanes[x], lanes[x + 2 * LANES], given)
        middle = (gp + HALF * a[0], gt + HALF * a[1], gs + HALF * a[2])
        b = _glucose_slopes(middle, lanes[ra + LANES], lanes[x + LANES], lanes[x + 3 * LANES], given)
        end = (gp + (b[0] + b[0] - a[0]), gt + (b[1] + b[1] - a[1]), gs + (b[2] + b[2] - a[2]))
        c3 = _glucose_slopes(end, lanes[ra + 2 * LANES], lanes[6 * LANES + j], lanes[8 * LANES + j], given)
        lanes[3 * LANES + j] = gp + _kutta(a[0], b[0], c3[0])
        lanes[4 * LANES + j] = gt + _kutta(a[1], b[1], c3[1])
        lanes[12 * LANES + j] = gs + _kutta(a[2], b[2], c3[2])


@lean_kernel
def minute(lanes: Singles) -> None:
    """One minute of sixteen people."""
    eat(lanes)
    digest(lanes)
    digest(lanes)
    infuse(lanes)
    circulate(lanes)
