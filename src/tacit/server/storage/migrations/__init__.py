"""The tables' revisions, by Alembic: `versions` has a file for each. New databases are made from `schema.py`."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from tacit.server.storage import schema


def upgrade(connection: sa.Connection) -> None:
    """Bring a database up to date in the connection's transaction: all of it is done, or nothing."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    command.upgrade(config, schema.REVISION)
