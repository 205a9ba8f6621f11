"""What the card of [he2025policy] claims about Theorems 2 to 4, powers, biases and other updates."""

from __future__ import annotations

from typing import Any

import numpy as np

from papers.claims.measured import Results
from papers.claims.reading import Card, Value
from papers.he2025policy.hidden_actions import hidden_action_delta

__all__ = ["claims"]

DIMENSIONS = {"theorem2": (10, 25, 100), "theorem3": (2, 8, 32), "theorem4": (10, 25, 100)}
NAMES = {"theorem2": "2: E‖∇J(θ_U)‖²", "theorem3": "3: J* - average J", "theorem4": "4: J* - average J"}
RATES = {"theorem2": ((-1, 2), (-2, 3)), "theorem3": ((-1, 4), (-1, 3)), "theorem4": ((-1, 6), (-2, 9))}
"""Exponents of N: of sampling and of the cost of privacy, as fractions."""
POWERS = {"theorem2": ((-2, 3), (1, 3)), "theorem3": ((-1, 3), (1, 6)), "theorem4": ((-2, 9), (1, 9))}
"""Powers of ε and of d in the privacy term."""
EPSILONS = (0.2, 1.0, 5.0)
LEARNERS = ("dp-pg", "dp-npg", "dp-trpo", "dp-ppo", "dp-ppo:rate=0.25")

NETWORKS = {
    "network, DP-PG": "dp-pg:policy=neural",
    "network, DP-TRPO": "dp-trpo:policy=neural",
    "table, DP-PG": "dp-pg:time_homogeneous=true",
}
UNFAIR = ("table, DP-PG", "no privacy")
"""The cell that was not run."""


def claims(card: Card, results: Results) -> None:
    """Quote every number of the card."""
    found = card.section("Deviations")
    found.states(
        "G² = 1 - 1/A",
        "supremum is 2.",
        "the claimed (1, 1e-5) is really 1.61, 1.29 and 1.16 for 2, 4 and 10 actions",
        "true at (1, 1e-5), with δ at",
    )
    found.says("with δ at most {} for 2 actions", hidden_action_delta(2))
    found.states("2 R_max/m for rewards in [0, R_max]", "8.42 (δ = 1e-5)", "needs 0.77 of the noise", "1/(LB)")
    _rates(card, results)
    _powers(card, results)
    _fisher(card, results)
    found.states("scaled to [-1, 1]")
    _beyond(card, results)
    _neural(card, results)


def _rates(card: Card, results: Results) -> None:
    part = card.section("Reproduced")
    part.states("N from 10³ to 10⁷", "between the points 10⁶ and 10⁷")
    seeds = {c["seeds"] for name in NAMES for c in results(f"he2025policy/{name}").json("rates.json")["curves"]}
    part.says("(and `theorem3`, `theorem4`): {} seeds", *seeds)
    table = part.table("theorem | d | no privacy")
    for name, label in NAMES.items():
        told = results(f"he2025policy/{name}").json("rates.json")
        curves = {(one["d"], one["epsilon"]): one for one in told["curves"]}
        for value, (top, bottom) in zip(
            (told["theorem"][k] for k in ("sampling", "privacy")), RATES[name], strict=True
        ):
            _same(card, value, top / bottom)
        for d in DIMENSIONS[name]:
            private = [curves[d, epsilon] for epsilon in EPSILONS]
            values: list[Value] = [curves[d, None]["exponent_tail"], *RATES[name][0]]
            values += [one["exponent_tail"] for one in private]
            values += [*(one["privacy_cost_exponent_tail"] for one in private), *RATES[name][1]]
            table.row(f"{label} | {d}", *values)
    free = [
        one["exponent_tail"]
        for one in results("he2025policy/theorem4").json("rates.json")["curves"]
        if one["epsilon"] is None
    ]
    part.says("log-barrier falls with slope {} to {}", -max(free), -min(free))


def _same(card: Card, value: float, other: float) -> None:
    if abs(value - other) > 1e-9:
        card.errors.append(f"a theorem's exponent is {value}, not {other}")


