"""What the service says about itself: OpenAPI, the documentation of every route, metrics; and what it imports."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import tacit
from tacit.server.http import app

from support.places import ROOT
from support.service import Client, key, plain_plan

#: The page that names every route.
SERVICE_PAGE = ROOT / "docs" / "service.md"


@pytest.fixture
def openapi(client: Client) -> dict[str, Any]:
    answer = client.get("/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    return dict(answer.json())


def operations(openapi: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {path}": each for path, item in openapi["paths"].items() for method, each in item.items()
    }


def test_every_route_is_documented(openapi: dict[str, Any]):
    page = SERVICE_PAGE.read_text(encoding="utf-8")
    for operation in operations(openapi):
        method, path = operation.split()
        named = re.escape(path).replace(r"\{survey\}", r"\{?[A-Za-z]+\}?")
        assert re.search(rf"\b{method}\b[`\s|]+{named}(?![a-z/.])", page), f"{operation} is not in {SERVICE_PAGE.name}"


def test_every_documented_route_exists(openapi: dict[str, Any]):
    page = SERVICE_PAGE.read_text(encoding="utf-8")
    known = {re.sub(r"{\w+}", "{id}", operation) for operation in operations(openapi)}
    named = re.findall(r"\b(GET|POST|PATCH|PUT|DELETE)[`\s|]+(/(?:api/|healthz|metrics)[^\s`?|]*)", page)
    assert len(named) >= len(known)
    for method, path in named:
        assert f"{method} {re.sub(r'{[a-zA-Z]+}|(?<=/)ID(?=/|$)', '{id}', path)}" in known


def test_every_api_route_of_the_app_is_in_the_openapi(client: Client, openapi: dict[str, Any]):
    """None is hidden from the description, and with it from the tests that are made from it."""
    plain = {path for route in client.app.routes if (path := getattr(route, "path", "")).startswith("/api/")}
    assert plain
    assert plain <= set(openapi["paths"])
    routers = (app._respondents, app.administration, app.management, app.access, app._results, app._operation)
    assert all(getattr(route, "include_in_schema", False) for router in routers for route in router.routes)


def test_the_openapi_is_sound(openapi: dict[str, Any]):
    assert openapi["openapi"].startswith("3.1")
    for schema in openapi["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    for reference in re.findall(r'"\$ref": "#/components/schemas/(\w+)"', json.dumps(openapi)):
        assert reference in openapi["components"]["schemas"]
    ids = [operation["operationId"] for operation in operations(openapi).values()]
    assert len(set(ids)) == len(ids)
    for name, operation in operations(openapi).items():
        told = {parameter["name"] for parameter in operation.get("parameters", []) if parameter["in"] == "path"}
        assert told == set(re.findall(r"{(\w+)}", name)), name
        assert operation["summary"], name
        assert operation["description"], name


def test_the_openapi_says_that_errors_are_problems(openapi: dict[str, Any]):
    for name, operation in operations(openapi).items():
        for status, response in operation["responses"].items():
            if status.startswith(("4", "5")):
                assert list(response["content"]) == ["application/problem+json"], (name, status)
                schema = response["content"]["application/problem+json"]["schema"]
                assert (schema["title"], schema["required"]) == ("Problem", ["title", "status"]), (name, status)
            else:
                assert response["content"], (name, status)


def test_the_openapi_says_what_needs_the_token(openapi: dict[str, Any]):
    for name, operation in operations(openapi).items():
        guarded = "401" in operation["responses"]
        assert guarded == ("security" in operation), name
    assert "401" in operations(openapi)["POST /api/surveys"]["responses"]
    assert "401" not in operations(openapi)["POST /api/surveys/{survey}/reports"]["responses"]


# -- metrics --------------------------------------------------------------------------------------------------------


def test_metrics_are_about_the_service_and_never_about_a_survey(client: Client):
    survey = client.open(plain_plan())
    for number in range(3):
        client.report(survey, number, 1)
    client.report(survey, 0, 1)
    client.post(f"{survey}/reports", {"key": "x"})
    headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": key(9)}
    client.request("POST", f"{survey}/batches", content=b'{"report": 1}\n' * 5, headers=headers, admin=True)
    assert client.get("/metrics").status_code == 401
    answer = client.get("/metrics", admin=True)
    assert answer.headers["content-type"].startswith("text/plain")
    lines = dict(line.rsplit(" ", 1) for line in answer.text.splitlines() if not line.startswith("#"))
    assert lines["tacit_reports_total"] == "8.0"
    assert lines['tacit_http_responses_total{status="2xx"}'] == "6.0"
    assert lines['tacit_http_responses_total{status="4xx"}'] == "2.0"
    assert float(lines["tacit_commit_submissions_count"]) == float(lines["tacit_commit_seconds_count"]) == 5
    assert (float(lines["tacit_http_seconds_count"]), float(lines["tacit_queue"])) == (8, 0)
    assert lines["tacit_unavailable_total"] == "0.0"
    assert lines[f'tacit_build_info{{version="{tacit.__version__}"}}'] == "1.0"
    assert survey.rpartition("/")[2] not in answer.text
    assert "How often" not in answer.text
    assert "192.0.2.7" not in answer.text
    assert {name for line in lines for name in re.findall(r"(\w+)=", line)} == {"status", "le", "version"}
    assert not [line for line in lines if "created" in line], "the times of the first of each would be kept"


# -- imports --------------------------------------------------------------------------------------------------------


def imported(by: str) -> set[str]:
    code = f"import sys; {by}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


def test_the_service_imports_no_design_and_nothing_heavy():
    modules = imported("import tacit.server.http.app, tacit.server.run")
    assert "tacit.server.storage.store" in modules
    roots = {name.partition(".")[0] for name in modules}
    assert not roots & {"numba", "matplotlib", "duckdb", "pandas", "typer", "httpx", "playwright"}
    assert not [name for name in modules if name.startswith("tacit.designs")]
    assert "pyarrow" not in roots, "only batches need it"


def test_the_other_commands_do_not_import_the_service():
    modules = imported("import tacit, tacit.cli.app, tacit.cli.serve")
    assert not [name for name in modules if name.startswith("tacit.server")]
    assert not {name.partition(".")[0] for name in modules} & {"fastapi", "uvicorn", "sqlalchemy", "psycopg"}
