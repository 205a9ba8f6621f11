"""Databases of services: PostgreSQL stores, migrations and leases; SQLite stores need none of this."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tacit.service.database.leases import Lease

if TYPE_CHECKING:
    from tacit.service.database.engine import close_all
    from tacit.service.database.migrating import Migrated, migrate
    from tacit.service.database.postgres import PostgresDatabase, PostgresStore

__all__ = ["Lease", "Migrated", "PostgresDatabase", "PostgresStore", "close_all", "migrate"]


def __getattr__(name: str) -> Any:
    """What needs alembic or psycopg is loaded when it is asked for: a service on SQLite runs without the latter."""
    if name in ("Migrated", "migrate"):
        from tacit.service.database import migrating

        return getattr(migrating, name)
    if name in ("PostgresDatabase", "PostgresStore"):
        from tacit.service.database import postgres

        return getattr(postgres, name)
    if name == "close_all":
        from tacit.service.database.engine import close_all

        return close_all
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
