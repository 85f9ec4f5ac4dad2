"""The prior file: what is known beforehand about each group, and how many records are behind it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TextIO

from tacit.disk import Row, TextTable, text_of
from tacit.exact import Floats, Number, rational
from tacit.plan import Plan, Recoding, number_in
from tacit.prior import Prior, PriorSet, Value, clean_name, has_unseen, listed, nearest, numbers_if_all

#: A value never observed counts as this part of a record, or has this probability where there are no counts.
UNSEEN_RECORDS, UNSEEN_SHARE = Fraction(1, 2), Fraction(1, 1000)
#: Probabilities that are off by more than this in all have not been rounded: one is missing or wrong.
LARGEST_ROUNDING = Fraction(1, 50)
#: ln of the smallest and the largest strength of smoothing, in records.
_STRENGTHS = (-7.0, 16.0)


@dataclass(frozen=True, kw_only=True)
class GroupPrior:
    """What a prior file says about one group.

    `share` is the group's part of all respondents, `records` how many past records the prior rests on (None where that
    is not said), `candidates` are other priors that might hold as well, `observed` is what the file said before floors
    and smoothing, `prior_set` are the priors for which the promise has to hold, where they are known beforehand,
    `recoding` says how raw data become the answers and groups of the file, and `notes` say what was done to its numbers
    on the way.
    """

    name: str | None
    prior: Prior
    share: Fraction = Fraction(1)
    epsilon: Fraction | None = None
    weight: Fraction = Fraction(1)
    offset: Fraction = Fraction(0)
    records: int | None = None
    candidates: tuple[Prior, ...] = ()
    observed: Prior | None = None
    prior_set: PriorSet | None = None
    recoding: Recoding | None = None
    notes: tuple[str, ...] = field(default=(), compare=False)


def read_priors(
    path: str | Path | TextIO,
    *,
    floor: Number | None = None,
    impossible: Collection[str] = (),
    smooth: bool = False,
    candidates: str | Path | None = None,
    domain: Sequence[Value] | None = None,
) -> list[GroupPrior]:
    """Read a CSV with the columns `value` and `probability` or `count`, and optionally `group`, `epsilon`, `weight`,
    `offset` and `share` (the last four one number per group).

    A group's `share` of the respondents is, where that column is missing, its share of the counts; with probabilities
    all are equal.
    Probabilities must sum to one in each group, up to the rounding that their digits show; percentages that sum to 100
    are taken as such. Never seen is not impossible: a value of weight zero, and one that a group lacks and others have,
    gets half a record (or a probability of 0.001), or the share `floor`; values named in `impossible` keep their zero.

    Args:
        path: the file, or one that is open.
        floor: the probability of each value that was never seen.
        impossible: values that no one can hold; they stay outside every guarantee.
        smooth: draws groups with few records towards all groups together, as far as the groups are alike.
        candidates: another such file with a column `candidate`: priors that might hold as well.
        domain: the values that the file may name, where they are known already; else they are those it names.

    Raises:
        ValueError: a column is missing, or a number is none; the message names the line.

    >>> import io
    >>> [each.name for each in read_priors(io.StringIO("group,value,count\\nold,yes,30\\nold,no,70\\n"))]
    ['old']
    """
    table = _Table.read(path, known=None if domain is None else Prior.uniform(domain))
    impossible_values = {table.value_of(text, "impossible") for text in impossible}
    groups = [_group(table, name, rows) for name, rows in rows_by(table.rows).items()]
    observed = {group.name: Prior.of(group.weights) for group in groups}
    if smooth:
        groups = _smoothed(groups)
    shares = _shares(table, groups)
    others = _candidates(candidates, groups) if candidates is not None else {}
    made = []
    for group in groups:
        prior, notes = _floored(group, None if floor is None else rational(floor, "floor"), impossible_values)
        made.append(
            GroupPrior(
                name=group.name,
                prior=prior,
                share=shares[group.name],
                records=int(group.total) if table.counts else None,
                candidates=tuple(_alike(prior, each) for each in others.get(group.name, ())),
                observed=observed[group.name],
                recoding=table.recoding,
                notes=(*group.notes, *notes),
                **{key: number for key, number in group.facts.items() if key != "share"},  # type: ignore[arg-type]
            )
        )
    return made


def read_beliefs(path: str | Path | TextIO, plan: Plan) -> dict[str | None, Prior]:
    """An observer's own priors for groups of a `plan`, by name, over its values, from a file at `path` like that of the
    priors.

    >>> from io import StringIO
    >>> from tacit import Survey, make_plan
    >>> plan = make_plan(Prior.of({"yes": 0.2, "no": 0.8}), Survey("yes"), epsilon=1)
    >>> read_beliefs(StringIO("value,probability\\nyes,0.5\\nno,0.5\\n"), plan)[None].weights
    (1, 1)
    """
    found = {}
    for each in read_priors(path, floor=0, domain=plan.values):
        weights = dict(zip(each.prior.values, each.prior.weights, strict=True))
        if each.name not in {group.name for group in plan.groups}:
            names = [group.name for group in plan.groups if group.name is not None]
            known, meant = ", ".join(map(repr, names)) or "none", nearest(each.name or "", names)
            raise ValueError(f"{path} has the group {each.name!r}; the plan's groups are: {known}.{meant}")
        found[each.name] = Prior(plan.values, [weights.get(value, 0) for value in plan.values])
    return found


def _shares(table: _Table, groups: Sequence[_Group]) -> dict[str | None, Fraction]:
    """Each group's part of the respondents: as stated, by the counts, or equal."""
    stated = {group.name: group.facts["share"] for group in groups if "share" in group.facts}
    if stated and len(stated) < len(groups):
        raise ValueError(f"{table.path}: the 'share' of some groups is missing; state all or none.")
    stated_total = sum(stated.values(), Fraction(0))
    if stated and abs(stated_total - 1) > LARGEST_ROUNDING:
        raise ValueError(f"{table.path}: the shares must sum to 1. They sum to {float(stated_total):.6g}.")
    sizes = stated or {group.name: group.total if table.counts else Fraction(1) for group in groups}
    total = sum(sizes.values(), Fraction(0))
    return {name: size / total for name, size in sizes.items()}


