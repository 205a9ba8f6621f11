"""Glucose and insulin of people with type 1 diabetes: the UVA/Padova equations, sixteen people at a time.

The published model (Dalla Man, Rizza and Cobelli, 2007; Kovatchev, Breton, Dalla Man and Cobelli, 2009) as in the
package simglucose: thirteen states, a classical Runge-Kutta step, inputs constant over a minute. With q = q1 + q2:

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

Glucose and insulin that would become negative stay where they are. Sixteen people lie side by side in one array with
constant distances, so the compiler handles several of them with every instruction; nothing is reordered within a
person, so results do not depend on who lies beside whom. tanh is computed by exp(y) = exp(y/64)^64 for the same reason.
"""

from __future__ import annotations

from typing import Any, Final

import numba

from tacit.arrays import Floats
from tacit.kernels import lean_kernel

__all__ = ["CONSTANTS", "INTAKE", "LANES", "PUMPED", "QUEUE", "ROWS", "SHARES", "STATES", "eat", "minute"]

LANES: Final = 16
STATES: Final = 13
"""q1, q2, q3, Gp, Gt, Ip, X, X1, X2, Il, s1, s2, Gs, in the order of the parameter table."""
INTAKE: Final = 13
"""Carbohydrate that is eaten in this minute, mg."""
PUMPED: Final = 14
"""Insulin that is pumped in this minute, pmol/kg."""
CONSTANTS: Final = 15
"""The first of the 29 rows of constants."""
GUT: Final = 44
"""The first of the four rows a, b Q, c, d Q."""
QUEUE: Final = 48
"""Rows of a meal: grams left to eat, grams eaten a minute ago, stomach when it began (mg), grams eaten of it."""
SHARES: Final = 52
"""b and d, of emptying."""
APPEARS: Final = 54
"""The appearance of glucose from the gut at the beginning, in the middle and at the end of a minute."""
KEPT: Final = 57
"""Two of these, between steps."""
ROWS: Final = 59
EATEN_PER_MINUTE: Final = 5.0


@numba.njit(inline="always", error_model="numpy")  # type: ignore[untyped-decorator]
def _exp(y: float) -> float:
    """exp(y) for |y| <= 40, exactly enough for tanh(y/2), which is off by less than 1e-10.

    A Taylor polynomial of y/64, squared six times.
    """
    z = y * 0.015625
    e = 1.0 + z * (1.0 + z * (1.0 / 2 + z * (1.0 / 6 + z * (1.0 / 24 + z * (1.0 / 120 + z * (1.0 / 720))))))
    e = e * e
    e = e * e
    e = e * e
    e = e * e
    e = e * e
    return e * e


@numba.njit(inline="always", error_model="numpy")  # type: ignore[untyped-decorator]
def _twice_within(x: float) -> float:
    """2x, kept between -40 and 40, beyond which tanh is 1 to the last digit."""
    y = 2.0 * x
    y = y if y < 40.0 else 40.0
    return y if y > -40.0 else -40.0


@numba.njit(inline="always", error_model="numpy")  # type: ignore[untyped-decorator]
def _gut_slopes(now: Any, given: Any) -> Any:
    """Stomach and gut: q1, q2, q3."""
    q1, q2, q3 = now
    intake, kmin, half, kmax, kabs, a, bq, c, dq = given
    q = q1 + q2
    # tanh(u) - tanh(v) = 2/(exp(2v) + 1) - 2/(exp(2u) + 1)
    u, v = _exp(_twice_within(a * (q - bq))) + 1.0, _exp(_twice_within(c * (q - dq))) + 1.0
    emptied = (kmin + half * (2.0 + 2.0 * (u - v) / (u * v))) * q2
    solid = kmax * q1
    return intake - solid, solid - emptied, emptied - kabs * q3


@numba.njit(inline="always", error_model="numpy")  # type: ignore[untyped-decorator]
def _insulin_slopes(now: Any, given: Any) -> Any:
    """Insulin and its action: Ip, X, X1, X2, Il, s1, s2."""
    ip, x, x1, x2, il, s1, s2 = now
    pumped, m24, m1, ka1, ka2, vi, p2u, ib, ki, m130, m2, ka1d, kd = given
    i = ip * vi
    return (
        m1 * il + ka1 * s1 + ka2 * s2 - m24 * ip if ip >= 0.0 else 0.0,
        p2u * (i - ib - x),
        ki * (i - x1),
        ki * (x1 - x2),
        m2 * ip - m130 * il if il >= 0.0 else 0.0,
        pumped - ka1d * s1 if s1 >= 0.0 else 0.0,
        kd * s1 - ka2 * s2 if s2 >= 0.0 else 0.0,
    )


