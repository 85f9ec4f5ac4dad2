"""The pages and the browser client, as files: read once, served from memory, with nothing from anywhere else."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import posixpath
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

import tacit
from tacit.plan import Plan
from tacit.server.problems import UNAVAILABLE, Refusal

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
#: The pages, by the addresses they are shown at. `SURVEY` stands for any survey.
PAGES = {"": "home.html", "told": "told.html", "s/SURVEY": "survey.html", "d/SURVEY": "dashboard.html"}
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
    """The page for an address with `depth` slashes before its last part."""
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


def _file(path: str) -> Page:
    """What is found at a path below the service's address."""
    found = published().get(path)
    if found is None:
        raise Refusal(404, "There is no such page.")
    return found


def routes() -> list[Route]:
    """Home, what a browser has told, the survey page, the dashboard, what they load, and the hashes of all that."""

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
            return _file(f"{name}/{request.path_params['name']}").respond(request)

        return load

    async def keep(request: Request) -> Response:
        current = current_edition() == f"v/{request.path_params['edition']}/"
        path = f"{request.path_params['folder']}/{request.path_params['name']}"
        return _file(path if current else "-").respond(request, forever=True)

    async def integrity(_: Request) -> Response:
        return JSONResponse({"tacit": tacit.__version__, "files": {p: page.digest for p, page in published().items()}})

    return [
        *(Route("/" + path.replace("SURVEY", "{survey}"), page(path)) for path in PAGES),
        *(Route(f"/{name}/{{name:path}}", folder(name)) for name in _FOLDERS),
        Route("/v/{edition}/{folder}/{name:path}", keep),
        Route("/integrity", integrity),
    ]


# -- integrity --------------------------------------------------------------------------------------------------------

_IMPORT = re.compile(r"""^\s*(?:import|export)\b[^"';]*?["'](\.[^"']+)["'];""", re.MULTILINE)
_LOADED = re.compile(r"""<(?:script|link rel="stylesheet")[^>]*?\s(?:src|href)="([^"]+)"[^>]*?>""")


def digest(content: bytes) -> str:
    """SHA-384 in the form of the `integrity` attribute.

    >>> digest(b"alert('Hello, world.');")
    'sha384-H8BRh8j48O9oYatfu5AZzq6A9RINhZO5H16dQZngK7T62em8MUt1FLm52t+eX6xO'
    """
    return "sha384-" + base64.b64encode(hashlib.sha384(content).digest()).decode()


def edition(files: Mapping[str, bytes]) -> str:
    """The path that these files are loaded from and that no others ever are, so that browsers may keep them."""
    hashes = "".join(f"{path} {digest(content)}\n" for path, content in sorted(files.items()))
    return f"v/{hashlib.sha256(hashes.encode()).hexdigest()[:16]}/"


def with_integrity(text: str, path: str, files: Mapping[str, bytes]) -> str:
    """A page that states the hashes of what it loads; `path` is its own, `files` are all there are, by path.

    Browsers check them (Subresource Integrity), so a cache or a proxy on the way that alters a file breaks the page
    instead of changing what it does. Files are loaded from the path of their edition. The modules that a script imports
    are named as well, which also lets the browser fetch them at once.
    """
    up = "../" * path.count("/") + edition(files)

    def stated(tag: re.Match[str]) -> str:
        loaded = _below(path, tag[1])
        content = files[loaded]
        said = tag[0].replace(f'"{tag[1]}"', f'"{up}{loaded}" integrity="{digest(content)}"')
        if 'type="module"' not in tag[0]:
            return said
        preloads = [
            f'<link rel="modulepreload" href="{up}{module}" integrity="{digest(files[module])}">'
            for module in sorted(_modules(loaded, files) - {loaded})
        ]
        return "\n  ".join([*preloads, said])

    return _LOADED.sub(stated, text)


