"""Individual priors in files: probabilities beside the answers in, integers beside the reports out.

For two values the column `prior` has the probability of the second one; for more, the columns `prior_<value>` have one
probability each. The result has the same columns with integers over the plan's resolution: they are what the report is
read with, so they travel with it (or the collector joins them from the table that they came from).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tacit.disk import write_text
from tacit.exact import Floats, Integers
from tacit.files.answers import Matched, ReportMaker, kept_fields, known_values
from tacit.files.columns import MISSING, STAMP, UNKNOWN, InputError, Matcher, numbers_of, reports_of, stamped
from tacit.files.perturbing import PerturbSummary, write_reports
from tacit.files.reading import REPORT, Progress, check_file, reading
from tacit.files.tallies import sources_of
from tacit.mechanism.protocol import RandomWords
from tacit.personal.contract import PersonalPlan, perturb
from tacit.personal.estimates import PersonalTally
from tacit.tally import LARGEST_WEIGHT

#: Probabilities are read to 12 decimals; from there on everything is integers.
_DECIMALS = 10**12
#: A row of probabilities must sum to one within this.
_TOLERANCE = 1e-6
_SHOWN_ROWS = 5
#: Rows quantised at a time: they stay in the cache.
_CHUNK = 2**13


def quantise(plan: PersonalPlan, probabilities: Any) -> Integers:
    """Probabilities to integers that sum to the plan's resolution D: largest remainder, and no possible value lost.

    Probabilities are read to 12 decimals and scaled to sum to one. A positive one worth less than 1/D gets one unit;
    the others share what is left in proportion, rounded down, and the units still missing go to the largest
    remainders, ties to the later value (so that of two values the second is rounded half up). For two values the
    probability of the second one is enough. Deterministic; a prior of multiples of 1/D stays as it is.

    >>> from tacit import Survey
    >>> plan = PersonalPlan.of(Survey("c"), ["a", "b", "c"], 1, 1000)
    >>> quantise(plan, [[0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3], [0.9995, 0.0004, 0.0001]]).tolist()
    [[500, 500, 0], [333, 333, 334], [998, 1, 1]]
    """
    rows = _two_columns(plan, np.asarray(probabilities, dtype=np.float64))
    bad = ~_is_distribution(rows)
    if bad.any():
        first = ", ".join(str(row + 1) for row in np.flatnonzero(bad)[:_SHOWN_ROWS])
        raise ValueError(f"Priors must be probabilities that sum to one. {bad.sum()} do not, first in rows {first}.")
    result = np.empty(rows.shape, dtype=np.int64)
    for start in range(0, len(rows), _CHUNK):
        part = slice(start, start + _CHUNK)
        result[part] = _shared_out(np.ascontiguousarray(rows[part].T), plan.resolution).T
    return result


def _shared_out(columns: Floats, total: int) -> Integers:
    """The rule of `quantise`, for priors in columns (d, n)."""
    fine, single = np.rint(columns * _DECIMALS).astype(np.int64), np.zeros(columns.shape, dtype=bool)
    while True:
        units = total - single.sum(axis=0)
        whole = np.maximum(fine.sum(axis=0), 1)
        small = (columns > 0) & ~single & (fine * units < whole)
        if not small.any():
            break
        single |= small
        fine[small] = 0
    share = fine * units // whole
    remainder = fine * units - share * whole
    left = units - share.sum(axis=0)
    result: Integers = share + single
    # One more unit where fewer than `left` remainders come first: the larger ones, and equal ones of later values.
    for k, mine in enumerate(remainder):
        before = (remainder[:k] > mine).sum(axis=0) + (remainder[k + 1 :] >= mine).sum(axis=0)
        result[k] += before < left
    return result


def prior_columns(plan: PersonalPlan, name: str = "prior") -> list[str]:
    """The columns that hold a prior: `prior` alone for two values, else one `prior_<value>` for each."""
    return [name] if len(plan.values) == 2 else [f"{name}_{value}" for value in plan.values]


def perturb_file(
    plan: PersonalPlan,
    source: Any,
    target: str | Path,
    *,
    column: str = "value",
    prior_column: str = "prior",
    keep: Sequence[str] = (),
    **options: Any,
) -> PerturbSummary:
    """Write one report for each answer, with `keep` and the quantised prior beside it; never the answer column.

    `options` are those of `tacit.files.perturb_file` but `person` and `ledger`. Rows without an answer of the plan or
    without a distribution stop the run, or are skipped and counted.
    """
    return write_reports(_Perturber(plan, column, prior_column, keep), source, target, **options)


class _Perturber(ReportMaker):
    """A plan, ready for tables of answers with the prior of each."""

    def __init__(self, plan: PersonalPlan, column: str, prior_column: str, keep: Sequence[str]) -> None:
        if isinstance(keep, str):
            raise InputError(f"The 'keep' parameter must be a list of columns. Got the string '{keep}' instead.")
        self._plan, self._column, self._priors = plan, column, prior_columns(plan, prior_column)
        written = [*keep, *self._priors, REPORT]
        if column in written or len(set(written)) < len(written):
            got = ", ".join(written)
            raise InputError(f"The answer cannot be kept, and the result's columns must differ. Got {got}.")
        self.read = {column: "column"} | dict.fromkeys(self._priors, "prior_column") | dict.fromkeys(keep, "")
        self.sent, self._match = keep, Matcher(plan.values, column)

    @property
    def hints(self) -> Mapping[str, str]:
        return {"unknown value": known_values(self._plan.values)}

    def schema(self, rows: pa.Schema) -> pa.Schema:
        made = [(name, pa.int64()) for name in [*self._priors, REPORT]]
        return stamped(pa.schema([*kept_fields(rows, self.sent), *made]), self._plan.hash)

    def _beliefs(self, table: pa.Table) -> Floats:
        columns = [numbers_of(table[name], name) for name in self._priors]
        return _two_columns(self._plan, columns[0] if len(columns) == 1 else np.stack(columns, axis=1))

    def match(self, table: pa.Table) -> Matched:
        values, believed = self._match(table[self._column]), _is_distribution(self._beliefs(table))
        reasons = {"missing value": values == MISSING, "unknown value": values == UNKNOWN}
        reasons["no probabilities that sum to one"] = ~believed
        return Matched.of(table, np.zeros_like(values), values, reasons)

    def draw(self, matched: Matched, words: RandomWords | None = None) -> Mapping[str, pa.Array]:
        units = quantise(self._plan, self._beliefs(matched.rows))
        shown = units.T[1:] if len(self._priors) == 1 else units.T
        drawn = perturb(self._plan, units, matched.held, words)
        return dict(zip([*self._priors, REPORT], map(pa.array, [*shown, drawn]), strict=True))


def tally_file(
    plan: PersonalPlan,
    source: Any,
    *,
    prior_column: str = "prior",
    report_column: str = REPORT,
    weight_column: str | None = None,
    offset_column: str | None = None,
    progress: Progress | None = None,
    format: str | None = None,
) -> PersonalTally:
    """Count the reports of a file or a table that has the quantised priors beside them.

    Refused are rows whose prior is not of the plan's resolution, whose report their prior cannot send, or whose
    weight or offset is not a number of at most 2^53.
    """
    priors, public = prior_columns(plan, prior_column), (weight_column, offset_column)
    if public != (None, None) and not plan.task.takes_weights:
        raise InputError("Weights and offsets are for a weighted sum, and this personal plan asks for something else.")
    named = {report_column: "report_column"} | dict.fromkeys(priors, "prior_column")
    named |= {weight_column: "weight_column"} if weight_column is not None else {}
    named |= {offset_column: "offset_column"} if offset_column is not None else {}
    tally, done = PersonalTally.of(plan, np.zeros((0, len(plan.values)), np.int64), []), 0
    with reading(source, named, format, optional=(STAMP,)) as opened:
        for table in opened.reports([plan.hash]):
            units = np.stack([reports_of(table[name], name) for name in priors], axis=1)
            # A cell that is no number of units is no prior: out of range, also after the complement.
            cells = np.where((units < 0) | (units > plan.resolution), -1, units)
            rows = np.concatenate([plan.resolution - cells, cells], axis=1) if len(priors) == 1 else cells
            reports = reports_of(table[report_column], report_column)
            extra = [None if name is None else numbers_of(table[name], name).copy() for name in public]
            for numbers in extra:
                if numbers is not None:
                    unusable = ~(np.abs(numbers) <= LARGEST_WEIGHT)  # NaN is.
                    reports[unusable], numbers[unusable] = -1, 0.0
            tally = tally.merge(PersonalTally.of(plan, rows, reports, *extra))
            done += len(reports)
            if progress is not None:
                progress(done, opened.total)
    sources = sources_of(source, tally.counts.collision_bits)
    return replace(tally, refused=tally.refused + len(opened.malformed), sources=sources)


def save_tally(tally: PersonalTally, path: str | Path) -> None:
    """Write a tally as JSON, atomically."""
    write_text(path, json.dumps(tally.to_dict(), ensure_ascii=False) + "\n")


def load_tally(plan: PersonalPlan, path: str | Path) -> PersonalTally:
    """Read what `save_tally` wrote, and refuse what no tally of the plan can hold."""
    check_file(path)
    try:
        return PersonalTally.from_dict(plan, json.loads(Path(path).read_text(encoding="utf-8")))
    except (OSError, LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError) as error:
        known = type(error) is ValueError
        said = error if known else "It is damaged or another file."
        raise InputError(f"{path} is not a tally of this plan. {said}") from error


def _two_columns(plan: PersonalPlan, probabilities: Floats) -> Floats:
    """For two values, the probability of the first one added."""
    if len(plan.values) == 2 and probabilities.ndim == 1:
        return np.stack([1.0 - probabilities, probabilities], axis=1)
    if probabilities.ndim != 2 or probabilities.shape[1] != len(plan.values):
        raise ValueError(f"Priors must have {len(plan.values)} probabilities. Got the shape {probabilities.shape}.")
    return probabilities


def _is_distribution(rows: Floats) -> NDArray[np.bool_]:
    # Comparisons with NaN are false.
    good, total = np.ones(len(rows), dtype=bool), np.zeros(len(rows))
    for column in rows.T:
        good &= column >= 0
        total += column
    good &= np.abs(total - 1) <= _TOLERANCE
    return good
