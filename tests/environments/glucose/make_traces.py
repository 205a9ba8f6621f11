"""Write the stored traces of the reference package: patient-days, meals and sensor noise of simglucose.

    python -m venv reference && reference/bin/pip install --no-deps simglucose==0.2.11
    reference/bin/pip install "setuptools<70" numpy scipy pandas matplotlib
    reference/bin/python tests/environments/glucose/make_traces.py tests/environments/glucose

The package (MIT licence, Jinyu Xie, 2017) is run as it is: its patient with dopri5, its basal-bolus controller, its
Dexcom sensor, its Insulet pump, its random meals. Only its top-level module is passed over, which registers
environments with an old version of gym. A patient-day takes 16 to 20 seconds.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import types
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd

found = importlib.util.find_spec("simglucose")
assert found is not None
assert found.submodule_search_locations is not None
package = types.ModuleType("simglucose")
package.__path__ = list(found.submodule_search_locations)
package.__file__ = found.origin
sys.modules["simglucose"] = package

from simglucose.actuator.pump import InsulinPump  # noqa: E402
from simglucose.controller.basal_bolus_ctrller import BBController  # noqa: E402
from simglucose.patient.t1dpatient import Action, T1DPatient  # noqa: E402
from simglucose.sensor.cgm import CGMSensor  # noqa: E402
from simglucose.sensor.noise_gen import CGMNoise  # noqa: E402
from simglucose.simulation.scenario_gen import RandomScenario  # noqa: E402

DAYS = (
    ("child#001", 1.0, 1, 1),
    ("child#006", 1.3, 1, 2),
    ("child#009", 0.7, 1, 3),
    ("adolescent#002", 1.0, 1, 4),
    ("adolescent#005", 1.3, 1, 5),
    ("adolescent#009", 0.7, 1, 6),
    ("adult#001", 1.0, 2, 7),
    ("adult#005", 0.5, 1, 8),
    ("adult#009", 1.3, 1, 9),
)
"""Patient, factor on all insulin, days, seed."""
START = datetime(2018, 1, 1, 5)
QUANTILES = np.linspace(0.01, 0.99, 99)


def trace(name: str, factor: float, days: int, seed: int) -> pd.DataFrame:
    """One row per minute: what was announced and pumped in it, and glucose and the sensor's value at its end.

    The loop of the package's simulator: every three minutes the controller sees means over the last three.
    """
    patient, pump = T1DPatient.withName(name), InsulinPump.withName("Insulet")
    sensor, meals = CGMSensor.withName("Dexcom", seed=seed), RandomScenario(start_time=START, seed=seed)
    controller = BBController()
    observed = sensor.measure(patient)
    carbohydrate, rows = 0.0, []
    for _ in range(480 * days):
        act = controller._bb_policy(name, carbohydrate, observed, 3.0)
        carbohydrate = observed = 0.0
        for _ in range(3):
            now = START + pd.Timedelta(minutes=round(patient.t))
            eaten = meals.get_action(now).meal
            insulin = pump.basal(factor * act.basal) + pump.bolus(factor * act.bolus)
            patient.step(Action(insulin=insulin, CHO=eaten))
            reading = sensor.measure(patient)
            carbohydrate, observed = carbohydrate + eaten / 3.0, observed + reading / 3.0
            rows.append((name, factor, round(patient.t), eaten, insulin, patient.observation.Gsub, reading))
    columns = ["patient", "factor", "minute", "meal", "insulin", "glucose", "sensor"]
    return pd.DataFrame(rows, columns=columns)


def meals(days: int, seed: int) -> list[list[tuple[int, int]]]:
    """Time in minutes after midnight and grams, of so many days."""
    scenario, found = RandomScenario(start_time=START, seed=seed), []
    for _ in range(days):
        drawn = scenario.create_scenario()["meal"]
        found.append([(int(t), int(m)) for t, m in zip(drawn["time"], drawn["amount"], strict=True)])
    return found


def noise(weeks: int, seed: int) -> dict[str, object]:
    """Quantiles of the sensor's noise and of its changes over 3 and 15 minutes and 5 hours, over so many weeks."""
    params = CGMSensor.withName("Dexcom")._params
    series = []
    for week in range(weeks):
        source = CGMNoise(params, seed=seed + week)
        series.append([next(source) for _ in range(3360)])
    values = np.array(series)
    found = {"weeks": weeks, "quantiles": QUANTILES.tolist(), "noise": np.quantile(values, QUANTILES).tolist()}
    for lag, name in ((1, "3 minutes"), (5, "15 minutes"), (100, "5 hours")):
        found[name] = np.quantile(values[:, lag:] - values[:, :-lag], QUANTILES).tolist()
    found["weekly means"] = values.mean(axis=1).tolist()
    return found


def main(folder: Path) -> None:
    """Write traces.csv.gz, meals.json and noise.json."""
    (folder / "meals.json").write_text(json.dumps(meals(4_000, 1)).replace(" ", "") + "\n")
    (folder / "noise.json").write_text(json.dumps(noise(300, 1)) + "\n")
    table = pd.concat([trace(*day) for day in DAYS], ignore_index=True)
    table.to_csv(folder / "traces.csv.gz", index=False, float_format="%.9g")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
