"""What the end-to-end tests share: a service to visit, profiles to visit it with, and a watch over both."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import httpx
from playwright.sync_api import Browser, BrowserContext, Page, expect
from typer.testing import CliRunner

from tacit import Prior
from tacit.cli.everything import app
from tacit.designs.planning import GroupPrior, make_plan
from tacit.plan import Plan
from tacit.server.storage.store import survey_id
from tacit.task import Survey, Task

from support.places import CLIENT
from support.wire import Sent, Wire
from support.wishes import in_search

TOKEN = "the-token-of-these-tests"
#: Two answers whose texts cannot occur by accident in an address, a header or a body.
GUILTY, INNOCENT = "drove-drunk", "stayed-sober"
#: What the console says about a status that the page expects.
UNAUTHORIZED, CONFLICT = "status of 401", "status of 409"
#: Milliseconds until a page that does not do what it should has failed.
WAIT = 20_000
expect.set_options(timeout=WAIT)
#: A document of the service that has no script. An empty page would be of another site: another process for each visit.
QUIET = "/static/icon.svg"
AXE = CLIENT / "node_modules" / "axe-core" / "axe.min.js"
PHONE = {"width": 390, "height": 844}
DESKTOP = {"width": 1280, "height": 900}


# -- plans ----------------------------------------------------------------------------------------------------------


def yes_no_plan(question: str, share: float = 0.3, epsilon: float = 1) -> Plan:
    """A survey of two answers; its question makes it one of its own."""
    return planned(question, {None: {GUILTY: share, INNOCENT: 1 - share}}, Survey(GUILTY), epsilon)


def planned(question: str, groups: dict[str | None, dict[str, float]], task: Task, epsilon: float, **how: Any) -> Plan:
    """A plan from priors by group."""
    priors = [
        GroupPrior(name=name, prior=Prior.of(prior), share=Fraction(1, len(groups))) for name, prior in groups.items()
    ]
    return make_plan(priors, task, epsilon, question=question, **in_search(how))


# -- the service ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Service:
    """A running `tacit serve`; browsers reach it through `wire`."""

    url: str
    wire: Wire
    client: httpx.Client

    def open(self, plan: Plan, **options: Any) -> str:
        """Open a survey; its id."""
        body = {"plan": plan.to_dict(), **options}
        self.client.post("/api/surveys", json=body).raise_for_status()
        return survey_id(plan)

    def get(self, survey: str, what: str, **query: Any) -> Any:
        """Results or tally, as the administrator gets them."""
        return self.client.get(f"/api/surveys/{survey}/{what}", params=query).raise_for_status().json()

    def counts(self, survey: str) -> Counter[tuple[str | None, int]]:
        """How often the collector counted each (group, report)."""
        groups = self.get(survey, "tally")["groups"]
        return Counter({(group["group"], report): n for group in groups for report, n in pairs(group)})

    def send_batch(self, survey: str, key: int, body: bytes, kind: str = "application/x-ndjson") -> dict[str, Any]:
        """Upload a batch under a key."""
        headers = {"Idempotency-Key": f"{key:032x}", "Content-Type": kind}
        answer = self.client.post(f"/api/surveys/{survey}/batches", content=body, headers=headers, timeout=60)
        found: dict[str, Any] = answer.raise_for_status().json()
        return found

    def posts(self, survey: str, what: str = "reports") -> list[Sent]:
        """What browsers posted to a survey."""
        target = f"/api/surveys/{survey}/{what}"
        return [request for request in self.wire.requests() if request.target == target and request.method == "POST"]


def pairs(group: dict[str, Any]) -> list[tuple[int, int]]:
    """The (report, count) pairs of one group of a tally file."""
    return list(zip(group["reports"], group["counts"], strict=True))


@contextmanager
def serving(folder: Path, program: Path) -> Iterator[Service]:
    """`tacit serve` in a process of its own, by this program, with no survey yet."""
    command = [str(program), "serve", "--data", str(folder), "--port", "0", "--rate", "0", "--json"]
    environment = os.environ | {"TACIT_TOKEN": TOKEN}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            said = "".join(iter(lambda: next(process.stdout, "}\n"), "}\n"))  # type: ignore[call-overload]
            port = int(json.loads(said + "}")["url"].rpartition(":")[2])
            authorized = {"Authorization": f"Bearer {TOKEN}"}
            with (
                Wire(port) as wire,
                httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=authorized, timeout=60) as client,
            ):
                yield Service(f"http://127.0.0.1:{wire.port}", wire, client)
        finally:
            process.terminate()


def tacit(*words: str) -> Any:
    """What a command of the command line says in JSON."""
    ran = CliRunner().invoke(app, [*words, "--json"])
    assert ran.exit_code == 0, ran.stderr
    return json.loads(ran.stdout)


# -- browsers -------------------------------------------------------------------------------------------------------

_VIOLATIONS = "addEventListener('securitypolicyviolation', (event) => console.error(event.violatedDirective))"


class Watch:
    """Where the pages of one profile went, and what they complained about."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self.urls: list[str] = []
        self.complaints: list[str] = []
        context.add_init_script(_VIOLATIONS)
        context.on("request", lambda request: self.urls.append(request.url))
        context.on("console", lambda said: said.type in ("error", "warning") and self.complaints.append(said.text))
        context.on("weberror", lambda error: self.complaints.append(str(error.error)))
        context.on("page", lambda page: page.on("websocket", lambda socket: self.urls.append(socket.url)))
        context.on("page", lambda page: page.on("worker", lambda worker: self.urls.append(worker.url)))

    def foreign(self, origin: str) -> list[str]:
        """Addresses that are not the service's own; a file that the page itself made is no address."""
        return [url for url in self.urls if not url.startswith((f"{origin}/", f"blob:{origin}/"))]

    def forget(self) -> None:
        """Watch on as if nothing had been."""
        self.urls.clear()
        self.complaints.clear()

    def check(self, origin: str, expected: Sequence[str] = ()) -> None:
        """Nothing went elsewhere, nothing but the `expected` was complained about, no cookie was set."""
        assert self.urls
        assert self.foreign(origin) == []
        assert [said for said in self.complaints if not any(part in said for part in expected)] == []
        assert self.context.cookies() == []


