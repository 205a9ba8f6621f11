"""The stage bundle: what a learner hands to everybody before a stage, as canonical JSON with a signature.

    format       "tacit-stage" and its version
    study        the digest of the design, and what devices need of it: names, horizon, bounds of rewards, claim
    stage        a number that only grows; `slot` is the stage of the design that it takes (null: nobody reports)
    question     0 for the question that devices answer; above it, the same people are asked again by the collector
    questions    how many questions the stage has
    query        what is asked (null: nothing)
    channel      how a report is made, with the exact numbers of its noise
    target       how many people are wanted; `least`: how many are needed
    policies     [[policy, [numerator, denominator]], ...]: everybody draws one with these weights, once per stage
    fallback     the policy to use when `kill` is true, and when a device refuses a bundle
    head         the place in the collector's ledger that the learner has seen
    previous     the digest of the bundle before this one
    features     the public declaration of people's rows (`tacit.Features`), only in studies over rows: policies are
                 linear, and a device encodes its row before it acts or reports
    sees         the public features of the states, only where the design declares some: policies and the channel are
                 over features, and a device looks its states up before it acts or encodes
    keys         only in sealed stages: the signed keys documents of the learner and, if there is one, the mixer; every
                 device of the stage seals to their active keys and to no others (Lemma M9 (sealed messages))
    signature    Ed25519; a bundle without one is "unsigned"

B1  A bundle is the same for everybody, and the same bytes whenever it is asked for.
B2  Reading knows every entry: an entry that is missing or unknown is refused, not ignored.
B3  `kill` means: use the fall-back policy and send nothing. Such a bundle has no query and no channel.

Queries as JSON: the public question of a stage, spelled out so that nothing has to be imported to read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np

from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.journal import Connection
from tacit.arrays import Ints
from tacit.documents import canonical, digest, parse_json
from tacit.errors import InvalidInput, UnknownName, require, require_count, require_real
from tacit.features import Features as RowFeatures
from tacit.policies import AnyPolicy, LinearPolicy, policy_from_dict
from tacit.protocol import Query, Totals
from tacit.release.contract import Release
from tacit.release.registry import channel_from_dict
from tacit.released.batches import BatchQuery
from tacit.released.counts import CountShape
from tacit.released.gradients import DoseQuery, SoftmaxQuery
from tacit.released.losses import LayeredShape, LossQuery
from tacit.released.moments import MomentQuery, MomentShape
from tacit.released.returns import Bit, ReturnQuery
from tacit.runs.signature import Signed, examine, sign
from tacit.study.contract import Design, Head
from tacit.study.declarations import Features, declared_features


def believed(bundle: bytes, design: Design, claim: PrivacyClaim, pinned: Path | None) -> Bundle:
    """A bundle of this study that asks what the design says, signed by the pinned key if there is one."""
    asked = Bundle.parse(bundle)
    require(asked["study"] == design.digest, "a bundle must be of this study", "another study")
    signed = asked.examined(pinned)
    forged = asked.content.get("signature") is not None and not signed.valid
    require(not forged, "a bundle must have a signature that fits", signed.words)
    require(pinned is None or signed.pinned, "a bundle must be signed by the pinned key", signed.words)
    require(not asked["kill"], "a study that was ended must not be opened", "a bundle that ends it")
    require(asked.channel is not None, "a stage must ask something to be collected", "a bundle that asks nothing")
    slot = asked["slot"]
    fits = slot < len(design.channels) and design.channels[slot] == asked["channel"]
    require(fits, "a bundle must ask by the channel of its design", "another channel")
    same = asked.sees == design.sees and asked.features == design.features
    require(same, "a bundle must have the features of its design", "others")
    require(asked.claim == claim, "a bundle must make the claim of its design", "another claim")
    return asked


def last_stage(connection: Connection, *states: str) -> tuple[int, int, int, Any]:
    """(number, slot, questions, n) of the last stage, if it is in one of these states."""
    row = connection.execute(
        "SELECT number, slot, questions, n, state FROM stage ORDER BY number DESC LIMIT 1"
    ).fetchone()
    state = "none" if row is None else row[4]
    require(state in states, f"the last stage must be {' or '.join(states)}", state)
    return row[0], row[1], row[2], row[3]


def begin_stage(connection: Connection, asked: Bundle) -> None:
    """The next stage, when the last one has ended."""
    last = connection.execute("SELECT number, state FROM stage ORDER BY number DESC LIMIT 1").fetchone()
    if last is not None:
        require(last[1] in ("released", "void"), "the stage before must have ended", f"stage {last[0]}: {last[1]}")
        require(asked["stage"] > last[0], f"a stage must come after stage {last[0]}", asked["stage"])
    slot = asked["slot"]
    done = connection.execute("SELECT 1 FROM stage WHERE slot = ? AND state = 'released'", (slot,)).fetchone()
    require(done is None, "what was released must not be collected again", f"slot {slot}")
    connection.execute(
        "INSERT INTO stage (number, slot, questions, state) VALUES (?, ?, ?, 'open')",
        (asked["stage"], slot, asked["questions"]),
    )


def require_next_question(connection: Connection, asked: Bundle) -> None:
    """The next question about people who have reported: after the one before it was released."""
    stage, slot, questions, _ = last_stage(connection, "closed")
    same = (stage, slot, questions) == (asked["stage"], asked["slot"], asked["questions"])
    require(same, "the next question must be about the stage that is closed", "another stage")
    done = connection.execute("SELECT count(*) FROM outbox WHERE stage = ?", (stage,)).fetchone()[0]
    require(asked["question"] == done, f"the next question must be number {done}", asked["question"])


QUERIES: Final[Mapping[str, type[Any]]] = {
    "totals": Totals,
    "batch": BatchQuery,
    "softmax": SoftmaxQuery,
    "doses": DoseQuery,
    "losses": LossQuery,
    "moments": MomentQuery,
    "returns": ReturnQuery,
}
"""Queries by name."""


def query_to_dict(query: Query) -> dict[str, Any]:
    """JSON-ready values; `query_from_dict` gives every bit back.

    >>> query_to_dict(BatchQuery(layer=2, failure_prob=None))
    {'kind': 'batch', 'layer': 2, 'failure_prob': None}
    """
    kind = next((name for name, known in QUERIES.items() if type(query) is known), None)
    if kind is None:
        raise InvalidInput(f"a query must be one of {', '.join(QUERIES)}, got {type(query).__name__}")
    return {"kind": kind, **{name: _plain(getattr(query, name)) for name in _names(QUERIES[kind])}}


def query_from_dict(plain: Mapping[str, Any]) -> Any:
    """The query that `query_to_dict` wrote; anything missing or unknown is an error.

    >>> query_from_dict({"kind": "totals", "every": 0}) == Totals()
    True
    """
    name = plain.get("kind")
    if not isinstance(name, str) or name not in QUERIES:
        raise UnknownName("kind of query", str(name), QUERIES)
    names = _names(QUERIES[name])
    require(set(plain) == {"kind", *names}, f"a {name} query has the entries {', '.join(names)}", len(plain))
    return QUERIES[name](**{entry: _value(plain[entry]) for entry in names})


def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else tuple(kind._fields)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        require(value.dtype == np.float64, "arrays of a query must be of floats", value.dtype.name)
        require(bool(np.isfinite(value).all()), "arrays of a query must be finite", "other values")
        return {"shape": list(value.shape), "values": value.ravel().tolist()}
    return list(value) if isinstance(value, tuple) else value


def _value(plain: Any) -> Any:
    if isinstance(plain, list):
        whole = all(type(one) is int for one in plain)
        require(whole, "a list of a query must be made of whole numbers", "others")
        return tuple(plain)
    if not isinstance(plain, Mapping):
        known = plain is None or isinstance(plain, bool | int | float) or plain in get_args(Bit)
        require(known, "a query must be made of numbers", "others")
        return plain
    require(set(plain) == {"shape", "values"}, "an array of a query has a shape and values", len(plain))
    try:
        values = np.array(plain["values"], dtype=np.float64)
        return values.reshape([int(size) for size in plain["shape"]])
    except (TypeError, ValueError) as error:
        raise InvalidInput("an array of a query must have as many numbers as its shape says") from error


FORMAT: Final = "tacit-stage"
VERSION: Final = 1
LARGEST_BUNDLE: Final = 64 * 2**20
ENTRIES: Final = frozenset(
    (
        *("format", "version", "study", "name", "states", "actions", "horizon", "rewards", "claim"),
        *("stage", "slot", "question", "questions", "query", "channel", "target", "least", "policies", "fallback"),
        *("kill", "head", "previous"),
    )
)
OPTIONAL: Final = frozenset(("sees", "features", "keys", "signature"))
SEALED: Final = ((), ("learner",), ("learner", "mixer"))
"""Whose keys a bundle has, by the number of layers that messages are sealed in."""


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """A bundle that was read: its entries are there, have their types and belong together."""

    content: Mapping[str, Any]
    claim: PrivacyClaim
    head: Head
    channel: Release | None
    query: Any
    arms: tuple[tuple[AnyPolicy, Fraction], ...]
    fallback: AnyPolicy
    sees: Features | None
    """What policies and channel see of the states; None: the states themselves."""
    features: RowFeatures | None
    """The declaration of people's rows; None: they are in states."""

    @classmethod
    def make(cls, content: Mapping[str, Any], key: Path | None) -> bytes:
        """The bytes of a bundle with these entries (B1), signed if there is a key."""
        whole = {"format": FORMAT, "version": VERSION, **content}
        data = canonical(whole if key is None else sign(whole, key))
        cls.parse(data)  # nobody is handed what nobody would take
        return data

    @classmethod
    def parse(cls, data: bytes) -> Bundle:
        """The bundle in these bytes (B2); the same bytes are read once per process."""
        return _parsed(bytes(data))

    @classmethod
    def _read(cls, data: bytes) -> Bundle:
        require(len(data) <= LARGEST_BUNDLE, f"a bundle must have at most {LARGEST_BUNDLE} bytes", len(data))
        content = parse_json(data, "a bundle")
        known = isinstance(content, dict) and content.get("format") == FORMAT and content.get("version") == VERSION
        require(known, f"a bundle must be a {FORMAT} of version {VERSION}", "something else")
        unknown = sorted(set(content) - ENTRIES - OPTIONAL)
        require(not unknown, "a bundle must have no unknown entries", f"{len(unknown)} of them", "update tacit")
        missing = sorted(ENTRIES - set(content))
        require(not missing, "a bundle must be complete", f"no {', '.join(missing)}")
        try:
            require(canonical(content) == data, "a bundle must be canonical JSON", "another spelling of it")
            return cls._checked(content)
        except InvalidInput:
            raise
        except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"a bundle must be well-formed: {type(error).__name__}") from error

    @classmethod
    def _checked(cls, content: Mapping[str, Any]) -> Bundle:
        for name in ("stage", "question"):
            require_count(f"{name} of a bundle", content[name], least=0)
        questions = require_count("questions of a bundle", content["questions"])
        require(content["question"] < questions, f"the question must be below {questions}", content["question"])
        horizon = require_count("horizon of a bundle", content["horizon"])
        for name in ("states", "actions"):
            names = content[name]
            text = isinstance(names, list) and all(isinstance(one, str) for one in names) and names
            require(bool(text) and len(set(names)) == len(names), f"{name} must be different names", "others")
        low, high = (require_real("bounds of rewards", bound) for bound in content["rewards"])
        require(low < high, "rewards must have two bounds, the lower one first", (low, high))
        sees = declared_features(Features.from_dict(content["sees"]), content["states"]) if "sees" in content else None
        asked = content["query"] is not None
        for name in ("channel", "slot", "target", "least"):
            require((content[name] is not None) == asked, f"a bundle has a {name} where it has a query", "otherwise")
        require(isinstance(content["kill"], bool), "kill must be true or false", "something else")
        require(not (content["kill"] and asked), "a bundle that ends a study must ask nothing", "a query")
        features = RowFeatures.from_dict(content["features"]) if "features" in content else None
        one = features is None or (horizon == 1 and len(content["states"]) == 1 and sees is None)
        require(one, "a bundle over rows of features must have one state and one step", "others")
        sizes = (horizon, len(content["states"] if sees is None else sees.names), len(content["actions"]))
        claim = PrivacyClaim.from_dict(content["claim"])
        query = query_from_dict(content["query"]) if asked else None
        channel = None
        if asked:
            require_count("slot of a bundle", content["slot"], least=0)
            channel = channel_from_dict(content["channel"])
            same = channel.target == content["target"] and channel.least == content["least"]
            same = same and channel.questions == questions and type(channel.query) is type(query)
            require(same, "sizes and questions of a bundle must be those of its channel", "others")
            require(channel.claim == claim, "the claim of a bundle must be that of its channel", "another")
            _require_shape(channel, sizes, features)
        if "keys" in content:
            keys, sealed = content["keys"], channel is not None and channel.TRUST == "shuffle"
            whole = sealed and tuple(sorted(keys)) in SEALED[1:] and all(isinstance(keys[one], dict) for one in keys)
            require(whole, "keys must be those of learner, or learner and mixer, under shuffle trust", "others")
        arms = tuple((_policy(plain, sizes, features), Fraction(*weight)) for plain, weight in content["policies"])
        whole = bool(arms) and all(weight > 0 for _, weight in arms) and sum(weight for _, weight in arms) == 1
        require(whole, "the weights of a bundle's policies must be positive and add up to 1", "others")
        if isinstance(query, ReturnQuery):
            groups = len(query.groups)
            require(len(arms) == groups, "a question about groups must come with one policy for every group", len(arms))
        for name in ("study", "previous"):
            require(len(bytes.fromhex(content[name])) == 32, f"{name} must be a SHA-256 digest", "something else")
        return cls(
            content=content,
            claim=claim,
            head=Head.from_text(content["head"]),
            channel=channel,
            query=query,
            arms=arms,
            fallback=_policy(content["fallback"], sizes),
            sees=sees,
            features=features,
        )

    def __getitem__(self, name: str) -> Any:
        return self.content[name]

    @property
    def rows(self) -> tuple[str, ...]:
        """The names of what policies are tables over: features where they are declared, else states."""
        return tuple(self.content["states"]) if self.sees is None else self.sees.names

    def seen(self, states: Ints) -> Ints:
        """What policies and the channel see of states: their features where some are declared, else the states."""
        return states if self.sees is None else self.sees.seen(states)

    @property
    def keys(self) -> Mapping[str, bytes]:
        """Party -> its signed keys document, not yet believed; empty where nothing is sealed."""
        return {party: canonical(document) for party, document in self.content.get("keys", {}).items()}

    def require_keys(self, layers: int) -> None:
        """Raise unless the bundle has the keys of a stage whose messages are sealed in so many layers."""
        expected, found = " and ".join(SEALED[layers]) or "nobody", " and ".join(sorted(self.keys)) or "none"
        hint = "plan the stage with them; one that tacit 0.8 planned has none: give it up, and plan it again"
        require(len(self.keys) == layers, f"a bundle must have the keys of {expected} for its stage", found, hint)

    @property
    def study(self) -> bytes:
        """The digest of the design."""
        return bytes.fromhex(self.content["study"])

    @property
    def digest(self) -> str:
        """The digest by which the next bundle names this one; it does not depend on the signature."""
        return digest(self.content)

    def examined(self, pinned: Path | None) -> Signed:
        """What the signature is worth to a reader who has pinned this public key, or none."""
        return examine(self.content, pinned)