def bundle(plan: Plan, survey: str, service: str) -> bytes:
    """The survey page as one file, with the plan and everything that it loads: the same bytes from the same version.

    It can be opened from a file or from any host, so that a respondent need not trust the service with the program. It
    asks the service for the survey's state and texts and sends the report there, and its policy allows nothing else.
    `survey` is the plan's survey at the address `service`. `parts_of` finds the three in such a page.
    """
    files = {path: page.content.decode() for path, page in published().items() if path not in PAGES}
    wanted = {"static/survey.js", *(path for path in files if path.startswith("static/languages/"))}
    loaded = set[str]().union(*(_modules(entry, {p: c.encode() for p, c in files.items()}) for entry in wanted))
    imports = {f"tacit/{path}": _data("text/javascript", _bare(path, files[path])) for path in sorted(loaded)}
    map_of_imports = json.dumps({"imports": imports})
    entry, style = 'import "tacit/static/survey.js";', files["static/style.css"]
    # "<" would end the script that holds it.
    stored = json.dumps(plan.to_dict(), ensure_ascii=False, sort_keys=True).replace("<", "\\u003c")
    sources = " ".join(f"'{_sha256(each)}'" for each in (map_of_imports, entry, stored))
    policy = (
        f"default-src 'none'; script-src data: {sources}; style-src '{_sha256(style)}'; img-src data:; "
        f"connect-src {service}; base-uri 'none'; form-action 'none'"
    )
    head = [
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">',
        '<meta name="referrer" content="no-referrer">',
        f'<meta name="tacit-service" content="{html.escape(service)}">',
        f'<meta name="tacit-survey" content="{html.escape(survey)}">',
        f"<style>{style}</style>",
        f'<script type="importmap">{map_of_imports}</script>',
        f'<script type="application/json" id="plan">{stored}</script>',
        f'<script type="module">{entry}</script>',
    ]
    icon = _data("image/svg+xml", files["static/icon.svg"])
    text = (_PAGES / "survey.html").read_text(encoding="utf-8").replace("../static/icon.svg", icon)
    text = re.sub(r'  <(?:link rel="stylesheet"|script type="module")[^>]*>(?:</script>)?\n', "", text)
    # First of all, so that the policy holds for everything.
    return text.replace('<meta charset="utf-8">', '<meta charset="utf-8">\n  ' + "\n  ".join(head), 1).encode()


_PARTS = (
    re.compile(r'<script type="application/json" id="plan">(.*?)</script>'),
    re.compile(r'<meta name="tacit-survey" content="(.*?)">'),
    re.compile(r'<meta name="tacit-service" content="(.*?)">'),
)


def parts_of(page: bytes) -> tuple[Plan, str, str]:
    """The plan, audited, the survey and the service of a page that `bundle` made; raises `ValueError` if it did not."""
    found = [part.search(page.decode("utf-8", "replace")) for part in _PARTS]
    if None in found:
        raise ValueError("This is no page that `tacit page` wrote: plan, survey or service is missing.")
    plan, survey, service = (each[1] for each in found if each is not None)
    return Plan.from_dict(json.loads(plan)), html.unescape(survey), html.unescape(service)


def signature_of(file: Path) -> Path:
    """Where the signature of a page is."""
    return file.with_name(file.name + ".sig")


def read_key(file: Path, password: Callable[[], str]) -> Ed25519PrivateKey:
    """The owner's Ed25519 key that signs pages, from PEM; `password` is asked for if it is encrypted."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    content = file.read_bytes()
    try:
        given = password().encode() if b"ENCRYPTED" in content else None
        key = load_pem_private_key(content, given)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError(
            f"{file} is not a private Ed25519 key in PEM, or the password is wrong. Make one with: "
            f"openssl genpkey -algorithm ed25519 -aes256 -out {file.name}"
        )
    return key


def _bare(path: str, content: str) -> str:
    """A module whose imports name files as the map of imports does, wherever it is loaded from."""
    named = _IMPORT.sub(lambda found: found[0].replace(f'"{found[1]}"', f'"tacit/{_below(path, found[1])}"'), content)
    return named.replace("import(`./", f"import(`tacit/{posixpath.dirname(path)}/")


def _data(kind: str, content: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(content.encode()).decode()}"


def _sha256(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def _modules(entry: str, files: Mapping[str, bytes]) -> set[str]:
    """The module, and everything that it imports, directly or not."""
    found, waiting = {entry}, [entry]
    while waiting:
        module = waiting.pop()
        for name in _IMPORT.findall(files[module].decode()):
            loaded = _below(module, name)
            if loaded not in found:
                found.add(loaded)
                waiting.append(loaded)
    return found


def _below(path: str, reference: str) -> str:
    """What a relative reference in the file at `path` names.

    >>> _below("s/SURVEY", "../static/survey.js"), _below("", "static/home.js")
    ('static/survey.js', 'static/home.js')
    """
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), reference))
