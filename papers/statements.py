"""The statements of the five papers: every figure, table and theorem, with what became of it here and why.

    reproduced         it was run or computed here and is as the paper says
    partly             some of it is, or only after a repair that is named
    refuted            it is false as printed: an exact computation or an experiment shows the contrary
    not reproducible   what was used is not printed, or the printed settings do not give what is shown
    open               it is implemented, but nobody has run the experiment that would tell

One literal table; `python -m papers list` prints it, `docs/papers/index.md` is generated from it.
"""

from __future__ import annotations

from typing import Final

from papers.proofs import PROOFS
from papers.statement import Statement, Status

__all__ = ["STATEMENTS", "Statement", "Status"]

FIG2_PRINTED: Final = "garcelon2021local/fig2-printed"

STATEMENTS: Final = (
    # ---------------------------------------------------------------------------------------------- bai2024shuffle
    Statement(
        "bai2024shuffle",
        "Table I",
        "SDP-PE has the regret of joint DP without a trusted curator, the cost of privacy is additive",
        "partly",
        "with the printed constants on the smallest hard tree the largest regret over all gaps grows about as the root"
        " of K without privacy, and what privacy adds does not grow with K once it is learned and is about 1/epsilon"
        " from epsilon 1 down",
        "bai2024shuffle/table1",
    ),
    Statement(
        "bai2024shuffle",
        "Table I, powers of X, A and H",
        "privacy terms X^3 A^2 H^6, and X^3 A H^6 in the second version",
        "partly",
        "under the practical rule on random MDPs what privacy adds grows with smaller powers of X and H than the "
        "printed ones; worlds with fixed gaps, no worst case",
        "bai2024shuffle/powers",
    ),
    Statement(
        "bai2024shuffle",
        "Theorem 6",
        "regret of SDP-PE with any Privatizer whose counts are within E",
        "partly",
        "regret has about the rate there; but the printed C eliminates nothing on RiverSwim before 5e8 "
        "users without privacy and 1e12 with the least noise at epsilon 1 (computed)",
        "bai2024shuffle/elimination",
    ),
    Statement(
        "bai2024shuffle",
        "Lemma 10, Lemma 42, Algorithm 4",
        "shuffled binary sums are (epsilon, beta)-SDP",
        "partly",
        "false as printed (shuffled integers reveal a bit, row 3 of the guarantees); true with every bit as its own "
        "message (row 1), although the proof counts half of the counters",
        under="DP of the shuffled messages of one batch, replace-one",
    ),
    Statement(
        "bai2024shuffle",
        "Theorem 11",
        "SDP-PE is (epsilon, beta)-SDP with additive cost of privacy",
        "partly",
        "the guarantee holds after the repair of Lemma 10; the cost of privacy is additive where anything is "
        "learned, which with the printed noise on RiverSwim is from 1.8e13 users on",
        "bai2024shuffle/table1",
    ),
    # ----------------------------------------------------------------------------------------------- bai2025secure
    Statement(
        "bai2025secure",
        "Fig. 1 and 2",
        "drawings of the trust models and of the algorithm",
        "reproduced",
        "nothing is claimed; the roles are those of `tacit.release.shuffle.roles`",
    ),
    Statement(
        "bai2025secure",
        "Fig. 3",
        "the RiverSwim MDP with X = 4, A = 2, H = 6",
        "partly",
        "`riverswim`; the drawing names no probabilities that survive in the text, so they are Osband's",
    ),
    Statement(
        "bai2025secure",
        "Fig. 4",
        "UCB-VI and PE best, then UCBVI-JDP, SDP-PE slightly above it and far below UCBVI-LDP, epsilon 0.1 and 1",
        "not reproducible",
        "neither delta nor constants are printed; under one common rule SDP-PE is close to the uniform "
        "policy there and not below UCBVI-LDP; with tight noise the order appears at K = 200,000, epsilon 1",
        "bai2025secure/fig4",
    ),
    Statement(
        "bai2025secure",
        "Table I",
        "regret bounds of private RL",
        "partly",
        "as for the first version: about the root of K without privacy; what privacy adds is flat in K and about"
        " 1/epsilon from epsilon 1 down",
        "bai2024shuffle/table1",
    ),
    Statement(
        "bai2025secure",
        "Theorem 6",
        "regret of SDP-PE with mixtures",
        "partly",
        "regret has the rate on the smallest hard tree; on RiverSwim the printed C eliminates "
        "nothing before 6e6 users without privacy and 8e11 with the least noise at epsilon 1",
        "bai2024shuffle/elimination",
    ),
    Statement(
        "bai2025secure",
        "Lemma 10",
        "the shuffle Privatizer with beta/(HXA) per counter is (epsilon, beta)-SDP",
        "partly",
        "rows 2 and 3 of the guarantees: true with every bit as its own message, false as printed",
        under="DP of the shuffled messages of one batch, replace-one",
    ),
    Statement(
        "bai2025secure",
        "Theorem 11",
        "SDP-PE is (epsilon, beta)-SDP with additive cost of privacy",
        "partly",
        "the guarantee holds after the repair; the cost of privacy is additive where anything is learned",
        "bai2024shuffle/table1",
    ),
    Statement(
        "bai2025secure",
        "Lemma 13, Eq. 3",
        "a mixture covers every coordinate up to the number of coordinates",
        "reproduced",
        "`tacit.planning.policy_set` finds it and certifies the value",
    ),
    # ------------------------------------------------------------------------------------------------ he2025policy
    Statement(
        "he2025policy",
        "Theorem 1",
        "DP-PG with classical Gaussian noise is (epsilon, delta)-DP",
        "partly",
        "true up to epsilon 8.42 at delta 1e-5; beyond, its noise is too small for the sensitivity that it states"
        " (row 5, Definition 2: two actions played alike with opposite rewards move the gradient by one and the same"
        " vector of length G); no guarantee for Gaussian policies (row 7)",
    ),
    Statement(
        "he2025policy",
        "Remark 3",
        "the online run is jointly private by the billboard lemma",
        "reproduced",
        "Lemma P8 (billboard); `tacit certify` prints the claim that is implied",
    ),
    Statement(
        "he2025policy",
        "Remark 1",
        "other methods (natural gradient, PPO; the introduction adds trust regions) fit the notion, too",
        "reproduced",
        "`dp-npg`, `dp-trpo` and `dp-ppo` run at the same guarantee; none of them beats DP-PG clearly",
        "he2025policy/beyond",
    ),
    Statement(
        "he2025policy",
        "Theorem 2",
        "stationarity falls as N^(-1/2), the cost of privacy as N^(-2/3)",
        "reproduced",
        "fitted exponents close to the first, and at the second where the curves have begun to fall",
        "he2025policy/theorem2",
    ),
    Statement(
        "he2025policy",
        "Theorem 3",
        "global error with Fisher-non-degenerate policies: N^(-1/4), cost N^(-1/3)",
        "partly",
        "an upper bound that is beaten in N; the error rises with mu and with a power of d above 1, and alpha_bias "
        "makes the bound vacuous here",
        "he2025policy/theorem3",
    ),
    Statement(
        "he2025policy",
        "Theorem 4",
        "softmax with log-barrier: (epsilon, delta)-DP, global error N^(-1/6), cost N^(-2/9)",
        "partly",
        "the rate is met; the proof of the guarantee is wrong (the printed G bounds a mean square);"
        " at (1,"
        " 1e-5) the guarantee holds under Definition 2, where the action is hidden, and is false once the action is"
        " public"
        " (row 6)",
        "he2025policy/theorem4",
        under="Definition 2 with the action known besides",
    ),
    # ------------------------------------------------------------------------------------------- bai2024adversarial
    Statement(
        "bai2024adversarial",
        "Table 1",
        "regret of private UC-O-REPS and UOB-LBPS under pure JDP and LDP",
        "partly",
        "pure, tight and as printed: full information is sublinear up to K = 10^6, bandits at epsilon 10 up to 10^5, "
        "and nearly linear at epsilon 1; the printed noise is 3 and 2 epsilon",
        "bai2024adversarial/table1-pure",
    ),
    Statement(
        "bai2024adversarial",
        "Table 1, powers of X, A and H",
        "privacy terms X^2 A H^2, A H X^(3/2) and X^4 A H^2",
        "partly",
        "fitted at K = 10^4: below the printed powers in X and H, but for H with bandits under central trust; above "
        "1 in A",
        "bai2024adversarial/table1-powers",
    ),
    Statement(
        "bai2024adversarial",
        "Lemma 3.1",
        "the confidence set contains the true transitions",
        "partly",
        "with the 1/N term outside the root, as Lemma E.11 has it; coverage is tested",
    ),
    Statement(
        "bai2024adversarial",
        "Theorem 3.3",
        "full information: the cost of unknown transitions follows C_M",
        "partly",
        "the cost does; regret as a whole does not rise with C_M",
        "bai2024adversarial/support",
    ),
    Statement(
        "bai2024adversarial",
        "Theorem 4.2",
        "bandit feedback: sublinear regret with the biased estimator",
        "refuted",
        "the estimator as written reinforces itself: on two arms, without noise and with the learning rate of "
        "the theorem, regret is linear, and at K = 10^6 2.7 times the bound of the proof with its constants; centred "
        "it is below",
        "bai2024adversarial/two-arms",
        under="its own Assumption 4.1, oblivious losses and learning rate",
    ),
    Statement(
        "bai2024adversarial",
        "Lemma 5.1",
        "the Central Privatizer is epsilon-DP",
        "refuted",
        "for the released counters, replace-one: twice the epsilon for counts, (4/3 + X'A/(3H)) epsilon with full"
        " information (rows 8 and 9)",
        test="tests/papers/test_papers_guarantees.py",
        under="DP of the released counters, replace-one",
    ),
    Statement(
        "bai2024adversarial",
        "Theorem 5.2",
        "epsilon-JDP with lower-order cost of privacy",
        "partly",
        "its proof rests on Lemma 5.1, which is false; under JDP itself, where actions alone are seen, no violation is"
        " known; the cost falls as 1/epsilon with full information",
        "bai2024adversarial/table1",
        under="DP of the released counters, replace-one (of Lemma 5.1)",
    ),
    Statement(
        "bai2024adversarial",
        "Lemma 5.5, Eq. 5.1 and 5.2",
        "post-processed counts are consistent and within E",
        "partly",
        "in closed form; (5.1) has no unique solution, and none if a noisy total is far below zero",
    ),
    Statement(
        "bai2024adversarial",
        "Lemma 5.6",
        "released bandit losses are epsilon/3-DP and epsilon/3-LDP",
        "refuted",
        "2 epsilon/3, since 2H losses differ between neighbours (row 10)",
        test="tests/papers/test_papers_guarantees.py",
        under="LDP (Definition 2.2)",
    ),
    Statement(
        "bai2024adversarial",
        "Lemma 5.7",
        "the Local Privatizer is epsilon-LDP",
        "refuted",
        "rows 10 and 11 of the guarantees; and its noise is not identically distributed over k",
        test="tests/papers/test_papers_guarantees.py",
        under="LDP (Definition 2.2)",
    ),
    Statement(
        "bai2024adversarial",
        "Theorem 5.8",
        "epsilon-LDP with regret of order sqrt(K)/epsilon",
        "partly",
        "the guarantee is false (Lemma 5.7); the cost falls as 1/epsilon with full information; bandit learners "
        "learn too little at these K",
        "bai2024adversarial/table1",
        under="LDP (Definition 2.2)",
    ),
    Statement(
        "bai2024adversarial",
        "Lemma F.1, Algorithm 4",
        "a binary mechanism with exactly log K noises in every prefix",
        "partly",
        "item k belongs to leaf k - 1, and log K is its binary logarithm, rounded up",
    ),
    Statement(
        "bai2024adversarial",
        "Lemma C.1, Algorithm 2",
        "the dual of the entropy projection",
        "partly",
        "with three misprints repaired; compared with an independent solver",
    ),
    # -------------------------------------------------------------------------------------------- garcelon2021local
    Statement(
        "garcelon2021local",
        "Theorem 2, Fig. 3",
        "no LDP learner beats sqrt(K)/min(e^epsilon - 1, 1) on the hard trees",
        "reproduced",
        "averaged over all nine hidden pairs no local learner is below the bound",
        "garcelon2021local/lower-bound",
    ),
    Statement(
        "garcelon2021local",
        "Proposition 4",
        "private rewards and transitions are within beta of the truth",
        "partly",
        "with radii that cover (`theory`); several printed radii do not",
    ),
    Statement(
        "garcelon2021local",
        "Theorem 5, Table 1",
        "regret of LDP-OBI, powers of S, A, H and epsilon for each mechanism",
        "partly",
        "sqrt(K) and 1/epsilon show in figure 1; fitted on random MDPs of sizes 2, 4, 8 the powers "
        "of S and H are below the printed ones, those of A around and above",
        "garcelon2021local/table1",
    ),
    Statement(
        "garcelon2021local",
        "Theorem 7",
        "the Laplace mechanism is epsilon-LDP",
        "reproduced",
        "with slack: it certifies (6H-2)/(6H) epsilon (row 12)",
    ),
    Statement(
        "garcelon2021local",
        "Proposition 8",
        "the radii of Laplace noise",
        "reproduced",
        "they cover, with a factor sqrt(2) to spare; `constants=printed` uses them",
        FIG2_PRINTED,
    ),
    Statement(
        "garcelon2021local",
        "Proposition 10",
        "the Gaussian mechanism is (epsilon, delta)-LDP for epsilon up to 1",
        "partly",
        "true with c = 4 ln(24/delta) as stated and seven times the noise needed; false with the c^2 of its proof, and "
        "the figures go to epsilon 20",
        under="LDP of the message of one person, for every pair of trajectories",
    ),
    Statement(
        "garcelon2021local",
        "Proposition 11",
        "the radii of Gaussian noise",
        "refuted",
        "a factor sqrt(2) of their own proof (Eq. 66) is missing: at 0.003 they are left 3.6 times as often as they "
        "say; `constants=printed` uses them as they are",
        None,
        "tests/noise/test_mechanisms_gaussian.py",
        under="coverage with the stated probability",
    ),
    Statement(
        "garcelon2021local",
        "Proposition 12",
        "randomized response is epsilon-LDP",
        "reproduced",
        "with slack, (6H-2)/(6H) epsilon; the de-biasing of one family is missing and supplied",
    ),
    Statement(
        "garcelon2021local",
        "Proposition 13",
        "the radii of randomized response",
        "refuted",
        "too small for small epsilon: at 1/12 they are left 20 times as often as they say",
        None,
        "tests/noise/test_mechanisms_randomized_response.py",
        under="coverage with the stated probability",
    ),
    Statement(
        "garcelon2021local",
        "Proposition 14",
        "bounded noise is (3H epsilon, delta')-LDP",
        "partly",
        "vacuous at the sizes of its figures: nothing is claimed below delta_0 = 0.977 (S = 4, A = 2), and the theorem"
        " behind it needs more than 1e11 cells; the constant C is open: a claim of 1 at delta 1e-5 is really 4.26, 1.60"
        " and 0.963 with C = 1, 2 and 2.95 (row 16); its delta' is not inverted in `paper`",
    ),
    Statement(
        "garcelon2021local",
        "Proposition 15",
        "the radii of bounded noise",
        "reproduced",
        "Hoeffding's bound of the noise with C = 1, which the statement drops; `constants=printed` uses them",
        FIG2_PRINTED,
    ),
    Statement(
        "garcelon2021local",
        "Figure 1",
        "LDP-OBI with Laplace noise and LDP-PSRL against UCB-VI, LDP-PSRL slightly better",
        "partly",
        "the order in epsilon and the bend to sqrt(K) are there; LDP-PSRL has orders of magnitude less regret",
        "garcelon2021local/fig1",
    ),
    Statement(
        "garcelon2021local",
        "Figures 2, 4, 5 and 6",
        "bounded noise best, then Laplace; bounded noise varies more between runs",
        "partly",
        "the order depends on the radii and on the reading of Prop. 10; see the card",
        FIG2_PRINTED,
    ),
    Statement(
        "garcelon2021local",
        "Figure 7",
        "LDP-PSRL at three epsilons",
        "reproduced",
        "with the spread at epsilon 0.2; rows with binary rewards are ours",
        "garcelon2021local/fig7",
    ),
    Statement(
        "garcelon2021local",
        "Figure 8",
        "a histogram of total rewards under Laplace noise",
        "reproduced",
        "cell (0, 1) of an MDP in which it pays (the paper names none): the spread grows with 1/epsilon",
        "garcelon2021local/fig8",
    ),
    Statement(
        "garcelon2021local",
        "Figure 9",
        "two trajectories become almost indistinguishable at epsilon 20",
        "not reproducible",
        "its trajectories are not named, and two that agree in the cell have one histogram; two that differ in it are"
        " well told apart by the best test at epsilon 20",
        "garcelon2021local/fig9",
    ),
    Statement(
        "garcelon2021local",
        "Appendix G, Algorithm 7",
        "LDP-PSRL is epsilon-LDP",
        "reproduced",
        "with slack, (8H-2)/(8H) epsilon; no regret bound is claimed",
        "garcelon2021local/fig7",
    ),
    Statement(
        "garcelon2021local",
        "Appendix I, Algorithms 8 to 10",
        "shuffling does not improve regret at a fixed local epsilon",
        "partly",
        "regret at a fixed local level is not improved, as I.2 says; the amplification of Eq. 113 is false: "
        "comparing two rounds reveals every report, and the local level is (4H-2+2mH) epsilon",
        "garcelon2021local/reshuffled",
        under="DP of the messages of both rounds, replace-one",
    ),
    *PROOFS,
)
"""In the order of the papers; the tools of their proofs last."""
