"""Small questionnaires for tests, of one block, made without the planner."""

from collections.abc import Sequence

import numpy as np

from tacit import Prior, make_plan
from tacit.plan import CHANCES, Block, Question, Questionnaire, joint_values
from tacit.task import Matrix


def margins_task(questions: Sequence[Question]) -> Matrix:
    """The indicators of every answer of every question over the joint cells."""
    held = np.array(list(np.ndindex(*(len(question.answers) for question in questions))))
    columns = [held[:, [k]] == np.arange(len(question.answers)) for k, question in enumerate(questions)]
    names = [f"{question.name}: {answer}" for question in questions for answer in question.answers]
    return Matrix(np.concatenate(columns, axis=1).astype(int).tolist(), names)


def block_of(questions: Sequence[Question], priors, epsilon: float, chance: int = CHANCES) -> Block:
    """A block of these questions; `priors` are weights of the joint cells, or weights by group."""
    values, one = joint_values(questions), not isinstance(priors, dict)
    made = {name: Prior(values, weights) for name, weights in ({"": priors} if one else priors).items()}
    plan = make_plan(made[""] if one else made, margins_task(questions), epsilon)
    return Block(tuple(questions), chance, plan)


def yes_no_questionnaire(size: int, epsilon: float, weights: Sequence[int] | None = None) -> Questionnaire:
    """Yes/no questions q1, q2, … in one block; all combinations equally likely where there are no weights."""
    questions = tuple(Question(name=f"q{k + 1}", answers=("yes", "no"), kind="yes-no") for k in range(size))
    return Questionnaire(questions, (block_of(questions, weights or [1] * 2**size, epsilon),))
