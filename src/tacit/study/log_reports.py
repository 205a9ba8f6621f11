"""Reports from a log, for collectors under central trust: every episode becomes the report of one person.

A curator may see trajectories, so a hospital that recorded what happened while its patients followed the policy of a
stage can hand the record over instead of asking devices. A shuffler and a letter box may not: under their trust models
data leave a device encoded or not at all, and a log of raw episodes is refused.

R1  A log that fails its check adds nothing: everything is read and checked before the first report is made.
R2  The log is of this stage: its names, horizon and bounds are those of the design, and every action that was taken
    (padding apart) is possible under some policy of the stage's bundle, and so is every step under the support that
    the design declares. Whether people followed it is the curator's word, as with any data.
R3  A person with several episodes is counted once per stage; the collector refuses the others as "twice".
R4  Ids become pseudonyms in the collector and are kept nowhere else.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from tacit.errors import InvalidInput, NotSupported, PrivacyViolation, require
from tacit.policies import Policy, tabular
from tacit.randomness import SecureNoise
from tacit.release.contract import Release
from tacit.study.bundle import Bundle
from tacit.study.collector import Collector
from tacit.study.contract import Design
from tacit.study.declarations import support_of
from tacit.study.episodes import Episodes, as_mapping, read_people
from tacit.study.intake import LONGEST_NAME
from tacit.study.mapping import EpisodeMapping
from tacit.study.wire import ID, Report
from tacit.support import Support

WHY: Final = {
    "shuffle": "the shuffler must not see trajectories: devices encode them with 'tacit device report'",
    "local": "only a person's own device may see a trajectory: encode it there with 'tacit device report'",
}


def log_reports(
    collector: Collector, path: str | Path, mapping: EpisodeMapping | Mapping[str, Any] | str | Path | None = None
) -> Iterator[tuple[bytes, str]]:
    """Reports of the open stage, with whose they are; without a mapping the columns have the names of the design."""
    design = collector.design
    if design.trust != "central":
        raise PrivacyViolation(f"under {design.trust} trust a log of raw episodes is refused: {WHY[design.trust]}")
    if design.features is not None:
        raise NotSupported(
            "a log of features is not taken by a collector: let devices report rows, or learn from the log with "
            "'tacit learn'"
        )
    known = design_mapping(design) if mapping is None else as_mapping(mapping)
    _require_design(known, design)
    bundle, channel = _open_stage(collector)
    episodes, ids = read_people(path, known)
    _require_names(ids)
    _require_possible(episodes, bundle)
    _require_support(episodes, bundle, support_of(channel))
    return _reports(bundle, channel, episodes, ids)


def design_mapping(design: Design) -> EpisodeMapping:
    """The mapping of a log that spells states and actions as the design does."""
    low, high = design.rewards
    return EpisodeMapping.from_dict(
        {
            "states": [{"column": "state", "categories": list(design.states)}],
            "actions": {"column": "action", "categories": list(design.actions)},
            "reward": {"column": "reward", "low": low, "high": high},
            "horizon": design.horizon,
        }
    )


def _reports(bundle: Bundle, channel: Release, episodes: Episodes, ids: tuple[str, ...]) -> Iterator[tuple[bytes, str]]:
    noise = SecureNoise()
    for number in range(len(episodes)):
        lived = episodes.trajectory(number)
        body = channel.encode(lived._replace(states=bundle.seen(np.asarray(lived.states))), noise)
        made = Report(study=bundle.study, stage=bundle["stage"], id=os.urandom(ID), body=body)
        yield made.encode(), ids[int(episodes.persons[number])]


def _require_design(known: EpisodeMapping, design: Design) -> None:
    """The mapping and the design must speak of the same world."""
    hint = "write the mapping with the design's names"
    require(known.state_names == tuple(design.states), "the mapping must have the states of the design", "others", hint)
    require(known.action_names == tuple(design.actions), "the mapping must have the actions of the design", "others")
    require(known.horizon == design.horizon, f"the mapping must have the horizon {design.horizon}", known.horizon)
    bounds = (known.low, known.high)
    require(bounds == tuple(design.rewards), f"the bounds of rewards must be {list(design.rewards)}", list(bounds))


def _open_stage(collector: Collector) -> tuple[Bundle, Release]:
    """The bundle of the open stage, and its channel."""
    last = collector.status()["stages"][-1:]
    open_now = bool(last) and last[0]["state"] == "open"
    require(open_now, "a stage must be open to take reports in", "none", "open one with 'tacit collect open'")
    with collector.store.reading() as connection:
        row = connection.execute("SELECT bundle FROM question WHERE stage = ? AND number = 0", (last[0]["stage"],))
        bundle = Bundle.parse(row.fetchone()[0])
    return bundle, collector.channels[last[0]["slot"]]


def _require_names(ids: tuple[str, ...]) -> None:
    """Ids that pseudonyms can be made of: refused here, before the first report is counted."""
    fine = all(len(one) <= LONGEST_NAME and one.isprintable() for one in ids)
    require(fine, f"ids of persons must be printable UTF-8 of at most {LONGEST_NAME} characters", "others")


def _require_possible(episodes: Episodes, bundle: Bundle) -> None:
    """Every action that was taken is one that somebody in this stage could have been told to take (R2)."""
    policies: list[Policy] = [tabular(policy) for policy, _ in bundle.arms]
    table = np.max([policy.probabilities(len(bundle["actions"])) for policy in policies], axis=0)
    H = table.shape[0]
    seen = bundle.seen(episodes.trajectories.states)
    told = table[np.arange(H), seen, episodes.trajectories.actions] > 0.0
    real = np.arange(H) < episodes.lengths[:, None]
    strange = int((real & ~told).any(axis=1).sum())
    if strange:
        raise InvalidInput(
            f"the log must be of people who followed this stage's policies, got {strange} episodes with an action that "
            "none of them takes; learn from other logs with 'tacit learn'"
        )


def _require_support(episodes: Episodes, bundle: Bundle, support: Support | None) -> None:
    """Every step, padding included, is declared to be possible (R2): whoever contradicts that would not be counted."""
    if support is None:
        return
    H, states, actions = support.horizon, bundle.seen(episodes.trajectories.states), episodes.trajectories.actions
    steps = np.minimum(np.arange(H), len(support.moves) - 1)
    good = support.moves[steps[:-1], states[:, : H - 1], actions[:, :-1], states[:, 1:H]].all(axis=1)
    good &= support.starts[states[:, 0]]
    strange = int((~good).sum())
    if strange:
        raise InvalidInput(
            f"the log must agree with the support that the design declares, got {strange} episodes with a step that "
            "cannot be (padding included); mend the log, or plan a study whose declaration is true"
        )
