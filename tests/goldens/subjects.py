"""What a golden row is made of: the only file of the goldens that knows where things live in tacit.

When names move, edit the imports and the few functions here; `goldens.json` must stay. Values only: never names of
classes, of modules or of fields (but for stored documents, which are what they are, and for events, whose classes can
be renamed in `EVENT_NAMES`). Imports stand where they are used, so that a commit that lacks one makes all other rows.

Not captured: the belief of the reference learners, which have none; the last release where no user reports; scratch
space of a belief, which is no state; what a curator keeps for itself.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from values import canonical, digest, text_digest

import tacit

MARKS = 50
DIGESTS = "digests.json"
"""A file of run directories that is younger than the goldens; it holds hashes of the others."""
EVENT_NAMES: dict[str, str] = {"ApproximationEvent": "Slack"}
"""New name of a class of events -> the name in the goldens, for those that were renamed."""
DEFAULT_BATCH = {"shuffle": 1000}
OLD_CERTIFICATE = (
    *("claim", "epsilon", "delta", "curve", "method", "families", "calibration", "printed", "local_epsilon"),
    *("holds", "verdict", "collusion"),
)
"""What certificates said when the goldens were made: numbers and verdicts. Later entries (terms, events, ...) have
tests of their own."""

REWORDED = {
    "Collusion changes nothing: all parties see the data already.":
        "Collusion changes nothing: everybody sees the data already.",
    "Collusion changes nothing: only a person's own device ever sees the data.":
        "Collusion changes nothing: nobody but the user's own device ever sees the data.",
}  # fmt: skip
"""Lines of certificates that have other words since the goldens were made, and the same meaning."""

OF_THE_DAY = ("version", "date")
WORDS = ("verdict", "collusion", "statement", "warnings", "public", "verifier", "coalitions")
"""Entries of certificates that are written by the clock, and in words."""
TESTS = Path(__file__).parents[1]

Row = dict[str, Any]
Hashes = dict[str, tuple[str, Any]]
"""Part -> its hash, and what was hashed."""


# The first goldens: runs --------------------


def probe_run(row: Row, speed: str, seed: int) -> Hashes:
    """Run one seed of a case at one speed and hash what it leaves behind."""
    parts = _assembled(row)
    episodes = row["arguments"]["episodes"]
    marks = np.unique(np.linspace(1, episodes, MARKS).round().astype(np.int64))
    with _watching(parts) as seen:
        found = tacit.simulate(
            parts.mdp, parts.learner, parts.privatizer, episodes=episodes, seed=seed, checkpoints=marks, speed=speed
        )
    left = {"regret": found.regret, "generators": [_state_of(g) for g in seen.generators]}
    # What stands beside the regret: changes of policy, objectives of gradients, measures of adversarial losses.
    left["measures"] = (found.policy_changes, found.objective, found.losses)
    if seen.belief is not None:
        left["belief"] = seen.belief
    if seen.released is not None:
        left["released"] = seen.released
    return {key: (digest(part), part) for key, part in left.items()}


def probe_privacy(row: Row) -> Hashes:
    """Events, certificate, noise and what the configuration resolved to; they do not depend on the seed."""
    from tacit.runs.result import resolve

    parts = _assembled(row)
    config = tacit.RunConfig(**row["arguments"])
    events = parts.privatizer.events()
    return {
        "resolved": _hashed(dataclasses.asdict(resolve(parts, config))),
        "noise": _hashed(parts.privatizer.noise_std()),
        "events": (text_digest(events_text(events)), _events(events)),
        "certificate": _hashed(old_part(parts.certificate.to_dict())),
    }


def _hashed(content: Any) -> tuple[str, Any]:
    return text_digest(canonical(content)), content


def _assembled(row: Row) -> Any:
    return _assemble(row["arguments"])


def _assemble(arguments: Row) -> Any:
    from tacit.runs.assemble import assemble

    return assemble(tacit.RunConfig(**arguments))


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
    from tacit.released.gradients import GradientStatistics

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


# The first goldens: certificates and directories --------------------


def probe_certificate(row: Row) -> Hashes:
    """Everything that `tacit certify --json` prints."""
    from tacit.release.request import PrivacyRequest
    from tacit.released.counts import CountShape
    from tacit.runs.certification import certification, loss_certification, loss_request

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
        asked = loss_request(request, row["feedback"], row.get("public_losses", False))
        content = loss_certification(asked, request.shape)
    content = {key: value for key, value in content.items() if key != "implied"}  # follows from the certificate
    return {
        "certificate": _hashed(old_part(content["certificate"])),
        "noise": _hashed(content["noise_std"]),
        "content": _hashed(old_part(content)),
    }


def probe_directory(arguments: Row) -> Hashes:
    """A run that is kept on disk: its JSON files byte by byte but for the version, its rows as they are read back."""
    hashes: Hashes = {}
    with tempfile.TemporaryDirectory() as place:
        environment = arguments["environment"]
        if environment.startswith("model "):
            arguments = {**arguments, "environment": tacit.make_environment(environment.removeprefix("model "))}
        tacit.run(**arguments, out=Path(place) / "run", workers=1)
        for path in sorted(path for path in Path(place).rglob("*") if path.is_file() and path.name != DIGESTS):
            hashes[str(path.relative_to(Path(place) / "run"))] = (_file_digest(path), None)
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
        return REWORDED.get(content, content) if isinstance(content, str) else content
    if set(content) == {"reports", "per_stage"}:  # a unit, of any trajectories in those days
        return {"trajectories": content["reports"]}
    whole = set(OLD_CERTIFICATE) <= set(content)
    return {key: old_part(part) for key, part in content.items() if not whole or key in OLD_CERTIFICATE}


def events_text(events: Any) -> str:
    """Events as sorted lines: name, fields in alphabetical order, count."""
    lines = []
    for event, count in events:
        kind = type(event).__name__
        fields = {field.name: getattr(event, field.name) for field in dataclasses.fields(event)}
        lines.append(f"{EVENT_NAMES.get(kind, kind)} {canonical(fields)} x {canonical(count)}")
    return "\n".join(sorted(lines))


# Runs, trials and logs ------------------------------------------------------------------------------------------


def run(**arguments: Any) -> Row:
    """What users of `tacit.run` get."""
    found = tacit.run(**{"environment": _environment(arguments), "checkpoints": 12, "workers": 1, **_rest(arguments)})
    A = found.resolved.actions
    return {
        "learner": found.config.to_dict()["learner"],
        "because": found.config.because,
        "by size": found.config.by_size,
        "constants": [found.resolved.constants, found.resolved.z],
        "regret": found.regret,
        "changes": found.policy_changes,
        "policies": [None if p is None else _table(p, A) for p in found.policies],
        "certified": _certified(found.certificate),
        "arms": [[arm.sums, arm.users] for arm in found.arms],
        "intervals": found.intervals,
        "returns": found.returns,
        "losses": found.losses,
    }


def certificate(**arguments: Any) -> Any:
    """The JSON of a run's certificate: its entries and numbers."""
    return _without(_assemble(arguments).certificate.to_dict(), (*OF_THE_DAY, *WORDS))


