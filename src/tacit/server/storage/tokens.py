"""Tokens: who may do what. Kept as hashes in the database, so that all processes know the same ones at once."""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass, field
from typing import Literal

import sqlalchemy as sa

from tacit.randomize.randomness import secret_bytes
from tacit.server.invitations import to_text
from tacit.server.storage import schema
from tacit.server.storage.database import be_alone
from tacit.server.storage.store import Store

#: Everything; one survey with its reports; or just the results of one survey, or of all.
Role = Literal["all", "survey", "results"]
#: The name of the token that `tacit serve` makes.
ADMINISTRATOR = "administrator"
_SHORTEST = 16


@dataclass(frozen=True)
class Grant:
    """What the holder of a token may do."""

    role: Role
    survey: str | None = None
    name: str = field(default="", compare=False)

    @property
    def everything(self) -> bool:
        return self.role == "all"

    def manages(self, survey: str) -> bool:
        """Whether it may change a survey, send batches to it and take its tally."""
        return self.everything or (self.role == "survey" and self.survey == survey)

    def reads(self, survey: str) -> bool:
        """Whether it may see a survey's results."""
        return self.manages(survey) or (self.role == "results" and self.survey in (None, survey))


def make_token(store: Store, name: str = ADMINISTRATOR, role: Role = "all", survey: str | None = None) -> str:
    """A new token in place of any of that name. It is not kept: a lost one is replaced."""
    token = _new_token()
    set_token(store, token, name, role, survey)
    return token


def first_token(store: Store) -> str | None:
    """A new administrator's token, if there is none yet: of processes that start at once, one makes it."""
    table = schema.tokens
    with store.database.writing.begin() as connection:
        be_alone(connection)
        if connection.scalar(sa.select(table.c.name).where(table.c.name == ADMINISTRATOR)) is not None:
            return None
        token = _new_token()
        connection.execute(sa.insert(table), {"name": ADMINISTRATOR, "hash": _hashed(token), "role": "all"})
        return token


def _new_token() -> str:
    return "tacit_" + to_text(secret_bytes(32))


def set_token(
    store: Store, token: str, name: str = ADMINISTRATOR, role: Role = "all", survey: str | None = None
) -> None:
    """Let a token of your own choice in. Refuses what an empty variable or a short password would be."""
    if not re.fullmatch(rf"[!-~]{{{_SHORTEST},}}", token):
        raise ValueError(
            f"The administrator's token must have at least {_SHORTEST} characters of ASCII, without spaces. "
            f"Got {len(token)} characters."
        )
    table = schema.tokens
    with store.database.writing.begin() as connection:
        be_alone(connection)
        connection.execute(sa.delete(table).where(table.c.name == name))
        row = {"name": name, "hash": _hashed(token), "role": role, "survey": survey}
        connection.execute(sa.insert(table), row)


def revoke_token(store: Store, name: str) -> bool:
    """Let a token in no more, in any process; whether there was one."""
    table = schema.tokens
    with store.database.writing.begin() as connection:
        return connection.execute(sa.delete(table).where(table.c.name == name)).rowcount > 0


def tokens(store: Store) -> list[Grant]:
    """What all tokens allow, by name; never a token itself."""
    table = schema.tokens
    query = sa.select(table.c.role, table.c.survey, table.c.name).order_by(table.c.name)
    with store.database.reading.connect() as connection:
        return [Grant(*row) for row in connection.execute(query)]


def grant_of(store: Store, authorization: str) -> Grant | None:
    """What an Authorization header allows now; takes the same time however much of a token is right."""
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer":
        return None
    given, found = _hashed(token.strip()), None
    table = schema.tokens
    with store.database.reading.connect() as connection:
        for row in connection.execute(sa.select(table)):
            if hmac.compare_digest(given, bytes(row.hash)):
                found = Grant(row.role, row.survey, row.name)
    return found


def _hashed(token: str) -> bytes:
    # A token is 256 random bits, so a plain hash hides it.
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
