"""A real Spark for tests and benchmarks: master, workers and driver in one Java machine, executors in their own."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from support.places import ROOT

#: For machines that live for seconds: little is compiled, nothing is verified.
QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
#: Settings of a session whose Python processes are forks of one that has imported everything.
FORKS = {
    "spark.python.daemon.module": "support.spark_daemon",
    "spark.executorEnv.PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}",
}


def missing() -> str | None:
    """What is not there of what Spark needs."""
    if find_spec("pyspark") is None:
        return "pyspark"
    return None if shutil.which("java") else "Java"


@contextmanager
def running(workers: int = 2, memory: int = 512, **settings: str) -> Iterator[Any]:
    """A session on workers of one core, each with an executor of so many megabytes, for the time of the block."""
    import pyspark
    from pyspark.sql import SparkSession

    with tempfile.TemporaryDirectory(prefix="tacit-spark-", ignore_cleanup_errors=True) as folder:
        os.environ |= {
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": f"{folder}/scratch",
            "SPARK_WORKER_DIR": f"{folder}/work",
            "PYSPARK_PYTHON": sys.executable,
            "OPENBLAS_NUM_THREADS": "1",
        }
        builder = SparkSession.builder.master(f"local-cluster[{workers},1,{memory}]").appName("tests")
        chosen = {
            "spark.driver.memory": "512m",
            "spark.executor.memory": f"{memory}m",
            "spark.driver.extraJavaOptions": QUICK,
            "spark.executor.extraJavaOptions": QUICK,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.log.level": "FATAL",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        for name, value in (chosen | settings).items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        driver = session.sparkContext._gateway.proc
        try:
            yield session
        finally:
            session.stop()
            # It ends when no process holds the other end of its input.
            driver.stdin.close()
            driver.wait(60)


def executors(session: Any) -> list[int]:
    """The processes of the executors."""
    driver = session.sparkContext._gateway.proc.pid
    threads = Path(f"/proc/{driver}/task").iterdir()
    children = {int(child) for thread in threads for child in (thread / "children").read_text().split()}
    return sorted(each for each in children if b"ExecutorBackend" in Path(f"/proc/{each}/cmdline").read_bytes())
