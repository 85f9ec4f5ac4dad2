"""Counting: each submission counts once, and nothing that is stored links a key to the report that it came with.

A submission has a key, so that sending it again counts nothing, and a report. If both were written when they arrive,
the database's log would show them side by side. So each survey has one encrypted row, the sealed row
(`vault.Pending`), in which the newest keys and reports wait as two sets. When 20 reports of a group wait, they are
added to the counts together; when 20 keys wait, their tags (keyed hashes) are written together, sorted. The same holds
for exchanges of invitations. An example, with one group:

    submission 1 … 19   the sealed row is replaced 19 times; it holds 19 tags and 19 reports
    submission 20       20 tags go to `keys`, 20 reports are added to `counts`; the sealed row is empty again

A reader of the database knows that these 20 keys sent these 20 reports, and not which key sent which. Under load a
transaction has more than 20 of both, and nothing waits.

`Counting.write` takes all submissions and exchanges that arrived at a moment, of all surveys, in one transaction:

1. `_hold` locks the surveys, in the order of their names so that two processes cannot deadlock, and opens their sealed
   rows. A survey whose secrets are missing from the vault fails alone.
2. `_take_submissions` and `_take_exchanges` decide which keys and invitations are new.
3. `_settle` adds the new to what waited, writes the crowds that are full, and seals the rest with a fresh seal.
4. `_write_sums` adds to the counts.

A batch with more than `PIECE` different reports of a group is a crowd of its own. Such a group is written in pieces,
which `count_piece` moves to the counts one at a time, so that others do not wait. Tallies add all three: counts,
pieces, and what is sealed.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal

import numpy as np
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from tacit.exact import Integers
from tacit.mechanism import Mechanism
from tacit.plan import Plan
from tacit.randomize.randomness import secret_bytes
from tacit.server.storage import schema
from tacit.server.storage.database import Database
from tacit.server.storage.vault import Pending, Place, Vault, VaultError, tag
from tacit.tally import Counts, Coverage, Kept, Tally

#: What became of a submission or an exchange. "another": the survey was deleted, and one of the same name opened, since
#: the submission was checked.
Outcome = Literal["counted", "already counted", "closed", "redeemed", "spent", "revoked", "another"]
Folds = Mapping[int, Mechanism]
#: Sealed rows that a process remembers.
_REMEMBERED = 1_000
#: Different reports of a group in a piece of a large batch.
PIECE = 1_000


@dataclass(frozen=True, slots=True)
class Submission:
    """Reports that are counted together or not at all: (group, report, how often), under one key.

    `folds` are the groups whose reports are kept as sums, with the mechanism that folds them; `covered` are reports of
    such groups that were folded already; `many` are groups with so many different reports that they are written as
    arrays; `life` is that of the survey which they were checked against.
    """

    survey: str
    key: str
    reports: Sequence[tuple[int, int, int]]
    refused: int = 0
    folds: Folds = field(default_factory=dict)
    covered: Mapping[int, Coverage] = field(default_factory=dict)
    many: Mapping[int, Counts] = field(default_factory=dict)
    life: str | None = None

    @property
    def n_reports(self) -> int:
        added_up = (each.total for kept in (self.covered, self.many) for each in kept.values())
        return sum(times for _, _, times in self.reports) + sum(added_up)


@dataclass(frozen=True, slots=True)
class Redemption:
    """An invitation's number, and the hash of the blinded message that it is exchanged for."""

    survey: str
    invitation: bytes
    blinded: bytes
    life: str | None = None


Job = Submission | Redemption
_POSTGRESQL: Any = postgresql.dialect()  # type: ignore[no-untyped-call]


