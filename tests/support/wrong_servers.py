"""Collectors with a fault, which the crash tests must find: `python wrong_servers.py FAULT serve …`."""

from __future__ import annotations

import itertools
import sys
import time

from tacit.__main__ import main
from tacit.randomize.randomness import secret_bytes
from tacit.server.http import batches
from tacit.server.storage import counting, writer

_pauses = itertools.count()


def pause() -> None:
    """Short at first, so that some are counted, and then until somebody kills it here."""
    time.sleep(0.05 if next(_pauses) < 3 else 600)


def answers_first() -> None:
    """Acknowledges what is not on disk yet."""
    finish = writer.Writer._finish

    def early(self, futures, work):  # type: ignore[no-untyped-def]
        finish(self, futures, lambda: ["counted"] * len(futures))
        pause()
        work()

    writer.Writer._finish = early  # type: ignore[method-assign]


def forgets_keys() -> None:
    """Counts a retry again."""
    counting.tag = lambda secret, kind, content: secret_bytes(16).hex()


def commits_keys_first() -> None:
    """Keeps a key and counts its report in two transactions, so a crash between them loses the report for good."""
    settle = counting.Counting._settle

    def early(self, connection, changed, adding):  # type: ignore[no-untyped-def]
        replaced = settle(self, connection, changed, adding)
        if adding.anything:
            connection.exec_driver_sql("COMMIT")
            pause()
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        return replaced

    counting.Counting._settle = early  # type: ignore[method-assign]


def small_pieces() -> None:
    """No fault: takes every batch for a large one."""
    counting.PIECE = batches.PIECE = 2


if __name__ == "__main__":
    faults = (answers_first, forgets_keys, commits_keys_first, small_pieces)
    {fault.__name__.replace("_", "-"): fault for fault in faults}[sys.argv.pop(1)]()
    main()
