"""Prose that runs: every Python block and every `$ tacit` line of the documentation, and what the pages promise."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import types
from pathlib import Path
from typing import Any

import pytest
import typer
from docs.links import broken_links

import tacit
from tacit.cli import main
from tacit.runs.files import read_comparison
from tacit.service.config import read_party

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
PAGES = [page for page in PAGES if "_build" not in page.parts]
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SLOW = ("demo", "reproduce", "compare")
"""Commands that have tests of their own; a page that shows them is only checked to name a command that exists."""


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(text: str) -> list[tuple[str, str, int]]:
    """(language, code, line) of every fenced block."""
    return [(m[1], m[2], text.count("\n", 0, m.start()) + 2) for m in BLOCK.finditer(text)]


RUNNING = [
    page for page in PAGES if {language for language, _, _ in blocks(page.read_text("utf-8"))} & {"python", "console"}
]


@pytest.mark.parametrize("page", RUNNING, ids=name)
def test_every_block_runs(page, tmp_path, monkeypatch, capsys):
    """One namespace per page, in an empty directory, blocks in the order of the page."""
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    for language, code, line in blocks(page.read_text("utf-8")):
        if language == "python":
            exec(compile("\n" * (line - 1) + code, str(page), "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - that is the test
        elif language == "console":
            for command in re.findall(r"^\$ tacit (.*)$", code, flags=re.MULTILINE):
                words = shlex.split(command, comments=True)
                words = [words[0], "--help"] if words[0] in SLOW else words
                assert main(words) == 0, f"{name(page)}: tacit {command}"
    capsys.readouterr()


OPENING = re.compile(r"^(`{3,})(.*)\n(?:.*\n)*?\1$", re.MULTILINE)
SHELL = ("sh", "bash")
READ = {"python", "console", "toml", "json", "js", "bibtex", *SHELL}
"""Languages of blocks: the first two run, commands of a shell are run dry, the others are read by their parsers."""


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_says_what_it_is_and_is_read(page, tmp_path, monkeypatch, capsys):
    """TOML as the command reads it that the page speaks of; `tacit run` of a shell with --dry-run."""
    text = page.read_text("utf-8")
    opened = [found[2] for found in OPENING.finditer(text)]
    assert {one for one in opened if not one.startswith("{")} <= READ
    monkeypatch.chdir(tmp_path)
    for language, code, line in blocks(text):
        where = f"{name(page)}:{line}"
        if language == "json":
            json.loads(code)
        elif language == "js" and shutil.which("node"):
            Path("page.mjs").write_text(code)
            assert subprocess.run(["node", "--check", "page.mjs"], check=False).returncode == 0, where
        elif language in SHELL:
            assert subprocess.run(["bash", "-n"], input=code, text=True, check=False).returncode == 0, where
            for command in re.findall(r"^tacit (run .*)$", code.replace("\\\n", " "), flags=re.MULTILINE):
                words = shlex.split(command, comments=True)
                assert "--start" in words or main([*words, "--dry-run"]) == 0, f"{where}: tacit {command}"
        elif language == "toml":
            content = tomllib.loads(code)
            Path("page.toml").write_text(code)
            if "run" in content:
                assert read_comparison("page.toml")[1], where
            party = "issuer" if "credentials" in content else next(iter(re.findall(r"# (\w+)\.toml", code)), None)
            if party is not None:
                assert read_party("page.toml", party) is not None, where
    capsys.readouterr()


SPOKEN = [*PAGES, ROOT / "SECURITY.md", ROOT / "CONTRIBUTING.md", ROOT / "results" / "README.md"]


def shown_commands(text: str) -> set[str]:
    """Commands in indented blocks, in blocks of a shell, and in code spans that are whole command lines."""
    fenced = "\n".join(code for language, code, _ in blocks(text) if language in ("bash", "sh", "console"))
    fenced = fenced.replace("\\\n", " ")
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"^(?:\$ )?((?:tacit|python -m) .*)$", fenced, flags=re.MULTILINE)
    found += re.findall(r"^    ((?:tacit|python -m) .*)$", prose, flags=re.MULTILINE)
    spans = re.findall(r"`((?:tacit|python -m) [^`]*)`", prose)
    parts = [part for line in [*found, *spans] for part in re.split(r" {3,}|\s[>|#]\s", " ".join(line.split("\n")))]
    return {part.strip() for part in parts if re.match("(tacit|python -m) ", part)}


def unknown_words(line: str) -> str | None:
    """What of a command line the parsers do not know: a module, a command or an option."""
    from papers.__main__ import app
    from tacit.cli.app import command

    words = shlex.split(line, comments=True)
    parser: Any = command()
    if words[0] == "python":
        module, *words = words[2:]
        if importlib.util.find_spec(module) is None:
            return module
        parser = typer.main.get_command(app) if module == "papers" else None
    else:
        del words[0]
    while hasattr(parser, "commands"):
        if not words or re.match(r"-|\W|[A-Z.]", words[0]):
            return None
        if words[0] not in parser.commands:
            return words[0]
        parser = parser.commands[words.pop(0)]
    known = set() if parser is None else {one for each in parser.params for one in (*each.opts, *each.secondary_opts)}
    asked = [word.split("=")[0] for word in words if re.match(r"--[a-z]", word)]
    return next((word for word in asked if parser is not None and word not in {*known, "--help"}), None)


@pytest.mark.parametrize("page", SPOKEN, ids=name)
def test_commands_that_a_page_shows_exist(page):
    """Also those in indented blocks and in code spans, which no test runs."""
    wrong = {line: unknown_words(line) for line in shown_commands(page.read_text("utf-8"))}
    assert {line: word for line, word in wrong.items() if word is not None} == {}


def test_a_command_that_does_not_exist_is_found():
    text = "Text.\n\n    tacit audit --all --out x    tacit serve demo\n\n`python -m papers no`, `tacit run --json`"
    assert {line: unknown_words(line) for line in shown_commands(text)} == {
        "tacit audit --all --out x": "--all",
        "tacit serve demo": None,
        "python -m papers no": "no",
        "tacit run --json": None,
    }


def missing_name(word: str) -> bool:
    """Whether a dotted name of this repository leads nowhere."""
    parts = word.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            fields = getattr(found, "__dataclass_fields__", {})
            if not hasattr(found, part) and part not in {*fields, *getattr(found, "__annotations__", {})}:
                return True
            found = getattr(found, part, None)
        return False
    return True


@pytest.mark.parametrize("page", SPOKEN, ids=name)
def test_names_and_paths_that_a_page_shows_exist(page):
    prose = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    spans = set(re.findall(r"`([^`\s]+)`", prose))
    names = {word for word in spans if re.fullmatch(r"(tacit|papers|benchmarks)(\.[A-Za-z_]\w*)+", word)}
    paths = {word for word in spans if re.fullmatch(r"(src|tests|docs|papers|results|benchmarks|chaos)/[\w./-]+", word)}
    groups = {f"tacit.{group}" for group in ("mechanisms", "privatizers", "events")}  # entry points, no modules
    assert sorted(word for word in names - groups if missing_name(word)) == []
    assert sorted(word for word in paths if not (ROOT / word).exists()) == []


def test_the_first_examples_learn_what_the_readme_says(capsys):
    """Both end within the range of shares of the uniform policy's regret that stands beside them."""
    text = (ROOT / "README.md").read_text("utf-8")
    python = next(code for language, code, _ in blocks(text) if language == "python")
    space: dict[str, object] = {}
    exec(compile(python, "README.md", "exec", dont_inherit=True), space)  # noqa: S102 - that is the test
    said = re.search(r"relative_regret\) +# ([0-9.]+) to ([0-9.]+) of the uniform", python)
    command = re.search(r"^\$ tacit (run .*?)(?: --out river)?$", text, flags=re.MULTILINE)
    share = re.search(r"The first command reports ([0-9.]+) to ([0-9.]+) of the uniform policy's regret", text)
    assert said is not None
    assert command is not None
    assert share is not None
    capsys.readouterr()
    assert main([*shlex.split(command[1]), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["relative_regret"]
    for value, (low, high) in ((space["private"].relative_regret, said.groups()), (found, share.groups())):
        assert float(low) < value < float(high) < 0.2


def test_the_people_that_the_readme_asks_for_are_enough():
    """The row of 20,000 people on RiverSwim, run again: the mean of six seeds lies in the range that is stated."""
    text = (ROOT / "README.md").read_text("utf-8").partition("## How many people")[2]
    row = next(line for line in text.splitlines() if line.startswith("| | 20,000 |"))
    ranges = re.findall(r"([0-9.]+) \(([0-9.]+) to ([0-9.]+)\)", row)
    assert len(ranges) == 3
    for trust, stated in zip(("central", "shuffle", "local"), ranges, strict=True):
        mean, low, high = map(float, stated)
        assert low <= mean <= high
        delta = 0.0 if trust == "local" else 1e-6
        claim = {"trust": trust, "epsilon": 1.0, "delta": delta}
        found = tacit.run(environment="riverswim", episodes=20_000, seeds=6, workers=1, **claim)
        assert low - 0.005 <= found.relative_regret <= high + 0.005, trust


def test_a_broken_block_is_found(tmp_path):
    page = "# Page\n\n```python\nx = 1\nassert x == 2\n```\n\n```console\n$ tacit nonsense\n```\n"
    (_, code, line), (language, shown, _) = blocks(page)
    assert line == 4
    with pytest.raises(AssertionError):
        exec(compile(code, "page", "exec"), {})  # noqa: S102 - that is the test
    assert language == "console"
    assert main(shlex.split(shown.removeprefix("$ tacit "))) == 2


TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MADE = re.compile(r"(?:gallery|tutorials)/|cli(?:\.md)?$")
"""Pages that are made when the documentation is built."""


def contents(page: Path) -> list[str]:
    """What a page lists in its tables of contents, relative to the documentation."""
    folder = page.parent.relative_to(ROOT / "docs")
    lines = [line for body in TOCTREE.findall(page.read_text("utf-8")) for line in body.splitlines()]
    return [(folder / line).as_posix() for line in lines if line and not line.startswith(":")]


def test_every_page_is_in_the_table_of_contents_once():
    pages = [page for page in PAGES if page != ROOT / "README.md"]
    listed = [entry for page in pages for entry in contents(page) if not MADE.match(entry)]
    inside = {page.relative_to(ROOT / "docs").with_suffix("").as_posix() for page in pages}
    assert sorted(listed) == sorted(inside - {"index", "cli"})
    assert len(contents(ROOT / "docs" / "index.md")) <= 35


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        inside = (page.parent / target).resolve().relative_to(ROOT).as_posix().removeprefix("docs/")
        if MADE.match(inside):  # pages that are made when the documentation is built
            place, _, made = inside.partition("/")
            scripts = ROOT / "docs" / {"gallery": "examples", "tutorials": "lessons"}.get(place, "")
            assert made in ("", "index") or (scripts / f"{made}.py").is_file(), f"{name(page)}: {target}"
        else:
            assert (page.parent / target).exists(), f"{name(page)} links to {target}"


def test_every_paper_has_a_card_with_its_parts():
    for key in ("bai2024shuffle", "bai2025secure", "he2025policy", "bai2024adversarial", "garcelon2021local"):
        card = (ROOT / "docs" / "papers" / f"{key}.md").read_text("utf-8")
        for heading in ("What tacit implements", "Deviations and findings"):
            assert f"## {heading}" in card, key


CASE = ("**The question.**", "design", "before", "trust model", "certificate", "baseline", "interval", "limits")
CASE_PARTS = (*CASE, "what would change the decision", "python -m papers reproduce cases/", "```{figure}")


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "cases").glob("*.md")), ids=lambda page: page.stem)
def test_every_case_has_its_parts(page):
    text = page.read_text(encoding="utf-8").lower()
    assert [part for part in CASE_PARTS if part.lower() not in text] == []
    headings = " ".join(re.findall(r"^## (.*)$", text, flags=re.MULTILINE))
    assert [part for part in ("design", "certificate", "the numbers", "limits") if part not in headings] == []


