"""The database: SQLite in a folder or PostgreSQL by its URL, through one code path.

Every change is one transaction that is on disk when the call returns: SQLite with a write-ahead log and a sync per
commit, PostgreSQL with its defaults. What is written is sorted first, so that processes that share a PostgreSQL take
locks in the same order and none waits for another in a circle.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Literal

import numpy as np
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from tacit.exact import Integers
from tacit.mechanism import Mechanism
from tacit.plan import Plan
from tacit.server import schema
from tacit.tally import Counts, Coverage, GroupTally, Tally

Outcome = Literal["counted", "already counted", "closed"]
#: Processes that start at once create the tables one after the other, under this PostgreSQL lock.
_CREATE_LOCK = 7_236_548


@dataclass(frozen=True, slots=True)
class Submission:
    """Reports that are counted together or not at all: (group, report, how often), under one key.

    `folds` are the groups whose reports are kept as sums, with the mechanism that folds them.
    """

    survey: str
    key: str
    reports: Sequence[tuple[int, int, int]]
    refused: int = 0
    folds: Mapping[int, Mechanism] = field(default_factory=dict)


@dataclass(frozen=True)
class Survey:
    """What the collector knows about a survey besides its counts."""

    id: str
    plan: str
    group_question: str | None
    public_results: bool
    opened: date
    closed: date | None
    invitation_secret: bytes | None
    credential_key: bytes | None

    @property
    def is_open(self) -> bool:
        return self.closed is None

    @property
    def invited(self) -> bool:
        return self.invitation_secret is not None


class _RepeatedError(Exception):
    """A key was there before."""


class _Statements:
    """What every commit executes, built once. A group's keys travel as one JSON array, so that the statements, and how
    often the database is entered, do not depend on the size of the group.
    """

    def __init__(self, dialect: str) -> None:
        of_dialect: Any = postgresql if dialect == "postgresql" else sqlite
        self.insert = of_dialect.insert
        surveys, keys = schema.surveys, schema.keys
        among = surveys.c.id.in_(sa.bindparam("names", expanding=True))
        self.open = sa.select(surveys.c.id).where(among, surveys.c.closed.is_(None)).with_for_update(read=True)
        array = sa.bindparam("keys", type_=sa.Text)
        elements = (
            sa.func.json_array_elements_text(sa.cast(array, postgresql.JSON))
            if dialect == "postgresql"
            else sa.func.json_each(array)
        ).table_valued("value")
        name = sa.bindparam("name", type_=sa.String)
        self.known = sa.select(keys.c.key).where(keys.c.survey == name, keys.c.key.in_(sa.select(elements.c.value)))
        # SQLite needs a WHERE to tell the conflict clause from a join.
        rows = sa.select(name, elements.c.value).where(sa.true())
        keep = self.insert(keys).from_select(["survey", "key"], rows).on_conflict_do_nothing()
        self.keep = keep.execution_options(preserve_rowcount=True)
        self.increase = {table.name: self._increase(table) for table in (schema.counts, schema.totals, schema.refusals)}

    def _increase(self, table: sa.Table) -> Any:
        statement = self.insert(table)
        names = [column.name for column in table.primary_key]
        return statement.on_conflict_do_update(
            index_elements=names, set_={"count": table.c.count + statement.excluded.count}
        )


class Store:
    """All reads and writes. Not for the event loop: every method waits for the database."""

    def __init__(self, where: str | Path, today: Callable[[], date]) -> None:
        self._today = today
        self._writing, self._reading = _engines(str(where))
        self._statements = _Statements(self._writing.dialect.name)
        self._insert = self._statements.insert
        try:
            self._create_tables()
        except sa.exc.OperationalError as error:
            raise OSError(f"The database cannot be used: {str(error.orig).strip()}") from error

    def _create_tables(self) -> None:
        with self._writing.begin() as connection:
            if self._writing.dialect.name == "postgresql":
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_CREATE_LOCK)))
            schema.metadata.create_all(connection)

    def close(self) -> None:
        """Give the connections back; SQLite folds its log into the database."""
        self._reading.dispose()
        self._writing.dispose()

    def check(self) -> None:
        """Raise unless the database answers."""
        with self._reading.connect() as connection:
            connection.execute(sa.select(sa.literal(1)))

    # -- counting ---------------------------------------------------------------------------------------------------

    def count(self, submissions: Sequence[Submission]) -> list[Outcome]:
        """Count submissions whose key is new, all in one transaction; what happened to each."""
        look = False
        while True:
            try:
                return self._count(submissions, look)
            except _RepeatedError:
                look = True

    def _count(self, submissions: Sequence[Submission], look: bool) -> list[Outcome]:
        with self._writing.begin() as connection:
            opened = self._lock_open(connection, {each.survey for each in submissions})
            first: dict[str, dict[str, int]] = {name: {} for name in sorted(opened)}
            for nth, each in enumerate(submissions):
                if each.survey in opened:
                    first[each.survey].setdefault(each.key, nth)
            fresh = {
                named[key]
                for name, named in first.items()
                for key in self._remember(connection, name, sorted(named), look)
            }
            self._add(connection, [submissions[nth] for nth in fresh])
        return [
            "closed" if each.survey not in opened else "counted" if nth in fresh else "already counted"
            for nth, each in enumerate(submissions)
        ]

    def _lock_open(self, connection: sa.Connection, names: set[str]) -> set[str]:
        """The open ones of these surveys; none of them can close before this transaction ends."""
        return set(connection.scalars(self._statements.open, {"names": sorted(names)}))

    def _remember(self, connection: sa.Connection, survey: str, keys: list[str], look: bool) -> list[str]:
        """Keep the keys; returns those that were not there before.

        Most are new, so they are kept without a look. Where one was there, everything is done again, with a look first;
        and again if another process keeps one of them between the look and the keeping.
        """
        if look:
            known = set(connection.scalars(self._statements.known, {"name": survey, "keys": json.dumps(keys)}))
            keys = [key for key in keys if key not in known]
        if keys:
            kept = connection.execute(self._statements.keep, {"name": survey, "keys": json.dumps(keys)})
            if kept.rowcount != len(keys):
                raise _RepeatedError
        return keys

    def _add(self, connection: sa.Connection, submissions: Iterable[Submission]) -> None:
        day = self._today()
        counts: dict[tuple[Any, ...], int] = defaultdict(int)
        totals: dict[tuple[Any, ...], int] = defaultdict(int)
        refusals: dict[tuple[Any, ...], int] = defaultdict(int)
        folded: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        mechanisms: dict[tuple[str, int], Mechanism] = {}
        for each in submissions:
            for group, report, times in each.reports:
                totals[each.survey, day, group] += times
                if group in each.folds:
                    folded[each.survey, group].append((report, times))
                    mechanisms[each.survey, group] = each.folds[group]
                else:
                    counts[each.survey, day, group, report] += times
            if each.refused:
                refusals[each.survey, day] += each.refused
        for table, sums in ((schema.counts, counts), (schema.totals, totals), (schema.refusals, refusals)):
            self._increase(connection, table, sums)
        for (survey, group), rows in sorted(folded.items()):
            reports, times = np.array(rows, dtype=np.int64).T
            covered = mechanisms[survey, group].fold(np.ascontiguousarray(reports), np.ascontiguousarray(times))
            assert covered is not None
            self._cover(connection, {"survey": survey, "day": day, "group": group}, covered)

    def _cover(self, connection: sa.Connection, row: dict[str, Any], sums: Integers) -> None:
        """Add to the sums of coverage of a group and a day, which nobody else changes before this transaction ends."""
        table = schema.coverage
        nothing = np.zeros_like(sums).astype("<i8").tobytes()
        connection.execute(self._insert(table).on_conflict_do_nothing(), row | {"sums": nothing})
        here = sa.and_(*(table.c[name] == value for name, value in row.items()))
        before = connection.scalar(sa.select(table.c.sums).where(here).with_for_update())
        after = np.frombuffer(before or nothing, dtype="<i8") + sums
        connection.execute(sa.update(table).where(here), {"sums": after.astype("<i8").tobytes()})

    def _increase(self, connection: sa.Connection, table: sa.Table, sums: dict[tuple[Any, ...], int]) -> None:
        """Add to the counts of a table, by its primary key."""
        if sums:
            names = [column.name for column in table.primary_key]
            rows = [dict(zip(names, key, strict=True)) | {"count": n} for key, n in sorted(sums.items())]
            connection.execute(self._statements.increase[table.name], rows)

    # -- surveys ----------------------------------------------------------------------------------------------------

    def create(
        self,
        plan: Plan,
        *,
        public_results: bool = False,
        group_question: str | None = None,
        invitation_secret: bytes | None = None,
        credential_key: bytes | None = None,
    ) -> bool:
        """Open a survey for a plan. Returns False, and changes nothing, if the plan has one already."""
        row = {
            "id": survey_id(plan),
            "plan": json.dumps(plan.to_dict()),
            "group_question": group_question,
            "public_results": public_results,
            "opened": self._today(),
            "invitation_secret": invitation_secret,
            "credential_key": credential_key,
        }
        statement = self._insert(schema.surveys).on_conflict_do_nothing().returning(schema.surveys.c.id)
        with self._writing.begin() as connection:
            return connection.execute(statement, row).first() is not None

    def survey(self, name: str) -> Survey | None:
        """The survey of that id."""
        with self._reading.connect() as connection:
            row = connection.execute(sa.select(schema.surveys).where(schema.surveys.c.id == name)).one_or_none()
        return None if row is None else Survey(**row._asdict())

    def surveys(self) -> list[tuple[Survey, int]]:
        """All surveys with their numbers of reports, the newest first."""
        total = sa.select(sa.func.coalesce(sa.func.sum(schema.totals.c.count), 0)).where(
            schema.totals.c.survey == schema.surveys.c.id
        )
        query = sa.select(schema.surveys, total.scalar_subquery().label("n_reports"))
        with self._reading.connect() as connection:
            rows = connection.execute(query.order_by(schema.surveys.c.opened.desc(), schema.surveys.c.id)).all()
        facts = [row._asdict() for row in rows]
        return [(Survey(**row), int(n)) for row in facts for n in [row.pop("n_reports")]]

    def change(self, name: str, *, public_results: bool | None = None, close: bool = False) -> None:
        """Change who sees the results; close, which is final and erases every key of the survey."""
        surveys = schema.surveys
        with self._writing.begin() as connection:
            if public_results is not None:
                connection.execute(sa.update(surveys).where(surveys.c.id == name), {"public_results": public_results})
            if close:
                still_open = (surveys.c.id == name) & surveys.c.closed.is_(None)
                connection.execute(sa.update(surveys).where(still_open), {"closed": self._today()})
                for table in (schema.keys, schema.redemptions):
                    connection.execute(sa.delete(table).where(table.c.survey == name))

    def redeem(self, name: str, invitation: bytes, blinded: bytes) -> Literal["redeemed", "spent", "closed"]:
        """Exchange an invitation, once: again only for the same blinded message (given by its hash)."""
        table = schema.redemptions
        row = {"survey": name, "invitation": invitation, "blinded": blinded}
        with self._writing.begin() as connection:
            if not self._lock_open(connection, {name}):
                return "closed"
            connection.execute(self._insert(table).on_conflict_do_nothing(), row)
            kept = connection.scalar(
                sa.select(table.c.blinded).where(table.c.survey == name, table.c.invitation == invitation)
            )
        return "redeemed" if kept is not None and bytes(kept) == blinded else "spent"

    # -- tallies ----------------------------------------------------------------------------------------------------

    def totals(self, name: str) -> dict[date, dict[int, int]]:
        """How many reports of each group came on each day."""
        table = schema.totals
        query = sa.select(table.c.day, table.c.group, table.c.count).where(table.c.survey == name)
        found: dict[date, dict[int, int]] = defaultdict(dict)
        with self._reading.connect() as connection:
            for day, group, count in connection.execute(query.order_by(table.c.day, table.c.group)):
                found[day][group] = count
        return dict(found)

    def refused(self, name: str) -> int:
        """How many reports of batches were refused."""
        table = schema.refusals
        query = sa.select(sa.func.coalesce(sa.func.sum(table.c.count), 0)).where(table.c.survey == name)
        with self._reading.connect() as connection:
            return int(connection.scalar(query) or 0)

    def tally(self, name: str, plan: Plan, since: date | None = None, until: date | None = None) -> Tally:
        """The tally of the days from `since` to `until`, both included."""
        groups: dict[int, GroupTally] = {
            **self._group_counts(name, since, until),
            **self._group_coverage(name, since, until),
        }
        refused = schema.refusals
        query = sa.select(sa.func.coalesce(sa.func.sum(refused.c.count), 0)).where(*_days(refused, name, since, until))
        with self._reading.connect() as connection:
            n_refused = int(connection.scalar(query) or 0)
        return Tally(plan.hash, {plan.groups[k].name: counts for k, counts in groups.items()}, n_refused)

    def _group_counts(self, name: str, since: date | None, until: date | None) -> dict[int, Counts]:
        table = schema.counts
        query = (
            sa.select(table.c.group, table.c.report, sa.func.sum(table.c.count))
            .where(*_days(table, name, since, until))
            .group_by(table.c.group, table.c.report)
            .order_by(table.c.group, table.c.report)
        )
        with self._reading.connect() as connection:
            rows = np.array([tuple(row) for row in connection.execute(query)], dtype=np.int64).reshape(-1, 3)
        return {int(k): Counts(*rows[rows[:, 0] == k, 1:].T) for k in np.unique(rows[:, 0])}

    def _group_coverage(self, name: str, since: date | None, until: date | None) -> dict[int, Coverage]:
        table, totals = schema.coverage, schema.totals
        same = [table.c[column] == totals.c[column] for column in ("survey", "day", "group")]
        query = sa.select(table.c.group, table.c.sums, totals.c.count).join(totals, sa.and_(*same))
        found: dict[int, Coverage] = {}
        with self._reading.connect() as connection:
            for group, sums, count in connection.execute(query.where(*_days(table, name, since, until))):
                one = Coverage(np.frombuffer(sums, dtype="<i8").astype(np.int64), int(count))
                found[group] = found[group].merge(one) if group in found else one
        return found

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


def survey_id(plan: Plan) -> str:
    """A survey is named by its plan."""
    return plan.hash[:16]


def _days(table: sa.Table, name: str, since: date | None, until: date | None) -> list[sa.ColumnElement[bool]]:
    wanted = [table.c.survey == name]
    if since is not None:
        wanted.append(table.c.day >= since)
    if until is not None:
        wanted.append(table.c.day <= until)
    return wanted


def _engines(where: str) -> tuple[sa.Engine, sa.Engine]:
    """One engine that writes and one that reads; the same for PostgreSQL."""
    if where.startswith(("postgresql:", "postgres:", "postgresql+psycopg:")):
        url = sa.make_url(where).set(drivername="postgresql+psycopg")
        engine = sa.create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": 10})
        return engine, engine
    if "://" in where:
        raise ValueError(f"The data must be a folder or the URL of a PostgreSQL. Got {where.partition('://')[0]}://….")
    folder = Path(where)
    folder.mkdir(parents=True, exist_ok=True)
    url = sa.URL.create("sqlite", database=str(folder / "tacit.sqlite"))
    # One writer: a second one, even of another process, waits for it.
    writing = sa.create_engine(url, pool_size=1, max_overflow=0, connect_args={"timeout": 30})
    reading = sa.create_engine(url, connect_args={"timeout": 30})
    _prepare(writing, "BEGIN IMMEDIATE")
    _prepare(reading, "BEGIN")
    return writing, reading


def _prepare(engine: sa.Engine, begin: str) -> None:
    """Take transactions out of the driver's hands, and make commits durable and erased rows really gone."""

    @sa.event.listens_for(engine, "connect")
    def _connected(connection: Any, _: Any) -> None:
        connection.isolation_level = None
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON"):
            connection.execute(f"PRAGMA {pragma}").close()

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql(begin)
