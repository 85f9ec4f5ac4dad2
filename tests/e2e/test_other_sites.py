"""A page of another website, in a real browser, tries to make its visitor answer a survey."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser

from support.browsing import WAIT, Service, yes_no_plan

#: All that a page may try without the other side's consent, and what needs it.
ATTEMPTS = {
    "plain text": {"mode": "no-cors", "headers": {"Content-Type": "text/plain"}},
    "a form": {"mode": "no-cors", "headers": {"Content-Type": "application/x-www-form-urlencoded"}},
    "no type": {"mode": "no-cors"},
    "JSON": {"mode": "cors", "headers": {"Content-Type": "application/json"}},
}
TRY = """
([url, attempts, key]) => Promise.all(attempts.map((how, nth) => fetch(url, {
  method: "POST", body: JSON.stringify({key: key.slice(0, 31) + nth, report: 0}), ...how,
}).then((answer) => answer.type, (error) => error.name)))
"""


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>Another site</title>")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """A website of another name; it is the name that makes it another site."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://localhost:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


def test_no_report_comes_from_another_site(browser: Browser, service: Service, elsewhere: str):
    survey = service.open(yes_no_plan("Can others answer for you?"))
    url = f"{service.url}/api/surveys/{survey}/reports"
    page = browser.new_page()
    page.set_default_timeout(WAIT)
    page.goto(elsewhere)
    page.evaluate(TRY, [url, list(ATTEMPTS.values()), "a" * 32])
    posted = service.posts(survey)
    assert len(posted) == 3, "the browser sends all but the last, for which it asks first"
    assert {request.json["report"] for request in posted} == {0}, "nothing but its origin is wrong with it"
    assert {request.headers["sec-fetch-site"] for request in posted} == {"cross-site"}
    assert service.counts(survey) == {}
    page.goto(f"{service.url}/s/{survey}")
    told = page.evaluate(TRY, [url, [ATTEMPTS["JSON"]], "b" * 32])
    assert told == ["basic"]
    assert service.counts(survey) == {(None, 0): 1}, "the same from the service's own page is counted"
    page.close()
