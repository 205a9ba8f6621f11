"""The study: the learner's side, with belief, plans and bundles in one database. Bundles leave and releases come.

    plan() -> bundle            take(release)            ... until nobody is asked any more

L1  A stage has one bundle: `plan` makes it once and returns the same bytes whenever it is asked.
L2  `take` is one transaction: the release's bytes, the belief, the coins and the public memory change together.
L3  Believed is what fits: the study, the stage, the question, the size, a ledger that only grows and, where the key of
    the collector is pinned, its signature. Another release for a question that was taken is refused.
L4  Between two steps everything is bytes; a study that is put down and taken up plans bit for bit the same policies.
L5  A release whose counts contradict themselves is quarantined: it was released and paid, and is not used.
L6  `kill` is final: the next bundle says so, devices fall back to the public policy and send nothing.
L7  A sealed study (`tacit.study.sealed_batches`) is told with a release what its batch was opened to; both are kept,
    and what was opened is read where an unsealed study reads the payload. One without the other is refused.
    The bundle of a sealed stage holds the keys that its messages are sealed to: other keys, after a rotation, come with
    the next stage.
L8  A study that gave a stage up which the collector released does not get stuck: it takes the release and skips it.

The issuing of bundles: their entries, the chain that they make, and where they are kept.

What a study asks of a release before it is believed, and what becomes of one whose stage was given up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import numpy as np

from tacit.accounting.certificate import Certificate
from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.journal import Connection
from tacit.arguments import checked
from tacit.arrays import Floats
from tacit.documents import canonical
from tacit.errors import InvalidInput, require
from tacit.learners.contract import PlanningLearner
from tacit.learners.linear import LinearBatches
from tacit.planning.linear_posterior import linear_intervals
from tacit.planning.loss_budget import Standing
from tacit.policies import AnyPolicy, DeterministicPolicy, LayeredPolicy, LinearPolicy, policy_to_dict
from tacit.protocol import Plan
from tacit.randomness import seed_streams
from tacit.release.contract import Release
from tacit.release.returns import ReturnRelease
from tacit.released.moments import MomentQuery
from tacit.runs.storage_paths import write_whole, writing_to
from tacit.study import contract as study_parts
from tacit.study.bundle import Bundle, query_to_dict
from tacit.study.contract import (
    GENESIS_HEAD,
    Design,
    Head,
    Parts,
    certificate_under,
    packages_of,
    parts_of,
    rung_of,
    usable_key,
)
from tacit.study.databases import database_at
from tacit.study.declarations import support_of
from tacit.study.flow import IMPOSSIBLE, broken_flow
from tacit.study.sealed_batches import Manifest, require_layers, require_opened
from tacit.study.state import LearnerState, keep
from tacit.study.store import Database, Failpoint, no_failpoint
from tacit.study.wire import ReleasePayload, sha256


def issue(
    connection: Connection,
    design: Design,
    claim: PrivacyClaim,
    key: Path | None,
    *,
    stage: int,
    policies: list[Any],
    content: dict[str, Any],
) -> bytes:
    """Make a bundle of these entries, after the last one, and keep it; without a query it asks nothing."""
    before = connection.execute("SELECT digest FROM bundle ORDER BY stage DESC, question DESC LIMIT 1").fetchone()
    nothing = dict.fromkeys(("slot", "query", "channel", "target", "least"))
    whole = {
        "study": design.digest,
        "name": design.name,
        "states": list(design.states),
        "actions": list(design.actions),
        "horizon": design.horizon,
        "rewards": [float(bound) for bound in design.rewards],
        "claim": claim.to_dict(),
        "stage": stage,
        "question": 0,
        "questions": 1,
        **nothing,
        "policies": policies,
        "fallback": dict(design.fallback),
        "kill": False,
        "head": last_head(connection).text,
        "previous": GENESIS_HEAD.digest.hex() if before is None else before[0],
        **({} if design.sees is None else {"sees": design.sees.to_dict()}),
        **({} if design.features is None else {"features": design.features.to_dict()}),
        **content,
    }
    data = Bundle.make(whole, key)
    made = Bundle.parse(data)
    connection.execute("INSERT INTO bundle VALUES (?, ?, ?, ?)", (stage, made["question"], data, made.digest))
    return data


def handed(policy: AnyPolicy, horizon: int) -> dict[str, Any]:
    """A policy as devices take it: one of a layered world as the table of the steps that it was unrolled from."""
    return policy_to_dict(policy.over_steps(horizon) if isinstance(policy, LayeredPolicy) else policy)


def weighted(plan: Plan[Any], horizon: int) -> list[Any]:
    """The policies of a plan with their exact weights; of a linear policy with several draws a person takes one."""
    if isinstance(plan.query, MomentQuery) and plan.query.lots:
        lots = range(cast("LinearPolicy", plan.policy).actions)  # a person's lot is the policy that is drawn
        return [[policy_to_dict(DeterministicPolicy(np.array([[lot]]))), [1, len(lots)]] for lot in lots]
    if isinstance(plan.policy, LinearPolicy) and not plan.groups:
        draws = plan.policy.each()
        return [[policy_to_dict(draw), [1, len(draws)]] for draw in draws]
    users = plan.users or 1
    arms = plan.arms(users) if plan.groups else ((plan.policy, users),)
    return [[handed(policy, horizon), [int(count), int(users)]] for policy, count in arms if count > 0]


def kept_bundle(connection: Connection, stage: int, question: int) -> bytes:
    """The bundle of a question, or nothing."""
    row = connection.execute("SELECT bytes FROM bundle WHERE stage = ? AND question = ?", (stage, question)).fetchone()
    return b"" if row is None else bytes(row[0])


def last_head(connection: Connection) -> Head:
    """The commit of the last release in the collector's ledger."""
    row = connection.execute("SELECT bytes FROM release ORDER BY charge DESC LIMIT 1").fetchone()
    return GENESIS_HEAD if row is None else ReleasePayload.parse(bytes(row[0])).head