@numba.njit(inline="always", error_model="numpy")  # type: ignore[untyped-decorator]
def _glucose_slopes(now: Any, ra: float, x: float, x2: float, given: Any) -> Any:
    """Glucose in plasma, in tissue and under the skin (Gp, Gt, Gs), driven by gut and insulin."""
    gp, gt, gs = now
    kp1, kp2, kp3, fsnc, ke1, ke2, k1, k2, vm0, vmx, km0, ksc = given
    produced = kp1 - kp2 * gp - kp3 * x2
    produced = produced if produced > 0.0 else 0.0
    lost = gp - ke2
    lost = ke1 * lost if lost > 0.0 else 0.0
    exchange = k1 * gp - k2 * gt
    dgp = produced + ra - fsnc - lost - exchange
    dgt = exchange - (vm0 + vmx * x) * gt / (km0 + gt)
    return (
        dgp if gp >= 0.0 else 0.0,
        dgt if gt >= 0.0 else 0.0,
        ksc * (gp - gs) if gs >= 0.0 else 0.0,
    )


@numba.njit(inline="always", error_model="numpy")  # type: ignore[untyped-decorator]
def _three(x: Any, k: Any, h: float) -> Any:
    """X + h k of three states."""
    return x[0] + h * k[0], x[1] + h * k[1], x[2] + h * k[2]


@numba.njit(inline="always", error_model="numpy")  # type: ignore[untyped-decorator]
def _seven(x: Any, k: Any, h: float) -> Any:
    """X + h k of seven states."""
    return (
        x[0] + h * k[0], x[1] + h * k[1], x[2] + h * k[2], x[3] + h * k[3], x[4] + h * k[4], x[5] + h * k[5],
        x[6] + h * k[6],
    )  # fmt: skip


@numba.njit(inline="always", error_model="numpy")  # type: ignore[untyped-decorator]
def _mean(k1: float, k2: float, k3: float, k4: float) -> float:
    """The slope of Runge and Kutta: (k1 + 2 k2 + 2 k3 + k4)/6."""
    return (k1 + 2.0 * (k2 + k3) + k4) * (1.0 / 6.0)


@numba.njit(inline="always", error_model="numpy")  # type: ignore[untyped-decorator]
def _halfway(k1: float, k2: float, k3: float, k4: float) -> float:
    """How far a state has come in the middle of a step: the third-order interpolant of the same four slopes."""
    return (5.0 * k1 + 4.0 * (k2 + k3) - k4) * (1.0 / 24.0)


@lean_kernel
def digest(lanes: Floats, h: float) -> None:
    """One Runge-Kutta step of sixteen stomachs, h minutes long.

    The appearance of glucose Ra at its beginning, in its middle and at its end is left in three rows.
    """
    for j in range(LANES):
        x = (lanes[j], lanes[LANES + j], lanes[2 * LANES + j])
        given = (
            lanes[13 * LANES + j], lanes[15 * LANES + j], lanes[16 * LANES + j], lanes[17 * LANES + j],
            lanes[18 * LANES + j], lanes[44 * LANES + j], lanes[45 * LANES + j], lanes[46 * LANES + j],
            lanes[47 * LANES + j],
        )  # fmt: skip
        k1 = _gut_slopes(x, given)
        k2 = _gut_slopes(_three(x, k1, 0.5 * h), given)
        k3 = _gut_slopes(_three(x, k2, 0.5 * h), given)
        k4 = _gut_slopes(_three(x, k3, h), given)
        ra, q3 = lanes[19 * LANES + j], x[2] + h * _mean(k1[2], k2[2], k3[2], k4[2])
        lanes[j] = x[0] + h * _mean(k1[0], k2[0], k3[0], k4[0])
        lanes[LANES + j] = x[1] + h * _mean(k1[1], k2[1], k3[1], k4[1])
        lanes[2 * LANES + j] = q3
        lanes[APPEARS * LANES + j] = ra * x[2]
        lanes[(APPEARS + 1) * LANES + j] = ra * (x[2] + h * _halfway(k1[2], k2[2], k3[2], k4[2]))
        lanes[(APPEARS + 2) * LANES + j] = ra * q3


@lean_kernel
def digest_finely(lanes: Floats) -> None:
    """One minute of sixteen stomachs in four steps."""
    digest(lanes, 0.25)
    for j in range(LANES):
        lanes[KEPT * LANES + j] = lanes[APPEARS * LANES + j]
    digest(lanes, 0.25)
    for j in range(LANES):
        lanes[(KEPT + 1) * LANES + j] = lanes[(APPEARS + 2) * LANES + j]
    digest(lanes, 0.25)
    digest(lanes, 0.25)
    for j in range(LANES):
        lanes[APPEARS * LANES + j] = lanes[KEPT * LANES + j]
        lanes[(APPEARS + 1) * LANES + j] = lanes[(KEPT + 1) * LANES + j]


