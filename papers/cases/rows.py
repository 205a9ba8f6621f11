"""The case `features`: linear learners on rows that others measured, from packages that are installed.

    python -m papers.cases.rows segments|shuttle|actg175 [--seeds 20] [--out results/cases/features]

A classification becomes a bandit: a person is a row, drawn with replacement; actions are the classes; the reward is 1
where the action is the class of the row. The learner sees the reward of the action that it took, and no class.

    declaration    a sample of rows is public: `PUBLIC` of them, drawn by seed 0. A column is declared from the 15th to
                   the 85th percentile of the public rows; a column without a spread there is left out. People are
                   drawn from the other rows only. The 15th was chosen among seven percentiles from 0 to the 20th, and
                   the norm of `Features` among three, by runs whose people were drawn from the public rows, with seeds
                   100 to 103; no other row was used
    learner        auto (lin-ts), delta 1e-6, seeds 0 to 19; no privacy, central and shuffle trust at epsilon 1
    measured       right decisions of all people during the run, and of the last policy over all rows that are not
                   public; intervals are 95 % t intervals over seeds
    baselines      the uniform policy, and the most frequent class for everyone

ACTG175 has 2,139 patients who were randomised to four treatments, each with probability 1/4. The reward is 1 where the
CD4 count of week 20 is at least that of the start. Covariates are declared by what they mean (`PATIENT`). In each of 20
splits, half of the patients are a log (one release at epsilon 1, or none of privacy) and the other half measures: the
value of a policy is the mean of 1/2 + 4 (r - 1/2) where the randomised arm is the policy's, and of 1/2 elsewhere. The
baseline is the arm with the best mean in the log, without privacy. The interval is over patients, of scores that are
averaged over the splits in which a patient measures; the choice of a policy within a split is not in it.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import io
import json
import math
import sys
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from tacit import Features, LinearBandit
from tacit._version import __version__
from tacit.arrays import Floats
from tacit.planning.linear_posterior import linear_posterior
from tacit.policies import LinearPolicy
from tacit.randomness import SimulationNoise
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig
from tacit.simulation.features import FeatureWorld
from tacit.simulation.simulate import simulate

Ints = NDArray[np.int64]
DELTA: Final = 1e-6
QUANTILE: Final = 0.15
PUBLIC: Final = {"segments": 210, "shuttle": 500}
"""Rows that are taken to be public."""
FILES: Final = {
    "segments": ("river", "datasets/segment.csv.zip", "category"),
    "shuttle": ("river", "datasets/shuttle.csv.gz", "anomaly"),
    "actg175": ("lifelines", "datasets/ACTG175.csv", "arms"),
}
BARS: Final = {("segments", "central", 200_000): 0.80, ("shuttle", "central", 20_000): 0.985}
"""The least share of right decisions of the last policy, fixed before anything was run."""
SIZES: Final = (20_000, 200_000)
TRUSTS: Final = ("none", "central", "shuffle")
PATIENT: Final = Features(
    age=(18, 70),
    wtkg=(40, 120),
    karnof=(70, 100),
    cd40=(100, 600),
    cd80=(200, 2000),
    preanti=(0, 1500),
    hemo=(0, 1),
    homo=(0, 1),
    drugs=(0, 1),
    race=(0, 1),
    gender=(0, 1),
    str2=(0, 1),
    symptom=(0, 1),
)


def where(name: str) -> Path | None:
    """The file of these data in the installed package, which is not imported; None where it is not installed."""
    package, path, _ = FILES[name]
    found = importlib.util.find_spec(package)
    places = [] if found is None else list(found.submodule_search_locations or ())
    return next((Path(place) / path for place in places if (Path(place) / path).is_file()), None)


def read(name: str) -> tuple[dict[str, Floats], Ints]:
    """The columns of these data, and the number of the class of every row."""
    path = where(name)
    if path is None:
        raise FileNotFoundError(f"{FILES[name][0]} must be installed: pip install '.[cases]' in a clone")
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            text = archive.read(archive.namelist()[0]).decode()
    else:
        text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text(encoding="utf-8")
    head, *lines = (line.split(",") for line in io.StringIO(text).read().split())
    columns = dict(zip((entry.strip('"') for entry in head), zip(*lines, strict=True), strict=True))
    classes = np.unique(np.array(columns.pop(FILES[name][2])), return_inverse=True)[1].astype(np.int64)
    known = {key: np.array(values) for key, values in columns.items() if key}
    return {key: np.where(values == "NA", "nan", values).astype(np.float64) for key, values in known.items()}, classes


class Rows:
    """People of a classification: rows with replacement, and a reward of 1 for the class of a row."""

    shared = False

    def __init__(self, x: Floats, classes: Ints, name: str) -> None:
        self.name, self.x, self.classes = name, x, classes
        self.features, self.actions = x.shape[1], int(classes.max()) + 1
        # equal rows share a mean; a key of 64 bits is looked up, because a judge asks by row
        self._odd = np.random.default_rng(1).integers(1, 2**63, self.features, dtype=np.uint64) | np.uint64(1)
        self._keys, first, inverse = np.unique(self._key(x), return_index=True, return_inverse=True)
        if not np.array_equal(x[first][inverse], x):
            raise ValueError("different rows must have different keys: expected none alike, got a collision")
        sums = np.zeros((len(self._keys), self.actions))
        np.add.at(sums, (inverse, classes), 1.0)
        self._means = sums / sums.sum(axis=1, keepdims=True)

    def _key(self, x: Floats) -> NDArray[np.uint64]:
        bits = np.ascontiguousarray(x).view(np.uint64)  # of round numbers the lower ones are zero: mix, then add
        return np.asarray(((bits ^ (bits >> np.uint64(32))) * self._odd).sum(axis=1))

    def contexts(self, people: int, rng: np.random.Generator) -> Floats:
        """Rows of so many people."""
        return np.asarray(self.x[rng.integers(0, len(self.x), people)])

    def means(self, x: Floats) -> Floats:
        """The share of every class among the rows that equal these: [n,A]."""
        return np.asarray(self._means[np.searchsorted(self._keys, self._key(x))])

    def own_rows(self, x: Floats, actions: Ints) -> Floats:
        """What people report: their row."""
        return x

    def right(self, policy: LinearPolicy) -> float:
        """The share of rows for which this policy chooses their class."""
        return float((policy.choose(self.x, np.random.default_rng(0)) == self.classes).mean())


@lru_cache(maxsize=4)
def world(name: str) -> tuple[Rows, Features, int]:
    """The rows that are not public, the declaration that the public ones give, and the rows that were clipped."""
    columns, classes = read(name)
    order = np.random.default_rng(0).permutation(len(classes))
    public, private = order[: PUBLIC[name]], order[PUBLIC[name] :]
    bounds = {key: np.quantile(values[public], (QUANTILE, 1.0 - QUANTILE)) for key, values in columns.items()}
    space = Features({key: (float(low), float(high)) for key, (low, high) in bounds.items() if low < high})
    rows = Rows(space.encode({key: values[private] for key, values in columns.items()}), classes[private], name)
    return rows, space, int(np.bincount(classes[public]).argmax())


def interval(values: Sequence[float]) -> list[float]:
    """Mean, and the ends of its 95 % t interval."""
    n, mean = len(values), float(np.mean(values))
    half = float(student.ppf(0.975, n - 1) * np.std(values, ddof=1) / math.sqrt(n)) if n > 1 else math.nan
    return [mean, mean - half, mean + half]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One data set under one trust model."""

    data: str
    trust: str
    episodes: int

    def run(self, seeds: Sequence[int]) -> dict[str, Any]:
        """Right decisions, seed by seed."""
        rows, space, common = world(self.data)
        private = {} if self.trust == "none" else {"epsilon": 1.0, "delta": DELTA}
        during, final, certified, started = [], [], 0.0, time.process_time()
        for seed in seeds:
            config = RunConfig(
                environment=f"linear-bandit:features={rows.features},actions={rows.actions}",  # for the sizes only
                learner="auto",
                trust=self.trust,  # type: ignore[arg-type]
                episodes=self.episodes,
                seeds=(seed,),
                checkpoints=2,
                **private,  # type: ignore[arg-type]
            )
            parts = assemble(config)
            place = FeatureWorld(rows)  # type: ignore[arg-type]
            found = simulate(place, parts.learner, parts.privatizer, episodes=self.episodes, seed=seed)
            best = float(rows.means(rows.x).max(axis=1).mean())
            during.append(best - float(found.regret[-1]) / self.episodes)
            if not isinstance(found.policy, LinearPolicy):
                raise TypeError(f"a linear learner must end with a linear policy, got a {type(found.policy).__name__}")
            final.append(rows.right(found.policy))
            certified = max(certified, float(parts.certificate.epsilon))
        return {
            "cell": {"data": self.data, "trust": self.trust, "episodes": self.episodes},
            "bar": BARS.get((self.data, self.trust, self.episodes)),
            "seeds": list(seeds),
            "learner": parts.config.learner,
            "certified epsilon": certified if private else None,
            "during": [round(value, 5) for value in during],
            "final": [round(value, 5) for value in final],
            "during interval": interval(during),
            "final interval": interval(final),
            "uniform": 1.0 / rows.actions,
            "most frequent class": float((rows.classes == common).mean()),
            "rows": len(rows.x),
            "features": rows.features,
            "declaration": space.to_dict(),
            "seconds": round(time.process_time() - started, 2),
            "version": __version__,
        }


