"""Reports as nobody should send them: whatever comes, never a server's error and never a bad report in the tally."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tacit.plan import Plan
from tacit.server.storage.store import Store, survey_id

from support.service import (
    Client,
    Days,
    arc_plan,
    assert_nothing_bad_stored,
    can_send,
    grouped_plan,
    key,
    new_place,
    report_range,
    serving,
    stored,
)

PLANS = [grouped_plan(), arc_plan()]
FEW = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """One service for all examples of this module: nothing that they send may harm it."""
    store = Store(new_place(request, tmp_path_factory.mktemp("hostile"), request.param), Days())
    with serving(store) as client:
        for plan in PLANS:
            client.open(plan)
        yield client
        assert_nothing_bad_stored(store, *PLANS)
    store.close()


#: How many reports each store holds, as far as was seen: looking before every request as well would double the looks.
held: Counter[Store] = Counter()


def send(target: Client, plan: Plan, body: bytes) -> None:
    """Send a body as a report, and assert that it is counted if and only if it says so and is good."""
    answer = target.request("POST", f"/api/surveys/{survey_id(plan)}/reports", content=body)
    assert answer.status_code in (200, 422, 413), answer.text
    counted = answer.status_code == 200 and answer.json()["status"] == "counted"
    before, held[target.store] = held[target.store], assert_nothing_bad_stored(target.store, *PLANS)
    assert held[target.store] == before + counted
    if counted:
        said = json.loads(body)
        assert can_send(plan, said.get("group"), said["report"])


def valid(draw: st.DrawFn, plan: Plan) -> dict[str, Any]:
    group = draw(st.sampled_from(plan.groups))
    report = draw(st.integers(0, report_range(group)[1] - 1))
    return {"key": draw(st.integers(0, 2**128 - 1).map(key)), "group": group.name, "report": report}


@st.composite
def mutated(draw: st.DrawFn) -> tuple[Plan, bytes]:
    """A good body with a few bytes cut out, put in or replaced."""
    plan = draw(st.sampled_from(PLANS))
    body = json.dumps(valid(draw, plan)).encode()
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(body)))
        end = draw(st.integers(start, min(len(body), start + 4)))
        body = body[:start] + draw(st.one_of(st.binary(max_size=4), st.sampled_from(PIECES))) + body[end:]
    return plan, body


PIECES = [
    b"e",
    b".0",
    b"-",
    b"9" * 30,
    b"\\u0000",
    b"\\ud800",
    b'"',
    b"{}",
    b"[",
    b",",
    b"null",
    b"\x00",
    b"\xff",
    b"NaN",
]
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**32, 2**52, 2**53, 2**63, 2**64, -1, 10**400, 1.0, -0.0, 1e308, math.nan, math.inf])
    | st.floats()
    | st.text()
    | st.sampled_from(["\ud800", "\x00", "young", "arc", "0", "1" * 32, key(7)]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@FEW
@given(st.sampled_from(PLANS), st.binary(max_size=300))
def test_any_bytes(target: Client, plan: Plan, body: bytes):
    send(target, plan, body)


@FEW
@given(mutated())
def test_good_bodies_gone_wrong(target: Client, case: tuple[Plan, bytes]):
    send(target, *case)


@FEW
@given(st.data())
def test_fields_of_any_kind(target: Client, data: st.DataObject):
    plan = data.draw(st.sampled_from(PLANS))
    body = valid(data.draw, plan)
    for name in data.draw(st.lists(st.sampled_from(["key", "group", "report", "credential", "other"]), max_size=2)):
        body[name] = data.draw(anything)
    send(target, plan, json.dumps(body).encode())


@FEW
@given(st.integers(-(2**70), 2**70) | st.integers(0, 2**34))
@example(6)
@example(7)
@example(2**32 - 1)
@example(2**32)
@example(2**32 + 6)
@example(2**53 - 1)
@example(2**53)
@example(2**63)
def test_any_integer(target: Client, report: int):
    """Counted if and only if the plan can have sent it; the key is fresh, so nothing else decides."""
    body = {"key": key(2**127 + report), "group": "arc", "report": report}
    answer = target.post(f"/api/surveys/{survey_id(arc_plan())}/reports", body)
    assert (answer.status_code == 200) == can_send(arc_plan(), "arc", report)
    assert answer.status_code in (200, 422)
    held[target.store] += answer.json().get("status") == "counted"


KEY = b'"key": "' + key(1).encode() + b'"'


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00",
        b"\xef\xbb\xbf{}",
        b"[" * 16_000,
        b'{"key":' * 2_000,
        b'{"report": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
        b"{" + KEY + b', "report": ' + b"9" * 10_000 + b"}",
        b"{" + KEY + b', "report": 1e400}',
        b"{" + KEY + b', "report": 1.0000000000000001}',
        b"{" + KEY + b', "report": NaN}',
        b"{" + KEY + b', "report": -Infinity}',
        b"{" + KEY + b', "report": -0, "group": "nobody"}',
        b"{" + KEY + b', "report": 0, "group": "\\ud800"}',
        b"{" + KEY + b', "report": 0, "group": "\xed\xa0\x80"}',
        b"{" + KEY + b', "report": 0, "group": "\\u0000"}',
        b"{" + KEY + b', "report": 0, "group": "young\\u0000"}',
        b"{" + KEY + b', "report": 0, "report": 99, "group": "young"}',
        b"{" + KEY + b', "report": 0, "group": "old", "group": "nobody"}',
        b"{" + KEY + b', "report": 0, "group": "' + b"x" * 2_000 + b'"}',
        b"{" + KEY + b', "report": 0, "group": "young", "credential": "' + b"A" * 2_000 + b'"}',
        b"{" + KEY + b', "report": 0, "group": "young"}{}',
        b"{" + KEY + b', "report": 0, "group": "young", "__proto__": {}}',
        b'{"key": "\\u0000' + b"0" * 31 + b'", "report": 0, "group": "young"}',
        b'{"key": "' + "٣".encode() * 32 + b'", "report": 0, "group": "young"}',
        b'{"key": "' + key(1).encode() + b'\\n", "report": 0, "group": "young"}',
    ],
)
def test_bodies_known_to_hurt_others(target: Client, body: bytes):
    before = stored(target.store)
    answer = target.request("POST", f"/api/surveys/{survey_id(grouped_plan())}/reports", content=body)
    assert answer.status_code == 422, answer.text
    assert stored(target.store) == before


NAMES = ["%00", "0%00" + "0" * 14, "%F0%9F%92%A9", "%ff%fe", "0" * 15, "0" * 17, "F" * 16, "0" * 16 + "%0A", "x" * 5000]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "path", ["", "/plan", "/reports", "/credentials", "/batches", "/results", "/results.csv", "/tally", "/invitations"]
)
def test_names_of_surveys_that_cannot_be(target: Client, name: str, path: str):
    posts = {"/reports", "/credentials", "/batches", "/invitations"}
    bodies = {"/reports": {"key": key(1), "report": 0}, "/credentials": {"invitation": "", "blinded": ""}}
    answer = target.request(
        "POST" if path in posts else "GET",
        f"/api/surveys/{name}{path}",
        json=bodies.get(path, {"count": 1}) if path in posts else None,
        headers={"Idempotency-Key": key(1)},
        admin=True,
    )
    assert answer.status_code in (404, 422), answer.text
    assert answer.headers["content-type"] == "application/problem+json"


@FEW
@given(anything)
@example({"tacit_plan": 1})
@example({"tacit_plan": 1, "hash": "0", "groups": "x"})
@example(grouped_plan().to_dict() | {"groups": []})
@example(grouped_plan().to_dict() | {"question": "\x00"})
def test_plans_of_any_kind(target: Client, plan: Any):
    body = json.dumps({"plan": plan if isinstance(plan, dict) else {"tacit_plan": 1, "groups": plan}})
    answer = target.request(
        "POST", "/api/surveys", content=body, headers={"Content-Type": "application/json"}, admin=True
    )
    assert answer.status_code in (400, 422), answer.text


@FEW
@given(st.data())
def test_plans_gone_wrong(target: Client, data: st.DataObject):
    """One part of a good plan is replaced, with its hash made right again: it is refused, or it is a good plan."""
    from tacit.plan import contract_hash

    plan = json.loads(json.dumps(data.draw(st.sampled_from(PLANS)).to_dict()))
    parts = [(plan, name) for name in plan if name != "tacit_plan"]
    (block,) = plan["blocks"]
    parts += [(block, name) for block in plan["blocks"] for name in block]
    parts += [(group, name) for group in block["groups"] for name in group]
    parts += [(group["mechanism"], name) for group in block["groups"] for name in group["mechanism"]]
    place, name = data.draw(st.sampled_from(parts))
    place[name] = data.draw(anything)
    try:
        plan["hash"] = contract_hash(plan)
    except (TypeError, ValueError, AttributeError, KeyError):
        return
    answer = target.request(
        "POST",
        "/api/surveys",
        content=json.dumps({"plan": plan}),
        headers={"Content-Type": "application/json"},
        admin=True,
    )
    assert answer.status_code in (200, 201, 400, 422), answer.text
    if answer.status_code < 300:
        assert target.get(f"/api/surveys/{plan['hash'][:16]}/results", admin=True).status_code == 200
