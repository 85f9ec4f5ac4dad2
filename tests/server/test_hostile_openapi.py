"""Requests made from the OpenAPI, valid and broken: never a server's error, and always an answer as described."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tacit.server.app import make_app
from tacit.server.invitations import CredentialKey
from tacit.server.messages import SURVEY_ID
from tacit.server.store import Store, survey_id

from support.listening import listening
from support.service import TOKEN, Days, assert_nothing_bad_stored, grouped_plan

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
EXAMPLES = 12
#: The description does not depend on the data, so it is read before there is any.
schema = schemathesis.openapi.from_dict(make_app(SimpleNamespace(setting=lambda name: None)).openapi())  # type: ignore[arg-type]
schema.config.generation.update(modes=list(schemathesis.GenerationMode), with_security_parameters=False)


@schemathesis.serializer("application/x-ndjson", "application/vnd.apache.arrow.stream")
def as_it_is(_: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


@dataclass
class Running:
    """A service, and as many surveys as tests that may close theirs."""

    url: str
    store: Store
    session: requests.Session
    credential_key: CredentialKey

    def new_survey(self) -> str:
        plan = replace(grouped_plan(), question=f"Question {len(self.store.surveys())}?")
        secrets = {"invitation_secret": b"s" * 32, "credential_key": self.credential_key}
        self.store.create(plan, **secrets if len(self.store.surveys()) % 2 else {})
        return survey_id(plan)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    store = Store(tmp_path_factory.mktemp("hostile"), Days())
    with pytest.MonkeyPatch.context() as patch, listening(store, patch) as url, requests.Session() as session:
        # Else the environment is searched for proxies twice for each of thousands of requests.
        session.trust_env = False
        yield Running(url, store, session, CredentialKey.generate())
        assert_nothing_bad_stored(store, *plans(store))
    store.close()


def plans(store: Store) -> list[Any]:
    import json

    from tacit.plan.contract import Plan

    return [Plan.from_dict(json.loads(survey.plan)) for survey, _ in store.surveys()]


@pytest.fixture(params=["stranger", "administrator"])
def headers(request: pytest.FixtureRequest) -> dict[str, str]:
    return {} if request.param == "stranger" else {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def survey(running: Running) -> str:
    return running.new_survey()


some = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@schema.parametrize()
@some
def test_answers_are_as_described(case: Any, running: Running, headers: dict[str, str]):
    case.call_and_validate(base_url=running.url, session=running.session, headers=headers, checks=CHECKS)


@schema.include(path_regex=r"\{survey\}").parametrize()
@some
def test_answers_about_a_survey_that_is_there_are_as_described(
    case: Any, running: Running, headers: dict[str, str], survey: str
):
    checks = CHECKS
    if not re.fullmatch(SURVEY_ID["pattern"], str(case.path_parameters["survey"])):
        # What was wrong with the request is mended now.
        checks = [check for check in CHECKS if check is not negative_data_rejection]
    case.path_parameters["survey"] = survey
    case.call_and_validate(base_url=running.url, session=running.session, headers=headers, checks=checks)
