"""The scores of the site's search; `make pages` asks the queries of `docs/search.py` of the built site."""

from __future__ import annotations

import json
import re
from pathlib import Path

from docs.command_line import commands, page
from docs.search import CLICKS, LATER, QUERIES, WORD, load, missed, search, too_far

DOCS = Path(__file__).parents[1] / "docs"
INDEX = {
    "docnames": ["studies", "lemmas/bits", "glossary"],
    "filenames": ["studies.md", "lemmas/bits.md", "glossary.md"],
    "titles": ["Studies with real people", "Lemmas: bits", "Glossary"],
    "alltitles": {"Studies with real people": [[0, None]], "Dummy report sizes": [[0, "dummy"]]},
    "indexentries": {"dummy report": [[2, "term-dummy-report", True]]},
    "objects": {"": [[2, 0, 1, "-", "dummy report"]]},
    "objnames": {"0": ["std", "term", "term"]},
    "terms": {"dummi": [0, 1, 2], "report": [0, 1], "people": 0},
    "titleterms": {"dummi": 0, "report": [0], "bit": 1},
}


def test_the_page_that_answers_comes_before_proofs():
    assert search(INDEX, "dummy report") == ["glossary", "studies", "lemmas/bits"]
    assert search(INDEX, "people") == ["studies"]
    assert search(INDEX, "peopl bits") == []
    assert search(INDEX, "nonsense") == []


def test_a_page_that_is_not_found_is_named(tmp_path):
    (tmp_path / "searchindex.js").write_text(f"Search.setIndex({json.dumps(INDEX)})")
    lost = dict(missed(load(tmp_path)))
    assert lost["install"] == []
    assert "dummy report" not in lost
    (tmp_path / "index.html").write_text('<article><a href="logs.html">logs</a></article>')
    (tmp_path / "logs.html").write_text('<article><a href="adding.html#a">extend</a></article>')
    assert sorted(set(CLICKS) - set(too_far(tmp_path))) == ["adding", "logs"]


def test_the_script_and_the_browser_have_the_same_scores():
    script = (DOCS / "static" / "scorer.js").read_text("utf-8")
    found = re.search(r"word: (\d+), later: (\{.*?\})", script)
    assert (int(found[1]), json.loads(found[2].replace(" }", "}"))) == (WORD, LATER)


def test_there_are_forty_queries_and_their_pages_exist():
    assert len(QUERIES) >= 40
    places = {"tutorials": "lessons", "gallery": "examples"}
    for answer in {answer for answers in QUERIES.values() for answer in answers}:
        folder, _, name = answer.partition("/")
        file = DOCS / places[folder] / f"{name}.py" if folder in places else DOCS / f"{answer}.md"
        assert file.is_file(), answer


def test_the_command_line_reference_comes_from_the_parser():
    shown = page()
    rows = re.findall(r"^\| `(tacit [^`]*)` \| (.+?) \| ", shown, flags=re.MULTILINE)
    assert len(rows) == len(list(commands())) >= 45
    assert {"tacit run", "tacit verify PATH", "tacit study take DIRECTORY RELEASE"} <= {name for name, _ in rows}
    assert re.search(r"^\| `--alpha` \| .+ \| `0.05` \|$", shown, flags=re.MULTILINE)
    asked = {one for _, _, _, options in commands() for one, _, _ in options}
    meant = dict(re.findall(r"^\| `(--[\w-]+)` \| (.*?) \| ", shown, flags=re.MULTILINE))
    assert asked <= meant.keys()
    assert [one for one in asked if not meant[one]] == []
