"""All figures by one call: computed in parallel, kept as CSV, SVG and PNG, and shown in one page.

A figure is computed once: its CSV carries a stamp of the options, the data and the code, and as long as that is the
same, the next call reads the figure instead. So an interrupted call goes on where it stopped.
"""

from __future__ import annotations

import csv
import hashlib
import importlib
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields, replace
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import cast

import tacit
from studies.figure import DataMissingError, Figure, Options, Point, Version
from tacit.disk import write_text

#: Name of a figure: where it is computed, and whether it reads data. The slow ones first, so that cores stay busy.
FIGURES: dict[str, tuple[str, bool]] = {
    "2": ("paper:figure_2", False),
    "5": ("paper:figure_5", False),
    "6a": ("paper:figure_6a", False),
    "6b": ("paper:figure_6b", False),
    "7": ("paper:figure_7", False),
    "8": ("monte_carlo:figure_8", False),
    "9a": ("kosarak:figure_9a", True),
    "9a-histogram": ("kosarak:kosarak_histogram", True),
    "9b": ("gowalla:figure_9b", True),
    "9b-zero-prior": ("gowalla:zero_prior", True),
    "10": ("paper:figure_10", False),
    "brfss": ("groups:brfss", True),
    "adult": ("groups:adult", True),
    "drift": ("drift:drift", True),
    "worth": ("worth:worth", False),
    "changed": ("changed:changed", True),
}
_SLOW = ("changed", "worth", "8", "6a", "9b", "9a-histogram")
_COLUMNS = [field.name for field in fields(Point)]


@dataclass(frozen=True)
class Outcome:
    """What became of one figure: computed or read (`figure`), or left out for want of data (`missing`)."""

    name: str
    figure: Figure | None
    missing: str | None
    seconds: float
    computed: bool


@dataclass(frozen=True)
class Reproduction:
    """All outcomes, in the order asked for, where the page is, and how long it took."""

    outcomes: tuple[Outcome, ...]
    page: Path
    seconds: float

    @property
    def agrees(self) -> bool:
        """Whether every simulated point lies within its band."""
        return not any(outcome.figure.disagreements for outcome in self.outcomes if outcome.figure)


def reproduce(
    names: Sequence[str],
    out: Path,
    options: Options,
    progress: Callable[[int, int | None], None] | None = None,
    force: bool = False,
    workers: int | None = None,
) -> Reproduction:
    """Compute the named figures (all if none is named) into the folder `out`, and write out/index.html.

    Files: NAME.csv with every point, NAME.json with title, remark and stamp, NAME.svg, NAME.png. The page keeps figures
    of earlier calls. `force` computes everything anew. The points depend on the options and the data, not on the number
    of workers.
    """
    from studies.page import write_page

    started = perf_counter()
    wanted = list(dict.fromkeys(names)) or list(FIGURES)
    unknown = [name for name in wanted if name not in FIGURES]
    if unknown:
        raise ValueError(f"There is no figure {unknown[0]!r}. Known: {', '.join(FIGURES)}.")
    if options.runs < 2:
        raise ValueError(f"Monte Carlo needs at least 2 runs. Got {options.runs}.")
    out.mkdir(parents=True, exist_ok=True)
    jobs = [(name, out, options, force) for name in sorted(wanted, key=lambda name: name not in _SLOW)]
    done: dict[str, Outcome] = {}
    for outcome in _run(jobs, workers or os.cpu_count() or 1):
        done[outcome.name] = outcome
        if progress is not None:
            progress(len(done), len(wanted))
    page = out / "index.html"
    result = Reproduction(tuple(done[name] for name in wanted), page, perf_counter() - started)
    # Figures of earlier calls stay on the page.
    for name in FIGURES:
        figure = None if name in done else _read(name, out, None)
        if figure is not None and (out / f"{name}.svg").exists():
            done[name] = Outcome(name, figure, None, 0.0, False)
    write_page(page, replace(result, outcomes=tuple(done[name] for name in FIGURES if name in done)), options)
    return result


