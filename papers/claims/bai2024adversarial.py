"""What the card of [bai2024adversarial] claims about its estimator, C_M, Table 1 and the powers in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from papers.claims.measured import Results
from papers.claims.reading import Card, Section, Value
from papers.fitting import fit_exponent

__all__ = ["claims"]

WORLDS = ("random", "trap")
HOME = "bai2024adversarial"


def claims(card: Card, results: Results) -> None:
    """Quote every number of the card."""
    found = card.section("Deviations")
    found.states(
        "(4/3 + X'A/(3H)) ε", "2ε/3, not ε/3", "1-bits of k", "(4.1), (4.2)", "E'/((2E'+1) u)", "- (3.1) prints the 1/N"
    )
    found.states("should start at 0", "ν ≥ 0", "- (5.1) has", "Ñ + E/4 < 0", "n = 0")
    part = card.section("The experiments that the paper lacks")
    seeds = {
        len(results(f"{HOME}/{name}").finals(*key))
        for name in ("estimator", "support", "table1")
        for key in results(f"{HOME}/{name}").cells
    }
    part.says("All at scale `paper`, {} seeds unless", *seeds)
    part.states("H = 4 steps of 3 states and 2 actions")
    _unconverged(card, results)
    _estimator(card, results)
    _support(card, results)
    _table1(card, results)
    _pure(card, results)
    _powers(card, results)


def _unconverged(card: Card, results: Results) -> None:
    """Solves without a certificate: the card says that there are none."""
    files = {"estimator": "growth.json", "table1": "growth.json", "table1-pure": "pure.json"}
    for name, file in files.items():
        if any(curve["unconverged"] for curve in results(f"{HOME}/{name}").json(file)["curves"]):
            card.errors.append(f"{name} has solves without a certificate")


def _share(curve: dict[str, Any]) -> float:
    return float(curve["regret"][-1] / curve["uniform"][-1])


def _estimator(card: Card, results: Results) -> None:
    curves = {
        (one["world"], one["label"], one["adversary"]): one
        for one in results(f"{HOME}/estimator").json("growth.json")["curves"]
    }
    part = card.section("Estimator")
    part.states("(between K = 4,000 and 16,000)", "regret at 16,000 as", "exponent about 0.6")
    rows = {
        "as written, no noise at all, E' = 30 assumed": "as-written, offset alone",
        "centred, the same": "centred, offset alone",
        "as written, central, ε = 100": "as-written, central ε=100",
        "centred, central, ε = 100": "centred, central ε=100",
    }
    for label, name in rows.items():
        mine = [curves[world, name, "turning"] for world in WORLDS]
        part.row(label, *(value for one in mine for value in (one["exponent_last"], _share(one))))
    random, trap = (curves[world, "as-written, central ε=100", "iid"] for world in WORLDS)
    part.says(
        "as written {} (random, exponent {}) and {} of chance (trap, {}), with a spread over the seeds as large as its"
        " mean, against {} and {} centred",
        _share(random),
        random["exponent_last"],
        _share(trap),
        trap["exponent_last"],
        *(_share(curves[world, "centred, central ε=100", "iid"]) for world in WORLDS),
    )


def _support(card: Card, results: Results) -> None:
    curves = {one["run"]: one for one in results(f"{HOME}/support").json("support.json")["curves"]}
    part = card.section("Effective support")
    part.row("C_M", *curves["full, practical"]["effective_support"])
    for feedback in ("full information", "bandit"):
        for rule in ("practical", "theory"):
            run = curves[f"{feedback.split()[0]}, {rule}"]
            part.row(f"{feedback}, {rule} widths", *run["unknown_transitions"])
    run = curves["full, practical"]
    part.says("(full information, practical: {} to {})", run["regret"][0], run["regret"][-1])
    part.says("(uniform policy: {} to {})", run["uniform"][0], run["uniform"][-1])


def _table1(card: Card, results: Results) -> None:
    result, part = results(f"{HOME}/table1"), card.section("Table 1\n")
    curves = {(one["world"], one["label"]): one for one in result.json("growth.json")["curves"]}
    part.states("between K = 2,000 and 10,000, in brackets regret at 10,000", "theorems say 1/2", "1/epsilon")
    myopic = [curves[world, "full, none, practical"] for world in WORLDS]
    part.says("is at {} (random) and {} (trap)", *(one["myopic"][-1] / one["uniform"][-1] for one in myopic))

    def pairs(labels: Sequence[str]) -> list[Value]:
        chosen = [curves[world, label] for world in WORLDS for label in labels]
        return [value for one in chosen for value in (one["exponent_last"], _share(one))]

    for feedback in ("full", "bandit"):
        for trust in ("none", "central ε = 1", "local ε = 1"):
            words = f"{feedback}, {trust.replace(' = ', '=')}"
            part.row(f"{feedback}, {trust}, practical / theory", *pairs([f"{words}, practical", f"{words}, theory"]))
        for trust in ("central", "local"):
            part.row(f"{feedback}, {trust} ε = 10, practical", *pairs([f"{feedback}, {trust} ε=10, practical"]))
    fits = {
        (one["world"], one["feedback"], one["trust"]): one["exponent"] for one in result.json("epsilon.json")["curves"]
    }
    part.says(
        "the theorems say 1. Full information: central {} (random) and {} (trap), local {} (random).",
        *(fits[world, "full", "central"] for world in WORLDS),
        fits["random", "full", "local"],
    )
    if any(value is not None for (_, feedback, _), value in fits.items() if feedback == "bandit"):
        card.errors.append("a bandit learner has a fit in 1/ε now")
    part.states("below about 10⁶ episodes", "(exponent near 1)")
    part.says("good in the random world ({})", _share(curves["random", "full, central ε=1, theory"]))
    part.says("worse than chance in the trap ({})", _share(curves["trap", "full, central ε=1, theory"]))
    part.says("Practical widths learn the trap ({})", _share(curves["trap", "full, central ε=1, practical"]))


def _pure(card: Card, results: Results) -> None:
    all_curves = results(f"{HOME}/table1-pure").json("pure.json")["curves"]
    curves = {(one["world"], one["kind"], one["case"], one["epsilon"]): one for one in all_curves}
    part = card.section("Table 1 in its own setting")
    lengths = {(K, len(raw)) for one in all_curves for K, raw in zip(one["episodes"], one["raw"], strict=True)}
    if lengths != {(10**4, 3), (10**5, 3), (10**6, 2)}:
        card.errors.append(f"seeds of table1-pure by K are {sorted(lengths)}")
    part.states("3 seeds (2 at K = 10⁶)", "10 with bandit feedback", "between 10⁴ and 10⁵", "regret at 10⁵ as")
    part.says("is really pure {} ε (full, learned), 5/3 ε (full, known), {} ε (bandit, learned) and 2/3 ε", 3, 2)
    for kind, times in {"full, learned": 3, "full, known": 5 / 3, "bandit, learned": 2, "bandit, known": 2 / 3}.items():
        for one in (one for one in all_curves if (one["kind"], one["case"]) == (kind, "central, as printed")):
            if not math.isclose(one["certified_epsilon"], times * one["epsilon"], rel_tol=1e-6):
                card.errors.append(f"{kind} as printed certifies {one['certified_epsilon']} at {one['epsilon']}")

    def at(world: str, kind: str, case: str, epsilon: float | None, i: int) -> list[Value]:
        one = curves[world, kind, case, epsilon]
        fitted = [] if one["exponent"][i] is None else [one["exponent"][i]]
        return [*fitted, one["share"][i + 1]]

    for kind in ("full, learned", "full, known", "bandit, learned", "bandit, known", "bandit, known, entropy"):
        epsilon = 1.0 if kind.startswith("full") else 10.0
        part.row(f"{kind}: none", *(value for world in WORLDS for value in at(world, kind, "none", None, 0)))
        sets = {"central": ("pure", "as printed", "δ = 1e-6"), "local": ("pure", "as printed")}
        for trust, cases in sets.items():
            if trust == "local" and kind.startswith("bandit, known"):
                continue
            words = "pure / printed / δ = 10⁻⁶" if trust == "central" else "pure / printed"
            values = [v for world in WORLDS for case in cases for v in at(world, kind, f"{trust}, {case}", epsilon, 0)]
            part.row(f"{kind}: {trust} {words}", *values)
    long = [
        value
        for kind, case in (
            ("full, learned", "central, pure"),
            ("full, learned", "central, δ = 1e-6"),
            ("full, learned", "local, pure"),
            ("full, known", "central, pure"),
        )
        for world in WORLDS
        for value in at(world, kind, case, 1.0, 1)
    ]
    part.states("exponent from 10⁵ on", "below 1/2 once", "q ≈ 1/6")
    part.says(
        "full, learned, central pure {} ({}) and {} ({}); central δ = 10⁻⁶ - ({}) and {} ({});"
        " local pure {} ({}) and {} ({}); full, known, central pure {} ({}) and {} ({}).",
        *long,
    )
    _which_lines(part, curves)


def _which_lines(part: Section, curves: dict[tuple[str, str, str, float | None], dict[str, Any]]) -> None:
    """The list of what appears."""
    local = [curves[world, "full, learned", "local, pure", 1.0] for world in WORLDS]
    part.says(
        "√K appears late: {} and {} between 10⁵ and 10⁶ at ε = 1 (the trap is still at {} of chance then)",
        *(one["exponent"][1] for one in local),
        local[1]["share"][2],
    )

    def fitted(kinds: Sequence[str], epsilon: float) -> list[float]:
        return [
            one["exponent"][0]
            for (_, kind, case, e), one in curves.items()
            if kind in kinds and e == epsilon and case in ("central, pure", "local, pure")
        ]

    known, learned = fitted(["bandit, known", "bandit, known, entropy"], 10.0), fitted(["bandit, learned"], 10.0)
    part.says(
        "below 0.75 with known transitions and pure noise ({} to {}), and {} to {} with learned ones",
        min(known), max(known), min(learned), max(learned),
    )  # fmt: skip
    shares = [
        [
            one["share"][1]
            for (_, kind, case, e), one in curves.items()
            if (words in kind, e) == (True, 10.0) and "pure" in case
        ]
        for words in ("bandit, learned", "bandit, known")
    ]
    part.says("their noise has twice the deviation (2H√2/5 = {} at ε = 10)", 2 * 4 * math.sqrt(2.0) / 5)
    part.says("still pay {} to {} of chance, where those with known transitions pay {} to {}, so", *(
        value for one in shares for value in (min(one), max(one))
    ))  # fmt: skip
    low = fitted(["bandit, learned", "bandit, known", "bandit, known, entropy"], 1.0)
    part.says("at K = 10⁵ (exponents {} to {})", min(low), max(low))
    deviation = 2 * 4 * math.sqrt(2.0)
    part.says("its deviation is 2H√2/ε = {}, fresh", deviation)
    part.says("A gap of 0.3 between two actions is then seen after about ({} · 6/0.3)² ≈ {} episodes", deviation,
        round((deviation * 6 / 0.3) ** 2, -4),
    )  # fmt: skip
    part.states("1/(2 + 2E')", "before 10⁶ or so")


def _powers(card: Card, results: Results) -> None:
    curves = {
        (one["sweep"], one["feedback"], one["trust"]): one
        for one in results(f"{HOME}/table1-powers").json("powers.json")["curves"]
    }
    part = card.section("Powers of X, A and H")
    part.states("(2 to 8), actions (2 to 6) and steps (2 to 6)", "100 with bandit feedback")
    sweeps = ("states", "actions", "layers")
    for feedback in ("full", "bandit"):
        for trust in ("none", "central", "local"):
            label = f"{feedback}, none" if trust == "none" else f"{feedback}, cost of {trust}"
            key = "exponent" if trust == "none" else "cost_exponent"
            mine = [curves[sweep, feedback, trust] for sweep in sweeps]
            part.row(label, *(value for one in mine for value in (one[key], one["theorem"])))
    steps = curves["layers", "bandit", "central"]
    part.says("bandit, central, {} beside {} in the steps", steps["cost_exponent"], steps["theorem"])
    chance = curves["actions", "full", "none"]
    power = fit_exponent(np.array(chance["values"], dtype=float), np.array(chance["chance"]))
    part.says("grows with A to the power {} here", power)
