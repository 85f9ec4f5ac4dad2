"""Surveys over HTTP: made, shown, changed, listed; and who may do which."""

from __future__ import annotations

import hashlib
import hmac
from datetime import timedelta
from pathlib import Path

import pytest

from tacit.plan import Plan
from tacit.server.storage.store import Store, survey_id
from tacit.server.storage.tokens import Grant, grant_of, make_token, set_token, tokens

from support.service import FIRST_DAY, TOKEN, Client, Days, arc_plan, grouped_plan, plain_plan

#: Everything that needs the token.
ADMINISTRATION = [
    ("GET", "/api/surveys"),
    ("POST", "/api/surveys"),
    ("PATCH", "/api/surveys/{id}"),
    ("POST", "/api/surveys/{id}/invitations"),
    ("POST", "/api/surveys/{id}/batches"),
    ("GET", "/api/surveys/{id}/tally"),
    ("GET", "/api/surveys/{id}/results"),
    ("GET", "/api/surveys/{id}/results.csv"),
]


def test_a_survey_is_made_and_shown(client: Client):
    survey = client.open(grouped_plan(), group_question="How old are you?")
    name = grouped_plan().hash[:16]
    assert survey == f"/api/surveys/{name}"
    assert client.get(survey).json() == {
        "id": name,
        "plan": grouped_plan().hash,
        "question": "Do you?",
        "group_question": "How old are you?",
        "open": True,
        "public_results": False,
        "publish_every": 20,
        "invited": False,
        "opened": "2026-11-15",
        "ends": None,
        "closed": None,
        "credential_key": None,
        "wave": 1,
        "series": grouped_plan().hash,
        "copy_of": None,
    }


def test_the_same_plan_again_changes_nothing(client: Client, days: Days):
    survey = client.open(plain_plan())
    before = client.get(survey).json()
    days.next()
    again = client.post(
        "/api/surveys", {"plan": plain_plan().to_dict(), "public_results": True, "invited": True}, admin=True
    )
    assert (again.status_code, again.json()) == (200, before)


@pytest.mark.parametrize("plan", [plain_plan(), grouped_plan(), arc_plan()], ids=["plain", "grouped", "arc"])
def test_the_plan_that_clients_get_is_the_one_that_was_given(client: Client, plan: Plan):
    survey = client.open(plan)
    answer = client.get(f"{survey}/plan")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == plan.to_dict()
    assert Plan.from_dict(answer.json()).hash == plan.hash


def test_closing_is_final(client: Client, days: Days):
    survey = client.open(plain_plan())
    assert client.report(survey, 1, 0) == "counted"
    days.next()
    closed = client.patch(survey, {"open": False}, admin=True).json()
    assert (closed["open"], closed["closed"]) == (False, str(FIRST_DAY + timedelta(days=1)))
    refused = client.post(f"{survey}/reports", {"key": "0" * 32, "report": 0})
    assert (refused.status_code, refused.json()["detail"]) == (409, "This survey is closed.")
    assert client.patch(survey, {"open": True}, admin=True).status_code == 422
    assert client.tally(survey)["groups"] == [{"group": None, "reports": [0], "counts": [1]}]


@pytest.mark.parametrize("value", [0, 0.0, "false", "", [], True, 1])
def test_only_false_closes(client: Client, value: object):
    """0 equals False in Python, and closing is final."""
    survey = client.open(plain_plan())
    assert client.patch(survey, {"open": value}, admin=True).status_code == 422
    assert client.get(survey).json()["open"] is True


def test_changing_one_thing_leaves_the_other(client: Client):
    survey = client.open(plain_plan())
    assert client.patch(survey, {"public_results": True}, admin=True).json()["public_results"] is True
    assert client.patch(survey, {}, admin=True).json()["public_results"] is True
    changed = client.patch(survey, {"public_results": False, "open": False}, admin=True).json()
    assert (changed["public_results"], changed["open"]) == (False, False)


