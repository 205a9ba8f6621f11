"""What tests of services share."""

from __future__ import annotations

from postgres import postgres

__all__ = ["postgres"]
