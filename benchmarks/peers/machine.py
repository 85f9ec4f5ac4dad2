"""What does not depend on peers: how fast Tacit starts, how much memory files take, how near the keystream is."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

#: Memory is flat if it grows by at most this share from the first to the last number of rows.
FLAT = 1.25
MEMORY_CHILD = """
import sys
from pathlib import Path
from tacit import Plan
from tacit.files import perturb_file, tally_file
plan, source, target = Plan.load(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4])
if sys.argv[1] == "perturb":
    perturb_file(plan, source, target)
else:
    assert tally_file(plan, source).n_reports == int(sys.argv[5])
# Not ru_maxrss, which a process inherits from the one that started it.
[peak] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
print(int(peak.split()[1]) / 1024)
"""


@dataclass(frozen=True)
class Goal:
    """What was wanted beside what was measured; `met` is None where nothing was wanted."""

    what: str
    wanted: str
    measured: str
    met: bool | None


def machine_goals(quick: bool, tell: Callable[[str], None]) -> list[Goal]:
    """All of them, with a word before each."""
    tell("starting Python")
    found = [import_time(), help_time()]
    tell("keystream")
    found += keystream()
    rows = (1, 10) if quick else (1, 10, 100)
    tell(f"files of up to {rows[-1]} million rows")
    return [*found, *memory(rows)]


def _ratio(ours: list[str], theirs: list[str], runs: int = 9) -> tuple[float, float, float]:
    """Median seconds of two commands, run in turn after one of each, and their ratio."""
    times: dict[int, list[float]] = {0: [], 1: []}
    for run in range(runs + 1):
        for which, command in enumerate((ours, theirs)):
            start = perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            if run:
                times[which].append(perf_counter() - start)
    one, other = median(times[0]), median(times[1])
    return one, other, one / other


def import_time() -> Goal:
    python = sys.executable
    ours, theirs, ratio = _ratio([python, "-c", "import tacit"], [python, "-c", "import numpy"])
    said = f"{ratio:.2f} ({ours * 1000:.0f} ms and {theirs * 1000:.0f} ms)"
    return Goal("import tacit / import numpy", "≤ 2", said, ratio <= 2)


def help_time() -> Goal:
    command = str(Path(sys.executable).with_name("tacit"))
    ours, theirs, ratio = _ratio([command, "--help"], [sys.executable, "-c", "import typer"])
    said = f"{ratio:.2f} ({ours * 1000:.0f} ms and {theirs * 1000:.0f} ms)"
    return Goal("tacit --help / import typer", "≤ 1.5", said, ratio <= 1.5)


def keystream(rows: int = 10_000_000) -> list[Goal]:
    """Reports of a table of 100 values against the ChaCha20 keystream, of a whole word for each and of the bytes that
    they really take; the fastest of nine runs each. The keystream is drawn on one core.
    """
    from perturb import best_of, bytes_per_report, plan_for

    from tacit.randomize import Randomizer, SecureWords

    randomizer, words = Randomizer(plan_for(100)), SecureWords()
    values = np.random.default_rng(0).integers(0, 100, rows)
    drawn = best_of(9, lambda: words.draw(rows, 32))
    ratio = best_of(9, lambda: randomizer.reports(0, values)) / drawn
    used = bytes_per_report(randomizer, values)
    return [
        Goal("table perturb / the keystream of a word each", "≤ 3", f"{ratio:.2f}", ratio <= 3),
        Goal(f"table perturb / the {used:.2f} bytes it draws", "(≤ 3)", f"{4 * ratio / used:.2f}", None),
    ]


def memory(millions: tuple[int, ...]) -> list[Goal]:
    """The largest resident size of a process that perturbs a Parquet file, and of one that tallies the reports."""
    from perturb import plan_for

    peaks: dict[str, list[float]] = {"perturb": [], "tally": []}
    with tempfile.TemporaryDirectory() as folder:
        plan, reports = Path(folder) / "plan.json", Path(folder) / "reports.parquet"
        plan_for(100).save(plan)
        for million in millions:
            answers, rows = Path(folder) / "answers.parquet", million * 1_000_000
            _write_answers(answers, rows)
            for step, source, target in (("perturb", answers, reports), ("tally", reports, answers)):
                command = [sys.executable, "-c", MEMORY_CHILD, step, str(plan), str(source), str(target), str(rows)]
                said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                # DuckDB shows its progress to a program that was given on the command line.
                peaks[step].append(float(said.split()[-1]))
    sizes = ", ".join(f"{million}" for million in millions)
    return [
        Goal(
            f"memory of {step}, {sizes} million rows",
            f"flat: ≤ {FLAT:g} times",
            f"{peak[-1] / peak[0]:.2f} ({', '.join(f'{size:.0f}' for size in peak)} MiB)",
            peak[-1] <= FLAT * peak[0],
        )
        for step, peak in peaks.items()
    ]


def _write_answers(path: Path, rows: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, schema = np.random.default_rng(0), pa.schema({"value": pa.int64()})
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, 2**20):
            values = rng.integers(0, 100, min(2**20, rows - start))
            writer.write_table(pa.table({"value": values}, schema))
