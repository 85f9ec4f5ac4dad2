"""Starting and stopping the service."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import json
import logging
import os
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvicorn

from tacit.plan import Plan
from tacit.server.http.app import make_app
from tacit.server.http.intake import PatientProtocol, Proxies
from tacit.server.invitations import new_secrets
from tacit.server.storage.store import Store, survey_id

#: Seconds for requests that are being answered when the service stops, and after them for all the rest.
_GRACE_SECONDS, _LEAVE_SECONDS = 4, 5.0


@dataclass(frozen=True)
class Address:
    """Where to listen, and with which certificate."""

    host: str = "127.0.0.1"
    port: int = 8000
    certificate: str | None = None
    private_key: str | None = None
    #: Proxies whose word about the sender's address is taken: addresses or networks.
    proxies: tuple[str, ...] = ()
    #: Where people find the service, if a proxy is in front; may end in a path of its own.
    public_url: str = ""
    #: Origins of pages elsewhere that may ask for surveys and send reports.
    origins: tuple[str, ...] = ()
    #: Seconds to go on answering after SIGTERM, while readiness is denied.
    drain: float = 0.0

    def check(self) -> None:
        """Refuse what cannot be, before anything is started."""
        if not 0 <= self.port <= 65535:
            raise ValueError(f"The port must be between 0 and 65535. Got {self.port}.")
        Proxies(self.proxies)
        for origin in self.origins:
            parts = urlsplit(origin)
            if origin != "null" and (
                parts.scheme not in ("http", "https") or origin != f"{parts.scheme}://{parts.netloc}"
            ):
                raise ValueError(f"An origin must look like https://host, or be null for files. Got {origin!r}.")
        if (self.certificate is None) != (self.private_key is None):
            raise ValueError("Give --certificate and --private-key together.")
        if self.certificate is not None and self.private_key is not None:
            _check_certificate(self.certificate, self.private_key)


@dataclass(frozen=True)
class Started:
    """What the service says when it has started. The token is shown once, when it is made."""

    url: str
    token: str | None
    surveys: dict[str, str | None]
    #: Whether it listens on all addresses, and `public_url` does not say which of them people use.
    everywhere: bool = False


def today() -> date:
    """The day, the same everywhere."""
    return datetime.now(UTC).date()


def open_surveys(store: Store, plans: list[Plan], *, public_results: bool, invited: bool, **given: Any) -> None:
    """Open a survey for each plan that has none; a survey that is there gets what is `given`, or says why not."""
    settings = {name: value for name, value in given.items() if value is not None}
    for plan in plans:
        known = store.survey(survey_id(plan))
        if known is None:
            store.create(plan, public_results=public_results, **settings, **new_secrets(invited))
            continue
        if invited and not known.invited:
            raise ValueError(
                f"Survey {known.id} is open to everybody and stays so: what was counted needed no invitation. "
                "Leave out --invited, or make a plan of its own for invited people."
            )
        if known.closed is not None and settings.get("ends") is not None:
            raise ValueError(f"Survey {known.id} was closed on {known.closed} and cannot end again. Leave out --ends.")
        changed = settings | ({"public_results": True} if public_results else {})
        if changed:
            store.change(known.id, **changed)


def check_public_url(url: str) -> str:
    """The URL, if it is one that people can open.

    >>> check_public_url("https://survey.example/private/")
    'https://survey.example/private/'
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"The public URL must look like https://host/ or https://host/path/. Got {url!r}.")
    return url


def serve(store: Store, address: Address, rate: int, token: str | None, started: Callable[[Started], None]) -> None:
    """Serve until interrupted; `started` is called once connections are taken."""
    # At SIGTERM Uvicorn ends in order and raises it again: as an interrupt, so that the store is closed, too.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    write_logs()
    app = make_app(
        store,
        rate=rate,
        proxies=address.proxies,
        stopping=_leave_in_time,
        public_url=address.public_url,
        origins=address.origins,
    )
    with listen(address) as listening:
        surveys = {survey.id: _title(json.loads(survey.plan)) for survey, _ in store.surveys()}
        url = address.public_url.rstrip("/") or _url(address, listening.getsockname()[1])
        started(Started(url, token, surveys, not address.public_url and address.host in ("0.0.0.0", "::")))
        with little_garbage_collection():
            notify("READY=1")
            server(app, address).run(sockets=[listening])


