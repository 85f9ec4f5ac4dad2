"""Reports drawn inside DuckDB's queries, and tallies of what they return."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import duckdb
import pytest
from scipy.stats import binom

from tacit import Histogram, Plan, Prior, Sum, Survey, make_plan
from tacit.designs import Search
from tacit.designs.prior_file import GroupPrior
from tacit.files import InputError, add_perturb, tally_by, tally_file

SECRET = "a-very-private-answer"
ROWS = 20_000


@pytest.fixture
def connection() -> Any:
    with duckdb.connect(config={"threads": 2}) as opened:
        yield opened


@pytest.fixture
def plan() -> Plan:
    priors = {"young": Prior.of({"yes": 1, "no": 9}), "old": Prior.of({"yes": 3, "no": 7})}
    groups = [GroupPrior(name=name, prior=prior, share=Fraction(1, 2)) for name, prior in priors.items()]
    return make_plan(groups, Survey("yes"), epsilon=1)


def test_every_row_is_drawn_for_itself_with_the_probabilities_of_the_plan(connection: Any, plan: Plan):
    """A constant answer is not drawn once for all: at error probability 1e-9 in each group."""
    add_perturb(connection, plan)
    for place, group in enumerate(("young", "old")):
        drawn = f"SELECT tacit_perturb('yes', '{group}') AS report FROM range({ROWS})"
        zeros = connection.execute(f"SELECT count(*) FROM ({drawn}) WHERE report = 0").fetchone()[0]
        low, high = binom.ppf([5e-10, 1 - 5e-10], ROWS, float(plan.groups[place].mechanism.matrix[0, 0]))
        assert 0 < low <= zeros <= high < ROWS
    mixed = "SELECT if(i % 2 = 0, 'young', 'old') AS \"group\", if(i % 3 = 0, 'yes', 'no') AS value"
    connection.execute(f"CREATE TABLE answers AS {mixed} FROM range({ROWS}) AS t(i)")
    connection.execute('CREATE TABLE reports AS SELECT "group", tacit_perturb(value, "group") AS report FROM answers')
    with pytest.warns(UserWarning, match=f"has no column 'tacit_plan'.* 'p{plan.hash[:8]}' AS tacit_plan"):
        counted = tally_file(plan, connection.table("reports"))
    assert counted.n_reports == ROWS
    assert counted == tally_file(plan, connection.table("reports").to_arrow_table())


def test_rows_that_cannot_be_randomized_stop_the_query_or_are_null(connection: Any, plan: Plan):
    add_perturb(connection, plan)
    add_perturb(connection, plan, "careful", on_unknown="skip")
    cells = f"('yes', 'old'), ('{SECRET}', 'old'), (NULL, 'old'), ('no', 'nobody'), ('no', 'young')"
    connection.execute(f"CREATE TABLE answers AS SELECT * FROM (VALUES {cells}) AS t(value, place)")
    with pytest.raises(
        duckdb.Error, match=r"3 rows .* missing value: 1; unknown value: 1; unknown group: 1"
    ) as stopped:
        connection.execute("SELECT tacit_perturb(value, place) FROM answers")
    assert SECRET not in str(stopped.value)
    reports = connection.execute("SELECT careful(value, place) FROM answers").fetchall()
    assert [report is None for (report,) in reports] == [False, True, True, True, False]


def test_numbers_are_answers_too(connection: Any):
    minutes = make_plan(Prior([0, 45, 90], [5, 3, 2]), Sum(), epsilon=1, between=(0, 90))
    pages = make_plan(Prior(range(20), range(1, 21)), Histogram(), epsilon=1, search=Search(method="many-values"))
    add_perturb(connection, minutes, "minutes")
    add_perturb(connection, pages, "pages")
    drawn = "minutes(0.5 + i % 90) AS minute, pages(i % 20) AS page, i % 3 AS region, 0.5 * (i % 5) AS weight"
    connection.execute(f"CREATE TABLE reports AS SELECT {drawn} FROM range({ROWS}) AS t(i)")
    table = connection.table("reports")
    for plan, options in (
        (minutes, {"report_column": "minute", "weight_column": "weight"}),
        (pages, {"report_column": "page", "by": ["region"]}),
    ):
        # A table may have reports of several plans, in columns of their own; one column names the plan of one.
        named = table.project(f"*, 'p{plan.hash[:8]}' AS tacit_plan")
        counted = tally_by if "by" in options else tally_file
        assert counted(plan, named, **options) == counted(plan, table.to_arrow_table(), **options)
    with pytest.raises(InputError, match="must have one column 'report'"):
        tally_file(pages, table)


def test_reports_that_name_their_plan_are_not_read_with_another(connection: Any):
    drawn, other = (make_plan(Prior.of({"yes": 1, "no": 9}), Survey("yes"), epsilon=epsilon) for epsilon in (1, 2))
    add_perturb(connection, drawn)
    columns = f"tacit_perturb('no') AS report, 'p{drawn.hash[:8]}' AS tacit_plan"
    connection.execute(f"CREATE TABLE reports AS SELECT {columns} FROM range(100)")
    assert tally_file(drawn, connection.table("reports")).n_reports == 100
    with pytest.raises(InputError, match="reports of another plan"):
        tally_file(other, connection.table("reports"))
