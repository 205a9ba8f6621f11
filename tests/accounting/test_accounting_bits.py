"""The least noise bits: one search helps the next, and what is remembered on disk is a hint that must be private."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tacit.accounting import bits, composition
from tacit.accounting.bits import least_bits, least_mirrored_probability, least_probability
from tacit.accounting.events import BinomialEvent
from tacit.accounting.events.binomial import binomial_delta
from tacit.accounting.pld import PLD
from tacit.accounting.privacy_loss import _Grid


@pytest.fixture
def forgotten(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No search has been made, and answers are kept in a folder of their own."""
    monkeypatch.setenv("TACIT_CACHE_DIR", str(tmp_path))
    forget()
    return tmp_path / "answers"


def forget() -> None:
    for cached in (least_bits, least_probability, least_mirrored_probability, bits._known, composition.composed):
        cached.cache_clear()


def asked(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The probabilities and numbers of bits that the accountant is asked about, from now on."""
    questions: list[float] = []

    def watched(events: composition.Events) -> PLD:
        event = events[0][0]
        assert isinstance(event, BinomialEvent)
        questions.append(event.probability if event.probability != 0.5 else event.bits)
        return composition.composed(events)

    monkeypatch.setattr(bits, "composed", watched)
    return questions


def test_all_tilts_at_once_give_the_same_bits_as_one_by_one() -> None:
    generator = np.random.default_rng(3)
    for size in (1, 2, 7, 60, 676, 5000):
        grid = _Grid(np.sort(generator.integers(0, 70_000, size)), generator.dirichlet(np.ones(size)))
        tilts = np.geomspace(1e-5, 1e-2, 20) * generator.choice([-1.0, 1.0], 20)
        exponents = [tilt * grid.index for tilt in tilts]
        one_by_one = [
            float(x.max()) + math.log(float((grid.masses * np.exp(x - float(x.max()))).sum())) for x in exponents
        ]
        assert grid.cumulants(tilts).tolist() == one_by_one


def test_what_one_search_found_bounds_the_next(monkeypatch: pytest.MonkeyPatch, forgotten: Path) -> None:
    questions = asked(monkeypatch)
    found = {users: least_bits(1.0, 1e-6, 5, 5, users) for users in (1000, 290, 363, 454, 568, 710, 887, 50, 10, 1)}
    assert len(questions) == len(set(questions)) <= 14
    for users, enough in found.items():
        assert binomial_delta(enough, 0.5, 5, 5, 1.0) <= 1e-6
        assert enough == users or binomial_delta(enough - users, 0.5, 5, 5, 1.0) > 1e-6
    alone = {}
    for users in found:
        forget()
        alone[users] = least_bits(1.0, 1e-6, 5, 5, users)
    assert alone == found


def test_another_process_asks_once(monkeypatch: pytest.MonkeyPatch, forgotten: Path) -> None:
    first = least_probability(1.0, 1e-6, 5, 5, 2000)
    assert len(list(forgotten.iterdir())) == 1
    forget()
    questions = asked(monkeypatch)
    assert least_probability(1.0, 1e-6, 5, 5, 2000) == first
    assert questions == [first]
    least_probability(1.1, 1e-6, 5, 5, 2000)
    assert len(questions) > 4, "another question"


@pytest.mark.parametrize("planted", ["smaller", "not a number", "", "nan", "-0x1p-3", "inf"])
def test_a_remembered_answer_that_is_not_private_is_searched_for_again(planted: str, forgotten: Path) -> None:
    first = least_probability(1.0, 1e-6, 5, 5, 2000)
    (kept,) = forgotten.iterdir()
    kept.write_text((first * (1 - 1e-5)).hex() if planted == "smaller" else planted)
    forget()
    assert least_probability(1.0, 1e-6, 5, 5, 2000) == first
    assert float.fromhex(kept.read_text()) == first, "and is mended"


def test_without_a_folder_everything_is_computed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TACIT_CACHE_DIR", str(tmp_path / "file"))
    forget()
    assert 0.003 < least_mirrored_probability(10.0, 1e-6, 5, 5, 400) < 0.03
