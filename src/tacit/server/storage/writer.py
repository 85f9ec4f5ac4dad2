"""Group commit: one thread writes, and all that arrives while it commits goes into the next transaction together.

A group holds submissions and exchanges of invitations, of all surveys. Each is answered only after the commit that
holds it, so acknowledged means durable; under load many share one sync to disk, which is what makes durability
affordable. A request that waits too long for the database is refused with 503; its submission may still be counted,
once, however often it is sent again.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import perf_counter
from typing import Any, TypeVar

from tacit.server.problems import BusyError
from tacit.server.storage.counting import Job, Redemption, Submission
from tacit.server.storage.store import Outcome, Store
from tacit.server.storage.vault import CROWD

T = TypeVar("T")
#: The most submissions that are committed together, so that none waits long.
_LARGEST_GROUP = 4096
#: Seconds until a database that does not answer is said not to; more jobs than this do not wait for it.
PATIENCE, _LONGEST_QUEUE = 8.0, 50_000
#: After a group of this size, the next one waits for a crowd, for at most these seconds.
_BUSY, _LINGER = 4, 0.01
#: Seconds of quiet before the database's log is tidied, seconds after which it is without any, and seconds for the last
#: jobs when the service stops.
_QUIET, _UNTIDY, _LAST = 1.0, 30.0, 3.0

_Job = tuple[Job | Callable[[], Any], "asyncio.Future[Any]"]


class Writer:
    """The only one who writes to the store while the service runs."""

    def __init__(self, store: Store, committed: Callable[[int, float], Any] = lambda size, seconds: None) -> None:
        self._store, self._committed = store, committed
        self._jobs: deque[_Job] = deque()
        #: The thread is woken when this many jobs wait, not by each of them: a switch of threads costs more than a job.
        self._wanted, self._enough = 1, threading.Event()
        self._stopping = False
        self._last_size = 0
        self._busy_since = math.inf
        self._tidied = perf_counter()
        self._thread = threading.Thread(target=self._work, name="tacit-writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Finish what was handed in, unless the database does not answer, then stop."""
        self._stopping = True
        self._enough.set()
        self._thread.join(_LAST)

    @property
    def waiting(self) -> int:
        """How many jobs wait for their turn."""
        return len(self._jobs)

    async def submit(self, job: Job) -> Outcome:
        """Count a submission or exchange an invitation; returns when it is on disk."""
        return await self._hand_in(job)

    async def run(self, work: Callable[[], T]) -> T:
        """Do another piece of writing, alone, in its turn."""
        return await self._hand_in(work)

    async def _hand_in(self, job: Job | Callable[[], Any]) -> Any:
        if len(self._jobs) > _LONGEST_QUEUE:
            raise BusyError("Too many wait for the database.")
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._jobs.append((job, future))
        if len(self._jobs) >= self._wanted:
            self._enough.set()
        # `asyncio.timeout` would take several times as long.
        patience = loop.call_later(PATIENCE, self._give_up, future)
        try:
            return await future
        finally:
            patience.cancel()

    def _give_up(self, future: asyncio.Future[Any]) -> None:
        """Let a request go, and end a connection that has not answered for long: the next job gets a fresh one."""
        if not future.done():
            future.set_exception(BusyError(f"The database took longer than {PATIENCE:g} seconds."))
        if perf_counter() - self._busy_since >= PATIENCE and self._thread.ident is not None:
            self._store.database.give_up(self._thread.ident)

    @contextmanager
    def _busy(self) -> Iterator[None]:
        """While the block lasts, the database is asked: whoever waits for it too long may end its connection."""
        self._busy_since = perf_counter()
        try:
            yield
        finally:
            self._busy_since = math.inf

    def _work(self) -> None:
        while jobs := self._next():
            group = [(job, future) for job, future in jobs if isinstance(job, Submission | Redemption)]
            if group:
                self._finish([future for _, future in group], lambda g=group: self._write(g))  # type: ignore[misc]
            for job, future in jobs:
                if not isinstance(job, Submission | Redemption):
                    self._finish([future], lambda work=job: [work()])  # type: ignore[misc]
            self._count_piece()
            if not self._store.tidied and perf_counter() - self._tidied > _UNTIDY:
                self._tidy()

    def _next(self) -> list[_Job]:
        """Everything that is waiting, at least one job; none if the service stops.

        While none waits, large batches are counted piece by piece; when none comes for a while, the database's log is
        tidied. While many come, a few wait for more: a crowd is counted at less cost than few.
        """
        until = perf_counter() + _LINGER
        while self._store.counting.arriving and not (self._jobs or self._stopping):
            self._count_piece()
        if not self._waiting_for(1, _QUIET):
            self._tidy()
            self._waiting_for(1, None)
        if self._last_size >= _BUSY:
            self._waiting_for(CROWD, max(0.0, until - perf_counter()))
        self._last_size = min(len(self._jobs), _LARGEST_GROUP)
        return [self._jobs.popleft() for _ in range(self._last_size)]

    def _waiting_for(self, wanted: int, seconds: float | None) -> bool:
        """Wait until this many jobs wait or the service stops, for at most these seconds."""
        self._wanted = wanted
        self._enough.clear()
        return len(self._jobs) >= wanted or self._stopping or self._enough.wait(seconds)

    def _count_piece(self) -> None:
        if self._store.counting.arriving:
            try:
                with self._busy():
                    self._store.counting.count_piece()
            except Exception:
                # Nothing is lost, and it is tried again with the next large batch or in the next round.
                self._store.counting.arriving = False

    def _tidy(self) -> None:
        # A failure here is met again by the next request, which reports it.
        with suppress(Exception), self._busy():
            self._store.tidy()
        self._tidied = perf_counter()

    def _write(self, group: Sequence[tuple[Job, Any]]) -> Sequence[Any]:
        began = perf_counter()
        outcomes = self._store.write([job for job, _ in group])
        self._committed(len(group), perf_counter() - began)
        return outcomes

    def _finish(self, futures: Sequence[asyncio.Future[Any]], work: Callable[[], Sequence[Any]]) -> None:
        """Do the work and hand each future its result, all of one loop at once; an error goes to all of them."""
        try:
            with self._busy():
                results = work()
        except Exception as failure:
            results = [failure] * len(futures)
        # A loop that has ended has nobody who waits.
        with suppress(RuntimeError):
            futures[0].get_loop().call_soon_threadsafe(resolve, futures, results)


def resolve(futures: Sequence[asyncio.Future[Any]], results: Sequence[Any]) -> None:
    """Hand each future its result, or its failure."""
    for future, result in zip(futures, results, strict=True):
        if future.done():
            continue  # the request has ended
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
