"""Starting and stopping the service."""

from __future__ import annotations

import gc
import ipaddress
import json
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any
from urllib.parse import urlsplit

import uvicorn

from tacit.plan.contract import Plan
from tacit.server.app import make_app
from tacit.server.intake import PatientProtocol
from tacit.server.invitations import new_secrets
from tacit.server.store import Store, survey_id


@dataclass(frozen=True)
class Address:
    """Where to listen, and with which certificate."""

    host: str = "127.0.0.1"
    port: int = 8000
    certificate: str | None = None
    private_key: str | None = None
    #: A proxy whose word about the sender's address is taken.
    proxy: str | None = None
    #: Where people find the service, if a proxy is in front; may end in a path of its own.
    public_url: str = ""


@dataclass(frozen=True)
class Started:
    """What whoever started the service should know. The token is told once, when it is made."""

    url: str
    token: str | None
    surveys: dict[str, str | None]


def today() -> date:
    """The day, the same everywhere."""
    return datetime.now(UTC).date()


def open_surveys(
    store: Store, plans: list[Plan], *, public_results: bool, invited: bool, group_question: str | None
) -> None:
    """Open a survey for each plan that has none."""
    for plan in plans:
        if store.survey(survey_id(plan)) is None:
            store.create(plan, public_results=public_results, group_question=group_question, **new_secrets(invited))


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
    with listen(address) as listening:
        surveys = {survey.id: json.loads(survey.plan)["question"] for survey, _ in store.surveys()}
        url = address.public_url.rstrip("/") or _url(address, listening.getsockname()[1])
        started(Started(url, token, surveys))
        server(make_app(store, rate=rate, public_url=address.public_url), address).run(sockets=[listening])


def server(app: Any, address: Address) -> uvicorn.Server:
    """Uvicorn, as the service uses it. No access log is written: it would hold addresses beside times."""
    # What is there from the start stays: looking through it for garbage, over and over, makes requests wait.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=PatientProtocol,
            ws="none",
            access_log=False,
            log_level="warning",
            server_header=False,
            timeout_keep_alive=15,
            timeout_graceful_shutdown=10,
            limit_concurrency=4000,
            proxy_headers=address.proxy is not None,
            forwarded_allow_ips=address.proxy,
            ssl_certfile=address.certificate,
            ssl_keyfile=address.private_key,
        )
    )


def listen(address: Address) -> socket.socket:
    """A socket that takes connections from now on, before the first of them is answered."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((address.host, address.port))
    except OSError as error:
        listening.close()
        raise OSError(f"Cannot listen on {address.host} port {address.port}: {error.strerror}.") from error
    listening.listen(2048)
    return listening


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
