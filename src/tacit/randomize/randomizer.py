"""The randomizer of a plan: answers in, reports out. Every mechanism draws by its own rule, see `tacit.mechanism`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.exact import Integers
from tacit.mechanism import KINDS
from tacit.mechanism.protocol import RandomWords, Sampler
from tacit.plan import Plan, Question
from tacit.prior import Value
from tacit.randomize.randomness import SecureWords, SeededWords, StoredWords

_NO_MEMORY = (
    "This plan has two layers: a stored report of each answer is sent in every wave. Say who each answer is of, and "
    "give the memory of their devices (on files --person and --ledger)."
)


class Randomizer:
    """A plan, ready to randomize the answers of its groups.

    Groups and answers are given as positions in `plan.groups` and `plan.values` (`report`, `reports`) or as they are
    called (`randomize`); a report is an integer that means something only together with its group. Random words come
    from a secure generator. For simulations `words` can be a seed, or a source such as `SeededWords`: never for people,
    because the seed undoes the privacy of every report.

    >>> from tacit import Histogram, Prior, make_plan
    >>> randomizer = Randomizer(make_plan(Prior.of({"yes": 0.3, "no": 0.7}), Histogram(), epsilon=1))
    >>> randomizer.randomize(["yes", "no", "no"]).shape
    (3,)
    >>> (randomizer.randomize(["yes"] * 99, words=7) == randomizer.randomize(["yes"] * 99, words=7)).all()
    np.True_
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._samplers: list[Sampler] = []
        #: For each group: which sampler draws its reports, and the group's place among the members of that sampler.
        self._places: list[tuple[int, int]] = [(0, 0)] * len(plan.groups)
        for kind, mechanism in KINDS.items():
            members = [k for k, group in enumerate(plan.groups) if group.mechanism.kind == kind]
            for place, k in enumerate(members):
                self._places[k] = len(self._samplers), place
            if members:
                self._samplers.append(mechanism.sampler([plan.groups[k].mechanism for k in members]))

    def report(
        self,
        group: int,
        position: int,
        words: RandomWords | int | None = None,
        *,
        person: str | None = None,
        memory: bytes | None = None,
    ) -> int:
        """One respondent's report, as a browser draws it."""
        layers = self.plan.groups[group].layers
        if layers is not None:
            if person is None or memory is None:
                raise ValueError(_NO_MEMORY)
            (stored,) = self.stored([group], [position], [person], memory).tolist()
            return layers.send_one(stored, words_of(words))
        which, member = self._places[group]
        return self._samplers[which].one(member, position, words_of(words))

    def reports(
        self,
        groups: Any,
        positions: Any,
        words: RandomWords | int | None = None,
        *,
        persons: Sequence[str] | None = None,
        memory: bytes | None = None,
    ) -> Integers:
        """A report for each respondent. `groups` has a group for each, or is that of all.

        A plan with two layers needs to know who the respondents are, and their `memory`: a secret of at least 16 bytes
        from which the stored report of each person and answer follows. It is the same in every wave.
        """
        source, places, owners = words_of(words), np.asarray(positions), np.asarray(groups)
        if places.ndim != 1:
            raise ValueError(f"The positions must be in a row. Got an array of {places.ndim} dimensions instead.")
        # Compiled loops do no bounds checks.
        _check_below(len(self.plan.values), places, "positions")
        _check_below(len(self.plan.groups), owners, "groups")
        if not owners.ndim:
            owners = np.broadcast_to(owners, places.shape)
        if any(group.layers is not None for group in self.plan.groups):
            if persons is None or memory is None or len(persons) != len(places):
                raise ValueError(_NO_MEMORY)
            sent = self.stored(owners, places, persons, memory)
            for number, group in enumerate(self.plan.groups):
                mine = np.flatnonzero(owners == number)
                assert group.layers is not None, "layers are of all groups"
                sent[mine] = group.layers.send(sent[mine], source)
            return sent
        if len(self._samplers) == 1:
            # All groups are members of the one sampler, in their order.
            return self._samplers[0].many(owners, places, source)
        reports = np.empty(len(places), dtype=np.int64)
        which, member = np.array(self._places, dtype=np.int64).T
        for number, sampler in enumerate(self._samplers):
            mine = np.flatnonzero(which[owners] == number)
            reports[mine] = sampler.many(member[owners[mine]], places[mine], source)
        return reports

    def stored(self, groups: Any, positions: Any, persons: Sequence[str], memory: bytes) -> Integers:
        """The stored report of each person and answer, for a plan in two layers: drawn again from the memory, always
        the same, instead of being kept.
        """
        if len(memory) < 16:
            raise ValueError(_NO_MEMORY)
        places, owners = np.asarray(positions), np.asarray(groups)
        series, stored = self.plan.first_wave.encode(), (self.plan.stored or "").encode()
        reports = np.empty(len(places), dtype=np.int64)
        for number, group in enumerate(self.plan.groups):
            mine = np.flatnonzero(owners == number)
            assert group.layers is not None, "layers are of all groups"
            about = series, stored, (group.name or "").encode()
            drawn = [
                StoredWords(memory, *about, persons[row].encode(), str(place).encode())
                for row, place in zip(mine.tolist(), places[mine].tolist(), strict=True)
            ]
            reports[mine] = group.layers.store(places[mine], drawn)
        return reports

    def randomize(
        self,
        answers: Sequence[Value],
        groups: Sequence[str] | None = None,
        words: RandomWords | int | None = None,
        *,
        persons: Sequence[str] | None = None,
        memory: bytes | None = None,
    ) -> Integers:
        """A report for each answer, given as it is called in the plan, in the group of that name."""
        members, source = _members(self.plan, groups, len(answers)), words_of(words)
        held = self.rounded(answers, source) if self.plan.between else _places(self.plan.values, answers, "values")
        return self.reports(members, held, source, persons=persons, memory=memory)

    def rounded(self, numbers: Any, words: RandomWords | int | None = None) -> Integers:
        """Positions of the values that numbers between them are rounded to (`tacit.randomize.rounded`)."""
        return rounded(self.plan.groups[0].prior.numbers, numbers, words_of(words))


