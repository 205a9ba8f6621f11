"""Answers of the accountant that were computed before, for the pages that ask after every committed run.

Whether 2,600 runs are current takes thousands of its searches: minutes of work, and the same numbers every time, unless
the accountant itself has changed. So `results/answers.json` keeps them:

    sources   a hash of every file that an answer follows from: the functions asked and whatever they import
    answers   digest of (function, arguments) -> number, where it took longer than a few milliseconds

Kept answers are refused together once a source has changed; what was never asked before is computed. A fiftieth of
them, another one with every change of the sources, is computed again whenever they are read and has to be the same to a
thousandth; a slow test computes them all. Nothing that runs, calibrates or certifies ever reads them: `remembering` is
for `papers.staleness`, which only compares, and leaves no trace in the caches of the accountant.

    python -m papers.index    writes the pages, and the answers that are new or have changed
"""

from __future__ import annotations

import ast
import hashlib
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import tacit
from tacit.errors import InvalidInput
from tacit.runs.storage import read_json, write_json

__all__ = ["FILE", "Answers", "remembering", "source_files", "sources"]

FILE: Final = "answers.json"
SECONDS: Final = 0.004
"""What is computed faster is not worth a line."""
TURNS: Final = 50
"""One of so many answers is computed again."""
DIGITS: Final = 1e-3
"""Relative: on other machines a loss may fall on another side of the accountant's grid."""

ASKED: Final = (
    ("tacit.noise.binomial", "least_bits"),
    ("tacit.release.shuffle.labels", "least_probability"),
    ("tacit.release.shuffle.labels", "least_mirrored_probability"),
    ("tacit.release.stage", "epsilon_of"),
    ("tacit.release.gradient_noise", "epsilon_of"),
    ("tacit.release.loss_noise", "epsilon_of"),
    ("tacit.accounting.calibrate", "epsilon_of"),
    ("tacit.accounting.units", "epsilon_of"),
)
"""Where calibrations ask the accountant, and by which name."""
EVENTS: Final = "tacit.accounting.events"
ABOVE: Final = (
    ("tacit.runs.assemble", "assembled"),
    ("tacit.release.table", "_made"),
    ("tacit.release.table", "_randomized"),
    ("tacit.release.shuffle_release", "_noise"),
    ("tacit.release.shuffle_release", "_release"),
    ("tacit.release.stage", "stage_epsilon"),
    ("tacit.accounting.calibrate", "_calibrated"),
)
"""What remembers things that are made of answers."""


@dataclass(kw_only=True)
class Answers:
    """The answers kept, and what became of them."""

    sources: str
    kept: dict[str, float]
    turn: int
    asked: dict[str, float] = field(default_factory=dict)
    """All that were needed, kept or new."""
    again: int = 0
    """How many of those kept were computed again."""
    new: int = 0

    def of(self, name: str, function: Callable[..., Any], *given: Any) -> Any:
        """The answer kept, or the one computed."""
        key = hashlib.sha256(f"{name}{given!r}".encode()).hexdigest()[:16]
        if key in self.asked:
            return self.asked[key]
        kept = self.kept.get(key)
        if kept is not None and (int(key, 16) - self.turn) % TURNS:
            self.asked[key] = kept
            return kept
        begun = time.process_time()
        found = function(*given)
        if kept is not None:
            self.again += 1
            if not math.isclose(found, kept, rel_tol=DIGITS):
                raise InvalidInput(f"{name}{given} is {found!r}, and {kept!r} in {FILE}: compute all of them again")
            found = kept
        if kept is not None or (time.process_time() - begun >= SECONDS and _accountants(given)):
            self.new += kept is None
            self.asked[key] = found
        return found

    def write(self, results: Path) -> None:
        """Keep what was needed, and nothing else."""
        write_json(results / FILE, {"sources": self.sources, "answers": dict(sorted(self.asked.items()))})


@contextmanager
def remembering(results: Path, *, turn: int | None = None, kept: bool = True) -> Iterator[Answers]:
    """Calibrate with the answers kept in this folder; without `kept`, compute all of them."""
    now, there = sources(), results / FILE
    content = read_json(there) if kept and there.is_file() else {}
    answers = Answers(
        sources=now,
        kept=content["answers"] if content.get("sources") == now else {},
        turn=int(now, 16) if turn is None else turn,
    )
    before = [(import_module(module), name, _named(module, name)) for module, name in ASKED]
    _forget()
    try:
        for module, name, function in before:
            setattr(module, name, _asking(answers, name, function))
        yield answers
    finally:
        for module, name, function in before:
            setattr(module, name, function)
        _forget()


def sources() -> str:
    """The hash of every statement that the answers follow from; docstrings, comments and places do not count."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in source_files()]
    statements = {ast.dump(node) for tree in trees for node in _undocumented(tree).body}
    return hashlib.sha256("\n".join(sorted(statements)).encode()).hexdigest()


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _undocumented(tree: ast.Module) -> ast.Module:
    """The same code without docstrings, texts beside attributes, and imports."""
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            kept = [n for n in body if not (_is_import(n) or (isinstance(n, ast.Expr) and _is_text(n.value)))]
            node.body = kept or [ast.Pass()]  # type: ignore[attr-defined]
    return tree


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def source_files() -> tuple[Path, ...]:
    """The functions asked, the events, and whatever they import from tacit."""
    root = Path(tacit.__file__).parent
    found, left = set[Path](), [_file(root, name) for name in (EVENTS, *(_named(*at).__module__ for at in ASKED))]
    while left:
        path = left.pop()
        if path is not None and path not in found:
            found.add(path)
            left += [_file(root, name) for name in _imports(path)]
    return tuple(sorted(found))


def _imports(path: Path) -> Iterator[str]:
    """The names of the modules that a file imports, and of what it takes from them, which may be modules, too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _file(root: Path, module: str) -> Path | None:
    """The file of a module of tacit; the package itself only names what there is."""
    first, *rest = module.split(".")
    if first != "tacit" or not rest:
        return None
    path = root.joinpath(*rest)
    found = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return found if found.is_file() else None


def _asking(answers: Answers, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def asked(*given: Any) -> Any:
        return answers.of(name, function, *given)

    return asked


def _accountants(given: Any) -> bool:
    """Whether everything in there is a number or an event of the accountant, whose code the sources hold."""
    if isinstance(given, tuple):
        return all(map(_accountants, given))
    return isinstance(given, int | float) or type(given).__module__.startswith(f"{EVENTS}.")


def _named(module: str, name: str) -> Any:
    return getattr(import_module(module), name)


def _forget() -> None:
    for at in ABOVE:
        _named(*at).cache_clear()
