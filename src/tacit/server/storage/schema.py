"""Everything that a collector keeps in its database, and nothing else: docs/service-data.md says the same in words.

There is no table of reports, and no key as it was sent. A submission leaves a tag, a keyed hash of its key, so that a
retry counts nothing twice; and adds to a count. Both are written only together with others: until there is a crowd, the
newest are one sealed row (`vault.Pending`), whose seal is in the vault and not here. No time is finer than a day.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Date, Integer, LargeBinary, MetaData, String, Table, Text

metadata = MetaData()
#: The revision of these tables; the newest file in `migrations/versions` leads to it.
REVISION = "0001"
#: Hexadecimal digits of a tag.
TAG_DIGITS = 32


def _of_survey(name: str, *columns: Column[Any], with_rowid: bool = False) -> Table:
    """A table of something about surveys, in the order of its key."""
    survey = Column("survey", String(21), primary_key=True)
    return Table(name, metadata, survey, *columns, sqlite_with_rowid=with_rowid)


def _day() -> Column[Any]:
    return Column("day", Date, primary_key=True)


def _key(name: str, kind: Any = BigInteger) -> Column[Any]:
    return Column(name, kind, primary_key=True, autoincrement=False)


def _number(name: str) -> Column[Any]:
    return Column(name, BigInteger, nullable=False)


def _bytes(name: str) -> Column[Any]:
    return Column(name, LargeBinary, nullable=False)


surveys = Table(
    "surveys",
    metadata,
    # The first digits of the plan's hash; behind a dash, which run of it.
    Column("id", String(21), primary_key=True),
    Column("plan", Text, nullable=False),  # JSON
    Column("group_question", Text),
    Column("public_results", Boolean, nullable=False),
    Column("publish_every", Integer, nullable=False),  # new reports of a group before its public results change
    Column("opened", Date, nullable=False),
    Column("ends", Date),  # the last day on which reports are taken
    Column("closed", Date),
    Column("invitation_secret", LargeBinary),  # signs invitations; null in an open survey
    Column("credential_key", LargeBinary),  # signs what invitations are exchanged for; null in an open survey
    Column("invitations", Integer, nullable=False),  # how many were made
    # A random name of this survey from its opening to its deletion: its secrets in the vault are found by it, and what
    # a process remembers of it.
    Column("life", String(32), nullable=False),
)

#: The tally: how often each report came, per group (its position in the plan) and day.
counts = _of_survey("counts", _day(), _key("group", Integer), _key("report"), _number("count"))

#: The tally of groups in which nearly every report is different: sums of coverage, per group and day. The array has a
#: 64-bit integer for each possible value, least significant byte first. No single report is kept.
coverage = _of_survey("coverage", _day(), _key("group", Integer), _bytes("sums"))

#: Pieces of large batches: a thousand of a group's reports, each with how often it came, as pairs of 64-bit integers,
#: least significant byte first. A batch is written at once, and its pieces move to `counts` one by one, so that others
#: do not wait. `piece` is random.
arriving = _of_survey("arriving", _day(), _key("group", Integer), _key("piece"), _bytes("content"), with_rowid=True)

#: How many reports are in `counts`, `arriving` and `coverage`: cheap to look at, so that a tally that did not change is
#: not read again.
totals = _of_survey("totals", _day(), _key("group", Integer), _number("count"))

#: How many reports of batches the plan could not have sent.
refusals = _of_survey("refusals", _day(), _number("count"))

#: The newest of a survey, not yet in the other tables: reports, tags of keys, tags of exchanges; three sets, sealed.
#: `version` says which of the vault's seals opens it. With row ids, since SQLite's tables without them take rows of
#: this size apart.
sealed = _of_survey("sealed", _number("version"), _bytes("content"), with_rowid=True)

#: Public results: the tally, as compressed JSON, as it was when it was last published on a day.
published = _of_survey("published", _day(), _number("n_reports"), _bytes("tally"))

#: Tags of the keys of what was counted, erased when the survey closes.
keys = _of_survey("keys", Column("tag", String(TAG_DIGITS), primary_key=True))

#: Tags of exchanged invitations, each with one of the blinded message it was exchanged for, and of revoked ones, with
#: nothing; erased at closing.
redemptions = _of_survey(
    "redemptions",
    Column("tag", String(TAG_DIGITS), primary_key=True),
    Column("blinded", String(TAG_DIGITS), nullable=False),
)

#: Who may do what: the hash of each token with its role, and the survey if the role is for one.
tokens = Table(
    "tokens",
    metadata,
    Column("name", String(40), primary_key=True),  # as its maker calls it
    Column("hash", LargeBinary(32), nullable=False),
    Column("role", String(10), nullable=False),
    Column("survey", String(21)),
)

#: The database's own random name, under which its secrets are kept in the vault, and when it last proved to be written.
settings = Table(
    "settings", metadata, Column("name", String(40), primary_key=True), Column("value", LargeBinary, nullable=False)
)

#: Where Alembic looks for the revision.
alembic_version = Table("alembic_version", metadata, Column("version_num", String(32), primary_key=True))
