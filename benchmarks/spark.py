"""What the Spark engine costs: CPU and wall time for a million rows, from one worker to two, and where the time goes.

    python benchmarks/spark.py [--rows N] [--workers 1 2]

A cluster is started on this machine for each number of workers, and each executor, with its Python processes, is held
to a core of its own. CPU time is theirs, read from /proc: unlike wall time it hardly depends on who else uses the
machine.
Baselines in the same run: Spark copying the same file without Python; Arrow batches to Python and back, untouched; the
embedded engine.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from files import make_plan, write_answers
from tacit.files import perturb_file, spark, tally_file

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support import spark_cluster

FILES = 16
MANY = 10**10
CORES = 1000


def untouched(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What it costs to take rows to Python and back."""
    yield from batches


def cpu_seconds(roots: list[int]) -> float:
    """Of these processes and all their descendants, the ended ones included."""
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        stats[int(path.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    inside = set(roots)
    while more := {pid for pid, (parent, _) in stats.items() if parent in inside} - inside:
        inside |= more
    return sum(stats[pid][1] for pid in inside if pid in stats) / os.sysconf("SC_CLK_TCK")


def hold(process: int, core: int) -> None:
    """Let all threads of a process, and what they start from now on, use one core."""
    for thread in Path(f"/proc/{process}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {core})


class Measured:
    """Jobs on a cluster: wall and CPU seconds of each."""

    def __init__(self, executors: list[int], folder: Path) -> None:
        self._executors, self._folder, self._count = executors, folder, 0
        self.times: dict[str, tuple[float, float]] = {}

    def run(self, name: str, job: Callable[[str], Any]) -> Any:
        """Twice to warm up, so that every executor has its Python, and once."""
        for _ in range(3):
            self._count += 1
            wall, cpu = perf_counter(), cpu_seconds(self._executors)
            result = job(str(self._folder / f"out-{self._count}"))
            self.times[name] = perf_counter() - wall, cpu_seconds(self._executors) - cpu
        return result


def on_cluster(workers: int, rows: int, folder: Path) -> dict[str, tuple[float, float]]:
    plan = make_plan()
    # Without the tests' settings for a quick start, which compile less well.
    quick = {f"spark.{who}.extraJavaOptions": "-XX:+UseSerialGC" for who in ("driver", "executor")}
    # A task for each file.
    one = max(path.stat().st_size for path in folder.iterdir()) * 3 // 2
    sizes = {"spark.sql.files.maxPartitionBytes": f"{one}b", "spark.sql.files.openCostInBytes": "1b"}
    with (
        tempfile.TemporaryDirectory() as made,
        spark_cluster.running(workers, memory=1024, **quick, **sizes) as session,
    ):
        frame = session.read.parquet(str(folder))
        frame.count()
        executors = spark_cluster.executors(session)
        if len(executors) != workers:
            raise SystemExit(f"{workers} executors should run. There are {len(executors)}.")
        for core, executor in enumerate(executors):
            hold(executor, core)
        jobs, files = Measured(executors, Path(made)), spark.SparkFiles(session)
        jobs.run("Spark copies the file", lambda out: frame.write.parquet(out))
        jobs.run("through Python, untouched", lambda out: frame.mapInArrow(untouched, frame.schema).write.parquet(out))
        done = jobs.run("perturb", lambda out: files.perturb_file(plan, frame, out))
        reports = session.read.parquet(*map(str, sorted(Path(made).glob("out-*"))[-1:]))
        counted = jobs.run("tally", lambda out: files.tally_file(plan, reports))
    if done.reports != rows or counted.n_reports != rows:
        raise SystemExit("reports were lost")
    return jobs.times


def embedded(answers: Path, folder: Path) -> dict[str, tuple[float, float]]:
    plan, times = make_plan(), {}
    jobs: dict[str, Callable[[], Any]] = {
        "perturb, embedded": lambda: perturb_file(plan, answers, folder / "reports.parquet"),
        "tally, embedded": lambda: tally_file(plan, folder / "reports.parquet"),
    }
    for name, job in jobs.items():
        for _ in range(2):
            wall, cpu = perf_counter(), process_time()
            job()
            times[name] = perf_counter() - wall, process_time() - cpu
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    asked = parser.parse_args()
    console = Console(highlight=False, width=110)
    if missing := spark_cluster.missing():
        raise SystemExit(f"{missing} is missing: tools/system-packages.sh java")
    with tempfile.TemporaryDirectory() as folder:
        answers, parts = Path(folder) / "answers.parquet", Path(folder) / "parts"
        write_answers(answers, asked.rows)
        parts.mkdir()
        for k in range(FILES):
            write_answers(parts / f"{k}.parquet", asked.rows // FILES)
        found = {"": embedded(answers, Path(folder))}
        for workers in asked.workers:
            found[f"{workers}"] = on_cluster(workers, asked.rows // FILES * FILES, parts)
    table = Table("what", "workers", "wall s", "rows / s", "CPU s per million rows")
    millions = asked.rows / 1e6
    for workers, times in found.items():
        for name, (wall, cpu) in times.items():
            table.add_row(name, workers, f"{wall:.1f}", f"{asked.rows / wall:,.0f}", f"{cpu / millions:.2f}")
    console.print(table)
    console.print(
        f"{asked.rows:,} rows; load of the machine at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores."
    )
    first = found[f"{asked.workers[0]}"]
    for name in ("perturb", "tally"):
        hours = first[name][1] / millions * MANY / 1e6 / 3600
        minutes = hours * 60 / CORES
        console.print(f"{name} of {MANY:,} rows: {hours:,.1f} core-hours, {minutes:,.1f} minutes on {CORES:,} cores.")
        if len(asked.workers) > 1:
            last = found[f"{asked.workers[-1]}"]
            ratio = first[name][0] / last[name][0]
            console.print(f"{name}, from {asked.workers[0]} to {asked.workers[-1]} workers: {ratio:.2f} times as fast.")


if __name__ == "__main__":
    main()