class ExpectedRelease(NamedTuple):
    """The stage that a release belongs to."""

    questions: int
    slot: int
    given_up: bool


def used(connection: Connection, stage: int) -> int:
    """How many releases of a stage were learned from."""
    row = connection.execute("SELECT count(*) FROM belief WHERE kind = 'take' AND stage = ?", (stage,)).fetchone()
    return int(row[0])


def expected(
    connection: Connection, design: Design, channels: Sequence[Release], given: ReleasePayload
) -> ExpectedRelease:
    """The stage that waits for this very release: the open one, or one that was given up while it was released."""
    row = connection.execute("SELECT slot, questions, state FROM stage WHERE number = ?", (given.stage,)).fetchone()
    slot, questions, state = (-1, 0, "none") if row is None else row
    known = state in ("open", "void")
    require(known, "a release must be of the open stage, or of one that was given up", given.stage)
    question = used(connection, given.stage)
    require(given.question == question, f"a release must be of question {question}", given.question)
    require(kept_bundle(connection, given.stage, question) != b"", "a question must be asked before", "no bundle")
    channel = channels[slot]
    fits = channel.least <= given.people <= channel.target
    require(fits, f"a release must be of {channel.least} to {channel.target} people", given.people)
    stands = rung_of(design.ladder, given.people) == given.people
    require(stands, "a release must have a size of the design's ladder", given.people)
    return ExpectedRelease(questions, slot, state == "void")


def store_release(connection: Connection, given: ReleasePayload, data: bytes, opened: bytes | None) -> None:
    """Keep the bytes of a release whose ledger has grown (L3), and what it was opened to (L7)."""
    last = last_head(connection).number
    charge = given.charge.number
    require(charge > last, f"a release must be charged after record {last}", charge)
    names = ("stage", "question", "bytes", "digest", "charge", "people", "noise", "opened")
    connection.execute(
        f"INSERT INTO release ({', '.join(names)}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - constants
        (given.stage, given.question, data, sha256(data).hex(), charge, given.people, given.noise, opened),
    )


