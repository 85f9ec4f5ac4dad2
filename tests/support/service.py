"""What the service's tests share: plans, a client that reaches the app without a network, and counting by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from anyio.from_thread import BlockingPortal, start_blocking_portal
from fastapi import FastAPI

from tacit import Histogram, Prior, Survey
from tacit.designs import optimal_binary, repaired_response
from tacit.mechanism import ManyValues
from tacit.plan import Group, Plan
from tacit.server.http.app import make_app
from tacit.server.storage import schema
from tacit.server.storage.store import Store, survey_id
from tacit.server.storage.tokens import set_token

from support.rings import ring

TOKEN = "the-token-of-these-tests"
FIRST_DAY = date(2026, 11, 15)


@cache
def plain_plan() -> Plan:
    """Three answers, no groups, every estimator."""
    prior = Prior.of({"never": 6, "sometimes": 3, "often": 1})
    return Plan.of_groups(
        Histogram(),
        (Group(name=None, epsilon=Fraction(1), mechanism=repaired_response(prior, 1)),),
        "How often?",
    )


@cache
def grouped_plan() -> Plan:
    """Two groups, whose reports mean different things."""
    young, old = Prior.of({"yes": 1, "no": 9}), Prior.of({"yes": 3, "no": 7})
    groups = (
        Group(name="young", epsilon=Fraction(1), mechanism=optimal_binary(young, 1)),
        Group(name="old", epsilon=Fraction(1, 2), mechanism=optimal_binary(old, 0.5)),
    )
    return Plan.of_groups(Survey("yes"), groups, "Do you?")


@cache
def arc_plan() -> Plan:
    """A group with a ring, whose reports have an order and a position, beside a table; only mmse works."""
    prior = Prior(range(8), [1] * 7 + [0])
    arc = ring(prior, 3, 2, Fraction(3, 2))
    groups = (
        Group(name="arc", epsilon=Fraction(3, 2), mechanism=arc),
        Group(name="table", epsilon=Fraction(1), mechanism=repaired_response(prior, 1)),
    )
    return Plan.of_groups(Histogram(), groups)


@cache
def many_groups_plan(groups: int) -> Plan:
    """Yes or no in so many groups."""
    mechanism = optimal_binary(Prior.of({"yes": 1, "no": 3}), 1)
    named = (Group(name=f"g{k}", epsilon=Fraction(1), mechanism=mechanism) for k in range(groups))
    return Plan.of_groups(Survey("yes"), tuple(named), "Do you?")


PLANS = {"plain": plain_plan, "grouped": grouped_plan, "arc": arc_plan}


def report_range(group: Group) -> tuple[int, int]:
    """How many orders and how many positions the reports of a group have; a table has one order."""
    if isinstance(group.mechanism, ManyValues):
        return group.mechanism.circle.orders, group.mechanism.circle.circle
    assert group.mechanism.n_possible_reports is not None
    return 1, group.mechanism.n_possible_reports


def can_send(plan: Plan, group: str | None, report: int) -> bool:
    """Whether a plan can have sent a report, said as plainly as possible."""
    for each in plan.groups:
        if each.name == group:
            states, positions = report_range(each)
            order, position = divmod(report, 2**3) if states > 1 else (0, report)
            return report >= 0 and order < states and position < positions
    return False


def key(number: int) -> str:
    """The nth of many different keys."""
    return f"{number:032x}"


class Days:
    """A calendar that the test turns."""

    def __init__(self, day: date = FIRST_DAY) -> None:
        self.day = day

    def __call__(self) -> date:
        return self.day

    def next(self, days: int = 1) -> None:
        self.day += timedelta(days=days)


def new_place(request: pytest.FixtureRequest, folder: Path, kind: str) -> str:
    """Where a store can keep its data: a folder for SQLite, or the URL of a new database of PostgreSQL."""
    return str(folder / "data") if kind == "sqlite" else str(request.getfixturevalue("postgres").new_database())


@dataclass
class Client:
    """Requests to the app in this process, from any thread."""

    app: FastAPI
    store: Store
    portal: BlockingPortal
    http: httpx.AsyncClient

    def request(self, method: str, path: str, *, admin: bool = False, **options: Any) -> httpx.Response:
        """Send a request, with the administrator's token if asked."""
        headers = httpx.Headers(options.pop("headers", {}))
        if "content" in options:
            headers.setdefault("Content-Type", "application/json")
        if admin:
            headers["Authorization"] = f"Bearer {TOKEN}"

        async def send() -> httpx.Response:
            return await self.http.request(method, path, headers=headers, **options)

        return self.portal.call(send)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, json: Any = None, **options: Any) -> httpx.Response:
        return self.request("POST", path, json=json, **options)

    def patch(self, path: str, json: Any, **options: Any) -> httpx.Response:
        return self.request("PATCH", path, json=json, **options)

    def open(self, plan: Plan, **wanted: Any) -> str:
        """Open a survey; the path of its routes."""
        answer = self.post("/api/surveys", {"plan": plan.to_dict()} | wanted, admin=True)
        assert answer.status_code == 201, answer.text
        return f"/api/surveys/{answer.json()['id']}"

    def report(self, survey: str, number: int, report: int, group: str | None = None, **more: Any) -> str:
        """Send a report under the nth key; what became of it."""
        answer = self.post(f"{survey}/reports", {"key": key(number), "group": group, "report": report} | more)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["status"])

    def tally(self, survey: str, **days: str) -> dict[str, Any]:
        """The exported tally."""
        answer = self.get(f"{survey}/tally", params=days, admin=True)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())


