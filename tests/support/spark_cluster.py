"""A real Spark for tests and benchmarks: a master and workers on loopback, from the package that pip brings."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from support.places import ROOT
from support.ports import free_port

_DEADLINE = 60
#: For machines that live for seconds: little is compiled, nothing is verified.
QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
#: Spark's classes as Java has them in memory, if `spark_classes.py` has made it: no class is read from its jar again.
CLASSES = Path(sys.prefix) / "spark-classes.jsa"
#: Settings of a session whose Python processes are forks of one that has imported everything.
FORKS = {
    "spark.python.daemon.module": "support.spark_daemon",
    "spark.executorEnv.PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}",
}


def java_options() -> str:
    """For every machine of a cluster."""
    return f"{QUICK} -XX:SharedArchiveFile={CLASSES}" if CLASSES.exists() else QUICK


def missing() -> str | None:
    """What is not there of what Spark needs."""
    if find_spec("pyspark") is None:
        return "pyspark"
    return None if shutil.which("java") else "Java"


class Cluster:
    """A master and workers of one core each; `environment` is for whoever drives jobs on it."""

    def __init__(self, folder: Path, memory: str) -> None:
        import pyspark

        self._folder, self._memory, self._home = folder, memory, Path(pyspark.__file__).parent
        self._port, self._page = free_port(), free_port()
        self._processes: list[subprocess.Popen[bytes]] = []
        self.master = f"spark://127.0.0.1:{self._port}"
        self.environment = {
            "SPARK_HOME": str(self._home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(folder / "scratch"),
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": java_options(),
            "PYSPARK_PYTHON": sys.executable,
            "OPENBLAS_NUM_THREADS": "1",
        }

    @property
    def workers(self) -> list[int]:
        """The processes of the workers, whose children are the executors."""
        return [process.pid for process in self._processes[1:]]

    def session(self, **settings: str) -> Any:
        """A session of this process on the cluster, with small and quickly started machines."""
        from pyspark.sql import SparkSession

        os.environ.update(self.environment)
        builder = SparkSession.builder.master(self.master).appName("tests")
        chosen = {
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.driver.extraJavaOptions": java_options(),
            "spark.executor.extraJavaOptions": java_options(),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.log.level": "FATAL",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        for name, value in (chosen | settings).items():
            builder = builder.config(name, value)
        return builder.getOrCreate()

    def start(self, workers: int) -> None:
        """Start, and return when all workers are there."""
        place = ("--host", "127.0.0.1", "--port", str(self._port), "--webui-port", str(self._page))
        self._start("master", "org.apache.spark.deploy.master.Master", *place)
        for k in range(workers):
            room = ("--cores", "1", "--memory", self._memory, "--host", "127.0.0.1", "--webui-port", "0")
            where = ("--work-dir", str(self._folder / f"worker-{k}"), self.master)
            self._start(f"worker-{k}", "org.apache.spark.deploy.worker.Worker", *room, *where)
        deadline = time.monotonic() + _DEADLINE
        while self._alive() < workers:
            if time.monotonic() > deadline or any(process.poll() is not None for process in self._processes):
                logs = "".join(path.read_text()[-2000:] for path in self._folder.glob("*.log"))
                raise RuntimeError(f"Spark does not start: {logs}")
            time.sleep(0.1)

    def stop(self) -> None:
        """End all processes that were started; executors end with their workers."""
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            process.wait(_DEADLINE)

    def _start(self, name: str, program: str, *words: str) -> None:
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes.append(
                subprocess.Popen(
                    [str(self._home / "bin" / "spark-class"), program, *words],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self._folder,
                    start_new_session=True,
                    env=os.environ | self.environment,
                )
            )

    def _alive(self) -> int:
        """How many workers the master knows."""
        with contextlib.suppress(URLError, ConnectionError), urlopen(f"http://127.0.0.1:{self._page}/json/") as page:
            return page.read().count(b'"ALIVE"') - 1
        return 0


@contextlib.contextmanager
def running(workers: int = 2, memory: str = "600m") -> Iterator[Cluster]:
    """A cluster for the time of the block."""
    with tempfile.TemporaryDirectory(prefix="tacit-spark-", ignore_cleanup_errors=True) as folder:
        cluster = Cluster(Path(folder), memory)
        try:
            cluster.start(workers)
            yield cluster
        finally:
            cluster.stop()
