"""The rules of the conformance suite about manners: replay, state, sizes, messages, noise sources, silence.

None of them is statistical. Each yields what is wrong, in words without data.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

from tacit.audit.count_probe import BatchProbe, CountProbe, counts_of, hostile_users, one_user, ordinary_users, stacked
from tacit.audit.probes import CANARY, Probe
from tacit.data.trajectories import Trajectories, Trajectory
from tacit.errors import PrivacyBudgetExceeded, TacitError
from tacit.randomness import SecureNoise

REPEATS: Final = 64
"""Releases that are compared before they are called all the same: a few bits may agree by chance, not so often."""


def replay(probe: Probe) -> Iterator[str]:
    """The same noise gives the same release; other noise gives another one."""
    first, again = _shown(probe, 0), _shown(probe, 0)
    if not _same(first, again):
        yield "a replayed noise source does not replay the release"
    others = (_shown(probe, number) for number in range(1, 1 + REPEATS))
    if probe.privatizer.claim.trust != "none" and all(_same(first, other) for other in others):
        yield "another noise source gives the very same release"


def state(probe: Probe) -> Iterator[str]:
    """State goes in and comes out: what was given stays as it was and can be used again."""
    privatizer, users, later = probe.privatizer, _users(probe), _users(probe, probe.releases - 1)
    before = privatizer.begin()
    kept = _frozen(before)
    after, first = privatizer.release(before, users, probe.asked(0), probe.noise(0))
    if _frozen(before) != kept:
        yield "release changes the state that it was given"
    kept, shown = _frozen(after), _frozen(first.statistics)
    with contextlib.suppress(PrivacyBudgetExceeded):  # a schedule of one batch
        privatizer.release(after, later, probe.asked(probe.releases - 1), probe.noise(1))
    if _frozen(after) != kept or _frozen(first.statistics) != shown:
        yield "the next release changes what came out of the last one"
    if _frozen(privatizer.release(before, users, probe.asked(0), probe.noise(0))[1].statistics) != shown:
        yield "an old state cannot be used again"
    if first.claim != privatizer.claim or _frozen(after.released) != shown:
        yield "the claim beside the release, or what the state says was released, is another one"
    public = probe.fields(first.statistics)
    counted = public.get("users", np.array([float(probe.batch_size)]))
    if not np.isfinite(public["variance"]).all() or int(counted[0]) != probe.batch_size:
        yield "the number of users or the variance beside the release is wrong"


def query(probe: Probe) -> Iterator[str]:
    """Queries of another type are refused."""
    privatizer = probe.privatizer
    for stranger in (None, 7, object()):
        if _raised(privatizer.release, privatizer.begin(), _users(probe), stranger, probe.noise(0)) is None:
            yield f"a {type(stranger).__name__} is answered as if it were {privatizer.answers.words()}"


def shapes(probe: CountProbe) -> Iterator[str]:
    """A trajectory that is longer than the release was calibrated for is refused."""
    batch, H = _users(probe), probe.shape.horizon
    longer = Trajectories(
        *(np.concatenate([part, part[:, -1:]], axis=1) for part in (batch.states, batch.actions, batch.rewards))
    )
    if _raised(probe.release, longer) is None:
        yield f"a trajectory of {H + 1} steps is taken where {H} are calibrated"


def batch_size(probe: Probe) -> Iterator[str]:
    """A batch of another size than planned is refused, where the noise depends on the size.

    Single batches have the size that the schedule says, everything else that of `users_per_batch`.
    """
    privatizer, planned = probe.privatizer, probe.batch_size
    if not isinstance(probe, BatchProbe) and planned != privatizer.users_per_batch:
        yield "the size of a batch is not stated"
        return
    whole = probe.given(probe.persons()[0], 0)
    parts = tuple(whole) if isinstance(whole, tuple) else (whole.states, whole.actions, whole.rewards)
    crowd = [np.concatenate([part, part]) for part in parts]
    for users in (planned - 1, planned + 1):
        batches: list[Any] = [type(whole)(*(part[:users] for part in crowd))]
        if isinstance(probe, CountProbe):
            batches.append(counts_of(probe.shape, batches[0]))
        for batch in batches:
            error = _raised(privatizer.release, privatizer.begin(), batch, probe.asked(0), probe.noise(0))
            if not isinstance(error, TacitError):
                yield f"a batch of {users} users is released where {planned} are planned"


def spent(probe: CountProbe) -> Iterator[str]:
    """Users after the last paid release are refused, or counted without changing anything that is seen."""
    privatizer, asked = probe.privatizer, probe.asked(0)
    if probe.steps > 64:
        return
    user = one_user(probe.shape, state=0, action=0, reward=1.0)
    now, seen = privatizer.begin(), None
    for k in range(probe.steps):
        now, seen = privatizer.release(now, stacked([user] * probe.users_at_step(k)), asked, probe.noise(k))
    for _ in range(2):
        error = _raised(privatizer.release, now, user, asked, probe.noise(0))
        if error is not None:
            if not isinstance(error, PrivacyBudgetExceeded):
                yield f"a user after the last paid release raises {type(error).__name__}"
            return
        now, after = privatizer.release(now, user, asked, probe.noise(0))
        if seen is not None and not _same(seen.statistics, after.statistics):
            yield "a user after the last paid release is published"
            return


def messages(probe: CountProbe) -> Iterator[str]:
    """Shuffled messages are single bits, as many from everybody, and come out in another order."""
    stage = probe.stage
    users = stacked([ordinary_users(probe.shape, 4, probe.seed), hostile_users(probe.shape)])
    rows = zip(users.states, users.actions, users.rewards, strict=True)
    bodies = [stage.encode(Trajectory(*row), probe.noise(i)) for i, row in enumerate(rows)]
    if len({len(body) for body in bodies}) != 1:
        yield "the number of messages depends on the user"
    reports = [np.frombuffer(body, dtype=stage.labels) for body in bodies]
    if any(report.max() > stage.spec.num_counters for report in reports):
        yield "a message carries more than the label of a one"
    whole = [i % len(reports) for i in range(probe.batch_size)]
    sent = np.concatenate([reports[i] for i in whole])
    out, other = (stage.shuffle([bodies[i] for i in whole], probe.noise(seed)) for seed in (0, 1))
    if not np.array_equal(np.sort(sent), np.sort(out)):
        yield "the shuffler changes messages"
    if np.array_equal(sent, out) or np.array_equal(other, out):
        yield "the shuffler does not shuffle"


def noise_source(probe: Probe) -> Iterator[str]:
    """Noise that is neither seeded nor secure is a type error, and so is one that a path cannot use."""
    privatizer, asked, given = probe.privatizer, probe.asked(0), {"users": _users(probe)}
    if isinstance(probe, CountProbe):
        given["exact counts"] = counts_of(probe.shape, given["users"])
    for name, users in given.items():
        for noise in (np.random.default_rng(0), None, 7):
            if not isinstance(_raised(privatizer.release, privatizer.begin(), users, asked, noise), TypeError):
                yield f"{name} are released with a {type(noise).__name__} for noise"
        error = _raised(privatizer.release, privatizer.begin(), users, asked, SecureNoise())
        if error is None:
            first, *others = (
                partial(privatizer.release, privatizer.begin(), users, asked, SecureNoise()) for _ in range(1 + REPEATS)
            )
            shown = first()[1].statistics
            if all(_same(shown, other()[1].statistics) for other in others):
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
            batches = [probe.given(person, 0, everybody=True) for person in probe.persons()]
            errors = {type(error).__name__ for batch in batches if (error := _raised(_release, probe, batch, 0))}
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
    """Representations and error messages around users whose reward is unmistakable."""
    privatizer, said = probe.privatizer, [repr(probe.privatizer)]
    for person in probe.persons():
        batch = probe.given(person, 0, everybody=True)
        if CANARY in np.asarray(getattr(batch, "rewards", getattr(batch, "losses", ()))):
            fields = batch if isinstance(batch, tuple) else (batch.states, batch.actions, batch.rewards)
            short = type(batch)(*(part[..., :0] for part in fields))
            said += [repr(batch), *(str(_raised(_release, probe, given, 0)) for given in (short, "nonsense"))]
            if privatizer.claim.trust != "none":
                said.append(repr(privatizer.release(privatizer.begin(), batch, probe.asked(0), probe.noise(0))[0]))
    return said


def _users(probe: Probe, k: int = 0) -> Any:
    """A batch whose rewards are whole: it can be counted beforehand."""
    return probe.given(probe.persons()[1], k)


def _release(probe: Probe, users: Any, number: int) -> Any:
    privatizer = probe.privatizer
    return privatizer.release(privatizer.begin(), users, probe.asked(0), probe.noise(number))[1].statistics


def _shown(probe: Probe, number: int) -> Any:
    return _release(probe, _users(probe), number)


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
