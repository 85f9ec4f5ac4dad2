"""Several processes on one PostgreSQL, played by stores in threads: keys collide, and every count stays exact."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from tacit.server.storage.store import Store, Submission, survey_id

from support.service import Days, grouped_plan, key, plain_plan, stored

PLAIN, GROUPED = survey_id(plain_plan()), survey_id(grouped_plan())
#: Nothing here may wait for a lock in a circle; PostgreSQL would notice after a second and fail the transaction.
SECONDS = 40


@pytest.fixture
def stores(on_postgres: str, days: Days) -> Iterator[list[Store]]:
    opened = [Store(on_postgres, days) for _ in range(4)]
    for plan in (plain_plan(), grouped_plan()):
        opened[0].create(plan)
    yield opened
    for store in opened:
        store.close()


def at_once(*works: Callable[[], object]) -> list[object]:
    """Do all of it at the same time; raises what any of it raises."""
    ready = threading.Barrier(len(works))

    def start(work: Callable[[], object]) -> object:
        ready.wait(10)
        return work()

    with ThreadPoolExecutor(len(works)) as threads:
        return [future.result(SECONDS) for future in [threads.submit(start, work) for work in works]]


def test_colliding_keys_count_once(stores: list[Store]):
    all_keys = [(survey, number) for survey in (PLAIN, GROUPED) for number in range(300)]
    #: What a key brings depends on the key alone, as with a client that sends the same again.
    sent = {place: Submission(place[0], key(place[1]), ((0, place[1] % 2, 1),)) for place in all_keys}

    def submit(store: Store, seed: int) -> Counter[tuple[str, str]]:
        mine, outcomes, chosen = list(all_keys), Counter(), random.Random(seed)
        chosen.shuffle(mine)
        while mine:
            size = chosen.randrange(1, 60)
            group, mine = mine[:size], mine[size:]
            for place, outcome in zip(group, store.count([sent[place] for place in group]), strict=True):
                outcomes[sent[place].key + place[0], outcome] += 1
        return outcomes

    started = time.monotonic()
    works = [lambda store=store, seed=seed: submit(store, seed) for seed, store in enumerate(stores)]
    outcomes: Counter[tuple[str, str]] = sum(at_once(*works), Counter())  # type: ignore[arg-type]
    assert time.monotonic() - started < SECONDS
    counted = Counter({name: n for (name, outcome), n in outcomes.items() if outcome == "counted"})
    assert set(counted.values()) == {1}, "each key is told 'counted' to exactly one sender"
    assert len(counted) == len(all_keys)
    assert stored(stores[0]) == {(survey, 0, report): 150 for survey in (PLAIN, GROUPED) for report in (0, 1)}


@pytest.mark.parametrize("many", [1, 30], ids=["few", "a crowd"])
def test_who_comes_between_look_up_and_insertion_waits(stores: list[Store], many: int):
    """The narrowest case, made certain: the other starts after the look-up and before the insertion."""
    first, second, *_ = stores
    assert first.count([Submission(PLAIN, key(4), ((0, 1, 1),))]) == ["counted"]
    others = [Submission(PLAIN, key(number), ((0, 1, 1),)) for number in (2, *range(100, 99 + many))]
    with ThreadPoolExecutor(1) as threads:
        running: list[Future[list[str]]] = []

        @sa.event.listens_for(first._writing, "after_cursor_execute")
        def looked_up(connection, cursor, statement: str, *_) -> None:
            if statement.startswith("SELECT k.survey, k.tag FROM") and not running:
                running.append(threads.submit(second.count, others))
                time.sleep(0.2)
                assert not running[0].done()

        group = [Submission(PLAIN, key(number), ((0, 1, 1),)) for number in (1, 2, 3, 4)]
        assert first.count(group) == ["counted", "counted", "counted", "already counted"]
        assert running[0].result(SECONDS) == ["already counted", *["counted"] * (many - 1)]
    assert stored(first) == {(PLAIN, 0, 1): 3 + many}


def test_a_survey_closes_between_groups_and_never_inside_one(stores: list[Store]):
    """Either a group came before the closing, then all of it is in the tally, or after, then none of it."""

    def submit(store: Store, first: int) -> int:
        counted, last = 0, time.monotonic() + SECONDS
        for number in itertools.count(first, 20):
            outcomes = set(store.count([Submission(PLAIN, key(n), ((0, 0, 1),)) for n in range(number, number + 20)]))
            assert len(outcomes) == 1
            if outcomes == {"closed"}:
                return counted
            counted += 20
            assert time.monotonic() < last, "the survey does not close while reports come"

    def close() -> int:
        time.sleep(0.3)
        stores[3].change(PLAIN, close=True)
        return 0

    counted = at_once(lambda: submit(stores[0], 0), lambda: submit(stores[1], 10**9), close)
    assert stored(stores[2]) == {(PLAIN, 0, 0): sum(counted)}  # type: ignore[arg-type]
    with stores[0]._reading.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM keys").scalar() == 0


def test_one_invitation_raced_for_two_messages_is_spent_once(stores: list[Store]):
    for number in range(30):
        invitation = number.to_bytes(16, "big")
        works = [
            lambda store=store, k=k: store.redeem(PLAIN, invitation, bytes([k]) * 32)  # noqa: B023 – done before the next
            for k, store in enumerate(stores)
        ]
        assert sorted(map(str, at_once(*works))) == ["redeemed", "spent", "spent", "spent"]


def test_processes_that_start_at_once_make_the_tables_once(on_postgres: str, days: Days):
    def start() -> None:
        store = Store(on_postgres, days)
        store.create(plain_plan())
        store.close()

    at_once(*[start] * 4)
    store = Store(on_postgres, days)
    assert len(store.surveys()) == 1
    store.close()


def test_two_processes_share_one_sqlite(tmp_path, days: Days):
    """One waits for the other; SQLite has one writer at a time."""
    opened = [Store(tmp_path, days), Store(tmp_path, days)]
    opened[0].create(plain_plan())

    def submit(store: Store) -> Counter[str]:
        groups = [[Submission(PLAIN, key(n + k), ((0, 0, 1),)) for k in range(3)] for n in range(60)]
        return Counter(outcome for group in groups for outcome in store.count(group))

    outcomes = at_once(*[lambda store=store: submit(store) for store in opened])
    assert sum((Counter(each) for each in outcomes), Counter()) == {"counted": 62, "already counted": 2 * 180 - 62}  # type: ignore[arg-type]
    assert stored(opened[0]) == {(PLAIN, 0, 0): 62}
    for store in opened:
        store.close()
