"""Requests made from the OpenAPI, valid and broken: never a server's error, and always an answer as described."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
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

from tacit.server.http.app import make_app
from tacit.server.http.messages import SURVEY_ID
from tacit.server.invitations import CredentialKey
from tacit.server.storage.store import Store, survey_id

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
EXAMPLES, FEW = 2, 1
ADMINISTRATOR = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def described() -> Any:
    """The description does not depend on the data, so it is read before there is any."""
    app = make_app(SimpleNamespace(setting=lambda name: None))  # type: ignore[arg-type]
    schema = schemathesis.openapi.from_dict(app.openapi())
    schema.config.generation.update(modes=list(schemathesis.GenerationMode), with_security_parameters=False)
    return schema


@pytest.fixture(autouse=True)
def _named(request: pytest.FixtureRequest) -> None:
    """Schemathesis 4 looks for a test's name where pytest had it before 9.1."""
    request.node._nodeid = request.node.nodeid


def asks_for_a_token(context: Any) -> bool:
    return "security" in context.operation.definition.raw


schema = schemathesis.pytest.from_fixture("described")


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
    surveys: dict[object, str] = field(default_factory=dict)
    #: How often each request about a survey that is there was made.
    made: Counter[str] = field(default_factory=Counter)

    def survey_for(self, *test: object) -> str:
        """Its own for each test."""
        if test not in self.surveys:
            self.surveys[test] = self.new_survey()
        return self.surveys[test]

    def check(self, case: Any, headers: dict[str, str], survey: str | None = None) -> None:
        """The answer must be as described; with a survey, to the same request about one that is there."""
        checks = CHECKS
        if survey is not None:
            if not re.fullmatch(SURVEY_ID["pattern"], str(case.path_parameters["survey"])):
                self._send(case, headers, checks)
                # What was wrong with the request is mended now.
                checks = [check for check in CHECKS if check is not negative_data_rejection]
            case.path_parameters["survey"] = survey
            # What differed in the survey's name alone is the same request now; a third answer to it tells nothing new.
            said = (case.operation.label, case.method, survey, case.query, case.headers, case.cookies, case.body)
            request = repr((*said, case.media_type, headers, len(checks)))
            self.made[request] += 1
            if self.made[request] > 2:
                return
        self._send(case, headers, checks)

    def _send(self, case: Any, headers: dict[str, str], checks: list[Any]) -> None:
        case.call_and_validate(base_url=self.url, session=self.session, headers=headers, checks=checks)

    def new_survey(self) -> str:
        nth = len(self.surveys)
        plan = replace(grouped_plan().reworded(f"Question {nth}?"), earlier=())
        secrets = {"invitation_secret": b"s" * 32, "credential_key": self.credential_key}
        self.store.create(plan, **secrets if nth % 2 else {})
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

    from tacit.plan import Plan

    return [Plan.from_dict(json.loads(survey.plan)) for survey, _ in store.surveys()]


some = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
#: Every case that the description makes by itself is sent about a survey that is there; where nothing is, the answer
#: hardly depends on the rest.
nowhere = settings(some, phases=[Phase.generate])
#: Where a token is asked for, whoever has none is refused whatever else is said.
few = settings(nowhere, max_examples=FEW)
ABOUT_A_SURVEY = r"\{survey\}"


@schema.exclude(path_regex=ABOUT_A_SURVEY).parametrize()
@some
def test_answers_are_as_described(case: Any, running: Running):
    running.check(case, ADMINISTRATOR)


@schema.include(path_regex=ABOUT_A_SURVEY).parametrize()
@nowhere
def test_answers_about_a_survey_that_is_not_there_are_as_described(case: Any, running: Running):
    running.check(case, ADMINISTRATOR)


@schema.include(path_regex=ABOUT_A_SURVEY).parametrize()
@some
def test_answers_about_a_survey_that_is_there_are_as_described(case: Any, running: Running):
    running.check(case, ADMINISTRATOR, running.survey_for("administrator", case.operation.label))


@schema.exclude(asks_for_a_token).parametrize()
@nowhere
def test_answers_to_strangers_are_as_described(case: Any, running: Running):
    running.check(case, {})


@schema.include(path_regex=ABOUT_A_SURVEY).exclude(asks_for_a_token).parametrize()
@some
def test_answers_to_strangers_about_a_survey_that_is_there_are_as_described(case: Any, running: Running):
    running.check(case, {}, running.survey_for("stranger", case.operation.label))


@schema.include(asks_for_a_token).parametrize()
@few
def test_refusals_of_strangers_are_as_described(case: Any, running: Running):
    running.check(case, {})
    if "survey" in (case.path_parameters or {}):
        running.check(case, {}, running.survey_for("refused", case.operation.label))
