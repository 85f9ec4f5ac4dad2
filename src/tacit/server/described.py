"""What routes have in common in the description of the service (OpenAPI)."""

from __future__ import annotations

from typing import Any

from fastapi import Depends
from fastapi.security import HTTPBearer

from tacit.server.problems import MEDIA_TYPE, Problem

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
BEARER = Depends(HTTPBearer(auto_error=False, description="A token: the one that `tacit serve` printed, or another."))