def _powers(card: Card, results: Results) -> None:
    part = card.section("Powers of ε, d and μ")
    part.states("a power above 1, not 1/6 or 1/9")
    powers, reached = part.table("theorem | cost of privacy in ε"), part.table("theorem | d | α")
    for name, dimensions in DIMENSIONS.items():
        told = results(f"he2025policy/{name}").json("rates.json")["powers"]
        _same(card, told["theorem"]["epsilon"], POWERS[name][0][0] / POWERS[name][0][1])
        _same(card, told["theorem"]["d"], POWERS[name][1][0] / POWERS[name][1][1])
        by_d = {one["d"]: one["cost"] for one in told["epsilon"]}
        by_epsilon = {one["epsilon"]: one["cost"] for one in told["d"]}
        powers.row(
            name[-1],
            *(by_d[d] for d in dimensions),
            *POWERS[name][0],
            *(by_epsilon[epsilon] for epsilon in EPSILONS),
            *POWERS[name][1],
        )
        users = {one["d"]: one for one in told["N_of_alpha"]}
        shown = [users[d][key] / 1e6 for key in ("None", "5.0", "1.0") for d in dimensions]
        reached.row(name[-1], *dimensions, *(users[d]["alpha"] for d in dimensions), *shown)


def _fisher(card: Card, results: Results) -> None:
    part = card.section("Powers of ε, d and μ")
    told: dict[str, Any] = results("he2025policy/fisher").json("fisher.json")
    curves = {(one["epsilon"], one["users"]): one for one in told["curves"]}
    free, private = curves[None, 10**6], curves[1.0, 10**6]
    seeds = {len(raw) for one in told["curves"] for raw in one["raw"]}
    part.says(
        "(8 contexts, τ from 0.35 to 1, so μ = 1/τ² from {} to {}, {} seeds): the error *rises* as μ^{} without privacy"
        " and as μ^{} with",
        max(free["mu"]), min(free["mu"]), *seeds, free["exponent"], private["exponent"],
    )  # fmt: skip
    bias = [told["alpha_bias"][tau] for tau in ("0.35", "0.5", "0.7", "1")]
    part.says(
        "its supremum over θ is {}, {}, {} and {} for τ = 0.35, 0.5, 0.7 and 1", *(one["largest"] for one in bias)
    )
    part.states("rewards are at most 1", "α_bias = 0.", "(0.1 to 1 from the best dose)", "the clip is 1")
    least = min(one["mean"][-1] for one in results("he2025policy/theorem3").json("rates.json")["curves"])
    part.says("the error itself falls to {}.", least)
    part.says("At the optimal θ it is {}, {}, {} and {}.", *(one["at the optimum"] for one in bias))
    clip = {tau: [100 * value for value in one.values()] for tau, one in told["clipping_bias"].items()}
    part.says(
        "it takes {} to {} % of the expected gradient at τ = 0.5 ({} to {} % at 0.35, {} to {} % at 1)",
        *(value for tau in ("0.5", "0.35", "1") for value in (min(clip[tau]), max(clip[tau]))),
    )


def _beyond(card: Card, results: Results) -> None:
    part = card.section("Reproduced")
    rows = {
        (r["environment"], r["learner"], r["epsilon"]): r
        for r in results("he2025policy/beyond").json("summary.json")["rows"]
    }
    part.says(
        "--scale paper`: {} users, {} seeds, equal (ε, 1e-5)",
        *{row["episodes"] for row in rows.values()},
        *{row["seeds"] for row in rows.values()},
    )
    for environment in ("contextual-bandit", "treatment-bandit", "riverswim"):
        for learner in LEARNERS:
            mine = [rows[environment, learner, epsilon] for epsilon in EPSILONS]
            way = [(r["final"] - r["uniform_policy"]) / (r["optimal"] - r["uniform_policy"]) for r in mine]
            part.row(f"`{environment}` | `{learner}`", *way)


def _neural(card: Card, results: Results) -> None:
    part = card.section("A neural policy")
    made = results("he2025policy/neural")
    cells = list(made.cells.values())
    part.says("{} users in batches of 250", *{cell["episodes"] for cell in cells})
    part.says(", {} seeds.", *{len(cell["returns"]["final_per_seed"]) for cell in cells})
    part.says("in {} fresh episodes", *{cell["returns"]["evaluation"] for cell in cells})
    part.says("the uniform policy earns {}:", *{cell["returns"]["uniform"]["mean"] for cell in cells})
    part.states("CartPole-v1 in 900 bins", "25 decisions of four steps each, so that 100 is the most", "δ = 1e-5")
    part.states(
        "16 hidden units and 114 weights, the table 1,802 parameters", "learns the game at ε = 0.2", "(ε = 0.2)"
    )
    for label, learner in NETWORKS.items():
        values: list[Value] = []
        for shown in (*(f"ε={epsilon:g}" for epsilon in EPSILONS), "no privacy"):
            cell = made.cells.get(made.key(f"{label}, {shown}")) if (label, shown) != UNFAIR else None
            if cell is not None:
                finals = np.array(cell["returns"]["final_per_seed"])
                values += [float(finals.mean()), float(finals.std(ddof=1))]
        part.row(f"{label.partition(',')[0]}, `{learner}`", *values)
