"""What the card of [bai2025secure] claims about Figure 4."""

from __future__ import annotations

import math

from papers.claims.measured import Results
from papers.claims.reading import AtMost, Card

__all__ = ["claims"]

ROWS = {
    "UCBVI-JDP tight": "UCBVI-JDP tight",
    "UCBVI-JDP printed": "UCBVI-JDP printed",
    "SDP-PE tight": "SDP-PE tight",
    "SDP-PE printed": "SDP-PE printed",
    "SDP-PE tight, theory": "SDP-PE tight, theory",
    "SDP-PE printed, theory": "SDP-PE printed, theory",
    "UCBVI-LDP tight": "UCBVI-LDP tight",
    "UCBVI-LDP printed": "UCBVI-LDP printed",
    "DP-UCBVI-JDP tight": "DP-UCBVI-JDP tight",
    "DP-UCBVI-JDP printed": "DP-UCBVI-JDP printed",
    "DP-UCBVI-LDP tight": "DP-UCBVI-LDP tight",
    "DP-UCBVI-LDP printed": "DP-UCBVI-LDP printed",
    "SDP-PE+ tight (not in the paper)": "SDP-PE plus, tight",
}
PAIRS = ("UCBVI-JDP", "SDP-PE", "UCBVI-LDP", "DP-UCBVI-JDP", "DP-UCBVI-LDP")


def claims(card: Card, results: Results) -> None:
    """Quote every number of the card."""
    fig4, part = results("bai2025secure/fig4"), card.section("Figure 4")

    def both(run: str) -> tuple[float, float]:
        return fig4.mean(run), fig4.error(run)

    def small(run: str, epsilon: str) -> str:
        return f"{run}, ε={epsilon}, K=20,000"

    def large(run: str) -> str:
        return f"{run}, ε=1, K=200,000"

    part.says("RiverSwim, {} seeds", len(fig4.finals("PE, K=20,000")))
    part.says("The uniform policy has {}.", fig4.uniform("PE, K=20,000"))
    part.states("(here 1e-6)", "over 20,000 episodes", "at 200,000 episodes")
    part.row("UCB-VI", *both("UCB-VI, K=20,000"))
    part.row("PE", *both("PE, K=20,000"))
    for label, run in ROWS.items():
        part.table("K = 20,000 | no privacy").row(
            label, *(value for epsilon in ("0.1", "1", "10") for value in both(small(run, epsilon)))
        )
    part.says("(uniform: {}) | regret", fig4.uniform("PE, K=200,000"))
    for run in ("UCB-VI", "PE"):
        part.row(f"{run} (no privacy)", *both(f"{run}, K=200,000"), fig4.share(f"{run}, K=200,000"))
    for run in PAIRS:
        two = [large(f"{run} {words}") for words in ("tight", "printed")]
        part.row(f"{run} tight / printed", *both(two[0]), *both(two[1]), *(fig4.share(one) for one in two))
    two = [large(f"SDP-PE {words}, theory") for words in ("tight", "printed")]
    part.row("SDP-PE tight / printed, theory", *both(two[0]), *both(two[1]), *(fig4.share(one) for one in two))
    plus = "SDP-PE plus, tight"
    part.table("K = 200,000, ε = 1").row(
        "SDP-PE+ tight (not in the paper)", *both(large(plus)), fig4.share(large(plus))
    )

    first = {
        (one["version"], one["noise"]): one["users"]
        for one in results("bai2024shuffle/elimination").json("elimination.json")["first"]
        if one["environment"] == "riverswim"
    }
    part.says(
        "from {} users on without privacy and from {} (tight) or {} (printed noise) at",
        *(first["2025", noise] for noise in ("no privacy", "tight, ε=1", "printed, ε=1")),
    )
    lowest = [run for run, _ in fig4.cells if "ε=0.1," in run]
    part.says("stays within {}% of the uniform policy", AtMost(100 * max(abs(1 - fig4.share(run)) for run in lowest)))
    sdp, ldp = (small(run, "1") for run in ("SDP-PE tight", "UCBVI-LDP tight"))
    apart = (fig4.mean(sdp) - fig4.mean(ldp)) / math.hypot(fig4.error(sdp), fig4.error(ldp))
    above = "it is at {} of it, *above* UCBVI-LDP tight ({}, by {} standard errors)"
    part.says(above, fig4.share(sdp), fig4.share(ldp), apart)
    ten = {run: small(run, "10") for run in ROWS.values()}
    part.says(
        "UCBVI-LDP ({}, {} of uniform) is far below UCBVI-JDP ({}), PE ({}) and SDP-PE ({})",
        fig4.mean(ten["UCBVI-LDP tight"]),
        fig4.share(ten["UCBVI-LDP tight"]),
        fig4.mean(ten["UCBVI-JDP tight"]),
        fig4.mean("PE, K=20,000"),
        fig4.mean(ten["SDP-PE tight"]),
    )
    part.says(
        "printed noise SDP-PE ({}) is above UCBVI-LDP ({})",
        fig4.share(ten["SDP-PE printed"]),
        fig4.share(ten["UCBVI-LDP printed"]),
    )
    order = ("UCB-VI, K=200,000", "PE, K=200,000", *(large(f"{run} tight") for run in PAIRS[:3]))
    part.says("SDP-PE < UCBVI-LDP ({}, {}, {}, {}, {} of uniform)", *(fig4.share(run) for run in order))
    part.says(
        "its tight version has {} instead of {}",
        fig4.mean(ten["DP-UCBVI-LDP tight"]),
        fig4.mean(ten["UCBVI-LDP tight"]),
    )
    part.says("one common rule, {} against {}.", fig4.mean("PE, K=20,000"), fig4.mean("UCB-VI, K=20,000"))
    part.says(
        "SDP-PE+ has {} of the uniform policy's regret at ε = 1 where SDP-PE tight has {}",
        fig4.share(small(plus, "1")),
        fig4.share(sdp),
    )
    _deviations(card, fig4.cell(small(plus, "10"))["certified epsilon"])


def _deviations(card: Card, certified: float) -> None:
    part = card.section("Deviations")
    part.says("certificate of SDP-PE+ is {}", certified)
    part.states(
        "as soon as XA ≥ 6",
        "0/0 = 0",
        "standard deviation 4.0 where 2.6 would do",
        "(2.5 for all layers, Lemma M11 (mirrored bits))",
    )
