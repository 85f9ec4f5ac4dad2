"""Counting: each submission once, and never so that what is stored tells which key came with which report.

At least `CROWD` new reports that arrive together enter the counts in the transaction that keeps their tags. Fewer are
put into the survey's sealed row instead; the transaction that completes a crowd there adds all of it to the counts, and
writes all of its tags anew. Whatever is sorted before it is written keeps no order of arrival,
and processes that share a PostgreSQL take locks in the same order, so that none waits for another in a circle.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal

import numpy as np
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from tacit.exact import Integers
from tacit.mechanism import Mechanism
from tacit.plan import Plan
from tacit.server.storage import schema
from tacit.server.storage.database import Database
from tacit.server.storage.vault import CROWD, Held, Pending, Place, Vault, VaultError, tag
from tacit.tally import Coverage

Outcome = Literal["counted", "already counted", "closed"]
Folds = Mapping[int, Mechanism]


@dataclass(frozen=True, slots=True)
class Submission:
    """Reports that are counted together or not at all: (group, report, how often), under one key.

    `folds` are the groups whose reports are kept as sums, with the mechanism that folds them; `covered` are reports of
    such groups that were folded already.
    """

    survey: str
    key: str
    reports: Sequence[tuple[int, int, int]]
    refused: int = 0
    folds: Folds = field(default_factory=dict)
    covered: Mapping[int, Coverage] = field(default_factory=dict)

    @property
    def n_reports(self) -> int:
        return sum(times for _, _, times in self.reports) + sum(each.total for each in self.covered.values())


class _RepeatedError(Exception):
    """A tag was there before."""


class Statements:
    """What every commit executes, built once. A group's tags travel as one JSON array, so that the statements, and how
    often the database is entered, do not depend on the size of the group.
    """

    def __init__(self, dialect: str) -> None:
        of_dialect: Any = postgresql if dialect == "postgresql" else sqlite
        self.insert = of_dialect.insert
        surveys = schema.surveys
        among = surveys.c.id.in_(sa.bindparam("names", expanding=True))
        ends = surveys.c.ends.is_(None) | (surveys.c.ends >= sa.bindparam("today", type_=sa.Date))
        unclosed = sa.select(surveys.c.id, surveys.c.vault_check).where(among, surveys.c.closed.is_(None))
        #: Surveys that take reports, shared with others who count or alone.
        self.share, self.hold = unclosed.where(ends).with_for_update(read=True), unclosed.where(ends).with_for_update()
        array = sa.bindparam("tags", type_=sa.Text)
        elements = (
            sa.func.json_array_elements_text(sa.cast(array, postgresql.JSON))
            if dialect == "postgresql"
            else sa.func.json_each(array)
        ).table_valued("value")
        name = sa.bindparam("name", type_=sa.String)
        keys = schema.keys
        here = (keys.c.survey == name) & keys.c.tag.in_(sa.select(elements.c.value))
        self.known, self.drop = sa.select(keys.c.tag).where(here), sa.delete(keys).where(here)
        # SQLite needs a WHERE to tell the conflict clause from a join.
        rows = sa.select(name, elements.c.value).where(sa.true())
        keep = self.insert(keys).from_select(["survey", "tag"], rows).on_conflict_do_nothing()
        self.keep = keep.execution_options(preserve_rowcount=True)
        self.increase = {table.name: self._increase(table) for table in (schema.counts, schema.totals, schema.refusals)}

    def _increase(self, table: sa.Table) -> Any:
        statement = self.insert(table)
        names = [column.name for column in table.primary_key]
        return statement.on_conflict_do_update(
            index_elements=names, set_={"count": table.c.count + statement.excluded.count}
        )


class Counting:
    """Writes submissions and exchanged invitations."""

    def __init__(self, database: Database, vault: Vault, today: Callable[[], date]) -> None:
        self._database, self._vault, self._today = database, vault, today
        self.statements = Statements(database.kind)

    def count(self, submissions: Sequence[Submission]) -> list[Outcome]:
        """Count submissions whose key is new; what happened to each. All of it is on disk when this returns."""
        self._database.check_there()
        groups: dict[str, dict[str, int]] = defaultdict(dict)
        for nth, each in enumerate(submissions):
            groups[each.survey].setdefault(each.key, nth)
        chosen = {name: [submissions[nth] for nth in group.values()] for name, group in groups.items()}
        crowds = {name: group for name, group in chosen.items() if _n_reports(group) >= CROWD}
        counted = self._count_crowds(crowds) if crowds else {}
        for name, group in chosen.items():
            if name not in counted:
                counted[name] = self._count_few(name, group)
        first = {nth for group in groups.values() for nth in group.values()}
        return [_outcome(counted[each.survey], each.key, nth in first) for nth, each in enumerate(submissions)]

    def _count_crowds(self, groups: Mapping[str, Sequence[Submission]]) -> dict[str, set[str] | None]:
        """Count groups that are crowds by themselves, if all of their keys are new, as most are.

        The keys that were counted, by survey; None for a closed one. Nothing if a key was there before.
        """
        try:
            with self._database.writing.begin() as connection:
                opened = self._lock(connection, self.statements.share, groups)
                for name, secret in sorted(opened.items()):
                    self._keep(connection, name, sorted(_tags(secret, groups[name])))
                    self._add(connection, name, groups[name])
        except _RepeatedError:
            return {}
        return {name: {each.key for each in group} if name in opened else None for name, group in groups.items()}

    def _count_few(self, name: str, group: Sequence[Submission]) -> set[str] | None:
        """Count what is new of a group, sealed unless it is a crowd by itself; which keys that were, None if closed."""
        try:
            with self._vault.locked(name) as held:
                return self._count_held(name, group, held)
        except VaultError:
            # Closing erases the survey's secrets.
            with self._database.writing.begin() as connection:
                if name not in self._open(connection, self.statements.share, [name]):
                    return None
            raise

    def _count_held(self, name: str, group: Sequence[Submission], held: Held) -> set[str] | None:
        with self._database.writing.begin() as connection:
            opened = self._lock(connection, self.statements.hold, [name])
            if name not in opened:
                return None
            tags = _tags(opened[name], group)
            known = set(connection.scalars(self.statements.known, {"name": name, "tags": json.dumps(list(tags))}))
            fresh = {tag: each for tag, each in tags.items() if tag not in known}
            counted = {each.key for each in fresh.values()}
            new = list(fresh.values())
            if not new:
                return counted
            if _n_reports(new) >= CROWD:
                self._keep(connection, name, sorted(fresh))
                self._add(connection, name, new)
                return counted
            version, before = self.pending(connection, held, name)
            after = before.plus(self._places(new), keys=fresh)
            # Rewritten together, so that neither their places nor their transactions tell an order.
            connection.execute(self.statements.drop, {"name": name, "tags": json.dumps(before.keys)})
            self._keep(connection, name, after.keys)
            self._refuse(connection, name, new)
            if after.n_reports >= CROWD:
                # They are a crowd, whose tags were all written just now.
                self.increase(connection, name, after.reports, group[0].folds)
                after = Pending(redemptions=after.redemptions)
            self._seal(connection, held, name, version + 1, after)
        held.forget(version)
        return counted

    def redeem(self, name: str, invitation: bytes, blinded: bytes) -> Literal["redeemed", "spent", "revoked", "closed"]:
        """Exchange an invitation, once: again only for the same blinded message."""
        self._database.check_there()
        try:
            with self._vault.locked(name) as held:
                return self._redeem_held(name, invitation, blinded, held)
        except VaultError:
            with self._database.writing.begin() as connection:
                if name not in self._open(connection, self.statements.share, [name]):
                    return "closed"
            raise

    def _redeem_held(
        self, name: str, invitation: bytes, blinded: bytes, held: Held
    ) -> Literal["redeemed", "spent", "revoked", "closed"]:
        table = schema.redemptions
        with self._database.writing.begin() as connection:
            opened = self._lock(connection, self.statements.hold, [name])
            if name not in opened:
                return "closed"
            row = {
                "survey": name,
                "tag": tag(opened[name], "invitation", invitation),
                "blinded": tag(opened[name], "blinded", blinded),
            }
            if connection.scalar(_row(schema.revocations, name, row["tag"])):
                return "revoked"
            kept = connection.execute(_row(table, name, row["tag"])).one_or_none()
            if kept is not None:
                return "redeemed" if kept.blinded == row["blinded"] else "spent"
            version, before = self.pending(connection, held, name)
            recent = (table.c.survey == name) & table.c.tag.in_(before.redemptions)
            rows = [each._asdict() for each in connection.execute(sa.select(table).where(recent))]
            connection.execute(sa.delete(table).where(recent))
            connection.execute(sa.insert(table), sorted([*rows, row], key=lambda each: str(each["tag"])))
            after = before.plus(Counter(), redemptions=[row["tag"]])
            if len(after.redemptions) >= CROWD:
                after = Pending(after.reports, after.keys)
            self._seal(connection, held, name, version + 1, after)
        held.forget(version)
        return "redeemed"

    # -- the sealed row -----------------------------------------------------------------------------------------------

    @staticmethod
    def pending(connection: sa.Connection, held: Held, name: str) -> tuple[int, Pending]:
        """A survey's newest reports, and the version of the row that holds them; 0 if there is none yet."""
        row = connection.execute(sa.select(schema.sealed).where(schema.sealed.c.survey == name)).one_or_none()
        if row is None:
            return 0, Pending()
        return row.version, Pending.opened(bytes(row.content), held.seal(row.version), name)

    def _seal(self, connection: sa.Connection, held: Held, name: str, version: int, pending: Pending) -> None:
        statement = self.statements.insert(schema.sealed)
        new = {column: statement.excluded[column] for column in ("version", "content")}
        statement = statement.on_conflict_do_update(index_elements=["survey"], set_=new)
        content = pending.sealed(held.new_seal(version), name)
        connection.execute(statement, {"survey": name, "version": version, "content": content})

    # -- what a transaction is made of --------------------------------------------------------------------------------

    def _open(self, connection: sa.Connection, statement: Any, names: Iterable[str]) -> dict[str, str | None]:
        rows = connection.execute(statement, {"names": sorted(names), "today": self._today()})
        return {name: check for name, check in rows}  # noqa: C416 – rows are not pairs

    def _lock(self, connection: sa.Connection, statement: Any, names: Iterable[str]) -> dict[str, bytes]:
        """Those of these surveys that take reports, with their secrets; none can close before the transaction ends."""
        found = self._open(connection, statement, names)
        return {name: self._vault.secret(name, check) for name, check in found.items()}

    def _keep(self, connection: sa.Connection, name: str, tags: Sequence[str]) -> None:
        """Keep tags that are not there."""
        kept = connection.execute(self.statements.keep, {"name": name, "tags": json.dumps(tags)})
        if kept.rowcount != len(tags):
            raise _RepeatedError

    def _places(self, group: Iterable[Submission]) -> Counter[Place]:
        day, places = self._today(), Counter[Place]()
        for each in group:
            for k, report, times in each.reports:
                places[day, k, report] += times
        return places

    def _add(self, connection: sa.Connection, name: str, group: Sequence[Submission]) -> None:
        self.increase(connection, name, self._places(group), group[0].folds)
        for each in group:
            for k, covered in sorted(each.covered.items()):
                place = {"survey": name, "day": self._today(), "group": k}
                self._increase(connection, schema.totals, {tuple(place.values()): covered.total})
                self._cover(connection, place, covered.coverage)
        self._refuse(connection, name, group)

    def _refuse(self, connection: sa.Connection, name: str, group: Iterable[Submission]) -> None:
        refused = sum(each.refused for each in group)
        self._increase(connection, schema.refusals, {(name, self._today()): refused} if refused else {})

    def increase(self, connection: sa.Connection, name: str, reports: Counter[Place], folds: Folds) -> None:
        """Add reports to the counts of a survey."""
        counts: dict[tuple[Any, ...], int] = {}
        totals: dict[tuple[Any, ...], int] = defaultdict(int)
        folded: dict[tuple[date, int], list[tuple[int, int]]] = defaultdict(list)
        for (day, group, report), times in reports.items():
            totals[name, day, group] += times
            if group in folds:
                folded[day, group].append((report, times))
            else:
                counts[name, day, group, report] = times
        self._increase(connection, schema.counts, counts)
        self._increase(connection, schema.totals, totals)
        for (day, group), rows in sorted(folded.items()):
            place = {"survey": name, "day": day, "group": group}
            self._cover(connection, place, fold(folds[group], rows))

    def _cover(self, connection: sa.Connection, row: dict[str, Any], sums: Integers) -> None:
        """Add to the sums of coverage of a group and a day, which no other transaction changes before this one ends."""
        table = schema.coverage
        nothing = np.zeros_like(sums).astype("<i8").tobytes()
        connection.execute(self.statements.insert(table).on_conflict_do_nothing(), row | {"sums": nothing})
        here = sa.and_(*(table.c[name] == value for name, value in row.items()))
        before = connection.scalar(sa.select(table.c.sums).where(here).with_for_update())
        after = np.frombuffer(before or nothing, dtype="<i8") + sums
        connection.execute(sa.update(table).where(here), {"sums": after.astype("<i8").tobytes()})

    def _increase(self, connection: sa.Connection, table: sa.Table, sums: dict[tuple[Any, ...], int]) -> None:
        """Add to the counts of a table, by its primary key."""
        if sums:
            names = [column.name for column in table.primary_key]
            rows = [dict(zip(names, key, strict=True)) | {"count": n} for key, n in sorted(sums.items())]
            connection.execute(self.statements.increase[table.name], rows)


