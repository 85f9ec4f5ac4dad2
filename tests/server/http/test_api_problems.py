"""One shape for every error (RFC 9457), pinned word for word, and what every response carries or never carries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from sqlalchemy.exc import OperationalError

from tacit.server.http.batches import NDJSON
from tacit.server.problems import MEDIA_TYPE
from tacit.server.storage.store import Store

from support.places import CLIENT, PAGES
from support.service import Client, Days, key, plain_plan, serving

DIGITS = "Should be 32 hexadecimal digits in lower case: 16 random bytes, as 'openssl rand -hex 16' writes them"
UNKNOWN = "/api/surveys/0123456789abcdef"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """One service with one survey, for tests that change nothing."""
    store = Store(tmp_path_factory.mktemp("problems"), Days())
    with serving(store) as client:
        client.open(plain_plan())
        yield client
    store.close()


SURVEY = f"/api/surveys/{plain_plan().hash[:16]}"
#: A request, and the whole body of its answer but for "type", which is always "about:blank".
PROBLEMS: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "no token": (
        "GET", "/api/surveys", {},
        {"title": "Unauthorized", "status": 401, "detail": "This needs the administrator's token."},
    ),
    "no survey": (
        "GET", UNKNOWN, {},
        {"title": "Not Found", "status": 404, "detail": "There is no such survey."},
    ),
    "no survey to report to": (
        "POST", f"{UNKNOWN}/reports", {"json": {"key": key(1), "report": 0}},
        {"title": "Not Found", "status": 404, "detail": "There is no such survey."},
    ),
    "no page": (
        "GET", "/static/nothing.js", {},
        {"title": "Not Found", "status": 404, "detail": "There is no such page."},
    ),
    "no route": ("GET", "/admin.php", {}, {"title": "Not Found", "status": 404}),
    "no such method": ("PUT", SURVEY, {}, {"title": "Method Not Allowed", "status": 405}),
    "no such method for reports": ("GET", f"{SURVEY}/reports", {}, {"title": "Method Not Allowed", "status": 405}),
    "not an id": (
        "GET", "/api/surveys/nonsense", {},
        {
            "title": "Unprocessable Content", "status": 422, "detail": "The request does not have the expected form.",
            "errors": [
                {"where": "path.survey", "message": "String should match pattern '^[0-9a-f]{16}(-[1-9][0-9]{0,3})?$'"}
            ],
        },
    ),
    "too large": (
        "POST", f"{SURVEY}/reports", {"content": b" " * 20_000},
        {
            "title": "Content Too Large", "status": 413,
            "detail": "The body of this request may have 16,384 bytes at most.",
        },
    ),
    "not a batch": (
        "POST", f"{SURVEY}/batches",
        {"content": b"1,2", "headers": {"Content-Type": "text/csv", "Idempotency-Key": key(1)}, "admin": True},
        {
            "title": "Unsupported Media Type", "status": 415,
            "detail": "A batch is application/x-ndjson or application/vnd.apache.arrow.stream.",
        },
    ),
    "not readable": (
        "POST", f"{SURVEY}/batches",
        {
            "content": b"1,2", "admin": True,
            "headers": {"Content-Type": "application/x-ndjson", "Idempotency-Key": key(1)},
        },
        {
            "title": "Unprocessable Content", "status": 422,
            "detail": "The batch is not readable as application/x-ndjson.",
        },
    ),
    "not a report": (
        "POST", f"{SURVEY}/reports", {"json": {"key": key(1), "report": "often"}},
        {
            "title": "Unprocessable Content", "status": 422, "detail": "The request does not have the expected form.",
            "errors": [{"where": "report", "message": "Input should be a valid integer"}],
        },
    ),
    "not a report of this plan": (
        "POST", f"{SURVEY}/reports", {"json": {"key": key(1), "report": 7}},
        {"title": "Unprocessable Content", "status": 422, "detail": "The plan cannot have sent this report."},
    ),
    "no key of a report": (
        "POST", f"{SURVEY}/reports", {"json": {"key": "again", "report": 0}},
        {
            "title": "Unprocessable Content", "status": 422, "detail": "The request does not have the expected form.",
            "errors": [{"where": "key", "message": DIGITS}],
        },
    ),
    "no key of a batch": (
        "POST", f"{SURVEY}/batches", {"content": b"", "headers": {"Content-Type": NDJSON}, "admin": True},
        {
            "title": "Unprocessable Content", "status": 422, "detail": "The request does not have the expected form.",
            "errors": [{"where": "header.idempotency-key", "message": f"Field required. {DIGITS}"}],
        },
    ),
    "open to everybody": (
        "POST", f"{SURVEY}/invitations", {"json": {"count": 1}, "admin": True},
        {"title": "Conflict", "status": 409, "detail": "This survey is open to everybody; it has no invitations."},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROBLEMS)
def test_problems_word_for_word(shared: Client, name: str):
    method, path, options, expected = PROBLEMS[name]
    answer = shared.request(method, path, **options)
    assert answer.headers["content-type"] == MEDIA_TYPE
    assert answer.json() == {"type": "about:blank"} | expected
    assert answer.status_code == expected["status"]


def test_an_unknown_field_is_named_harmlessly(shared: Client):
    body = {"key": key(1), "report": 0, "<script>ä\x00" + "x" * 500: "secret"}
    [error] = shared.post(f"{SURVEY}/reports", body).json()["errors"]
    assert error["where"].isascii()
    assert error["where"].isprintable()
    assert len(error["where"]) == 100
    assert "secret" not in str(error)


def test_a_database_that_fails_is_a_503(shared: Client, monkeypatch: pytest.MonkeyPatch, caplog: Any):
    def fail(*_: object) -> None:
        raise OperationalError("SELECT", {"key": key(1)}, Exception("gone"))

    for name in ("write", "survey", "surveys", "check"):
        monkeypatch.setattr(shared.store, name, fail)
    requests = [
        ("POST", f"{SURVEY}/reports", {"json": {"key": key(1), "report": 0}}),
        ("GET", SURVEY, {}),
        ("GET", "/healthz", {}),
        ("GET", "/api/surveys", {"admin": True}),
    ]
    for method, path, options in requests:
        answer = shared.request(method, path, **options)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert answer.json() == {
            "type": "about:blank",
            "title": "Service Unavailable",
            "status": 503,
            "detail": "The database does not answer. Send the same again later.",
        }
    assert key(1) not in caplog.text, "keys stay out of the log"


def test_a_fault_of_ours_is_a_500_that_says_nothing_else(shared: Client, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> None:
        raise KeyError("a respondent's report")

    monkeypatch.setattr(shared.store, "write", fail)
    answer = shared.post(f"{SURVEY}/reports", {"key": key(1), "report": 0})
    assert answer.headers["content-type"] == MEDIA_TYPE
    assert answer.json() == {
        "type": "about:blank",
        "title": "Internal Server Error",
        "status": 500,
        "detail": "This is a fault of the service.",
    }
    assert_headers(answer)


# -- headers --------------------------------------------------------------------------------------------------------

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
EVERYWHERE = [
    "/",
    SURVEY.replace("/api/surveys", "/s"),
    SURVEY.replace("/api/surveys", "/d"),
    "/client/index.js",
    "/healthz",
    "/openapi.json",
    SURVEY,
    f"{SURVEY}/plan",
]


def assert_headers(answer: httpx.Response) -> None:
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert "camera=()" in answer.headers["permissions-policy"]
    assert answer.headers["cache-control"] in ("no-store", "no-cache")
    names = set(answer.headers)
    assert not names & {"set-cookie", "server", "x-powered-by", "x-process-time", "date"}
    assert not [name for name in names if name.startswith("access-control-")]


@pytest.mark.parametrize("path", EVERYWHERE)
def test_every_answer_is_guarded(shared: Client, path: str):
    answer = shared.get(path, headers={"Origin": "https://example.org", "Cookie": "a=b"})
    assert answer.status_code == 200, answer.text
    assert_headers(answer)


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_problem_is_guarded(shared: Client, name: str):
    method, path, options, _ = PROBLEMS[name]
    assert_headers(shared.request(method, path, **options))


def test_other_origins_are_not_let_in(shared: Client):
    asked = {"Origin": "https://example.org", "Access-Control-Request-Method": "POST"}
    answer = shared.request("OPTIONS", f"{SURVEY}/reports", headers=asked)
    assert answer.status_code == 405
    assert_headers(answer)


def test_what_is_about_a_survey_is_never_kept_by_caches(shared: Client):
    assert shared.get(SURVEY).headers["cache-control"] == "no-store"
    assert shared.get("/").headers["cache-control"] == "no-cache"


# -- pages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/..%2fapp.py", "/client/%2e%2e/app.py", "/static//etc/passwd", "/static", "/client/"],
)
def test_only_the_pages_own_files_are_served(shared: Client, path: str):
    answer = shared.get(path)
    assert answer.status_code == 404
    assert "import" not in answer.text


def test_all_that_the_pages_load_is_served(shared: Client):
    kinds = {
        ".js": "text/javascript; charset=utf-8",
        ".css": "text/css; charset=utf-8",
    }
    client = {f"/client/{path.relative_to(CLIENT).as_posix()}": path for path in CLIENT.glob("mechanism/**/*.js")}
    files = {f"/static/{path.relative_to(PAGES).as_posix()}": path for path in PAGES.rglob("*")}
    files = {name: path for name, path in (files | client).items() if path.suffix in kinds}
    assert {"/static/survey.js", "/static/languages/de.js", "/client/mechanism/kinds.js"} <= set(files)
    for name, path in files.items():
        answer = shared.get(name)
        assert answer.content == path.read_bytes()
        assert answer.headers["content-type"] == kinds[path.suffix]