@dataclass(frozen=True)
class _Group:
    """One group's rows: weights by value, their total as in the file, and facts that are one number per group."""

    name: str | None
    weights: Mapping[Value, Fraction]
    facts: Mapping[str, Fraction]
    counted: bool
    total: Fraction
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Table:
    """The rows of a prior file, each with its line number."""

    path: str
    rows: Sequence[Row]
    column: str
    named: Mapping[str, Value]
    recoding: Recoding | None

    @property
    def counts(self) -> bool:
        return self.column == "count"

    @classmethod
    def read(cls, path: str | Path | TextIO, extra: Sequence[str] = (), known: Prior | None = None) -> _Table:
        """The rows and the name of the column with the weights; refuses what is not such a file.

        Values are those of the prior `known`, where there is one already.
        """
        found, path = TextTable.read(path, ["value"]), path if isinstance(path, str | Path) else "The prior table"
        columns = found.columns
        column = next((name for name in ("count", "probability") if name in columns), None)
        if "value" not in columns or column is None or not set(extra) <= set(columns):
            got = ", ".join(columns) or "an empty file"
            wanted = "".join(f", '{name}'" for name in extra)
            raise ValueError(
                f"{path}: the header must name 'value', 'probability' or 'count'{wanted}. Got {got}.{_counted(found)}"
            )
        rows = found.by_column(path)
        named = ("group", "epsilon", *extra)
        needed = ("value", column, *(name for name in named if name in columns))
        for row in rows:
            empty = next((name for name in needed if not row[name]), None)
            if empty is not None:
                raise ValueError(f"{path}, line {row.line}: '{empty}' must not be empty.")
            if any(has_unseen(row[name]) for name in ("value", "group") if name in row):
                raise ValueError(
                    f"{path}, line {row.line}: a name must not hold control characters or marks that turn the "
                    "direction of reading."
                )
        texts = list(dict.fromkeys(row["value"] for row in rows))
        try:
            values = numbers_if_all(texts) if known is None else [known.value_of(text) for text in texts]
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        recoding = recoding_in(found.comments, path)
        return cls(str(path), rows, column, dict(zip(texts, values, strict=True)), recoding)

    def value_of(self, text: str, option: str) -> Value:
        """The value that is written so in the file."""
        try:
            return Prior.uniform(dict.fromkeys(self.named.values())).value_of(text)
        except ValueError as error:
            raise ValueError(f"The {option} value is not in {self.path}. {error}") from None

    def number(self, row: Row, column: str) -> Fraction:
        """One cell as an exact number."""
        return number_in_cell(row, column, self.path)


def rows_by(rows: Sequence[Row], column: str = "group") -> dict[str | None, list[Row]]:
    """The rows with the same name in a column, by that name; by None where there is no such column."""
    found: dict[str | None, list[Row]] = {}
    for row in rows:
        found.setdefault(row.get(column), []).append(row)
    return found


