"""Folders that Spark writes: whether one is complete, which files it has, and no empty one left of a run that failed.

Whatever a session reaches is asked through the session itself, so this works behind Spark Connect as well.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tacit.files.columns import STAMP, InputError
from tacit.files.folders import DONE, UNDONE, still_written
from tacit.tally import Sources

#: The names that Spark gives to files: a number, and a random number of the job that wrote them.
_PART_NAME = re.compile(r"part-\d+-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b.*")
#: So long a job that was interrupted may take to clear up.
_CLEARING_SECONDS = 5.0


def check_begun(session: Any, path: str) -> None:
    """Raise where somebody is writing to the folder, or was stopped while writing."""
    if not _is_pattern(path) and _exists(session, f"{path.rstrip('/')}/{UNDONE}"):
        raise InputError(still_written(path))


def check_done(session: Any, path: str, frame: Any) -> None:
    """Raise where a folder of our reports is incomplete; say so where somebody else's may be.

    A path with a pattern is somebody's choice of files, and taken as it is.
    """
    if _is_pattern(path) or _exists(session, f"{path.rstrip('/')}/{DONE}"):
        return
    if is_one_file(path, frame.inputFiles()):
        return
    if STAMP in frame.columns:
        raise InputError(
            f"{path} has no file '{DONE}', so not all reports may be in it. Write it again, to a new folder; "
            f"or name its files, as in '{path.rstrip('/')}/*.parquet', to count those that are there."
        )
    print(f"note: {path} has no file '{DONE}': is it complete?", file=sys.stderr)


def _is_pattern(path: str) -> bool:
    return any(letter in path for letter in "*?[{")


def is_one_file(path: str, files: Iterable[str]) -> bool:
    """Whether the files that were found under a path are the path itself.

    >>> is_one_file("hdfs:///a b.csv", ["hdfs://name:8020/a%20b.csv"]), is_one_file("a", ["file:/a/part.csv"])
    (True, False)
    """
    asked = path.rstrip("/").rpartition("://")[2].removeprefix("file:").lstrip("./")
    return [unquote(file).endswith(f"/{asked}") for file in files] == [True]


def _exists(session: Any, path: str) -> bool:
    """Whether there is a file or a folder. Spark looks when it makes the frame, and reads nothing."""
    from pyspark.errors import AnalysisException

    try:
        return bool(session.read.format("binaryFile").load(path).columns)
    except AnalysisException as error:
        if "PATH_NOT_FOUND" in str(error):
            return False
        raise
    except Exception:  # A storage that has no such names, such as one below a file: nothing is known.
        return False


def sources_of_parts(files: Iterable[str]) -> Sources:
    """Names of what was counted, so that the same files are not counted twice: Spark's names differ from job to job.

    A copy under another name, or the same file on one machine, which goes by its content, is not recognised.
    """
    names = [_name(unquote(file)) for file in files]
    if not names or not all(_PART_NAME.fullmatch(name.rpartition("/")[2]) for name in names):
        return Sources.drawn()
    return Sources.of_names(names)


def _name(path: str) -> str:
    """The file's name, with the folders above it that have the cells of a partition.

    >>> _name("hdfs://name/reports/region=x/part-0.parquet")
    'region=x/part-0.parquet'
    """
    *folders, name = path.split("/")
    cells: list[str] = []
    while folders and "=" in folders[-1]:
        cells.insert(0, folders.pop())
    return "/".join([*cells, name])


@contextmanager
def nothing_left(session: Any, target: str) -> Iterator[None]:
    """Remove the empty folder that a job leaves when it fails or is interrupted; never one that was there before.

    Behind Spark Connect only where this machine has the folder, too.
    """
    folder = _Folder(session, target)
    was_there = folder.exists()
    try:
        yield
    except Exception:
        if not was_there:
            folder.remove_empty()
        raise
    except BaseException:  # Interrupted: the job, which has not heard of it yet, makes the folder or clears it.
        in_another_thread(lambda: _clear_up(session, None if was_there else folder))
        raise


def _clear_up(session: Any, folder: _Folder | None) -> None:
    """Cancel the jobs of the session, as PySpark does, and remove the folder when it is empty."""
    with suppress(Exception):
        if getattr(session, "_jsparkSession", None) is not None:
            session.sparkContext.cancelAllJobs()
        else:
            session.interruptAll()
    deadline = time.monotonic() + _CLEARING_SECONDS
    while folder is not None and not folder.remove_empty() and time.monotonic() < deadline:
        time.sleep(0.2)


def in_another_thread(work: Callable[[], None]) -> None:
    """Do it, and wait. After an interrupt this thread's connection to Spark still has an answer that nobody read."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(3 * _CLEARING_SECONDS)


class _Folder:
    """A folder through Hadoop, or behind Spark Connect on this machine."""

    def __init__(self, session: Any, path: str) -> None:
        self._hadoop: Any = None
        self._path: Any = Path(path.removeprefix("file://"))
        if getattr(session, "_jsparkSession", None) is not None:
            self._path = session._jvm.org.apache.hadoop.fs.Path(path)
            with suppress(Exception):
                self._hadoop = self._path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())

    def exists(self) -> bool:
        try:
            return bool(self._path.exists() if self._hadoop is None else self._hadoop.exists(self._path))
        except Exception:
            return True

    def remove_empty(self) -> bool:
        """Whether it was there, was empty, and is gone."""
        if not self.exists():
            return False
        try:
            if self._hadoop is not None:
                return bool(self._hadoop.delete(self._path, False))
            self._path.rmdir()
        except Exception:
            return False
        return True