class Statements:
    """The SQL of a transaction. The rows of a statement are one parameter, a JSON array of arrays: the number of
    statements depends neither on the number of submissions nor on the number of surveys.
    """

    def __init__(self, dialect: str) -> None:
        of_dialect: Any = postgresql if dialect == "postgresql" else sqlite
        self.insert = of_dialect.insert
        self._postgresql = dialect == "postgresql"
        among = f"IN (SELECT id FROM {self._given([schema.surveys.c.id])})"
        unclosed = f"SELECT id, life, ends FROM surveys WHERE id {among} AND closed IS NULL ORDER BY id"
        #: Surveys that are not closed, held until the transaction ends; and what is sealed of them, which a join would
        #: not read as it is after waiting for a survey.
        self.hold = sa.text(unclosed + (" FOR UPDATE" if self._postgresql else "")).columns(ends=sa.Date)
        self.sealed = sa.text(f"SELECT survey, version, content FROM sealed WHERE survey {among}")
        self.known_keys = self._look_up(schema.keys, "k.survey, k.tag")
        self.known_exchanged = self._look_up(schema.redemptions, "k.survey, k.tag, k.blinded")
        self.keep = {table.name: self._insert(table) for table in (schema.keys, schema.redemptions)}
        self.increase = {table.name: self._increase(table) for table in (schema.counts, schema.totals, schema.refusals)}
        place = "%s, %s, %s" if self._postgresql else "?, ?, ?"
        #: For the driver itself, which is entered once for all surveys.
        self.seal = (
            f"INSERT INTO sealed (survey, version, content) VALUES ({place}) "
            "ON CONFLICT (survey) DO UPDATE SET version = excluded.version, content = excluded.content"
        )

    def _given(self, columns: Iterable[sa.Column[Any]]) -> str:
        """The rows of the parameter `rows` as a table."""
        if self._postgresql:
            cells = [
                f'CAST(each.cells->>{k} AS {c.type.compile(_POSTGRESQL)}) AS "{c.name}"' for k, c in enumerate(columns)
            ]
            return (
                f"(SELECT {', '.join(cells)} FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS each(cells)) AS given"
            )
        cells = [f"json_extract(value, '$[{k}]') AS \"{c.name}\"" for k, c in enumerate(columns)]
        return f"(SELECT {', '.join(cells)} FROM json_each(:rows)) AS given"

    def _look_up(self, table: sa.Table, wanted: str) -> sa.TextClause:
        given = self._given((table.c.survey, table.c.tag))
        return sa.text(
            f"SELECT {wanted} FROM {given} JOIN {table.name} AS k ON k.survey = given.survey AND k.tag = given.tag"
        )

    def _insert(self, table: sa.Table, conflict: str = "") -> sa.TextClause:
        names = ", ".join(f'"{column.name}"' for column in table.columns)
        # SQLite needs a WHERE to tell the conflict clause from a join.
        return sa.text(
            f"INSERT INTO {table.name} ({names}) SELECT {names} FROM {self._given(table.columns)} WHERE true {conflict}"
        )

    def _increase(self, table: sa.Table) -> sa.TextClause:
        names = ", ".join(f'"{column.name}"' for column in table.primary_key)
        added = f"count = {table.name}.count + excluded.count"
        return self._insert(table, f"ON CONFLICT ({names}) DO UPDATE SET {added}")


@dataclass
class _Held:
    """A survey that a transaction has locked: what its sealed row holds (`before`), and what is new."""

    name: str
    life: str
    version: int
    before: Pending
    secret: bytes
    reports: Counter[Place] = field(default_factory=Counter)
    keys: set[str] = field(default_factory=set)
    folds: Folds = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.exchanged = dict(self.before.exchanged)

    @property
    def changed(self) -> bool:
        return bool(self.reports or self.keys) or len(self.exchanged) > len(self.before.exchanged)


