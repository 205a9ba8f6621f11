"""The tools of the papers' proofs, and remarks that compare bounds: statements behind the theorems.

What nobody has examined is `open`, and says so.
"""

from __future__ import annotations

from typing import Final

from tacit.papers.statement import Statement

__all__ = ["PROOFS"]

PROOFS: Final = (
    Statement(
        "bai2024shuffle",
        "Lemmas 7, 8 and 9",
        "the values of all remaining policies are known up to xi: bias of the absorbing MDP, and variance",
        "partly",
        "the widths of `constants=theory`, with C = 1 where the order is printed, and X in iota, which the paper "
        "leaves out; none of 120 runs with them lost the best policy",
        "bai2024shuffle/table1",
    ),
    Statement(
        "bai2024shuffle",
        "Lemmas 12 to 41, Corollary 39",
        "the appendix: restatements and tools of the proofs",
        "open",
        "not examined one by one; what is wrong in the statements that rest on them stands with those",
    ),
    Statement(
        "bai2025secure",
        "Lemmas 7, 8 and 9",
        "the same for the second version, with smaller powers",
        "partly",
        "as for the first version: none of 120 runs with these widths lost the best policy",
        "bai2024shuffle/table1",
    ),
    Statement(
        "bai2025secure",
        "Lemmas 12, 14, 15, 16 and 17",
        "tools of the proofs",
        "open",
        "not examined one by one",
    ),
    Statement(
        "he2025policy",
        "Lemmas 1 to 7, Proposition 1",
        "tools of Theorems 2 to 4: smoothness, second moments, from stationary to optimal",
        "partly",
        "Lemma 7 prints R^2 G for R^2 G^2, L lacks the barrier's part, B = 0 at batches of one divides by zero; the "
        "repairs are tested, the cited ones are not examined",
    ),
    Statement(
        "bai2024adversarial",
        "Table 2",
        "the notation",
        "reproduced",
        "nothing is claimed; the card translates it",
    ),
    Statement(
        "bai2024adversarial",
        "Remarks 5.3, 5.4, 5.9 and 5.10",
        "comparisons with bounds and lower bounds of others",
        "open",
        "they compare printed orders; nothing to run beyond the exponents of Theorems 5.2 and 5.8",
    ),
    Statement(
        "bai2024adversarial",
        "Lemmas D.1, D.2 and D.3",
        "the parts of regret in the proofs of Theorems 3.3 and 4.2",
        "partly",
        "in that of Theorem 4.2 the inequality for the offset of the estimator goes the wrong way (see Theorem 4.2)",
        "bai2024adversarial/estimator",
    ),
    Statement(
        "bai2024adversarial",
        "Lemmas E.1 to E.24, Corollary E.16, Proposition E.23",
        "tools of the proofs, most of them cited",
        "open",
        "not examined one by one; Lemma E.11 is used as it is written, against Eq. 3.1",
    ),
    Statement(
        "garcelon2021local",
        "Lemma 6",
        "the values of LDP-OBI are optimistic",
        "partly",
        "with radii that cover: coverage of rewards and transitions, from which it follows, is tested",
    ),
    Statement(
        "garcelon2021local",
        "Proposition 9",
        "a cited tail bound for sums of Laplace noise",
        "open",
        "not examined; Lemma N1 (sub-gamma radius) takes its place in `constants=theory`",
    ),
)
"""Behind the theorems, in the order of the papers."""
