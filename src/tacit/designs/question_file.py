"""The question file: what is asked, in TOML, beside the file of joint priors.

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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tacit.designs.joint_priors import JointPrior
from tacit.designs.knots import readable
from tacit.exact import rational
from tacit.plan import NOT_ASKED, PlanError, Question
from tacit.prior import Value


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

    >>> from tacit.designs.joint_priors import JointGroup
    >>> days = Question(name="days", answers=(0, 10), kind="yes-no")
    >>> known = JointGroup(None, np.array([[0], [1]]), np.array([3.0, 1.0]), (np.array([3.0, 1.0]),), 4)
    >>> stated_questions([{"name": "days", "range": [0, 30]}], JointPrior((days,), (known,)))[0].answers
    (0, 2.5, 30)
    """
    known = {question.name: question for question in priors.questions}
    return [_question(each, known.get(each["name"]), priors) for each in stated]


def _question(stated: Mapping[str, Any], known: Question | None, priors: JointPrior) -> Question:
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