@contextmanager
def little_garbage_collection() -> Iterator[None]:
    """What is there from the start stays: looking through it for garbage, over and over, makes requests wait."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    try:
        yield
    finally:
        # Frozen objects are not freed at exit, which libraries such as DuckDB report as leaks.
        gc.unfreeze()


def _title(plan: dict[str, Any]) -> str | None:
    """What a stored plan is about; it was audited when its survey was opened."""
    title: str | None = plan["title"]
    if title is None and len(plan["questions"]) == 1:
        return next(iter(plan["questions"][0].get("text", {}).values()), None)
    return title


def notify(state: str) -> None:
    """Tell systemd, if it started this service and wants to know (Type=notify)."""
    place = os.environ.get("NOTIFY_SOCKET")
    if place:
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
            line.connect("\0" + place[1:] if place.startswith("@") else place)
            line.sendall(state.encode())


def _leave_in_time() -> None:
    """End the process soon, also if it still waits: every acknowledged report is on disk."""
    notify("STOPPING=1")
    if threading.current_thread() is threading.main_thread():
        leaving = threading.Timer(_LEAVE_SECONDS, _leave)
        leaving.daemon = True
        leaving.start()


def _leave() -> None:
    logging.getLogger("tacit.server").error("The service did not stop in time, and ends as it is.")
    os._exit(1)


def server(app: Any, address: Address) -> uvicorn.Server:
    """Uvicorn, as the service uses it. No access log is written: it would hold addresses beside times."""

    class Draining(uvicorn.Server):
        """Goes on for a while after the first signal, saying that it is not ready; the second ends that."""

        def handle_exit(self, sig: int, frame: Any) -> None:
            if address.drain and not app.state.draining:
                app.state.draining = True
                notify("STOPPING=1")
                asyncio.get_running_loop().call_later(address.drain, super().handle_exit, sig, frame)
            else:
                super().handle_exit(sig, frame)

    class Protocol(PatientProtocol):
        proxies = Proxies(address.proxies)

    return Draining(
        uvicorn.Config(
            app,
            http=Protocol,
            ws="none",
            access_log=False,
            log_level="warning",
            server_header=False,
            timeout_keep_alive=15,
            timeout_graceful_shutdown=_GRACE_SECONDS,
            limit_concurrency=4000,
            proxy_headers=False,
            log_config=None,
            ssl_certfile=address.certificate,
            ssl_keyfile=address.private_key,
        )
    )


def listen(address: Address) -> socket.socket:
    """A socket that takes connections from now on, before the first of them is answered."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if address.host == "::":
        # All addresses, those of IPv4 too.
        listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    try:
        listening.bind((address.host, address.port))
    except OSError as error:
        listening.close()
        raise OSError(f"Cannot listen on {address.host} port {address.port}: {error.strerror}.") from error
    listening.listen(2048)
    return listening


def _check_certificate(certificate: str, private_key: str) -> None:
    for name in (certificate, private_key):
        with Path(name).open("rb"):
            pass
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, private_key)
    except ssl.SSLError as error:
        raise ValueError(
            f"{certificate} and {private_key} are not a certificate and its private key, in PEM: {error.reason}."
        ) from error


def _url(address: Address, port: int) -> str:
    scheme = "http" if address.certificate is None else "https"
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{scheme}://{host}:{port}"


def is_private(host: str) -> bool:
    """Whether only this machine can reach the host.

    >>> is_private("127.0.0.1"), is_private("::1"), is_private("0.0.0.0"), is_private("localhost")
    (True, True, False, True)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


# -- the log ----------------------------------------------------------------------------------------------------------

#: Seconds between two lines that say the same; the second says how many were left out.
PAUSE = 10.0


class JsonLines(logging.Formatter):
    """A line of JSON per event: time, level, event, cause, and how many of the same were not written.

    There is no access log, and no line holds an address, a key or a report.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, str | int] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        cause = getattr(record, "cause", None)
        if cause is None and record.exc_info and record.exc_info[1] is not None:
            cause = self.formatException(record.exc_info)
        if cause is not None:
            line["cause"] = cause
        if skipped := getattr(record, "skipped", 0):
            line["skipped"] = skipped
        line |= getattr(record, "audit", {})
        return json.dumps(line, ensure_ascii=False)


class Seldom(logging.Filter):
    """Lets the first line of a kind through, and one again after a pause."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._last: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind, now = f"{record.name}: {record.msg}", self._clock()
        last, skipped = self._last.get(kind, (-PAUSE, 0))
        if now - last < PAUSE:
            self._last[kind] = last, skipped + 1
            return False
        self._last[kind] = now, 0
        record.skipped = skipped
        return True


def write_logs() -> None:
    """Write the service's log, and that of the server below it, to standard error."""
    handler, audit = logging.StreamHandler(), logging.StreamHandler()
    for each in (handler, audit):
        each.setFormatter(JsonLines())
    handler.addFilter(Seldom())
    for name in ("tacit.server", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.WARNING)
    # What administrators did is written line by line.
    told = logging.getLogger("tacit.audit")
    told.handlers, told.propagate = [audit], False
    told.setLevel(logging.INFO)
