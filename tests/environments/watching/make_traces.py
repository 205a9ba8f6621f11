"""Store what the package recsim-no-tf does, for the tests of the compiled twin.

    pip install '.[recsim]'
    python tests/environments/watching/make_traces.py

writes beside itself

    pages.csv.gz    every page of 40 sessions under the package's own agent GreedyPCTRAgent, seed 7: interest of the
                    person in the three videos of the slate, their topics, which was chosen (3: none), its quality, the
                    interest in it afterwards, the minutes left before and after, the minutes watched
    sessions.json   minutes and pages of 600 sessions, cut after 120 pages, under the package's own GreedyPCTRAgent and
                    RandomAgent, and under the decisions "topics 0-4" and "topics 15-19" first, all along
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import numpy as np
from recsim.agents.greedy_pctr_agent import GreedyPCTRAgent
from recsim.agents.random_agent import RandomAgent
from recsim.choice_model import MultinomialProportionalChoiceModel
from recsim.environments import interest_evolution

from papers.watching.package import make

HERE = Path(__file__).parent
COLUMNS = ("session", "x0", "x1", "x2", "t0", "t1", "t2", "chosen", "quality", "moved", "before", "after", "watched")


def environment(seed: int):
    np.random.seed(seed)  # noqa: NPY002
    config = {"num_candidates": 10, "slate_size": 3, "resample_documents": True, "seed": seed}
    return interest_evolution.create_environment(config)


def greedy(inner):
    choice = MultinomialProportionalChoiceModel({"min_normalizer": -1.0, "no_click_mass": 1.0})
    return lambda now: GreedyPCTRAgent(inner.action_space, inner.environment.user_model._user_state, choice).step(
        0.0, now
    )


def chance(inner):
    agent = RandomAgent(inner.action_space, random_seed=3)
    return lambda now: agent.step(0.0, now)


def pages(sessions: int, seed: int) -> list[tuple[float, ...]]:
    inner = environment(seed)
    choose, rows = greedy(inner), []
    for session in range(sessions):
        now, over = inner.reset(), False
        while not over:
            state = inner.environment.user_model._user_state
            slate, topics = choose(now), np.argmax(np.array(list(now["doc"].values())), axis=1)
            shown, x, before = topics[slate], state.user_interests.copy(), state.time_budget
            now, watched, over, _ = inner.step(slate)
            clicks = [i for i, r in enumerate(now["response"]) if r["click"]]
            chosen = clicks[0] if clicks else 3
            quality = float(now["response"][chosen]["quality"]) if clicks else 0.0
            moved = state.user_interests[shown[chosen]] if clicks else 0.0
            rows.append((session, *x[shown], *shown, chosen, quality, moved, before, state.time_budget, watched))
    return rows


def sessions(count: int, seed: int) -> dict[str, dict[str, list[float]]]:
    found = {}
    for name, agent in (("GreedyPCTRAgent", greedy), ("RandomAgent", chance)):
        inner = environment(seed)
        choose, minutes, lengths = agent(inner), [], []
        for _ in range(count):
            now, total, n, over = inner.reset(), 0.0, 0, False
            while not over and n < 120:
                now, reward, over, _ = inner.step(choose(now))
                total, n = total + float(reward), n + 1
            minutes.append(round(total, 6))
            lengths.append(n)
        found[name] = {"minutes": minutes, "pages": lengths}
    for action, name in ((1, "topics 0-4"), (4, "topics 15-19")):
        env, minutes = make(), []
        for k in range(count):
            env.reset(seed=seed if k == 0 else None)
            total, over, n = 0.0, False, 0
            while not over and n < 12:
                _, reward, over, _, _ = env.step(action)
                total, n = total + reward, n + 1
            minutes.append(round(total, 6))
        found[name] = {"minutes": minutes}
    return found


if __name__ == "__main__":
    with gzip.GzipFile(HERE / "pages.csv.gz", "wb", mtime=0) as raw:
        file = io.TextIOWrapper(raw, encoding="utf-8", newline="")
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows([[f"{value:.17g}" for value in row] for row in pages(40, 7)])
        file.flush()
    (HERE / "sessions.json").write_text(json.dumps(sessions(600, 8)), encoding="utf-8")
