"""Where Spark is: a master's URL, checked before anything waits for it, and a session there."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from tacit.files.reading import InputError
from tacit.files.spark import plain_errors
from tacit.files.spark_files import SparkFiles
from tacit.files.spark_folders import in_another_thread

_KNOWN = re.compile(r"local(-cluster)?(\[[^\]]*\])?|yarn|(spark|sc|k8s)://.+")
#: So long a port may take to answer, and a cluster to give an executor before somebody is told.
_ANSWER_SECONDS, _EXECUTOR_SECONDS = 5.0, 15.0
_CONNECT_PORT = 15002
#: How HTTP/2 begins, which is what Spark Connect speaks: both sides say their settings. To anything else PySpark would
#: try again for minutes.
_SETTINGS = 4
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, _SETTINGS, 0, 0, 0, 0, 0])
#: Where one of these is set, Spark Connect goes through it, and a port that does not answer us may answer it.
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")


@contextmanager
def connected(master: str | None) -> Iterator[SparkFiles]:
    """A session at a master's URL (sc://… for Spark Connect), or where Spark's own settings say; ended afterwards.

    A session that is there already is used, and stays.
    """
    if master is not None:
        check_master(master)
    from pyspark.sql import SparkSession

    there = SparkSession.getActiveSession()
    if there is not None:
        yield SparkFiles(there)
        return
    with plain_errors(starting=True):
        session = _started(SparkSession.builder.appName("tacit"), master)
    watch = threading.Timer(_EXECUTOR_SECONDS, _tell_of_no_executor, [session])
    watch.daemon = True
    watch.start()
    try:
        with _quietly_interrupted():
            yield SparkFiles(session)
    finally:
        watch.cancel()
        in_another_thread(lambda: _stop(session))


@contextmanager
def _quietly_interrupted() -> Iterator[None]:
    """An interrupt is an exception, no more. PySpark's own handler asks Spark in the middle of another question, and
    Py4J logs the stack.
    """

    def is_ours(record: logging.LogRecord) -> bool:
        return "py4j" not in record.pathname

    logging.getLogger().addFilter(is_ours)
    in_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.default_int_handler) if in_main else None
    try:
        yield
    finally:
        logging.getLogger().removeFilter(is_ours)
        if before is not None:
            signal.signal(signal.SIGINT, before)


def _stop(session: Any) -> None:
    with suppress(Exception):  # Whatever went wrong was said, or is on its way.
        session.stop()


def _started(builder: Any, master: str | None) -> Any:
    if master is not None and master.startswith("sc://"):
        return builder.remote(master).getOrCreate()
    if master is not None:
        builder = builder.master(master)
    if (master or "").startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # What fails is said in a sentence; whole stacks are in the executors' logs.
    builder = builder.config("spark.log.level", "FATAL")
    return builder.config("spark.ui.showConsoleProgress", sys.stderr.isatty()).getOrCreate()


def check_master(master: str) -> None:
    """Raise where it is no URL of a master, or where nothing answers at its port."""
    if not _KNOWN.fullmatch(master):
        scheme = f"'{master.partition('://')[0]}://…'" if "://" in master else "another word"
        raise InputError(
            "The 'master' must be spark://HOST:PORT, sc://HOST:PORT, yarn, k8s://… or local[CORES]. "
            f"Got {scheme} instead."
        )
    places = places_of(master)
    named = " or ".join(f"{host}:{port}" for host, port in places)
    if places and not any(_answers(*place) for place in places):
        raise InputError(f"Nothing answers at {named}.")
    # Behind TLS there is nothing to hear without its keys.
    in_the_clear = master.startswith("sc://") and not re.search(r"[;/](token|use_ssl)=", master)
    if in_the_clear and not all(_answers(*place, _HELLO, _SETTINGS) for place in places):
        raise InputError(f"What answers at {named} is not Spark Connect, whose port is mostly {_CONNECT_PORT}.")


def places_of(master: str) -> list[tuple[str, int]]:
    """The hosts and ports of a spark:// or sc:// URL that can be tried from here.

    >>> places_of("spark://one:7077,two:7078"), places_of("sc://gateway/;token=secret"), places_of("yarn")
    ([('one', 7077), ('two', 7078)], [('gateway', 15002)], [])
    """
    scheme, _, rest = master.partition("://")
    if scheme not in ("spark", "sc") or (scheme == "sc" and any(os.environ.get(each) for each in _PROXIES)):
        return []
    places = []
    for place in rest.split(",") if scheme == "spark" else [rest]:
        try:
            parts = urlsplit(f"//{place}")
            host, port = parts.hostname, parts.port or (_CONNECT_PORT if scheme == "sc" else None)
        except ValueError:
            host, port = None, None
        if host is None or port is None:
            raise InputError(f"The 'master' must be {scheme}://HOST:PORT. Got no host and port that can be read.")
        places.append((host, port))
    return places


def _answers(host: str, port: int, said: bytes = b"", heard: int | None = None) -> bool:
    """Whether a port answers; and, where something is said to it, with a frame of this type."""
    try:
        with socket.create_connection((host, port), _ANSWER_SECONDS) as connection:
            connection.sendall(said)
            frame = b""
            while heard is not None and len(frame) < 4:
                if not (more := connection.recv(9)):
                    return False
                frame += more
            return heard is None or frame[3] == heard
    except OSError:
        return False


def _tell_of_no_executor(session: Any) -> None:
    """Say that a cluster has given nobody yet, where that can be seen: not behind Spark Connect."""
    with suppress(Exception):
        context = session.sparkContext
        # The driver is one of them.
        if not context.master.startswith("local") and context._jsc.sc().getExecutorMemoryStatus().size() <= 1:
            told = f"The cluster has given no executor in {_EXECUTOR_SECONDS:.0f} seconds; still waiting."
            hint = "Has it workers, with the cores and the memory that executors ask for?"
            print(f"note: {told} {hint}", file=sys.stderr, flush=True)
