"""The app and its first routes: HTTP in, the collector's answer out. What each one keeps is in docs/service-data.md."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, disable_created_metrics, exposition
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

import tacit
from tacit.estimates import Estimator
from tacit.server.collector import Collector
from tacit.server.http import messages as m
from tacit.server.http.intake import Intake, Proxies, RateLimit
from tacit.server.http.management import access, administration, management, survey_facts
from tacit.server.http.routes import (
    ADMIN,
    BEARER,
    CLOSED,
    COMMON,
    CSV,
    TEXT,
    Service,
    grant_of,
    published_to,
    reads_live,
)
from tacit.server.problems import Refusal, answer_with_problems
from tacit.server.results import breakdown
from tacit.server.results.results import NUMBERS
from tacit.server.site import published as site
from tacit.server.site import texts
from tacit.server.storage import tokens
from tacit.server.storage.store import Store
from tacit.show.spreadsheet import csv_text

#: Seconds between two looks for surveys whose last day is over, and for which a finding about the database's health
#: stands.
_ROUND, _HEALTHY = 60.0, 1.0


def make_app(
    store: Store,
    *,
    rate: int = 300,
    guesses: int = 10,
    proxies: Sequence[str] = (),
    public_url: str = "",
    origins: Sequence[str] = (),
    clock: Callable[[], float] = time.monotonic,
    stopping: Callable[[], object] = lambda: None,
) -> FastAPI:
    """The whole service. `rate` limits submissions per minute and address, `guesses` wrong tokens; 0 limits neither.

    `proxies` are addresses whose word about senders is taken; `public_url` is where people find the service, if a proxy
    is in front, whose path may be left on requests or taken off; pages of `origins` may ask for surveys and send
    reports; `stopping` is called when the service begins to stop.
    """
    metrics = Metrics()

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        collector: Collector = app.state.collector
        collector.writer.start()
        rounds = asyncio.create_task(_rounds(collector))
        yield
        stopping()
        rounds.cancel()
        collector.writer.stop()

    app = FastAPI(
        title="Tacit collector",
        version=tacit.__version__,
        summary="Counts randomized reports, and estimates totals from the counts.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=life,
        # OpenTelemetry would write down requests, with times and addresses.
        telemetry={"tracing": False, "metrics": False, "logs": False},
        routes=[
            Route("/api/surveys/{survey}/reports", Direct(send_report), methods=["POST"]),
            Route("/api/surveys/{survey}/credentials", Direct(exchange_invitation), methods=["POST"]),
            *site.routes(),
        ],
    )
    collector = app.state.collector = Collector(store, metrics.committed)
    app.state.limit, app.state.metrics = RateLimit(rate, clock), metrics
    app.state.health, app.state.draining = Health(collector, clock), False
    metrics.watch(collector)
    app.state.public_url = public_url.rstrip("/")
    app.root_path = urlsplit(public_url).path.rstrip("/")
    answer_with_problems(app, site.missing)
    # Each is whole as it stands; `include_router` would make all of them anew for every app, at its first request.
    for router in (
        _respondents, administration, management, access, texts.reading, texts.writing, _results, breakdown.router,
        _operation,
    ):  # fmt: skip
        app.router.routes.extend(router.routes)
    app.add_middleware(
        Intake,
        grant_of=partial(collector.ask, tokens.grant_of, store),
        answered=metrics.answered,
        proxies=Proxies(proxies),
        guesses=RateLimit(guesses, clock),
        host=urlsplit(public_url).netloc.rpartition("@")[2].lower(),
        origins=origins,
    )
    return app


async def _rounds(collector: Collector) -> None:
    while True:
        # A database that does not answer is reported to the next request.
        with suppress(Exception):
            await collector.make_rounds()
        await asyncio.sleep(_ROUND)


_respondents = APIRouter(prefix="/api/surveys", tags=["respondents"], responses=COMMON)
_results = APIRouter(prefix="/api/surveys", tags=["results"], responses=COMMON | ADMIN, dependencies=[BEARER])
_operation = APIRouter(tags=["operation"])


# -- respondents ----------------------------------------------------------------------------------------------------


@_respondents.get("/{survey}")
async def show_survey(survey: m.SurveyId, service: Service) -> m.SurveyFacts:
    """The public facts about a survey."""
    return await survey_facts(survey, service)


@_respondents.get("/{survey}/plan", response_class=JSONResponse)
async def show_plan(survey: m.SurveyId, service: Service, request: Request) -> Response:
    """The plan, for clients to check and to randomize with."""
    return (await service.ready(survey)).plan_page.respond(request)


class Direct:
    """A busy route, without layers of its own: the app answers what it raises, and `Intake` has read the body."""

    def __init__(self, respond: Callable[[Request], Awaitable[Response]]) -> None:
        self._respond = respond

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._respond(Request(scope, receive))
        await response(scope, receive, send)


def within_rate(request: Request) -> None:
    """Let those pass who did not send too much."""
    wait = request.app.state.limit.wait((request.scope["client"] or ("",))[0])
    if wait:
        raise Refusal(429, "Too many submissions from this address. Try later.", {"Retry-After": str(wait)})


_TOLD = {outcome: JSONResponse({"status": outcome}) for outcome in ("counted", "already counted")}


def _described(body: type[m.Report | m.Exchange]) -> dict[str, Any]:
    """OpenAPI's description of a route that reads its request itself.

    Most requests come to these, so they are also routed and read without FastAPI, which would take longer than all
    else.
    """
    return {
        "parameters": [{"name": "survey", "in": "path", "required": True, "schema": m.SURVEY_ID}],
        "requestBody": {"required": True, "content": {"application/json": {"schema": body.model_json_schema()}}},
    }


@_respondents.post("/{survey}/reports", responses=CLOSED, response_model=m.Counted, openapi_extra=_described(m.Report))
async def send_report(request: Request) -> Response:
    """Count one report. The answer comes when it is on disk; the same key again counts nothing."""
    within_rate(request)
    message = m.Report.read(request.scope["tacit.body"])
    outcome = await request.app.state.collector.report(request.path_params["survey"], message)
    if outcome == "counted":
        request.app.state.metrics.counted(1)
    return _TOLD[outcome]


@_respondents.post(
    "/{survey}/credentials", responses=CLOSED, response_model=m.Exchanged, openapi_extra=_described(m.Exchange)
)
async def exchange_invitation(request: Request) -> Response:
    """Exchange an invitation for a blind signature of a key."""
    within_rate(request)
    wanted = m.Exchange.read(request.scope["tacit.body"])
    service: Collector = request.app.state.collector
    signed = await service.exchange(request.path_params["survey"], wanted.invitation, wanted.blinded)
    return JSONResponse({"blind_signature": signed})


# -- results --------------------------------------------------------------------------------------------------------

_ESTIMATOR = "mmse trusts the prior; unbiased (the default where possible) and mle do not use it."
Estimated = Annotated[Estimator | None, Query(description=_ESTIMATOR)]


@_results.get("/{survey}/results", responses=CLOSED | {200: {"model": m.ResultFacts}}, response_class=JSONResponse)
async def show_results(
    survey: m.SurveyId,
    service: Service,
    request: Request,
    estimator: Estimated = None,
    limit: Annotated[int, Query(ge=1, le=100_000, description="The number of rows, the largest first.")] = 50,
) -> Response:
    """Estimates with intervals, their history, the prior check and the promises: as they are now with a
    token, else as they were last published.
    """
    if reads_live(survey, request):
        return _results_page(await service.results(survey, estimator, limit, True)).respond(request)
    return published_to(request, await service.public_page(survey, estimator, limit, _results_page))


def _results_page(facts: dict[str, Any]) -> site.Page:
    return site.Page(m.ResultFacts(**facts).model_dump_json().encode(), "application/json")


def _results_table(facts: dict[str, Any]) -> site.Page:
    several = [
        {"question": each["name"], "n_reports": each["n_reports"]} | row
        for each in facts["questions"]
        for row in each["rows"]
    ]
    columns = ("question", "n_reports", "name", *NUMBERS) if several else ("name", *NUMBERS)
    return site.Page(csv_text(columns, several or facts["rows"]).encode(), "text/csv; charset=utf-8")


@_results.get("/{survey}/results.csv", responses=CLOSED | CSV, response_class=Response)
async def download_results(
    survey: m.SurveyId, service: Service, request: Request, estimator: Estimated = None
) -> Response:
    """All rows as CSV; of several questions each row names its question, and the reports that it rests on."""
    if reads_live(survey, request):
        response = _results_table(await service.results(survey, estimator, None, True)).respond(request)
    else:
        response = published_to(request, await service.public_page(survey, estimator, None, _results_table))
    response.headers["Content-Disposition"] = f'attachment; filename="{survey}.csv"'
    return response


# -- operation ------------------------------------------------------------------------------------------------------


class Health:
    """Whether the database can be written, found out at most once a second however many ask."""

    def __init__(self, collector: Collector, clock: Callable[[], float]) -> None:
        self._collector, self._clock = collector, clock
        self._lock, self._until = asyncio.Lock(), -1.0

    async def check(self) -> None:
        """Raise unless it can."""
        async with self._lock:
            if self._clock() >= self._until:
                await self._collector.writer.run(self._collector.store.check)
                self._until = self._clock() + _HEALTHY


@_operation.get("/livez")
async def alive() -> m.Health:
    """Whether the service answers; nothing is asked of its database."""
    return m.Health(status="ok")


@_operation.get("/healthz", responses={503: COMMON[503]})
async def health(request: Request) -> m.Health:
    """Whether the service answers and its database and vault can be written."""
    await request.app.state.health.check()
    return m.Health(status="ok")


@_operation.get("/readyz", responses={503: COMMON[503]})
async def ready(request: Request) -> m.Health:
    """The same, and whether the service is not about to stop: whether a balancer shall send requests here."""
    if request.app.state.draining:
        raise Refusal(503, "This service is about to stop.")
    return await health(request)


@_operation.get(
    "/metrics",
    responses={200: {"content": {"text/plain": TEXT}}, 401: ADMIN[401], 503: COMMON[503]},
    response_class=Response,
    dependencies=[BEARER],
)
async def show_metrics(request: Request) -> Response:
    """Numbers for Prometheus, with a token of any role: they show how many reports come."""
    if grant_of(request) is None:
        raise Refusal(401, "This needs a token.", {"WWW-Authenticate": "Bearer"})
    metrics: Metrics = request.app.state.metrics
    return Response(metrics.text(), media_type=metrics.content_type)


#: Steps of the histograms.
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096)
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
# No times: each number would also say since when it is counted.
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """Numbers for Prometheus: about the service, never about a survey or a sender. One set per service."""

    content_type = exposition.CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self._responses = Counter("tacit_http_responses", "Responses by status class", ["status"], registry=registry)
        self._reports = Counter("tacit_reports", "Reports counted", registry=registry)
        of_commits, took = "Submissions per commit", "Seconds that a commit took"
        self._commits = Histogram("tacit_commit_submissions", of_commits, buckets=_SIZES, registry=registry)
        self._seconds = Histogram("tacit_commit_seconds", took, buckets=_SECONDS, registry=registry)
        waited = "Seconds from the head of a request to that of its response"
        self._latency = Histogram("tacit_http_seconds", waited, buckets=_SECONDS, registry=registry)
        failed = "Requests refused because the database failed"
        self._unavailable = Counter("tacit_unavailable", failed, registry=registry)
        self._version = Info("tacit_build", "The version that runs", registry=registry)
        self._version.info({"version": tacit.__version__})
        self._by_class = [self._responses.labels(f"{digit}xx") for digit in range(1, 6)]

    def watch(self, collector: Collector) -> None:
        """Tell how many wait for the writer."""
        waiting = Gauge("tacit_queue", "Submissions and changes that wait to be written", registry=self._registry)
        waiting.set_function(lambda: collector.writer.waiting)

    def answered(self, status: int, seconds: float) -> None:
        """A response was sent, so long after its request began."""
        self._by_class[status // 100 - 1].inc()
        self._latency.observe(seconds)
        if status == 503:
            self._unavailable.inc()

    def counted(self, reports: int) -> None:
        """Reports were counted."""
        self._reports.inc(reports)

    def committed(self, submissions: int, seconds: float) -> None:
        """A group was committed."""
        self._commits.observe(submissions)
        self._seconds.observe(seconds)

    def text(self) -> bytes:
        """All of it, in Prometheus' format."""
        return exposition.generate_latest(self._registry)