def test_decisions_are_numbered_and_the_changelog_begins_with_privacy():
    numbers = [int(page.name[:4]) for page in sorted((ROOT / "docs" / "decisions").glob("*.md"))]
    assert numbers == list(range(1, len(numbers) + 1))
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    for body in re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]:
        headings = re.findall(r"^### (\w+)", body, flags=re.MULTILINE)
        assert headings[0] == "Privacy"


# Written as character classes, so that this file does not name them itself.
FORBIDDEN = {
    "a path of one machine": "/wor[k]/|/roo[t]/|/opt/pyp[i]",
    "a package registry": "pyp[i]\\.org|pythonhoste[d]|--(extra-)?index-ur[l]",
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_tracked_file_names_a_machine_or_a_registry(what):
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a checkout")
    guilty = []
    for entry in listed.stdout.decode().split("\0"):
        path = ROOT / entry
        if entry and path.is_file() and re.search(FORBIDDEN[what].encode(), path.read_bytes()):
            guilty.append(entry)
    assert guilty == []


def test_a_broken_link_is_found(tmp_path):
    """`make test` builds the site with warnings as errors and asks this of it, beside the tests (target `pages`)."""
    (tmp_path / "a.html").write_text('<h1 id="top">A</h1><a href="b.html#here">B</a><a href="#top">up</a>')
    (tmp_path / "b.html").write_text('<a href="a.html#down">A</a><img src="c.png"><a href="https://example.com">E</a>')
    assert broken_links(tmp_path.resolve()) == [
        ("a.html", "b.html#here"),
        ("b.html", "a.html#down"),
        ("b.html", "c.png"),
    ]


def test_every_committed_figure_is_shown_with_words_for_those_who_cannot_see_it():
    """Each picture under results/ stands on a page, and each picture on a page has an alternative text."""
    committed = {path.relative_to(ROOT).as_posix() for path in (ROOT / "results").rglob("*.png")}
    shown, without = set(), []
    for page in PAGES:
        text = page.read_text("utf-8")
        for found in re.finditer(r"^```\{figure\} (\S+)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
            target = (page.parent / found[1]).resolve()
            assert target.is_file(), f"{name(page)} shows {found[1]}, which is not there"
            if target.is_relative_to(ROOT):
                shown.add(target.relative_to(ROOT).as_posix())
            words = re.search(r"^:alt: (.+)$", found[2], flags=re.MULTILINE)
            if words is None or len(words[1]) < 30:
                without.append(f"{name(page)}: {found[1]}")
    assert committed - shown == set()
    assert without == []


def test_a_page_that_speaks_of_a_result_shows_a_figure_of_it():
    """A page that names `results/NAME` or its command shows a figure of it, or another part or the page of figures."""
    drawn = {path.parent.relative_to(ROOT / "results").as_posix() for path in (ROOT / "results").rglob("*.png")}
    silent = []
    shows = r"\{figure\} \S*results/([\w/-]+)/[\w.-]+\n"
    beside = set(re.findall(shows, (ROOT / "docs" / "papers" / "figures.md").read_text("utf-8")))
    for page in PAGES:
        text = page.read_text("utf-8")
        spoken = set(re.findall(r"(?:results/|python -m papers reproduce )([\w-]+/[\w-]+)", text)) & drawn
        parts = [part.read_text("utf-8") for part in page.parent.glob(f"{page.stem.partition('-')[0]}-*.md")]
        shown = set(re.findall(shows, "\n".join([text, *parts]))) | beside
        if name(page) != "docs/papers/index.md":
            silent += [(name(page), result) for result in sorted(spoken - shown)]
    assert silent == []


def test_every_reader_has_a_way_in_and_the_officer_ends_with_a_signature():
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    for reader in ("researchers", "practitioners", "privacy officers"):
        part = index.partition(f"## For {reader}\n")[2].partition("\n## ")[0].partition("```")[0]
        assert len(re.findall(r"\]\([^)]+\)", part)) >= 4, reader
    kinds = ["Tutorials", "How-to guides", "Reference", "Explanation", "Research"]
    assert re.findall(r"^:caption: (.*)$", index, flags=re.MULTILINE) == kinds
    officer = (ROOT / "docs" / "officer.md").read_text("utf-8")
    assert officer.rindex("\n## ") == officer.index("\n## 6. Sign it")
    *_, last = (code for language, code, _ in blocks(officer) if language == "console")
    done = [line.split()[2:4] for line in last.splitlines()][1:]
    assert done == [["keys", "sign"], ["verify", "clinic"], ["certificate", "export"]]
    assert "tacit study new clinic" in officer, "what is signed is a study"
    # Every point of the checklists names a command that exists.
    shown = re.findall(r"\| `tacit ([^`]+)` \|$", officer, flags=re.MULTILINE)
    rows = re.findall(r"^\| (?!---|layer|hazard|consideration|question).*\|$", officer, flags=re.MULTILINE)
    assert len(shown) >= 26
    assert len(rows) - len(shown) == 8, "all but the questions of part 1"
    ran = [
        command
        for _, code, _ in blocks(officer)
        for command in re.findall(r"^\$ tacit (.*)$", code, flags=re.MULTILINE)
    ]
    assert {command for command in shown if not command.endswith("--help")} <= set(ran)


def test_the_help_that_the_officer_is_sent_to_exists(capsys):
    officer = (ROOT / "docs" / "officer.md").read_text("utf-8")
    for command in sorted(set(re.findall(r"`tacit ([^`]+ --help)`", officer))):
        assert main(command.split()) == 0, command
    capsys.readouterr()


def mechanisms_of_security() -> dict[tuple[str, str], bool]:
    """(trust, mechanism) -> whether SECURITY.md says that it is released with secure noise."""
    page = (ROOT / "SECURITY.md").read_text("utf-8")
    part = page.partition("## What is released with secure noise today")[2].partition("\n## ")[0]
    found = {}
    for trust, secure, other in re.findall(r"^\| `(\w+)` \| (.*?) \| ?(.*?) ?\|$", part, flags=re.MULTILINE):
        found |= {(trust, name): True for name in re.findall("`([^`]+)`", secure)}
        found |= {(trust, name): False for name in re.findall("`([^`]+)`", other)}
    return found


def test_security_says_what_is_released_with_secure_noise():
    from tacit.cli.listing import KINDS
    from tacit.errors import TacitError
    from tacit.study.design import plan_study

    known = {(str(row["trust"]), str(row["name"])): row["pure"] for row in KINDS["mechanisms"]()}
    stated = mechanisms_of_security()
    assert stated.keys() == known.keys()
    for (trust, name), secure in stated.items():
        delta = 0.0 if trust == "local" and known[trust, name] else 1e-6
        asked = {"states": 2, "actions": 2, "horizon": 1, "epsilon": 1.0, "delta": delta, "stages": 1, "target": 500}
        try:
            made = plan_study(**asked, trust=trust, mechanism=name).parts().certificate.release
        except TacitError:
            made = False
        assert made == secure, (trust, name)


def test_security_says_which_learners_of_gradients_and_losses_are_released_with_secure_noise():
    from tacit.errors import TacitError
    from tacit.study.design import plan_study

    page = " ".join((ROOT / "SECURITY.md").read_text("utf-8").split())
    secure, other = re.search(r"(gradients in a study of [^.]*)\. Other learners of [^(.]*\(([^)]*)\)", page).groups()
    stated = dict.fromkeys(re.findall("`([^`]+)`", secure), True) | dict.fromkeys(re.findall("`([^`]+)`", other), False)
    assert stated.keys() == {"dp-pg", "dp-npg", "dp-trpo", "dp-ppo", "uob-lbps", "uc-o-reps", "uob-reps", "o-reps"}
    asked = {"states": 3, "actions": 2, "epsilon": 2.0, "delta": 1e-6, "stages": 3, "trust": "central"}
    for learner, released in stated.items():
        people = 1 if learner == "uob-lbps" else 500
        try:
            made = plan_study(**asked, horizon=3, learner=learner, target=people).parts().certificate.release
        except TacitError:
            made = False
        assert made == released, learner


def test_security_names_the_parties_that_there_are():
    from tacit.cli.app import command

    page = (ROOT / "SECURITY.md").read_text("utf-8")
    serve = set(command().commands["serve"].commands)
    named = set(re.findall(r"^\| `tacit serve (\w+)`", page, flags=re.MULTILINE))
    assert named == {"shuffler", "learner", "issuer", "mixer"}
    assert named <= serve
    for words in set(re.findall(r"`tacit ([a-z]+(?: [a-z]+)?)[^`]*`", page)):
        found = command()
        for word in words.split():
            found = getattr(found, "commands", {}).get(word, found)
        assert found is not command(), words


def test_every_paper_that_is_implemented_is_cited():
    import yaml

    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))["references"]
    known = {(author["family-names"].split()[-1], one["year"]) for one in cited for author in one["authors"]}
    text = (ROOT / "docs" / "learners.md").read_text("utf-8")
    named = re.findall(r"([A-Z]\w+)(?: and ([A-Z]\w+)| et al\.) (20\d\d)(?:, (20\d\d))?", text)
    pairs = {(who, int(year)) for *people, first, second in named for who in people for year in (first, second)
             if who and year}  # fmt: skip
    assert len(pairs) >= 12
    assert pairs - known == set()
    assert all("conference" in one or "identifiers" in one for one in cited)
    learners = {name for one in cited for name in re.findall(r"[a-z]+(?:-[a-z]+)*", one["notes"].partition("as ")[2])}
    assert {"dp-apvi", "rlsvi", "jdp-linucb", "ldp-linucb", "sdp-linucb", "dp-ppo"} <= learners


