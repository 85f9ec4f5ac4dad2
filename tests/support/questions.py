"""Small questionnaires for tests, made without the planner."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from tacit import Prior, make_plan
from tacit.plan import CHANCES, Block, Plan, Question, joint_values
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
    return Block(tuple(questions), plan.task, plan.groups, chance)


def yes_no_questionnaire(size: int, epsilon: float, weights: Sequence[int] | None = None) -> Plan:
    """Yes/no questions q1, q2, … in one block; all combinations equally likely where there are no weights."""
    questions = tuple(Question(name=f"q{k + 1}", answers=("yes", "no"), kind="yes-no") for k in range(size))
    return Plan(questions, (block_of(questions, weights or [1] * 2**size, epsilon),))


@cache
def clinic() -> Plan:
    """Six questions in two groups and three blocks: a number, a choice of several, one that not everybody is asked."""

    def yes_no(name: str, english: str, german: str, **options) -> Question:
        labels = {"en": ("Yes", "No"), "de": ("Ja", "Nein")}
        text = {"en": english, "de": german}
        return Question(name=name, answers=("yes", "no"), kind="yes-no", text=text, labels=labels, **options)

    smokes = yes_no("smokes", "Do you smoke?", "Rauchen Sie?", task="survey")
    daily = Question(
        name="daily",
        answers=("up to ten", "more", "prefer not to say", "not asked"),
        asked_if=("smokes", ("yes",)),
        text={"en": "How many cigarettes a day?", "de": "Wie viele Zigaretten am Tag?"},
        labels={"de": ("bis zehn", "mehr", "keine Angabe", "nicht gefragt")},
    )
    hours = Question(
        name="hours", answers=(0, 4, 16), kind="number", task="mean",
        text={"en": "How many hours of sport do you do in a week?", "de": "Wie viele Stunden Sport in der Woche?"},
    )  # fmt: skip
    mood = Question(
        name="mood", answers=("good", "fair", "bad"), text={"en": "How are you?", "de": "Wie geht es Ihnen?"}
    )
    pain = yes_no("pain", "Pain", "Schmerzen", part_of="Which of these did you have last week?")
    cough = yes_no("cough", "A cough", "Husten", part_of="Which of these did you have last week?")
    blocks = [
        ((smokes, daily), 30_000, {"old": (6, 3, 1, 0, 0, 0, 0, 20), "young": (4, 4, 2, 0, 0, 0, 0, 30)}),
        ((hours, mood), 20_000, {"old": (5, 3, 2, 4, 3, 1, 2, 1, 1), "young": (2, 2, 1, 4, 3, 2, 3, 2, 1)}),
        ((pain, cough), CHANCES - 50_000, {"old": (2, 3, 2, 9), "young": (1, 2, 3, 12)}),
    ]
    made = tuple(block_of(asked, weights, 2, chance) for asked, chance, weights in blocks)
    return Plan((smokes, daily, hours, mood, pain, cough), made, "Health at the clinic")


def clinic_records(n: int, seed: int = 0) -> tuple[dict[str, list], list[str]]:
    """Answers of some people to `clinic`, and their groups."""
    rng = np.random.default_rng(seed)
    smokes = rng.random(n) < 0.3
    daily = np.where(smokes, np.where(rng.random(n) < 0.6, "up to ten", "more"), "not asked")
    yes_no = {
        "smokes": smokes,
        "pain": rng.random(n) < 0.25,
        "cough": rng.random(n) < 0.3,
    }
    answers = {name: np.where(held, "yes", "no").tolist() for name, held in yes_no.items()}
    answers |= {"daily": daily.tolist(), "hours": rng.uniform(0, 12, n).tolist()}
    answers["mood"] = rng.choice(["good", "fair", "bad"], n, p=[0.5, 0.3, 0.2]).tolist()
    return answers, np.where(rng.random(n) < 0.4, "old", "young").tolist()


def named(title: str) -> Plan:
    """Six private questions and a public one as a survey of their own."""
    region = Question(name="region", answers=("north", "south"), public=True, text={"en": "Where do you live?"})
    return replace(clinic(), title=title, questions=(region, *clinic().questions))