@contextmanager
def serving(store: Store, **options: Any) -> Iterator[Client]:
    """The app with its lifespan, on a store, behind a client. The rate is unlimited unless the test limits it."""
    set_token(store, TOKEN)
    app = make_app(store, **{"rate": 0, "guesses": 0} | options)
    app.state.collector.fresh = 0.0
    with start_blocking_portal() as portal:

        @contextmanager
        def connected() -> Iterator[httpx.AsyncClient]:
            transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=("192.0.2.7", 50000))
            # The host that the service is found at; the tests decide about the path.
            home = httpx.URL(options.get("public_url") or "http://test").copy_with(path="/", scheme="http")
            with portal.wrap_async_context_manager(httpx.AsyncClient(transport=transport, base_url=home)) as c:
                yield c

        with portal.wrap_async_context_manager(app.router.lifespan_context(app)), connected() as http:
            yield Client(app, store, portal, http)


def stored(store: Store) -> dict[tuple[str, int, int], int]:
    """Every count, sealed ones too: (survey, position of the group, report) to how often."""
    found: Counter[tuple[str, int, int]] = Counter()
    with store._reading.connect() as connection:
        names = connection.scalars(sa.select(schema.surveys.c.id)).all()
    for name in names:
        with store.counting.moment(name) as (connection, pending):
            table = schema.counts
            query = sa.select(table.c.group, table.c.report, table.c.count).where(table.c.survey == name)
            for group, report, n in connection.execute(query):
                found[name, group, report] += n
            for (_, group, report), n in pending[name].reports.items():
                found[name, group, report] += n
    return dict(found)


def assert_nothing_bad_stored(store: Store, *plans: Plan) -> int:
    """Every stored report is one that its plan can have sent, and totals agree with counts. How many there are."""
    known = {survey_id(plan): plan for plan in plans}
    found = stored(store)
    sums: dict[tuple[str, int], int] = {}
    for (survey, group, report), n in found.items():
        assert can_send(known[survey], known[survey].groups[group].name, report)
        assert n > 0
        sums[survey, group] = sums.get((survey, group), 0) + n
    for survey in known:
        for day in store.totals(survey).values():
            for group, n in day.items():
                sums[survey, group] = sums.get((survey, group), 0) - n
    assert not any(sums.values())
    return sum(found.values())
