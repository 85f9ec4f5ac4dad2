"""From every earlier version's tables to this one's, by Alembic; `versions` has a file per step."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from tacit.server import schema


def upgrade(connection: sa.Connection, revision: str, vault: Path) -> None:
    """Bring a database up to date, all in the connection's transaction: it is done, or nothing is."""
    if not sa.inspect(connection).has_table(schema.alembic_version.name):
        schema.alembic_version.create(connection)
        connection.execute(sa.insert(schema.alembic_version), {"version_num": revision})
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes |= {"connection": connection, "vault": vault}
    command.upgrade(config, schema.REVISION)