def number_in_cell(row: Row, column: str, path: object) -> Fraction:
    """An exact number, below 2^63 for a count, from 0 but for a weight or an offset; 5% is 1/20."""
    where, cell = f"{path}, line {row.line}", row[column]
    try:
        number = rational(cell.removesuffix("%"), column) / (100 if cell.endswith("%") else 1)
    except ValueError:
        got = f"Got {cell[:40]!r}." + (" Write a decimal point." if "," in cell else "")
        raise ValueError(f"{where}: '{column}' must be a number with an exponent of at most 999. {got}") from None
    if column == "count" and number >= 2**63:
        raise ValueError(f"{where}: 'count' must be below 2^63. Got {cell[:40]!r}.")
    if number < 0 and column not in ("weight", "offset"):
        raise ValueError(f"{where}: '{column}' must not be negative. Got {cell!r}.")
    return number


def _group(table: _Table, name: str | None, rows: Sequence[Row]) -> _Group:
    """One group's weights and facts, checked."""
    weights: dict[Value, Fraction] = {}
    for row in rows:
        value = table.named[row["value"]]
        if value in weights:
            raise ValueError(f"{table.path}, line {row.line}: this value stands twice in its group.")
        weights[value] = table.number(row, table.column)
    if not any(weights.values()):
        raise ValueError(f"{table.path}, line {rows[0].line}: a group needs at least one positive {table.column}.")
    notes: list[str] = []
    if not table.counts:
        weights, notes = _distribution(table, name, rows, weights)
    elif "probability" in rows[0]:
        _check_agreement(table, name, rows, weights)
    facts: dict[str, Fraction] = {}
    for key in ("epsilon", "weight", "offset", "share"):
        if key in rows[0]:
            stated = {table.number(row, key) for row in rows if row[key]}
            if len(stated) > 1:
                raise ValueError(f"{table.path}: group {name!r} states more than one {key}.")
            if stated:
                facts[key] = stated.pop()
    lacking = [value for value in table.named.values() if value not in weights]
    if lacking:
        notes.append(f"{_of(name)} has no row for {listed(lacking)}")
    ordered = {value: weights.get(value, Fraction(0)) for value in table.named.values()}
    return _Group(name, ordered, facts, table.counts, sum(weights.values(), Fraction(0)), tuple(notes))


def _distribution(
    table: _Table, name: str | None, rows: Sequence[Row], weights: dict[Value, Fraction]
) -> tuple[dict[Value, Fraction], list[str]]:
    """Probabilities that sum to one, up to the rounding that their own digits show; or percentages."""
    total = sum(weights.values(), Fraction(0))
    whole = whole_of(total, [row[table.column] for row in rows], f"{table.path}: the probabilities of {_of(name)}")
    if whole == 1:
        scaled = [] if total == 1 else [f"{_of(name)} sums to {float(total):.6g}, as rounded, and is scaled to 1"]
        return weights, scaled
    return {value: weight / 100 for value, weight in weights.items()}, [f"{_of(name)} is read as percentages"]


def whole_of(total: Fraction, texts: Sequence[str], whose: str) -> int:
    """What probabilities, whose sum is `total`, add up to, up to the rounding that their digits in `texts` show: 1, or
    100 for percentages.

    >>> whole_of(Fraction(99, 100), ["0.33"] * 3, "The probabilities"), whole_of(Fraction(100), ["20", "80"], "They")
    (1, 100)
    """
    slack = sum(map(_rounding, texts), Fraction(1, 10**9))
    for whole in (1, 100):
        if abs(total - whole) <= min(slack, whole * LARGEST_ROUNDING):
            return whole
    raise ValueError(f"{whose} must sum to 1 (or, as percentages, to 100). They sum to {float(total):.6g}.")


def _check_agreement(table: _Table, name: str | None, rows: Sequence[Row], weights: Mapping[Value, Fraction]) -> None:
    """A file with both counts and probabilities must say the same twice."""
    total = sum(weights.values(), Fraction(0))
    for row in rows:
        stated, counted = table.number(row, "probability"), weights[table.named[row["value"]]] / total
        if min(abs(stated - counted), abs(stated / 100 - counted)) > _rounding(row["probability"]) + Fraction(1, 10**6):
            raise ValueError(
                f"{table.path}, line {row.line}: 'probability' and 'count' of {_of(name)} disagree; leave one out."
            )


def _rounding(text: str) -> Fraction:
    """Half a unit in the last place that is written: what rounding may have taken."""
    digits = text.rstrip("%").lower()
    if "/" in digits or "e" in digits:
        return Fraction(0)
    return Fraction(1, 2 * 10 ** len(digits.partition(".")[2]))


