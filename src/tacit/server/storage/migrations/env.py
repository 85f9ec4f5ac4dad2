"""What Alembic runs to find its database: the connection that `upgrade` was given."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
