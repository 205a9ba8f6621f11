"""Version 1, the beginning: tables as collectors and studies made them before there were services.

There is nothing to do: a database of version 1 is made by nobody any more.
"""

from __future__ import annotations

__all__ = ["upgrade"]

revision = "1"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Version 1 is where databases begin."""