@lean_kernel
def circulate(lanes: Floats) -> None:
    """One minute of the insulin and glucose of sixteen people, in one Runge-Kutta step."""
    for j in range(LANES):
        x = (
            lanes[5 * LANES + j], lanes[6 * LANES + j], lanes[7 * LANES + j], lanes[8 * LANES + j],
            lanes[9 * LANES + j], lanes[10 * LANES + j], lanes[11 * LANES + j],
        )  # fmt: skip
        given = (
            lanes[14 * LANES + j], lanes[31 * LANES + j], lanes[32 * LANES + j], lanes[33 * LANES + j],
            lanes[34 * LANES + j], lanes[35 * LANES + j], lanes[36 * LANES + j], lanes[37 * LANES + j],
            lanes[38 * LANES + j], lanes[39 * LANES + j], lanes[40 * LANES + j], lanes[41 * LANES + j],
            lanes[42 * LANES + j],
        )  # fmt: skip
        k1 = _insulin_slopes(x, given)
        k2 = _insulin_slopes(_seven(x, k1, 0.5), given)
        k3 = _insulin_slopes(_seven(x, k2, 0.5), given)
        k4 = _insulin_slopes(_seven(x, k3, 1.0), given)
        action = x[1] + _halfway(k1[1], k2[1], k3[1], k4[1])
        brake = x[3] + _halfway(k1[3], k2[3], k3[3], k4[3])
        lanes[5 * LANES + j] = x[0] + _mean(k1[0], k2[0], k3[0], k4[0])
        lanes[6 * LANES + j] = x[1] + _mean(k1[1], k2[1], k3[1], k4[1])
        lanes[7 * LANES + j] = x[2] + _mean(k1[2], k2[2], k3[2], k4[2])
        lanes[8 * LANES + j] = x[3] + _mean(k1[3], k2[3], k3[3], k4[3])
        lanes[9 * LANES + j] = x[4] + _mean(k1[4], k2[4], k3[4], k4[4])
        lanes[10 * LANES + j] = x[5] + _mean(k1[5], k2[5], k3[5], k4[5])
        lanes[11 * LANES + j] = x[6] + _mean(k1[6], k2[6], k3[6], k4[6])
        constants = (
            lanes[20 * LANES + j], lanes[21 * LANES + j], lanes[22 * LANES + j], lanes[23 * LANES + j],
            lanes[24 * LANES + j], lanes[25 * LANES + j], lanes[26 * LANES + j], lanes[27 * LANES + j],
            lanes[28 * LANES + j], lanes[29 * LANES + j], lanes[30 * LANES + j], lanes[43 * LANES + j],
        )  # fmt: skip
        begin, middle = lanes[APPEARS * LANES + j], lanes[(APPEARS + 1) * LANES + j]
        g = (lanes[3 * LANES + j], lanes[4 * LANES + j], lanes[12 * LANES + j])
        d1 = _glucose_slopes(g, begin, x[1], x[3], constants)
        d2 = _glucose_slopes(_three(g, d1, 0.5), middle, action, brake, constants)
        d3 = _glucose_slopes(_three(g, d2, 0.5), middle, action, brake, constants)
        end, x_end, x2_end = lanes[(APPEARS + 2) * LANES + j], lanes[6 * LANES + j], lanes[8 * LANES + j]
        d4 = _glucose_slopes(_three(g, d3, 1.0), end, x_end, x2_end, constants)
        lanes[3 * LANES + j] = g[0] + _mean(d1[0], d2[0], d3[0], d4[0])
        lanes[4 * LANES + j] = g[1] + _mean(d1[1], d2[1], d3[1], d4[1])
        lanes[12 * LANES + j] = g[2] + _mean(d1[2], d2[2], d3[2], d4[2])


@lean_kernel
def minute(lanes: Floats, eating: bool) -> None:
    """One minute of sixteen people; while one of them eats, stomachs change fast and all take finer steps.

    So somebody's numbers depend on those beside them by the error of a step, and by nothing else.
    """
    if eating:
        digest_finely(lanes)
    else:
        digest(lanes, 1.0)
    circulate(lanes)


@lean_kernel
def eat(lanes: Floats, j: int, announced: float) -> None:
    """What a person eats in this minute: at most 5 g of what was announced and is left.

    A meal begins when somebody eats who did not eat a minute ago; emptying follows what was in the stomach then plus
    what was eaten since.
    """
    left = lanes[QUEUE * LANES + j] + announced
    before = lanes[(QUEUE + 1) * LANES + j]
    eaten = min(EATEN_PER_MINUTE, left)
    lanes[QUEUE * LANES + j] = left - eaten
    lanes[(QUEUE + 1) * LANES + j] = eaten
    lanes[INTAKE * LANES + j] = 1000.0 * eaten
    if eaten <= 0.0:
        return
    if before <= 0.0:
        lanes[(QUEUE + 2) * LANES + j] = lanes[j] + lanes[LANES + j]
        lanes[(QUEUE + 3) * LANES + j] = 0.0
    lanes[(QUEUE + 3) * LANES + j] += eaten
    Q = lanes[(QUEUE + 2) * LANES + j] + 1000.0 * lanes[(QUEUE + 3) * LANES + j]
    b, d = lanes[SHARES * LANES + j], lanes[(SHARES + 1) * LANES + j]
    lanes[GUT * LANES + j] = 5.0 / (2.0 * Q * (1.0 - b))
    lanes[(GUT + 1) * LANES + j] = b * Q
    lanes[(GUT + 2) * LANES + j] = 5.0 / (2.0 * Q * d)
    lanes[(GUT + 3) * LANES + j] = d * Q
