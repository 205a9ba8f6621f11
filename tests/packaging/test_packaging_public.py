"""The front door: cheap to open, sorted, documented; every module says what it offers."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tacit
from tacit.renamed import RENAMED, warn_of_foreign

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "src" / "tacit").rglob("*.py"))


def test_all_is_sorted_and_documented():
    assert list(tacit.__all__) == sorted(tacit.__all__)
    assert len(set(tacit.__all__)) == len(tacit.__all__)
    assert dir(tacit) == list(tacit.__all__)
    for name in tacit.__all__:
        found = getattr(tacit, name)
        if name != "__version__":
            assert (found.__doc__ or "").strip(), f"tacit.{name} has no docstring"


def test_the_reference_lists_every_name_with_an_example_that_runs():
    """Signatures and examples of the page are those of the docstrings, which the tests run."""
    page = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\.\. auto(?:function|class|exception):: tacit\.(\w+)$", page, flags=re.MULTILINE))
    assert listed == {name for name in tacit.__all__ if name != "__version__"}
    for name in sorted(listed):
        found = getattr(tacit, name)
        parts = [found, *vars(found).values()] if isinstance(found, type) else [found]
        assert any(">>> " in (getattr(part, "__doc__", None) or "") for part in parts), f"tacit.{name} has no example"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nothing_here"):
        _ = tacit.nothing_here


def test_the_types_see_what_the_lazy_door_opens():
    tree = ast.parse((ROOT / "src" / "tacit" / "__init__.py").read_text(encoding="utf-8"))
    typed = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for statement in node.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert typed | {"__version__"} == set(tacit.__all__)


SCRIPT = """
import resource
def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
before = cpu()
import tacit
from tacit.renamed import warn_of_foreign
spent = cpu() - before
print(spent)
"""


def test_import_takes_less_than_a_second_and_compiles_nothing():
    done = subprocess.run([sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True)
    assert float(done.stdout) < 1.0
    opened = (
        "from numba.core.dispatcher import Dispatcher\nimport tacit, gc\n"
        "[getattr(tacit, name) for name in tacit.__all__]\n"
        "print(sum(len(d.overloads) for d in gc.get_objects() if isinstance(d, Dispatcher)))"
    )
    done = subprocess.run([sys.executable, "-c", opened], check=True, capture_output=True, text=True)
    assert done.stdout.split()[-1] == "0", "importing the public names compiled a kernel"


def test_every_module_says_what_it_is():
    """A module starts with what it is; what it offers are the names without an underscore."""
    silent = [path for path in MODULES if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))]
    assert len(MODULES) > 100
    assert silent == []


def test_the_package_is_typed_and_licensed():
    assert (ROOT / "src" / "tacit" / "py.typed").exists()
    assert "Apache License" in (ROOT / "LICENSE").read_text(encoding="utf-8")


OLD_MODULES = {
    "tacit.mechanisms.noise.laplace": "tacit.noise.laplace",
    "tacit.mechanisms.exact": "tacit.noise.exact",
    "tacit.privatizers.request": "tacit.release.request",
    "tacit.loop.simulate": "tacit.simulation.simulate",
    "tacit.checks.conformance": "tacit.audit.conformance",
    "tacit.engines": "tacit.executors",
    "tacit.privatizers.shuffle.noise": "tacit.release.shuffle.labels",
    "tacit.learners.pucb": "tacit.learners.fixed_bonus",
    "tacit.environments.riverswim": "tacit.environments.tabular_worlds",
    "tacit.service.sealing.hpke": "tacit.service.encryption.hpke",
}
OLD_NAMES = {
    "tacit.errors.BudgetSpent": "PrivacyBudgetExceeded",
    "tacit.errors.Unsupportable": "PrivacyViolation",
    "tacit.errors.naming": "error_context",
    "tacit.protocol.Private": "PrivateStatistics",
    "tacit.accounting.events.Slack": "ApproximationEvent",
}


def test_old_names_are_found_for_one_version():
    """In a process of its own: the thing itself, once, with a warning that names it."""
    script = """
import importlib, warnings
warnings.simplefilter("always")
def asked(get):
    with warnings.catch_warnings(record=True) as said:
        found = get()
    return found, str(said[-1].message) if said else "silent"
for old, new in MODULES.items():
    found, said = asked(lambda: importlib.import_module(old))
    print(found is importlib.import_module(new) and f"{old} is called {new} now" in said, old, said)
for old, new in NAMES.items():
    module = importlib.import_module(old.rpartition(".")[0])
    found, said = asked(lambda: getattr(module, old.rpartition(".")[2]))
    print(found is getattr(module, new) and f"{old} is called {new} now" in said, old, said)
