"""The store: surveys and their tallies in a database and a vault, through one code path for SQLite and PostgreSQL.

Every change is on disk when the call returns: SQLite with a write-ahead log and a sync per commit, PostgreSQL with its
defaults. What is kept, and what it cannot tell, is in docs/service-data.md.

A backup (`copy_store`) is a data folder like any other: `tacit serve --data BACKUP` serves it. Rows are written in the
order of their keys, so that a backup keeps no order at all, and what is sealed is sealed anew, under its own seal.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tacit.plan import Plan
from tacit.randomize.randomness import secret_bytes
from tacit.server.storage import schema
from tacit.server.storage.counting import Counting, Job, Outcome, Redemption, Submission, refused
from tacit.server.storage.database import be_alone, open_database, prepare
from tacit.server.storage.vault import Pending, Vault, VaultError, new_life, tag
from tacit.tally import Tally

__all__ = ["Outcome", "Redemption", "Store", "Submission", "Survey", "survey_id"]

_log = logging.getLogger("tacit.server")

#: New reports of a group before its public results change, by default.
PUBLISH_EVERY = 20
#: The most combinations of public answers in which reports are counted.
MOST_CELLS = 200
#: Tables of tags, which are erased when a survey closes; how many rows a step erases; and up to how many rows of other
#: surveys a table is written anew for that.
_TAGGED = (schema.keys, schema.redemptions)
_STEP, _FEW_ROWS = 20_000, 100_000


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
    life: str

    def is_open(self, today: date) -> bool:
        """Whether it takes reports."""
        return self.closed is None and (self.ends is None or today <= self.ends)

    @property
    def invited(self) -> bool:
        return self.invitation_secret is not None


class Store:
    """All reads and writes. Not for the event loop: every method waits for the database."""

    def __init__(
        self,
        where: str | Path,
        today: Callable[[], date],
        *,
        vault: Path | None = None,
        allow_wide: bool = False,
        migrate: bool = True,
    ) -> None:
        self.today = today
        self.database = open_database(str(where), vault, allow_wide)
        self._writing, self._reading = self.database.writing, self.database.reading
        try:
            self.vault = Vault(self.database.vault / prepare(self.database, migrate))
        except BaseException:
            self.close()
            raise
        self.counting = Counting(self.database, self.vault, today)
        self._insert = self.counting.statements.insert
        #: Tables from which a survey was erased, to be written anew.
        self._erased: set[sa.Table] = set()
        self._erased_to: dict[tuple[str, str], str] = {}
        self._clean_up()

    def close(self) -> None:
        """Give the connections back; SQLite folds its log into the database."""
        if hasattr(self, "vault"):
            self.vault.close()
        self._reading.dispose()
        self._writing.dispose()

    def check(self) -> None:
        """Raise unless database and vault can be written, and what was written can be read."""
        self.database.check_there()
        self.vault.check()
        proof = secret_bytes(8)
        self.set_setting("checked", proof)
        if self.setting("checked") is None:
            raise OSError("The database does not give back what was written.")

    @property
    def tidied(self) -> bool:
        """Whether nothing was written since the last `tidy`."""
        return not self.counting.wrote

    def tidy(self) -> None:
        """Take out of the database's files what was erased or replaced; nothing to do if nothing was written.

        While another process reads a SQLite, its log stays; the next call empties it. PostgreSQL gives space free, and
        writes tables anew where a survey was erased from them, unless that would stop others for long.
        """
        if self.tidied:
            return
        if self.database.kind == "sqlite":
            with self._writing.connect() as connection:
                raw: Any = connection.connection.driver_connection
                self.counting.wrote = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] != 0
            return
        with self._writing.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            for table in sorted(
                {schema.sealed, schema.arriving, *_TAGGED, *self._erased}, key=lambda table: table.name
            ):
                some = sa.select(sa.literal(1)).select_from(table).limit(_FEW_ROWS + 1).subquery()
                anew = (
                    table in self._erased
                    and (connection.scalar(sa.select(sa.func.count()).select_from(some)) or 0) <= _FEW_ROWS
                )
                connection.exec_driver_sql(f"VACUUM {'(FULL) ' if anew else ''}{table.name}")
        self.counting.wrote, self._erased = False, set()

    # -- counting ---------------------------------------------------------------------------------------------------

    def write(self, jobs: Sequence[Job]) -> list[Outcome | VaultError]:
        """Count submissions whose key is new and exchange invitations; what became of each, or why it failed."""
        return self.counting.write(jobs)

    def count(self, submissions: Sequence[Submission]) -> list[Outcome]:
        """The same, if none of them fails."""
        return [self._done(each) for each in self.write(submissions)]

    def redeem(self, name: str, invitation: bytes, blinded: bytes) -> Outcome:
        """Exchange an invitation, once: again only for the same blinded message (given by its hash)."""
        return self._done(self.write([Redemption(name, invitation, blinded)])[0])

    @staticmethod
    def _done(outcome: Outcome | VaultError) -> Outcome:
        if isinstance(outcome, VaultError):
            raise outcome
        return outcome

    def totals(self, name: str) -> dict[date, dict[int, int]]:
        """How many reports of each group came on each day."""
        return self.counting.totals(name)

    def refused(self, name: str) -> int:
        """How many reports of batches were refused."""
        with self._reading.connect() as connection:
            return refused(connection, name)

    def tally(self, name: str, plan: Plan, since: date | None = None, until: date | None = None) -> Tally:
        """The tally of the days from `since` to `until`, both included."""
        return self.counting.tally(name, plan, since, until)

    def tallies_by_cell(self, name: str, plan: Plan) -> dict[int, Tally]:
        """A tally for each combination of public answers that was given, by its number in `plan.public_cells`."""
        return self.counting.tallies_by_cell(name, plan)

    # -- surveys ----------------------------------------------------------------------------------------------------

    def create(self, plan: Plan, *, run: int = 1, **given: Any) -> bool:
        """Open a survey for a plan. Returns False, and changes nothing, if the plan has one already.

        `given` are columns of `schema.surveys`: what the page asks, who may take part, who sees the results.
        """
        check_served(plan)
        name = survey_id(plan, run)
        defaults = {"public_results": False, "publish_every": PUBLISH_EVERY, "invitations": 0}
        life = new_life()
        row = defaults | given | {"id": name, "plan": json.dumps(plan.to_dict()), "opened": self.today(), "life": life}
        statement = self._insert(schema.surveys).on_conflict_do_nothing().returning(schema.surveys.c.id)
        if self.survey(name) is not None:
            return False
        with self._writing.begin() as connection:
            be_alone(connection)
            if connection.execute(statement, row).first() is None:
                return False
            # Its secrets are on disk before anybody can count.
            self.vault.create(life)
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
        return [(Survey(**row._asdict()), self._listed(row.id)) for row in rows]

    def n_reports(self, name: str) -> int:
        """How many reports a survey has."""
        return sum(sum(day.values()) for day in self.totals(name).values())

    def _listed(self, name: str) -> int:
        """The same; of a survey in doubt, how many are in the counts."""
        try:
            return self.n_reports(name)
        except VaultError:
            table = schema.totals
            query = sa.select(sa.func.coalesce(sa.func.sum(table.c.count), 0)).where(table.c.survey == name)
            with self._reading.connect() as connection:
                return int(connection.scalar(query) or 0)

    def change(self, name: str, *, close: bool = False, **given: Any) -> None:
        """Change columns of a survey; close it, which is final and erases every tag of it."""
        if given:
            with self._writing.begin() as connection:
                self._update(connection, name, **given)
        if close:
            self.close_survey(name)
            self.erase_tags()

    def _update(self, connection: sa.Connection, name: str, **given: Any) -> None:
        connection.execute(sa.update(schema.surveys).where(schema.surveys.c.id == name), given)

    def close_survey(self, name: str) -> None:
        """Close a survey for good: it takes no more reports, and its secrets are gone. Its tags are left to
        `erase_some_tags`, since there may be millions; nothing can be compared with them any more.
        """
        with self._writing.begin() as connection, self.counting.closing(connection, name) as life:
            if life is None:
                return
            self._update(connection, name, closed=self.today())
            connection.execute(sa.delete(schema.sealed).where(schema.sealed.c.survey == name))
        self.vault.erase(life)
        self._tell_erased(schema.sealed)

    def delete(self, name: str) -> None:
        """Delete a survey with everything that is kept of it."""
        self.close_survey(name)
        self.erase_tags()
        with self._writing.begin() as connection:
            for table in schema.metadata.sorted_tables:
                if "survey" in table.c:
                    connection.execute(sa.delete(table).where(table.c.survey == name))
            # What pages keep about a survey is a setting that ends with its name.
            connection.execute(sa.delete(schema.settings).where(schema.settings.c.name.like(f"%:{name}")))
            connection.execute(sa.delete(schema.surveys).where(schema.surveys.c.id == name))
        self._tell_erased(*schema.metadata.sorted_tables)
        self._tidy_now()

    def erase_tags(self) -> None:
        """Erase all tags of closed surveys."""
        while self.erase_some_tags():
            pass

    def erase_some_tags(self) -> bool:
        """Erase some tags of closed surveys, in a short transaction; whether there may be more."""
        closed = sa.select(schema.surveys.c.id).where(schema.surveys.c.closed.is_not(None))
        for table in _TAGGED:
            with self._writing.begin() as connection:
                name = connection.scalar(sa.select(table.c.survey).where(table.c.survey.in_(closed)).limit(1))
                if name is None:
                    continue
                # From where the last step ended: a database looks at each row that it erased a moment ago again.
                rest = (table.c.survey == name) & (table.c.tag > self._erased_to.get((table.name, name), ""))
                some = sa.select(table.c.tag).where(rest).order_by(table.c.tag).limit(_STEP).subquery()
                last = connection.scalar(sa.select(sa.func.max(some.c.tag)))
                if last is not None:
                    connection.execute(sa.delete(table).where(rest, table.c.tag <= last))
                self._erased_to[table.name, name] = last or ""
            self._tell_erased(table)
            return True
        if self._erased:
            self._tidy_now()
        return False

    def _tell_erased(self, *tables: sa.Table) -> None:
        self.counting.wrote = True
        self._erased |= {*tables}

    def _tidy_now(self) -> None:
        # Another process may hold a table; then it is done when there is nothing to write.
        with suppress(sa.exc.SQLAlchemyError):
            self.tidy()

    def _clean_up(self) -> None:
        """Finish what a process that was killed left: secrets of closed surveys, seals that were replaced, a full log.

        Secrets that belong to no survey are kept, in case this is an older copy of the database; `repair` erases them.
        """
        surveys, sealed = schema.surveys, schema.sealed
        query = sa.select(surveys.c.id, surveys.c.life, surveys.c.closed, sealed.c.version)
        with self.vault.unchanged(), self._reading.connect() as connection:
            rows = connection.execute(query.outerjoin_from(surveys, sealed, sealed.c.survey == surveys.c.id)).all()
        lives = self.vault.lives()
        for row in rows:
            if row.closed is not None and row.life in lives:
                self.vault.erase(row.life)
        # A seal that is newer than its row may be about to be used by another process; an older one is not.
        self.vault.forget({row.life: row.version - 1 for row in rows if row.closed is None and row.version})
        for name, why in self.in_doubt().items():
            _log.error(
                "A survey is in doubt and takes no reports; tacit serve repair can help.",
                extra={"cause": f"{name}: {why}"},
            )
        if self.database.kind == "sqlite":
            self._tidy_now()

    # -- surveys in doubt -------------------------------------------------------------------------------------------

    def in_doubt(self) -> dict[str, str]:
        """The open surveys whose secrets or newest reports the vault does not have, and why."""
        found = {}
        with self._reading.connect() as connection:
            surveys = schema.surveys
            rows = connection.execute(sa.select(surveys.c.id, surveys.c.life).where(surveys.c.closed.is_(None))).all()
        for name, life in rows:
            try:
                self.vault.secret(life)
                with self.counting.moment(name):
                    pass
            except VaultError as error:
                found[name] = str(error)
        return found

    def repair(self) -> dict[str, str]:
        """Let surveys in doubt go on as far as they can; what was done to each, in words.

        Where the secret is there and only the newest reports cannot be opened, they are given up. Where the secret is
        gone, keys and invitations that were used cannot be known again, so the survey is closed with its counts.
        """
        done = {}
        for name in self.in_doubt():
            survey = self.survey(name)
            if survey is None:
                continue
            try:
                self.vault.secret(survey.life)
            except VaultError:
                self.change(name, close=True)
                done[name] = (
                    "closed: its secrets are lost, so what was counted could not be told from what is sent again. "
                    "Its counts stay, without the newest reports, fewer than 20 of each group. Open another run of it."
                )
                continue
            with self._writing.begin() as connection:
                connection.execute(sa.delete(schema.sealed).where(schema.sealed.c.survey == name))
            done[name] = (
                "goes on without its newest reports, fewer than 20 of each group, which cannot be opened. Those who "
                "sent them, or anything since the database was copied, can send again and are counted."
            )
        with self._writing.begin() as connection:
            be_alone(connection)
            known = set(connection.scalars(sa.select(schema.surveys.c.life)))
            strays = self.vault.lives() - known
            for life in strays:
                self.vault.erase(life)
        if strays:
            done["vault"] = f"{len(strays)} secrets of surveys that this database does not have were erased"
        return done

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
        query = sa.select(sa.func.count()).where(table.c.survey == name, table.c.blinded != "")
        with self.counting.moment(name) as (connection, pending):
            return int(connection.scalar(query) or 0) + len(pending[name].exchanged)

    def revoke(self, name: str, invitations: Sequence[bytes]) -> int:
        """Let invitations that were not used yet count for nothing; how many of them were used before."""
        survey = self.survey(name)
        if survey is None or survey.closed is not None:
            return 0
        secret = self.vault.secret(survey.life)
        tags = sorted({tag(secret, "invitation", each) for each in invitations})
        with self._writing.begin() as connection:
            used = self.counting.exchanged_among(connection, name, tags)
            lost = [{"survey": name, "tag": each, "blinded": ""} for each in tags if each not in used]
            if lost:
                connection.execute(self._insert(schema.redemptions).on_conflict_do_nothing(), lost)
        return len(used)

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


def check_served(plan: Plan) -> None:
    """Raise `ValueError` for what devices may randomize but the service does not collect."""
    for question in plan.questions:
        condition = question.asked_if
        if question.public and question.kind == "number":
            raise ValueError(f"The public question {question.name!r} asks for a number: list its answers instead.")
        if question.public and condition is not None and not plan.question_of(condition[0]).public:
            raise ValueError(
                f"The public question {question.name!r} is asked after a private answer, which it would tell."
            )
    if len(plan.public_cells) > MOST_CELLS:
        raise ValueError(
            f"The public questions have {len(plan.public_cells):,} combinations of answers. The service counts "
            f"{MOST_CELLS:,} at most: in smaller ones people would be told apart."
        )


def survey_id(plan: Plan, run: int = 1) -> str:
    """A survey is named by the first 16 digits of its plan's hash, and from the second run on by which run it is."""
    return plan.hash[:16] if run == 1 else f"{plan.hash[:16]}-{run}"


