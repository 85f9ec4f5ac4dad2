"""What is let in: requests that arrive in time and are not too large; and what is added on the way out.

Uvicorn leaves both limits to others. Heads are bounded where they are parsed (`PatientProtocol`), bodies before any
route sees them (`Intake`). Strangers may send little; a token that manages surveys allows batches.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import math
import re
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from time import perf_counter
from typing import Any, ClassVar

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tacit.server.problems import UNAVAILABLE, Refusal, problem, unavailable
from tacit.server.storage.tokens import Grant

#: Bytes and seconds for a request's head, for a stranger's body and for the administrator's.
HEAD_BYTES, HEAD_SECONDS = 2**15, 10.0
BODY_BYTES, BODY_SECONDS = 2**14, 10.0
BATCH_BYTES, BATCH_SECONDS = 2**27, 120.0
#: Requests that may wait on a connection for the one before them, and connections of one address.
MOST_WAITING, MOST_CONNECTIONS = 16, 512
#: Paths that are answered for any Host header: health checks ask without one.
_ANY_HOST = ("/healthz", "/livez", "/readyz", "/metrics")
#: What a respondent's page asks for.
_FOR_PAGES = re.compile(r"/api/surveys/[0-9a-f-]+(/(plan|texts|reports|credentials))?$")
_audit = logging.getLogger("tacit.audit")

#: The page may run its own scripts, show its own styles and talk to its own server. Nothing else.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=(), browsing-topics=()"),
]


class Intake:
    """Knows who sends, and reads each body whole, bounded in size and time, before the app sees the request."""

    def __init__(
        self,
        app: ASGIApp,
        grant_of: Callable[[str], Awaitable[Grant | None]],
        answered: Callable[[int, float], Any],
        proxies: Proxies,
        guesses: RateLimit,
        host: str = "",
        origins: Collection[str] = (),
    ) -> None:
        self._app, self._grant_of, self._answered = app, grant_of, answered
        self._proxies, self._guesses = proxies, guesses
        self._host, self._origins = host.encode(), {each.encode() for each in origins}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        caching = (b"cache-control", b"no-store" if path.startswith("/api/") else b"no-cache")
        started, only_head, began = False, scope["method"] == "HEAD", perf_counter()
        headers = dict(scope["headers"])
        shared = self._shared(path, headers.get(b"origin"))
        if only_head:
            # Every route that answers GET answers HEAD, with the same head.
            scope = {**scope, "method": "GET"}

        async def sending(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                self._answered(message["status"], perf_counter() - began)
                _tell_audit(scope, path, message["status"])
                said = message.get("headers", ())
                own = b"cache-control" in dict(said)
                message["headers"] = [*said, *_HEADERS, *shared, *(() if own else (caching,))]
            elif only_head:
                message = {**message, "body": b""}
            await send(message)

        try:
            if (
                self._host
                and path not in _ANY_HOST
                and _host(headers) not in (self._host, self._host.partition(b":")[0])
            ):
                raise Refusal(421, "This service is found at another address.")
            if shared and scope["method"] == "OPTIONS":
                await Response(status_code=204)(scope, receive, sending)
                return
            body = scope["tacit.body"] = await self._body(scope, receive, headers, bool(shared))
            await self._app(scope, _replay(body, receive), sending)
        except _GoneError:
            pass
        except Refusal as refused:
            headers_too = {"Connection": "close"} | dict(refused.headers or {})
            await problem(refused.status_code, refused.detail, headers_too)(scope, receive, sending)
        except UNAVAILABLE as error:
            await unavailable(error)(scope, receive, sending)
        except Exception:
            if not started:
                await problem(500, "This is a fault of the service.")(scope, receive, sending)
            raise

    def _shared(self, path: str, origin: bytes | None) -> list[tuple[bytes, bytes]]:
        """What lets a page of a named origin ask for a survey and send reports (CORS); a token it cannot send."""
        if origin is None or origin not in self._origins or not _FOR_PAGES.match(path):
            return []
        return [
            (b"access-control-allow-origin", origin),
            (b"access-control-allow-methods", b"GET, POST"),
            (b"access-control-allow-headers", b"content-type, tacit-key"),
            (b"access-control-max-age", b"600"),
            (b"vary", b"Origin"),
        ]

    async def _body(self, scope: Scope, receive: Receive, headers: dict[bytes, bytes], shared: bool) -> bytes:
        """The body, after a look at who sends it."""
        if scope["client"] is not None:
            forwarded = headers.get(b"x-forwarded-for")
            peer, port = scope["client"]
            scope["client"] = (
                self._proxies.sender(peer, None if forwarded is None else forwarded.decode("latin-1")),
                port,
            )
        grant = scope["tacit.grant"] = await self._grant(scope, headers.get(b"authorization"))
        if scope["method"] not in ("GET", "OPTIONS"):
            # Wherever it is sent to: the service may be found below a path of its own.
            if not shared and from_another_site(headers):
                raise Refusal(403, "This was sent by a page of another site.")
            _check_kind(scope["path"], headers)
        large = grant is not None and grant.role != "results"
        most, seconds = (BATCH_BYTES, BATCH_SECONDS) if large else (BODY_BYTES, BODY_SECONDS)
        return await _body(headers, receive, most, seconds)

    async def _grant(self, scope: Scope, authorization: bytes | None) -> Grant | None:
        """What the token allows, if there is one; wrong ones are counted, and too many of them refused.

        A right one is let in all the same: an address may be shared with who guesses. Other schemes than Bearer are a
        proxy's business.
        """
        if authorization is None or authorization[:7].lower() != b"bearer ":
            return None
        grant = await self._grant_of(authorization.decode("latin-1"))
        if grant is None and self._guesses.wait(scope["client"][0] if scope["client"] else ""):
            raise Refusal(429, "Too many wrong tokens from this address. Try later.", {"Retry-After": "60"})
        return grant


def _check_kind(path: str, headers: dict[bytes, bytes]) -> None:
    """Refuse what a page of another site can make a browser send: anything that is not JSON."""
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    has_body = headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers
    if kind != b"application/json" and not path.endswith("/batches") and has_body:
        raise Refusal(415, "The body must be JSON, with the Content-Type application/json.")


def _host(headers: Mapping[bytes, bytes]) -> bytes:
    return headers.get(b"host", b"").strip().lower()


def _tell_audit(scope: Scope, path: str, status: int) -> None:
    """Write down what the holder of a token changed: who, by the token's name, what, and whether it was done."""
    grant = scope.get("tacit.grant")
    if grant is not None and scope["method"] not in ("GET", "HEAD", "OPTIONS"):
        told = {"who": grant.name, "did": f"{scope['method']} {path}"[:200], "status": status}
        _audit.info("An administrator changed something.", extra={"audit": told})


