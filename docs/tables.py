"""Raw tables of generated pages, as CSV files that readers download."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

FOLDER = Path(__file__).parent / "tables"


def csv_text(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table as CSV.

    >>> csv_text(("a", "b"), [(1, "x, y")])
    'a,b\\n1,"x, y"\\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return text.getvalue()