def words(**arguments: Any) -> Any:
    """What a certificate says in words, as JSON and as text."""
    found = _assemble(arguments).certificate
    plain = _without(found.to_dict(), OF_THE_DAY)
    said = {key: plain[key] for key in WORDS if key in plain}
    return {**said, "terms": plain["terms"], "text": plain["statement"].splitlines()}


def _without(plain: Any, names: Sequence[str]) -> Any:
    if isinstance(plain, list):
        return [_without(part, names) for part in plain]
    if not isinstance(plain, dict):
        return plain
    found = {key: _without(part, names) for key, part in plain.items() if key not in names}
    if "statement" in found:  # its last line is the version and the day
        found["statement"] = found["statement"].rpartition("\nwritten ")[0]
    return found


def asked(**arguments: Any) -> Row:
    """The numbers that learners ask the noise of a run about."""
    return _asked(_assemble(arguments).privatizer, (40, 100, 1000))


def trial(**arguments: Any) -> Row:
    """A simulated trial."""
    found = tacit.trial(**arguments)
    interval = [found.low, found.high, found.verdict, found.truth]
    released = [found.released.sums, found.released.users]
    return {"released": released, "interval": interval, "certified": _certified(found.certificate)}


def learn(*, people: int, **arguments: Any) -> Row:
    """Learning from a log of so many people, seeded."""
    from tacit.randomness import SimulationNoise

    mapping = {
        "columns": {"person": "who", "episode": "stay", "step": "visit"},
        "states": [{"column": "fever", "edges": [38], "names": ["well", "sick"]}],
        "actions": {"column": "given", "categories": {"wait": ["wait"], "pill": ["pill"]}},
        "reward": {"column": "points", "low": 0.0, "high": 1.0},
        "horizon": 2,
    }
    rows = ["who,stay,visit,fever,given,points"]
    for who in range(people):
        for stay in range(1 + who % 3):
            for step in range(2):
                given = ("wait", "pill")[(who + stay + step) % 2]
                rows.append(f"{who},{stay},{step},{36 + (who + step) % 4},{given},{(who + stay) % 3 / 2}")
    with tempfile.TemporaryDirectory() as place:
        log = Path(place, "log.csv")
        log.write_text("\n".join(rows))
        noise = SimulationNoise(np.random.default_rng(5))
        found = tacit.learn(log, mapping, behaviour="known", fallback="wait", noise=noise, **arguments)
    return {
        "payloads": list(found.payloads),
        "policy": found.policy.policy.probabilities(2),
        "summary": found.summary,
        "certified": _certified(found.certificate),
    }


