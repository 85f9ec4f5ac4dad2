"""Killed at any moment under load, the service loses nothing that it acknowledged and counts nothing twice."""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest

from support import postgres as pg
from support import wrong_servers
from support.crash import BATCH_EVERY, BATCH_SIZE, Ledger, Service, load_and, reports_of, send_again, started

ROUNDS = 4
WRONG = wrong_servers.__file__


def test_killed_again_and_again(where: str, tmp_path: Path):
    """Every batch is counted in pieces, so that processes are killed between two of them."""
    chosen, numbers, ledger = random.Random(1), itertools.count(1), Ledger()
    fresh: set[int] = set()
    for nth in range(ROUNDS + 1):
        with started(where, tmp_path, (WRONG, "small-pieces")) as service:
            ledger.check_crash(service.counts())
            send_again(service.url, fresh, ledger)
            ledger.check_resent(service.counts())
            if nth == ROUNDS:
                send_again(service.url, ledger.sent, ledger)
                ledger.check_resent(service.counts())
                break
            before = set(ledger.sent)
            load_and(service.kill, [service.url], numbers, ledger, chosen.uniform(0.01, 0.3))
        fresh = ledger.sent - before
    assert set(ledger.statuses) == {200}
    assert len(ledger.sent) > 20 * ROUNDS
    assert len([number for number in ledger.sent if number % BATCH_EVERY == 0]) > ROUNDS


def test_two_services_share_a_postgresql_and_one_is_killed(on_postgres: str, tmp_path: Path):
    """Every submission goes to both at the same time, so that they race for every key."""
    numbers, ledger = itertools.count(1), Ledger()
    with started(on_postgres, tmp_path) as first, started(on_postgres, tmp_path) as second:

        def kill_first() -> bool:
            first.kill()
            time.sleep(0.2)
            return True

        load_and(kill_first, [first.url, second.url], numbers, ledger, 0.4)
        assert set(ledger.statuses) == {200}
        ledger.check_crash(second.counts())
        with started(on_postgres, tmp_path) as third:
            send_again(third.url, ledger.sent, ledger)
            ledger.check_resent(second.counts())
            assert second.counts() == third.counts()
    assert len(ledger.sent) > 50


def test_postgresql_itself_is_killed(tmp_path: Path):
    """The service goes on, says 503 while there is no database, and continues with the new one."""
    if pg.binaries() is None:
        pytest.skip("PostgreSQL is missing; the fixture of the other tests says it louder.")
    numbers, ledger = itertools.count(1), Ledger()
    with pg.running() as postgres, started(postgres.new_database(), tmp_path) as service:
        for _ in range(2):
            refused = ledger.statuses[503]

            def restart() -> bool:
                postgres.kill()
                # What was found healthy is not asked again for a second.
                time.sleep(1.1)
                health = httpx.get(f"{service.url}/healthz", timeout=30)
                assert (health.status_code, health.headers["content-type"]) == (503, "application/problem+json")
                postgres.start()
                time.sleep(0.2)
                return True

            load_and(restart, [service.url], numbers, ledger, 0.2)
            assert ledger.statuses[503] > refused
            assert set(ledger.statuses) == {200, 503}
            assert httpx.get(f"{service.url}/healthz", timeout=30).status_code == 200
            ledger.check_crash(service.counts())
        send_again(service.url, ledger.sent, ledger)
        ledger.check_resent(service.counts())
        assert "Traceback" not in service.output.read_text()


@pytest.mark.parametrize("fault", ["answers-first", "forgets-keys", "commits-keys-first"])
def test_collectors_with_a_fault_are_found(fault: str, tmp_path: Path):
    where, numbers, ledger = str(tmp_path / "data"), itertools.count(1), Ledger()
    with started(where, tmp_path, (WRONG, fault)) as service:
        # Two of them stop by themselves where they are to be killed; the third counts as long as it is left to.
        load_and(service.kill, [service.url], numbers, ledger, 0.1 if fault == "forgets-keys" else 0.9)
    assert ledger.acknowledged
    # What the crash has lost nobody finds; only who forgets keys has to be wrong again.
    again = (WRONG, fault) if fault == "forgets-keys" else ("-m", "tacit")
    with (
        started(where, tmp_path, again) as service,
        pytest.raises(AssertionError, match=r"lost|missing|twice"),
    ):
        check_all(service, ledger)


def check_all(service: Service, ledger: Ledger) -> None:
    """Both checks: right after the crash, and after everything was sent again."""
    ledger.check_crash(service.counts())
    send_again(service.url, ledger.sent, ledger)
    ledger.check_resent(service.counts())


# -- the check itself -----------------------------------------------------------------------------------------------


def counts(*numbers: int) -> Counter[int]:
    return Counter(report for number in numbers for report in reports_of(number))


LEDGER = Ledger({1, 2, 3, 10, 11, 20}, {1, 2, 10})


@pytest.mark.parametrize("more", [(), (3,), (3, 11, 20)])
def test_what_was_not_acknowledged_may_be_counted_or_not(more: tuple[int, ...]):
    LEDGER.check_crash(counts(1, 2, 10, *more))


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (counts(1, 10), "lost 1"),
        (counts(1, 2), "lost 1"),
        (counts(1, 2, 2, 10), "twice"),
        (counts(1, 2, 10, 3, 3), "twice"),
        (counts(1, 2, 10, 4), "never sent"),
        (counts(1, 2, 10) + Counter(reports_of(20)[:-1]), "1 reports are missing"),
        (counts(1, 2, 10) - Counter(reports_of(10)[:1]), "1 reports are missing"),
        (counts(1, 2, 10) + Counter([10 * BATCH_SIZE]), "twice"),
    ],
)
def test_the_check_after_a_crash_finds_every_fault(found: Counter[int], told: str):
    with pytest.raises(AssertionError, match=told):
        LEDGER.check_crash(found)


@pytest.mark.parametrize(
    "found", [counts(1, 2, 3, 10, 11), counts(1, 2, 3, 10, 11, 20, 20), counts(1, 2, 3, 10, 11, 21)]
)
def test_the_check_after_sending_again_finds_every_fault(found: Counter[int]):
    LEDGER.check_resent(counts(1, 2, 3, 10, 11, 20))
    with pytest.raises(AssertionError):
        LEDGER.check_resent(found)
