"""How many reports several services on one PostgreSQL take together, with every acknowledged one on disk.

    python benchmarks/serve_many.py URL [--processes 1 2 4] [--seconds S]

The database's own limit, in the same run: as many connections as there are services, each committing transactions that
do what a service's do for a crowd of 32 reports, with nothing in front of them. Where the services stay below it, what
stops them is the machine's cores, which the load shares.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
import threading
from pathlib import Path
from time import perf_counter

from rich.console import Console
from rich.table import Table
from serve import counted, load, make_plan, service

from tacit.randomize.randomness import secret_bytes
from tacit.server.run import today
from tacit.server.storage.store import Store, Submission, survey_id

CROWD = 32


def services(where: str, processes: int, seconds: int) -> float:
    """Reports per second of so many services, each with a load of its own."""
    survey = survey_id(make_plan())
    with contextlib.ExitStack() as running:
        ports = [running.enter_context(service(where)) for _ in range(processes)]
        before = counted(ports[0], survey)
        answers = [0] * processes

        def work(nth: int) -> None:
            answers[nth] = load(f"http://127.0.0.1:{ports[nth]}/api/surveys/{survey}/reports", seconds).answers

        took = _at_once(processes, work)
        if counted(ports[0], survey) - before < sum(answers):
            raise SystemExit("an acknowledged report was not counted")
    return sum(answers) / took


def database(where: str, processes: int, seconds: int) -> float:
    """Reports per second of so many stores without a service, each in crowds."""
    survey, stores = survey_id(make_plan()), [Store(where, today) for _ in range(processes)]
    stores[0].create(make_plan())
    done = [0] * processes

    def work(nth: int) -> None:
        end = perf_counter() + seconds
        while perf_counter() < end:
            stores[nth].count([Submission(survey, secret_bytes(16).hex(), ((1, 1, 1),)) for _ in range(CROWD)])
            done[nth] += CROWD

    took = _at_once(processes, work)
    for store in stores:
        store.close()
    return sum(done) / took


def _at_once(processes: int, work) -> float:
    threads = [threading.Thread(target=work, args=[nth]) for nth in range(processes)]
    start = perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="of an empty PostgreSQL database")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--seconds", type=int, default=4, help="of each measurement")
    options = parser.parse_args()
    table = Table("processes", "services: reports / s", "database alone: reports / s")
    for column in table.columns:
        column.justify = "right"
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TACIT_SECRETS"] = str(Path(folder) / "secrets")
        for processes in options.processes:
            rates = [each(options.url, processes, options.seconds) for each in (services, database)]
            table.add_row(str(processes), *(f"{rate:,.0f}" for rate in rates))
    Console().print(table)


if __name__ == "__main__":
    main()