def _environment(arguments: Row) -> Any:
    """The environment of a run; `live fuse` is a world of the tests that has no table."""
    given = arguments["environment"]
    if given != "live fuse":
        return given
    sys.path.append(str(TESTS / "environments"))
    fuse = importlib.import_module("live_worlds").fuse
    return tacit.live(fuse, horizon=4, rewards=(-1.0, 1.0))


def _rest(arguments: Row) -> Row:
    return {key: value for key, value in arguments.items() if key != "environment"}


def _table(policy: Any, actions: int) -> Any:
    """The probabilities of a policy; one without a table by its own document."""
    from tacit.policies import policy_to_dict

    try:
        return policy.probabilities(actions)
    except (AttributeError, TypeError):
        return policy_to_dict(policy)


def _certified(found: Any) -> Row:
    """The numbers of a certificate, without its words."""
    return {
        "epsilon": found.epsilon,
        "delta": found.delta,
        "curve": found.curve,
        "holds": found.holds,
        "noise": [[family.name, family.std] for family in found.families],
    }


def _asked(offer: Any, sizes: Sequence[int]) -> Row:
    """What an offer of noise says about itself; what it does not have, or refuses, is told so."""
    from tacit.released.batches import BatchQuery
    from tacit.released.precision import now_radius, sum_radius

    found: Row = {}
    for name in ("noise_std", "precision", "count_precision", "sampling", "bit_noise"):
        found[name] = _told_or_refused(offer, name)
    log_term = 3.0
    if hasattr(found["precision"], "variance"):
        found["radius of sums"] = [sum_radius(found["precision"], i, 50.0, log_term) for i in range(4)]
    if hasattr(found["count_precision"], "scale"):
        variance = np.array([1.0, 4.0, 9.0])
        found["radius now"] = [now_radius(found["count_precision"], variance, i, log_term) for i in range(3)]
    for layer in (None, 0, 1):
        for users in sizes:
            for name, failure in (("batch_std", None), ("batch_precision", 0.1)):
                query = BatchQuery(layer=layer, failure_prob=failure)
                found[f"{name} {layer} {users}"] = _told_or_refused(offer, name, users, query)
    following = (*range(1, len(sizes)), 0)
    found["covariance"] = _told_or_refused(offer, "batch_covariance", sizes, following)
    return found


def _told_or_refused(offer: Any, name: str, *arguments: Any) -> Any:
    from tacit.errors import TacitError

    if not hasattr(offer, name):
        return "none"
    try:
        return getattr(offer, name)(*arguments)
    except TacitError:
        return "refused"


# Studies ----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _planned(key: str) -> Any:
    from tacit.study.design import plan_study

    arguments = json.loads(key)
    if arguments.get("support") is not None:
        arguments["support"] = tacit.make_environment(arguments["support"]).support
    if arguments.get("trial"):
        from tacit.study.trial import plan_trial

        return plan_trial(**{name: value for name, value in arguments.items() if name != "trial"})
    return plan_study(**arguments)


def _parts(arguments: Row) -> Any:
    return _planned(json.dumps(arguments)).parts()


def study_design(**arguments: Any) -> Row:
    """The design of a study as it is stored, without the version that made it."""
    return {key: value for key, value in _planned(json.dumps(arguments)).to_dict().items() if key != "version"}


def study_asked(**arguments: Any) -> Row:
    """The numbers that the learner of a study asks."""
    target = arguments.get("target", arguments.get("people"))
    return _asked(_parts(arguments).basis, (target, 2 * target))


def study_certificate(**arguments: Any) -> Row:
    """What a person is exposed to: the certificate's JSON, and a stage at least, realised and target people."""
    parts = _parts(arguments)
    found = _without(parts.certificate.to_dict(), (*OF_THE_DAY, *WORDS))
    return {"certificate": found, "stages": _stages(parts.channels, parts.claim.delta)}


def study_run(**arguments: Any) -> Row:
    """A seeded run: what devices send, what is handed out, and what is read from it."""
    from tacit.randomness import SimulationNoise

    parts = _parts(arguments)
    return _walked(parts.learner, parts.channels, SimulationNoise(np.random.default_rng(3)))


