"""How fast files are perturbed and tallied, and how much memory that takes.

    python benchmarks/files.py [--rows N]

Baseline for the tally: DuckDB's own GROUP BY on the same Parquet file in the same run. Use --rows 100000000 to see that
memory does not grow with the file.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from fractions import Fraction
from pathlib import Path
from statistics import median
from time import perf_counter

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from tacit import Histogram, Prior
from tacit.designs import design
from tacit.files import perturb_file, tally_file
from tacit.plan import Group, Plan

GROUPS, VALUES, BATCH = 4, 100, 2**20


def make_plan() -> Plan:
    """Four groups with Zipf priors in different orders."""
    groups = []
    for k in range(GROUPS):
        prior = Prior(range(VALUES), np.roll([10**9 // (rank + 1) for rank in range(VALUES)], k).tolist())
        groups.append(
            Group(
                name=f"group {k}",
                epsilon=Fraction(1),
                mechanism=design(prior, Histogram(), 1, aim="mmse").mechanism,
            )
        )
    return Plan.of_groups(Histogram(), tuple(groups))


def write_answers(path: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    names = pa.array([f"group {k}" for k in range(GROUPS)])
    schema = pa.schema({"group": pa.string(), "value": pa.int64()})
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, BATCH):
            n = min(BATCH, rows - start)
            group = names.take(pa.array(rng.integers(0, GROUPS, n)))
            writer.write_table(pa.table({"group": group, "value": rng.integers(0, VALUES, n)}, schema))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    rows = parser.parse_args().rows
    plan = make_plan()
    table = Table("what", "rows / s", "seconds")
    with tempfile.TemporaryDirectory() as folder:
        answers, reports = Path(folder) / "answers.parquet", Path(folder) / "reports.parquet"
        write_answers(answers, rows)
        start = perf_counter()
        perturb_file(plan, answers, reports)
        perturbed = perf_counter() - start
        ours, theirs = [], []
        for _ in range(5):
            start = perf_counter()
            counted = tally_file(plan, reports)
            ours.append(perf_counter() - start)
            start = perf_counter()
            query = f"""SELECT "group", report, count(*) FROM '{reports}' GROUP BY ALL"""
            found = duckdb.execute(query).fetchall()
            theirs.append(perf_counter() - start)
            if counted.n_reports != rows or sum(row[2] for row in found) != rows:
                raise SystemExit("the tally lost reports")
    for name, seconds in (
        ("perturb, Parquet to Parquet", perturbed),
        ("tally, Parquet", median(ours)),
        ("DuckDB GROUP BY, the same file", median(theirs)),
    ):
        table.add_row(name, f"{rows / seconds:,.0f}", f"{seconds:.2f}")
    console = Console(highlight=False)
    console.print(table)
    console.print(f"Tally / DuckDB: {median(ours) / median(theirs):.2f} (median of five alternating runs).")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    console.print(f"Peak memory of the process: {peak:.2f} GiB for {rows:,} rows.")


if __name__ == "__main__":
    main()
