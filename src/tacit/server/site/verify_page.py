"""Does a service serve what Tacit publishes? Compared without a browser, file by file, with this installation's own.

It tells what was served here and now. A dishonest service may serve others something else; looks from several
places, at times that it cannot foresee, make that risky.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

import tacit
from tacit.plan import read_plan
from tacit.server.http.intake import POLICY
from tacit.server.site.published import PAGES, current_edition, digest, published

_SECONDS = 20
_LARGEST = 2**27
#: Headers that would keep something in the browser, or send it elsewhere.
_UNWANTED = ("Set-Cookie", "Refresh", "Link", "Service-Worker-Allowed")
_PAGE = re.compile(r"^(?P<base>.*/)(?P<kind>[sd])/(?P<survey>[0-9a-f]{16}(?:-[0-9]+)?)$")


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at, and what is wrong with it; an empty text if nothing is."""

    what: str
    wrong: str = ""


@dataclass(frozen=True)
class Verification:
    """Everything that was looked at."""

    url: str
    survey: str | None
    findings: tuple[Finding, ...]

    @property
    def wrong(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.wrong]


def verify_page(url: str) -> Verification:
    """Compare what is served at a survey's page, or at a service's address, with what this installation publishes."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"The address must begin with https:// or http://. Got {url!r}.")
    found = _PAGE.match(parts.path)
    base, survey = (found["base"], found["survey"]) if found else (parts.path.rstrip("/") + "/", None)
    with _Site(parts, base) as site:
        findings = [*_version(site), *_files(site, survey), *(_plan(site, survey) if survey else ())]
    return Verification(url, survey, tuple(findings))


class _Site:
    """One connection to a service."""

    def __init__(self, parts: SplitResult, base: str) -> None:
        self._base = base
        host, port = str(parts.hostname), parts.port
        self._connection: http.client.HTTPConnection = (
            http.client.HTTPSConnection(host, port, timeout=_SECONDS, context=ssl.create_default_context())
            if parts.scheme == "https"
            else http.client.HTTPConnection(host, port, timeout=_SECONDS)
        )

    def __enter__(self) -> _Site:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def get(self, path: str) -> tuple[int, http.client.HTTPMessage, bytes]:
        """Status, headers and content. A redirect is an answer of its own: browsers would load from elsewhere."""
        try:
            self._connection.request("GET", self._base + path, headers={"Accept-Encoding": "identity"})
            answer = self._connection.getresponse()
            return answer.status, answer.headers, answer.read(_LARGEST)
        except http.client.HTTPException as error:
            raise OSError(f"What answers at {self._base}{path} does not speak HTTP: {type(error).__name__}.") from error


def _version(site: _Site) -> Iterator[Finding]:
    """The version that the service says it is, for an explanation of differences; nothing rests on it."""
    status, _, content = site.get("integrity")
    try:
        said: Any = json.loads(content)["tacit"] if status == 200 else None
    except (ValueError, LookupError, TypeError):
        said = None
    if said is None:
        yield Finding("integrity", "The service does not say what it publishes: it is no Tacit, or an older one.")
    elif said != tacit.__version__:
        yield Finding(
            "integrity",
            f"The service says that it is Tacit {str(said)[:20]!r}; this is {tacit.__version__}. Use the same.",
        )
    else:
        yield Finding("integrity")


def _files(site: _Site, survey: str | None) -> Iterator[Finding]:
    for path, ours in published().items():
        # Files are fetched from where the pages load them.
        where = path.replace("SURVEY", survey or "SURVEY") if path in PAGES else current_edition() + path
        if "SURVEY" in where:
            continue
        status, headers, content = site.get(where)
        named = where if path in PAGES else path
        yield Finding(named or "(home)", _difference(status, content, ours.digest) or _told(headers, ours.media_type))


def _difference(status: int, content: bytes, expected: str) -> str:
    if status != 200:
        return f"Answered with status {status}; expected the file {expected}."
    got = digest(content)
    return "" if got == expected else f"Altered: expected {expected}, got {got}."


def _told(headers: http.client.HTTPMessage, media_type: str) -> str:
    """What is wrong with the headers: they forbid the page to load from or talk to anybody else."""
    if POLICY not in (headers.get_all("Content-Security-Policy") or []):
        return "The Content-Security-Policy is missing or another one."
    if headers.get("Content-Type", "") != media_type:
        return f"Served as another type; expected {media_type}."
    return next((f"The header {name} is set." for name in _UNWANTED if name in headers), "")


def _plan(site: _Site, survey: str) -> Iterator[Finding]:
    status, _, content = site.get(f"api/surveys/{survey}/plan")
    what = f"plan {survey}"
    if status != 200:
        yield Finding(what, f"Answered with status {status}.")
        return
    try:
        plan = read_plan(json.loads(content))
    except (ValueError, TypeError, LookupError) as error:
        yield Finding(what, f"The plan is refused: {str(error)[:300]}")
        return
    named = plan.hash.startswith(survey.partition("-")[0])
    yield Finding(what, "" if named else "The plan is not the one that the address names.")
