"""Bad command lines and bad Python calls, made from the commands and signatures: no traceback from inside, no hang.

A command line is a right one with one bad word in the place of an option or argument; a call is a right one with one
bad argument. Each runs in a process of its own with a copy of honest files, and ends as

    refused     exit code 2 (or 1) and one line; a call raises `TacitError`
    accepted    it is done: the word may have been a right one
    traceback   any other exception, or an exit without a word
    hang        more than `SECONDS` of processor time, or `WALL` seconds

    python tests/review/bad_input.py [lines|calls] [--every N] [--show accepted]
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

SECONDS, WALL = 20, 90
MEMORY = 6 * 2**30
"""Of address space, beyond what the process has when it starts."""

WHOLE = ("", "abc", "1.5", "-1", "0", "nan", "999999999", "10" * 12)
REAL = ("", "abc", "nan", "inf", "-1", "0", "1e308", "1e-320")
TEXT = ("", " ", "\n", "-", "{}", "é" * 3000, "no:such=thing", "a,,b")
PATH = ("", ".", "/dev/null", "/nowhere/at/all", "run", "log.csv", "x" * 300)
WORLD = "random-mdp:states=2,actions=2,horizon=2"
PRIVATE = ["--trust", "local", "--epsilon", "1", "--delta", "0"]
LIMITS = ["--cap", "1", "--floor", "1", "--unsigned"]

LINES: dict[tuple[str, ...], list[str]] = {
    ("list",): ["learners"],
    ("run",): ["--environment", WORLD, "--learner", "psrl", "--episodes", "8", "--workers", "1", *PRIVATE],
    ("certify",): ["--states", "3", "--actions", "2", "--horizon", "4", "--episodes", "9", *PRIVATE],
    ("audit",): ["--learner", "psrl", "--trust", "local", "--delta", "0", "--episodes", "8", "--trials", "400"],
    ("compare",): ["two.toml", "--workers", "1"],
    ("plot",): ["run", "--out", "figure.png"],
    ("report",): ["run", "--out", "page.html"],
    ("verify",): ["run"],
    ("learn",): ["log.csv", "--mapping", "mapping.json", "--epsilon", "1", "--delta", "1e-6", "--behaviour", "known",
                 "--fallback", "none", "--out", "learned-now"],
    ("evaluate",): ["log.csv", "learned/policy.json", "--mapping", "mapping.json", "--epsilon", "1", "--delta", "1e-6",
                    "--propensity", "estimated", "--out", "value-now.json"],
    ("doctor",): ["learner", "learner.toml"],
    ("keys", "new"): ["fresh"],
    ("keys", "sign"): ["run", "--key", "keys/private.pem"],
    ("trial", "run"): ["always 0", "--users", "20", "--environment", WORLD, "--against", "always 1", *PRIVATE],
    ("trial", "size"): ["--effect", "0.1", "--trust", "central", "--epsilon", "1", "--delta", "1e-6"],
    ("trial", "plan"): ["plan.json", "--arms", "old,new", "--people", "100", "--trust", "shuffle", "--epsilon", "1",
                        "--delta", "1e-6"],
    ("trial", "read"): ["collector"],
    ("policy", "show"): ["policy.json"],
    ("policy", "act"): ["policy.json", "--step", "0", "--state", "s0"],
    ("study", "new"): ["there", "--name", "x", "--states", "a,b", "--actions", "c,d", "--horizon", "3", "--stages",
                       "2", "--target", "40", *PRIVATE],
    ("study", "plan"): ["study"],
    ("study", "take"): ["study", "release.json"],
    ("study", "status"): ["study"],
    ("study", "certificate"): ["study"],
    ("study", "export"): ["study", "exported.json"],
    ("study", "verify"): ["study"],
    ("study", "void"): ["study", "--reason", "few people"],
    ("study", "kill"): ["study", "--reason", "the end"],
    ("study", "demo"): ["--people", "40"],
    ("collect", "new"): ["fresh", "--design", "study/design.json"],
    ("collect", "open"): ["collector", "bundle.json"],
    ("collect", "add"): ["collector", "report.json", "--person", "p"],
    ("collect", "close"): ["collector"],
    ("collect", "release"): ["collector", "--head", "0" * 64],
    ("collect", "void"): ["collector", "--reason", "few"],
    ("collect", "status"): ["collector"],
    ("collect", "certificate"): ["collector"],
    ("certificate", "show"): ["run"],
    ("certificate", "export"): ["learned", "--format", "registry", "--name", "n", "--curator", "c", "--use", "u",
                                "--region", "r", "--date", "2026-01-31", "--author", "a"],
    ("device", "report"): ["bundle.json", "trajectory.json", "--state", "device", *LIMITS],
    ("device", "cover"): ["bundle.json", "--state", "device", *LIMITS],
    ("serve", "learner"): ["no.toml"],
    ("serve", "shuffler"): ["no.toml"],
    ("serve", "issuer"): ["no.toml"],
    ("serve", "mixer"): ["no.toml"],
    ("serve", "enrol"): ["people.txt"],
}  # fmt: skip
"""Right words of every command; what starts servers or runs for minutes when all is right (demos) is left out."""
OMITTED = {("demo",), ("serve", "demo"), ("serve", "dashboard"), ("reproduce",)}
QUICK = {"mechanism", "learner", "environment"}


@dataclass(frozen=True)
class Outcome:
    """How a command line or call ended."""

    case: str
    kind: str
    words: str


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with its path."""
    from tacit.cli.app import command

    def walk(found: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
        for name, inner in getattr(found, "commands", {}).items():
            yield from walk(inner, (*path, name))
        if not hasattr(found, "commands"):
            yield path, found

    return walk(command(), ())


def bad_lines() -> list[list[str]]:
    """One bad word for every option and argument of every command, several of every type."""
    found: list[list[str]] = []
    for path, command in commands():
        if path in OMITTED:
            continue
        missing = [item.opts[-1] for item in command.params if item.required]
        usual = [word for name in missing for word in ([name, "1"] if name.startswith("--") else ["nowhere"])]
        right, place = LINES.get(path, usual), 0
        for item in command.params:
            name, kind = item.opts[-1], getattr(item.type_descriptor, "annotation", None)
            if getattr(item, "is_flag", False):
                continue
            bad = {int: WHOLE, float: REAL, Path: PATH}.get(kind, PATH if "path" in name or name == "--out" else TEXT)
            if name == "--episodes":  # fewer are long, but honest, work
                bad = [word if word != "999999999" else "99999999999" for word in bad]
            for word in bad:
                if name.startswith("--"):
                    cut = right.index(name) if name in right else len(right)
                    found.append([*path, *right[:cut], name, word, *right[cut + 2 :]])
                else:
                    found.append([*path, *right[:place], word, *right[place + 1 :]])
            place += not name.startswith("--")
        found += [[*path, *right, "--no-such-option"], list(path) if right else [*path, "more"]]
    return found


def honest_files(place: Path) -> None:
    """Everything that the right command lines and calls need."""
    import tacit
    from tacit.cli import main
    from tacit.runs.signature import new_keys

    old = Path.cwd()
    os.chdir(place)
    try:
        Path("log.csv").write_text(
            "person,episode,step,ward,drug,points\n"
            + "".join(f"{p},{p}0,{h},{'sick' if h else 'well'},pill,1\n" for p in "abc" for h in range(2))
        )
        mapping = {
            "states": [{"column": "ward", "categories": ["well", "sick"]}],
            "actions": {"column": "drug", "categories": ["none", "pill"]},
            "reward": {"column": "points", "low": -1, "high": 3},
            "horizon": 2,
        }
        Path("mapping.json").write_text(json.dumps(mapping))
        runs = '[[run]]\nlearner = "uniform"\n[[run]]\nlearner = "psrl"\n'
        Path("two.toml").write_text(f'[defaults]\nenvironment = "{WORLD}"\nepisodes = 8\nseeds = 1\n{runs}')
        Path("people.txt").write_text("ann\nbob\n")
        Path("trajectory.json").write_text('{"states": [0, 1, 0, 1], "actions": [0, 1, 1], "rewards": [1, 0, 0]}')
        new_keys(Path("keys"))
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
            codes = [
                main(["run", *LINES["run",], "--out", "run"]),
                main([*("learn",), *LINES["learn",][:-1], "learned"]),
                main(["study", "new", "study", *LINES["study", "new"][1:]]),
                main(["study", "plan", "study", "--out", "bundle.json"]),
                main(["collect", "new", "collector", "--design", "study/design.json", "--rehearsal"]),
                main(["collect", "open", "collector", "bundle.json"]),
            ]
        assert codes == [0] * 6, said.getvalue()
        shutil.copy("learned/policy.json", "policy.json")
        tacit.export_bundle(tacit.load("run"), "exported-bundle.json")  # type: ignore[arg-type]
    finally:
        os.chdir(old)


def line_runner(words: list[str]) -> tuple[str, str]:
    """How a command line ends, in this process."""
    from tacit.cli import main

    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = main(words)
    said = err.getvalue()
    if "Traceback" in said or "Traceback" in out.getvalue() or (code != 0 and not said and not out.getvalue()):
        return "traceback", said[-400:]
    last = said.strip().splitlines()[-1:] or [""]
    if code == 2 and not last[0].startswith("error: ") and not out.getvalue():
        return "traceback", f"exit 2 without a refusal: {said[-300:]}"
    return ("accepted" if code == 0 else "refused"), last[0]


def call_runner(call: Callable[[], object]) -> tuple[str, str]:
    """How a call ends, in this process."""
    from tacit.errors import TacitError

    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            call()
    except TacitError as error:
        return "refused", str(error)
    return "accepted", ""


def apart(work: Callable[[], tuple[str, str]], place: Path) -> tuple[str, str]:
    """What `work` says in a process of its own, in a copy of `place`."""
    with tempfile.TemporaryDirectory() as scratch:
        here = Path(scratch) / "here"
        shutil.copytree(place, here)
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            _child(work, here, writes)
        os.close(writes)
        signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
        signal.alarm(WALL)
        with os.fdopen(reads, "rb") as file:
            said = file.read()
        _, status = os.waitpid(child, 0)
        signal.alarm(0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return ("hang" if number in (signal.SIGKILL, signal.SIGXCPU) else "traceback"), f"signal {number}"
    kind, words = json.loads(said)
    return kind, words


def _child(work: Callable[[], tuple[str, str]], here: Path, writes: int) -> None:
    used = int(resource.getrusage(resource.RUSAGE_SELF).ru_utime + resource.getrusage(resource.RUSAGE_SELF).ru_stime)
    resource.setrlimit(resource.RLIMIT_CPU, (used + SECONDS, used + SECONDS + 1))
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))
    os.chdir(here)
    try:
        found = work()
    except BaseException:  # it is the verdict
        found = ("traceback", traceback.format_exc()[-700:])
    with os.fdopen(writes, "w") as file:
        file.write(json.dumps(found))
    os._exit(0)


