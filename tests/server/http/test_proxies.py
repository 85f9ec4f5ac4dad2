"""Senders behind a real proxy: nginx says whom it heard from, and what the sender made up counts for nothing."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tacit.server.http.intake import Proxies, RateLimit, from_another_site

from support.crash import ROUTES, started
from support.service import Client, key, plain_plan, stored

CONFIGURATION = """
daemon off; pid {folder}/pid; error_log {folder}/log; worker_processes 1;
events {{}}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass {upstream};
      proxy_set_header Host $host;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    }}
  }}
}}
"""


@contextmanager
def nginx(folder: Path, upstream: str) -> Iterator[str]:
    """The address of an nginx in front of a service; without it these tests are skipped, except in CI."""
    found = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
    if found is None:
        told = "nginx is missing, so senders behind a proxy are UNTESTED: install Debian's package nginx."
        if os.environ.get("CI"):
            pytest.fail(told)
        pytest.skip(told)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder.mkdir()
    (folder / "conf").write_text(CONFIGURATION.format(folder=folder, port=port, upstream=upstream))
    words = [found, "-p", str(folder), "-c", str(folder / "conf"), "-e", str(folder / "log")]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        try:
            for _ in range(200):
                with socket.socket() as trying:
                    if trying.connect_ex(("127.0.0.1", port)) == 0:
                        break
                assert run.poll() is None, (folder / "log").read_text()
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}"
        finally:
            run.terminate()
            run.wait(20)


def send(url: str, numbers: range, source: str) -> list[int]:
    """Reports from an address of this machine, each with another made-up sender."""
    with httpx.Client(transport=httpx.HTTPTransport(local_address=source), timeout=30) as client:
        return [
            client.post(
                f"{url}{ROUTES}/reports",
                json={"key": key(number), "report": number},
                headers={"X-Forwarded-For": f"198.51.100.{number}"},
            ).status_code
            for number in numbers
        ]


def test_the_rate_limit_sees_senders_through_nginx(tmp_path: Path):
    options = ("--proxy", "127.0.0.1", "--rate", "2")
    with (
        started(str(tmp_path / "data"), tmp_path, ("-m", "tacit"), *options) as service,
        nginx(tmp_path / "nginx", service.url) as proxy,
    ):
        assert send(proxy, range(1, 5), "127.0.0.2") == [200, 200, 429, 429], "what it made up counts for nothing"
        assert send(proxy, range(5, 7), "127.0.0.3") == [200, 200], "another sender has a limit of its own"
        assert send(service.url, range(7, 11), "127.0.0.4") == [200, 200, 429, 429], "it is no proxy that was named"


def test_a_socket_for_both_kinds_of_addresses_tells_ipv4_senders_apart():
    limit = RateLimit(1, clock=lambda: 0.0)
    assert [limit.wait(f"::ffff:192.0.2.{n}") for n in (1, 2, 1)] == [0, 0, 60]
    assert limit.wait("192.0.2.1") == 60, "however it is written"
    assert Proxies(["127.0.0.1"]).sender("::ffff:127.0.0.1", "192.0.2.7") == "192.0.2.7"


@pytest.mark.parametrize("forwarded", ["nonsense", "192.0.2.7, nonsense", "192.0.2.7,", "", "1.2.3.4 5"])
def test_a_word_that_is_no_address_is_not_taken(forwarded: str):
    assert Proxies(["10.0.0.1"]).sender("10.0.0.1", forwarded) == "10.0.0.1"


# -- pages of other sites --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "other"),
    [
        ({}, False),
        ({"sec-fetch-site": "same-origin", "origin": "https://a.org", "host": "rewritten"}, False),
        ({"sec-fetch-site": "cross-site"}, True),
        ({"sec-fetch-site": "same-site"}, True),
        ({"origin": "https://a.org", "host": "a.org"}, False),
        ({"origin": "https://a.org", "host": "inside:8000", "x-forwarded-host": "A.org"}, False),
        ({"origin": "https://b.org", "host": "a.org"}, True),
        ({"origin": "null", "host": "a.org"}, True),
        ({"origin": "null", "host": ""}, True),
    ],
)
def test_which_requests_come_from_pages_of_other_sites(headers: dict[str, str], other: bool):
    assert from_another_site({name.encode(): value.encode() for name, value in headers.items()}) is other


@pytest.mark.parametrize("kind", ["text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded", ""])
def test_what_a_browser_sends_for_any_page_is_refused(client: Client, kind: str):
    survey = client.open(plain_plan())
    body = b'{"key": "' + key(1).encode() + b'", "report": 1}'
    assert client.request("POST", f"{survey}/reports", content=body, headers={"Content-Type": kind}).status_code == 415
    headers = {"Content-Type": "application/json; charset=utf-8", "Sec-Fetch-Site": "cross-site"}
    assert client.request("POST", f"{survey}/reports", content=body, headers=headers).status_code == 403
    assert stored(client.store) == {}
    headers["Sec-Fetch-Site"] = "same-origin"
    assert client.request("POST", f"{survey}/reports", content=body, headers=headers).status_code == 200