def fold_groups(plan: Plan) -> Folds:
    """The groups whose reports are kept as sums, with the mechanism that folds them."""
    found = {k: group.mechanism for k, group in enumerate(plan.groups) if group.mechanism.n_sums is not None}
    none = np.zeros(0, dtype=np.int64)
    for mechanism in found.values():
        mechanism.keep(none, none)  # Compiles the loops now, not within a transaction.
    return found


def fold(mechanism: Mechanism, rows: Sequence[tuple[int, int]]) -> Integers:
    """The sums of coverage of reports, each with how often it came."""
    reports, times = np.array(rows, dtype=np.int64).T
    return mechanism.keep(np.ascontiguousarray(reports), np.ascontiguousarray(times)).folded().coverage


def _n_reports(group: Iterable[Submission]) -> int:
    return sum(each.n_reports for each in group)


def _tags(secret: bytes, group: Iterable[Submission]) -> dict[str, Submission]:
    return {tag(secret, "key", each.key.encode()): each for each in group}


def _row(table: sa.Table, name: str, of: str) -> Any:
    return sa.select(table).where(table.c.survey == name, table.c.tag == of)


def _outcome(counted: set[str] | None, key: str, first: bool) -> Outcome:
    if counted is None:
        return "closed"
    return "counted" if first and key in counted else "already counted"