def _too_large(most: int) -> Refusal:
    return Refusal(413, f"The body of this request may have {most:,} bytes at most.")


class _GoneError(Exception):
    """The client left before its request was complete."""


async def _body(headers: dict[bytes, bytes], receive: Receive, most: int, seconds: float) -> bytes:
    stated = headers.get(b"content-length", b"0")
    if not stated.isdigit() or int(stated[:20]) > most:
        raise _too_large(most)
    if stated == b"0" and b"transfer-encoding" not in headers:
        return b""
    parts, size = [], 0
    try:
        async with asyncio.timeout(seconds):
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise _GoneError
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > most:
                    raise _too_large(most)
                more = message.get("more_body", False)
    except TimeoutError as error:
        raise Refusal(408, f"The body of this request took longer than {seconds:g} seconds.") from error
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body as one message, then the messages that follow it."""
    given = False

    async def receiving() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receiving


class PatientProtocol(HttpToolsProtocol):
    """Uvicorn's protocol with patience that ends: a head must be complete in time and in bounds, a connection may have
    a few requests waiting, and an address a number of connections, unless it is a proxy's.
    """

    proxies: Proxies | None = None
    by_address: ClassVar[Counter[str]] = Counter()
    _deadline: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _address = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()
        peer = self.client[0] if self.client else ""
        if self.proxies is None or not self.proxies.trusts(peer):
            self._address = network(peer)
            self.by_address[self._address] += 1
            if self.by_address[self._address] > MOST_CONNECTIONS:
                self.transport.abort()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._deadline is None:
            self._expect_head()

    def on_headers_complete(self) -> None:
        self._got_head()
        # Uvicorn takes any number of requests that come before the first is answered; browsers and proxies send none.
        if len(self.pipeline) >= MOST_WAITING or self.transport.is_closing():
            self.transport.abort()
            return
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        if self._deadline is None and (self.cycle is None or self.cycle.response_complete):
            # Whatever comes between requests, blank lines too, ends uvicorn's own patience with an idle connection.
            self._expect_head()
        # In pieces, so that a large head is noticed however much of it arrives at once.
        for start in range(0, len(data), HEAD_BYTES):
            if self.transport.is_closing():
                return
            piece, expected = data[start : start + HEAD_BYTES], self._deadline is not None
            super().data_received(piece)
            if expected and self._deadline is not None:
                self._head_bytes += len(piece)
                if self._head_bytes > HEAD_BYTES:
                    self.transport.abort()
                    return

    def connection_lost(self, exc: Exception | None) -> None:
        self._got_head()
        if self._address:
            self.by_address[self._address] -= 1
            if not self.by_address[self._address]:
                del self.by_address[self._address]
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        self._head_bytes = 0
        self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _got_head(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


# -- who sends, and how often -----------------------------------------------------------------------------------------

#: Addresses that are remembered; beyond that, the one silent longest is forgotten.
_ADDRESSES = 100_000


class RateLimit:
    """A token bucket per address: `per_minute` on average and as many at once.

    >>> limit = RateLimit(60, clock=lambda: 0.0)
    >>> [limit.wait("127.0.0.1") for _ in range(61)][-2:]
    [0, 1]
    """

    def __init__(self, per_minute: int, clock: Callable[[], float]) -> None:
        self._rate, self._most, self._clock = per_minute / 60, float(per_minute), clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, address: str) -> int:
        """Seconds until this address may send again; 0 if it may now, which is then counted. A rate of 0 allows all."""
        if not self._rate:
            return 0
        name, now = network(address), self._clock()
        left, since = self._buckets.pop(name, (self._most, now))
        left = min(self._most, left + (now - since) * self._rate)
        allowed = left >= 1
        self._buckets[name] = (left - 1 if allowed else left, now)
        if len(self._buckets) > _ADDRESSES:
            self._buckets.popitem(last=False)
        return 0 if allowed else math.ceil((1 - left) / self._rate)


def network(address: str) -> str:
    """What counts as one sender: an IPv4 address, or the /64 that an IPv6 user moves about in.

    >>> network("2001:db8:1:2:3:4:5:6"), network("::ffff:192.0.2.7"), network("192.0.2.7"), network("")
    ('2001:db8:1:2::/64', '192.0.2.7', '192.0.2.7', '')
    """
    found = _address(address)
    return str(ipaddress.ip_network((found, 64), strict=False)) if isinstance(found, IPv6Address) else str(found or "")


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """An address; an IPv4 one also where a socket for both kinds writes it as ::ffff:192.0.2.7."""
    try:
        found = ipaddress.ip_address(text.strip().partition("%")[0])
    except ValueError:
        return None
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found


class Proxies:
    """Proxies in front, whose word about the sender's address is taken.

    Each proxy adds whom it heard from at the right of X-Forwarded-For. So the rightmost address that is not one of the
    proxies themselves is the sender's; everything left of it may be made up by the sender.

    >>> Proxies(["10.0.0.0/8"]).sender("10.0.0.1", "198.51.100.1, 192.0.2.7, 10.0.0.2")
    '192.0.2.7'
    >>> Proxies(["10.0.0.1"]).sender("192.0.2.9", "198.51.100.1")
    '192.0.2.9'
    """

    def __init__(self, trusted: Sequence[str]) -> None:
        self._networks = [_network(each) for each in trusted]

    def sender(self, peer: str, forwarded: str | None) -> str:
        """Who sent a request that came from `peer`."""
        if not self._networks or forwarded is None or not self.trusts(peer):
            return peer
        heard = [each.strip() for each in forwarded.split(",")]
        for each in reversed(heard):
            if _address(each) is None:
                return peer
            if not self.trusts(each):
                return each
        return heard[0]

    def trusts(self, address: str) -> bool:
        """Whether an address is one of them."""
        found = _address(address)
        return found is not None and any(found in network for network in self._networks)


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ipaddress.ip_network(text.strip())
    except ValueError as error:
        raise ValueError(
            f"A proxy must be an address, such as 127.0.0.1, or a network, such as 10.0.0.0/8. Got {text!r}."
        ) from error


def from_another_site(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a browser says that a page of another site sends this.

    Programs say nothing. Browsers of today state the relation, which survives every proxy; older ones state the page's
    origin, whose host must be the one that they asked.
    """
    relation = headers.get(b"sec-fetch-site")
    if relation is not None:
        return relation not in (b"same-origin", b"none")
    origin = headers.get(b"origin")
    if origin is None:
        return False
    host = origin.partition(b"://")[2].lower()
    asked = (headers.get(b"host", b""), headers.get(b"x-forwarded-host", b""))
    return host not in [each.strip().lower() for each in asked] or not host
