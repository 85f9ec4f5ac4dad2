"""Collectors with a fault, which the crash tests must find: `python wrong_servers.py FAULT serve …`."""

from __future__ import annotations

import sys
import time

from tacit.__main__ import main
from tacit.server import store, writer


def answers_first() -> None:
    """Acknowledges what is not on disk yet."""
    finish = writer.Writer._finish

    def early(futures, work):  # type: ignore[no-untyped-def]
        finish(futures, lambda: ["counted"] * len(futures))
        time.sleep(0.2)
        work()

    writer.Writer._finish = staticmethod(early)  # type: ignore[method-assign]


def forgets_keys() -> None:
    """Counts a retry again."""
    store.Store._remember = lambda self, connection, survey, keys, look: keys  # type: ignore[method-assign]


def commits_keys_first() -> None:
    """Keeps a key and counts its report in two transactions, so a crash between them loses the report for good."""
    remember = store.Store._remember

    def early(self, connection, survey, keys, look):  # type: ignore[no-untyped-def]
        fresh = remember(self, connection, survey, keys, look)
        connection.exec_driver_sql("COMMIT")
        time.sleep(0.2)
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        return fresh

    store.Store._remember = early  # type: ignore[method-assign]


if __name__ == "__main__":
    {"answers-first": answers_first, "forgets-keys": forgets_keys, "commits-keys-first": commits_keys_first}[
        sys.argv.pop(1)
    ]()
    main()