def trial(seeds: Sequence[int]) -> dict[str, Any]:
    """ACTG175: what a rule for the arm is worth, learned from half of the patients and measured on the others."""
    columns, arms = read("actg175")
    earned = (columns["cd420"] >= columns["cd40"]).astype(np.float64)
    x, n, A = PATIENT.encode(columns), len(arms), 4
    names = [f"arm {a}" for a in range(A)]
    rules = ("linear, no privacy", "linear, epsilon 1", "best single arm")
    total, often = {rule: np.zeros(n) for rule in rules}, np.zeros(n)
    certified = 0.0
    for seed in seeds:
        log, rest = np.split(np.random.default_rng(seed).permutation(n), [n // 2])
        mine = [log[arms[log] == a] for a in range(A)]
        gram = np.stack([x[rows].T @ x[rows] for rows in mine])
        sums = np.stack([x[rows].T @ (earned[rows] - 0.5) for rows in mine])
        theta = linear_posterior(gram, sums, np.zeros(A), np.zeros(A)).mean
        bandit = LinearBandit(
            actions=names,
            features=PATIENT,
            reward=(0, 1),
            trust="central",
            epsilon=1.0,
            delta=DELTA,
            reports_per_person=1,
        )
        frame = {column.name: columns[column.name] for column in PATIENT.columns}
        given = {key: values[log] for key, values in frame.items()}
        given |= {"arm": np.array(names)[arms[log]], "better": earned[log]}
        bandit.fit(given, action="arm", reward="better", noise=SimulationNoise(np.random.default_rng(1000 + seed)))
        certified = max(certified, float(bandit.certificate_.epsilon))
        chosen = {
            rules[0]: (x[rest] @ theta.T).argmax(axis=1),
            rules[1]: bandit.predict_proba({key: values[rest] for key, values in frame.items()}).argmax(axis=1),
            rules[2]: np.full(len(rest), np.argmax([earned[rows].mean() for rows in mine])),
        }
        often[rest] += 1
        for rule, actions in chosen.items():
            total[rule][rest] += 0.5 + 4.0 * (earned[rest] - 0.5) * (arms[rest] == actions)
    seen = often > 0
    scores = {rule: values[seen] / often[seen] for rule, values in total.items()}

    def over_patients(values: Floats) -> list[float]:
        half = 1.96 * float(values.std(ddof=1)) / math.sqrt(len(values))
        return [float(values.mean()), float(values.mean()) - half, float(values.mean()) + half]

    return {
        "seeds": list(seeds),
        "patients": n,
        "in a log": n // 2,
        "features": PATIENT.dimension,
        "certified epsilon": certified,
        "arms": {name: float(earned[arms == a].mean()) for a, name in enumerate(names)},
        "values": {rule: over_patients(found) for rule, found in scores.items()},
        "minus best single arm": {rule: over_patients(scores[rule] - scores[rules[2]]) for rule in rules[:2]},
        "version": __version__,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is not there yet."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", choices=sorted(FILES))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("results/cases/features"))
    given = parser.parse_args(arguments)
    seeds = range(given.seeds)
    made = (
        [trial(seeds)]
        if given.data == "actg175"
        else [Cell(data=given.data, trust=trust, episodes=K).run(seeds) for K in SIZES for trust in TRUSTS]
    )
    command = f"python -m papers.cases.rows {given.data} --seeds {given.seeds}"
    given.out.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(row) for row in made)  # a line per cell
    text = f'{{\n "command": {json.dumps(command)},\n "delta": {DELTA},\n "rows": [\n{lines}\n]\n}}\n'
    (given.out / f"{given.data}.json").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
