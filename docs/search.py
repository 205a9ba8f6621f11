"""The search of the built site, with the queries of newcomers: `python docs/search.py SITE` fails if one is not found.

It scores `searchindex.js` as Sphinx's search (`searchtools.js`) does with `static/scorer.js`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from sphinx.search.en import SearchEnglish

FIRST: Final = 3
"""The right page is among so many results."""
WORD: Final = 10
LATER: Final = {"lemmas/": -12, "decisions/": -12, "papers/": -4, "cases/": -4, "gallery/": -3, "cli": -12}

QUERIES: Final[Mapping[str, tuple[str, ...]]] = {
    # the ten questions of newcomers
    "install": ("installation",),
    "own environment": ("tutorials/plot_2_own_environment", "adding"),
    "learn from a log": ("logs", "tutorials/plot_3_from_a_log"),
    "choose epsilon": ("frontier",),
    "run a study": ("studies", "tutorials/plot_4_study", "services"),
    "sign a certificate": ("accounting", "officer"),
    "deploy services": ("operations/deployment", "services"),
    "extend plug-in": ("adding",),
    "cite paper": ("papers/index",),
    "threat model": ("operations/threats",),
    # the words of the fields
    "joint differential privacy UCBVI": ("learners",),
    "dummy report": ("studies", "glossary"),
    "confidence bonus": ("learners", "glossary"),
    "privacy profile": ("accounting", "glossary"),
    "privacy loss distribution": ("accounting", "glossary"),
    "privacy budget": ("ledger",),
    "group privacy": ("accounting", "glossary", "gallery/plot_06_several_reports"),
    "local differential privacy": ("learners", "local-returns", "glossary"),
    "shuffle model": ("shuffle-protocol", "shuffle-learners"),
    "discrete Gaussian": ("deployment-noise", "gallery/plot_12_exact_noise"),
    "off-policy evaluation": ("logs",),
    "offline reinforcement learning": ("logs", "tutorials/plot_3_from_a_log"),
    "A/B test": ("trials", "gallery/plot_07_private_ab_test"),
    "sample size": ("trials",),
    "loss budget baseline": ("baselines",),
    "policy gradient": ("learners", "papers/he2025policy"),
    "Thompson sampling": ("local-returns", "learners"),
    "BUCB": ("learners", "shuffle-learners"),
    "adversarial MDP": ("adversarial-losses",),
    "Gymnasium": ("environments", "gallery/plot_08_live_blackjack"),
    "Ray cluster": ("engines", "gallery/plot_13_sweep_on_ray"),
    "blind signature tokens": ("operations/tokens",),
    "PostgreSQL backup": ("operations/database",),
    "dashboard": ("operations/dashboard",),
    "browser device": ("browser",),
    "exit code": ("errors",),
    "PrivacyBudgetExceeded": ("errors", "reference"),
    "collusion": ("operations/threats", "accounting"),
    "empirical privacy audit": ("audit",),
    "lower bound on epsilon": ("audit", "gallery/plot_04_attack_a_mechanism"),
    "verify certificate": ("accounting", "officer", "gallery/plot_03_verify_a_certificate"),
    "callbacks pandas": ("integrations",),
    "glossary": ("glossary",),
    # other words for the same
    "cite": ("papers/index",),
    "how to cite": ("papers/index",),
    "BibTeX": ("papers/index",),
    "custom environment": ("adding", "tutorials/plot_2_own_environment"),
    "custom learner": ("adding", "gallery/plot_02_own_learner"),
    "Renyi": ("glossary", "officer"),
    "RDP": ("glossary", "officer"),
    "neighboring datasets": ("glossary",),
    "sample size calculation": ("trials",),
    "power analysis": ("trials",),
    "safe exploration": ("baselines",),
    "behavior policy": ("glossary", "logs"),
    "user-level privacy": ("glossary", "accounting"),
    "what breaks the guarantee": ("operations/threats",),
    "noise multiplier": ("glossary",),
    "docker": ("operations/deployment",),
    "GPU": ("installation",),
    "upgrade": ("installation",),
    "subsampling amplification": ("glossary",),
    "minimum number of people": ("studies",),
    "plan_study": ("reference", "studies", "tutorials/plot_4_study"),
    "Collector": ("reference", "studies", "glossary"),
}
"""Query -> the pages that answer it."""
CLICKS: Final = (
    "installation", "tutorials/plot_2_own_environment", "logs", "frontier", "studies", "officer",
    "operations/deployment", "adding", "papers/index", "operations/threats",
)  # fmt: skip
"""Answers to the ten questions of newcomers, at most two clicks from the front page."""


def load(site: Path) -> dict[str, Any]:
    """The search index of a built site."""
    text = (site / "searchindex.js").read_text("utf-8")
    found: dict[str, Any] = json.loads(text[text.index("{") : text.rindex("}") + 1])
    return found


def search(index: Mapping[str, Any], query: str) -> list[str]:
    """Pages by falling score, each once."""
    results: list[tuple[float, str, str]] = []
    titles, names = index["titles"], index["docnames"]
    asked = query.lower().strip()
    words = [word for word in re.split(r"[^a-z0-9]+", asked) if len(word) > 2]

    def add(file: int, title: str, score: float, *, described: bool = False) -> None:
        found = sum(word[:6] in title.lower() for word in words)
        later = next((value for prefix, value in LATER.items() if names[file].startswith(prefix)), 0)
        results.append((score + WORD * found + later - 5 * described, title.lower(), names[file]))

    for title, places in index["alltitles"].items():
        if asked in title.lower().strip() and len(asked) >= len(title) / 2:
            for file, _ in places:
                shown = title if titles[file] == title else f"{titles[file]} > {title}"
                add(file, shown, round(15 * len(asked) / len(title)) + (titles[file] == title))
    for entry, places in index["indexentries"].items():
        if asked in entry and len(asked) >= len(entry) / 2:
            for file, *_ in places:
                add(file, titles[file], round(100 * len(asked) / len(entry)))
    for file, title, score in _objects(index, set(re.findall(r"[\w.-]+", asked))):
        add(file, title, score, described=True)
    for file, score in _terms(index, query).items():
        add(file, titles[file], score)
    results.sort(key=lambda one: (-one[0], one[1]))
    return list(dict.fromkeys(name for _, _, name in results))


def _objects(index: Mapping[str, Any], terms: set[str]) -> list[tuple[int, str, float]]:
    found = []
    for term in terms:
        for prefix, rows in index["objects"].items():
            for file, kind, priority, _, name in rows:
                full = f"{prefix}.{name}" if prefix else name
                last = full.lower().split(".")[-1]
                if term not in full.lower():
                    continue
                haystack = f"{prefix} {name} {index['objnames'][str(kind)][2]} {index['titles'][file]}".lower()
                if any(other not in haystack for other in terms - {term}):
                    continue
                score = 11 if term in (full.lower(), last) else 6 if term in last else 0
                found.append((file, full, score + {0: 15, 1: 5, 2: -5}.get(priority, 0)))
    return found


def _terms(index: Mapping[str, Any], query: str) -> dict[int, float]:
    language = SearchEnglish({})
    words = {language.stem(word) for word in re.findall(r"\w+", query.lower()) if word not in language.stopwords}
    words = {word for word in words if not word.isdigit()}
    scores: dict[int, dict[str, float]] = {}
    for word in words:
        for table, exact, partial in (("terms", 5, 2), ("titleterms", 15, 7)):
            known = index[table]
            hits = [(known[word], exact)] if word in known else []
            if not hits and len(word) > 2:
                hits = [(files, partial) for term, files in known.items() if word in term]
            for files, score in hits:
                for file in files if isinstance(files, list) else [files]:
                    scores.setdefault(file, {})[word] = score
    needed = {len(words), sum(len(word) > 2 for word in words)}
    return {file: max(found.values()) for file, found in scores.items() if len(found) in needed}


def missed(index: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """Queries whose pages are not among the first results, with what is."""
    found = ((query, search(index, query)) for query in QUERIES)
    return [(query, pages[:5]) for query, pages in found if not {*pages[:FIRST]} & {*QUERIES[query]}]


def too_far(site: Path) -> list[str]:
    """Answers that are more than two clicks from the front page."""

    def linked(page: str) -> set[str]:
        text = (site / f"{page}.html").read_text("utf-8")
        main = text[text.index("<article") : text.index("</article>")] if "<article" in text else text
        return {
            (Path(page).parent / target).as_posix().removeprefix("./")
            for target in re.findall(r'href="([\w./-]+)\.html', main)
        }

    first = linked("index")
    second = {target for page in first if (site / f"{page}.html").is_file() for target in linked(page)}
    return [page for page in CLICKS if page not in first | second]


if __name__ == "__main__":
    place = Path(sys.argv[1]).resolve()
    failures = missed(load(place))
    for asked, shown in failures:
        sys.stdout.write(f"search for {asked!r}: {', '.join(shown)}; expected one of {', '.join(QUERIES[asked])}\n")
    far = too_far(place)
    for page in far:
        sys.stdout.write(f"{page} is more than two clicks from the front page\n")
    sys.exit(bool(failures or far))
