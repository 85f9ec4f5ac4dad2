"""What is known beforehand about the answers to several questions together.

A file has a column for each question and `count` (and `group`), one row for each combination that was seen; or, where
only margins are known, the columns `question`, `value` and `count` or `probability`: answers are then taken as
independent. A block of questions gets the prior of its own joint cells from it:

    P(c) ∝ n_c + k · m_c,   m_c = the product of the shares of its answers,

which is the mean of a Dirichlet distribution around independence after the counts n. Its strength k, in records, is the
one under which the counts are most likely. Combinations never seen count as at least half a record; those declared
impossible keep their zero and are outside the promise.

**The question file** says what is asked, in TOML, beside the file of joint priors.

    title = "Health 2027"

    [[question]]
    name = "smokes"                       # the column in files
    text = {en = "Do you smoke?", de = "Rauchen Sie?"}
    answers = ["yes", "no"]               # in the order of the form; else as the prior file has them
    labels = {de = ["ja", "nein"]}

    [[question]]
    name = "days"
    range = [0, 30]                       # a number; its mean is estimated

Other fields: `task` (shares, survey, mean, quantiles), `public = true`, `part_of = "name"` for one choice of "select
all that apply", `asked_if = ["smokes", ["yes"]]`, `knots = [0, 5, 30]`.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from tacit.designs.knots import readable
from tacit.designs.prior_file import (
    UNSEEN_RECORDS,
    GroupPrior,
    number_in_cell,
    recoding_in,
    rows_by,
    strength_of,
    whole_of,
)
from tacit.disk import Row, TextTable
from tacit.exact import Floats, Integers, rational
from tacit.plan import NOT_ASKED, RESERVED, Plan, PlanError, Question, Recoding, joint_values
from tacit.prior import Prior, Value, has_unseen, listed, nearest, numbers_if_all

#: Where nothing tells how many records margins rest on, an answer never seen has this probability.
_UNSEEN_SHARE = Fraction(1, 1000)
#: Weights are kept in units of this many parts of a record.
_UNITS = 10_000


@dataclass(frozen=True)
class JointGroup:
    """What a file says about one group: combinations (rows of positions) with their counts, or margins only."""

    name: str | None
    positions: Integers
    counts: Floats
    margins: tuple[Floats, ...]
    records: int | None
    share: Fraction = Fraction(1)

    @property
    def independent(self) -> bool:
        """Whether only margins are known."""
        return not len(self.counts)


@dataclass(frozen=True)
class JointPrior:
    """Questions with their answers, and what is known about them in each group.

    `impossible` are combinations that cannot occur: for each a map from the names of questions to an answer. `recoding`
    says how raw data become these answers and groups, where the file states it.
    """

    questions: tuple[Question, ...]
    groups: tuple[JointGroup, ...]
    impossible: tuple[Mapping[str, Value], ...] = ()
    recoding: Recoding | None = None
    _known: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def place(self, name: str) -> int:
        """The place of a question."""
        names = [question.name for question in self.questions]
        if name not in names:
            raise ValueError(f"There is no question {name!r} in the priors. Got {listed(names)}.{nearest(name, names)}")
        return names.index(name)

    def asking(self, questions: Sequence[Question]) -> JointPrior:
        """The same knowledge about questions whose answers are in another order, are more, or are values that numbers
        are rounded to. Public questions are left out.
        """
        asked = tuple(question for question in questions if not question.public)
        places = [self.place(question.name) for question in asked]
        weights = [_to_answers(self.questions[place], question) for place, question in zip(places, asked, strict=True)]
        groups = []
        for group in self.groups:
            margins = tuple(group.margins[place] @ each for place, each in zip(places, weights, strict=True))
            positions, counts = group.positions[:, places], group.counts
            for column, each in enumerate(weights):
                positions, counts = _spread(positions, counts, column, each)
            groups.append(replace(group, positions=positions, counts=counts, margins=margins))
        found = JointPrior(asked, tuple(groups), self.impossible)
        for question in asked:
            found = found._routed(question)
        return found

    def check_counted(self, question: Question) -> None:
        """Raise unless some people are known not to be asked a question that depends on a public answer."""
        place = self.place(question.name)
        unasked = question.answers.index(NOT_ASKED)
        if all(group.margins[place][unasked] <= 0 for group in self.groups):
            raise ValueError(
                f"The priors do not say how many are not asked {question.name!r}: write {NOT_ASKED!r} in its cells and "
                "count these people."
            )

    def _routed(self, question: Question) -> JointPrior:
        """The same where people whom a question is not asked have the answer "not asked", and only they."""
        if question.asked_if is None:
            return self
        earlier, answers = question.asked_if
        private, place = [each.name for each in self.questions], self.place(question.name)
        unasked = question.answers.index(NOT_ASKED)
        if earlier not in private:
            return self
        if any(group.independent for group in self.groups):
            raise ValueError(f"Margins do not say who is asked {question.name!r}: give counts of combinations.")
        first = self.questions[private.index(earlier)]
        skipped = np.array([str(answer) not in answers for answer in first.answers])
        groups = []
        for group in self.groups:
            positions = group.positions.copy()
            positions[skipped[positions[:, private.index(earlier)]], place] = unasked
            groups.append(
                replace(group, positions=positions, margins=_margins(self.questions, positions, group.counts))
            )
        contradicting = [
            {earlier: one, question.name: two}
            for one, skips in zip(first.answers, skipped, strict=True)
            for two in question.answers
            if skips != (two == NOT_ASKED)
        ]
        return JointPrior(self.questions, tuple(groups), (*self.impossible, *contradicting))

    def given(self, name: str, answer: int) -> JointPrior:
        """What is known about the people who give the answer at this position to one question."""
        place = self.place(name)
        groups = []
        for group in self.groups:
            mine = group.positions[:, place] == answer
            positions, counts = group.positions[mine], group.counts[mine]
            if counts.sum() >= 1:
                margins = _margins(self.questions, positions, counts)
                groups.append(replace(group, positions=positions, counts=counts, margins=margins))
        return JointPrior(self.questions, tuple(groups), self.impossible)

    def block(self, names: Sequence[str]) -> list[GroupPrior]:
        """The prior of the joint cells of some questions, for each group."""
        key = tuple(names)
        if key not in self._known:
            self._known[key] = [self._of_group(group, names) for group in self.groups]
        return self._known[key]

    def _of_group(self, group: JointGroup, names: Sequence[str]) -> GroupPrior:
        places = [self.place(name) for name in names]
        asked = [self.questions[place] for place in places]
        sizes = [len(question.answers) for question in asked]
        values = joint_values(asked)
        mean = np.ones(1)
        for place in places:
            mean = np.outer(mean, _nowhere_zero(group.margins[place], group.records)).ravel()
        table = np.ones(sizes, dtype=bool)
        for combination in self.impossible:
            if set(combination) <= set(names):
                held = [each.answers.index(combination[each.name]) if each.name in combination else slice(None)
                        for each in asked]  # fmt: skip
                table[tuple(held)] = False
        possible = table.ravel()
        mean = np.where(possible, mean, 0.0)
        if not mean.any():
            raise ValueError(f"Every combination of {', '.join(names)} is declared impossible.")
        mean /= mean.sum()
        notes, observed = [], None
        where = "" if group.name is None else f" in group {group.name!r}"
        if group.independent:
            weights = mean * (group.records or 10**6)
            if len(names) > 1:
                notes.append(f"{', '.join(names)}: taken as independent")
        else:
            cells = np.ravel_multi_index([group.positions[:, place] for place in places], sizes)
            counts = np.bincount(cells, group.counts, len(mean)).astype(np.float64)
            wrong = np.flatnonzero((counts > 0) & ~possible)
            if len(wrong):
                raise ValueError(f"{_of(group.name)} has people with {values[wrong[0]]!r}, declared impossible.")
            observed = Prior(values, [round(count * _UNITS) for count in counts])
            strength = strength_of(counts, mean) if len(names) > 1 else 0.0
            weights = counts + strength * mean
            unseen = (counts == 0) & possible
            weights = np.where(unseen, np.maximum(weights, float(UNSEEN_RECORDS)), weights)
            if strength:
                shown = f"{strength:,.0f}" if strength >= 100 else f"{strength:.3g}"
                drawn = f"drawn towards independence by {shown} records{where}, as the counts suggest"
                notes.append(f"{', '.join(names)}: {drawn}")
            if unseen.any():
                notes.append(
                    f"{', '.join(names)}: {int(unseen.sum())} of {len(mean)} combinations were never seen{where} and "
                    "count as half a record or more"
                )
        least = np.where(possible, 1, 0)
        units = min(_UNITS, 2**60 / weights.max())  # Integers of 64 bits hold them.
        whole = np.maximum(np.round(weights * units).astype(np.int64), least)
        return GroupPrior(
            name=group.name,
            prior=Prior(values, whole.tolist()),
            share=group.share,
            records=group.records,
            observed=observed,
            notes=tuple(notes),
        )

    def covariance(self, group: JointGroup, columns: Sequence[tuple[int, Floats]]) -> Floats:
        """The covariance of functions of single answers, each a question's place and a number for each answer.

        Under the priors of `block` for pairs of questions, so for what blocks would be designed for.
        """
        found = np.zeros((len(columns), len(columns)))
        number = self.groups.index(group)
        for i, (first, f) in enumerate(columns):
            for j, (second, g) in enumerate(columns[: i + 1]):
                if first == second:
                    p = self.block([self.questions[first].name])[number].prior.probabilities
                    found[i, j] = p @ (f * g) - (p @ f) * (p @ g)
                elif not group.independent:
                    pair = self.block([self.questions[first].name, self.questions[second].name])[number].prior
                    table = pair.probabilities.reshape(len(f), len(g))
                    found[i, j] = f @ table @ g - (f @ table.sum(axis=1)) * (table.sum(axis=0) @ g)
                found[j, i] = found[i, j]
        return found


def _to_answers(past: Question, asked: Question) -> Floats:
    """For each past answer the weights of the answers asked for: one of them, or two that a number is between."""
    found = np.zeros((len(past.answers), len(asked.answers)))
    for row, answer in enumerate(past.answers):
        if answer in asked.answers:
            found[row, asked.answers.index(answer)] = 1.0
            continue
        if asked.kind != "number" or isinstance(answer, str):
            raise ValueError(f"The priors have answers to {asked.name!r} that are none of those asked for.")
        knots = np.array(asked.answers, dtype=np.float64)
        if not knots[0] <= float(answer) <= knots[-1]:
            raise ValueError(f"The priors have answers to {asked.name!r} outside of {knots[0]:g} to {knots[-1]:g}.")
        below = min(int(np.searchsorted(knots, float(answer), side="right")) - 1, len(knots) - 2)
        part = (float(answer) - knots[below]) / (knots[below + 1] - knots[below])
        found[row, below : below + 2] = 1 - part, part
    return found


def _spread(positions: Integers, counts: Floats, column: int, weights: Floats) -> tuple[Integers, Floats]:
    """Rows with the answers of one column replaced by those that have a weight, the count divided among them."""
    parts = []
    for answer in range(weights.shape[1]):
        share = weights[positions[:, column], answer]
        mine = np.flatnonzero(share > 0)
        rows = positions[mine].copy()
        rows[:, column] = answer
        parts.append((rows, counts[mine] * share[mine]))
    return np.concatenate([rows for rows, _ in parts]), np.concatenate([each for _, each in parts])


def beliefs_about(path: str | Path, plan: Plan) -> dict[str, list[dict[str | None, Prior]]]:
    """An observer's own joint beliefs about a `plan`, from a file at `path` like that of the priors; margins are taken
    as independent.

    For each combination of public answers in the file, as in "region = north" ("" where it has none), and for each
    block of the plan there is a prior over its joint cells, by group. Public answers travel beside the report: where
    the file has their columns, an observer believes what it says about people with the same public answers.

    >>> from tempfile import NamedTemporaryFile
    >>> with NamedTemporaryFile("w", suffix=".csv") as file:
    ...     _ = file.write("a,b,count\\nyes,yes,3\\nno,no,1\\n")
    ...     file.flush()
    ...     from tacit.designs import make_questionnaire
    ...     plan = make_questionnaire(read_joint(file.name), 1, crosses=[("a", "b")]).plan
    ...     beliefs_about(file.name, plan)[""][0][None].weights
    (3, 0, 0, 1)
    """
    there = joint_columns(path)
    public = [name for name in plan.public_questions if name in there]
    joint = read_joint(path, [*(question.name for question in plan.private), *public])
    known = {group.name for group in plan.blocks[0].groups}
    for each in joint.groups:
        if each.name not in known:
            raise ValueError(f"{path} has the group {each.name!r}, which the plan does not have.")
    if any(group.independent for group in joint.groups):
        public = []  # Independent answers tell nothing about each other.
    knowing = {"": joint}
    for name in public:
        knowing = {
            ", ".join(filter(None, [said, f"{name} = {answer}"])): held.given(name, place)
            for said, held in knowing.items()
            for place, answer in enumerate(joint.questions[joint.place(name)].answers)
        }
    found: dict[str, list[dict[str | None, Prior]]] = {}
    for said, held in knowing.items():
        if held.groups:
            asking = held.asking(plan.questions)
            found[said] = [
                {each.name: each.observed or each.prior for each in asking.block([q.name for q in block.questions])}
                for block in plan.blocks
            ]
    return found


def _nowhere_zero(margin: Floats, records: int | None) -> Floats:
    """Shares of the answers, none of them zero."""
    least = float(_UNSEEN_SHARE) if not records else float(UNSEEN_RECORDS) / records
    shares = margin / margin.sum()
    shares = np.where(shares > 0, shares, least)
    return np.asarray(shares / shares.sum())


def read_joint(
    path: str | Path, questions: Sequence[str] | None = None, *, impossible: Collection[str] = ()
) -> JointPrior:
    """Read a file of joint counts, or of margins (with a column `question`).

    Args:
        path: the file; for one question also a file of its priors (`value`, and `count` or `probability`).
        questions: their names, in order; else all columns but `group`, `count` and `probability`.
        impossible: combinations that cannot occur, as in "sex=male,pregnant=yes".

    >>> from tempfile import NamedTemporaryFile
    >>> with NamedTemporaryFile("w", suffix=".csv") as file:
    ...     _ = file.write("a,b,count\\nyes,yes,30\\nno,yes,10\\nno,no,60\\n")
    ...     file.flush()
    ...     [question.name for question in read_joint(file.name).questions]
    ['a', 'b']
    """
    table = TextTable.read(path)
    rows, columns = table.by_column(path), table.columns
    if "question" not in columns and "value" in columns and questions is not None and len(questions) == 1:
        rows = [Row(row.line, [*row.items(), ("question", questions[0])]) for row in rows]
    made = (_from_margins if _states_margins(rows[0]) else _from_counts)(path, rows, questions)
    wrong = tuple(_combination(made, text) for text in impossible)
    return replace(made, impossible=wrong, recoding=recoding_in(table.comments, path))


def joint_columns(path: str | Path) -> list[str]:
    """The columns of a file of joint counts at `path` that may be questions, in order; of a file of margins the names
    of the questions.

    >>> from tempfile import NamedTemporaryFile
    >>> with NamedTemporaryFile("w", suffix=".csv") as file:
    ...     _ = file.write("a,b,count\\nyes,yes,30\\nno,no,60\\n")
    ...     file.flush()
    ...     joint_columns(file.name)
    ['a', 'b']
    """
    rows = TextTable.read(path).by_column(path)
    if _states_margins(rows[0]):
        return list(dict.fromkeys(row["question"] for row in rows))
    return [name for name in rows[0] if name not in RESERVED | {"count", "probability"}]


def _states_margins(row: Row) -> bool:
    return {"question", "value"} <= set(row)


def _from_counts(path: str | Path, rows: Sequence[Row], stated: Sequence[str] | None) -> JointPrior:
    columns = list(rows[0])
    names = [name for name in columns if name not in ("group", "count", "probability")] if stated is None else stated
    if "count" not in columns:
        raise ValueError(
            f"{path}: the header must name 'count', beside a column for each question. Got {listed(columns)}."
        )
    made = []
    for name in names:
        if name in RESERVED | {"count"}:
            raise ValueError(f"A question cannot be called {name!r}: files have such a column for something else.")
        if name not in columns:
            raise ValueError(f"{path} has no column for the question {name!r}.{nearest(name, columns)}")
        made.append(_question(path, name, [row[name] for row in rows]))
    questions, found = tuple(question for question, _ in made), []
    for group, part in rows_by(rows).items():
        counts = np.array([float(number_in_cell(row, "count", path)) for row in part])
        positions = np.array([[places[row[each.name]] for each, places in made] for row in part], dtype=np.int64)
        if not counts.sum() >= 1:
            raise ValueError(f"{path}: {_of(group)} has no records.")
        margins = _margins(questions, positions, counts)
        found.append(JointGroup(group, positions, counts, margins, int(counts.sum())))
    return JointPrior(questions, _sized(found, [Fraction(round(each.counts.sum() * _UNITS)) for each in found]))


def _from_margins(path: str | Path, rows: Sequence[Row], stated: Sequence[str] | None) -> JointPrior:
    column = "count" if "count" in rows[0] else "probability"
    if column not in rows[0]:
        raise ValueError(f"{path}: the header must name 'question', 'value' and 'count' or 'probability'.")
    about, made = rows_by(rows, "question"), []
    for name in about if stated is None else stated:
        if name not in about:
            raise ValueError(f"{path} has no rows for the question {name!r}.{nearest(str(name), map(str, about))}")
        made.append(_question(path, str(name), [row["value"] for row in about[name]]))
    found = []
    for group, part in rows_by(rows).items():
        margins, records = [], []
        for question, places in made:
            mine, margin = [row for row in part if row["question"] == question.name], np.zeros(len(places))
            for row in mine:
                margin[places[row["value"]]] += float(number_in_cell(row, column, path))
            if not margin.sum() > 0:
                raise ValueError(f"{path}: {_of(group)} has no {column} for the question {question.name!r}.")
            if column == "probability":
                total = sum((number_in_cell(row, column, path) for row in mine), Fraction(0))
                where = "" if group is None else f" in group {group!r}"
                whole_of(total, [row[column] for row in mine], f"{path}: the probabilities of {question.name!r}{where}")
            margins.append(margin)
            records.append(int(margin.sum()))
        nowhere = np.empty((0, len(made)), dtype=np.int64)
        known = min(records) if column == "count" else None
        found.append(JointGroup(group, nowhere, np.empty(0), tuple(margins), known))
    sizes = [Fraction(1 if each.records is None else each.records) for each in found]
    return JointPrior(tuple(question for question, _ in made), _sized(found, sizes))


def _sized(groups: Sequence[JointGroup], sizes: Sequence[Fraction]) -> tuple[JointGroup, ...]:
    """The groups with their parts of the respondents."""
    total = sum(sizes, Fraction(0))
    return tuple(replace(each, share=size / total) for each, size in zip(groups, sizes, strict=True))


def _margins(questions: Sequence[Question], positions: Integers, counts: Floats) -> tuple[Floats, ...]:
    """For each question how often each answer is given."""
    sizes = [len(question.answers) for question in questions]
    return tuple(np.bincount(positions[:, k], counts, size).astype(np.float64) for k, size in enumerate(sizes))


def _question(path: str | Path, name: str, cells: Sequence[str]) -> tuple[Question, dict[str, int]]:
    """A question with the answers found, numbers in ascending order, and the place of each by its text."""
    texts = list(dict.fromkeys(cells))
    if "" in texts or any(map(has_unseen, texts)):
        raise ValueError(
            f"{path}: the answers to {name!r} must be texts without control characters, none of them empty."
        )
    if len(texts) < 2:
        raise ValueError(f"{path}: the question {name!r} has one answer only, so there is nothing to ask.")
    if not isinstance(numbers_if_all(texts)[0], str):
        texts.sort(key=float)
    kind: Any = "yes-no" if len(texts) == 2 else "one-of"
    return Question(name=name, answers=tuple(numbers_if_all(texts)), kind=kind), {
        text: k for k, text in enumerate(texts)
    }


def _combination(made: JointPrior, text: str) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for part in text.split(","):
        name, equals, answer = part.partition("=")
        if not equals:
            raise ValueError(f"An impossible combination is written as in a=yes,b=no. Got {text!r}.")
        question = made.questions[made.place(name.strip())]
        found[question.name] = Prior.uniform(question.answers).value_of(answer.strip())
    return found


def _of(name: str | None) -> str:
    return "The file" if name is None else f"Group {name!r}"


# -- the question file -------------------------------------------------------------------------------------------------


def _is_text(cell: Any) -> bool:
    return isinstance(cell, str)


def _is_number(cell: Any) -> bool:
    return type(cell) in (int, float) and math.isfinite(cell)


def _is_list(cell: Any, of: Callable[[Any], bool]) -> bool:
    return isinstance(cell, list) and bool(cell) and all(map(of, cell))


def _is_table(cell: Any, of: Callable[[Any], bool]) -> bool:
    return isinstance(cell, dict) and all(map(of, cell.values()))


#: For each field whether a value fits, and what is expected.
_FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "name": (_is_text, "a text"),
    "text": (lambda cell: _is_text(cell) or _is_table(cell, _is_text), "a text, or a text for each language"),
    "answers": (
        lambda cell: _is_list(cell, lambda one: _is_text(one) or _is_number(one)),
        "a list of texts or numbers",
    ),
    "labels": (lambda cell: _is_table(cell, lambda one: _is_list(one, _is_text)), "a list of texts for each language"),
    "range": (lambda cell: _is_list(cell, _is_number) and len(cell) == 2, "two numbers"),
    "knots": (lambda cell: _is_list(cell, _is_number), "a list of numbers"),
    "kind": (_is_text, "a text"),
    "task": (_is_text, "a text"),
    "public": (lambda cell: isinstance(cell, bool), "true or false"),
    "part_of": (_is_text, "a text"),
    "asked_if": (
        lambda cell: isinstance(cell, list) and len(cell) == 2 and _is_text(cell[0]) and _is_list(cell[1], _is_text),
        'a question and a list of its answers, as in ["smokes", ["yes"]]',
    ),
}


def read_questions(path: str | Path) -> tuple[str | None, list[dict[str, Any]]]:
    """The title in a TOML file at `path`, None where there is none, and the fields of each question as the file states
    them.

    >>> from tempfile import NamedTemporaryFile
    >>> with NamedTemporaryFile("w", suffix=".toml") as file:
    ...     _ = file.write("[[question]]\\nname = 'smokes'\\nanswers = ['yes', 'no']\\n")
    ...     file.flush()
    ...     read_questions(file.name)
    (None, [{'name': 'smokes', 'answers': ['yes', 'no']}])
    """
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not TOML in UTF-8: {error}.") from error
    questions = data.get("question")
    if not isinstance(questions, list) or not questions or not set(data) <= {"title", "question"}:
        raise ValueError(f"{path} must have a table [[question]] for each question, and may have a title.")
    if not isinstance(data.get("title", ""), str):
        raise ValueError(f"The title of {path} must be a text.")
    for number, each in enumerate(questions, start=1):
        unknown = set(each) - set(_FIELDS) if isinstance(each, dict) else {"?"}
        if unknown or not isinstance(each.get("name"), str):
            what = f"the unknown field '{min(unknown)}'" if unknown else "no name"
            raise ValueError(f"Question {number} of {path} has {what}. Its fields are {', '.join(sorted(_FIELDS))}.")
        for name, cell in each.items():
            fits, expected = _FIELDS[name]
            if not fits(cell):
                raise ValueError(f"The field '{name}' of the question {each['name']!r} must be {expected}.")
    names = [each["name"] for each in questions]
    if len(set(names)) < len(names):
        raise ValueError(f"The questions of {path} must have different names.")
    return data.get("title"), questions


def stated_questions(stated: Sequence[Mapping[str, Any]], priors: JointPrior) -> list[Question]:
    """The questions as `stated` (`read_questions`), with the answers of the `priors` where none are; numbers with the
    values they round to.

    Where a number has no `knots`, they are the ends of its range and the mean of the past answers.

    >>> days = Question(name="days", answers=(0, 10), kind="yes-no")
    >>> known = JointGroup(None, np.array([[0], [1]]), np.array([3.0, 1.0]), (np.array([3.0, 1.0]),), 4)
    >>> stated_questions([{"name": "days", "range": [0, 30]}], JointPrior((days,), (known,)))[0].answers
    (0, 2.5, 30)
    """
    known = {question.name: question for question in priors.questions}
    return [_stated(each, known.get(each["name"]), priors) for each in stated]


def _stated(stated: Mapping[str, Any], known: Question | None, priors: JointPrior) -> Question:
    name, public = stated["name"], stated.get("public", False)
    if known is None and not public:
        raise ValueError(f"The priors know nothing about the question {name!r}. Add its column, or make it public.")
    number = "range" in stated or "knots" in stated
    answers = tuple(stated.get("answers", () if known is None else known.answers))
    if number:
        answers = _knots(stated, priors)
    condition = stated.get("asked_if")
    if condition is not None and NOT_ASKED not in answers:
        answers = (*answers, NOT_ASKED)
    text = stated.get("text", {})
    kind: Any = "number" if number else "yes-no" if len(answers) == 2 else "one-of"
    return Question(
        name=name, answers=answers, kind=stated.get("kind", kind),
        task=stated.get("task", "mean" if number else "shares"), text={"en": text} if isinstance(text, str) else text,
        labels={code: tuple(each) for code, each in stated.get("labels", {}).items()},
        part_of=stated.get("part_of"), public=public,
        asked_if=None if condition is None else (condition[0], tuple(condition[1])),
    )  # fmt: skip


def _knots(stated: Mapping[str, Any], priors: JointPrior) -> tuple[Value, ...]:
    """The values that a number is rounded to."""
    if "knots" in stated:
        return tuple(stated["knots"])
    low, high = (rational(end, "range") for end in stated["range"])
    if not low < high:
        raise PlanError(f"The range of {stated['name']!r} must go from a lower to a higher number.")
    place = priors.place(stated["name"])
    texts = [answer for answer in priors.questions[place].answers if isinstance(answer, str)]
    if texts:
        raise PlanError(
            f"The question {stated['name']!r} has a range, but answers in the priors that are no numbers, as in "
            f"{texts[0]!r}. Count the numbers themselves (tacit priors without --bins), or list the answers in the "
            "question instead of the range."
        )
    past = np.array(priors.questions[place].answers, dtype=np.float64)
    shares = sum(float(group.share) * group.margins[place] / group.margins[place].sum() for group in priors.groups)
    middle = readable(rational(float(np.clip(shares @ past, float(low), float(high)))), low, high)
    inside = [middle] if low < middle < high else []
    return tuple(int(knot) if knot.denominator == 1 else float(knot) for knot in (low, *inside, high))
