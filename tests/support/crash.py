"""Load, kill, compare: a real service in a process of its own, many clients, and a ledger of what they were told.

Each submission carries reports that no other one carries, so that the exported tally says exactly which submissions
were counted, and how often.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from multiprocessing.process import BaseProcess
from pathlib import Path

import httpx

from tacit import Histogram, Prior
from tacit.plan import Group, Plan
from tacit.server.storage.store import survey_id

from support import warm
from support.rings import ring
from support.service import TOKEN, key

_ADMIN = {"Authorization": f"Bearer {TOKEN}"}
#: Clients that send at the same time, so that commits hold many submissions.
CLIENTS = 24
#: Every so many submissions one is a batch, of so many reports.
BATCH_EVERY, BATCH_SIZE = 10, 7


@cache
def wide_plan() -> Plan:
    """A plan with four million different reports."""
    prior = Prior(range(4), [1_000_003, 999_983, 999_979, 999_961])
    circle = ring(prior, 22, 2**20, Fraction(2))
    return Plan.of_groups(Histogram(), (Group(name=None, epsilon=Fraction(2), mechanism=circle),))


ROUTES = f"/api/surveys/{survey_id(wide_plan())}"


# -- the ledger -----------------------------------------------------------------------------------------------------


def reports_of(number: int) -> list[int]:
    """The reports of the nth submission, different for every n."""
    first = number * BATCH_SIZE
    return [first + k for k in range(BATCH_SIZE)] if number % BATCH_EVERY == 0 else [first]


@dataclass
class Ledger:
    """Which submissions were sent, and which of them were acknowledged."""

    sent: set[int] = field(default_factory=set)
    acknowledged: set[int] = field(default_factory=set)
    statuses: Counter[int] = field(default_factory=Counter)

    def check_crash(self, counts: Counter[int]) -> None:
        """Assert that what was acknowledged is counted, what is counted was sent, and nothing is counted in parts."""
        counted = {number for number in self.sent if any(counts[report] for report in reports_of(number))}
        assert self.acknowledged <= counted, f"lost {len(self.acknowledged - counted)} acknowledged submissions"
        self._check_exactly(counted, counts)

    def check_resent(self, counts: Counter[int]) -> None:
        """Assert that every submission is counted once."""
        self._check_exactly(self.sent, counts)

    @staticmethod
    def _check_exactly(numbers: Iterable[int], counts: Counter[int]) -> None:
        expected = Counter(report for number in numbers for report in reports_of(number))
        assert not expected - counts, f"{(expected - counts).total()} reports are missing"
        assert not counts - expected, f"{(counts - expected).total()} reports are counted twice or were never sent"


# -- the service ----------------------------------------------------------------------------------------------------


@dataclass
class Service:
    """A running service that can be killed."""

    url: str
    process: BaseProcess
    output: Path

    def kill(self) -> None:
        """End it in the middle of whatever it does."""
        self.process.kill()
        self.process.join(20)

    def counts(self) -> Counter[int]:
        """The exported tally: how often each report was counted."""
        answer = httpx.get(f"{self.url}{ROUTES}/tally", headers=_ADMIN, timeout=30)
        assert answer.status_code == 200, answer.text
        groups = answer.json()["groups"]
        return Counter({r: n for g in groups for r, n in zip(g["reports"], g["counts"], strict=True)})


@contextmanager
def started(where: str, folder: Path, program: Sequence[str] = ("-m", "tacit"), *options: str) -> Iterator[Service]:
    """`tacit serve` on this data, on a free port, with the wide plan; killed at the end if nobody stopped it."""
    plan = folder / "plan.json"
    wide_plan().save(plan)
    words = ["serve", str(plan), "--data", where, "--port", "0", "--rate", "0", "--json", *options]
    told, output = (folder / f"{name}-{random.randbytes(4).hex()}" for name in ("told", "output"))
    environment = os.environ | {"TACIT_TOKEN": TOKEN, "OPENBLAS_NUM_THREADS": "1"}
    process = warm.started([*program, *words], told, output, environment)
    text = ""
    try:
        while not (told.exists() and (text := told.read_text()).endswith("\n}\n")):
            assert process.is_alive(), output.read_text()
            time.sleep(0.01)
        service = Service(json.loads(text)["url"], process, output)
        # It takes connections from now on, and answers once it has started.
        assert httpx.get(f"{service.url}/healthz", timeout=30).status_code == 200
        yield service
    finally:
        process.kill()
        process.join(20)
        # What it printed after that belongs to what it said.
        with output.open("a") as file:
            file.write(told.read_text()[len(text) :])


# -- the clients ----------------------------------------------------------------------------------------------------


class Connection:
    """One client's connection: plain HTTP/1.1, so that two cores can load the service and not only the client."""

    def __init__(self, url: str) -> None:
        self._url = httpx.URL(url)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def send(self, number: int, ledger: Ledger) -> int | None:
        """Send a submission; the status, None if the connection broke. It is in the ledger before it is on its way."""
        ledger.sent.add(number)
        try:
            status = await asyncio.wait_for(self._exchange(_request(number)), 30)
        except (OSError, asyncio.IncompleteReadError):
            return None
        ledger.statuses[status] += 1
        if status == 200:
            ledger.acknowledged.add(number)
        return status

    async def _exchange(self, request: bytes) -> int:
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(self._url.host, self._url.port)
        self._writer.write(request)
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        await self._reader.readexactly(length)
        return int(head.split()[1])

    def close(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()


def _request(number: int) -> bytes:
    reports = reports_of(number)
    if len(reports) == 1:
        path, headers, body = (
            "reports",
            {"Content-Type": "application/json"},
            json.dumps({"key": key(number), "report": reports[0]}),
        )
    else:
        body = "".join(f'{{"report": {report}}}\n' for report in reports)
        path, headers = "batches", _ADMIN | {"Idempotency-Key": key(number), "Content-Type": "application/x-ndjson"}
    lines = {"Host": "test", "Content-Length": str(len(body))} | headers
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST {ROUTES}/{path} HTTP/1.1\r\n{head}\r\n{body}".encode()


@contextmanager
def _connections(urls: Sequence[str]) -> Iterator[list[Connection]]:
    opened = [Connection(url) for url in urls]
    try:
        yield opened
    finally:
        for connection in opened:
            connection.close()


async def _load(urls: Sequence[str], numbers: Iterator[int], ledger: Ledger, stop: asyncio.Event) -> None:
    """Send submissions from many clients, each to every service at once, until told to stop or none answers."""

    async def work() -> None:
        with _connections(urls) as opened:
            while not stop.is_set():
                number = next(numbers)
                answers = await asyncio.gather(*(each.send(number, ledger) for each in opened))
                if set(answers) == {None}:
                    return
                if 503 in answers:
                    await asyncio.sleep(0.25)

    await asyncio.gather(*(work() for _ in range(CLIENTS)))


def load_and(
    act: Callable[[], object], urls: Sequence[str], numbers: Iterator[int], ledger: Ledger, seconds: float
) -> None:
    """Load the services, do something to them some seconds after the first answer, and go on until none answers or
    `act` says stop.
    """

    async def run() -> None:
        stop, answered = asyncio.Event(), len(ledger.acknowledged)
        sending = asyncio.create_task(_load(urls, numbers, ledger, stop))
        while len(ledger.acknowledged) == answered and not sending.done():
            await asyncio.sleep(0.001)
        await asyncio.sleep(seconds)
        if await asyncio.to_thread(act):
            stop.set()
        await asyncio.wait_for(sending, 40)

    asyncio.run(run())


def send_again(url: str, numbers: Iterable[int], ledger: Ledger) -> None:
    """Send submissions once more, under their keys, and see every one of them acknowledged."""

    async def run() -> None:
        waiting = iter(sorted(numbers))

        async def work() -> None:
            with _connections([url]) as [connection]:
                for number in waiting:
                    assert await connection.send(number, ledger) == 200

        await asyncio.gather(*(work() for _ in range(CLIENTS)))

    asyncio.run(run())