class Counting:
    """Writes submissions and exchanged invitations, and reads what is counted."""

    def __init__(self, database: Database, vault: Vault, today: Callable[[], date]) -> None:
        self._database, self._vault, self._today = database, vault, today
        self.statements = Statements(database.kind)
        #: What this process sealed last, by life, as it is in the database and as it was before: opening takes longer.
        self._sealed: dict[str, tuple[Any, Pending]] = {}
        #: Whether anything was written since the database's files were last tidied, and whether pieces of large
        #: batches may be there that are not in the counts yet.
        self.wrote = self.arriving = True

    def write(self, jobs: Sequence[Job]) -> list[Outcome | VaultError]:
        """Count submissions whose key is new and exchange invitations; what became of each, or why it failed.

        All of it is on disk when this returns.
        """
        self._database.check_there()
        outcomes: list[Outcome | VaultError] = ["closed"] * len(jobs)
        with self._database.writing.begin() as connection:
            held, failed = self._hold(connection, {job.survey for job in jobs}, self._today())
            adding = _Adding(self._today())
            taken: list[tuple[int, Job, _Held]] = []
            for nth, job in enumerate(jobs):
                survey = held.get(job.survey)
                if survey is None:
                    outcomes[nth] = failed.get(job.survey, "closed")
                elif job.life in (None, survey.life):
                    taken.append((nth, job, survey))
                else:
                    outcomes[nth] = "another"
            self._take_submissions(connection, taken, outcomes, adding)
            self._take_exchanges(connection, taken, outcomes)
            replaced = self._settle(connection, [each for each in held.values() if each.changed], adding)
            self._write_sums(connection, adding)
            self.wrote = self.wrote or bool(replaced) or adding.anything
        self._vault.replace(replaced)
        return outcomes

    def _take_submissions(
        self,
        connection: sa.Connection,
        jobs: Sequence[tuple[int, Job, _Held]],
        outcomes: list[Outcome | VaultError],
        adding: _Adding,
    ) -> None:
        tagged = [
            (nth, job, held, tag(held.secret, "key", job.key.encode()))
            for nth, job, held in jobs
            if isinstance(job, Submission)
        ]
        known = self._known(connection, self.statements.known_keys, [(held.name, mine) for _, _, held, mine in tagged])
        for nth, job, held, mine in tagged:
            if (held.name, mine) in known or mine in held.before.keys or mine in held.keys:
                outcomes[nth] = "already counted"
                continue
            outcomes[nth] = "counted"
            held.keys.add(mine)
            held.folds = job.folds
            for k, report, times in job.reports:
                held.reports[adding.day, k, report] += times
            for k, covered in job.covered.items():
                adding.cover(held.name, adding.day, k, covered)
            for k, counts in job.many.items():
                adding.totals[held.name, adding.day, k] += counts.total
                adding.many.append((held.name, adding.day, k, counts))
            if job.refused:
                adding.refused[held.name, adding.day] += job.refused

    def _take_exchanges(
        self, connection: sa.Connection, jobs: Sequence[tuple[int, Job, _Held]], outcomes: list[Outcome | VaultError]
    ) -> None:
        tagged = [
            (nth, held, tag(held.secret, "invitation", job.invitation), tag(held.secret, "blinded", job.blinded))
            for nth, job, held in jobs
            if isinstance(job, Redemption)
        ]
        pairs = [(held.name, mine) for _, held, mine, _ in tagged]
        known = self._known(connection, self.statements.known_exchanged, pairs)
        for nth, held, mine, blinded in tagged:
            before = known.get((held.name, mine), held.exchanged.get(mine))
            if before is None:
                outcomes[nth] = "redeemed"
                held.exchanged[mine] = blinded
            elif not before:
                outcomes[nth] = "revoked"
            else:
                outcomes[nth] = "redeemed" if before == blinded else "spent"

    @staticmethod
    def _known(connection: sa.Connection, statement: Any, pairs: Sequence[tuple[str, str]]) -> dict[Any, str]:
        """Those of these tags that a table has, with what it says beside them."""
        if not pairs:
            return {}
        rows = connection.execute(statement, {"rows": json.dumps(pairs)})
        return {(row[0], row[1]): row[-1] for row in rows}

    def _settle(self, connection: sa.Connection, changed: Sequence[_Held], adding: _Adding) -> dict[str, int]:
        """Write what is a crowd, and seal the rest anew; which seals were replaced."""
        keys, exchanged, waiting = [], [], {}
        for held in changed:
            leaving, staying = held.before.plus(held.reports, held.keys, held.exchanged.items()).crowds()
            keys += [(held.name, each) for each in leaving.keys]
            exchanged += [(held.name, *each) for each in leaving.exchanged]
            adding.count(held.name, leaving.reports, held.folds)
            if staying != held.before:
                waiting[held.life] = held, staying
        for table, rows in ((schema.keys, keys), (schema.redemptions, exchanged)):
            if rows:
                connection.execute(self.statements.keep[table.name], {"rows": json.dumps(sorted(rows))})
        if waiting:
            seals = self._vault.new_seals({life: held.version + 1 for life, (held, _) in waiting.items()})
            contents = {life: staying.sealed(seals[life], life) for life, (_, staying) in waiting.items()}
            sealed = sorted((held.name, held.version + 1, contents[life]) for life, (held, _) in waiting.items())
            connection.exec_driver_sql(self.statements.seal, sealed)
            if len(self._sealed) > _REMEMBERED:
                self._sealed.clear()
            self._sealed |= {life: (contents[life], staying) for life, (_, staying) in waiting.items()}
        return {life: held.version for life, (held, _) in waiting.items()}

    # -- what a transaction is made of --------------------------------------------------------------------------------

    def _hold(
        self, connection: sa.Connection, names: Iterable[str], day: date = date.min
    ) -> tuple[dict[str, _Held], dict[str, VaultError]]:
        """Those of these surveys that are not closed and not over on that day, none of which can close before the
        transaction ends; and those of them whose secrets are missing.
        """
        rows = connection.execute(self.statements.hold, {"rows": json.dumps([[name] for name in sorted(names)])})
        lives = {name: life for name, life, ends in rows if ends is None or ends >= day}
        wanted = {"rows": json.dumps([[name] for name in lives])}
        sealed = connection.execute(self.statements.sealed, wanted).all() if lives else []
        contents = {name: (version, content) for name, version, content in sealed}
        held, failed = {}, {}
        with self._vault.at_hand() if sealed and self._vault.is_there else nullcontext():
            for name, life in lives.items():
                version, content = contents.get(name, (0, None))
                try:
                    before, secret = self._pending(life, version, content), self._vault.secret(life)
                    held[name] = _Held(name, life, version, before, secret)
                except VaultError as error:
                    failed[name] = VaultError(f"Survey {name}: {error}")
        return held, failed

    def _pending(self, life: str, version: int, content: bytes | None) -> Pending:
        if content is None:
            return Pending()
        sealed, known = self._sealed.get(life, (b"", Pending()))
        if sealed == content:
            return known
        return Pending.opened(bytes(content), self._vault.seal(life, version), life)

    @contextmanager
    def closing(self, connection: sa.Connection, name: str) -> Iterator[str | None]:
        """The life of a survey that is not closed, held, with all its reports in the counts; None if there is none.

        What the vault cannot open is left out: closing must be possible.
        """
        held, failed = self._hold(connection, [name])
        if name in held:
            query = sa.select(schema.surveys.c.plan).where(schema.surveys.c.id == name)
            reports, adding = held[name].before.reports, _Adding(self._today())
            if reports:
                folds = fold_groups(Plan.from_dict(json.loads(connection.scalar(query) or "")))
                adding.count(name, reports, folds)
                self._write_sums(connection, adding)
            self._sealed.pop(held[name].life, None)
            yield held[name].life
        elif name in failed:
            yield connection.scalar(sa.select(schema.surveys.c.life).where(schema.surveys.c.id == name))
        else:
            yield None

    def exchanged_among(self, connection: sa.Connection, name: str, tags: Sequence[str]) -> set[str]:
        """Those of these invitations that were exchanged; the survey is held."""
        held, failed = self._hold(connection, [name])
        if name in failed:
            raise failed[name]
        known = self._known(connection, self.statements.known_exchanged, [(name, each) for each in tags])
        sealed = {mine for mine, _ in held[name].before.exchanged} if name in held else set()
        return {mine for (_, mine), blinded in known.items() if blinded} | (sealed & {*tags})

    def _write_sums(self, connection: sa.Connection, adding: _Adding) -> None:
        for table, sums in (
            (schema.counts, adding.counts),
            (schema.totals, adding.totals),
            (schema.refusals, adding.refused),
        ):
            if sums:
                rows = [
                    [each.isoformat() if isinstance(each, date) else each for each in place] + [n]
                    for place, n in sorted(sums.items())
                ]
                connection.execute(self.statements.increase[table.name], {"rows": json.dumps(rows)})
        for (name, day, group), sums_of in sorted(adding.covered.items()):
            self._cover(connection, {"survey": name, "day": day, "group": group}, sums_of)
        for name, day, group, counts in adding.many:
            pairs = np.column_stack((counts.reports, counts.counts)).astype("<i8")
            pieces = (pairs[k : k + PIECE].tobytes() for k in range(0, len(pairs), PIECE))
            place = {"survey": name, "day": day, "group": group}
            arriving = [place | {"piece": _random_number(), "content": each} for each in pieces]
            connection.execute(sa.insert(schema.arriving), arriving)
            self.arriving = True

    def count_piece(self) -> bool:
        """Move one piece of a large batch into the counts, in a short transaction; whether there may be more."""
        table, surveys = schema.arriving, schema.surveys
        with self._database.writing.begin() as connection:
            name = connection.scalar(sa.select(table.c.survey).limit(1))
            self.arriving = name is not None
            if name is None:
                return False
            # As who counts does, so that none waits for another in a circle.
            connection.execute(sa.select(surveys.c.id).where(surveys.c.id == name).with_for_update())
            piece = connection.execute(sa.select(table).where(table.c.survey == name).limit(1)).one_or_none()
            if piece is None:
                return True
            here = sa.and_(*(table.c[key.name] == getattr(piece, key.name) for key in table.primary_key))
            connection.execute(sa.delete(table).where(here))
            rows = [[name, piece.day.isoformat(), piece.group, *pair] for pair in _pairs(piece.content).tolist()]
            connection.execute(self.statements.increase["counts"], {"rows": json.dumps(rows)})
            self.wrote = True
        return True

    def _cover(self, connection: sa.Connection, row: dict[str, Any], sums: Integers) -> None:
        """Add to the sums of coverage of a group and a day, which no other transaction changes before this one ends."""
        table = schema.coverage
        nothing = np.zeros_like(sums).astype("<i8").tobytes()
        connection.execute(self.statements.insert(table).on_conflict_do_nothing(), row | {"sums": nothing})
        here = sa.and_(*(table.c[name] == value for name, value in row.items()))
        before = connection.scalar(sa.select(table.c.sums).where(here).with_for_update())
        after = np.frombuffer(before or nothing, dtype="<i8") + sums
        connection.execute(sa.update(table).where(here), {"sums": after.astype("<i8").tobytes()})

    # -- reading ------------------------------------------------------------------------------------------------------

    @contextmanager
    def moment(self, *names: str) -> Iterator[tuple[sa.Connection, dict[str, Pending]]]:
        """The database as it is at one moment, and what is sealed then of these surveys, or of all that are open."""
        surveys, sealed = schema.surveys, schema.sealed
        columns = (surveys.c.id, surveys.c.life, sealed.c.version, sealed.c.content)
        query = sa.select(*columns).join(sealed, sealed.c.survey == surveys.c.id).where(surveys.c.closed.is_(None))
        with self._database.reading.connect() as connection:
            if self._database.kind == "postgresql":
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with self._vault.unchanged():
                found = connection.execute(query.where(surveys.c.id.in_(names)) if names else query).all()
                pending = {name: self._pending(life, version, content) for name, life, version, content in found}
            yield connection, {name: Pending() for name in names} | pending

    def totals(self, name: str) -> dict[date, dict[int, int]]:
        """How many reports of each group came on each day."""
        table = schema.totals
        query = sa.select(table.c.day, table.c.group, table.c.count).where(table.c.survey == name)
        sums: Counter[tuple[date, int]] = Counter()
        with self.moment(name) as (connection, pending):
            for (day, group, _), times in pending[name].reports.items():
                sums[day, group] += times
            for day, group, count in connection.execute(query):
                sums[day, group] += count
        found: dict[date, dict[int, int]] = defaultdict(dict)
        for (day, group), count in sorted(sums.items()):
            found[day][group] = count
        return dict(found)

    def tally(self, name: str, plan: Plan, since: date | None = None, until: date | None = None) -> Tally:
        """The tally of the days from `since` to `until`, both included."""
        whole = Tally(plan.hash, {})
        for part in self.tallies_by_cell(name, plan, since, until).values():
            whole = whole.merge(part)
        return whole

    def tallies_by_cell(
        self, name: str, plan: Plan, since: date | None = None, until: date | None = None
    ) -> dict[int, Tally]:
        """A tally for each combination of public answers (`Plan.public_cells`) that was given."""
        with self.moment(name) as (connection, pending):
            groups: dict[int, Kept] = {
                **_counts(connection, name, since, until),
                **_coverage(connection, name, since, until),
            }
            n_refused = refused(connection, name, since, until)
        newest: dict[int, Counter[int]] = defaultdict(Counter)
        for (day, group, report), times in pending[name].reports.items():
            if (since is None or since <= day) and (until is None or day <= until):
                newest[group][report] += times
        size = len(plan.groups)
        more = {k: plan.groups[k % size].mechanism.keep(*_arrays(reports)) for k, reports in newest.items()}
        found = {0: Tally(plan.hash, {}, n_refused)}
        for each in (groups, more):
            for cell in sorted({k // size for k in each}):
                part = _named(plan, {k % size: kept for k, kept in each.items() if k // size == cell})
                found[cell] = found[cell].merge(part) if cell in found else part
        return found


class _Adding:
    """What a transaction adds to the counts of all surveys."""

    def __init__(self, day: date) -> None:
        self.day = day
        self.counts: Counter[tuple[Any, ...]] = Counter()
        self.totals: Counter[tuple[Any, ...]] = Counter()
        self.refused: Counter[tuple[Any, ...]] = Counter()
        self.covered: dict[tuple[str, date, int], Integers] = {}
        self.many: list[tuple[str, date, int, Counts]] = []

    @property
    def anything(self) -> bool:
        return bool(self.totals or self.refused)

    def count(self, name: str, reports: Mapping[Place, int], folds: Folds) -> None:
        """Reports of a survey, each with how often it came."""
        folded: dict[tuple[date, int], list[tuple[int, int]]] = defaultdict(list)
        for (day, group, report), times in reports.items():
            self.totals[name, day, group] += times
            if group in folds:
                folded[day, group].append((report, times))
            else:
                self.counts[name, day, group, report] += times
        for (day, group), rows in folded.items():
            self._add(name, day, group, fold(folds[group], rows))

    def cover(self, name: str, day: date, group: int, covered: Coverage) -> None:
        """Reports that were folded before."""
        self.totals[name, day, group] += covered.total
        self._add(name, day, group, covered.coverage)

    def _add(self, name: str, day: date, group: int, sums: Integers) -> None:
        before = self.covered.get((name, day, group))
        self.covered[name, day, group] = sums if before is None else before + sums


def fold_groups(plan: Plan) -> Folds:
    """The groups whose reports are kept as sums, with the mechanism that folds them, for every public cell."""
    size = len(plan.groups)
    found = {
        cell * size + k: group.mechanism
        for cell in plan.public_cells.values()
        for k, group in enumerate(plan.groups)
        if group.mechanism.n_sums is not None
    }
    none = np.zeros(0, dtype=np.int64)
    for mechanism in found.values():
        mechanism.keep(none, none)  # Compiles the loops now, not within a transaction.
    return found


def fold(mechanism: Mechanism, rows: Sequence[tuple[int, int]]) -> Integers:
    """The sums of coverage of reports, each with how often it came."""
    reports, times = np.array(rows, dtype=np.int64).T
    return mechanism.keep(np.ascontiguousarray(reports), np.ascontiguousarray(times)).folded().coverage


# -- tallies ----------------------------------------------------------------------------------------------------------


def _named(plan: Plan, groups: Mapping[int, Kept]) -> Tally:
    return Tally(plan.hash, {plan.groups[k].name: counts for k, counts in sorted(groups.items())})


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
    found = {int(k): [rows[rows[:, 0] == k, 1:]] for k in np.unique(rows[:, 0])}
    table = schema.arriving
    pieces = connection.execute(sa.select(table.c.group, table.c.content).where(*_days(table, name, since, until)))
    for group, content in pieces:
        found.setdefault(group, []).append(_pairs(content))
    return {k: _added(each) for k, each in sorted(found.items())}


def _random_number() -> int:
    """63 random bits."""
    return int.from_bytes(secret_bytes(8), "big") >> 1


def _pairs(content: bytes) -> Integers:
    """Reports, and how often each came, of a piece of a large batch."""
    return np.frombuffer(content, dtype="<i8").astype(np.int64).reshape(-1, 2)


def _added(pieces: Sequence[Integers]) -> Counts:
    """Pairs of reports and how often they came, added up."""
    if len(pieces) == 1:
        return Counts(*pieces[0].T)
    reports, times = np.concatenate(pieces).T
    different, where = np.unique(reports, return_inverse=True)
    added = np.zeros(len(different), dtype=np.int64)
    np.add.at(added, where, times)
    return Counts(different, added)


def _coverage(connection: sa.Connection, name: str, since: date | None, until: date | None) -> dict[int, Coverage]:
    table, totals = schema.coverage, schema.totals
    same = [table.c[column] == totals.c[column] for column in ("survey", "day", "group")]
    query = sa.select(table.c.group, table.c.sums, totals.c.count).join(totals, sa.and_(*same))
    found: dict[int, Coverage] = {}
    for group, sums, count in connection.execute(query.where(*_days(table, name, since, until))):
        one = Coverage(np.frombuffer(sums, dtype="<i8").astype(np.int64), int(count))
        found[group] = found[group].merge(one) if group in found else one
    return found


def refused(connection: sa.Connection, name: str, since: date | None = None, until: date | None = None) -> int:
    """How many reports of batches were refused."""
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
