"""Spark's daemon of Python processes, after it has imported what they need; they are its forks.

Spark's own imports nothing, so each of two dozen processes would import everything; and it puts archives before the
installed packages, out of which every import is compiled anew and whose tables every new process reads again.
"""

import sys
from importlib import import_module

_NEEDED = ("pandas", "pyarrow.parquet", "pyspark.worker", "tacit.files.spark", "tacit.mechanism.table._kernels")
#: Fewer rows than the engine's own take a key here, so that a few tens of thousands are several blocks.
BLOCK_ROWS = 2**13


def main() -> None:
    sys.path[:] = [place for place in sys.path if not place.endswith((".zip", ".jar"))]
    sys.path_importer_cache.clear()
    for name in _NEEDED:
        import_module(name)
    import_module("tacit.files.spark._engine").BLOCK_ROWS = BLOCK_ROWS
    toy = import_module("support.toy").KaryRule
    import_module("tacit.mechanism").KINDS[toy.kind] = toy
    import_module("pyspark.daemon").manager()


if __name__ == "__main__":
    main()
