"""The pages and the browser client, as files: read once, served from memory, with nothing from anywhere else."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
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


@dataclass(frozen=True)
class Page:
    """Something that never changes while the service runs, plain and compressed."""

    content: bytes
    media_type: str

    @cached_property
    def _compressed(self) -> bytes:
        return gzip.compress(self.content, mtime=0)

    def respond(self, request: Request) -> Response:
        """The form that the browser takes."""
        headers = {"Vary": "Accept-Encoding"}
        if "gzip" not in request.headers.get("accept-encoding", "") or len(self.content) < 1000:
            return Response(self.content, media_type=self.media_type, headers=headers)
        return Response(self._compressed, media_type=self.media_type, headers=headers | {"Content-Encoding": "gzip"})


@cache
def _folder(name: str) -> dict[str, Page]:
    """The files of one of the package's folders that browsers may ask for."""
    folder = Path(str(files("tacit.server").joinpath(name)))
    return {
        path.relative_to(folder).as_posix(): Page(path.read_bytes(), _TYPES[path.suffix])
        for path in (*folder.glob("*"), *folder.glob("vendor/*"))
        if path.suffix in _TYPES
    }


def _respond(request: Request, folder: str, name: str) -> Response:
    found = _folder(folder).get(name)
    if found is None:
        raise Refusal(404, "There is no such page.")
    return found.respond(request)


def routes() -> list[Route]:
    """Home, the survey page, the dashboard, and what they load."""

    def page(name: str) -> Any:
        async def show(request: Request) -> Response:
            return _respond(request, "pages", name)

        return show

    def folder(name: str) -> Any:
        async def show(request: Request) -> Response:
            return _respond(request, name, request.path_params["name"])

        return show

    return [
        Route("/", page("home.html")),
        Route("/s/{survey}", page("survey.html")),
        Route("/d/{survey}", page("dashboard.html")),
        Route("/static/{name:path}", folder("pages")),
        Route("/client/{name:path}", folder("client")),
    ]
