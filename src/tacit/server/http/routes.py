"""What routes have in common: who may ask, how they are described (OpenAPI), and tables as CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.security import HTTPBearer
from starlette.responses import Response

from tacit.server.collector import Collector
from tacit.server.http.messages import SurveyId
from tacit.server.problems import MEDIA_TYPE, Problem, Refusal
from tacit.server.site.published import Page
from tacit.server.storage.tokens import Grant
from tacit.show.spreadsheet import csv_text


async def collector(request: Request) -> Collector:
    """What stands behind the routes."""
    return request.app.state.collector


Service = Annotated[Collector, Depends(collector)]


def grant_of(request: Request) -> Grant | None:
    """What the request's token allows; None without one."""
    return request.scope["tacit.grant"]


async def everything(request: Request) -> None:
    """Let those pass who may do everything."""
    grant = grant_of(request)
    _demand(grant is not None and grant.everything, grant)


async def managing(request: Request, survey: SurveyId) -> None:
    """Let those pass who may manage the survey."""
    grant = grant_of(request)
    _demand(grant is not None and grant.manages(survey), grant)


async def reading_live(request: Request, survey: SurveyId) -> None:
    """Let those pass who may see a survey's results as they are now, published or not."""
    grant = grant_of(request)
    _demand(grant is not None and grant.reads(survey), grant)


def reads_live(survey: str, request: Request) -> bool:
    """Whether the sender may see results as they are now, and not only as published."""
    grant = grant_of(request)
    return grant is not None and grant.reads(survey)


def published_to(request: Request, page: Page | None) -> Response:
    """What is public, unless the sender has it; refused if there is none."""
    if page is None:
        raise _refusal(grant_of(request))
    response = page.respond(request)
    response.headers["Cache-Control"] = "no-cache"
    return response


def _demand(allowed: bool, grant: Grant | None) -> None:
    if not allowed:
        raise _refusal(grant)


def _refusal(grant: Grant | None) -> Refusal:
    if grant is None:
        return Refusal(401, "This needs the administrator's token.", {"WWW-Authenticate": "Bearer"})
    return Refusal(403, "This token does not allow that.")


# -- description ------------------------------------------------------------------------------------------------------

Responses = dict[int | str, dict[str, Any]]
PROBLEM: dict[str, Any] = {"content": {MEDIA_TYPE: {"schema": Problem.model_json_schema()}}}


def _problems(texts: dict[int, str]) -> Responses:
    return {code: PROBLEM | {"description": text} for code, text in texts.items()}


COMMON = _problems(
    {
        400: "Not readable",
        403: "Not invited, not allowed, or sent by a page of another site",
        404: "No such survey",
        408: "Too slow",
        413: "Too large",
        415: "Not JSON",
        422: "Not the expected form",
        429: "Too many from this address",
        503: "The database does not answer",
    }
)
ADMIN = _problems({401: "Needs a token"})
CLOSED = _problems({409: "Closed, spent, or not of this kind"})
TEXT = {"schema": {"type": "string"}}
CSV: Responses = {200: {"content": {"text/csv": TEXT}}}
BEARER = Depends(HTTPBearer(auto_error=False, description="A token: the one that `tacit serve` printed, or another."))


def guarded(tag: str, needed: Callable[..., Any], path: str = "surveys", *, closed: bool = False) -> APIRouter:
    """Routes for those whom `needed` lets pass."""
    responses, guards = COMMON | ADMIN | (CLOSED if closed else {}), [BEARER, Depends(needed)]
    return APIRouter(prefix=f"/api/{path}", tags=[tag], responses=responses, dependencies=guards)


# -- tables -----------------------------------------------------------------------------------------------------------


def csv_response(columns: Sequence[str], rows: Iterable[Mapping[str, Any]], file: str) -> Response:
    """Rows as a file to download."""
    headers = {"Content-Disposition": f'attachment; filename="{file}"'}
    return Response(csv_text(columns, rows), media_type="text/csv; charset=utf-8", headers=headers)
