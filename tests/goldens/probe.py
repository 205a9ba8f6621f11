"""What a golden case amounts to, as short hashes: the only file of the goldens that knows where things live in tacit.

When names move, edit the imports and the few functions here; the hashes in `goldens.json` must stay. A hash sees values
only: arrays by type, shape and bytes, numbers by their text, in the order of the fields; never names of classes, of
modules or of fields (but for events, whose classes can be renamed in `EVENT_NAMES`).

Not captured: the belief of the reference learners, which have none; the last release where nobody reports; scratch
space of a belief (`SCRATCH`), which is no state.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import tacit
from tacit.cli.certify import certification
from tacit.cli.certify_losses import LossQuestion, loss_certification
from tacit.privatizers.request import PrivacyRequest, make_claim
from tacit.released.counts import CountShape
from tacit.released.gradients import GradientStatistics
from tacit.runs.assemble import assemble
from tacit.runs.result import resolve

MARKS = 50
DIGESTS = "digests.json"
"""A file of run directories that is younger than the goldens; it holds hashes of the others."""
SCRATCH = ("scratch",)
EVENT_NAMES: dict[str, str] = {}
"""New name of a class of events -> the name in the goldens, for those that were renamed."""
YOUNGER = ("per_stage",)
"""Fields of dataclasses that are younger than the goldens."""
DEFAULT_BATCH = {"shuffle": 1000}
OLD_CERTIFICATE = (
    *("claim", "epsilon", "delta", "curve", "method", "families", "calibration", "printed", "local_epsilon"),
    *("holds", "verdict", "collusion"),
)
"""What certificates said when the goldens were made: numbers and verdicts. Later entries (terms, events, ...) have
tests of their own."""

Row = dict[str, Any]
Hashes = dict[str, str]


# Runs -----------------------------------------------------------------------------------------------------


def probe_run(row: Row, speed: str, seed: int) -> Hashes:
    """Run one seed of a case at one speed and hash what it leaves behind."""
    parts = _assembled(row)
    episodes = row["arguments"]["episodes"]
    marks = np.unique(np.linspace(1, episodes, MARKS).round().astype(np.int64))
    with _watching(parts) as seen:
        found = tacit.simulate(
            parts.mdp, parts.learner, parts.privatizer, episodes=episodes, seed=seed, checkpoints=marks, speed=speed
        )
    hashes = {"regret": digest(found.regret), "generators": digest([_state_of(g) for g in seen.generators])}
    # What stands beside the regret: changes of policy, objectives of gradients, measures of adversarial losses.
    hashes["measures"] = digest((found.policy_changes, found.objective, found.losses))
    if seen.belief is not None:
        hashes["belief"] = digest(seen.belief)
    if seen.released is not None:
        hashes["released"] = digest(seen.released)
    return hashes


def probe_privacy(row: Row) -> Hashes:
    """Events, certificate, noise and what the configuration resolved to; they do not depend on the seed."""
    parts = _assembled(row)
    config = tacit.RunConfig(**row["arguments"])
    return {
        "resolved": text_digest(canonical(dataclasses.asdict(resolve(parts, config)))),
        "noise": text_digest(canonical(parts.privatizer.noise_std())),
        "events": text_digest(events_text(parts.privatizer.events())),
        "certificate": text_digest(canonical(old_part(parts.certificate.to_dict()))),
    }


def _assembled(row: Row) -> Any:
    return assemble(tacit.RunConfig(**row["arguments"]))


@dataclasses.dataclass
class Seen:
    """What a run left behind."""

    generators: list[np.random.Generator] = dataclasses.field(default_factory=list)
    """World, learner, noise and, where losses are adversarial, the adversary's coins."""
    belief: Any = None
    state: Any = None
    last: Any = None

    @property
    def released(self) -> Any:
        """The last release: handed over at the interpreted speed, written into the first state at the compiled one."""
        return self.last if self.last is not None else getattr(self.state, "released", None)