def compute(name: str, options: Options) -> Figure:
    """One figure, computed."""
    module, _, function = FIGURES[name][0].partition(":")
    found = getattr(importlib.import_module(f"studies.{module}"), function)
    return cast(Figure, found(options))


def _run(jobs: list[tuple[str, Path, Options, bool]], workers: int) -> Iterator[Outcome]:
    if min(workers, len(jobs)) == 1:
        for job in jobs:
            yield _make(*job)
        return
    # One thread of algebra for each process; it has to be set before numpy loads, hence fresh processes.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with ProcessPoolExecutor(min(workers, len(jobs)), get_context("spawn")) as pool:
        try:
            for future in as_completed([pool.submit(_make, *job) for job in jobs]):
                yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _make(name: str, out: Path, options: Options, force: bool) -> Outcome:
    """Compute or read one figure, and draw it if it is not drawn."""
    from studies.draw import draw

    started = perf_counter()
    stamp = _stamp(name, options)
    figure = None if force else _read(name, out, stamp)
    computed = figure is None
    pictures = [out / f"{name}.svg", out / f"{name}.png"]
    if figure is None:
        try:
            figure = compute(name, options)
        except DataMissingError as missing:
            return Outcome(name, None, str(missing), perf_counter() - started, False)
        except (ValueError, LookupError, ArithmeticError) as failure:
            if not FIGURES[name][1]:
                raise
            why = f"The data of figure {name} are too few, or of another kind than it needs"
            return Outcome(name, None, f"{why} ({failure}).", perf_counter() - started, False)
    if computed or not all(path.exists() for path in pictures):
        draw(figure, pictures)
        # The stamp is written last: a figure that was not finished is not taken for one that was.
        write_text(out / f"{name}.csv", to_csv(figure))
        facts = {key: value for key, value in asdict(figure).items() if key != "points"}
        write_text(out / f"{name}.json", json.dumps({"stamp": stamp, **facts}, ensure_ascii=False, indent=1))
    return Outcome(name, figure, None, perf_counter() - started, computed)


def to_csv(figure: Figure) -> str:
    """Every point, with all digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for point in figure.points:
        writer.writerow(["" if value is None else value for value in asdict(point).values()])
    return text.getvalue()


def from_csv(text: str) -> tuple[Point, ...]:
    """The inverse of `to_csv`."""
    points = []
    for row in csv.DictReader(io.StringIO(text)):
        numbers = {key: float(row[key]) if row[key] else None for key in _COLUMNS[3:]}
        points.append(Point(row["panel"], row["curve"], cast(Version, row["version"]), **numbers))  # type: ignore[arg-type]
    return tuple(points)


def _read(name: str, out: Path, stamp: str | None) -> Figure | None:
    """The figure that an earlier call kept, under that stamp or, for None, under any."""
    try:
        facts = json.loads((out / f"{name}.json").read_text(encoding="utf-8"))
        points = from_csv((out / f"{name}.csv").read_text(encoding="utf-8"))
        if facts.pop("stamp") != stamp and stamp is not None:
            return None
        lists = {key: tuple(facts.pop(key)) for key in ("panels", "notes")}
        return replace(Figure(points=points, **facts), **lists)  # type: ignore[arg-type]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _stamp(name: str, options: Options) -> str:
    """What the points depend on: options, the files of data, and the code."""
    digest = hashlib.sha256(f"{name} {options.runs} {options.seed} {options.small}".encode())
    for path in sorted(_code()):
        digest.update(path.read_bytes())
    if FIGURES[name][1]:
        from studies.loaders import DEFAULT_DATA

        folder = options.data or DEFAULT_DATA
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            state = path.stat()
            digest.update(f"{path.name} {state.st_size} {state.st_mtime_ns}".encode())
    return digest.hexdigest()


def _code() -> Iterator[Path]:
    """The files that points can depend on: those of the studies and of Tacit, except for what prints and serves."""
    own = Path(__file__).parent
    yield from (path for path in own.glob("*.py") if path.name not in ("__main__.py", "reproduce.py", "page.py"))
    library = Path(tacit.__file__).parent
    for path in library.rglob("*.py"):
        if path.relative_to(library).parts[0] not in ("cli", "server", "show", "__main__.py"):
            yield path
