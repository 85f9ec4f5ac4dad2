"""The tables of the first version, which made them without Alembic."""

from __future__ import annotations

revision, down_revision = "0001", None


def upgrade() -> None:
    """They are there."""
