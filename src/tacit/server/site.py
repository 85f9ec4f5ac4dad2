"""The pages and the browser client, as files: read once, served from memory, with nothing from anywhere else."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tacit.server.problems import Refusal

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


@cache
def _file(folder: str, name: str) -> tuple[bytes, str] | None:
    """A file of the package's own folders, by a plain relative name."""
    path = PurePosixPath(name)
    kind = _TYPES.get(path.suffix)
    if kind is None or path.is_absolute() or any(part.startswith(".") for part in path.parts):
        return None
    found: Any = files("tacit.server").joinpath(folder, *path.parts)
    return (found.read_bytes(), kind) if found.is_file() else None


def _respond(folder: str, name: str) -> Response:
    found = _file(folder, name)
    if found is None:
        raise Refusal(404, "There is no such page.")
    content, kind = found
    return Response(content, media_type=kind)


def routes() -> list[Route]:
    """Home, the survey page, the dashboard, and what they load."""

    def page(name: str) -> Any:
        async def show(_: Request) -> Response:
            return _respond("pages", name)

        return show

    def folder(name: str) -> Any:
        async def show(request: Request) -> Response:
            return _respond(name, request.path_params["name"])

        return show

    return [
        Route("/", page("home.html")),
        Route("/s/{survey}", page("survey.html")),
        Route("/d/{survey}", page("dashboard.html")),
        Route("/static/{name:path}", folder("pages")),
        Route("/client/{name}", folder("client")),
    ]
