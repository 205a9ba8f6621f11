"""What the card of [bai2025secure] names in its holes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from papers.committed import Results, row

__all__ = ["names"]

LINES: Final = (
    "UCBVI-JDP tight", "UCBVI-JDP printed", "SDP-PE tight", "SDP-PE printed", "SDP-PE tight, theory",
    "SDP-PE printed, theory", "UCBVI-LDP tight", "UCBVI-LDP printed", "UCBVI-LDP 3H printed", "DP-UCBVI-JDP tight",
    "DP-UCBVI-JDP printed", "DP-UCBVI-LDP tight", "DP-UCBVI-LDP printed", "SDP-PE plus, tight",
)  # fmt: skip
SHOWN: Final = {
    "UCBVI-LDP printed": "UCBVI-LDP printed, Lap(6H/ε) of [garcelon2021local]",
    "UCBVI-LDP 3H printed": "UCBVI-LDP printed, Lap(3H/ε) of [bai2024adversarial] Sec. 5.2",
    "SDP-PE plus, tight": "SDP-PE+ tight (not in the paper)",
}


def names(results: Results) -> Mapping[str, Any]:
    """Results and tables."""
    fig4 = results("bai2025secure/fig4")
    small = [f"{{}}, ε={epsilon}, K=20,000" for epsilon in ("0.1", "1", "10")]
    large = "{}, ε=1, K=200,000"
    first = {
        (one["version"], one["noise"]): f"{one['users']:.1e}"
        for one in results("bai2024shuffle/elimination").json("elimination.json")["first"]
        if one["environment"] == "riverswim"
    }

    def apart(one: str, other: str) -> str:
        """By how many standard errors one run is above another."""
        return f"{(fig4.mean(one) - fig4.mean(other)) / math.hypot(fig4.error(one), fig4.error(other)):.1f}"

    rows = [
        row(SHOWN.get(line, line), *(fig4.of_uniform(form.format(line)) for form in (*small, large))) for line in LINES
    ]
    free = [
        row(f"{line} (no privacy)", fig4.of_uniform(f"{line}, K=20,000"), "", "", fig4.of_uniform(f"{line}, K=200,000"))
        for line in ("UCB-VI", "PE")
    ]
    return {"fig4": fig4, "table": "\n".join(free + rows), "first": first, "apart": apart}
