"""The routes: HTTP in, the collector's answer out. What each one keeps is in docs/service-data.md."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import date
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Header, Query, Request, Response
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from starlette.routing import Route

import tacit
from tacit.estimates import Estimator
from tacit.server import messages as m
from tacit.server import site
from tacit.server.batches import ARROW, NDJSON
from tacit.server.collector import Collector, ReadySurvey
from tacit.server.guard import Administrator, RateLimit
from tacit.server.intake import Intake
from tacit.server.metrics import Metrics
from tacit.server.problems import MEDIA_TYPE, Problem, Refusal, answer_with_problems
from tacit.server.store import Store, Survey

Responses = dict[int | str, dict[str, Any]]
_PROBLEM: dict[str, Any] = {"content": {MEDIA_TYPE: {"schema": Problem.model_json_schema()}}}
_COMMON: Responses = {
    code: _PROBLEM | {"description": text}
    for code, text in {
        400: "Not readable",
        404: "No such survey",
        408: "Too slow",
        413: "Too large",
        422: "Not the expected form",
        503: "The database does not answer",
    }.items()
}
_ADMIN: Responses = {401: _PROBLEM | {"description": "Needs the administrator's token"}}
_CLOSED: Responses = {409: _PROBLEM | {"description": "Closed, spent, or not of this kind"}}
_STRANGERS: Responses = {
    403: _PROBLEM | {"description": "Not invited"},
    429: _PROBLEM | {"description": "Too many from this address"},
}
_TEXT = {"schema": {"type": "string"}}
_BEARER = Depends(HTTPBearer(auto_error=False, description="The token that `tacit serve` printed."))


def make_app(store: Store, *, rate: int = 300, clock: Callable[[], float] = time.monotonic) -> FastAPI:
    """The whole service on a store. `rate` limits the submissions per minute and address; 0 does not."""
    metrics = Metrics()

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        collector: Collector = app.state.collector
        collector.writer.start()
        yield
        collector.writer.stop()

    app = FastAPI(
        title="Tacit collector",
        version=tacit.__version__,
        summary="Counts randomized reports, and estimates totals from the counts.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=life,
        routes=[Route("/api/surveys/{survey}/reports", send_report, methods=["POST"]), *site.routes()],
    )
    app.state.collector = Collector(store, metrics.committed)
    app.state.limit, app.state.metrics = RateLimit(rate, clock), metrics
    answer_with_problems(app)
    for router in (_respondents, _administration, _results, _operation):
        app.include_router(router)
    app.add_middleware(Intake, administrator=Administrator(store), answered=metrics.answered)
    return app


async def _collector(request: Request) -> Collector:
    return request.app.state.collector  # type: ignore[no-any-return]


async def _administrator(request: Request) -> None:
    if not request.scope["tacit.administrator"]:
        raise Refusal(401, "This needs the administrator's token.", {"WWW-Authenticate": "Bearer"})


async def _within_rate(request: Request) -> None:
    wait = request.app.state.limit.wait(request.client.host if request.client else "")
    if wait:
        raise Refusal(429, "Too many submissions from this address. Try later.", {"Retry-After": str(wait)})


Service = Annotated[Collector, Depends(_collector)]
_respondents = APIRouter(prefix="/api/surveys", tags=["respondents"], responses=_COMMON)
_administration = APIRouter(
    prefix="/api/surveys",
    tags=["administration"],
    responses=_COMMON | _ADMIN,
    dependencies=[_BEARER, Depends(_administrator)],
)
_results = APIRouter(prefix="/api/surveys", tags=["results"], responses=_COMMON | _ADMIN, dependencies=[_BEARER])
_operation = APIRouter(tags=["operation"])


# -- respondents ----------------------------------------------------------------------------------------------------


@_respondents.get("/{survey}")
async def show_survey(survey: m.SurveyId, service: Service) -> m.SurveyFacts:
    """What everybody may know about a survey."""
    return m.SurveyFacts(**_facts(await service.survey(survey), await service.ready(survey), service.store.today()))


@_respondents.get("/{survey}/plan", response_class=JSONResponse)
async def show_plan(survey: m.SurveyId, service: Service, request: Request) -> Response:
    """The plan, for clients to check and to randomize with."""
    return (await service.ready(survey)).plan_page.respond(request)


_TOLD = {outcome: JSONResponse({"status": outcome}) for outcome in ("counted", "already counted")}


@_respondents.post(
    "/{survey}/reports",
    responses=_CLOSED | _STRANGERS,
    response_model=m.Counted,
    openapi_extra={
        "parameters": [{"name": "survey", "in": "path", "required": True, "schema": m.SURVEY_ID}],
        "requestBody": {"required": True, "content": {"application/json": {"schema": m.Report.model_json_schema()}}},
    },
)
async def send_report(request: Request) -> Response:
    """Count one report. The answer comes when it is on disk; the same key again counts nothing.

    Most requests are this one, so it is also routed and read without FastAPI, which would take longer than all else.
    """
    await _within_rate(request)
    message = m.Report.read(await request.body())
    outcome = await request.app.state.collector.report(request.path_params["survey"], message)
    if outcome == "counted":
        request.app.state.metrics.counted(1)
    return _TOLD[outcome]


@_respondents.post("/{survey}/credentials", responses=_CLOSED | _STRANGERS, dependencies=[Depends(_within_rate)])
async def exchange_invitation(survey: m.SurveyId, exchange: m.Exchange, service: Service) -> m.Exchanged:
    """Exchange an invitation for a blind signature of a key."""
    signed = await service.exchange(survey, exchange.invitation, exchange.blinded)
    return m.Exchanged(blind_signature=signed)


# -- administration -------------------------------------------------------------------------------------------------


@_administration.get("")
async def list_surveys(service: Service) -> list[m.ListedSurvey]:
    """All surveys."""
    return [
        m.ListedSurvey(**_facts(survey, await service.ready(survey.id), service.store.today()), n_reports=n)
        for survey, n in await service.surveys()
    ]


@_administration.post(
    "", status_code=201, responses={200: {"model": m.SurveyFacts, "description": "It exists already"}}
)
async def create_survey(wanted: m.NewSurvey, service: Service, response: Response) -> m.SurveyFacts:
    """Open a survey for a plan. A plan has one survey: the same plan again changes nothing."""
    name, new = await service.create(wanted)
    response.status_code = 201 if new else 200
    return await show_survey(name, service)


@_administration.patch("/{survey}")
async def change_survey(survey: m.SurveyId, change: m.Change, service: Service) -> m.SurveyFacts:
    """Close a survey, which is final, or change who sees its results."""
    await service.survey(survey)
    close = change.open is False
    await service.writer.run(lambda: service.store.change(survey, public_results=change.public_results, close=close))
    return await show_survey(survey, service)


@_administration.post("/{survey}/invitations", responses=_CLOSED)
async def make_invitations(survey: m.SurveyId, order: m.InvitationOrder, service: Service) -> m.Invitations:
    """Make invitations. They are not kept, and cannot be listed later."""
    made = await service.invite(survey, order.count)
    return m.Invitations(invitations=made, links=[f"/s/{survey}#invitation={each}" for each in made])


@_administration.post(
    "/{survey}/batches",
    responses=_CLOSED | {415: _PROBLEM | {"description": f"Neither {NDJSON} nor {ARROW}"}},
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in (NDJSON, ARROW)},
        }
    },
)
async def send_batch(
    survey: m.SurveyId,
    service: Service,
    request: Request,
    idempotency_key: Annotated[str, Header(pattern="^[0-9a-f]{32}$", description="16 random bytes.")],
) -> m.BatchCounted:
    """Count many reports, with the columns `report` and, if the plan has groups, `group`: all of them or none."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    outcome, counted, refused = await service.batch(survey, idempotency_key, await request.body(), kind)
    request.app.state.metrics.counted(counted)
    return m.BatchCounted(status=outcome, counted=counted, refused=refused)  # type: ignore[arg-type]


