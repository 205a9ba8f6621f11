"""What the card of [bai2024shuffle] claims about rates, constants and parts of SDP-PE."""

from __future__ import annotations

from papers.claims.measured import Committed, Results
from papers.claims.reading import Card, Order

__all__ = ["VERSIONS", "claims", "lost_with_theory"]

VERSIONS = ("2024", "2025")
NOISES = ("no privacy", "tight, ε=1")
CHANGES = {
    "as printed: L doubles, data are forgotten": "as printed",
    "L grows fourfold": "L grows fourfold",
    "L grows eightfold": "L grows eightfold",
    "first L = 1024": "first L = 1024",
    "nothing is forgotten": "nothing is forgotten",
    "first L = 1024, nothing is forgotten": "first L = 1024, nothing forgotten",
}
SCAN = (1, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)


def claims(card: Card, results: Results) -> None:
    """Quote every number of the card."""
    _table1(card, results)
    _powers(card, results)
    _elimination(card, results)
    _constants(card, results)
    _ablations(card, results)
    found = card.section("Deviations")
    found.states("constant 96", "a factor of about 16", "Rewards in (0, 1)", "(2 differing counters", "max(E, 1)")
    found.states("would be 0 without noise", "`failure_prob` (0.05)")


def _table1(card: Card, results: Results) -> None:
    table, part = results("bai2024shuffle/table1"), card.section("Table I: regret in K")
    growth = {(one["version"], one["constants"]): one for one in table.json("table1.json")["growth"]}
    printed = [growth[version, "theory"] for version in VERSIONS]
    costs = [{line["epsilon"]: line for line in one["private"]} for one in printed]
    seeds = {len(table.finals(*key)) for key in table.cells}
    part.says(
        "gaps 2⁻¹ to 2⁻¹⁰, {} seeds, up to {} users", *seeds, max(cell["episodes"] for cell in table.cells.values())
    )
    part.states("below 0.3 of the uniform policy's", "1/ε")
    part.row("without privacy, in K", *(one["exponent"] for one in printed), 1, 2)
    part.row("cost of privacy in K, ε = 4", *(cost[4.0]["cost_exponent_in_K"] for cost in costs), 0)
    part.row("cost of privacy in K, ε = 1", costs[0][1.0]["cost_exponent_in_K"], 0)
    if costs[1][1.0]["cost_exponent_in_K"] is not None:
        card.errors.append("the cost of the second version at ε = 1 has a fit now")
    part.row(
        "cost at the end, ε = 4 / 1 / 0.25 (millions)",
        *(cost[epsilon]["cost_at_the_end"] / 1e6 for cost in costs for epsilon in (4.0, 1.0, 0.25)),
    )
    for i, words in enumerate(("from ε = 4 to 1", "from ε = 1 to 0.25")):
        part.row(f"cost in 1/ε, {words}", *(one["from_epsilon_to_epsilon"][i] for one in printed), 1)
    part.states("| printed constants, C = 1 | version 2024 |")
    leaves = min(line["fitted_from"] or 1e10 for cost in costs for line in cost.values())
    part.says("at some {} users in the smallest", Order(leaves))
    lost = {version: _lost(table, version) for version in VERSIONS}
    part.says(
        "lost the best policy in {} of {} runs, all of them at gaps of {} and less",
        lost["2025"][0], lost["2025"][1], lost["2025"][2],
    )  # fmt: skip
    part.says("the first version lost none of {}.", lost["2024"][1])
    if lost["2024"][0]:
        card.errors.append(f"the first version lost {lost['2024'][0]} runs")


def _lost(table: Committed, version: str) -> tuple[int, int, float]:
    """How many of the practical runs still had regret at their end, of how many, and the largest gap among them."""
    lost, runs, gaps = 0, 0, [0.0]
    for run, environment in table.cells:
        if f", {version}, practical" in run:
            ends = table.curve(run, environment)[1]
            bad = int((ends[:, -1] > ends[:, -2]).sum())
            lost, runs = lost + bad, runs + len(ends)
            gaps += [float(environment.rpartition("gap=")[2])] if bad else []
    return lost, runs, max(gaps)


def _powers(card: Card, results: Results) -> None:
    result, part = results("bai2024shuffle/powers"), card.section("Powers of X, A and H")
    told = result.json("powers.json")
    part.states("sizes 2, 3, 4 and 6", "earns 0.2 H more", "10⁷ users")
    part.says("more than uniform), {} seeds", *{len(result.finals(*key)) for key in result.cells})
    lines = {line["line"]: line for line in told["lines"]}
    axes = ("states", "actions", "horizon")
    for version in VERSIONS:
        for label, name in (("no privacy", "no privacy"), ("cost of privacy", "cost")):
            line = lines[f"{version}, {name}"]
            values = [v for axis in axes for v in (line["powers"][axis]["power"], line["printed"][axis])]
            part.row(f"{version}, {label}", *values)
    second = lines["2025, cost"]
    part.says("({} beside {}). Without privacy", second["powers"]["actions"]["power"], second["printed"]["actions"])
    for version in VERSIONS:
        free, cost = lines[f"{version}, no privacy"], lines[f"{version}, cost"]
        if any(free["powers"][axis]["power"] <= free["printed"][axis] for axis in axes):
            card.errors.append(f"{version}: a power without privacy is not above the printed one")
        if any(cost["powers"][axis]["power"] >= cost["printed"][axis] for axis in ("states", "horizon")):
            card.errors.append(f"{version}: a power of the cost is not below the printed one")


