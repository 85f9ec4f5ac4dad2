"""Spark's classes in a file, as Java has them in memory: the tests' cluster starts in two thirds of the time.

    python tests/support/spark_classes.py

One machine does a little of everything, and at its end Java archives the classes it has (class data sharing). Without
the file everything works, more slowly; where Java or Spark is another one than it was made with, Java ignores it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from support.ports import free_port
from support.spark_cluster import CLASSES, QUICK, missing

_CONNECTED = """
import sys
from pyspark.sql import SparkSession
session = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
session.read.parquet(sys.argv[2]).mapInArrow(lambda batches: batches, "id long").write.parquet(sys.argv[3])
"""


def make(target: Path) -> None:
    """Write the archive, whole or not at all."""
    draft, port = target.with_suffix(".draft"), free_port()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as made:
        session = _session(f"{QUICK} -XX:ArchiveClassesAtExit={draft} -Xlog:disable", port)
        machine = session.sparkContext._gateway.proc
        _work(session, Path(made), f"sc://127.0.0.1:{port}")
        session.stop()
        # It ends, and writes, when nobody holds the other end of its input.
        machine.stdin.close()
        machine.wait(300)
    draft.rename(target)


def _session(java: str, port: int) -> Any:
    from pyspark.sql import SparkSession

    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    settings = {
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": java,
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.log.level": "FATAL",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _work(session: Any, folder: Path, connect: str) -> None:
    """What the tests do: read and write, through Python, count, and all that over Spark Connect."""
    rows = session.range(0, 1000, 1, 2).mapInArrow(lambda batches: batches, "id long")
    for kind in ("parquet", "csv", "json"):
        rows.write.format(kind).save(str(folder / kind))
        session.read.format(kind).load(str(folder / kind)).repartition(2).toArrow()
    rows.groupBy("id").count().mapInArrow(lambda batches: batches, "id long, count long").collect()
    words = [connect, str(folder / "parquet"), str(folder / "again")]
    subprocess.run([sys.executable, "-W", "ignore", "-c", _CONNECTED, *words], check=True)
    for name in ("master.Master", "worker.Worker"):
        session._jvm.java.lang.Class.forName(f"org.apache.spark.deploy.{name}")


if __name__ == "__main__" and missing() is None and not CLASSES.exists():
    make(CLASSES)
