"""Mutated envelopes: valid ones changed byte by byte outside and inside of the seal, and well-sealed nonsense."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from typing import Any

from tacit.service.encryption.envelope import HEAD, INSIDE
from tacit.service.encryption.hpke import PublicKey, outer_info

EDGES = (0, 1, 2, 255, 256, 1023, 1024, 1025, 65_534, 65_535)
NUMBERS = (0, 1, 2, 3, 2**16, 2**31 - 1, 2**31, 2**32 - 1)
WORDS = (b"TCE2", b"TCP2", b"TCR2", b"TCT1", b"TCT2", b"TCK1", b"TCO1", b"TCO2", b"TCX1", b"\0\0\0\0", b"")
"""First words of other versions, kinds and extensions."""
LARGEST = 65_536


class Mutator:
    """Endless mutants of envelopes of one study; the same seed gives the same ones, seals aside."""

    def __init__(self, seed: int, *, study: bytes, key: PublicKey, pairs: list[tuple[bytes, bytes]]) -> None:
        """`pairs` are (token, report) that would be counted."""
        self.coins = random.Random(seed)  # noqa: S311 - what is changed
        self.study, self.key, self.pairs = study, key, pairs
        self._seal = key.sealer(outer_info(study, key.id))
        self.whole = [self.sealed(self.inside(*pair)) for pair in pairs]
        self.kinds: list[tuple[str, Callable[[], bytes]]] = [
            *[("bits", lambda: self.bits(self.coins.choice(self.whole)))] * 5,
            ("cut", self._cut),
            ("longer", self._longer),
            ("random", self._random),
            ("spliced", self._spliced),
            ("another study or key", self._other_head),
            ("another word", self._other_word),
            ("sealed: bits of a report", lambda: self._resealed(report=self.bits)),
            ("sealed: bits of a token", lambda: self._resealed(token=self.bits)),
            ("sealed: another length", self._other_length),
            ("sealed: another stage, study or word", self._other_report),
            ("sealed: nonsense", self._nonsense),
        ]

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        while True:
            kind, make = self.kinds[self.coins.randrange(len(self.kinds))]
            yield kind, make()

    # outside of the seal

    def bits(self, data: bytes) -> bytes:
        """One to eight bits changed."""
        found = bytearray(data)
        for _ in range(self.coins.choice((1, 1, 1, 2, 8))):
            if found:
                found[self.coins.randrange(len(found))] ^= 1 << self.coins.randrange(8)
        return bytes(found)

    def _cut(self) -> bytes:
        data = self.coins.choice(self.whole)
        return data[: self.coins.choice((0, 4, 36, 44, 92, 98, self.coins.randrange(len(data))))]

    def _longer(self) -> bytes:
        more = self.coins.choice((1, 2, 16, 1024, self.coins.randrange(1, 4096)))
        return self.coins.choice(self.whole) + self.coins.randbytes(more)

    def _random(self) -> bytes:
        size = self.coins.choice((0, 1, 43, 44, 97, 98, self.coins.randrange(4096)))
        return self.coins.choice((b"", b"TCE1", b"TCE1" + self.study)) + self.coins.randbytes(size)

    def _spliced(self) -> bytes:
        first, second = self.coins.choice(self.whole), self.coins.choice(self.whole)
        place = self.coins.randrange(len(first))
        return first[:place] + second[self.coins.choice((place, self.coins.randrange(len(second)))) :]

    def _other_head(self) -> bytes:
        data = self.coins.choice(self.whole)
        study = self.coins.choice((self.study, bytes(32), self.coins.randbytes(32)))
        return HEAD.pack(b"TCE1", study, self.coins.choice((bytes(8), self.coins.randbytes(8)))) + data[HEAD.size :]

    def _other_word(self) -> bytes:
        return self.coins.choice(WORDS) + self.coins.choice(self.whole)[4:]

    # inside of the seal

    def sealed(self, plain: bytes) -> bytes:
        """An envelope around any bytes."""
        return HEAD.pack(b"TCE1", self.study, self.key.id) + self._seal(plain)

    @staticmethod
    def inside(token: bytes, report: bytes) -> bytes:
        """What a device seals."""
        return INSIDE.pack(b"TCP1", len(token)) + token + report

    def _resealed(self, token: Any = None, report: Any = None) -> bytes:
        first, second = self.coins.choice(self.pairs)
        return self.sealed(self.inside(token(first) if token else first, report(second) if report else second))

    def _other_length(self) -> bytes:
        token, report = self.coins.choice(self.pairs)
        kind = self.coins.randrange(4)
        if kind == 0:
            said = self.coins.choice((*EDGES, len(token) - 1, len(token) + 1, len(token) + len(report)))
            return self.sealed(INSIDE.pack(b"TCP1", said) + token + report)
        if kind == 1:
            size = self.coins.choice((0, 1, 40, 55, 56, 57, self.coins.randrange(len(report))))
            return self.sealed(self.inside(token, report[:size]))
        if kind == 2:
            return self.sealed(self.inside(token, report + bytes(self.coins.choice((1, 50, 1600, 5000)))))
        size = self.coins.choice(EDGES[:8])
        made = self.coins.choice((b"TCO1", b"TCK1", b"TCT1")) + struct.pack("<H", size) + self.coins.randbytes(size)
        return self.sealed(self.inside(made, report))

    def _other_report(self) -> bytes:
        token, report = self.coins.choice(self.pairs)
        kind = self.coins.randrange(3)
        if kind == 0:
            number = self.coins.choice((*NUMBERS, self.coins.randrange(2**32)))
            return self.sealed(self.inside(token, report[:36] + struct.pack("<I", number) + report[40:]))
        if kind == 1:
            return self.sealed(self.inside(token, report[:4] + self.coins.randbytes(32) + report[36:]))
        word = self.coins.choice(WORDS)
        if self.coins.random() < 0.5:
            return self.sealed(self.inside(word + token[4:], report))
        return self.sealed(self.inside(token, word + report[4:]))

    def _nonsense(self) -> bytes:
        size = self.coins.choice((0, 1, 5, 6, 7, self.coins.randrange(3000)))
        return self.sealed(self.coins.choice((b"", b"TCP1", b"TCP2")) + self.coins.randbytes(size))