@contextlib.contextmanager
def _watching(parts: Any) -> Iterator[Seen]:
    """Keep the generators, the last belief and the last release of whatever runs inside.

    Methods are wrapped on the classes, since many objects here are frozen. Kernels work in place, so whoever holds the
    first belief holds the last one.
    """
    seen = Seen()

    def on_belief(out: Any, name: str) -> None:
        pair = name == "plan" and isinstance(out, tuple) and not hasattr(out, "_fields")
        seen.belief = out[0] if pair else out

    def on_release(out: Any, name: str) -> None:
        if name == "begin":
            seen.state = out
        else:
            # Gradients were released with their claim before everything was.
            gradients = isinstance(out[1].statistics, GradientStatistics)
            seen.last = out[1] if gradients else out[1].statistics

    def on_streams(out: Any, name: str) -> None:
        seen.generators += [out.world, out.learner, out.noise]

    with contextlib.ExitStack() as stack:
        for name in ("begin", "plan", "update"):
            _wrap(stack, parts.learner, name, on_belief)
        for name in ("begin", "release"):
            _wrap(stack, parts.privatizer, name, on_release)
        for module in [m for key, m in sys.modules.items() if key.startswith("tacit.") and hasattr(m, "seed_streams")]:
            original = module.seed_streams
            stack.enter_context(mock.patch.object(module, "seed_streams", _told(original, on_streams, "streams")))
        if hasattr(parts.mdp, "adversary"):
            original = type(parts.mdp.adversary).losses

            def losses(self: Any, first: int, count: int, coins: np.random.Generator) -> Any:
                if all(coins is not known for known in seen.generators):
                    seen.generators.append(coins)
                return original(self, first, count, coins)

            stack.enter_context(mock.patch.object(type(parts.mdp.adversary), "losses", losses))
        yield seen
    # World, learner, noise, adversary: the children 0, 1, 2, 3 of the seed, in whatever order they were made.
    seen.generators.sort(key=lambda generator: generator.bit_generator.seed_seq.spawn_key)


def _wrap(stack: contextlib.ExitStack, thing: Any, name: str, tell: Any) -> None:
    """Call `tell` with what this method returns."""
    if name in getattr(thing, "__dict__", {}):
        stack.enter_context(mock.patch.object(thing, name, _told(getattr(thing, name), tell, name)))
    elif hasattr(type(thing), name):
        stack.enter_context(mock.patch.object(type(thing), name, _told(getattr(type(thing), name), tell, name)))


def _told(function: Any, tell: Any, name: str) -> Any:
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        out = function(*args, **kwargs)
        tell(out, name)
        return out

    return wrapped


def _state_of(generator: np.random.Generator) -> str:
    return canonical(generator.bit_generator.state)


# Certificates and directories --------------------------------------------------------------------------------


def probe_certificate(row: Row) -> Hashes:
    """Everything that `tacit certify --json` prints."""
    trust = row["trust"]
    request = PrivacyRequest(
        trust=trust,
        shape=CountShape(
            horizon=row["horizon"],
            num_states=row["states"],
            num_actions=row["actions"],
            staged=not row.get("pooled", False),
        ),
        episodes=row["episodes"],
        epsilon=row["epsilon"],
        delta=row["delta"],
        calibration=row["calibration"],
        mechanism=row.get("mechanism"),
        users_per_batch=row.get("batch", DEFAULT_BATCH.get(trust, 1)),
    )
    if "feedback" not in row:
        content = certification(request)
    else:
        content = loss_certification(
            LossQuestion(
                feedback=row["feedback"],
                claim=make_claim(request),
                calibration=row["calibration"],
                public_losses=row.get("public_losses", False),
                **{name: row[name] for name in ("states", "actions", "horizon", "episodes")},
            )
        )
    content = {key: value for key, value in content.items() if key != "implied"}  # follows from the certificate
    return {
        "certificate": text_digest(canonical(old_part(content["certificate"]))),
        "noise": text_digest(canonical(content["noise_std"])),
        "content": text_digest(canonical(old_part(content))),
    }