def give_up_asking(connection: Connection) -> None:
    """Give the open stage up, whose bundle does not name the release of a stage before it: no collector opens it."""
    connection.execute(
        """UPDATE stage SET state = 'void', reason = 'planned before a release of an earlier stage'
           WHERE state = 'open' AND NOT EXISTS (SELECT 1 FROM release WHERE release.stage = stage.number)"""
    )


__all__ = ["DESIGN", "Study"]

DESIGN = "design.json"
"""The public design, written out for the other parties."""


class Study:
    """A study in a directory, as its learner sees it: plans stages, learns from releases. `Study.new` begins one.

    Parameters
    ----------
    directory, database
        Where it is kept; the database is a file in the directory unless another one is named (postgresql://...).
    key, collector
        The private key that signs bundles, and the pinned public key of releases.
    edge
        Where a test lets it fail.
    """

    @checked
    def __init__(
        self,
        directory: str | Path,
        *,
        key: str | Path | None = None,
        collector: str | Path | None = None,
        edge: Failpoint = no_failpoint,
        database: str | Database | None = None,
    ) -> None:
        self.directory = Path(directory)
        self.store = database_at(self.directory, database).open("study", edge=edge)
        self.key = usable_key(key)
        self.collector = None if collector is None else Path(collector)
        with self.store.reading() as connection:
            meta = dict(connection.execute("SELECT name, value FROM meta").fetchall())
        self.design: Design = study_parts.stored_design(meta)
        self.study = bytes.fromhex(self.design.digest)
        self.layers = int(meta.get("sealed", 0))
        """How many layers messages are sealed in; 0: they are not."""
        self._parts: Parts | None = None

    @classmethod
    def new(
        cls,
        directory: str | Path,
        design: Design,
        *,
        key: str | Path | None = None,
        collector: str | Path | None = None,
        seed: int | None = None,
        sealed: int = 0,
        edge: Failpoint = no_failpoint,
        database: str | Database | None = None,
    ) -> Self:
        """Begin a study; the learner's coins come from the operating system unless there is a seed.

        `sealed` is how many layers messages are sealed in (L7), the same number as the collector's.
        """
        usable_key(key)
        parts = parts_of(design)
        layers = require_layers(parts.channels, sealed)
        rng = np.random.default_rng() if seed is None else seed_streams(seed).learner
        memory = parts.channels[0].begin_memory()
        mind = LearnerState(belief=parts.learner.begin(), plan=None, memory=memory, rng=rng)

        def first(connection: Connection) -> None:
            connection.execute("INSERT INTO meta VALUES ('design', ?)", (canonical(design.to_dict()).decode(),))
            connection.execute("INSERT INTO meta VALUES ('sealed', ?)", (str(layers),))
            keep(connection, "begin", None, None, mind)

        where = database_at(Path(directory), database)
        where.create("study", edge=edge, first=first)
        with writing_to(Path(directory)):
            Path(directory).mkdir(parents=True, exist_ok=True)
            write_whole(Path(directory) / DESIGN, canonical(design.to_dict()) + b"\n")
        return cls(directory, key=key, collector=collector, edge=edge, database=where)

    @property
    def parts(self) -> Parts:
        """Learner, channels and certificate, derived from the design."""
        if self._parts is None:
            self._parts = parts_of(self.design)
        return self._parts

    # plan and take

    def plan(self, keys: Mapping[str, bytes] | None = None) -> bytes:
        """The bundle of the present question: made once (L1).

        `keys`, party -> signed keys document, are for a new stage of a sealed study (L7).
        """
        parts = self.parts
        with self.store.step("plan") as connection:
            last = connection.execute("SELECT number, slot, state FROM stage ORDER BY number DESC LIMIT 1").fetchone()
            number, slot, state = (-1, -1, "new") if last is None else last
            ended = connection.execute("SELECT value FROM meta WHERE name = 'killed'").fetchone()
            if ended is not None and state != "killed":
                return self._end(connection, number + 1)
            if state in ("served", "killed"):
                return kept_bundle(connection, number, 0)
            if state == "open":
                question = self._question(connection, number)
                there = kept_bundle(connection, number, question)
                return there or self._ask(connection, parts, number, slot, question, keys or {})
            return self._next(connection, parts, number + 1, keys or {}, retry=state == "void")

    def take(self, release: bytes, *, opened: bytes | None = None, inspected: bool = False) -> str:
        """Take a release in (L2): "taken", "again" if it was, "quarantined" (L5) if its counts contradict themselves.

        A release of a stage that was given up here, while the collector released it, is "skipped" (L8): its place in
        the ledger counts as seen, nothing is learned from it, and the next stage is planned anew.
        `opened` is the histogram that a sealed release was opened to (L7); it need not be said again.
        `inspected=True` uses a release that was quarantined, on the word of whoever looked into it.
        """
        parts, given = self.parts, ReleasePayload.parse(release)
        self._require_believable(given)
        with self.store.step("take") as connection:
            place = (given.stage, given.question)
            known = connection.execute(
                "SELECT bytes, opened FROM release WHERE stage = ? AND question = ?", place
            ).fetchone()
            held = connection.execute("SELECT 1 FROM quarantine WHERE stage = ? AND question = ?", place).fetchone()
            done = connection.execute(
                "SELECT kind FROM belief WHERE kind IN ('take', 'void') AND stage = ? AND question = ?", place
            ).fetchone()
            require(known is None or known[0] == release, "a question has one release", "another one")
            same = known is None or opened is None or known[1] == opened
            require(same, "a release must have been opened to one histogram", "another one")
            if done is not None:
                return "again" if done[0] == "take" else "skipped"
            if known and held and not inspected:
                return "quarantined"
            questions, slot, given_up = expected(connection, self.design, parts.channels, given)
            counted = self._opened(given, slot, opened, None if known is None else known[1])
            if known is None:
                store_release(connection, given, release, counted)
                self.store.edge("take:stored")
            if given_up:
                self._skip(connection, given.stage, slot)
                give_up_asking(connection)
                return "skipped"
            mind = self._mind(connection)
            channel = parts.channels[slot]
            try:
                memory, found = channel.read(mind.memory, counted or given.payload, given.people)
            except InvalidInput:
                # Sealed messages are checked by nobody before they are opened: what they add up to may be impossible.
                if counted is None or inspected:
                    raise
                finding: str | None = IMPOSSIBLE
            else:
                layer, support = getattr(channel.query, "layer", None), support_of(channel)
                finding = broken_flow(found.statistics, self.design.trust, layer, support)
            if finding is not None and not inspected:
                connection.execute("INSERT INTO quarantine VALUES (?, ?, ?)", (*place, finding))
                return "quarantined"
            belief = parts.learner.update(mind.belief, found)
            self.store.edge("take:learned")
            after = LearnerState(belief=belief, plan=mind.plan, memory=memory, rng=mind.rng)
            keep(connection, "take", *place, after)
            if given.question == questions - 1:
                connection.execute("UPDATE stage SET state = 'released' WHERE number = ?", (given.stage,))
        return "taken"

    def void(self, reason: str = "given up") -> None:
        """The collector gave the open stage up: the next plan is the same one, for other people, under a new number.

        With a loss budget it is a new one, which counts what the people of the stage may have lost.
        If the collector has released it all the same, `take` that release: it is skipped, and the study goes on (L8).
        """
        require(isinstance(reason, str) and 0 < len(reason) <= 200, "a reason must have 1 to 200 characters", "another")
        with self.store.step("void") as connection:
            row = connection.execute("SELECT number, state, slot FROM stage ORDER BY number DESC LIMIT 1").fetchone()
            require(row is not None and row[1] == "open", "a stage must be open to be given up", row and row[1])
            self._skip(connection, *row[::2])
            connection.execute("UPDATE stage SET state = 'void', reason = ? WHERE number = ?", (reason, row[0]))

    def kill(self, reason: str = "ended") -> None:
        """End the study for good (L6)."""
        require(isinstance(reason, str) and 0 < len(reason) <= 200, "a reason must have 1 to 200 characters", "another")
        with self.store.step("kill") as connection:
            connection.execute("INSERT INTO meta VALUES ('killed', ?) ON CONFLICT DO NOTHING", (reason,))

    # what can be known

    def made(self) -> bytes:
        """The bundle that `plan` would return without making one, if there is one."""
        with self.store.reading() as connection:
            row = connection.execute("SELECT number, state FROM stage ORDER BY number DESC LIMIT 1").fetchone()
            number, state = (-1, "new") if row is None else row
            ended = connection.execute("SELECT 1 FROM meta WHERE name = 'killed'").fetchone()
            if (ended and state != "killed") or state not in ("open", "served", "killed"):
                return b""
            return kept_bundle(connection, number, used(connection, number) if state == "open" else 0)

    @property
    def head(self) -> Head:
        """The last place in the collector's ledger that was seen, quarantined releases included."""
        with self.store.reading() as connection:
            return last_head(connection)

    def status(self) -> dict[str, Any]:
        """Where the study is."""
        with self.store.reading() as connection:
            rows = connection.execute("SELECT number, slot, questions, state, reason FROM stage ORDER BY number")
            stages = [
                dict(zip(("stage", "slot", "questions", "state", "reason"), row, strict=True))
                for row in rows.fetchall()
            ]
            taken = connection.execute("SELECT stage, question, people, noise FROM release ORDER BY charge").fetchall()
            held = connection.execute("SELECT stage, question, finding FROM quarantine").fetchall()
            ended = connection.execute("SELECT stage, question FROM belief WHERE kind IN ('take', 'void')")
            done = {tuple(row) for row in ended.fetchall()}
            killed = connection.execute("SELECT value FROM meta WHERE name = 'killed'").fetchone()
            head = last_head(connection)
        waiting = [list(row) for row in held if tuple(row[:2]) not in done]
        state = "ended" if killed else "quarantined" if waiting else stages[-1]["state"] if stages else "new"
        return {
            "study": self.design.digest,
            "name": self.design.name,
            "trust": self.design.trust,
            "declared": self.design.declarations,
            "state": state,
            "slots": len(self.design.channels),
            "stages": stages,
            "releases": [dict(zip(("stage", "question", "people", "noise"), row, strict=True)) for row in taken],
            "quarantined": waiting,
            "head": head.text,
        }

    def policy(self) -> AnyPolicy:
        """What has been learned so far: the policy of the last plan, or what the belief holds since."""
        with self.store.reading() as connection:
            return self.policy_of(self._mind(connection))

    def policy_of(self, mind: LearnerState) -> AnyPolicy:
        """The policy in a state of its learner."""
        require(mind.plan is not None, "a study must have planned a stage to have a policy", "none", "plan first")
        planned = None if mind.plan is None else mind.plan.policy
        found = self.parts.learner.policy(mind.belief, planned)
        return found.over_steps(self.design.horizon) if isinstance(found, LayeredPolicy) else found

    def coefficients(self, z: float) -> tuple[Floats, Floats] | None:
        """Coefficients [A,d] of features and their intervals [A,d,2] of z deviations, of rewards between 0 and 1.

        None in a study over states, and before there is a release. NaN: not told apart from noise.
        """
        learner, space = self.parts.learner, self.design.features
        if not isinstance(learner, LinearBatches) or space is None or not self.status()["releases"]:
            return None
        with self.store.reading() as connection:
            belief = self._mind(connection).belief
        return learner.posterior(belief).mean, linear_intervals(*learner.sums(belief), span=space.span(), z=z)

    def standing(self) -> Standing | None:
        """What the releases prove against the baseline; None without a loss budget."""
        learner = self.parts.learner
        if self.design.budget is None or not isinstance(learner, PlanningLearner):
            return None
        with self.store.reading() as connection:
            return learner.standing(self._mind(connection).belief)

    def certificate(self) -> Certificate:
        """What the accountant finds; its noise is secure if that of every release was."""
        sources = {row["noise"] for row in self.status()["releases"]}
        return certificate_under(self.parts.certificate, "simulation" if "simulation" in sources else "secure")

    # inside of transactions

    def _require_believable(self, given: ReleasePayload) -> None:
        """Refuse what is of another study, or not of the collector that was pinned (L3)."""
        require(given.study == self.study, "a release must be of this study", "another study")
        signed = given.examined(self.collector)
        require(signed.valid or not given.signature, "a release must have a signature that fits", signed.words)
        require(self.collector is None or signed.pinned, "a release must be signed by the pinned key", signed.words)

    def _opened(self, given: ReleasePayload, slot: int, opened: bytes | None, kept: bytes | None) -> bytes | None:
        """What a sealed release was opened to, if it belongs to its manifest; None where nothing is sealed (L7)."""
        if not self.layers:
            require(opened is None, "a study that is not sealed reads its releases itself", "an opened batch")
            return None
        channel, manifest = self.parts.channels[slot], Manifest.parse(given.payload)
        manifest.require_fits(channel, given.people, self.layers)
        found = opened if kept is None else bytes(kept)
        hint = "open its batch and hand over the histogram"
        require(found is not None, "a release of a sealed study must come with what its batch holds", "nothing", hint)
        return require_opened(channel, found or b"", manifest)

    def _skip(self, connection: Connection, stage: int, slot: int) -> None:
        """A release of a stage that is given up: not learned from, but later ones may need its bytes."""
        question = used(connection, stage)
        row = connection.execute(
            "SELECT bytes, opened FROM release WHERE stage = ? AND question = ?", (stage, question)
        ).fetchone()
        if row is not None:
            mind, given = self._mind(connection), ReleasePayload.parse(row[0])
            memory = self.parts.channels[slot].skip(mind.memory, row[1] or given.payload, given.people)
            after = LearnerState(belief=mind.belief, plan=mind.plan, memory=memory, rng=mind.rng)
            keep(connection, "void", stage, question, after)

    def _question(self, connection: Connection, stage: int) -> int:
        """The question that is asked now; none while a release waits for inspection."""
        question = used(connection, stage)
        held = connection.execute("SELECT finding FROM quarantine WHERE stage = ? AND question = ?", (stage, question))
        hint = "inspect it, then take it with inspected=True, or give the stage up"
        require(held.fetchone() is None, "no release may be quarantined when the next stage is planned", "one", hint)
        return question

    def _mind(self, connection: Connection) -> LearnerState:
        row = connection.execute("SELECT belief, plan, memory, coins FROM belief ORDER BY step DESC LIMIT 1").fetchone()
        return LearnerState.read(row, packages_of(self.parts.learner, *self.parts.channels))

    def _next(
        self, connection: Connection, parts: Parts, number: int, keys: Mapping[str, bytes], *, retry: bool
    ) -> bytes:
        """The next stage: the plan of a stage that was given up, a new plan, or what is left when all was asked."""
        slot = connection.execute("SELECT count(DISTINCT stage) FROM release").fetchone()[0]
        if slot >= len(parts.channels):
            return self._serve(connection, parts, number)
        mind = self._mind(connection)
        again = connection.execute(
            """SELECT 1 FROM release JOIN stage ON stage.number = release.stage
               WHERE stage.slot = (SELECT slot FROM stage WHERE number = ?)""",
            (number - 1,),
        ).fetchone()
        # The people of a stage that was given up have followed its policies: a loss budget counts them
        anew = again is not None or mind.plan is None or self.design.budget is not None
        if not retry or anew:
            belief, plan = parts.learner.plan(mind.belief, mind.rng)
            mind = LearnerState(belief=belief, plan=plan, memory=mind.memory, rng=mind.rng)
            self.store.edge("plan:planned")
            if plan.query is None:
                return self._serve(connection, parts, number, mind)
            keep(connection, "plan", number, None, mind)
        assert mind.plan is not None  # noqa: S101 - for the types
        plan = mind.plan
        channel = parts.channels[slot]
        alike = plan.users == channel.target or self._fits_all(plan, channel)
        fits = alike and plan.releases == channel.questions
        require(fits, "learner and channels must agree on the size of a stage", (plan.users, plan.releases))
        connection.execute("INSERT INTO stage VALUES (?, ?, ?, 'open', NULL)", (number, slot, plan.releases))
        return self._ask(connection, parts, number, slot, 0, keys)

    def _fits_all(self, plan: Plan[Any], channel: Release) -> bool:
        """Bits about returns cost the same among any number of people: a slot after one that was skipped may differ."""
        fewer = plan.users is not None and plan.users >= channel.target
        return isinstance(channel, ReturnRelease) and (fewer or self.design.budget is None)

    def _ask(
        self, connection: Connection, parts: Parts, number: int, slot: int, question: int, keys: Mapping[str, bytes]
    ) -> bytes:
        """Ask the next question of the stage."""
        mind = self._mind(connection)
        assert mind.plan is not None  # noqa: S101 - for the types
        belief, query = parts.learner.ask(mind.belief, mind.plan, question)
        channel = parts.channels[slot]
        asked = LearnerState(belief=belief, plan=mind.plan, memory=mind.memory, rng=mind.rng)
        keep(connection, "ask", number, question, asked)
        content = {
            "slot": slot,
            "question": question,
            "questions": mind.plan.releases,
            "query": query_to_dict(query),
            "channel": dict(self.design.channels[slot]),
            "target": channel.target,
            "least": channel.least,
            **({"keys": {party: json.loads(document) for party, document in keys.items()}} if keys else {}),
        }
        data = self._write(connection, number, weighted(mind.plan, self.design.horizon), content)
        Bundle.parse(data).require_keys(self.layers)
        return data

    def _serve(self, connection: Connection, parts: Parts, number: int, planned: LearnerState | None = None) -> bytes:
        """The last stage: everybody follows what was learned, and nobody reports."""
        mind = planned or self._mind(connection)
        if planned is None and not parts.learner.uses_last:
            mind = mind.served(parts.learner)
        assert mind.plan is not None  # noqa: S101 - for the types
        keep(connection, "plan", number, None, mind)
        connection.execute("INSERT INTO stage VALUES (?, NULL, 1, 'served', NULL)", (number,))
        learned = parts.learner.policy(mind.belief, mind.plan.policy)
        policies = (
            weighted(mind.plan, self.design.horizon)
            if mind.plan.groups
            else [[handed(learned, self.design.horizon), [1, 1]]]
        )
        return self._write(connection, number, policies, {})

    def _end(self, connection: Connection, number: int) -> bytes:
        """The bundle that ends a study (L6)."""
        connection.execute("INSERT INTO stage VALUES (?, NULL, 1, 'killed', NULL)", (number,))
        return self._write(connection, number, [[dict(self.design.fallback), [1, 1]]], {"kill": True})

    def _write(self, connection: Connection, number: int, policies: list[Any], content: dict[str, Any]) -> bytes:
        claim = self.parts.claim
        data = issue(connection, self.design, claim, self.key, stage=number, policies=policies, content=content)
        self.store.edge("plan:written")
        return data
