"""The thirty virtual patients: ten adolescents, ten adults, ten children, and how they are laid out for the equations.

Their numbers are facts of the published model, carried over from simglucose (`patients.csv` names source and licence).
"""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files
from typing import Any, Final

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.environments.glucose.physiology import CONSTANTS, LANES, ROWS, SHARES, STATES

__all__ = ["PERSON", "laid_out", "patient_names", "patients", "persons"]

PERSON: Final = ("basal", "ratio", "correction", "pmol", "volume")
"""Basal insulin (U/min), carbohydrate ratio (g/U), correction factor (mg/dL/U), pmol/kg of a unit, Vg (dL/kg)."""
UNIT: Final = 6000.0
"""pmol of insulin in a unit."""


@cache
def patients() -> tuple[tuple[str, ...], dict[str, Floats]]:
    """The names, and every column of the table."""
    text = files("tacit.environments.glucose").joinpath("patients.csv").read_text(encoding="utf-8")
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


def laid_out(who: Ints) -> Floats:
    """[group, row x lane]: these patients in groups of sixteen, in their initial states; the last one is filled up."""
    table = _rows()
    groups = -(-len(who) // LANES)
    filled = np.zeros(groups * LANES, dtype=np.int64)
    filled[: len(who)] = who
    lanes = table[:, filled].reshape(ROWS, groups, LANES).transpose(1, 0, 2)
    return np.ascontiguousarray(lanes).reshape(groups, ROWS * LANES)


@cache
def _rows() -> Any:
    """[row, patient]: states, no input, and the constants in the order in which the equations take them."""
    p = patients()[1]
    constants = (
        p["kmin"], (p["kmax"] - p["kmin"]) / 2.0, p["kmax"], p["kabs"], p["f"] * p["kabs"] / p["BW"], p["kp1"],
        p["kp2"], p["kp3"], p["Fsnc"], p["ke1"], p["ke2"], p["k1"], p["k2"], p["Vm0"], p["Vmx"], p["Km0"],
        p["m2"] + p["m4"], p["m1"], p["ka1"], p["ka2"], 1.0 / p["Vi"], p["p2u"], p["Ib"], p["ki"], p["m1"] + p["m30"],
        p["m2"], p["ka1"] + p["kd"], p["kd"], p["ksc"],
    )  # fmt: skip
    table = np.zeros((ROWS, len(p["BW"])))
    table[:STATES] = [p[f"x{i}"] for i in range(STATES)]
    table[CONSTANTS : CONSTANTS + len(constants)] = constants
    table[SHARES], table[SHARES + 1] = p["b"], p["d"]
    return table
