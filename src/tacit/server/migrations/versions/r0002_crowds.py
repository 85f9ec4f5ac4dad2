"""Keys become tags, in the order of the tags; secrets move to a vault; public results change by steps; tokens have
roles.
"""

from __future__ import annotations

import hashlib

import sqlalchemy as sa
from alembic import context, op

from tacit.randomize.randomness import secret_bytes
from tacit.server.pending import tag
from tacit.server.vault import Vault

revision, down_revision = "0002", "0001"
_CHUNK = 10_000
_KEPT = ("counts", "coverage", "totals", "refusals")


def upgrade() -> None:
    """Everything in one transaction."""
    connection = op.get_bind()
    identity = secret_bytes(8).hex()
    vault = Vault(context.config.attributes["vault"] / identity)
    with op.batch_alter_table("surveys") as surveys:
        surveys.alter_column("id", type_=sa.String(21), existing_type=sa.String(16), existing_nullable=False)
        surveys.add_column(sa.Column("publish_every", sa.Integer, nullable=False, server_default="20"))
        surveys.add_column(sa.Column("ends", sa.Date))
        surveys.add_column(sa.Column("invitations", sa.Integer, nullable=False, server_default="0"))
        surveys.add_column(sa.Column("vault_check", sa.String(32)))
    with op.batch_alter_table("surveys") as surveys:
        for name in ("publish_every", "invitations"):
            surveys.alter_column(name, server_default=None, existing_type=sa.Integer, existing_nullable=False)
    if connection.dialect.name == "postgresql":
        for name in _KEPT:
            op.alter_column(name, "survey", type_=sa.String(21), existing_type=sa.String(16))
            # Written by one transaction, so that none of the old ones shows.
            op.execute(f"UPDATE {name} SET survey = survey")
    _create_tables()
    checks = {name: vault.create(name) for name in _open_surveys(connection)}
    for name, check in checks.items():
        connection.execute(
            sa.text("UPDATE surveys SET vault_check = :check WHERE id = :name"), {"check": check, "name": name}
        )
    _tag_keys(connection, vault, checks)
    _tag_redemptions(connection, vault, checks)
    _move_token(connection)
    connection.execute(
        sa.text("INSERT INTO settings (name, value) VALUES ('identity', :value)"), {"value": identity.encode()}
    )


def _open_surveys(connection: sa.Connection) -> list[str]:
    return list(connection.scalars(sa.text("SELECT id FROM surveys WHERE closed IS NULL")))


def _survey() -> sa.Column[str]:
    return sa.Column("survey", sa.String(21), primary_key=True)


def _tag() -> sa.Column[str]:
    return sa.Column("tag", sa.String(32), primary_key=True)


def _create_tables() -> None:
    op.rename_table("keys", "old_keys")
    op.rename_table("redemptions", "old_redemptions")
    if op.get_bind().dialect.name == "postgresql":
        # The names of their indexes are needed again.
        for name in ("keys", "redemptions"):
            op.execute(f"ALTER INDEX {name}_pkey RENAME TO old_{name}_pkey")
    op.create_table("keys", _survey(), _tag(), sqlite_with_rowid=False)
    blinded = sa.Column("blinded", sa.String(32), nullable=False)
    op.create_table("redemptions", _survey(), _tag(), blinded, sqlite_with_rowid=False)
    op.create_table("revocations", _survey(), _tag(), sqlite_with_rowid=False)
    op.create_table(
        "sealed",
        _survey(),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "published",
        _survey(),
        sa.Column("day", sa.Date, primary_key=True),
        sa.Column("n_reports", sa.BigInteger, nullable=False),
        sa.Column("tally", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "tokens",
        sa.Column("name", sa.String(40), primary_key=True),
        sa.Column("hash", sa.LargeBinary(32), nullable=False),
        sa.Column("role", sa.String(10), nullable=False),
        sa.Column("survey", sa.String(21)),
    )


def _tag_keys(connection: sa.Connection, vault: Vault, checks: dict[str, str]) -> None:
    op.execute("CREATE TEMPORARY TABLE tagged (survey VARCHAR(21), tag VARCHAR(32))")
    for name, check in checks.items():
        secret = vault.secret(name, check)
        query = sa.text("SELECT key FROM old_keys WHERE survey = :name").bindparams(name=name)
        found = connection.execute(query, execution_options={"yield_per": _CHUNK})
        for keys in found.scalars().partitions(_CHUNK):
            rows = [{"survey": name, "tag": tag(secret, "key", key.encode())} for key in keys]
            connection.execute(sa.text("INSERT INTO tagged VALUES (:survey, :tag)"), rows)
    op.execute("INSERT INTO keys SELECT survey, tag FROM tagged ORDER BY survey, tag")
    op.execute("DROP TABLE tagged")
    op.execute("DROP TABLE old_keys")


def _tag_redemptions(connection: sa.Connection, vault: Vault, checks: dict[str, str]) -> None:
    rows = []
    query = sa.text("SELECT survey, invitation, blinded FROM old_redemptions")
    for name, invitation, blinded in connection.execute(query):
        if name in checks:
            secret = vault.secret(name, checks[name])
            tags = tag(secret, "invitation", bytes(invitation)), tag(secret, "blinded", bytes(blinded))
            rows.append({"survey": name, "tag": tags[0], "blinded": tags[1]})
    if rows:
        rows.sort(key=lambda row: (row["survey"], row["tag"]))
        connection.execute(sa.text("INSERT INTO redemptions VALUES (:survey, :tag, :blinded)"), rows)
    op.execute("DROP TABLE old_redemptions")


def _move_token(connection: sa.Connection) -> None:
    kept = connection.scalar(sa.text("SELECT value FROM settings WHERE name = 'admin_token'"))
    if kept is not None:
        assert len(bytes(kept)) == hashlib.sha256().digest_size
        statement = "INSERT INTO tokens (name, hash, role) VALUES ('administrator', :hash, 'all')"
        connection.execute(sa.text(statement), {"hash": bytes(kept)})
        connection.execute(sa.text("DELETE FROM settings WHERE name = 'admin_token'"))