@_administration.get("/{survey}/tally")
async def export_tally(
    survey: m.SurveyId,
    service: Service,
    since: Annotated[m.Day | None, Query(description="First day.")] = None,
    until: Annotated[m.Day | None, Query(description="Last day.")] = None,
) -> dict[str, Any]:
    """The tally of some days, or of all, as `tacit estimate` and `tacit merge` read it."""
    return await service.tally(survey, since, until)


# -- results --------------------------------------------------------------------------------------------------------

_ESTIMATOR = "mmse trusts the prior; unbiased (the default where possible) and mle do not use it."
Estimated = Annotated[Estimator | None, Query(description=_ESTIMATOR)]


@_results.get("/{survey}/results", responses=_CLOSED)
async def show_results(
    survey: m.SurveyId,
    service: Service,
    request: Request,
    estimator: Estimated = None,
    limit: Annotated[int, Query(ge=1, le=100_000, description="At most so many rows, the largest.")] = 50,
) -> m.ResultFacts:
    """Estimates with intervals, their history, the prior check and the promises."""
    await _may_read(survey, service, request)
    return m.ResultFacts(**await service.results(survey, estimator, limit))


@_results.get(
    "/{survey}/results.csv", responses=_CLOSED | {200: {"content": {"text/csv": _TEXT}}}, response_class=Response
)
async def download_results(
    survey: m.SurveyId, service: Service, request: Request, estimator: Estimated = None
) -> Response:
    """All rows as CSV."""
    await _may_read(survey, service, request)
    found = (await service.results(survey, estimator, None))["rows"]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(
        text, ["name", "estimate", "standard_error", "margin", "low", "high", "prior", "prior_share"]
    )
    writer.writeheader()
    writer.writerows(found)
    disposition = {"Content-Disposition": f'attachment; filename="{survey}.csv"'}
    return Response(text.getvalue(), media_type="text/csv; charset=utf-8", headers=disposition)


async def _may_read(survey: str, service: Collector, request: Request) -> None:
    if not request.scope["tacit.administrator"] and not (await service.survey(survey)).public_results:
        await _administrator(request)


# -- operation ------------------------------------------------------------------------------------------------------


@_operation.get("/healthz", responses={503: _COMMON[503]})
def health(service: Service) -> m.Health:
    """Whether the service and its database answer."""
    service.store.check()
    return m.Health(status="ok")


@_operation.get("/metrics", responses={200: {"content": {"text/plain": _TEXT}}}, response_class=Response)
def show_metrics(request: Request) -> Response:
    """Numbers for Prometheus."""
    metrics: Metrics = request.app.state.metrics
    return Response(metrics.text(), media_type=metrics.content_type)


def _facts(survey: Survey, ready: ReadySurvey, today: date) -> dict[str, Any]:
    return {
        "id": survey.id,
        "plan": ready.plan.hash,
        "question": ready.plan.question,
        "group_question": survey.group_question,
        "open": survey.is_open(today),
        "public_results": survey.public_results,
        "invited": survey.invited,
        "opened": survey.opened,
        "closed": survey.closed,
        "credential_key": None if ready.credentials is None else ready.credentials.public,
    }
