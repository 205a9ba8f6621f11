"""Cards are compared with committed results, number by number; a number that nobody claims is an error, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from papers.claims.cards import CARDS, read
from papers.claims.reading import About, AtMost, Card, Order, numbers_in

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", CARDS)
def test_every_number_of_a_card_is_the_committed_one(name):
    card = read(name, ROOT)
    assert card.errors == []
    assert card.unclaimed() == []
    assert card.measured >= 40


def test_no_digit_of_a_card_can_be_changed():
    text = (ROOT / "docs/papers/bai2025secure.md").read_text(encoding="utf-8")
    start, end = text.index("| UCB-VI |"), text.index("| K = 200,000, ε = 1")
    numbers = [number for number in numbers_in(text) if start < number.start < end]
    assert len(numbers) > 80
    for number in numbers[::7]:
        last = number.text[-1]
        other = "7" if last != "7" else "3"
        changed = text[: number.end - 1] + other + text[number.end :]
        card = read("bai2025secure", ROOT, changed)
        assert card.errors or card.unclaimed(), (number.text, text[number.start - 40 : number.end + 20])


def test_a_number_that_nobody_claims_is_found_and_so_is_a_claim_without_words():
    text = (ROOT / "docs/papers/bai2025secure.md").read_text(encoding="utf-8")
    more = text.replace("What this confirms", "SDP-PE has 0.123 of uniform at ε = 5.\n\nWhat this confirms")
    assert [words for words in read("bai2025secure", ROOT, more).unclaimed() if "0.123" in words]
    less = text.replace("stays within 4% of", "stays close to")
    assert [words for words in read("bai2025secure", ROOT, less).errors if words.startswith("0 places")]


def section(text: str) -> Card:
    return Card(f"## Part\n\n{text}\n")


def test_sentences_and_rows_are_compared_digit_by_digit():
    card = section("regret is 1,234 ± 5 (0.10-0.20), 3.4·10⁷ users\n\n| run | a |\n|---|---|\n| PE | -0.04 (7) |")
    part = card.section("Part")
    part.says("is {} ± {} ({}-{}), {} users", 1234.4, 5.49, 0.1049, 0.195001, 3.449e7)
    part.row("PE", -0.0449, 7)
    assert (card.errors, card.unclaimed()) == ([], [])
    part.says("is {} ± {} ({}-{}), {} users", 1234.6, 5.51, 0.1051, 0.2051, 3.451e7)
    part.row("PE", 0.04, 7)
    assert len(card.errors) == 6


def test_rounded_and_bounded_values():
    printed = {text: next(numbers_in(text)) for text in ("1,200", "4", "10⁹")}
    assert About(1234.0, 2).agrees(printed["1,200"])
    assert not About(1251.0, 2).agrees(printed["1,200"])
    assert AtMost(4.0).agrees(printed["4"])
    assert not AtMost(4.01).agrees(printed["4"])
    assert Order(2.9e9).agrees(printed["10⁹"])
    assert not Order(3.1e9).agrees(printed["10⁹"])


def test_settings_are_labels_but_what_follows_them_is_not():
    words = "Theorem 5, Figures 2 and 4-6, ε = 0.2, 2 and 20, K = 10⁸, `x=3`, (6H-2)/(6H) ε, version 2024"
    assert section(words).unclaimed() == []
    assert len(section("at ε = 20, 0.95 of uniform and 3 seeds").unclaimed()) == 2
