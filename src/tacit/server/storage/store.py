"""The store: surveys and their tallies in a database and a vault, through one code path for SQLite and PostgreSQL.

Every change is on disk when the call returns: SQLite with a write-ahead log and a sync per commit, PostgreSQL with its
defaults. What is kept, and what it cannot tell, is in docs/service-data.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa

from tacit.plan import Plan
from tacit.randomize.randomness import secret_bytes
from tacit.server.storage import schema
from tacit.server.storage.counting import Counting, Folds, Outcome, Submission, fold_groups
from tacit.server.storage.database import be_alone, open_database, prepare
from tacit.server.storage.tallies import Tallies
from tacit.server.storage.vault import Held, Vault, VaultError, tag
from tacit.tally import Tally

__all__ = ["Outcome", "Store", "Submission", "Survey", "survey_id"]

#: New reports of a group before its public results change, by default.
PUBLISH_EVERY = 20
#: Tables that are erased when a survey closes, and how many rows of other surveys are written anew for that.
_TAGGED = (schema.sealed, schema.keys, schema.redemptions, schema.revocations)
_FEW_ROWS = 100_000


@dataclass(frozen=True)
class Survey:
    """What the collector knows about a survey besides its counts."""

    id: str
    plan: str
    group_question: str | None
    public_results: bool
    publish_every: int
    opened: date
    ends: date | None
    closed: date | None
    invitation_secret: bytes | None
    credential_key: bytes | None
    invitations: int
    vault_check: str | None

    def is_open(self, today: date) -> bool:
        """Whether it takes reports."""
        return self.closed is None and (self.ends is None or today <= self.ends)

    @property
    def invited(self) -> bool:
        return self.invitation_secret is not None


class Store:
    """All reads and writes. Not for the event loop: every method waits for the database."""

    def __init__(
        self, where: str | Path, today: Callable[[], date], *, vault: Path | None = None, allow_wide: bool = False
    ) -> None:
        self.today = today
        self.database = open_database(str(where), vault, allow_wide)
        try:
            self.vault = Vault(self.database.vault / prepare(self.database))
            self._forget_closed()
        except BaseException:
            self.close()
            raise
        self.tallies = Tallies(self.database, self.vault)
        self._counting = Counting(self.database, self.vault, today)
        self._insert = self._counting.statements.insert
        # A process that was killed may have left a full log.
        self._tidied, self._erased = False, False
        self._forget_old_seals()

    @property
    def _writing(self) -> sa.Engine:
        return self.database.writing

    @property
    def _reading(self) -> sa.Engine:
        return self.database.reading

    def close(self) -> None:
        """Give the connections back; SQLite folds its log into the database."""
        self._reading.dispose()
        self._writing.dispose()

    def check(self) -> None:
        """Raise unless the database can be written, and what was written can be read."""
        self.database.check_there()
        proof = secret_bytes(8)
        self.set_setting("checked", proof)
        if self.setting("checked") is None:
            raise OSError("The database does not give back what was written.")

    def tidy(self) -> None:
        """Take out of the database's files what was erased or replaced; nothing to do if nothing was written.

        While another process reads a SQLite, its log stays; the next call empties it. PostgreSQL gives space free, and
        writes tables anew where a survey was erased from them, unless that would stop others for long.
        """
        if self._tidied:
            return
        if self.database.kind == "sqlite":
            with self._writing.connect() as connection:
                raw: Any = connection.connection.driver_connection
                self._tidied = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
            return
        with self._writing.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            for table in _TAGGED:
                few = connection.scalar(sa.select(sa.func.count()).select_from(table)) if self._erased else None
                full = "" if few is None or few > _FEW_ROWS else "(FULL) "
                connection.exec_driver_sql(f"VACUUM {full}{table.name}")
        self._tidied, self._erased = True, False

    def _erased_from_files(self) -> None:
        self._tidied, self._erased = False, True
        # Another process may hold a table; then it is done when there is nothing to write.
        with suppress(sa.exc.SQLAlchemyError):
            self.tidy()

    # -- counting ---------------------------------------------------------------------------------------------------

    def count(self, submissions: Sequence[Submission]) -> list[Outcome]:
        """Count submissions whose key is new; what happened to each. All of it is on disk when this returns."""
        self._tidied = False
        return self._counting.count(submissions)

    def redeem(self, name: str, invitation: bytes, blinded: bytes) -> Literal["redeemed", "spent", "revoked", "closed"]:
        """Exchange an invitation, once: again only for the same blinded message (given by its hash)."""
        self._tidied = False
        return self._counting.redeem(name, invitation, blinded)

    def totals(self, name: str) -> dict[date, dict[int, int]]:
        """How many reports of each group came on each day."""
        return self.tallies.totals(name)

    def refused(self, name: str) -> int:
        """How many reports of batches were refused."""
        return self.tallies.refused(name)

    def tally(self, name: str, plan: Plan, since: date | None = None, until: date | None = None) -> Tally:
        """The tally of the days from `since` to `until`, both included."""
        return self.tallies.tally(name, plan, since, until)

    # -- surveys ----------------------------------------------------------------------------------------------------

    def create(self, plan: Plan, *, run: int = 1, **given: Any) -> bool:
        """Open a survey for a plan. Returns False, and changes nothing, if the plan has one already.

        `given` are columns of `schema.surveys`: what the page asks, who may take part, who sees the results.
        """
        name = survey_id(plan, run)
        defaults = {"public_results": False, "publish_every": PUBLISH_EVERY, "invitations": 0}
        row = defaults | given | {"id": name, "plan": json.dumps(plan.to_dict()), "opened": self.today()}
        statement = self._insert(schema.surveys).on_conflict_do_nothing().returning(schema.surveys.c.id)
        if self.survey(name) is not None:
            return False
        with self._writing.begin() as connection:
            be_alone(connection)
            if connection.execute(statement, row).first() is None:
                return False
            # Its secrets are on disk before anybody can count.
            self._update(connection, name, vault_check=self.vault.create(name))
        return True

    def run_again(self, plan: Plan, **given: Any) -> str:
        """Open the next run of a plan; its id."""
        run = 2
        while not self.create(plan, run=run, **given):
            run += 1
        return survey_id(plan, run)

    def survey(self, name: str) -> Survey | None:
        """The survey of that id."""
        with self._reading.connect() as connection:
            row = connection.execute(sa.select(schema.surveys).where(schema.surveys.c.id == name)).one_or_none()
        return None if row is None else Survey(**row._asdict())

    def surveys(self) -> list[tuple[Survey, int]]:
        """All surveys with their numbers of reports, the newest first."""
        surveys = schema.surveys
        with self._reading.connect() as connection:
            rows = connection.execute(sa.select(surveys).order_by(surveys.c.opened.desc(), surveys.c.id)).all()
        return [(Survey(**row._asdict()), self.n_reports(row.id)) for row in rows]

    def n_reports(self, name: str) -> int:
        """How many reports a survey has."""
        return sum(sum(day.values()) for day in self.totals(name).values())

    def change(self, name: str, *, close: bool = False, **given: Any) -> None:
        """Change columns of a survey; close it, which is final and erases every tag of it."""
        if given:
            with self._writing.begin() as connection:
                self._update(connection, name, **given)
        if close:
            self._close(name)

    def _update(self, connection: sa.Connection, name: str, **given: Any) -> None:
        connection.execute(sa.update(schema.surveys).where(schema.surveys.c.id == name), given)

    def _close(self, name: str) -> None:
        surveys = schema.surveys
        with self._held(name) as held, self._writing.begin() as connection:
            still_open = (surveys.c.id == name) & surveys.c.closed.is_(None)
            row = connection.execute(sa.select(surveys).where(still_open).with_for_update()).one_or_none()
            if row is None:
                return
            if held is not None:
                _, pending = Counting.pending(connection, held, name)
                self._counting.increase(connection, name, pending.reports, self._folds(row.plan, pending.reports))
            self._update(connection, name, closed=self.today(), vault_check=None)
            self._erase_tags(connection, name)
        self.vault.erase(name)
        self._erased_from_files()

    def delete(self, name: str) -> None:
        """Delete a survey with everything that is kept of it."""
        with self._held(name), self._writing.begin() as connection:
            connection.execute(sa.select(schema.surveys.c.id).where(schema.surveys.c.id == name).with_for_update())
            self._erase_tags(connection, name)
            kept = (schema.counts, schema.coverage, schema.totals, schema.refusals, schema.published, schema.tokens)
            for table in kept:
                connection.execute(sa.delete(table).where(table.c.survey == name))
            # What pages keep about a survey is a setting that ends with its name.
            connection.execute(sa.delete(schema.settings).where(schema.settings.c.name.like(f"%{name}")))
            connection.execute(sa.delete(schema.surveys).where(schema.surveys.c.id == name))
        self.vault.erase(name)
        self._erased_from_files()

    @staticmethod
    def _erase_tags(connection: sa.Connection, name: str) -> None:
        for table in _TAGGED:
            connection.execute(sa.delete(table).where(table.c.survey == name))

    def _held(self, name: str) -> AbstractContextManager[Held | None]:
        """The survey's file in the vault; None if it is closed and has none."""
        return self.vault.locked(name) if self.vault.has(name) else nullcontext()

    @staticmethod
    def _folds(plan: str, reports: Any) -> Folds:
        """Which groups keep sums: read from the plan, which takes long, only if there is something to add."""
        return fold_groups(Plan.from_dict(json.loads(plan))) if reports else {}

    def _forget_closed(self) -> None:
        """Erase the secrets of surveys that closed, or never opened, when a process ended in the middle of it."""
        with self._writing.begin() as connection:
            be_alone(connection)
            query = sa.select(schema.surveys.c.id).where(schema.surveys.c.vault_check.is_not(None))
            kept = set(connection.scalars(query))
            for name in sorted(kept - self.vault.names()):
                raise VaultError(
                    f"The secrets of survey {name} are not in {self.vault.folder}, where this database's are expected. "
                    "Name the folder that they are in with --secrets."
                )
            for name in self.vault.names() - kept:
                self.vault.erase(name)

    def _forget_old_seals(self) -> None:
        """Leave one seal of each survey, and an empty log, if a process ended between committing and forgetting."""
        for name in sorted(self.vault.names()):
            with suppress(VaultError), self.vault.locked(name) as held, self._reading.connect() as connection:
                query = sa.select(schema.sealed.c.version).where(schema.sealed.c.survey == name)
                held.forget_all_but(connection.scalar(query) or 0)
        if self.database.kind == "sqlite":
            with suppress(sa.exc.SQLAlchemyError):
                self.tidy()

    # -- invitations ------------------------------------------------------------------------------------------------

    def add_invitations(self, name: str, count: int) -> None:
        """Remember how many invitations were made; not which."""
        table = schema.surveys
        with self._writing.begin() as connection:
            more = sa.update(table).where(table.c.id == name).values(invitations=table.c.invitations + count)
            connection.execute(more)

    def used_invitations(self, name: str) -> int:
        """How many invitations were exchanged."""
        table = schema.redemptions
        query = sa.select(sa.func.count()).select_from(table).where(table.c.survey == name)
        with self._reading.connect() as connection:
            return int(connection.scalar(query) or 0)

    def revoke(self, name: str, invitations: Sequence[bytes]) -> int:
        """Let invitations that were not used yet count for nothing; how many of them were used before."""
        survey = self.survey(name)
        if survey is None or survey.vault_check is None:
            return 0
        secret = self.vault.secret(name, survey.vault_check)
        tags = sorted({tag(secret, "invitation", each) for each in invitations})
        used = sa.select(sa.func.count()).select_from(schema.redemptions)
        with self._writing.begin() as connection:
            statement = self._insert(schema.revocations).on_conflict_do_nothing()
            connection.execute(statement, [{"survey": name, "tag": each} for each in tags])
            of_these = (schema.redemptions.c.survey == name) & schema.redemptions.c.tag.in_(tags)
            return int(connection.scalar(used.where(of_these)) or 0)

    # -- settings ---------------------------------------------------------------------------------------------------

    def setting(self, name: str) -> bytes | None:
        """A setting's value."""
        with self._reading.connect() as connection:
            value = connection.scalar(sa.select(schema.settings.c.value).where(schema.settings.c.name == name))
        return None if value is None else bytes(value)

    def set_setting(self, name: str, value: bytes) -> None:
        """Write a setting."""
        statement = self._insert(schema.settings)
        statement = statement.on_conflict_do_update(index_elements=["name"], set_={"value": statement.excluded.value})
        with self._writing.begin() as connection:
            connection.execute(statement, {"name": name, "value": value})


def survey_id(plan: Plan, run: int = 1) -> str:
    """A survey is named by the first 16 digits of its plan's hash, and from the second run on by which run it is."""
    return plan.hash[:16] if run == 1 else f"{plan.hash[:16]}-{run}"
