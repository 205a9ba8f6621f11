"""Databases of services: PostgreSQL stores and leases; SQLite stores need neither."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tacit.service.database.leases import Lease

if TYPE_CHECKING:
    from tacit.service.database.engine import close_all
    from tacit.service.database.postgres import PostgresDatabase, PostgresStore

__all__ = ["Lease", "PostgresDatabase", "PostgresStore", "close_all"]


def __getattr__(name: str) -> Any:
    """What needs psycopg is loaded when it is asked for: a service on SQLite runs without it."""
    if name in ("PostgresDatabase", "PostgresStore"):
        from tacit.service.database import postgres

        return getattr(postgres, name)
    if name == "close_all":
        from tacit.service.database.engine import close_all

        return close_all
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