def lost_with_theory(table: Committed, version: str) -> tuple[int, int]:
    """How many runs with the widths of the theorem ended with a wrong policy alone, and how many there are.

    A wrong policy alone costs the gap in every episode; while several are left, it is less.
    """
    lost, runs = 0, 0
    for run, environment in table.cells:
        if f", {version}, theory" in run:
            at, regret = table.curve(run, environment)
            gap = float(environment.rpartition("gap=")[2])
            lost += int(((regret[:, -1] - regret[:, -2]) / (at[-1] - at[-2]) > 0.9 * gap).sum())
            runs += len(regret)
    return lost, runs


def _elimination(card: Card, results: Results) -> None:
    told, part = results("bai2024shuffle/elimination").json("elimination.json"), card.section("The K from which")
    first = {(one["environment"], one["version"], one["noise"]): one["users"] for one in told["first"]}
    noises = ("no privacy", "tight, ε=1", "printed, ε=1", "tight, ε=0.1")
    rows = {
        "S = A = H = 2 (`random-mdp:seed=3`), 2024": ("random-mdp:seed=3", "2024"),
        "the same, 2025": ("random-mdp:seed=3", "2025"),
        "RiverSwim, 2024": ("riverswim", "2024"),
        "RiverSwim, 2025": ("riverswim", "2025"),
    }
    for label, key in rows.items():
        part.row(label, *(first[*key, noise] for noise in noises))
    half = [side["of_uniform"] for side in told["sides"] if "half" in side["run"]]
    part.says("Runs with half of the first K end at {} to {} of the uniform", min(half), max(half))
    if any(side["last_of_uniform"] > 1e-6 for side in told["sides"] if "16" in side["run"]):
        card.errors.append("a run with sixteen times of the first K has regret at its end")
    result = results("bai2024shuffle/elimination")
    part.says("both versions ({} seeds each)", *{len(result.finals(*key)) for key in result.cells})


def _constants(card: Card, results: Results) -> None:
    result, part = results("bai2024shuffle/constants"), card.section("C and C₁ scanned")

    def share(C: float, C1: float, version: str, noise: str) -> float:
        return result.share(f"C={C:g}, C1={C1:g}, {version}, {noise}")

    users = [result.cell(f"C=1, C1=6, {version}, no privacy")["episodes"] for version in VERSIONS]
    part.says("{} users (2024) and {} users (2025), {} seeds", *users, *{len(result.finals(*k)) for k in result.cells})
    part.states("(4,096 policies)", "| C | 1 | 0.3 | 0.1 | 0.03 | 0.01 | 0.003 | 0.001 |", "With C₁ = 0.01")
    many = [share(C, 6, version, noise) for C in SCAN for version in VERSIONS for noise in NOISES]
    part.says("every C leaves regret at {} to {}.", min(many), max(many))
    for version in VERSIONS:
        part.row(version, *(share(C, 0.01, version, "no privacy") for C in SCAN))
    private = [share(C, C1, version, "tight, ε=1") for C in SCAN for C1 in (6, 0.01) for version in VERSIONS]
    part.says("eliminates anything ({} to {}): E stands", min(private), max(private))


def _ablations(card: Card, results: Results) -> None:
    result, part = results("bai2024shuffle/ablations"), card.section("Schedule and forgetting")
    part.says("the practical rule, {} seeds", *{len(result.finals(*key)) for key in result.cells})
    for label, change in CHANGES.items():
        part.row(label, *(result.share(f"{change}, {version}, {noise}") for version in VERSIONS for noise in NOISES))
    printed = [result.share(f"as printed, {version}, printed, ε=1") for version in VERSIONS]
    part.says("both versions stay at {} and {}.", *printed)
    river, part = results("bai2024shuffle/riverswim"), card.section("RiverSwim at the sizes")
    sizes = ("20,000", "200,000")
    part.says(
        "practical rule, {} seeds (uniform: {} and {};",
        *{len(river.finals(*key)) for key in river.cells},
        *(river.uniform(f"PE, K={K}") for K in sizes),
    )
    part.states("at 200,000 users")
    for label, run in (
        ("PE (no privacy)", "PE"),
        *((f"SDP-PE {x}, ε = 1", f"SDP-PE {x}, ε=1") for x in ("tight", "printed")),
    ):
        part.row(label, *(river.mean(f"{run}, K={K}") for K in sizes))
