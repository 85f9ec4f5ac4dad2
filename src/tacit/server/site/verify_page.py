"""Does a service serve what Tacit publishes? Compared without a browser, file by file, with this installation's own.

It tells what was served here and now. A dishonest service may serve others something else; looks from several
places, at times that it cannot foresee, make that risky.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import ssl
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import SplitResult, urlsplit

import tacit
from tacit.plan import Plan
from tacit.server.http.intake import POLICY
from tacit.server.site.published import PAGES, bundle, current_edition, digest, parts_of, published, signature_of

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
    #: Hash of the key that signs credentials, in a survey by invitation.
    fingerprint: str | None = None
    #: Where a page of one file sends reports.
    service: str | None = None

    @property
    def wrong(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.wrong]


def verify_page(url: str, known: Path | None = None) -> Verification:
    """Compare what is served at a survey's page, or at a service's address, with what this installation publishes.

    `known` is a file of the credential keys that were seen before, by survey, to which new ones are added.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"The address must begin with https:// or http://. Got {url!r}.")
    found = _PAGE.match(parts.path)
    base, survey = (found["base"], found["survey"]) if found else (parts.path.rstrip("/") + "/", None)
    with closing(_Site(parts, base)) as site:
        findings = [_version(site), *_files(site, survey), *([_plan(site, survey)] if survey else [])]
        fingerprint = _fingerprint(site, survey) if survey else None
    if survey is not None and fingerprint is not None and known is not None:
        findings.append(_compared(known, survey, fingerprint))
    return Verification(url, survey, tuple(findings), fingerprint)


def verify_file(file: Path, key: Path | None = None) -> Verification:
    """Compare a page of one file with the one that this installation writes for the same plan, survey and service, and
    its signature, `file` with `.sig` added, with the owner's public `key`.
    """
    content = file.read_bytes()
    findings, survey, service = [], None, None
    try:
        plan, survey, service = parts_of(content)
        same = bundle(plan, survey, service) == content
        wrong = "" if same else f"Tacit {tacit.__version__} writes another page for its plan, survey and service."
        findings += [Finding("plan"), Finding("page", wrong)]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        findings.append(Finding("page", str(error)[:300]))
    if key is not None:
        findings.append(Finding("signature", _signature(file, content, key)))
    return Verification(str(file), survey, tuple(findings), service=service)


def _signature(file: Path, content: bytes, key: Path) -> str:
    """What is wrong with the signature of a page."""
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        public = load_pem_public_key(key.read_bytes())
    except (ValueError, UnsupportedAlgorithm):
        public = None
    if not isinstance(public, Ed25519PublicKey):
        raise ValueError(f"{key} is not a public Ed25519 key in PEM, as `openssl pkey -in KEY -pubout` writes it.")
    stored = signature_of(file)
    if not stored.exists():
        return f"There is no {stored.name} beside it."
    try:
        public.verify(stored.read_bytes(), content)
    except InvalidSignature:
        return "The page is not the one that the owner of this key signed."
    return ""


def _fingerprint(site: _Site, survey: str) -> str | None:
    """The hash of the credential key that the service shows, None where there is none."""
    key = site.fact(f"api/surveys/{survey}", "credential_key")
    known = isinstance(key, dict) and {"n", "e"} <= key.keys()
    return hashlib.sha256(f"{key['n']}.{key['e']}".encode()).hexdigest()[:32] if known else None