def probe_directory(arguments: Row) -> Hashes:
    """A run that is kept on disk: its JSON files byte by byte but for the version, its rows as they are read back."""
    hashes = {}
    with tempfile.TemporaryDirectory() as place:
        environment = arguments["environment"]
        if environment.startswith("model "):
            arguments = {**arguments, "environment": tacit.make_environment(environment.removeprefix("model "))}
        tacit.run(**arguments, out=Path(place) / "run", workers=1)
        for path in sorted(path for path in Path(place).rglob("*") if path.is_file() and path.name != DIGESTS):
            hashes[str(path.relative_to(Path(place) / "run"))] = _file_digest(path)
    return hashes


def _file_digest(path: Path) -> str:
    import pyarrow.parquet as pq

    if path.suffix == ".parquet":
        table = pq.ParquetFile(path).read()
        columns = {column: table.column(column).to_pylist() for column in table.column_names}
        return text_digest(canonical({"schema": [str(field) for field in table.schema], "columns": columns}))
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as stored:
            return digest([[name, stored[name]] for name in sorted(stored)])
    text = path.read_text(encoding="utf-8")
    if path.name == "privacy.json":
        text = json.dumps(old_part(json.loads(text)), indent=2, ensure_ascii=False) + "\n"
    # Seconds are the clock's, the version is that of the day, the fingerprint has tests of its own.
    changing = ('"seconds":', '"version":', '"algorithm":')
    return text_digest("\n".join(line for line in text.splitlines() if not line.strip().startswith(changing)))


def old_part(content: Any) -> Any:
    """The same content with every certificate in it cut down to what it said when the goldens were made."""
    if isinstance(content, list):
        return [old_part(part) for part in content]
    if not isinstance(content, dict):
        return content
    if set(content) == {"reports", "per_stage"}:  # a unit, of any trajectories in those days
        return {"trajectories": content["reports"]}
    whole = set(OLD_CERTIFICATE) <= set(content)
    return {key: old_part(part) for key, part in content.items() if not whole or key in OLD_CERTIFICATE}


# Hashes -----------------------------------------------------------------------------------------------------


def digest(value: Any) -> str:
    """The first 16 hexadecimal digits of SHA-256 over all values inside, in order."""
    found = hashlib.sha256()
    for leaf in _leaves(value):
        found.update(len(leaf).to_bytes(8, "little") + leaf)
    return found.hexdigest()[:16]


def text_digest(text: str) -> str:
    """The same of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def canonical(content: Any) -> str:
    """JSON with sorted keys; floats as their shortest text, which gives them back bit for bit."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), default=_plain)


def events_text(events: Any) -> str:
    """Events as sorted lines: name, fields in alphabetical order, count."""
    lines = []
    for event, count in events:
        kind = type(event).__name__
        fields = {field.name: getattr(event, field.name) for field in dataclasses.fields(event)}
        lines.append(f"{EVENT_NAMES.get(kind, kind)} {canonical(fields)} x {canonical(count)}")
    return "\n".join(sorted(lines))


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"goldens hold numbers and texts, got {type(value).__name__}")


def _leaves(value: Any) -> Iterator[bytes]:
    """Every array, number and text inside, in order; containers leave no trace but their contents."""
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise TypeError("goldens hold arrays of numbers, got one of objects")
        yield f"{value.dtype.str}{value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif value is None or isinstance(value, bool | int | float | str | np.generic):
        yield repr(value.item() if isinstance(value, np.generic) else value).encode()
    elif isinstance(value, dict):
        for key in value:
            yield from _leaves(value[key])
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for name, part in zip(value._fields, value, strict=True):
            if name not in SCRATCH:
                yield from _leaves(part)
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _leaves(part)
    elif dataclasses.is_dataclass(value):
        for field in (field for field in dataclasses.fields(value) if field.name not in YOUNGER):
            yield from _leaves(getattr(value, field.name))
    else:
        raise TypeError(f"goldens hold nested tuples of arrays, got {type(value).__name__}")
