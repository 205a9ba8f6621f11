"""Who sent which slot, in large worlds: users are dealt their places one by one, in compiled code.

The law is that of `layout.held_slots`: given the counts of a batch whose users followed one Markov policy in one
environment, users in one state are exchangeable, so what each of them meets is a card of a shuffled deck, one deck for
every step and state. `held_slots` draws how the groups of senders share the decks, without drawing the users, which
costs the same for any number of them; here the cards are dealt, which costs a few operations per user and step, and
wins where there are fewer users than cells. The coins differ, the distribution does not.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tacit.arrays import Floats, Ints
from tacit.kernels import kernel
from tacit.noise.layout import held_slots
from tacit.noise.protocol import Counts

CELLS: Final = 10_000
"""Models with fewer cells H S² A are small: there the groups of senders share the decks."""
USERS_PER_ROW: Final = 50
"""Users are dealt up to so many for each of the S² A cells of a step."""


def shared_slots(
    counts: Counts, rewards: Floats, senders: Ints, generator: np.random.Generator, *, small: bool = False
) -> list[Ints]:
    """What the senders of each slot hold in it: outcomes [2, S, A] and transitions [S, A, S], step by step.

    With `small`, small worlds are dealt too: always less work, but other coins than committed results have.
    """
    H, S, A = counts.visits.shape
    few = counts.users <= USERS_PER_ROW * S * S * A
    if (H * S * S * A < CELLS and not small) or not few or not _complete(counts):
        return held_slots(counts, rewards, senders, generator)
    return dealt_slots(counts, rewards, senders, generator)


def dealt_slots(counts: Counts, rewards: Floats, senders: Ints, generator: np.random.Generator) -> list[Ints]:
    """The same, dealt user by user; every visit but those of the last step must have a successor.

    >>> from types import SimpleNamespace
    >>> counts = SimpleNamespace(transitions=np.array([[[[0, 3]], [[0, 0]]], [[[0, 0]], [[0, 0]]]]),
    ...                          visits=np.array([[[3], [0]], [[0], [3]]]), users=3)
    >>> found = dealt_slots(counts, np.zeros((2, 2, 1)), np.array([1, 2, 0]), np.random.default_rng(0))
    >>> [part.ravel().tolist() for part in found]
    [[0, 0, 1, 0], [0, 2, 0, 0], [0, 0, 0, 0]]
    """
    H, S, A = counts.visits.shape
    outcomes, moved = np.zeros((H, 2, S, A), dtype=np.int64), np.zeros((H, S, A, S), dtype=np.int64)
    multinomial_split(
        np.ascontiguousarray(counts.transitions, dtype=np.int64),
        np.ascontiguousarray(counts.visits, dtype=np.int64),
        np.rint(rewards).astype(np.int64),
        np.ascontiguousarray(senders, dtype=np.int64),
        generator,
        outcomes,
        moved,
    )
    return [part for h in range(H) for part in ((outcomes[h], moved[h]) if h < H - 1 else (outcomes[h],))]


@kernel
def multinomial_split(
    transitions: Ints,
    visits: Ints,
    ones: Ints,
    senders: Ints,
    generator: np.random.Generator,
    outcomes: Ints,
    moved: Ints,
) -> None:
    """Write what the senders of slots 0, 1, ..., 2H-2 hold to outcomes [H, 2, S, A] and moved [H, S, A, S]."""
    H, S, A = visits.shape
    users = 0
    for slot in range(senders.shape[0]):
        users += senders[slot]
    sends, at, deck = np.zeros(users, np.int64), np.zeros(users, np.int64), np.zeros(users, np.int64)
    first, left = np.zeros(S, np.int64), np.zeros(S, np.int64)
    i = 0
    for slot in range(senders.shape[0]):
        sends[i : i + senders[slot]] = slot
        i += senders[slot]
    i = 0
    for s in range(S):
        for a in range(A):
            at[i : i + visits[0, s, a]] = s
            i += visits[0, s, a]
    # First states: a random order, since senders of one slot stand together.
    for i in range(users):
        j = i + int(generator.random() * (users - i))
        at[i], at[j] = at[j], at[i]
    earning, unseen = np.zeros((S, A), np.int64), np.zeros((S, A), np.int64)
    for h in range(H):
        place = 0
        for s in range(S):
            first[s] = place
            for a in range(A):
                earning[s, a], unseen[s, a] = ones[h, s, a], visits[h, s, a]
                # A card is a · S + s'; nobody asks what follows the last step.
                if h == H - 1:
                    deck[place : place + visits[h, s, a]] = a * S
                    place += visits[h, s, a]
                else:
                    for t in range(S):
                        number = transitions[h, s, a, t]
                        deck[place : place + number] = a * S + t
                        place += number
            left[s] = place - first[s]
        for i in range(users):
            s = at[i]
            # One of the cards that are left, all alike; the last one takes its place.
            card = first[s] + int(generator.random() * left[s])
            a, t = deck[card] // S, deck[card] % S
            left[s] -= 1
            deck[card] = deck[first[s] + left[s]]
            if sends[i] == 2 * h:
                # Of the visits that nobody has asked about yet, `earning` earned a one.
                earned = generator.random() * unseen[s, a] < earning[s, a]
                unseen[s, a] -= 1
                earning[s, a] -= int(earned)
                outcomes[h, 0 if earned else 1, s, a] += 1
            elif sends[i] == 2 * h + 1:
                moved[h, s, a, t] += 1
            at[i] = t


def _complete(counts: Counts) -> bool:
    """Whether every visit but those of the last step has a successor, and people arrive where they go on."""
    follow = np.asarray(counts.transitions)[:-1]
    visits = np.asarray(counts.visits)
    same = bool((follow.sum(axis=3) == visits[:-1]).all())
    return same and bool((follow.sum(axis=(1, 2)) == visits[1:].sum(axis=2)).all())