def _compared(known: Path, survey: str, fingerprint: str) -> Finding:
    """Whether the key is the one that was seen before; a service with a key for each person could tell them apart."""
    seen: dict[str, str] = json.loads(known.read_text(encoding="utf-8")) if known.exists() else {}
    before = seen.setdefault(survey, fingerprint)
    known.write_text(json.dumps(seen, indent=2) + "\n", encoding="utf-8")
    wrong = "" if before == fingerprint else f"Another than before: expected {before}, got {fingerprint}."
    return Finding("credential key", wrong)


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

    def close(self) -> None:
        self._connection.close()

    def fact(self, path: str, name: str) -> Any:
        """What an object of JSON says under that name; None if there is no such."""
        status, _, content = self.get(path, "empty")
        try:
            return json.loads(content)[name] if status == 200 else None
        except (ValueError, LookupError, TypeError):
            return None

    def get(self, path: str, kind: str = "document") -> tuple[int, http.client.HTTPMessage, bytes]:
        """Status, headers and content, asked for as a browser asks for this kind of thing, so that a service cannot
        show browsers something else. A redirect is an answer of its own: browsers would load from elsewhere.
        """
        try:
            self._connection.request("GET", self._base + path, headers=_as_browser(kind))
            answer = self._connection.getresponse()
            content = answer.read(_LARGEST)
            packed = answer.headers.get("Content-Encoding", "identity")
            if packed == "gzip":
                unpacking = zlib.decompressobj(31)
                content = unpacking.decompress(content, _LARGEST)
            elif packed != "identity":
                raise OSError(f"What answers at {self._base}{path} is packed in a way that was not asked for.")
            return answer.status, answer.headers, content
        except zlib.error as error:
            raise OSError(f"What answers at {self._base}{path} cannot be unpacked.") from error
        except http.client.HTTPException as error:
            raise OSError(f"What answers at {self._base}{path} does not speak HTTP: {type(error).__name__}.") from error


_BROWSER = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"
)
_ACCEPT = {
    "document": "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8",
    "style": "text/css,*/*;q=0.1",
    "image": "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8",
}


def _as_browser(kind: str) -> dict[str, str]:
    """The headers of a browser that loads a document, a script, a style, an image, or data (`empty`)."""
    page = kind == "document"
    headers = {
        "sec-ch-ua": '"Chromium";v="142", "Google Chrome";v="142", "Not_A Brand";v="99"',
        "sec-ch-ua-mobile": "?0",
        "sec-ch-ua-platform": '"Windows"',
        "User-Agent": _BROWSER,
        "Accept": _ACCEPT.get(kind, "*/*"),
        "Sec-Fetch-Site": "none" if page else "same-origin",
        "Sec-Fetch-Mode": "navigate" if page else "cors",
        "Sec-Fetch-Dest": kind,
        "Accept-Encoding": "gzip",
        "Accept-Language": "en-US,en;q=0.9",
    }
    return headers | ({"Upgrade-Insecure-Requests": "1", "Sec-Fetch-User": "?1"} if page else {})


_KINDS = {".js": "script", ".css": "style", ".svg": "image"}


def _version(site: _Site) -> Finding:
    """The version that the service says it is, for an explanation of differences; nothing rests on it."""
    said, wrong = site.fact("integrity", "tacit"), ""
    if said is None:
        wrong = "The service does not say what it publishes: it is no Tacit, or an older one."
    elif said != tacit.__version__:
        wrong = f"The service says that it is Tacit {str(said)[:20]!r}; this is {tacit.__version__}. Use the same."
    return Finding("integrity", wrong)


def _files(site: _Site, survey: str | None) -> Iterator[Finding]:
    for path, ours in published().items():
        # Files are fetched from where the pages load them.
        where = path.replace("SURVEY", survey or "SURVEY") if path in PAGES else current_edition() + path
        if "SURVEY" in where:
            continue
        status, headers, content = site.get(where, _KINDS.get(PurePosixPath(path).suffix, "document"))
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


def _plan(site: _Site, survey: str) -> Finding:
    status, _, content = site.get(f"api/surveys/{survey}/plan", "empty")
    if status != 200:
        return Finding(f"plan {survey}", f"Answered with status {status}.")
    try:
        named = Plan.from_dict(json.loads(content)).hash.startswith(survey.partition("-")[0])
    except (ValueError, TypeError, LookupError) as error:
        return Finding(f"plan {survey}", f"The plan is refused: {str(error)[:300]}")
    return Finding(f"plan {survey}", "" if named else "The plan is not the one that the address names.")
