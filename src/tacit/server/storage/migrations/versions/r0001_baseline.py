"""The tables of the first release, as `schema.py` describes them."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0001", None


def upgrade() -> None:
    """Create all tables."""
    op.create_table(
        "surveys",
        sa.Column("id", sa.String(21), primary_key=True),
        sa.Column("plan", sa.Text, nullable=False),
        sa.Column("group_question", sa.Text),
        sa.Column("public_results", sa.Boolean, nullable=False),
        sa.Column("publish_every", sa.Integer, nullable=False),
        sa.Column("opened", sa.Date, nullable=False),
        sa.Column("ends", sa.Date),
        sa.Column("closed", sa.Date),
        sa.Column("invitation_secret", sa.LargeBinary),
        sa.Column("credential_key", sa.LargeBinary),
        sa.Column("invitations", sa.Integer, nullable=False),
        sa.Column("life", sa.String(32), nullable=False),
    )
    _create("counts", _day(), _group(), _report(), _number("count"))
    _create("coverage", _day(), _group(), sa.Column("sums", sa.LargeBinary, nullable=False))
    content: sa.Column[Any] = sa.Column("content", sa.LargeBinary, nullable=False)
    piece: sa.Column[Any] = sa.Column("piece", sa.BigInteger, primary_key=True, autoincrement=False)
    _create("arriving", _day(), _group(), piece, content, with_rowid=True)
    _create("totals", _day(), _group(), _number("count"))
    _create("refusals", _day(), _number("count"))
    _create("sealed", _number("version"), sa.Column("content", sa.LargeBinary, nullable=False), with_rowid=True)
    _create("published", _day(), _number("n_reports"), sa.Column("tally", sa.LargeBinary, nullable=False))
    _create("keys", _tag())
    _create("redemptions", _tag(), sa.Column("blinded", sa.String(32), nullable=False))
    op.create_table(
        "tokens",
        sa.Column("name", sa.String(40), primary_key=True),
        sa.Column("hash", sa.LargeBinary(32), nullable=False),
        sa.Column("role", sa.String(10), nullable=False),
        sa.Column("survey", sa.String(21)),
    )
    op.create_table(
        "settings",
        sa.Column("name", sa.String(40), primary_key=True),
        sa.Column("value", sa.LargeBinary, nullable=False),
    )


def _create(table: str, *columns: sa.Column[object], with_rowid: bool = False) -> None:
    """A table of something about surveys, in the order of its key."""
    survey = sa.Column("survey", sa.String(21), primary_key=True)
    op.create_table(table, survey, *columns, sqlite_with_rowid=with_rowid)


def _day() -> sa.Column[object]:
    return sa.Column("day", sa.Date, primary_key=True)


def _group() -> sa.Column[object]:
    return sa.Column("group", sa.Integer, primary_key=True, autoincrement=False)


def _report() -> sa.Column[object]:
    return sa.Column("report", sa.BigInteger, primary_key=True, autoincrement=False)


def _tag() -> sa.Column[object]:
    return sa.Column("tag", sa.String(32), primary_key=True)


def _number(name: str) -> sa.Column[object]:
    return sa.Column(name, sa.BigInteger, nullable=False)
