"""Everything that a collector keeps, and nothing else: docs/service-data.md says the same in words.

There is no table of reports. A submission leaves a key (random, made by its sender, so that a retry counts nothing
twice) and adds one to a count; the two are in different tables that share no column but the survey. The key tables have
no row numbers in SQLite, so that not even the order in which keys came is kept. No time is finer than a day.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Date, Integer, LargeBinary, MetaData, String, Table, Text

metadata = MetaData()


def _survey() -> Column[str]:
    return Column("survey", String(16), primary_key=True)


def _day() -> Column[object]:
    return Column("day", Date, primary_key=True)


surveys = Table(
    "surveys",
    metadata,
    Column("id", String(16), primary_key=True),  # the first digits of the plan's hash: one survey per plan
    Column("plan", Text, nullable=False),  # JSON
    Column("group_question", Text),
    Column("public_results", Boolean, nullable=False),
    Column("opened", Date, nullable=False),
    Column("closed", Date),
    Column("invitation_secret", LargeBinary),  # signs invitations; null in an open survey
    Column("credential_key", LargeBinary),  # signs what invitations are exchanged for; null in an open survey
)

#: The tally: how often each report came, per group (its position in the plan) and day.
counts = Table(
    "counts",
    metadata,
    _survey(),
    _day(),
    Column("group", Integer, primary_key=True, autoincrement=False),
    Column("report", BigInteger, primary_key=True, autoincrement=False),
    Column("count", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

#: The tally of groups in which nearly every report is different: sums of coverage, per group and day. The array has a
#: 64-bit integer for each possible value, least significant byte first. No single report is kept.
coverage = Table(
    "coverage",
    metadata,
    _survey(),
    _day(),
    Column("group", Integer, primary_key=True, autoincrement=False),
    Column("sums", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

#: How many reports are in `counts` and `coverage`: cheap to look at, so that a tally that did not change is not read
#: again.
totals = Table(
    "totals",
    metadata,
    _survey(),
    _day(),
    Column("group", Integer, primary_key=True, autoincrement=False),
    Column("count", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

#: How many reports of batches the plan could not have sent.
refusals = Table(
    "refusals", metadata, _survey(), _day(), Column("count", BigInteger, nullable=False), sqlite_with_rowid=False
)

#: Keys of what was counted, erased when the survey closes.
keys = Table("keys", metadata, _survey(), Column("key", String(32), primary_key=True), sqlite_with_rowid=False)

#: Invitations that were exchanged, each with a hash of the blinded message it was exchanged for; erased at closing.
redemptions = Table(
    "redemptions",
    metadata,
    _survey(),
    Column("invitation", LargeBinary(16), primary_key=True),
    Column("blinded", LargeBinary(32), nullable=False),
    sqlite_with_rowid=False,
)

#: The hash of the administrator's token.
settings = Table(
    "settings", metadata, Column("name", String(40), primary_key=True), Column("value", LargeBinary, nullable=False)
)
