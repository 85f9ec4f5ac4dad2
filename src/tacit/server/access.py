"""Who may ask for what: the dependencies of routes."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from tacit.server.collector import Collector
from tacit.server.messages import SurveyId
from tacit.server.problems import Refusal
from tacit.server.tokens import Grant


async def collector(request: Request) -> Collector:
    """What stands behind the routes."""
    return request.app.state.collector  # type: ignore[no-any-return]


Service = Annotated[Collector, Depends(collector)]


def grant_of(request: Request) -> Grant | None:
    """What the request's token allows; None without one."""
    return request.scope["tacit.grant"]  # type: ignore[no-any-return]


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


async def may_read(survey: str, service: Collector, request: Request) -> bool:
    """Let those pass who may see results; whether they may see them as they are now, and not only as published."""
    grant = grant_of(request)
    live = grant is not None and grant.reads(survey)
    if not live and not (await service.survey(survey)).public_results:
        _demand(False, grant)
    return live


async def within_rate(request: Request) -> None:
    """Let those pass who did not send too much."""
    wait = request.app.state.limit.wait(request.client.host if request.client else "")
    if wait:
        raise Refusal(429, "Too many submissions from this address. Try later.", {"Retry-After": str(wait)})


def _demand(allowed: bool, grant: Grant | None) -> None:
    if not allowed:
        if grant is None:
            raise Refusal(401, "This needs the administrator's token.", {"WWW-Authenticate": "Bearer"})
        raise Refusal(403, "This token does not allow that.")
