"""One shape for every error: RFC 9457 problem details, which never repeat what the sender sent."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

from tacit.server.http.messages import HASH, KEY
from tacit.server.storage.database import GoneError
from tacit.server.storage.vault import VaultError

_log = logging.getLogger("tacit.server")
MEDIA_TYPE = "application/problem+json"
#: As RFC 9110 says them; older Pythons say them otherwise.
_TITLES = {413: "Content Too Large", 422: "Unprocessable Content"}


class Problem(BaseModel):
    """What went wrong (RFC 9457)."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str | None = None
    errors: list[dict[str, str]] | None = None


class Refusal(HTTPException):
    """A request that is refused, with a sentence that says why and what would do."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, detail, headers)


def problem(
    status: int,
    detail: str | None = None,
    headers: Mapping[str, str] | None = None,
    errors: list[dict[str, str]] | None = None,
) -> JSONResponse:
    """The response for a problem."""
    title = _TITLES.get(status, HTTPStatus(status).phrase)
    body = Problem(title=title, status=status, detail=detail, errors=errors)
    return JSONResponse(body.model_dump(exclude_none=True), status, headers, MEDIA_TYPE)


def answer_with_problems(app: FastAPI, missing: Callable[[Request], Response | None]) -> None:
    """Give every error of the app that shape, but for what is `missing` where a person looks for it."""

    @app.exception_handler(HTTPException)
    async def _refused(request: Request, error: HTTPException) -> Response:
        page = missing(request) if error.status_code == 404 else None
        if page is not None:
            return page
        detail = None if error.detail == HTTPStatus(error.status_code).phrase else str(error.detail)
        return problem(error.status_code, detail, error.headers)

    @app.exception_handler(RequestValidationError)
    async def _invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        return problem(422, "The request does not have the expected form.", errors=[_where(e) for e in error.errors()])

    async def _no_database(_: Request, error: Exception) -> JSONResponse:
        return unavailable(error)

    for kind in UNAVAILABLE:
        app.exception_handler(kind)(_no_database)


class BusyError(Exception):
    """The database did not answer in time."""


#: What means that the same request may succeed later.
UNAVAILABLE = (SQLAlchemyError, VaultError, GoneError, BusyError)


def unavailable(error: Exception) -> JSONResponse:
    """Say so, here and in the log."""
    # A statement's parameters hold tags: only the database's own words are written down, or the kind of the failure.
    cause = getattr(error, "orig", None) or (type(error).__name__ if isinstance(error, SQLAlchemyError) else error)
    _log.error("The database failed.", extra={"cause": " ".join(str(cause).split())[:300] or type(error).__name__})
    return problem(503, "The database does not answer. Send the same again later.", {"Retry-After": "5"})


#: What a text must look like, in words; and what is said of a key that is missing, whose form the error does not name.
_WORDS = {
    KEY: "Should be 32 hexadecimal digits in lower case: 16 random bytes, as 'openssl rand -hex 16' writes them",
    HASH: "Should be 64 hexadecimal digits in lower case: the hash of a plan, as 'tacit plan' and the plan say it",
}
_MISSING = {("header", "idempotency-key"): f"Field required. {_WORDS[KEY]}"}


def _complaint(error: Mapping[str, Any]) -> str:
    """What is wrong with a field, from pydantic's error; never the text that was sent."""
    if error["type"] == "missing":
        return _MISSING.get(tuple(error["loc"]), str(error["msg"]))
    return _WORDS.get(error.get("ctx", {}).get("pattern", ""), str(error["msg"]))


def _where(error: Mapping[str, Any]) -> dict[str, str]:
    """Where and what, without the offending input; an unknown field's name may be any text, so it is made harmless."""
    where = ".".join(map(str, error["loc"])).encode("unicode_escape").decode()
    return {"where": where[:100], "message": _complaint(error)[:300]}
