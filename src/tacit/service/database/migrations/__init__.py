"""Migrations: one module per schema version, in the form of alembic; what they do never changes."""