#: Profiles that were left clean, by browser and by how they were opened: opening one costs three times a visit.
_CLEAN: WeakKeyDictionary[Browser, dict[str, tuple[Page, Watch]]] = WeakKeyDictionary()


@contextmanager
def profile(
    browser: Browser, service: Service, *, expected: Sequence[str] = (), fresh: bool = False, **options: Any
) -> Iterator[Page]:
    """A profile that remembers nothing, with one page, watched: it may do nothing else and complain about nothing else.

    It may be one that another test left, with the files and connections it has, unless it is to be `fresh`.
    """
    clean, how = _CLEAN.setdefault(browser, {}), json.dumps([service.url, options], sort_keys=True)
    page, watch = (None if fresh else clean.pop(how, None)) or _opened(browser, service, options)
    try:
        yield page
        watch.check(service.url, expected)
        if not (fresh or how in clean):
            _leave(page)
            watch.forget()
            clean[how] = page, watch
    finally:
        if clean.get(how) != (page, watch):
            page.context.close()


def _opened(browser: Browser, service: Service, options: dict[str, Any]) -> tuple[Page, Watch]:
    context = browser.new_context(base_url=service.url, **({"viewport": PHONE} | options))
    context.set_default_timeout(WAIT)
    watch = Watch(context)
    return context.new_page(), watch


def _leave(page: Page) -> None:
    """Leave nothing behind: no other page, no script that runs, nothing stored."""
    for other in page.context.pages:
        if other != page:
            other.close()
    page.unroute_all()
    # From there what is stored can be erased, and nothing stores again.
    page.goto(QUIET)
    page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
    # Nothing else is erased, so nothing else may be there.
    assert page.evaluate("Promise.all([indexedDB.databases(), caches.keys()])") == [[], []]


def violations(page: Page, options: str = "{}") -> list[tuple[str, str]]:
    """What axe-core finds on the page as it is, by the rules of WCAG 2.2 AA and best practice."""
    if not AXE.is_file() and not os.environ.get("CI"):
        return []
    if not page.evaluate("'axe' in globalThis"):
        page.evaluate(AXE.read_text(encoding="utf-8") + "; undefined")
    found: list[dict[str, Any]] = page.evaluate(f"async () => (await axe.run({options})).violations")
    return [(each["id"], node["html"][:120]) for each in found for node in each["nodes"]]


def javascript(number: float) -> str:
    """A number as JavaScript writes it."""
    return json.dumps(number).removesuffix(".0")


def sign_in(page: Page) -> None:
    """Type the administrator's token where a page asks for it."""
    page.get_by_test_id("token").fill(TOKEN)
    page.get_by_test_id("token-submit").click()


def randomize(page: Page, survey: str, answer: int, group: int | None = None) -> dict[str, Any]:
    """Open a survey page, choose by clicks, randomize. Returns the report that the page shows."""
    page.goto(f"/s/{survey}")
    choose(page, answer, group)
    return shown_report(page)


def choose(page: Page, answer: int, group: int | None = None) -> None:
    """Choose by clicks, and randomize."""
    if group is not None:
        page.get_by_test_id(f"group-{group}").check()
    page.get_by_test_id(f"answer-{answer}").check()
    page.get_by_test_id("randomize").click()


def shown_report(page: Page) -> dict[str, Any]:
    """The report that the page shows."""
    box = page.get_by_test_id("report-json")
    box.wait_for()
    found: dict[str, Any] = json.loads(box.inner_text())
    return found


def send(page: Page, told: str | re.Pattern[str] = re.compile("was counted")) -> None:
    """Send the report that is shown, and wait until the page says what became of it."""
    page.get_by_test_id("send").click()
    expect(page.get_by_test_id("status")).to_have_text(told)
