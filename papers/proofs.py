"""The tools of the papers' proofs, and remarks that compare bounds: statements behind the theorems.

Each was read, and checked where a computer can: by closed form, exact enumeration, or on random instances (`test` names
the file). "By hand" means that orders and constants of a proof were followed on paper and nothing was computed.
"""

from __future__ import annotations

from typing import Final

from papers.statement import Statement

__all__ = ["PROOFS"]

SHUFFLE: Final = "tests/papers/test_papers_lemmas_shuffle.py"
ADVERSARIAL: Final = "tests/papers/test_papers_lemmas_adversarial.py"
POLICY: Final = "tests/papers/test_papers_lemmas_policy.py"

_SHUFFLE_2024: Final = (
    Statement(
        "bai2024shuffle",
        "Lemmas 7, 8 and 9",
        "the values of all remaining policies are known up to xi: bias of the absorbing MDP, and variance",
        "partly",
        "the widths of `constants=theory`, with C = 1 where the order is printed, and X in iota, which the paper "
        "leaves out; no committed run with them lost the best policy",
        "bai2024shuffle/table1",
    ),
    Statement(
        "bai2024shuffle",
        "Lemmas 12, 18, 20, 22 and 25",
        "restatements of Lemmas 7, 8 and 9 and of Theorem 6",
        "partly",
        "as those; Lemma 7 has 1 - 9 delta, its restatements 1 - 7 delta and 1 - 9 delta; the bias of Lemma "
        "18 given the probability of W and the sum over stages of Lemma 25 are computed, the orders of the "
        "others followed by hand",
        test=SHUFFLE,
    ),
    Statement(
        "bai2024shuffle",
        "Lemmas 13, 16, 19, 23 and 24",
        "the absorbing MDP is below the true one, occupancies within 1/4 and 3, the simulation lemma, the best policy "
        "stays and the others are close",
        "reproduced",
        "they hold, on random MDPs and values; Lemma 16 given Lemma 15, Lemma 24 for what is left *after* stage b",
        test=SHUFFLE,
    ),
    Statement(
        "bai2024shuffle",
        "Lemmas 14 and 15",
        "estimates of frequent transitions are within a factor 1 +- 1/H",
        "partly",
        "Lemma 15 writes 4 E iota for 4 E + 7 iota: with C_1 = 6 it does not follow at H = 2, E = 1 (1.19 where 1 is "
        "needed) and does from E = 2 on; Lemma 14 for one tuple, by enumeration",
        test=SHUFFLE,
    ),
    Statement(
        "bai2024shuffle",
        "Lemmas 17 and 21",
        "infrequent tuples are hard to reach; the error of rewards",
        "partly",
        "the orders follow, by hand; Lemma 17 takes for granted that no private N(x,a,x') underestimates, which "
        "Assumption 4 says of N(x,a) only (X E more, the order stays), Eq. 22 forgets the half of Lemma 31",
    ),
    Statement(
        "bai2024shuffle",
        "Lemmas 26, 28, 30 to 35 and 37",
        "tools: square roots of variances, Bernstein, Freedman, visits against half of their mean, rewards, counts",
        "reproduced",
        "they hold: on a grid (26), for all laws on two points tried (28, 33), by their exponential moments "
        "(30, 31) and exactly for constant chances (31, 32), for random counts within Assumption 4 (34, 35, 37)",
        test=SHUFFLE,
    ),
    Statement(
        "bai2024shuffle",
        "Lemma 27",
        "Chernoff bounds of a binomial, for every delta",
        "refuted",
        "the upper half is false for small delta (1,000 times delta at n = 1,000, mean 0.001, delta 1e-10); "
        "it holds for ln(1/delta) up to a third of the mean, which is so where it is used; the lower half holds",
        test=SHUFFLE,
        under="every delta, as it is stated",
    ),
    Statement(
        "bai2024shuffle",
        "Lemma 29",
        "the empirical Bernstein inequality with 7 A/(3 n)",
        "partly",
        "smaller than what it cites, which has the range 2 A and n - 1; no counterexample among laws on two points",
        test=SHUFFLE,
    ),
    Statement(
        "bai2024shuffle",
        "Lemmas 36 and 38, Corollary 39",
        "bands around transition probabilities, private ones, and their sum",
        "refuted",
        "iota is a logarithm and ln(iota) is taken of it: at delta 1e-6 one tuple alone is missed 340 times "
        "as often as all may be; with iota in its place they hold for every tuple tried; Corollary 39 lacks "
        "a factor sqrt(2) besides",
        test=SHUFFLE,
        under="coverage with the stated probability",
    ),
    Statement(
        "bai2024shuffle",
        "Lemmas 40 and 41",
        "squared errors of empirical transitions and rewards, orders",
        "partly",
        "cited; in 100 random samples with exact maxima the constant is below 1; no proof was followed",
        test=SHUFFLE,
    ),
)