class RecordRandomizer:
    """A plan, ready to randomize records of answers: a block and a report for each. One question has one block.

    >>> from tacit import Histogram, Prior, make_plan
    >>> plan = make_plan(Prior.of({"yes": 0.2, "no": 0.8}), Histogram(), epsilon=1)
    >>> blocks, reports = RecordRandomizer(plan).randomize({"value": ["yes", "no"]})
    >>> blocks.tolist()
    [0, 0]
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._blocks = [Randomizer(each) for each in plan.block_plans]
        #: Where the chance of each block ends: a word of 16 bits draws the first block whose end is above it.
        self._ends = None if plan.block_column is None else np.cumsum([block.chance for block in plan.blocks])
        #: Where the questions of each block are among the private questions of the plan.
        order = {question.name: place for place, question in enumerate(plan.private)}
        self._columns = [[order[question.name] for question in block.questions] for block in plan.blocks]

    def report(self, group: int, held: Sequence[float], words: RandomWords | int | None = None) -> tuple[int, int]:
        """The block (from 0) and the report of one record, drawn as a device does: see `reports`."""
        source = words_of(words)
        number = 0 if self._ends is None else int(np.searchsorted(self._ends, source.integer(16), side="right"))
        block, columns = self.plan.blocks[number], self._columns[number]
        positions = [
            _positions(question, np.array([held[column]]), source)
            for question, column in zip(block.questions, columns, strict=True)
        ]
        return number, self._blocks[number].report(group, int(block.cells(positions)[0]), source)

    def reports(
        self,
        groups: Any,
        held: Any,
        words: RandomWords | int | None = None,
        *,
        persons: Sequence[str] | None = None,
        memory: bytes | None = None,
    ) -> tuple[Integers, Integers]:
        """The block (from 0) and the report of each record; `persons` and `memory` are those of `Randomizer.reports`.

        `held` has a row for each record and a column for each private question: the position of the answer, or the
        number itself. Where reports name blocks, a record takes a word of 16 bits for the block; then a word of 64 bits
        for each number in the block, then the words of the block's mechanism; all records together take them in the
        same order.
        """
        source, records = words_of(words), np.asarray(held)
        owners = np.broadcast_to(np.asarray(groups), len(records))
        if self._ends is None:
            (question,) = self.plan.private
            positions = [_positions(question, records.reshape(len(records)), source)]
            drawn = self._blocks[0].reports(owners, positions[0], source, persons=persons, memory=memory)
            return np.zeros(len(records), np.int64), drawn
        words_of_blocks = source.draw(len(records), 16).astype(np.int64)
        blocks: Integers = np.searchsorted(self._ends, words_of_blocks, side="right")
        reports = np.empty(len(records), dtype=np.int64)
        for number, (block, columns) in enumerate(zip(self.plan.blocks, self._columns, strict=True)):
            mine = np.flatnonzero(blocks == number)
            asked = zip(block.questions, records[mine][:, columns].T, strict=True)
            positions = [_positions(question, answers, source) for question, answers in asked]
            reports[mine] = self._blocks[number].reports(owners[mine], block.cells(positions), source)
        return blocks, reports

    def randomize(
        self,
        answers: Mapping[str, Sequence[Any]],
        groups: Sequence[str] | None = None,
        words: RandomWords | int | None = None,
    ) -> tuple[Integers, Integers]:
        """The block and the report of each record; `answers` has a column for each private question, by its name."""
        columns = []
        for question in self.plan.private:
            if question.name not in answers:
                raise ValueError(f"There are no answers to the question {question.name!r}.")
            given = answers[question.name]
            number = question.kind == "number"
            columns.append(np.array(given, float) if number else _places(question.answers, given, "answers"))
        if len({len(column) for column in columns}) > 1:
            raise ValueError("There must be one answer to each question in every record.")
        members = _members(self.plan, groups, len(columns[0]))
        return self.reports(members, np.array(columns, dtype=np.float64).T, words)


def _members(plan: Plan, names: Sequence[str] | None, n_answers: int) -> Integers:
    """The positions of the groups of these names; of a plan without named groups that of the only one."""
    if (names is None) == bool(plan.group_names):
        raise ValueError("Groups must be given where the plan names groups, and only there.")
    if names is not None and len(names) != n_answers:
        raise ValueError(f"There must be one group for each answer. Got {len(names)} for {n_answers}.")
    return np.zeros(n_answers, np.int64) if names is None else _places(plan.group_names, names, "groups")


def _positions(question: Question, answers: NDArray[Any], words: RandomWords) -> Integers:
    """Positions of answers that are given as positions, or as numbers to be rounded."""
    if question.kind == "number":
        return rounded(np.array(question.answers, dtype=np.float64), answers, words)
    return answers.astype(np.int64, copy=False)


def rounded(knots: NDArray[np.float64], numbers: Any, words: RandomWords) -> Integers:
    """Positions of the knots that numbers between them are rounded to, at random, so that the mean is kept.

    With a ≤ x ≤ b the neighbours and u a word of 64 bits, x becomes b if ⌊u/2¹¹⌋ < ⌊2⁵³·(x − a)/(b − a)⌋, in floats
    that every language computes alike; else a. The chance differs from (x − a)/(b − a) by less than 2⁻⁵⁰, which
    concerns the estimate only: whichever neighbour it is, its channel keeps the promise, and so does the mixture.
    """
    held = np.asarray(numbers, dtype=np.float64)
    if not ((held >= knots[0]) & (held <= knots[-1])).all():
        raise ValueError(f"Answers must be numbers from {knots[0]:g} to {knots[-1]:g}. Some are not.")
    below = np.minimum(np.searchsorted(knots, held, side="right") - 1, len(knots) - 2)
    part = (held - knots[below]) / (knots[below + 1] - knots[below])
    drawn = words.draw(len(held), 64) >> np.uint64(11)
    return below + (drawn < np.floor(part * 2.0**53).astype(np.uint64))


@cache
def secure_words() -> SecureWords:
    """The secure generator of this process.

    >>> secure_words() is secure_words()
    True
    """
    return SecureWords()


def words_of(words: RandomWords | int | None) -> RandomWords:
    """The source of `words` that was passed in, a repeatable one for a seed, or else the secure one.

    >>> type(words_of(0)).__name__, type(words_of(None)).__name__
    ('SeededWords', 'SecureWords')
    """
    if words is None:
        return secure_words()
    return SeededWords(words) if isinstance(words, int) else words


def _check_below(size: int, numbers: NDArray[Any], what: str) -> None:
    """Raise unless all numbers are integers from 0 to size − 1."""
    if numbers.dtype.kind not in "iu" and numbers.size:
        raise ValueError(f"The {what} must be integers. Got numbers of the type {numbers.dtype} instead.")
    # Viewed as unsigned, negative numbers are large: one comparison instead of two.
    unsigned = numbers.view(f"u{numbers.dtype.itemsize}") if numbers.dtype.kind == "i" else numbers
    if numbers.size and int(unsigned.max()) >= size:
        raise ValueError(f"The {what} must be from 0 to {size - 1}. Some are not.")


def _places(known: Sequence[Any], labels: Sequence[Any], what: str) -> Integers:
    """Where labels are among those that are known."""
    places = {label: place for place, label in enumerate(known)}
    plain = (label.item() if isinstance(label, np.generic) else label for label in labels)
    try:
        return np.array([places[label] for label in plain], dtype=np.int64)
    except (KeyError, TypeError):
        # Never the label: it may be a respondent's answer.
        raise ValueError(f"A label is none of the plan's {len(places)} {what}.") from None
