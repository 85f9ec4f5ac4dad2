"""The store, on SQLite and on PostgreSQL: each submission once, closing is final, days add up."""

from __future__ import annotations

from datetime import timedelta

import pytest
import sqlalchemy as sa

from tacit.server.storage import schema
from tacit.server.storage.store import Redemption, Store, Submission, survey_id
from tacit.server.storage.vault import CROWD
from tacit.tally import Counts, Tally, merge_all

from support.service import FIRST_DAY, Days, arc_plan, grouped_plan, key, plain_plan, stored

PLAIN, GROUPED = survey_id(plain_plan()), survey_id(grouped_plan())


def one(number: int, report: int = 0, survey: str = PLAIN, group: int = 0) -> Submission:
    return Submission(survey, key(number), ((group, report, 1),))


def rows_of(store: Store, table: sa.Table) -> int:
    with store._reading.connect() as connection:
        return int(connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0)


@pytest.fixture(autouse=True)
def surveys(store: Store) -> None:
    assert store.create(plain_plan())
    assert store.create(grouped_plan())


def test_a_key_counts_once_in_a_group(store: Store):
    assert store.count([one(1), one(2), one(1), one(1)]) == [
        "counted",
        "counted",
        "already counted",
        "already counted",
    ]
    assert stored(store) == {(PLAIN, 0, 0): 2}


def test_the_first_report_under_a_key_stays(store: Store):
    store.count([one(1, report=2), one(1, report=0)])
    assert store.count([one(1, report=1)]) == ["already counted"]
    assert stored(store) == {(PLAIN, 0, 2): 1}


def test_a_key_counts_once_across_groups_and_processes(store: Store, where: str, days: Days):
    other = Store(where, days)
    assert store.count([one(1), one(2)]) == ["counted", "counted"]
    assert other.count([one(3), one(2), one(1)]) == ["counted", "already counted", "already counted"]
    assert store.count([one(3)]) == ["already counted"]
    assert stored(other) == {(PLAIN, 0, 0): 3}
    other.close()


def test_keys_survive_closing_and_opening_the_store(store: Store, where: str, days: Days):
    store.count([one(1)])
    store.close()
    again = Store(where, days)
    assert again.count([one(1)]) == ["already counted"]
    again.close()


def test_a_key_belongs_to_its_survey(store: Store):
    assert store.count([one(1), one(1, survey=GROUPED)]) == ["counted", "counted"]
    assert stored(store) == {(PLAIN, 0, 0): 1, (GROUPED, 0, 0): 1}


def test_a_batch_counts_as_a_whole_and_once(store: Store):
    batch = Submission(PLAIN, key(1), ((0, 0, 5), (0, 2, 3)), refused=4)
    assert store.count([batch, one(1), batch]) == ["counted", "already counted", "already counted"]
    assert stored(store) == {(PLAIN, 0, 0): 5, (PLAIN, 0, 2): 3}
    assert store.refused(PLAIN) == 4
    assert store.totals(PLAIN) == {FIRST_DAY: {0: 8}}


@pytest.mark.parametrize(("many", "last"), [(1, "_settle"), (CROWD, "_write_sums")])
def test_nothing_of_a_failed_group_is_kept(store: Store, monkeypatch: pytest.MonkeyPatch, many: int, last: str):
    def fail(*_: object) -> None:
        raise RuntimeError("the machine stops")

    group = [one(number) for number in range(many)]
    monkeypatch.setattr(store.counting, last, fail)
    with pytest.raises(RuntimeError, match="the machine stops"):
        store.count(group)
    monkeypatch.undo()
    assert rows_of(store, schema.keys) == 0
    assert stored(store) == {}
    assert store.count(group) == ["counted"] * many


def test_unknown_and_closed_surveys_count_nothing(store: Store):
    store.change(PLAIN, close=True)
    assert store.count([one(1), one(2, survey="0" * 16), one(3, survey=GROUPED)]) == ["closed", "closed", "counted"]
    assert stored(store) == {(GROUPED, 0, 0): 1}


def test_closing_erases_keys_and_redemptions_and_keeps_the_tally(store: Store, days: Days):
    store.count([one(1), one(2, survey=GROUPED)])
    assert store.redeem(PLAIN, b"i" * 16, b"b" * 32) == "redeemed"
    days.next()
    store.change(PLAIN, close=True)
    assert rows_of(store, schema.redemptions) == 0
    with store.counting.moment(GROUPED) as (_, pending):
        assert len(pending[GROUPED].keys) == 1, "the other survey's key stays"
    assert stored(store)[PLAIN, 0, 0] == 1
    found = store.survey(PLAIN)
    assert found is not None
    assert (found.closed, found.is_open(FIRST_DAY)) == (FIRST_DAY + timedelta(days=1), False)


def test_closing_again_keeps_the_first_day(store: Store, days: Days):
    store.change(PLAIN, close=True)
    days.next(5)
    store.change(PLAIN, close=True)
    found = store.survey(PLAIN)
    assert found is not None
    assert found.closed == FIRST_DAY