_SHUFFLE_2025: Final = (
    Statement(
        "bai2025secure",
        "Lemmas 7, 8 and 9",
        "the same for the second version, with smaller powers",
        "partly",
        "as for the first version: no committed run with these widths lost the best policy",
        "bai2024shuffle/table1",
    ),
    Statement(
        "bai2025secure",
        "Lemmas 12, 15 and 17",
        "visits against half of their mean; occupancies within 1/4 and 3; the coverage of the second exploration",
        "reproduced",
        "Lemmas 31 and 16 of the first version; Lemma 17 is Lemma 13 and three divided by a quarter",
        test=SHUFFLE,
    ),
    Statement(
        "bai2025secure",
        "Lemmas 14, 16 and 18",
        "frequent transitions are known, infrequent ones hard to reach, everything else is visited",
        "partly",
        "Lemma 14 as Lemma 15 of the first version: it does not follow at H = 2, E = 1; Lemma 16 as its Lemma 17; the "
        "union in Lemma 18 needs an X that iota lacks, or X log K up to 2 K",
        test=SHUFFLE,
    ),
)

_POLICY: Final = (
    Statement(
        "he2025policy",
        "Lemmas 1 to 5, Proposition 1",
        "tools of Theorems 2 to 4: gradient domination, second moments, smoothness, from stationary to optimal",
        "reproduced",
        "they hold on random contextual bandits with softmax policies, by exact sums (Lemma 4 on a noisy "
        "quadratic); the printed G bounds the mean square of a gradient, which is enough here and not for "
        "privacy (row 6); B = 0 at batches of one divides by zero",
        test=POLICY,
    ),
    Statement(
        "he2025policy",
        "Lemmas 6 and 7",
        "stationarity with the log-barrier, and its rate",
        "partly",
        "L lacks the barrier's part in Lemma 6, Lemma 7 prints R^2 G for R^2 G^2; the repairs are tested",
        test="tests/gradients/test_gradients_names.py",
    ),
)

_ADVERSARIAL: Final = (
    Statement(
        "bai2024adversarial",
        "Table 2",
        "the notation",
        "reproduced",
        "nothing is claimed; the card translates it",
    ),
    Statement(
        "bai2024adversarial",
        "Remark 5.3",
        "the bounds under JDP match those without privacy in the worst case",
        "partly",
        "with full information, in K (C_M is at most X sqrt(A)); with bandits the printed term of privacy is "
        "sqrt(X A)/epsilon times the other one for every K",
        test=ADVERSARIAL,
    ),
    Statement(
        "bai2024adversarial",
        "Remarks 5.4 and 5.10",
        "the same powers of 1/epsilon as known lower bounds, and of K under LDP; a larger one of X",
        "reproduced",
        "the printed orders compare as it says (those of A and H are larger, too); the lower bounds are taken as cited",
        test=ADVERSARIAL,
    ),
    Statement(
        "bai2024adversarial",
        "Remark 5.9",
        "the bounds under LDP match those without privacy in the worst case",
        "refuted",
        "the printed terms of privacy are X H sqrt(A)/epsilon and X^3 H sqrt(A)/epsilon times as large, for every K",
        test=ADVERSARIAL,
        under="the printed orders, for every K",
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
        "Lemmas E.1, E.2, E.5 to E.10, E.12, E.13 and E.17 to E.20",
        "tools: Laplace noise and its maxima, sums over visits, private counts, effective support, occupancies",
        "reproduced",
        "they hold: in closed form, exactly for sums of Laplace noise, or on random instances; E.5 and E.6 by their "
        "short proofs (E.6 needs mean zero), E.7 by another one that does not rest on E.4",
        test=ADVERSARIAL,
    ),
    Statement(
        "bai2024adversarial",
        "Lemma E.4",
        "Laplace noise of scale b is sub-exponential with (2 b, b)",
        "refuted",
        "its moment generating function is infinite at the edge (10.3 against 6.1 at 0.95/b); true with (2 "
        "b, sqrt(2) b)",
        test=ADVERSARIAL,
        under="the definition of sub-exponential that it cites",
    ),
    Statement(
        "bai2024adversarial",
        "Lemmas E.11 and E.14",
        "bands around transition probabilities, and private ones",
        "partly",
        "one tuple at one count is missed at most 0.3/iota times, by enumeration; the union over x' is not "
        "counted: 4 delta follows for X up to 13 only; E.14 with the 1/N term outside the root",
        test=ADVERSARIAL,
    ),
    Statement(
        "bai2024adversarial",
        "Lemma E.15, Corollary E.16",
        "the distance between any two members of the set of transitions",
        "refuted",
        "two members may be two bands apart, the proof counts one; with a factor of two they hold, and orders stay",
        test=ADVERSARIAL,
        under="any two members, as it is stated",
    ),
    Statement(
        "bai2024adversarial",
        "Lemmas E.21, E.22 and E.24, Proposition E.23",
        "errors of occupancies and sums over visits, orders",
        "partly",
        "E.21 with constants 4 and 26 on random worlds; E.22 exactly in the mean; E.23, and E.24 along "
        "random paths; the deviations from the mean followed by hand",
        test=ADVERSARIAL,
    ),
)

_LOCAL: Final = (
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
        "reproduced",
        "it holds, by the exact tail of up to 400 summands and delta from 1e-10 to 0.99; `constants=theory` "
        "has Lemma N1 (sub-gamma radius) in its place",
        test=ADVERSARIAL,
    ),
)

PROOFS: Final = (*_SHUFFLE_2024, *_SHUFFLE_2025, *_POLICY, *_ADVERSARIAL, *_LOCAL)
"""Behind the theorems, in the order of the papers."""