def _floored(group: _Group, floor: Fraction | None, impossible: Collection[Value]) -> tuple[Prior, list[str]]:
    """The prior with no accidental zeros; positive weights keep their proportions."""
    if floor is not None and not 0 <= floor < 1:
        raise ValueError(f"The 'floor' must lie between 0 and 1. Got {float(floor):g} instead.")
    wrong = [value for value in impossible if group.weights[value] > 0]
    if wrong:
        raise ValueError(f"{_of(group.name)} has people who answered {listed(wrong)}, so that is not impossible.")
    unseen = [value for value, weight in group.weights.items() if not weight and value not in impossible]
    notes = [f"{listed(impossible)} is impossible in {_of(group.name)}, as stated"] if impossible else []
    if not unseen or floor == 0:
        return Prior.of(group.weights), notes
    if floor is not None:
        if floor * len(unseen) >= 1:
            raise ValueError(f"The 'floor' of {float(floor):g} leaves nothing for the values that were seen.")
        weight = floor * sum(group.weights.values(), Fraction(0)) / (1 - floor * len(unseen))
    else:
        weight = UNSEEN_RECORDS if group.counted else UNSEEN_SHARE
    prior = Prior.of({**group.weights, **dict.fromkeys(unseen, weight)})
    share = float(prior.probability(unseen[0]))
    notes.append(f"{listed(unseen)} was never seen in {_of(group.name)} and counts as {share:.2g} (see --floor)")
    return prior, notes


def strength_of(counts: Floats, mean: Floats) -> float:
    """k, in records, under which `counts` around the shares `mean` are most likely (Dirichlet-multinomial), to three
    digits; of several groups a row each.

    >>> import numpy as np
    >>> strength_of(np.array([[90.0, 10.0], [10.0, 90.0]]), np.full((2, 2), 0.5))
    1.29
    """
    import numpy as np
    from scipy.optimize import minimize_scalar
    from scipy.special import gammaln

    table, shares = np.atleast_2d(counts), np.atleast_2d(mean)
    seen, n = table > 0, table.sum(axis=1)

    def unlikely(log_k: float) -> float:
        k = np.exp(log_k)
        alpha = np.where(seen, k * shares, 1.0)
        found = np.where(seen, gammaln(table + alpha) - gammaln(alpha), 0.0).sum(axis=1)
        return -float((gammaln(k) - gammaln(n + k) + found).sum())

    return float(f"{np.exp(minimize_scalar(unlikely, bounds=_STRENGTHS, method='bounded').x):.3g}")


def _smoothed(groups: Sequence[_Group]) -> list[_Group]:
    """(counts + k · the shares of all people), with the most likely k (Dirichlet-multinomial)."""
    import numpy as np

    if not all(group.counted for group in groups) or len(groups) < 2:
        raise ValueError("Smoothing draws groups towards each other by their counts: it needs counts and two groups.")
    counts = np.array([[float(weight) for weight in group.weights.values()] for group in groups])
    k = rational(strength_of(counts, np.tile(counts.sum(axis=0) / counts.sum(), (len(counts), 1))))
    together = {value: sum((group.weights[value] for group in groups), Fraction(0)) for value in groups[0].weights}
    total = sum(together.values(), Fraction(0))
    note = f"groups are drawn towards all groups together by {float(k):.3g} records"
    return [
        replace(
            group,
            weights={value: weight + k * together[value] / total for value, weight in group.weights.items()},
            notes=(*group.notes, note) if place == 0 else group.notes,
        )
        for place, group in enumerate(groups)
    ]


def _candidates(path: str | Path, groups: Sequence[_Group]) -> dict[str | None, list[Mapping[Value, Fraction]]]:
    """The candidates of each group: distributions by name of the column `candidate`."""
    table = _Table.read(path, ("candidate",), Prior.uniform(groups[0].weights))
    names = {group.name for group in groups}
    found: dict[str | None, list[Mapping[Value, Fraction]]] = {}
    for name, rows in rows_by(table.rows).items():
        if name not in names:
            meant = nearest(name or "", [each for each in names if each is not None])
            raise ValueError(f"{path} has candidates for {_of(name)}, which is not in the file of priors.{meant}")
        found[name] = [_group(table, name, part).weights for part in rows_by(rows, "candidate").values()]
    return found


def _alike(prior: Prior, weights: Mapping[Value, Fraction]) -> Prior:
    """A candidate over the values of the prior; a value it lacks has probability zero there."""
    return Prior(prior.values, [weights.get(value, Fraction(0)) for value in prior.values])


