"""The issuing of bundles: their entries, the chain that they make, and where they are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tacit.accounting.claims import PrivacyClaim
from tacit.accounting.database import Connection
from tacit.policies import AnyPolicy, LayeredPolicy, policy_to_dict
from tacit.protocol import Plan
from tacit.study.bundle import Bundle
from tacit.study.contract import GENESIS_HEAD, Design, Head
from tacit.study.wire import ReleasePayload


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
    """The policies of a plan with their exact weights."""
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
