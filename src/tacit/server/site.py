"""The pages and the browser client, as files: read once, served from memory, with nothing from anywhere else."""

from __future__ import annotations

import gzip
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

import tacit
from tacit.server.integrity import digest, edition, with_integrity
from tacit.server.problems import UNAVAILABLE, Refusal

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
#: The pages, by the addresses they are shown at. `SURVEY` stands for any survey.
PAGES = {"": "home.html", "s/SURVEY": "survey.html", "d/SURVEY": "dashboard.html"}
#: What they load: the pages' own files, and the browser client.
_FOLDERS = ("static", "client")
#: Pages are at most so deep; a mistyped address may be a little deeper.
_DEEPEST = 3
_PAGES = Path(__file__).parent / "pages"


@dataclass(frozen=True)
class Page:
    """Something that never changes while the service runs, plain and compressed."""

    content: bytes
    media_type: str

    @cached_property
    def _compressed(self) -> bytes:
        return gzip.compress(self.content, mtime=0)

    @cached_property
    def digest(self) -> str:
        """Its hash, as browsers check it."""
        return digest(self.content)

    def respond(self, request: Request, *, forever: bool = False) -> Response:
        """The form that the browser takes; nothing, if it has it already. It may keep what stays so `forever`."""
        # Weak, because a proxy may compress in its own way.
        tag = f'W/"{self.digest}"'
        headers = {"Vary": "Accept-Encoding", "ETag": tag}
        if forever:
            headers["Cache-Control"] = "public, max-age=31536000, immutable"
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if "gzip" not in request.headers.get("accept-encoding", "") or len(self.content) < 1000:
            return Response(self.content, media_type=self.media_type, headers=headers)
        return Response(self._compressed, media_type=self.media_type, headers=headers | {"Content-Encoding": "gzip"})


def client() -> Path:
    """The folder of the browser client: inside an installed package, else `browser` at the top of a checkout."""
    package = Path(tacit.__file__).parent
    installed = package / "browser"
    return installed if installed.is_dir() else package.parents[1] / "browser"


@cache
def current_edition() -> str:
    """The path below which the pages load their files."""
    return edition({path: page.content for path, page in published().items() if path not in PAGES})


@cache
def published() -> dict[str, Page]:
    """Everything that browsers may load from here, by its path below the service's address."""
    found: dict[str, Page] = {}
    loaded_from = {"static": (_PAGES, ("*", "vendor/*", "languages/*")), "client": (client(), ("*", "mechanism/**/*"))}
    for name, (root, patterns) in loaded_from.items():
        for file in sorted(path for pattern in patterns for path in root.glob(pattern)):
            if file.suffix in _TYPES and file.suffix != ".html":
                where = f"{name}/{file.relative_to(root).as_posix()}"
                found[where] = Page(file.read_bytes(), _TYPES[file.suffix])
    loaded = {path: page.content for path, page in found.items()}
    for path, name in PAGES.items():
        text = (_PAGES / name).read_text(encoding="utf-8")
        found[path] = Page(with_integrity(text, path, loaded).encode(), _TYPES[".html"])
    return found


@cache
def _missing(depth: int) -> str:
    """The page for an address with so many slashes before its last part."""
    text = (_PAGES / "missing.html").read_text(encoding="utf-8")
    loaded = {path: page.content for path, page in published().items() if path not in PAGES}
    return with_integrity(text.replace('"static/', f'"{"../" * depth}static/'), "-/" * depth, loaded)


def missing(request: Request) -> Response | None:
    """What a browser shows where nothing is; None for programs, which ask for the API or do not ask for HTML."""
    path = request.scope["path"].removeprefix(request.scope.get("root_path", "")).lstrip("/")
    if path.startswith("api/") or "text/html" not in request.headers.get("accept", ""):
        return None
    depth = path.count("/")
    return HTMLResponse(_missing(depth), 404) if depth <= _DEEPEST else None


def routes() -> list[Route]:
    """Home, the survey page, the dashboard, what they load, and the hashes of all that."""

    def page(path: str) -> Callable[[Request], Awaitable[Response]]:
        async def show(request: Request) -> Response:
            # A database that does not answer says so to the page's own requests.
            with suppress(*UNAVAILABLE):
                if "survey" in request.path_params:
                    await request.app.state.collector.survey(request.path_params["survey"])
            return published()[path].respond(request)

        return show

    def folder(name: str) -> Callable[[Request], Awaitable[Response]]:
        async def load(request: Request) -> Response:
            found = published().get(f"{name}/{request.path_params['name']}")
            if found is None:
                raise Refusal(404, "There is no such page.")
            return found.respond(request)

        return load

    async def keep(request: Request) -> Response:
        path = f"{request.path_params['folder']}/{request.path_params['name']}"
        current = current_edition() == f"v/{request.path_params['edition']}/"
        found = published().get(path) if current else None
        if found is None:
            raise Refusal(404, "There is no such page.")
        return found.respond(request, forever=True)

    async def integrity(_: Request) -> Response:
        return JSONResponse({"tacit": tacit.__version__, "files": {p: page.digest for p, page in published().items()}})

    return [
        *(Route("/" + path.replace("SURVEY", "{survey}"), page(path)) for path in PAGES),
        *(Route(f"/{name}/{{name:path}}", folder(name)) for name in _FOLDERS),
        Route("/v/{edition}/{folder}/{name:path}", keep),
        Route("/integrity", integrity),
    ]