def test_an_invitation_is_exchanged_for_one_message(store: Store):
    first, second = b"1" * 32, b"2" * 32
    assert store.redeem(PLAIN, b"i" * 16, first) == "redeemed"
    assert store.redeem(PLAIN, b"i" * 16, first) == "redeemed"
    assert store.redeem(PLAIN, b"i" * 16, second) == "spent"
    assert store.redeem(PLAIN, b"j" * 16, second) == "redeemed"
    assert store.redeem(GROUPED, b"i" * 16, second) == "redeemed", "each survey has its own"
    # One that is used, and still sealed, stays used: the crowd that it is written with is not in its own way.
    assert store.revoke(PLAIN, [b"i" * 16, b"k" * 16]) == 1
    assert {store.redeem(PLAIN, bytes([nth]) * 16, first) for nth in range(20)} == {"redeemed"}
    assert store.redeem(PLAIN, b"i" * 16, first) == "redeemed"
    assert store.redeem(PLAIN, b"k" * 16, first) == "revoked"
    assert store.used_invitations(PLAIN) == 22
    store.change(PLAIN, close=True)
    assert store.redeem(PLAIN, b"i" * 16, first) == "closed"


def test_all_that_arrives_at_a_moment_is_one_transaction(store: Store):
    """Also of several surveys, in as many statements as of one: each has a round trip, and a commit a sync to disk."""
    done: list[str] = []
    sa.event.listen(store._writing, "commit", lambda _: done.append("commit"))
    sa.event.listen(store._writing, "before_cursor_execute", lambda *_: done.append("statement"))

    def took(*surveys: str) -> tuple[int, int]:
        done.clear()
        start = rows_of(store, schema.keys)
        reports = [one(start + n, survey=survey) for survey in surveys for n in range(CROWD)]
        exchanges = [Redemption(survey, bytes([n]) * 16, b"b" * 32) for survey in surveys for n in range(CROWD)]
        assert {*store.write([*reports, *exchanges])} <= {"counted", "redeemed"}
        return done.count("commit"), done.count("statement")

    alone = took(PLAIN)
    assert alone[0] == 1
    assert took(PLAIN, GROUPED) == alone


def test_a_survey_is_made_once(store: Store, days: Days):
    days.next()
    assert not store.create(plain_plan(), public_results=True)
    assert store.create(arc_plan(), public_results=True, group_question="Where?")
    first, new = store.survey(PLAIN), store.survey(survey_id(arc_plan()))
    assert first is not None
    assert new is not None
    assert (first.opened, first.public_results) == (FIRST_DAY, False)
    assert (new.opened, new.public_results, new.group_question) == (days.day, True, "Where?")
    assert store.survey("0" * 16) is None


def test_surveys_are_listed_newest_first_with_their_numbers(store: Store, days: Days):
    days.next()
    store.create(arc_plan())
    store.count([one(1), one(2), one(1, survey=GROUPED)])
    listed = [(survey.id, n) for survey, n in store.surveys()]
    assert listed[0] == (survey_id(arc_plan()), 0)
    assert set(listed[1:]) == {(PLAIN, 2), (GROUPED, 1)}


def test_public_results_change_without_closing(store: Store):
    store.change(PLAIN, public_results=True)
    found = store.survey(PLAIN)
    assert found is not None
    assert (found.public_results, found.is_open(FIRST_DAY)) == (True, True)


def test_days_merge_to_the_whole_wherever_they_are_cut(store: Store, days: Days):
    expected = Tally(grouped_plan().hash, {})
    for day in range(5):
        batch = Submission(GROUPED, key(100 + day), ((0, 1, day + 1), (1, 0, 2)), refused=day)
        store.count([batch, one(day, report=day % 2, survey=GROUPED, group=1)])
        mine = {"young": Counts.of([1] * (day + 1)), "old": Counts.of([0, 0, day % 2])}
        expected = expected.merge(Tally(grouped_plan().hash, mine, day))
        days.next(2)
    whole = store.tally(GROUPED, grouped_plan())
    assert whole.to_dict() == expected.to_dict()
    for cut in range(-1, 12):
        edge = FIRST_DAY + timedelta(days=cut)
        before = store.tally(GROUPED, grouped_plan(), until=edge)
        after = store.tally(GROUPED, grouped_plan(), since=edge + timedelta(days=1))
        assert merge_all([before, after]).to_dict() == whole.to_dict()
    first = store.tally(GROUPED, grouped_plan(), since=FIRST_DAY, until=FIRST_DAY)
    assert first.to_dict()["groups"] == [
        {"group": "old", "reports": [0], "counts": [3]},
        {"group": "young", "reports": [1], "counts": [1]},
    ]
    assert store.tally(GROUPED, grouped_plan(), since=FIRST_DAY + timedelta(days=1), until=FIRST_DAY).n_reports == 0


def test_reports_beyond_32_bits_are_kept_whole(store: Store):
    large = (1 << 52) + 5
    store.count([one(1, report=large)])
    assert stored(store) == {(PLAIN, 0, large): 1}


def test_counts_beyond_32_bits_are_kept_whole(store: Store):
    store.count([Submission(PLAIN, key(1), ((0, 0, 3 * 10**9),)), Submission(PLAIN, key(2), ((0, 0, 3 * 10**9),))])
    assert stored(store) == {(PLAIN, 0, 0): 6 * 10**9}
    assert store.surveys()[0][1] + store.surveys()[1][1] == 6 * 10**9


def test_a_group_of_nothing_is_fine(store: Store):
    assert store.count([]) == []


def test_settings_are_replaced(store: Store):
    assert store.setting("colour") is None
    store.set_setting("colour", b"\x00red")
    store.set_setting("colour", b"\xffblue")
    assert store.setting("colour") == b"\xffblue"