def test_surveys_are_listed_with_their_numbers(client: Client, days: Days):
    first = client.open(plain_plan())
    days.next()
    client.open(grouped_plan(), public_results=True)
    client.report(first, 1, 0)
    client.report(first, 2, 1)
    listed = client.get("/api/surveys", admin=True).json()
    assert [(each["question"], each["n_reports"], each["public_results"]) for each in listed] == [
        ("Do you?", 0, True),
        ("How often?", 2, False),
    ]


def test_a_tampered_plan_is_refused_with_the_reason(client: Client):
    data = plain_plan().to_dict()
    data["blocks"][0]["groups"][0]["epsilon"] = "1/2"
    refused = client.post("/api/surveys", {"plan": data}, admin=True)
    assert refused.status_code == 422
    assert (
        refused.json()["detail"] == "The plan is refused: This plan was altered: its content does not match its hash."
    )
    assert client.get("/api/surveys", admin=True).json() == []


def test_a_plan_that_breaks_its_promise_is_refused(client: Client):
    from tacit.plan import contract_hash

    data = plain_plan().to_dict()
    data["blocks"][0]["groups"][0]["epsilon"] = "1/2"
    data["hash"] = contract_hash(data)
    refused = client.post("/api/surveys", {"plan": data}, admin=True)
    assert refused.status_code == 422
    assert "The promise is not kept" in refused.json()["detail"]


# -- the token ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "path"), ADMINISTRATION)
@pytest.mark.parametrize(
    "authorization",
    [None, "Bearer", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}"],
)
def test_administration_needs_the_token(refusing: Client, method: str, path: str, authorization: str | None):
    headers = {} if authorization is None else {"Authorization": authorization}
    path = path.replace("{id}", survey_id(plain_plan()))
    refused = refusing.request(method, path, headers=headers, json={} if method != "GET" else None)
    assert refused.status_code == 401, refused.text
    assert refused.headers["www-authenticate"] == "Bearer"
    assert refused.json()["detail"] == "This needs the administrator's token."


def test_administration_works_with_the_token(client: Client):
    survey = client.open(plain_plan())
    bodies = {"PATCH": {}, "POST": {"count": 1}}
    for method, path in ADMINISTRATION:
        answer = client.request(method, path.replace("/api/surveys/{id}", survey), json=bodies.get(method), admin=True)
        assert answer.status_code != 401, path


def test_tokens_are_compared_in_constant_time(client: Client, monkeypatch: pytest.MonkeyPatch):
    compared = []

    def compare(first: bytes, second: bytes) -> bool:
        compared.append((first, second))
        return compare_digest(first, second)

    compare_digest = hmac.compare_digest
    monkeypatch.setattr("tacit.server.storage.tokens.hmac.compare_digest", compare)
    client.get("/api/surveys", headers={"Authorization": "Bearer guess"})
    assert compared == [(hashlib.sha256(b"guess").digest(), hashlib.sha256(TOKEN.encode()).digest())]


def test_the_token_is_nowhere_in_the_files(client: Client, tmp_path: Path):
    client.open(plain_plan())
    data = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    assert hashlib.sha256(TOKEN.encode()).digest() in data, "the hash is there, so the token would be found"
    assert TOKEN.encode() not in data


def test_a_new_token_replaces_the_old_one(tmp_path: Path, days: Days):
    store = Store(tmp_path, days)
    assert tokens(store) == []
    assert grant_of(store, "Bearer anything") is None
    old, new = make_token(store), make_token(store)
    assert [grant_of(store, f"Bearer {token}") for token in (old, new)] == [None, Grant("all")]
    assert grant_of(store, f"bearer  {new}"), "the scheme's case and spaces do not matter"
    assert len(new) >= 43
    assert [each.name for each in tokens(store)] == ["administrator"]
    store.close()


@pytest.mark.parametrize("token", ["", " ", "short", "with a space, but long enough", "ümläüte-und-lang-genug"])
def test_a_token_that_is_empty_or_easy_to_guess_is_refused(tmp_path: Path, days: Days, token: str):
    """An empty variable TACIT_TOKEN would make everybody the administrator."""
    store = Store(tmp_path, days)
    with pytest.raises(ValueError, match="at least 16"):
        set_token(store, token)
    assert grant_of(store, f"Bearer {token}") is None
    store.close()
