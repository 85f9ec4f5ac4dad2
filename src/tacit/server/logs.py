"""The log: one line of JSON per event, with its time and cause, and never more than one of a kind in ten seconds.

There is no access log, and no line holds an address, a key or a report.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

#: Seconds between two lines that say the same; the second says how many were left out.
PAUSE = 10.0


class JsonLines(logging.Formatter):
    """Time, level, event, cause, and how many of the same were not written."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, str | int] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        cause = getattr(record, "cause", None)
        if cause is None and record.exc_info and record.exc_info[1] is not None:
            cause = self.formatException(record.exc_info)
        if cause is not None:
            line["cause"] = cause
        if skipped := getattr(record, "skipped", 0):
            line["skipped"] = skipped
        return json.dumps(line, ensure_ascii=False)


class Seldom(logging.Filter):
    """Lets the first line of a kind through, and one again after a pause."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._last: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind, now = f"{record.name}: {record.msg}", self._clock()
        last, skipped = self._last.get(kind, (-PAUSE, 0))
        if now - last < PAUSE:
            self._last[kind] = last, skipped + 1
            return False
        self._last[kind] = now, 0
        record.skipped = skipped
        return True


def write_logs() -> None:
    """Write the service's log, and that of the server below it, to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    handler.addFilter(Seldom())
    for name in ("tacit.server", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.WARNING)
