"""Spark's daemon of Python processes, after it has imported what they need; they are its forks.

Spark's own imports nothing, so each of two dozen processes would import everything; and it puts archives before the
installed packages, out of which every import is compiled anew and whose tables every new process reads again.
"""

import sys

sys.path[:] = [place for place in sys.path if not place.endswith((".zip", ".jar"))]
sys.path_importer_cache.clear()

import pandas  # noqa: F401
import pyarrow.parquet  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import tacit.files.spark
import tacit.mechanism.kernels  # noqa: F401

if __name__ == "__main__":
    manager()