def _counted(table: TextTable) -> str:
    """What to do with a table of counts as offices publish it, a column for those counted and one for all; else with
    microdata.
    """
    numbers = [
        [number_in(cells[place].strip()) if len(cells) > place else None for _, cells in table.rows]
        for place in range(len(table.columns))
    ]
    whole = [k for k, column in enumerate(numbers) if column and None not in column]
    rest = [tuple(cell for k, cell in enumerate(cells) if k not in whole) for _, cells in table.rows]
    published = bool(rest) and bool(rest[0]) and len(set(rest)) == len(rest)
    for of in whole if published else ():
        for yes in whole:
            pairs = list(zip(numbers[yes], numbers[of], strict=True))
            if yes != of and all(0 <= (part or 0) < (total or 0) for part, total in pairs):
                names = f"--yes '{table.columns[yes]}' --of '{table.columns[of]}'"
                return f" It looks like a table of counts: tacit priors FILE {names} makes a prior file of it."
    return " If it has a row for each person, tacit priors FILE --column NAME makes a prior file of it."


# -- the recoding, in lines of comment ---------------------------------------------------------------------------------

_ABOUT = "# How raw data become these answers and groups, in TOML. `tacit plan` puts it into the plan."


def recoding_lines(recoding: Recoding) -> str:
    """A recoding as lines of comment, which begin with `#`, at the top of a prior file.

    >>> from tacit.plan import RecodedColumn
    >>> age = RecodedColumn(column="age", edges=(0, 18, 65), labels=("young", "old"))
    >>> print(recoding_lines(Recoding((), (age,))).rstrip())
    # How raw data become these answers and groups, in TOML. `tacit plan` puts it into the plan.
    # [[groups]]
    # column = "age"
    # edges = [0, 18, 65]
    # labels = ["young", "old"]
    """
    lines = [_ABOUT]
    for name, columns in (("answers", recoding.answers), ("groups", recoding.groups)):
        for each in columns:
            lines.append(f"# [[{name}]]")
            lines += [f"# {field} = {_toml(part, field)}" for field, part in each.to_dict().items()]
    return "\n".join(lines) + "\n"


def recoding_in(comments: Sequence[str], path: str | Path) -> Recoding | None:
    """The inverse of `recoding_lines`, of the comments of a file; None where they hold none.

    >>> recoding_in(["# [[answers]]", '# column = "smokes"'], "priors.csv").answers[0].column
    'smokes'
    """
    lines = [line[1:].strip() for line in comments]
    first = next((k for k, line in enumerate(lines) if line in ("[[answers]]", "[[groups]]")), None)
    if first is None:
        return None
    try:
        return Recoding.from_dict(tomllib.loads("\n".join(lines[first:])))
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: the recoding in its first lines cannot be read: {error}") from error


def _toml(part: Any, field: str) -> str:
    if isinstance(part, dict):
        return "{" + ", ".join(f"{_toml(old, '')} = {_toml(new, '')}" for old, new in part.items()) + "}"
    if isinstance(part, list):
        return "[" + ", ".join(each if field == "edges" else _toml(each, "") for each in part) + "]"
    return json.dumps(part, ensure_ascii=False)


def _of(name: str | None) -> str:
    return "the prior" if name is None else f"group {name!r}"


def read_values(path: str | Path) -> list[GroupPrior]:
    """Read one value a line, or the column `value` of the CSV at `path`; one group, and all values are equally likely.

    The prior is there because plans have one; under LDP nothing depends on it.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "values.csv")
    ...     _ = path.write_text("value\\nyes\\nno\\n")
    ...     read_values(path)[0].prior.values
    ('yes', 'no')
    """
    table = TextTable.read(path, ["value"])
    if "value" in table.columns:
        texts = [row["value"] for row in table.by_column(path)]
    elif len(table.columns) == 1:
        texts = [clean_name(cell) for cell in (*table.columns, *(cells[0] for _, cells in table.rows))]
    else:
        texts = [clean_name(line) for line in text_of(path).splitlines() if not line.startswith("#")]
    texts = [text for text in texts if text]
    if any(map(has_unseen, texts)):
        raise ValueError(
            f"{path}: a name must not hold control characters or marks that turn the direction of reading."
        )
    if len(set(texts)) < max(2, len(texts)):
        raise ValueError(f"{path} needs at least two values, and each once, one in a line or in a column 'value'.")
    return [GroupPrior(name=None, prior=Prior.uniform(numbers_if_all(texts)))]
