"""Rows 8 to 11: continual counters and local noise of [bai2024adversarial]."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from papers.square_root import SquareRootFactorization
from papers.verdict import (
    DELTA,
    EPSILON,
    HORIZON,
    LOSSES,
    ROUNDS,
    Verdict,
    certified,
    laplace,
    listed,
    per_step,
    up,
)
from tacit.accounting.composition import epsilon_of
from tacit.accounting.events import Events
from tacit.accounting.events.gaussian import gaussian_mu
from tacit.accounting.families import Family
from tacit.noise.continual.counter import allocate_gaussian, allocate_laplace, gaussian_shares
from tacit.noise.continual.kary_tree import KaryTree, best_arity
from tacit.noise.continual.tree import LaplaceTree, tree_levels
from tacit.noise.gaussian import Gaussian
from tacit.noise.laplace import Laplace

__all__ = ["adversarial_verdicts"]

COUNT: Final = per_step("transitions", HORIZON)
"""N(x,a,x') of a layered model, where every step has a successor; N(x,a) and bandit losses move likewise."""
TABLE: Final = Family(name="loss table", up=LOSSES, down=0, shift=1.0)
ROOT2: Final = math.sqrt(2.0)


COUNTERS: Final = "DP of the released counters (Lemma 5.1)"
MOVED: Final = COUNT.differing
LEVELS: Final = tree_levels(ROUNDS)
SINGLE: Final = 3.0 * HORIZON / EPSILON
"""The printed Lap(3H/ε) where there is no tree."""
TREES: Final = tuple(SINGLE * log for log in (float(LEVELS), math.log2(ROUNDS), math.log(ROUNDS)))
"""The printed scale on a tree, in the three readings of its log K."""
SOUND: Final = 6.0 * HORIZON / EPSILON
"""The scale that would do for a family of 2H counters at a third of ε."""
TERMS: Final = math.sqrt(2.0 * LEVELS)
"""The standard deviation of a counter on a tree whose noise has scale 1."""


def adversarial_verdicts() -> tuple[Verdict, ...]:
    """Rows 8 to 11."""
    printed = LaplaceTree(steps=ROUNDS, release_final=False, scale=TREES[0], padded=False).max_std
    return _full_information(printed), _bandit_feedback(printed), _bandit_losses(), _local()


def _full_information(printed: float) -> Verdict:
    full = [laplace(b, LEVELS * (2 * MOVED + LOSSES)) for b in TREES]
    # Pure and optimal, without N(x,a), on the best certified tree; each family has its own scale.
    arity = best_arity(ROUNDS)
    unit = KaryTree(steps=ROUNDS, release_final=False, arity=arity, scale=1.0)
    scales = allocate_laplace([COUNT, TABLE], [1.0, 1.0], EPSILON, [unit.levels] * 2)
    kary = [KaryTree(steps=ROUNDS, release_final=False, arity=arity, scale=b) for b in scales]
    # (ε, δ), without N(x,a): square-root factorization.
    split = allocate_gaussian([COUNT, TABLE], [1.0, 1.0], EPSILON, DELTA, ROUNDS, SquareRootFactorization)
    return _central(
        row=8,
        mechanism="central trees, full information",
        epsilon=epsilon_of(full[0], 0.0),
        certified=f"pure {_all(full, 0.0)} for log K = ceil(log2 K) / log2 K / ln K; at delta {DELTA:g}: "
        f"{_all(full, DELTA)}",
        remark="2H counters differ per family, not H, and a user brings a whole loss table",
        sound="b = 6HL/eps (counts), 3X'A L/eps (losses), L = ceil(log2 K)",
        paper_std=f"{printed:.4g}",
        tight_std=f"pure: {SOUND * LEVELS * TERMS:.4g} counts, {3 * LOSSES * LEVELS * TERMS:.4g} losses (sound); "
        f"{listed([tree.max_std for tree in kary])} ({arity}-ary tree, no N(x,a)); "
        f"(1, {DELTA:g}): {listed([part.max_std for part in split])} (square root, no N(x,a))",
        tight_epsilon=epsilon_of(kary[0].events(COUNT) + kary[1].events(TABLE), 0.0),
        accounted=f"{LEVELS} x ({2 * MOVED} + {LOSSES}) x Laplace over one",
        unit="one trajectory and its loss table",
    )


def _bandit_feedback(printed: float) -> Verdict:
    bandit = [laplace(b, LEVELS * 2 * MOVED) + laplace(SINGLE, MOVED) for b in TREES]
    # Half of μ² for the counts, half for the losses, which are released once each.
    halves = gaussian_shares([COUNT, COUNT], [1.0, 1.0], gaussian_mu(EPSILON, DELTA))
    counts = SquareRootFactorization.for_steps(ROUNDS, halves[0])
    counts = SquareRootFactorization.for_steps(ROUNDS, halves[0] * counts.sensitivity)
    losses = Gaussian(sigma=halves[1])
    return _central(
        row=9,
        mechanism="central trees, bandit feedback",
        epsilon=epsilon_of(bandit[0], 0.0),
        certified=f"pure {_all(bandit, 0.0)} (as above); at delta {DELTA:g}: {_all(bandit, DELTA)}",
        remark="2H counters differ per family, not H",
        sound="b = 6HL/eps (counts), 6H/eps (losses)",
        paper_std=f"{printed:.4g}; losses {SINGLE * ROOT2:.4g}",
        tight_std=f"pure: {SOUND * LEVELS * TERMS:.4g}; losses {SOUND * ROOT2:.4g} (sound). "
        f"(1, {DELTA:g}), half and half, no N(x,a): {counts.max_std:.4g}; losses {losses.std:.4g}",
        tight_epsilon=epsilon_of(counts.events(COUNT) + losses.events(COUNT), DELTA),
        accounted=f"{LEVELS} x {2 * MOVED} + {MOVED} x Laplace over one",
    )


def _bandit_losses() -> Verdict:
    epsilon = epsilon_of(laplace(SINGLE, MOVED), 0.0)
    return Verdict(
        row=10,
        definition="LDP (Definition 2.2)",
        source="bai2024adversarial",
        mechanism="bandit losses alone (Lemma 5.6)",
        claim=f"{EPSILON / 3:.4g}-LDP, pure",
        claimed=(EPSILON / 3, 0.0),
        epsilon=epsilon,
        certified=up(epsilon),
        remark="twice what is claimed",
        sound="b = 6H/eps",
        paper_std=f"{SINGLE * ROOT2:.4g}",
        tight_std=f"{SOUND * ROOT2:.4g}",
        tight_epsilon=epsilon_of(laplace(SOUND, MOVED), 0.0),
        accounted=f"{MOVED} x Laplace over one",
    )


def _local() -> Verdict:
    bandit, full = (laplace(SINGLE, counters) for counters in (3 * MOVED, 2 * MOVED + LOSSES))
    # l, 1 - l and N(x,a,x') move by 4H together; a loss table beside N(x,a,x').
    four = Laplace(scale=4.0 * HORIZON / EPSILON, discrete=False)
    whole = allocate_laplace([COUNT, TABLE], [1.0, 1.0], EPSILON, [1, 1])
    return Verdict(
        row=11,
        definition="LDP (Definition 2.2)",
        source="bai2024adversarial",
        mechanism="local, bandit / full information",
        claim=f"{EPSILON:g}-LDP, pure",
        claimed=(EPSILON, 0.0),
        epsilon=epsilon_of(bandit, 0.0),
        certified=f"pure {up(epsilon_of(bandit, 0.0))} / {up(epsilon_of(full, 0.0))}; at delta {DELTA:g}: "
        f"{up(epsilon_of(bandit, DELTA))} / {up(epsilon_of(full, DELTA))}",
        remark="as rows 8 and 9",
        sound="b = 6H/eps; losses of a table 3X'A/eps",
        paper_std=f"{SINGLE * ROOT2:.4g}",
        tight_std=f"bandit: {SOUND * ROOT2:.4g} (sound), {four.std:.4g} (l, 1-l and N(x,a,x')); full, no N(x,a): "
        f"{listed([b * ROOT2 for b in whole])}",
        tight_epsilon=certified(four, (COUNT, COUNT), 0.0),
        accounted=f"{3 * MOVED} / {2 * MOVED} + {LOSSES} x Laplace over one",
        unit="one trajectory (and its loss table)",
    )


def _central(**row: Any) -> Verdict:
    return Verdict(
        source="bai2024adversarial",
        definition=COUNTERS,
        claim=f"{EPSILON:g}-JDP, pure",
        claimed=(EPSILON, 0.0),
        **row,
    )


def _all(readings: Sequence[Events], delta: float) -> str:
    return listed([epsilon_of(events, delta) for events in readings], certifies=True)
