"""The rules of the conformance suite about manners: replay, state, sizes, messages, noise sources, silence.

None of them is statistical. Each yields what is wrong, in words without data.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tacit.data.trajectories import Trajectories
from tacit.errors import BudgetSpent, TacitError
from tacit.privatizers.conformance_probe import (
    CANARY,
    Probe,
    counts_of,
    hostile_users,
    one_user,
    ordinary_users,
    stacked,
    users_at,
)
from tacit.privatizers.shuffle.roles import Trajectory
from tacit.randomness import SecureNoise

__all__ = ["batch_size", "messages", "noise_source", "replay", "shapes", "silence", "spent", "state"]


def replay(probe: Probe) -> Iterator[str]:
    """The same noise gives the same release; other noise gives another one."""
    batch = _batch(probe)
    first, again, other = probe.release(batch, 0), probe.release(batch, 0), probe.release(batch, 1)
    if not _same(first, again):
        yield "a replayed noise source does not replay the release"
    if probe.privatizer.claim.trust != "none" and _same(first, other):
        yield "another noise source gives the very same release"


def state(probe: Probe) -> Iterator[str]:
    """State goes in and comes out: what was given stays as it was and can be used again."""
    privatizer, batch = probe.privatizer, _batch(probe)
    before = privatizer.begin()
    kept = _frozen(before)
    after, first = privatizer.release(before, batch, probe.noise(0))
    if _frozen(before) != kept:
        yield "release changes the state that it was given"
    kept, shown = _frozen(after), _frozen(first)
    privatizer.release(after, batch, probe.noise(1))
    if _frozen(after) != kept or _frozen(first) != shown:
        yield "the next release changes what came out of the last one"
    if _frozen(privatizer.release(before, batch, probe.noise(0))[1]) != shown:
        yield "an old state cannot be used again"
    if int(first.users[0]) != probe.batch_size or not np.isfinite(first.variance).all():
        yield "the number of users or the variance beside the release is wrong"


def shapes(probe: Probe) -> Iterator[str]:
    """A trajectory that is longer than the release was calibrated for is refused."""
    batch, H = _batch(probe), probe.shape.horizon
    longer = Trajectories(
        *(np.concatenate([part, part[:, -1:]], axis=1) for part in (batch.states, batch.actions, batch.rewards))
    )
    if _raised(probe.release, longer) is None:
        yield f"a trajectory of {H + 1} steps is taken where {H} are calibrated"


def batch_size(probe: Probe) -> Iterator[str]:
    """A batch of another size than planned is refused, where the noise depends on the size."""
    crowd, planned = stacked([_batch(probe)] * 2), probe.privatizer.users_per_batch
    for users in (planned - 1, planned + 1):
        part = Trajectories(crowd.states[:users], crowd.actions[:users], crowd.rewards[:users])
        for batch in (part, counts_of(probe.shape, part)):
            if not isinstance(_raised(probe.release, batch), TacitError):
                yield f"a batch of {users} users is released where {planned} are planned"


def spent(probe: Probe) -> Iterator[str]:
    """Users after the last paid release are refused, or counted without changing anything that is seen."""
    privatizer = probe.privatizer
    if probe.steps > 64:
        return
    user = one_user(probe.shape, state=0, action=0, reward=1.0)
    now, seen = privatizer.begin(), None
    for k in range(probe.steps):
        now, seen = privatizer.release(now, stacked([user] * probe.users_at_step(k)), probe.noise(k))
    for _ in range(2):
        error = _raised(privatizer.release, now, user, probe.noise(0))
        if error is not None:
            if not isinstance(error, BudgetSpent):
                yield f"a user after the last paid release raises {type(error).__name__}"
            return
        now, after = privatizer.release(now, user, probe.noise(0))
        if not _same(seen, after):
            yield "a user after the last paid release is published"
            return


def messages(probe: Probe) -> Iterator[str]:
    """Shuffled messages are single bits, as many from everybody, and come out in another order."""
    protocol = probe.privatizer.protocol
    users = stacked([ordinary_users(probe.shape, 4, probe.seed), hostile_users(probe.shape)])
    rows = zip(users.states, users.actions, users.rewards, strict=True)
    reports = [protocol.encode(Trajectory(*row), probe.noise(i)) for i, row in enumerate(rows)]
    if len({len(report) for report in reports}) != 1:
        yield "the number of messages depends on the user"
    if any(report.bits.max(initial=0) > 1 for report in reports):
        yield "a message carries more than one bit"
    whole = [reports[i % len(reports)] for i in range(probe.batch_size)]
    sent, out = np.concatenate([report.counters for report in whole]), protocol.shuffle(whole, probe.noise(0))
    if not np.array_equal(np.sort(sent), np.sort(out.counters)):
        yield "the shuffler changes messages"
    if np.array_equal(sent, out.counters) or np.array_equal(
        protocol.shuffle(whole, probe.noise(1)).counters, out.counters
    ):
        yield "the shuffler does not shuffle"


def noise_source(probe: Probe) -> Iterator[str]:
    """Noise that is neither seeded nor secure is a type error, and so is one that a path cannot use."""
    batch, privatizer = _batch(probe), probe.privatizer
    for name, given in (("trajectories", batch), ("exact counts", counts_of(probe.shape, batch))):
        for noise in (np.random.default_rng(0), None, 7):
            if not isinstance(_raised(privatizer.release, privatizer.begin(), given, noise), TypeError):
                yield f"{name} are released with a {type(noise).__name__} for noise"
        error = _raised(privatizer.release, privatizer.begin(), given, SecureNoise())
        if error is None:
            first, second = (privatizer.release(privatizer.begin(), given, SecureNoise())[1] for _ in range(2))
            if _same(first, second):
                yield f"secure noise with {name} is no noise"
        elif not isinstance(error, TypeError):
            yield f"secure noise with {name} must work or be a TypeError"


def silence(probe: Probe) -> Iterator[str]:
    """Nothing is printed, logged or warned; no error and no representation contains data; nothing raises on data."""
    words, wrong = io.StringIO(), list[str]()
    handler, root, level = logging.StreamHandler(words), logging.getLogger(), logging.getLogger().level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with (
            contextlib.redirect_stdout(words),
            contextlib.redirect_stderr(words),
            warnings.catch_warnings(record=True) as warned,
        ):
            warnings.simplefilter("always")
            users = probe.users()
            batches = [stacked([users_at(users, i)] * probe.batch_size) for i in range(len(users))]
            errors = {type(error).__name__ for batch in batches if (error := _raised(probe.release, batch)) is not None}
            wrong += [f"release raises {name} on data" for name in sorted(errors)]
            said = _what_is_said(probe)
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    if words.getvalue() or warned:
        wrong.append("a release prints, logs or warns")
    if any(f"{CANARY:.6g}" in text for text in (*said, words.getvalue())):
        wrong.append("an error, a representation or a log line contains a user's reward")
    yield from wrong


def _what_is_said(probe: Probe) -> list[str]:
    """Representations and error messages around a user whose reward is unmistakable."""
    privatizer = probe.privatizer
    telltale = one_user(probe.shape, state=0, action=0, reward=CANARY)
    batch = stacked([telltale] * probe.batch_size)
    short = Trajectories(batch.states[:, :0], batch.actions[:, :0], batch.rewards[:, :0])
    said = [repr(privatizer), repr(batch), *(str(_raised(probe.release, given)) for given in (short, "nonsense"))]
    if privatizer.claim.trust != "none":
        after, _ = privatizer.release(privatizer.begin(), batch, probe.noise(0))
        said.append(repr(after))
    return said


def _batch(probe: Probe) -> Trajectories:
    users = ordinary_users(probe.shape, probe.batch_size, probe.seed)
    chosen = slice(len(users) - probe.batch_size, None)
    return Trajectories(users.states[chosen], users.actions[chosen], np.rint(users.rewards[chosen]))


def _raised(action: Callable[..., object], *given: object) -> Exception | None:
    try:
        action(*given)
    except Exception as error:  # whatever it is, it is what we came for
        return error
    return None


def _frozen(value: Any) -> Any:
    """Nested tuples of arrays as nested tuples of bytes."""
    if isinstance(value, tuple):
        return tuple(_frozen(part) for part in value)
    return value.tobytes() if isinstance(value, np.ndarray) else value


def _same(first: Any, second: Any) -> bool:
    return bool(_frozen(first) == _frozen(second))
