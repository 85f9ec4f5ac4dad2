"""Whatever is submitted, in whatever order and grouping, the store says and keeps what a dictionary would."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import date

import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tacit.plan import Plan
from tacit.server.storage import schema
from tacit.server.storage.store import Store, Submission, survey_id

from support.service import FIRST_DAY, Days, grouped_plan, key, plain_plan

PLANS = {survey_id(plan): plan for plan in (plain_plan(), grouped_plan())}
UNKNOWN = "f" * 16


@dataclass
class Model:
    """What a collector does, in memory."""

    days: Days
    seen: set[tuple[str, str]] = field(default_factory=set)
    closed: set[str] = field(default_factory=lambda: {UNKNOWN})
    counts: Counter[tuple[str, date, int, int]] = field(default_factory=Counter)
    refused: Counter[tuple[str, date]] = field(default_factory=Counter)

    def count(self, submission: Submission) -> str:
        name, day = submission.survey, self.days()
        if name in self.closed:
            return "closed"
        if (name, submission.key) in self.seen:
            return "already counted"
        self.seen.add((name, submission.key))
        for group, report, times in submission.reports:
            self.counts[name, day, group, report] += times
        self.refused[name, day] += submission.refused
        return "counted"

    def agrees(self, store: Store, name: str, plan: Plan) -> None:
        """Assert that the store keeps the same, by day and altogether."""
        mine = {place: n for place, n in self.counts.items() if place[0] == name and n}
        by_day: dict[date, dict[int, int]] = {}
        by_report: Counter[tuple[str | None, int]] = Counter()
        for (_, day, group, report), n in mine.items():
            by_day.setdefault(day, {}).setdefault(group, 0)
            by_day[day][group] += n
            by_report[plan.groups[group].name, report] += n
        assert store.totals(name) == by_day
        tally = store.tally(name, plan)
        assert tally.refused == store.refused(name) == sum(n for (s, _), n in self.refused.items() if s == name)
        found = {
            (group, int(report)): int(n)
            for group, counts in tally.groups.items()
            for report, n in zip(counts.reports, counts.counts, strict=True)
        }
        assert found == by_report


def empty(store: Store) -> None:
    """Forget the example before; a new database for each would take longer than all else."""
    with store._writing.begin() as connection:
        for table in schema.metadata.sorted_tables:
            if table not in (schema.settings, schema.alembic_version):
                connection.execute(sa.delete(table))


reports = st.lists(st.tuples(st.just(0), st.integers(0, 2), st.integers(1, 9)), max_size=3)
submissions = st.builds(
    Submission,
    st.sampled_from([*PLANS, UNKNOWN]),
    st.integers(0, 12).map(key),
    reports.map(tuple),
    st.integers(0, 2),
)
#: A group for one of the two stores, a closed survey, or the next day.
steps = st.one_of(
    st.tuples(st.integers(0, 1), st.lists(submissions, min_size=1, max_size=8)),
    st.tuples(st.integers(0, 1), st.lists(submissions, min_size=1, max_size=8)),
    st.sampled_from([*PLANS]),
    st.just(None),
)


@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(steps, min_size=3, max_size=12))
def test_two_stores_on_one_database_are_one_dictionary(where: str, script: list[object]):
    days = Days(FIRST_DAY)
    stores = [Store(where, days), Store(where, days)]
    empty(stores[0])
    model = Model(days)
    for plan in PLANS.values():
        stores[0].create(plan)
    for step in script:
        match step:
            case None:
                days.next()
            case str():
                stores[1].change(step, close=True)
                model.closed.add(step)
            case (nth, group):
                assert stores[nth].count(group) == [model.count(each) for each in group]
    for store in stores:
        for name, plan in PLANS.items():
            model.agrees(store, name, plan)
        store.close()
