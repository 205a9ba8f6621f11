"""The comparison of every card with the committed results: `python -m papers.claims`, beside `docs`."""

from __future__ import annotations

import sys
from pathlib import Path

from papers.claims.cards import CARDS, read

if __name__ == "__main__":
    wrong = 0
    for name in sys.argv[1:] or CARDS:
        card = read(name, Path())
        problems = [*card.errors, *(f"unclaimed, {one}" for one in card.unclaimed())]
        sys.stdout.write(f"{name}: {card.measured} numbers compared, {len(problems)} problems\n")
        sys.stdout.writelines(f"  {problem}\n" for problem in problems)
        wrong += len(problems)
    sys.exit(1 if wrong else 0)