#: Rows that are held in memory at a time.
_ROWS = 10_000
#: What is not copied as it is: the target has a name and a seal of its own.
_OWN = (schema.sealed, schema.alembic_version)


def copy_store(source: Store, target: Store, progress: Callable[[int, int | None], None] = lambda n, all: None) -> int:
    """Copy everything as it is at one moment; how many surveys that were. The target must be empty."""
    _check_unused(target)
    surveys = schema.surveys
    with source.counting.moment() as (connection, pending):
        rows = connection.execute(sa.select(surveys.c.id, surveys.c.life).where(surveys.c.closed.is_(None))).all()
        with target.database.writing.begin() as writing:
            tables = [table for table in schema.metadata.sorted_tables if table not in _OWN]
            for nth, table in enumerate(tables):
                progress(nth, len(tables))
                _copy_table(connection, writing, table)
            for name, life in rows:
                target.vault.create(life, source.vault.secret(life))
                content = pending.get(name, Pending()).sealed(target.vault.new_seals({life: 1})[life], life)
                writing.execute(sa.insert(schema.sealed), {"survey": name, "version": 1, "content": content})
    return len(rows)


def _check_unused(target: Store) -> None:
    """Refuse a place that has been used; the proof of health that every start may leave does not count."""
    own = {"identity", "checked"}
    with target.database.reading.connect() as connection:
        for table in (each for each in schema.metadata.sorted_tables if each not in _OWN):
            query = sa.select(sa.func.count()).select_from(table)
            if connection.scalar(query.where(table.c.name.not_in(own)) if table is schema.settings else query):
                raise ValueError(
                    f"The place to copy to is in use: its table {table.name} is not empty. Name a new folder or an "
                    "empty database."
                )


def _copy_table(reading: sa.Connection, writing: sa.Connection, table: sa.Table) -> None:
    query = sa.select(table).order_by(*table.primary_key)
    if table is schema.settings:
        query = query.where(table.c.name.not_in(("identity", "checked")))
    for rows in reading.execute(query, execution_options={"yield_per": _ROWS}).partitions(_ROWS):
        writing.execute(sa.insert(table), [row._asdict() for row in rows])


def check_new(folder: Path) -> None:
    """Refuse to write a backup over something."""
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty. Name a new folder for the backup.")
