"""References: every document that a file names is in the repository, and every lemma that is cited is proved there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEMMAS = ROOT / "docs" / "lemmas"
FOLDERS = ("src", "tests", "docs", "benchmarks")

DOCUMENT = re.compile(r"(?<![\w./:-])((?:\.\./)*(?:[\w-]+/)*[\w-]+\.md)(?![\w./(])")
"""A Markdown file that is named."""
OUTSIDE = re.compile(r"design[- ]notes?\b|\b(privacy|our|private) notes\b|\bas in the notes\b|\bof the issue\b", re.I)
CITED = re.compile(r"Lemma ([A-Z]\d+)\b(?: \(([^()]+)\))?")
UNNAMED = re.compile(r"Lemma [A-Z]\b(?!\.?\d)")
HEADING = re.compile(r"^## Lemma ([A-Z]\d+) \(([^()]+)\)$", re.MULTILINE)


def texts() -> dict[str, str]:
    """Every text file that is tracked (or, outside of a checkout, everything in the folders), without this one."""
    found = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    names = found.stdout.decode().split("\0") if found.returncode == 0 else []
    paths = [ROOT / name for name in names if name] or [p for f in FOLDERS for p in (ROOT / f).rglob("*")]
    return {
        path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
        for path in [*paths, *LEMMAS.glob("*.md")]
        if path.suffix in (".py", ".md", ".toml", ".yml", ".cff") and path.is_file() and path != Path(__file__)
    }


TEXTS = texts()


def plain(text: str) -> str:
    """One line, without the marks of comments at the beginning of lines: a name may be wrapped."""
    return re.sub(r"\s*\n[ \t#]*", " ", text)


GENERATED = ("cli.md",)
"""Pages that are made while the documentation is built (`docs/command_line.py`)."""


def missing_documents(name: str, text: str) -> list[str]:
    """The Markdown files that this text names and that are neither beside it nor where documents are."""
    folders = [ROOT / Path(name).parent, *(ROOT / place for place in (".", "docs", "docs/decisions", "docs/papers"))]
    folders += [ROOT / "docs" / "operations", ROOT / "docs" / "cases"]
    if Path(name).name in ("cards.py", "test_papers_cards.py"):  # templates of cards stand beside their experiments
        folders += sorted((ROOT / "papers").glob("*/"))
    named = [document for document in DOCUMENT.findall(text) if Path(document).name not in GENERATED]
    return [document for document in named if not any((folder / document).is_file() for folder in folders)]


def lemmas() -> dict[str, tuple[str, str]]:
    """Number -> (name, the text below the heading)."""
    found: dict[str, tuple[str, str]] = {}
    for path in sorted(LEMMAS.glob("*.md")):
        parts = HEADING.split(path.read_text("utf-8"))
        for number, name, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
            assert number not in found, f"two lemmas are called {number}"
            found[number] = (name, body)
    return found


PROVED = lemmas()


def wrong_citations(text: str, *, named: bool) -> list[str]:
    """Citations without a lemma, under another name, or (if they must be `named`) without a name."""
    wrong = [match[0] for match in UNNAMED.finditer(plain(text))]
    for match in CITED.finditer(plain(text)):
        number, name = match[1], match[2]
        if number not in PROVED or (name is None and named) or name not in (None, PROVED[number][0]):
            wrong.append(match[0])
    return wrong


def test_no_file_refers_to_a_document_that_is_not_here():
    outside = {
        name: [*missing_documents(name, text), *(match[0] for match in OUTSIDE.finditer(plain(text)))]
        for name, text in TEXTS.items()
    }
    assert {name: found for name, found in outside.items() if found} == {}


def test_every_lemma_that_is_cited_is_stated_under_that_name():
    wrong = {
        name: wrong_citations(text, named=not name.startswith("docs/lemmas/"))
        for name, text in TEXTS.items()
        if name.startswith(("src/", "tests/", "docs/", "benchmarks/"))
    }
    assert {name: found for name, found in wrong.items() if found} == {}


@pytest.mark.parametrize("number", PROVED)
def test_every_lemma_has_a_statement_and_a_complete_proof(number):
    _, body = PROVED[number]
    statement, proof = re.split(r"^\*\*Proof\.\*\* ", body, maxsplit=1, flags=re.MULTILINE)
    assert len(statement.split()) > 8
    assert proof.count("∎") == 1
    assert len(proof.split("∎")[0].split()) >= 8


def test_the_code_relies_on_the_lemmas():
    source = [plain(text) for name, text in TEXTS.items() if name.startswith("src/")]
    assert len({match[1] for text in source for match in CITED.finditer(text)}) > 40


def test_these_checks_can_fail():
    text = "x = 1  # see privacy.md 2.3, docs/nowhere.md and shuffle.md\n"
    assert missing_documents("tests/a.py", text) == ["privacy.md", "docs/nowhere.md", "shuffle.md"]
    assert missing_documents("tests/a.py", "y = 'docs/logs.md, README.md'") == []
    page = "[a](accounting.md) `papers/central.md` [b](b.md)"
    assert missing_documents("docs/logs.md", page) == ["b.md"]
    assert OUTSIDE.search(plain("the design\n    # notes"))
    assert not OUTSIDE.search("notes.txt")
    for bad in ("Lemma A: all", "Lemma Q99 (nothing)", "Lemma P7 (billboard)", "Lemma P7 says"):
        assert wrong_citations(bad, named=True), bad
    assert not wrong_citations("Lemma P7 (parallel\n    # composition); Lemma C.1, Lemma 5.6 are printed", named=True)
