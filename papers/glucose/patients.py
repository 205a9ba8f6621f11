"""The thirty virtual patients: ten adolescents, ten adults, ten children, and how they are laid out for the equations.

Their numbers are facts of the published model, carried over from simglucose (`patients.csv` names source and licence).
"""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files
from typing import Any, Final

import numpy as np

from papers.glucose.day import BASAL, SHOWN, VOLUME
from papers.glucose.physiology import CONSTANTS, EATS, LANES, MOVES, ROWS, STATES, STOMACH
from papers.glucose.sensor import LEAST, MOST
from tacit.arrays import Floats, Ints, Singles

__all__ = ["PERSON", "laid_out", "patient_names", "patients", "persons"]

PERSON: Final = ("basal", "ratio", "correction", "pmol", "volume")
"""Basal insulin (U/min), carbohydrate ratio (g/U), correction factor (mg/dL/U), pmol/kg of a unit, Vg (dL/kg)."""
UNIT: Final = 6000.0
"""pmol of insulin in a unit."""


@cache
def patients() -> tuple[tuple[str, ...], dict[str, Floats]]:
    """The names, and every column of the table."""
    text = files("papers.glucose").joinpath("patients.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
    columns = {key: np.array([float(row[key]) for row in rows]) for key in rows[0] if key != "name"}
    return tuple(row["name"] for row in rows), columns


def patient_names() -> tuple[str, ...]:
    """Of all thirty, in the order of the table.

    >>> len(patient_names()), patient_names()[0]
    (30, 'adolescent#001')
    """
    return patients()[0]


def persons(who: Ints) -> Floats:
    """[person, number]: what pump, controller and sensor need to know of these patients (`PERSON`)."""
    p = patients()[1]
    basal = p["u2ss"] * p["BW"] / UNIT
    return np.stack([basal, p["CR"], p["CF"], UNIT / p["BW"], p["Vg"]], axis=1)[who]


def laid_out(who: Ints) -> Singles:
    """[group, row x lane]: these patients in groups of sixteen, in their initial states; the last one is filled up."""
    table = _rows()
    groups = -(-len(who) // LANES)
    filled = np.zeros(groups * LANES, dtype=np.int64)
    filled[: len(who)] = who
    lanes = table[:, filled].reshape(ROWS, groups, LANES).transpose(1, 0, 2)
    return np.ascontiguousarray(lanes, dtype=np.float32).reshape(groups, ROWS * LANES)


@cache
def _rows() -> Any:
    """[row, patient]: states, no input, an empty stomach, and constants in the order of the equations."""
    p = patients()[1]
    quarter = np.exp(-p["kmax"] / 4.0)
    constants = (
        p["kmax"], p["kmax"] - p["kmin"], 5.0 / (1.0 - p["b"]), 5.0 * p["b"] / (1.0 - p["b"]), 5.0 / p["d"],
        np.full(len(quarter), 5.0), quarter, 1000.0 * (1.0 - quarter) / p["kmax"], p["kabs"],
        p["f"] * p["kabs"] / p["BW"],
        p["kp1"], p["kp2"], p["kp3"], p["Fsnc"], p["ke1"], p["ke2"], p["k1"], p["k2"], p["Vm0"], p["Vmx"], p["Km0"],
        p["ksc"],
    )  # fmt: skip
    table = np.zeros((ROWS, len(p["BW"])))
    table[:STATES] = [p[f"x{i}"] for i in range(STATES)]
    table[STOMACH] = 1.0
    table[EATS + 2], table[EATS + 3] = constants[2], constants[4]
    table[CONSTANTS : CONSTANTS + len(constants)] = constants
    moves = _moves(p)
    table[MOVES : MOVES + moves.shape[1]] = moves.T
    table[BASAL], table[VOLUME] = p["u2ss"], p["Vg"]
    table[SHOWN : SHOWN + 2] = np.clip(p[f"x{STATES - 1}"] / p["Vg"], LEAST, MOST)
    return table


def _moves(p: dict[str, Floats]) -> Floats:
    """[patient, number]: how insulin moves, x(t) = exp(A t) x(0), with x = (s1, s2, Ip, Il, X, X1, X2, u, 1)."""
    from scipy.linalg import expm

    a = np.zeros((len(p["BW"]), 9, 9))
    a[:, 0, 0], a[:, 0, 7] = -(p["ka1"] + p["kd"]), 1.0
    a[:, 1, 0], a[:, 1, 1] = p["kd"], -p["ka2"]
    a[:, 2, 0], a[:, 2, 1], a[:, 2, 2], a[:, 2, 3] = p["ka1"], p["ka2"], -(p["m2"] + p["m4"]), p["m1"]
    a[:, 3, 2], a[:, 3, 3] = p["m2"], -(p["m1"] + p["m30"])
    a[:, 4, 2], a[:, 4, 4], a[:, 4, 8] = p["p2u"] / p["Vi"], -p["p2u"], p["p2u"] * p["Ib"]
    a[:, 5, 2], a[:, 5, 5] = p["ki"] / p["Vi"], -p["ki"]
    a[:, 6, 5], a[:, 6, 6] = p["ki"], -p["ki"]
    half, whole = expm(a / 2.0), expm(a)
    five = [0, 1, 2, 3, 7]
    kept = (
        (half, 4, [*five, 4, 8]), (half, 6, [*five, 5, 6]), (whole, 0, [0, 7]), (whole, 1, [0, 1, 7]), (whole, 2, five),
        (whole, 3, five), (whole, 4, [*five, 4, 8]), (whole, 5, [*five, 5]), (whole, 6, [*five, 5, 6]),
    )  # fmt: skip
    return np.concatenate([moves[:, row, columns] for moves, row, columns in kept], axis=1)