def study_bytes(**arguments: Any) -> Row:
    """The same from a fixed source of bytes in place of the operating system's."""
    parts = _parts(arguments)
    with _recorded("goldens") as (noise, used):
        found = _walked(parts.learner, parts.channels[:1], noise)
    return {**found, "random bytes used": used[0]}


def study_simulated(**arguments: Any) -> Row:
    """The noise of a study in a simulation that draws payloads at once."""
    parts = _parts(arguments)
    world = tacit.make_environment(f"riverswim:states={arguments['states']},horizon={arguments['horizon']}")
    episodes = sum(channel.target for channel in parts.channels)
    found = tacit.simulate(world, parts.learner, parts.privatizer, episodes=episodes, seed=2, speed="interpreted")
    return {"regret": found.regret, "changes": found.policy_changes}


def stages(*, sizes: list[list[int]], reports: int, overflow: float | None = None, **arguments: Any) -> Row:
    """Stages of several sizes, from the noise of a study: channels, exposure and what comes out."""
    from tacit.accounting.composition import epsilon_of
    from tacit.randomness import SimulationNoise
    from tacit.release.contract import StageSize

    parts = _parts({**arguments, "reports_per_person": reports})
    basis = parts.basis if overflow is None else dataclasses.replace(parts.basis, overflow=overflow)
    query = parts.channels[0].query
    channels = basis.channels([StageSize(target=target, least=least, query=query) for target, least in sizes])
    events, delta = basis.exposure(channels, reports), parts.claim.delta
    noise = SimulationNoise(np.random.default_rng(4))
    secret, memory, out = channels[0].begin_secret(), channels[0].begin_memory(), []
    for number, channel in enumerate(channels):
        bodies = [channel.encode(one, noise) for one in _people(channel.shape, channel.target, number)]
        secret, payload = channel.release(secret, bodies, query, noise)
        memory, private = channel.read(memory, payload, len(bodies))
        out.append({"bodies": b"".join(bodies), "payload": payload, "statistics": private.statistics})
    return {
        "channels": [channel.to_dict() for channel in channels],
        "exposure": [[_events(events), epsilon_of(events, delta)]],
        "stages": _stages(channels, delta),
        "released": out,
        "memory": memory,
    }


def losses(*, full: bool, reports: int, secure: bool) -> Row:
    """Adversarial losses in whole numbers: four users, one after the other."""
    from tacit.accounting.claims import PrivacyClaim, PrivacyUnit
    from tacit.data.trajectories import LossUser
    from tacit.randomness import SimulationNoise
    from tacit.release.loss_release import LossPlan
    from tacit.released.losses import LayeredShape

    claim = PrivacyClaim(
        trust="central",
        epsilon=1.0,
        delta=1e-6,
        unit=PrivacyUnit(reports=reports, per_stage=1),
        neighbours="replace-one",
        output="other-users-actions",
    )
    shape = LayeredShape(horizon=2, pairs=4, pair_of=(0, 0, 1, 1, 2, 3))
    basis = LossPlan(shape=shape, claim=claim, full=full, releases=4)
    channel, rng = basis.alone, np.random.default_rng(6)
    secret, memory, out = channel.begin_secret(), channel.begin_memory(), []
    seeded = contextlib.nullcontext((SimulationNoise(np.random.default_rng(7)), [0]))
    with _recorded("losses") if secure else seeded as (noise, _):
        for _ in range(4):
            pairs = np.array([rng.integers(2), 2 + rng.integers(2)])
            triples = np.array([2 * pairs[0] + rng.integers(2), 2 + pairs[1]])
            body = channel.encode(LossUser(pairs, triples, rng.random(4 if full else 2)), noise)
            secret, payload = channel.release(secret, [body], channel.query, noise)
            memory, private = channel.read(memory, payload, 1)
            out.append({"body": body, "payload": payload, "statistics": private.statistics})
    return {
        "channel": channel.to_dict(),
        "std": basis.noise_std(),
        "precision": basis.precision(),
        "stages": _stages([channel], claim.delta),
        "exposure": _events(basis.exposure([channel], reports)),
        "released": out,
        "memory": memory,
    }


def _events(events: Any) -> Any:
    return [[event.to_dict(), count] for event, count in events]


def _realised(channel: Any) -> int:
    """A number of people between the least and the target."""
    return int(max(channel.least, channel.target - 3))