BAD: tuple[Any, ...] = (None, True, "", "abc", -1, 0, 1.5, float("nan"), float("inf"), 10**12, 10**30, [], {}, b"x",
                        object())  # fmt: skip


@cache
def _result() -> Any:
    import tacit

    return tacit.run(environment=WORLD, learner="psrl", episodes=6, seeds=1, workers=1)


def _calls() -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Right calls: a name -> the function, its arguments."""
    import numpy as np

    import tacit
    from tacit.accounting.claims import PrivacyClaim, PrivacyUnit
    from tacit.accounting.events import GaussianEvent, LaplaceEvent
    from tacit.accounting.ledger import Ledger
    from tacit.study import Collector, Device, Study
    from tacit.study.design import plan_study

    unit = PrivacyUnit(reports=1, per_stage=1)
    claim = {"trust": "central", "epsilon": 1.0, "delta": 1e-6, "unit": unit, "neighbours": "replace-one",
             "output": "other-users-actions"}  # fmt: skip
    run = {"environment": WORLD, "learner": "psrl", "episodes": 6, "seeds": 1, "trust": "local", "epsilon": 1.0,
           "delta": 0.0, "workers": 1}  # fmt: skip
    options = dict.fromkeys(
        ("constants", "z", "mechanism", "batch", "honest_fraction", "baseline", "loss_budget", "support", "sees",
         "value_users", "adversary", "estimator", "calibration", "checkpoints", "reports_per_person", "callbacks",
         "engine", "address", "out", "progress"), ...,
    )  # fmt: skip
    study = {"states": 2, "actions": 2, "horizon": 2, "trust": "local", "epsilon": 1.0, "delta": 0.0, "stages": 2,
             "target": 40}  # fmt: skip
    more = dict.fromkeys(
        ("least", "ladder", "reports_per_person", "rewards", "name", "mechanism", "constants", "z", "honest_fraction",
         "fallback", "baseline", "loss_budget", "sees", "learner"), ...,
    )  # fmt: skip
    one = np.full((2, 1, 1, 1), 1.0)
    bandit = {"actions": ["a", "b"], "features": tacit.Features(age=(18, 90)), "reward": (0, 1), "trust": "central",
              "epsilon": 1.0, "delta": 1e-6, "reports_per_person": 1}  # fmt: skip
    rows = [{"age": 20, "action": "a", "reward": 1.0, "person": i} for i in range(40)]
    fit = {"action": "action", "reward": "reward", "person": "person"}
    result = _result()
    return {
        "Policy.act": (result.policy.act, {"state": 0, "step": 1}),
        "NamedPolicy.act": (result.named_policy.act, {"step": 0, "state": 0}),
        "export_bundle": (tacit.export_bundle, {"result": result, "path": "new.json", "seed": ..., "key": ...}),
        "evaluate": (tacit.evaluate, {"policies": result.named_policy, "log": "log.csv", "mapping": "mapping.json",
                                      "epsilon": 1.0, "delta": 1e-6, "propensity": "estimated", "estimator": ...,
                                      "confidence": ..., "trust": ..., "weight_cap": ..., "ledger": ...}),
        "Study": (Study, {"directory": "study", "key": ..., "collector": ..., "database": ...}),
        "Collector": (Collector, {"directory": "collector", "key": ..., "learner": ..., "database": ...}),
        "Device": (Device, {"directory": "device", "cap": 1.0, "floor": 1, "key": None}),
        "RemoteDevice": (tacit.RemoteDevice, {"directory": None, "shuffler": "http://127.0.0.1:9", "pins": {},
                                              "name": "ada", "cap": 1.0, "floor": 1}),
        "plan": (tacit.plan, {"people": 1000, "states": 2, "actions": 2, "horizon": 2, "trust": "central",
                              "effect": 0.1, "delta": 1e-6, "baseline": ..., "epsilon": 1.0, "power": ...,
                              "share": ..., "alpha": ..., "stationary": ...}),
        "Features": (tacit.Features, {"age": (18, 90)}),
        "Features.encode": (tacit.Features(age=(18, 90)).encode, {"rows": [[20.0]]}),
        "LinearBandit": (lambda **given: tacit.LinearBandit(**given).fit(rows, **fit), bandit),
        "LinearBandit.fit": (tacit.LinearBandit(**bandit).fit, {"rows": rows, **fit}),
        "simulate": (tacit.simulate, {"environment": tacit.make_environment(WORLD), "learner": None,
                                      "privatizer": None, "episodes": 4, "seed": 0}),
        "run": (tacit.run, {**run, **options}),
        "compare": (tacit.compare, {"path": "two.toml", "workers": 1, "name": ..., "out": ..., "engine": ...}),
        "plan_study": (plan_study, {**study, **more}),
        "learn": (tacit.learn, {"log": "log.csv", "mapping": "mapping.json", "epsilon": 1.0, "delta": 1e-6,
                                "behaviour": "known", "reports_per_person": ..., "keep": ..., "z": ...,
                                "fallback": "none", "noise": ...}),
        "data_check": (tacit.data_check, {"log": "log.csv", "mapping": "mapping.json", "reports_per_person": ...}),
        "read_episodes": (tacit.read_episodes, {"log": "log.csv", "mapping": "mapping.json"}),
        "trial_size": (tacit.trial_size, {"effect": 0.1, "trust": "central", "epsilon": 1.0, "delta": 1e-6,
                                          "power": ..., "alpha": ..., "bounds": ..., "mean": ...,
                                          "honest_fraction": ...}),
        "trial": (tacit.trial, {"policy": "always 0", "users": 20, "environment": WORLD, "against": "always 1",
                                "trust": "local", "epsilon": 1.0, "delta": 0.0, "alpha": ..., "bounds": ...,
                                "people": ..., "honest_fraction": ..., "seed": ...}),
        "verify": (tacit.verify, {"path": "run", "key": ..., "needed": ...}),
        "load": (tacit.load, {"directory": "run"}),
        "load_bundle": (tacit.load_bundle, {"path": "exported-bundle.json", "unsigned": True, "key": ...}),
        "make_environment": (tacit.make_environment, {"spec": WORLD}),
        "live": (tacit.live, {"environment": "dose-bandit", "horizon": ..., "rewards": ..., "repeat": ...}),
        "from_gymnasium": (tacit.from_gymnasium, {"env": "FrozenLake-v1", "horizon": 4, "rho": ...}),
        "estimate_model": (tacit.estimate_model, {"environment": WORLD, "episodes": 10, "seed": ...}),
        "PrivacyUnit": (PrivacyUnit, {"reports": 2, "per_stage": 1}),
        "PrivacyClaim": (PrivacyClaim, claim),
        "certify": (tacit.certify, {"events": ((GaussianEvent(sigma=6.0, shift=1.0), 1),), "families": (),
                                    "claim": PrivacyClaim(**claim), "calibration": "tight", "paper_delta": ...,
                                    "local_epsilon": ..., "others": ...}),
        "GaussianEvent": (GaussianEvent, {"sigma": 1.0, "shift": 1.0, "discrete": False}),
        "LaplaceEvent": (LaplaceEvent, {"scale": 1.0, "shift": 1.0, "discrete": False}),
        "TabularMDP": (tacit.TabularMDP, {"P": one, "r": np.full((2, 1, 1), 0.5), "rho": [1.0], "horizon": 2}),
        "Ledger.open": (Ledger.open, {"path": "ledger.db", "budget": PrivacyClaim(**claim)}),
        "Ledger.load": (Ledger.load, {"path": "ledger.db"}),
        "Certificate.from_dict": (tacit.Certificate.from_dict, {"plain": {}}),
        "EpisodeMapping.from_dict": (tacit.EpisodeMapping.from_dict, {"plain": {}}),
        "NamedPolicy.from_dict": (tacit.NamedPolicy.from_dict, {"plain": {}}),
    }  # fmt: skip


def bad_calls() -> list[tuple[str, Callable[[], object]]]:
    """One bad argument in every right call, many for every parameter that the function has."""
    found: list[tuple[str, Callable[[], object]]] = []
    for name, (function, right) in _calls().items():
        known = inspect.signature(function).parameters
        open_ended = any(one.kind is one.VAR_KEYWORD for one in known.values())
        given = {key: value for key, value in right.items() if value is not ... and (open_ended or key in known)}
        for parameter in right:
            if not open_ended and parameter not in known:
                continue
            for bad in BAD:
                found.append((_case(name, parameter, bad), _bound(function, {**given, parameter: bad})))
    return found


ONCE = {"run(trust=None)", "run(out=1.5)", "run(epsilon=True)", "run(epsilon='abc')", "load(directory=None)",
        "compare(path=[])", "plan_study(states='abc')", "TabularMDP(horizon=1000000000000)", "live(rewards=True)",
        "data_check(log=object())", "simulate(environment='abc')"}  # fmt: skip
"""What was taken silently, or ended in an error from inside."""


@cache
def wrong_types() -> frozenset[str]:
    """The cases whose argument is of no type that the signature names, and those that were once taken silently."""
    from tacit.arguments import _parts

    found = set(ONCE)
    for name, (function, right) in _calls().items():
        known = inspect.signature(function).parameters
        names = vars(sys.modules[function.__module__])
        for parameter, bad in ((one, bad) for one in right if one in known for bad in BAD):
            annotation = known[parameter].annotation
            parts = None if annotation is inspect.Parameter.empty else _parts(str(annotation), names)
            if parts is not None and not any(fits(bad) for fits in parts[1]):
                found.add(_case(name, parameter, bad))
    return frozenset(found)


def _case(name: str, parameter: str, bad: object) -> str:
    return f"{name}({parameter}={'object()' if type(bad) is object else repr(bad)})"


def _bound(function: Callable[..., object], arguments: dict[str, Any]) -> Callable[[], object]:
    names = list(inspect.signature(function).parameters.values())
    first = [one.name for one in names if one.kind is one.POSITIONAL_ONLY]
    left = {name: value for name, value in arguments.items() if name not in first}
    return lambda: function(*(arguments[name] for name in first if name in arguments), **left)


def run_cases(cases: Sequence[tuple[str, Callable[[], tuple[str, str]]]], place: Path) -> list[Outcome]:
    """Every case in a process of its own."""
    return [Outcome(name, *apart(work, place)) for name, work in cases]


def lines(every: int = 1, offset: int = 0) -> list[tuple[str, Callable[[], tuple[str, str]]]]:
    """The command lines as cases."""

    def case(words: list[str]) -> Callable[[], tuple[str, str]]:
        return lambda: line_runner(words)

    shown = [(" ".join(word if len(word) < 60 else f"{word[:40]}..." for word in line), line) for line in bad_lines()]
    return [(name, case(words)) for name, words in shown[offset::every]]


def calls(every: int = 1, offset: int = 0) -> list[tuple[str, Callable[[], tuple[str, str]]]]:
    """The calls as cases."""

    def case(call: Callable[[], object]) -> Callable[[], tuple[str, str]]:
        return lambda: call_runner(call)

    return [(name, case(call)) for name, call in bad_calls()[offset::every]]


def main(words: Sequence[str] | None = None) -> int:
    """Run the cases and say how they end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("which", choices=("lines", "calls"))
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--show", default="traceback,hang")
    asked = parser.parse_args(words)
    cases = (lines if asked.which == "lines" else calls)(asked.every, asked.offset)
    cases = [case for case in cases if asked.only in case[0]]
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        honest_files(place)
        found = []
        for case in cases:
            found += run_cases([case], place)
            if found[-1].kind in asked.show.split(","):
                print(f"{found[-1].kind}: {found[-1].case}\n    {found[-1].words}", flush=True)
    print(dict(Counter(one.kind for one in found)), len(found))
    return int(any(one.kind in ("traceback", "hang") for one in found))


if __name__ == "__main__":
    sys.exit(main())
