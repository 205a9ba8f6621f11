"""The solvers of adversarial MDPs against general ones, on the problems that real runs pose.

A learner plays 2,500 episodes in a random layered world (Dirichlet transitions, Bernoulli losses) and the problems of
the last hundred are kept: `none` with exact counts and losses, `central` with fresh noise of a Laplace tree in every
number (epsilon 1 for full information, 10 for the centred bandit estimator) and widths of 0.05 of the printed ones,
which makes them hard. They are then solved again, in order, by one compiled loop with its warm start, and by CVXPY with
Clarabel, parametrised (DPP) and compiled beforehand: problem B in r = q/q_k, without which Clarabel gives up on most.
CPU time, one process, both in turns.

Comp-UOB is compared with one HiGHS programme per state, the programmes built beforehand.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from scipy.optimize import linprog

from tacit.kernels import kernel
from tacit.planning.barrier_flow import barrier_work, solve_barrier_flow
from tacit.planning.entropy_flow import entropy_work, solve_entropy_flow
from tacit.planning.layered import (
    CONVERGED,
    DUAL,
    GAP,
    ITERATIONS,
    REPORT_SIZE,
    bound_occupancy,
    layered_geometry,
    repair_counts,
    theory_intervals,
    upper_work,
)

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "reference"))

SIZES = ((4, 3, 2), (4, 4, 3), (5, 5, 3), (6, 8, 4))
EPISODES, KEPT, TURNS = 2500, 100, 12
TARGETS = {"none": 100.0, "central": 80.0}
UPPER_TARGET = 1000.0
GAP_TARGET = 1e-9


def run() -> list[dict[str, object]]:
    """Rows: speed of A, B and Comp-UOB, and the worst certificate."""
    from layered_oracles import BarrierProgram, EntropyProgram

    table: list[dict[str, object]] = []
    worst = 0.0
    for H, n, A in SIZES:
        geometry = layered_geometry((1, *[n] * (H - 1), 1), A)
        programs = {"A": EntropyProgram(geometry), "B": BarrierProgram(geometry)}
        for mode, target in TARGETS.items():
            for problem, program in programs.items():
                cases = play(geometry, problem, mode)
                seconds, theirs, difference, reports = compare(geometry, problem, cases, program)
                worst = max(worst, float((abs(reports[:, GAP]) / (1 + abs(reports[:, DUAL]))).max()))
                assert (reports[:, CONVERGED] == 1).all()
                row: dict[str, object] = {
                    "name": f"{problem} {mode}, H={H} n={n} A={A}",
                    "ratio": theirs / seconds if np.isfinite(theirs) else None,
                    "target": target,
                    "detail": f"{seconds * 1e6:.1f} us ({reports[:, ITERATIONS].mean():.1f} its, at most "
                    f"{reports[:, ITERATIONS].max():.0f}), CVXPY "
                    + (f"{theirs * 1e6:.0f} us, rel. difference {difference:.0e}" if np.isfinite(theirs) else "fails"),
                }
                table.append(row)
        table.append(upper_row(geometry, f"Comp-UOB, H={H} n={n} A={A}"))
    table.append(
        {
            "name": "largest duality gap / (1 + |D|)",
            "ratio": worst,
            "target": GAP_TARGET,
            "better": "lower",
            "detail": "over every update that was timed",
        }
    )
    return table


def play(geometry, problem: str, mode: str) -> list[tuple[np.ndarray, ...]]:
    """The last problems of a run: (costs, previous, lo, hi), previous being ln q_k = 0 for problem A."""
    from layered_instances import random_transitions

    rng = np.random.default_rng(7)
    layers, edges, A = geometry
    H, X, pairs, W = len(layers) - 2, int(layers[-1]), len(edges) - 1, int(edges[-1])
    P, means = random_transitions(rng, geometry), rng.random(pairs)
    counts, losses = np.zeros(W), np.zeros(pairs)
    lo, hi, clean, totals = np.zeros(W), np.ones(W), np.empty(W), np.empty(pairs)
    theory_intervals(geometry, counts, np.zeros(pairs), 0.0, 1.0, 1.0, lo, hi)
    policy, report = np.full(pairs, 1.0 / A), np.empty(REPORT_SIZE)
    sizes = np.array([(layers[h + 1] - layers[h]) * A * (layers[h + 2] - layers[h + 1]) for h in range(H)])
    occupancy = np.concatenate([np.full(size, 1.0 / size) for size in sizes])
    upper, zeros = np.empty(pairs), np.zeros(W)
    entropy, barrier, bounds = entropy_work(geometry), barrier_work(geometry), upper_work(geometry)
    levels = int(np.log2(EPISODES)) + 1
    noisy = mode == "central"
    epsilon = 1.0 if problem == "A" else 10.0
    scale = 3.0 * H * levels / epsilon if noisy else 0.0
    log_term = 2.0 * np.log(EPISODES)
    E = 4 * 0.01 * scale * np.sqrt(8 * levels) * log_term
    multiplier = 0.05 if noisy else 0.3
    eta_A, eta_B = np.sqrt(np.log(X * A / H) / EPISODES), np.sqrt(X / EPISODES)
    cases = []
    for episode in range(EPISODES):
        x, visited = 0, []
        for _ in range(H):
            pair = x * A + rng.choice(A, p=policy[x * A : x * A + A] / policy[x * A : x * A + A].sum())
            i = int(rng.choice(np.arange(edges[pair], edges[pair + 1]), p=P[edges[pair] : edges[pair + 1]]))
            counts[i] += 1
            visited.append(pair)
            x = int(layers[np.searchsorted(layers, x, side="right")]) + i - int(edges[pair])
        loss = (rng.random(pairs) < means).astype(float)
        losses += loss
        if problem == "A":
            costs = eta_A * (losses + tree_noise(rng, scale, levels, pairs))
        else:
            bound_occupancy(geometry, bounds, policy, lo, hi, upper)
            single = 3.0 * H / epsilon if noisy else 0.0
            seen = np.zeros(pairs)
            seen[visited] = loss[visited]
            radius = single * log_term
            eta = min(eta_B, 0.5 / (1.0 + radius)) if noisy else eta_B
            costs = eta * np.clip(seen + tree_noise(rng, single, 1, pairs), -radius, 1 + radius) / upper
        released = counts + tree_noise(rng, scale, levels, W)
        visits = np.add.reduceat(counts, edges[:-1]) + tree_noise(rng, scale, levels, pairs)
        repair_counts(geometry, released, visits, E, clean, totals)
        theory_intervals(geometry, clean, totals, E, log_term, multiplier, lo, hi)
        previous = zeros if problem == "A" else occupancy.copy()
        if episode >= EPISODES - KEPT:
            cases.append((costs, previous, lo.copy(), hi.copy()))
        if problem == "A":
            solve_entropy_flow(geometry, entropy, costs, zeros, lo, hi, episode > 0, policy, occupancy, report)
        else:
            solve_barrier_flow(geometry, barrier, costs, previous, lo, hi, policy, occupancy, report)
    return cases


def tree_noise(rng, scale: float, levels: int, size: int) -> np.ndarray:
    return rng.laplace(0.0, scale, (levels, size)).sum(axis=0) if scale > 0 else np.zeros(size)


def compare(geometry, problem: str, cases, program) -> tuple[float, float, float, np.ndarray]:
    """CPU seconds of one update by us and by CVXPY (medians, measured in turns), median difference, our reports."""
    stacked = [np.array(part) for part in zip(*cases, strict=True)]
    policy, occupancy = np.empty(stacked[0].shape[1]), np.empty(stacked[2].shape[1])
    reports = np.empty((len(cases), REPORT_SIZE))
    work = entropy_work(geometry) if problem == "A" else barrier_work(geometry)
    loop = replay_entropy if problem == "A" else replay_barrier
    ours, theirs, differences = [], [], []
    for turn, k in enumerate(np.linspace(0, len(cases) - 1, TURNS + 1).astype(int)):
        start = time.process_time()
        loop(geometry, work, *stacked, policy, occupancy, reports)
        ours.append((time.process_time() - start) / len(cases))
        costs, previous, lo, hi = cases[k]
        given = (costs, lo, hi) if problem == "A" else (costs, previous, lo, hi)
        start = time.process_time()
        found = program.solve(*given)
        spent = time.process_time() - start
        best = reports[k, DUAL] + reports[k, GAP]
        # The first turn compiles on both sides. Not a number: Clarabel failed, and how long that took says nothing.
        if turn > 0 and np.isfinite(found):
            theirs.append(spent)
            differences.append(abs(found - best) / (1 + abs(best)))
    if not theirs:
        return float(np.median(ours[1:])), np.nan, np.nan, reports
    return float(np.median(ours[1:])), float(np.median(theirs)), float(np.median(differences)), reports


@kernel
def replay_entropy(geometry, work, costs, log_prior, lo, hi, policy, occupancy, reports):
    for k in range(costs.shape[0]):
        solve_entropy_flow(
            geometry, work, costs[k], log_prior[k], lo[k], hi[k], k > 0, policy, occupancy, reports[k]
        )  # fmt: skip


@kernel
def replay_barrier(geometry, work, costs, previous, lo, hi, policy, occupancy, reports):
    for k in range(costs.shape[0]):
        solve_barrier_flow(geometry, work, costs[k], previous[k], lo[k], hi[k], policy, occupancy, reports[k])


def upper_row(geometry, name: str) -> dict[str, object]:
    """All upper occupancy bounds of one policy: the greedy programme against HiGHS."""
    from layered_instances import random_intervals
    from layered_oracles import upper_programs

    rng = np.random.default_rng(3)
    lo, hi = random_intervals(rng, geometry, "plain")
    policy = rng.dirichlet(np.ones(geometry.actions), int(geometry.layers[-2])).ravel()
    upper, work = np.empty(len(policy)), upper_work(geometry)
    bound_many(geometry, work, policy, lo, hi, upper, 1)
    start = time.process_time()
    bound_many(geometry, work, policy, lo, hi, upper, 2000)
    ours = (time.process_time() - start) / 2000
    programs = upper_programs(geometry, policy, lo, hi)
    start = time.process_time()
    most = [-linprog(**program).fun for program in programs]
    theirs = time.process_time() - start
    difference = abs(np.repeat(most, geometry.actions) * policy - upper).max()
    return {
        "name": name,
        "ratio": theirs / ours,
        "target": UPPER_TARGET,
        "detail": f"{ours * 1e6:.2f} us, HiGHS {theirs * 1e3:.0f} ms for all states, difference {difference:.0e}",
    }


@kernel
def bound_many(geometry, work, policy, lo, hi, upper, times):
    for _ in range(times):
        bound_occupancy(geometry, work, policy, lo, hi, upper)