def _require_shape(channel: Release, sizes: tuple[int, int, int], features: RowFeatures | None) -> None:
    """The channel must count what policies see."""
    shape = getattr(getattr(channel, "statistic", channel), "shape", None)
    if features is not None:
        wanted = MomentShape(features=features.dimension, actions=sizes[2], shared=False)
        require(shape == wanted, "the shape of a channel must be that of the features of its bundle", "another")
        return
    require(not isinstance(shape, MomentShape), "a bundle that asks for moments must declare features", "none")
    if isinstance(shape, CountShape):
        found = (shape.horizon, shape.num_states, shape.num_actions)
    elif isinstance(shape, LayeredShape):
        found = shape.steps
    else:
        return
    require(found == sizes, f"the shape of a channel must be that of its bundle, {list(sizes)}", list(found))


def _policy(plain: Mapping[str, Any], sizes: tuple[int, int, int], features: RowFeatures | None = None) -> AnyPolicy:
    """A policy that fits the names and the horizon of its bundle."""
    policy = policy_from_dict(plain)
    horizon, states, actions = sizes
    if isinstance(policy, LinearPolicy):
        known = None if features is None else (actions, features.dimension)
        fits = policy.actions == actions and policy.coefficients.shape[1:] == known
        require(fits, "a linear policy must have a coefficient for every action and feature of its bundle", "others")
        return policy
    probabilities = getattr(policy, "probabilities", None)
    if probabilities is None:
        return policy
    shape = probabilities(actions).shape
    require(shape == (horizon, states, actions), f"a policy must have the shape {list(sizes)}", list(shape))
    return policy


@lru_cache(maxsize=2)
def _parsed(data: bytes) -> Bundle:
    return Bundle._read(data)
