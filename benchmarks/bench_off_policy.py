"""Off-policy intervals: how many of 1,000 simulated logs have the truth inside, and how wide noise makes them.

Random worlds, rules with lots, random target policies; epsilon 1, delta 1e-6, nominal 95%. Everything is drawn from
fixed seeds. `width` compares with the same estimator read from the same log at epsilon 10 and delta 1e-3.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tacit.data.trajectories import Trajectories
from tacit.planning.off_policy import model_of
from tacit.policies import StochasticPolicy
from tacit.policies.named import NamedPolicy
from tacit.protocol import TOTALS
from tacit.randomness import SimulationNoise
from tacit.study import evaluation
from tacit.study.episode_log import Episodes
from tacit.study.evaluation import Evaluation, EvaluationRequest
from tacit.study.learning import released_counts
from tacit.study.mapping import EpisodeMapping

Row = dict[str, Any]
REPLICATES = 1000
COMPARED = 30
"""So many logs are read without noise, too."""


def run() -> list[Row]:
    """Coverage of every estimator in every world, and the width at propensities of at least 1/4."""
    return [row for case in CASES for row in rows_of(*case)]


def rows_of(world: str, estimator: str, propensity: str, trust: str) -> list[Row]:
    """Coverage of one estimator, and its width where the propensities are at least 1/4."""
    logs, rows = WORLDS[world](), []
    request = logs.request(estimator, propensity, trust=trust, delta=0.0 if trust == "local" else 1e-6)
    hits, ratio, width = covered(logs, request, REPLICATES, compared=COMPARED)
    name = f"{world}: {estimator}" + (", propensities estimated" if propensity == "estimated" else "")
    name += "" if trust == "central" else f", {trust}"
    told = f"intervals hold the value, the log's own value, the gain in {', '.join(f'{h:.0f}' for h in hits)} of "
    told += f"{REPLICATES:,} logs of {logs.n:,} people; median width {width:.4f}, {ratio:.3f} of that without noise"
    rows.append({"name": name, "ratio": min(hits) * 1000 / REPLICATES, "target": 930, "detail": told})
    if logs.floor >= 0.25 and logs.n >= 20_000 and trust != "local":
        rows.append({"name": f"width, {name}", "ratio": ratio, "target": 1.1, "better": "lower", "detail": ""})
    return rows


def mapping_of(S=2, A=2, H=1, **changes):
    return EpisodeMapping.from_dict({
        "columns": {"propensity": "p"}, "states": [{"column": "s", "categories": [f"s{i}" for i in range(S)]}],
        "actions": {"column": "a", "categories": [f"a{i}" for i in range(A)]},
        "reward": {"low": 0, "high": 1}, "horizon": H, **changes,
    })  # fmt: skip


class Logs:
    """A random world, a rule that draws lots in it, a target policy, and their exact values."""

    def __init__(self, seed, S, A, H, floor, n, *, scale=0.8, base=0.1, fractional=False, each=1):
        rng = np.random.default_rng(seed)
        self.P, self.r = rng.dirichlet(np.ones(S), size=(H, S, A)), base + scale * rng.random((H, S, A))
        self.rho, self.n, self.each, self.fractional = rng.dirichlet(np.full(S, 3.0)), n, each, fractional
        self.rule = floor + (1.0 - A * floor) * rng.dirichlet(np.full(A, 2.0), size=(H, S))
        self.mapping, self.floor = mapping_of(S, A, H), floor
        table = np.eye(A)[np.random.default_rng(99).integers(A, size=(H, S))]
        self.policy = self.named(table)
        self.truth, self.earned = self.value(table), self.value(self.rule)

    def named(self, table):
        known = self.mapping
        return NamedPolicy(policy=StochasticPolicy(table), states=known.state_names, actions=known.action_names)

    def value(self, table):
        V = np.zeros(self.r.shape[1])
        for h in range(len(self.r) - 1, -1, -1):
            V = (table[h] * (self.r[h] + self.P[h] @ V)).sum(axis=1)
        return float(self.rho @ V)

    def draw(self, rng):
        H, many = len(self.r), self.n * self.each
        s, a, x, p = (np.empty((many, H), dtype=kind) for kind in (int, int, float, float))

        def pick(rows):
            return (rows.cumsum(axis=1) > rng.random((len(rows), 1))).argmax(axis=1)

        now = pick(np.repeat(self.rho[None], many, axis=0))
        for h in range(H):
            s[:, h], a[:, h] = now, pick(self.rule[h][now])
            p[:, h], mean = self.rule[h][now, a[:, h]], self.r[h][now, a[:, h]]
            noise = np.clip(mean + 0.2 * (rng.random(many) - 0.5), 0.0, 1.0)
            x[:, h] = noise if self.fractional else rng.random(many) < mean
            now = pick(self.P[h][now, a[:, h]])
        return Episodes(
            trajectories=Trajectories(s, a, x), persons=np.repeat(np.arange(self.n), self.each), people=self.n,
            lengths=np.full(many, H), propensities=p, mapping=self.mapping,
        )  # fmt: skip

    def request(self, estimator, propensity="column", **changes):
        asked = {
            "mapping": self.mapping,
            "policies": {"new": self.policy},
            "epsilon": 1.0,
            "delta": 1e-6,
            "people": self.n,
            "estimator": estimator,
            "propensity": propensity,
            "min_propensity": self.floor,
        }
        return EvaluationRequest(**{**asked, **changes})  # fmt: skip


WORLDS = {
    "one step, lots of 1/2": lambda n=20_000: Logs(1, 4, 2, 1, 0.5, n),
    "one step, at least 1/4": lambda n=20_000: Logs(2, 4, 3, 1, 0.25, n),
    "one step, low rewards": lambda n=20_000: Logs(3, 5, 4, 1, 0.25, n, scale=0.1, base=0.02),
    "two steps, fractional, twice": lambda n=10_000: Logs(
        4, 3, 2, 2, 0.3, n, scale=0.6, base=0.2, fractional=True, each=2
    ),
    "three steps": lambda n=20_000: Logs(5, 3, 2, 3, 0.35, n),
}
ESTIMATORS = [(e, "column") for e in ("snips", "ips", "dm", "dr")] + [(e, "estimated") for e in ("snips", "ips", "dr")]
DEVICES = ("one step, at least 1/4", "three steps")
CASES = [(world, estimator, propensity, "central") for world in WORLDS for estimator, propensity in ESTIMATORS]
CASES += [(w, e, "column", trust) for trust in ("shuffle", "local") for w in DEVICES for e in ("snips", "ips")]
"""Under shuffle and local trust every device computes its own weights."""


def read_once(request: EvaluationRequest, episodes: Episodes, noise: Any) -> Evaluation:
    """An evaluation with the law of `evaluate_episodes`, counts drawn at once."""
    payloads, model = [], None
    if request.counts is not None:
        channel, t = request.counts.channels[0], episodes.trajectories
        order = np.argsort(episodes.persons, kind="stable")
        first = order[np.searchsorted(episodes.persons[order], np.arange(episodes.people))]
        users = Trajectories(t.states[first], t.actions[first], t.rewards[first])
        payloads.append(channel.simulate(channel.begin_secret(), users, TOTALS, noise)[1])
        model = model_of(released_counts(request.counts, tuple(payloads)))
    if request.values is not None:
        payloads.append(request.values.payload(evaluation._people(request, episodes, model), noise))
    return evaluation.evaluated(request, tuple(payloads), None)  # type: ignore[arg-type]


def covered(
    logs: Logs, request: EvaluationRequest, replicates: int, *, seed: int = 0, compared: int = 0
) -> tuple[list[float], float, float]:
    """How many intervals hold the value, the log's own and the gain; the ratio of widths, and the median width."""
    hits, widths, plain = np.zeros(3), [], []
    free = replace(
        request, epsilon=10.0, delta=1e-3, against_log=False, trust="central"
    )  # so little noise that it does not count
    for i in range(replicates):
        rng = np.random.default_rng([seed, i])
        episodes = logs.draw(rng)
        found = read_once(request, episodes, SimulationNoise(rng))
        new, own = found["new"], found["log"]
        hits += [
            new.low <= logs.truth <= new.high, own.low <= logs.earned <= own.high,
            new.gain[1] <= logs.truth - logs.earned <= new.gain[2],
        ]  # fmt: skip
        widths.append(new.high - new.low)
        if i < compared:
            other = read_once(free, episodes, SimulationNoise(rng))["new"]
            plain.append(other.high - other.low)
    ratio = float(np.median(widths[:compared]) / np.median(plain)) if compared else float("nan")
    return list(hits), ratio, float(np.median(widths))
