"""The tables of the first release: `database.py` creates them from `schema.py`, so nothing leads to them."""

from __future__ import annotations

revision, down_revision = "0001", None


def upgrade() -> None:
    """There is no earlier database."""