def _stages(channels: Sequence[Any], delta: float) -> list[Row]:
    """What one report costs in every stage, by how many people report."""
    from tacit.accounting.composition import epsilon_of

    found, known = [], []
    for channel in channels:
        row: Row = {"size": [channel.target, channel.least, channel.questions, channel.body_size]}
        row["std"] = channel.noise_std()
        for name, people in (("least", channel.least), ("realised", _realised(channel)), ("target", channel.target)):
            events = channel.events_at(people)
            row[name] = {"people": people, "events": _events(events), "epsilon": epsilon_of(events, delta)}
        if row not in known:
            known.append(row)
            found.append(row)
    return found


def _people(shape: Any, count: int, seed: int) -> list[Any]:
    """Trajectories by dice, within a declared support; but for the last one, which breaks every bound."""
    from tacit.data.trajectories import Trajectory

    rng, found = np.random.default_rng([seed, 11]), []
    H, S, A = shape.horizon, shape.num_states, shape.num_actions
    support = getattr(shape, "support", None)
    for _ in range(count - 1):
        states = [int(rng.integers(S) if support is None else rng.choice(np.flatnonzero(support.starts)))]
        actions = rng.integers(0, A, H)
        for h in range(H):
            rows = None if support is None else support.moves[min(h, len(support.moves) - 1), states[-1], actions[h]]
            states.append(int(rng.integers(S) if rows is None else rng.choice(np.flatnonzero(rows))))
        found.append(Trajectory(np.array(states), actions, rng.random(H)))
    odd = np.resize([np.nan, 2.0, -1.0], H)
    return [*found, Trajectory(np.full(H + 1, 10**6), np.full(H, -1), odd)]


def _walked(learner: Any, channels: Sequence[Any], noise: Any) -> Row:
    """Learner, devices, collector and reader, stage by stage."""
    coins, belief, out, turn = np.random.default_rng(1), learner.begin(), [], 0
    secret, memory = channels[0].begin_secret(), channels[0].begin_memory()
    while turn < len(channels):
        belief, plan = learner.plan(belief, coins)
        if plan.query is None:
            continue
        channel, bodies = channels[turn], []
        for number in range(channel.questions):
            belief, query = learner.ask(belief, plan, number)
            if not bodies:
                bodies = _bodies(channel, query, turn, noise)
            secret, payload = channel.release(secret, bodies, query, noise)
            memory, private = channel.read(memory, payload, len(bodies))
            belief = learner.update(belief, private)
            out.append({"bodies": b"".join(bodies), "payload": payload, "statistics": private.statistics})
        turn += 1
    cover = channels[0].encode(None, noise) if not hasattr(channels[0], "answer") else None
    policy = _table(learner.policy(belief, plan.policy), learner.shape.num_actions)
    return {"released": out, "memory": memory, "cover": cover, "policy": policy}


def _bodies(channel: Any, query: Any, turn: int, noise: Any) -> list[bytes]:
    """What the devices of a stage send; bits about returns know their group."""
    if not hasattr(channel, "answer"):
        return [channel.encode(one, noise) for one in _people(channel.shape, _realised(channel), turn)]
    groups = [group for group, users in enumerate(query.groups) for _ in range(users)]
    people = _people(channel.shape, len(groups), turn)
    return [channel.answer(query, group, one, noise) for group, one in zip(groups, people, strict=True)]


@contextlib.contextmanager
def _recorded(seed: str) -> Iterator[tuple[Any, list[int]]]:
    """Secure noise whose bytes are those of a hash; how many were used."""
    from tacit.randomness import SecureNoise

    used = [0]

    def random_bytes(self: Any, count: int) -> bytes:
        del self
        start, used[0] = used[0], used[0] + count
        return hashlib.shake_256(f"{seed} {start}".encode()).digest(count)

    with mock.patch.object(SecureNoise, "random_bytes", random_bytes):
        yield SecureNoise(), used


# Wire ---------------------------------------------------------------------------------------------------------


def wire(*, vectors: str) -> Any:
    """The shared vectors of devices in other languages; those of devices made anew, others (sealed by lots) as kept."""
    if vectors != "device":
        return json.loads((TESTS / "vectors" / f"{vectors}.json").read_text(encoding="utf-8"))
    sys.path.append(str(TESTS / "vectors"))
    return importlib.import_module("make_device").made()


SUBJECTS: dict[str, Callable[..., Any]] = {
    "run": run,
    "certificate": certificate,
    "words": words,
    "asked": asked,
    "trial": trial,
    "learn": learn,
    "design": study_design,
    "offer": study_asked,
    "exposure": study_certificate,
    "seeded": study_run,
    "bytes": study_bytes,
    "simulated": study_simulated,
    "stages": stages,
    "losses": losses,
    "wire": wire,
}
"""What a row can be about."""
