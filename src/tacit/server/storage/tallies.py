"""Reading tallies: what is in the counts, and the newest reports that are still sealed, from one moment."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date

import numpy as np
import sqlalchemy as sa

from tacit.exact import Integers
from tacit.plan import Plan
from tacit.server.storage import schema
from tacit.server.storage.counting import Counting
from tacit.server.storage.database import Database
from tacit.server.storage.vault import Pending, Vault, VaultError
from tacit.tally import Counts, Coverage, Kept, Tally


class Tallies:
    """All reading of counts."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self._database, self._vault = database, vault

    @contextmanager
    def moment(self, name: str) -> Iterator[tuple[sa.Connection, Pending]]:
        """The database as it is at one moment, and what is sealed of a survey then."""
        with self._database.reading.connect() as connection:
            if self._database.kind == "postgresql":
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection, self._pending(connection, name)

    def _pending(self, connection: sa.Connection, name: str) -> Pending:
        """What is sealed, by the first query of a transaction; the vault's lock keeps its seal for so long."""
        try:
            with self._vault.locked(name) as held:
                return Counting.pending(connection, held, name)[1]
        except VaultError:
            # A closed survey has nothing sealed.
            if connection.scalar(sa.select(schema.sealed.c.version).where(schema.sealed.c.survey == name)) is None:
                return Pending()
            raise

    def totals(self, name: str) -> dict[date, dict[int, int]]:
        """How many reports of each group came on each day."""
        table = schema.totals
        query = sa.select(table.c.day, table.c.group, table.c.count).where(table.c.survey == name)
        sums: Counter[tuple[date, int]] = Counter()
        with self.moment(name) as (connection, pending):
            for (day, group, _), times in pending.reports.items():
                sums[day, group] += times
            for day, group, count in connection.execute(query):
                sums[day, group] += count
        found: dict[date, dict[int, int]] = defaultdict(dict)
        for (day, group), count in sorted(sums.items()):
            found[day][group] = count
        return dict(found)

    def refused(self, name: str) -> int:
        """How many reports of batches were refused."""
        with self._database.reading.connect() as connection:
            return _refused(connection, name, None, None)

    def tally(self, name: str, plan: Plan, since: date | None = None, until: date | None = None) -> Tally:
        """The tally of the days from `since` to `until`, both included."""
        with self.moment(name) as (connection, pending):
            groups: dict[int, Kept] = {
                **_counts(connection, name, since, until),
                **_coverage(connection, name, since, until),
            }
            n_refused = _refused(connection, name, since, until)
        newest: dict[int, Counter[int]] = defaultdict(Counter)
        for (day, group, report), times in pending.reports.items():
            if (since is None or since <= day) and (until is None or day <= until):
                newest[group][report] += times
        more = {k: plan.groups[k].mechanism.keep(*_arrays(reports)) for k, reports in newest.items()}
        return _named(plan, groups, n_refused).merge(_named(plan, more, 0))


def _named(plan: Plan, groups: Mapping[int, Kept], n_refused: int) -> Tally:
    return Tally(plan.hash, {plan.groups[k].name: counts for k, counts in sorted(groups.items())}, n_refused)


def _arrays(reports: Counter[int]) -> tuple[Integers, Integers]:
    rows = np.array(sorted(reports.items()), dtype=np.int64)
    return rows[:, 0].copy(), rows[:, 1].copy()


def _counts(connection: sa.Connection, name: str, since: date | None, until: date | None) -> dict[int, Counts]:
    table = schema.counts
    query = (
        sa.select(table.c.group, table.c.report, sa.func.sum(table.c.count))
        .where(*_days(table, name, since, until))
        .group_by(table.c.group, table.c.report)
        .order_by(table.c.group, table.c.report)
    )
    rows = np.array([tuple(row) for row in connection.execute(query)], dtype=np.int64).reshape(-1, 3)
    return {int(k): Counts(*rows[rows[:, 0] == k, 1:].T) for k in np.unique(rows[:, 0])}


def _coverage(connection: sa.Connection, name: str, since: date | None, until: date | None) -> dict[int, Coverage]:
    table, totals = schema.coverage, schema.totals
    same = [table.c[column] == totals.c[column] for column in ("survey", "day", "group")]
    query = sa.select(table.c.group, table.c.sums, totals.c.count).join(totals, sa.and_(*same))
    found: dict[int, Coverage] = {}
    for group, sums, count in connection.execute(query.where(*_days(table, name, since, until))):
        one = Coverage(np.frombuffer(sums, dtype="<i8").astype(np.int64), int(count))
        found[group] = found[group].merge(one) if group in found else one
    return found


def _refused(connection: sa.Connection, name: str, since: date | None, until: date | None) -> int:
    table = schema.refusals
    query = sa.select(sa.func.coalesce(sa.func.sum(table.c.count), 0)).where(*_days(table, name, since, until))
    return int(connection.scalar(query) or 0)


def _days(table: sa.Table, name: str, since: date | None, until: date | None) -> list[sa.ColumnElement[bool]]:
    wanted = [table.c.survey == name]
    if since is not None:
        wanted.append(table.c.day >= since)
    if until is not None:
        wanted.append(table.c.day <= until)
    return wanted