def test_planted_bugs_are_counted_once():
    """The page of the audit, its figure and its table say one number, and the README another one nowhere."""
    import csv

    page = (ROOT / "docs" / "audit.md").read_text("utf-8")
    counted = set(re.findall(r"(\d+) of (\d+) (?:planted bugs|mutants)", page))
    assert len(counted) == 1
    caught, planted = counted.pop()
    with (ROOT / "docs" / "tables" / "audit-mutants.csv").open(encoding="utf-8") as file:
        assert int(planted) == len(list(csv.DictReader(file)))
    assert caught == planted
    for other in PAGES:
        for number in re.findall(r"(\d+) (?:planted|seeded) bugs", other.read_text("utf-8")):
            assert number == planted, name(other)


def test_the_glossary_is_sorted_and_has_the_words_of_the_fields():
    page = (ROOT / "docs" / "glossary.md").read_text("utf-8").partition("```{glossary}\n")[2]
    terms = re.findall(r"^(\S[^\n]*)\n  [^\n]+$", page, flags=re.MULTILINE)
    assert terms == sorted(set(terms), key=str.lower)
    searched = {"accountant", "confidence bonus", "dummy report", "privacy loss distribution (PLD)", "privacy profile"}
    assert len(terms) > 60
    assert searched <= set(terms)
