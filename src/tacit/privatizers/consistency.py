"""Noisy counts made consistent, under the name of the room that releases them.

The repair is post-processing: it lives in `tacit.released.consistency`, where learners reach it, too.
"""

from __future__ import annotations

from tacit.released.consistency import consistent_counts, repair_row, repair_rows, repair_visits

__all__ = ["consistent_counts", "repair_row", "repair_rows", "repair_visits"]
