"""Poisoning: colluding devices make reports up; a release whose counts contradict themselves is quarantined.

Sums of 10,000 people are drawn by their law (exact counts plus binomial noise, `ShuffleRelease.simulate`); what
colluders send is added label by label, as the learner opens it. Messages are sealed, so a shuffler cannot look: a
colluder may put every message of a report on one label. One small study is run through the services as well.

What is not found, and cannot be: a made-up trajectory per report, rewards that were not had. Both are what a person may
send; how much they move is bounded by one report per person.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from chaos import studies
from chaos.clients import Sender, send_until_answered
from chaos.parties import Parties, fast_directory, status
from chaos.worlds import row, until
from tacit.data.counts import ExactCounts, flow_counts, join_counts
from tacit.environments.registry import make
from tacit.errors import InvalidInput
from tacit.policies import uniform_policy
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.study.flow import IMPOSSIBLE, broken_flow

PEOPLE, SHARE = 10_000, 0.05
COLLUDERS = int(PEOPLE * SHARE)
SCALES: dict[str, dict[str, int]] = {"ci": {"runs": 100, "honest": 2000}, "chaos": {"runs": 1000, "honest": 20_000}}
FALSE_ALARMS = 0.001


@cache
def channel() -> Any:
    """A stage of RiverSwim under shuffle trust, epsilon 2."""
    from tacit.study.design import plan_study

    sizes: dict[str, Any] = {"states": 4, "actions": 2, "horizon": 6, "epsilon": 2.0, "delta": 1e-6}
    least = PEOPLE - COLLUDERS
    made = plan_study(**sizes, learner="bucb", trust="shuffle", stages=1, target=PEOPLE, least=least)
    return made.parts().channels[0]


class Crowd:
    """Honest people and colluders of one release after the other."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.noise, self.channel, self.world = SimulationNoise(self.rng), channel(), make("riverswim")
        self.spec = self.channel.spec

    def counts(self, people: int, rewarded: bool = False) -> ExactCounts:
        """What so many people did; or say that they did, if they say that every reward was one."""
        policy = uniform_policy(self.spec.horizon, self.spec.num_states, self.spec.num_actions)
        found = flow_counts(self.world, policy, people, self.rng)
        rewards = found.visits.astype(float) if rewarded else np.floor(found.rewards)
        return ExactCounts(found.transitions, found.visits, rewards, found.starts, found.users, True)

    def sums(self, *parts: ExactCounts) -> Any:
        """The histogram of people who keep to the protocol."""
        joined = parts[0] if len(parts) == 1 else join_counts(parts)
        _, payload = self.channel.simulate(self.channel.begin_secret(), joined, self.channel.query, self.noise)
        return np.frombuffer(payload, dtype="<i8").copy()

    def verdict(self, sums: Any) -> str | None:
        """What the learner finds wrong, as `Study.take` does."""
        try:
            _, found = self.channel.read(self.channel.begin_memory(), sums.astype("<i8").tobytes(), PEOPLE)
        except InvalidInput:
            return IMPOSSIBLE
        return broken_flow(found.statistics, "shuffle")

    # lies: the histogram of a release with so many colluders

    def all_on_one(self, colluders: int) -> Any:
        """Every message of a colluder has one label; of the noise that a device adds there is none."""
        sums = self.sums(self.counts(PEOPLE - colluders))
        sums[self.rng.integers(len(sums))] += colluders * self.channel.transport.report_size
        return sums

    def one_more(self, colluders: int) -> Any:
        """Colluders do what others do and add one message with one label."""
        sums = self.sums(self.counts(PEOPLE))
        sums[self.rng.integers(len(sums))] += colluders
        return sums

    def one_less(self, colluders: int) -> Any:
        """Colluders leave out one label that they all have: that of the first outcome, which all of them share."""
        sums = self.sums(self.counts(PEOPLE))
        first = next(block for block in self.spec._blocks() if block.name == "outcomes").start
        place = first + int(np.argmax(sums[first : first + 4 * self.spec.num_states]))
        sums[place] -= colluders
        return sums

    def several_lives(self, colluders: int) -> Any:
        """Instead of dummies and noise, as many made-up trajectories as a report has room for."""
        sums = self.sums(self.counts(PEOPLE - colluders))
        sums[self._life()] += colluders * (self.channel.transport.report_size // self.spec.slots)
        return sums

    def one_life(self, colluders: int) -> Any:
        """One made-up trajectory, always the same one, and no noise."""
        sums = self.sums(self.counts(PEOPLE - colluders))
        sums[self._life()] += colluders
        return sums

    def all_rewards(self, colluders: int) -> Any:
        """Everything is true but the rewards."""
        return self.sums(self.counts(PEOPLE - colluders), self.counts(colluders, rewarded=True))

    def _life(self) -> Any:
        H, S, A = self.spec.horizon, self.spec.num_states, self.spec.num_actions
        draw = self.rng.integers
        return self.spec.labels(draw(0, S, H + 1), draw(0, A, H), draw(0, 2, H)).astype(np.int64)


LIES: dict[str, tuple[Callable[[Crowd, int], Any], float, bool]] = {
    "every message on one counter": (Crowd.all_on_one, 0.05, True),
    "every message on one counter, 0.5%": (Crowd.all_on_one, 0.005, True),
    "one message more on one counter": (Crowd.one_more, 0.05, True),
    "one message more on one counter, 2%": (Crowd.one_more, 0.02, False),
    "one message more on one counter, 1%": (Crowd.one_more, 0.01, False),
    "one message less on one counter": (Crowd.one_less, 0.05, True),
    "several made-up trajectories in a report": (Crowd.several_lives, 0.05, True),
    "one made-up trajectory in a report": (Crowd.one_life, 0.05, False),
    "rewards that were not had": (Crowd.all_rewards, 0.05, False),
}
"""Lies, the share of people who tell them, and whether all of them must be found."""


def found_lies(name: str, runs: int, seed: int) -> int:
    """How many of so many releases with this lie are quarantined."""
    lie, share, _ = LIES[name]
    crowd = Crowd(seed)
    return sum(crowd.verdict(lie(crowd, int(PEOPLE * share))) is not None for _ in range(runs))


def false_alarms(runs: int, seed: int) -> int:
    """How many of so many honest releases are quarantined."""
    crowd = Crowd(seed)
    return sum(crowd.verdict(crowd.sums(crowd.counts(PEOPLE))) is not None for _ in range(runs))


def through_services(people: int, colluders: int) -> dict[str, Any]:
    """A sealed stage over HTTP in which some put all messages on one label: what the learner does with it."""
    design = studies.sealed(1, people, least=people)
    with studies.registered(), fast_directory() as folder, Parties.new(folder / "study", design) as parties:
        parties.start()
        until(lambda: status(parties, "shuffler")["state"] == "open", 180.0)
        answers = _report(parties, design.parts().channels[0], people, colluders)
        state = status(parties, "learner")
        end = time.monotonic() + 180.0
        while not (state["quarantined"] or state["releases"]) and time.monotonic() < end:
            time.sleep(0.05)
            state = status(parties, "learner")
        given_up = 0
        if state["quarantined"]:
            with contextlib.closing(parties.internally("learner")) as wire:
                reply = wire.ask("POST", "/v1/void", b"made up")
                given_up = reply.status if reply is not None else 0
    quarantined = [list(one) for one in state["quarantined"]]
    return {"people": people, "colluders": colluders, "answers": answers, "quarantined": quarantined, "void": given_up}


def _report(parties: Parties, kind: Any, people: int, colluders: int) -> dict[str, int]:
    """Everybody reports: the first ones put all messages on the label of the first outcome."""
    from tacit.data.trajectories import Trajectory
    from tacit.service.encryption.envelope import seal_body
    from tacit.service.encryption.hpke import inner_info
    from tacit.service.encryption.keyring import KeysDocument
    from tacit.study.bundle import Bundle

    sender, rng, answers = Sender(parties.public("shuffler"), parties.study), np.random.default_rng(3), {}
    label = next(block for block in kind.spec._blocks() if block.name == "outcomes").start
    with contextlib.closing(parties.publicly("shuffler")) as wire:
        replies: list[Any] = []

        def served() -> bool:
            """A device asks again, too: a stage is open before its bundle is served."""
            reply = wire.ask("GET", "/v1/bundle")
            replies.append(reply)
            return reply is not None and reply.status == 200

        until(served)
        document = Bundle.parse(replies[-1].body).keys["learner"]
        learner = KeysDocument.read(document, party="learner", study=parties.study, pinned=None).active
        seal = learner.sealer(inner_info(parties.study, 0, learner.id))
        for number in range(people):
            if number < colluders:
                messages = kind.transport.report_size
                body = b"".join(seal(label.to_bytes(kind.labels.itemsize, "little")) for _ in range(messages))
            else:
                lived = Trajectory(rng.integers(0, 2, 3), rng.integers(0, 2, 2), rng.random(2))
                plain = kind.encode(lived, SecureNoise())
                body = seal_body(kind, plain, study=parties.study, stage=0, learner=learner)
            found, _ = send_until_answered(wire, sender.envelope(sender.report(body, 0), os.urandom(8).hex()))
            answers[found.word] = answers.get(found.word, 0) + 1
    return answers


def run(scale: str = "chaos", seed: int = 17) -> list[dict[str, Any]]:
    """All rows of this module."""
    size = SCALES[scale]
    rows = []
    for place, (name, (_, share, must)) in enumerate(LIES.items()):
        found, runs = found_lies(name, size["runs"], seed + place), size["runs"]
        bar = f"quarantined {runs} of {runs}" if must else "none: stated, not required"
        words = f"{share:.1%} of {PEOPLE:,} people: {name}"
        rows.append(row(words, bar, f"{found} of {runs}", found == runs or not must, found=found, runs=runs, seed=seed))
    alarms, runs = false_alarms(size["honest"], seed), size["honest"]
    met = alarms <= math.floor(FALSE_ALARMS * runs)
    measured = f"{alarms} of {runs:,}"
    rows.append(row("honest releases", f"false alarms <= {FALSE_ALARMS:.1%}", measured, met, "6.3e-5 by design"))
    served = through_services(40, 2)
    met = bool(served["quarantined"]) and served["void"] == 200
    words = f"quarantined {served['quarantined']}, given up: {served['void']}"
    return [
        *rows,
        row("2 of 40 through the services, every message on one counter", "quarantined", words, met, **served),
    ]