"""
    told = script.replace("MODULES", repr(OLD_MODULES)).replace("NAMES", repr(OLD_NAMES))
    lines = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) == len(OLD_MODULES) + len(OLD_NAMES)
    assert [line for line in lines if not line.startswith("True ")] == []


def test_every_renamed_module_exists():
    for new in RENAMED.values():
        assert importlib.util.find_spec(new) is not None, new


@pytest.mark.parametrize("module", ["tacit.errors", "tacit.protocol", "tacit.accounting", "tacit.accounting.events"])
def test_a_name_that_no_version_had_is_still_an_attribute_error(module):
    with pytest.raises(AttributeError, match="nothing_here"):
        _ = importlib.import_module(module).nothing_here


def test_hints_name_the_distribution_or_the_clone():
    """`pip install tacit` installs another project: no page, message or file may ask for it."""
    wrong = re.compile(r"pip install[^\n`]*?['\" ]tacit(?![-\w])|['\"]tacit\[")
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    texts = [ROOT / name for name in tracked if name.endswith((".md", ".py", ".toml", ".rst", ".html"))]
    found = [
        str(path)
        for path in texts
        if path.name not in (Path(__file__).name, "CHANGELOG.md") and wrong.search(path.read_text())
    ]
    assert not found
    assert wrong.search("pip install 'tacit[sign]'")
    assert wrong.search("pip install tacit")
    assert not wrong.search("pip install 'tacit-rl[sign]'")


def test_extras_that_hints_name_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    named = re.compile(r"""(?:tacit-rl|pip install ['"]?\.)\[([\w,]+)\]|install_hint\(["']([\w,]+)["']\)""")
    found = {
        extra
        for name in tracked
        if name.endswith((".md", ".py", ".toml", ".rst", ".html", ".yml"))
        for pair in named.findall((ROOT / name).read_text(encoding="utf-8"))
        for extra in "".join(pair).split(",")
    }
    assert found >= {"sign", "service", "postgres", "cases"}
    assert found <= set(extras)


def test_a_hint_works_where_tacit_was_installed_from(tmp_path, monkeypatch):
    """In its clone `.`, elsewhere the clone; of an installed copy what pip noted; else the name of the distribution."""
    from importlib.metadata import PackageNotFoundError

    from tacit import errors

    told = {}

    class Found:
        def read_text(self, name):
            return told.get(name)

    def distribution(name):
        if told is None:
            raise PackageNotFoundError(name)
        return Found()

    monkeypatch.chdir(ROOT)
    assert errors.install_hint("sign") == "pip install '.[sign]'"
    monkeypatch.chdir(tmp_path)
    assert errors.install_hint("sign") == f"pip install '{ROOT}[sign]'"
    monkeypatch.setattr(errors, "__file__", str(tmp_path / "site-packages" / "tacit" / "errors.py"))
    monkeypatch.setattr("importlib.metadata.distribution", distribution)
    assert errors.install_hint("sign") == "pip install 'tacit-rl[sign]'"
    wheel = tmp_path / "a wheel.whl"
    wheel.touch()
    told["direct_url.json"] = json.dumps({"url": wheel.as_uri()})
    assert errors.install_hint("sign,pandas") == f"pip install '{wheel}[sign,pandas]'"
    wheel.unlink()
    assert errors.install_hint("sign") == "pip install 'tacit-rl[sign]'"
    told = None
    assert errors.install_hint("sign") == "pip install 'tacit-rl[sign]'"


def test_another_project_of_the_name_is_named(tmp_path):
    package = tmp_path / "tacit"
    for name, summary in (("tacit-0.8.0", "Learning with differential privacy"), ("tacit_rl-0.9.0", "ours")):
        (tmp_path / f"{name}.dist-info").mkdir()
        (tmp_path / f"{name}.dist-info" / "METADATA").write_text(f"Summary: {summary}\n")
    warn_of_foreign([str(package)])  # an earlier version of this project, and this one
    (tmp_path / "tacit-0.3.0.dist-info").mkdir()
    (tmp_path / "tacit-0.3.0.dist-info" / "METADATA").write_text("Summary: data pipelines\n")
    with pytest.warns(RuntimeWarning, match=r"tacit-0\.3\.0.*install tacit-rl anew"):
        warn_of_foreign([str(package)])


def test_the_reference_has_the_study_api_with_every_parameter():
    """Classes and functions of `tacit.study` stand on the page, and their docstrings name what they take."""
    import inspect

    import tacit.study

    page = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    for name in tacit.study.__all__:
        assert re.search(rf"auto(class|function):: tacit\.study\.{name}$", page, flags=re.MULTILINE), name
    for name in ("plan_study", "Study", "Collector", "Device"):
        found = getattr(tacit.study, name)
        documented = found.__doc__.partition("Parameters\n")[2]
        named = {
            one for head in re.findall(r"^    (\w[\w, ]*)$", documented, flags=re.MULTILINE) for one in head.split(", ")
        }
        assert {*inspect.signature(found).parameters} <= named, name
